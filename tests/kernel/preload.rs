//! System calls that fail below mio: the real seam behaves like the simulated one (`tests/sim/torture`).

use std::path::PathBuf;
use std::process::Command;
use std::sync::OnceLock;

use tickwire::{Builder, DisconnectReason};

use crate::common::{Pair, Seen, pattern};
use crate::{again, is_inside, passed};

/// The library that makes calls fail, compiled once.
fn shim() -> &'static PathBuf {
    static SHIM: OnceLock<PathBuf> = OnceLock::new();
    SHIM.get_or_init(|| {
        let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/kernel/shim.c");
        let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
        let (new, library) =
            (folder.join(format!("shim-{}.so", std::process::id())), folder.join("shim.so"));
        let compiled = Command::new("cc")
            .args(["-shared", "-fPIC", "-O1", "-o"])
            .arg(&new)
            .args([source, "-ldl"])
            .output()
            .expect("a C compiler, which Rust links with");
        assert!(compiled.status.success(), "{}", String::from_utf8_lossy(&compiled.stderr));
        std::fs::rename(&new, &library).expect("a folder of ours");
        library
    })
}

/// Whether this is the process whose calls fail. Outside: runs it there, with every nth call of each kind failing, and sees
/// that all of them came.
fn with_faults(test: &str, faults: &[(&str, u32)]) -> bool {
    if is_inside() {
        return true;
    }
    let text: Vec<String> = faults.iter().map(|(name, every)| format!("{name}={every}")).collect();
    let output = again("env", &[], test)
        .env("LD_PRELOAD", shim())
        .env("SHIM", text.join(" "))
        .output()
        .expect("it runs");
    let told = passed(&output);
    for (name, _) in faults {
        let line = told.lines().rfind(|line| line.starts_with(&format!("shim: {name}=")));
        let came = line.and_then(|line| line.split_once('=')?.1.parse::<u32>().ok());
        assert!(came > Some(0), "{name} did not come: {told}");
    }
    false
}

/// Messages of many sizes in both directions, over a few connections, to the orderly end.
fn talk(connections: usize) {
    let builder = || Builder::new().frame_len_max(100_000).send_queue_max(4 << 20);
    let mut pair = Pair::new(builder(), builder());
    let (theirs, ours): (Vec<_>, Vec<_>) = (0..connections).map(|_| pair.connect()).unzip();
    let said: Vec<Vec<u8>> =
        (0..60).map(|number| pattern(1 + number * number * 25 % 90_000)).collect();
    for payload in &said {
        for conn in &ours {
            pair.client.outbox().send(*conn, payload).expect("room");
        }
        // Large ones are shared, and leave gathered.
        assert_eq!(pair.server.outbox().broadcast(&theirs, payload).refused, []);
        pair.tick();
    }
    let all = connections * said.len();
    pair.until(|pair| pair.at_server.len() >= all && pair.at_client.len() >= all);
    for (seen, conns) in [(&pair.at_server, &theirs), (&pair.at_client, &ours)] {
        for conn in conns {
            let of_it = seen.iter().filter_map(|seen| match seen {
                Seen::Message(of, payload) if of == conn => Some(payload),
                _ => None,
            });
            assert!(of_it.eq(&said), "all of {conn}'s, in order");
        }
    }
    pair.at_server.clear();
    pair.at_client.clear();
    for conn in &ours {
        assert!(pair.client.outbox().close(*conn));
    }
    pair.until(|pair| pair.client.connections() == 0 && pair.server.connections() == 0);
    for (seen, reason) in [
        (&pair.at_client, DisconnectReason::ClosedByUs),
        (&pair.at_server, DisconnectReason::ClosedByPeer),
    ] {
        assert_eq!(seen.len(), connections);
        let is_it = |seen: &Seen| matches!(seen, Seen::Disconnected(_, why) if *why == reason);
        assert!(seen.iter().all(is_it), "{seen:?}");
    }
}

#[test]
fn short_reads_and_writes_lose_nothing() {
    let faults = [("recv_short", 3), ("send_short", 3)];
    if with_faults("preload::short_reads_and_writes_lose_nothing", &faults) {
        talk(3);
    }
}

#[test]
fn interrupted_calls_are_no_news() {
    let faults = [("recv_eintr", 3), ("send_eintr", 3), ("wait_eintr", 4), ("accept_eintr", 2)];
    if with_faults("preload::interrupted_calls_are_no_news", &faults) {
        talk(3);
    }
}

#[test]
fn a_lack_of_memory_is_waited_out() {
    let faults = [("recv_enomem", 5), ("send_enobufs", 5)];
    if with_faults("preload::a_lack_of_memory_is_waited_out", &faults) {
        talk(2);
    }
}

#[test]
fn failed_accepts_cost_nobody_the_connection() {
    let faults = [("accept_aborted", 3), ("accept_emfile", 7)];
    if with_faults("preload::failed_accepts_cost_nobody_the_connection", &faults) {
        talk(10);
    }
}

/// connect(2): the attempt goes on in the background, as after EINPROGRESS.
#[test]
fn an_interrupted_connect_goes_on() {
    if with_faults("preload::an_interrupted_connect_goes_on", &[("connect_eintr", 2)]) {
        talk(4);
    }
}
