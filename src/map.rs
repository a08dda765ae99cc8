//! What a game keeps about each connection.

use std::fmt;
use std::iter::FusedIterator;
use std::ops::{Index, IndexMut};

use crate::id::ConnId;

/// A map from [`ConnId`] to whatever a game keeps about a connection: its player, its name, its room.
///
/// The entries stand in a plain vector, by the slot number in the id, so a look-up is an index and a
/// comparison, without hashing, and iteration goes through memory in order of the slots. A reactor uses its
/// slots again, so the vector is as long as there ever were connections at one time.
///
/// Ids are compared whole: one that is kept too long finds nothing, even when another connection has
/// taken its slot over. Per slot there is one entry, that of the latest connection; an entry that the game
/// forgot to remove gives way to it.
///
/// Ids of different reactors may be equal, so each reactor wants a map of its own.
///
/// ```
/// use tickwire::{ConnMap, Event, Outbox};
///
/// struct Player { name: String, score: u32 }
///
/// fn on_event(players: &mut ConnMap<Player>, event: Event<'_>, outbox: &mut Outbox<'_>) {
///     match event {
///         Event::Connected { conn, .. } => {
///             players.insert(conn, Player { name: format!("player {conn}"), score: 0 });
///         }
///         Event::Message { conn, payload } => {
///             players[conn].score += payload.len() as u32;
///             outbox.broadcast(players.keys(), payload);
///         }
///         Event::Disconnected { conn, .. } => {
///             let Player { name, score } = players.remove(conn).expect("it was connected");
///             println!("{name} left with {score} points");
///         }
///         _ => {}
///     }
/// }
/// ```
#[derive(Clone)]
pub struct ConnMap<T> {
    /// Invariant: what stands at an index has this index as its id's slot.
    entries: Vec<Option<(ConnId, T)>>,
    /// How many entries are `Some`.
    len: usize,
}

impl<T> ConnMap<T> {
    /// An empty map; it takes no memory until something is inserted.
    pub const fn new() -> ConnMap<T> {
        ConnMap { entries: Vec::new(), len: 0 }
    }

    /// An empty map with room for this many connections at one time.
    pub fn with_capacity(connections: usize) -> ConnMap<T> {
        ConnMap { entries: Vec::with_capacity(connections), len: 0 }
    }

    /// How many connections have an entry.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether no connection has an entry.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Puts a value in, and returns the one that gave way.
    ///
    /// That is the former value of the same connection, or of an earlier one in the same slot. If the
    /// slot belongs to a *later* connection already, `conn` is stale: its entry stays as it is, and
    /// `value` itself is returned.
    ///
    /// The map grows up to the slot in the id: do not insert ids that were made up
    /// ([`ConnId::from_bits`]) by somebody else.
    ///
    /// ```
    /// # use tickwire::{ConnId, ConnMap};
    /// # let id = |slot: u64, generation: u64| ConnId::from_bits(generation << 32 | slot).unwrap();
    /// let mut names = ConnMap::new();
    /// let (early, late) = (id(3, 1), id(3, 2)); // two connections, one after the other, in slot 3
    /// assert_eq!(names.insert(early, "Ann"), None);
    /// assert_eq!(names.insert(late, "Bob"), Some("Ann"));
    /// assert_eq!(names.insert(early, "Ann again"), Some("Ann again"));
    /// assert_eq!((names.get(early), names.get(late)), (None, Some(&"Bob")));
    /// ```
    pub fn insert(&mut self, conn: ConnId, value: T) -> Option<T> {
        let entry = self.grown_to(conn);
        if entry.as_ref().is_some_and(|(held, _)| is_later(*held, conn)) {
            return Some(value);
        }
        match entry.replace((conn, value)) {
            Some((_, before)) => Some(before),
            None => {
                self.len += 1;
                None
            }
        }
    }

    /// The value of a connection.
    #[inline]
    pub fn get(&self, conn: ConnId) -> Option<&T> {
        match self.entries.get(conn.slot() as usize) {
            Some(Some((held, value))) if *held == conn => Some(value),
            _ => None,
        }
    }

