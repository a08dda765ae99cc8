//! Whose turn it is to send, where the clients set the pace: one after another, evenly spread.

use std::time::{Duration, Instant};

use crate::plan::Load;

pub struct Schedule {
    due: Instant,
    gap: Duration,
    next: usize,
    clients: usize,
}

impl Schedule {
    /// Everybody so many times a second, from now on.
    pub fn new(load: &Load, hz: f64) -> Schedule {
        let gap = Duration::from_secs_f64(1.0 / hz / load.clients as f64);
        Schedule { due: Instant::now(), gap, next: 0, clients: load.clients }
    }

    /// A client who should have sent by now, and since when.
    pub fn next(&mut self, now: Instant) -> Option<(usize, Instant)> {
        if self.due > now {
            return None;
        }
        let turn = (self.next, self.due);
        self.next = (self.next + 1) % self.clients;
        self.due += self.gap;
        Some(turn)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::Drive;

    #[test]
    fn everybody_has_a_turn_in_each_period() {
        let drive = Drive::Crowd { hz: 10.0 };
        let load = Load { drive, clients: 4, size: 100, warm_up: 0.0, seconds: 1.0 };
        let mut schedule = Schedule::new(&load, 10.0);
        let start = schedule.due;
        let mut turns = Vec::new();
        while let Some(turn) = schedule.next(start + Duration::from_millis(100)) {
            turns.push(turn);
        }
        let ms = |ms| start + Duration::from_millis(ms);
        assert_eq!(turns, [(0, ms(0)), (1, ms(25)), (2, ms(50)), (3, ms(75)), (0, ms(100))]);
    }
}
