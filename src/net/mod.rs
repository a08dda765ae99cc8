//! The seam between the reactor and the operating system.
//!
//! A [`Net`] owns a poller and hands out sockets; the reactor owns everything else. There are two:
//! [`MioNet`](crate::MioNet) for the real network, and, with the feature `sim`, a seeded fake one
//! with virtual time. An application needs neither by name.
//!
//! What the reactor relies on:
//!
//! - Readiness is **edge-triggered** and a hint: it may be reported without cause, never withheld.
//!   After a [`recv`](Net::recv) that did not drain the socket, or an [`accept`](Net::accept) that
//!   did not answer `WouldBlock`, no further edge is owed; after a [`send`](Net::send) that wrote
//!   less than it was given, one is owed as soon as there is room again.
//! - No call blocks but [`wait`](Net::wait) and [`sleep`](Net::sleep).
//! - Dropping a socket is not enough: every one is given back through [`close`](Net::close) or
//!   [`abort`](Net::abort), except when the whole `Net` is dropped.

mod mio;

use std::io::{self, IoSlice};
use std::time::{Duration, Instant};

pub use self::mio::MioNet;
use crate::addr::Addr;
use crate::config::{ConnectOptions, ListenOptions};

/// Sockets, a poller and a clock.
pub trait Net {
    /// A listening socket.
    type Listener;
    /// A connection's socket.
    type Stream;

    /// The time. Never runs backwards.
    fn now(&self) -> Instant;

    /// Sleeps until `deadline`, whatever arrives meanwhile. Returns at once if it has passed.
    fn sleep(&mut self, deadline: Instant);

    /// Waits for readiness, at most `timeout` (`None`: without end), and appends what is ready. May
    /// return early and with nothing.
    fn wait(&mut self, timeout: Option<Duration>, ready: &mut Vec<Readiness>) -> io::Result<()>;

    /// Starts to listen. Clients are announced by readiness of [`Source::Listener`]`(index)`.
    fn listen(
        &mut self,
        addr: &Addr,
        options: &ListenOptions,
        index: u32,
    ) -> io::Result<Self::Listener>;

    /// The address that a listener is bound to, with the real port where 0 was asked for.
    fn local_addr(&self, listener: &Self::Listener) -> io::Result<Addr>;

    /// Stops to listen.
    fn unlisten(&mut self, listener: Self::Listener);

    /// Takes the next waiting client, or answers `WouldBlock`. The address is the one that the
    /// system gave with the client; the peer may be gone already. To be followed by
    /// [`register`](Net::register).
    fn accept(&mut self, listener: &Self::Listener) -> io::Result<(Self::Stream, Addr)>;

    /// Begins to watch an accepted socket, as [`Source::Conn`]`(slot)`. What arrived before is
    /// reported too.
    fn register(&mut self, stream: &mut Self::Stream, slot: u32) -> io::Result<()>;

    /// Begins to connect and to watch the socket, as [`Source::Conn`]`(slot)`. Its outcome is
    /// announced by readiness and asked for with [`connected`](Net::connected).
    fn connect(
        &mut self,
        addr: &Addr,
        options: &ConnectOptions,
        slot: u32,
    ) -> io::Result<Self::Stream>;

    /// Whether a connect has come about (`true`), is still under way (`false`) or has failed. A
    /// connection with itself has failed: `ConnectionRefused`.
    fn connected(&mut self, stream: &mut Self::Stream) -> io::Result<bool>;

    /// Receives into `into` (never empty), or answers `WouldBlock`. Zero bytes are the peer's FIN.
    fn recv(&mut self, stream: &mut Self::Stream, into: &mut [u8]) -> io::Result<Received>;

