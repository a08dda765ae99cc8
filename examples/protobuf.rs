//! Protobuf messages, decoded straight from the borrowed payload: a player's input up, the world's snapshot down.
//!
//! ```text
//! cargo run --release --example protobuf
//! ```
//!
//! A server and three bots in one process play ten seconds of a game at 60 ticks a second. One line a second tells how far
//! the bots have walked, and how old their inputs are.
//!
//! The schema is written with prost's derive macros, so no `protoc` is needed. As a `.proto` file it would be
//!
//! ```text
//! message Input    { uint32 tick = 1; float dx = 2; float dy = 3; uint32 buttons = 4; }
//! message Player   { uint64 id = 1; float x = 2; float y = 3; string name = 4; }
//! message Snapshot { uint32 tick = 1; repeated Player players = 2; }
//! message ToServer { oneof what { string join = 1; Input input = 2; } }
//! ```

use std::time::{Duration, Instant};

use prost::Message;
use tickwire::{ConnId, ConnMap, ConnectOptions, Error, Event, Framing, Reactor, Tick, Wait};

#[derive(Clone, PartialEq, Message)]
struct Input {
    #[prost(uint32, tag = "1")]
    tick: u32,
    #[prost(float, tag = "2")]
    dx: f32,
    #[prost(float, tag = "3")]
    dy: f32,
    #[prost(uint32, tag = "4")]
    buttons: u32,
}

#[derive(Clone, PartialEq, Message)]
struct Player {
    #[prost(uint64, tag = "1")]
    id: u64,
    #[prost(float, tag = "2")]
    x: f32,
    #[prost(float, tag = "3")]
    y: f32,
    #[prost(string, tag = "4")]
    name: String,
}

#[derive(Clone, PartialEq, Message)]
struct Snapshot {
    #[prost(uint32, tag = "1")]
    tick: u32,
    #[prost(message, repeated, tag = "2")]
    players: Vec<Player>,
}

#[derive(Clone, PartialEq, Message)]
struct ToServer {
    #[prost(oneof = "What", tags = "1, 2")]
    what: Option<What>,
}

#[derive(Clone, PartialEq, prost::Oneof)]
enum What {
    #[prost(string, tag = "1")]
    Join(String),
    #[prost(message, tag = "2")]
    Input(Input),
}

/// The game, with its part of the network.
struct Server {
    reactor: Reactor,
    players: ConnMap<Player>,
    snapshot: Snapshot,
    bytes: Vec<u8>,
    lag: u32,
}

impl Server {
    fn new() -> Result<(Server, tickwire::Addr), Error> {
        // Protobuf's own way to tell where a message ends: a varint before it.
        let mut reactor = Reactor::builder().framing(Framing::PROTOBUF).build()?;
        let listener = reactor.listen("127.0.0.1:0")?;
        let addr = reactor.local_addr(listener).expect("we listen there");
        let (players, snapshot) = (ConnMap::new(), Snapshot::default());
        Ok((Server { reactor, players, snapshot, bytes: Vec::new(), lag: 0 }, addr))
    }

    /// One tick of the game: everybody's input, then the snapshot to all.
    fn step(&mut self, until: Instant) -> Result<(), Error> {
        let Tick { events, mut outbox, .. } = self.reactor.tick(Wait::Until(until))?;
        for event in events {
            match event {
                // `payload` is borrowed from the receive buffers; only strings and lists are copied out of it.
                Event::Message { conn, payload } => {
                    match ToServer::decode(payload).map(|to| to.what) {
                        Ok(Some(What::Join(name))) => {
                            self.players
                                .insert(conn, Player { id: conn.to_bits(), name, x: 0.0, y: 0.0 });
                        }
                        Ok(Some(What::Input(input))) => {
                            if let Some(player) = self.players.get_mut(conn) {
                                // Never believe a client's numbers further than the rules go.
                                player.x += input.dx.clamp(-1.0, 1.0);
                                player.y += input.dy.clamp(-1.0, 1.0);
                                self.lag = self.snapshot.tick.saturating_sub(input.tick);
                            }
                        }
                        Ok(None) | Err(_) => {
                            outbox.kick(conn);
                        }
                    }
                }
                Event::Disconnected { conn, .. } => {
                    self.players.remove(conn);
                }
                _ => {}
            }
        }
        self.snapshot.tick += 1;
        self.snapshot.players.clear();
        self.snapshot.players.extend(self.players.values().cloned());
        // The same bytes go to all: encode them once.
        self.bytes.clear();
        self.snapshot.encode(&mut self.bytes).expect("a Vec grows");
        for (conn, error) in outbox.broadcast(self.players.keys(), &self.bytes).refused {
            eprintln!("{conn}: {error}");
        }
        self.reactor.flush();
        Ok(())
    }
}

/// A client that answers every snapshot with an input.
struct Bot {
    reactor: Reactor,
    last: Snapshot,
}

impl Bot {
    fn new(name: String, addr: &tickwire::Addr) -> Result<Bot, Error> {
        let mut reactor = Reactor::new()?;
        let options = ConnectOptions::new().framing(Framing::PROTOBUF);
        let conn = reactor.connect_with(addr, &options)?;
        say(&mut reactor.outbox(), conn, What::Join(name));
        reactor.flush();
        Ok(Bot { reactor, last: Snapshot::default() })
    }

    fn step(&mut self) -> Result<(), Error> {
        let Tick { events, mut outbox, .. } = self.reactor.tick(Wait::No)?;
        for event in events {
            if let Event::Message { conn, payload } = event {
                self.last = Snapshot::decode(payload).expect("the server speaks protobuf");
                let tick = self.last.tick;
                say(
                    &mut outbox,
                    conn,
                    What::Input(Input { tick, dx: 0.5, dy: 0.25, buttons: tick % 3 }),
                );
            }
        }
        self.reactor.flush();
        Ok(())
    }
}

/// Encodes in place: prost writes into the send queue itself.
fn say(outbox: &mut tickwire::Outbox<'_>, to: ConnId, what: What) {
    let message = ToServer { what: Some(what) };
    if let Err(error) = outbox.try_send_with(to, |w| message.encode(&mut &mut **w)) {
        eprintln!("{to}: {error}");
    }
}

fn main() -> Result<(), Error> {
    let seconds = std::env::args().nth(1).and_then(|arg| arg.parse().ok()).unwrap_or(10);
    let (mut server, addr) = Server::new()?;
    let bots = ["Ada", "Grace", "Edsger"].map(|name| Bot::new(name.to_owned(), &addr));
    let mut bots = bots.into_iter().collect::<Result<Vec<_>, _>>()?;
    let mut frame = Instant::now();
    for tick in 1..=seconds * 60 {
        frame += Duration::from_nanos(16_666_667);
        server.step(frame)?;
        bots.iter_mut().try_for_each(Bot::step)?;
        if tick % 60 == 0 {
            let seen = &bots[0].last;
            let walked: Vec<_> =
                seen.players.iter().map(|p| format!("{} {:.1}", p.name, p.x)).collect();
            println!(
                "tick {}: {}; an input is {} ticks old",
                seen.tick,
                walked.join(", "),
                server.lag
            );
        }
    }
    Ok(())
}
