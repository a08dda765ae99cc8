//! Lines of text.

use super::codec::{Codec, Cut, Envelope, FrameError};
use super::find::find_byte;
use crate::error::{BadFrame, SendError};

/// How a line ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum LineEnding {
    /// With `\n`; a `\r` right before it belongs to the ending. Sends `\n`.
    #[default]
    Any,
    /// With `\n`; a `\r` before it is part of the line.
    Lf,
    /// With `\r\n`; a lone `\n` ends the connection ([`BadFrame::LoneLineFeed`]).
    CrLf,
}

/// Each line is a message. What it may contain is not looked at: check UTF-8 where it matters.
///
/// ```
/// use tickwire::{Framing, Line, LineEnding, ListenOptions};
///
/// // A console for administrators. No line is longer than 512 bytes.
/// let options = ListenOptions::new().framing(Framing::Line(Line::new(LineEnding::Any))).frame_len_max(512);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[must_use = "a line does nothing until it is made a `Framing`"]
pub struct Line {
    ending: LineEnding,
    keep: bool,
}

impl Line {
    /// Lines that end so; the ending is not handed out, and is added to what is sent.
    pub const fn new(ending: LineEnding) -> Line {
        Line { ending, keep: false }
    }

    /// Whether the ending is handed out with the line, and has to be part of what is sent. Default `false`.
    pub const fn keep(mut self, keep: bool) -> Line {
        self.keep = keep;
        self
    }

    /// Bytes of the ending of a line whose `\n` stands `at` there.
    #[inline]
    fn ending_len(self, bytes: &[u8], at: usize) -> Result<usize, BadFrame> {
        let has_return = at > 0 && bytes[at - 1] == b'\r';
        match self.ending {
            LineEnding::Lf => Ok(1),
            LineEnding::Any => Ok(1 + usize::from(has_return)),
            LineEnding::CrLf if has_return => Ok(2),
            LineEnding::CrLf => Err(BadFrame::LoneLineFeed),
        }
    }
}

impl Codec for Line {
    fn overhead_max(&self) -> usize {
        match self.ending {
            _ if self.keep => 0,
            LineEnding::Lf => 1,
            LineEnding::Any | LineEnding::CrLf => 2,
        }
    }

    #[inline]
    fn decode(
        &self,
        bytes: &[u8],
        scanned: &mut usize,
        payload_len_max: usize,
    ) -> Result<Option<Cut>, FrameError> {
        // No frame that is taken reaches beyond this window.
        let window = payload_len_max + self.overhead_max();
        let seen = bytes.len().min(window);
        let from = (*scanned).min(seen);
        let Some(found) = find_byte(b'\n', &bytes[from..seen]) else {
            *scanned = seen;
            return if seen < window {
                Ok(None)
            } else {
                Err(FrameError::endless(payload_len_max))
            };
        };
        let frame_len = from + found + 1;
        let ending_len = self.ending_len(bytes, frame_len - 1)?;
        let trailer_len = if self.keep { 0 } else { ending_len };
        let payload_len = frame_len - trailer_len;
        if payload_len > payload_len_max {
            return Err(FrameError::endless(payload_len_max));
        }
        Ok(Some(Cut { header_len: 0, payload_len, trailer_len }))
    }

