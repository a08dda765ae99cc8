//! What must hold for every connection, whatever happens to it.
//!
//! The checker is told all that is said to the reactors and all that they answer. It knows which
//! connection of one reactor is which of another, and so what each may hear: the other's messages, in
//! order, byte by byte, between one first event and one last.

use std::collections::{BTreeMap, HashMap};
use std::fmt;

use tickwire::{Addr, ConnId, ConnectFailure, DisconnectReason, Event, SendError};

use super::harness::frames;

/// Which reactor: an index that the swarm gives.
pub(crate) type HostIndex = usize;
/// Which connection, both ends of it.
pub(crate) type WireIndex = usize;

#[derive(Default)]
pub(crate) struct Checker {
    wires: Vec<Wire>,
    /// Clients' addresses, by which a server names them.
    by_addr: HashMap<Addr, WireIndex>,
    by_id: HashMap<(HostIndex, ConnId), (WireIndex, usize)>,
    /// How many of each kind of event there were, for judging the stories themselves.
    pub(crate) tally: BTreeMap<String, usize>,
    /// Whether the network resets connections by itself, or the system loses clients.
    pub(crate) is_stormy: bool,
    /// Whether time-outs, rates and the like may end connections at any moment, with what is queued.
    pub(crate) is_abrupt: bool,
    shut: Vec<HostIndex>,
    /// Counts the ticks of each.
    turns: HashMap<HostIndex, u64>,
}

/// One connection: what its client (end 0) and its server (end 1) know.
struct Wire {
    ends: [End; 2],
}

/// One end of a connection.
#[derive(Default)]
struct End {
    stage: Stage,
    /// The messages that were taken.
    said: Vec<Vec<u8>>,
    /// The last of each kind that may be superseded, as an index of `said`.
    latest: BTreeMap<u32, usize>,
    is_high: bool,
    /// How many of the other end's messages were heard.
    heard: usize,
    /// The length of their frames.
    heard_len: u64,
    /// In which turn the last was heard, or the connection.
    heard_at: u64,
    /// `close` was called.
    closed: bool,
    /// `kick` was called, or a policy did so.
    kicked: bool,
    was_full: bool,
    /// What a raw peer did to it.
    raw: Option<Raw>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Stage {
    /// Nothing is known of it (yet).
    #[default]
    Unborn,
    Connecting,
    Open,
    Over(DisconnectReason),
    Failed(ConnectFailure),
}

/// A raw peer's end.
#[derive(Default)]
pub(crate) struct Raw {
    pub(crate) heard: Vec<u8>,
    /// It has sent FIN, after whole frames only.
    pub(crate) finished: bool,
    /// It has sent FIN in the middle of a frame.
    pub(crate) truncated: bool,
    /// It has announced a frame that is too large, or sent an empty one to Telepathy.
    pub(crate) lied: bool,
    /// It has reset the connection, or closed with unread input.
    pub(crate) reset: bool,
    /// It has read the other's FIN.
    pub(crate) at_eof: bool,
    /// The other end, or the network, has reset the connection.
    pub(crate) was_reset: bool,
    /// It does not read.
    pub(crate) deaf: bool,
    /// It has fallen silent in the middle of a frame.
    pub(crate) stuck: bool,
    pub(crate) dropped: bool,
}

impl Stage {
    fn is_over(self) -> bool {
        matches!(self, Stage::Over(_) | Stage::Failed(_))
    }
}

const CLIENT_END: usize = 0;
const SERVER_END: usize = 1;

impl Checker {
    // What is done.

    /// A connect has begun; `addr` is the local address, unless it failed on the spot.
    pub(crate) fn connecting(&mut self, host: HostIndex, conn: ConnId, addr: Option<Addr>) {
        let client = End { stage: Stage::Connecting, ..End::default() };
        let wire = self.add(client, addr);
        let before = self.by_id.insert((host, conn), (wire, CLIENT_END));
        assert!(before.is_none(), "{conn} was given twice");
    }

    /// A raw peer connects.
    pub(crate) fn raw_connecting(&mut self, addr: Addr) -> WireIndex {
        let raw = Some(Raw::default());
        self.add(End { stage: Stage::Open, raw, ..End::default() }, Some(addr))
    }

