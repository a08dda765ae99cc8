//! A small MMO server for Telepathy's clients as they are: login, spawn, movement, chat.
//!
//! ```text
//! cargo run --release --example mmo -- --listen 127.0.0.1:7777
//! ```
//!
//! You will see `listening on 127.0.0.1:7777`, then who comes, logs in and leaves, and why. A client in C# is
//! `tests/telepathy_client.cs`; docs/from-telepathy.md goes through this file.
//!
//! A message is a kind in one byte, then its fields, big-endian; a text has its length in bytes in front:
//!
//! ```text
//! to the server   1 Login    name u8+text
//!                 2 Walk     x i16, y i16                  where to
//!                 3 Chat     text u16+text
//! to a client     1 Welcome  id u32                        you
//!                 2 Refused  why u8+text                   and the end
//!                 3 Spawn    id u32, x i16, y i16, name u8+text
//!                 4 Despawn  id u32
//!                 5 Places   of each player id u32, x i16, y i16
//!                 6 Said     id u32, text u16+text
//! ```

use std::fmt::Display;
use std::io::Write;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use bytes::{Buf, BufMut};
use lexopt::prelude::*;
use log::{info, warn};
use tickwire::{
    Addr, ConnId, ConnMap, Error, Event, Framing, Outbox, Rate, Reactor, ReadError, ReadPayload,
    SendPolicy, Tick, Wait, WritePayload,
};

const HELP: &str = "\
A small MMO server for Telepathy's clients as they are: login, spawn, movement, chat.

Usage: cargo run --release --example mmo -- [OPTIONS]

Options:
  --listen ADDR    where to listen, IP:PORT; port 0 takes a free one  [default: 127.0.0.1:7777]
  --help           show this page

RUST_LOG sets how much is logged [default: info].";

/// Set by Ctrl-C and SIGTERM; looked at once a frame.
static STOP: AtomicBool = AtomicBool::new(false);
const FRAME: Duration = Duration::from_millis(50);
/// How far a player walks in a frame, along each axis.
const STRIDE: i32 = 5;
/// All their places fit one message.
const PLAYERS_MAX: usize = 2_000;
const NAME_LEN_MAX: usize = 16;
const CHAT_CHARS_MAX: usize = 200;
/// The kind of message of which only the latest counts.
const PLACES: u32 = 0;

fn main() -> ExitCode {
    let listen = match listen_option() {
        Ok(Some(listen)) => listen,
        Ok(None) => {
            println!("{HELP}");
            return ExitCode::SUCCESS;
        }
        Err(problem) => return fail(2, format!("{problem} (--help lists the options)")),
    };
    env_logger::Builder::from_env(env_logger::Env::default().default_filter_or("info")).init();
    if let Err(error) = ctrlc::set_handler(|| STOP.store(true, Ordering::Relaxed)) {
        warn!("Ctrl-C will end this less politely: {error}");
    }
    match serve(&listen) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => fail(1, error),
    }
}

fn fail(code: u8, problem: impl Display) -> ExitCode {
    eprintln!("error: {problem}");
    ExitCode::from(code)
}

fn serve(listen: &Addr) -> Result<(), Error> {
    let mut reactor = Reactor::builder()
        .framing(Framing::Telepathy) // its bytes, and its manners
        .frame_len_max(16 * 1024) // its MaxMessageSize
        .batch_memory(4 << 20) // what comes between two frames
        .first_frame_timeout(Duration::from_secs(10)) // to log in
        .message_rate(Rate::per_second(50)) // who sends more is read more slowly
        .send_queue_max(256 * 1024)
        .send_policy(SendPolicy::Disconnect) // who does not read is let go
        .build()?;
    let listener = reactor.listen(listen)?;
    println!("listening on {}", reactor.local_addr(listener).expect("we listen there"));
    let _ = std::io::stdout().flush(); // a launcher may wait for this line

    let mut world = World::default();
    let mut next_frame = Instant::now();
    while !STOP.load(Ordering::Relaxed) {
        next_frame = (next_frame + FRAME).max(Instant::now());
        let Tick { events, mut outbox, .. } = reactor.tick(Wait::Until(next_frame))?;
        for event in events {
            match event {
                Event::Connected { conn, peer, .. } => info!("{conn} from {peer} connected"),
                Event::Message { conn, payload } => world.hear(&mut outbox, conn, payload),
                Event::Disconnected { conn, reason } => {
                    info!("{conn} disconnected: {reason}");
                    world.leave(&mut outbox, conn);
                }
                _ => {}
            }
        }
        world.step(&mut outbox);
        reactor.flush(); // one send for each player
    }
    reactor.shutdown(Instant::now() + Duration::from_secs(1));
    while reactor.connections() > 0 {
        reactor.tick(Wait::Event(FRAME))?.events.for_each(drop);
    }
    info!("stopped; {} players were there", world.players.len());
    Ok(())
}

/// Who has logged in. Who has not is connected, but may log in and nothing else.
#[derive(Default)]
struct World {
    players: ConnMap<Player>,
    logins: u32,
    /// Whether places have changed since everybody was told.
    has_moved: bool,
    bytes: Vec<u8>,
}

struct Player {
    id: u32,
    name: String,
    place: [i16; 2],
    goal: [i16; 2],
}

