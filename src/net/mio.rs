//! The real network: the only file that names mio.

use std::io::{self, IoSlice, Read, Write};
use std::net::{Shutdown, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};
use std::{fmt, thread};

use mio::event::Source as Watched;
use mio::net::{TcpListener, TcpStream};
#[cfg(unix)]
use mio::net::{UnixListener, UnixStream};
use mio::{Events, Interest, Poll, Token, Waker};
use socket2::{Domain, Protocol, SockRef, Socket, Type};

use super::options;
use super::{Net, Readiness, Received, Source};
use crate::addr::Addr;
use crate::config::{ConnectOptions, ListenOptions, SocketOptions};
use crate::io::EINPROGRESS;

/// The operating system's TCP, and on Unix its local sockets, through mio. What
/// [`Reactor::new`](crate::Reactor::new) uses.
pub struct MioNet {
    poll: Poll,
    events: Events,
    /// For sockets that do not bring their own.
    socket: SocketOptions,
}

/// A listening socket of a [`MioNet`].
#[derive(Debug)]
pub struct MioListener {
    kind: Listening,
    /// The file of a local socket, by device and inode, so that no other is taken for it when the listener ends.
    #[cfg(unix)]
    file: Option<(u64, u64)>,
    /// What the system does not hand down from the listener.
    socket: SocketOptions,
}

#[derive(Debug)]
enum Listening {
    Tcp(TcpListener),
    #[cfg(unix)]
    Unix(UnixListener),
}

/// A connection's socket of a [`MioNet`].
#[derive(Debug)]
pub struct MioStream {
    kind: Streaming,
}

#[derive(Debug)]
enum Streaming {
    Tcp(TcpStream),
    #[cfg(unix)]
    Unix(UnixStream),
}

impl fmt::Debug for MioNet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MioNet").finish_non_exhaustive()
    }
}

impl MioNet {
    pub(crate) fn new(socket: SocketOptions) -> io::Result<MioNet> {
        Ok(MioNet { poll: Poll::new()?, events: Events::with_capacity(EVENTS_LEN), socket })
    }

    /// Takes over a listener that was bound elsewhere (socket activation, an old process).
    pub(crate) fn adopt(
        &mut self,
        listener: std::net::TcpListener,
        index: u32,
    ) -> io::Result<MioListener> {
        listener.set_nonblocking(true)?;
        let socket = self.socket.clone();
        options::prepare(&SockRef::from(&listener), &socket, listener.local_addr()?.is_ipv6())?;
        let kind = Listening::Tcp(TcpListener::from_std(listener));
        self.watch_listener(MioListener::new(kind, socket), index)
    }

    fn listen_tcp(&mut self, addr: SocketAddr, options: &ListenOptions) -> io::Result<TcpListener> {
        let socket = Socket::new(Domain::for_address(addr), Type::STREAM, Some(Protocol::TCP))?;
        options::prepare_listener(&socket, options, addr.is_ipv6())?;
        options::prepare(&socket, options.socket.as_ref().unwrap_or(&self.socket), addr.is_ipv6())?;
        socket.set_nonblocking(true)?;
        socket.bind(&addr.into())?;
        // Not mio's own bind: its backlog of 1024 overflows when thousands of players join at once.
        socket.listen(i32::try_from(options.backlog).unwrap_or(i32::MAX))?;
        Ok(TcpListener::from_std(socket.into()))
    }

    #[cfg(unix)]
    fn listen_unix(
        &mut self,
        path: &std::path::Path,
        options: &ListenOptions,
    ) -> io::Result<UnixListener> {
        let addr = socket2::SockAddr::unix(path)?;
        let socket = Socket::new(Domain::UNIX, Type::STREAM, None)?;
        options::prepare_buffers(&socket, options.socket.as_ref().unwrap_or(&self.socket))?;
        socket.set_nonblocking(true)?;
        let bound = match socket.bind(&addr) {
            // The file of a server that is gone stays behind. If nobody answers there, it is in the way.
            Err(error) if error.kind() == io::ErrorKind::AddrInUse && is_deserted(path) => {
                std::fs::remove_file(path)?;
                socket.bind(&addr)
            }
            bound => bound,
        };
        bound?;
        socket.listen(i32::try_from(options.backlog).unwrap_or(i32::MAX))?;
        Ok(UnixListener::from_std(socket.into()))
    }

    fn watch_listener(&mut self, mut listener: MioListener, index: u32) -> io::Result<MioListener> {
        let token = token(Source::Listener(index));
        self.poll.registry().register(listener.watched(), token, Interest::READABLE)?;
        Ok(listener)
    }