    /// The value of a connection, to be changed.
    #[inline]
    pub fn get_mut(&mut self, conn: ConnId) -> Option<&mut T> {
        match self.entries.get_mut(conn.slot() as usize) {
            Some(Some((held, value))) if *held == conn => Some(value),
            _ => None,
        }
    }

    /// The value of a connection; one that has none yet gets that of `make`, and an entry of an earlier
    /// connection in the same slot gives way to it. `None` if `conn` is stale, that is if the slot belongs
    /// to a later connection already; `make` is not called then.
    ///
    /// ```
    /// # use tickwire::{ConnId, ConnMap};
    /// # let conn = ConnId::from_bits(1 << 32).unwrap();
    /// let mut messages: ConnMap<u32> = ConnMap::new();
    /// for _ in 0..3 {
    ///     *messages.get_or_insert_with(conn, || 0).expect("a live connection") += 1;
    /// }
    /// assert_eq!(messages[conn], 3);
    /// ```
    pub fn get_or_insert_with(&mut self, conn: ConnId, make: impl FnOnce() -> T) -> Option<&mut T> {
        if !self.contains_key(conn) {
            let is_stale = matches!(self.grown_to(conn), Some((held, _)) if is_later(*held, conn));
            if is_stale {
                return None;
            }
            self.insert(conn, make());
        }
        self.get_mut(conn)
    }

    /// Whether a connection has an entry.
    #[inline]
    pub fn contains_key(&self, conn: ConnId) -> bool {
        self.get(conn).is_some()
    }

    /// Takes a connection's value out. `None` if it has none: a stale id removes nothing.
    pub fn remove(&mut self, conn: ConnId) -> Option<T> {
        let entry = self.entries.get_mut(conn.slot() as usize)?;
        let (_, value) = entry.take_if(|(held, _)| *held == conn)?;
        self.len -= 1;
        Some(value)
    }

    /// Removes all entries. The memory is kept.
    pub fn clear(&mut self) {
        self.entries.clear();
        self.len = 0;
    }

    /// Removes the entries for which `keep` says `false`.
    pub fn retain(&mut self, mut keep: impl FnMut(ConnId, &mut T) -> bool) {
        let ConnMap { entries, len } = self;
        for entry in entries {
            if entry.take_if(|(conn, value)| !keep(*conn, value)).is_some() {
                *len -= 1;
            }
        }
    }

    /// The entries, in order of their slots.
    pub fn iter(&self) -> Iter<'_, T> {
        Iter { entries: self.entries.iter(), left: self.len }
    }

    /// The entries, in order of their slots, with values to be changed.
    pub fn iter_mut(&mut self) -> IterMut<'_, T> {
        IterMut { entries: self.entries.iter_mut(), left: self.len }
    }

    /// The connections that have an entry, in order of their slots: a group for
    /// [`broadcast`](crate::Outbox::broadcast).
    pub fn keys(&self) -> impl DoubleEndedIterator<Item = ConnId> + ExactSizeIterator + Clone {
        self.iter().map(|(conn, _)| conn)
    }

    /// The values, in order of their slots.
    pub fn values(&self) -> impl DoubleEndedIterator<Item = &T> + ExactSizeIterator + Clone {
        self.iter().map(|(_, value)| value)
    }

    /// The values, in order of their slots, to be changed.
    pub fn values_mut(&mut self) -> impl DoubleEndedIterator<Item = &mut T> + ExactSizeIterator {
        self.iter_mut().map(|(_, value)| value)
    }

    /// Takes all entries out, in order of their slots. The memory is kept. What the iterator has not
    /// given when it is dropped is gone too.
    pub fn drain(&mut self) -> Drain<'_, T> {
        let left = std::mem::take(&mut self.len);
        Drain { entries: self.entries.drain(..), left }
    }

    /// The place for a connection's entry.
    fn grown_to(&mut self, conn: ConnId) -> &mut Option<(ConnId, T)> {
        let slot = conn.slot() as usize;
        if slot >= self.entries.len() {
            self.entries.resize_with(slot + 1, || None);
        }
        &mut self.entries[slot]
    }
}

