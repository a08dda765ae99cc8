//! What goes out.

use super::{Reactor, SHORTAGE_PAUSE};
use crate::batch::What;
use crate::conn::outbound::{Flushed, Request};
use crate::conn::{Stage, Step};
use crate::net::Net;

impl<N: Net> Reactor<N> {
    /// Carries out what the game asked its outbox for.
    pub(super) fn carry_out_requests(&mut self) {
        let mut requests = std::mem::take(&mut self.outlet.requests);
        for (id, request) in requests.drain(..) {
            let Some(slot) = self.slots.find(id) else {
                continue; // the game has fetched its last event since
            };
            match request {
                Request::Resume => {
                    self.inlet.excuse(slot, self.timers.begin());
                    self.inlet.resume(slot);
                }
                Request::Fallen => self.note_fallen(slot),
                Request::Risen => self.note_risen(slot),
                Request::Close => self.finish(slot, Step::Close),
                Request::End(reason) => self.finish(slot, Step::End(reason)),
            }
        }
        self.outlet.requests = requests;
    }

    /// Ends a connection in whose messages the game has no interest any more.
    pub(super) fn finish(&mut self, slot: u32, step: Step) {
        self.inlet.forget(slot);
        self.inlet.resume(slot); // to discard what comes, and to hear of the peer's FIN
        self.step(slot, step);
    }

    /// One send for each connection that has something to send and may try.
    pub(super) fn flush_dirty(&mut self) {
        let list = self.outlet.begin_flush();
        for &slot in &list {
            if self.outlet.take_dirty(slot) {
                self.flush_one(slot);
            }
        }
        self.outlet.done_flushing(list);
    }

    fn flush_one(&mut self, slot: u32) {
        let Reactor { outlet, sockets, net, .. } = self;
        let Some(socket) = sockets[slot as usize].as_mut() else {
            return;
        };
        let now = self.timers.begin();
        let flushed = outlet.flush(slot, now, |from| net.send(socket, from));
        if self.limits.send_watch < usize::MAX {
            self.note_fallen(slot);
        }
        match flushed {
            Flushed::All if self.outlet.is_open(slot) => {} // nothing has waited for that
            Flushed::All => self.step(slot, Step::Flushed),
            Flushed::Some => self.arm(slot),
            Flushed::Shortage => {
                self.short_of_memory.push(self.slots.id(slot));
                self.resend_at.get_or_insert(self.now + SHORTAGE_PAUSE);
            }
            Flushed::Failed => self.send_failed(slot),
        }
    }

    /// A send queue has risen above a mark or a limit. Before a connect has come about, its first event is owed.
    pub(super) fn note_risen(&mut self, slot: u32) {
        let is_connecting = self.slots.get(slot).stage == Stage::Connecting;
        if !is_connecting && self.outlet.note_risen(slot, self.timers.begin()) {
            self.announcements.push_back((self.slots.id(slot), What::SendQueueHigh));
        }
        self.arm(slot);
    }

    /// A send queue may have fallen to a mark or below a limit.
    fn note_fallen(&mut self, slot: u32) {
        if self.outlet.note_fallen(slot, &self.limits) {
            self.announcements.push_back((self.slots.id(slot), What::SendQueueLow));
        }
    }

    /// Tries again what the system had no memory for.
    pub(super) fn retry_sends(&mut self) {
        if self.resend_at.is_some_and(|moment| self.now >= moment) {
            self.resend_at = None;
            while let Some(id) = self.short_of_memory.pop() {
                if let Some(slot) = self.slots.find(id) {
                    self.outlet.retry(slot);
                }
            }
        }
    }

    /// Nothing can leave any more. What the peer sent before may still be there to be read, so the
    /// receiving half decides when it is over; if it has nothing to decide, that is now.
    fn send_failed(&mut self, slot: u32) {
        match self.slots.get(slot).stage {
            Stage::Open => {
                self.inlet.set_readable(slot, true);
                self.set_close_deadline(slot);
            }
            _ => self.end_failed(slot),
        }
    }
}
