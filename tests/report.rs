//! What a tick reports of itself: on real sockets.

mod common;

use std::time::Duration;

use common::{Client, PATIENCE, accept, frame, server, tick_until};
use tickwire::{Builder, Event, Tick, Wait};

#[test]
fn a_report_counts_what_the_tick_did() {
    let (mut reactor, addr) = server(Builder::new().phase_times(true).event_budget(100));
    let mut client = Client::connect(addr);
    let Tick { report, events, .. } = reactor.tick(Wait::Event(PATIENCE)).expect("a poller");
    assert_eq!((report.events, report.accepted, report.carried_over), (1, 1, 0));
    assert_eq!(report.event_budget, 100);
    events.for_each(drop);

    client.write(&frame(&[7; 20]).repeat(10));
    let Tick { report, mut events, mut outbox, .. } =
        reactor.tick(Wait::Event(PATIENCE)).expect("a poller");
    assert_eq!((report.events, report.messages_received), (10, 10));
    assert_eq!((report.receives, report.bytes_received), (1, 240));
    assert_eq!((report.memory_used, report.memory), (240, 1024 * 1024));
    assert_eq!((report.sends, report.bytes_sent, report.unserved), (0, 0, 0));
    let times = report.times.expect("they were asked for");
    assert!(times.busy() > Duration::ZERO);
    for event in events.by_ref().take(3) {
        let Event::Message { conn, payload } = event else { panic!("{event:?}") };
        outbox.send(conn, payload).expect("room");
    }
    reactor.flush();

    let report = reactor.tick(Wait::No).expect("a poller").report;
    assert_eq!((report.events, report.carried_over), (7, 7));
    assert_eq!((report.sends, report.bytes_sent), (1, 72), "of the flush before this tick");
    assert_eq!(report.messages_received, 0);
}

#[test]
fn a_spent_budget_shows_as_connections_unserved() {
    let (mut reactor, addr) = server(Builder::new().event_budget(4));
    let mut client = Client::connect(addr);
    accept(&mut reactor);
    client.write(&frame(b"x").repeat(10));
    let mut unserved = Vec::new();
    let mut left = 10;
    while left > 0 {
        let Tick { events, report, .. } = reactor.tick(Wait::Event(PATIENCE)).expect("a poller");
        assert!(report.events <= 4);
        unserved.push(report.unserved);
        left -= events.count();
    }
    assert_eq!(unserved, [1, 1, 0]);
    tick_until(&mut reactor, |reactor| reactor.stats().messages_received == 10);
}

#[test]
fn times_cost_nothing_unless_they_are_asked_for() {
    let (mut reactor, _) = server(Builder::new());
    assert_eq!(reactor.tick(Wait::No).expect("a poller").report.times, None);
}
