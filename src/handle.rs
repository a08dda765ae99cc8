//! The reactor as other threads see it.

use std::fmt;
use std::sync::Arc;

use crate::error::SendError;
use crate::frame::HEADER_LEN;
use crate::id::ConnId;
use crate::ledger::{Ledger, Overdrawn};
use crate::mailbox::Mailbox;

/// Reaches a reactor from other threads: wakes a waiting tick, sends, closes. From
/// [`Reactor::handle`](crate::Reactor::handle).
///
/// Cheap to clone, and harmless when it outlives its reactor: then every call says that the connection is
/// [`Stale`](SendError::Stale).
///
/// What is asked for is carried out by the reactor's thread: at once if its tick waits with
/// [`Wait::Event`](crate::Wait::Event), within one [`pace`](crate::Builder::pace) if it waits with
/// [`Wait::Until`](crate::Wait::Until), else with the next tick. Messages of one thread to one connection keep their order.
///
/// ```
/// use std::time::Duration;
/// use tickwire::{Reactor, Wait};
///
/// let mut reactor = Reactor::new()?;
/// let handle = reactor.handle()?;
/// let worker = std::thread::spawn(move || handle.wake());
/// reactor.tick(Wait::Event(Duration::from_secs(60)))?; // returns as soon as the worker says so
/// # worker.join().unwrap();
/// # Ok::<(), tickwire::Error>(())
/// ```
#[derive(Clone)]
pub struct Handle {
    shared: Arc<Shared>,
}

/// What a reactor and its handles share.
pub(crate) struct Shared {
    pub(crate) mailbox: Mailbox<Command>,
    pub(crate) ledger: Arc<Ledger>,
    pub(crate) frame_len_max: usize,
    pub(crate) ring_bell: Arc<dyn Fn() + Send + Sync>,
}

/// What a handle asks for.
#[derive(Debug)]
pub(crate) enum Command {
    Wake,
    /// Its bytes are reserved already.
    Send {
        conn: ConnId,
        payload: Vec<u8>,
    },
    Close {
        conn: ConnId,
    },
    Kick {
        conn: ConnId,
    },
}

impl fmt::Debug for Handle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Handle").field("is_alive", &self.is_alive()).finish_non_exhaustive()
    }
}

impl Handle {
    pub(crate) fn new(shared: Arc<Shared>) -> Handle {
        Handle { shared }
    }

    /// Whether the reactor still exists.
    pub fn is_alive(&self) -> bool {
        !self.shared.mailbox.is_closed()
    }

    /// Ends the waiting of [`Wait::Event`](crate::Wait::Event): the tick returns with whatever there is. Several wakes may
    /// end one wait together. `false` if the reactor is gone.
    pub fn wake(&self) -> bool {
        self.ask(Command::Wake)
    }

    /// Queues a message. It counts against the connection's limits at once, as if it were in the send queue already.
    ///
    /// # Errors
    ///
    /// As [`Outbox::send`](crate::Outbox::send), except that a connection which is closing is
    /// [`Stale`](SendError::Stale) here. The length is judged by the builder's
    /// [`frame_len_max`](crate::Builder::frame_len_max); a message that the connection's own limit or framing refuses is
    /// dropped by the reactor and counted as refused.
    pub fn send(&self, conn: ConnId, payload: impl Into<Vec<u8>>) -> Result<(), SendError> {
        let payload = payload.into();
        if payload.len() > self.shared.frame_len_max {
            return Err(SendError::TooLarge);
        }
        let len = HEADER_LEN + payload.len();
        self.shared.ledger.reserve(conn, len, 0).map_err(|overdrawn| match overdrawn {
            Overdrawn::Closed => SendError::Stale,
            Overdrawn::Queue | Overdrawn::InAll => SendError::Full,
        })?;
        if self.ask(Command::Send { conn, payload }) {
            return Ok(());
        }
        self.shared.ledger.release(conn.slot(), len);
        Err(SendError::Stale)
    }

    /// Ends a connection in order, as [`Outbox::close`](crate::Outbox::close), after what was sent before through this
    /// handle. `false` if the reactor is gone; a stale id is ignored.
    pub fn close(&self, conn: ConnId) -> bool {
        self.ask(Command::Close { conn })
    }

    /// Ends a connection at once, as [`Outbox::kick`](crate::Outbox::kick). `false` if the reactor is gone; a stale id is
    /// ignored.
    pub fn kick(&self, conn: ConnId) -> bool {
        self.ask(Command::Kick { conn })
    }

    fn ask(&self, command: Command) -> bool {
        match self.shared.mailbox.put(command) {
            Ok(is_first) => {
                if is_first {
                    (self.shared.ring_bell)();
                }
                true
            }
            Err(_) => false,
        }
    }
}
