//! A network of sockets that do only what the input says: the seam below the reactor, without a world behind it.
//!
//! It is a contract as well: every call that the reactor may not make is a finding.

use std::collections::VecDeque;
use std::io::{self, ErrorKind, IoSlice};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tickwire::net::{Net, Readiness, Received, Source};
use tickwire::{Addr, ConnectOptions, ListenOptions};

use super::input::Input;

/// Where the one listener stands.
pub(crate) const ADDR: ([u8; 4], u16) = ([10, 0, 0, 1], 7777);

pub(crate) struct FakeNet {
    pub(crate) now: Instant,
    pub(crate) sockets: Vec<Socket>,
    /// How the next calls go wrong, one after the other; then they go well.
    pub(crate) moods: VecDeque<Mood>,
    /// The next connect fails on the spot.
    pub(crate) connect_fails: Option<ErrorKind>,
    /// Readiness tells only what is new, as kqueue's does; otherwise all that is so, as epoll's.
    pub(crate) bare_edges: bool,
    waiting: VecDeque<usize>,
    is_knocked: bool,
}

/// What one call of the system comes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mood {
    Well,
    Interrupted,
    /// Would block, although it need not; an edge follows.
    Blocked,
    /// Out of buffers; no edge follows.
    Shortage,
    /// At most so many bytes.
    Short(usize),
    /// A receive that drains the socket and cannot tell.
    Unsure,
}

/// How a peer's stream ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    Fin,
    Failed(ErrorKind),
}

/// How a socket was given back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Gone {
    Closed,
    Aborted,
}

#[derive(Default)]
pub(crate) struct Socket {
    slot: Option<u32>,
    /// How connecting has gone; `None` while it goes on.
    outcome: Option<Result<(), ErrorKind>>,
    arrived: VecDeque<u8>,
    end: Option<End>,
    send_error: Option<ErrorKind>,
    room: usize,
    wants_room: bool,
    edge: Edge,

    // What the reactor has done with it.
    pub(crate) received: Vec<u8>,
    /// What ended receiving, as it was told.
    pub(crate) end_told: Option<End>,
    pub(crate) sent: Vec<u8>,
    pub(crate) send_error_told: Option<ErrorKind>,
    pub(crate) fin_sent: bool,
    pub(crate) gone: Option<Gone>,
}

#[derive(Clone, Copy, Default, PartialEq, Eq)]
struct Edge {
    readable: bool,
    writable: bool,
    insist: bool,
}

impl FakeNet {
    pub(crate) fn new(moods: VecDeque<Mood>) -> FakeNet {
        FakeNet {
            now: Instant::now(),
            sockets: Vec::new(),
            moods,
            connect_fails: None,
            bare_edges: false,
            waiting: VecDeque::new(),
            is_knocked: false,
        }
    }

    /// A client that waits to be accepted.
    pub(crate) fn knock(&mut self) -> usize {
        self.sockets.push(Socket { outcome: Some(Ok(())), ..Socket::default() });
        self.waiting.push_back(self.sockets.len() - 1);
        self.is_knocked = true;
        self.sockets.len() - 1
    }

    /// Which client this is the address of.
    pub(crate) fn client(peer: &Addr) -> usize {
        usize::from(peer.as_socket_addr().expect("all have one").port()) - 1
    }

    fn mood(&mut self) -> Mood {
        self.moods.pop_front().unwrap_or(Mood::Well)
    }
}

impl Socket {
    pub(crate) fn arrive(&mut self, bytes: &[u8]) {
        if self.end.is_none() && !bytes.is_empty() {
            self.arrived.extend(bytes);
            self.edge.readable |= self.is_established();
        }
    }

    /// The peer's end, behind all that has arrived.
    pub(crate) fn end(&mut self, end: End) {
        if self.end.is_none() {
            self.end = Some(end);
            if self.is_established() {
                self.edge = Edge { readable: true, writable: true, insist: true };
            }
        }
    }

    pub(crate) fn fail_sends(&mut self, kind: ErrorKind) {
        self.send_error.get_or_insert(kind);
        self.edge.writable |= std::mem::take(&mut self.wants_room);
    }

    pub(crate) fn give_room(&mut self, len: usize) {
        self.room = self.room.saturating_add(len);
        self.edge.writable |= len > 0 && std::mem::take(&mut self.wants_room);
    }

    /// How a connect has gone. What the peer has said by then is told from then on.
    pub(crate) fn settle(&mut self, outcome: Result<(), ErrorKind>) {
        if self.outcome.is_none() {
            let (readable, insist) = (!self.arrived.is_empty(), self.end.is_some());
            self.outcome = Some(outcome);
            self.edge = Edge { readable: readable || insist, writable: true, insist };
        }
    }

