//! Each client sends a burst a number of times a second, whether or not answers come: Telepathy's Connections Test, with the
//! clients evenly spread. It never sleeps, so that it is on time and no server pays for waking it.

use std::time::Instant;

use super::client::Clients;
use super::schedule::Schedule;
use crate::Failure;
use crate::machine;
use crate::plan::{Aimed, Outcome};
use crate::wire::Wire;

pub fn run(aimed: &Aimed, hz: f64, burst: u64) -> Result<Outcome, Failure> {
    let before = machine::resident(aimed.server)?;
    let wire = Wire::new(aimed.prefix, aimed.load.size, 1, 1);
    let mut clients = Clients::connect(aimed, wire)?;
    let mut schedule = Schedule::new(&aimed.load, hz);
    let mut ready = Vec::new();
    loop {
        let now = Instant::now();
        if !clients.span.goes_on(now)? {
            break;
        }
        while let Some((index, due)) = schedule.next(now) {
            clients.span.was_late(now - due);
            clients.owe(index, burst);
            clients.send(index, due)?;
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
