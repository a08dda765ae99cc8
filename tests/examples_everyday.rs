//! The examples for everyday use, as people run them: `echo_client`, `chat`, `skirmish`, `slow_consumer`; of `mmo`
//! the command line (the rest: `telepathy_clients.rs`).
//! `examples.rs` tells how they get built.
#![cfg(unix)]

mod common;

use std::net::{SocketAddr, TcpListener};

use common::process::Process;
use common::{Client, frame};

// echo_client

#[test]
fn echo_client_checks_every_echo_and_sums_up() {
    for (count, size) in [("200", "100"), ("3", "16384"), ("2", "0"), ("0", "100")] {
        let (_echo, addr) = start_server("echo");
        let args = ["--connect", &addr, "--count", count, "--size", size];
        let end = Process::start("echo_client", &args).end();
        assert_eq!((end.code, end.stderr.len()), (Some(0), 0), "{end:?}");
        let start = format!("{count} echoes of {size} bytes, every byte as sent, ");
        assert!(
            end.stdout[0].starts_with(&start) && end.stdout[0].ends_with(" a second"),
            "{end:?}"
        );
        for figure in ["p50 ", "p99 ", "max ", " ms"] {
            assert!(end.stdout[1].contains(figure), "{end:?}");
        }
    }
}

#[test]
fn echo_client_shows_what_comes_back_of_the_lines_it_is_given() {
    let (mut echo, addr) = start_server("echo");
    let mut client = Process::start_typed_to("echo_client", &["--connect", &addr]);
    client.stdout.wait_for(&format!("connected to {addr}"));
    client.write_line("hello");
    client.stdout.wait_for("hello");
    for number in 0..1_000 {
        client.write_line(&number.to_string());
    }
    client.end_input();
    let end = client.end();
    assert_eq!(end.code, Some(0), "{end:?}");
    assert!(
        end.stdout[2..].iter().map(String::as_str).eq((0..1_000).map(|n| n.to_string())),
        "{end:?}"
    );
    echo.stderr.wait_for("left: closed by the peer");
}

#[test]
fn echo_client_notices_an_echo_that_is_not_what_was_sent() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let addr = listener.local_addr().expect("it is bound").to_string();
    let args = ["--connect", &addr, "--count", "5"];
    let mut client = Process::start("echo_client", &args);
    let (stream, _) = listener.accept().expect("it connects");
    let mut server = Client { stream };
    let mut payload = server.receive();
    server.send(&payload);
    payload = server.receive();
    payload[99] ^= 1;
    server.send(&payload);
    let end = client.end();
    assert_eq!(end.code, Some(1), "{end:?}");
    assert!(end.only_error().contains("not what was sent"), "{end:?}");
}

#[test]
fn echo_client_says_why_it_cannot_go_on() {
    let nobody = {
        let free = TcpListener::bind("127.0.0.1:0").expect("a free port");
        free.local_addr().expect("it is bound").to_string()
    };
    let end = Process::start("echo_client", &["--connect", &nobody]).end();
    assert_eq!(end.code, Some(1), "{end:?}");
    assert_eq!(end.only_error(), format!("cannot connect to {nobody}: connection refused"));

    // The server takes 16 KiB.
    let (_echo, addr) = start_server("echo");
    let args = ["--connect", &addr, "--count", "1", "--size", "20000"];
    let end = Process::start("echo_client", &args).end();
    assert_eq!(end.code, Some(1), "{end:?}");
    assert!(end.only_error().starts_with("the connection is lost: "), "{end:?}");
}

#[test]
fn echo_client_ends_well_on_ctrl_c() {
    let (mut echo, addr) = start_server("echo");
    let mut client = Process::start_typed_to("echo_client", &["--connect", &addr]);
    client.stdout.wait_for("connected to");
    client.signal("INT");
    assert_eq!(client.end().code, Some(0));
    echo.stderr.wait_for("left: closed by the peer");

    let args = ["--connect", &addr, "--count", "1000000000"];
    let mut client = Process::start("echo_client", &args);
    echo.stderr.wait_for("joined");
    client.signal("INT");
    let end = client.end();
    assert_eq!((end.code, end.stdout.len()), (Some(0), 2), "{end:?}");
}

// chat