    fn connect_tcp(&mut self, addr: SocketAddr, options: &ConnectOptions) -> io::Result<TcpStream> {
        let socket = Socket::new(Domain::for_address(addr), Type::STREAM, Some(Protocol::TCP))?;
        options::prepare(&socket, options.socket.as_ref().unwrap_or(&self.socket), addr.is_ipv6())?;
        socket.set_nonblocking(true)?;
        match socket.connect(&addr.into()) {
            Err(error) if !is_under_way(&error) => Err(error),
            _ => Ok(TcpStream::from_std(socket.into())),
        }
    }
}

/// The poller's descriptor: it is readable when something is ready (epoll(7), kqueue(2)).
#[cfg(unix)]
impl std::os::fd::AsRawFd for MioNet {
    fn as_raw_fd(&self) -> std::os::fd::RawFd {
        self.poll.as_raw_fd()
    }
}

impl MioListener {
    fn new(kind: Listening, socket: SocketOptions) -> MioListener {
        MioListener {
            #[cfg(unix)]
            file: match &kind {
                Listening::Unix(listener) => {
                    listener.local_addr().ok().and_then(|addr| identity(addr.as_pathname()?))
                }
                Listening::Tcp(_) => None,
            },
            kind,
            socket,
        }
    }

    fn watched(&mut self) -> &mut dyn Watched {
        match &mut self.kind {
            Listening::Tcp(listener) => listener,
            #[cfg(unix)]
            Listening::Unix(listener) => listener,
        }
    }
}

impl MioStream {
    fn watched(&mut self) -> &mut dyn Watched {
        match &mut self.kind {
            Streaming::Tcp(stream) => stream,
            #[cfg(unix)]
            Streaming::Unix(stream) => stream,
        }
    }

    fn socket(&self) -> SockRef<'_> {
        match &self.kind {
            Streaming::Tcp(stream) => SockRef::from(stream),
            #[cfg(unix)]
            Streaming::Unix(stream) => SockRef::from(stream),
        }
    }

    fn shutdown_write(&self) -> io::Result<()> {
        match &self.kind {
            Streaming::Tcp(stream) => stream.shutdown(Shutdown::Write),
            #[cfg(unix)]
            Streaming::Unix(stream) => stream.shutdown(Shutdown::Write),
        }
    }
}

