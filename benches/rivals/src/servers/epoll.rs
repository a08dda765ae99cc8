//! The practical limit: a loop over level-triggered epoll, written for nothing but this. One receive into a buffer that all
//! share, frames parsed where they lie, all replies in one send.

use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};

use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};

use super::{Frames, PAYLOAD_MAX, listener};
use crate::Failure;
use crate::plan::{Serve, Work};
use crate::process;

/// What is offered to a receive.
const OFFERED: usize = 256 * 1024;
/// A client that leaves more than this unread is not read until it has caught up.
const UNSENT_MAX: usize = 64 * 1024;
const LISTENER: u64 = u64::MAX;

struct Conn {
    stream: TcpStream,
    /// The unfinished frame.
    tail: Vec<u8>,
    /// What is to be sent, or did not fit into the socket.
    out: Vec<u8>,
    is_dirty: bool,
    is_blocked: bool,
}

pub fn run(serve: &Serve) -> Result<(), Failure> {
    let listener = listener()?;
    listener.set_nonblocking(true)?;
    let epoll = Epoll::new(EpollCreateFlags::empty())?;
    epoll.add(&listener, EpollEvent::new(EpollFlags::EPOLLIN, LISTENER))?;
    process::announce(listener.local_addr()?.port());

    let mut server = Server {
        work: serve.work,
        listener,
        epoll,
        conns: Vec::new(),
        free: Vec::new(),
        dirty: Vec::new(),
        buffer: vec![0; 4 + PAYLOAD_MAX + OFFERED],
        replies: Vec::new(),
    };
    let mut frames = (serve.hz > 0).then(|| Frames::new(serve.hz));
    // A tick sees everybody at once.
    let mut events = vec![EpollEvent::empty(); if serve.hz > 0 { 16 * 1024 } else { 1024 }];
    loop {
        let timeout = match &mut frames {
            None => EpollTimeout::NONE,
            Some(frames) => {
                let next = frames.next();
                std::thread::sleep(next.saturating_duration_since(std::time::Instant::now()));
                EpollTimeout::ZERO
            }
        };
        let ready = server.epoll.wait(&mut events, timeout)?;
        for event in &events[..ready] {
            match event.data() {
                LISTENER => server.accept()?,
                index => server.serve(index as usize, event.events())?,
            }
        }
        server.flush()?;
    }
}

struct Server {
    work: Work,
    listener: TcpListener,
    epoll: Epoll,
    conns: Vec<Option<Conn>>,
    free: Vec<usize>,
    /// Who is to be flushed after everybody has been read.
    dirty: Vec<usize>,
    buffer: Vec<u8>,
    /// The replies to what one connection has sent.
    replies: Vec<u8>,
}

