//! The command line.

use std::ffi::OsString;
use std::fmt::Display;
use std::path::PathBuf;
use std::str::FromStr;

use lexopt::prelude::*;
use serde::de::DeserializeOwned;

use crate::scenario::{Arrival, Kind, LoadOrder, Scenario, ServerOrder};
use crate::{criteria, limits, payload};

/// How the program starts itself again, in other roles. Not for people, so not in the help.
pub(crate) const SERVE: &str = "serve";
pub(crate) const LOAD: &str = "load";

pub(crate) enum Command {
    Help,
    Test(Options),
    Serve(ServerOrder),
    Load(LoadOrder),
}

#[derive(Debug)]
pub(crate) struct Options {
    pub(crate) clients: Vec<usize>,
    pub(crate) scenario: Scenario,
    pub(crate) processes: usize,
    /// In bytes.
    pub(crate) keep_free: u64,
    pub(crate) json: Option<PathBuf>,
    pub(crate) svg: Option<PathBuf>,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            clients: vec![128, 500, 1_000],
            scenario: Scenario {
                kind: Kind::Echo,
                size: 100,
                rate: 28.0,
                burst: 2,
                arrival: Arrival::Spread,
                secs: 15,
                fps: 0,
            },
            processes: 1,
            keep_free: limits::keep_free(),
            json: None,
            svg: None,
        }
    }
}

pub(crate) fn help() -> String {
    format!(
        "\
Telepathy's Connections Test: an echo server, and clients in a process of their own that each send
two 100-byte messages 14 times a second and check every echo. Ends with a table. Other loads, more
clients, files with the result: by option.

Usage: cargo run --release --example connection_scale -- [OPTIONS]

What is played:
  --clients LIST    how many clients, a row for each number     [default: 128,500,1000]
  --secs N          seconds that each row is measured           [default: 15]
  --broadcast       one client sends, the server sends it to all clients
  --idle            nobody sends; at the end each client shows that it is still served
  --size N          bytes of a message, {size_min} to {SIZE_MAX}             [default: 100]
  --rate N          messages a second of each client that sends [default: 28]
  --burst N         how many of them at once                    [default: 2]
  --together        all clients send at the same moment, instead of each at its own
  --fps N           the server's loop. 0: event driven;
                    1 to 1000: N frames a second                [default: 0]

How:
  --processes N     N servers, sharing one port (SO_REUSEPORT), and N processes of clients, for
                    more clients than one process may have descriptors  [default: 1]
  --keep-free MIB   connect no more clients when less memory than this is free
                                               [default: an eighth of the machine: {keep_free}]

What is written, besides the table:
  --json FILE       all figures
  --svg FILE        a chart of CPU (idle: memory) and round trips over clients

  --help            show this page

{pass}
{meaning}
The exit code is 0 if all rows passed, 1 if not or if Ctrl-C ended the test early, 2 for arguments
that make no sense. CPU and memory are read from /proc: elsewhere than on Linux they are n/a.",
        size_min = payload::LEN_MIN,
        keep_free = limits::keep_free() >> 20,
        pass = criteria::pass(),
        meaning = criteria::meaning(),
    )
}

/// The largest message that the server takes, by the library's default.
const SIZE_MAX: usize = 16_384;

/// Beyond this nobody has tried.
const CLIENTS_MAX: usize = 2_000_000;

