//! What was wrong once, in virtual time: a scenario for each, which failed before it was mended.

use std::time::Duration;

use tickwire::sim::Faults;
use tickwire::{
    DisconnectReason, Event, Rate, RatePolicy, Reactor, SendError, SendPolicy, Tick, Wait,
};

use crate::harness::{Arena, MS, Pair, SECOND, SERVER, Seen, frame, messages};

fn arena(builder: tickwire::Builder) -> Arena {
    Arena::with(builder, Faults::default())
}

/// A peer that keeps its rate for ever is disconnected once it has used up the first burst.
#[test]
fn a_peer_within_its_rate_is_not_disconnected() {
    let builder = Reactor::builder()
        .message_rate(Rate::per_second(10).burst(10))
        .rate_policy(RatePolicy::Disconnect);
    let mut arena = arena(builder);
    let (mut peer, conn) = arena.meet();
    let mut seen = Vec::new();
    for _ in 0..40 {
        peer.write(&frame(b"one"));
        seen.extend(arena.ticks(500)); // two a second, where ten are allowed
    }
    assert_eq!(messages(&seen, conn).len(), 40, "{:?}", seen.last());
}

/// FIN received in the ring together with frames that the rate holds back: never resumed.
#[test]
fn frames_held_back_by_the_rate_arrive_although_the_fin_was_read() {
    let builder = Reactor::builder()
        .frame_len_max(64 << 10)
        .read_quantum(41_000)
        .message_rate(Rate::per_second(10).burst(1));
    let mut arena = arena(builder);
    let (mut peer, conn) = arena.meet();
    let mut bytes = frame(&[7; 40_000]);
    for _ in 0..5 {
        bytes.extend(frame(b"small"));
    }
    peer.write(&bytes[..30_000]);
    arena.ticks(3);
    peer.write(&bytes[30_000..]);
    peer.shutdown_write();
    let seen = arena.ticks(60_000);
    assert_eq!(messages(&seen, conn).len(), 6);
    assert!(
        matches!(seen.last(), Some(Seen::Disconnected(_, DisconnectReason::ClosedByPeer))),
        "{:?}",
        seen.last()
    );
}

/// A throttled connection whose send failed has no deadline to go on reading.
#[test]
fn a_throttled_connection_is_read_on_after_a_failed_send() {
    let builder =
        Reactor::builder().message_rate(Rate::per_second(10).burst(1)).close_timeout(None);
    let mut arena = arena(builder);
    let (mut peer, conn) = arena.meet();
    for _ in 0..5 {
        peer.write(&frame(b"small"));
    }
    let mut seen = arena.ticks(2);
    peer.reset();
    seen.extend(arena.ticks(2));
    arena.server.send(conn, b"answer");
    seen.extend(arena.ticks(60_000));
    assert!(matches!(seen.last(), Some(Seen::Disconnected(..))), "{seen:?}");
    assert_eq!(messages(&seen, conn).len(), 5);
}

/// The retry after ENOBUFS marks the queue dirty, and then the tick sleeps on it.
#[test]
fn a_send_that_failed_for_want_of_memory_leaves_within_a_waiting_tick() {
    let late = Faults { delay_min: 5 * SECOND, delay_max: 5 * SECOND, ..Faults::default() };
    let mut arena = arena(Reactor::builder());
    let (mut peer, conn) = arena.meet();
    arena.world.set_faults_of(SERVER, Faults { send_shortage: 1_000, ..late });
    arena.server.send(conn, b"hello");
    arena.server.tick();
    arena.world.set_faults_of(SERVER, late);
    // Sent after the promised 10 ms it is there when the tick returns; it travels 5 s.
    arena.server.tick_with(Wait::Event(10 * SECOND), |_, _| ());
    assert_eq!(peer.read(), frame(b"hello"), "it left only when the tick had waited for 10 s");
}

