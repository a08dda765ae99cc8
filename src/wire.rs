//! Reading and writing of payloads: what `bytes` leaves open.

use std::fmt;

use bytes::{BufMut, TryGetError};

/// Reads from a payload, borrowing from it, and never panics on what a peer sent.
///
/// Fixed-width numbers in both byte orders are those of [`bytes::Buf`], which `&[u8]` implements: use its `try_get_…`
/// family. This trait adds what it lacks: varints, and slices and texts that are borrowed instead of copied. Both
/// advance the slice by what they read, and leave it as it was on an error.
///
/// ```
/// use bytes::Buf;
/// use tickwire::{ReadError, ReadPayload};
///
/// struct Join<'a> {
///     version: u16,
///     x: f32,
///     name: &'a str,
/// }
///
/// fn parse(mut payload: &[u8]) -> Result<Join<'_>, ReadError> {
///     let join = Join {
///         version: payload.try_get_u16()?,
///         x: payload.try_get_f32_le()?,
///         name: payload.try_get_str_varint()?,
///     };
///     payload.try_end()?; // nothing may be left over
///     Ok(join)
/// }
///
/// let join = parse(b"\x00\x07\x00\x00\x80\x3f\x03Ada")?;
/// assert_eq!((join.version, join.x, join.name), (7, 1.0, "Ada"));
/// assert!(parse(b"\x00\x07\x00\x00\x80\x3f\x7fAda").is_err());
/// # Ok::<(), ReadError>(())
/// ```
pub trait ReadPayload<'a>: Sized {
    /// The next `len` bytes.
    ///
    /// # Errors
    ///
    /// [`ReadError::TooShort`]
    fn try_get_slice(&mut self, len: usize) -> Result<&'a [u8], ReadError>;

    /// Passes over `len` bytes.
    ///
    /// # Errors
    ///
    /// [`ReadError::TooShort`]
    fn try_skip(&mut self, len: usize) -> Result<(), ReadError> {
        self.try_get_slice(len).map(drop)
    }

    /// Nothing, if nothing is left.
    ///
    /// # Errors
    ///
    /// [`ReadError::LeftOver`]
    fn try_end(&self) -> Result<(), ReadError>;

    /// A varint of at most 10 bytes and 64 bits, as in protobuf, LEB128 or QUIC's elders. Forms that are
    /// longer than they need be are taken, as protobuf does.
    ///
    /// # Errors
    ///
    /// [`ReadError::TooShort`], [`ReadError::Varint`]
    fn try_get_varint_u64(&mut self) -> Result<u64, ReadError>;

    /// A varint of at most 5 bytes and 32 bits.
    ///
    /// # Errors
    ///
    /// [`ReadError::TooShort`], [`ReadError::Varint`]
    fn try_get_varint_u32(&mut self) -> Result<u32, ReadError>;

    /// A signed number in zigzag form (0, -1, 1, -2 are 0, 1, 2, 3): protobuf's `sint64`.
    ///
    /// # Errors
    ///
    /// As [`try_get_varint_u64`](Self::try_get_varint_u64).
    fn try_get_zigzag_i64(&mut self) -> Result<i64, ReadError>;

    /// A signed number in zigzag form: protobuf's `sint32`.
    ///
    /// # Errors
    ///
    /// As [`try_get_varint_u32`](Self::try_get_varint_u32).
    fn try_get_zigzag_i32(&mut self) -> Result<i32, ReadError>;

    /// Bytes after a length of 1 byte.
    ///
    /// # Errors
    ///
    /// [`ReadError::TooShort`]
    fn try_get_bytes_u8(&mut self) -> Result<&'a [u8], ReadError>;

    /// Bytes after a big-endian length of 2 bytes.
    ///
    /// # Errors
    ///
    /// [`ReadError::TooShort`]
    fn try_get_bytes_u16(&mut self) -> Result<&'a [u8], ReadError>;

    /// Bytes after a little-endian length of 2 bytes.
    ///
    /// # Errors
    ///
    /// [`ReadError::TooShort`]
    fn try_get_bytes_u16_le(&mut self) -> Result<&'a [u8], ReadError>;

    /// Bytes after a big-endian length of 4 bytes.
    ///
    /// # Errors
    ///
    /// [`ReadError::TooShort`]
    fn try_get_bytes_u32(&mut self) -> Result<&'a [u8], ReadError>;

    /// Bytes after a little-endian length of 4 bytes.
    ///
    /// # Errors
    ///
    /// [`ReadError::TooShort`]
    fn try_get_bytes_u32_le(&mut self) -> Result<&'a [u8], ReadError>;

    /// Bytes after a varint length of at most 5 bytes.
    ///
    /// # Errors
    ///
    /// [`ReadError::TooShort`], [`ReadError::Varint`]
    fn try_get_bytes_varint(&mut self) -> Result<&'a [u8], ReadError>;

    /// A text after a length of 1 byte.
    ///
    /// # Errors
    ///
    /// [`ReadError::TooShort`], [`ReadError::Utf8`]
    fn try_get_str_u8(&mut self) -> Result<&'a str, ReadError>;

    /// A text after a big-endian length of 2 bytes.
    ///
    /// # Errors
    ///
    /// [`ReadError::TooShort`], [`ReadError::Utf8`]
    fn try_get_str_u16(&mut self) -> Result<&'a str, ReadError>;

    /// A text after a little-endian length of 2 bytes.
    ///
    /// # Errors
    ///
    /// [`ReadError::TooShort`], [`ReadError::Utf8`]
    fn try_get_str_u16_le(&mut self) -> Result<&'a str, ReadError>;

    /// A text after a varint length of at most 5 bytes.
    ///
    /// # Errors
    ///
    /// [`ReadError::TooShort`], [`ReadError::Varint`], [`ReadError::Utf8`]
    fn try_get_str_varint(&mut self) -> Result<&'a str, ReadError>;
}

