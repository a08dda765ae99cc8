//! How connections end: decide, flush, wait for the peer, tell, reap.

use std::time::Instant;

use log::{debug, trace};

use super::Reactor;
use crate::batch::What;
use crate::conn::{Ending, Stage, Step};
use crate::error::DisconnectReason;
use crate::net::Net;
use crate::timers::Span;

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
            Stage::Open => {
                self.slots.get_mut(slot).deadline = None;
                self.inlet.excuse(slot, self.timers.begin()); // connecting was no silence
                self.outlet.set_writable(slot);
                self.arm(slot);
            }
            Stage::PeerClosed { .. } if self.inlet.is_fetched(slot) => {
                self.step(slot, Step::LastFetched);
            }
            Stage::PeerClosed { .. } => self.half_closed.push(self.slots.id(slot)),
            Stage::Flushing { .. } => self.begin_flushing(slot, before),
            Stage::Lingering { .. } => self.begin_lingering(slot),
            Stage::Ended(ending) => {
                let is_orderly = matches!(step, Step::Flushed | Step::PeerFin { .. });
                self.end(slot, ending, is_orderly);
            }
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
        if self.outlet.failure(slot).is_some() {
            self.end_failed(slot); // there is nothing left to flush, and what there was is lost
            return;
        }
        self.outlet.shut(slot);
        if matches!(before, Stage::Open | Stage::PeerClosed { .. }) {
            self.set_close_deadline(slot);
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

    /// Gives a connection that is to end its time to do so in order.
    pub(super) fn set_close_deadline(&mut self, slot: u32) {
        let span = self.limits.timeouts.close;
        let own = span.map(|span| self.timers.begin().after(span));
        self.slots.get_mut(slot).deadline = self.shutdown_at.or(own);
        self.arm(slot);
    }

    pub(super) fn close_deadline(&mut self, slot: u32) {
        let reason = match self.slots.get(slot).stage {
            Stage::Flushing { reason: DisconnectReason::Shutdown, .. }
            | Stage::Lingering { reason: DisconnectReason::Shutdown } => DisconnectReason::Shutdown,
            _ => DisconnectReason::CloseDeadline,
        };
        self.step(slot, Step::End(reason));
    }

    /// Ends the service: stops to listen, takes no further messages, sends what is queued, ends all connections in order, and
    /// resets what is left at `deadline`. Each gets its last event:
    /// [`Disconnected`](crate::Event::Disconnected)`(Shutdown)` if it did not end by itself meanwhile, or
    /// [`ConnectFailed`](crate::Event::ConnectFailed)`(Shutdown)` if it had not come about.
    ///
    /// Say goodbye before ([`broadcast`](crate::Outbox::broadcast)), and go on calling [`tick`](Self::tick) until
    /// [`connections`](Self::connections) is 0, which takes until `deadline` at most. Messages that were not fetched are
    /// dropped. There is no way back; a second call may bring the deadline forward.
    ///
    /// ```
    /// use std::time::{Duration, Instant};
    /// use tickwire::{Reactor, Wait};
    ///
    /// # let mut reactor = Reactor::new()?;
    /// reactor.shutdown(Instant::now() + Duration::from_secs(5));
    /// while reactor.connections() > 0 {
    ///     let tick = reactor.tick(Wait::Event(Duration::from_millis(100)))?;
    ///     tick.events.for_each(drop); // the last word of each connection
    /// }
    /// # Ok::<(), tickwire::Error>(())
    /// ```
    pub fn shutdown(&mut self, deadline: Instant) {
        self.set_now(self.net.now());
        self.is_shut = true;
        for listener in self.listeners.drain() {
            self.net.unlisten(listener);
        }
        self.carry_out_requests();
        let span = Span::new(deadline.saturating_duration_since(self.now));
        let at = self.timers.now().after(span);
        self.shutdown_at = Some(self.shutdown_at.map_or(at, |before| before.min(at)));
        for slot in self.slots.live() {
            self.slots.mute(slot);
            let is_ending = matches!(
                self.slots.get(slot).stage,
                Stage::Flushing { .. } | Stage::Lingering { .. }
            );
            if is_ending {
                // Its own time goes on, but nobody stays longer than all.
                let card = self.slots.get_mut(slot);
                card.deadline = Some(card.deadline.map_or(at, |own| own.min(at)));
                self.arm(slot);
            } else if !matches!(self.slots.get(slot).stage, Stage::Ended(_)) {
                self.finish(slot, Step::Shutdown);
            }
        }
    }

    /// The socket goes now, the slot when the game has fetched the last event.
    fn end(&mut self, slot: u32, ending: Ending, is_orderly: bool) {
        let id = self.slots.id(slot);
        self.counts.ended += 1;
        self.inlet.end(slot);
        self.outlet.end(slot);
        let card = self.slots.get(slot);
        if card.listener.is_some() && self.limits.connections_per_address_max.is_some() {
            self.crowd.leave(&card.peer.addr());
        }
        if let Some(socket) = self.sockets[slot as usize].take() {
            if is_abort(ending) && !is_orderly {
                self.net.abort(socket);
            } else {
                self.net.close(socket);
            }
            self.listeners.end_shortage();
        }
        match ending {
            Ending::Disconnected(reason) => {
                self.counts.ends.count(reason);
                debug!("{id}: {reason}");
            }
            Ending::ConnectFailed(reason) => debug!("{id}: {reason}"),
        }
        self.announcements.push_back((id, What::Ended));
    }
}

/// Whether the peer is to see a reset. After an orderly end it is to see all that was sent; an attempt that was given up may
/// have come about unnoticed, and is not to look like an orderly end without messages.
fn is_abort(ending: Ending) -> bool {
    matches!(
        ending,
        Ending::ConnectFailed(_)
            | Ending::Disconnected(
                DisconnectReason::Kicked
                    | DisconnectReason::CloseDeadline
                    | DisconnectReason::SendQueueFull
                    | DisconnectReason::MemoryLimit
                    | DisconnectReason::WriteStall
                    | DisconnectReason::Shutdown
            )
    )
}
