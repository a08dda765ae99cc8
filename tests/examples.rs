//! The examples, as people run them: real processes, plain sockets, signals.
//!
//! `cargo test` builds the examples; `cargo test --test examples` alone does not, so build them
//! before (`cargo build --examples`).
#![cfg(unix)]

mod common;

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::process::Command;
use std::thread;

use common::PATIENCE;
use common::process::Process;

/// The modes of `echo`: event driven, and a frame loop.
const MODES: [&str; 2] = ["0", "60"];

// echo: what comes back

#[test]
fn echo_returns_frames_of_all_sizes() {
    for fps in MODES {
        let echo = Echo::start(&["--fps", fps]);
        let mut client = echo.connect();
        for len in [0, 1, 100, 16_384] {
            let payload = pattern(len, len);
            client.write_all(&framed(&payload)).expect("sent");
            assert_eq!(read_frame(&mut client), payload, "{len} bytes, --fps {fps}");
        }
    }
}

#[test]
fn echo_returns_what_came_byte_by_byte() {
    for fps in MODES {
        let echo = Echo::start(&["--fps", fps]);
        let mut client = echo.connect();
        let payloads = [pattern(0, 0), pattern(1, 1), pattern(300, 2)];
        for byte in payloads.iter().flat_map(|payload| framed(payload)) {
            client.write_all(&[byte]).expect("sent");
        }
        for payload in &payloads {
            assert_eq!(&read_frame(&mut client), payload, "--fps {fps}");
        }
    }
}

#[test]
fn echo_returns_a_thousand_frames_sent_in_one_write() {
    for fps in MODES {
        let echo = Echo::start(&["--fps", fps]);
        let mut client = echo.connect();
        let payloads: Vec<_> = (0..1_000).map(|seed| pattern(seed % 40, seed)).collect();
        let bytes: Vec<u8> = payloads.iter().flat_map(|payload| framed(payload)).collect();
        client.write_all(&bytes).expect("sent");
        for payload in &payloads {
            assert_eq!(&read_frame(&mut client), payload, "--fps {fps}");
        }
    }
}

#[test]
fn echo_answers_all_before_it_answers_a_half_close() {
    for fps in MODES {
        let mut echo = Echo::start(&["--fps", fps]);
        let mut client = echo.connect();
        let bytes: Vec<u8> = (0..100).flat_map(|seed| framed(&pattern(100, seed))).collect();
        client.write_all(&bytes).expect("sent");
        client.shutdown(Shutdown::Write).expect("half-closed");
        let mut echoed = Vec::new();
        client.read_to_end(&mut echoed).expect("an orderly end");
        assert_eq!(echoed, bytes, "--fps {fps}");
        echo.process.stderr.wait_for("left: closed by the peer");
    }
}

#[test]
fn echo_loses_nothing_of_a_client_that_pumps_the_largest_frames_and_reads() {
    // A frame loop reads at most 128 KiB of one connection each frame, hence the smaller total.
    for (fps, total) in [("0", 64 << 20), ("60", 16 << 20)] {
        let echo = Echo::start(&["--fps", fps]);
        let mut client = echo.connect();
        let frames = total / 16_384;
        let mut sender = client.try_clone().expect("cloned");
        let pump = thread::spawn(move || {
            for seed in 0..frames {
                sender.write_all(&framed(&pattern(16_384, seed))).expect("sent");
            }
        });
        for seed in 0..frames {
            assert!(read_frame(&mut client) == pattern(16_384, seed), "frame {seed}, --fps {fps}");
        }
        pump.join().expect("all sent");
    }
}

#[test]
fn echo_takes_larger_frames_when_told_to() {
    let echo = Echo::start(&["--max-frame", "3000000"]);
    let mut client = echo.connect();
    let mut sender = client.try_clone().expect("cloned");
    let pump = thread::spawn(move || {
        (0..5).for_each(|seed| sender.write_all(&framed(&pattern(3_000_000, seed))).expect("sent"));
    });
    for seed in 0..5 {
        assert!(read_frame(&mut client) == pattern(3_000_000, seed), "frame {seed}");
    }
    pump.join().expect("all sent");
}

#[test]
fn echo_broadcasts_to_all_and_in_order() {
    for fps in MODES {
        let mut echo = Echo::start(&["--fps", fps, "--broadcast"]);
        let mut clients: Vec<_> = (0..5).map(|_| echo.connect()).collect();
        for _ in &clients {
            echo.process.stderr.wait_for("joined");
        }
        for seed in 0..100 {
            clients[1].write_all(&framed(&pattern(50, seed))).expect("sent");
        }
        for client in &mut clients {
            for seed in 0..100 {
                assert_eq!(read_frame(client), pattern(50, seed), "--fps {fps}");
            }
        }
    }
}

#[test]
fn echo_serves_a_client_in_another_language() {
    let python = Command::new("python3").arg("--version").output();
    if python.is_err() && std::env::var_os("CI").is_none() {
        println!("skipped: there is no python3");
        return;
    }
    for fps in MODES {
        let echo = Echo::start(&["--fps", fps]);
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/echo_client.py");
        let client = Command::new("python3").args([script, &echo.addr.port().to_string()]).output();
        let client = client.expect("there is a python3");
        assert!(client.status.success(), "{}", String::from_utf8_lossy(&client.stderr));
    }
}

// echo: clients that misbehave

