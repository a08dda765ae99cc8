//! The seam that every framing stands behind, ours and the user's.

use std::fmt;

use crate::error::{BadFrame, DisconnectReason, SendError};

/// A framing: how frames are cut out of a stream, and what is sent around a payload.
///
/// Implement it for a framing of your own and pass it as [`Framing::custom`](super::Framing::custom). It is asked
/// from within [`tick`](crate::Reactor::tick) and [`send`](crate::Outbox::send), so it should neither wait nor allocate,
/// and it needs to do neither: it looks at borrowed bytes and answers with lengths.
///
/// One value serves all connections of its listeners. What it may remember of a connection is one number: how far
/// the unfinished frame has been looked at.
///
/// # The rules
///
/// - **However a stream is cut, it is the same stream.** The answer may depend on the bytes of the frame and on
///   nothing else: more bytes behind a whole frame do not change it, and what is an error for some bytes stays
///   one when more arrive.
/// - **Judge lengths early.** Refuse a length above `payload_len_max` as soon as it is known, and do sums on a
///   peer's number with `checked_…`. Whatever the codec does, the reactor ends a connection whose unfinished frame
///   has grown beyond `payload_len_max +` [`overhead_max`](Self::overhead_max).
/// - **Encoding mirrors decoding.** What [`encode`](Self::encode) accepts, a peer's `decode` gives back unchanged.
///
/// # Examples
///
/// Frames of a kind byte, a length byte, and the payload, of which the kind is handed out and the length is not:
/// the payload must be one slice, so here it is the whole frame.
///
/// ```
/// use tickwire::{Codec, Cut, Envelope, FrameError, Framing, SendError};
///
/// #[derive(Debug)]
/// struct Records;
///
/// impl Codec for Records {
///     fn overhead_max(&self) -> usize {
///         0 // the payload is the whole frame
///     }
///
///     fn decode(&self, bytes: &[u8], _: &mut usize, payload_len_max: usize) -> Result<Option<Cut>, FrameError> {
///         let [_kind, len, rest @ ..] = bytes else {
///             return Ok(None);
///         };
///         let (len, frame_len) = (usize::from(*len), 2 + usize::from(*len));
///         if frame_len > payload_len_max {
///             return Err(FrameError::TooLarge { declared: frame_len as u64 });
///         }
///         Ok((rest.len() >= len).then_some(Cut { payload_len: frame_len, ..Cut::default() }))
///     }
///
///     fn encode(&self, payload: &[u8], _: &mut Envelope) -> Result<(), SendError> {
///         match payload {
///             [_kind, len, rest @ ..] if rest.len() == usize::from(*len) => Ok(()),
///             _ => Err(SendError::Malformed),
///         }
///     }
/// }
///
/// let reactor = tickwire::Reactor::builder().framing(Framing::custom(&Records)).build()?;
/// # Ok::<(), tickwire::Error>(())
/// ```
pub trait Codec: fmt::Debug + Send + Sync {
    /// The most bytes of a frame that are not handed out: header and trailer together.
    fn overhead_max(&self) -> usize;

    /// Looks at the front of `bytes`, where a frame begins: `None` if it is not whole yet.
    ///
    /// `scanned` is 0 when a frame is looked at for the first time. What the codec leaves there when it answers
    /// `None` it finds there again when more of the same frame has arrived, so a search need not begin anew. It is
    /// a hint: the answer must not depend on it.
    ///
    /// `payload_len_max` is the largest payload that may be handed out, in bytes.
    ///
    /// # Errors
    ///
    /// [`FrameError`] if the bytes begin no frame. It is final: the connection ends, and the codec is not asked
    /// about it again.
    fn decode(
        &self,
        bytes: &[u8],
        scanned: &mut usize,
        payload_len_max: usize,
    ) -> Result<Option<Cut>, FrameError>;

    /// Puts into the `envelope` (empty when called) what is to be sent before and behind `payload`, which
    /// is not above the largest payload.
    ///
    /// # Errors
    ///
    /// Why this framing cannot carry the payload: [`SendError::Malformed`], [`SendError::TooLarge`] or
    /// [`SendError::Empty`]. Nothing is sent then.
    fn encode(&self, payload: &[u8], envelope: &mut Envelope) -> Result<(), SendError>;
}

