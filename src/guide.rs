//! How to use it, page by page. There is no code in here.
//!
//! - [`first_hour`]: from an empty folder to a chat with rooms.
//! - [`embedding`]: the loop of a game, threads, snapshots, limits: a snippet for each question.
//! - [`limits`]: every limit: its default, what happens when it is met, and why.
//! - [`wire`]: every framing, byte by byte.
//! - [`troubleshooting`]: what you see, why, and what helps.
//!
//! The same pages are in the folder `docs` of the source, with others about performance and architecture.

/// A page out of `docs`. Its links are by name, and lead to files there and to these places here: where a name is defined
/// twice, the first definition counts.
macro_rules! page {
    ($name:ident, $summary:literal, $file:literal) => {
        #[doc = $summary]
        #[doc = "\n\n\
            [codec]: crate::Codec\n\
            [conn_map]: crate::ConnMap\n\
            [embedding]: crate::guide::embedding\n\
            [full]: crate::guide::embedding#what-to-do-about-full\n\
            [handle]: crate::Handle\n\
            [keep]: crate::guide::embedding#keeping-a-message\n\
            [limits]: crate::guide::limits\n\
            [message]: crate::guide::first_hour#what-a-message-is\n\
            [next_deadline]: crate::Reactor::next_deadline\n\
            [read_payload]: crate::ReadPayload\n\
            [report]: crate::TickReport\n\
            [send_latest]: crate::Outbox::send_latest\n\
            [stats]: crate::Stats\n\
            [structure]: crate::guide::embedding#where-the-game-stands\n\
            [tick]: crate::Reactor::tick\n\
            [troubleshooting]: crate::guide::troubleshooting\n\
            [wire]: crate::guide::wire\n\n"]
        #[doc = include_str!(concat!("../docs/", $file))]
        pub mod $name {}
    };
}

page!(first_hour, "From an empty folder to a chat with rooms.", "first-hour.md");
page!(embedding, "The loop of a game, threads, snapshots, limits.", "embedding.md");
page!(limits, "Every limit, and what happens when it is met.", "limits.md");
page!(wire, "Every framing, byte by byte.", "wire.md");
page!(troubleshooting, "What you see, why, and what helps.", "troubleshooting.md");
