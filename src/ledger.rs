//! How much waits to be sent, where several threads may add to it.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

use crate::id::ConnId;

/// The send queues of all connections in bytes, those included that other threads have handed in and the reactor has not
/// queued yet. There is one only where a handle was asked for.
///
/// Every count is reserved before its bytes exist and released after they are gone, so it may be too high for a moment,
/// never too low. The counts guard no other memory, so relaxed atomics do.
#[derive(Debug)]
pub(crate) struct Ledger {
    /// By slot, in blocks that are made when the first of theirs is opened.
    blocks: Box<[OnceLock<Box<[Account; BLOCK_LEN]>>]>,
    in_all: AtomicUsize,
    /// Bytes of unfinished input, which count against the limit of all together too.
    held: AtomicUsize,
    queue_max: usize,
    in_all_max: usize,
    buffered_max: usize,
}

#[derive(Debug, Default)]
struct Account {
    /// Whose it is, or 0 while nobody may send.
    generation: AtomicU32,
    queued: AtomicU32,
}

/// Why nothing was reserved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Overdrawn {
    /// The connection takes no messages (any more).
    Closed,
    /// Its own limit.
    Queue,
    /// The limit of all together.
    InAll,
}

impl Ledger {
    /// For slots up to `slots`; a queue may hold `queue_max` bytes, all together `in_all_max`, and with unfinished input
    /// `buffered_max`.
    pub(crate) fn new(
        slots: usize,
        queue_max: usize,
        in_all_max: usize,
        buffered_max: usize,
    ) -> Ledger {
        Ledger {
            blocks: (0..slots.div_ceil(BLOCK_LEN)).map(|_| OnceLock::new()).collect(),
            in_all: AtomicUsize::new(0),
            held: AtomicUsize::new(0),
            queue_max,
            in_all_max,
            buffered_max,
        }
    }

    fn account(&self, slot: u32) -> Option<&Account> {
        let slot = slot as usize;
        let block = self.blocks.get(slot / BLOCK_LEN)?.get()?;
        Some(&block[slot % BLOCK_LEN])
    }

    pub(crate) fn set_held(&self, held: usize) {
        self.held.store(held, Ordering::Relaxed);
    }

    /// Opens the account of a connection that has so many bytes queued.
    pub(crate) fn open(&self, id: ConnId, queued: usize) {
        if let Some(block) = self.blocks.get(id.slot() as usize / BLOCK_LEN) {
            let accounts = || Box::new(std::array::from_fn(|_| Account::default()));
            let account = &block.get_or_init(accounts)[id.slot() as usize % BLOCK_LEN];
            // Added, not stored: what was handed in for the slot's last owner may still be on its way.
            account.queued.fetch_add(queued as u32, Ordering::Relaxed);
            account.generation.store(id.generation(), Ordering::Relaxed);
            self.in_all.fetch_add(queued, Ordering::Relaxed);
        }
    }

    /// Nobody may add to this account any more.
    pub(crate) fn close(&self, slot: u32) {
        if let Some(account) = self.account(slot) {
            account.generation.store(0, Ordering::Relaxed);
        }
    }

    /// Adds `len` bytes, if the limits allow it where `freed` bytes are about to go.
    pub(crate) fn reserve(&self, id: ConnId, len: usize, freed: usize) -> Result<(), Overdrawn> {
        let account = self.account(id.slot()).ok_or(Overdrawn::Closed)?;
        if account.generation.load(Ordering::Relaxed) != id.generation() {
            return Err(Overdrawn::Closed);
        }
        let add = |before: usize, most: usize| {
            Some(before + len).filter(|after| after - freed.min(*after) <= most)
        };
        let own = |before: u32| add(before as usize, self.queue_max).map(|after| after as u32);
        let own = account.queued.fetch_update(Ordering::Relaxed, Ordering::Relaxed, own);
        own.map_err(|_| Overdrawn::Queue)?;
        let room = self.buffered_max.saturating_sub(self.held.load(Ordering::Relaxed));
        let in_all = |before| add(before, self.in_all_max.min(room));
        if self.in_all.fetch_update(Ordering::Relaxed, Ordering::Relaxed, in_all).is_err() {
            account.queued.fetch_sub(len as u32, Ordering::Relaxed);
            return Err(Overdrawn::InAll);
        }
        Ok(())
    }

