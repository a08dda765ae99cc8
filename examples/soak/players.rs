//! Players who stay: each has some messages under way at any time, and checks every byte of their echoes.

use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;

use tickwire::{ConnId, Event, Reactor};

pub(crate) struct Players {
    players: Vec<Player>,
    by_conn: HashMap<ConnId, usize>,
    pub(crate) faults: Vec<String>,
}

struct Player {
    conn: ConnId,
    sent: u64,
    heard: u64,
}

impl Players {
    pub(crate) fn join(clients: &mut Reactor, addr: SocketAddr) -> io::Result<Players> {
        let join = |_| Ok(Player { conn: clients.connect(addr)?, sent: 0, heard: 0 });
        let players: Vec<Player> = (0..PLAYERS).map(join).collect::<io::Result<_>>()?;
        let by_conn = players.iter().enumerate().map(|(nth, player)| (player.conn, nth)).collect();
        Ok(Players { players, by_conn, faults: Vec::new() })
    }

    pub(crate) fn len(&self) -> usize {
        self.players.len()
    }

    /// Everybody says as much as may be under way.
    pub(crate) fn speak(&mut self, clients: &mut Reactor) {
        let mut outbox = clients.outbox();
        let mut payload = [0; LEN_MAX];
        for (nth, player) in self.players.iter_mut().enumerate() {
            while player.sent < player.heard + UNDER_WAY_MAX {
                let len = fill(&mut payload, nth, player.sent);
                if outbox.send(player.conn, &payload[..len]).is_err() {
                    break;
                }
                player.sent += 1;
            }
        }
    }

    /// Whether the event was about a player.
    pub(crate) fn heard(&mut self, event: &Event<'_>) -> bool {
        let conn = match *event {
            Event::Connected { conn, .. } | Event::Message { conn, .. } => conn,
            Event::Disconnected { conn, .. } | Event::ConnectFailed { conn, .. } => conn,
            _ => return false,
        };
        let Some(&nth) = self.by_conn.get(&conn) else { return false };
        let player = &mut self.players[nth];
        match event {
            Event::Message { payload, .. } => {
                let mut expected = [0; LEN_MAX];
                let len = fill(&mut expected, nth, player.heard);
                if *payload != &expected[..len] || player.heard >= player.sent {
                    self.faults.push(format!("player {nth}: echo {} is wrong", player.heard));
                }
                player.heard += 1;
            }
            Event::Connected { .. } => {}
            other => self.faults.push(format!("player {nth}: {other:?}")),
        }
        true
    }

    /// Whether all echoes have come, or never will.
    pub(crate) fn are_silent(&self) -> bool {
        !self.faults.is_empty() || self.players.iter().all(|player| player.sent == player.heard)
    }
}

/// What a player says the `sequence`-th time. Most messages are short; a few are large.
fn fill(payload: &mut [u8; LEN_MAX], player: usize, sequence: u64) -> usize {
    let word = (sequence << 8 | player as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let len = match sequence % 1_000 {
        0 => LEN_MAX,
        nth if nth % 100 == 0 => 1_000 + (word >> 56) as usize,
        _ => (word >> 58) as usize,
    };
    for (nth, chunk) in payload[..len].chunks_mut(8).enumerate() {
        chunk.copy_from_slice(&word.rotate_left(nth as u32 & 63).to_le_bytes()[..chunk.len()]);
    }
    len
}

const PLAYERS: usize = 32;
/// Messages of a player that have no echo yet.
const UNDER_WAY_MAX: u64 = 500;
const LEN_MAX: usize = 16_384;
