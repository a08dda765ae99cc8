//! What happens when a client reads too slowly, and what a server can do about it.
//!
//! ```text
//! cargo run --release --example slow_consumer
//! ```
//!
//! A server and two clients, one of which does not read, in one process. You will see four scenes, told line by
//! line: a queue gets full; snapshots are left out; who asks too much is not listened to for a while; who does not
//! keep up is let go. It ends by itself within a second.

use std::process::ExitCode;
use std::time::Duration;

use lexopt::prelude::*;
use tickwire::{Builder, ConnId, Error, Event, Reactor, SendPolicy, SocketOptions, Tick, Wait};

const HELP: &str = "\
What happens when a client reads too slowly, and what a server can do about it: four scenes with a
server and two clients in one process, told line by line.

Usage: cargo run --release --example slow_consumer -- [OPTIONS]

Options:
  --queue BYTES    what may wait for a client, 65536 to 16777216  [default: 131072]
  --help           show this page";

const SNAPSHOT: [u8; 1_000] = [7; 1_000];

fn main() -> ExitCode {
    env_logger::init();
    let Err(error) = run() else { return ExitCode::SUCCESS };
    eprintln!("error: {error}");
    ExitCode::from(if error.is::<lexopt::Error>() { 2 } else { 1 })
}

fn run() -> Result<(), Box<dyn std::error::Error>> {
    let Some(queue) = queue_option()? else {
        println!("{HELP}");
        return Ok(());
    };
    // One tick brings at most 16 messages of one client: scene 3 relies on it.
    let builder = Reactor::builder().send_queue_max(queue).frame_quantum(16);
    println!("At most {queue} bytes may wait for a client; a snapshot has {}.\n", SNAPSHOT.len());
    fill_up(Scene::new(builder.clone())?);
    leave_out(Scene::new(builder.clone())?)?;
    pause(Scene::new(builder.clone())?, queue / 2)?;
    disconnect(Scene::new(builder.send_policy(SendPolicy::Disconnect))?)?;
    Ok(())
}

/// What `Full` means.
fn fill_up(mut scene: Scene) {
    println!("1. The slow client reads nothing, and the server sends on and on:");
    let mut taken = 0;
    while scene.server.outbox().send(scene.to_slow, &SNAPSHOT).is_ok() {
        taken += 1;
        scene.server.flush();
    }
    let mut outbox = scene.server.outbox();
    let refused = outbox.send(scene.to_slow, &SNAPSHOT);
    println!("   {taken} snapshots were taken, then `send` says {refused:?}.");
    let queued = outbox.queued(scene.to_slow);
    println!("   `queued` says {queued}; the rest is in the buffers of the system.");
    println!("   To the quick client, `send` says {:?}.\n", outbox.send(scene.to_quick, &SNAPSHOT));
}

/// For what is soon outdated: leave it out instead of letting it wait.
fn leave_out(mut scene: Scene) -> Result<(), Error> {
    println!("2. Who has one waiting gets no new snapshot, which would be old when it is read:");
    let (mut sent, mut left_out) = ([0, 0], [0, 0]);
    while left_out[0] < 1_000 {
        let mut outbox = scene.server.outbox();
        for (client, conn) in [scene.to_slow, scene.to_quick].into_iter().enumerate() {
            match outbox.queued(conn) {
                0 => sent[client] += usize::from(outbox.send(conn, &SNAPSHOT).is_ok()),
                _ => left_out[client] += 1,
            }
        }
        scene.server.tick(Wait::No)?.events.for_each(drop); // begins with a flush
        read(&mut scene.quick, Wait::No)?;
    }
    println!("   sent to the quick client {}, left out {};", sent[1], left_out[1]);
    println!("   sent to the slow client {}, left out {};", sent[0], left_out[0]);
    let queued = scene.server.outbox().queued(scene.to_slow);
    println!("   `queued` says {queued}: the last of those.");
    let mut got = 0;
    while got < sent[0] {
        got += read(&mut scene.slow, Wait::Event(Duration::from_millis(1)))?;
        scene.server.tick(Wait::No)?.events.for_each(drop);
    }
    println!("   It reads again: after the {got} that were on their way, it gets the newest.\n");
    Ok(())
}

