//! Settings, checked once, then trusted.

mod options;
mod rate;

use std::time::Duration;

pub use self::options::{ConnectOptions, Keepalive, ListenOptions, SocketOptions};
pub use self::rate::{Rate, RatePolicy};
use crate::error::Error;
use crate::frame::{Framer, FramerId, Framers, Framing, PAYLOAD_LEN_CEILING};
use crate::timers::{Span, TIMEOUT_MAX};

/// What happens when a message finds the send queue of its connection full.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum SendPolicy {
    /// The caller is told ([`SendError::Full`](crate::SendError::Full)) and decides.
    #[default]
    Error,
    /// The caller is told, and the connection ends with
    /// [`DisconnectReason::SendQueueFull`](crate::DisconnectReason::SendQueueFull), or
    /// [`MemoryLimit`](crate::DisconnectReason::MemoryLimit) if it is the limit of all together.
    Disconnect,
}

/// What happens to a client for whom there is no room.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum AcceptPolicy {
    /// It waits in the listener's backlog, and is accepted as soon as a connection ends.
    #[default]
    Wait,
    /// It is accepted and closed, so that it learns at once.
    Close,
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
    /// What is in use of framings and limits.
    pub(crate) framers: Framers,
    pub(crate) batch_memory: usize,
    pub(crate) read_quantum: usize,
    pub(crate) frame_quantum: usize,
    pub(crate) event_budget: usize,
    pub(crate) accept_budget: usize,
    pub(crate) send_queue_max: usize,
    pub(crate) send_policy: SendPolicy,
    pub(crate) send_queue_soft: Option<Soft>,
    pub(crate) water_marks: Option<WaterMarks>,
    pub(crate) buffered_max: usize,
    pub(crate) shared_len_min: usize,
    pub(crate) connections_max: usize,
    pub(crate) connections_policy: AcceptPolicy,
    pub(crate) connections_per_address_max: Option<usize>,
    pub(crate) message_rate: Option<Rate>,
    pub(crate) byte_rate: Option<Rate>,
    pub(crate) rate_policy: RatePolicy,
    pub(crate) timeouts: Timeouts,
    pub(crate) pace: Duration,
    pub(crate) phase_times: bool,
    pub(crate) connection_stats: bool,
    pub(crate) socket: SocketOptions,
    /// Above so many bytes a send queue is looked at more closely; set by [`Builder::check`].
    pub(crate) send_watch: usize,
}

impl Limits {
    /// The most bytes that may wait to be sent on all connections together.
    #[inline]
    pub(crate) fn queued_max(&self) -> usize {
        self.buffered_max - self.buffered_max / 4
    }
}

/// How long things may take; `None` is for ever.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Timeouts {
    pub(crate) connect: Option<Span>,
    pub(crate) first_frame: Option<Span>,
    pub(crate) frame: Option<Span>,
    pub(crate) idle: Option<Span>,
    pub(crate) write_stall: Option<Span>,
    pub(crate) close: Option<Span>,
}

/// A bound that may be passed for a while.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Soft {
    pub(crate) bytes: usize,
    pub(crate) span: Span,
    pub(crate) policy: SendPolicy,
}

