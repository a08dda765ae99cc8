//! Each client keeps a number of messages on their way: the flood, and the ping-pong. In the latter a single
//! connection carries many actors, each with a window of its own; since echoes come in order, that is one window
//! of as many messages in which the actors take turns.

use std::time::Instant;

use super::client::Clients;
use crate::Failure;
use crate::machine;
use crate::plan::{Aimed, Outcome};
use crate::wire::Wire;

/// The last `slow` clients send without end and read nothing; what they send is not waited for.
pub fn run(
    aimed: &Aimed,
    window: u64,
    actors: u64,
    pack: u64,
    slow: usize,
) -> Result<Outcome, Failure> {
    let before = machine::resident(aimed.server)?;
    let wire = Wire::new(aimed.prefix, aimed.load.size, actors, pack);
    let mut clients = Clients::connect(aimed, wire)?;
    let healthy = clients.all.len() - slow;
    for index in 0..clients.all.len() {
        clients.owe(index, window);
        if index >= healthy {
            clients.owe(index, 1 << 30);
            clients.ignore(index)?;
        }
        clients.send(index, Instant::now())?;
    }
    let mut ready = Vec::new();
    loop {
        clients.poll(50, &mut ready)?;
        let now = Instant::now();
        if !clients.span.goes_on(now)? {
            break;
        }
        for ready in &ready {
            let mut answers = 0;
            if ready.reads && ready.index < healthy {
                let (first, end) = clients.receive(ready.index);
                answers = end - first;
                clients.owe(ready.index, answers);
            }
            if answers > 0 || ready.writes {
                clients.send(ready.index, Instant::now())?;
            }
            if ready.index >= healthy {
                clients.ignore(ready.index)?;
            }
        }
    }
    let mut outcome = clients.span.outcome(before)?;
    outcome.messages *= pack;
    clients.all.truncate(healthy);
    clients.drain(|clients, index| clients.sent(index))?;
    Ok(clients.span.with_errors(outcome))
}
