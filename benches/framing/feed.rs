//! A network without a kernel, for one connection: a wait says it is ready, a receive copies prepared bytes.

use std::hint::black_box;
use std::io::{self, IoSlice};
use std::sync::Arc;
use std::time::{Duration, Instant};

use tickwire::net::{Net, Readiness, Received, Source};
use tickwire::{
    Addr, Builder, ConnId, ConnectOptions, Event, Framing, ListenOptions, Reactor, Wait,
};

pub struct Feed {
    /// What arrives in each wait.
    bytes: Vec<u8>,
    waiting: u32,
    connections: u32,
    is_feeding: bool,
    pub sent: usize,
    now: Instant,
}

/// A reactor with one connection, which receives `bytes` in each tick, if any.
pub fn reactor(framing: Framing, bytes: Vec<u8>) -> (Reactor<Feed>, ConnId) {
    let feed = Feed {
        is_feeding: !bytes.is_empty(),
        bytes,
        waiting: 1,
        connections: 1,
        sent: 0,
        now: Instant::now(),
    };
    let builder = Builder::new().frame_len_max(super::LEN_MAX).framing(framing);
    let mut reactor = builder.send_queue_max(4 << 20).build_on(feed).expect("usable settings");
    reactor.listen("127.0.0.1:1").expect("it always works");
    let mut conn = None;
    while conn.is_none() {
        for event in reactor.tick(Wait::No).expect("it always works").events {
            if let Event::Connected { conn: new, .. } = event {
                conn = Some(new);
            }
        }
    }
    (reactor, conn.expect("it was waited for"))
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
        } else if self.is_feeding {
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
        let len = from.iter().map(|slice| black_box(slice).len()).sum();
        self.sent += len;
        Ok(len)
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
