//! What connections cost in resident memory, measured in a process of its own (the clients live in
//! another one). Prints what it measured; fails above the promised figures.
//!
//! ```text
//! cargo test --test memory
//! ```

use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::{Child, ChildStdin, Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use tickwire::{ConnId, Event, ListenOptions, Reactor, SocketOptions, Wait};

const CLIENTS: usize = 10_000;

struct Case {
    name: &'static str,
    /// What each client says, a byte at a time, before it falls silent.
    says: &'static [u8],
    /// Whether the server sends to them, who never read, until their queues are full.
    fills: bool,
    /// How many bytes of resident memory the server may hold for each.
    promised: usize,
}

const CASES: [Case; 6] = [
    Case { name: "idle", says: b"", fills: false, promised: 512 },
    Case { name: "stuck after 2 bytes of a header", says: &[0, 0], fills: false, promised: 1024 },
    Case {
        name: "stuck in a frame of 100 bytes",
        says: &[0, 0, 0, 100, 1, 2, 3],
        fills: false,
        promised: 1024,
    },
    Case {
        name: "stuck after announcing the maximum",
        says: &[0, 0, 0x40, 0],
        fills: false,
        promised: 1024,
    },
    Case {
        name: "drips three frames and half a header",
        says: b"\0\0\0\x03abc\0\0\0\0\0\0\0\x02xy\0\0",
        fills: false,
        promised: 1024,
    },
    // A buffer of the next power of two, the smaller ones that it has outgrown and the pool still keeps, and what
    // an idle one costs.
    Case { name: "never reads, its queue is full", says: b"", fills: true, promised: 8192 + 512 },
];

/// Of the send queue, where it is filled.
const QUEUE_MAX: usize = 4_000;

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match args.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["clients", addr, case] => {
            clients(addr.parse().expect("an address"), case.parse().expect("a case"));
            return ExitCode::SUCCESS;
        }
        ["server", case] => {
            println!("{}", measure(case.parse().expect("a case")));
            return ExitCode::SUCCESS;
        }
        _ => {} // whatever a test runner passes
    }
    if !std::path::Path::new("/proc/self/status").exists() {
        println!("skipped: resident memory is read from /proc, which this system does not have");
        return ExitCode::SUCCESS;
    }
    match rlimit::increase_nofile_limit(u64::MAX) {
        Ok(limit) if limit > CLIENTS as u64 + 100 => {}
        other => {
            println!("skipped: {CLIENTS} descriptors are needed, the limit is {other:?}");
            return ExitCode::SUCCESS;
        }
    }
    let mut passed = 0;
    for (index, Case { name, promised, .. }) in CASES.into_iter().enumerate() {
        // Each in a fresh process, or memory that the case before has freed would hide what it costs.
        let server = Command::new(std::env::current_exe().expect("we run"))
            .args(["server", &index.to_string()])
            .stderr(Stdio::inherit())
            .output()
            .expect("this program can be started again");
        assert!(server.status.success(), "{name}: the server failed");
        let bytes: usize =
            String::from_utf8_lossy(&server.stdout).trim().parse().expect("a number");
        let verdict = if bytes <= promised { "ok" } else { "TOO MUCH" };
        println!("{name:<36} {bytes:>5} bytes a connection, {promised:>4} promised: {verdict}");
        passed += usize::from(bytes <= promised);
    }
    println!("{passed} passed, {} failed", CASES.len() - passed);
    if passed == CASES.len() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Resident bytes for each of the clients of this case.
fn measure(case: usize) -> usize {
    rlimit::increase_nofile_limit(u64::MAX).expect("the first process could");
    let Case { says, fills, .. } = CASES[case];
    let mut server = Server::start(fills);
    // The parts that do not depend on the number of connections, such as the poller's event list.
    server.tick_until(|reactor| reactor.stats().ticks > 10);
    let before = resident();
    let mut helper = Helper::start(&server.addr, case);
    server.tick_until(|reactor| reactor.connections() == CLIENTS);
    server.tick_until(|reactor| reactor.stats().bytes_received == (says.len() * CLIENTS) as u64);
    helper.wait_until_done();
    if fills {
        server.fill_queues();
    }
    let after = resident();
    assert_eq!(server.reactor.connections(), CLIENTS, "all are still there");
    helper.stop();
    after.saturating_sub(before) / CLIENTS
}

