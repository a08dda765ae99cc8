//! The clients in other languages, `examples/clients`, each as people run it, against the example `echo` and against
//! servers that cut, stall, lie and leave. `examples.rs` tells how the examples get built.
#![cfg(unix)]

mod common;

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::time::Duration;

use common::PATIENCE;
use common::process::{End, Process, are_installed, build_c_sharp, compile};
use socket2::{Domain, SockRef, Socket, Type};

/// A language, and what its client can do.
struct Language {
    /// What has to be installed to run it, and where Debian has it.
    tools: &'static [&'static str],
    packages: &'static str,
    /// The command, up to and including the client.
    command: fn() -> Command,
    /// Behind host and port.
    args: &'static [&'static str],
    little_endian: bool,
    /// Whether it tells a frame above its limit, and an end within a frame.
    judges_frames: bool,
    /// Whether it can queue what the socket does not take.
    queues: bool,
    /// How it says that nobody listens, and that the server has reset.
    refused: &'static str,
    reset: &'static str,
    /// What it prints when a round is done, besides that.
    extra: &'static str,
    bytes: usize,
}

const BIG_ENDIAN: Language = Language {
    tools: &[],
    packages: "",
    command: || unreachable!("each has its own"),
    args: &[],
    little_endian: false,
    judges_frames: true,
    queues: true,
    refused: "cannot connect: connection refused",
    reset: "the connection was reset",
    extra: "",
    bytes: 9_860_135,
};

const C: Language = Language {
    tools: &["cc"],
    packages: "gcc",
    command: || Command::new(c_client()),
    ..BIG_ENDIAN
};

const C_SHARP: Language = Language {
    tools: &["mcs", "mono"],
    packages: "mono-mcs mono-runtime",
    command: || {
        let mut mono = Command::new("mono");
        mono.arg(c_sharp_client());
        mono
    },
    extra: "allocated meanwhile: 0 bytes",
    ..BIG_ENDIAN
};

const NODE: Language = Language {
    tools: &["node"],
    packages: "nodejs",
    command: || script("node", &[], "client.js"),
    ..BIG_ENDIAN
};

const PYTHON: Language = Language {
    tools: &["python3"],
    packages: "python3",
    command: || script("python3", &[], "client.py"),
    ..BIG_ENDIAN
};

const GODOT: Language = Language {
    tools: &["godot3-server"],
    packages: "godot3-server",
    command: || script("godot3-server", &["-s"], "client_godot3.gd"),
    refused: "cannot connect: refused or unreachable",
    reset: "the ", // it tells some resets as ends
    ..BIG_ENDIAN
};

const GODOT_PACKETS: Language = Language {
    args: &["--packets"],
    little_endian: true,
    judges_frames: false,
    queues: false,
    bytes: 9_860_635, // no empty messages, so the small ones are one byte larger
    ..GODOT
};

/// The same tests for each of them.
macro_rules! languages {
    ($($name:ident: $language:expr;)*) => {$(
        mod $name {
            use super::*;

            #[test]
            fn exchanges_frames_of_all_sizes_with_the_example_server() {
                exchange(&$language);
            }

            #[test]
            fn comes_back_when_the_server_does() {
                come_back(&$language);
            }

            #[test]
            fn copes_with_pieces_and_with_a_server_that_does_not_read() {
                pieces(&$language);
            }

            #[test]
            fn tells_why_a_connection_has_ended() {
                reasons(&$language);
            }

            #[test]
            fn says_hello_to_a_person() {
                hello(&$language);
            }
        }
    )*};
}

languages! {
    c: C;
    c_sharp: C_SHARP;
    godot: GODOT;
    godot_packets: GODOT_PACKETS;
    node: NODE;
    python: PYTHON;
}

/// Every message comes back as it was sent, in order: the client compares them byte for byte.
fn exchange(language: &Language) {
    if !language.is_installed() {
        return;
    }
    for fps in ["0", "60"] {
        let mut echo = language.start_echo("127.0.0.1:0", &["--fps", fps]);
        let addr = echo.addr();
        let end = language.start(addr, "1").end();
        assert_eq!(end.code, Some(0), "{end:?}");
        language.assert_round(&end, 1);
        assert_eq!(end.stdout.last().map(String::as_str), Some("disconnected: closed by us"));
        echo.stderr.wait_for("left: closed by the peer");
    }
}

