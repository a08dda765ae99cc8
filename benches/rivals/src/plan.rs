//! What one measurement is: which server, which load. Passed to the two processes as JSON.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The servers compared.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Kind {
    Tickwire,
    Epoll,
    Tokio,
    TokioBest,
    MessageIo,
    Threads,
    Netty,
}

impl Kind {
    /// How many descriptors the server has open for each client.
    pub fn descriptors(self) -> usize {
        if self == Kind::Threads { 2 } else { 1 }
    }

    /// What stands before a payload.
    pub fn prefix(self) -> Prefix {
        match self {
            Kind::MessageIo => Prefix::Varint,
            _ => Prefix::Be32,
        }
    }
}

/// How a message's length is written.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Prefix {
    Be32,
    Varint,
}

/// What the server does with a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Work {
    /// Sends it back; all that is ready leaves together.
    Echo,
    /// Sends it back at once, with a system call of its own.
    EchoEach,
    /// Takes it apart into the messages that it holds, and sends them back packed into one again.
    Repack,
    /// Sends it to everybody.
    ToAll,
}

/// A server, and how it is driven.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Serve {
    pub kind: Kind,
    pub work: Work,
    /// Looks at its sockets so many times a second; 0 is whenever something happens.
    pub hz: u32,
}

impl Serve {
    pub fn name(self) -> Name {
        Name { kind: self.kind, hz: self.hz }
    }
}

/// What a server is called in a table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Name {
    pub kind: Kind,
    pub hz: u32,
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.kind {
            Kind::Tickwire => "tickwire",
            Kind::Epoll => "epoll loop",
            Kind::Tokio => "tokio, plain",
            Kind::TokioBest => "tokio, best",
            Kind::MessageIo => "message-io",
            Kind::Threads => "threads",
            Kind::Netty => "Netty",
        })?;
        match self.hz {
            0 => Ok(()),
            hz => write!(f, " at {hz} Hz"),
        }
    }
}

/// What the clients do.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub enum Drive {
    /// Each sends a burst so many times a second, evenly spread, whatever comes back.
    Paced { hz: f64, burst: u64 },
    /// Each keeps so many messages on their way. A message may be a pack of smaller ones.
    Window { window: u64, actors: u64, pack: u64 },
    /// As `Window` among the first `clients - slow`; the others send without end and read nothing.
    Slow { window: u64, slow: usize },
    /// One talks to all, with so many messages on their way.
    Broadcast { window: u64 },
    /// Each talks to all, so many times a second.
    Crowd { hz: f64 },
    /// They come and stay, and say nothing.
    Idle,
    /// They come, have one message echoed, and go; so many at a time.
    Churn { at_once: usize },
}

/// A load.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct Load {
    pub drive: Drive,
    pub clients: usize,
    /// Payload bytes of a message.
    pub size: usize,
    /// Seconds before the measured part, and of it.
    pub warm_up: f64,
    pub seconds: f64,
}

/// A load and the server it is for.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Aimed {
    pub load: Load,
    pub port: u16,
    pub server: u32,
    pub prefix: Prefix,
    /// The server's descriptors for each client.
    pub descriptors: usize,
}

/// What one measurement found.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Outcome {
    /// Messages that arrived at clients; for `Idle` and `Churn`, connections.
    pub messages: u64,
    pub seconds: f64,
    /// Processor time of the server in that time, user and system, in seconds.
    pub cpu: f64,
    pub latency: Latency,
    /// How late the load was with what it had to send, 99th percentile, in microseconds.
    pub late: u64,
    /// The server's resident memory at the end, and what it grew by for each connection, in bytes.
    pub resident: u64,
    pub per_client: f64,
    /// Processor time per second while nobody says anything (only `Idle`).
    pub idle_cpu: f64,
    /// Bytes that were not what they should be, messages that never came back, connections lost.
    pub wrong: u64,
    pub missing: u64,
    pub dead: u64,
}

/// What is read off an outcome.
pub type Figure = fn(&Outcome) -> f64;

impl Outcome {
    pub fn rate(&self) -> f64 {
        self.messages as f64 / self.seconds
    }

    /// Processor time for each message, in microseconds; infinite if none came.
    pub fn cpu_each(&self) -> f64 {
        self.cpu * 1e6 / self.messages as f64
    }

    pub fn errors(&self) -> u64 {
        self.wrong + self.missing + self.dead
    }
}

/// Round-trip times in microseconds.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub struct Latency {
    pub p50: u64,
    pub p99: u64,
    pub p999: u64,
    pub max: u64,
}
