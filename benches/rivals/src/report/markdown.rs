//! The page in docs/.

use std::fmt::Write;
use std::fs;
use std::path::Path;

use super::{chart, figures};
use crate::Failure;
use crate::args::Args;
use crate::compare::Measured;
use crate::machine;
use crate::scenarios::Extent;
use crate::servers;

pub fn write(path: &Path, args: &Args, rows: &[Measured]) -> Result<(), Failure> {
    let mut page = String::new();
    head(&mut page, args)?;
    for (chart, title) in chart::draw(path, rows)? {
        writeln!(page, "![{title}]({chart})\n")?;
    }
    for measured in rows {
        table(&mut page, measured)?;
    }
    if rows.iter().any(|measured| measured.row.name.starts_with("ping-pong 25")) {
        page.push_str(SPAN_NETTY);
    }
    fs::write(path, page)?;
    println!("\nWritten: {}", path.display());
    Ok(())
}

fn head(page: &mut String, args: &Args) -> Result<(), Failure> {
    let given: Vec<_> = std::env::args().skip(1).collect();
    let command = if given.is_empty() { String::new() } else { format!(" -- {}", given.join(" ")) };
    writeln!(page, "# Benchmarks: beside the rivals, in the same run\n")?;
    writeln!(
        page,
        "Written by `cargo run --release --manifest-path benches/rivals/Cargo.toml{command}`; not by hand.\n"
    )?;
    page.push_str(METHOD);
    writeln!(page, "\n| | |\n|---|---|\n| date | {} |", machine::today())?;
    for (what, value) in machine::describe() {
        writeln!(page, "| {what} | {value} |")?;
    }
    let versions: Vec<_> =
        machine::versions().iter().map(|(name, version)| format!("{name} {version}")).collect();
    writeln!(page, "| versions | {} |", versions.join(", "))?;
    if args.extent == Extent::Full {
        let netty =
            if servers::has_netty() { servers::netty_version() } else { "not there".to_owned() };
        writeln!(page, "| Netty | {netty}, {} |", machine::output("java", &["--version"]))?;
    }
    writeln!(
        page,
        "| runs | {} of {} s each |\n",
        args.runs,
        args.seconds.unwrap_or(args.extent.seconds())
    )?;
    Ok(())
}

fn table(page: &mut String, measured: &Measured) -> Result<(), Failure> {
    writeln!(page, "### {}\n", measured.row.name)?;
    writeln!(page, "| {} |", figures::heads(measured).join(" | "))?;
    writeln!(page, "|---|{}", "--:|".repeat(7))?;
    for column in &measured.columns {
        writeln!(page, "| {} |", figures::cells(measured, column).join(" | "))?;
    }
    writeln!(page)?;
    Ok(())
}

const METHOD: &str = "\
Each measurement starts a server on core 0 and the load on core 1, on loopback. The load is one thread that checks every byte of
every reply, in order. The servers of a row take turns within a run, in another order in each. Given are medians over the runs, with
the least and the most; \"CPU\" is the server's processor time, user and system, for each message that arrived at a client (a
delivery, where one is sent to many); \"rate : epoll\" and \"CPU : epoll\" are the medians of the ratios within each run to the epoll
loop that wakes for each event. Round trips are counted from when a message was due, for what has a rate, and else from its send.

- *epoll loop*: a single-threaded, level-triggered loop written for nothing but this; one receive into a shared buffer, one send. The practical
  limit.
- *tokio*: current-thread runtime and tokio-util's `LengthDelimitedCodec`; *plain* sends each message, *best* feeds what is ready and
  then flushes.
- *at 60 Hz*: looks at its sockets 60 times a second and sleeps in between, as a game does.

- *connections N*: N clients, each sends two messages of 100 bytes 14 times a second: Telepathy's Connections Test.
- *flood N/W/S*: N clients, each keeps W messages of S bytes on their way.
- *ping-pong A*: one connection, A actors with 50 messages of 192 bytes on their way each: SpanNetty's RemotePingPong, timed. One
  message counts once here; the original counts a ping and its echo as two.
- *broadcast N*: one client talks to N, 16 messages on their way.
- *crowd 200*: 200 players, 10 messages of 100 bytes a second each, all to all: 400,000 deliveries a second.
- *idle N*: N clients come and stay.
";

const SPAN_NETTY: &str = "\
### SpanNetty's own figures

Messages a second as its readme gives them, on a Xeon E3-1230 V2 under Windows 10 and .NET Core 3.1, with Akka's remoting on top; they count a ping
and its echo as two. They show the shape and no more: another machine, and more work for each message. For a comparison, take Netty's lines above.

| actors | packed | batched | each flushed |
|--:|--:|--:|--:|
| 1 | 74,075 | 64,893 | 31,348 |
| 5 | 167,281 | 145,181 | 53,698 |
| 10 | 196,406 | 162,761 | 62,066 |
| 15 | 209,805 | 160,231 | 60,902 |
| 20 | 210,096 | 148,242 | 56,694 |
| 25 | 210,678 | 132,269 | 15,152 |
| 30 | 203,985 | 123,597 | not run |
";