/// The server goes away, and nobody listens for a while.
fn come_back(language: &Language) {
    if !language.is_installed() {
        return;
    }
    let mut echo = language.start_echo("127.0.0.1:0", &[]);
    let addr = echo.addr();
    let mut client = language.start(addr, "2");
    client.stdout.wait_for("round 1 ok");
    echo.signal("TERM");
    assert_eq!(echo.end().code, Some(0));
    client.stdout.wait_for("disconnected: the server closed the connection");
    for _ in 0..3 {
        client.stdout.wait_for("trying again in ");
        client.stdout.wait_for(language.refused);
    }
    // Where it was before: the client knows no other place.
    let mut echo = language.start_echo(&addr.to_string(), &[]);
    assert_eq!(echo.addr(), addr);
    let end = client.end();
    assert_eq!(end.code, Some(0), "{end:?}");
    language.assert_round(&end, 2);
}

/// A server that reads nothing until the client has seen that, and then answers in crumbs.
fn pieces(language: &Language) {
    if !language.is_installed() {
        return;
    }
    let (listener, addr) = small_listener();
    let mut client = language.start(addr, "1");
    let (mut stream, _) = listener.accept().expect("it connects");
    stream.set_nodelay(true).expect("a plain option");
    if language.queues {
        client.stdout.wait_for("send queue full");
    }
    let mut buffer = vec![0; 100_000];
    let mut crumbs = 3_000; // single bytes first, over many a frame's end
    let mut seed = 1u32;
    loop {
        let got = match stream.read(&mut buffer) {
            Ok(0) => break,
            Ok(got) => got,
            Err(error) if error.kind() == ErrorKind::ConnectionReset => break,
            Err(error) => panic!("{error}"),
        };
        let mut rest = &buffer[..got];
        while !rest.is_empty() {
            seed = seed.wrapping_mul(1_103_515_245).wrapping_add(12_345);
            let size = if crumbs > 0 { 1 } else { 1 + (seed >> 8) as usize % 20_000 };
            crumbs -= i32::from(crumbs > 0);
            let (now, later) = rest.split_at(size.min(rest.len()));
            stream.write_all(now).expect("it reads");
            rest = later;
        }
    }
    drop(stream);
    let end = client.end();
    assert_eq!(end.code, Some(0), "{end:?}");
    language.assert_round(&end, 1);
}

/// One connection after the other ends in another way.
fn reasons(language: &Language) {
    if !language.is_installed() {
        return;
    }
    let (listener, addr) = small_listener();
    let mut client = language.start(addr, "1");
    let mut ends = vec![(Ending::InOrder, "the server closed the connection")];
    if language.judges_frames {
        ends.push((Ending::WithinHeader, "the connection was cut off within a message"));
        ends.push((Ending::WithinPayload, "the connection was cut off within a message"));
        ends.push((Ending::TooLarge(16_385), "frame too large: 16385 bytes, limit 16384"));
        ends.push((Ending::TooLarge(u32::MAX), "frame too large: 4294967295 bytes, limit 16384"));
    }
    ends.push((Ending::Reset, language.reset));
    for (end, reason) in ends {
        let (mut stream, _) = listener.accept().expect("it comes back");
        client.stdout.wait_for("connected");
        match end {
            // Half a close is an end too, and does not depend on what the client still sends.
            Ending::InOrder => {}
            Ending::WithinHeader => stream.write_all(&[0, 0]).expect("sent"),
            Ending::WithinPayload => stream.write_all(b"\0\0\0\x05hell").expect("sent"),
            Ending::TooLarge(length) => stream.write_all(&length.to_be_bytes()).expect("sent"),
            Ending::Reset => {
                SockRef::from(&stream).set_linger(Some(Duration::ZERO)).expect("a plain option");
                drop(stream);
                client.stdout.wait_for(&format!("disconnected: {reason}"));
                client.stdout.wait_for("trying again in 0.");
                continue;
            }
        }
        if !matches!(end, Ending::TooLarge(_)) {
            stream.shutdown(Shutdown::Write).expect("a live socket");
        }
        client.stdout.wait_for(&format!("disconnected: {reason}"));
        client.stdout.wait_for("trying again in 0.");
        // It has really let go.
        stream.set_read_timeout(Some(PATIENCE)).expect("a plain option");
        match std::io::copy(&mut stream, &mut std::io::sink()) {
            Ok(_) => {}
            Err(error) => assert_eq!(error.kind(), ErrorKind::ConnectionReset, "{end:?}"),
        }
    }
}

