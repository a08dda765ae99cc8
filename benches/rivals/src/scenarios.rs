//! The rows of a comparison: a load, and who takes it.

use crate::plan::{Drive, Kind, Load, Serve, Work};
use crate::servers;

pub struct Row {
    pub name: String,
    pub load: Load,
    pub serves: Vec<Serve>,
    /// Who the others are measured against.
    pub reference: Serve,
}

/// How much is compared.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Extent {
    Quick,
    Default,
    Full,
}

impl Extent {
    pub fn runs(self) -> usize {
        match self {
            Extent::Quick => 5,
            Extent::Default => 7,
            Extent::Full => 3,
        }
    }

    /// Seconds measured in each run.
    pub fn seconds(self) -> f64 {
        if self == Extent::Full { 1.0 } else { 1.5 }
    }

    pub fn rows(self) -> Vec<Row> {
        match self {
            Extent::Quick => quick(),
            Extent::Default => default(),
            Extent::Full => full(),
        }
    }
}

const SHORT: [Kind; 4] = [Kind::Tickwire, Kind::Epoll, Kind::Tokio, Kind::TokioBest];
const ALL: [Kind; 7] = [
    Kind::Tickwire,
    Kind::Epoll,
    Kind::Tokio,
    Kind::TokioBest,
    Kind::MessageIo,
    Kind::Threads,
    Kind::Netty,
];

fn quick() -> Vec<Row> {
    vec![
        connections(1000, 0, &SHORT),
        flood(100, 10, 100, &SHORT),
        ping_pong(10, Work::Echo, &SHORT),
        crowd(60, &[Kind::TokioBest]),
    ]
}

fn default() -> Vec<Row> {
    let mut rows = vec![
        connections(1000, 0, &SHORT),
        connections(1000, 60, &[]),
        connections(5000, 0, &SHORT),
        connections(5000, 60, &[]),
    ];
    let floods = [(1, 100, 100), (100, 10, 100), (1000, 10, 100), (100, 4, 16384)];
    rows.extend(floods.map(|(clients, window, size)| flood(clients, window, size, &SHORT)));
    rows.extend([1, 10, 30].map(|actors| ping_pong(actors, Work::Echo, &SHORT)));
    rows.push(broadcast(1000, &SHORT));
    rows.push(crowd(60, &[Kind::TokioBest]));
    rows.push(idle(0, &SHORT));
    rows
}

fn full() -> Vec<Row> {
    let mut rows = Vec::new();
    for clients in [128, 500, 1000, 5000] {
        rows.push(connections(clients, 0, &ALL));
        rows.push(connections(clients, 60, &[]));
    }
    for clients in [1, 10, 100, 1000] {
        let floods =
            [(100, 16), (if clients == 1 { 100 } else { 10 }, 100), (10, 1000), (4, 16384)];
        rows.extend(floods.map(|(window, size)| flood(clients, window, size, &ALL)));
    }
    for work in [Work::EchoEach, Work::Echo, Work::Repack] {
        rows.extend([1, 5, 10, 15, 20, 25, 30].map(|actors| ping_pong(actors, work, &ALL)));
    }
    rows.extend([100, 1000, 5000].map(|clients| broadcast(clients, &ALL)));
    rows.push(crowd(0, &ALL));
    rows.push(crowd(60, &[]));
    rows.push(idle(0, &ALL));
    rows.push(idle(60, &[]));
    rows.push(slow(&ALL));
    rows.push(churn(&ALL));
    rows
}

/// Telepathy's Connections Test.
fn connections(clients: usize, hz: u32, kinds: &[Kind]) -> Row {
    let drive = Drive::Paced { hz: 14.0, burst: 2 };
    row(format!("connections {clients}"), load(drive, clients, 100), hz, Work::Echo, kinds)
}

fn flood(clients: usize, window: u64, size: usize, kinds: &[Kind]) -> Row {
    let drive = Drive::Window { window, actors: 1, pack: 1 };
    let name = format!("flood {clients}/{window}/{size}");
    row(name, load(drive, clients, size), 0, Work::Echo, kinds)
}

/// SpanNetty's RemotePingPong: one connection, 50 messages on their way for each actor, of about the size that
/// Akka's envelope has. Packs hold up to 200 messages.
fn ping_pong(actors: u64, work: Work, kinds: &[Kind]) -> Row {
    let (mode, pack) = match work {
        Work::EchoEach => (", each flushed", 1),
        Work::Repack => (", packed", (50 * actors).min(200)),
        Work::Echo | Work::ToAll => ("", 1),
    };
    let drive = Drive::Window { window: 50 * actors / pack, actors, pack };
    row(format!("ping-pong {actors}{mode}"), load(drive, 1, 192), 0, work, kinds)
}

fn broadcast(clients: usize, kinds: &[Kind]) -> Row {
    let load = load(Drive::Broadcast { window: 16 }, clients, 100);
    row(format!("broadcast {clients}"), load, 0, Work::ToAll, kinds)
}

/// 200 players on one spot, each of whom tells all the others 10 times a second.
fn crowd(hz: u32, kinds: &[Kind]) -> Row {
    row("crowd 200".to_owned(), load(Drive::Crowd { hz: 10.0 }, 200, 100), hz, Work::ToAll, kinds)
}

fn idle(hz: u32, kinds: &[Kind]) -> Row {
    row("idle 10000".to_owned(), load(Drive::Idle, 10_000, 100), hz, Work::Echo, kinds)
}

fn slow(kinds: &[Kind]) -> Row {
    let load = load(Drive::Slow { window: 10, slow: 10 }, 110, 100);
    row("slow readers 10 of 110".to_owned(), load, 0, Work::Echo, kinds)
}

fn churn(kinds: &[Kind]) -> Row {
    row("churn 64".to_owned(), load(Drive::Churn { at_once: 64 }, 64, 100), 0, Work::Echo, kinds)
}

/// At a frame rate, the library and the loop are driven by it; other kinds wake for each event all the same.
fn row(name: String, load: Load, hz: u32, work: Work, kinds: &[Kind]) -> Row {
    let reference = Serve { kind: Kind::Epoll, work, hz: 0 };
    let mut serves = Vec::new();
    if hz > 0 {
        serves.extend([Kind::Tickwire, Kind::Epoll].map(|kind| Serve { kind, work, hz }));
        serves.push(reference);
    }
    let kinds = kinds.iter().filter(|&&kind| servers::can(kind, work, load.clients));
    serves.extend(kinds.map(|&kind| Serve { kind, work, hz: 0 }));
    let name = if hz > 0 { format!("{name} at {hz} Hz") } else { name };
    Row { name, load, serves, reference }
}

fn load(drive: Drive, clients: usize, size: usize) -> Load {
    Load { drive, clients, size, warm_up: 0.3, seconds: 1.5 }
}

/// Prints what can be asked for.
pub fn list() {
    for (title, extent) in
        [("--quick", Extent::Quick), ("default", Extent::Default), ("--full", Extent::Full)]
    {
        println!("{title}: {} runs", extent.runs());
        for row in extent.rows() {
            let names: Vec<_> = row.serves.iter().map(|serve| serve.name().to_string()).collect();
            println!("  {:<28} {}", row.name, names.join(" | "));
        }
    }
}
