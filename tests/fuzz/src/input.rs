//! The input as a string of choices.

/// What is left of the input. Where it has ended every choice is the first one, so each prefix of an input is an
/// input too, and a shorter story.
#[derive(Clone, Debug)]
pub(crate) struct Input<'a> {
    bytes: &'a [u8],
}

impl<'a> Input<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Input<'a> {
        Input { bytes }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    pub(crate) fn byte(&mut self) -> u8 {
        match self.bytes.split_first() {
            Some((first, rest)) => {
                self.bytes = rest;
                *first
            }
            None => 0,
        }
    }

    pub(crate) fn u16(&mut self) -> u16 {
        u16::from_le_bytes([self.byte(), self.byte()])
    }

    pub(crate) fn u32(&mut self) -> u32 {
        u32::from(self.u16()) | u32::from(self.u16()) << 16
    }

    pub(crate) fn u64(&mut self) -> u64 {
        u64::from(self.u32()) | u64::from(self.u32()) << 32
    }

    pub(crate) fn bool(&mut self) -> bool {
        self.byte() & 1 == 1
    }

    /// A number below `limit`, which is at most 256.
    pub(crate) fn below(&mut self, limit: usize) -> usize {
        usize::from(self.byte()) % limit
    }

    pub(crate) fn pick<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len())]
    }

    /// A length: exact while it is short, in steps of 257 up to 32 KiB.
    pub(crate) fn len(&mut self) -> usize {
        match usize::from(self.byte()) {
            len @ ..=127 => len,
            long => (long - 127) * 257,
        }
    }

    /// At most `len` bytes as they stand.
    pub(crate) fn take(&mut self, len: usize) -> &'a [u8] {
        let (taken, rest) = self.bytes.split_at(len.min(self.bytes.len()));
        self.bytes = rest;
        taken
    }

    /// Up to 31 bytes as they stand, or a run of one byte, so that a short input reaches every buffer's end.
    pub(crate) fn some_bytes(&mut self) -> Vec<u8> {
        match self.byte() {
            len @ ..=31 => self.take(len.into()).to_vec(),
            _ => {
                let (byte, len) = (self.byte(), self.len());
                vec![byte; len]
            }
        }
    }
}