impl World {
    fn hear(&mut self, outbox: &mut Outbox<'_>, conn: ConnId, payload: &[u8]) {
        match (ToServer::read(payload), self.players.get_mut(conn)) {
            (Ok(ToServer::Login { name }), None) => self.log_in(outbox, conn, name),
            (Ok(ToServer::Walk { goal }), Some(player)) => player.goal = goal,
            (Ok(ToServer::Chat { text }), Some(player)) => {
                let text = printable(text);
                info!("{}: {text}", player.name);
                let id = player.id;
                self.tell_all(outbox, |w| {
                    w.put_u8(6);
                    w.put_u32(id);
                    w.put_str_u16(&text);
                });
            }
            // None of our clients says that, or not now.
            (said, _) => {
                warn!("{conn} is kicked, having said {said:?}");
                outbox.kick(conn);
            }
        }
    }

    fn log_in(&mut self, outbox: &mut Outbox<'_>, conn: ConnId, name: &str) {
        if let Some(why) = self.refusal(name) {
            info!("{conn} is refused: {why}");
            let _ = outbox.send_with(conn, |w| {
                w.put_u8(2);
                w.put_str_u8(why);
            });
            outbox.close(conn); // the reason leaves first
            return;
        }
        self.logins += 1;
        let id = self.logins;
        info!("{name} ({conn}) is player {id}");
        // Whatever is refused here needs no care: the policy has ended the connection, and `Disconnected` follows.
        let _ = outbox.send_with(conn, |w| {
            w.put_u8(1);
            w.put_u32(id);
        });
        for player in self.players.values() {
            let _ = outbox.send_with(conn, |w| player.spawn(&mut **w));
        }
        let place = [0, 0];
        let player = Player { id, name: name.to_owned(), place, goal: place };
        self.bytes.clear();
        player.spawn(&mut self.bytes);
        self.players.insert(conn, player);
        outbox.broadcast(self.players.keys(), &self.bytes); // itself, too
    }

    fn refusal(&self, name: &str) -> Option<&'static str> {
        if !(1..=NAME_LEN_MAX).contains(&name.len())
            || !name.chars().all(|c| c.is_ascii_alphanumeric())
        {
            Some("a name has 1 to 16 letters and digits")
        } else if self.players.values().any(|player| player.name == name) {
            Some("the name is taken")
        } else if self.players.len() == PLAYERS_MAX {
            Some("the server is full")
        } else {
            None
        }
    }

    /// Tells that a player has left; does nothing for who had not logged in.
    fn leave(&mut self, outbox: &mut Outbox<'_>, conn: ConnId) {
        let Some(player) = self.players.remove(conn) else { return };
        self.tell_all(outbox, |w| {
            w.put_u8(4);
            w.put_u32(player.id);
        });
    }

    /// A frame of the game: everybody walks on, and everybody is told where all are.
    fn step(&mut self, outbox: &mut Outbox<'_>) {
        for player in self.players.values_mut() {
            self.has_moved |= player.place != player.goal;
            for (place, goal) in player.place.iter_mut().zip(player.goal) {
                let way = i32::from(goal) - i32::from(*place);
                *place += way.clamp(-STRIDE, STRIDE) as i16;
            }
        }
        if !std::mem::take(&mut self.has_moved) {
            return;
        }
        self.bytes.clear();
        self.bytes.put_u8(5);
        for player in self.players.values() {
            self.bytes.put_u32(player.id);
            self.bytes.put_i16(player.place[0]);
            self.bytes.put_i16(player.place[1]);
        }
        for conn in self.players.keys() {
            // Newer places take the room of older ones that have not left yet: a slow line skips frames.
            let _ = outbox.send_latest(conn, PLACES, &self.bytes);
        }
    }

    fn tell_all(&mut self, outbox: &mut Outbox<'_>, write: impl FnOnce(&mut Vec<u8>)) {
        self.bytes.clear();
        write(&mut self.bytes);
        outbox.broadcast(self.players.keys(), &self.bytes);
    }
}

impl Player {
    fn spawn(&self, w: &mut dyn BufMut) {
        w.put_u8(3);
        w.put_u32(self.id);
        w.put_i16(self.place[0]);
        w.put_i16(self.place[1]);
        w.put_str_u8(&self.name);
    }
}

/// What a client says, borrowed from the receive buffer.
#[derive(Debug)]
enum ToServer<'a> {
    Login { name: &'a str },
    Walk { goal: [i16; 2] },
    Chat { text: &'a str },
    Unknown,
}

impl ToServer<'_> {
    fn read(mut payload: &[u8]) -> Result<ToServer<'_>, ReadError> {
        let said = match payload.try_get_u8()? {
            1 => ToServer::Login { name: payload.try_get_str_u8()? },
            2 => ToServer::Walk { goal: [payload.try_get_i16()?, payload.try_get_i16()?] },
            3 => ToServer::Chat { text: payload.try_get_str_u16()? },
            _ => return Ok(ToServer::Unknown),
        };
        payload.try_end()?;
        Ok(said)
    }
}

/// A line as it may be shown on other people's screens.
fn printable(text: &str) -> String {
    text.chars().filter(|character| !character.is_control()).take(CHAT_CHARS_MAX).collect()
}

/// Where to listen, or `None` if the command line asks for help.
fn listen_option() -> Result<Option<Addr>, lexopt::Error> {
    let mut listen = Addr::from(([127, 0, 0, 1], 7777));
    let mut parser = lexopt::Parser::from_env();
    while let Some(arg) = parser.next()? {
        match arg {
            Long("listen") => listen = parser.value()?.parse()?,
            Long("help") | Short('h') => return Ok(None),
            _ => return Err(arg.unexpected()),
        }
    }
    Ok(Some(listen))
}