/// When the game hears of a send queue.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WaterMarks {
    pub(crate) low: usize,
    pub(crate) high: usize,
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
                framers: Framers::default(),
                batch_memory: MIB,
                read_quantum: 128 * KIB,
                frame_quantum: 2_048,
                event_budget: 16_384,
                accept_budget: 256,
                send_queue_max: MIB,
                send_policy: SendPolicy::Error,
                send_queue_soft: None,
                water_marks: None,
                buffered_max: 256 * MIB,
                shared_len_min: 8 * KIB,
                connections_max: 65_536,
                connections_policy: AcceptPolicy::Wait,
                connections_per_address_max: None,
                message_rate: None,
                byte_rate: None,
                rate_policy: RatePolicy::Pause,
                timeouts: Timeouts {
                    connect: span(Duration::from_secs(10)),
                    first_frame: None,
                    frame: span(Duration::from_secs(30)),
                    idle: None,
                    write_stall: span(Duration::from_secs(30)),
                    close: span(Duration::from_secs(5)),
                },
                pace: Duration::from_millis(4),
                phase_times: false,
                connection_stats: false,
                socket: SocketOptions::new(),
                send_watch: usize::MAX,
            },
        }
    }

    /// A preset for a port that anybody may reach: the defaults, and what they leave off. A client has 10 s to send
    /// its first message and 10 s for each, may be silent for 60 s, and no more than 32 connections come from
    /// one address (IPv6: one /64). Setters called afterwards still change each of them.
    ///
    /// What it does not set, since only the game knows: [`message_rate`](Self::message_rate),
    /// [`byte_rate`](Self::byte_rate), and the address filter of a [`Reactor`](crate::Reactor::set_filter).
    ///
    /// ```
    /// use tickwire::Reactor;
    ///
    /// let reactor = Reactor::builder().public_port().connections_max(2_000).build()?;
    /// # Ok::<(), tickwire::Error>(())
    /// ```
    pub fn public_port(self) -> Builder {
        self.first_frame_timeout(Duration::from_secs(10))
            .frame_timeout(Duration::from_secs(10))
            .idle_timeout(Duration::from_secs(60))
            .write_stall_timeout(Duration::from_secs(10))
            .connections_per_address_max(32)
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

    /// What happens at [`send_queue_max`](Self::send_queue_max) and at
    /// [`buffered_max`](Self::buffered_max). Default: [`SendPolicy::Error`].
    pub fn send_policy(mut self, policy: SendPolicy) -> Builder {
        self.limits.send_policy = policy;
        self
    }

    /// A second, lower limit of the send queue, in bytes, that may be passed for this long: a burst is fine, a client
    /// that stays behind is not. `policy` says what happens then: messages are refused until the queue is within the
    /// limit again, or the connection ends. Default: none.
    pub fn send_queue_soft(mut self, bytes: usize, time: Duration, policy: SendPolicy) -> Builder {
        self.limits.send_queue_soft = Some(Soft { bytes, span: Span::new(time), policy });
        self
    }

    /// The game gets [`SendQueueHigh`](crate::Event::SendQueueHigh) when the send queue of a connection rises above
    /// `high` bytes, and [`SendQueueLow`](crate::Event::SendQueueLow) when it is at `low` or below again: one event for each crossing.
    /// Default: none.
    pub fn water_marks(mut self, low: usize, high: usize) -> Builder {
        self.limits.water_marks = Some(WaterMarks { low, high });
        self
    }

    /// The most bytes that wait on all connections together: queued output, and input of frames that are not complete. Default
    /// 256 MiB; the batch memory comes on top. Output may take three quarters of it, so that peers that do not read never
    /// cost others the room for their input.
    ///
    /// At the limit a message is refused with [`SendError::Full`](crate::SendError::Full) ([`send_policy`](Self::send_policy)
    /// applies), and a connection whose input would need more ends with
    /// [`MemoryLimit`](crate::DisconnectReason::MemoryLimit).
    pub fn buffered_max(mut self, bytes: usize) -> Builder {
        self.limits.buffered_max = bytes;
        self
    }

    /// From this payload length on, a broadcast shares one copy between all receivers instead of
    /// copying it for each. Default 8 KiB, from where on sharing was measured to win
    /// (`cargo bench --bench broadcast`).
    pub fn shared_len_min(mut self, bytes: usize) -> Builder {
        self.limits.shared_len_min = bytes;
        self
    }

    /// The most connections at one time, incoming and outgoing, at least 1. Default 65,536.
    pub fn connections_max(mut self, connections: usize) -> Builder {
        self.limits.connections_max = connections;
        self
    }

    /// What happens to clients at [`connections_max`](Self::connections_max). Default:
    /// [`AcceptPolicy::Wait`].
    pub fn connections_policy(mut self, policy: AcceptPolicy) -> Builder {
        self.limits.connections_policy = policy;
        self
    }

    /// The most incoming connections from one address at one time; an IPv6 client counts by its /64, which is what one
    /// household gets. Further ones are accepted and closed. Default: no limit.
    pub fn connections_per_address_max(mut self, connections: impl Into<Option<usize>>) -> Builder {
        self.limits.connections_per_address_max = connections.into();
        self
    }

    /// How many messages a connection may bring per second. Default: no limit.
    pub fn message_rate(mut self, rate: impl Into<Option<Rate>>) -> Builder {
        self.limits.message_rate = rate.into();
        self
    }

    /// How many bytes (headers included) a connection may bring per second. Default: no limit.
    pub fn byte_rate(mut self, rate: impl Into<Option<Rate>>) -> Builder {
        self.limits.byte_rate = rate.into();
        self
    }

    /// What happens to a connection that brings more than [`message_rate`](Self::message_rate) or
    /// [`byte_rate`](Self::byte_rate). Default: [`RatePolicy::Pause`].
    pub fn rate_policy(mut self, policy: RatePolicy) -> Builder {
        self.limits.rate_policy = policy;
        self
    }

    /// How long an outgoing connection may take to come about
    /// ([`TimedOut`](crate::ConnectFailure::TimedOut)). Default 10 s; `None` for as long as the system tries.
    pub fn connect_timeout(mut self, timeout: impl Into<Option<Duration>>) -> Builder {
        self.limits.timeouts.connect = timeout.into().and_then(span);
        self
    }

    /// How long an incoming connection may take to bring its first whole message
    /// ([`FirstFrame`](crate::DisconnectReason::FirstFrame)). Default: no limit; 10 s in
    /// [`public_port`](Self::public_port).
    pub fn first_frame_timeout(mut self, timeout: impl Into<Option<Duration>>) -> Builder {
        self.limits.timeouts.first_frame = timeout.into().and_then(span);
        self
    }

    /// How long a message may take from its first byte to its last, whatever progress it makes: who drips a byte now and
    /// then gains nothing by it ([`FrameDeadline`](crate::DisconnectReason::FrameDeadline)). Default 30 s.
    pub fn frame_timeout(mut self, timeout: impl Into<Option<Duration>>) -> Builder {
        self.limits.timeouts.frame = timeout.into().and_then(span);
        self
    }

    /// How long a peer may be silent ([`Idle`](crate::DisconnectReason::Idle)). Default: no limit; 60 s in
    /// [`public_port`](Self::public_port).
    pub fn idle_timeout(mut self, timeout: impl Into<Option<Duration>>) -> Builder {
        self.limits.timeouts.idle = timeout.into().and_then(span);
        self
    }

    /// How long the socket may take not a byte of what is queued
    /// ([`WriteStall`](crate::DisconnectReason::WriteStall)). Default 30 s.
    pub fn write_stall_timeout(mut self, timeout: impl Into<Option<Duration>>) -> Builder {
        self.limits.timeouts.write_stall = timeout.into().and_then(span);
        self
    }

    /// How long an orderly end may take: flushing what is queued and waiting for the peer to close
    /// too. Afterwards the connection is reset ([`CloseDeadline`](crate::DisconnectReason::CloseDeadline)). Default 5 s.
    pub fn close_timeout(mut self, timeout: impl Into<Option<Duration>>) -> Builder {
        self.limits.timeouts.close = timeout.into().and_then(span);
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

    /// Whether the reactor counts for each connection what it does, for
    /// [`Reactor::connection_stats`](crate::Reactor::connection_stats). It costs 48 bytes for each. Default `false`.
    pub fn connection_stats(mut self, connection_stats: bool) -> Builder {
        self.limits.connection_stats = connection_stats;
        self
    }

    /// Options of all sockets whose listener or connect does not bring its own.
    pub fn socket_options(mut self, options: SocketOptions) -> Builder {
        self.limits.socket = options;
        self
    }

    /// The settings, if they can work together.
    pub(crate) fn check(self) -> Result<Limits, Error> {
        let mut limits = self.limits;
        within("batch_memory", limits.batch_memory, 64 * KIB, 1024 * MIB)?;
        within("read_quantum", limits.read_quantum, 1, 1024 * MIB)?;
        within("frame_quantum", limits.frame_quantum, 1, u32::MAX as usize)?;
        within("event_budget", limits.event_budget, 1, u32::MAX as usize)?;
        within("accept_budget", limits.accept_budget, 1, u32::MAX as usize)?;
        within("connections_max", limits.connections_max, 1, u32::MAX as usize / 2)?;
        within("send_queue_max", limits.send_queue_max, 1, 2 * PAYLOAD_LEN_CEILING)?;
        limits.framer(None, None)?;
        if let Some(marks) = limits.water_marks {
            within("water_marks", marks.high, marks.low, limits.send_queue_max)?;
        }
        if let Some(soft) = limits.send_queue_soft {
            within("send_queue_soft", soft.bytes, 0, limits.send_queue_max)?;
        }
        if limits.queued_max() < limits.send_queue_max {
            return Err(Error::Config {
                setting: "buffered_max",
                problem: format!(
                    "three quarters of {} bytes, for all connections, are less than `send_queue_max` for one: raise it to at least {}",
                    limits.buffered_max,
                    (limits.send_queue_max * 4).div_ceil(3)
                ),
            });
        }
        if limits.connections_per_address_max == Some(0) {
            return Err(Error::Config {
                setting: "connections_per_address_max",
                problem: "0 would let nobody in: choose at least 1, or no limit".to_owned(),
            });
        }
        limits.message_rate.iter().try_for_each(|rate| rate.check("message_rate"))?;
        limits.byte_rate.iter().try_for_each(|rate| rate.check("byte_rate"))?;
        for (setting, timeout) in [
            ("connect_timeout", limits.timeouts.connect),
            ("first_frame_timeout", limits.timeouts.first_frame),
            ("frame_timeout", limits.timeouts.frame),
            ("idle_timeout", limits.timeouts.idle),
            ("write_stall_timeout", limits.timeouts.write_stall),
            ("close_timeout", limits.timeouts.close),
        ] {
            if timeout == Some(Span::new(Duration::ZERO)) {
                let problem = "0 would leave no time at all: choose `None` for no limit".to_owned();
                return Err(Error::Config { setting, problem });
            }
        }
        if limits.pace < PACE_MIN {
            return Err(Error::Config {
                setting: "pace",
                problem: format!("{:?} is too short: at least {PACE_MIN:?}", limits.pace),
            });
        }
        let high = limits.water_marks.map(|marks| marks.high);
        let soft = limits.send_queue_soft.map(|soft| soft.bytes);
        limits.send_watch = high.into_iter().chain(soft).min().unwrap_or(usize::MAX);
        Ok(limits)
    }
}

impl Limits {
    /// How a connection's bytes are framed, with what its listener or connect says otherwise, if that can work.
    pub(crate) fn framer(
        &mut self,
        framing: Option<Framing>,
        frame_len_max: Option<usize>,
    ) -> Result<FramerId, Error> {
        let frame_len_max = frame_len_max.unwrap_or(self.frame_len_max);
        within("frame_len_max", frame_len_max, 1, PAYLOAD_LEN_CEILING)?;
        let framer: Framer = framing.unwrap_or(self.framing).check(frame_len_max)?;
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
        Ok(self.framers.add(framer))
    }
}

/// A timeout; one that is longer than any server lives is none.
fn span(timeout: Duration) -> Option<Span> {
    (timeout <= TIMEOUT_MAX).then(|| Span::new(timeout))
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
            Builder::new().connections_per_address_max(0),
            Builder::new().water_marks(10, 9),
            Builder::new().message_rate(Rate::per_second(0)),
            Builder::new().send_queue_soft(usize::MAX, Duration::ZERO, SendPolicy::Error),
        ] {
            assert!(problem(builder).contains("choose"));
        }
        assert!(problem(Builder::new().pace(Duration::ZERO)).contains("at least 1ms"));
        assert!(problem(Builder::new().idle_timeout(Duration::ZERO)).contains("`None`"));
        assert!(problem(Builder::new().buffered_max(1_000_000)).contains("at least 1398102"));
    }

    #[test]
    fn a_framing_that_cannot_tell_the_largest_payload_is_refused() {
        let narrow = Framing::LengthField(LengthField::new(1));
        let builder = Builder::new().framing(narrow);
        assert!(builder.clone().frame_len_max(255).check().is_ok());
        assert!(problem(builder.frame_len_max(300)).contains("lower it to at most 255"));
        let mut limits = Builder::new().check().expect("usable");
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
