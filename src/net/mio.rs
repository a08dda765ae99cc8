//! The real network: the only file that names mio.

use std::io::{self, IoSlice, Read, Write};
use std::net::{Shutdown, SocketAddr};
use std::time::{Duration, Instant};
use std::{fmt, thread};

use mio::net::{TcpListener, TcpStream};
use mio::{Events, Interest, Poll, Token};
use socket2::{Domain, Protocol, SockRef, Socket, Type};

use super::{Net, Readiness, Received, Source};
use crate::addr::Addr;
use crate::config::{ConnectOptions, ListenOptions};

/// The operating system's TCP, through mio. What [`Reactor::new`](crate::Reactor::new) uses.
pub struct MioNet {
    poll: Poll,
    events: Events,
    nodelay: bool,
}

impl fmt::Debug for MioNet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MioNet").finish_non_exhaustive()
    }
}

impl MioNet {
    pub(crate) fn new(nodelay: bool) -> io::Result<MioNet> {
        Ok(MioNet { poll: Poll::new()?, events: Events::with_capacity(EVENTS_LEN), nodelay })
    }

    /// Takes over a listener that was bound elsewhere (socket activation, an old process).
    pub(crate) fn adopt(
        &mut self,
        listener: std::net::TcpListener,
        index: u32,
    ) -> io::Result<TcpListener> {
        listener.set_nonblocking(true)?;
        self.watch_listener(TcpListener::from_std(listener), index)
    }

    fn watch_listener(&mut self, mut listener: TcpListener, index: u32) -> io::Result<TcpListener> {
        let token = token(Source::Listener(index));
        self.poll.registry().register(&mut listener, token, Interest::READABLE)?;
        Ok(listener)
    }

    /// Options that every connection gets. A peer that is gone already makes them fail (EINVAL);
    /// reading will tell, so that is no news here.
    fn prepare(&self, stream: &TcpStream) {
        if self.nodelay {
            let _ = stream.set_nodelay(true);
        }
    }
}

impl Net for MioNet {
    type Listener = TcpListener;
    type Stream = TcpStream;

    fn now(&self) -> Instant {
        Instant::now()
    }

    fn sleep(&mut self, deadline: Instant) {
        thread::sleep(deadline.saturating_duration_since(Instant::now()));
    }

    fn wait(&mut self, timeout: Option<Duration>, ready: &mut Vec<Readiness>) -> io::Result<()> {
        let mut timeout = timeout;
        // A full batch of events may have left some behind: look again, without waiting. Each look
        // reports every socket at most once, so the number of looks is bounded by our sockets.
        for _ in 0..LOOKS_MAX {
            match self.poll.poll(&mut self.events, timeout) {
                Ok(()) => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => return Ok(()),
                Err(error) => return Err(error),
            }
            let before = ready.len();
            ready.extend(self.events.iter().map(readiness));
            if ready.len() - before < EVENTS_LEN {
                break;
            }
            timeout = Some(Duration::ZERO);
        }
        Ok(())
    }

    fn listen(
        &mut self,
        addr: &Addr,
        options: &ListenOptions,
        index: u32,
    ) -> io::Result<TcpListener> {
        let Addr::Ip(addr) = addr;
        let socket = Socket::new(Domain::for_address(*addr), Type::STREAM, Some(Protocol::TCP))?;
        if addr.is_ipv6() {
            socket.set_only_v6(!options.dual_stack)?;
        }
        // A restart must not wait for the old connections' TIME_WAIT. On Windows the option means
        // something else (two sockets on one port) and is not needed.
        #[cfg(not(windows))]
        socket.set_reuse_address(true)?;
        socket.set_nonblocking(true)?;
        socket.bind(&(*addr).into())?;
        // Not mio's own bind: its backlog of 1024 overflows when thousands of players join at once.
        socket.listen(i32::try_from(options.backlog).unwrap_or(i32::MAX))?;
        self.watch_listener(TcpListener::from_std(socket.into()), index)
    }

    fn local_addr(&self, listener: &TcpListener) -> io::Result<Addr> {
        listener.local_addr().map(Addr::Ip)
    }

    fn unlisten(&mut self, mut listener: TcpListener) {
        let _ = self.poll.registry().deregister(&mut listener);
    }

    fn accept(&mut self, listener: &TcpListener) -> io::Result<(TcpStream, Addr)> {
        let (stream, peer) = listener.accept()?;
        self.prepare(&stream);
        Ok((stream, Addr::Ip(peer).canonical()))
    }

    fn register(&mut self, stream: &mut TcpStream, slot: u32) -> io::Result<()> {
        // Both directions, once and for ever: with edges, a writable socket costs one report when it
        // is registered and none later, where arming it after each short send costs a system call.
        self.poll.registry().register(stream, token(Source::Conn(slot)), interest())
    }

    fn connect(&mut self, addr: &Addr, _: &ConnectOptions, slot: u32) -> io::Result<TcpStream> {
        let Addr::Ip(addr) = addr;
        let mut stream = TcpStream::connect(*addr)?;
        self.prepare(&stream);
        self.register(&mut stream, slot)?;
        Ok(stream)
    }