    fn add(&mut self, client: End, addr: Option<Addr>) -> WireIndex {
        let wire = self.wires.len();
        self.wires.push(Wire { ends: [client, End::default()] });
        if let Some(addr) = addr {
            let before = self.by_addr.insert(addr, wire);
            assert!(before.is_none(), "the simulation gave a port twice");
        }
        wire
    }

    pub(crate) fn raw(&mut self, wire: WireIndex) -> &mut Raw {
        self.wires[wire].ends[CLIENT_END].raw.as_mut().expect("a raw peer's wire")
    }

    pub(crate) fn raw_said(&mut self, wire: WireIndex, payload: &[u8]) {
        self.wires[wire].ends[CLIENT_END].said.push(payload.to_vec());
    }

    /// A message was sent, and this was the answer.
    pub(crate) fn sent(
        &mut self,
        host: HostIndex,
        conn: ConnId,
        payload: &[u8],
        answer: Result<(), SendError>,
    ) {
        let told = answer.map_or_else(|error| format!("{error:?}"), |()| "Ok".to_owned());
        *self.tally.entry(format!("sent {told}")).or_default() += 1;
        let end = self.end(host, conn);
        match answer {
            Ok(()) => {
                assert!(!end.closed && !end.kicked, "{conn} takes messages after its close");
                assert!(!end.stage.is_over(), "{conn} takes messages after its end");
                end.said.push(payload.to_vec());
            }
            Err(SendError::Stale) => assert!(end.stage.is_over(), "{conn} is stale: {end:?}"),
            Err(SendError::Closing) => {
                let has_a_reason = end.is_ending() || self.end_may_be_near(host, conn);
                assert!(has_a_reason, "{conn} is not closing: {:?}", self.end(host, conn));
                assert!(!self.is_over(host, conn), "{conn} is over, not closing");
            }
            Err(SendError::Full) => end.was_full = true,
            Err(SendError::TooLarge | SendError::Empty) => {}
            Err(other) => panic!("an answer that the checker does not know: {other:?}"),
        }
    }

    /// Whether an end that did nothing for it may be told that it is closing: something has happened
    /// to the other end, of which the game will hear later.
    fn end_may_be_near(&self, host: HostIndex, conn: ConnId) -> bool {
        let (wire, at) = self.by_id[&(host, conn)];
        let [ours, theirs] = [&self.wires[wire].ends[at], &self.wires[wire].ends[1 - at]];
        // A peer that has only half-closed gets replies until the tick after that of its last message.
        let may_reply = theirs.raw.as_ref().is_some_and(Raw::has_half_closed)
            && (ours.heard < theirs.said.len() || ours.heard_at == self.turn(host));
        // A connect may have failed already.
        ours.stage == Stage::Connecting
            || self.is_stormy
            || theirs.is_ending() && !may_reply
            || theirs.stage.is_over()
    }

    /// The last message that was said is one of a kind.
    pub(crate) fn is_latest(&mut self, host: HostIndex, conn: ConnId, kind: u32) {
        let end = self.end(host, conn);
        end.latest.insert(kind, end.said.len() - 1);
    }

    /// The last message of this kind will never be heard.
    pub(crate) fn superseded(&mut self, host: HostIndex, conn: ConnId, kind: u32) {
        let (wire, at) = self.by_id[&(host, conn)];
        let heard = self.wires[wire].ends[1 - at].heard;
        let end = &mut self.wires[wire].ends[at];
        let index = end.latest.remove(&kind).expect("there was one of this kind");
        assert!(heard <= index, "{conn}: superseded after it was heard");
        end.said.remove(index);
        end.latest.values_mut().filter(|other| **other > index).for_each(|other| *other -= 1);
    }

    /// What was handed in from outside is in the queue.
    pub(crate) fn handed_in(&mut self, host: HostIndex, conn: ConnId, payload: Vec<u8>) {
        let end = self.end(host, conn);
        assert!(!end.closed && !end.kicked, "{conn} takes messages after its close");
        end.said.push(payload);
    }

