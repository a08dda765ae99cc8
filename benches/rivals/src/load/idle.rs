//! Clients that come and stay: how fast they are accepted, what they cost in memory, and in time while nothing happens.

use std::time::{Duration, Instant};

use super::client::Clients;
use crate::Failure;
use crate::machine;
use crate::plan::{Aimed, Outcome};
use crate::wire::Wire;

pub fn run(aimed: &Aimed) -> Result<Outcome, Failure> {
    let before = machine::resident(aimed.server)?;
    let cpu = machine::cpu(aimed.server)?;
    let start = Instant::now();
    let clients = Clients::connect(aimed, Wire::new(aimed.prefix, aimed.load.size, 1, 1))?;
    let seconds = start.elapsed().as_secs_f64();
    let accepted = machine::cpu(aimed.server)?;
    let resident = machine::resident(aimed.server)?;
    std::thread::sleep(Duration::from_secs_f64(aimed.load.seconds));
    let idle = (machine::cpu(aimed.server)? - accepted).as_secs_f64() / aimed.load.seconds;
    let count = clients.all.len();
    Ok(Outcome {
        messages: count as u64,
        seconds,
        cpu: (accepted - cpu).as_secs_f64(),
        resident,
        per_client: resident.saturating_sub(before) as f64 / count as f64,
        idle_cpu: idle,
        ..Outcome::default()
    })
}
