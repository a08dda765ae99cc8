//! A connection without its socket: what it may do next, what it has received, what it has to send.
//!
//! ```text
//!          accept                 connect
//!            │                       ▼
//!            │      established ┌────────────┐ failed, cancelled, deadline
//!            ▼ ◄────────────────┤ Connecting ├───────────────────────────────────┐
//!         ┌──────┐              └────────────┘                                   │
//!      ┌──┤ Open ├───────────────┐ close()                                       │
//!  FIN │  └──────┘               ▼                                               │
//!      ▼            close() ┌──────────┐ flushed,        ┌───────────┐           │
//! ┌────────────┐ ─────────► │ Flushing ├ FIN is owed ──► │ Lingering │           │
//! │ PeerClosed │            └────┬─────┘                 └─────┬─────┘           │
//! └────┬───────┘ ──────────►     │ flushed,                    │ FIN             │
//!      last message fetched      ▼ FIN was read                ▼                 ▼
//!                            ┌──────────────────────────────────────────────────────┐
//!                            │ Ended: the socket is gone, the last event is owed    │
//!                            └──────────────────────────────────────────────────────┘
//! ```
//!
//! A kick, an error, a bad frame or a missed deadline leads from every stage to `Ended`, and from
//! `Ended` nothing leads anywhere: the slot is reaped once the game has fetched the last event.

mod bucket;
pub(crate) mod inbound;
pub(crate) mod outbound;
mod queue;
pub(crate) mod writer;

use std::io;

use crate::addr::Peer;
use crate::error::{ConnectFailure, DisconnectReason};
use crate::frame::FramerId;
use crate::id::ListenerId;
use crate::timers::Moment;

/// What both halves of a connection, and the user, may know about it.
#[derive(Debug)]
pub(crate) struct Card {
    pub(crate) peer: Peer,
    /// `None` for an outgoing connection.
    pub(crate) listener: Option<ListenerId>,
    pub(crate) framer: FramerId,
    pub(crate) stage: Stage,
    /// When the stage should be over, or the first message should have come.
    pub(crate) deadline: Option<Moment>,
    /// When the timers come back to this connection: at its earliest deadline or before.
    pub(crate) scheduled: Option<Moment>,
    /// A later entry in the timers, which an earlier one has made obsolete.
    pub(crate) parked: Option<Moment>,
}

/// Where in its life a connection is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// An outgoing connection that has not come about; the game may queue messages already.
    Connecting,
    /// Both directions are open.
    Open,
    /// All that the peer had to say has been read; the game has not fetched all of it and may still
    /// reply.
    PeerClosed { reason: DisconnectReason },
    /// What is queued still leaves; nothing further is taken. If the peer's FIN is still owed
    /// (`peer_closed` is false), input is read and discarded.
    Flushing { reason: DisconnectReason, peer_closed: bool },
    /// All has left, FIN included; input is read and discarded until the peer's FIN.
    Lingering { reason: DisconnectReason },
    /// Over.
    Ended(Ending),
}

/// Which last event the game gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    Disconnected(DisconnectReason),
    ConnectFailed(ConnectFailure),
}

/// What happens to a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// The connect has come about.
    Established,
    /// The connect has not come about.
    ConnectFailed(ConnectFailure),
    /// The peer's FIN was read, and every whole frame before it is in the batch.
    PeerFin { truncated: bool },
    /// The game has fetched the last message before the FIN.
    LastFetched,
    /// Receiving failed: the peer is gone.
    ReadFailed(io::ErrorKind),
    /// Nothing is queued any more.
    Flushed,
    /// The game closes.
    Close,
    /// The game closes everything.
    Shutdown,
    /// The end, whatever was under way.
    End(DisconnectReason),
}

impl Stage {
    /// Every legal transition. A step that means nothing (any more) changes nothing.
    pub(crate) fn after(self, step: Step) -> Stage {
        use Stage::*;
        match (self, step) {
            (Ended(_), _) => self,

            (Connecting, Step::Established) => Open,
            (Connecting, Step::ConnectFailed(failure)) => Ended(Ending::ConnectFailed(failure)),
            (Connecting, Step::Close | Step::End(_)) => {
                Ended(Ending::ConnectFailed(ConnectFailure::Cancelled))
            }
            (Connecting, Step::Shutdown) => Ended(Ending::ConnectFailed(ConnectFailure::Shutdown)),
            (Connecting, _) => self,

            (_, Step::End(reason)) => Ended(Ending::Disconnected(reason)),

            (Open, Step::PeerFin { truncated }) => PeerClosed { reason: fin_reason(truncated) },
            (PeerClosed { reason }, Step::LastFetched) => Flushing { reason, peer_closed: true },

            (Open | PeerClosed { .. }, Step::Close | Step::Shutdown) => {
                let reason = match step {
                    Step::Close => DisconnectReason::ClosedByUs,
                    _ => DisconnectReason::Shutdown,
                };
                Flushing { reason, peer_closed: self != Open }
            }
            (Flushing { reason, .. }, Step::PeerFin { .. }) => {
                Flushing { reason, peer_closed: true }
            }
            (Flushing { reason, peer_closed: true }, Step::Flushed) => {
                Ended(Ending::Disconnected(reason))
            }
            (Flushing { reason, peer_closed: false }, Step::Flushed) => Lingering { reason },

            // Nothing of ours is lost any more, so whichever way the peer goes is fine.
            (Lingering { reason }, Step::PeerFin { .. } | Step::ReadFailed(_)) => {
                Ended(Ending::Disconnected(reason))
            }
            (_, Step::ReadFailed(kind)) => {
                Ended(Ending::Disconnected(DisconnectReason::from(&io::Error::from(kind))))
            }

            (Open | PeerClosed { .. } | Flushing { .. } | Lingering { .. }, _) => self,
        }
    }
}

