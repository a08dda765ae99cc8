//! A network without a kernel: a wait says who has been fed, a receive copies prepared bytes, a send swallows.

use std::hint::black_box;
use std::io::{self, IoSlice};
use std::sync::Arc;
use std::time::{Duration, Instant};

use tickwire::net::{Net, Readiness, Received, Source};
use tickwire::{Addr, Builder, ConnId, ConnectOptions, Event, ListenOptions, Reactor, Wait};

pub struct Feed {
    /// What each connection receives when it is fed.
    pub bytes: Vec<u8>,
    /// Clients still to be accepted.
    waiting: u32,
    connections: u32,
    is_fed: bool,
    now: Instant,
}

impl Feed {
    /// The next wait finds everybody readable.
    pub fn feed(&mut self) {
        self.is_fed = true;
    }
}

/// A reactor with so many connections, all accepted, each of which receives `bytes` when it is fed.
pub fn reactor(builder: Builder, connections: u32, bytes: Vec<u8>) -> (Reactor<Feed>, Vec<ConnId>) {
    let feed =
        Feed { bytes, waiting: connections, connections, is_fed: false, now: Instant::now() };
    let mut reactor = builder.build_on(feed).expect("usable settings");
    reactor.listen("127.0.0.1:1").expect("it always works");
    let mut conns = Vec::new();
    while conns.len() < connections as usize {
        for event in reactor.tick(Wait::No).expect("it always works").events {
            if let Event::Connected { conn, .. } = event {
                conns.push(conn);
            }
        }
    }
    (reactor, conns)
}

impl Net for Feed {
    type Listener = ();
    type Stream = ();

    fn now(&self) -> Instant {
        self.now
    }

    fn sleep(&mut self, deadline: Instant) {
        self.now = deadline;
    }

    fn wait(&mut self, _: Option<Duration>, ready: &mut Vec<Readiness>) -> io::Result<()> {
        let report = |source| Readiness { source, readable: true, writable: false, insist: false };
        if self.waiting > 0 {
            ready.push(report(Source::Listener(0)));
        } else if std::mem::take(&mut self.is_fed) {
            ready.extend((0..self.connections).map(|slot| report(Source::Conn(slot))));
        }
        Ok(())
    }

    fn waker(&mut self) -> io::Result<Arc<dyn Fn() + Send + Sync>> {
        Ok(Arc::new(|| {}))
    }

    fn recv(&mut self, _: &mut (), into: &mut [u8]) -> io::Result<Received> {
        let len = self.bytes.len();
        into[..len].copy_from_slice(&self.bytes);
        Ok(Received { len, drained: true })
    }

    fn send(&mut self, _: &mut (), from: &[IoSlice<'_>]) -> io::Result<usize> {
        Ok(from.iter().map(|slice| black_box(slice).len()).sum())
    }

    fn accept(&mut self, _: &()) -> io::Result<((), Addr)> {
        match self.waiting.checked_sub(1) {
            Some(rest) => {
                self.waiting = rest;
                Ok(((), Addr::from(([127, 0, 0, 1], 1))))
            }
            None => Err(io::ErrorKind::WouldBlock.into()),
        }
    }

    fn listen(&mut self, _: &Addr, _: &ListenOptions, _: u32) -> io::Result<()> {
        Ok(())
    }

    fn local_addr(&self, _: &()) -> io::Result<Addr> {
        Ok(Addr::from(([127, 0, 0, 1], 1)))
    }

    fn connect(&mut self, _: &Addr, _: &ConnectOptions, _: u32) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn connected(&mut self, _: &mut ()) -> io::Result<bool> {
        Ok(false)
    }

    fn register(&mut self, _: &mut (), _: u32) -> io::Result<()> {
        Ok(())
    }

    fn shutdown_write(&mut self, _: &mut ()) -> io::Result<()> {
        Ok(())
    }

    fn unlisten(&mut self, _: ()) {}

    fn close(&mut self, _: ()) {}

    fn abort(&mut self, _: ()) {}
}
