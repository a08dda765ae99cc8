//! A single-threaded TCP reactor for game servers.
//!
//! The game loop owns the thread. Once a frame it calls [`tick`](Reactor::tick), gets a batch of events
//! whose payloads are borrowed straight from the receive buffers, answers while it iterates, and goes back
//! to the game. Nothing runs by itself: no thread, no runtime, no callback.
//!
//! # A whole server
//!
//! ```no_run
//! use std::time::{Duration, Instant};
//! use tickwire::{Event, Reactor, Tick, Wait};
//!
//! # struct World;
//! # impl World {
//! #     fn join(&mut self, _: tickwire::ConnId) {}
//! #     fn leave(&mut self, _: tickwire::ConnId) {}
//! #     fn step(&mut self) {}
//! #     fn players(&self) -> [tickwire::ConnId; 0] { [] }
//! #     fn snapshot(&self) -> &[u8] { &[] }
//! # }
//! # let mut world = World;
//! let mut reactor = Reactor::new()?;
//! reactor.listen("0.0.0.0:7777")?;
//! let mut next_frame = Instant::now();
//! loop {
//!     next_frame += Duration::from_nanos(16_666_667);
//!     let Tick { events, mut outbox, .. } = reactor.tick(Wait::Until(next_frame))?;
//!     for event in events {
//!         match event {
//!             Event::Connected { conn, .. } => world.join(conn),
//!             Event::Message { conn, payload } => { let _ = outbox.send(conn, payload); }
//!             Event::Disconnected { conn, reason } => world.leave(conn),
//!             _ => {}
//!         }
//!     }
//!     world.step();
//!     reactor.outbox().broadcast(world.players(), world.snapshot());
//!     reactor.flush();
//! }
//! # #[allow(unreachable_code)]
//! # Ok::<(), tickwire::Error>(())
//! ```
//!
//! Sending while iterating compiles, since the events borrow the receiving half and the [`Outbox`] the
//! sending half. Keeping a payload beyond the next tick does not: copy it (`payload.to_vec()`) or decode it.
//!
//! ```compile_fail,E0499
//! # use tickwire::{Event, Reactor, Wait};
//! # let mut reactor = Reactor::new().unwrap();
//! let mut tick = reactor.tick(Wait::No).unwrap();
//! let kept = tick.events.next(); // borrows the receive buffers …
//! reactor.tick(Wait::No).unwrap(); // … which the next tick fills anew
//! println!("{kept:?}");
//! ```
//!
//! # What is promised
//!
//! - **Per connection**, exactly one [`Connected`](Event::Connected), then its messages in order, then exactly
//!   one [`Disconnected`](Event::Disconnected) with the reason, whoever closed, then nothing ever. An outgoing
//!   connect that does not come about gives exactly one [`ConnectFailed`](Event::ConnectFailed) and nothing else.
//! - **Before a FIN**, all whole messages are delivered (on Linux also before a reset). A peer that half-closes
//!   still gets its replies: they are taken until the tick after the one in which its last message was fetched.
//! - **Fetching is acknowledging**: what a `break`, a `?` or a panic leaves unfetched comes first next tick.
//! - **Ids** carry a generation: one that is kept too long answers [`Stale`](SendError::Stale) and never reaches a
//!   stranger.
//! - **Sending** never waits and never drops silently: a message is queued whole or refused with the reason.
//! - **Bounds**: every buffer and every tick has a limit, finite by default (see [`Builder`]).
//! - **One peer's misfortune** ends at most its own connection.
//!
//! Not promised: that a message that was queued arrives (the peer may be gone); the order of events of
//! different connections; how many messages a receive brings.
//!
//! # What is copied
//!
//! A message is copied once on its way in, from the kernel into the tick's arena, and handed out from there. Only
//! what has not arrived whole is moved once more, into a small pooled ring of its connection; [`Stats::bytes_moved`]
//! counts it. On its way out a message is copied once, into the connection's ring, from where all that is
//! queued leaves with one system call; [`Outbox::send_with`] saves even that copy. After a few ticks of the same load,
//! a tick allocates nothing, and an idle connection owns no buffer.
//!
//! # When not to use it
//!
//! For services that wait on many other things (databases, HTTP, DNS), an async runtime is the better home. For
//! fast-paced shooters, where a late packet is worth nothing, use UDP. There is no TLS and no WebSocket in here (yet).
//!
//! # Where to read on
//!
//! The [`guide`]: [the first hour](guide::first_hour), [embedding](guide::embedding) with a snippet for each question,
//! [limits](guide::limits), [framings](guide::wire), [troubleshooting](guide::troubleshooting).
//!
//! [`Reactor`] and [`Wait`] for the loop, [`Outbox`] for sending, [`Builder`] for every limit, [`ListenOptions`] and
//! [`ConnectOptions`] for sockets, [`ConnMap`] for data of your own, [`Handle`] for other threads, [`TickReport`] and [`Stats`] for
//! what it costs, [`Reactor::shutdown`] for the end.
//!
//! # Features
//!
//! None is on by default, and enabling one changes nothing by itself.
//!
//! - `delimiter`: [`Framing::Delimiter`](Framing); adds memchr.
//! - `lz4`, `zlib`: the module `compress`, messages compressed one by one, with a bound on what they expand to; add
//!   lz4_flex and flate2 (both pure Rust).
//! - `sim`: the module `sim`, a seeded fake network with virtual time on which whole reactors run in tests; adds
//!   no dependency.
#![forbid(unsafe_code)]
#![warn(unreachable_pub)]
#![cfg_attr(docsrs, feature(doc_cfg))]

mod addr;
mod arena;
mod batch;
#[cfg(any(feature = "lz4", feature = "zlib"))]
#[cfg_attr(docsrs, doc(cfg(any(feature = "lz4", feature = "zlib"))))]
pub mod compress;
mod config;
mod conn;
mod error;
mod event;
mod filter;
mod frame;
#[cfg(any(doc, doctest))]
pub mod guide;
mod handle;
mod id;
mod io;
mod ledger;
mod mailbox;
mod map;
pub mod net;
mod pool;
mod reactor;
mod report;
mod ring;
mod slots;
mod stats;
mod timers;
mod wire;

#[cfg(feature = "sim")]
#[cfg_attr(docsrs, doc(cfg(feature = "sim")))]
pub mod sim;

pub use addr::{Addr, AddrError};
pub use config::{
    AcceptPolicy, Builder, ConnectOptions, Keepalive, ListenOptions, Rate, RatePolicy, SendPolicy,
    SocketOptions,
};
pub use conn::writer::FrameWriter;
pub use error::{BadFrame, ConnectFailure, DisconnectReason, EncodeError, Error, SendError};
pub use event::{Broadcast, Event, Events, Outbox, Tick, Wait};
pub use filter::{AddrFilter, Prefix, PrefixError};
#[cfg(feature = "delimiter")]
#[cfg_attr(docsrs, doc(cfg(feature = "delimiter")))]
pub use frame::Delimiter;
pub use frame::{Codec, Custom, Cut, Envelope, FrameError, Framing, LengthField, Line, LineEnding};
pub use handle::Handle;
pub use id::{ConnId, ListenerId};
pub use map::ConnMap;
pub use net::MioNet;
pub use reactor::Reactor;
pub use report::{PhaseTimes, TickReport};
pub use stats::{ConnStats, Ends, Refusals, Stats};
pub use wire::{ReadError, ReadPayload, WritePayload};

/// The code in the README, compiled.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct ReadmeDocTests;