    /// Readiness without cause.
    pub(crate) fn mislead(&mut self, input: &mut Input<'_>) {
        let bits = input.byte();
        self.edge.readable |= bits & 1 > 0;
        self.edge.writable |= bits & 2 > 0;
        self.edge.insist |= bits & 4 > 0;
    }

    pub(crate) fn outcome(&self) -> Option<Result<(), ErrorKind>> {
        self.outcome
    }

    /// Whether the peer's end has come, read or not.
    pub(crate) fn has_end(&self) -> bool {
        self.end.is_some()
    }

    /// Bytes that have arrived and were not received.
    pub(crate) fn unread(&self) -> usize {
        self.arrived.len()
    }

    fn is_established(&self) -> bool {
        self.outcome == Some(Ok(()))
    }

    fn check_held(&self) {
        assert_eq!(self.gone, None, "a socket is used after it was given back");
        assert!(self.slot.is_some(), "a socket is used before it is watched");
    }

    fn recv(&mut self, into: &mut [u8], mood: Mood) -> io::Result<Received> {
        self.check_held();
        assert!(self.is_established(), "received before the connection has come about");
        assert!(!into.is_empty(), "receiving into nothing looks like a FIN");
        if mood == Mood::Interrupted {
            return Err(ErrorKind::Interrupted.into());
        }
        if self.arrived.is_empty() {
            return match self.end {
                None => Err(ErrorKind::WouldBlock.into()),
                Some(End::Failed(kind)) if self.end_told.is_none() => {
                    self.end_told = self.end;
                    Err(kind.into())
                }
                Some(_) => {
                    self.end_told.get_or_insert(End::Fin);
                    Ok(Received { len: 0, drained: true })
                }
            };
        }
        let mut len = self.arrived.len().min(into.len());
        match mood {
            Mood::Blocked => {
                self.edge.readable = true;
                return Err(ErrorKind::WouldBlock.into());
            }
            Mood::Shortage => return Err(io::Error::from_raw_os_error(ENOBUFS)),
            Mood::Short(most) => len = len.min(most),
            Mood::Well | Mood::Unsure | Mood::Interrupted => {}
        }
        for (to, from) in into.iter_mut().zip(self.arrived.drain(..len)) {
            *to = from;
        }
        self.received.extend_from_slice(&into[..len]);
        let drained = mood != Mood::Unsure && len < into.len() && self.arrived.is_empty();
        Ok(Received { len, drained })
    }

    fn send(&mut self, from: &[IoSlice<'_>], mood: Mood) -> io::Result<usize> {
        self.check_held();
        let bytes = from.iter().flat_map(|slice| slice.iter().copied());
        let offered = from.iter().map(|slice| slice.len()).sum::<usize>();
        assert!(self.is_established(), "sent before the connection has come about");
        assert!(offered > 0, "there is something to send");
        assert!(!self.fin_sent, "nothing is sent behind the FIN");
        if let Some(kind) = self.send_error {
            self.send_error_told.get_or_insert(kind);
            return Err(kind.into());
        }
        let room = self.room.min(offered);
        match mood {
            Mood::Interrupted => return Err(ErrorKind::Interrupted.into()),
            _ if room == 0 => {
                self.wants_room = true;
                return Err(ErrorKind::WouldBlock.into());
            }
            Mood::Blocked => {
                self.edge.writable = true;
                return Err(ErrorKind::WouldBlock.into());
            }
            Mood::Shortage => return Err(io::Error::from_raw_os_error(ENOBUFS)),
            Mood::Short(_) | Mood::Well | Mood::Unsure => {}
        }
        let len = if let Mood::Short(most) = mood { room.min(most) } else { room };
        self.edge.writable |= len < room;
        self.wants_room = len == room && room < offered;
        self.room -= len;
        self.sent.extend(bytes.take(len));
        Ok(len)
    }

    fn give_back(&mut self, gone: Gone) {
        assert_eq!(self.gone, None, "a socket is given back twice");
        self.gone = Some(gone);
        self.slot = None;
    }
}

impl Net for FakeNet {
    type Listener = ();
    type Stream = usize;

    fn now(&self) -> Instant {
        self.now
    }

    fn sleep(&mut self, deadline: Instant) {
        self.now = self.now.max(deadline);
    }

    fn wait(&mut self, timeout: Option<Duration>, ready: &mut Vec<Readiness>) -> io::Result<()> {
        if std::mem::take(&mut self.is_knocked) {
            let source = Source::Listener(0);
            ready.push(Readiness { source, readable: true, writable: false, insist: false });
        }
        for socket in &mut self.sockets {
            let Some(slot) = socket.slot else { continue };
            let mut edge = std::mem::take(&mut socket.edge);
            if edge == Edge::default() {
                continue;
            }
            if !self.bare_edges {
                edge.readable |= !socket.arrived.is_empty();
                edge.writable |= socket.room > 0;
                edge.insist |= socket.end.is_some();
            }
            let Edge { readable, writable, insist } = edge;
            ready.push(Readiness { source: Source::Conn(slot), readable, writable, insist });
        }
        // Nothing happens by itself here, so a wait for it takes all of its time.
        if let (true, Some(timeout)) = (ready.is_empty(), timeout) {
            self.now += timeout;
        }
        Ok(())
    }

