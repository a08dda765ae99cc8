//! Compression of single messages, with a bound that no message can pass.
//!
//! Nothing here runs by itself: a game compresses what is worth it, tells its peers so in its own way (a bit in the
//! message, or always), and expands what it receives. Each message stands for itself, so none depends on an earlier one
//! that may have been dropped.
//!
//! **The bound is mandatory.** A kilobyte may expand to a megabyte, and a peer chooses it. [`Lz4::decompress`] and
//! [`Zlib::decompress`] take the most bytes that you are ready for, and neither writes nor reserves more, whatever the
//! message claims. Small messages are not worth it: below some hundred bytes they get longer.
//!
//! ```
//! # #[cfg(feature = "zlib")]
//! # fn main() -> Result<(), tickwire::compress::DecompressError> {
//! use tickwire::compress::Zlib;
//!
//! const MAP_LEN_MAX: usize = 256 * 1024;
//!
//! // One for the whole server: it keeps its tables, and the buffers are used again.
//! let mut zlib = Zlib::new(6);
//! let (mut packed, mut map) = (Vec::new(), Vec::new());
//!
//! let payload = zlib.compress(&[7; 100_000], &mut packed); // to be sent
//! assert!(payload.len() < 200);
//! let map = zlib.decompress(payload, MAP_LEN_MAX, &mut map)?; // as received
//! assert_eq!(map, [7; 100_000]);
//! # Ok(())
//! # }
//! # #[cfg(not(feature = "zlib"))]
//! # fn main() {}
//! ```

use std::fmt;

/// Why a message could not be expanded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum DecompressError {
    /// It is longer than it may be. Found out without expanding it further.
    TooLarge {
        /// The most bytes that were allowed.
        limit: usize,
    },
    /// It was not compressed so, was cut, or has something behind its end.
    Malformed,
}

impl fmt::Display for DecompressError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DecompressError::TooLarge { limit } => {
                write!(f, "the message expands to more than {limit} bytes")
            }
            DecompressError::Malformed => f.write_str("the message is not what was compressed"),
        }
    }
}

impl std::error::Error for DecompressError {}

#[cfg(feature = "lz4")]
#[cfg_attr(docsrs, doc(cfg(feature = "lz4")))]
pub use self::lz4::Lz4;
#[cfg(feature = "zlib")]
#[cfg_attr(docsrs, doc(cfg(feature = "zlib")))]
pub use self::zlib::Zlib;

#[cfg(feature = "lz4")]
mod lz4 {
    use std::fmt;

    use lz4_flex::block;

    use super::DecompressError;

    /// LZ4 blocks: very fast, and half the size or so. On the wire a 4-byte little-endian length of what comes out, then the
    /// block, as `lz4.block` in Python and most other bindings write it.
    ///
    /// ```
    /// use tickwire::compress::Lz4;
    ///
    /// let mut lz4 = Lz4::new();
    /// let (mut packed, mut unpacked) = (Vec::new(), Vec::new());
    /// let sent = lz4.compress(&[7; 1_000], &mut packed).to_vec();
    /// assert!(sent.len() < 100);
    /// assert_eq!(lz4.decompress(&sent, 16_384, &mut unpacked)?, [7; 1_000]);
    /// # Ok::<(), tickwire::compress::DecompressError>(())
    /// ```
    pub struct Lz4 {
        table: block::CompressTable,
    }

    impl Default for Lz4 {
        fn default() -> Lz4 {
            Lz4::new()
        }
    }

