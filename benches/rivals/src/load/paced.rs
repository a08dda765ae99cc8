//! Each client sends a burst a number of times a second, whether or not answers come: Telepathy's Connections Test, with the
//! clients evenly spread. It never sleeps, so that it is on time and no server pays for waking it.

use std::time::{Duration, Instant};

use super::client::Clients;
use crate::Failure;
use crate::machine;
use crate::plan::{Aimed, Outcome};
use crate::wire::Wire;

pub fn run(aimed: &Aimed, hz: f64, burst: u64) -> Result<Outcome, Failure> {
    let before = machine::resident(aimed.server)?;
    let wire = Wire::new(aimed.prefix, aimed.load.size, 1, 1);
    let mut clients = Clients::connect(aimed, wire)?;
    let gap = Duration::from_secs_f64(1.0 / hz / aimed.load.clients as f64);
    let mut due = Instant::now();
    let mut next = 0;
    let mut ready = Vec::new();
    loop {
        let now = Instant::now();
        if !clients.span.goes_on(now)? {
            break;
        }
        while due <= now {
            clients.span.was_late(now - due);
            clients.owe(next, burst);
            clients.send(next, due)?;
            next = (next + 1) % clients.all.len();
            due += gap;
        }
        clients.poll(0, &mut ready)?;
        for ready in &ready {
            if ready.writes {
                clients.send(ready.index, Instant::now())?;
            }
            if ready.reads {
                clients.receive(ready.index);
            }
        }
    }
    let outcome = clients.span.outcome(before)?;
    clients.drain(|clients, index| clients.sent(index))?;
    Ok(clients.span.with_errors(outcome))
}