    /// A reactor leaves.
    pub(crate) fn shut(&mut self, host: HostIndex) {
        self.shut.push(host);
        let theirs: Vec<_> = self.by_id.iter().filter(|((of, _), _)| *of == host).collect();
        for (_, &(wire, end)) in theirs {
            self.wires[wire].ends[end].closed = true;
        }
    }

    pub(crate) fn closed(&mut self, host: HostIndex, conn: ConnId, kick: bool, answer: bool) {
        let end = self.end(host, conn);
        assert_eq!(answer, !end.stage.is_over(), "{conn}: {end:?}");
        if answer {
            end.closed |= !kick;
            end.kicked |= kick;
        }
    }

    /// Another thread had asked for this end, and its request was carried out.
    pub(crate) fn closed_from_outside(&mut self, host: HostIndex, conn: ConnId, kick: bool) {
        let end = self.end(host, conn);
        if !end.stage.is_over() {
            end.closed |= !kick;
            end.kicked |= kick;
        }
    }

    /// Whether the next message for this end is whole among the bytes that have arrived, and the game wants it.
    pub(crate) fn is_due(&self, host: HostIndex, conn: ConnId, arrived: u64) -> bool {
        let (wire, at) = self.by_id[&(host, conn)];
        let [ours, theirs] = [&self.wires[wire].ends[at], &self.wires[wire].ends[1 - at]];
        let is_wanted = ours.stage == Stage::Open && !ours.closed && !ours.kicked;
        let next = theirs.said.get(ours.heard).filter(|_| is_wanted);
        next.is_some_and(|payload| ours.heard_len + 4 + payload.len() as u64 <= arrived)
    }

    /// Whether this reactor has told of such a connection, or begun it.
    pub(crate) fn is_known(&self, host: HostIndex, conn: ConnId) -> bool {
        self.by_id.contains_key(&(host, conn))
    }

    /// Whether this end has heard any message yet.
    pub(crate) fn has_heard(&self, host: HostIndex, conn: ConnId) -> bool {
        let (wire, at) = self.by_id[&(host, conn)];
        self.wires[wire].ends[at].heard > 0
    }

    /// Whether the game believes that much is queued, and will hear when it is not.
    pub(crate) fn is_high(&self, host: HostIndex, conn: ConnId) -> bool {
        let (wire, at) = self.by_id[&(host, conn)];
        let end = &self.wires[wire].ends[at];
        end.is_high && end.stage == Stage::Open && !end.closed && !end.kicked
    }

    /// Whether the other end has stopped in the middle of a frame.
    pub(crate) fn is_stuck(&self, host: HostIndex, conn: ConnId) -> bool {
        let (wire, at) = self.by_id[&(host, conn)];
        self.wires[wire].ends[1 - at].raw.as_ref().is_some_and(|raw| raw.stuck)
    }

    /// Whether the game may still speak of this connection.
    pub(crate) fn is_over(&self, host: HostIndex, conn: ConnId) -> bool {
        let (wire, end) = self.by_id[&(host, conn)];
        self.wires[wire].ends[end].stage.is_over()
    }

    /// A tick begins.
    pub(crate) fn next_turn(&mut self, host: HostIndex) {
        *self.turns.entry(host).or_default() += 1;
    }

    fn turn(&self, host: HostIndex) -> u64 {
        self.turns.get(&host).copied().unwrap_or(0)
    }

    // What is heard.

