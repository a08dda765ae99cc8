//! A byte queue in one pooled buffer.

/// A ring of bytes: the unfinished input of a connection, or its output that waits to leave.
///
/// Invariant: `head ≤ capacity`, `len ≤ capacity`, and the live bytes are the `len` bytes from
/// `head` on, wrapping at the capacity. `buf.len()` is how far the buffer has ever been written:
/// `head + len ≤ buf.len()` while the ring does not wrap, `buf.len() = capacity` while it does.
/// An emptied ring starts again at zero, so most data is contiguous for free.
///
/// A ring owns no memory until it is given a buffer with [`rehome`](Ring::rehome).
#[derive(Debug, Default)]
pub(crate) struct Ring {
    buf: Vec<u8>,
    head: u32,
    len: u32,
}

impl Ring {
    // What is there. None of these changes anything.

    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.len as usize
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len == 0
    }

    #[inline]
    pub(crate) fn capacity(&self) -> usize {
        self.buf.capacity()
    }

    pub(crate) fn free(&self) -> usize {
        self.capacity() - self.len()
    }

    /// The live bytes in order; the second slice is empty unless the ring wraps.
    #[inline]
    pub(crate) fn slices(&self) -> (&[u8], &[u8]) {
        let (head, end) = (self.head as usize, self.head as usize + self.len());
        if end <= self.capacity() {
            (&self.buf[head..end], &[])
        } else {
            (&self.buf[head..], &self.buf[..end - self.capacity()])
        }
    }

    /// The live bytes of a ring that does not wrap, such as one that is only
    /// [filled in place](Ring::spare).
    pub(crate) fn contiguous(&self) -> &[u8] {
        let (bytes, wrapped) = self.slices();
        debug_assert!(wrapped.is_empty(), "a ring that is filled in place never wraps");
        bytes
    }

    // As a queue: may wrap.

    /// Appends `bytes`. The caller has seen to it that they are [`free`](Ring::free).
    #[inline]
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        assert!(bytes.len() <= self.free(), "a full ring takes no more");
        let capacity = self.capacity();
        let tail = self.head as usize + self.len();
        if tail == self.buf.len() && bytes.len() <= capacity - tail {
            // Nearly always: the buffer has not been written so far.
            self.buf.extend_from_slice(bytes);
        } else if tail + bytes.len() <= capacity {
            self.write(tail, bytes);
        } else if tail >= capacity {
            self.write(tail - capacity, bytes);
        } else {
            let (first, wrapped) = bytes.split_at(capacity - tail);
            self.write(tail, first);
            self.write(0, wrapped);
        }
        self.len += bytes.len() as u32;
        self.check();
    }

    /// Appends a header and a payload, as [`push`](Ring::push) would one after the other.
    #[inline]
    pub(crate) fn push_both<const N: usize>(&mut self, header: &[u8; N], payload: &[u8]) {
        let tail = self.head as usize + self.len();
        let len = N + payload.len();
        if tail == self.buf.len() && len <= self.capacity() - tail {
            self.buf.extend_from_slice(header);
            self.buf.extend_from_slice(payload);
            self.len += len as u32;
            self.check();
        } else {
            self.push(header);
            self.push(payload);
        }
    }

    /// Drops the first `len` bytes.
    pub(crate) fn consume(&mut self, len: usize) {
        assert!(len <= self.len(), "only what is there can be consumed");
        self.len -= len as u32;
        let head = self.head as usize + len;
        self.head = match () {
            () if self.len == 0 => 0,
            () if head >= self.capacity() => (head - self.capacity()) as u32,
            () => head as u32,
        };
        self.check();
    }

    // Filled in place: never wraps.

    /// Moves the live bytes to the front, so that all free bytes follow them. Returns how many bytes
    /// it moved.
    pub(crate) fn slide(&mut self) -> usize {
        debug_assert!(self.slices().1.is_empty());
        if self.head == 0 {
            return 0;
        }
        let live = self.head as usize..self.contiguous_end();
        self.buf.copy_within(live, 0);
        self.head = 0;
        self.check();
        self.len()
    }

    /// How far into the buffer the live bytes reach.
    #[inline]
    pub(crate) fn contiguous_end(&self) -> usize {
        self.head as usize + self.len()
    }

    /// The free bytes behind the live ones, at most `max`, to be filled and then
    /// [committed](Ring::commit).
    pub(crate) fn spare(&mut self, max: usize) -> &mut [u8] {
        let tail = self.head as usize + self.len();
        let end = (tail.saturating_add(max)).min(self.capacity());
        debug_assert!(tail <= end);
        if self.buf.len() < end {
            self.buf.resize(end, 0); // once for each buffer: it stays written when it is reused
        }
        &mut self.buf[tail..end]
    }

    /// Makes the first `len` bytes of the last [`spare`](Ring::spare) live.
    pub(crate) fn commit(&mut self, len: usize) {
        self.len += len as u32;
        self.check();
    }

    // Its buffer.

    /// Moves into another buffer, which must be large enough, and gives back the old one.
    pub(crate) fn rehome(&mut self, mut buf: Vec<u8>) -> Vec<u8> {
        assert!(self.len() <= buf.capacity());
        if !self.is_empty() {
            let (first, wrapped) = self.slices();
            overwrite(&mut buf, 0, first);
            overwrite(&mut buf, first.len(), wrapped);
        }
        self.head = 0;
        std::mem::swap(&mut self.buf, &mut buf);
        self.check();
        buf
    }

    /// Drops what is queued and gives back the buffer.
    pub(crate) fn release(&mut self) -> Vec<u8> {
        (self.head, self.len) = (0, 0);
        std::mem::take(&mut self.buf)
    }

    /// The buffer, cut behind the last live byte, to be appended to: what is appended becomes live
    /// with [`accept_appended`](Ring::accept_appended). The buffer may grow meanwhile. The ring must not
    /// wrap.
    #[inline]
    pub(crate) fn appendable(&mut self) -> &mut Vec<u8> {
        debug_assert!(self.slices().1.is_empty());
        self.buf.truncate(self.head as usize + self.len());
        &mut self.buf
    }

    /// What was appended from this place of the buffer on.
    pub(crate) fn appended(&self, start: usize) -> &[u8] {
        &self.buf[start..]
    }

    /// Writes `header` over the first `reserved` bytes that were appended from `start` on (and moves the rest
    /// if its length is another), appends `trailer`, and makes all of it live.
    #[inline]
    pub(crate) fn accept_appended(
        &mut self,
        start: usize,
        reserved: usize,
        header: &[u8],
        trailer: &[u8],
    ) {
        if header.len() == reserved {
            self.buf[start..start + reserved].copy_from_slice(header);
        } else {
            self.buf.splice(start..start + reserved, header.iter().copied());
        }
        self.buf.extend_from_slice(trailer);
        self.len = (self.buf.len() - self.head as usize) as u32;
        self.check();
    }

    #[inline]
    pub(crate) fn wraps(&self) -> bool {
        !self.slices().1.is_empty()
    }

    fn write(&mut self, at: usize, bytes: &[u8]) {
        overwrite(&mut self.buf, at, bytes);
    }

    fn check(&self) {
        debug_assert!(self.head as usize <= self.capacity() && self.len() <= self.capacity());
        debug_assert!(
            (self.head as usize + self.len()).min(self.capacity()) <= self.buf.len(),
            "live bytes are written bytes"
        );
    }
}

