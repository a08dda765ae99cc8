//! What comes in.

use super::{Reactor, SHORTAGE_PAUSE};
use crate::conn::inbound::{Turned, Visit};
use crate::conn::{Stage, Step};
use crate::error::DisconnectReason;
use crate::net::Net;
use crate::timers::Span;

impl<N: Net> Reactor<N> {
    /// Gives everybody who is ready one turn, in the order in which they became so, until the event budget or the arena is
    /// used up, or `most` bytes have come and as many had a turn as fairness takes. Who had no turn stays in front.
    pub(super) fn read(&mut self, most: u64) {
        let enough = self.inlet.bytes_received.saturating_add(most);
        // With fewer turns a tick, a message would wait longer than docs/limits.md says.
        let fair = self.limits.event_budget.div_ceil(self.limits.frame_quantum);
        for turn in 0..self.inlet.ready_len() {
            let is_full = self.inlet.batch.remaining() >= self.limits.event_budget;
            if is_full || (turn >= fair && self.inlet.bytes_received >= enough) {
                return;
            }
            let Some(slot) = self.inlet.next_ready() else {
                continue;
            };
            if !self.read_from(slot) {
                return;
            }
        }
    }

    /// One connection's turn. Returns whether there is room for further ones.
    fn read_from(&mut self, slot: u32) -> bool {
        let Reactor { slots, inlet, outlet, sockets, net, limits, timers, .. } = self;
        let Some(socket) = sockets[slot as usize].as_mut() else {
            return true;
        };
        let card = slots.get(slot);
        if card.stage == Stage::Connecting || !inlet.is_known(slot) {
            return true; // it comes back when it is announced
        }
        let visit = Visit {
            id: slots.id(slot),
            framer: limits.framers.get(card.framer),
            limits,
            now: timers.begin(),
            held_max: limits.buffered_max.saturating_sub(outlet.queued_in_all()),
        };
        let recv = |into: &mut [u8]| net.recv(socket, into);
        let turned = if slots.is_muted(slot) {
            inlet.discard(slot, limits, recv)
        } else if slots.is_paused(slot) {
            return true; // it comes back when it is resumed
        } else {
            inlet.serve(&visit, recv)
        };
        match turned {
            Turned::Idle => {}
            Turned::Again => self.inlet.requeue(slot),
            Turned::Throttled(until) => self.rests.set(until, self.slots.id(slot)),
            Turned::Shortage => {
                let until = self.timers.begin().after(Span::new(SHORTAGE_PAUSE));
                self.rests.set(until, self.slots.id(slot));
            }
            Turned::ArenaFull => {
                self.inlet.unread(slot);
                return false;
            }
            Turned::Fin { truncated } => self.read_ended(slot, Step::PeerFin { truncated }),
            Turned::Failed(kind) => self.read_ended(slot, Step::ReadFailed(kind)),
            Turned::Bad(reason) => self.step(slot, Step::End(reason)),
        }
        if self.inlet.has_deadline(slot) {
            self.arm(slot);
        }
        true
    }

    /// The peer will say nothing more. If sending had failed before, that is why.
    fn read_ended(&mut self, slot: u32, step: Step) {
        match self.outlet.failure(slot) {
            Some(kind) => {
                let reason = DisconnectReason::from(&std::io::Error::from(kind));
                self.step(slot, Step::End(reason));
            }
            None => self.step(slot, step),
        }
    }
}
