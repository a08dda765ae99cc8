//! Clients that connect, have one message echoed and leave by a reset, a number of them at a time.

use std::io::{ErrorKind, Read, Write};
use std::time::Instant;

use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};
use socket2::{Domain, Socket, Type};

use super::client::{address, prepare};
use super::span::Span;
use crate::Failure;
use crate::machine;
use crate::plan::{Aimed, Outcome};
use crate::wire::Wire;

struct Visitor {
    stream: std::net::TcpStream,
    came: Instant,
    start: u64,
    got: usize,
}

pub fn run(aimed: &Aimed, at_once: usize) -> Result<Outcome, Failure> {
    let before = machine::resident(aimed.server)?;
    let wire = Wire::new(aimed.prefix, aimed.load.size, 1, 1);
    let frame_len = wire.frame_len() as usize;
    let mut span = Span::new(aimed);
    let epoll = Epoll::new(EpollCreateFlags::empty())?;
    let mut events = vec![EpollEvent::empty(); at_once];
    let mut buffer = vec![0; 64 * 1024];
    let mut visitors = Vec::with_capacity(at_once);
    let mut count = 0;
    for index in 0..at_once {
        visitors.push(visit(aimed, &epoll, index, wire.start(count))?);
        count += 1;
    }
    while span.goes_on(Instant::now())? {
        let ready = epoll.wait(&mut events, EpollTimeout::from(50u16))?;
        for event in &events[..ready] {
            let index = event.data() as usize;
            let visitor = &mut visitors[index];
            let is_over = if event.events().contains(EpollFlags::EPOLLOUT) {
                let frame = wire.at(visitor.start, frame_len);
                epoll.modify(
                    &visitor.stream,
                    &mut EpollEvent::new(EpollFlags::EPOLLIN, index as u64),
                )?;
                visitor.stream.write(frame).is_err()
            } else {
                match visitor.stream.read(&mut buffer) {
                    Err(error) if error.kind() == ErrorKind::WouldBlock => false,
                    Ok(0) | Err(_) => true,
                    Ok(received) => {
                        let position = visitor.start + visitor.got as u64;
                        span.wrong += u64::from(!wire.is(position, &buffer[..received]));
                        visitor.got += received;
                        visitor.got >= frame_len
                    }
                }
            };
            if is_over {
                if visitor.got == frame_len {
                    span.messages += 1;
                    span.took(visitor.came.elapsed());
                } else {
                    span.dead += 1;
                }
                visitors[index] = visit(aimed, &epoll, index, wire.start(count))?;
                count += 1;
            }
        }
    }
    let outcome = span.outcome(before)?;
    Ok(span.with_errors(Outcome { per_client: 0.0, ..outcome }))
}

/// The next one in a place; the one before is reset when it is dropped.
fn visit(aimed: &Aimed, epoll: &Epoll, index: usize, start: u64) -> Result<Visitor, Failure> {
    let came = Instant::now();
    let socket = Socket::new(Domain::IPV4, Type::STREAM.nonblocking(), None)?;
    match socket.connect(&address(aimed).into()) {
        Err(error) if error.raw_os_error() == Some(nix::libc::EINPROGRESS) => {}
        connected => connected?,
    }
    let stream = std::net::TcpStream::from(socket);
    prepare(&stream)?;
    epoll.add(&stream, EpollEvent::new(EpollFlags::EPOLLOUT, index as u64))?;
    Ok(Visitor { stream, came, start, got: 0 })
}
