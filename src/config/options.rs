//! Settings of listeners, connects and their sockets.

use std::time::Duration;

use crate::frame::Framing;

/// Options of a connection's socket, for a listener (whose connections get them) or a connect.
///
/// What the system does not know, or does not let us set, makes `listen` fail, and a connect end in
/// [`ConnectFailed`](crate::Event::ConnectFailed): nothing is ignored silently, but for options that have no meaning for
/// a Unix domain socket.
///
/// ```
/// use std::time::Duration;
/// use tickwire::{Keepalive, ListenOptions, SocketOptions};
///
/// // Notice a player whose cable was cut within some 17 seconds.
/// let socket = SocketOptions::new()
///     .keepalive(Keepalive::after(Duration::from_secs(5)).interval(Duration::from_secs(4)).count(3))
///     .user_timeout(Duration::from_secs(17));
/// let options = ListenOptions::new().socket_options(socket);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use = "options do nothing until they are passed on"]
pub struct SocketOptions {
    pub(crate) nodelay: bool,
    pub(crate) keepalive: Option<Keepalive>,
    pub(crate) user_timeout: Option<Duration>,
    pub(crate) send_buffer: Option<usize>,
    pub(crate) receive_buffer: Option<usize>,
    pub(crate) tos: Option<u8>,
}

impl Default for SocketOptions {
    fn default() -> SocketOptions {
        SocketOptions::new()
    }
}

impl SocketOptions {
    /// The defaults, as each setter names them.
    pub fn new() -> SocketOptions {
        SocketOptions {
            nodelay: true,
            keepalive: None,
            user_timeout: None,
            send_buffer: None,
            receive_buffer: None,
            tos: None,
        }
    }

    /// Whether small messages leave at once instead of waiting for acknowledgements of earlier ones
    /// (TCP_NODELAY, see tcp(7)). Default `true`.
    pub fn nodelay(mut self, nodelay: bool) -> SocketOptions {
        self.nodelay = nodelay;
        self
    }

    /// Lets the system probe a peer that is silent, and end the connection
    /// ([`TimedOut`](crate::DisconnectReason::TimedOut)) if it does not answer (SO_KEEPALIVE, see tcp(7)).
    /// Default: off.
    pub fn keepalive(mut self, keepalive: Keepalive) -> SocketOptions {
        self.keepalive = Some(keepalive);
        self
    }

    /// How long sent data may stay unacknowledged before the system gives up on the peer
    /// (TCP_USER_TIMEOUT, RFC 5482; on Linux and Android only). Default: the system's, some 15 minutes.
    pub fn user_timeout(mut self, timeout: Duration) -> SocketOptions {
        self.user_timeout = Some(timeout);
        self
    }

    /// The system's send buffer, in bytes (SO_SNDBUF, see socket(7): Linux doubles it and bounds it by
    /// `net.core.wmem_max`). Default: the system's, which grows by itself.
    pub fn send_buffer(mut self, bytes: usize) -> SocketOptions {
        self.send_buffer = Some(bytes);
        self
    }

    /// The system's receive buffer, in bytes (SO_RCVBUF, see socket(7)). Default: the system's, which grows
    /// by itself.
    pub fn receive_buffer(mut self, bytes: usize) -> SocketOptions {
        self.receive_buffer = Some(bytes);
        self
    }

    /// The type of service, or differentiated services field, of outgoing packets (IP_TOS, see ip(7);
    /// IPV6_TCLASS). Default: the system's, 0.
    pub fn tos(mut self, tos: u8) -> SocketOptions {
        self.tos = Some(tos);
        self
    }
}

/// How the system probes a silent peer. What is not set is the system's default: on Linux 75 s between
/// probes, and 9 of them.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use = "options do nothing until they are passed on"]
pub struct Keepalive {
    pub(crate) time: Duration,
    pub(crate) interval: Option<Duration>,
    pub(crate) count: Option<u32>,
}

impl Keepalive {
    /// Probes a peer that has been silent for this long; whole seconds, at least 1.
    pub fn after(time: Duration) -> Keepalive {
        Keepalive { time, interval: None, count: None }
    }

    /// How long to wait for the answer to a probe; whole seconds, at least 1.
    pub fn interval(mut self, interval: Duration) -> Keepalive {
        self.interval = Some(interval);
        self
    }

    /// After how many unanswered probes the connection ends.
    pub fn count(mut self, probes: u32) -> Keepalive {
        self.count = Some(probes);
        self
    }
}