/// The first handle() is asked for while a closing connection still has bytes queued.
#[test]
fn a_handle_that_comes_late_counts_what_closing_connections_have_queued() {
    let mut arena = Arena::with(Reactor::builder(), Faults { window: 100, ..Faults::default() });
    let (mut slow, slow_conn) = arena.meet();
    let (_good, good_conn) = arena.meet();
    arena.server.send(slow_conn, &[1; 5_000]);
    assert!(arena.server.reactor.outbox().close(slow_conn));
    arena.ticks(2);
    let _handle = arena.server.reactor.handle().expect("a waker");
    for _ in 0..100 {
        slow.read();
        arena.ticks(2);
    }
    let stats = arena.server.reactor.stats();
    assert!(stats.bytes_queued < 10_000, "{} bytes are said to be queued", stats.bytes_queued);
    arena.server.send(good_conn, b"still works");
}

/// A foreign loop that obeys next_deadline() never hears the end of a half-closed connection.
#[test]
fn next_deadline_calls_for_the_tick_that_ends_a_half_closed_connection() {
    let mut arena = arena(Reactor::builder());
    let (mut peer, conn) = arena.meet();
    peer.write(&[frame(b"good"), frame(b"bye")].concat());
    peer.shutdown_write();
    // A game that takes one event a frame.
    let mut seen = Vec::new();
    while messages(&seen, conn).len() < 2 {
        arena.world.advance(MS);
        seen.extend(arena.server.tick_while(Wait::No, |_, _| false));
    }
    // The foreign loop: the descriptor is silent, so only the deadline calls.
    for _ in 0..10 {
        let Some(at) = arena.server.reactor.next_deadline() else { break };
        if let Some(wait) = at.checked_duration_since(arena.now()) {
            arena.world.advance(wait);
        }
        seen.extend(arena.server.tick());
    }
    seen.retain(|seen| matches!(seen, Seen::Disconnected(..)));
    assert_eq!(seen.len(), 1, "the last event waits for ever");
}

/// The same for a client in the backlog, when the last event of a full house was fetched.
#[test]
fn next_deadline_calls_for_the_tick_that_frees_a_slot() {
    let mut arena = arena(Reactor::builder().connections_max(1));
    let (peer, _) = arena.meet();
    let _next = arena.knock();
    arena.ticks(2);
    peer.reset();
    let mut seen = arena.until(|seen| matches!(seen, Seen::Disconnected(..)));
    seen.clear();
    for _ in 0..10 {
        let Some(at) = arena.server.reactor.next_deadline() else { break };
        if let Some(wait) = at.checked_duration_since(arena.now()) {
            arena.world.advance(wait);
        }
        seen.extend(arena.server.tick());
    }
    assert!(
        seen.iter().any(|seen| matches!(seen, Seen::Connected(_))),
        "the backlog waits for ever"
    );
}

/// The soft limit ends a connection whose queue is within it again, since send_latest made it so.
#[test]
fn a_queue_that_send_latest_has_shortened_is_within_its_soft_limit() {
    let builder = Reactor::builder().send_queue_soft(10_000, SECOND, SendPolicy::Disconnect);
    let mut arena = Arena::with(builder, Faults { window: 10, ..Faults::default() });
    let (_peer, conn) = arena.meet();
    arena.server.send(conn, b"begins to leave and blocks the socket");
    arena.ticks(2);
    let mut outbox = arena.server.reactor.outbox();
    outbox.send_latest(conn, 1, &[1; 15_000]).expect("room");
    arena.ticks(2);
    let mut outbox = arena.server.reactor.outbox();
    outbox.send_latest(conn, 1, &[1; 15]).expect("room");
    assert!(outbox.queued(conn) < 100);
    let seen = arena.ticks(5_000);
    assert_eq!(seen, [], "a hundred bytes are within ten thousand");
}