/// Writes over what is there at `at` and appends the rest.
#[inline]
fn overwrite(buf: &mut Vec<u8>, at: usize, bytes: &[u8]) {
    if at == buf.len() {
        return buf.extend_from_slice(bytes);
    }
    let over = bytes.len().min(buf.len() - at);
    buf[at..at + over].copy_from_slice(&bytes[..over]);
    buf.extend_from_slice(&bytes[over..]);
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use super::*;

    fn ring(capacity: usize) -> Ring {
        let mut ring = Ring::default();
        ring.rehome(Vec::with_capacity(capacity));
        assert_eq!(ring.capacity(), capacity);
        ring
    }

    fn content(ring: &Ring) -> Vec<u8> {
        let (first, wrapped) = ring.slices();
        [first, wrapped].concat()
    }

    /// containers/crun#2207: wrong exactly when full. Every capacity up to 64, every start offset,
    /// every partial drain, against a queue of bytes.
    #[test]
    fn o05_a_ring_filled_and_drained_at_every_offset_is_a_queue() {
        for capacity in 1..=64usize {
            for start in 0..=capacity {
                for drain in 0..=capacity {
                    let mut ring = ring(capacity);
                    let mut twin = VecDeque::new();
                    let mut next = 0u8;
                    let mut fill = |ring: &mut Ring, twin: &mut VecDeque<u8>, len: usize| {
                        let bytes: Vec<u8> = (0..len).map(|i| next.wrapping_add(i as u8)).collect();
                        next = next.wrapping_add(len as u8);
                        ring.push(&bytes);
                        twin.extend(bytes);
                    };
                    fill(&mut ring, &mut twin, start);
                    if start > 1 {
                        ring.consume(start - 1); // not all, or it would start at zero again
                        twin.drain(..start - 1);
                    }
                    let free = ring.free();
                    fill(&mut ring, &mut twin, free);
                    assert_eq!((ring.len(), ring.free()), (capacity, 0));
                    ring.consume(drain);
                    twin.drain(..drain);
                    fill(&mut ring, &mut twin, drain);
                    assert_eq!(ring.free() + ring.len(), capacity);
                    assert_eq!(content(&ring), Vec::from(twin));
                    ring.consume(capacity);
                    assert!(ring.is_empty() && ring.free() == capacity);
                }
            }
        }
    }

    #[test]
    fn two_pieces_are_as_one_after_the_other() {
        for head in 0..8 {
            for payload in [&b""[..], b"a", b"abc", b"abcd"] {
                let (mut both, mut twin) = (ring(8), ring(8));
                for ring in [&mut both, &mut twin] {
                    ring.push(&[0; 8][..head]);
                    ring.consume(head);
                    ring.push(b"x");
                }
                both.push_both(b"hdr", payload);
                twin.push(b"hdr");
                twin.push(payload);
                assert_eq!(content(&both), content(&twin));
            }
        }
    }

    #[test]
    #[should_panic(expected = "full ring")]
    fn a_full_ring_refuses_one_more_byte() {
        let mut ring = ring(4);
        ring.push(&[1, 2, 3, 4]);
        ring.push(&[5]);
    }

    #[test]
    fn filling_in_place_stays_contiguous() {
        let mut ring = ring(8);
        ring.spare(5).copy_from_slice(&[1, 2, 3, 4, 5]);
        ring.commit(5);
        ring.consume(3);
        assert_eq!(ring.spare(100).len(), 3, "what is behind the live bytes");
        assert_eq!(ring.slide(), 2, "bytes moved");
        assert_eq!(ring.spare(100).len(), 6, "all that is free");
        ring.spare(2).copy_from_slice(&[6, 7]);
        ring.commit(2);
        assert_eq!(ring.contiguous(), [4, 5, 6, 7]);
    }

    #[test]
    fn moving_to_another_buffer_keeps_wrapped_bytes_in_order() {
        let mut ring = ring(4);
        ring.push(&[1, 2, 3, 4]);
        ring.consume(3);
        ring.push(&[5, 6]);
        assert!(ring.wraps());
        let old = ring.rehome(Vec::with_capacity(8));
        assert_eq!(old.capacity(), 4);
        assert_eq!(ring.contiguous(), [4, 5, 6]);
        ring.push(&[7, 8, 9, 10, 11]);
        assert_eq!(content(&ring), [4, 5, 6, 7, 8, 9, 10, 11]);
    }

    #[test]
    fn appending_to_the_buffer_may_grow_it() {
        let mut ring = ring(4);
        ring.push(&[1, 2, 3]);
        ring.consume(1);
        ring.appendable().extend_from_slice(&[4, 5, 6, 7, 8]);
        ring.accept_appended(3, 0, &[], &[]);
        assert_eq!(ring.contiguous(), [2, 3, 4, 5, 6, 7, 8]);
        assert!(ring.capacity() >= 8);
    }

    #[test]
    fn what_was_appended_gets_its_header_and_trailer() {
        for header in [&b""[..], b"h", b"he", b"hea", b"header"] {
            let mut ring = ring(8);
            ring.push(b"abc");
            ring.consume(1);
            ring.appendable().extend_from_slice(b"__payload");
            ring.accept_appended(3, 2, header, b"!");
            assert_eq!(ring.contiguous(), [b"bc", header, b"payload!"].concat());
        }
    }

    #[test]
    fn a_reused_buffer_may_be_written_already() {
        let mut ring = ring(4);
        ring.push(&[1, 2, 3, 4]);
        let used = ring.release();
        assert_eq!((ring.len(), ring.capacity()), (0, 0));
        ring.rehome(used);
        ring.push(&[9]);
        ring.push(&[8, 7, 6]);
        assert_eq!(content(&ring), [9, 8, 7, 6]);
    }
}
