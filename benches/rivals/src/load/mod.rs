//! The clients: one thread on a core of its own, which checks every byte that comes back, in order.

mod broadcast;
mod churn;
mod client;
mod crowd;
mod idle;
mod paced;
mod schedule;
mod span;
mod window;

use crate::Failure;
use crate::machine;
use crate::plan::{Aimed, Drive, Outcome};

/// Puts its load on a server and prints what it found, as JSON.
pub fn run(aimed: &Aimed) -> Result<(), Failure> {
    machine::raise_descriptors()?;
    machine::pin(1)?;
    let outcome: Outcome = match aimed.load.drive {
        Drive::Paced { hz, burst } => paced::run(aimed, hz, burst)?,
        Drive::Window { window, actors, pack } => window::run(aimed, window, actors, pack, 0)?,
        Drive::Slow { window, slow } => window::run(aimed, window, 1, 1, slow)?,
        Drive::Broadcast { window } => broadcast::run(aimed, window)?,
        Drive::Crowd { hz } => crowd::run(aimed, hz)?,
        Drive::Idle => idle::run(aimed)?,
        Drive::Churn { at_once } => churn::run(aimed, at_once)?,
    };
    println!("{}", serde_json::to_string(&outcome)?);
    Ok(())
}
