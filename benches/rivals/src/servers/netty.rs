//! Netty's echo, on Debian's libnetty-java, from the one Java file beside this package.

use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use crate::Failure;
use crate::machine;
use crate::plan::{Serve, Work};

/// Where Debian puts it.
const FOLDER: &str = "/usr/share/java";
const PARTS: [&str; 6] = ["buffer", "codec", "common", "handler", "resolver", "transport"];

/// Whether there is a Java that compiles, and the library.
pub fn has_netty() -> bool {
    PARTS.iter().all(|part| Path::new(&jar(part)).exists()) && !version().is_empty()
}

/// Netty's version as the package has it, or nothing if it is not there.
pub fn version() -> String {
    if machine::output("javac", &["-version"]).is_empty() {
        return String::new();
    }
    machine::output("dpkg-query", &["-W", "-f", "${Version}", "libnetty-java"])
}

pub fn run(serve: &Serve) -> Result<(), Failure> {
    let mode = match serve.work {
        Work::EchoEach => "each",
        Work::Repack => "repack",
        Work::Echo | Work::ToAll => "read",
    };
    let path = PARTS.map(jar).join(":");
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/netty/Echo.java");
    Err(Command::new("java").args(["-cp", &path, source, mode]).exec().into())
}

fn jar(part: &str) -> String {
    format!("{FOLDER}/netty-{part}.jar")
}