    /// Takes off what has left or was dropped.
    pub(crate) fn release(&self, slot: u32, len: usize) {
        if let Some(account) = self.account(slot) {
            account.queued.fetch_sub(len as u32, Ordering::Relaxed);
            self.in_all.fetch_sub(len, Ordering::Relaxed);
        }
    }

    /// Bytes that wait on one connection.
    pub(crate) fn queued(&self, slot: u32) -> usize {
        self.account(slot).map_or(0, |account| account.queued.load(Ordering::Relaxed) as usize)
    }

    /// Bytes that wait on all together.
    pub(crate) fn in_all(&self) -> usize {
        self.in_all.load(Ordering::Relaxed)
    }
}

/// Accounts that are made at once.
const BLOCK_LEN: usize = 1_024;

#[cfg(test)]
mod tests {
    use super::*;

    fn id(generation: u64, slot: u64) -> ConnId {
        ConnId::from_bits(generation << 32 | slot).expect("an id")
    }

    #[test]
    fn both_limits_hold_and_a_refusal_leaves_no_trace() {
        let ledger = Ledger::new(3, 100, 150, 200);
        ledger.open(id(1, 0), 10);
        ledger.open(id(1, 1), 0);
        assert_eq!(ledger.reserve(id(1, 0), 90, 0), Ok(()));
        assert_eq!(ledger.reserve(id(1, 0), 1, 0), Err(Overdrawn::Queue));
        assert_eq!(ledger.reserve(id(1, 0), 20, 20), Ok(()), "what is freed makes room");
        ledger.release(0, 20);
        assert_eq!(ledger.reserve(id(1, 1), 51, 0), Err(Overdrawn::InAll));
        assert_eq!(ledger.reserve(id(1, 1), 50, 0), Ok(()));
        assert_eq!((ledger.queued(0), ledger.queued(1), ledger.in_all()), (100, 50, 150));
    }

    #[test]
    fn unfinished_input_takes_room_from_all() {
        let ledger = Ledger::new(1, 100, 100, 120);
        ledger.open(id(1, 0), 0);
        ledger.set_held(50);
        assert_eq!(ledger.reserve(id(1, 0), 71, 0), Err(Overdrawn::InAll));
        assert_eq!(ledger.reserve(id(1, 0), 70, 0), Ok(()));
    }

    #[test]
    fn a_closed_or_foreign_account_takes_nothing() {
        let ledger = Ledger::new(2, 100, 100, 100);
        ledger.open(id(7, 1), 0);
        assert_eq!(ledger.reserve(id(6, 1), 1, 0), Err(Overdrawn::Closed));
        assert_eq!(ledger.reserve(id(1, 0), 1, 0), Err(Overdrawn::Closed), "never opened");
        assert_eq!(ledger.reserve(id(1, 9), 1, 0), Err(Overdrawn::Closed), "no such slot");
        ledger.close(1);
        assert_eq!(ledger.reserve(id(7, 1), 1, 0), Err(Overdrawn::Closed));
        assert_eq!(ledger.in_all(), 0);
    }

    #[test]
    fn threads_together_never_pass_the_limit() {
        let ledger = Ledger::new(1, 1_000, 10_000, 10_000);
        ledger.open(id(1, 0), 0);
        let reserved: usize = std::thread::scope(|scope| {
            let reserve = || (0..1_000).filter(|_| ledger.reserve(id(1, 0), 3, 0).is_ok()).count();
            let threads: Vec<_> = (0..4).map(|_| scope.spawn(reserve)).collect();
            threads.into_iter().map(|thread| thread.join().expect("no panic")).sum()
        });
        assert_eq!(reserved, 333);
        assert_eq!(ledger.queued(0), 999);
    }
}
