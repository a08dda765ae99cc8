//! Connections to a server, and what each has sent and got.

use std::collections::VecDeque;
use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};
use socket2::SockRef;

use super::span::Span;
use crate::Failure;
use crate::machine;
use crate::plan::Aimed;
use crate::wire::Wire;

/// Bytes offered to a receive.
const OFFERED: usize = 256 * 1024;

pub struct Client {
    pub stream: TcpStream,
    /// Where in the stream of bytes it started, what it may send up to, and has sent.
    start: u64,
    owed: u64,
    sent: u64,
    /// What has come back, all of it checked.
    got: u64,
    is_blocked: bool,
    pub is_dead: bool,
    /// Up to where each write went, and when.
    writes: VecDeque<(u64, Instant)>,
}

/// All clients, one poller, one buffer.
pub struct Clients {
    pub all: Vec<Client>,
    pub wire: Wire,
    pub span: Span,
    epoll: Epoll,
    events: Vec<EpollEvent>,
    buffer: Vec<u8>,
}

/// Who is ready for what.
#[derive(Clone, Copy)]
pub struct Ready {
    pub index: usize,
    pub reads: bool,
    pub writes: bool,
}

impl Clients {
    /// Connects all, and waits until the server has accepted all.
    pub fn connect(aimed: &Aimed, wire: Wire) -> Result<Clients, Failure> {
        let before = machine::descriptors(aimed.server)?;
        let epoll = Epoll::new(EpollCreateFlags::empty())?;
        let mut all = Vec::with_capacity(aimed.load.clients);
        for index in 0..aimed.load.clients {
            let stream = TcpStream::connect(address(aimed))?;
            prepare(&stream)?;
            epoll.add(&stream, EpollEvent::new(EpollFlags::EPOLLIN, index as u64))?;
            all.push(Client {
                stream,
                start: wire.start(index),
                owed: 0,
                sent: 0,
                got: 0,
                is_blocked: false,
                is_dead: false,
                writes: VecDeque::new(),
            });
        }
        wait_until_accepted(aimed.server, before + all.len() * aimed.descriptors)?;
        Ok(Clients {
            wire,
            span: Span::new(aimed),
            epoll,
            events: vec![EpollEvent::empty(); all.len().min(4096)],
            buffer: vec![0; OFFERED],
            all,
        })
    }

    /// Who is ready; waits for so many milliseconds at most.
    pub fn poll(&mut self, milliseconds: u16, ready: &mut Vec<Ready>) -> Result<(), Failure> {
        ready.clear();
        let count = match self.epoll.wait(&mut self.events, EpollTimeout::from(milliseconds)) {
            Err(nix::Error::EINTR) => 0,
            waited => waited?,
        };
        let either = EpollFlags::EPOLLERR | EpollFlags::EPOLLHUP;
        ready.extend(self.events[..count].iter().map(|event| Ready {
            index: event.data() as usize,
            reads: event.events().intersects(EpollFlags::EPOLLIN | either),
            writes: event.events().intersects(EpollFlags::EPOLLOUT | either),
        }));
        Ok(())
    }

    /// All that starts at the same message starts at the first one.
    pub fn start_alike(&mut self) {
        for client in &mut self.all {
            client.start = 0;
        }
    }

    /// Allows a client so many messages more.
    pub fn owe(&mut self, index: usize, messages: u64) {
        self.all[index].owed += messages * self.wire.frame_len();
    }

    /// Sends what a client is allowed, as far as the socket takes it. What leaves now counts as from `since`.
    pub fn send(&mut self, index: usize, since: Instant) -> Result<(), Failure> {
        let Clients { all, wire, epoll, .. } = self;
        let client = &mut all[index];
        let before = client.sent;
        let mut is_blocked = false;
        while client.sent < client.owed && !client.is_dead && !is_blocked {
            let most = (client.owed - client.sent).min(OFFERED as u64) as usize;
            match client.stream.write(wire.at(client.start + client.sent, most)) {
                Ok(sent) => client.sent += sent as u64,
                Err(error) if error.kind() == ErrorKind::WouldBlock => is_blocked = true,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => client.is_dead = true,
            }
        }
        if client.sent > before {
            client.writes.push_back((client.sent, since));
        }
        if is_blocked != client.is_blocked {
            client.is_blocked = is_blocked;
            let mut interest = EpollFlags::EPOLLIN;
            interest.set(EpollFlags::EPOLLOUT, is_blocked);
            epoll.modify(&client.stream, &mut EpollEvent::new(interest, index as u64))?;
        }
        Ok(())
    }