/// Whether `held` is a later connection than `conn` in the same slot. Generations do not wrap around.
fn is_later(held: ConnId, conn: ConnId) -> bool {
    held.generation() > conn.generation()
}

/// The entries of a [`ConnMap`].
pub struct Iter<'a, T> {
    entries: std::slice::Iter<'a, Option<(ConnId, T)>>,
    left: usize,
}

/// The entries of a [`ConnMap`], with values to be changed.
pub struct IterMut<'a, T> {
    entries: std::slice::IterMut<'a, Option<(ConnId, T)>>,
    left: usize,
}

/// The entries of a [`ConnMap`], owned.
pub struct IntoIter<T> {
    entries: std::vec::IntoIter<Option<(ConnId, T)>>,
    left: usize,
}

/// The entries that are taken out of a [`ConnMap`].
pub struct Drain<'a, T> {
    entries: std::vec::Drain<'a, Option<(ConnId, T)>>,
    left: usize,
}

/// Iterates over the occupied slots; `$borrow` turns an entry into the item.
macro_rules! occupied {
    ($iter:ty, [$($generics:tt)*], $item:ty, $borrow:expr) => {
        impl<$($generics)*> Iterator for $iter {
            type Item = $item;

            fn next(&mut self) -> Option<$item> {
                let item = self.entries.find_map($borrow)?;
                self.left -= 1;
                Some(item)
            }

            fn size_hint(&self) -> (usize, Option<usize>) {
                (self.left, Some(self.left))
            }
        }

        impl<$($generics)*> DoubleEndedIterator for $iter {
            fn next_back(&mut self) -> Option<$item> {
                let item = self.entries.by_ref().rev().find_map($borrow)?;
                self.left -= 1;
                Some(item)
            }
        }

        impl<$($generics)*> ExactSizeIterator for $iter {}
        impl<$($generics)*> FusedIterator for $iter {}

        impl<$($generics)*> fmt::Debug for $iter {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.debug_struct(stringify!($iter)).field("left", &self.left).finish_non_exhaustive()
            }
        }
    };
}

occupied!(Iter<'a, T>, ['a, T], (ConnId, &'a T), |entry| {
    entry.as_ref().map(|(conn, value)| (*conn, value))
});
occupied!(IterMut<'a, T>, ['a, T], (ConnId, &'a mut T), |entry| {
    entry.as_mut().map(|(conn, value)| (*conn, value))
});
occupied!(IntoIter<T>, [T], (ConnId, T), |entry| entry);
occupied!(Drain<'_, T>, [T], (ConnId, T), |entry| entry);

impl<T> Clone for Iter<'_, T> {
    fn clone(&self) -> Self {
        Iter { entries: self.entries.clone(), left: self.left }
    }
}

impl<T> IntoIterator for ConnMap<T> {
    type Item = (ConnId, T);
    type IntoIter = IntoIter<T>;

    fn into_iter(self) -> IntoIter<T> {
        IntoIter { entries: self.entries.into_iter(), left: self.len }
    }
}

impl<'a, T> IntoIterator for &'a ConnMap<T> {
    type Item = (ConnId, &'a T);
    type IntoIter = Iter<'a, T>;

    fn into_iter(self) -> Iter<'a, T> {
        self.iter()
    }
}

impl<'a, T> IntoIterator for &'a mut ConnMap<T> {
    type Item = (ConnId, &'a mut T);
    type IntoIter = IterMut<'a, T>;

    fn into_iter(self) -> IterMut<'a, T> {
        self.iter_mut()
    }
}

/// As by [`insert`](ConnMap::insert), one after the other.
impl<T> Extend<(ConnId, T)> for ConnMap<T> {
    fn extend<I: IntoIterator<Item = (ConnId, T)>>(&mut self, entries: I) {
        for (conn, value) in entries {
            self.insert(conn, value);
        }
    }
}

/// As by [`insert`](ConnMap::insert), one after the other.
impl<T> FromIterator<(ConnId, T)> for ConnMap<T> {
    fn from_iter<I: IntoIterator<Item = (ConnId, T)>>(entries: I) -> ConnMap<T> {
        let mut map = ConnMap::new();
        map.extend(entries);
        map
    }
}

