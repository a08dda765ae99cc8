//! A slab whose keys carry a generation.

use std::num::NonZeroU32;
use std::sync::atomic::{AtomicU8, Ordering};

use slab::Slab;

use crate::id::ConnId;

/// Entries named by [`ConnId`]: an id of an entry that is gone is recognised, even when its slot was
/// taken again.
///
/// Beside each entry stand marks that the halves of a batch share through `&self`: the sending half
/// sets *muted* when the game closes a connection, and the receiving half then hands out no more
/// messages of it, and *paused* when the game wants to hear no more of it for now; the receiving
/// half sets *gone* when it hands out the end, and the sending half then calls the id stale. Relaxed
/// atomics instead of cells keep the reactor `Sync`. *Live* stands there, too, so that looking an id up
/// does not touch the entry.
#[derive(Debug)]
pub(crate) struct Slots<T> {
    slab: Slab<Option<T>>,
    generations: Vec<NonZeroU32>,
    marks: Vec<AtomicU8>,
    retired: usize,
}

impl<T> Default for Slots<T> {
    fn default() -> Slots<T> {
        Slots { slab: Slab::new(), generations: Vec::new(), marks: Vec::new(), retired: 0 }
    }
}

impl<T> Slots<T> {
    /// Live entries.
    pub(crate) fn len(&self) -> usize {
        self.slab.len() - self.retired
    }

    /// The slot that the next [`insert`](Slots::insert) takes.
    pub(crate) fn vacant(&self) -> u32 {
        u32::try_from(self.slab.vacant_key()).expect("the connection limit fits 31 bits")
    }

    pub(crate) fn insert(&mut self, entry: T) -> ConnId {
        let slot = self.slab.insert(Some(entry));
        if slot == self.generations.len() {
            self.generations.push(NonZeroU32::MIN);
            self.marks.push(AtomicU8::new(0));
        }
        *self.marks[slot].get_mut() = LIVE;
        self.id(slot as u32)
    }

    /// Frees a slot; its id is stale from now on. A slot whose generations are used up is retired.
    pub(crate) fn remove(&mut self, slot: u32) {
        let slot = slot as usize;
        *self.marks[slot].get_mut() = 0;
        match self.generations[slot].checked_add(1) {
            Some(next) => {
                self.generations[slot] = next;
                self.slab.remove(slot);
            }
            None => {
                self.slab[slot] = None; // never vacant again, so no id is ever given twice
                self.retired += 1;
            }
        }
    }

    /// The id of a live slot.
    pub(crate) fn id(&self, slot: u32) -> ConnId {
        ConnId::new(slot, self.generations[slot as usize])
    }

    /// The slot of an id, unless it is stale.
    #[inline]
    pub(crate) fn find(&self, id: ConnId) -> Option<u32> {
        let slot = id.slot() as usize;
        let generation = self.generations.get(slot)?.get();
        (generation == id.generation() && self.has(id.slot(), LIVE)).then_some(id.slot())
    }

    pub(crate) fn get(&self, slot: u32) -> &T {
        self.slab[slot as usize].as_ref().expect("the slot is live")
    }

    pub(crate) fn get_mut(&mut self, slot: u32) -> &mut T {
        self.slab[slot as usize].as_mut().expect("the slot is live")
    }

    /// The live slots at this moment.
    pub(crate) fn live(&self) -> Vec<u32> {
        self.slab.iter().filter(|(_, entry)| entry.is_some()).map(|(slot, _)| slot as u32).collect()
    }

    #[inline]
    pub(crate) fn is_muted(&self, slot: u32) -> bool {
        self.has(slot, MUTED)
    }

    pub(crate) fn mute(&self, slot: u32) {
        self.marks[slot as usize].fetch_or(MUTED, Ordering::Relaxed);
    }

    pub(crate) fn is_gone(&self, slot: u32) -> bool {
        self.has(slot, GONE)
    }

    pub(crate) fn is_paused(&self, slot: u32) -> bool {
        self.has(slot, PAUSED)
    }

    /// Returns whether that changed anything.
    pub(crate) fn set_paused(&self, slot: u32, paused: bool) -> bool {
        let marks = &self.marks[slot as usize];
        let before = match paused {
            true => marks.fetch_or(PAUSED, Ordering::Relaxed),
            false => marks.fetch_and(!PAUSED, Ordering::Relaxed),
        };
        (before & PAUSED != 0) != paused
    }

    #[inline]
    fn has(&self, slot: u32, mark: u8) -> bool {
        self.marks[slot as usize].load(Ordering::Relaxed) & mark != 0
    }

    pub(crate) fn set_gone(&self, slot: u32) {
        self.marks[slot as usize].fetch_or(MUTED | GONE, Ordering::Relaxed);
    }
}

/// Puts an entry into a column that is indexed by slot: a new slot is always the next one.
pub(crate) fn put<T>(column: &mut Vec<T>, slot: u32, entry: T) {
    match slot as usize {
        fresh if fresh == column.len() => column.push(entry),
        reused => column[reused] = entry,
    }
}

const MUTED: u8 = 1;
const GONE: u8 = 2;
const PAUSED: u8 = 4;
const LIVE: u8 = 8;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stale_id_never_reaches_the_next_owner_of_its_slot() {
        let mut slots = Slots::default();
        let first = slots.insert("first");
        slots.mute(first.slot());
        slots.remove(first.slot());
        let second = slots.insert("second");
        assert_eq!(first.slot(), second.slot());
        assert_eq!(slots.find(first), None);
        assert_eq!(slots.find(second), Some(second.slot()));
        assert!(!slots.is_muted(second.slot()), "marks start anew");
        let invented = ConnId::from_bits(1 << 32 | 77).expect("an id");
        assert_eq!(slots.find(invented), None);
    }

    #[test]
    fn a_slot_whose_generation_would_wrap_is_retired() {
        let mut slots = Slots::default();
        let first = slots.insert(1);
        slots.generations[first.slot() as usize] = NonZeroU32::MAX;
        let last = slots.id(first.slot());
        slots.remove(last.slot());
        assert_eq!(slots.len(), 0);
        assert_eq!(slots.find(last), None);
        let next = slots.insert(2);
        assert_ne!(next.slot(), last.slot());
        assert_eq!((slots.len(), slots.get(next.slot())), (1, &2));
    }
}
