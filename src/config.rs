//! Settings, checked once, then trusted.

use std::time::Duration;

use crate::error::Error;
use crate::frame::{Framer, Framing, PAYLOAD_LEN_CEILING};

/// What happens when a message finds the send queue of its connection full.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum SendPolicy {
    /// The caller is told ([`SendError::Full`](crate::SendError::Full)) and decides.
    #[default]
    Error,
    /// The caller is told, and the connection ends with
    /// [`DisconnectReason::SendQueueFull`](crate::DisconnectReason::SendQueueFull).
    Disconnect,
}

/// Sets up a [`Reactor`](crate::Reactor). Every bound has a finite default.
///
/// ```
/// use std::time::Duration;
/// use tickwire::Reactor;
///
/// let reactor = Reactor::builder()
///     .frame_len_max(64 * 1024)
///     .send_queue_max(4 * 1024 * 1024)
///     .close_timeout(Duration::from_secs(2))
///     .build()?;
/// # Ok::<(), tickwire::Error>(())
/// ```
#[derive(Clone, Debug)]
#[must_use = "a builder does nothing until `build` is called"]
pub struct Builder {
    limits: Limits,
}

/// The settings of a running reactor. Comes only out of [`Builder::check`], so its readers trust it.
#[derive(Clone, Debug)]
pub(crate) struct Limits {
    pub(crate) framing: Framing,
    pub(crate) frame_len_max: usize,
    pub(crate) batch_memory: usize,
    pub(crate) read_quantum: usize,
    pub(crate) frame_quantum: usize,
    pub(crate) event_budget: usize,
    pub(crate) accept_budget: usize,
    pub(crate) send_queue_max: usize,
    pub(crate) send_policy: SendPolicy,
    pub(crate) shared_len_min: usize,
    pub(crate) connections_max: usize,
    pub(crate) connect_timeout: Duration,
    pub(crate) close_timeout: Duration,
    pub(crate) pace: Duration,
    pub(crate) phase_times: bool,
    pub(crate) socket: SocketOptions,
}

impl Default for Builder {
    fn default() -> Builder {
        Builder::new()
    }
}

impl Builder {
    /// The defaults, as each setter names them.
    pub fn new() -> Builder {
        Builder {
            limits: Limits {
                framing: Framing::LengthPrefix,
                frame_len_max: 16_384,
                batch_memory: MIB,
                read_quantum: 128 * KIB,
                frame_quantum: 2_048,
                event_budget: 16_384,
                accept_budget: 256,
                send_queue_max: MIB,
                send_policy: SendPolicy::Error,
                shared_len_min: 16 * KIB,
                connections_max: 65_536,
                connect_timeout: Duration::from_secs(10),
                close_timeout: Duration::from_secs(5),
                pace: Duration::from_millis(4),
                phase_times: false,
                socket: SocketOptions::new(),
            },
        }
    }

    /// How messages are cut out of the byte stream, on connections whose listener or connect does
    /// not say otherwise. Default: [`Framing::LengthPrefix`].
    pub fn framing(mut self, framing: Framing) -> Builder {
        self.limits.framing = framing;
        self
    }

    /// The largest payload that is accepted or sent, in bytes, from 1 to 2^30, on connections whose listener
    /// or connect does not say otherwise. Default 16,384.
    ///
    /// A larger frame is refused when sent ([`SendError::TooLarge`](crate::SendError::TooLarge))
    /// and ends its connection when received, on its header alone.
    pub fn frame_len_max(mut self, bytes: usize) -> Builder {
        self.limits.frame_len_max = bytes;
        self
    }

    /// Memory for the messages of one batch, in bytes, from 64 KiB to 1 GiB. Default 1 MiB.
    ///
    /// When it is used up, reading ends for this tick and TCP slows the peers; nothing is lost.
    /// 1 MiB suits an event-driven server, 4 MiB thousands of players at 60 ticks a second.
    pub fn batch_memory(mut self, bytes: usize) -> Builder {
        self.limits.batch_memory = bytes;
        self
    }

