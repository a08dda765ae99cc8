//! What can go wrong: one small enum for each question.

use std::{fmt, io};

use crate::addr::{Addr, AddrError};

/// Why a reactor could not be built, listen, connect or tick.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// A setting that cannot work; the text says what to change.
    Config {
        /// The setter of [`Builder`](crate::Builder) that it is about.
        setting: &'static str,
        /// What is wrong, and which values would do.
        problem: String,
    },
    /// A text that is no address.
    Addr(AddrError),
    /// The system refused to listen there.
    Listen {
        /// The address that was asked for.
        addr: Addr,
        /// What the system said.
        source: io::Error,
    },
    /// No further connection: [`Builder::connections_max`](crate::Builder::connections_max) are there.
    ConnectionsMax {
        /// The limit that was met.
        limit: usize,
    },
    /// [`Reactor::shutdown`](crate::Reactor::shutdown) was called: nobody listens or connects any more.
    Shutdown,
    /// The system's poller could not be set up, or broke. Only this ever makes a tick fail.
    Poller(io::Error),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Config { setting, problem } => {
                write!(f, "unusable setting `{setting}`: {problem}")
            }
            Error::Addr(error) => error.fmt(f),
            Error::Listen { addr, source } => write!(f, "cannot listen on {addr}: {source}"),
            Error::ConnectionsMax { limit } => {
                write!(f, "no room for a further connection: `connections_max` is {limit}")
            }
            Error::Shutdown => f.write_str("the reactor is shutting down"),
            Error::Poller(source) => write!(f, "the system's poller failed: {source}"),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Error::Listen { source, .. } | Error::Poller(source) => Some(source),
            Error::Addr(error) => Some(error),
            Error::Config { .. } | Error::ConnectionsMax { .. } | Error::Shutdown => None,
        }
    }
}

impl From<AddrError> for Error {
    fn from(error: AddrError) -> Error {
        Error::Addr(error)
    }
}

impl From<std::convert::Infallible> for Error {
    fn from(never: std::convert::Infallible) -> Error {
        match never {}
    }
}

impl From<Error> for io::Error {
    fn from(error: Error) -> io::Error {
        let kind = match &error {
            Error::Config { .. } | Error::Addr(_) => io::ErrorKind::InvalidInput,
            Error::Listen { source, .. } | Error::Poller(source) => source.kind(),
            Error::ConnectionsMax { .. } => io::ErrorKind::QuotaExceeded,
            Error::Shutdown => io::ErrorKind::NotConnected,
        };
        io::Error::new(kind, error)
    }
}

/// Why a message was not queued. Nothing of a refused message is ever sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum SendError {
    /// The id names no connection (any more).
    Stale,
    /// The connection is ending and takes no further messages.
    Closing,
    /// The connection's send queue has no room for it. Try again when the peer has read, drop the
    /// message, or end the connection: nothing else of this connection is affected.
    Full,
    /// The payload is larger than the largest frame of this connection
    /// ([`Builder::frame_len_max`](crate::Builder::frame_len_max)).
    TooLarge,
    /// This connection's framing has no empty messages (Telepathy ends the connection on one).
    Empty,
    /// This connection's framing cannot carry the payload: it is not of the fixed size, contains what would end
    /// the frame (or lacks it where it is kept), or begins with a header that contradicts its length.
    Malformed,
}

impl fmt::Display for SendError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            SendError::Stale => "no such connection",
            SendError::Closing => "the connection is closing",
            SendError::Full => "the connection's send queue is full",
            SendError::TooLarge => "the payload is larger than the largest frame",
            SendError::Empty => "the framing has no empty messages",
            SendError::Malformed => "the framing cannot carry this payload",
        })
    }
}

impl std::error::Error for SendError {}

/// Why [`Outbox::try_send_with`](crate::Outbox::try_send_with) queued nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EncodeError<E> {
    /// The connection did not take the message.
    Send(SendError),
    /// The encoder gave up; what it had written is gone again.
    Encode(E),
}

