//! What the network and the system do to a reactor.

use std::time::Duration;

/// How badly a host and its links behave. The default is a perfect network without delay.
///
/// Plain numbers, to be set for all hosts ([`SimWorld::set_faults`](super::SimWorld::set_faults)) or
/// one ([`SimWorld::set_faults_of`](super::SimWorld::set_faults_of)) at any time. Probabilities are
/// per mille of the calls, segments or waits that they are about.
///
/// No fault breaks the contract of [`Net`](crate::net::Net): data stays in order, and no edge that
/// is owed is withheld, only late.
///
/// ```
/// # use tickwire::sim::Faults;
/// let grumpy = Faults { recv_short: 300, spurious: 50, ..Faults::default() };
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Faults {
    /// Bytes that may be under way or unread on one direction of a connection: both socket buffers
    /// together. At least 1; a connection keeps the window that it began with.
    pub window: usize,
    /// The least time that a segment travels from this host.
    pub delay_min: Duration,
    /// The longest time that a segment travels from this host. Segments of one connection never
    /// overtake each other.
    pub delay_max: Duration,
    /// Bytes a second that a connection's segments leave this host at, as through a thin line. At least 1.
    pub bandwidth: usize,
    /// Segments on which something between the hosts resets the connection, for both ends.
    pub resets: u32,
    /// Resets that discard what was sent before and is still under way, as TCP does with what did
    /// not fit the receiver's window.
    pub reset_overtakes: u32,

    /// Receives that bring a random part of what is there.
    pub recv_short: u32,
    /// Receives that bring a single byte.
    pub recv_one_byte: u32,
    /// Receives never bring more than what arrived as one segment.
    pub recv_segments: bool,
    /// Receives that fail with EINTR.
    pub recv_interrupted: u32,
    /// Receives that answer `WouldBlock` although there is something; an edge follows.
    pub recv_blocked: u32,
    /// Receives that fail with ENOMEM; no edge follows.
    pub recv_shortage: u32,
    /// Receives that do not tell that the socket is drained, as on systems that cannot.
    pub drained_unknown: u32,

    /// Sends that take a random part although there is room; an edge follows.
    pub send_short: u32,
    /// Sends that take a single byte although there is room; an edge follows.
    pub send_one_byte: u32,
    /// Sends that fail with EINTR.
    pub send_interrupted: u32,
    /// Sends that answer `WouldBlock` although there is room; an edge follows.
    pub send_blocked: u32,
    /// Sends that fail with ENOBUFS; no edge follows.
    pub send_shortage: u32,

    /// Accepts that fail with EINTR.
    pub accept_interrupted: u32,
    /// Accepts that answer `WouldBlock` although a client waits; an edge follows.
    pub accept_blocked: u32,
    /// Accepts that fail with ECONNABORTED, EPROTO, ENETDOWN or EPERM. Every other time the client
    /// is lost with it.
    pub accept_errors: u32,
    /// Accepts that fail with ENFILE, ENOBUFS or ENOMEM; no edge follows.
    pub accept_shortage: u32,
    /// Accepted sockets that the poller does not take (ENOSPC).
    pub register_errors: u32,

    /// Connects that are refused although somebody listens.
    pub connect_refused: u32,
    /// Connects that nobody ever answers.
    pub connect_hangs: u32,
    /// Connects that fail on the spot with EADDRNOTAVAIL.
    pub connect_unavailable: u32,

    /// Waits that report a random socket without cause.
    pub spurious: u32,
    /// Waits that report only a part of what is ready; the rest comes with the next ones.
    pub partial: u32,
    /// Waits that report in a random order.
    pub shuffled: u32,
    /// Waits that return early and with nothing.
    pub early: u32,
    /// Readiness tells only what is new, as kqueue's filters do; otherwise, as with epoll, each
    /// report tells the whole state of its socket.
    pub bare_edges: bool,
    /// How much too late a wait or sleep may end.
    pub late_max: Duration,
    /// How long a receive, send or accept may take; meanwhile the world moves on.
    pub call_time_max: Duration,

    /// Descriptors (listeners included) that a host may hold; beyond, accept and connect fail with
    /// EMFILE.
    pub descriptors_max: usize,
}

impl Default for Faults {
    fn default() -> Faults {
        Faults {
            window: 256 * 1024,
            delay_min: Duration::ZERO,
            delay_max: Duration::ZERO,
            bandwidth: usize::MAX,
            resets: 0,
            reset_overtakes: 0,
            recv_short: 0,
            recv_one_byte: 0,
            recv_segments: false,
            recv_interrupted: 0,
            recv_blocked: 0,
            recv_shortage: 0,
            drained_unknown: 0,
            send_short: 0,
            send_one_byte: 0,
            send_interrupted: 0,
            send_blocked: 0,
            send_shortage: 0,
            accept_interrupted: 0,
            accept_blocked: 0,
            accept_errors: 0,
            accept_shortage: 0,
            register_errors: 0,
            connect_refused: 0,
            connect_hangs: 0,
            connect_unavailable: 0,
            spurious: 0,
            partial: 0,
            shuffled: 0,
            early: 0,
            bare_edges: false,
            late_max: Duration::ZERO,
            call_time_max: Duration::ZERO,
            descriptors_max: usize::MAX,
        }
    }
}

/// The errno values that the kinds of `io::Error` do not name.
#[cfg(any(target_os = "linux", target_os = "android"))]
pub(super) mod errno {
    pub(in crate::sim) const ENFILE: i32 = 23;
    pub(in crate::sim) const EMFILE: i32 = 24;
    pub(in crate::sim) const EPROTO: i32 = 71;
}

/// The errno values that the kinds of `io::Error` do not name (macOS and the BSDs; any will do
/// elsewhere).
#[cfg(not(any(target_os = "linux", target_os = "android")))]
pub(super) mod errno {
    pub(in crate::sim) const ENFILE: i32 = 23;
    pub(in crate::sim) const EMFILE: i32 = 24;
    pub(in crate::sim) const EPROTO: i32 = 100;
}