    /// Sends a part of `from` (never empty), or answers `WouldBlock`. Never raises SIGPIPE.
    fn send(&mut self, stream: &mut Self::Stream, from: &[IoSlice<'_>]) -> io::Result<usize>;

    /// Sends FIN; receiving goes on.
    fn shutdown_write(&mut self, stream: &mut Self::Stream) -> io::Result<()>;

    /// Closes in order: what was sent is still delivered, unless input is left unread.
    fn close(&mut self, stream: Self::Stream);

    /// Closes at once, with a reset.
    fn abort(&mut self, stream: Self::Stream);
}

/// What a receive brought.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Received {
    /// How many bytes.
    pub len: usize,
    /// Whether the socket is known to be empty now, so that whatever comes next raises a new edge.
    ///
    /// With epoll and kqueue that is a receive that filled less than it was offered (epoll(7));
    /// elsewhere only `WouldBlock` says so. It does not hold for a socket whose readiness said
    /// [`insist`](Readiness::insist).
    pub drained: bool,
}

/// Whom a readiness is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// A listener, by the index given to [`Net::listen`].
    Listener(u32),
    /// A connection, by the slot given to [`Net::register`] or [`Net::connect`].
    ///
    /// A bare slot is enough: slots are reused between ticks only, after the old socket left the
    /// poller, so no readiness can be fetched for one connection and acted on for the next.
    Conn(u32),
}

/// One report of the poller: a hint, not a promise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Readiness {
    /// Whom it is about.
    pub source: Source,
    /// A receive or accept may bring something.
    pub readable: bool,
    /// A send may find room; a connect may have an outcome.
    pub writable: bool,
    /// Something is to be learned beyond plain data (FIN, error, urgent data), so a short receive
    /// does not mean drained: receive until `WouldBlock` or the end.
    pub insist: bool,
}

/// What a failed accept means for the listener.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AcceptFailure {
    /// Nobody waits: an edge will tell.
    Drained,
    /// This one client is lost; the next may be fine (accept(2): errors of the new socket).
    ClientLost,
    /// Descriptors or memory are short, or it is nothing we know: no edge will tell when that is
    /// over, and trying on at once would spin.
    Retry,
}

impl AcceptFailure {
    pub(crate) fn of(error: &io::Error) -> AcceptFailure {
        use io::ErrorKind::*;
        match error.kind() {
            WouldBlock => AcceptFailure::Drained,
            Interrupted | ConnectionAborted | ConnectionReset | PermissionDenied | NetworkDown
            | NetworkUnreachable | HostUnreachable | TimedOut => AcceptFailure::ClientLost,
            _ if error.raw_os_error() == Some(EPROTO) => AcceptFailure::ClientLost,
            _ => AcceptFailure::Retry,
        }
    }
}

/// Whether a failed send may be tried again later: the system is short of memory for the moment.
/// No edge will tell when.
pub(crate) fn is_shortage(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::OutOfMemory || error.raw_os_error() == Some(ENOBUFS)
}

// Two errno values that `io::ErrorKind` has no name for.
#[cfg(any(target_os = "linux", target_os = "android"))]
const EPROTO: i32 = 71;
#[cfg(any(target_os = "linux", target_os = "android"))]
pub(crate) const ENOBUFS: i32 = 105;
#[cfg(not(any(target_os = "linux", target_os = "android")))]
const EPROTO: i32 = 100; // macOS and the BSDs (errno(2)); no such error on Windows
#[cfg(all(not(any(target_os = "linux", target_os = "android")), not(windows)))]
pub(crate) const ENOBUFS: i32 = 55;
#[cfg(windows)]
pub(crate) const ENOBUFS: i32 = 10055; // WSAENOBUFS

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(target_os = "linux")]
    fn accept_failures_are_told_apart() {
        let of = |errno| AcceptFailure::of(&io::Error::from_raw_os_error(errno));
        assert_eq!(of(11), AcceptFailure::Drained, "EAGAIN");
        for (errno, name) in [
            (4, "EINTR"),
            (103, "ECONNABORTED"),
            (71, "EPROTO"),
            (100, "ENETDOWN"),
            (101, "ENETUNREACH"),
            (113, "EHOSTUNREACH"),
            (1, "EPERM"),
        ] {
            assert_eq!(of(errno), AcceptFailure::ClientLost, "{name}");
        }
        for (errno, name) in [(24, "EMFILE"), (23, "ENFILE"), (105, "ENOBUFS"), (12, "ENOMEM")] {
            assert_eq!(of(errno), AcceptFailure::Retry, "{name}");
        }
    }
}
