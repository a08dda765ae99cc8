//! O06, O07 and O17: what is still delivered when somebody closes, and that nothing spins afterwards.

use std::io::Read;
use std::time::{Duration, Instant};

use tickwire::{Builder, ConnId, DisconnectReason, Event, Reactor, SendError};

use crate::common::{Client, accept, frame, pattern, pump, server};
use crate::{idle_ticks, meet, processor_time};

/// All events of one connection up to its end.
fn messages_and_reason(reactor: &mut Reactor, of: ConnId) -> (Vec<Vec<u8>>, DisconnectReason) {
    let (mut messages, mut end) = (Vec::new(), None);
    pump(reactor, |event, _| match event {
        Event::Message { conn, payload } => {
            assert_eq!((conn, end), (of, None), "before the end");
            messages.push(payload.to_vec());
            false
        }
        Event::Disconnected { conn, reason } => {
            assert_eq!(conn, of);
            end = Some(reason);
            true
        }
        other => panic!("{other:?}"),
    });
    idle_ticks(reactor, 2, Duration::from_millis(5));
    (messages, end.expect("it was waited for"))
}

fn numbered(number: usize) -> Vec<u8> {
    let mut payload = pattern(1_024);
    payload[..8].copy_from_slice(&(number as u64).to_be_bytes());
    payload
}

/// netty/netty#4317.
#[test]
fn o06_last_messages_lost_when_the_peer_closes() {
    #[derive(Debug)]
    enum Way {
        Closes,
        ShutsDown,
        IsCut,
        Resets,
    }
    for way in [Way::Closes, Way::ShutsDown, Way::IsCut, Way::Resets] {
        let (mut reactor, addr) = server(Builder::new());
        let (mut client, conn) = meet(&mut reactor, addr);
        let count = if matches!(way, Way::Resets) { 30 } else { 100 };
        let mut bytes: Vec<u8> = (0..count).flat_map(|number| frame(&numbered(number))).collect();
        if matches!(way, Way::IsCut) {
            bytes.pop();
        }
        client.write(&bytes);
        // All of it lies in the kernel, the end behind it, before the server looks.
        let open = match way {
            Way::ShutsDown => {
                client.shutdown_write();
                Some(client)
            }
            Way::Closes | Way::IsCut => {
                drop(client);
                None
            }
            Way::Resets => {
                client.reset();
                None
            }
        };
        let (messages, reason) = messages_and_reason(&mut reactor, conn);
        let whole = if matches!(way, Way::IsCut) { 99 } else { count };
        assert!(messages.into_iter().eq((0..whole).map(numbered)), "{way:?}");
        match way {
            Way::Closes | Way::ShutsDown => assert_eq!(reason, DisconnectReason::ClosedByPeer),
            Way::IsCut => assert_eq!(reason, DisconnectReason::Truncated),
            Way::Resets => assert_eq!(reason, DisconnectReason::Reset),
        }
        if let Some(mut client) = open {
            assert_eq!(client.read_to_end(), (vec![], true));
        }
    }
}

/// netty/netty#4082, redpanda-data/seastar#64.
#[test]
fn o07_spinning_on_a_half_closed_connection() {
    for resets in [false, true] {
        let (mut reactor, addr) = server(Builder::new());
        let (client, conn) = meet(&mut reactor, addr);
        let mut stays = None;
        if resets {
            for _ in 0..63 {
                reactor.outbox().send(conn, &pattern(16_384)).expect("a mebibyte");
            }
            reactor.flush();
            client.reset();
        } else {
            client.shutdown_write();
            stays = Some(client);
        }
        let (messages, reason) = messages_and_reason(&mut reactor, conn);
        assert!(messages.is_empty());
        match resets {
            true => assert_eq!(reason, DisconnectReason::Reset),
            false => assert_eq!(reason, DisconnectReason::ClosedByPeer),
        }
        let (polls, processor, begun) = (reactor.stats().polls, processor_time(), Instant::now());
        idle_ticks(&mut reactor, 5, Duration::from_millis(100));
        let polls = reactor.stats().polls - polls;
        assert!(polls < 10, "{polls} looks in six ticks that have nothing to do");
        if let (Some(before), Some(after)) = (processor, processor_time()) {
            let (spent, took) = (after - before, begun.elapsed());
            println!("o07: {polls} looks and {spent:?} of processor time in {took:?}");
        }
        drop(stays);
    }
}

/// snapview/tungstenite-rs#405.
#[test]
fn o17_last_message_before_our_own_disconnect() {
    let mib: Vec<Vec<u8>> = (0..64).map(|_| pattern(16_380)).collect();
    for (said, is_slow) in [(vec![b"bye".to_vec()], false), (mib.clone(), false), (mib, true)] {
        let (mut reactor, addr) = server(Builder::new().send_queue_max(2 << 20));
        let mut client = Client::connect(addr);
        client.send(b"anything");
        let expected: Vec<u8> = said.iter().flat_map(|part| frame(part)).collect();
        let reader = std::thread::spawn(move || {
            let mut heard = Vec::new();
            let mut piece = vec![0; if is_slow { 4_096 } else { 1 << 20 }];
            loop {
                match client.stream.read(&mut piece).expect("an end in order") {
                    0 => return heard,
                    len => heard.extend_from_slice(&piece[..len]),
                }
            }
        });
        let mut closing = None;
        pump(&mut reactor, |event, outbox| match event {
            Event::Message { conn, .. } => {
                for part in &said {
                    outbox.send(conn, part).expect("room");
                }
                assert!(outbox.close(conn));
                assert_eq!(outbox.send(conn, b"more"), Err(SendError::Closing));
                closing = Some(Instant::now());
                false
            }
            Event::Disconnected { reason, .. } => {
                assert_eq!(reason, DisconnectReason::ClosedByUs);
                true
            }
            _ => false,
        });
        let heard = reader.join().expect("no panic");
        assert!(heard == expected, "{} of {} bytes", heard.len(), expected.len());
        let took = closing.expect("it was closed").elapsed();
        println!("o17: {} bytes and the end in {took:?}", expected.len());
    }
}

/// The same with a deadline that a client who does not read lets pass.
#[test]
fn o17_a_close_gives_up_at_its_deadline() {
    let close = Duration::from_millis(50);
    let (mut reactor, addr) = server(Builder::new().close_timeout(close).send_queue_max(8 << 20));
    let mut client = Client::connect(addr);
    let conn = accept(&mut reactor);
    for _ in 0..400 {
        reactor.outbox().send(conn, &pattern(16_384)).expect("more than the system takes");
    }
    assert!(reactor.outbox().close(conn));
    let begun = Instant::now();
    let (messages, reason) = messages_and_reason(&mut reactor, conn);
    assert_eq!((messages.len(), reason), (0, DisconnectReason::CloseDeadline));
    println!("o17: given up after {:?}, of {close:?}", begun.elapsed());
    let (heard, is_orderly) = client.read_to_end();
    assert!(!is_orderly && heard.len() < 400 * 16_388, "a reset");
}
