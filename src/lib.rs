//! tickwire
#![forbid(unsafe_code)]
#![warn(unreachable_pub)]
#![cfg_attr(docsrs, feature(doc_cfg))]

mod addr;
mod arena;
mod batch;
mod config;
mod conn;
mod error;
mod event;
mod frame;
mod id;
mod io;
pub mod net;
mod pool;
mod reactor;
mod ring;
mod slots;
mod stats;
mod timers;

#[cfg(feature = "sim")]
pub mod sim;

pub use addr::{Addr, AddrError};
pub use config::{Builder, ConnectOptions, ListenOptions, SendPolicy};
pub use conn::outbound::FrameWriter;
pub use error::{BadFrame, ConnectFailure, DisconnectReason, EncodeError, Error, SendError};
pub use event::{Broadcast, Event, Events, Outbox, Tick, Wait};
pub use frame::Framing;
pub use id::{ConnId, ListenerId};
pub use net::MioNet;
pub use reactor::Reactor;
pub use stats::Stats;
