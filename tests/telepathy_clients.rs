//! Telepathy's clients as they are, on the example `mmo`: `telepathy_client.cs` does on the wire what they do, under
//! Mono, with one write for all that waits and with one for each header and payload. `examples.rs` tells how the
//! examples get built.
#![cfg(unix)]

mod common;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use common::process::{Process, are_installed, build_c_sharp};

/// How a client writes, and the other one.
const WRITES: [(&str, &str); 2] = [("merged", "two"), ("two", "merged")];

#[test]
fn two_players_log_in_walk_chat_and_leave() {
    if !are_installed(&["mcs", "mono"], "mono-mcs mono-runtime") {
        return;
    }
    for (anns, bobs) in WRITES {
        let (mut server, port) = start_server("mmo", &[]);
        let mut ann = Player::log_in(&port, anns, "Ann");
        ann.hears(&["welcome 1", "spawn 1 Ann 0,0"]);
        let mut bob = Player::log_in(&port, bobs, "Bob");
        bob.hears(&["welcome 2", "spawn 1 Ann 0,0", "spawn 2 Bob 0,0"]);
        ann.hears(&["spawn 2 Bob 0,0"]);

        // The server lets nobody jump: five steps a frame at most.
        ann.says("walk 12 -7");
        for player in [&mut ann, &mut bob] {
            player.hears(&["places 1:5,-5 2:0,0", "places 1:10,-7 2:0,0", "places 1:12,-7 2:0,0"]);
        }
        bob.says("chat hello, Ännchen");
        for player in [&mut ann, &mut bob] {
            player.hears(&["said 2 hello, Ännchen"]);
        }
        // Both at once.
        ann.says("walk 0 0");
        bob.says("walk 32767 -32768");
        for player in [&mut ann, &mut bob] {
            player.process.stdout.wait_for("1:0,0");
        }
        bob.says("walk 0 0");

        // The same client comes again, and is somebody else: what was is not mixed up with what is.
        ann.says("disconnect");
        ann.process.stdout.wait_for("disconnected");
        bob.process.stdout.wait_for("despawn 1");
        ann.connects();
        ann.says("login Ann");
        ann.hears(&["welcome 3"]);
        ann.process.stdout.wait_for("spawn 2 Bob ");
        ann.process.stdout.wait_for("spawn 3 Ann 0,0");
        bob.process.stdout.wait_for("spawn 3 Ann 0,0");

        server.signal("TERM");
        for player in [&mut ann, &mut bob] {
            player.process.stdout.wait_for("disconnected");
        }
        assert_eq!(server.end().code, Some(0));
    }
}

/// In Telepathy, what is sent before a disconnect is lost nearly always.
#[test]
fn a_refusal_arrives_before_the_end_every_time() {
    if !are_installed(&["mcs", "mono"], "mono-mcs mono-runtime") {
        return;
    }
    let (mut server, port) = start_server("mmo", &[]);
    let mut ann = Player::log_in(&port, "merged", "Ann");
    ann.hears(&["welcome 1", "spawn 1 Ann 0,0"]);
    let mut other = Player::start(&port, "merged", "mmo");
    for (name, why) in [
        ("Ann", "the name is taken"),
        ("", "a name has 1 to 16 letters and digits"),
        ("no spaces", "a name has 1 to 16 letters and digits"),
        ("Abcdefghijklmnopq", "a name has 1 to 16 letters and digits"),
    ] {
        for _ in 0..10 {
            other.connects();
            other.says(&format!("login {name}"));
            other.hears(&[&format!("refused {why}"), "disconnected"]);
            server.stderr.wait_for("disconnected: closed by us");
        }
    }
    ann.says("chat still here");
    ann.hears(&["said 1 still here"]);
}

