//! The fake network against what Linux does and what the seam promises.

use std::collections::BTreeMap;

use super::*;
use crate::net::Source;

const SERVER: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 1));
const CLIENT: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 2));
const MS: Duration = Duration::from_millis(1);

/// A listening host, and a raw peer that it has accepted in slot 7.
struct Met {
    world: SimWorld,
    net: SimNet,
    listener: SimListener,
    stream: SimStream,
    peer: RawPeer,
}

fn at(port: u16) -> Addr {
    Addr::from((SERVER, port))
}

fn listening(world: &SimWorld, backlog: u32) -> (SimNet, SimListener) {
    let mut net = world.host(SERVER);
    let options = ListenOptions::new().backlog(backlog);
    let listener = net.listen(&at(7777), &options, 0).expect("the port is free");
    (net, listener)
}

fn met(faults: Faults) -> Met {
    let world = SimWorld::new(1, faults);
    let (mut net, listener) = listening(&world, 16);
    let peer = world.raw_connect(CLIENT, &at(7777));
    world.advance(100 * MS);
    assert!(peer.is_connected());
    let (mut stream, addr) = net.accept(&listener).expect("a client waits");
    assert_eq!(addr, peer.local_addr());
    net.register(&mut stream, 7).expect("the poller has room");
    Met { world, net, listener, stream, peer }
}

impl Met {
    /// Everything reported within a second, as (readable, writable, insist) of slot 7.
    fn reports(&mut self) -> Vec<(bool, bool, bool)> {
        let mut ready = Vec::new();
        self.world.advance(1_000 * MS);
        self.net.wait(Some(Duration::ZERO), &mut ready).expect("a simulated poller works");
        ready.retain(|report| report.source == Source::Conn(7));
        ready.iter().map(|report| (report.readable, report.writable, report.insist)).collect()
    }

    fn recv(&mut self, len: usize) -> Result<(Vec<u8>, bool), io::ErrorKind> {
        let mut into = vec![0; len];
        let received = self.net.recv(&mut self.stream, &mut into).map_err(|error| error.kind())?;
        into.truncate(received.len);
        Ok((into, received.drained))
    }

    fn send(&mut self, bytes: &[u8]) -> Result<usize, io::ErrorKind> {
        let sent = self.net.send(&mut self.stream, &[IoSlice::new(bytes)]);
        sent.map_err(|error| error.kind())
    }
}

#[test]
fn a_world_can_be_shared_between_threads() {
    fn check<T: Send + Sync>() {}
    check::<SimNet>();
    check::<SimWorld>();
    check::<RawPeer>();
}

#[test]
fn time_moves_only_when_somebody_waits() {
    let world = SimWorld::new(1, Faults::default());
    let mut net = world.host(SERVER);
    let begin = net.now();
    assert_eq!(net.now(), begin);
    net.wait(Some(5 * MS), &mut Vec::new()).expect("a simulated poller works");
    net.sleep(begin + 8 * MS);
    net.sleep(begin);
    assert_eq!(net.now(), begin + 8 * MS);
    assert_eq!(world.now(), net.now());
}

#[test]
fn a_wait_ends_with_the_first_readiness() {
    let world = SimWorld::new(1, Faults { delay_min: 3 * MS, ..Faults::default() });
    let (mut net, _listener) = listening(&world, 16);
    let begin = net.now();
    let _peer = world.raw_connect(CLIENT, &at(7777));
    let mut ready = Vec::new();
    net.wait(Some(1_000 * MS), &mut ready).expect("a simulated poller works");
    assert_eq!(net.now(), begin + 3 * MS);
    assert_eq!(ready[0].source, Source::Listener(0));
}

#[test]
fn what_is_there_at_registration_is_reported() {
    let mut met = met(Faults::default());
    assert_eq!(met.reports(), [(false, true, false)]);
    let mut early = met.world.raw_connect(CLIENT, &at(7777));
    early.write(b"before");
    early.shutdown_write();
    met.world.advance(MS);
    let (mut stream, _) = met.net.accept(&met.listener).expect("a client waits");
    met.net.register(&mut stream, 8).expect("the poller has room");
    let mut ready = Vec::new();
    met.net.wait(Some(Duration::ZERO), &mut ready).expect("a simulated poller works");
    let report = ready.iter().find(|report| report.source == Source::Conn(8)).expect("an edge");
    assert!(report.readable && report.writable && report.insist);
}