/// And the game hears late that the queue is low.
#[test]
fn a_queue_that_send_latest_has_shortened_is_low_again() {
    let mut arena = Arena::with(
        Reactor::builder().water_marks(1_000, 10_000),
        Faults { window: 10, ..Faults::default() },
    );
    let (_peer, conn) = arena.meet();
    arena.server.send(conn, b"begins to leave and blocks the socket");
    arena.ticks(2);
    arena.server.reactor.outbox().send_latest(conn, 1, &[1; 15_000]).expect("room");
    assert_eq!(arena.ticks(2), [Seen::SendQueueHigh(conn)]);
    arena.server.reactor.outbox().send_latest(conn, 1, &[1; 15]).expect("room");
    assert_eq!(arena.ticks(100), [Seen::SendQueueLow(conn)]);
}

fn ends_within(time: Duration, what: impl FnOnce() + Send + 'static) {
    let (done, is_done) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        what();
        let _ = done.send(());
    });
    is_done.recv_timeout(time).expect("a tick that never returns, or a panic");
}

/// A timeout of zero hangs the tick in an endless loop once a connection is paused.
#[test]
fn a_zero_timeout_does_not_hang_the_tick() {
    ends_within(Duration::from_secs(3), || {
        let Ok(_) = Reactor::builder().idle_timeout(Duration::ZERO).build() else { return };
        let mut arena = arena(Reactor::builder().idle_timeout(Duration::ZERO));
        let _peer = arena.knock();
        arena.world.advance(MS);
        arena.server.tick_with(Wait::No, |event, outbox| {
            if let Event::Connected { conn, .. } = event {
                outbox.pause_read(*conn);
            }
        });
        arena.ticks(5);
    });
}

/// A pace of "never between" panics.
#[test]
fn a_huge_pace_is_refused_or_works() {
    let Ok(_) = Reactor::builder().pace(Duration::MAX).build() else { return };
    let mut arena = arena(Reactor::builder().pace(Duration::MAX));
    let until = arena.now() + 5 * MS;
    arena.server.tick_with(Wait::Until(until), |_, _| ());
}

/// One large encoded message makes every small one take a buffer of its size.
#[test]
fn one_large_encoded_message_does_not_size_the_buffers_of_others() {
    let builder = Reactor::builder().frame_len_max(1 << 20).send_queue_max(2 << 20);
    let mut arena = arena(builder);
    let peers: Vec<_> = (0..50).map(|_| arena.meet()).collect();
    let mut outbox = arena.server.reactor.outbox();
    outbox.send_with(peers[0].1, |w| w.put_slice(&[0; 1 << 20])).expect("room");
    for (_, conn) in &peers[1..] {
        outbox.send_with(*conn, |w| w.put_u8(1)).expect("room");
    }
    arena.ticks(3);
    let pooled = arena.server.reactor.stats().bytes_pooled;
    assert!(pooled < 10 << 20, "{} MiB for one message of 1 MiB and 49 of 1 byte", pooled >> 20);
}

/// Queued output and unfinished input together are twice the limit.
#[test]
fn output_and_input_together_stay_within_the_limit() {
    let max = 1 << 20;
    let builder =
        Reactor::builder().frame_len_max(1 << 19).send_queue_max(1 << 19 | 4).buffered_max(max);
    let mut arena = Arena::with(builder, Faults { window: 1 << 20, ..Faults::default() });
    let (mut one, _) = arena.meet();
    let (mut two, _) = arena.meet();
    for peer in [&mut one, &mut two] {
        let mut bytes = (1u32 << 19).to_be_bytes().to_vec();
        bytes.resize(480_000, 0);
        peer.write(&bytes);
    }
    arena.ticks(30);
    let (_deaf, conn) = arena.meet();
    let mut outbox = arena.server.reactor.outbox();
    while outbox.send(conn, &[0; 10_000]).is_ok() {}
    let stats = arena.server.reactor.stats();
    let all = stats.bytes_queued + stats.bytes_unfinished;
    assert!(all <= max, "{all} bytes where {max} are the limit of all");
}