    impl fmt::Debug for Lz4 {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.debug_struct("Lz4").finish_non_exhaustive()
        }
    }

    impl Lz4 {
        /// Allocates the 16 KiB that compressing needs.
        pub fn new() -> Lz4 {
            Lz4 { table: block::CompressTable::default() }
        }

        /// Compresses a message into a buffer, whose old content goes. Returns what is to be sent.
        ///
        /// # Panics
        ///
        /// Above 2^32 - 1 bytes.
        pub fn compress<'a>(&mut self, message: &[u8], into: &'a mut Vec<u8>) -> &'a [u8] {
            let len = u32::try_from(message.len()).expect("a message below 4 GiB");
            into.clear();
            into.extend_from_slice(&len.to_le_bytes());
            into.resize(LEN_LEN + block::get_maximum_output_size(message.len()), 0);
            let written =
                block::compress_into_with_table(message, &mut into[LEN_LEN..], &mut self.table);
            into.truncate(LEN_LEN + written.expect("room for the worst case"));
            into
        }

        /// Expands what was received into a buffer, whose old content goes; to at most `len_max` bytes.
        ///
        /// # Errors
        ///
        /// [`DecompressError`]; the buffer is empty then.
        pub fn decompress<'a>(
            &mut self,
            received: &[u8],
            len_max: usize,
            into: &'a mut Vec<u8>,
        ) -> Result<&'a [u8], DecompressError> {
            into.clear();
            let (len, block) = received.split_first_chunk().ok_or(DecompressError::Malformed)?;
            let len = u32::from_le_bytes(*len) as usize;
            if len > len_max {
                return Err(DecompressError::TooLarge { limit: len_max });
            }
            // A byte of a block never yields more than this, so a lie reserves nothing.
            if len > block.len().saturating_mul(EXPANSION_MAX) {
                return Err(DecompressError::Malformed);
            }
            into.resize(len, 0);
            match block::decompress_into(block, into) {
                Ok(written) if written == len => Ok(into),
                _ => {
                    into.clear();
                    Err(DecompressError::Malformed)
                }
            }
        }
    }

    const LEN_LEN: usize = 4;

    /// A match goes on by at most 255 bytes for each further byte that tells its length.
    const EXPANSION_MAX: usize = 255;
}

#[cfg(feature = "zlib")]
mod zlib {
    use std::fmt;

    use flate2::{Compress, Compression, Decompress, FlushCompress, FlushDecompress, Status};

    use super::DecompressError;

    /// zlib streams (RFC 1950): slower than LZ4 and smaller, and understood everywhere.
    pub struct Zlib {
        deflate: Compress,
        inflate: Decompress,
    }

    impl fmt::Debug for Zlib {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.debug_struct("Zlib").finish_non_exhaustive()
        }
    }

    impl Zlib {
        /// From level 1, the fastest, to 9, the smallest; 6 is usual, and what is beyond is taken as the nearest. Allocates some
        /// 300 KiB of tables.
        pub fn new(level: u32) -> Zlib {
            Zlib {
                deflate: Compress::new(Compression::new(level.clamp(1, 9)), true),
                inflate: Decompress::new(true),
            }
        }

        /// Compresses a message into a buffer, whose old content goes. Returns what is to be sent.
        pub fn compress<'a>(&mut self, message: &[u8], into: &'a mut Vec<u8>) -> &'a [u8] {
            into.clear();
            self.deflate.reset();
            into.reserve(message.len() / 2 + 64);
            loop {
                let rest = &message[self.deflate.total_in() as usize..];
                match self.deflate.compress_vec(rest, into, FlushCompress::Finish) {
                    Ok(Status::StreamEnd) => return into,
                    Ok(_) => into.reserve(into.capacity().max(64)),
                    Err(error) => unreachable!("nothing is wrong with a fresh stream: {error}"),
                }
            }
        }

        /// Expands what was received into a buffer, whose old content goes; to at most `len_max` bytes.
        ///
        /// # Errors
        ///
        /// [`DecompressError`]; the buffer is empty then.
        pub fn decompress<'a>(
            &mut self,
            received: &[u8],
            len_max: usize,
            into: &'a mut Vec<u8>,
        ) -> Result<&'a [u8], DecompressError> {
            into.clear();
            match self.inflate(received, len_max, into) {
                Ok(()) => Ok(into),
                Err(error) => {
                    into.clear();
                    Err(error)
                }
            }
        }

        fn inflate(
            &mut self,
            received: &[u8],
            len_max: usize,
            into: &mut Vec<u8>,
        ) -> Result<(), DecompressError> {
            self.inflate.reset(true);
            let mut step = [0; STEP_LEN];
            loop {
                // A byte more than is allowed, so that what is too long can be told from what just fits.
                let room = (len_max - into.len()).saturating_add(1).min(STEP_LEN);
                let rest = &received[self.inflate.total_in() as usize..];
                let before = (self.inflate.total_in(), self.inflate.total_out());
                let status =
                    self.inflate.decompress(rest, &mut step[..room], FlushDecompress::None);
                let status = status.map_err(|_| DecompressError::Malformed)?;
                let written = (self.inflate.total_out() - before.1) as usize;
                if written > len_max - into.len() {
                    return Err(DecompressError::TooLarge { limit: len_max });
                }
                into.extend_from_slice(&step[..written]);
                if status == Status::StreamEnd {
                    let is_all = self.inflate.total_in() as usize == received.len();
                    return if is_all { Ok(()) } else { Err(DecompressError::Malformed) };
                }
                if before == (self.inflate.total_in(), self.inflate.total_out()) {
                    return Err(DecompressError::Malformed); // it was cut
                }
            }
        }
    }

    /// How much is expanded at a time, on the stack.
    const STEP_LEN: usize = 8 * 1024;
}