#[derive(Debug)]
enum Ending {
    InOrder,
    WithinHeader,
    WithinPayload,
    TooLarge(u32),
    Reset,
}

/// What a newcomer sees.
fn hello(language: &Language) {
    if !language.is_installed() {
        return;
    }
    let mut echo = language.start_echo("127.0.0.1:0", &[]);
    let addr = echo.addr();
    let mut command = (language.command)();
    command.args(["127.0.0.1", &addr.port().to_string()]).args(language.args);
    let mut client = Process::of(command.stdin(Stdio::null()));
    for line in [&format!("connecting to {addr}; Ctrl-C ends it"), "connected", "sent: hello 1"] {
        assert_eq!(&client.stdout.wait_for(line), line);
    }
    assert_eq!(client.stdout.wait_for("got:"), "got:  hello 1");
    assert_eq!(client.stdout.wait_for("got:"), "got:  hello 2");
    client.signal("INT");
    client.end();
    echo.stderr.wait_for("left: closed by the peer");
}

// Helpers

impl Language {
    fn is_installed(&self) -> bool {
        are_installed(self.tools, self.packages)
    }

    fn start(&self, addr: SocketAddr, rounds: &str) -> Process {
        let mut command = (self.command)();
        command.args([&addr.ip().to_string(), &addr.port().to_string()]);
        command.args(self.args).args(["--check", rounds]);
        Process::of(command.stdin(Stdio::null()))
    }

    fn start_echo(&self, listen: &str, args: &[&str]) -> Process {
        let framing = if self.little_endian { "godot" } else { "length-prefix" };
        let args = [&["--listen", listen, "--framing", framing], args].concat();
        Process::start("echo", &args)
    }

    fn assert_round(&self, end: &End, round: usize) {
        let messages = if self.little_endian { 1_104 } else { 1_105 };
        let line = format!("round {round} ok: {messages} messages, {} bytes", self.bytes);
        assert!(end.stdout.contains(&line), "{line}: {end:?}");
        assert!(
            self.extra.is_empty() || end.stdout.iter().any(|line| line == self.extra),
            "{end:?}"
        );
    }
}

/// A listener whose connections buffer little, so that a client soon notices that nobody reads.
fn small_listener() -> (TcpListener, SocketAddr) {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).expect("a socket");
    socket.set_recv_buffer_size(16 * 1024).expect("a plain option");
    socket.bind(&SocketAddr::from(([127, 0, 0, 1], 0)).into()).expect("a free port");
    socket.listen(16).expect("a bound socket");
    let listener = TcpListener::from(socket);
    let addr = listener.local_addr().expect("it is bound");
    (listener, addr)
}

fn source(file: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/clients").join(file)
}

fn script(interpreter: &str, args: &[&str], file: &str) -> Command {
    let mut command = Command::new(interpreter);
    command.args(args).arg(source(file));
    command.current_dir(env!("CARGO_TARGET_TMPDIR")); // Godot leaves a folder of logs where it is started
    command
}

/// Without a warning.
fn c_client() -> &'static Path {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| {
        let out = Path::new(env!("CARGO_TARGET_TMPDIR")).join("client_c");
        let flags = ["-std=c99", "-O1", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-o"];
        compile(Command::new("cc").args(flags).arg(&out).arg(source("client.c")));
        out
    })
}

fn c_sharp_client() -> &'static Path {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| build_c_sharp(&source("TickwireClient.cs")))
}