impl<'a> ReadPayload<'a> for &'a [u8] {
    #[inline]
    fn try_get_slice(&mut self, len: usize) -> Result<&'a [u8], ReadError> {
        match self.split_at_checked(len) {
            Some((taken, rest)) => {
                *self = rest;
                Ok(taken)
            }
            None => Err(ReadError::TooShort { wanted: len, left: self.len() }),
        }
    }

    #[inline]
    fn try_end(&self) -> Result<(), ReadError> {
        if self.is_empty() { Ok(()) } else { Err(ReadError::LeftOver { left: self.len() }) }
    }

    #[inline]
    fn try_get_varint_u64(&mut self) -> Result<u64, ReadError> {
        varint(self, 10, 0x01)
    }

    #[inline]
    fn try_get_varint_u32(&mut self) -> Result<u32, ReadError> {
        varint(self, 5, 0x0f).map(|value| value as u32)
    }

    #[inline]
    fn try_get_zigzag_i64(&mut self) -> Result<i64, ReadError> {
        self.try_get_varint_u64().map(|value| (value >> 1) as i64 ^ -((value & 1) as i64))
    }

    #[inline]
    fn try_get_zigzag_i32(&mut self) -> Result<i32, ReadError> {
        self.try_get_varint_u32().map(|value| (value >> 1) as i32 ^ -((value & 1) as i32))
    }

    #[inline]
    fn try_get_bytes_u8(&mut self) -> Result<&'a [u8], ReadError> {
        prefixed(self, |bytes| Ok(array::<1>(bytes)?[0].into()))
    }

    #[inline]
    fn try_get_bytes_u16(&mut self) -> Result<&'a [u8], ReadError> {
        prefixed(self, |bytes| Ok(u16::from_be_bytes(array(bytes)?).into()))
    }

    #[inline]
    fn try_get_bytes_u16_le(&mut self) -> Result<&'a [u8], ReadError> {
        prefixed(self, |bytes| Ok(u16::from_le_bytes(array(bytes)?).into()))
    }

    #[inline]
    fn try_get_bytes_u32(&mut self) -> Result<&'a [u8], ReadError> {
        prefixed(self, |bytes| Ok(u32::from_be_bytes(array(bytes)?)))
    }

    #[inline]
    fn try_get_bytes_u32_le(&mut self) -> Result<&'a [u8], ReadError> {
        prefixed(self, |bytes| Ok(u32::from_le_bytes(array(bytes)?)))
    }

    #[inline]
    fn try_get_bytes_varint(&mut self) -> Result<&'a [u8], ReadError> {
        prefixed(self, |bytes| bytes.try_get_varint_u32())
    }

    #[inline]
    fn try_get_str_u8(&mut self) -> Result<&'a str, ReadError> {
        text(self, |bytes| bytes.try_get_bytes_u8())
    }

    #[inline]
    fn try_get_str_u16(&mut self) -> Result<&'a str, ReadError> {
        text(self, |bytes| bytes.try_get_bytes_u16())
    }

    #[inline]
    fn try_get_str_u16_le(&mut self) -> Result<&'a str, ReadError> {
        text(self, |bytes| bytes.try_get_bytes_u16_le())
    }

    #[inline]
    fn try_get_str_varint(&mut self) -> Result<&'a str, ReadError> {
        text(self, |bytes| bytes.try_get_bytes_varint())
    }
}

