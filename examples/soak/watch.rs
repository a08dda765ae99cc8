//! What is looked at meanwhile, and what a person sees of it.

use std::fs;
use std::time::Instant;

use indicatif::{ProgressBar, ProgressStyle};
use tickwire::Stats;

/// How much was done, or is to be.
#[derive(Clone, Copy)]
pub(crate) struct Count {
    pub(crate) cycles: u64,
    pub(crate) messages: u64,
}

impl Count {
    pub(crate) fn share(&self, part: u64, parts: u64) -> Count {
        Count { cycles: self.cycles * part / parts, messages: self.messages * part / parts }
    }

    pub(crate) fn plus(&self, other: Count) -> Count {
        Count { cycles: self.cycles + other.cycles, messages: self.messages + other.messages }
    }

    pub(crate) fn reaches(&self, goal: &Count) -> bool {
        self.cycles >= goal.cycles && self.messages >= goal.messages
    }
}

/// Looks at the process whenever it is at rest.
pub(crate) struct Watch {
    bar: ProgressBar,
    total: Count,
    from: Count,
    last: Count,
    began: Instant,
    /// After the warm-up, and each time since.
    sights: Vec<Sight>,
}

/// What the system says about this process.
#[derive(Clone, Copy)]
struct Sight {
    descriptors: usize,
    resident: u64,
}

impl Watch {
    pub(crate) fn begin(total: Count, from: &Count) -> Watch {
        let style = ProgressStyle::with_template("{bar:24.cyan} {percent:>3} %  {msg}")
            .expect("the template is well-formed")
            .progress_chars("━╸─");
        let bar = ProgressBar::new(1_000).with_style(style);
        let before = Sight::now();
        if bar.is_hidden() {
            eprintln!("warmed up{}", told(before));
        }
        let sights = before.into_iter().collect();
        Watch { bar, total, from: *from, last: *from, began: Instant::now(), sights }
    }

    pub(crate) fn show(&self, now: &Count) {
        let done = self.done(now);
        let share = |done: u64, total: u64| done.min(total) * 1_000 / total.max(1);
        let cycles = share(done.cycles, self.total.cycles);
        self.bar.set_position(cycles.min(share(done.messages, self.total.messages)));
        self.bar.set_message(format!("{} cycles, {} messages", done.cycles, done.messages));
    }

    /// Looks at the process, which is at rest.
    pub(crate) fn look(&mut self, now: &Count) {
        self.last = *now;
        let sight = Sight::now();
        self.sights.extend(sight);
        if self.bar.is_hidden() {
            let done = self.done(now);
            eprintln!("{} cycles, {} messages{}", done.cycles, done.messages, told(sight));
        }
    }

    /// Shows the result, and answers whether all was well.
    pub(crate) fn report(
        &self,
        stats: &Stats,
        manners: &[(&'static str, u64)],
        faults: &[String],
    ) -> bool {
        self.bar.finish_and_clear();
        let done = self.done(&self.last);
        println!("{:<36}{:>14}", "connections that came and went", done.cycles);
        println!("{:<36}{:>14}", "messages, counted at both ends", done.messages);
        println!("{:<36}{:>12.1} s", "time after the warm-up", self.began.elapsed().as_secs_f64());
        for (manner, count) in manners {
            println!("  {manner:<34}{count:>14}");
        }
        let is_flat = self.is_flat();
        println!("\nthe server's own count:\n{stats}");
        let is_whole = done.cycles >= self.total.cycles && done.messages >= self.total.messages;
        for fault in faults.iter().take(10) {
            println!("fault: {fault}");
        }
        let verdict = match (is_whole, is_flat, faults.is_empty()) {
            (_, _, false) => "FAIL: something was lost or wrong",
            (false, ..) => "stopped early",
            (_, false, _) => "FAIL: not flat",
            (true, true, true) => "PASS: flat",
        };
        println!("{verdict}");
        is_whole && is_flat && faults.is_empty()
    }

    /// Shows what was seen, and answers whether it was flat.
    fn is_flat(&self) -> bool {
        let Some(before) = self.sights.first() else {
            println!("descriptors and memory: this system does not tell");
            return true;
        };
        let (first, second) = self.sights.split_at(self.sights.len().div_ceil(2));
        let most = |sights: &[Sight]| sights.iter().map(|sight| sight.resident).max();
        let (first, second) = (most(first).unwrap_or(0), most(second).unwrap_or(0));
        let descriptors = self.sights.iter().map(|sight| sight.descriptors).max().unwrap_or(0);
        println!("{:<36}{:>14}", "descriptors after the warm-up", before.descriptors);
        println!("{:<36}{:>14}", "descriptors, the most since", descriptors);
        println!("{:<36}{:>10} KiB", "memory, the most in the first half", first / 1_024);
        println!("{:<36}{:>10} KiB", "memory, the most in the second half", second / 1_024);
        descriptors == before.descriptors && second <= first + first / 100
    }

    fn done(&self, now: &Count) -> Count {
        Count { cycles: now.cycles - self.from.cycles, messages: now.messages - self.from.messages }
    }
}

fn told(sight: Option<Sight>) -> String {
    sight.map_or(String::new(), |sight| {
        format!(", {} descriptors, {} KiB", sight.descriptors, sight.resident / 1_024)
    })
}

impl Sight {
    /// `None` where there is no proc(5).
    fn now() -> Option<Sight> {
        let descriptors = fs::read_dir("/proc/self/fd").ok()?.count();
        let status = fs::read_to_string("/proc/self/status").ok()?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
        let kib: u64 = line.trim().strip_suffix(" kB")?.trim().parse().ok()?;
        Some(Sight { descriptors, resident: kib * 1_024 })
    }
}