#[cfg(all(test, feature = "lz4", feature = "zlib"))]
mod tests {
    use super::*;

    /// Both, under one roof.
    type Expand = fn(&[u8], usize, &mut Vec<u8>) -> Result<usize, DecompressError>;
    type Pack = fn(&[u8]) -> Vec<u8>;

    const BOTH: [(Pack, Expand); 2] = [
        (
            |message| Lz4::new().compress(message, &mut Vec::new()).to_vec(),
            |bytes, max, into| Lz4::new().decompress(bytes, max, into).map(<[u8]>::len),
        ),
        (
            |message| Zlib::new(6).compress(message, &mut Vec::new()).to_vec(),
            |bytes, max, into| Zlib::new(6).decompress(bytes, max, into).map(<[u8]>::len),
        ),
    ];

    fn messages() -> Vec<Vec<u8>> {
        let noise =
            |len: u32| (0..len).map(|i| (i.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
        let mut messages: Vec<Vec<u8>> = (0..70).map(noise).collect();
        messages.extend([100, 8_191, 8_192, 8_193, 65_536, 200_000].map(noise));
        messages.extend([1, 100, 8_192, 70_000, 1 << 20].map(|len| vec![5; len]));
        messages
    }

    #[test]
    fn what_is_compressed_expands_to_what_it_was_and_the_bound_is_exact() {
        for (pack, expand) in BOTH {
            for message in messages() {
                let packed = pack(&message);
                let mut out = vec![9; 3];
                let len = expand(&packed, message.len(), &mut out).expect("just within the bound");
                assert!(out == message && len == message.len());
                if let Some(limit) = message.len().checked_sub(1) {
                    let told = expand(&packed, limit, &mut out);
                    assert_eq!(told, Err(DecompressError::TooLarge { limit }));
                    assert!(out.is_empty());
                }
            }
        }
    }

    #[test]
    fn a_bomb_passes_no_bound_and_reserves_no_memory() {
        for (pack, expand) in BOTH {
            let bomb = pack(&vec![0; 64 << 20]);
            assert!(bomb.len() < 300_000);
            let mut out = Vec::new();
            for limit in [0, 1, 1_000, 100_000] {
                let told = expand(&bomb, limit, &mut out);
                assert_eq!(told, Err(DecompressError::TooLarge { limit }));
                assert!(out.capacity() <= 2 * limit + 8_192, "{} for {limit}", out.capacity());
            }
        }
        // A length that is a lie is not even reserved.
        let mut out = Vec::new();
        let lie = Lz4::new().decompress(b"\xff\xff\xff\x7f\x00abc", usize::MAX, &mut out).map(drop);
        assert_eq!((lie, out.capacity()), (Err(DecompressError::Malformed), 0));
    }

    #[test]
    fn what_was_damaged_is_refused_or_bounded_and_never_panics() {
        for (pack, expand) in BOTH {
            let mut message = vec![3; 500];
            message.extend((0..500u32).map(|i| (i * i) as u8));
            let packed = pack(&message);
            let mut out = Vec::new();
            for at in 0..packed.len() {
                assert_eq!(expand(&packed[..at], 5_000, &mut out), Err(DecompressError::Malformed));
                for bit in 0..8 {
                    let mut damaged = packed.clone();
                    damaged[at] ^= 1 << bit;
                    if let Ok(len) = expand(&damaged, 1_500, &mut out) {
                        assert!(len <= 1_500);
                    }
                }
            }
            let longer = [&packed[..], b"x"].concat();
            assert_eq!(expand(&longer, 5_000, &mut out), Err(DecompressError::Malformed));
        }
    }

    #[test]
    fn a_codec_that_is_used_again_begins_anew() {
        let (mut lz4, mut zlib) = (Lz4::new(), Zlib::new(99));
        let (mut packed, mut out) = (Vec::new(), Vec::new());
        for message in messages() {
            let bytes = lz4.compress(&message, &mut packed);
            assert_eq!(lz4.decompress(bytes, 1 << 20, &mut out), Ok(&message[..]));
            assert!(lz4.decompress(b"nonsense", 1 << 20, &mut out).is_err());
            let bytes = zlib.compress(&message, &mut packed);
            assert!(zlib.decompress(&bytes[..bytes.len() - 1], 1 << 20, &mut out).is_err());
            assert_eq!(zlib.decompress(bytes, 1 << 20, &mut out), Ok(&message[..]));
        }
    }
}
