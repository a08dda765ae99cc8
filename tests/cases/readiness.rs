//! O08, O09 and O14: readiness that is told once, ids that are used again, and ends in the middle of everything.

use std::collections::{HashMap, HashSet};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use tickwire::{Addr, Builder, ConnId, Event, Reactor, SendError, Tick, Wait};

use crate::common::{Client, PATIENCE, frame, pattern, pump, server, tick_until};
use crate::meet;

/// tokio-rs/mio#45.
#[test]
fn o08_edge_triggered_data_left_behind_others_starved() {
    const MESSAGES: usize = 65_536;
    let (mut reactor, addr) = server(Builder::new());
    let (mut flooder, flood) = meet(&mut reactor, addr);
    let mut others: Vec<_> = (0..3).map(|_| meet(&mut reactor, addr).0).collect();
    let begun = Instant::now();
    let writer = std::thread::spawn(move || {
        let bytes = frame(&pattern(1_020)).repeat(64);
        for _ in 0..MESSAGES / 64 {
            flooder.write(&bytes);
        }
        flooder // it stays, and says nothing more
    });
    let (mut flooded, mut heard, mut ticks_since) = (0, 0, None);
    let mut longest = Duration::ZERO;
    while flooded < MESSAGES || heard < 3 {
        if flooded > MESSAGES / 4 && ticks_since.is_none() {
            others.iter_mut().for_each(|client| client.send(b"sixteen bytes...")); // on loopback: arrived
            ticks_since = Some(0);
        }
        // Once all is written, whatever has not come lies unread in the kernel: no tick may wait for it.
        let is_all_there = writer.is_finished();
        let before = Instant::now();
        let events =
            reactor.tick(Wait::Event(Duration::from_millis(100))).expect("a poller").events;
        longest = longest.max(before.elapsed());
        assert!(events.remaining() > 0 || !is_all_there, "a tick has waited beside unread data");
        ticks_since = ticks_since.map(|ticks| ticks + 1);
        for event in events {
            match event {
                Event::Message { conn, .. } if conn == flood => flooded += 1,
                Event::Message { .. } => {
                    assert!(ticks_since <= Some(2), "heard after {ticks_since:?} ticks");
                    heard += 1;
                }
                other => panic!("{other:?}"),
            }
        }
    }
    assert_eq!((flooded, heard), (MESSAGES, 3));
    drop(writer.join().expect("no panic"));
    println!(
        "o08: 64 MiB in {:?}, the longest tick (waiting included) {longest:?}",
        begun.elapsed()
    );
}

/// tokio-rs/mio#219, tokio-rs/mio#172.
#[test]
fn o09_events_for_a_connection_removed_in_the_same_batch() {
    let (reactor, addr) = server(Builder::new());
    let mut crowd = Crowd { reactor, addr, lives: HashMap::new(), messages: 0 };
    let begun = Instant::now();
    let mut now = Vec::new();
    for round in 0..200 {
        now = crowd.replace(now, round % 2);
    }
    assert!(crowd.messages >= 199 * CROWD / 4, "{} messages were heard", crowd.messages);
    println!("o09: 200 rounds in {:?}", begun.elapsed());
}

const CROWD: usize = 50;

struct Crowd {
    reactor: Reactor,
    addr: SocketAddr,
    /// Whether an id is over; absent: it has not begun.
    lives: HashMap<ConnId, bool>,
    messages: usize,
}