#[test]
fn chat_tells_who_joins_what_they_say_and_who_leaves() {
    let (mut chat, addr) = start_server("chat");
    let mut ann = join(&addr, "Ann");
    let mut bob = join(&addr, " Bob\u{1b}[31m");
    assert_eq!(receive(&mut ann), "* Bob[31m joined", "what a terminal would obey is taken out");
    bob.send("hello, Ann".as_bytes());
    for client in [&mut ann, &mut bob] {
        assert_eq!(receive(client), "Bob[31m: hello, Ann");
    }
    ann.send(b"/who");
    assert_eq!(receive(&mut ann), "2 here: Ann, Bob[31m");

    bob.send(b"/quit");
    assert_eq!(receive(&mut bob), "Goodbye, Bob[31m.");
    assert_eq!(bob.read_to_end(), (vec![], true), "an end in order, after the goodbye");
    assert_eq!(receive(&mut ann), "* Bob[31m left");
    drop(bob);
    let cy = join(&addr, "Cy");
    assert_eq!(receive(&mut ann), "* Cy joined");
    cy.reset();
    assert_eq!(receive(&mut ann), "* Cy left");

    chat.signal("TERM");
    assert_eq!(receive(&mut ann), "* the server stops");
    assert_eq!(ann.read_to_end(), (vec![], true));
    drop(ann);
    let end = chat.end();
    assert_eq!(end.code, Some(0), "{end:?}");
}

#[test]
fn chat_wants_names_that_are_short_and_free() {
    let (_chat, addr) = start_server("chat");
    let _ann = join(&addr, "Ann");
    let mut other = Client::connect(addr.parse().expect("an address"));
    assert_eq!(receive(&mut other), "Welcome! What is your name?");
    for (name, answer) in [
        ("Ann", "There is a Ann already. Your name?"),
        ("somebody with a very long name", "At most 20 characters"),
        ("/root", "At most 20 characters"),
    ] {
        other.send(name.as_bytes());
        assert!(receive(&mut other).starts_with(answer), "{name}");
    }
    other.send(b""); // no name, and no answer
    other.send(&[0xff, b'x']); // no UTF-8, but a name
    assert_eq!(receive(&mut other), "* \u{fffd}x joined");
    // A line of the largest size is cut, not refused.
    other.send(&[b'a'; 16_384]);
    assert_eq!(receive(&mut other), format!("\u{fffd}x: {}", "a".repeat(500)));
}

#[test]
fn chat_lets_go_who_does_not_read_and_serves_the_others() {
    let (mut chat, addr) = start_server("chat");
    let mut ann = join(&addr, "Ann");
    let _sleepy = join(&addr, "Sleepy"); // reads no more
    assert_eq!(receive(&mut ann), "* Sleepy joined");
    let line = [b'a'; 500];
    let lines = frame(&line).repeat(50);
    loop {
        ann.write(&lines);
        let heard: Vec<_> = (0..50).map(|_| receive(&mut ann)).collect();
        if heard.iter().any(|line| line == "* Sleepy left") {
            break;
        }
        assert!(heard.iter().all(|line| line.len() == 505));
    }
    chat.stderr.wait_for("Sleepy, does not read and is let go");
    chat.stderr.wait_for("disconnected: send queue full");
}

#[test]
fn chat_can_be_used_from_echo_client() {
    let (_chat, addr) = start_server("chat");
    let mut client = Process::start_typed_to("echo_client", &["--connect", &addr]);
    client.stdout.wait_for("Welcome! What is your name?");
    client.write_line("Ann");
    client.stdout.wait_for("* Ann joined");
    client.write_line("hello");
    client.stdout.wait_for("Ann: hello");
    client.write_line("/quit");
    client.stdout.wait_for("Goodbye, Ann.");
    let end = client.end();
    assert_eq!(end.code, Some(0), "{end:?}");
    assert_eq!(end.stdout.last().map(String::as_str), Some("the server has closed the connection"));
}

// skirmish

#[test]
fn skirmish_ends_with_the_same_world_for_the_same_seed() {
    let world = |seed: &str| {
        let args = ["--players", "20", "--secs", "1", "--inputs", "20", "--seed", seed];
        let end = Process::start("skirmish", &args).end();
        assert_eq!((end.code, end.stderr.len()), (Some(0), 0), "{end:?}");
        let last = end.stdout.last().expect("a result");
        let (before, world) = last.rsplit_once(": world ").expect("the world");
        assert!(before.ends_with(&format!(" snapshots, 400 inputs, seed {seed}")), "{last}");
        world.to_owned()
    };
    let first = world("1");
    assert_eq!(first, world("1"));
    assert_ne!(first, world("2"));
}

#[test]
fn skirmish_says_once_a_second_how_it_goes() {
    let mut skirmish = Process::start("skirmish", &["--players", "10", "--secs", "60"]);
    for _ in 0..2 {
        let line = skirmish.stdout.wait_for("work ");
        for figure in ["late ", " inputs/s", " sends/s", " MB/s", "CPU "] {
            assert!(line.contains(figure), "{line}");
        }
        assert_eq!(line.ends_with(" %"), cfg!(target_os = "linux"), "{line}");
    }
    skirmish.signal("INT");
    let end = skirmish.end();
    assert_eq!(end.code, Some(0), "{end:?}");
    assert!(end.stdout.last().is_some_and(|line| line.contains(": world ")), "{end:?}");
}

