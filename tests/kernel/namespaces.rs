//! Networks that lose, swallow, refuse, cut and run out of ports: in network namespaces of their own, where nobody else is
//! hurt. Skipped, with the reason, where the kernel does not allow one (also in CI); in CI the tools have to be there.

use std::process::Command;
use std::time::{Duration, Instant};

use tickwire::{
    Builder, ConnectFailure, DisconnectReason, Event, ListenOptions, Reactor, SocketOptions, Wait,
};

use crate::common::{Client, Pair, Seen, accept, pattern, pump};
use crate::{again, is_inside, passed};

/// Whether this process is in a namespace of its own, prepared by `setup`, a script. Outside: runs the test there.
fn in_namespace(test: &str, setup: &str) -> bool {
    if is_inside() {
        return true;
    }
    // As root at once; otherwise as the root of a user namespace.
    let ways = [&["--net"][..], &["--net", "--user", "--map-root-user"]];
    let mut refusals = Vec::new();
    let way = ways.into_iter().find(|way| {
        match Command::new("unshare").args(*way).args(["ip", "link", "set", "lo", "up"]).output() {
            Ok(output) if output.status.success() => true,
            Ok(output) => {
                refusals.push(String::from_utf8_lossy(&output.stderr).trim().to_owned());
                false
            }
            Err(error) => {
                refusals.push(error.to_string());
                false
            }
        }
    });
    for tool in ["unshare", "ip", "nft", "ss"] {
        if Command::new(tool).arg("--help").output().is_err() {
            let how = format!("there is no `{tool}` (Debian: util-linux, iproute2, nftables)");
            assert!(std::env::var_os("CI").is_none(), "{how}");
            println!("skipped: {how}");
            return false;
        }
    }
    let Some(way) = way else {
        println!("skipped: no network namespace to be had: {}", refusals.join("; "));
        return false;
    };
    // `setup` first, so that what it cannot do is told apart from what the test finds wrong.
    let script = format!("ip link set lo up && {{ {setup}\n}} || exit 99; exec \"$0\" \"$@\"");
    let args: Vec<&str> = way.iter().copied().chain(["sh", "-c", &script]).collect();
    let output = again("unshare", &args, test).output().expect("it ran before");
    if output.status.code() == Some(99) {
        let why = String::from_utf8_lossy(&output.stderr);
        println!("skipped: the kernel does not do this here: {}", why.trim());
        return false;
    }
    passed(&output);
    let told = String::from_utf8_lossy(&output.stdout);
    told.lines().filter(|line| line.starts_with("measured: ")).for_each(|line| println!("{line}"));
    false
}

/// A table with one chain for what comes in.
const CHAIN: &str = "nft add table ip t && \
    nft 'add chain ip t in { type filter hook input priority 0; }'";

