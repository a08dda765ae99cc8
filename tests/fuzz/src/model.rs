//! What must hold for one connection on a socket of [`FakeNet`](super::socket::FakeNet), in words as plain as the
//! contract's: what the reactor did with the socket is known byte by byte, and so is what the game may hear.

use std::io::ErrorKind;
use std::time::{Duration, Instant};

use tickwire::{ConnId, ConnectFailure, DisconnectReason, SendError};

use super::socket::{End, Gone, Socket};
use super::twin::{Story, Twin};

/// What the reactor was set to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rules {
    pub(crate) twin: Twin<'static>,
    pub(crate) frame_len_max: usize,
    pub(crate) send_queue_max: usize,
    /// Whether a full queue ends its connection.
    pub(crate) full_ends: bool,
    pub(crate) connect: Duration,
    pub(crate) close: Duration,
    pub(crate) first_frame: Option<Duration>,
    pub(crate) frame: Option<Duration>,
    pub(crate) idle: Option<Duration>,
    pub(crate) write_stall: Option<Duration>,
}

impl Rules {
    /// Whether a connection may end by itself, as its peer is slow.
    fn has_deadlines(&self) -> bool {
        [self.first_frame, self.frame, self.idle, self.write_stall].iter().any(Option::is_some)
    }
}

/// One connection as its game knows it.
#[derive(Debug)]
pub(crate) struct Life {
    pub(crate) conn: Option<ConnId>,
    pub(crate) stage: Stage,
    begun: Instant,
    /// The frames of the messages that were taken.
    said: Vec<u8>,
    heard: usize,
    /// Since when there is a reason for an end in order.
    ending_since: Option<Instant>,
    closed: bool,
    kicked: bool,
    was_full: bool,
    shut: bool,
    shut_at: Option<Instant>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// The game has not heard of it.
    Unborn,
    Connecting,
    Open,
    Over,
}

impl Life {
    pub(crate) fn new(conn: Option<ConnId>, now: Instant) -> Life {
        Life {
            conn,
            stage: if conn.is_some() { Stage::Connecting } else { Stage::Unborn },
            begun: now,
            said: Vec::new(),
            heard: 0,
            ending_since: None,
            closed: false,
            kicked: false,
            was_full: false,
            shut: false,
            shut_at: None,
        }
    }

    // What is done.

    /// Something happens that ends the connection some time later.
    pub(crate) fn begin_ending(&mut self, now: Instant) {
        self.ending_since.get_or_insert(now);
    }

    pub(crate) fn close(&mut self, now: Instant, kick: bool, answer: bool) {
        assert_eq!(answer, self.stage != Stage::Over, "the answer to a close: {self:?}");
        self.closed |= !kick && answer;
        self.kicked |= kick && answer;
        self.begin_ending(now);
    }

    /// Everything is to be over at `deadline`.
    pub(crate) fn shut(&mut self, now: Instant, deadline: Instant) {
        self.shut = true;
        self.shut_at = Some(self.shut_at.map_or(deadline, |before| before.min(deadline)));
        self.begin_ending(now);
    }

    fn is_muted(&self) -> bool {
        self.closed || self.kicked || self.shut || self.was_full
    }

