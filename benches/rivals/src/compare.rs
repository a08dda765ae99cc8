//! The order of measurements, and what becomes of them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use indicatif::{ProgressBar, ProgressStyle};

use crate::Failure;
use crate::args::Args;
use crate::plan::{Kind, Load, Serve};
use crate::process;
use crate::report;
use crate::scenarios::Row;
use crate::tally::Column;

/// A row, with all that was measured.
pub struct Measured {
    pub row: Row,
    pub columns: Vec<Column>,
}

impl Measured {
    pub fn reference(&self) -> Option<&Column> {
        self.columns.iter().find(|column| column.serve == self.row.reference)
    }
}

/// Compares, prints and writes what was asked for. Returns whether all replies were right.
pub fn run(args: &Args) -> Result<bool, Failure> {
    let is_over = Arc::new(AtomicBool::new(false));
    let flag = is_over.clone();
    ctrlc::set_handler(move || flag.store(true, Ordering::Relaxed))?;

    let mut rows: Vec<_> = rows(args).into_iter().map(|row| measured(row, args.runs)).collect();
    if rows.is_empty() {
        return Err("no row has such a name; --list shows all".into());
    }
    let all: usize = rows.iter().map(|row| row.columns.len()).sum();
    let bar = bar(all * args.runs);
    'runs: for run in 0..args.runs {
        for row in &mut rows {
            let count = row.columns.len();
            for turn in 0..count {
                if is_over.load(Ordering::Relaxed) {
                    break 'runs;
                }
                let column = &mut row.columns[(turn + run) % count];
                bar.set_message(format!("{}: {}", row.row.name, column.serve.name()));
                let outcome = process::measure(&column.serve, &warm(&row.row.load, column.serve));
                match outcome {
                    Ok(outcome) => column.outcomes[run] = Some(outcome),
                    // A Ctrl-C reaches the two processes as well.
                    Err(_) if is_over.load(Ordering::Relaxed) => break 'runs,
                    Err(error) => {
                        bar.println(format!("{}, {}: {error}", row.row.name, column.serve.name()))
                    }
                }
                bar.inc(1);
            }
        }
    }
    bar.finish_and_clear();
    report::table::print(&rows);
    if let Some(path) = &args.json {
        report::json::write(path, &rows)?;
    }
    let is_whole = !is_over.load(Ordering::Relaxed);
    match &args.out {
        Some(path) if is_whole => report::markdown::write(path, args, &rows)?,
        Some(_) => println!("Interrupted: no report is written."),
        None => {}
    }
    Ok(report::table::print_verdict(&rows))
}

fn rows(args: &Args) -> Vec<Row> {
    let mut rows = args.extent.rows();
    rows.retain(|row| args.only.is_empty() || args.only.iter().any(|part| row.name.contains(part)));
    for row in &mut rows {
        row.load.seconds = args.seconds.unwrap_or(args.extent.seconds());
        if let Some(servers) = &args.servers {
            let wanted =
                |kind| kind == Kind::Epoll || servers.iter().any(|name| name == short(kind));
            row.serves.retain(|serve| wanted(serve.kind));
        }
    }
    rows
}

/// What a server is called on the command line.
fn short(kind: Kind) -> &'static str {
    match kind {
        Kind::Tickwire => "tickwire",
        Kind::Epoll => "epoll",
        Kind::Tokio => "tokio",
        Kind::TokioBest => "tokio-best",
        Kind::MessageIo => "message-io",
        Kind::Threads => "threads",
        Kind::Netty => "netty",
    }
}

fn measured(row: Row, runs: usize) -> Measured {
    let columns = row.serves.iter().map(|&serve| Column { serve, outcomes: vec![None; runs] });
    Measured { columns: columns.collect(), row }
}

/// A virtual machine compiles what runs often, which takes it a while.
fn warm(load: &Load, serve: Serve) -> Load {
    let warm_up = if serve.kind == Kind::Netty { 2.5 } else { load.warm_up };
    Load { warm_up, ..*load }
}

fn bar(steps: usize) -> ProgressBar {
    let style = ProgressStyle::with_template("{bar:30} {pos}/{len}  {elapsed}, {eta} left  {msg}");
    let bar = ProgressBar::new(steps as u64);
    bar.set_style(style.expect("the template is right"));
    bar
}
