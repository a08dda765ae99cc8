//! What goes out.

use std::time::Duration;

use super::Reactor;
use crate::conn::outbound::{Flushed, Request};
use crate::conn::{Stage, Step};
use crate::error::DisconnectReason;
use crate::net::Net;
use crate::timers::Due;

impl<N: Net> Reactor<N> {
    /// Carries out what the game asked its outbox for.
    pub(super) fn carry_out_requests(&mut self) {
        let mut requests = std::mem::take(&mut self.outlet.requests);
        for (id, request) in requests.drain(..) {
            let Some(slot) = self.slots.find(id) else {
                continue; // the game has fetched its last event since
            };
            match request {
                Request::Resume => self.inlet.resume(slot),
                Request::Close => self.finish(slot, Step::Close),
                Request::End(reason) => self.finish(slot, Step::End(reason)),
            }
        }
        self.outlet.requests = requests;
    }

    /// Ends a connection in whose messages the game has no interest any more.
    fn finish(&mut self, slot: u32, step: Step) {
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
        match outlet.flush(slot, |from| net.send(socket, from)) {
            Flushed::All => self.step(slot, Step::Flushed),
            Flushed::Some => {}
            Flushed::Shortage => self.set_timer(self.slots.id(slot), RESEND_PAUSE, Due::Resend),
            Flushed::Failed(kind) => self.send_failed(slot, kind),
        }
    }

    /// Nothing can leave any more. What the peer sent before may still be there to be read, so the
    /// receiving half decides when it is over; if it has nothing to decide, that is now.
    fn send_failed(&mut self, slot: u32, kind: std::io::ErrorKind) {
        match self.slots.get(slot).stage {
            Stage::Open => {
                self.inlet.set_readable(slot, true);
                let timeout = self.limits.close_timeout;
                self.set_timer(self.slots.id(slot), timeout, Due::Close);
            }
            _ => {
                let reason = DisconnectReason::from(&std::io::Error::from(kind));
                self.step(slot, Step::End(reason));
            }
        }
    }
}

/// How long a connection rests whose send failed for want of memory.
const RESEND_PAUSE: Duration = Duration::from_millis(10);