impl Crowd {
    /// Everybody speaks and goes, half of them with a reset, while as many others come. On each message the game kicks
    /// the next in the row.
    fn replace(&mut self, old: Vec<(Client, ConnId)>, resets: usize) -> Vec<(Client, ConnId)> {
        let row: Vec<ConnId> = old.iter().map(|(_, conn)| *conn).collect();
        let mut staying = Vec::new();
        for (number, (mut client, _)) in old.into_iter().enumerate() {
            client.send(&[number as u8]);
            match number % 2 == resets {
                true => client.reset(),
                false => staying.push(client),
            }
        }
        let clients: Vec<Client> = (0..CROWD).map(|_| Client::connect(self.addr)).collect();
        let addr_of = |client: &Client| Addr::from(client.stream.local_addr().expect("bound"));
        let mut new = HashMap::new();
        let (mut kicked, mut over) = (HashSet::new(), 0);
        let deadline = Instant::now() + PATIENCE;
        while over < row.len() || new.len() < CROWD {
            assert!(Instant::now() < deadline, "it has not happened");
            let Tick { events, mut outbox, .. } =
                self.reactor.tick(Wait::Event(Duration::from_millis(20))).expect("a poller");
            for event in events {
                match event {
                    Event::Connected { conn, peer, .. } => {
                        assert_eq!(self.lives.insert(conn, false), None, "one beginning");
                        new.insert(peer, conn);
                    }
                    Event::Message { conn, payload } => {
                        let number = row.iter().position(|known| *known == conn);
                        assert_eq!(number, Some(payload[0].into()), "it is whom it says it is");
                        assert!(!kicked.contains(&conn), "after its kick");
                        self.messages += 1;
                        let next = row[(usize::from(payload[0]) + 1) % row.len()];
                        if outbox.kick(next) {
                            kicked.insert(next);
                        }
                    }
                    Event::Disconnected { conn, .. } => {
                        assert_eq!(self.lives.insert(conn, true), Some(false), "one end");
                        assert_eq!(outbox.send(conn, b"x"), Err(SendError::Stale));
                        over += 1;
                    }
                    other => panic!("{other:?}"),
                }
            }
            staying.clear(); // whoever was not kicked goes by itself
        }
        let with_id = |client: Client| {
            let conn = new[&addr_of(&client)];
            (client, conn)
        };
        clients.into_iter().map(with_id).collect()
    }
}

/// MirrorNetworking/Mirror#2739, MirrorNetworking/Mirror#3287.
#[test]
fn o14_disconnecting_while_iterating_and_inside_the_disconnect_handling() {
    const CLIENTS: usize = 100;
    let builder = Builder::new().frame_len_max(1 << 16).send_queue_max(1 << 18);
    let (mut reactor, addr) = server(builder);
    let mut met: Vec<_> = (0..CLIENTS).map(|_| meet(&mut reactor, addr)).collect();
    let conns: Vec<ConnId> = met.iter().map(|(_, conn)| *conn).collect();
    let payload = pattern(1 << 16);
    // Half of them go in the middle of the broadcast.
    let (first, second) = conns.split_at(CLIENTS / 2);
    let failed: Vec<_> = reactor.outbox().broadcast(first, &payload).refused.to_vec();
    assert_eq!(failed, []);
    reactor.flush();
    let mut healthy = Vec::new();
    for (number, (client, conn)) in met.drain(..).enumerate() {
        match number % 2 {
            0 => client.reset(),
            _ => healthy.push((client, conn)),
        }
    }
    let readers: Vec<_> = healthy
        .into_iter()
        .map(|(mut client, _)| std::thread::spawn(move || (client.receive(), client)))
        .collect();
    let mut outbox = reactor.outbox();
    for (conn, _) in outbox.broadcast(second, &payload).refused.to_vec() {
        outbox.kick(conn);
    }
    let mut ends = HashSet::new();
    pump(&mut reactor, |event, outbox| {
        if let Event::Disconnected { conn, .. } = event {
            assert!(ends.insert(conn), "{conn} ends once");
            assert!(!outbox.kick(conn) && !outbox.close(conn));
            assert_eq!(outbox.send(conn, b"ghost"), Err(SendError::Stale));
        }
        ends.len() == CLIENTS / 2
    });
    tick_until(&mut reactor, |reactor| {
        // The last slot is free in the tick after its last event.
        reactor.connections() == CLIENTS / 2
            && reactor.stats().bytes_queued == 0
            && readers.iter().all(|reader| reader.is_finished())
    });
    for reader in readers {
        let (heard, _client) = reader.join().expect("no panic");
        assert!(heard == payload, "the whole broadcast");
    }
}