    fn connected(&mut self, stream: &mut TcpStream) -> io::Result<bool> {
        // SO_ERROR first: only it tells why (connect(2)); the peer's address then tells whether.
        if let Some(error) = stream.take_error()? {
            return Err(error);
        }
        match stream.peer_addr() {
            Ok(peer) => match stream.local_addr() {
                Ok(local) if is_same(local, peer) => Err(io::ErrorKind::ConnectionRefused.into()),
                _ => Ok(true),
            },
            Err(error) if error.kind() == io::ErrorKind::NotConnected => Ok(false),
            Err(error) => Err(error),
        }
    }

    fn recv(&mut self, stream: &mut TcpStream, into: &mut [u8]) -> io::Result<Received> {
        let len = stream.read(into)?;
        Ok(Received { len, drained: SHORT_MEANS_DRAINED && len < into.len() })
    }

    fn send(&mut self, stream: &mut TcpStream, from: &[IoSlice<'_>]) -> io::Result<usize> {
        match from {
            // The standard library's write is a send with MSG_NOSIGNAL where the system has it.
            [one] => stream.write(one),
            // Its vectored write is a writev without, which kills a host process whose SIGPIPE is at
            // its default.
            several => {
                let stream = &*stream;
                stream.try_io(|| SockRef::from(stream).send_vectored_with_flags(several, NO_SIGNAL))
            }
        }
    }

    fn shutdown_write(&mut self, stream: &mut TcpStream) -> io::Result<()> {
        stream.shutdown(Shutdown::Write)
    }

    fn close(&mut self, mut stream: TcpStream) {
        // Closing alone would do, were it not for a forked child that keeps the description open:
        // then the poller would go on reporting it, and no FIN would leave.
        let _ = self.poll.registry().deregister(&mut stream);
        let _ = stream.shutdown(Shutdown::Write);
    }

    fn abort(&mut self, mut stream: TcpStream) {
        let _ = self.poll.registry().deregister(&mut stream);
        // Lingering for no time makes close(2) a reset (socket(7)).
        let _ = SockRef::from(&stream).set_linger(Some(Duration::ZERO));
    }
}

fn token(source: Source) -> Token {
    match source {
        Source::Conn(slot) => Token(slot as usize * 2),
        Source::Listener(index) => Token(index as usize * 2 + 1),
    }
}

fn readiness(event: &mio::event::Event) -> Readiness {
    let Token(token) = event.token();
    let number = (token / 2) as u32;
    let insist = event.is_read_closed()
        || event.is_write_closed()
        || event.is_error()
        || event.is_priority();
    Readiness {
        source: if token % 2 == 0 { Source::Conn(number) } else { Source::Listener(number) },
        readable: event.is_readable() || insist,
        writable: event.is_writable() || event.is_error(),
        insist,
    }
}

/// Urgent data makes Linux stop a receive short of what is there, so it must be heard of.
fn interest() -> Interest {
    let both = Interest::READABLE | Interest::WRITABLE;
    #[cfg(any(target_os = "linux", target_os = "android"))]
    let both = both | Interest::PRIORITY;
    both
}

fn is_same(local: SocketAddr, peer: SocketAddr) -> bool {
    local.ip() == peer.ip() && local.port() == peer.port()
}

/// Reports fetched with one look at the poller.
const EVENTS_LEN: usize = 1024;

/// Looks at the poller in one wait, so that a flood of reports cannot hold a tick.
const LOOKS_MAX: usize = 64;

/// Whether the poller is epoll or kqueue, where a receive that fills less than it was offered has
/// drained the socket (epoll(7), question 9).
const SHORT_MEANS_DRAINED: bool = cfg!(any(
    target_os = "linux",
    target_os = "android",
    target_vendor = "apple",
    target_os = "freebsd",
    target_os = "netbsd",
    target_os = "openbsd",
    target_os = "dragonfly",
));

// MSG_NOSIGNAL, which neither std nor socket2 exports. Apple has SO_NOSIGPIPE instead, which mio
// sets; Windows has no such signal.
#[cfg(any(target_os = "linux", target_os = "android"))]
const NO_SIGNAL: i32 = 0x4000;
#[cfg(any(target_os = "freebsd", target_os = "dragonfly"))]
const NO_SIGNAL: i32 = 0x2_0000;
#[cfg(any(target_os = "netbsd", target_os = "openbsd"))]
const NO_SIGNAL: i32 = 0x400;
#[cfg(not(any(
    target_os = "linux",
    target_os = "android",
    target_os = "freebsd",
    target_os = "dragonfly",
    target_os = "netbsd",
    target_os = "openbsd"
)))]
const NO_SIGNAL: i32 = 0;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_of_listeners_and_connections_never_meet() {
        assert_eq!(token(Source::Conn(3)), Token(6));
        assert_eq!(token(Source::Listener(3)), Token(7));
    }

    /// tokio-rs/tokio#3405: a connect to a port that nobody listens on may meet its own socket there.
    #[test]
    #[cfg(target_os = "linux")]
    fn a_connection_with_itself_is_a_refusal() {
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None).expect("a socket");
        socket.bind(&SocketAddr::from(([127, 0, 0, 1], 0)).into()).expect("a free port");
        let own = socket.local_addr().expect("it is bound");
        socket.connect(&own).expect("a simultaneous open with itself (RFC 9293, section 3.5)");
        socket.set_nonblocking(true).expect("a plain option");
        let mut stream = TcpStream::from_std(socket.into());
        let mut net = MioNet::new(true).expect("a poller");
        let refusal = net.connected(&mut stream).expect_err("it met itself");
        assert_eq!(refusal.kind(), io::ErrorKind::ConnectionRefused);
    }
}
