//! Peers without a reactor: they write in pieces, stop in the middle, lie, reset, read slowly or not at all.

use tickwire::sim::{RawPeer, SimWorld};
use tickwire::{Addr, Framing};

use crate::checker::WireIndex;
use crate::harness::frame;
use crate::plan::Plan;
use crate::talk::Talk;

#[derive(Default)]
pub(crate) struct Peers {
    peers: Vec<RawPlayer>,
}

/// A raw peer, and what it has yet to write.
struct RawPlayer {
    wire: WireIndex,
    peer: Option<RawPeer>,
    pending: Vec<u8>,
}

impl Peers {
    pub(crate) fn len(&self) -> usize {
        self.peers.len()
    }

    pub(crate) fn connect(&mut self, talk: &mut Talk, world: &SimWorld, to: &Addr) {
        let nth = 100 + self.peers.len() as u8;
        let peer = world.raw_connect([10, 0, 0, nth].into(), to);
        let wire = talk.checker.raw_connecting(peer.local_addr());
        talk.checker.raw(wire).deaf = talk.rng.chance(200);
        self.peers.push(RawPlayer { wire, peer: Some(peer), pending: Vec::new() });
    }

    /// A peer writes, reads, and then says or does something.
    pub(crate) fn act(&mut self, nth: usize, talk: &mut Talk, plan: &Plan) {
        let player = &mut self.peers[nth];
        player.write_some(talk);
        player.read(talk, true);
        let raw = talk.checker.raw(player.wire);
        if player.peer.is_none() || raw.finished || raw.truncated || raw.lied || raw.stuck {
            return;
        }
        match talk.rng.below(plan.raw_patience) {
            0 => {
                raw.finished = true;
                player.write_all();
                player.peer().shutdown_write();
            }
            1 => {
                raw.truncated = true;
                player.write_a_part(talk, plan);
                player.peer().shutdown_write();
            }
            2 => {
                raw.lied = true;
                let declared = plan.frame_len_max as u32 + 1;
                let is_empty = plan.framing == Framing::Telepathy && nth % 2 == 0;
                let header = if is_empty { [0; 4] } else { declared.to_be_bytes() };
                player.pending.extend(header);
                player.write_all();
            }
            3 => {
                raw.reset = true;
                if let Some(peer) = player.peer.take() {
                    peer.reset();
                }
            }
            4 => {
                raw.finished = true;
                raw.dropped = true;
                player.write_all();
                player.peer = None;
            }
            5 => {
                raw.stuck = true;
                player.write_a_part(talk, plan);
            }
            _ => player.say(talk, plan),
        }
    }

    /// Whatever is pending is written, and what has come is read; whoever is told of the end leaves.
    pub(crate) fn calm(&mut self, talk: &mut Talk, is_ending: bool) {
        for player in &mut self.peers {
            player.write_all();
            player.read(talk, false);
            let is_done = player.peer.as_ref().is_some_and(|peer| peer.is_eof() || peer.is_reset());
            if is_done && is_ending {
                player.peer = None;
            }
        }
    }
}

impl RawPlayer {
    fn peer(&mut self) -> &mut RawPeer {
        self.peer.as_mut().expect("it has not ended")
    }

    fn say(&mut self, talk: &mut Talk, plan: &Plan) {
        for _ in 0..talk.rng.between(0, 3) {
            let Some(payload) = talk.think(plan.frame_len_max) else { continue };
            let is_fine = payload.len() <= plan.frame_len_max
                && !(payload.is_empty() && plan.framing == Framing::Telepathy);
            if is_fine {
                talk.checker.raw_said(self.wire, &payload);
                self.pending.extend(frame(&payload));
            }
        }
    }

    /// The last that it writes: a frame without its end, cut anywhere.
    fn write_a_part(&mut self, talk: &mut Talk, plan: &Plan) {
        let most = if talk.rng.chance(300) { plan.frame_len_max } else { 1_000 };
        let len = talk.rng.between(1, plan.frame_len_max.min(most).min(talk.bytes_left.max(1)));
        talk.bytes_left = talk.bytes_left.saturating_sub(len);
        let cut = talk.rng.between(1, 4 + len - 1);
        self.pending.extend(&frame(&vec![0xdd; len])[..cut]);
        self.write_all();
    }

    fn write_some(&mut self, talk: &mut Talk) {
        let RawPlayer { peer: Some(peer), pending, .. } = self else { return };
        for _ in 0..talk.rng.between(0, 3) {
            let len = talk.rng.between(0, pending.len());
            peer.write(&pending[..len]);
            pending.drain(..len);
        }
    }

    fn write_all(&mut self) {
        let RawPlayer { peer: Some(peer), pending, .. } = self else { return };
        peer.write(pending);
        pending.clear();
    }

    fn read(&mut self, talk: &mut Talk, is_slow: bool) {
        let RawPlayer { peer: Some(peer), wire, .. } = self else { return };
        let raw = talk.checker.raw(*wire);
        if raw.deaf {
            return;
        }
        let bytes = match is_slow {
            true => peer.read_at_most(talk.rng.between(0, 5_000)),
            false => peer.read(),
        };
        raw.heard.extend(bytes);
        raw.at_eof = peer.is_eof();
        raw.was_reset = peer.is_reset();
    }
}
