//! What happens when time is up.

use super::Reactor;
use crate::conn::outbound::SendDue;
use crate::conn::{Stage, Step};
use crate::error::{ConnectFailure, DisconnectReason};
use crate::net::Net;
use crate::timers::{Moment, earliest};

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
    /// The peer has not brought what it should have.
    Read(DisconnectReason),
    Send(SendDue),
}

impl<N: Net> Reactor<N> {
    /// Acts on deadlines that have passed. Sockets are read before this, so that after a pause of the whole process
    /// nobody is found late who was not.
    pub(super) fn expire(&mut self) {
        while let Some((_, id)) = self.rests.pop() {
            if let Some(slot) = self.slots.find(id) {
                self.inlet.resume(slot);
            }
        }
        while let Some((at, id)) = self.timers.pop() {
            let Some(slot) = self.slots.find(id) else {
                continue; // the connection is long gone
            };
            let card = self.slots.get_mut(slot);
            if card.scheduled == Some(at) {
                card.scheduled = None;
                self.check_deadlines(slot);
            } else if card.parked == Some(at) {
                card.parked = None;
            }
        }
        self.sweep_timers();
    }

    /// Connections that are gone leave entries that would stay until their time. So that a crowd that comes and goes costs
    /// no more than who is here, they go when they are many; each sweep pays for itself by what it drops.
    fn sweep_timers(&mut self) {
        let Reactor { timers, slots, .. } = self;
        if timers.len() > TIMERS_OF_ONE_MAX * slots.len() + TIMERS_SPARE {
            timers.sweep(|at, id| {
                let card = slots.find(id).map(|slot| slots.get(slot));
                card.is_some_and(|card| [card.scheduled, card.parked].contains(&Some(at)))
            });
        }
    }

    /// Sees to it that the timers come back to a connection at its earliest deadline.
    pub(super) fn arm(&mut self, slot: u32) {
        if let Some((at, _)) = self.deadline(slot) {
            let id = self.slots.id(slot);
            let card = self.slots.get_mut(slot);
            match (card.scheduled, card.parked) {
                (Some(scheduled), _) if !at.is_before(scheduled) => {}
                // An entry that an earlier one had made obsolete comes up in time.
                (None, Some(parked)) if !at.is_before(parked) => {
                    (card.scheduled, card.parked) = (Some(parked), None);
                }
                (scheduled, parked) => {
                    (card.scheduled, card.parked) = (Some(at), scheduled.or(parked));
                    self.timers.set(at, id);
                }
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
            Due::Read(_) if is_ours => self.inlet.excuse(slot, self.timers.begin()),
            Due::FirstFrame => self.step(slot, Step::End(DisconnectReason::FirstFrame)),
            Due::Read(reason) | Due::Send(SendDue::End(reason)) => {
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
        earliest(match card.stage {
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
        })
    }

    /// The end of a connection that can send no more.
    pub(super) fn end_failed(&mut self, slot: u32) {
        if let Some(kind) = self.outlet.failure(slot) {
            let reason = DisconnectReason::from(&std::io::Error::from(kind));
            self.step(slot, Step::End(reason));
        }
    }
}

/// Entries of a connection that are not worth a sweep: twice those that it needs, one scheduled and one parked.
const TIMERS_OF_ONE_MAX: usize = 4;
/// The same of nobody.
const TIMERS_SPARE: usize = 64;