#[test]
fn an_edge_is_told_once_and_each_arrival_is_one() {
    let mut met = met(Faults { bare_edges: true, ..Faults::default() });
    met.reports();
    met.peer.write(b"ab");
    assert_eq!(met.reports(), [(true, false, false)]);
    assert_eq!(met.reports(), [], "nothing was read, nothing is new");
    met.peer.write(b"c");
    assert_eq!(met.reports(), [(true, false, false)]);
    assert_eq!(met.recv(2), Ok((b"ab".to_vec(), false)), "full to the brim tells nothing");
    assert_eq!(met.recv(2), Ok((b"c".to_vec(), true)));
    assert_eq!(met.recv(2), Err(io::ErrorKind::WouldBlock));
}

#[test]
fn data_comes_before_fin_and_the_answer_still_leaves() {
    let mut met = met(Faults::default());
    met.reports();
    met.peer.write(b"last words");
    met.peer.shutdown_write();
    assert_eq!(met.reports(), [(true, true, true)]);
    assert_eq!(met.recv(99), Ok((b"last words".to_vec(), true)));
    assert_eq!(met.recv(99), Ok((Vec::new(), true)));
    assert_eq!(met.send(b"heard"), Ok(5));
    assert_eq!(met.peer.read(), b"heard");
    assert!(!met.peer.is_eof());
    met.net.close(met.stream);
    assert!(met.peer.is_eof());
}

#[test]
fn data_comes_before_a_reset_and_the_error_is_told_once() {
    let mut met = met(Faults::default());
    met.peer.write(b"last words");
    met.peer.reset();
    met.world.advance(MS);
    let mut into = [0; 99];
    let received = met.net.recv(&mut met.stream, &mut into).expect("data first");
    assert_eq!(received.len, 10);
    let error = met.net.recv(&mut met.stream, &mut into).expect_err("then the reset");
    assert_eq!(error.kind(), io::ErrorKind::ConnectionReset);
    assert_eq!(met.net.recv(&mut met.stream, &mut into).expect("then the end").len, 0);
}

#[test]
fn a_send_after_a_reset_takes_the_error_and_data_is_still_readable() {
    let mut met = met(Faults::default());
    met.peer.write(b"last words");
    let peer = std::mem::replace(&mut met.peer, met.world.raw_connect(CLIENT, &at(7777)));
    peer.reset();
    met.world.advance(MS);
    assert_eq!(met.send(b"x"), Err(io::ErrorKind::ConnectionReset));
    assert_eq!(met.send(b"x"), Err(io::ErrorKind::BrokenPipe));
    assert_eq!(met.recv(99), Ok((b"last words".to_vec(), true)));
    assert_eq!(met.recv(99), Ok((Vec::new(), true)));
}

#[test]
fn a_client_learns_of_a_reset_that_follows_at_the_heels_of_its_acceptance() {
    let world = SimWorld::new(1, Faults { delay_min: 5 * MS, ..Faults::default() });
    let (mut net, listener) = listening(&world, 16);
    let peer = world.raw_connect(CLIENT, &at(7777));
    world.advance(5 * MS);
    let (stream, _) = net.accept(&listener).expect("a client waits");
    net.abort(stream);
    assert!(!peer.is_connected(), "the answer is still under way");
    world.advance(5 * MS);
    assert!(peer.is_reset());
}

#[test]
fn an_overtaking_reset_loses_what_is_under_way() {
    let mut met = met(Faults { delay_min: MS, ..Faults::default() });
    met.peer.write(b"arrives");
    met.world.advance(MS);
    met.world.set_faults(Faults { delay_min: 5 * MS, ..Faults::default() });
    met.peer.write(b"too late");
    met.world.set_faults(Faults { reset_overtakes: 1_000, ..Faults::default() });
    met.peer.reset();
    met.world.advance(10 * MS);
    let mut into = [0; 99];
    assert_eq!(met.net.recv(&mut met.stream, &mut into).expect("data first").len, 7);
}

#[test]
fn closing_with_unread_input_resets() {
    let mut met = met(Faults::default());
    met.peer.write(b"unread");
    met.world.advance(MS);
    met.net.close(met.stream);
    assert!(met.peer.is_reset());
    assert_eq!(met.world.open_sockets(SERVER), 1, "the listener");
}

#[test]
fn data_to_a_closed_socket_is_answered_with_a_reset() {
    let mut met = met(Faults::default());
    met.net.close(met.stream);
    assert!(met.peer.is_eof() && !met.peer.is_reset());
    met.peer.write(b"is anybody there?");
    assert!(met.peer.is_reset());
}

