//! Runs the tests at the foot of this example's files, under `cargo test`.
#![allow(dead_code, reason = "only `main` uses all of it")]

mod args;
mod chart;
mod criteria;
mod crowd;
mod figures;
mod files;
mod limits;
mod load;
mod payload;
mod process;
mod progress;
mod row;
mod scenario;
mod schedule;
mod server;
mod stop;
mod table;
mod talk;
mod tally;
mod text;
mod timings;
mod usage;