#[test]
fn who_breaks_the_rules_goes_and_nobody_else() {
    if !are_installed(&["mcs", "mono"], "mono-mcs mono-runtime") {
        return;
    }
    let (mut server, port) = start_server("mmo", &[]);
    let mut ann = Player::log_in(&port, "merged", "Ann");
    ann.hears(&["welcome 1", "spawn 1 Ann 0,0"]);
    let mut other = Player::start(&port, "two", "mmo");
    for (deed, reason) in [
        // A zero is taken by Telepathy's Send and held against the sender by the other side.
        ("send 0", "bad frame: empty frame"),
        ("raw 00000000", "bad frame: empty frame"),
        ("raw 00004001", "frame too large: 16385 bytes announced, 16384 allowed"),
        ("raw 00008000", "frame too large: 32768 bytes announced, 16384 allowed"),
        ("raw 80000000", "frame too large: 2147483648 bytes announced, 16384 allowed"),
        ("raw ffffffff", "frame too large: 4294967295 bytes announced, 16384 allowed"),
        // What came before counts: a login, and a header that is too large in the same write.
        ("raw 0000000501034576657fffffff", "frame too large: 2147483647 bytes announced"),
        ("raw 0000000163", "kicked"),
        ("raw 000000020163", "kicked"),
        ("chat before the login", "kicked"),
        ("walk 1 1", "kicked"),
    ] {
        other.connects();
        other.says(deed);
        other.process.stdout.wait_for("disconnected");
        server.stderr.wait_for(&format!("disconnected: {reason}"));
    }
    for (deeds, reason) in [
        (&["disconnect"][..], "closed by the peer"),
        (&["raw 0000", "disconnect"], "closed by the peer in the middle of a frame"),
        (&["raw 000000050103", "disconnect"], "closed by the peer in the middle of a frame"),
    ] {
        other.connects();
        for deed in deeds {
            other.says(deed);
        }
        other.process.stdout.wait_for("disconnected");
        let line = server.stderr.wait_for("disconnected: ");
        assert!(line.ends_with(&format!("disconnected: {reason}")), "{deeds:?}: {line}");
    }
    // A crash says no goodbye.
    other.connects();
    other.says("login Other");
    other.process.stdout.wait_for("welcome");
    other.says("raw 00000005010345");
    other.process.stdout.wait_for("written");
    ann.says("chat still here");
    for player in [&mut ann, &mut other] {
        player.process.stdout.wait_for("said 1 still here");
    }
    other.process.signal("KILL");
    server.stderr.wait_for("disconnected: closed by the peer in the middle of a frame");
    ann.process.stdout.wait_for("despawn");
}

#[test]
fn messages_arrive_however_they_are_cut() {
    if !are_installed(&["mcs", "mono"], "mono-mcs mono-runtime") {
        return;
    }
    let (_server, port) = start_server("mmo", &[]);
    let mut eve = Player::start(&port, "merged", "mmo");
    eve.connects();
    eve.says("crumbs 000000050103457665"); // login Eve, byte by byte
    eve.hears(&["written", "welcome 1", "spawn 1 Eve 0,0"]);
    // Two chats, the second of them cut in its header, its length, and its text.
    eve.says("raw 0000000403000161000000");
    eve.hears(&["written", "said 1 a"]);
    for piece in ["raw 05030002", "raw 62", "raw 63"] {
        eve.says(piece);
        eve.hears(&["written"]);
    }
    eve.hears(&["said 1 bc"]);
}

#[test]
fn the_largest_message_and_bursts_come_back_whole() {
    if !are_installed(&["mcs", "mono"], "mono-mcs mono-runtime") {
        return;
    }
    for (writes, _) in WRITES {
        let (_server, port) = start_server("echo", &["--framing", "telepathy"]);
        let mut client = Player::start(&port, writes, "echo");
        client.connects();
        for size in [1, 100, 1_000, 16_384] {
            client.says(&format!("send {size}"));
            client.hears(&["sent: True", &format!("echo 0 of {size} bytes")]);
        }
        client.says("send 16385");
        client.hears(&["sent: False"]); // its own limit
        client.says("burst 2000 100");
        for number in 0..2_000 {
            client.hears(&[&format!("echo {number} of 100 bytes")]);
        }
    }
}

/// What docs/from-telepathy.md shows of the server is what is tested here.
#[test]
fn the_page_quotes_the_example() {
    let file = |path: &str| {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
        std::fs::read_to_string(path).expect("a file of the repository")
    };
    let (page, example) = (file("docs/from-telepathy.md"), file("examples/mmo.rs"));
    let quotes: Vec<_> = page.split("```rust\n").skip(1).collect();
    assert!(quotes.len() >= 4, "the quotes were found");
    for quote in quotes {
        let (quote, _) = quote.split_once("```").expect("an end");
        assert!(example.contains(quote), "not in examples/mmo.rs:\n{quote}");
    }
}

// Helpers

struct Player {
    process: Process,
}

impl Player {
    fn start(port: &str, writes: &str, what: &str) -> Player {
        static BUILT: OnceLock<PathBuf> = OnceLock::new();
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/telepathy_client.cs");
        let client = BUILT.get_or_init(|| build_c_sharp(&source));
        let mut command = Command::new("mono");
        command.arg(client).args(["127.0.0.1", port, writes, what]);
        command.env("LANG", "C.UTF-8").env_remove("LC_ALL").stdin(Stdio::piped());
        Player { process: Process::of(&mut command) }
    }

    fn log_in(port: &str, writes: &str, name: &str) -> Player {
        let mut player = Player::start(port, writes, "mmo");
        player.connects();
        player.says(&format!("login {name}"));
        player
    }

    fn connects(&mut self) {
        self.says("connect");
        self.hears(&["connected"]);
    }

    fn says(&mut self, line: &str) {
        self.process.write_line(line);
    }

    /// These lines, and nothing else before or between them.
    fn hears(&mut self, lines: &[&str]) {
        for line in lines {
            assert_eq!(self.process.stdout.wait_for(""), *line);
        }
    }
}

/// An example on a free port, and that.
fn start_server(example: &str, args: &[&str]) -> (Process, String) {
    let mut server = Process::start(example, &[&["--listen", "127.0.0.1:0"], args].concat());
    let port = server.addr().port().to_string();
    (server, port)
}