impl Net for MioNet {
    type Listener = MioListener;
    type Stream = MioStream;

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
            let reports = self.events.iter().filter(|event| event.token() != WAKE);
            ready.extend(reports.map(readiness));
            if ready.len() - before < EVENTS_LEN {
                break;
            }
            timeout = Some(Duration::ZERO);
        }
        Ok(())
    }

    fn waker(&mut self) -> io::Result<Arc<dyn Fn() + Send + Sync>> {
        let waker = Waker::new(self.poll.registry(), WAKE)?;
        // A wake-up that fails has nobody to complain to, and the next look comes without it.
        Ok(Arc::new(move || drop(waker.wake())))
    }

    fn listen(
        &mut self,
        addr: &Addr,
        options: &ListenOptions,
        index: u32,
    ) -> io::Result<MioListener> {
        let kind = match addr {
            Addr::Ip(addr) => Listening::Tcp(self.listen_tcp(*addr, options)?),
            #[cfg(unix)]
            Addr::Unix(path) => Listening::Unix(self.listen_unix(path, options)?),
            #[cfg(not(unix))]
            Addr::Unix(_) => return Err(io::ErrorKind::Unsupported.into()),
        };
        let socket = options.socket.as_ref().unwrap_or(&self.socket).clone();
        self.watch_listener(MioListener::new(kind, socket), index)
    }

    fn local_addr(&self, listener: &MioListener) -> io::Result<Addr> {
        match &listener.kind {
            Listening::Tcp(listener) => listener.local_addr().map(Addr::Ip),
            #[cfg(unix)]
            Listening::Unix(listener) => Ok(unix_addr(&listener.local_addr()?)),
        }
    }

    fn unlisten(&mut self, mut listener: MioListener) {
        let _ = self.poll.registry().deregister(listener.watched());
        #[cfg(unix)]
        if let Listening::Unix(socket) = &listener.kind {
            let addr = socket.local_addr().ok();
            let path = addr.as_ref().and_then(|addr| addr.as_pathname());
            // A successor may have put its own file there.
            if let Some(path) = path.filter(|path| identity(path) == listener.file) {
                let _ = std::fs::remove_file(path);
            }
        }
    }

    fn accept(&mut self, listener: &MioListener) -> io::Result<(MioStream, Addr)> {
        match &listener.kind {
            Listening::Tcp(tcp) => {
                let (stream, peer) = tcp.accept()?;
                // Linux hands the listener's options down (tcp(7)), which saves a call or more for each
                // client; elsewhere that is not promised. A peer that is gone already makes setting them
                // fail; receiving will tell, so that is no news here.
                #[cfg(not(any(target_os = "linux", target_os = "android")))]
                let _ = options::prepare(&SockRef::from(&stream), &listener.socket, peer.is_ipv6());
                let kind = Streaming::Tcp(stream);
                Ok((MioStream { kind }, Addr::Ip(peer).canonical()))
            }
            #[cfg(unix)]
            Listening::Unix(unix) => {
                let (stream, peer) = unix.accept()?;
                // Not handed down, on any system.
                let _ = options::prepare_buffers(&SockRef::from(&stream), &listener.socket);
                Ok((MioStream { kind: Streaming::Unix(stream) }, unix_addr(&peer)))
            }
        }
    }

    fn register(&mut self, stream: &mut MioStream, slot: u32) -> io::Result<()> {
        // Both directions, once and for ever: with edges, a writable socket costs one report when it
        // is registered and none later, where arming it after each short send costs a system call.
        self.poll.registry().register(stream.watched(), token(Source::Conn(slot)), interest())
    }

    fn connect(
        &mut self,
        addr: &Addr,
        options: &ConnectOptions,
        slot: u32,
    ) -> io::Result<MioStream> {
        let kind = match addr {
            Addr::Ip(addr) => Streaming::Tcp(self.connect_tcp(*addr, options)?),
            #[cfg(unix)]
            Addr::Unix(path) => {
                let stream = UnixStream::connect(path)?;
                let socket = options.socket.as_ref().unwrap_or(&self.socket);
                options::prepare_buffers(&SockRef::from(&stream), socket)?;
                Streaming::Unix(stream)
            }
            #[cfg(not(unix))]
            Addr::Unix(_) => return Err(io::ErrorKind::Unsupported.into()),
        };
        let mut stream = MioStream { kind };
        self.register(&mut stream, slot)?;
        Ok(stream)
    }

    fn connected(&mut self, stream: &mut MioStream) -> io::Result<bool> {
        // SO_ERROR first: only it tells why (connect(2)); the peer's address then tells whether.
        if let Some(error) = stream.socket().take_error()? {
            return Err(error);
        }
        match &stream.kind {
            Streaming::Tcp(stream) => match (stream.peer_addr(), stream.local_addr()) {
                (Ok(peer), Ok(local)) if is_same(local, peer) => {
                    Err(io::ErrorKind::ConnectionRefused.into())
                }
                (peer, _) => is_connected(peer),
            },
            #[cfg(unix)]
            Streaming::Unix(stream) => is_connected(stream.peer_addr()),
        }
    }

    fn recv(&mut self, stream: &mut MioStream, into: &mut [u8]) -> io::Result<Received> {
        let len = match &mut stream.kind {
            Streaming::Tcp(stream) => stream.read(into)?,
            #[cfg(unix)]
            Streaming::Unix(stream) => stream.read(into)?,
        };
        Ok(Received { len, drained: SHORT_MEANS_DRAINED && len < into.len() })
    }

    fn send(&mut self, stream: &mut MioStream, from: &[IoSlice<'_>]) -> io::Result<usize> {
        // The standard library's write to a TCP stream is a send with MSG_NOSIGNAL where the system has it.
        // Its vectored write is a writev without, and so is its write to a Unix stream: these kill a
        // host process whose SIGPIPE is at its default.
        match (&mut stream.kind, from) {
            (Streaming::Tcp(stream), [one]) => stream.write(one),
            (Streaming::Tcp(stream), several) => {
                let stream = &*stream;
                stream.try_io(|| SockRef::from(stream).send_vectored_with_flags(several, NO_SIGNAL))
            }
            #[cfg(unix)]
            (Streaming::Unix(stream), several) => {
                let stream = &*stream;
                stream.try_io(|| SockRef::from(stream).send_vectored_with_flags(several, NO_SIGNAL))
            }
        }
    }

    fn shutdown_write(&mut self, stream: &mut MioStream) -> io::Result<()> {
        stream.shutdown_write()
    }

    fn close(&mut self, mut stream: MioStream) {
        // Closing alone would do, were it not for a forked child that keeps the description open:
        // then the poller would go on reporting it, and no FIN would leave.
        let _ = self.poll.registry().deregister(stream.watched());
        let _ = stream.shutdown_write();
    }

    fn abort(&mut self, mut stream: MioStream) {
        let _ = self.poll.registry().deregister(stream.watched());
        // Lingering for no time makes close(2) a reset (socket(7)).
        let _ = stream.socket().set_linger(Some(Duration::ZERO));
    }
}

/// What asking for the peer's address says about a connect.
fn is_connected<A>(peer: io::Result<A>) -> io::Result<bool> {
    match peer {
        Ok(_) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::NotConnected => Ok(false),
        Err(error) => Err(error),
    }
}