#[test]
fn a_full_window_blocks_and_room_is_an_edge() {
    let mut met = met(Faults { window: 10, bare_edges: true, ..Faults::default() });
    met.reports();
    assert_eq!(met.send(&[1; 16]), Ok(10));
    assert_eq!(met.send(&[1; 6]), Err(io::ErrorKind::WouldBlock));
    assert_eq!(met.reports(), []);
    assert_eq!(met.peer.read_at_most(4).len(), 4);
    assert_eq!(met.reports(), [(false, true, false)]);
    assert_eq!(met.send(&[1; 6]), Ok(4));
    assert_eq!(met.peer.read().len(), 10);
}

#[test]
fn a_raw_peer_writes_on_as_the_reader_makes_room() {
    let mut met = met(Faults { window: 3, ..Faults::default() });
    met.peer.write(b"more than the window");
    met.peer.shutdown_write();
    let mut read = Vec::new();
    loop {
        met.world.advance(MS);
        match met.recv(99) {
            Ok((bytes, _)) if bytes.is_empty() => break,
            Ok((bytes, _)) => read.extend(bytes),
            Err(kind) => assert_eq!(kind, io::ErrorKind::WouldBlock),
        }
    }
    assert_eq!(read, b"more than the window");
    assert_eq!(met.peer.unsent(), 0);
}

#[test]
fn segments_can_be_read_one_by_one() {
    let mut met = met(Faults { recv_segments: true, ..Faults::default() });
    met.peer.write_cut(b"abcdef", &[1, 4]);
    met.world.advance(MS);
    assert_eq!(met.recv(99), Ok((b"a".to_vec(), false)));
    assert_eq!(met.recv(99), Ok((b"bcd".to_vec(), false)));
    assert_eq!(met.recv(99), Ok((b"ef".to_vec(), true)));
}

#[test]
fn after_a_lie_about_data_the_edge_follows() {
    let mut met = met(Faults { bare_edges: true, ..Faults::default() });
    met.peer.write(b"here");
    met.reports();
    met.world.set_faults(Faults { recv_blocked: 1_000, bare_edges: true, ..Faults::default() });
    assert_eq!(met.recv(9), Err(io::ErrorKind::WouldBlock));
    met.world.set_faults(Faults { bare_edges: true, ..Faults::default() });
    assert_eq!(met.reports(), [(true, false, false)]);
    assert_eq!(met.recv(9), Ok((b"here".to_vec(), true)));
}

#[test]
fn after_a_short_or_refused_send_the_edge_follows() {
    for faults in [
        Faults { send_one_byte: 1_000, bare_edges: true, ..Faults::default() },
        Faults { send_blocked: 1_000, bare_edges: true, ..Faults::default() },
    ] {
        let mut met = met(faults);
        met.reports();
        let _ = met.send(b"hello");
        assert_eq!(met.reports(), [(false, true, false)]);
    }
}

#[test]
fn connecting_ends_as_the_other_side_decides() {
    let world = SimWorld::new(1, Faults { delay_min: MS, ..Faults::default() });
    let (_server, _listener) = listening(&world, 16);
    let mut net = world.host(CLIENT);
    let outcomes: BTreeMap<&str, io::Result<bool>> = [
        ("listening", at(7777)),
        ("nobody listens", at(7778)),
        ("no such host", Addr::from(([9, 9, 9, 9], 1))),
    ]
    .into_iter()
    .zip(0..)
    .map(|((name, addr), slot)| {
        let mut stream =
            net.connect(&addr, &ConnectOptions::new(), slot).expect("a descriptor is left");
        assert!(!net.connected(&mut stream).expect("under way"));
        world.advance(10 * MS);
        let outcome = net.connected(&mut stream);
        net.close(stream);
        (name, outcome)
    })
    .collect();
    assert!(outcomes["listening"].as_ref().is_ok_and(|connected| *connected));
    let kind = |name| outcomes[name].as_ref().expect_err("it fails").kind();
    assert_eq!(kind("nobody listens"), io::ErrorKind::ConnectionRefused);
    assert_eq!(kind("no such host"), io::ErrorKind::HostUnreachable);
    assert_eq!(world.open_sockets(CLIENT), 0);
}

#[test]
fn a_full_backlog_is_silent_and_the_client_tries_again() {
    let world = SimWorld::new(1, Faults::default());
    let (mut net, listener) = listening(&world, 1);
    let peers: Vec<RawPeer> = (0..3).map(|_| world.raw_connect(CLIENT, &at(7777))).collect();
    world.advance(500 * MS);
    let connected = || peers.iter().filter(|peer| peer.is_connected()).count();
    assert_eq!(connected(), 2, "one more than the backlog, as on Linux");
    net.accept(&listener).expect("a client waits");
    world.advance(1_000 * MS);
    assert_eq!(connected(), 3);
}

