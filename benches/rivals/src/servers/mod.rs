//! The servers. Each does the same work, in the way that its kind is written by people who know it; none knows the
//! load, and none is told how many will come.

mod epoll;
mod message_io;
mod netty;
mod threads;
mod tickwire;
mod tokio;

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::time::{Duration, Instant};

use socket2::{Domain, Socket, Type};

use crate::Failure;
use crate::machine;
use crate::plan::{Kind, Serve, Work};

pub use netty::{has_netty, version as netty_version};

/// The longest message that a server takes.
const PAYLOAD_MAX: usize = 64 * 1024;

/// Serves until it is killed.
pub fn run(serve: &Serve) -> Result<(), Failure> {
    machine::raise_descriptors()?;
    machine::pin(0)?;
    match serve.kind {
        Kind::Tickwire => tickwire::run(serve),
        Kind::Epoll => epoll::run(serve),
        Kind::Tokio => tokio::run(serve, false),
        Kind::TokioBest => tokio::run(serve, true),
        Kind::MessageIo => message_io::run(serve),
        Kind::Threads => threads::run(serve),
        Kind::Netty => netty::run(serve),
    }
}

/// Whether a server of this kind can do this, for so many clients.
pub fn can(kind: Kind, work: Work, clients: usize) -> bool {
    match kind {
        Kind::Tickwire | Kind::Epoll => true,
        Kind::Tokio | Kind::TokioBest => work == Work::Echo || work == Work::ToAll,
        Kind::MessageIo => work == Work::Echo || work == Work::ToAll,
        // Two threads and two descriptors for each: there are not that many.
        Kind::Threads => (work == Work::Echo || work == Work::ToAll) && clients <= 1000,
        Kind::Netty => work != Work::ToAll && has_netty(),
    }
}

/// Any free port, with the same room for newcomers for all.
fn listener() -> Result<TcpListener, Failure> {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None)?;
    socket.set_reuse_address(true)?;
    socket.bind(&SocketAddr::from((Ipv4Addr::LOCALHOST, 0)).into())?;
    socket.listen(4096)?;
    Ok(socket.into())
}

/// Frames at a fixed rate; one that comes too late is not made up for.
struct Frames {
    next: Instant,
    length: Duration,
}

impl Frames {
    fn new(hz: u32) -> Frames {
        Frames { next: Instant::now(), length: Duration::from_secs(1) / hz }
    }

    fn next(&mut self) -> Instant {
        self.next = (self.next + self.length).max(Instant::now());
        self.next
    }
}