/// Where a frame ends and where its payload lies, counted from its first byte.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(clippy::exhaustive_structs)]
pub struct Cut {
    /// Bytes before the payload.
    pub header_len: usize,
    /// Bytes that are handed out.
    pub payload_len: usize,
    /// Bytes behind the payload.
    pub trailer_len: usize,
}

impl Cut {
    /// Bytes of the frame, all three together.
    #[inline]
    pub fn frame_len(&self) -> usize {
        self.header_len + self.payload_len + self.trailer_len
    }
}

/// Why some bytes begin no frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum FrameError {
    /// The payload is larger than this connection takes.
    TooLarge {
        /// The payload length that the peer announced, in bytes; where a framing announces none, one more
        /// than the limit.
        declared: u64,
    },
    /// The framing forbids it.
    Bad(BadFrame),
}

impl From<BadFrame> for FrameError {
    fn from(fault: BadFrame) -> FrameError {
        FrameError::Bad(fault)
    }
}

impl fmt::Display for FrameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FrameError::TooLarge { declared } => {
                write!(f, "frame too large: {declared} bytes announced")
            }
            FrameError::Bad(fault) => fault.fmt(f),
        }
    }
}

impl std::error::Error for FrameError {}

impl FrameError {
    /// A frame that has no end within the limit, and did not announce one.
    pub(crate) fn endless(payload_len_max: usize) -> FrameError {
        FrameError::TooLarge { declared: payload_len_max as u64 + 1 }
    }

    /// Why the connection ends.
    #[cold]
    pub(crate) fn reason(self, payload_len_max: usize) -> DisconnectReason {
        match self {
            FrameError::TooLarge { declared } => {
                DisconnectReason::FrameTooLarge { declared, limit: payload_len_max as u32 }
            }
            FrameError::Bad(fault) => DisconnectReason::BadFrame(fault),
        }
    }
}

/// What stands around a payload on the wire. Small and on the stack.
///
/// Invariant: `header_len ≤ HEADER_LEN_MAX`, `trailer_len ≤ TRAILER_LEN_MAX`.
#[derive(Clone, Copy, Debug, Default)]
pub struct Envelope {
    header: [u8; HEADER_LEN_MAX],
    trailer: [u8; TRAILER_LEN_MAX],
    header_len: u8,
    trailer_len: u8,
}

impl Envelope {
    /// Nothing around the payload.
    pub fn new() -> Envelope {
        Envelope::default()
    }

    /// Appends to what is sent before the payload.
    ///
    /// # Panics
    ///
    /// If the header gets longer than 32 bytes: the payload of a longer one would better contain it.
    #[inline]
    pub fn put_header(&mut self, bytes: &[u8]) {
        let start = usize::from(self.header_len);
        self.header[start..start + bytes.len()].copy_from_slice(bytes);
        self.header_len += bytes.len() as u8;
    }

    /// Appends to what is sent behind the payload.
    ///
    /// # Panics
    ///
    /// If the trailer gets longer than 8 bytes.
    #[inline]
    pub fn put_trailer(&mut self, bytes: &[u8]) {
        let start = usize::from(self.trailer_len);
        self.trailer[start..start + bytes.len()].copy_from_slice(bytes);
        self.trailer_len += bytes.len() as u8;
    }

    /// Bytes that are sent around the payload.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        usize::from(self.header_len) + usize::from(self.trailer_len)
    }

    /// What is sent before the payload.
    #[inline]
    pub fn header(&self) -> &[u8] {
        &self.header[..usize::from(self.header_len)]
    }

    /// What is sent behind the payload.
    #[inline]
    pub fn trailer(&self) -> &[u8] {
        &self.trailer[..usize::from(self.trailer_len)]
    }
}

/// The longest header that is sent.
pub(crate) const HEADER_LEN_MAX: usize = 32;

/// The longest trailer that is sent.
pub(crate) const TRAILER_LEN_MAX: usize = 8;