impl<E> From<SendError> for EncodeError<E> {
    fn from(error: SendError) -> EncodeError<E> {
        EncodeError::Send(error)
    }
}

impl<E: fmt::Display> fmt::Display for EncodeError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            EncodeError::Send(error) => error.fmt(f),
            EncodeError::Encode(error) => write!(f, "the message could not be encoded: {error}"),
        }
    }
}

impl<E: std::error::Error + 'static> std::error::Error for EncodeError<E> {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            EncodeError::Send(error) => Some(error),
            EncodeError::Encode(error) => Some(error),
        }
    }
}

/// Why a connection ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum DisconnectReason {
    /// The peer closed, or shut its write side, in order and between two frames.
    ClosedByPeer,
    /// The peer reset the connection, or its process is gone.
    Reset,
    /// The system gave up on the peer (keepalive or user timeout).
    TimedOut,
    /// The system reported something else.
    Io(io::ErrorKind),
    /// We called [`close`](crate::Outbox::close), and all that was queued has left.
    ClosedByUs,
    /// The connection was ending in order, but was not done within
    /// [`Builder::close_timeout`](crate::Builder::close_timeout); what was still queued is lost.
    CloseDeadline,
    /// We called [`kick`](crate::Outbox::kick).
    Kicked,
    /// The peer announced a frame above the limit. Nothing is allocated for it.
    FrameTooLarge {
        /// The payload length that the peer announced, in bytes (2^64 - 1 if it is more than that). A framing
        /// that announces none, such as lines, tells one more than the limit.
        declared: u64,
        /// The largest payload length that this connection takes, in bytes.
        limit: u32,
    },
    /// The peer sent a frame that its framing forbids.
    BadFrame(BadFrame),
    /// The peer closed in the middle of a frame.
    Truncated,
    /// The peer was silent for [`Builder::idle_timeout`](crate::Builder::idle_timeout).
    Idle,
    /// No whole message came within [`Builder::first_frame_timeout`](crate::Builder::first_frame_timeout).
    FirstFrame,
    /// A message took longer than [`Builder::frame_timeout`](crate::Builder::frame_timeout) from its first byte on.
    FrameDeadline,
    /// The socket took not a byte for [`Builder::write_stall_timeout`](crate::Builder::write_stall_timeout).
    WriteStall,
    /// The send queue was full, and [`SendPolicy::Disconnect`](crate::SendPolicy::Disconnect) is set.
    SendQueueFull,
    /// All connections together had [`Builder::buffered_max`](crate::Builder::buffered_max) bytes waiting.
    MemoryLimit,
    /// The peer sent more than its rate, and [`RatePolicy::Disconnect`](crate::RatePolicy::Disconnect) is set.
    RateLimit,
    /// We called [`Reactor::shutdown`](crate::Reactor::shutdown).
    Shutdown,
}

impl fmt::Display for DisconnectReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DisconnectReason::ClosedByPeer => f.write_str("closed by the peer"),
            DisconnectReason::Reset => f.write_str("reset by the peer"),
            DisconnectReason::TimedOut => f.write_str("timed out by the system"),
            DisconnectReason::Io(kind) => write!(f, "network error: {kind}"),
            DisconnectReason::ClosedByUs => f.write_str("closed by us"),
            DisconnectReason::CloseDeadline => f.write_str("not closed before the deadline"),
            DisconnectReason::Kicked => f.write_str("kicked"),
            DisconnectReason::FrameTooLarge { declared, limit } => {
                write!(f, "frame too large: {declared} bytes announced, {limit} allowed")
            }
            DisconnectReason::BadFrame(fault) => write!(f, "bad frame: {fault}"),
            DisconnectReason::Truncated => {
                f.write_str("closed by the peer in the middle of a frame")
            }
            DisconnectReason::Idle => f.write_str("silent for too long"),
            DisconnectReason::FirstFrame => f.write_str("no first message in time"),
            DisconnectReason::FrameDeadline => f.write_str("message not complete in time"),
            DisconnectReason::WriteStall => f.write_str("nothing taken for too long"),
            DisconnectReason::SendQueueFull => f.write_str("send queue full"),
            DisconnectReason::MemoryLimit => f.write_str("memory limit of all connections"),
            DisconnectReason::RateLimit => f.write_str("more than its rate"),
            DisconnectReason::Shutdown => f.write_str("shutdown"),
        }
    }
}

