//! The fuzz targets' bodies: plain functions of some bytes, so that `cargo fuzz` drives them on nightly and
//! `tests/fuzz_corpus.rs` replays what it found on stable. A finding is a panic.
//!
//! Every body holds the library against something naive that was written from the contract, not from the code.

pub mod config;
pub mod connect;
pub mod connection;
pub mod framing;
pub mod reactor;
pub mod ring;

mod input;
mod model;
mod socket;

// What the tests share, by path: this package must not have second versions of them.
#[path = "../../sim/checker.rs"]
#[allow(dead_code, reason = "a part of it is used here")]
mod checker;
#[path = "../../sim/harness.rs"]
#[allow(dead_code, reason = "a part of it is used here")]
mod harness;
#[path = "../../common/twin.rs"]
mod twin;

/// The name of a target's binary, and its body.
pub type Target = (&'static str, fn(&[u8]));

/// Every target.
pub const TARGETS: &[Target] = &[
    ("frame_length", framing::length),
    ("frame_prefix", framing::prefix),
    ("frame_varint", framing::varint),
    ("frame_fixed", framing::fixed),
    ("frame_line", framing::line),
    ("frame_delimiter", framing::delimiter),
    ("frame_raw", framing::raw),
    ("frame_custom", framing::custom),
    ("ring", ring::run),
    ("config", config::run),
    ("connection", connection::run),
    ("reactor", reactor::run),
    ("connect", connect::run),
];
