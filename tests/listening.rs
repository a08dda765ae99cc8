//! Listeners: on real sockets.

mod common;

use std::net::{TcpListener, TcpStream};

use common::{Client, accept, pump, server, tick_until};
use tickwire::{Builder, Error, Event, Framing, ListenOptions, Reactor, Wait};

#[test]
fn several_listeners_are_told_apart() {
    let mut reactor = Reactor::new().expect("a poller");
    let first = reactor.listen("127.0.0.1:0").expect("a free port");
    let second = reactor.listen(([127, 0, 0, 1], 0)).expect("a free port");
    for wanted in [second, first] {
        let addr = reactor.local_addr(wanted).and_then(|addr| addr.as_socket_addr());
        let _client = Client::connect(addr.expect("it listens"));
        pump(&mut reactor, |event, _| match event {
            Event::Connected { listener, .. } => {
                assert_eq!(listener, Some(wanted));
                true
            }
            _ => false,
        });
    }
}

#[test]
fn a_port_in_use_says_so() {
    let (_taken, addr) = server(Builder::new());
    let mut reactor = Reactor::new().expect("a poller");
    let error = reactor.listen(addr).expect_err("it is taken");
    assert!(matches!(error, Error::Listen { .. }));
    let line = error.to_string();
    assert!(line.starts_with(&format!("cannot listen on {addr}: ")), "{line}");
    assert!(!line.contains('\n'));
}

/// As of several processes. Without the option on both, the port is in use.
#[test]
#[cfg(target_os = "linux")]
fn listeners_that_share_a_port_get_each_a_part_of_the_clients() {
    let mut reactors = [(); 2].map(|()| Reactor::new().expect("a poller"));
    let options = ListenOptions::new().reuse_port(true);
    let listener = reactors[0].listen_with("127.0.0.1:0", &options).expect("a free port");
    let addr = reactors[0].local_addr(listener).and_then(|addr| addr.as_socket_addr());
    let addr = addr.expect("it listens");
    reactors[1].listen(addr).expect_err("the port is shared with those only who ask for it");
    reactors[1].listen_with(addr, &options).expect("the port is shared");

    let clients: Vec<_> = (0..64).map(|_| Client::connect(addr)).collect();
    let [first, second] = &mut reactors;
    tick_until(first, |first| {
        second.tick(Wait::No).expect("a working poller").events.for_each(drop);
        first.connections() + second.connections() == clients.len()
    });
    // The system chooses by a hash of the addresses: that all 64 come to the same is out of the question.
    assert!(first.connections() > 0 && second.connections() > 0);
}

#[test]
fn a_port_is_free_again_at_once() {
    let (mut reactor, addr) = server(Builder::new());
    let client = Client::connect(addr);
    accept(&mut reactor);
    drop(reactor); // our side closes first, so TIME_WAIT is ours
    drop(client);
    let mut again = Reactor::new().expect("a poller");
    again.listen(addr).expect("a restart does not wait");
}

#[test]
fn closing_a_listener_leaves_its_connections() {
    let (mut reactor, addr) = server(Builder::new());
    let mut client = Client::connect(addr);
    let mut listener = None;
    pump(&mut reactor, |event, _| {
        let Event::Connected { listener: through, .. } = event else { return false };
        listener = through;
        true
    });
    let listener = listener.expect("it came through one");
    assert!(reactor.close_listener(listener));
    assert!(!reactor.close_listener(listener));
    assert_eq!(reactor.local_addr(listener), None);
    assert!(TcpStream::connect(addr).is_err());
    client.send(b"still here");
    pump(&mut reactor, |event, _| matches!(event, Event::Message { payload: b"still here", .. }));
}

#[test]
fn a_listener_bound_elsewhere_can_be_adopted() {
    let bound = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let addr = bound.local_addr().expect("it is bound");
    let waiting = Client::connect(addr); // before the reactor knows of it
    let mut reactor = Reactor::new().expect("a poller");
    let listener = reactor.listen_std(bound).expect("a listening socket");
    assert_eq!(reactor.local_addr(listener), Some(addr.into()));
    accept(&mut reactor);
    drop(waiting);
    tick_until(&mut reactor, |reactor| reactor.connections() == 0);
}

/// IPv6 alone by default, on every system; both only where it was asked for, and then an IPv4 peer is
/// shown with its IPv4 address.
#[test]
fn dual_stack_is_a_choice() {
    if TcpListener::bind("[::1]:0").is_err() {
        println!("skipped: this machine has no IPv6");
        return;
    }
    for dual_stack in [false, true] {
        let mut reactor = Reactor::new().expect("a poller");
        let options = ListenOptions::new().dual_stack(dual_stack);
        let listener = reactor.listen_with("[::]:0", &options).expect("a free port");
        let port = reactor.local_addr(listener).and_then(|addr| addr.port()).expect("a port");

        let _six = Client::connect((std::net::Ipv6Addr::LOCALHOST, port).into());
        accept(&mut reactor);
        let four = TcpStream::connect(("127.0.0.1", port));
        assert_eq!(four.is_ok(), dual_stack);
        if let Ok(four) = four {
            let local = four.local_addr().expect("it is bound");
            pump(&mut reactor, |event, _| {
                let Event::Connected { peer, .. } = event else { return false };
                assert_eq!(peer, local.into());
                true
            });
        }
    }
}

#[test]
fn telepathys_manners_are_chosen_per_listener() {
    let mut reactor = Reactor::new().expect("a poller");
    let options = ListenOptions::new().framing(Framing::Telepathy);
    let listener = reactor.listen_with("127.0.0.1:0", &options).expect("a free port");
    let addr = reactor.local_addr(listener).and_then(|addr| addr.as_socket_addr());
    let mut client = Client::connect(addr.expect("it listens"));
    let conn = accept(&mut reactor);
    let mut outbox = reactor.outbox();
    assert_eq!(outbox.send(conn, b""), Err(tickwire::SendError::Empty));
    outbox.send(conn, b"x").expect("room");
    reactor.flush();
    assert_eq!(client.receive(), b"x", "an empty frame would have come first");
    client.send(b"");
    pump(&mut reactor, |event, _| {
        let Event::Disconnected { reason, .. } = event else { return false };
        assert_eq!(reason.to_string(), "bad frame: empty frame");
        true
    });
}

#[test]
fn at_the_connection_limit_clients_wait_and_come_when_a_slot_frees() {
    let (mut reactor, addr) = server(Builder::new().connections_max(2));
    let mut clients: Vec<_> = (0..3).map(|_| Client::connect(addr)).collect();
    accept(&mut reactor);
    accept(&mut reactor);
    clients[2].send(b"patient");
    tick_until(&mut reactor, |reactor| reactor.stats().ticks > 10);
    assert_eq!(reactor.connections(), 2);
    drop(clients.remove(0));
    // No new client arrives: the one that waits is remembered.
    pump(&mut reactor, |event, _| matches!(event, Event::Message { payload: b"patient", .. }));
}