impl From<&io::Error> for DisconnectReason {
    fn from(error: &io::Error) -> DisconnectReason {
        match error.kind() {
            io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe => DisconnectReason::Reset,
            io::ErrorKind::TimedOut => DisconnectReason::TimedOut,
            kind => DisconnectReason::Io(kind),
        }
    }
}

/// What a framing forbids beside a too large frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum BadFrame {
    /// An empty frame, where the framing has none.
    Empty,
    /// A length field whose value leaves no room for the frame's own header.
    LengthTooSmall {
        /// The value of the field.
        declared: u64,
        /// The least value that a frame of this framing has.
        least: u64,
    },
    /// A length in more than 5 bytes, or of more than 32 bits.
    VarintTooLong,
    /// A length in more bytes than it needs.
    VarintOverlong,
    /// A `\n` without the `\r` that has to stand before it.
    LoneLineFeed,
    /// What a [`Codec`](crate::Codec) of the user's has to say.
    Codec(&'static str),
}

impl fmt::Display for BadFrame {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BadFrame::Empty => f.write_str("empty frame"),
            BadFrame::LengthTooSmall { declared, least } => {
                write!(f, "length field of {declared}, where the least is {least}")
            }
            BadFrame::VarintTooLong => f.write_str("length of more than 5 bytes or 32 bits"),
            BadFrame::VarintOverlong => f.write_str("length in more bytes than it needs"),
            BadFrame::LoneLineFeed => f.write_str("line feed without a carriage return"),
            BadFrame::Codec(fault) => f.write_str(fault),
        }
    }
}

/// Why an outgoing connection did not come about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ConnectFailure {
    /// Nobody listens there (also: the connection would have been one with itself).
    Refused,
    /// No answer within the deadline.
    TimedOut,
    /// There is no way to that host or network.
    Unreachable,
    /// No local port or address is left to connect from.
    AddrNotAvailable,
    /// We called [`close`](crate::Outbox::close) or [`kick`](crate::Outbox::kick) meanwhile, or more was sent than its
    /// queue holds and [`SendPolicy::Disconnect`](crate::SendPolicy::Disconnect) is set.
    Cancelled,
    /// We called [`Reactor::shutdown`](crate::Reactor::shutdown) meanwhile.
    Shutdown,
    /// The system reported something else.
    Io(io::ErrorKind),
}

impl fmt::Display for ConnectFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ConnectFailure::Refused => f.write_str("connection refused"),
            ConnectFailure::TimedOut => f.write_str("no answer within the deadline"),
            ConnectFailure::Unreachable => f.write_str("host or network unreachable"),
            ConnectFailure::AddrNotAvailable => f.write_str("no local address or port left"),
            ConnectFailure::Cancelled => f.write_str("cancelled"),
            ConnectFailure::Shutdown => f.write_str("shutdown"),
            ConnectFailure::Io(kind) => write!(f, "network error: {kind}"),
        }
    }
}

impl From<&io::Error> for ConnectFailure {
    fn from(error: &io::Error) -> ConnectFailure {
        match error.kind() {
            io::ErrorKind::ConnectionRefused => ConnectFailure::Refused,
            io::ErrorKind::TimedOut => ConnectFailure::TimedOut,
            io::ErrorKind::HostUnreachable | io::ErrorKind::NetworkUnreachable => {
                ConnectFailure::Unreachable
            }
            io::ErrorKind::AddrNotAvailable => ConnectFailure::AddrNotAvailable,
            kind => ConnectFailure::Io(kind),
        }
    }
}

impl std::error::Error for DisconnectReason {}
impl std::error::Error for BadFrame {}
impl std::error::Error for ConnectFailure {}
