//! The seam between the reactor and the operating system.
//!
//! A [`Net`] owns a poller and hands out sockets; the reactor owns everything else. There are two:
//! [`MioNet`] for the real network, and, with the feature `sim`, a seeded fake one
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
mod options;

use std::io::{self, IoSlice};
use std::sync::Arc;
use std::time::{Duration, Instant};

pub use self::mio::MioNet;
use crate::addr::Addr;
use crate::config::{ConnectOptions, ListenOptions};
pub use crate::io::Received;

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

    /// Something that any thread may call, any number of times, to make a [`wait`](Net::wait) that is under way, or the
    /// next one, return at once.
    fn waker(&mut self) -> io::Result<Arc<dyn Fn() + Send + Sync>>;

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
