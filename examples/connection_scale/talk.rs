//! What the processes tell each other: a line of JSON for each message, over stdin and stdout.

use std::io::{self, BufRead, Write};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::tally::Tally;

/// To a process of clients.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Ask {
    /// Connect so many more clients.
    Connect { more: usize },
    /// Measure; there are so many clients in all processes.
    Measure { clients: usize },
    /// End what is measured early.
    Stop,
}

/// From a process of clients.
#[derive(Serialize, Deserialize)]
pub(crate) enum Tell {
    /// How connecting goes; `waiting` is false when all that was asked for has an outcome.
    Connecting { connected: usize, unconnected: usize, waiting: bool },
    /// How measuring goes.
    Measuring { received: u64 },
    /// It was measured; what is on its way is still waited for.
    Measured { sent: u64, received: u64 },
    /// All is counted.
    Done(Box<Tally>),
}

/// From a server process: it listens.
#[derive(Serialize, Deserialize)]
pub(crate) struct Listening {
    pub(crate) port: u16,
}

pub(crate) fn write(to: &mut impl Write, message: &impl Serialize) -> io::Result<()> {
    let mut line = serde_json::to_string(message)?;
    line.push('\n');
    to.write_all(line.as_bytes())?;
    to.flush()
}

/// The next message, or nothing when the other side is gone.
pub(crate) fn read<T: DeserializeOwned>(from: &mut impl BufRead) -> io::Result<Option<T>> {
    let mut line = String::new();
    match from.read_line(&mut line)? {
        0 => Ok(None),
        _ => Ok(Some(serde_json::from_str(&line)?)),
    }
}
