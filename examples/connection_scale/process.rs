//! The other processes: this program again, in another role. Started, spoken to, and never left
//! behind.

use std::io::{self, BufRead, BufReader};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use serde::Serialize;

use crate::talk::{self, Ask};

pub(crate) struct Process {
    child: Child,
    /// The process ends when this closes, which also happens if we are killed.
    stdin: Option<ChildStdin>,
}

impl Process {
    /// Starts this program in a role, with an order, and gives what it will tell.
    pub(crate) fn start(
        role: &str,
        order: &impl Serialize,
    ) -> io::Result<(Process, BufReader<ChildStdout>)> {
        let mut command = Command::new(std::env::current_exe()?);
        command.args([role, &serde_json::to_string(order)?]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        // Ctrl-C goes to the terminal's whole process group, and the others have to outlive the row.
        #[cfg(unix)]
        std::os::unix::process::CommandExt::process_group(&mut command, 0);
        let mut child = command.spawn()?;
        let stdin = child.stdin.take();
        let stdout = child.stdout.take();
        // From here on `Drop` ends the process.
        let process = Process { child, stdin };
        let stdout = stdout.ok_or_else(|| io::Error::other("no pipe"))?;
        Ok((process, BufReader::new(stdout)))
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn ask(&mut self, ask: &Ask) -> io::Result<()> {
        match &mut self.stdin {
            Some(stdin) => talk::write(stdin, ask),
            None => Ok(()),
        }
    }

    /// Lets it end, without waiting for that.
    pub(crate) fn release(&mut self) {
        self.stdin = None;
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        const PATIENCE: Duration = Duration::from_secs(5);
        self.release();
        let deadline = Instant::now() + PATIENCE;
        while matches!(self.child.try_wait(), Ok(None)) && Instant::now() < deadline {
            thread::sleep(Duration::from_millis(5));
        }
        // Does nothing to a process that has ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The first message of a process. If it has none, it has told the reason on stderr.
pub(crate) fn first<T: serde::de::DeserializeOwned>(from: &mut impl BufRead) -> io::Result<T> {
    talk::read(from)?.ok_or_else(|| io::Error::other("the server process did not start"))
}
