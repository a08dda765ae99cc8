//! What the system tells: processor time, memory and descriptors of a process, and what the machine is.

use std::fs;
use std::time::Duration;

use nix::sched::{CpuSet, sched_setaffinity};
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::time::{clock_getcpuclockid, clock_gettime};
use nix::unistd::Pid;

use crate::Failure;

/// The processor time of a whole process, ended threads included.
pub fn cpu(pid: u32) -> Result<Duration, Failure> {
    let clock = clock_getcpuclockid(Pid::from_raw(pid as i32))?;
    Ok(clock_gettime(clock)?.into())
}

/// Resident memory in bytes.
pub fn resident(pid: u32) -> Result<u64, Failure> {
    let statm = fs::read_to_string(format!("/proc/{pid}/statm"))?;
    let pages: u64 = statm.split(' ').nth(1).ok_or("statm has no second field")?.parse()?;
    Ok(pages * 4096)
}

/// How many descriptors are open.
pub fn descriptors(pid: u32) -> Result<usize, Failure> {
    let path = format!("/proc/{pid}/fd");
    match fs::metadata(&path)?.len() {
        0 => Ok(fs::read_dir(&path)?.count()), // before Linux 6.2
        open => Ok(open as usize),
    }
}

/// Stays on one core, if there are at least two; threads started later do so too.
pub fn pin(core: usize) -> Result<(), Failure> {
    if std::thread::available_parallelism()?.get() < 2 {
        return Ok(());
    }
    let mut cores = CpuSet::new();
    cores.set(core)?;
    Ok(sched_setaffinity(Pid::from_raw(0), &cores)?)
}

/// As many descriptors as this user may have.
pub fn raise_descriptors() -> Result<(), Failure> {
    let (_, hard) = getrlimit(Resource::RLIMIT_NOFILE)?;
    Ok(setrlimit(Resource::RLIMIT_NOFILE, hard, hard)?)
}

/// Processor, memory, system and compiler, one line each.
pub fn describe() -> Vec<(&'static str, String)> {
    let read = |path| fs::read_to_string(path).unwrap_or_default();
    let field = |text: &str, name: &str| {
        let line = text.lines().find(|line| line.starts_with(name));
        line.and_then(|line| line.split_once(':')).map(|(_, value)| value.trim().to_owned())
    };
    let processor = field(&read("/proc/cpuinfo"), "model name").unwrap_or_default();
    let kilobytes = field(&read("/proc/meminfo"), "MemTotal").unwrap_or_default();
    let gigabytes = kilobytes.trim_end_matches(" kB").parse().unwrap_or(0.0) / 1048576.0;
    let cores = std::thread::available_parallelism().map_or(1, |cores| cores.get());
    vec![
        ("processor", format!("{processor}, {cores} cores")),
        ("memory", format!("{gigabytes:.1} GiB")),
        ("kernel", format!("Linux {}", read("/proc/sys/kernel/osrelease").trim())),
        ("compiler", output("rustc", &["--version"])),
    ]
}

/// Today, as the system's clock has it.
pub fn today() -> String {
    output("date", &["-u", "+%Y-%m-%d %H:%M UTC"])
}

/// The versions of the rivals, as this build resolved them.
pub fn versions() -> Vec<(String, String)> {
    let lock = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.lock"));
    let lock = lock.unwrap_or_default();
    // Several of one crate may be there: message-io has an older mio.
    let version = |name: &str| {
        let head = format!("name = \"{name}\"\nversion = \"");
        let found = lock.split(&head).skip(1).filter_map(|rest| rest.split('"').next());
        let found: Vec<_> = found.collect();
        (!found.is_empty()).then(|| (name.to_owned(), found.join(" and ")))
    };
    ["tickwire", "mio", "tokio", "tokio-util", "message-io"]
        .into_iter()
        .filter_map(version)
        .collect()
}

/// The first line that a command prints, or nothing.
pub fn output(command: &str, args: &[&str]) -> String {
    let output = std::process::Command::new(command).args(args).output();
    let output = output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
    output.unwrap_or_default().lines().next().unwrap_or_default().to_owned()
}