    fn waker(&mut self) -> io::Result<Arc<dyn Fn() + Send + Sync>> {
        Ok(Arc::new(|| ()))
    }

    fn listen(&mut self, _: &Addr, _: &ListenOptions, index: u32) -> io::Result<()> {
        assert_eq!(index, 0, "there is one listener");
        Ok(())
    }

    fn local_addr(&self, (): &()) -> io::Result<Addr> {
        Ok(Addr::Ip(SocketAddr::from(ADDR)))
    }

    fn unlisten(&mut self, (): ()) {
        for socket in self.waiting.drain(..) {
            self.sockets[socket].give_back(Gone::Aborted);
        }
    }

    fn accept(&mut self, (): &()) -> io::Result<(usize, Addr)> {
        match self.mood() {
            Mood::Interrupted => return Err(ErrorKind::Interrupted.into()),
            Mood::Shortage => return Err(io::Error::from_raw_os_error(ENFILE)),
            Mood::Blocked if !self.waiting.is_empty() => {
                self.is_knocked = true;
                return Err(ErrorKind::WouldBlock.into());
            }
            _ => {}
        }
        let socket = self.waiting.pop_front().ok_or(ErrorKind::WouldBlock)?;
        let port = u16::try_from(socket + 1).expect("few clients");
        Ok((socket, Addr::Ip(SocketAddr::from(([10, 0, 0, 2], port)))))
    }

    fn register(&mut self, stream: &mut usize, slot: u32) -> io::Result<()> {
        let is_taken = self.sockets.iter().any(|socket| socket.slot == Some(slot));
        assert!(!is_taken, "two sockets in slot {slot}");
        let socket = &mut self.sockets[*stream];
        socket.slot = Some(slot);
        socket.edge = Edge { readable: true, writable: true, insist: socket.end.is_some() };
        Ok(())
    }

    fn connect(&mut self, _: &Addr, _: &ConnectOptions, slot: u32) -> io::Result<usize> {
        if let Some(kind) = self.connect_fails.take() {
            return Err(kind.into());
        }
        let is_taken = self.sockets.iter().any(|socket| socket.slot == Some(slot));
        assert!(!is_taken, "two sockets in slot {slot}");
        self.sockets.push(Socket { slot: Some(slot), ..Socket::default() });
        Ok(self.sockets.len() - 1)
    }

    fn connected(&mut self, stream: &mut usize) -> io::Result<bool> {
        let socket = &self.sockets[*stream];
        socket.check_held();
        match socket.outcome {
            None => Ok(false),
            Some(Ok(())) => Ok(true),
            Some(Err(kind)) => Err(kind.into()),
        }
    }

    fn recv(&mut self, stream: &mut usize, into: &mut [u8]) -> io::Result<Received> {
        let mood = self.mood();
        self.sockets[*stream].recv(into, mood)
    }

    fn send(&mut self, stream: &mut usize, from: &[IoSlice<'_>]) -> io::Result<usize> {
        let mood = self.mood();
        self.sockets[*stream].send(from, mood)
    }

    fn shutdown_write(&mut self, stream: &mut usize) -> io::Result<()> {
        let socket = &mut self.sockets[*stream];
        socket.check_held();
        assert!(!socket.fin_sent, "FIN is sent twice");
        socket.fin_sent = true;
        match socket.end {
            Some(End::Failed(_)) => Err(ErrorKind::NotConnected.into()),
            _ => Ok(()),
        }
    }

    fn close(&mut self, stream: usize) {
        self.sockets[stream].give_back(Gone::Closed);
    }

    fn abort(&mut self, stream: usize) {
        self.sockets[stream].give_back(Gone::Aborted);
    }
}

impl Mood {
    pub(crate) fn draw(input: &mut Input<'_>) -> Mood {
        match input.byte() {
            0..=49 => Mood::Well,
            50..=79 => Mood::Interrupted,
            80..=109 => Mood::Blocked,
            110..=129 => Mood::Shortage,
            130..=149 => Mood::Unsure,
            len => Mood::Short(usize::from(len) - 149),
        }
    }
}

const ENFILE: i32 = 23;
/// As the library has it for the systems that it knows.
const ENOBUFS: i32 = match () {
    () if cfg!(any(target_os = "linux", target_os = "android")) => 105,
    () if cfg!(windows) => 10055,
    () => 55,
};
