//! How much waits to be sent, and whether more may.

use std::sync::Arc;

use super::Refusal;
use crate::config::Limits;
use crate::conn::queue::Queue;
use crate::id::ConnId;
use crate::ledger::{Ledger, Overdrawn};

/// How much waits on all connections together, and whether more may.
#[derive(Debug, Default)]
pub(super) struct Books {
    /// Bytes in the queues.
    pub(super) queued: usize,
    /// What they may come to. Unfinished input counts against the same limit, as of the last tick.
    pub(super) queued_max: usize,
    /// The same and what other threads have handed in, once they may.
    pub(super) ledger: Option<Arc<Ledger>>,
}

impl Books {
    /// Adds `len` bytes to a queue, if the limits allow it where `freed` of its bytes are about to go.
    #[inline]
    pub(super) fn reserve(
        &mut self,
        id: ConnId,
        queue: &Queue,
        len: usize,
        freed: usize,
        limits: &Limits,
    ) -> Result<(), Refusal> {
        if self.ledger.is_some() {
            self.reserve_in_ledger(id, len, freed)?;
        } else if queue.len() - freed + len > limits.send_queue_max {
            return Err(Refusal::QueueFull);
        } else if self.queued - freed + len > self.queued_max {
            return Err(Refusal::MemoryFull);
        }
        self.queued += len;
        Ok(())
    }

    #[inline(never)]
    fn reserve_in_ledger(&self, id: ConnId, len: usize, freed: usize) -> Result<(), Overdrawn> {
        self.ledger.as_ref().map_or(Ok(()), |ledger| ledger.reserve(id, len, freed))
    }

    /// Notes how much unfinished input there is.
    pub(super) fn set_held(&mut self, held: usize, limits: &Limits) {
        self.queued_max = limits.queued_max().min(limits.buffered_max.saturating_sub(held));
        if let Some(ledger) = &self.ledger {
            ledger.set_held(held);
        }
    }

    /// Counts `len` bytes instead of `reserved` ones that another thread has reserved.
    pub(super) fn correct(&self, id: ConnId, reserved: usize, len: usize) -> Result<(), Overdrawn> {
        match &self.ledger {
            Some(ledger) if len > reserved => ledger.reserve(id, len - reserved, 0),
            Some(ledger) => {
                ledger.release(id.slot(), reserved - len);
                Ok(())
            }
            None => Ok(()),
        }
    }

    #[inline]
    pub(super) fn release(&mut self, slot: u32, len: usize) {
        self.queued -= len;
        if let Some(ledger) = &self.ledger {
            ledger.release(slot, len);
        }
    }

    /// Takes a queue off the books.
    pub(super) fn close(&mut self, slot: u32, len: usize) {
        self.release(slot, len);
        if let Some(ledger) = &self.ledger {
            ledger.close(slot);
        }
    }

    pub(super) fn in_all(&self) -> usize {
        self.ledger.as_ref().map_or(self.queued, |ledger| ledger.in_all())
    }
}
