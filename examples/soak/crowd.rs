//! Clients that come and go, each in one of the ways in which clients do.

use std::collections::HashMap;
use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpStream};
use std::time::Duration;

use socket2::SockRef;
use tickwire::sim::Rng;
use tickwire::{ConnId, Event, Outbox, Reactor};

/// What asks the server to close.
pub(crate) const CLOSE_ME: &[u8] = b"close me";
/// What asks the server to kick.
pub(crate) const KICK_ME: &[u8] = b"kick me";

pub(crate) struct Crowd {
    rng: Rng,
    arrived: u64,
    /// Clients with a reactor, and how each ends.
    here: HashMap<ConnId, Manner>,
    /// Plain sockets that wait for the server's end.
    lingering: Vec<TcpStream>,
    pub(crate) tally: Vec<(&'static str, u64)>,
}

/// How a client with a reactor ends.
#[derive(Clone, Copy)]
enum Manner {
    Kick,
    Close,
    AskForClose,
    AskForKick,
    /// Before it has come about.
    Cancel,
}

impl Crowd {
    pub(crate) fn new() -> Crowd {
        let (here, lingering) = (HashMap::new(), Vec::new());
        Crowd { rng: Rng::new(1), arrived: 0, here, lingering, tally: Vec::new() }
    }

    /// Some more come, unless enough are here.
    pub(crate) fn arrive(&mut self, clients: &mut Reactor, server: SocketAddr) {
        for _ in 0..ARRIVALS {
            if self.here.len() + self.lingering.len() >= HERE_MAX {
                return;
            }
            self.arrived += 1;
            // Ports of a pair of addresses run out where orderly ends leave some in TIME_WAIT.
            let [a, b, c] = [127, (self.arrived >> 6) as u8 & 63, 1 + (self.arrived as u8 & 63)];
            let to = SocketAddr::new(Ipv4Addr::new(a, 0, b, c).into(), server.port());
            match self.rng.below(100) {
                0..50 => self.meet(clients, to, Manner::Kick, "aborts after an echo"),
                50..54 => self.meet(clients, to, Manner::Close, "closes after an echo"),
                54..57 => self.meet(clients, to, Manner::AskForClose, "is closed by the server"),
                57..65 => self.meet(clients, to, Manner::AskForKick, "is kicked by the server"),
                65..70 => self.meet(clients, to, Manner::Cancel, "cancels its connect"),
                70..75 => self.rude(to, b"", true, "aborts at once"),
                75..80 => {
                    self.rude(to, b"\0\0\0\x10half a", true, "aborts in the middle of a frame")
                }
                80..85 => self.rude(to, b"\0\0\0\x02hi", true, "aborts behind a message"),
                85..90 => self.rude(to, b"GET / HTTP/1.1\r\n\r\n", false, "talks another protocol"),
                90..94 => self.rude(to, b"\xff\xff\xff\xff", false, "announces too much"),
                94..97 => self.rude(to, b"\0\0\0\x09cut", false, "ends in the middle of a frame"),
                _ => self.rude(to, b"\0\0\0\x02hi", false, "half-closes and reads its echo"),
            }
        }
    }

    fn meet(&mut self, clients: &mut Reactor, to: SocketAddr, manner: Manner, name: &'static str) {
        let Ok(conn) = clients.connect(to) else { return };
        self.count(name);
        self.here.insert(conn, manner);
        let mut outbox = clients.outbox();
        let payload = match manner {
            Manner::AskForClose => CLOSE_ME,
            Manner::AskForKick => KICK_ME,
            Manner::Kick | Manner::Close | Manner::Cancel => b"hello",
        };
        let _ = outbox.send(conn, payload); // it is new and has room
        if matches!(manner, Manner::Cancel) {
            outbox.kick(conn);
        }
    }

    /// A plain socket: it says something, and aborts or half-closes.
    fn rude(&mut self, to: SocketAddr, says: &[u8], aborts: bool, name: &'static str) {
        let Ok(mut stream) = TcpStream::connect_timeout(&to, Duration::from_secs(10)) else {
            return self.count("finds no port");
        };
        self.count(name);
        // Whatever the server thinks of it, the client goes its way.
        let _ = stream.write_all(says);
        if aborts {
            let _ = SockRef::from(&stream).set_linger(Some(Duration::ZERO));
        } else {
            let _ = stream.shutdown(Shutdown::Write);
            let _ = stream.set_nonblocking(true);
            self.lingering.push(stream);
        }
    }

    /// Plain sockets read until the server's end.
    pub(crate) fn go_on(&mut self) {
        self.lingering.retain_mut(|stream| {
            let mut into = [0; 64];
            match stream.read(&mut into) {
                Ok(0) => false,
                Ok(_) => true,
                Err(error) => error.kind() == ErrorKind::WouldBlock,
            }
        });
    }

    pub(crate) fn heard(&mut self, event: &Event<'_>, outbox: &mut Outbox<'_>) {
        match *event {
            Event::Message { conn, .. } => {
                match self.here.get(&conn) {
                    Some(Manner::Kick) => outbox.kick(conn),
                    Some(Manner::Close) => outbox.close(conn),
                    _ => true,
                };
            }
            Event::Disconnected { conn, .. } | Event::ConnectFailed { conn, .. } => {
                self.here.remove(&conn);
            }
            _ => {}
        }
    }

    pub(crate) fn is_gone(&self) -> bool {
        self.here.is_empty() && self.lingering.is_empty()
    }

    fn count(&mut self, name: &'static str) {
        match self.tally.iter_mut().find(|(known, _)| *known == name) {
            Some((_, count)) => *count += 1,
            None => self.tally.push((name, 1)),
        }
    }
}

/// How many come in a turn.
const ARRIVALS: usize = 16;
/// How many are here at a time.
const HERE_MAX: usize = 256;
