//! No framing: a stream handed on as it comes.

use super::codec::{Codec, Cut, Envelope, FrameError};
use crate::error::SendError;

/// Whatever has arrived is a payload.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Raw;

impl Codec for Raw {
    fn overhead_max(&self) -> usize {
        0
    }

    #[inline]
    fn decode(
        &self,
        bytes: &[u8],
        _: &mut usize,
        payload_len_max: usize,
    ) -> Result<Option<Cut>, FrameError> {
        let cut = Cut { payload_len: bytes.len().min(payload_len_max), ..Cut::default() };
        Ok((!bytes.is_empty()).then_some(cut))
    }

    fn encode(&self, payload: &[u8], _: &mut Envelope) -> Result<(), SendError> {
        if payload.is_empty() { Err(SendError::Empty) } else { Ok(()) }
    }
}