#[test]
fn a_client_that_gives_up_before_its_request_arrives_is_never_seen() {
    let world = SimWorld::new(1, Faults { delay_min: MS, ..Faults::default() });
    let (mut net, listener) = listening(&world, 16);
    world.raw_connect(CLIENT, &at(7777)).close();
    world.advance(10 * MS);
    let error = net.accept(&listener).expect_err("nobody waits");
    assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
}

#[test]
fn closing_a_listener_resets_who_waits_and_frees_the_port() {
    let world = SimWorld::new(1, Faults::default());
    let (mut net, listener) = listening(&world, 16);
    let options = ListenOptions::new();
    let taken = net.listen(&at(7777), &options, 1).expect_err("it is taken");
    assert_eq!(taken.kind(), io::ErrorKind::AddrInUse);
    let peer = world.raw_connect(CLIENT, &at(7777));
    assert!(peer.is_connected());
    net.unlisten(listener);
    assert!(peer.is_reset());
    net.listen(&at(7777), &options, 1).expect("the port is free again");
}

#[test]
fn port_zero_is_a_free_port() {
    let world = SimWorld::new(1, Faults::default());
    let mut net = world.host(SERVER);
    let options = ListenOptions::new();
    let listener = net.listen(&at(0), &options, 0).expect("a port is free");
    let addr = net.local_addr(&listener).expect("it is bound");
    assert_ne!(addr.port(), Some(0));
    assert!(world.raw_connect(CLIENT, &addr).is_connected());
}

#[test]
fn descriptors_are_counted_and_run_out() {
    let world = SimWorld::new(1, Faults { descriptors_max: 2, ..Faults::default() });
    let (mut net, listener) = listening(&world, 16);
    let _peers: Vec<RawPeer> = (0..2).map(|_| world.raw_connect(CLIENT, &at(7777))).collect();
    world.advance(MS);
    let (stream, _) = net.accept(&listener).expect("one is left");
    let error = net.accept(&listener).expect_err("none is left");
    assert_eq!(error.raw_os_error(), Some(faults::errno::EMFILE));
    net.close(stream);
    net.accept(&listener).expect("one is left again");
    drop(net);
    assert_eq!(world.open_sockets(SERVER), 0);
}

#[test]
fn a_partition_holds_everything_up_and_loses_nothing() {
    let mut met = met(Faults::default());
    met.reports();
    met.world.partition(SERVER, CLIENT);
    met.peer.write(b"a");
    met.peer.write(b"b");
    assert_eq!(met.reports(), []);
    met.world.heal(CLIENT, SERVER);
    assert_eq!(met.reports().len(), 1);
    assert_eq!(met.recv(9), Ok((b"ab".to_vec(), true)));
}

#[test]
fn the_network_can_reset_both_ends() {
    let mut met = met(Faults { resets: 1_000, ..Faults::default() });
    met.peer.write(b"never arrives");
    met.world.advance(MS);
    assert!(met.peer.is_reset());
    assert!(matches!(met.recv(9), Err(io::ErrorKind::ConnectionReset | io::ErrorKind::TimedOut)));
}

#[test]
fn one_seed_is_one_story() {
    let faults = Faults {
        delay_max: 9 * MS,
        recv_short: 300,
        send_short: 300,
        spurious: 300,
        shuffled: 500,
        ..Faults::default()
    };
    let story = |seed| {
        let world = SimWorld::new(seed, faults);
        let (mut net, listener) = listening(&world, 16);
        let mut peer = world.raw_connect(CLIENT, &at(7777));
        peer.write(&[7; 1_000]);
        world.advance(30 * MS);
        let (mut stream, _) = net.accept(&listener).expect("a client waits");
        net.register(&mut stream, 0).expect("the poller has room");
        for _ in 0..50 {
            net.wait(Some(MS), &mut Vec::new()).expect("a simulated poller works");
            let _ = net.recv(&mut stream, &mut [0; 99]);
        }
        world.trace_hash()
    };
    assert_eq!(story(1), story(1));
    assert_ne!(story(1), story(2));
}

#[test]
fn a_forgotten_connection_costs_nothing() {
    let world = SimWorld::new(1, Faults::default());
    let (mut net, listener) = listening(&world, 16);
    for _ in 0..10 {
        let peer = world.raw_connect(CLIENT, &at(7777));
        world.advance(MS);
        let (stream, _) = net.accept(&listener).expect("a client waits");
        net.close(stream);
        peer.close();
    }
    let world = lock(&world.world);
    assert!(world.conns.iter().all(Option::is_none));
}
