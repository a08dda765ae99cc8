//! Queues that rise and fall, and what is due for them.

use super::{Gate, Outlet, Request};
use crate::config::{Limits, SendPolicy};
use crate::error::DisconnectReason;
use crate::id::ConnId;
use crate::timers::{Moment, earliest};

/// How the queue stands to its water marks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Level {
    Low,
    /// Above the high mark, which is to be told.
    Rising,
    /// Above the high mark, and not at the low one since.
    High,
}

/// How the queue stands to its soft limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SoftLimit {
    Within,
    /// Above it, which is to be noted.
    Rising,
    /// Above it, since `soft_since`.
    Above,
    /// Above it for too long: messages are refused until it is within again.
    Choked,
}

/// What a deadline of a sending half means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SendDue {
    /// No further messages until the queue is within its soft limit.
    Choke,
    End(DisconnectReason),
}

impl Outlet {
    /// Notes that a queue has risen above a mark or a limit, if that is new.
    #[cold]
    pub(super) fn watch(&mut self, id: ConnId, limits: &Limits) {
        let conn = &mut self.conns[id.slot() as usize];
        let len = conn.queue.len();
        let is_high = limits.water_marks.is_some_and(|marks| len > marks.high);
        let is_above = limits.send_queue_soft.is_some_and(|soft| len > soft.bytes);
        let (level, soft) = (conn.level, conn.soft);
        if is_high && level == Level::Low {
            conn.level = Level::Rising;
        }
        if is_above && soft == SoftLimit::Within {
            conn.soft = SoftLimit::Rising;
        }
        if (conn.level, conn.soft) != (level, soft) {
            self.requests.push((id, Request::Risen));
        }
    }

    /// Sees to a queue that has risen. Returns whether that is to be told.
    pub(crate) fn note_risen(&mut self, slot: u32, now: Moment) -> bool {
        let conn = &mut self.conns[slot as usize];
        if conn.soft == SoftLimit::Rising {
            (conn.soft, conn.soft_since) = (SoftLimit::Above, now);
        }
        let is_told = conn.level == Level::Rising;
        if is_told {
            conn.level = Level::High;
        }
        is_told
    }

    /// Sees to a queue that has fallen. Returns whether it is at the low water mark again.
    pub(crate) fn note_fallen(&mut self, slot: u32, limits: &Limits) -> bool {
        let conn = &mut self.conns[slot as usize];
        let len = conn.queue.len();
        if limits.send_queue_soft.is_some_and(|soft| len <= soft.bytes) {
            conn.soft = SoftLimit::Within;
        }
        let is_low = limits.water_marks.is_some_and(|marks| len <= marks.low);
        let is_told = is_low && conn.level == Level::High;
        if is_told {
            conn.level = Level::Low;
        }
        is_told
    }

    /// What is due next, and when.
    pub(crate) fn deadline(&self, slot: u32, limits: &Limits) -> Option<(Moment, SendDue)> {
        let conn = &self.conns[slot as usize];
        let stall = limits.timeouts.write_stall.filter(|_| conn.is_stalled);
        let stall =
            stall.map(|span| (conn.moved.after(span), SendDue::End(DisconnectReason::WriteStall)));
        let is_above = conn.soft == SoftLimit::Above && conn.gate == Gate::Open;
        let soft = limits.send_queue_soft.filter(|_| is_above);
        let soft = soft.map(|soft| {
            let due = match soft.policy {
                SendPolicy::Error => SendDue::Choke,
                SendPolicy::Disconnect => SendDue::End(DisconnectReason::SendQueueFull),
            };
            (conn.soft_since.after(soft.span), due)
        });
        earliest([stall, soft])
    }

    /// Takes no further messages until the queue is within its soft limit.
    pub(crate) fn choke(&mut self, slot: u32) {
        self.conns[slot as usize].soft = SoftLimit::Choked;
    }
}