/// A varint of at most `len_max` bytes, the last of which is at most `last_max`.
#[inline]
fn varint(bytes: &mut &[u8], len_max: usize, last_max: u8) -> Result<u64, ReadError> {
    let mut value = 0;
    for (index, &byte) in bytes.iter().take(len_max).enumerate() {
        if index == len_max - 1 && byte > last_max {
            return Err(ReadError::Varint);
        }
        value |= u64::from(byte & 0x7f) << (7 * index);
        if byte < 0x80 {
            *bytes = &bytes[index + 1..];
            return Ok(value);
        }
    }
    Err(ReadError::TooShort { wanted: bytes.len() + 1, left: bytes.len() })
}

fn array<const N: usize>(bytes: &mut &[u8]) -> Result<[u8; N], ReadError> {
    match bytes.split_first_chunk() {
        Some((array, rest)) => {
            *bytes = rest;
            Ok(*array)
        }
        None => Err(ReadError::TooShort { wanted: N, left: bytes.len() }),
    }
}

fn prefixed<'a>(
    bytes: &mut &'a [u8],
    len: impl FnOnce(&mut &'a [u8]) -> Result<u32, ReadError>,
) -> Result<&'a [u8], ReadError> {
    let mut rest = *bytes;
    let len = len(&mut rest)?;
    let taken = rest.try_get_slice(usize::try_from(len).unwrap_or(usize::MAX))?;
    *bytes = rest;
    Ok(taken)
}

fn text<'a>(
    bytes: &mut &'a [u8],
    read: impl FnOnce(&mut &'a [u8]) -> Result<&'a [u8], ReadError>,
) -> Result<&'a str, ReadError> {
    let mut rest = *bytes;
    let text = std::str::from_utf8(read(&mut rest)?).map_err(|_| ReadError::Utf8)?;
    *bytes = rest;
    Ok(text)
}

/// Why a payload could not be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ReadError {
    /// The payload ends before.
    TooShort {
        /// Bytes that were to be read, at least.
        wanted: usize,
        /// Bytes that there are.
        left: usize,
    },
    /// A varint of more bytes or bits than its type has.
    Varint,
    /// A text that is not UTF-8.
    Utf8,
    /// The payload goes on where it was to end.
    LeftOver {
        /// Bytes that were not read.
        left: usize,
    },
}

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ReadError::TooShort { wanted, left } => {
                write!(f, "the payload is too short: {wanted} bytes wanted, {left} left")
            }
            ReadError::Varint => f.write_str("a varint that is too long for its type"),
            ReadError::Utf8 => f.write_str("a text that is not UTF-8"),
            ReadError::LeftOver { left } => write!(f, "{left} bytes too many"),
        }
    }
}

impl std::error::Error for ReadError {}

/// So that `?` serves the methods of [`bytes::Buf`] too.
impl From<TryGetError> for ReadError {
    fn from(error: TryGetError) -> ReadError {
        ReadError::TooShort { wanted: error.requested, left: error.available }
    }
}