struct Server {
    reactor: Reactor,
    addr: String,
    /// Everybody who has connected; with its place reserved, so that it does not grow while memory is measured.
    conns: Vec<ConnId>,
}

impl Server {
    fn start(fills: bool) -> Server {
        let builder = Reactor::builder();
        let builder = match fills {
            true => builder.frame_len_max(1_000).send_queue_max(QUEUE_MAX),
            false => builder,
        };
        let mut reactor = builder.build().expect("usable settings");
        // Small system buffers, or clients that never read would fill the machine's memory, and not ours.
        let socket = SocketOptions::new().send_buffer(4_096);
        let options = ListenOptions::new().socket_options(socket);
        let listener = reactor.listen_with("127.0.0.1:0", &options).expect("a free port");
        let addr = reactor.local_addr(listener).expect("it listens").to_string();
        let filler = ConnId::from_bits(u64::MAX).expect("an id");
        let mut conns = vec![filler; CLIENTS];
        conns.clear();
        Server { reactor, addr, conns }
    }

    fn tick_until(&mut self, mut done: impl FnMut(&Reactor) -> bool) {
        let deadline = Instant::now() + Duration::from_secs(60);
        while !done(&self.reactor) {
            let wait = Wait::Event(Duration::from_millis(5));
            for event in self.reactor.tick(wait).expect("a poller").events {
                match event {
                    Event::Connected { conn, .. } => self.conns.push(conn),
                    Event::Message { .. } => {}
                    other => panic!("{other:?}"),
                }
            }
            assert!(Instant::now() < deadline, "it has not happened: {}", self.reactor.stats());
        }
    }

    /// Sends to everybody until nobody takes any more.
    fn fill_queues(&mut self) {
        while self.reactor.outbox().broadcast(&self.conns, &[7; 996]).sent > 0 {
            self.reactor.tick(Wait::No).expect("a poller").events.for_each(drop);
        }
        let queued = self.reactor.stats().bytes_queued;
        assert!(queued > CLIENTS * (QUEUE_MAX - 1_000), "{queued} bytes");
    }
}

fn resident() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").expect("it was there before");
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).expect("proc(5)");
    let kib = line.split_whitespace().nth(1).and_then(|number| number.parse::<usize>().ok());
    kib.expect("proc(5)") * 1024
}

/// The process of the clients.
struct Helper {
    child: Child,
    stdin: Option<ChildStdin>,
    lines: std::io::Lines<BufReader<std::process::ChildStdout>>,
}

impl Helper {
    fn start(addr: &str, case: usize) -> Helper {
        let mut child = Command::new(std::env::current_exe().expect("we run"))
            .args(["clients", addr, &case.to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("this program can be started again");
        let lines = BufReader::new(child.stdout.take().expect("it is piped")).lines();
        Helper { stdin: child.stdin.take(), child, lines }
    }

    fn wait_until_done(&mut self) {
        let line = self.lines.next().expect("it says when it is done").expect("readable");
        assert_eq!(line, "done");
    }

    fn stop(mut self) {
        drop(self.stdin.take()); // which ends it
        assert!(self.child.wait().expect("it ends").success());
    }
}

/// The other process: connects everybody, says what it has to, and stays until its input ends.
fn clients(addr: SocketAddr, case: usize) {
    rlimit::increase_nofile_limit(u64::MAX).expect("the server could");
    let mut streams: Vec<_> =
        (0..CLIENTS).map(|_| TcpStream::connect(addr).expect("the server listens")).collect();
    // Byte by byte, everybody in turn: the server gets to see every state in between.
    for byte in CASES[case].says {
        for stream in &mut streams {
            stream.write_all(&[*byte]).expect("the server is there");
        }
    }
    println!("done");
    let mut line = String::new();
    std::io::stdin().read_line(&mut line).expect("a pipe");
}
