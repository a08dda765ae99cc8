//! Telepathy's Connections Test: how much does a server of 128, 500 and 1000 players cost?
//!
//! ```text
//! cargo run --release --example connection_scale
//! ```
//!
//! You will see a progress bar for each row (under a minute in all) and then tables of CPU,
//! memory, bandwidth and round-trip times. The exit code is 0 if every row passed. `--help` lists
//! the options: other numbers of clients, loads and servers, and files with the result.
//!
//! The rooms: `server` is what is measured, in a process of its own; `load` is a process of clients,
//! with its `crowd`, its `schedule`, the `payload` they send and check, and the `tally` of what comes
//! back. This process directs them: `row` plays a row, with the means of `process` (start and end
//! others), `talk` (what is said between processes), `limits` (what the system allows) and `usage`
//! (what they use). `figures` makes numbers of it, which `table`, `chart` and `files` show.

mod args;
mod chart;
mod criteria;
mod crowd;
mod figures;
mod files;
mod limits;
mod load;
mod payload;
mod process;
mod progress;
mod row;
mod scenario;
mod schedule;
mod server;
mod stop;
mod table;
mod talk;
mod tally;
mod text;
mod timings;
mod usage;

use std::fmt::Display;
use std::io;
use std::process::ExitCode;

use crate::args::{Command, Options};
use crate::figures::{Figures, Outcome};

fn main() -> ExitCode {
    let command = match args::parse(std::env::args_os().skip(1)) {
        Ok(command) => command,
        Err(problem) => return fail(2, problem),
    };
    let outcome = match command {
        Command::Help => {
            println!("{}", args::help());
            Ok(true)
        }
        Command::Serve(order) => server::run(&order).map(|()| true),
        Command::Load(order) => load::run(order).map(|()| true),
        Command::Test(options) => match check(&options) {
            Ok(()) => test(&options),
            Err(problem) => return fail(2, problem),
        },
    };
    match outcome {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => fail(1, error),
    }
}

fn fail(code: u8, problem: impl Display) -> ExitCode {
    eprintln!("error: {problem}");
    ExitCode::from(code)
}

/// Whether what is asked for can be done on this machine.
fn check(options: &Options) -> Result<(), String> {
    let clients = options.clients.iter().copied().max().unwrap_or(0);
    limits::check_descriptors(clients, options.processes)?;
    files::check(options)
}

/// Plays the rows and shows the result. Answers whether all of them passed.
fn test(options: &Options) -> io::Result<bool> {
    stop::listen()?;
    println!("{}\n", table::machine());
    let mut rows = Vec::new();
    for &clients in &options.clients {
        if stop::is_asked() {
            break;
        }
        match row::run(clients, options) {
            Ok(row) => rows.push(Figures::of(&row, &options.scenario)),
            // What was measured before is not lost by it.
            Err(error) => {
                eprintln!("error: {clients} clients: {error}");
                break;
            }
        }
    }
    table::print(&rows, options);
    files::write(&rows, options)?;
    let passed = rows.iter().all(|row| row.result == Outcome::Pass);
    Ok(passed && rows.len() == options.clients.len())
}
