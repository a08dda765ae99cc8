//! The ring against a queue of bytes.

use std::collections::VecDeque;

use self::real::Ring;
use super::input::Input;

/// The room itself, by path: it needs nothing from the rest of the crate, and stays private there.
#[path = "../../../src/ring.rs"]
#[allow(dead_code, reason = "what the crate uses, not what is used here")]
mod real;

/// The input is a list of calls, as the library's two kinds of rings make them: those that wrap, and those that are
/// filled in place.
pub fn run(data: &[u8]) {
    let input = &mut Input::new(data);
    let mut ring = Ring::default();
    let mut twin = VecDeque::new();
    let mut spare = Vec::new();
    let mut next = 0_u8;
    let mut bytes = move |len: usize| -> Vec<u8> {
        let bytes = (0..len).map(|at| next.wrapping_add(at as u8)).collect();
        next = next.wrapping_add(len as u8);
        bytes
    };
    while !input.is_empty() {
        let call = input.byte();
        match call % 8 {
            0 if call >= 128 && ring.free() >= 4 => {
                let fresh = bytes(usize::from(input.byte()).min(ring.free()).max(4));
                let (header, payload) = fresh.split_first_chunk::<4>().expect("at least four");
                ring.push_both(header, payload);
                twin.extend(fresh);
            }
            0 => {
                let fresh = bytes(usize::from(input.byte()).min(ring.free()));
                ring.push(&fresh);
                twin.extend(fresh);
            }
            1 => {
                let len = usize::from(input.byte()).min(ring.len());
                ring.consume(len);
                twin.drain(..len);
            }
            2 => {
                let buffer = Vec::with_capacity(ring.len() + usize::from(input.byte()));
                spare = ring.rehome(buffer);
            }
            3 if spare.capacity() >= ring.len() => {
                // One that was written before. What it holds is of no meaning.
                spare = ring.rehome(std::mem::take(&mut spare));
            }
            4 => {
                spare = ring.release();
                twin.clear();
            }
            5 if !ring.wraps() => {
                let moved = ring.slide();
                assert!(moved == 0 || moved == twin.len());
            }
            6 if !ring.wraps() => {
                let most = input.byte().into();
                let room = ring.spare(most);
                assert!(room.len() <= most);
                let len = usize::from(input.byte()).min(room.len());
                let fresh = bytes(len);
                room[..len].copy_from_slice(&fresh);
                ring.commit(len);
                twin.extend(fresh);
            }
            7 if !ring.wraps() => append(&mut ring, &mut twin, &mut bytes, input),
            _ => {}
        }
        check(&ring, &twin);
    }
}

/// A frame that is encoded in place, and taken or given up.
fn append(
    ring: &mut Ring,
    twin: &mut VecDeque<u8>,
    bytes: &mut impl FnMut(usize) -> Vec<u8>,
    input: &mut Input<'_>,
) {
    let reserved = input.below(9);
    let payload = bytes(usize::from(input.byte()));
    let buffer = ring.appendable();
    let start = buffer.len();
    buffer.resize(start + reserved, 0);
    buffer.extend_from_slice(&payload);
    assert_eq!(&ring.appended(start)[reserved..], payload);
    if input.bool() {
        let header = bytes(input.below(9));
        let trailer = bytes(input.below(5));
        ring.accept_appended(start, reserved, &header, &trailer);
        twin.extend(header.iter().chain(&payload).chain(&trailer));
    }
}

fn check(ring: &Ring, twin: &VecDeque<u8>) {
    assert_eq!(ring.len(), twin.len());
    assert_eq!(ring.is_empty(), twin.is_empty());
    assert_eq!(ring.free(), ring.capacity() - twin.len());
    let (first, wrapped) = ring.slices();
    assert!(first.iter().chain(wrapped).eq(twin), "other bytes, or in another order");
    assert_eq!(ring.wraps(), !wrapped.is_empty());
    if !ring.wraps() {
        assert!(ring.contiguous().iter().eq(twin));
        assert!(ring.contiguous_end() <= ring.capacity());
    }
}
