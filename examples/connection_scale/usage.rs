//! What processes and the machine use, as Linux tells it in /proc. Elsewhere there is no answer.

use std::fs;
use std::time::Duration;

/// The processor time that processes have used so far.
pub(crate) fn cpu_time(processes: &[u32]) -> Option<Duration> {
    processes.iter().map(|process| cpu_of(&read(*process, "stat")?)).sum()
}

/// The memory that processes occupy, in bytes.
pub(crate) fn resident(processes: &[u32]) -> Option<u64> {
    processes.iter().map(|process| bytes_of(&read(*process, "status")?, "VmRSS:")).sum()
}

/// The memory that can still be had without pushing anything out, in bytes.
pub(crate) fn available() -> Option<u64> {
    bytes_of(&fs::read_to_string("/proc/meminfo").ok()?, "MemAvailable:")
}

/// The memory of the machine, in bytes.
pub(crate) fn total() -> Option<u64> {
    bytes_of(&fs::read_to_string("/proc/meminfo").ok()?, "MemTotal:")
}

fn read(process: u32, file: &str) -> Option<String> {
    fs::read_to_string(format!("/proc/{process}/{file}")).ok()
}

fn cpu_of(stat: &str) -> Option<Duration> {
    /// USER_HZ, in which proc(5) counts: 100 on every architecture that matters.
    const TICKS_PER_SEC: u64 = 100;
    // The second field is the program's name, in parentheses, and may contain anything. What
    // follows it starts with the third field; utime and stime are the 14th and 15th.
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace().skip(11);
    let user: u64 = fields.next()?.parse().ok()?;
    let system: u64 = fields.next()?.parse().ok()?;
    Some(Duration::from_millis((user + system) * 1_000 / TICKS_PER_SEC))
}

fn bytes_of(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib * 1_024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_spaces_and_parentheses_does_not_mislead() {
        let stat = "12 (a) b) S 1 2 3 4 5 6 7 8 9 10 150 25 0 0 20 0 2";
        assert_eq!(cpu_of(stat), Some(Duration::from_millis(1_750)));
        assert_eq!(cpu_of("nothing of the kind"), None);
    }

    #[test]
    fn memory_is_in_bytes() {
        let text = "VmPeak:\t  20 kB\nVmRSS:\t    3 kB\n";
        assert_eq!(bytes_of(text, "VmRSS:"), Some(3_072));
        assert_eq!(bytes_of(text, "VmSwap:"), None);
    }
}
