//! The comparison: this library beside the servers that a game developer would otherwise write or pick, under the
//! same load, in the same run. `--help` says what can be asked for; docs/benchmarks.md is what came out.
//!
//! Three processes take part. This one only decides whose turn it is and sleeps; it starts a server on one core
//! and the load on another, for every measurement anew.

mod args;
mod compare;
mod load;
mod machine;
mod plan;
mod process;
mod report;
mod scenarios;
mod servers;
mod tally;
mod wire;

use std::process::ExitCode;

use args::{Args, Task};

fn main() -> ExitCode {
    let done = match Args::parse() {
        Ok(Task::Help) => {
            print!("{}", args::HELP);
            Ok(true)
        }
        Ok(Task::Serve(serve)) => servers::run(&serve).map(|()| true),
        Ok(Task::Load(load)) => load::run(&load).map(|()| true),
        Ok(Task::List) => {
            scenarios::list();
            Ok(true)
        }
        Ok(Task::Compare(args)) => compare::run(&args),
        Err(error) => Err(error),
    };
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE, // the report has said why
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

/// What ends a process of the comparison; all of them are told to a person, none is acted upon.
type Failure = Box<dyn std::error::Error + Send + Sync>;