    /// The most bytes that are read from one connection in one tick, at least 1. Default 128 KiB.
    pub fn read_quantum(mut self, bytes: usize) -> Builder {
        self.limits.read_quantum = bytes;
        self
    }

    /// The most messages that one connection brings in one tick, at least 1. Default 2,048.
    ///
    /// What is beyond it stays in order and comes first with the connection's next turn.
    pub fn frame_quantum(mut self, frames: usize) -> Builder {
        self.limits.frame_quantum = frames;
        self
    }

    /// The most events that a batch holds, at least 1; events left unfetched count too.
    /// Default 16,384.
    pub fn event_budget(mut self, events: usize) -> Builder {
        self.limits.event_budget = events;
        self
    }

    /// The most connections that are accepted in one tick, at least 1. Default 256.
    pub fn accept_budget(mut self, connections: usize) -> Builder {
        self.limits.accept_budget = connections;
        self
    }

    /// The most bytes (headers included) that wait to be sent on one connection. Default 1 MiB.
    ///
    /// The system's own send buffer comes on top: on Linux some 4 MB for a peer that never reads.
    pub fn send_queue_max(mut self, bytes: usize) -> Builder {
        self.limits.send_queue_max = bytes;
        self
    }

    /// What happens at [`send_queue_max`](Self::send_queue_max). Default: [`SendPolicy::Error`].
    pub fn send_policy(mut self, policy: SendPolicy) -> Builder {
        self.limits.send_policy = policy;
        self
    }

    /// From this payload length on, a broadcast shares one copy between all receivers instead of
    /// copying it for each. Default 16 KiB.
    pub fn shared_len_min(mut self, bytes: usize) -> Builder {
        self.limits.shared_len_min = bytes;
        self
    }

    /// The most connections at one time, incoming and outgoing, at least 1. Default 65,536.
    ///
    /// At the limit further clients wait in the listener's backlog and are accepted as soon as a
    /// connection ends.
    pub fn connections_max(mut self, connections: usize) -> Builder {
        self.limits.connections_max = connections;
        self
    }

    /// How long an outgoing connection may take to come about. Default 10 s.
    pub fn connect_timeout(mut self, timeout: Duration) -> Builder {
        self.limits.connect_timeout = timeout;
        self
    }

    /// How long an orderly end may take: flushing what is queued and waiting for the peer to close
    /// too. Afterwards the connection is reset. Default 5 s.
    pub fn close_timeout(mut self, timeout: Duration) -> Builder {
        self.limits.close_timeout = timeout;
        self
    }

    /// How often [`Wait::Until`](crate::Wait::Until) looks at the sockets while it waits for its
    /// deadline, at least 1 ms. Default 4 ms.
    ///
    /// Looking at a steady pace costs far less than being woken by each arrival.
    pub fn pace(mut self, pace: Duration) -> Builder {
        self.limits.pace = pace;
        self
    }

    /// Whether [`Tick::report`](crate::Tick::report) says how long each phase took. It costs a few more
    /// readings of the clock per tick, some 25 ns each. Default `false`.
    pub fn phase_times(mut self, phase_times: bool) -> Builder {
        self.limits.phase_times = phase_times;
        self
    }

    /// Options of all sockets whose listener or connect does not bring its own.
    pub fn socket_options(mut self, options: SocketOptions) -> Builder {
        self.limits.socket = options;
        self
    }