/// Settings of one listener, for [`Reactor::listen_with`](crate::Reactor::listen_with).
///
/// ```
/// use tickwire::{Framing, ListenOptions, Reactor};
///
/// let mut reactor = Reactor::new()?;
/// let options = ListenOptions::new().dual_stack(true).framing(Framing::Telepathy);
/// let players = reactor.listen_with("[::]:0", &options)?;
/// let admins = reactor.listen("127.0.0.1:0")?;
/// # assert_ne!(reactor.local_addr(players), reactor.local_addr(admins));
/// # Ok::<(), tickwire::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use = "options do nothing until they are passed to `listen_with`"]
pub struct ListenOptions {
    pub(crate) backlog: u32,
    pub(crate) dual_stack: bool,
    pub(crate) reuse_address: bool,
    pub(crate) reuse_port: bool,
    pub(crate) framing: Option<Framing>,
    pub(crate) frame_len_max: Option<usize>,
    pub(crate) socket: Option<SocketOptions>,
}

impl Default for ListenOptions {
    fn default() -> ListenOptions {
        ListenOptions::new()
    }
}

impl ListenOptions {
    /// The defaults, as each setter names them.
    pub fn new() -> ListenOptions {
        ListenOptions {
            backlog: 4_096,
            dual_stack: false,
            reuse_address: true,
            reuse_port: false,
            framing: None,
            frame_len_max: None,
            socket: None,
        }
    }

    /// How many clients may wait to be accepted; the system may allow fewer (listen(2),
    /// `net.core.somaxconn` on Linux). Default 4,096.
    pub fn backlog(mut self, clients: u32) -> ListenOptions {
        self.backlog = clients;
        self
    }

    /// Whether an IPv6 listener takes IPv4 clients too (IPV6_V6ONLY off, see ipv6(7)); to be used
    /// with `[::]:PORT`. Without effect on an IPv4 address. Default `false`, on every system.
    pub fn dual_stack(mut self, dual_stack: bool) -> ListenOptions {
        self.dual_stack = dual_stack;
        self
    }

    /// Whether a restarted server may listen while connections of its predecessor are still in
    /// TIME_WAIT (SO_REUSEADDR, see socket(7)). Without effect on Windows, where the option means something
    /// else and is not needed. Default `true`.
    pub fn reuse_address(mut self, reuse: bool) -> ListenOptions {
        self.reuse_address = reuse;
        self
    }

    /// Whether several listeners, also of several processes of one user, may share the port, and the system
    /// spreads the clients over them (SO_REUSEPORT, see socket(7); on Unix only). Default `false`.
    pub fn reuse_port(mut self, reuse: bool) -> ListenOptions {
        self.reuse_port = reuse;
        self
    }

    /// The framing of the connections of this listener. Default: the builder's.
    pub fn framing(mut self, framing: Framing) -> ListenOptions {
        self.framing = Some(framing);
        self
    }

    /// The largest payload on the connections of this listener, in bytes, from 1 to 2^30. Default: the builder's
    /// [`frame_len_max`](crate::Builder::frame_len_max).
    pub fn frame_len_max(mut self, bytes: usize) -> ListenOptions {
        self.frame_len_max = Some(bytes);
        self
    }

    /// The socket options of the connections of this listener. Default: the builder's.
    pub fn socket_options(mut self, options: SocketOptions) -> ListenOptions {
        self.socket = Some(options);
        self
    }
}

/// Settings of one outgoing connection, for [`Reactor::connect_with`](crate::Reactor::connect_with).
///
/// ```
/// use std::time::Duration;
/// use tickwire::{ConnectOptions, Framing, Reactor};
///
/// # let mut reactor = Reactor::new()?;
/// let options = ConnectOptions::new().timeout(Duration::from_secs(3)).framing(Framing::Varint);
/// let backend = reactor.connect_with("127.0.0.1:9000", &options)?; // Connected or ConnectFailed follows
/// # Ok::<(), tickwire::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[must_use = "options do nothing until they are passed to `connect_with`"]
pub struct ConnectOptions {
    pub(crate) timeout: Option<Duration>,
    pub(crate) framing: Option<Framing>,
    pub(crate) frame_len_max: Option<usize>,
    pub(crate) socket: Option<SocketOptions>,
}

impl ConnectOptions {
    /// The defaults, as each setter names them.
    pub fn new() -> ConnectOptions {
        ConnectOptions::default()
    }

    /// How long the connection may take to come about. Default: the builder's `connect_timeout`.
    pub fn timeout(mut self, timeout: Duration) -> ConnectOptions {
        self.timeout = Some(timeout);
        self
    }

    /// The framing of the connection. Default: the builder's.
    pub fn framing(mut self, framing: Framing) -> ConnectOptions {
        self.framing = Some(framing);
        self
    }

    /// The largest payload on the connection, in bytes, from 1 to 2^30. Default: the builder's
    /// [`frame_len_max`](crate::Builder::frame_len_max).
    pub fn frame_len_max(mut self, bytes: usize) -> ConnectOptions {
        self.frame_len_max = Some(bytes);
        self
    }

    /// The socket options of the connection. Default: the builder's.
    pub fn socket_options(mut self, options: SocketOptions) -> ConnectOptions {
        self.socket = Some(options);
        self
    }
}