/// Panics if the connection has no entry, as for a stale id; [`get`](ConnMap::get) answers `None` then.
impl<T> Index<ConnId> for ConnMap<T> {
    type Output = T;

    #[track_caller]
    fn index(&self, conn: ConnId) -> &T {
        match self.get(conn) {
            Some(value) => value,
            None => missing(conn),
        }
    }
}

/// Panics if the connection has no entry, as for a stale id; [`get_mut`](ConnMap::get_mut) answers
/// `None` then.
impl<T> IndexMut<ConnId> for ConnMap<T> {
    #[track_caller]
    fn index_mut(&mut self, conn: ConnId) -> &mut T {
        match self.get_mut(conn) {
            Some(value) => value,
            None => missing(conn),
        }
    }
}

#[cold]
#[track_caller]
fn missing(conn: ConnId) -> ! {
    panic!("connection {conn} has no entry in the map")
}

impl<T> Default for ConnMap<T> {
    fn default() -> ConnMap<T> {
        ConnMap::new()
    }
}

impl<T: fmt::Debug> fmt::Debug for ConnMap<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self).finish()
    }
}

/// Equal if the same connections have equal values, whatever was removed before.
impl<T: PartialEq> PartialEq for ConnMap<T> {
    fn eq(&self, other: &ConnMap<T>) -> bool {
        self.len == other.len && self.iter().eq(other)
    }
}