/// Peers that do not read fill the common limit, and honest players are disconnected for it.
#[test]
fn peers_that_never_read_do_not_cost_others_their_connection() {
    let builder = Reactor::builder().send_queue_max(100_000).buffered_max(1_000_000);
    let mut arena = Arena::with(builder, Faults { window: 100, ..Faults::default() });
    let (mut honest, honest_conn) = arena.meet();
    let deaf: Vec<_> = (0..12).map(|_| arena.meet()).collect();
    for _ in 0..5 {
        for (_, conn) in &deaf {
            while arena.server.reactor.outbox().send(*conn, &[0; 16]).is_ok() {}
        }
        arena.ticks(1);
    }
    // The player's frame happens to come in two segments.
    let bytes = frame(b"I have done nothing");
    honest.write(&bytes[..7]);
    let mut seen = arena.ticks(2);
    honest.write(&bytes[7..]);
    seen.extend(arena.ticks(2));
    assert_eq!(messages(&seen, honest_conn).len(), 1, "{seen:?}");
}

/// After a long pause, whoever could not send on has a millisecond to do so.
#[test]
fn a_resumed_connection_has_its_frame_deadline_anew() {
    let builder =
        Reactor::builder().frame_timeout(2 * SECOND).frame_len_max(1 << 20).send_queue_max(2 << 20);
    let mut arena = Arena::with(builder, Faults { window: 4_096, ..Faults::default() });
    let (mut peer, conn) = arena.meet();
    let bytes = frame(&[7; 100_000]);
    peer.write(&bytes);
    arena.ticks(3);
    assert!(arena.server.reactor.outbox().pause_read(conn));
    // Until shortly before the second time that the deadline is put off.
    arena.ticks(3_990);
    assert!(arena.server.reactor.outbox().resume_read(conn));
    let seen = arena.ticks(500);
    assert_eq!(messages(&seen, conn).len(), 1, "the peer had all the frame ready: {seen:?}");
}

/// After 25 days a connection under a byte rate alone rests for weeks.
#[test]
fn a_byte_rate_works_after_a_month() {
    let builder =
        Reactor::builder().byte_rate(Rate::per_second(500).burst(10_000)).frame_timeout(None);
    let mut arena = arena(builder);
    let (mut peer, conn) = arena.meet();
    for _ in 0..26 {
        arena.world.advance(Duration::from_secs(86_400));
        arena.server.tick();
    }
    for _ in 0..4 {
        peer.write(&frame(&[7; 9_000]));
    }
    let seen = arena.ticks(120_000);
    assert_eq!(messages(&seen, conn).len(), 4, "36 KB in 120 s at 500 B/s");
}

/// A storm of newcomers starves everybody who is there, where the event budget is small.
#[test]
fn a_storm_of_newcomers_does_not_starve_those_who_play() {
    let mut arena = arena(Reactor::builder().event_budget(10));
    let (mut player, conn) = arena.meet();
    player.write(&frame(b"fire!"));
    let mut seen = Vec::new();
    let mut storm = Vec::new();
    for _ in 0..200 {
        for nth in 0..20u8 {
            storm.push(arena.world.raw_connect([10, 0, 2, nth].into(), &arena.addr));
        }
        seen.extend(arena.tick());
    }
    assert_eq!(messages(&seen, conn).len(), 1, "a message has waited for 200 ticks");
}

/// A close after a failed send says that all that was queued has left.
#[test]
fn a_close_after_a_failed_send_does_not_say_that_all_has_left() {
    let mut arena = arena(Reactor::builder());
    let (peer, conn) = arena.meet();
    assert!(arena.server.reactor.outbox().pause_read(conn)); // so that reading does not find it first
    peer.reset();
    arena.world.advance(5 * MS);
    arena.server.send(conn, b"lost");
    arena.ticks(2);
    assert_eq!(arena.server.reactor.outbox().send(conn, b"x"), Err(SendError::Closing));
    assert!(arena.server.reactor.outbox().close(conn));
    let (_, reason) = arena.until_over(conn);
    assert_ne!(reason, DisconnectReason::ClosedByUs);
}

