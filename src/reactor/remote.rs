//! What other threads ask for.

use std::sync::Arc;

use super::Reactor;
use crate::conn::outbound::Request;
use crate::error::{DisconnectReason, Error, SendError};
use crate::handle::{Command, Handle, Shared};
use crate::id::ConnId;
use crate::ledger::Ledger;
use crate::mailbox::Mailbox;
use crate::net::Net;

impl<N: Net> Reactor<N> {
    /// Something by which other threads reach this reactor. All handles of a reactor are alike.
    ///
    /// Once there is one, each message counts its bytes where other threads see them too, which costs a few nanoseconds.
    ///
    /// # Errors
    ///
    /// [`Error::Poller`] if the system has no waker to give.
    pub fn handle(&mut self) -> Result<Handle, Error> {
        if let Some(shared) = &self.shared {
            return Ok(Handle::new(shared.clone()));
        }
        let ring_bell = self.net.waker().map_err(Error::Poller)?;
        let limits = &self.limits;
        let (slots, queue_max) = (limits.connections_max, limits.send_queue_max);
        let ledger =
            Arc::new(Ledger::new(slots, queue_max, limits.queued_max(), limits.buffered_max));
        let live = self.slots.live().into_iter().map(|slot| self.slots.id(slot));
        self.outlet.keep_ledger(ledger.clone(), live);
        let shared = Arc::new(Shared {
            mailbox: Mailbox::new(),
            ledger,
            frame_len_max: limits.frame_len_max,
            ring_bell,
        });
        self.shared = Some(shared.clone());
        Ok(Handle::new(shared))
    }

    /// Carries out what other threads have asked for. Returns whether that was anything.
    pub(super) fn take_commands(&mut self) -> bool {
        let Some(shared) = &self.shared else {
            return false;
        };
        let mut commands = std::mem::take(&mut self.commands);
        shared.mailbox.take(&mut commands);
        let is_any = !commands.is_empty();
        for command in commands.drain(..) {
            self.carry_out(command);
        }
        self.commands = commands;
        is_any
    }

    fn carry_out(&mut self, command: Command) {
        match command {
            Command::Wake => {}
            Command::Send { conn, payload } => match self.slots.find(conn) {
                Some(_) => self.outlet.send_reserved(conn, &payload, &self.limits),
                None => self.outlet.drop_reserved(conn, payload.len(), SendError::Stale),
            },
            Command::Close { conn } => self.request_end(conn, Request::Close),
            Command::Kick { conn } => {
                self.request_end(conn, Request::End(DisconnectReason::Kicked));
            }
        }
    }

    fn request_end(&mut self, conn: ConnId, request: Request) {
        if let Some(slot) = self.slots.find(conn) {
            self.slots.mute(slot);
            self.outlet.end_by_request(conn, request);
        }
    }
}
