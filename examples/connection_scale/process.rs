//! The server's process: started, watched from outside, and never left behind.

use std::io::{self, BufRead, BufReader};
use std::net::SocketAddr;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::time::{Duration, Instant};
use std::{fs, thread};

use crate::args::SERVE;

pub(crate) struct ServerProcess {
    child: Child,
    /// The server ends when this closes, which also happens if we are killed.
    lifeline: Option<ChildStdin>,
    addr: SocketAddr,
}

impl ServerProcess {
    /// Starts this program a second time, as the server, and waits until it listens.
    pub(crate) fn start(fps: u32) -> io::Result<ServerProcess> {
        let mut command = Command::new(std::env::current_exe()?);
        command.args([SERVE, "--fps", &fps.to_string()]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        // Ctrl-C goes to the terminal's whole process group, and the server has to outlive the row.
        #[cfg(unix)]
        std::os::unix::process::CommandExt::process_group(&mut command, 0);
        let mut child = command.spawn()?;
        let lifeline = child.stdin.take();
        let addr = read_addr(&mut child);
        // From here on `Drop` ends the process, also if it did not tell an address.
        let mut server =
            ServerProcess { child, lifeline, addr: SocketAddr::from(([127, 0, 0, 1], 0)) };
        server.addr = addr?;
        Ok(server)
    }

    pub(crate) fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// The process' id, for [`cpu_time`] and [`resident`].
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }
}

impl Drop for ServerProcess {
    fn drop(&mut self) {
        const PATIENCE: Duration = Duration::from_secs(2);
        self.lifeline = None;
        let deadline = Instant::now() + PATIENCE;
        while matches!(self.child.try_wait(), Ok(None)) && Instant::now() < deadline {
            thread::sleep(Duration::from_millis(5));
        }
        // Does nothing to a process that has ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn read_addr(child: &mut Child) -> io::Result<SocketAddr> {
    let mut line = String::new();
    let stdout = child.stdout.take().ok_or_else(|| io::Error::other("no pipe"))?;
    BufReader::new(stdout).read_line(&mut line)?;
    // The reason, if there is one, the server has told on stderr.
    line.trim().parse().map_err(|_| io::Error::other("the server process did not start"))
}

/// The processor time that a process has used so far, where the system tells (Linux).
pub(crate) fn cpu_time(process: u32) -> Option<Duration> {
    /// USER_HZ, in which proc(5) counts: 100 on every architecture that matters.
    const TICKS_PER_SEC: u64 = 100;
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    // The second field is the program's name, in parentheses, and may contain anything. What
    // follows it starts with the third field; utime and stime are the 14th and 15th.
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace().skip(11);
    let user: u64 = fields.next()?.parse().ok()?;
    let system: u64 = fields.next()?.parse().ok()?;
    Some(Duration::from_millis((user + system) * 1_000 / TICKS_PER_SEC))
}

/// The memory that a process occupies, in bytes, where the system tells (Linux).
pub(crate) fn resident(process: u32) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib * 1_024)
}
