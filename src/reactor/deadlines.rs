//! What happens when time is up.

use super::Reactor;
use crate::conn::inbound::ReadDue;
use crate::conn::outbound::SendDue;
use crate::conn::{Stage, Step};
use crate::error::{ConnectFailure, DisconnectReason};
use crate::net::Net;
use crate::timers::Moment;

/// What a deadline of a connection means.
#[derive(Clone, Copy, Debug)]
enum Due {
    /// The connect has not come about.
    Connect,
    /// The orderly end is not done.
    Close,
    /// Sending has failed, and receiving has not found the end.
    Failed,
    /// No whole message has come.
    FirstFrame,
    Read(ReadDue),
    Send(SendDue),
}

impl<N: Net> Reactor<N> {
    /// Acts on deadlines that have passed. Sockets are read before this, so that after a pause of the whole process
    /// nobody is found late who was not.
    pub(super) fn expire(&mut self) {
        self.retry_sends();
        while let Some((at, id)) = self.timers.pop() {
            let Some(slot) = self.slots.find(id) else {
                continue; // the connection is long gone
            };
            if self.slots.get(slot).scheduled != Some(at) {
                continue; // an earlier entry has taken the place of this one
            }
            self.slots.get_mut(slot).scheduled = None;
            self.check_deadlines(slot);
        }
    }

    /// Sees to it that the timers come back to a connection at its earliest deadline.
    pub(super) fn arm(&mut self, slot: u32) {
        if let Some((at, _)) = self.deadline(slot) {
            let id = self.slots.id(slot);
            let card = self.slots.get_mut(slot);
            if card.scheduled.is_none_or(|scheduled| at.is_before(scheduled)) {
                card.scheduled = Some(at);
                self.timers.set(at, id);
            }
        }
    }

    fn check_deadlines(&mut self, slot: u32) {
        let now = self.timers.now();
        match self.deadline(slot) {
            None => return,
            Some((at, _)) if now.is_before(at) => {}
            Some((_, due)) => self.act(slot, due, now),
        }
        self.arm(slot);
    }

    fn act(&mut self, slot: u32, due: Due, now: Moment) {
        let is_ours = self.slots.is_paused(slot) || self.inlet.is_behind(slot);
        match due {
            Due::Connect => self.step(slot, Step::ConnectFailed(ConnectFailure::TimedOut)),
            Due::Close => self.close_deadline(slot),
            Due::Failed => self.end_failed(slot),
            // Nobody is blamed for what we have not read.
            Due::FirstFrame if is_ours => {
                let span = self.limits.timeouts.first_frame;
                self.slots.get_mut(slot).deadline = span.map(|span| now.after(span));
            }
            Due::Read(ReadDue::End(_)) if is_ours => self.inlet.excuse(slot, now),
            Due::FirstFrame => self.step(slot, Step::End(DisconnectReason::FirstFrame)),
            Due::Read(ReadDue::Resume) => self.inlet.end_rest(slot),
            Due::Read(ReadDue::End(reason)) | Due::Send(SendDue::End(reason)) => {
                self.step(slot, Step::End(reason));
            }
            Due::Send(SendDue::Choke) => self.outlet.choke(slot),
        }
    }

    /// The earliest deadline of a connection.
    fn deadline(&self, slot: u32) -> Option<(Moment, Due)> {
        let card = self.slots.get(slot);
        let of_stage = |due| card.deadline.map(|at| (at, due));
        let timeouts = &self.limits.timeouts;
        let read = || self.inlet.deadline(slot, timeouts).map(|(at, due)| (at, Due::Read(due)));
        let send =
            || self.outlet.deadline(slot, &self.limits).map(|(at, due)| (at, Due::Send(due)));
        let candidates = match card.stage {
            Stage::Connecting => [of_stage(Due::Connect), None, None],
            Stage::Open if self.outlet.failure(slot).is_some() => {
                [of_stage(Due::Failed), None, None]
            }
            Stage::Open if self.inlet.has_spoken(slot) => [None, read(), send()],
            Stage::Open => [of_stage(Due::FirstFrame), read(), send()],
            Stage::PeerClosed { .. } => [None, None, send()],
            Stage::Flushing { .. } => [of_stage(Due::Close), None, send()],
            Stage::Lingering { .. } => [of_stage(Due::Close), None, None],
            Stage::Ended(_) => [None, None, None],
        };
        let earlier = |first: (Moment, Due), next: (Moment, Due)| {
            if next.0.is_before(first.0) { next } else { first }
        };
        candidates.into_iter().flatten().reduce(earlier)
    }

    /// The end of a connection that can send no more.
    pub(super) fn end_failed(&mut self, slot: u32) {
        if let Some(kind) = self.outlet.failure(slot) {
            let reason = DisconnectReason::from(&std::io::Error::from(kind));
            self.step(slot, Step::End(reason));
        }
    }
}