#[test]
fn echo_ends_a_connection_with_a_too_large_frame_alone() {
    for fps in MODES {
        let mut echo = Echo::start(&["--fps", fps]);
        let mut other = echo.connect();
        let mut client = echo.connect();
        let from = client.local_addr().expect("an address");
        client.write_all(&[0, 0, 0x40, 1]).expect("sent");
        let line = echo.process.stderr.wait_for("left: frame too large");
        assert!(line.contains("INFO"), "{line}");
        assert!(line.contains(&format!("from {from}")), "{line}");
        assert!(line.contains("16385 bytes announced, 16384 allowed"), "{line}");
        assert_ended(&mut client);
        assert_echoes(&mut other, b"still here");
    }
}

#[test]
fn echo_kicks_who_never_reads_and_serves_the_others_meanwhile() {
    for fps in MODES {
        let mut echo = Echo::start(&["--fps", fps]);
        let mut other = echo.connect();
        let mut pump = echo.connect();
        let pump = thread::spawn(move || {
            let frame = framed(&[7; 16_384]);
            while pump.write_all(&frame).is_ok() {}
        });
        while !pump.is_finished() {
            assert_echoes(&mut other, b"are you there?");
        }
        pump.join().expect("pumped");
        echo.process.stderr.wait_for("left: nothing taken for too long");
    }
}

// echo: as a command

#[test]
fn echo_ends_well_when_asked_to() {
    for signal in ["TERM", "INT"] {
        for fps in MODES {
            let mut echo = Echo::start(&["--fps", fps]);
            let mut client = echo.connect();
            assert_echoes(&mut client, b"hello");
            echo.process.signal(signal);
            let end = echo.process.end();
            assert_eq!(end.code, Some(0), "SIG{signal}: {end:?}");
            assert_eq!(end.stdout, [format!("listening on {}", echo.addr)]);
            assert_ended(&mut client);
        }
    }
}

#[test]
fn echo_says_that_a_port_is_in_use() {
    let taken = TcpListener::bind("127.0.0.1:0").expect("a port");
    let addr = taken.local_addr().expect("an address").to_string();
    let end = Process::start("echo", &["--listen", &addr]).end();
    assert_eq!(end.code, Some(1), "{end:?}");
    assert!(end.only_error().contains(&format!("cannot listen on {addr}")), "{end:?}");
}

#[test]
fn echo_refuses_arguments_that_make_no_sense_in_a_line() {
    for (args, mention) in [
        (vec!["--fps", "soon"], "--fps soon"),
        (vec!["--fps", "1001"], "choose 0 to 1000"),
        (vec!["--fps"], "--fps"),
        (vec!["--listen", "localhost:7777"], "IP:PORT"),
        (vec!["--framing", "netstring"], "choose length-prefix"),
        (vec!["--max-frame", "0"], "choose 1 to"),
        (vec!["--max-frame", "18446744073709551615"], "choose 1 to"),
        (vec!["--louder"], "--louder"),
        (vec!["7777"], "7777"),
    ] {
        let end = Process::start("echo", &args).end();
        assert_eq!(end.code, Some(2), "{args:?}: {end:?}");
        assert!(end.only_error().contains(mention), "{args:?}: {end:?}");
    }
}

#[test]
fn the_help_pages_are_complete() {
    for (example, options) in [
        ("echo", vec!["--listen", "--fps", "--broadcast", "--max-frame", "--framing", "--help"]),
        (
            "connection_scale",
            vec![
                "--clients",
                "--secs",
                "--broadcast",
                "--idle",
                "--size",
                "--rate",
                "--burst",
                "--together",
                "--fps",
                "--processes",
                "--keep-free",
                "--json",
                "--svg",
                "--help",
            ],
        ),
        ("soak", vec!["--cycles", "--messages", "--help"]),
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

// Frames

fn framed(payload: &[u8]) -> Vec<u8> {
    let mut frame = (payload.len() as u32).to_be_bytes().to_vec();
    frame.extend(payload);
    frame
}

fn read_frame(stream: &mut TcpStream) -> Vec<u8> {
    let mut header = [0; 4];
    stream.read_exact(&mut header).expect("a header");
    let mut payload = vec![0; u32::from_be_bytes(header) as usize];
    stream.read_exact(&mut payload).expect("a payload");
    payload
}

/// `len` bytes that differ from place to place and from seed to seed.
fn pattern(len: usize, seed: usize) -> Vec<u8> {
    (0..len).map(|index| (index ^ (index >> 8)).wrapping_add(seed * 7) as u8).collect()
}

fn assert_echoes(stream: &mut TcpStream, payload: &[u8]) {
    stream.write_all(&framed(payload)).expect("sent");
    assert_eq!(read_frame(stream), payload);
}

fn assert_ended(stream: &mut TcpStream) {
    match stream.read(&mut [0]) {
        Ok(0) => {}
        Err(error) if error.kind() == ErrorKind::ConnectionReset => {}
        other => panic!("the connection goes on: {other:?}"),
    }
}

// Processes

/// A running `echo` on a free port.
struct Echo {
    process: Process,
    addr: SocketAddr,
}

impl Echo {
    fn start(args: &[&str]) -> Echo {
        let args = [&["--listen", "127.0.0.1:0"], args].concat();
        let mut process = Process::start("echo", &args);
        let addr = process.addr();
        Echo { process, addr }
    }

    fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.addr).expect("connected");
        stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
        stream.set_write_timeout(Some(PATIENCE)).expect("a timeout");
        stream.set_nodelay(true).expect("no delay");
        stream
    }
}
