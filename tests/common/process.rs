//! Examples, run as people run them: started, listened to, typed to, interrupted.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;

use super::PATIENCE;

/// A running example; killed when dropped.
pub struct Process {
    child: Child,
    stdin: Option<ChildStdin>,
    pub stdout: Lines,
    pub stderr: Lines,
}

impl Process {
    /// Starts it without an input.
    pub fn start(example: &str, args: &[&str]) -> Process {
        Process::start_with(example, args, Stdio::null())
    }

    /// Starts it with an input, for [`write_line`](Process::write_line).
    pub fn start_typed_to(example: &str, args: &[&str]) -> Process {
        Process::start_with(example, args, Stdio::piped())
    }

    fn start_with(example: &str, args: &[&str], stdin: Stdio) -> Process {
        let mut command = Command::new(path(example));
        Process::of(command.args(args).env_remove("RUST_LOG").stdin(stdin))
    }

    /// Starts what is no example; its input is the command's.
    pub fn of(command: &mut Command) -> Process {
        let mut child = command
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap_or_else(|error| panic!("{command:?} (`cargo build --examples`?): {error}"));
        let stdin = child.stdin.take();
        let stdout = Lines::of(child.stdout.take().expect("a pipe"));
        let stderr = Lines::of(child.stderr.take().expect("a pipe"));
        Process { child, stdin, stdout, stderr }
    }

    /// The address that a server tells when it listens.
    pub fn addr(&mut self) -> SocketAddr {
        let line = self.stdout.wait_for("listening on ");
        let addr = line.strip_prefix("listening on ").and_then(|addr| addr.parse().ok());
        addr.expect("an address and nothing else")
    }

    pub fn write_line(&mut self, line: &str) {
        let stdin = self.stdin.as_mut().expect("started with an input");
        writeln!(stdin, "{line}").expect("it reads");
    }

    /// Ends the input.
    pub fn end_input(&mut self) {
        self.stdin = None;
    }

    pub fn signal(&self, name: &str) {
        let pid = self.child.id().to_string();
        let status = Command::new("kill").args([&format!("-{name}"), &pid]).status();
        assert!(status.expect("there is a `kill`").success());
    }

    /// Waits for its end, and for that of everyone who writes to its stderr.
    pub fn end(&mut self) -> End {
        let stdout = self.stdout.rest();
        let stderr = self.stderr.rest();
        let code = self.child.wait().expect("ended").code();
        End { code, stdout, stderr }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Examples are built beside the directory of this test: `target/debug/examples`, `…/deps`.
pub fn path(example: &str) -> PathBuf {
    let test = std::env::current_exe().expect("this program has a path");
    let profile = test.ancestors().nth(2).expect("target/<profile>/deps/<test>");
    profile.join("examples").join(example)
}

/// Whether programs that a test needs are there. In CI they have to be.
pub fn are_installed(tools: &[&str], packages: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let is_there =
        |tool: &str| std::env::split_paths(&path).any(|folder| folder.join(tool).is_file());
    let Some(missing) = tools.iter().find(|tool| !is_there(tool)) else { return true };
    let how = format!("{missing} is not installed (Debian: apt-get install {packages})");
    assert!(std::env::var_os("CI").is_none(), "{how}");
    println!("skipped: {how}");
    false
}

/// A program for `mono`, compiled without a warning.
pub fn build_c_sharp(source: &Path) -> PathBuf {
    let name = Path::new(source.file_name().expect("a file")).with_extension("exe");
    let out = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let option = format!("-out:{}", out.display());
    let flags = ["-langversion:6", "-warn:4", "-warnaserror", &option];
    compile(Command::new("mcs").args(flags).arg(source));
    out
}

pub fn compile(command: &mut Command) {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
}

/// What a process writes, line by line, with a bound on each wait.
pub struct Lines {
    coming: Receiver<String>,
    seen: Vec<String>,
}

impl Lines {
    fn of(pipe: impl Read + Send + 'static) -> Lines {
        let (sender, coming) = channel();
        thread::spawn(move || {
            for line in BufReader::new(pipe).lines().map_while(io::Result::ok) {
                let _ = sender.send(line);
            }
        });
        Lines { coming, seen: Vec::new() }
    }

    /// The next line that contains `text`.
    pub fn wait_for(&mut self, text: &str) -> String {
        loop {
            let line = self.coming.recv_timeout(PATIENCE);
            let line = line.unwrap_or_else(|error| panic!("no {text:?}: {error} {:?}", self.seen));
            self.seen.push(line.clone());
            if line.contains(text) {
                return line;
            }
        }
    }

    /// All lines, once the pipe is closed.
    pub fn rest(&mut self) -> Vec<String> {
        loop {
            match self.coming.recv_timeout(PATIENCE) {
                Ok(line) => self.seen.push(line),
                Err(RecvTimeoutError::Disconnected) => return std::mem::take(&mut self.seen),
                Err(RecvTimeoutError::Timeout) => panic!("no end of {:?}", self.seen),
            }
        }
    }
}

/// How a process ended and what it had written.
#[derive(Debug)]
pub struct End {
    pub code: Option<i32>,
    pub stdout: Vec<String>,
    pub stderr: Vec<String>,
}

impl End {
    /// The one line of a process that could not do what it was asked to.
    pub fn only_error(&self) -> &str {
        assert_eq!((self.stdout.len(), self.stderr.len()), (0, 1), "{self:?}");
        self.stderr[0].strip_prefix("error: ").expect("an error")
    }

    pub fn count_in_table(&self, result: &str) -> usize {
        self.stdout.iter().filter(|line| line.ends_with(&format!(" {result}"))).count()
    }
}