    /// Receives once and checks it. Returns how many messages are complete by it: which one was the first, and the
    /// first after them.
    pub fn receive(&mut self, index: usize) -> (u64, u64) {
        let Clients { all, wire, span, buffer, .. } = self;
        let client = &mut all[index];
        let first = client.got / wire.frame_len();
        match client.stream.read(buffer) {
            Ok(0) => client.is_dead = true,
            Ok(received) => {
                if !wire.is(client.start + client.got, &buffer[..received]) {
                    span.wrong += 1;
                }
                client.got += received as u64;
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(_) => client.is_dead = true,
        }
        let end = client.got / wire.frame_len();
        if end > first {
            span.messages += end - first;
            let now = Instant::now();
            while client.writes.front().is_some_and(|&(up_to, _)| up_to <= client.got) {
                if let Some((_, since)) = client.writes.pop_front() {
                    span.took(now - since);
                }
            }
        }
        if client.is_dead {
            let _ = self.epoll.delete(&client.stream); // or it would be reported for ever
        }
        (first, end)
    }

    /// Tells the poller nothing of a client any more.
    pub fn ignore(&mut self, index: usize) -> Result<(), Failure> {
        let interest = EpollFlags::EPOLLOUT;
        Ok(self
            .epoll
            .modify(&self.all[index].stream, &mut EpollEvent::new(interest, index as u64))?)
    }

    /// Waits for what is still on its way, for three seconds; then counts what did not come. `expected` says how many
    /// bytes a client should have got in all, by what all have sent.
    pub fn drain(&mut self, expected: impl Fn(&Clients, usize) -> u64) -> Result<(), Failure> {
        let end = Instant::now() + Duration::from_secs(3);
        let mut ready = Vec::new();
        let owes = |clients: &Clients| {
            let mut all = clients.all.iter().enumerate();
            all.any(|(index, client)| !client.is_dead && client.got < expected(clients, index))
        };
        while owes(self) && Instant::now() < end {
            self.poll(50, &mut ready)?;
            for &Ready { index, reads, writes } in &ready {
                if writes {
                    self.send(index, Instant::now())?;
                }
                if reads {
                    self.receive(index);
                }
            }
        }
        for index in 0..self.all.len() {
            let missing = expected(self, index).saturating_sub(self.all[index].got);
            self.span.missing += missing.div_ceil(self.wire.frame_len());
            self.span.dead += u64::from(self.all[index].is_dead);
        }
        Ok(())
    }

    /// How many bytes a client has sent.
    pub fn sent(&self, index: usize) -> u64 {
        self.all[index].sent
    }
}

/// The server's address.
pub fn address(aimed: &Aimed) -> SocketAddr {
    (Ipv4Addr::LOCALHOST, aimed.port).into()
}

/// Sends at once, never waits, and leaves no port behind that would be taken for a minute.
pub fn prepare(stream: &TcpStream) -> Result<(), Failure> {
    stream.set_nodelay(true)?;
    stream.set_nonblocking(true)?;
    Ok(SockRef::from(stream).set_linger(Some(Duration::ZERO))?)
}

/// Until the server has so many descriptors.
pub fn wait_until_accepted(server: u32, descriptors: usize) -> Result<(), Failure> {
    let end = Instant::now() + Duration::from_secs(30);
    while machine::descriptors(server)? < descriptors {
        if Instant::now() > end {
            return Err("the server does not accept".into());
        }
        std::thread::sleep(Duration::from_micros(200));
    }
    Ok(())
}