impl<T: Eq> Eq for ConnMap<T> {}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    fn id(slot: u32, generation: u32) -> ConnId {
        let bits = u64::from(generation) << 32 | u64::from(slot);
        ConnId::from_bits(bits).expect("generations start at 1")
    }

    #[test]
    fn a_stale_id_reaches_nothing_of_the_next_owner() {
        let mut map = ConnMap::new();
        let (old, new) = (id(4, 1), id(4, 2));
        map.insert(new, "new");
        assert!(map.get(old).is_none() && map.get_mut(old).is_none() && !map.contains_key(old));
        assert_eq!(map.get_or_insert_with(old, || unreachable!("not for a stale id")), None);
        assert_eq!(map.remove(old), None);
        assert_eq!(map.insert(old, "old"), Some("old"));
        assert_eq!((map.len(), map[new]), (1, "new"));
    }

    #[test]
    fn a_later_connection_takes_the_slot_over() {
        let mut map = ConnMap::from_iter([(id(0, 1), "first")]);
        assert_eq!(map.insert(id(0, 5), "second"), Some("first"));
        assert_eq!(map.get_or_insert_with(id(0, 9), || "third"), Some(&mut "third"));
        assert_eq!((map.len(), map.get(id(0, 5))), (1, None));
    }

    #[test]
    fn an_entry_costs_no_more_than_its_id_and_value() {
        assert_eq!(size_of::<Option<(ConnId, u64)>>(), 16);
    }

    #[test]
    fn iteration_is_in_order_of_the_slots_from_both_ends() {
        let mut map: ConnMap<u32> =
            [9, 2, 7, 4].map(|slot| (id(slot, 10 - slot), slot)).into_iter().collect();
        map.remove(id(7, 3));
        assert_eq!(map.keys().collect::<Vec<_>>(), [id(2, 8), id(4, 6), id(9, 1)]);
        assert_eq!(map.values().rev().copied().collect::<Vec<_>>(), [9, 4, 2]);
        let mut iter = map.iter();
        assert_eq!((iter.next_back(), iter.len()), (Some((id(9, 1), &9)), 2));
        assert_eq!(iter.clone().map(|(_, value)| *value).collect::<Vec<_>>(), [2, 4]);
        assert_eq!(
            (iter.nth(1), iter.next(), iter.next_back()),
            (Some((id(4, 6), &4)), None, None)
        );
        map.values_mut().for_each(|value| *value += 1);
        for (_, value) in &mut map {
            *value *= 2;
        }
        assert_eq!(format!("{map:?}"), "{ConnId(2v8): 6, ConnId(4v6): 10, ConnId(9v1): 20}");
        assert_eq!(map.into_iter().map(|(_, value)| value).collect::<Vec<_>>(), [6, 10, 20]);
    }

    #[test]
    fn draining_empties_the_map_even_when_it_is_broken_off() {
        let mut map: ConnMap<u32> = (0..10).map(|slot| (id(slot, 1), slot)).collect();
        assert_eq!(map.drain().take(2).map(|(_, value)| value).collect::<Vec<_>>(), [0, 1]);
        assert!(map.is_empty() && map.iter().next().is_none());
        map.insert(id(3, 1), 3);
        assert_eq!(map.drain().len(), 1);
    }

    #[test]
    fn what_was_removed_makes_no_difference_to_equality() {
        let mut one: ConnMap<&str> = [(id(0, 1), "a"), (id(8, 1), "b")].into_iter().collect();
        let two = ConnMap::from_iter([(id(0, 1), "a")]);
        assert_ne!(one, two);
        one.remove(id(8, 1));
        assert_eq!(one, two);
        assert_ne!(one, ConnMap::from_iter([(id(0, 2), "a")]));
        one.clear();
        assert_eq!(one, ConnMap::default());
    }

    #[test]
    #[should_panic(expected = "connection 3v7 has no entry")]
    fn indexing_by_a_stale_id_names_it() {
        let _ = ConnMap::from_iter([(id(3, 8), "new")])[id(3, 7)];
    }

    /// A reference that keeps the latest connection of each slot.
    #[test]
    fn it_behaves_as_a_hash_map_of_the_latest_ids() {
        for seed in 1..=50u64 {
            let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
            let mut random = |below: u64| {
                // xorshift64 (Marsaglia 2003)
                state ^= state << 13;
                state ^= state >> 7;
                state ^= state << 17;
                state % below
            };
            let mut map = ConnMap::with_capacity(random(4) as usize);
            let mut model: HashMap<u32, (u32, u64)> = HashMap::new();
            for step in 0..400 {
                let (slot, generation) = (random(12) as u32, 1 + random(4) as u32);
                let conn = id(slot, generation);
                let held = model.get(&slot).copied();
                let own = held.filter(|(of, _)| *of == generation).map(|(_, value)| value);
                let is_stale = held.is_some_and(|(of, _)| of > generation);
                match random(100) {
                    0..35 if is_stale => assert_eq!(map.insert(conn, step), Some(step)),
                    0..35 => {
                        let before = model.insert(slot, (generation, step));
                        assert_eq!(map.insert(conn, step), before.map(|(_, value)| value));
                    }
                    35..60 => {
                        assert_eq!(map.remove(conn), own);
                        if own.is_some() {
                            model.remove(&slot);
                        }
                    }
                    60..75 => {
                        let got = map.get_or_insert_with(conn, || step).map(|value| *value);
                        assert_eq!(got, if is_stale { None } else { own.or(Some(step)) });
                        if let Some(value) = got {
                            model.insert(slot, (generation, value));
                        }
                    }
                    75..95 => {
                        if let Some(value) = map.get_mut(conn) {
                            *value += 1_000;
                            model.get_mut(&slot).expect("the same entries").1 += 1_000;
                        }
                    }
                    95..99 => {
                        map.retain(|conn, value| (u64::from(conn.slot()) + *value) % 3 != 0);
                        model.retain(|slot, (_, value)| (u64::from(*slot) + *value) % 3 != 0);
                    }
                    _ => {
                        map.clear();
                        model.clear();
                    }
                }
                let mut expected: Vec<_> = model
                    .iter()
                    .map(|(slot, (generation, value))| (id(*slot, *generation), *value))
                    .collect();
                expected.sort_by_key(|(conn, _)| conn.slot());
                assert_eq!(map.len(), expected.len(), "seed {seed}, step {step}");
                assert!(
                    map.iter().map(|(conn, value)| (conn, *value)).eq(expected),
                    "seed {seed}, step {step}"
                );
                let found = map.get(conn).copied();
                let held = model.get(&slot).filter(|(of, _)| *of == generation);
                assert_eq!(found, held.map(|(_, value)| *value), "seed {seed}, step {step}");
            }
        }
    }
}
