//! What a person sees: a progress bar meanwhile, and the table at the end.

use std::time::{Duration, Instant};
use std::{env, fs, thread};

use indicatif::{ProgressBar, ProgressStyle};

use crate::args::Options;
use crate::load::{BURST, BURSTS_PER_SEC, DRAIN_MAX};
use crate::payload;
use crate::tally::Tally;

/// What came of one number of clients.
pub(crate) struct Row {
    pub(crate) clients: usize,
    /// Nothing, if not all clients connected.
    pub(crate) figures: Option<Figures>,
    pub(crate) tally: Tally,
    /// Whether it was ended before its time.
    pub(crate) stopped: bool,
}

/// What was counted while it was measured (the drain is not in it).
pub(crate) struct Figures {
    pub(crate) time: Duration,
    /// Of one core: 1.0 is a core fully used.
    pub(crate) server_cpu: Option<f64>,
    pub(crate) load_cpu: Option<f64>,
    /// In bytes.
    pub(crate) server_memory: Option<u64>,
    pub(crate) sent: u64,
    pub(crate) echoed: u64,
}

impl Row {
    pub(crate) fn passed(&self) -> bool {
        !self.stopped && self.tally.all_connected() && self.tally.faults().is_empty()
    }

    fn result(&self) -> &'static str {
        match self.passed() {
            true => "PASS",
            false if self.tally.faults().is_empty() => "stopped",
            false => "FAIL",
        }
    }
}

/// A bar on stderr, or a line where stderr is no terminal.
pub(crate) struct Progress {
    bar: ProgressBar,
    clients: usize,
    measured: Duration,
    next: Instant,
}

impl Progress {
    pub(crate) fn new(clients: usize, measured: Duration) -> Progress {
        let style = ProgressStyle::with_template("{prefix:>13}  {bar:24.cyan}  {msg}")
            .expect("the template is well-formed")
            .progress_chars("━╸─");
        let bar = ProgressBar::new(measured.as_millis() as u64)
            .with_style(style)
            .with_prefix(format!("{} clients", grouped(clients as u64)));
        Progress { bar, clients, measured, next: Instant::now() }
    }

    pub(crate) fn connecting(&mut self, connected: usize) {
        if self.is_due() {
            self.bar.set_message(format!("connecting: {connected} of {}", self.clients));
        }
    }

    pub(crate) fn connected(&mut self) {
        if self.bar.is_hidden() {
            let clients = grouped(self.clients as u64);
            eprintln!("{clients} clients connected, measuring for {} s", self.measured.as_secs());
        }
    }

    pub(crate) fn measuring(&mut self, time: Duration, echoed: u64) {
        if self.is_due() {
            self.bar.set_position(time.as_millis() as u64);
            let (time, measured) = (time.as_secs(), self.measured.as_secs());
            self.bar.set_message(format!("{time} of {measured} s, {} echoes", grouped(echoed)));
        }
    }

    pub(crate) fn draining(&mut self, missing: u32) {
        if self.is_due() {
            self.bar.set_message(format!("waiting for {missing} echoes"));
        }
    }