/// What the arguments ask for, without the name of the program.
pub(crate) fn parse(args: impl IntoIterator<Item = OsString>) -> Result<Command, String> {
    let mut options = Options::default();
    let mut parser = lexopt::Parser::from_args(args);
    let (mut broadcast, mut idle, mut paced) = (false, false, None);
    while let Some(arg) = parser.next().map_err(|error| error.to_string())? {
        let scenario = &mut options.scenario;
        match arg {
            Long("clients") => options.clients = clients(&text(&mut parser)?)?,
            Long("secs") => scenario.secs = number("--secs", &text(&mut parser)?, 1, 3_600)?,
            Long("broadcast") => broadcast = true,
            Long("idle") => idle = true,
            Long("size") => {
                let least = payload::LEN_MIN;
                scenario.size = number("--size", &text(&mut parser)?, least, SIZE_MAX)?;
            }
            Long("rate") => {
                scenario.rate = number("--rate", &text(&mut parser)?, 0.01, 100_000.0)?;
                paced = Some("--rate");
            }
            Long("burst") => {
                scenario.burst = number("--burst", &text(&mut parser)?, 1, 1_000)?;
                paced = Some("--burst");
            }
            Long("together") => {
                scenario.arrival = Arrival::Together;
                paced = Some("--together");
            }
            Long("fps") => scenario.fps = number("--fps", &text(&mut parser)?, 0, 1_000)?,
            Long("processes") => {
                options.processes = number("--processes", &text(&mut parser)?, 1, 200)?;
            }
            Long("keep-free") => {
                let mib: u64 = number("--keep-free", &text(&mut parser)?, 0, 1 << 40)?;
                options.keep_free = mib << 20;
            }
            Long("json") => options.json = Some(path("--json", &mut parser)?),
            Long("svg") => options.svg = Some(path("--svg", &mut parser)?),
            Long("help") | Short('h') => return Ok(Command::Help),
            Value(word) if word == SERVE => return Ok(Command::Serve(order(&mut parser)?)),
            Value(word) if word == LOAD => return Ok(Command::Load(order(&mut parser)?)),
            _ => return Err(format!("{} (--help lists the options)", arg.unexpected())),
        }
    }
    options.scenario.kind = match (broadcast, idle) {
        (false, false) => Kind::Echo,
        (true, false) => Kind::Broadcast,
        (false, true) => Kind::Idle,
        (true, true) => return Err("--broadcast and --idle exclude each other".to_owned()),
    };
    if let (true, Some(option)) = (idle, paced) {
        return Err(format!("{option} makes no sense with --idle: nobody sends"));
    }
    if broadcast && options.processes > 1 {
        return Err("--broadcast needs --processes 1: a server reaches its own clients only".into());
    }
    Ok(Command::Test(options))
}

fn text(parser: &mut lexopt::Parser) -> Result<String, String> {
    parser.value().and_then(|value| value.string()).map_err(|error| error.to_string())
}

fn path(name: &str, parser: &mut lexopt::Parser) -> Result<PathBuf, String> {
    let path = parser.value().map_err(|error| error.to_string())?;
    match path.is_empty() {
        true => Err(format!("{name}: the name of the file is empty")),
        false => Ok(path.into()),
    }
}

fn order<T: DeserializeOwned>(parser: &mut lexopt::Parser) -> Result<T, String> {
    serde_json::from_str(&text(parser)?).map_err(|error| error.to_string())
}

fn clients(list: &str) -> Result<Vec<usize>, String> {
    list.split(',').map(|count| number("--clients", count.trim(), 1, CLIENTS_MAX)).collect()
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

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(args: &[&str]) -> Result<Options, String> {
        match parse(args.iter().map(OsString::from))? {
            Command::Test(options) => Ok(options),
            _ => Err("another command".to_owned()),
        }
    }

    #[test]
    fn without_options_it_is_telepathys_test() {
        let options = parsed(&[]).expect("no arguments make sense");
        assert_eq!(options.clients, [128, 500, 1_000]);
        assert_eq!(options.scenario, Options::default().scenario);
    }

    #[test]
    fn options_are_taken() {
        let options = parsed(&[
            "--clients",
            "5, 6",
            "--size=16",
            "--rate",
            "0.5",
            "--burst",
            "1",
            "--together",
            "--fps",
            "60",
            "--secs",
            "3",
            "--processes",
            "2",
            "--keep-free",
            "7",
            "--json",
            "a",
        ]);
        let options = options.expect("they make sense");
        let scenario = Scenario {
            kind: Kind::Echo,
            size: 16,
            rate: 0.5,
            burst: 1,
            arrival: Arrival::Together,
            secs: 3,
            fps: 60,
        };
        assert_eq!((options.clients, options.scenario), (vec![5, 6], scenario));
        assert_eq!((options.processes, options.keep_free), (2, 7 << 20));
        assert_eq!((options.json, options.svg), (Some(PathBuf::from("a")), None));
    }

    #[test]
    fn what_makes_no_sense_is_named() {
        for (args, mention) in [
            (&["--clients", ""][..], "--clients: `` is not a number from 1 to 2000000"),
            (&["--size", "15"], "--size: `15` is not a number from 16 to 16384"),
            (&["--rate", "NaN"], "--rate: `NaN`"),
            (&["--burst", "0"], "--burst"),
            (&["--processes", "0"], "--processes"),
            (&["--keep-free", "-1"], "--keep-free"),
            (&["--json", ""], "--json"),
            (&["--svg"], "--svg"),
            (&["--broadcast", "--idle"], "exclude each other"),
            (&["--idle", "--rate", "3"], "--rate makes no sense with --idle"),
            (&["--broadcast", "--processes", "2"], "--processes 1"),
            (&["--loud"], "--help lists the options"),
            (&["serve", "{}"], "missing field"),
        ] {
            let problem = parsed(args).expect_err("it makes no sense");
            assert!(problem.contains(mention), "{args:?}: {problem}");
        }
    }
}