/// For what must not be left out: answer no faster than the answers are read.
fn pause(mut scene: Scene, high_water: usize) -> Result<(), Error> {
    println!("3. The slow client asks and asks, and reads no answer until it is held up:");
    let (mut asked, mut read_back, mut pauses, mut is_paused) = (0, 0, 0, false);
    while pauses == 0 || read_back < asked {
        match pauses {
            0 => asked += usize::from(scene.slow.outbox().send(scene.slow_conn, b"?").is_ok()),
            _ => read_back += read(&mut scene.slow, Wait::Event(Duration::from_millis(1)))?,
        }
        scene.slow.flush();
        let Tick { events, mut outbox, .. } = scene.server.tick(Wait::No)?;
        for event in events {
            if let Event::Message { conn, .. } = event {
                outbox.send(conn, &SNAPSHOT).expect("a tick brings less than the other half");
            }
        }
        let queued = outbox.queued(scene.to_slow);
        if !is_paused && queued > high_water {
            println!("   `queued` says {queued}: `pause_read` after {asked} questions;");
            is_paused = outbox.pause_read(scene.to_slow);
            pauses += 1;
        } else if is_paused && queued < high_water / 2 {
            println!("   it reads, and `queued` says {queued}: `resume_read`;");
            is_paused = !outbox.resume_read(scene.to_slow);
        }
    }
    println!("   {asked} questions, {read_back} answers.\n");
    Ok(())
}

/// For who must keep up or go.
fn disconnect(mut scene: Scene) -> Result<(), Error> {
    println!("4. With `SendPolicy::Disconnect`, the slow client reads nothing:");
    while let Ok(()) = scene.server.outbox().send(scene.to_slow, &SNAPSHOT) {
        scene.server.flush();
    }
    let now = scene.server.outbox().send(scene.to_slow, &SNAPSHOT);
    println!("   one snapshot was too many, and now `send` says {now:?};");
    for event in scene.server.tick(Wait::Event(Duration::from_secs(1)))?.events {
        if let Event::Disconnected { reason, .. } = event {
            println!("   its last event is Disconnected: {reason}.");
        }
    }
    Ok(())
}

/// A server, and two clients that each have a reactor, so that one can read while the other does not.
struct Scene {
    server: Reactor,
    to_slow: ConnId,
    to_quick: ConnId,
    slow: Reactor,
    slow_conn: ConnId,
    quick: Reactor,
}

impl Scene {
    fn new(builder: Builder) -> Result<Scene, Error> {
        // Small buffers in the system, so that there is not much to fill.
        let small = SocketOptions::new().send_buffer(65_536).receive_buffer(65_536);
        let mut server = builder.socket_options(small.clone()).build()?;
        let listener = server.listen("127.0.0.1:0")?;
        let addr = server.local_addr(listener).expect("it listens there");
        let mut join = || -> Result<(Reactor, ConnId, ConnId), Error> {
            let mut client = Reactor::builder().socket_options(small.clone()).build()?;
            let conn = client.connect(&addr)?;
            loop {
                client.tick(Wait::No)?.events.for_each(drop);
                let mut events = server.tick(Wait::Event(Duration::from_millis(1)))?.events;
                if let Some(Event::Connected { conn: to_client, .. }) = events.next() {
                    return Ok((client, conn, to_client));
                }
            }
        };
        let ((slow, slow_conn, to_slow), (quick, _, to_quick)) = (join()?, join()?);
        Ok(Scene { server, to_slow, to_quick, slow, slow_conn, quick })
    }
}

/// Reads what is there, and says how many messages that was.
fn read(client: &mut Reactor, wait: Wait) -> Result<usize, Error> {
    let events = client.tick(wait)?.events;
    Ok(events.filter(|event| matches!(event, Event::Message { .. })).count())
}

/// How much may wait, or `None` if the command line asks for help.
fn queue_option() -> Result<Option<usize>, lexopt::Error> {
    let mut queue = 131_072;
    let mut parser = lexopt::Parser::from_env();
    while let Some(arg) = parser.next()? {
        match arg {
            Long("queue") => queue = parser.value()?.parse()?,
            Long("help") | Short('h') => return Ok(None),
            _ => return Err(arg.unexpected()),
        }
    }
    match queue {
        65_536..=16_777_216 => Ok(Some(queue)),
        _ => Err("--queue: choose 65536 to 16777216".into()),
    }
}