    /// A message was sent, with so much in the queue before, and this was the answer.
    pub(crate) fn sent(
        &mut self,
        rules: &Rules,
        socket: Option<&Socket>,
        payload: &[u8],
        queued: usize,
        answer: Result<(), SendError>,
    ) {
        let frame = rules.twin.encode(payload, rules.frame_len_max);
        let needed = queued + frame.as_ref().map_or(0, Vec::len);
        match answer {
            Ok(()) => {
                assert!(self.stage != Stage::Over && !self.is_muted(), "taken by {self:?}");
                assert!(needed <= rules.send_queue_max, "{needed} bytes are queued");
                self.said.extend(frame.expect("only what has a frame is taken"));
            }
            Err(SendError::Stale) => assert_eq!(self.stage, Stage::Over, "{self:?}"),
            Err(SendError::Full) => {
                assert!(needed > rules.send_queue_max, "{needed} bytes would be queued");
                self.was_full |= rules.full_ends;
            }
            Err(SendError::Closing) => {
                let has_failed = socket.is_none_or(|socket| {
                    let is_bad = !matches!(
                        heard_of(rules, socket).reason,
                        DisconnectReason::ClosedByPeer | DisconnectReason::Truncated
                    );
                    let has_ended = socket.end_told.is_some() || socket.gone.is_some();
                    is_bad || has_ended || socket.send_error_told.is_some()
                });
                let may_be_late = rules.has_deadlines() || self.stage == Stage::Connecting;
                assert!(self.is_muted() || has_failed || may_be_late, "not closing: {self:?}");
                assert_ne!(self.stage, Stage::Over, "over, not closing");
            }
            Err(SendError::TooLarge | SendError::Empty) => assert_eq!(frame, None, "{answer:?}"),
            Err(other) => panic!("an answer that the model does not know: {other:?}"),
        }
    }

    // What is heard.

    pub(crate) fn connected(&mut self, socket: &Socket) {
        assert!(matches!(self.stage, Stage::Unborn | Stage::Connecting), "connected: {self:?}");
        assert_eq!(socket.outcome(), Some(Ok(())), "it has not come about");
        self.stage = Stage::Open;
    }

    pub(crate) fn message(&mut self, rules: &Rules, socket: &Socket, payload: &[u8]) {
        assert_eq!(self.stage, Stage::Open, "a message of {self:?}");
        assert!(!self.is_muted(), "a message after the end was asked for: {self:?}");
        let story = heard_of(rules, socket);
        assert!(story.said.get(self.heard).is_some_and(|said| said == payload), "{payload:?}");
        self.heard += 1;
    }

    pub(crate) fn connect_failed(
        &mut self,
        rules: &Rules,
        now: Instant,
        outcome: Option<ErrorKind>,
        socket: Option<&Socket>,
        reason: ConnectFailure,
    ) {
        assert_eq!(self.stage, Stage::Connecting, "{reason:?}");
        let is_late = now >= self.begun + rules.connect;
        let has_cause = match reason {
            ConnectFailure::TimedOut => is_late || outcome == Some(ErrorKind::TimedOut),
            ConnectFailure::Cancelled => self.closed || self.kicked || self.was_full,
            ConnectFailure::Shutdown => self.shut,
            ConnectFailure::Refused => outcome == Some(ErrorKind::ConnectionRefused),
            ConnectFailure::Unreachable => {
                matches!(outcome, Some(ErrorKind::HostUnreachable | ErrorKind::NetworkUnreachable))
            }
            ConnectFailure::AddrNotAvailable => outcome == Some(ErrorKind::AddrNotAvailable),
            ConnectFailure::Io(kind) => outcome == Some(kind),
            other => panic!("a reason that the model does not know: {other:?}"),
        };
        assert!(has_cause, "{reason:?} without a cause: {self:?}, {outcome:?}");
        if let Some(socket) = socket {
            assert_eq!(socket.gone, Some(Gone::Aborted), "{reason:?}");
            assert!(socket.sent.is_empty(), "sent on a connection that never came about");
        }
        self.stage = Stage::Over;
    }