    /// The settings, if they can work together.
    pub(crate) fn check(self) -> Result<Limits, Error> {
        let limits = self.limits;
        within("batch_memory", limits.batch_memory, 64 * KIB, 1024 * MIB)?;
        within("read_quantum", limits.read_quantum, 1, 1024 * MIB)?;
        within("frame_quantum", limits.frame_quantum, 1, u32::MAX as usize)?;
        within("event_budget", limits.event_budget, 1, u32::MAX as usize)?;
        within("accept_budget", limits.accept_budget, 1, u32::MAX as usize)?;
        within("connections_max", limits.connections_max, 1, u32::MAX as usize / 2)?;
        within("send_queue_max", limits.send_queue_max, 1, 2 * PAYLOAD_LEN_CEILING)?;
        limits.framer(None, None)?;
        if limits.pace < PACE_MIN {
            return Err(Error::Config {
                setting: "pace",
                problem: format!("{:?} is too short: at least {PACE_MIN:?}", limits.pace),
            });
        }
        Ok(limits)
    }
}

impl Limits {
    /// How a connection's bytes are framed, with what its listener or connect says otherwise, if that can work.
    pub(crate) fn framer(
        &self,
        framing: Option<Framing>,
        frame_len_max: Option<usize>,
    ) -> Result<Framer, Error> {
        let frame_len_max = frame_len_max.unwrap_or(self.frame_len_max);
        within("frame_len_max", frame_len_max, 1, PAYLOAD_LEN_CEILING)?;
        let framer = framing.unwrap_or(self.framing).check(frame_len_max)?;
        let frame_len = framer.frame_len_max();
        if self.send_queue_max < frame_len {
            return Err(Error::Config {
                setting: "send_queue_max",
                problem: format!(
                    "{} bytes cannot hold one frame of `frame_len_max`: raise it to at least {frame_len} or lower `frame_len_max`",
                    self.send_queue_max
                ),
            });
        }
        Ok(framer)
    }
}

fn within(setting: &'static str, given: usize, least: usize, most: usize) -> Result<(), Error> {
    if (least..=most).contains(&given) {
        return Ok(());
    }
    Err(Error::Config {
        setting,
        problem: format!("{given} is out of range: choose {least} to {most}"),
    })
}

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
    /// [`frame_len_max`](Builder::frame_len_max).
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
    /// [`frame_len_max`](Builder::frame_len_max).
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

const KIB: usize = 1024;
const MIB: usize = 1024 * KIB;
const PACE_MIN: Duration = Duration::from_millis(1);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::LengthField;

    fn problem(builder: Builder) -> String {
        builder.check().expect_err("unusable").to_string()
    }

    #[test]
    fn the_defaults_can_work() {
        assert!(Builder::new().check().is_ok());
    }

    #[test]
    fn what_cannot_work_says_what_to_change() {
        for builder in [
            Builder::new().frame_len_max(0),
            Builder::new().frame_len_max(PAYLOAD_LEN_CEILING + 1),
            Builder::new().batch_memory(1),
            Builder::new().read_quantum(0),
            Builder::new().frame_quantum(0),
            Builder::new().event_budget(0),
            Builder::new().accept_budget(0),
            Builder::new().connections_max(0),
        ] {
            assert!(problem(builder).contains("choose"));
        }
        assert!(problem(Builder::new().pace(Duration::ZERO)).contains("at least 1ms"));
    }

    #[test]
    fn a_framing_that_cannot_tell_the_largest_payload_is_refused() {
        let narrow = Framing::LengthField(LengthField::new(1));
        let builder = Builder::new().framing(narrow);
        assert!(builder.clone().frame_len_max(255).check().is_ok());
        assert!(problem(builder.frame_len_max(300)).contains("lower it to at most 255"));
        let limits = Builder::new().check().expect("usable");
        assert!(limits.framer(Some(narrow), None).is_err(), "16,384 by default");
        assert!(limits.framer(Some(narrow), Some(100)).is_ok());
        assert!(limits.framer(None, Some(0)).is_err());
    }

    #[test]
    fn a_queue_too_small_for_one_frame_is_refused() {
        let builder = Builder::new().frame_len_max(100_000);
        assert!(builder.clone().send_queue_max(100_004).check().is_ok());
        assert!(problem(builder.send_queue_max(100_003)).contains("at least 100004"));
    }
}