    pub(crate) fn saw(&mut self, host: HostIndex, event: &Event<'_>) {
        *self.tally.entry(kind(event)).or_default() += 1;
        match *event {
            Event::Connected { conn, ref peer, listener, .. } => {
                if listener.is_some() {
                    let wire = *self.by_addr.get(peer).expect("nobody connected from there");
                    let before = self.by_id.insert((host, conn), (wire, SERVER_END));
                    assert!(before.is_none(), "{conn} was given twice");
                    let end = &self.wires[wire].ends[SERVER_END];
                    assert_eq!(end.stage, Stage::Unborn, "{conn} connects twice");
                } else {
                    assert_eq!(self.end(host, conn).stage, Stage::Connecting, "{conn}");
                }
                let is_shut = self.shut.contains(&host);
                let turn = self.turn(host);
                let end = self.end(host, conn);
                end.stage = Stage::Open;
                end.heard_at = turn;
                end.closed |= is_shut;
            }
            Event::Message { conn, payload } => self.saw_message(host, conn, payload),
            Event::SendQueueHigh { conn } | Event::SendQueueLow { conn } => {
                let is_high = matches!(event, Event::SendQueueHigh { .. });
                let end = self.end(host, conn);
                assert_eq!(end.stage, Stage::Open, "{event:?}");
                assert!(!end.closed && !end.kicked, "{event:?} after its close");
                assert_ne!(
                    std::mem::replace(&mut end.is_high, is_high),
                    is_high,
                    "{event:?} twice"
                );
            }
            Event::Disconnected { conn, reason } => {
                let (wire, end) = self.by_id[&(host, conn)];
                let is_shut = self.shut.contains(&host);
                assert!(is_shut || reason != DisconnectReason::Shutdown, "{conn}");
                self.check_reason(wire, end, reason);
                let end = &mut self.wires[wire].ends[end];
                assert_eq!(end.stage, Stage::Open, "{conn} ends with {reason:?}");
                end.stage = Stage::Over(reason);
            }
            Event::ConnectFailed { conn, reason } => {
                let end = self.end(host, conn);
                assert_eq!(end.stage, Stage::Connecting, "{conn} fails with {reason:?}");
                let cancelled = end.closed || end.kicked || end.was_full;
                assert!(cancelled || reason != ConnectFailure::Cancelled, "cancelled by nobody");
                end.stage = Stage::Failed(reason);
            }
            ref other => panic!("an event that the checker does not know: {other:?}"),
        }
    }

    fn saw_message(&mut self, host: HostIndex, conn: ConnId, payload: &[u8]) {
        let (wire, at) = self.by_id[&(host, conn)];
        let turn = self.turn(host);
        let ends = &mut self.wires[wire].ends;
        let nth = ends[at].heard;
        assert_eq!(ends[at].stage, Stage::Open, "message {nth} of {conn}");
        assert!(!ends[at].closed && !ends[at].kicked, "message {nth} of {conn} after its close");
        let Some(said) = ends[1 - at].said.get(nth) else {
            panic!("{conn} hears {} bytes that nobody said", payload.len());
        };
        assert!(
            said == payload,
            "message {nth} of {conn}: {} bytes were said, {} other ones heard",
            said.len(),
            payload.len()
        );
        ends[at].heard += 1;
        ends[at].heard_at = turn;
        ends[at].heard_len += 4 + payload.len() as u64;
    }

    /// Whether an end can have come about in this way.
    fn check_reason(&self, wire: WireIndex, at: usize, reason: DisconnectReason) {
        let ends = &self.wires[wire].ends;
        let (ours, theirs) = (&ends[at], &ends[1 - at]);
        let all_heard = || {
            if ours.is_ending() || self.is_abrupt {
                return; // what comes after a close is discarded
            }
            let (heard, said) = (ours.heard, theirs.said.len());
            assert_eq!(heard, said, "messages heard before {reason:?}; the other end: {theirs:?}");
        };
        let raw = theirs.raw.as_ref();
        let was_turned_away =
            (self.is_stormy || !self.shut.is_empty()) && theirs.stage == Stage::Unborn;
        match reason {
            DisconnectReason::ClosedByPeer => {
                let they_ended =
                    theirs.closed || theirs.stage.is_over() || was_turned_away || self.is_abrupt;
                let they_finished = raw.is_some_and(|raw| raw.finished);
                let was_cancelled = matches!(theirs.stage, Stage::Connecting | Stage::Failed(_));
                let had_cause = they_ended || they_finished || was_cancelled;
                assert!(had_cause, "closed by nobody: {theirs:?}");
                if !was_cancelled {
                    all_heard();
                }
            }
            DisconnectReason::Truncated => {
                let they_truncated = raw.is_some_and(|raw| raw.truncated);
                assert!(they_truncated || self.is_abrupt, "not truncated: {theirs:?}");
                all_heard();
            }
            DisconnectReason::FrameTooLarge { .. } | DisconnectReason::BadFrame(_) => {
                assert!(raw.is_some_and(|raw| raw.lied), "no bad frame: {theirs:?}");
                all_heard();
            }
            DisconnectReason::ClosedByUs => assert!(ours.closed, "closed by somebody else"),
            DisconnectReason::Kicked => assert!(ours.kicked, "kicked by nobody"),
            DisconnectReason::SendQueueFull => {
                assert!(ours.was_full || self.is_abrupt, "its queue was not full");
            }
            DisconnectReason::Shutdown => {}
            DisconnectReason::WriteStall => {} // 30 s, if nothing else is set
            DisconnectReason::Idle
            | DisconnectReason::FirstFrame
            | DisconnectReason::FrameDeadline
            | DisconnectReason::RateLimit
            | DisconnectReason::MemoryLimit => assert!(self.is_abrupt, "{reason:?}"),
            DisconnectReason::CloseDeadline => {
                let they_ended = theirs.is_ending()
                    || theirs.stage.is_over()
                    || was_turned_away
                    || self.is_abrupt;
                assert!(ours.closed || they_ended, "nothing ended: {ours:?} / {theirs:?}");
            }
            // Whether there was cause for it is known when both ends are over.
            DisconnectReason::Reset => {}
            DisconnectReason::TimedOut | DisconnectReason::Io(_) => {
                assert!(self.is_stormy, "{reason:?} out of the blue");
            }
            other => panic!("a reason that the checker does not know: {other:?}"),
        }
    }