    fn encode(&self, payload: &[u8], envelope: &mut Envelope) -> Result<(), SendError> {
        let found = find_byte(b'\n', payload);
        let is_line = match found {
            Some(at) if self.keep => {
                at + 1 == payload.len() && self.ending_len(payload, at).is_ok()
            }
            None if !self.keep => self.ending != LineEnding::Any || !payload.ends_with(b"\r"),
            _ => false,
        };
        if !is_line {
            return Err(SendError::Malformed);
        }
        match self.ending {
            _ if self.keep => {}
            LineEnding::CrLf => envelope.put_trailer(b"\r\n"),
            LineEnding::Any | LineEnding::Lf => envelope.put_trailer(b"\n"),
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decode(line: Line, bytes: &[u8], max: usize) -> Result<Option<(usize, usize)>, FrameError> {
        let cut = line.decode(bytes, &mut 0, max)?;
        Ok(cut.map(|cut| (cut.payload_len, cut.trailer_len)))
    }

    #[test]
    fn each_ending_ends_what_it_says() {
        let [any, lf, crlf] = [LineEnding::Any, LineEnding::Lf, LineEnding::CrLf].map(Line::new);
        assert_eq!(decode(any, b"ab\r\nc", 9), Ok(Some((2, 2))));
        assert_eq!(decode(any, b"ab\nc", 9), Ok(Some((2, 1))));
        assert_eq!(decode(any, b"\n", 9), Ok(Some((0, 1))));
        assert_eq!(decode(lf, b"ab\r\nc", 9), Ok(Some((3, 1))));
        assert_eq!(decode(crlf, b"ab\r\nc", 9), Ok(Some((2, 2))));
        assert_eq!(decode(crlf, b"ab\n", 9), Err(BadFrame::LoneLineFeed.into()));
        assert_eq!(decode(crlf, b"\n", 9), Err(BadFrame::LoneLineFeed.into()));
        assert_eq!(decode(any.keep(true), b"ab\r\nc", 9), Ok(Some((4, 0))));
        for line in [any, lf, crlf] {
            assert_eq!(decode(line, b"ab\r", 9), Ok(None));
        }
    }

    #[test]
    fn the_limit_is_the_lines_own() {
        let any = Line::new(LineEnding::Any);
        assert_eq!(decode(any, b"abc\r\n", 3), Ok(Some((3, 2))));
        assert_eq!(decode(any, b"abcd", 3), Ok(None), "the last may be a carriage return");
        for long in [&b"abcd\n"[..], b"abcd\r\n", b"abcde"] {
            assert_eq!(decode(any, long, 3), Err(FrameError::TooLarge { declared: 4 }));
        }
        assert_eq!(decode(any.keep(true), b"abc\n", 4), Ok(Some((4, 0))));
        assert!(decode(any.keep(true), b"abcd", 4).is_err());
    }

    #[test]
    fn no_byte_is_scanned_twice() {
        let line = Line::new(LineEnding::Lf);
        let mut scanned = 0;
        assert_eq!(line.decode(b"abc", &mut scanned, 9), Ok(None));
        assert_eq!(scanned, 3);
        // What was scanned is not looked at again: had a line end been there, it would be missed.
        let cut = Cut { payload_len: 4, trailer_len: 1, ..Cut::default() };
        assert_eq!(line.decode(b"a\ncd\n", &mut scanned, 9), Ok(Some(cut)));
    }

    #[test]
    fn only_a_line_is_sent() {
        let send = |line: Line, payload: &[u8]| {
            let mut envelope = Envelope::default();
            line.encode(payload, &mut envelope).map(|()| envelope.trailer().to_vec())
        };
        let [any, lf, crlf] = [LineEnding::Any, LineEnding::Lf, LineEnding::CrLf].map(Line::new);
        assert_eq!(send(any, b"ab"), Ok(b"\n".to_vec()));
        assert_eq!(send(crlf, b"ab\r"), Ok(b"\r\n".to_vec()));
        assert_eq!(send(lf, b"ab\r"), Ok(b"\n".to_vec()));
        assert_eq!(send(lf.keep(true), b"ab\n"), Ok(Vec::new()));
        for (line, payload) in [
            (any, &b"a\nb"[..]),
            (any, b"ab\r"),
            (lf, b"\n"),
            (lf.keep(true), b"ab"),
            (lf.keep(true), b"a\nb\n"),
            (crlf.keep(true), b"ab\n"),
        ] {
            assert_eq!(send(line, payload), Err(SendError::Malformed), "{line:?} {payload:?}");
        }
    }
}
