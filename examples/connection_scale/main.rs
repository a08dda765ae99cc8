//! Telepathy's Connections Test: how much does a server of 128, 500 and 1000 players cost?
//!
//! ```text
//! cargo run --release --example connection_scale
//! ```
//!
//! You will see a progress bar for each row (under a minute in all) and then a table of CPU,
//! memory, bandwidth and round-trip times. The exit code is 0 if every row passed. `--help` lists
//! the options.
//!
//! The rooms: `server` is what is measured, an echo server in a process of its own; `process`
//! starts and watches that process; `load` plays the clients; `payload` makes and checks what they
//! send, `tally` counts what comes back; `report` is what a person sees.

mod args;
mod load;
mod payload;
mod process;
mod report;
mod server;
mod tally;

use std::fmt::Display;
use std::io;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::args::{Command, Options};
use crate::process::ServerProcess;
use crate::report::{Progress, Row};

/// Set by Ctrl-C and SIGTERM: the row at hand is ended early and the table so far is shown.
static STOP: AtomicBool = AtomicBool::new(false);

fn main() -> ExitCode {
    let command = match args::parse() {
        Ok(command) => command,
        Err(problem) => return fail(2, problem),
    };
    let outcome = match command {
        Command::Help => {
            println!("{}", args::HELP);
            Ok(true)
        }
        Command::Serve { fps } => server::run(fps).map(|()| true),
        Command::Test(options) => test(&options),
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

/// Runs the rows and shows the table. Answers whether all of them passed.
fn test(options: &Options) -> io::Result<bool> {
    ctrlc::set_handler(|| {
        if STOP.swap(true, Ordering::Relaxed) {
            std::process::exit(130); // asked twice: do not wait for the row's drain
        }
    })
    .map_err(io::Error::other)?;
    make_room_for(options.clients.iter().copied().max().unwrap_or(0))?;

    println!("{}\n", report::machine());
    let mut rows = Vec::new();
    for &clients in &options.clients {
        if STOP.load(Ordering::Relaxed) {
            break;
        }
        rows.push(row(clients, options)?);
    }
    report::print(&rows, options);
    Ok(rows.len() == options.clients.len() && rows.iter().all(Row::passed))
}

/// One row, against a server of its own, so that no row's memory is counted in the next.
fn row(clients: usize, options: &Options) -> io::Result<Row> {
    let server = ServerProcess::start(options.fps)?;
    let mut progress = Progress::new(clients, options.measured);
    load::run(&server, clients, options.measured, &mut progress, &STOP)
}

/// Each client takes a descriptor here and one in the server, and the usual soft limit is 1024.
fn make_room_for(clients: usize) -> io::Result<()> {
    /// Pollers, pipes, standard streams, with some to spare.
    const OTHERS: u64 = 64;
    let limit = rlimit::increase_nofile_limit(u64::MAX)?;
    let needed = clients as u64 + OTHERS;
    if limit < needed {
        return Err(io::Error::other(format!(
            "{clients} clients need {needed} descriptors and this process may have {limit}: \
             raise the hard limit (see `ulimit -Hn`) or ask for fewer with --clients"
        )));
    }
    Ok(())
}