/// Whether a connect has begun in the background: EINPROGRESS on Unix, WSAEWOULDBLOCK on Windows. An interrupted one goes on,
/// too (POSIX, connect).
fn is_under_way(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
        || error.raw_os_error() == Some(EINPROGRESS)
}

/// Whether a socket's file is there and nobody listens on it any more. A file that is no socket is somebody's; and a server
/// whose backlog is full is alive, so the probe must not wait for it.
#[cfg(unix)]
fn is_deserted(path: &std::path::Path) -> bool {
    use std::os::unix::fs::FileTypeExt;

    let is_socket = std::fs::symlink_metadata(path).is_ok_and(|file| file.file_type().is_socket());
    let refused = UnixStream::connect(path).map_err(|error| error.kind());
    is_socket && refused.is_err_and(|kind| kind == io::ErrorKind::ConnectionRefused)
}

/// Which file a path leads to: device and inode.
#[cfg(unix)]
fn identity(path: &std::path::Path) -> Option<(u64, u64)> {
    use std::os::unix::fs::MetadataExt;

    let file = std::fs::symlink_metadata(path).ok()?;
    Some((file.dev(), file.ino()))
}

#[cfg(unix)]
fn unix_addr(addr: &std::os::unix::net::SocketAddr) -> Addr {
    Addr::from(addr.as_pathname().unwrap_or_else(|| std::path::Path::new("")))
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

/// The token of the waker; no slot is that high.
const WAKE: Token = Token(usize::MAX);

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

    fn connected_pair(net: &mut MioNet, options: &ListenOptions) -> (MioStream, MioStream) {
        let any = Addr::from(([127, 0, 0, 1], 0));
        let listener = net.listen(&any, options, 0).expect("a free port");
        let addr = net.local_addr(&listener).expect("it is bound");
        let client = net.connect(&addr, &ConnectOptions::new(), 1).expect("it listens");
        let mut ready = Vec::new();
        while !ready.iter().any(|report: &Readiness| report.source == Source::Listener(0)) {
            net.wait(Some(Duration::from_secs(10)), &mut ready).expect("a poller");
            assert!(!ready.is_empty());
        }
        let (server, _) = net.accept(&listener).expect("it was announced");
        (server, client)
    }

    /// What is set for a listener must be found on what it accepts: in Telepathy it once was not.
    #[test]
    #[cfg(target_os = "linux")]
    fn accepted_sockets_have_the_options_of_their_listener() {
        let seconds = Duration::from_secs;
        let keepalive = crate::config::Keepalive::after(seconds(5)).interval(seconds(4)).count(3);
        let options = SocketOptions::new()
            .keepalive(keepalive)
            .user_timeout(seconds(17))
            .send_buffer(40_000)
            .receive_buffer(30_000)
            .tos(0x10);
        let mut net = MioNet::new(SocketOptions::new()).expect("a poller");
        let options = ListenOptions::new().socket_options(options);
        let (server, client) = connected_pair(&mut net, &options);
        let socket = server.socket();
        assert!(socket.tcp_nodelay().expect("an option"));
        assert!(socket.keepalive().expect("an option"));
        assert_eq!(socket.tcp_keepalive_time().expect("an option"), seconds(5));
        assert_eq!(socket.tcp_keepalive_interval().expect("an option"), seconds(4));
        assert_eq!(socket.tcp_keepalive_retries().expect("an option"), 3);
        assert_eq!(socket.tcp_user_timeout().expect("an option"), Some(seconds(17)));
        assert_eq!(socket.send_buffer_size().expect("an option"), 80_000, "Linux doubles it");
        assert_eq!(socket.recv_buffer_size().expect("an option"), 60_000, "Linux doubles it");
        assert_eq!(socket.tos_v4().expect("an option"), 0x10);
        let socket = client.socket();
        assert!(socket.tcp_nodelay().expect("an option"), "the default of a connect");
        assert!(!socket.keepalive().expect("an option"));
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn nodelay_can_be_left_off() {
        let slow = SocketOptions::new().nodelay(false);
        let mut net = MioNet::new(slow).expect("a poller");
        let (server, client) = connected_pair(&mut net, &ListenOptions::new());
        assert!(!server.socket().tcp_nodelay().expect("an option"));
        assert!(!client.socket().tcp_nodelay().expect("an option"));
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
        let kind = Streaming::Tcp(TcpStream::from_std(socket.into()));
        let mut stream = MioStream { kind };
        let mut net = MioNet::new(SocketOptions::new()).expect("a poller");
        let refusal = net.connected(&mut stream).expect_err("it met itself");
        assert_eq!(refusal.kind(), io::ErrorKind::ConnectionRefused);
    }
}