// slow_consumer

#[test]
fn slow_consumer_tells_its_four_scenes() {
    for args in [&[][..], &["--queue", "65536"]] {
        let end = Process::start("slow_consumer", args).end();
        assert_eq!((end.code, end.stderr.len()), (Some(0), 0), "{end:?}");
        let told = end.stdout.join("\n");
        for scene in ["\n1. ", "\n2. ", "\n3. ", "\n4. "] {
            assert!(told.contains(scene), "{told}");
        }
        for line in [
            "then `send` says Err(Full)",
            "client, `send` says Ok(())",
            "left out 0;",
            "left out 1000;",
            "`pause_read`",
            "`resume_read`",
            "Disconnected: send queue full",
        ] {
            assert!(told.contains(line), "{line}: {told}");
        }
        let numbers = |part: &str| -> Vec<usize> {
            let line = end.stdout.iter().find(|line| line.contains(part)).expect("a line");
            line.split(|c: char| !c.is_ascii_digit()).filter_map(|n| n.parse().ok()).collect()
        };
        let [questions, answers] = numbers(" questions, ")[..] else { panic!("{told}") };
        assert_eq!(questions, answers, "paused, not lost");
    }
}

// As commands

#[test]
fn the_help_pages_are_complete() {
    for (example, options) in [
        ("echo_client", &["--connect", "--count", "--size", "--help"][..]),
        ("chat", &["--listen", "--help"]),
        ("mmo", &["--listen", "--help"]),
        ("skirmish", &["--players", "--secs", "--inputs", "--seed", "--help"]),
        ("slow_consumer", &["--queue", "--help"]),
    ] {
        let end = Process::start(example, &["--help"]).end();
        assert_eq!((end.code, end.stderr.len()), (Some(0), 0), "{end:?}");
        let page = end.stdout.join("\n");
        for option in options {
            assert!(page.contains(&format!("\n  {option} ")), "{example} {option}: {page}");
        }
        assert!(page.contains("[default: "), "{page}");
    }
}

#[test]
fn arguments_that_make_no_sense_are_refused_in_a_line() {
    for (example, args, mention) in [
        ("echo_client", &["--connect", "localhost:7777"][..], "IP:PORT"),
        ("echo_client", &["--size", "1048577"], "choose 0 to 1048576"),
        ("echo_client", &["--count", "-1"], "-1"),
        ("chat", &["--listen", "7777"], "IP:PORT"),
        ("chat", &["--fps", "60"], "--fps"),
        ("mmo", &["--listen", "7777"], "IP:PORT"),
        ("mmo", &["--players", "60"], "--players"),
        ("skirmish", &["--players", "0"], "out of range"),
        ("skirmish", &["--secs", "soon"], "soon"),
        ("slow_consumer", &["--queue", "1"], "choose 65536 to"),
        ("slow_consumer", &["now"], "now"),
    ] {
        let end = Process::start(example, args).end();
        assert_eq!(end.code, Some(2), "{example} {args:?}: {end:?}");
        assert!(end.only_error().contains(mention), "{example} {args:?}: {end:?}");
    }
}

#[test]
fn a_port_in_use_is_told() {
    let taken = TcpListener::bind("127.0.0.1:0").expect("a port");
    let addr = taken.local_addr().expect("an address").to_string();
    for example in ["chat", "mmo"] {
        let end = Process::start(example, &["--listen", &addr]).end();
        assert_eq!(end.code, Some(1), "{end:?}");
        assert!(end.only_error().contains(&format!("cannot listen on {addr}")), "{end:?}");
    }
}

// Helpers

/// A server on a free port, and where that is.
fn start_server(example: &str) -> (Process, String) {
    let mut server = Process::start(example, &["--listen", "127.0.0.1:0"]);
    let addr = server.addr().to_string();
    (server, addr)
}

/// A client of the chat that has a name.
fn join(addr: &str, name: &str) -> Client {
    let mut client = Client::connect(addr.parse::<SocketAddr>().expect("an address"));
    assert_eq!(receive(&mut client), "Welcome! What is your name?");
    client.send(name.as_bytes());
    assert!(receive(&mut client).ends_with(" joined"));
    client
}

fn receive(client: &mut Client) -> String {
    String::from_utf8(client.receive()).expect("text")
}