    // The whole.

    /// Whether all is heard that was said on connections that live, and no end waits for its other
    /// one: nothing more will happen by itself.
    pub(crate) fn is_quiet(&self) -> bool {
        self.restless().is_none()
    }

    /// A connection on which something has still to happen.
    pub(crate) fn restless(&self) -> Option<String> {
        self.wires.iter().enumerate().find_map(|(nth, wire)| {
            let [client, server] = &wire.ends;
            let what = wire.restless()?;
            Some(format!("{what} on wire {nth}: {client:?} / {server:?}"))
        })
    }

    /// After everything has been closed: every id had its end, and nothing was lost that had to
    /// arrive.
    pub(crate) fn check_all_over(&self) {
        for (nth, wire) in self.wires.iter().enumerate() {
            let [client, server] = &wire.ends;
            let client_is_over = client.raw.is_some() || client.stage.is_over();
            let server_is_over = server.stage == Stage::Unborn || server.stage.is_over();
            let is_over = client_is_over && server_is_over;
            assert!(is_over, "wire {nth} has not ended: {client:?} / {server:?}");
            for (ours, theirs) in [(client, server), (server, client)] {
                if ours.stage == Stage::Over(DisconnectReason::Reset) {
                    let had_cause = self.is_stormy || theirs.may_have_reset();
                    assert!(had_cause, "wire {nth} reset by nobody: {ours:?} / {theirs:?}");
                }
            }
            let Some(raw) = &client.raw else { continue };
            let said = frames(&server.said);
            assert!(said.starts_with(&raw.heard), "wire {nth} brought other bytes than were sent");
            if raw.listens_to_the_end() && server.has_flushed() && !self.is_stormy {
                assert!(!raw.was_reset, "wire {nth}: {client:?} / {server:?}");
                assert_eq!(raw.heard.len(), said.len(), "wire {nth}: {client:?} / {server:?}");
            }
            // A frame that is none ends the connection at once, with what was queued.
            if raw.at_eof && !raw.lied && !self.is_abrupt {
                assert_eq!(raw.heard.len(), said.len(), "wire {nth}: FIN came before the data");
            }
        }
    }