/// Writes to a payload what [`ReadPayload`] reads. An extension of [`bytes::BufMut`], which has the fixed-width numbers;
/// so it works on the writer of [`send_with`](crate::Outbox::send_with) and on a `Vec<u8>` alike.
///
/// ```
/// use tickwire::{ConnId, Outbox, SendError, WritePayload};
///
/// fn greet(outbox: &mut Outbox<'_>, to: ConnId, name: &str) -> Result<(), SendError> {
///     outbox.send_with(to, |w| {
///         w.put_u16(7);
///         w.put_f32_le(1.0);
///         w.put_str_varint(name);
///     })
/// }
/// ```
///
/// # Panics
///
/// As `BufMut` does where a buffer of a fixed size has no room, and the methods with a length of fixed width where
/// the length does not fit it: check what comes from users before. A varint length panics above 2^32 - 1 bytes only.
pub trait WritePayload: BufMut {
    /// A varint, in as few bytes as it needs.
    #[inline]
    fn put_varint_u64(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.put_u8(value as u8 | 0x80);
            value >>= 7;
        }
        self.put_u8(value as u8);
    }

    /// A varint, in as few bytes as it needs.
    #[inline]
    fn put_varint_u32(&mut self, value: u32) {
        self.put_varint_u64(value.into());
    }

    /// A signed number in zigzag form.
    #[inline]
    fn put_zigzag_i64(&mut self, value: i64) {
        self.put_varint_u64(((value << 1) ^ (value >> 63)) as u64);
    }

    /// A signed number in zigzag form.
    #[inline]
    fn put_zigzag_i32(&mut self, value: i32) {
        self.put_varint_u32(((value << 1) ^ (value >> 31)) as u32);
    }

    /// Bytes after a length of 1 byte: at most 255.
    #[inline]
    fn put_bytes_u8(&mut self, bytes: &[u8]) {
        self.put_u8(fitting(bytes.len()));
        self.put_slice(bytes);
    }

    /// Bytes after a big-endian length of 2 bytes: at most 65,535.
    #[inline]
    fn put_bytes_u16(&mut self, bytes: &[u8]) {
        self.put_u16(fitting(bytes.len()));
        self.put_slice(bytes);
    }

    /// Bytes after a little-endian length of 2 bytes: at most 65,535.
    #[inline]
    fn put_bytes_u16_le(&mut self, bytes: &[u8]) {
        self.put_u16_le(fitting(bytes.len()));
        self.put_slice(bytes);
    }

    /// Bytes after a big-endian length of 4 bytes.
    #[inline]
    fn put_bytes_u32(&mut self, bytes: &[u8]) {
        self.put_u32(fitting(bytes.len()));
        self.put_slice(bytes);
    }

    /// Bytes after a little-endian length of 4 bytes.
    #[inline]
    fn put_bytes_u32_le(&mut self, bytes: &[u8]) {
        self.put_u32_le(fitting(bytes.len()));
        self.put_slice(bytes);
    }

    /// Bytes after a varint length.
    #[inline]
    fn put_bytes_varint(&mut self, bytes: &[u8]) {
        self.put_varint_u32(fitting(bytes.len()));
        self.put_slice(bytes);
    }

    /// A text after a length of 1 byte: at most 255 bytes.
    #[inline]
    fn put_str_u8(&mut self, text: &str) {
        self.put_bytes_u8(text.as_bytes());
    }

    /// A text after a big-endian length of 2 bytes: at most 65,535 bytes.
    #[inline]
    fn put_str_u16(&mut self, text: &str) {
        self.put_bytes_u16(text.as_bytes());
    }

    /// A text after a little-endian length of 2 bytes: at most 65,535 bytes.
    #[inline]
    fn put_str_u16_le(&mut self, text: &str) {
        self.put_bytes_u16_le(text.as_bytes());
    }

    /// A text after a varint length.
    #[inline]
    fn put_str_varint(&mut self, text: &str) {
        self.put_bytes_varint(text.as_bytes());
    }
}

impl<B: BufMut + ?Sized> WritePayload for B {}

fn fitting<T: TryFrom<usize>>(len: usize) -> T {
    match T::try_from(len) {
        Ok(len) => len,
        Err(_) => panic!("{len} bytes do not fit the width of their length"),
    }
}

#[cfg(test)]
mod tests {
    use bytes::Buf;

    use super::*;

    #[test]
    fn what_is_written_is_read_back() {
        let edges = (0..64).flat_map(|bit| [(1u64 << bit) - 1, 1 << bit]).chain([u64::MAX]);
        for value in edges {
            let mut bytes = Vec::new();
            bytes.put_varint_u64(value);
            bytes.put_varint_u32(value as u32);
            bytes.put_zigzag_i64(value as i64);
            bytes.put_zigzag_i32(value as i32);
            let mut rest = &bytes[..];
            assert_eq!(rest.try_get_varint_u64(), Ok(value));
            assert_eq!(rest.try_get_varint_u32(), Ok(value as u32));
            assert_eq!(rest.try_get_zigzag_i64(), Ok(value as i64));
            assert_eq!(rest.try_get_zigzag_i32(), Ok(value as i32));
            assert_eq!(rest.try_end(), Ok(()));
        }
        let mut small = Vec::new();
        [0, -1, 1, -2].into_iter().for_each(|value| small.put_zigzag_i32(value));
        assert_eq!(small, [0, 1, 2, 3]);
    }

