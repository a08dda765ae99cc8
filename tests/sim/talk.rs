//! What is said in a story: payloads, the ways in which they are sent, and the checker's knowledge of both.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use bytes::Bytes;
use tickwire::sim::{Rng, SimNet};
use tickwire::{ConnId, EncodeError, Handle, Outbox, Reactor, SendError};

use crate::checker::{Checker, HostIndex};
use crate::plan::Settings;

/// Whoever speaks, speaks through this.
pub(crate) struct Talk {
    pub(crate) rng: Rng,
    pub(crate) checker: Checker,
    pub(crate) messages_left: usize,
    pub(crate) bytes_left: usize,
}

/// Who speaks.
#[derive(Clone, Copy)]
pub(crate) struct Speaker<'a> {
    pub(crate) host: HostIndex,
    pub(crate) settings: &'a Settings,
}

/// What another thread asks for.
pub(crate) enum Errand {
    Send(ConnId, Vec<u8>),
    Close(ConnId),
    Kick(ConnId),
}

/// A game that fails: unlike `panic!`, not told on the screen.
struct GamePanic;

/// Runs a game that may fail by itself. Returns whether it did not.
pub(crate) fn survives(game: impl FnOnce()) -> bool {
    match catch_unwind(AssertUnwindSafe(game)) {
        Ok(()) => true,
        Err(panic) if panic.is::<GamePanic>() => false,
        Err(panic) => resume_unwind(panic),
    }
}

pub(crate) fn fail() -> ! {
    resume_unwind(Box::new(GamePanic))
}

impl Talk {
    /// Something to say, while there is anything left to be said.
    pub(crate) fn think(&mut self, frame_len_max: usize) -> Option<Vec<u8>> {
        let most = frame_len_max.min(self.bytes_left);
        let len = match self.rng.below(10) {
            0 => 0,
            1 => 1,
            2 if self.rng.chance(100) => most,
            3 if self.rng.chance(300) => frame_len_max + 1,
            4 => self.rng.between(0, most.min(2_000)),
            _ => self.rng.between(0, most.min(50)),
        };
        if len > frame_len_max {
            return Some(vec![0; len]); // never leaves
        }
        self.bytes_left = self.bytes_left.checked_sub(4 + len)?;
        self.messages_left = self.messages_left.checked_sub(1)?;
        let mut payload = vec![0; len];
        self.rng.fill(&mut payload);
        Some(payload)
    }

    pub(crate) fn say(&mut self, by: Speaker<'_>, outbox: &mut Outbox<'_>, conn: ConnId) {
        let Some(payload) = self.think(by.settings.frame_len_max) else { return };
        let answer = match self.rng.below(4) {
            0 => outbox.send_with(conn, |writer| {
                let (one, other) = payload.split_at(payload.len() / 2);
                writer.put_slice(one);
                writer.put_slice(other);
            }),
            1 => {
                let given_up = outbox.try_send_with(conn, |writer| {
                    writer.put_slice(&payload);
                    Err("changed my mind")
                });
                assert!(matches!(
                    given_up,
                    Err(EncodeError::Encode(_)
                        | EncodeError::Send(SendError::Stale | SendError::Closing))
                ));
                outbox.send(conn, &payload)
            }
            _ => outbox.send(conn, &payload),
        };
        self.checker.sent(by.host, conn, &payload, answer);
    }

    /// Begins a message and fails in the middle of it.
    pub(crate) fn stammer(&mut self, outbox: &mut Outbox<'_>, conn: ConnId) {
        let len = self.rng.between(0, 300);
        survives(|| {
            let _ = outbox.send_with(conn, |writer| {
                writer.put_slice(&vec![0xee; len]);
                fail();
            });
        });
    }

    pub(crate) fn say_latest(
        &mut self,
        by: Speaker<'_>,
        reactor: &mut Reactor<SimNet>,
        conn: ConnId,
    ) {
        let Some(payload) = self.think(by.settings.frame_len_max) else { return };
        let kind = self.rng.below(3) as u32;
        let before = reactor.stats().messages_superseded;
        let answer = reactor.outbox().send_latest(conn, kind, &payload);
        match reactor.stats().messages_superseded - before {
            0 => {}
            1 => self.checker.superseded(by.host, conn, kind),
            more => panic!("{more} superseded by one"),
        }
        self.checker.sent(by.host, conn, &payload, answer);
        if answer.is_ok() {
            self.checker.is_latest(by.host, conn, kind);
        }
    }

    /// Has another thread ask for something, so to speak.
    pub(crate) fn hand_in(
        &mut self,
        by: Speaker<'_>,
        handle: &Handle,
        conn: ConnId,
        ends: u32,
    ) -> Option<Errand> {
        if self.rng.chance(ends) {
            let kick = self.rng.chance(500);
            assert!(if kick { handle.kick(conn) } else { handle.close(conn) });
            return Some(if kick { Errand::Kick(conn) } else { Errand::Close(conn) });
        }
        let payload = self.think(by.settings.frame_len_max)?;
        match handle.send(conn, payload.clone()) {
            Ok(()) => Some(Errand::Send(conn, payload)),
            Err(SendError::Full | SendError::TooLarge) => None,
            Err(SendError::Stale) => {
                self.checker.sent(by.host, conn, &payload, Err(SendError::Closing));
                None
            }
            Err(other) => panic!("{other:?} from a handle"),
        }
    }

    pub(crate) fn echo(
        &mut self,
        by: Speaker<'_>,
        outbox: &mut Outbox<'_>,
        conn: ConnId,
        payload: &[u8],
    ) {
        let answer = outbox.send(conn, payload);
        self.checker.sent(by.host, conn, payload, answer);
    }

    pub(crate) fn broadcast(&mut self, by: Speaker<'_>, outbox: &mut Outbox<'_>, conns: &[ConnId]) {
        let Some(payload) = self.think(by.settings.frame_len_max) else { return };
        let shared = self.rng.chance(500);
        let broadcast = match shared {
            true => outbox.broadcast_bytes(conns, &Bytes::from(payload.clone())),
            false => outbox.broadcast(conns, &payload),
        };
        assert_eq!(broadcast.sent + broadcast.refused.len(), conns.len());
        for &conn in conns {
            let refused = broadcast.refused.iter().find(|(refused, _)| *refused == conn);
            let answer = refused.map_or(Ok(()), |(_, error)| Err(*error));
            self.checker.sent(by.host, conn, &payload, answer);
        }
    }

    pub(crate) fn end(
        &mut self,
        host: HostIndex,
        outbox: &mut Outbox<'_>,
        conn: ConnId,
        kick: bool,
    ) {
        let answer = if kick { outbox.kick(conn) } else { outbox.close(conn) };
        self.checker.closed(host, conn, kick, answer);
    }
}