/// A framing of the user's, kept to its word.
#[derive(Clone, Copy)]
pub struct Custom(&'static dyn Codec);

impl Custom {
    pub(super) const fn new(codec: &'static dyn Codec) -> Custom {
        Custom(codec)
    }
}

impl Codec for Custom {
    fn overhead_max(&self) -> usize {
        self.0.overhead_max()
    }

    fn decode(
        &self,
        bytes: &[u8],
        scanned: &mut usize,
        payload_len_max: usize,
    ) -> Result<Option<Cut>, FrameError> {
        let frame_len_max = payload_len_max.saturating_add(self.0.overhead_max());
        let Some(cut) = self.0.decode(bytes, scanned, payload_len_max)? else {
            *scanned = (*scanned).min(bytes.len());
            return if bytes.len() < frame_len_max {
                Ok(None)
            } else {
                Err(FrameError::endless(payload_len_max))
            };
        };
        let frame_len = [cut.payload_len, cut.trailer_len]
            .iter()
            .try_fold(cut.header_len, |sum, len| sum.checked_add(*len))
            .filter(|len| (1..=bytes.len()).contains(len));
        match frame_len {
            None => Err(BadFrame::Codec("it cut a frame that is not there").into()),
            Some(len) if len > frame_len_max || cut.payload_len > payload_len_max => {
                Err(FrameError::endless(payload_len_max))
            }
            Some(_) => Ok(Some(cut)),
        }
    }

    fn encode(&self, payload: &[u8], envelope: &mut Envelope) -> Result<(), SendError> {
        self.0.encode(payload, envelope)
    }
}

impl fmt::Debug for Custom {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The same codec is the same value.
impl PartialEq for Custom {
    fn eq(&self, other: &Custom) -> bool {
        std::ptr::addr_eq(self.0, other.0)
    }
}

impl Eq for Custom {}

impl std::hash::Hash for Custom {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        std::ptr::from_ref(self.0).cast::<()>().hash(state);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Answers what it was told to, whatever the bytes are.
    #[derive(Debug)]
    struct Stubborn(Option<Cut>);

    impl Codec for Stubborn {
        fn overhead_max(&self) -> usize {
            2
        }

        fn decode(&self, _: &[u8], _: &mut usize, _: usize) -> Result<Option<Cut>, FrameError> {
            Ok(self.0)
        }

        fn encode(&self, _: &[u8], _: &mut Envelope) -> Result<(), SendError> {
            Ok(())
        }
    }

    fn ask(answer: Option<Cut>, len: usize) -> Result<Option<Cut>, FrameError> {
        // Kept, or a leak check would take it for one.
        static KEPT: std::sync::Mutex<Vec<&Stubborn>> = std::sync::Mutex::new(Vec::new());
        let codec: &'static Stubborn = Box::leak(Box::new(Stubborn(answer)));
        KEPT.lock().expect("nobody panics here").push(codec);
        let custom = Custom(codec);
        custom.decode(&vec![0; len], &mut 0, 10)
    }

    #[test]
    fn a_codec_that_never_ends_a_frame_is_ended() {
        assert_eq!(ask(None, 11), Ok(None));
        assert_eq!(ask(None, 12), Err(FrameError::TooLarge { declared: 11 }));
    }

    #[test]
    fn a_codec_cannot_cut_what_is_not_there() {
        let cut = |header_len, payload_len, trailer_len| {
            Some(Cut { header_len, payload_len, trailer_len })
        };
        assert_eq!(ask(cut(1, 5, 1), 7), Ok(cut(1, 5, 1)));
        for wrong in [cut(0, 0, 0), cut(1, 6, 1), cut(usize::MAX, 1, 0), cut(1, usize::MAX, 7)] {
            assert!(matches!(ask(wrong, 7), Err(FrameError::Bad(BadFrame::Codec(_)))));
        }
        assert_eq!(ask(cut(1, 11, 0), 20), Err(FrameError::endless(10)));
        assert_eq!(ask(cut(9, 9, 0), 20), Err(FrameError::endless(10)));
    }

    #[test]
    fn an_envelope_is_filled_from_the_front() {
        let mut envelope = Envelope::default();
        envelope.put_header(&[1]);
        envelope.put_header(&[2, 3]);
        envelope.put_trailer(b"\r\n");
        assert_eq!((envelope.header(), envelope.trailer()), (&[1, 2, 3][..], &b"\r\n"[..]));
    }
}
