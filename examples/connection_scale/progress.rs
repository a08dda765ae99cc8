//! A bar on stderr while a row is played, or a line where stderr is no terminal.

use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};

use crate::scenario::Scenario;
use crate::text::grouped;

pub(crate) struct Progress {
    bar: ProgressBar,
    clients: usize,
    measured: Duration,
    next: Instant,
}

impl Progress {
    pub(crate) fn new(clients: usize, scenario: &Scenario) -> Progress {
        let style = ProgressStyle::with_template("{prefix:>17}  {bar:24.cyan}  {msg}")
            .expect("the template is well-formed")
            .progress_chars("━╸─");
        let bar = ProgressBar::new(clients as u64)
            .with_style(style)
            .with_prefix(format!("{} clients", grouped(clients as u64)));
        Progress { bar, clients, measured: scenario.measured(), next: Instant::now() }
    }

    pub(crate) fn connecting(&mut self, connected: usize) {
        if self.is_due() {
            self.bar.set_position(connected as u64);
            let (connected, clients) = (grouped(connected as u64), grouped(self.clients as u64));
            self.bar.set_message(format!("connecting: {connected} of {clients}"));
        }
    }

    pub(crate) fn connected(&mut self, clients: usize) {
        if self.bar.is_hidden() {
            let clients = grouped(clients as u64);
            eprintln!("{clients} clients connected, measuring for {} s", self.measured.as_secs());
        }
        self.bar.set_length(self.measured.as_millis() as u64);
    }

    pub(crate) fn measuring(&mut self, time: Duration, received: u64) {
        if self.is_due() {
            self.bar.set_position(time.as_millis() as u64);
            let (time, measured) = (time.as_secs(), self.measured.as_secs());
            let received = grouped(received);
            self.bar.set_message(format!("{time} of {measured} s, {received} messages"));
        }
    }

    pub(crate) fn draining(&mut self) {
        self.bar.set_message("waiting for the last messages");
    }

    /// A few times a second is enough for the eye and costs the measurement nothing.
    fn is_due(&mut self) -> bool {
        let now = Instant::now();
        let due = !self.bar.is_hidden() && now >= self.next;
        if due {
            self.next = now + Duration::from_millis(100);
        }
        due
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