fn sh(script: &str) {
    let output = Command::new("sh").args(["-c", script]).output().expect("a shell");
    assert!(output.status.success(), "{script}: {}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn what_the_network_loses_arrives_all_the_same() {
    // Without the limit a "packet" of the loopback is as large as what is sent at once.
    let setup = format!(
        "{CHAIN} && ip link set lo mtu 1500 gso_max_segs 1 && \
         nft add rule ip t in tcp dport 1-65535 numgen inc mod 20 == 7 counter drop"
    );
    if !in_namespace("namespaces::what_the_network_loses_arrives_all_the_same", &setup) {
        return;
    }
    let mut pair = Pair::new(Builder::new(), Builder::new());
    let (theirs, ours) = pair.connect();
    let begun = Instant::now();
    for number in 0..100u8 {
        pair.client.outbox().send(ours, &[number; 2_000]).expect("room");
        pair.server.outbox().send(theirs, &[number; 2_000]).expect("room");
        pair.tick();
    }
    pair.until(|pair| pair.at_server.len() == 100 && pair.at_client.len() == 100);
    for (seen, conn) in [(&pair.at_server, theirs), (&pair.at_client, ours)] {
        let all = (0..100u8).map(|number| Seen::Message(conn, vec![number; 2_000]));
        assert!(seen.iter().cloned().eq(all), "in order");
    }
    let rules = Command::new("nft").args(["list", "chain", "ip", "t", "in"]).output();
    let rules = String::from_utf8_lossy(&rules.expect("it ran before").stdout).into_owned();
    let mut words = rules.split_whitespace().skip_while(|word| *word != "packets");
    let lost: u32 = words.nth(1).and_then(|number| number.parse().ok()).expect("a counter");
    assert!(lost >= 10, "only {lost} packets were lost");
    println!("measured: 2 x 200 KB in {:?}, {lost} packets lost", begun.elapsed());
}

/// MirrorNetworking/Telepathy#86, with a network that swallows everything: see also `o16_` in `tests/cases`.
#[test]
fn o16_connecting_to_a_black_hole_cannot_be_cancelled() {
    let setup = format!(
        "{CHAIN} && nft add rule ip t in ip daddr 127.0.0.9 drop && \
         nft add rule ip t in ip daddr 127.0.0.8 reject with tcp reset && \
         nft add rule ip t in ip daddr 127.0.0.7 reject with icmp type host-unreachable"
    );
    let test = "namespaces::o16_connecting_to_a_black_hole_cannot_be_cancelled";
    if !in_namespace(test, &setup) {
        return;
    }
    let mut pair =
        Pair::new(Builder::new(), Builder::new().connect_timeout(Duration::from_millis(300)));
    let cancelled = pair.client.connect("127.0.0.9:7777").expect("an id");
    for _ in 0..5 {
        pair.tick();
    }
    assert!(pair.client.outbox().close(cancelled));
    let silent = pair.client.connect("127.0.0.9:7777").expect("an id");
    let refused = pair.client.connect("127.0.0.8:7777").expect("an id");
    let unreachable = pair.client.connect("127.0.0.7:7777").expect("an id");
    let alive = pair.client.connect(pair.addr).expect("an id");
    pair.client.outbox().send(alive, b"hello").expect("room");
    pair.until(|pair| pair.at_client.len() == 5 && pair.at_server.len() == 2);
    for expected in [
        Seen::ConnectFailed(cancelled, ConnectFailure::Cancelled),
        Seen::ConnectFailed(silent, ConnectFailure::TimedOut),
        Seen::ConnectFailed(refused, ConnectFailure::Refused),
        Seen::ConnectFailed(unreachable, ConnectFailure::Unreachable),
        Seen::Connected(alive),
    ] {
        assert!(pair.at_client.contains(&expected), "{expected:?} in {:?}", pair.at_client);
    }
    (0..5).for_each(|_| pair.tick());
    assert_eq!(
        (pair.at_client.len(), pair.client.connections()),
        (5, 1),
        "each attempt has one outcome"
    );
}

#[test]
fn a_peer_that_the_network_swallows_ends_in_time() {
    let setup = format!("{CHAIN} && echo 1 > /proc/sys/net/ipv4/tcp_syn_retries");
    if !in_namespace("namespaces::a_peer_that_the_network_swallows_ends_in_time", &setup) {
        return;
    }
    // By our idle timeout, and by the system's user timeout for what nobody acknowledges.
    let user_timeout = SocketOptions::new().user_timeout(Duration::from_millis(500));
    for (builder, reason) in [
        (Builder::new().idle_timeout(Duration::from_millis(300)), DisconnectReason::Idle),
        (Builder::new().socket_options(user_timeout), DisconnectReason::TimedOut),
    ] {
        let mut reactor = builder.build().expect("usable");
        let listener = reactor.listen("127.0.0.1:0").expect("a free port");
        let addr = reactor.local_addr(listener).and_then(|addr| addr.as_socket_addr());
        let client = Client::connect(addr.expect("it listens"));
        let conn = accept(&mut reactor);
        sh("nft add rule ip t in drop");
        let begun = Instant::now();
        reactor.outbox().send(conn, b"still there?").expect("room");
        pump(&mut reactor, |event, _| {
            assert_eq!(event, Event::Disconnected { conn, reason });
            true
        });
        println!("measured: {reason} after {:?}", begun.elapsed());
        sh("nft flush chain ip t in");
        drop(client);
    }
}

#[test]
fn tiny_segments_are_the_same_stream() {
    let test = "namespaces::tiny_segments_are_the_same_stream";
    if !in_namespace(test, "ip link set lo mtu 576 gso_max_segs 1") {
        return;
    }
    let mut pair =
        Pair::new(Builder::new().frame_len_max(200_000), Builder::new().frame_len_max(200_000));
    let (theirs, ours) = pair.connect();
    for len in [200_000, 1, 576, 20_480, 536, 535] {
        pair.client.outbox().send(ours, &pattern(len)).expect("room");
        pair.until(|pair| !pair.at_server.is_empty());
        assert!(pair.at_server == [Seen::Message(theirs, pattern(len))], "{len} bytes");
        pair.at_server.clear();
    }
    println!("measured: {} receives", pair.server.stats().receives);
}

#[test]
fn without_a_free_port_a_connect_fails_and_the_next_may_not() {
    let test = "namespaces::without_a_free_port_a_connect_fails_and_the_next_may_not";
    if !in_namespace(test, "echo '40000 40009' > /proc/sys/net/ipv4/ip_local_port_range") {
        return;
    }
    let mut server = Reactor::new().expect("a poller");
    server.listen("127.0.0.1:7777").expect("a free port");
    let mut client = Reactor::new().expect("a poller");
    let conns: Vec<_> = (0..10).map(|_| client.connect("127.0.0.1:7777").expect("an id")).collect();
    let late = client.connect("127.0.0.1:7777").expect("an id");
    let (mut connected, mut failed) = (0, 0);
    pump(&mut client, |event, _| {
        match event {
            Event::Connected { .. } => connected += 1,
            Event::ConnectFailed { conn, reason } => {
                assert_eq!((conn, reason), (late, ConnectFailure::AddrNotAvailable));
                failed += 1;
            }
            other => panic!("{other:?}"),
        }
        connected + failed == 11
    });
    assert_eq!((connected, failed), (10, 1));
    // A reset leaves no TIME_WAIT behind.
    assert!(client.outbox().kick(conns[3]));
    pump(&mut client, |event, _| matches!(event, Event::Disconnected { .. }));
    let next = client.connect("127.0.0.1:7777").expect("an id");
    pump(&mut client, |event, _| {
        assert!(matches!(event, Event::Connected { conn, .. } if conn == next), "{event:?}");
        true
    });
}

/// `ss -K` tells our side ECONNABORTED, the peer's a reset.
#[test]
fn a_socket_that_the_operator_kills_ends_with_its_reason() {
    let test = "namespaces::a_socket_that_the_operator_kills_ends_with_its_reason";
    if !in_namespace(test, "true") {
        return;
    }
    let mut reactor = Reactor::new().expect("a poller");
    let options = ListenOptions::new();
    let listener = reactor.listen_with("127.0.0.1:0", &options).expect("a free port");
    let addr = reactor.local_addr(listener).and_then(|addr| addr.as_socket_addr());
    let mut killed = Client::connect(addr.expect("it listens"));
    let conn = accept(&mut reactor);
    let mut other = Client::connect(addr.expect("it listens"));
    let other_conn = accept(&mut reactor);
    let port = killed.stream.local_addr().expect("bound").port();
    killed.send(b"last words");
    sh(&format!("ss -K 'dport = :{port}'"));
    let left = Command::new("ss").args(["-tnH", &format!("dport = :{port}")]).output();
    if !left.expect("it ran before").stdout.is_empty() {
        println!("measured: nothing, since this kernel kills no sockets (INET_DIAG_DESTROY)");
        return;
    }
    let mut seen = Vec::new();
    pump(&mut reactor, |event, _| {
        seen.push(Seen::from(event));
        matches!(seen.last(), Some(Seen::Disconnected(..)))
    });
    let last =
        Seen::Disconnected(conn, DisconnectReason::Io(std::io::ErrorKind::ConnectionAborted));
    assert_eq!(seen.last(), Some(&last), "{seen:?}");
    assert_eq!(killed.read_to_end(), (vec![], false));
    other.send(b"not me");
    pump(&mut reactor, |event, _| event == Event::Message { conn: other_conn, payload: b"not me" });
    reactor.tick(Wait::No).expect("a poller").events.for_each(drop);
}
