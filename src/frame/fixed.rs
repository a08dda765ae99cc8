//! Frames of one size.

use super::codec::{Codec, Cut, Envelope, FrameError};
use crate::error::SendError;

/// Every frame is a payload of this length.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fixed(pub(crate) usize);

impl Codec for Fixed {
    fn overhead_max(&self) -> usize {
        0
    }

    #[inline]
    fn decode(&self, bytes: &[u8], _: &mut usize, _: usize) -> Result<Option<Cut>, FrameError> {
        let cut = Cut { payload_len: self.0, ..Cut::default() };
        Ok((bytes.len() >= self.0).then_some(cut))
    }

    fn encode(&self, payload: &[u8], _: &mut Envelope) -> Result<(), SendError> {
        match payload.len() {
            len if len == self.0 => Ok(()),
            len if len > self.0 => Err(SendError::TooLarge),
            _ => Err(SendError::Malformed),
        }
    }
}