    fn end(&mut self, host: HostIndex, conn: ConnId) -> &mut End {
        let (wire, end) = self.by_id[&(host, conn)];
        &mut self.wires[wire].ends[end]
    }
}

/// `Disconnected Reset`, and the like.
fn kind(event: &Event<'_>) -> String {
    let told = match event {
        Event::Disconnected { reason, .. } => format!("Disconnected {reason:?}"),
        Event::ConnectFailed { reason, .. } => format!("ConnectFailed {reason:?}"),
        Event::Connected { .. } => "Connected".to_owned(),
        Event::SendQueueHigh { .. } => "SendQueueHigh".to_owned(),
        Event::SendQueueLow { .. } => "SendQueueLow".to_owned(),
        _ => "Message".to_owned(),
    };
    told.split([' ', '(']).take(2).collect::<Vec<_>>().join(" ")
}

impl Wire {
    fn restless(&self) -> Option<&'static str> {
        let [client, server] = &self.ends;
        if client.stage == Stage::Connecting {
            return Some("a connect is under way");
        }
        let server_waits = server.stage == Stage::Open;
        if let Some(raw) = &client.raw {
            let gone = raw.is_gone();
            let ends_soon = gone && server_waits;
            let deaf = raw.deaf || gone;
            let unheard = server_waits && server.heard < client.said.len();
            let unread = server_waits && !deaf && {
                let said: usize = server.said.iter().map(|payload| 4 + payload.len()).sum();
                raw.heard.len() < said
            };
            return match () {
                () if ends_soon => Some("a raw peer has ended"),
                () if unheard => Some("a raw peer is not heard"),
                () if unread => Some("a raw peer has not got everything"),
                () => None,
            };
        }
        let client_waits = client.stage == Stage::Open;
        match (client_waits, server_waits) {
            (true, true) => {
                let is_ending = client.closed || client.kicked || server.closed || server.kicked;
                let unheard = client.heard < server.said.len() || server.heard < client.said.len();
                match () {
                    () if is_ending => Some("an end is under way"),
                    () if unheard => Some("messages are under way"),
                    () => None,
                }
            }
            (true, false) if server.stage.is_over() => Some("the server's end is over"),
            (true, false) if client.closed || client.kicked => Some("a close is under way"),
            (false, true) => Some("the client's end is over"),
            _ => None,
        }
    }
}

impl End {
    /// Whether something was done to it that leads to its end.
    fn is_ending(&self) -> bool {
        self.closed || self.kicked || self.was_full || self.raw.as_ref().is_some_and(Raw::is_gone)
    }

    /// Whether it came to an orderly end, before which all that was queued has left.
    fn has_flushed(&self) -> bool {
        matches!(
            self.stage,
            Stage::Over(DisconnectReason::ClosedByPeer | DisconnectReason::ClosedByUs)
        )
    }

    /// Whether the other end may have seen a reset from here.
    fn may_have_reset(&self) -> bool {
        match &self.raw {
            Some(raw) => raw.reset || raw.dropped,
            None => !self.has_flushed() || self.kicked,
        }
    }
}

impl Raw {
    /// Whether everything that is sent to it should arrive.
    fn listens_to_the_end(&self) -> bool {
        !self.reset && !self.dropped && !self.deaf
    }

    /// Whether it has sent FIN and goes on reading.
    fn has_half_closed(&self) -> bool {
        (self.finished || self.truncated) && !self.reset && !self.dropped && !self.lied
    }

    fn is_gone(&self) -> bool {
        self.reset || self.finished || self.truncated || self.lied || self.dropped
    }
}

impl fmt::Debug for End {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let End { stage, said, heard, closed, kicked, was_full, raw, .. } = self;
        write!(f, "{stage:?}, said {}, heard {heard}", said.len())?;
        for (is_so, what) in [(closed, "closed"), (kicked, "kicked"), (was_full, "full")] {
            if *is_so {
                write!(f, ", {what}")?;
            }
        }
        match raw {
            Some(raw) => write!(f, ", {raw:?}"),
            None => Ok(()),
        }
    }
}

impl fmt::Debug for Raw {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "raw with {} bytes heard", self.heard.len())?;
        for (is_so, what) in [
            (self.finished, "finished"),
            (self.truncated, "truncated"),
            (self.lied, "lied"),
            (self.reset, "reset"),
            (self.at_eof, "at its end"),
            (self.was_reset, "was reset"),
            (self.deaf, "deaf"),
            (self.stuck, "stuck"),
            (self.dropped, "dropped"),
        ] {
            if is_so {
                write!(f, ", {what}")?;
            }
        }
        Ok(())
    }
}
