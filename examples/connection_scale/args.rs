//! The command line.

use std::fmt::Display;
use std::str::FromStr;
use std::time::Duration;

use lexopt::prelude::*;

pub(crate) const HELP: &str = "\
Telepathy's Connections Test: an echo server in a process of its own, and clients that each send
two 100-byte messages 14 times a second and check every echo. Ends with a table.

Usage: cargo run --release --example connection_scale -- [OPTIONS]

Options:
  --clients LIST   how many clients, a row for each number   [default: 128,500,1000]
  --secs N         seconds that each row is measured         [default: 15]
  --fps N          the server's loop. 0: event driven;
                   1 to 1000: N frames a second              [default: 0]
  --help           show this page

The exit code is 0 if all rows passed, 1 if not or if Ctrl-C ended the test early, 2 for arguments
that make no sense.";

/// How the program starts itself a second time, as the server. Not for people, so not in the help.
pub(crate) const SERVE: &str = "serve";

pub(crate) enum Command {
    Help,
    Test(Options),
    Serve { fps: u32 },
}

pub(crate) struct Options {
    pub(crate) clients: Vec<usize>,
    pub(crate) measured: Duration,
    pub(crate) fps: u32,
}

pub(crate) fn parse() -> Result<Command, String> {
    let mut options =
        Options { clients: vec![128, 500, 1000], measured: Duration::from_secs(15), fps: 0 };
    let mut serve = false;
    let mut parser = lexopt::Parser::from_env();
    while let Some(arg) = parser.next().map_err(|error| error.to_string())? {
        match arg {
            Long("clients") => options.clients = clients(&text(&mut parser)?)?,
            Long("secs") => {
                let secs = number("--secs", &text(&mut parser)?, 1, 3_600)?;
                options.measured = Duration::from_secs(secs);
            }
            Long("fps") => options.fps = number("--fps", &text(&mut parser)?, 0, 1_000)?,
            Long("help") | Short('h') => return Ok(Command::Help),
            Value(word) if word == SERVE => serve = true,
            _ => return Err(format!("{} (--help lists the options)", arg.unexpected())),
        }
    }
    Ok(match serve {
        true => Command::Serve { fps: options.fps },
        false => Command::Test(options),
    })
}

fn text(parser: &mut lexopt::Parser) -> Result<String, String> {
    parser.value().and_then(|value| value.string()).map_err(|error| error.to_string())
}

fn clients(list: &str) -> Result<Vec<usize>, String> {
    list.split(',').map(|count| number("--clients", count.trim(), 1, 60_000)).collect()
}

fn number<T>(name: &str, text: &str, least: T, most: T) -> Result<T, String>
where
    T: FromStr + PartialOrd + Display,
{
    match text.parse() {
        Ok(number) if least <= number && number <= most => Ok(number),
        _ => Err(format!("{name}: `{text}` is not a number from {least} to {most}")),
    }
}
