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

use tickwire::{Event, Reactor, Tick, Wait};

const CLIENTS: usize = 10_000;

/// What the clients do, and how many bytes of resident memory the server may hold for each.
const CASES: [(&str, &[u8], usize); 4] = [
    ("idle", b"", 512),
    ("stuck after 2 bytes of a header", &[0, 0], 1024),
    ("stuck in a frame of 100 bytes", &[0, 0, 0, 100, 1, 2, 3], 1024),
    ("stuck after announcing the maximum", &[0, 0, 0x40, 0], 1024),
];

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
    for (index, (what, _, promised)) in CASES.into_iter().enumerate() {
        // Each in a fresh process, or memory that the case before has freed would hide what it costs.
        let server = Command::new(std::env::current_exe().expect("we run"))
            .args(["server", &index.to_string()])
            .stderr(Stdio::inherit())
            .output()
            .expect("this program can be started again");
        assert!(server.status.success(), "{what}: the server failed");
        let bytes: usize =
            String::from_utf8_lossy(&server.stdout).trim().parse().expect("a number");
        let verdict = if bytes <= promised { "ok" } else { "TOO MUCH" };
        println!("{what:<36} {bytes:>5} bytes a connection, {promised:>4} promised: {verdict}");
        passed += usize::from(bytes <= promised);
    }
    println!("{passed} passed, {} failed", CASES.len() - passed);
    if passed == CASES.len() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Resident bytes for each of the clients of this case.
fn measure(case: usize) -> usize {
    let mut reactor = Reactor::new().expect("a poller");
    let listener = reactor.listen("127.0.0.1:0").expect("a free port");
    let addr = reactor.local_addr(listener).expect("it listens");
    // The parts that do not depend on the number of connections, such as the poller's event list.
    tick_until(&mut reactor, |reactor| reactor.stats().ticks > 10);
    rlimit::increase_nofile_limit(u64::MAX).expect("the first process could");
    let before = resident();
    let mut helper = Helper::start(&addr.to_string(), case);
    tick_until(&mut reactor, |reactor| reactor.connections() == CLIENTS);
    let sent = (CASES[case].1.len() * CLIENTS) as u64;
    tick_until(&mut reactor, |reactor| reactor.stats().bytes_received == sent);
    helper.wait_until_done();
    let after = resident();
    assert_eq!(reactor.connections(), CLIENTS, "all are still there");
    helper.stop();
    after.saturating_sub(before) / CLIENTS
}

fn tick_until(reactor: &mut Reactor, mut done: impl FnMut(&Reactor) -> bool) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while !done(reactor) {
        let Tick { events, .. } =
            reactor.tick(Wait::Event(Duration::from_millis(5))).expect("a poller");
        for event in events {
            assert!(matches!(event, Event::Connected { .. }), "{event:?}");
        }
        assert!(Instant::now() < deadline, "it has not happened: {:?}", reactor.stats());
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
    let mut streams = Vec::with_capacity(CLIENTS);
    for _ in 0..CLIENTS {
        let mut stream = TcpStream::connect(addr).expect("the server listens");
        stream.write_all(CASES[case].1).expect("the server is there");
        streams.push(stream);
    }
    println!("done");
    let mut line = String::new();
    std::io::stdin().read_line(&mut line).expect("a pipe");
}