    #[test]
    fn every_prefixed_form_is_read_back_and_borrowed() {
        let mut bytes = Vec::new();
        bytes.put_bytes_u8(b"a");
        bytes.put_bytes_u16(b"bb");
        bytes.put_bytes_u16_le(b"ccc");
        bytes.put_bytes_u32(b"dddd");
        bytes.put_bytes_u32_le(b"");
        bytes.put_bytes_varint(&[7; 200]);
        bytes.put_str_u8("ä");
        bytes.put_str_u16("ö");
        bytes.put_str_u16_le("ü");
        bytes.put_str_varint("€");
        bytes.put_f64_le(0.5);
        let read = |mut rest: &[u8]| -> Result<(), ReadError> {
            assert_eq!(rest.try_get_bytes_u8()?, b"a");
            assert_eq!(rest.try_get_bytes_u16()?, b"bb");
            assert_eq!(rest.try_get_bytes_u16_le()?, b"ccc");
            assert_eq!(rest.try_get_bytes_u32()?, b"dddd");
            assert_eq!(rest.try_get_bytes_u32_le()?, b"");
            assert_eq!(rest.try_get_bytes_varint()?, [7; 200]);
            assert_eq!(rest.try_get_str_u8()?, "ä");
            assert_eq!(rest.try_get_str_u16()?, "ö");
            assert_eq!(rest.try_get_str_u16_le()?, "ü");
            assert_eq!(rest.try_get_str_varint()?, "€");
            assert_eq!(rest.try_get_f64_le()?, 0.5);
            rest.try_end()
        };
        assert_eq!(read(&bytes), Ok(()));
        // And none of it panics on what is cut short.
        for len in 0..bytes.len() {
            assert!(matches!(read(&bytes[..len]), Err(ReadError::TooShort { .. })), "at {len}");
        }
    }

    #[test]
    fn an_error_leaves_the_payload_as_it_was() {
        let mut rest = &b"\x00\x05abcd"[..];
        assert_eq!(rest.try_get_bytes_u16(), Err(ReadError::TooShort { wanted: 5, left: 4 }));
        assert_eq!(rest.try_get_slice(7), Err(ReadError::TooShort { wanted: 7, left: 6 }));
        assert!(rest.try_skip(usize::MAX).is_err());
        assert_eq!(rest.try_end(), Err(ReadError::LeftOver { left: 6 }));
        let mut wrong = &b"\x02\xff\xff"[..];
        assert_eq!(wrong.try_get_str_u8(), Err(ReadError::Utf8));
        assert_eq!((rest.len(), wrong.len()), (6, 3));
        assert_eq!(wrong.try_get_bytes_u8(), Ok(&b"\xff\xff"[..]));
        let mut huge = &b"\xff\xff\xff\xff\x0f"[..];
        assert!(matches!(huge.try_get_bytes_varint(), Err(ReadError::TooShort { .. })));
        let mut huge = &b"\xff\xff\xff\xff"[..];
        assert!(matches!(huge.try_get_bytes_u32_le(), Err(ReadError::TooShort { .. })));
    }

    #[test]
    fn a_varint_ends_where_its_type_does() {
        let mut long = &[0x80; 20][..];
        assert_eq!(long.try_get_varint_u64(), Err(ReadError::Varint));
        assert_eq!(long.try_get_varint_u32(), Err(ReadError::Varint));
        let mut wide = &b"\xff\xff\xff\xff\x10"[..];
        assert_eq!(wide.try_get_varint_u32(), Err(ReadError::Varint));
        assert_eq!(wide.try_get_varint_u64(), Ok(0x1_0fff_ffff));
        let mut padded = &b"\x81\x80\x00"[..];
        assert_eq!(padded.try_get_varint_u32(), Ok(1));
        let mut cut = &b"\x80\x80"[..];
        assert_eq!(cut.try_get_varint_u32(), Err(ReadError::TooShort { wanted: 3, left: 2 }));
    }

    #[test]
    #[should_panic(expected = "256 bytes do not fit")]
    fn a_length_that_does_not_fit_is_the_writers_mistake() {
        Vec::new().put_bytes_u8(&[0; 256]);
    }
}