/// A server that greets: a client that has shut its write side at once gets no greeting.
#[test]
fn a_client_that_only_listens_is_greeted() {
    let mut arena = arena(Reactor::builder());
    let mut peer = arena.knock();
    peer.shutdown_write();
    let mut answers = Vec::new();
    for _ in 0..20 {
        arena.world.advance(MS);
        let Tick { events, mut outbox, .. } =
            arena.server.reactor.tick(Wait::Until(arena.world.now() + 16 * MS)).expect("a poller");
        for event in events {
            if let Event::Connected { conn, .. } = event {
                answers.push(outbox.send(conn, b"welcome"));
            }
        }
    }
    assert_eq!(answers, [Ok(())]);
    assert_eq!(peer.read(), frame(b"welcome"));
}

/// A peer that has half-closed gets all that was sent before the shutdown.
#[test]
fn a_shutdown_does_not_reset_what_ends_in_order() {
    let mut arena = Arena::with(
        Reactor::builder(),
        Faults { delay_min: 20 * MS, delay_max: 20 * MS, ..Faults::default() },
    );
    let (mut peer, conn) = arena.meet();
    peer.write(&frame(b"last words?"));
    peer.shutdown_write();
    arena.until(|seen| matches!(seen, Seen::Message(..)));
    arena.server.send(conn, &[9; 10_000]);
    let deadline = arena.now() + 5 * SECOND;
    arena.server.reactor.shutdown(deadline);
    let seen = arena.ticks(200);
    assert_eq!(seen, [Seen::Disconnected(conn, DisconnectReason::Shutdown)]);
    let heard = peer.read();
    assert!(!peer.is_reset(), "it was reset");
    assert_eq!(heard.len(), 10_004);
}

/// `shutdown(deadline)` resets what is left at the close timeout, long before its deadline.
#[test]
fn a_shutdown_waits_until_its_deadline() {
    let mut arena = Arena::with(Reactor::builder(), Faults { window: 1_000, ..Faults::default() });
    let (mut peer, conn) = arena.meet();
    arena.server.send(conn, &[9; 10_000]);
    arena.server.tick();
    let deadline = arena.now() + 60 * SECOND;
    arena.server.reactor.shutdown(deadline);
    let mut heard = Vec::new();
    for _ in 0..20 {
        heard.extend(peer.read()); // a slow reader: 1,000 bytes a second
        arena.ticks(1_000);
    }
    heard.extend(peer.read());
    assert_eq!(heard.len(), 10_004, "40 s before the deadline");
}

/// The time that a connect took counts as silence of the peer.
#[test]
fn a_connect_that_took_its_time_is_not_idle() {
    let slow = Faults { delay_min: 600 * MS, delay_max: 600 * MS, ..Faults::default() };
    let client = Reactor::builder().idle_timeout(SECOND);
    let mut pair = Pair::with(Reactor::builder(), client, slow);
    pair.client.reactor.connect(&pair.addr).expect("there is room");
    let (_, seen) = pair.ticks(1_500);
    assert!(matches!(seen[..], [Seen::Connected(_)]), "{seen:?}");
}

/// Connections that come and go leave an entry in the timers each, which stays until its time: memory that no limit on
/// connections bounds, and a wake-up for nobody.
#[test]
fn the_timers_of_those_who_are_gone_wake_nobody() {
    let mut pair = Pair::new();
    for _ in 0..1_000 {
        let (there, here) = pair.meet();
        pair.client.reactor.outbox().kick(there);
        pair.ticks(2);
        assert_eq!(pair.server.reactor.outbox().send(here, b"x"), Err(SendError::Stale));
    }
    let before = pair.client.counts().waits;
    let seen = pair.client.tick_with(Wait::Event(60 * SECOND), |_, _| ());
    let waits = pair.client.counts().waits - before;
    assert_eq!(seen, []);
    assert!(waits < 100, "{waits} wakes in an idle minute");
}
