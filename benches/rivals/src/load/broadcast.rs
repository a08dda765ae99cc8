//! One client talks to all, itself included, with a number of messages on their way; one has arrived once everybody has it.

use std::time::{Duration, Instant};

use super::client::Clients;
use crate::Failure;
use crate::machine;
use crate::plan::{Aimed, Outcome};
use crate::wire::Wire;

/// A server has accepted everybody by now, but one with threads may not have told all of itself yet.
const SETTLE: Duration = Duration::from_millis(100);

pub fn run(aimed: &Aimed, window: u64) -> Result<Outcome, Failure> {
    let before = machine::resident(aimed.server)?;
    let wire = Wire::new(aimed.prefix, aimed.load.size, 1, 1);
    let mut clients = Clients::connect(aimed, wire)?;
    clients.start_alike();
    std::thread::sleep(SETTLE);
    let everybody = clients.all.len();
    // Who still lacks each of the messages on their way, by number modulo the window.
    let mut lacking = vec![everybody; window as usize];
    clients.owe(0, window);
    clients.send(0, Instant::now())?;
    let mut ready = Vec::new();
    loop {
        clients.poll(50, &mut ready)?;
        if !clients.span.goes_on(Instant::now())? {
            break;
        }
        let mut arrived = 0;
        for ready in &ready {
            if ready.reads {
                let (first, end) = clients.receive(ready.index);
                for number in first..end {
                    let lacking = &mut lacking[(number % window) as usize];
                    *lacking -= 1;
                    if *lacking == 0 {
                        *lacking = everybody;
                        arrived += 1;
                    }
                }
            }
        }
        if arrived > 0 || ready.iter().any(|ready| ready.index == 0 && ready.writes) {
            clients.owe(0, arrived);
            clients.send(0, Instant::now())?;
        }
    }
    let outcome = clients.span.outcome(before)?;
    clients.drain(|clients, _| clients.sent(0))?;
    Ok(clients.span.with_errors(outcome))
}
