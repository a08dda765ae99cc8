//! What a row does: the part of the options that the server and the clients have to know too.

use std::time::Duration;

use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Scenario {
    pub(crate) kind: Kind,
    /// Bytes of a message.
    pub(crate) size: usize,
    /// Messages that a sending client sends in a second.
    pub(crate) rate: f64,
    /// How many of them at once.
    pub(crate) burst: u32,
    pub(crate) arrival: Arrival,
    /// How long a row is measured.
    pub(crate) secs: u64,
    /// Frames a second of the server; 0: event driven.
    pub(crate) fps: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Kind {
    /// Every client sends, and gets each of its messages back.
    Echo,
    /// One client sends, and every client gets each of its messages.
    Broadcast,
    /// Nobody sends while it is measured; then each client sends one message and gets it back.
    Idle,
}

/// When the clients send, relative to each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Arrival {
    /// Each has its own moment, evenly spread.
    Spread,
    /// All at the same moment.
    Together,
}

/// What one server process has to do.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct ServerOrder {
    /// 0 for a free one.
    pub(crate) port: u16,
    /// On how many addresses to listen, from 127.0.0.1 on.
    pub(crate) addresses: usize,
    /// Whether other server processes listen there as well.
    pub(crate) shared: bool,
    pub(crate) scenario: Scenario,
}

/// What one process of clients has to do.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct LoadOrder {
    pub(crate) port: u16,
    pub(crate) addresses: usize,
    /// This process among `processes`, from 0.
    pub(crate) index: usize,
    pub(crate) processes: usize,
    /// How many clients it may have to play.
    pub(crate) clients_max: usize,
    pub(crate) scenario: Scenario,
}

impl Scenario {
    pub(crate) fn measured(&self) -> Duration {
        Duration::from_secs(self.secs)
    }

    /// The loop of the server, in words.
    pub(crate) fn server_loop(&self) -> String {
        match self.fps {
            0 => "event driven".to_owned(),
            fps => format!("{fps} frames a second"),
        }
    }

    /// What the clients do, in words.
    pub(crate) fn in_words(&self) -> String {
        let Scenario { size, rate, burst, secs, .. } = self;
        let moment = match self.arrival {
            Arrival::Spread => "each at its own moment",
            Arrival::Together => "all at the same moment",
        };
        match self.kind {
            Kind::Echo => format!(
                "Each client sent {rate} messages of {size} bytes a second for {secs} s, {burst} at a time, {moment},\n\
                 without waiting for echoes."
            ),
            Kind::Broadcast => format!(
                "One client sent {rate} messages of {size} bytes a second for {secs} s, {burst} at a time, without\n\
                 waiting for anything, and the server sent each of them to all clients."
            ),
            Kind::Idle => format!(
                "All clients were connected and silent for {secs} s. Then each sent one message of {size} bytes,\n\
                 which shows that it was still served; RTT is of these messages, a few hundred at a time."
            ),
        }
    }
}
