//! The command line.

use std::path::PathBuf;

use lexopt::prelude::*;

use crate::Failure;
use crate::plan::{Aimed, Serve};
use crate::scenarios::Extent;

pub const HELP: &str = "\
tickwire beside its rivals, under the same load, in the same run.

Usage: cargo run --release --manifest-path benches/rivals/Cargo.toml [-- OPTIONS]

  (none)          the rows of the speed table: this library, an epoll loop, tokio; about a quarter of an hour
  --quick         four of those rows, five runs; about four minutes
  --full          every scenario and every server, three runs; about half an hour
  --only TEXT     only rows whose name contains TEXT; may be given several times
  --servers LIST  only these servers, of: tickwire, epoll, tokio, tokio-best, message-io, threads, netty
                  (the epoll loop is always there: the others are measured against it)
  --runs N        so many runs
  --secs S        so many seconds measured in each (1.5; with --full 1)
  --out FILE      the report, as Markdown, with charts beside it. Without it, the default comparison goes to
                  docs/benchmarks.md and the full one to docs/benchmarks-full.md, if all of their rows were run
  --json FILE     every single measurement
  --list          the rows and their servers
  -h, --help      this text

Each measurement starts a server on core 0 and the load on core 1. Servers take turns within a run, in another order
in each; a ratio compares two servers within one run, and the median of the ratios is what is reported. Every byte
of every reply is checked. Ctrl-C ends it with what has been measured.
Netty takes part if Debian's libnetty-java and a JDK are installed.
";

pub enum Task {
    Help,
    List,
    Compare(Args),
    Serve(Serve),
    Load(Aimed),
}

pub struct Args {
    pub extent: Extent,
    pub only: Vec<String>,
    pub servers: Option<Vec<String>>,
    pub runs: usize,
    pub seconds: Option<f64>,
    pub out: Option<PathBuf>,
    pub json: Option<PathBuf>,
}

impl Args {
    pub fn parse() -> Result<Task, Failure> {
        let mut extent = Extent::Default;
        let (mut only, mut servers, mut runs, mut seconds, mut out, mut json) =
            (Vec::new(), None, None, None, None, None);
        let mut parser = lexopt::Parser::from_env();
        while let Some(arg) = parser.next()? {
            match arg {
                Short('h') | Long("help") => return Ok(Task::Help),
                Long("list") => return Ok(Task::List),
                Long("quick") => extent = Extent::Quick,
                Long("full") => extent = Extent::Full,
                Long("only") => only.push(parser.value()?.string()?),
                Long("servers") => {
                    let list = parser.value()?.string()?;
                    servers = Some(list.split(',').map(server).collect::<Result<_, _>>()?);
                }
                Long("runs") => runs = Some(parser.value()?.parse::<usize>()?.max(1)),
                Long("secs") => {
                    let value: f64 = parser.value()?.parse()?;
                    if !(0.1..=60.0).contains(&value) {
                        return Err("--secs takes 0.1 to 60 seconds".into());
                    }
                    seconds = Some(value);
                }
                Long("out") => out = Some(parser.value()?.into()),
                Long("json") => json = Some(parser.value()?.into()),
                Value(role) if role == "serve" => {
                    return Ok(Task::Serve(serde_json::from_str(&parser.value()?.string()?)?));
                }
                Value(role) if role == "load" => {
                    return Ok(Task::Load(serde_json::from_str(&parser.value()?.string()?)?));
                }
                _ => return Err(format!("{}; --help shows all options", arg.unexpected()).into()),
            }
        }
        let is_whole = only.is_empty() && servers.is_none();
        let usual = match extent {
            Extent::Default => Some(docs("benchmarks.md")),
            Extent::Full => Some(docs("benchmarks-full.md")),
            Extent::Quick => None,
        };
        Ok(Task::Compare(Args {
            runs: runs.unwrap_or(extent.runs()),
            out: out.or(usual.filter(|_| is_whole && runs.is_none() && seconds.is_none())),
            extent,
            only,
            servers,
            seconds,
            json,
        }))
    }
}

fn server(name: &str) -> Result<String, Failure> {
    let known = ["tickwire", "epoll", "tokio", "tokio-best", "message-io", "threads", "netty"];
    match known.contains(&name) {
        true => Ok(name.to_owned()),
        false => Err(format!("there is no server '{name}'; there are {}", known.join(", ")).into()),
    }
}

fn docs(name: &str) -> PathBuf {
    [env!("CARGO_MANIFEST_DIR"), "..", "..", "docs", name].iter().collect()
}
