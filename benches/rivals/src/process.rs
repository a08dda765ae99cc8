//! The two processes of a measurement.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use crate::Failure;
use crate::plan::{Aimed, Load, Outcome, Serve};

/// A server that runs until it is dropped.
pub struct Server {
    child: Child,
    port: u16,
}

impl Server {
    pub fn start(serve: &Serve) -> Result<Server, Failure> {
        let mut child = myself("serve", &serde_json::to_string(serve)?)?.spawn()?;
        let mut line = String::new();
        if let Some(stdout) = child.stdout.take() {
            BufReader::new(stdout).read_line(&mut line)?;
        }
        match line.trim().strip_prefix("port ").and_then(|port| port.parse().ok()) {
            Some(port) => Ok(Server { child, port }),
            None => {
                let status = child.wait()?;
                Err(format!("{} did not start: {status}", serve.name()).into())
            }
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended by itself; that shows in what was measured.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// One measurement: a server is started, loaded and stopped.
pub fn measure(serve: &Serve, load: &Load) -> Result<Outcome, Failure> {
    let server = Server::start(serve)?;
    let aimed = Aimed {
        load: *load,
        port: server.port,
        server: server.child.id(),
        prefix: serve.kind.prefix(),
        descriptors: serve.kind.descriptors(),
    };
    let output = myself("load", &serde_json::to_string(&aimed)?)?.output()?;
    if !output.status.success() {
        return Err(format!("the load on {} ended with {}", serve.name(), output.status).into());
    }
    Ok(serde_json::from_slice(&output.stdout)?)
}

/// What a server says once it listens.
pub fn announce(port: u16) {
    println!("port {port}");
}

fn myself(role: &str, what: &str) -> Result<Command, Failure> {
    let mut command = Command::new(std::env::current_exe()?);
    command.args([role, what]).stdin(Stdio::null()).stdout(Stdio::piped());
    Ok(command)
}