impl Server {
    fn accept(&mut self) -> Result<(), Failure> {
        loop {
            let stream = match self.listener.accept() {
                Ok((stream, _)) => stream,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error.into()),
            };
            stream.set_nonblocking(true)?;
            stream.set_nodelay(true)?;
            let index = self.free.pop().unwrap_or_else(|| {
                self.conns.push(None);
                self.conns.len() - 1
            });
            self.epoll.add(&stream, EpollEvent::new(EpollFlags::EPOLLIN, index as u64))?;
            let (tail, out) = (Vec::new(), Vec::new());
            self.conns[index] =
                Some(Conn { stream, tail, out, is_dirty: false, is_blocked: false });
        }
    }

    fn serve(&mut self, index: usize, ready: EpollFlags) -> Result<(), Failure> {
        if ready.contains(EpollFlags::EPOLLOUT) {
            self.write(index)?;
        }
        if ready.intersects(EpollFlags::EPOLLIN | EpollFlags::EPOLLHUP | EpollFlags::EPOLLERR) {
            self.read(index)?;
        }
        Ok(())
    }

    fn read(&mut self, index: usize) -> Result<(), Failure> {
        let Server { work, conns, dirty, buffer, replies, .. } = self;
        let Some(conn) = conns[index].as_mut() else { return Ok(()) };
        let held = conn.tail.len();
        buffer[..held].copy_from_slice(&conn.tail);
        conn.tail.clear();
        let received = match conn.stream.read(&mut buffer[held..]) {
            Ok(0) => return self.close(index),
            Ok(received) => received,
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
            Err(error) if error.kind() == ErrorKind::Interrupted => return Ok(()),
            Err(_) => return self.close(index),
        };
        let end = held + received;
        let mut at = 0;
        let mut is_bad = false;
        replies.clear();
        while end - at >= 4 {
            let len =
                u32::from_be_bytes([buffer[at], buffer[at + 1], buffer[at + 2], buffer[at + 3]])
                    as usize;
            if len > PAYLOAD_MAX {
                is_bad = true;
                break;
            }
            if end - at < 4 + len {
                break;
            }
            let frame = &buffer[at..at + 4 + len];
            match work {
                Work::Echo | Work::ToAll => replies.extend_from_slice(frame),
                Work::Repack => repack(&frame[4..], replies),
                Work::EchoEach => {
                    // One send each; what does not fit waits behind what did not fit before.
                    let sent =
                        if conn.out.is_empty() { send(&conn.stream, frame) } else { Some(0) };
                    match sent {
                        Some(sent) => conn.out.extend_from_slice(&frame[sent..]),
                        None => is_bad = true,
                    }
                }
            }
            at += 4 + len;
        }
        conn.tail.extend_from_slice(&buffer[at..end]);
        if is_bad {
            return self.close(index);
        }
        if conn.tail.is_empty() && conn.tail.capacity() > 4096 {
            conn.tail = Vec::new();
        }
        match self.work {
            Work::ToAll => {
                for (index, conn) in self.conns.iter_mut().enumerate() {
                    let Some(conn) = conn else { continue };
                    conn.out.extend_from_slice(&self.replies);
                    if !std::mem::replace(&mut conn.is_dirty, true) {
                        dirty.push(index);
                    }
                }
                Ok(())
            }
            _ => self.reply(index),
        }
    }

    /// All replies to one connection: from where they were put together, as far as the socket takes them.
    fn reply(&mut self, index: usize) -> Result<(), Failure> {
        let Some(conn) = self.conns[index].as_mut() else { return Ok(()) };
        if conn.out.is_empty() && !self.replies.is_empty() {
            match send(&conn.stream, &self.replies) {
                Some(sent) => conn.out.extend_from_slice(&self.replies[sent..]),
                None => return self.close(index),
            }
        } else {
            conn.out.extend_from_slice(&self.replies);
        }
        self.watch(index)
    }

    fn write(&mut self, index: usize) -> Result<(), Failure> {
        let Some(conn) = self.conns[index].as_mut() else { return Ok(()) };
        if !conn.out.is_empty() {
            match send(&conn.stream, &conn.out) {
                Some(sent) if sent == conn.out.len() => conn.out.clear(),
                Some(sent) => drop(conn.out.drain(..sent)),
                None => return self.close(index),
            }
        }
        self.watch(index)
    }

    /// Asks for room while something waits for it, and does not read while much does.
    fn watch(&mut self, index: usize) -> Result<(), Failure> {
        let Some(conn) = self.conns[index].as_mut() else { return Ok(()) };
        let is_blocked = !conn.out.is_empty();
        if is_blocked || conn.is_blocked {
            let mut interest = EpollFlags::empty();
            interest.set(EpollFlags::EPOLLIN, conn.out.len() < UNSENT_MAX);
            interest.set(EpollFlags::EPOLLOUT, is_blocked);
            self.epoll.modify(&conn.stream, &mut EpollEvent::new(interest, index as u64))?;
            conn.is_blocked = is_blocked;
        }
        Ok(())
    }

    fn flush(&mut self) -> Result<(), Failure> {
        let mut dirty = std::mem::take(&mut self.dirty);
        for index in dirty.drain(..) {
            if let Some(conn) = self.conns[index].as_mut() {
                conn.is_dirty = false;
                self.write(index)?;
            }
        }
        self.dirty = dirty;
        Ok(())
    }

    fn close(&mut self, index: usize) -> Result<(), Failure> {
        self.conns[index] = None; // which takes it out of the poller
        self.free.push(index);
        Ok(())
    }
}

/// How much the socket took, or nothing if it is broken.
fn send(mut stream: &TcpStream, bytes: &[u8]) -> Option<usize> {
    match stream.write(bytes) {
        Ok(sent) => Some(sent),
        Err(error) if error.kind() == ErrorKind::WouldBlock => Some(0),
        Err(error) if error.kind() == ErrorKind::Interrupted => Some(0),
        Err(_) => None,
    }
}

fn repack(mut pack: &[u8], into: &mut Vec<u8>) {
    let at = into.len();
    into.extend_from_slice(&[0; 4]);
    while let Some((header, rest)) = pack.split_first_chunk::<4>() {
        let len = u32::from_be_bytes(*header) as usize;
        let (message, rest) = rest.split_at(len.min(rest.len()));
        into.extend_from_slice(&(message.len() as u32).to_be_bytes());
        into.extend_from_slice(message);
        pack = rest;
    }
    let len = (into.len() - at - 4) as u32;
    into[at..at + 4].copy_from_slice(&len.to_be_bytes());
}
