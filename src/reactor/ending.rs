//! How connections end: decide, flush, wait for the peer, tell, reap.

use log::{debug, trace};

use super::Reactor;
use crate::batch::What;
use crate::conn::{Ending, Stage, Step};
use crate::error::DisconnectReason;
use crate::net::Net;
use crate::timers::Due;

impl<N: Net> Reactor<N> {
    /// Takes a connection one step on in its life, and does what the new stage calls for.
    pub(super) fn step(&mut self, slot: u32, step: Step) {
        let card = self.slots.get_mut(slot);
        let (before, after) = (card.stage, card.stage.after(step));
        if before == after {
            return;
        }
        card.stage = after;
        trace!("{}: {before:?} → {after:?}", self.slots.id(slot));
        match after {
            Stage::Connecting => unreachable!("a connection begins there"),
            Stage::Open => self.outlet.set_writable(slot),
            Stage::PeerClosed { .. } if self.inlet.is_fetched(slot) => {
                self.step(slot, Step::LastFetched);
            }
            Stage::PeerClosed { .. } => self.half_closed.push(self.slots.id(slot)),
            Stage::Flushing { .. } => self.begin_flushing(slot, before),
            Stage::Lingering => self.begin_lingering(slot),
            Stage::Ended(ending) => self.end(slot, ending),
        }
    }

    /// Replies to a peer that has closed are taken until the game has had the whole tick of its last
    /// message to give them.
    pub(super) fn close_answered(&mut self) {
        let mut half_closed = std::mem::take(&mut self.half_closed);
        half_closed.retain(|&id| {
            let Some(slot) = self.slots.find(id) else {
                return false; // it was ended otherwise
            };
            let is_waiting = matches!(self.slots.get(slot).stage, Stage::PeerClosed { .. });
            let is_over = is_waiting && self.inlet.is_fetched(slot);
            if is_over {
                self.step(slot, Step::LastFetched);
            }
            is_waiting && !is_over
        });
        self.half_closed = half_closed;
    }

    fn begin_flushing(&mut self, slot: u32, before: Stage) {
        self.outlet.shut(slot);
        if matches!(before, Stage::Open | Stage::PeerClosed { .. }) {
            let timeout = self.limits.close_timeout;
            self.set_timer(self.slots.id(slot), timeout, Due::Close);
        }
        if self.outlet.queued(slot) == 0 {
            self.step(slot, Step::Flushed);
        }
    }

    fn begin_lingering(&mut self, slot: u32) {
        let socket = self.sockets[slot as usize].as_mut().expect("it has not ended");
        if let Err(error) = self.net.shutdown_write(socket) {
            debug!(
                "{}: no FIN could be sent, receiving will fail too: {error}",
                self.slots.id(slot)
            );
        }
        // Whatever the socket has not told yet is asked for now.
        self.inlet.set_readable(slot, true);
    }

    pub(super) fn close_deadline(&mut self, slot: u32) {
        match self.slots.get(slot).stage {
            Stage::Flushing { .. } | Stage::Lingering => {
                self.step(slot, Step::End(DisconnectReason::CloseDeadline));
            }
            Stage::Open => {
                if let Some(kind) = self.outlet.failure(slot) {
                    let reason = DisconnectReason::from(&std::io::Error::from(kind));
                    self.step(slot, Step::End(reason));
                }
            }
            Stage::Connecting | Stage::PeerClosed { .. } | Stage::Ended(_) => {}
        }
    }

    /// The socket goes now, the slot when the game has fetched the last event.
    fn end(&mut self, slot: u32, ending: Ending) {
        let id = self.slots.id(slot);
        self.counts.ended += 1;
        self.inlet.end(slot);
        self.outlet.end(slot);
        if let Some(socket) = self.sockets[slot as usize].take() {
            if is_abort(ending) {
                self.net.abort(socket);
            } else {
                self.net.close(socket);
            }
            self.listeners.end_shortage();
        }
        match ending {
            Ending::Disconnected(reason) => debug!("{id}: {reason}"),
            Ending::ConnectFailed(reason) => debug!("{id}: {reason}"),
        }
        self.announcements.push_back((id, What::Ended));
    }
}

/// Whether the peer is to see a reset. After an orderly end it is to see all that was sent.
fn is_abort(ending: Ending) -> bool {
    matches!(
        ending,
        Ending::Disconnected(
            DisconnectReason::Kicked
                | DisconnectReason::CloseDeadline
                | DisconnectReason::SendQueueFull
        )
    )
}
