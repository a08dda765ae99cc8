//! Encoding a message where it will leave from.

use std::io;
use std::ops::{Deref, DerefMut};

use bytes::BufMut;

/// Encodes one message in place: what is written is appended to the payload.
///
/// Everything of [`bytes::BufMut`] works on it by itself (`w.put_u32(7)`, `w.put_slice(b"…")`) and
/// [`std::io::Write`] too; where a function wants a `BufMut`, pass `&mut **w`. It grows as needed and cannot
/// touch what was written before; whether the message is small enough is judged when it is done.
#[derive(Debug)]
pub struct FrameWriter<'a> {
    buffer: &'a mut Vec<u8>,
    /// Where the payload begins.
    start: usize,
}

impl<'a> FrameWriter<'a> {
    /// Appends to `buffer` from here on.
    pub(crate) fn new(buffer: &'a mut Vec<u8>) -> FrameWriter<'a> {
        FrameWriter { start: buffer.len(), buffer }
    }

    /// Bytes of payload written so far.
    #[allow(clippy::len_without_is_empty)] // it begins empty; nobody has asked for more
    pub fn len(&self) -> usize {
        self.buffer.len() - self.start
    }
}

// `BufMut` is an unsafe trait, and this crate writes no `unsafe`: so the writer lends the one that the
// `bytes` crate implements for `Vec<u8>`, behind `dyn`, so that only appending is possible.
impl<'a> Deref for FrameWriter<'a> {
    type Target = dyn BufMut + 'a;

    fn deref(&self) -> &(dyn BufMut + 'a) {
        &*self.buffer
    }
}

impl<'a> DerefMut for FrameWriter<'a> {
    fn deref_mut(&mut self) -> &mut (dyn BufMut + 'a) {
        &mut *self.buffer
    }
}

impl io::Write for FrameWriter<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.buffer.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
