//! The measured part of a run: what was counted in it, and what the server used.

use std::time::{Duration, Instant};

use hdrhistogram::Histogram;

use crate::Failure;
use crate::machine;
use crate::plan::{Aimed, Latency, Outcome};

pub struct Span {
    pub messages: u64,
    pub wrong: u64,
    pub missing: u64,
    pub dead: u64,
    server: u32,
    clients: usize,
    /// When the measured part starts, and ends.
    starts: Instant,
    ends: Instant,
    length: Duration,
    has_begun: bool,
    cpu: Duration,
    /// Microseconds.
    latency: Histogram<u64>,
    late: Histogram<u64>,
}

impl Span {
    pub fn new(aimed: &Aimed) -> Span {
        let histogram = || Histogram::new_with_bounds(1, 60_000_000, 3);
        let histogram = || histogram().expect("these bounds are valid");
        let starts = Instant::now() + Duration::from_secs_f64(aimed.load.warm_up);
        let length = Duration::from_secs_f64(aimed.load.seconds);
        Span {
            messages: 0,
            wrong: 0,
            missing: 0,
            dead: 0,
            server: aimed.server,
            clients: aimed.load.clients,
            starts,
            ends: starts + length,
            length,
            has_begun: false,
            cpu: Duration::ZERO,
            latency: histogram(),
            late: histogram(),
        }
    }

    /// Whether the run goes on; where the warm-up ends, all counts begin anew.
    pub fn goes_on(&mut self, now: Instant) -> Result<bool, Failure> {
        if !self.has_begun && now >= self.starts {
            self.has_begun = true;
            self.starts = now;
            self.ends = now + self.length;
            self.messages = 0;
            self.latency.reset();
            self.late.reset();
            self.cpu = machine::cpu(self.server)?;
        }
        Ok(now < self.ends)
    }

    pub fn took(&mut self, time: Duration) {
        self.latency.saturating_record(time.as_micros() as u64);
    }

    pub fn was_late(&mut self, time: Duration) {
        self.late.saturating_record(time.as_micros() as u64);
    }

    /// What was measured up to now; what is still to come is no part of it.
    pub fn outcome(&self, resident_before: u64) -> Result<Outcome, Failure> {
        let seconds = self.starts.elapsed().as_secs_f64();
        let cpu = (machine::cpu(self.server)? - self.cpu).as_secs_f64();
        let resident = machine::resident(self.server)?;
        let grown = resident.saturating_sub(resident_before) as f64;
        Ok(Outcome {
            messages: self.messages,
            seconds,
            cpu,
            latency: Latency {
                p50: self.latency.value_at_quantile(0.5),
                p99: self.latency.value_at_quantile(0.99),
                p999: self.latency.value_at_quantile(0.999),
                max: self.latency.max(),
            },
            late: self.late.value_at_quantile(0.99),
            resident,
            per_client: grown / self.clients.max(1) as f64,
            ..Outcome::default()
        })
    }

    /// Adds what went wrong to an outcome taken before.
    pub fn with_errors(&self, outcome: Outcome) -> Outcome {
        Outcome { wrong: self.wrong, missing: self.missing, dead: self.dead, ..outcome }
    }
}