fn fin_reason(truncated: bool) -> DisconnectReason {
    if truncated { DisconnectReason::Truncated } else { DisconnectReason::ClosedByPeer }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_card_stays_small() {
        assert!(size_of::<Option<Card>>() <= 72, "every connection has one");
    }

    fn walk(from: Stage, steps: &[Step]) -> Stage {
        steps.iter().fold(from, |stage, step| stage.after(*step))
    }

    fn disconnected(reason: DisconnectReason) -> Stage {
        Stage::Ended(Ending::Disconnected(reason))
    }

    const FIN: Step = Step::PeerFin { truncated: false };

    #[test]
    fn a_peer_that_closes_gets_its_replies_first() {
        let stage = walk(Stage::Open, &[FIN]);
        assert_eq!(stage.after(Step::Flushed), stage, "the game may still reply");
        let stage = stage.after(Step::LastFetched);
        assert_eq!(stage.after(Step::Flushed), disconnected(DisconnectReason::ClosedByPeer));
    }

    #[test]
    fn our_close_waits_for_the_peer() {
        let stage = walk(Stage::Open, &[Step::Close, Step::Flushed]);
        assert_eq!(stage, Stage::Lingering { reason: DisconnectReason::ClosedByUs });
        assert_eq!(stage.after(FIN), disconnected(DisconnectReason::ClosedByUs));
        let crossed = walk(Stage::Open, &[Step::Close, FIN, Step::Flushed]);
        assert_eq!(crossed, disconnected(DisconnectReason::ClosedByUs));
    }

    #[test]
    fn a_reset_costs_the_orderly_end_only_what_was_not_flushed() {
        let reset = Step::ReadFailed(io::ErrorKind::ConnectionReset);
        assert_eq!(walk(Stage::Open, &[Step::Close, reset]), disconnected(DisconnectReason::Reset));
        assert_eq!(
            walk(Stage::Open, &[Step::Close, Step::Flushed, reset]),
            disconnected(DisconnectReason::ClosedByUs)
        );
    }

    #[test]
    fn an_attempt_ends_as_one_whoever_ends_it() {
        for step in [Step::Close, Step::End(DisconnectReason::Kicked)] {
            let cancelled = Stage::Ended(Ending::ConnectFailed(ConnectFailure::Cancelled));
            assert_eq!(Stage::Connecting.after(step), cancelled);
        }
    }

    #[test]
    fn a_shutdown_keeps_the_reason_of_what_was_ending_already() {
        let closing = walk(Stage::Open, &[Step::Close, Step::Shutdown, Step::Flushed, FIN]);
        assert_eq!(closing, disconnected(DisconnectReason::ClosedByUs));
        let open = walk(Stage::Open, &[Step::Shutdown, Step::Flushed, FIN]);
        assert_eq!(open, disconnected(DisconnectReason::Shutdown));
        let replying = walk(Stage::Open, &[FIN, Step::Shutdown, Step::Flushed]);
        assert_eq!(replying, disconnected(DisconnectReason::Shutdown));
        let failed = Stage::Ended(Ending::ConnectFailed(ConnectFailure::Shutdown));
        assert_eq!(Stage::Connecting.after(Step::Shutdown), failed);
    }

    #[test]
    fn the_end_is_final() {
        let ended = disconnected(DisconnectReason::Kicked);
        for step in [
            Step::Established,
            Step::ConnectFailed(ConnectFailure::Refused),
            FIN,
            Step::LastFetched,
            Step::ReadFailed(io::ErrorKind::ConnectionReset),
            Step::Flushed,
            Step::Close,
            Step::Shutdown,
            Step::End(DisconnectReason::Reset),
        ] {
            assert_eq!(ended.after(step), ended);
        }
    }
}
