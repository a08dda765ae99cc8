//! What is written to files: the figures as JSON, and the chart.

use std::fs::{self, OpenOptions};
use std::io;
use std::path::Path;

use serde::Serialize;

use crate::args::Options;
use crate::figures::Figures;
use crate::scenario::Scenario;
use crate::{chart, criteria, table};

#[derive(Serialize)]
struct Report<'a> {
    benchmark: &'static str,
    version: &'static str,
    machine: String,
    debug_build: bool,
    scenario: &'a Scenario,
    processes: usize,
    criteria: [String; 2],
    rows: &'a [Figures],
}

/// Whether the files can be written: better to be told now than when all is measured.
pub(crate) fn check(options: &Options) -> Result<(), String> {
    for (name, path) in [("--json", &options.json), ("--svg", &options.svg)] {
        if let Some(path) = path {
            let opened = OpenOptions::new().append(true).create(true).open(path);
            opened.map_err(|error| format!("{name}: cannot write {}: {error}", path.display()))?;
        }
    }
    Ok(())
}

pub(crate) fn write(rows: &[Figures], options: &Options) -> io::Result<()> {
    if let Some(path) = &options.json {
        let mut text = serde_json::to_string_pretty(&report(rows, options))?;
        text.push('\n');
        put(path, &text)?;
    }
    if let Some(path) = &options.svg {
        put(path, &chart::draw(rows, options).map_err(io::Error::other)?)?;
    }
    Ok(())
}

fn report<'a>(rows: &'a [Figures], options: &'a Options) -> Report<'a> {
    let in_a_line = |text: String| text.replace('\n', " ");
    Report {
        benchmark: "connection_scale",
        version: env!("CARGO_PKG_VERSION"),
        machine: table::machine(),
        debug_build: cfg!(debug_assertions),
        scenario: &options.scenario,
        processes: options.processes,
        criteria: [criteria::pass(), criteria::meaning()].map(in_a_line),
        rows,
    }
}

fn put(path: &Path, text: &str) -> io::Result<()> {
    fs::write(path, text)
        .map_err(|error| io::Error::other(format!("cannot write {}: {error}", path.display())))?;
    println!("wrote {}", path.display());
    Ok(())
}