    /// A few times a second is enough for the eye and costs the measurement nothing.
    fn is_due(&mut self) -> bool {
        let now = Instant::now();
        let due = !self.bar.is_hidden() && now >= self.next;
        if due {
            self.next = now + Duration::from_millis(100);
        }
        due
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

/// The table, what went wrong, and how to read it.
pub(crate) fn print(rows: &[Row], options: &Options) {
    print_table(rows);
    for row in rows {
        for fault in row.tally.faults() {
            println!("{} clients: {fault}", grouped(row.clients as u64));
        }
    }
    println!();
    print_explanation(rows, options);
}

fn print_table(rows: &[Row]) {
    const HEADER: [&str; 9] = [
        "clients",
        "server CPU",
        "memory",
        "bandwidth",
        "messages/s",
        "RTT p50",
        "RTT p99",
        "RTT max",
        "result",
    ];
    let mut lines = vec![HEADER.map(str::to_owned)];
    lines.extend(rows.iter().map(cells));
    let width = |column: usize| lines.iter().map(|line| line[column].len()).max().unwrap_or(0);
    let widths: [usize; HEADER.len()] = std::array::from_fn(width);
    for (index, line) in lines.iter().enumerate() {
        let padded = line.iter().zip(widths).map(|(cell, width)| format!("{cell:>width$}"));
        println!("{}", padded.collect::<Vec<_>>().join("  "));
        if index == 0 {
            println!("{}", widths.map(|width| "-".repeat(width)).join("  "));
        }
    }
}

fn cells(row: &Row) -> [String; 9] {
    let figures = row.figures.as_ref();
    let per_sec = |count: u64, time: Duration| count as f64 / time.as_secs_f64();
    let trip = |quantile| shown(row.tally.trip(quantile), millis);
    [
        grouped(row.clients as u64),
        shown(figures.and_then(|it| it.server_cpu), percent),
        shown(figures.and_then(|it| it.server_memory), |bytes| megabytes(bytes as f64)),
        shown(figures, |it| {
            let bytes = (it.sent + it.echoed) * payload::LEN as u64;
            format!("{}/s", megabytes(per_sec(bytes, it.time)))
        }),
        shown(figures, |it| grouped(per_sec(it.echoed, it.time).round() as u64)),
        trip(0.5),
        trip(0.99),
        trip(1.0),
        row.result().to_owned(),
    ]
}

fn print_explanation(rows: &[Row], options: &Options) {
    let server = match options.fps {
        0 => "event driven".to_owned(),
        fps => format!("{fps} frames a second"),
    };
    let late_max = rows.iter().map(|row| row.tally.late_max).max().unwrap_or_default();
    let figures = rows.iter().filter_map(|row| row.figures.as_ref());
    let load_cpu = figures.filter_map(|it| it.load_cpu).max_by(f64::total_cmp);
    println!(
        "Each client sent {BURST} messages of {len} bytes {BURSTS_PER_SEC} times a second for \
         {secs} s, without waiting for echoes.\n\
         Server ({server}) and clients: two processes of one thread each, over loopback TCP.\n\
         PASS: all clients connected, none was disconnected, every echo was right in every byte\n\
         and in its order, and none was missing {drain} s after the last send.\n\
         CPU: of one core. Memory: resident. Bandwidth: payload, both directions. Messages/s:\n\
         echoes. RTT: from send to echo. The clients' process used up to {load_cpu} of a core and\n\
         sent up to {late_max} later than planned (not part of RTT).",
        len = payload::LEN,
        secs = options.measured.as_secs(),
        drain = DRAIN_MAX.as_secs(),
        load_cpu = shown(load_cpu, percent),
        late_max = millis(late_max),
    );
    if rows.iter().any(|row| row.stopped) {
        println!(
            "It was stopped early: what is marked so covers less time, and rows may be missing."
        );
    }
    if cfg!(debug_assertions) {
        println!("This is a debug build: for figures that mean something, run with --release.");
    }
}

/// What the figures were measured on, in a line.
pub(crate) fn machine() -> String {
    let cores = thread::available_parallelism().map_or("?".to_owned(), |cores| cores.to_string());
    let mut line = format!("{cores} cores, {} ({})", env::consts::OS, env::consts::ARCH);
    // Linux tells more.
    if let Ok(release) = fs::read_to_string("/proc/sys/kernel/osrelease") {
        line = format!("{cores} cores, Linux {} ({})", release.trim(), env::consts::ARCH);
    }
    if let Ok(info) = fs::read_to_string("/proc/cpuinfo") {
        let model = info.lines().find_map(|line| line.strip_prefix("model name")?.split_once(':'));
        if let Some((_, model)) = model {
            line = format!("{line}, {}", model.trim());
        }
    }
    line
}

fn shown<T>(value: Option<T>, show: impl FnOnce(T) -> String) -> String {
    value.map_or_else(|| "n/a".to_owned(), show)
}

fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

fn megabytes(bytes: f64) -> String {
    format!("{:.1} MB", bytes / 1e6)
}

fn millis(time: Duration) -> String {
    format!("{:.2} ms", time.as_secs_f64() * 1e3)
}

/// A number with its thousands apart: 28,000.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index) % 3 == 0 {
            text.push(',');
        }
        text.push(digit);
    }
    text
}