    pub(crate) fn disconnected(
        &mut self,
        rules: &Rules,
        now: Instant,
        socket: &Socket,
        reason: DisconnectReason,
    ) {
        assert_eq!(self.stage, Stage::Open, "{reason:?}");
        self.stage = Stage::Over;
        let story = heard_of(rules, socket);
        let all_heard = self.heard == story.said.len() || self.is_muted();
        let all_left = socket.sent == self.said;
        let at_fin = socket.end_told == Some(End::Fin);
        let since = |begun: Instant, timeout: Option<Duration>| {
            timeout.is_some_and(|timeout| now >= begun + timeout)
        };
        let has_failed = |is_it: &dyn Fn(ErrorKind) -> bool| {
            let of_read = matches!(socket.end_told, Some(End::Failed(kind)) if is_it(kind));
            (of_read && all_heard) || socket.send_error_told.is_some_and(is_it)
        };
        let has_cause = match reason {
            DisconnectReason::ClosedByPeer => {
                at_fin && story.reason == reason && all_heard && all_left
            }
            DisconnectReason::Truncated => {
                at_fin && story.reason == reason && all_heard && all_left
            }
            DisconnectReason::Reset => has_failed(&is_reset),
            DisconnectReason::TimedOut => has_failed(&|kind| kind == ErrorKind::TimedOut),
            DisconnectReason::Io(told) => has_failed(&|kind| kind == told),
            DisconnectReason::ClosedByUs => {
                let heard_end = socket.end_told.is_some();
                self.closed && all_left && heard_end && (socket.fin_sent || at_fin)
            }
            DisconnectReason::CloseDeadline => {
                let is_late = |begun| since(begun, Some(rules.close));
                self.ending_since.is_some_and(is_late) || self.shut_at.is_some_and(|at| now >= at)
            }
            DisconnectReason::Kicked => self.kicked,
            DisconnectReason::FrameTooLarge { .. } | DisconnectReason::BadFrame(_) => {
                story.reason == reason && all_heard
            }
            DisconnectReason::Idle => since(self.begun, rules.idle),
            DisconnectReason::FirstFrame => {
                since(self.begun, rules.first_frame) && story.said.is_empty()
            }
            DisconnectReason::FrameDeadline => {
                since(self.begun, rules.frame) && story.reason == DisconnectReason::Truncated
            }
            DisconnectReason::WriteStall => since(self.begun, rules.write_stall) && !all_left,
            DisconnectReason::SendQueueFull => self.was_full,
            DisconnectReason::Shutdown => self.shut,
            other => panic!("a reason that the model does not know: {other:?}"),
        };
        assert!(has_cause, "{reason:?} without a cause: {self:?}, {story:?}");
        self.check_socket(socket, reason);
    }

    /// How the socket has to be given back: what was sent is lost by a reset, and only then.
    fn check_socket(&self, socket: &Socket, reason: DisconnectReason) {
        assert!(self.said.starts_with(&socket.sent), "other bytes were sent than said");
        match reason {
            DisconnectReason::ClosedByPeer
            | DisconnectReason::Truncated
            | DisconnectReason::ClosedByUs => assert_eq!(socket.gone, Some(Gone::Closed)),
            DisconnectReason::Kicked
            | DisconnectReason::CloseDeadline
            | DisconnectReason::SendQueueFull
            | DisconnectReason::WriteStall => assert_eq!(socket.gone, Some(Gone::Aborted)),
            _ => assert_ne!(socket.gone, None, "{reason:?} leaves the socket open"),
        }
    }

    /// Whether nothing is left to be done on a connection that lives.
    pub(crate) fn is_quiet(&self, rules: &Rules, socket: &Socket) -> bool {
        match self.stage {
            Stage::Over => true,
            // Turned away when the listener went.
            Stage::Unborn => socket.gone.is_some(),
            Stage::Connecting => false,
            Stage::Open => {
                let all_heard = self.heard == heard_of(rules, socket).said.len();
                let has_failed = socket.send_error_told.is_some();
                let is_ending = self.is_muted() || socket.has_end() || has_failed;
                !is_ending && all_heard && socket.unread() == 0 && socket.sent == self.said
            }
        }
    }
}

/// What a game has to hear of what was received.
fn heard_of(rules: &Rules, socket: &Socket) -> Story {
    rules.twin.decode(&socket.received, rules.frame_len_max)
}

fn is_reset(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::ConnectionReset | ErrorKind::BrokenPipe)
}
