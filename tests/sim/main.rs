//! Whole reactors on the simulated network: scenarios by subject, and a swarm of random ones.

mod harness;

mod checker;
mod peers;
mod plan;
mod story;
mod swarm;
mod talk;

mod admission;
mod closing;
mod deadlines;
mod fairness;
mod framing;
mod lifecycle;
mod limits;
mod pressure;
mod regressions;
// The errno values are Linux'.
#[cfg(target_os = "linux")]
mod torture;
mod waiting;
