//! The real seam and the real kernel where they misbehave: system calls that fail, signals, urgent data, and networks that
//! lose, swallow and refuse.
#![cfg(target_os = "linux")]

#[path = "../common/mod.rs"]
mod common;

mod namespaces;
mod preload;
mod signals;
mod urgent;

use std::process::{Command, Output};

/// Set where a test runs again, in the surroundings that it has prepared for itself.
const INSIDE: &str = "TICKWIRE_KERNEL_INSIDE";

fn is_inside() -> bool {
    std::env::var_os(INSIDE).is_some()
}

/// This program, to run one of its tests again with `command` in front.
fn again(command: &str, args: &[&str], test: &str) -> Command {
    let mut again = Command::new(command);
    again.args(args).arg(std::env::current_exe().expect("it has a path"));
    again.args(["--exact", test, "--nocapture"]).env(INSIDE, "1");
    again
}

/// That it has passed there; what it wrote on stderr.
fn passed(output: &Output) -> String {
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    let told = String::from_utf8_lossy(&output.stdout);
    let is_fine = output.status.success() && told.contains("1 passed");
    // A failure tells all that was seen, payloads included.
    let begin: String = errors.chars().take(2_000).collect();
    assert!(is_fine, "{}\n{told}{begin}", output.status);
    errors
}
