//! The tables, what went wrong, and how to read it all.

use std::{env, fs, thread};

use crate::args::Options;
use crate::criteria;
use crate::figures::{Figures, Outcome};
use crate::scenario::Kind;
use crate::text::{grouped, megabytes, millis, percent, shown};
use crate::timings::Quantiles;

type Column = (&'static str, fn(&Figures) -> String);

const CLIENTS: Column = ("clients", |it| grouped(it.connected as u64));
const CPU: Column = ("server CPU", |it| shown(it.server_cpu_percent, percent));
const MEMORY: Column =
    ("memory", |it| shown(it.server_memory_bytes, |bytes| megabytes(bytes as f64)));
const PER_CLIENT: Column = ("per client", |it| bytes(it.server_memory_bytes_per_client));
const ERRORS: Column = ("errors", |it| grouped(it.errors));
const RESULT: Column = ("result", |it| {
    let text = match it.result {
        Outcome::Pass => "PASS",
        Outcome::Fail => "FAIL",
        Outcome::Stopped => "stopped",
        Outcome::Short => "short",
    };
    text.to_owned()
});

const COST: &[Column] = &[
    CLIENTS,
    ("messages/s", |it| shown(it.messages_per_second, |rate| grouped(rate.round() as u64))),
    CPU,
    ("µs/message", |it| shown(it.server_cpu_us_per_message, |micros| format!("{micros:.2}"))),
    MEMORY,
    PER_CLIENT,
    ("bandwidth", |it| {
        shown(it.bandwidth_bytes_per_second, |bytes| format!("{}/s", megabytes(bytes)))
    }),
    ERRORS,
    RESULT,
];

const IDLE_COST: &[Column] = &[
    CLIENTS,
    ("connects/s", |it| grouped(it.connects_per_second.round() as u64)),
    CPU,
    MEMORY,
    PER_CLIENT,
    ("of the machine", |it| bytes(it.machine_memory_bytes_per_client)),
    ERRORS,
    RESULT,
];

const TIMES: &[Column] = &[
    CLIENTS,
    ("RTT p50", |it| time(&it.rtt_ms, |it| it.p50)),
    ("p99", |it| time(&it.rtt_ms, |it| it.p99)),
    ("p99.9", |it| time(&it.rtt_ms, |it| it.p999)),
    ("max", |it| time(&it.rtt_ms, |it| it.max)),
    ("load: CPU", |it| shown(it.load_cpu_percent, percent)),
    ("late p99", |it| time(&it.load_late_ms, |it| it.p99)),
    ("late max", |it| time(&it.load_late_ms, |it| it.max)),
    ("sent", |it| shown(it.load_sent_percent, percent)),
];

pub(crate) fn print(rows: &[Figures], options: &Options) {
    let cost = if options.scenario.kind == Kind::Idle { IDLE_COST } else { COST };
    println!("{}", laid_out(cost, rows));
    println!("{}", laid_out(TIMES, rows));
    for row in rows {
        let clients = grouped(row.clients as u64);
        for fault in &row.faults {
            println!("{clients} clients: {fault}");
        }
        if row.result == Outcome::Short {
            let (reached, free) = (grouped(row.connected as u64), options.keep_free as f64);
            println!(
                "{clients} clients: stopped at {reached}, to keep {} of memory free (--keep-free)",
                megabytes(free)
            );
        }
        if row.seconds.is_some() && !row.meaningful {
            println!("{clients} clients: the load came late: CPU and round trips mean nothing");
        }
    }
    println!("{}", explanation(rows, options));
}

/// Columns flush right, under a rule.
fn laid_out(columns: &[Column], rows: &[Figures]) -> String {
    let mut lines: Vec<Vec<String>> =
        vec![columns.iter().map(|column| column.0.to_owned()).collect()];
    lines.extend(rows.iter().map(|row| columns.iter().map(|column| column.1(row)).collect()));
    let width = |at: usize| lines.iter().map(|line| line[at].chars().count()).max().unwrap_or(0);
    let widths: Vec<_> = (0..columns.len()).map(width).collect();
    lines.insert(1, widths.iter().map(|width| "-".repeat(*width)).collect());
    let mut text = String::new();
    for line in lines {
        let cells = line.iter().zip(&widths).map(|(cell, width)| format!("{cell:>width$}"));
        text.push_str(&cells.collect::<Vec<_>>().join("  "));
        text.push('\n');
    }
    text
}

fn explanation(rows: &[Figures], options: &Options) -> String {
    let scenario = &options.scenario;
    let processes = match options.processes {
        1 => "server and clients: two processes of one thread each".to_owned(),
        n => format!("{n} servers on one port and {n} processes of clients, one thread each"),
    };
    let mut text = format!(
        "{}\n\
         Server: {}; {processes}, over loopback TCP.\n\
         {}\n\
         CPU: of one core. µs/message: the server's CPU time. Memory: resident; per client: what it\n\
         grew by since no client was there, fixed buffers included. {}\
         RTT: from send to receipt.\n\
         {}",
        scenario.in_words(),
        scenario.server_loop(),
        criteria::pass(),
        match scenario.kind {
            Kind::Idle =>
                "Of the machine: how much less\nwas free, for each client: both ends, the system's part included.\n",
            _ => "Bandwidth: payload, both\ndirections. ",
        },
        criteria::meaning(),
    );
    if rows.iter().any(|row| row.result == Outcome::Stopped) {
        text.push_str(
            "\nIt was stopped early: what is marked so covers less time, and rows may be missing.",
        );
    }
    if cfg!(debug_assertions) {
        text.push_str(
            "\nThis is a debug build: for figures that mean something, run with --release.",
        );
    }
    text
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

fn time(quantiles: &Option<Quantiles>, which: fn(&Quantiles) -> f64) -> String {
    shown(quantiles.as_ref().map(which), millis)
}

fn bytes(bytes: Option<f64>) -> String {
    shown(bytes, |bytes| format!("{} B", grouped(bytes.max(0.0).round() as u64)))
}
