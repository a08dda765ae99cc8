//! What waits to leave on one connection, in order.

use std::collections::VecDeque;
use std::io::IoSlice;

use bytes::{Buf, Bytes};

use crate::pool::{Pool, Shelf};
use crate::ring::Ring;

/// Bytes in a ring and, between them, large payloads that several connections share.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    pub(crate) ring: Ring,
    /// `None` nearly always, and one word then.
    shared: Option<Box<Payloads>>,
}

/// Shared payloads among the bytes of a ring.
#[derive(Debug, Default)]
pub(crate) struct Payloads {
    /// Each with the bytes of the ring that leave before it, counted from the one before.
    queue: VecDeque<(usize, Bytes)>,
    /// Bytes of the ring that leave before the last payload.
    ring_len: usize,
    /// Bytes of the payloads.
    len: usize,
}

/// Where the lists of shared payloads come from and go, so that a warm broadcast allocates none. A
/// queue holds one word, so the box itself goes back and forth.
pub(crate) type Spares = Shelf<Box<Payloads>>;

impl Queue {
    /// Bytes that wait.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.ring.len() + self.shared.as_ref().map_or(0, |shared| shared.len)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Room for `len` further bytes in the ring.
    #[inline]
    pub(crate) fn reserve(&mut self, len: usize, pool: &mut Pool) {
        if self.ring.free() < len {
            let larger = pool.take(self.ring.len() + len);
            pool.put(self.ring.rehome(larger));
        }
    }

    /// Room for `len` further bytes behind the live ones, in one piece.
    #[inline]
    pub(crate) fn reserve_appendable(&mut self, len: usize, pool: &mut Pool) {
        if self.ring.wraps() || self.ring.capacity() - self.ring.contiguous_end() < len {
            let larger = pool.take(self.ring.len() + len);
            pool.put(self.ring.rehome(larger));
        }
    }

    /// Queues a payload behind all that is in the ring.
    pub(crate) fn push_shared(&mut self, payload: Bytes, spares: &mut Spares) {
        let shared = self.shared.get_or_insert_with(|| spares.take().unwrap_or_default());
        let after = self.ring.len() - shared.ring_len;
        shared.ring_len += after;
        shared.len += payload.len();
        shared.queue.push_back((after, payload));
    }

    /// What leaves next, in order, in as many pieces as there is room for. Returns the number of
    /// pieces and of bytes.
    #[inline]
    pub(crate) fn gather<'a>(&'a self, slices: &mut [IoSlice<'a>; SLICES_MAX]) -> (usize, usize) {
        let mut pieces = Pieces { slices, count: 0, bytes: 0 };
        let (first, wrapped) = self.ring.slices();
        let mut from = 0;
        for (after, payload) in self.shared.iter().flat_map(|shared| &shared.queue) {
            pieces.push_range(first, wrapped, from, from + after);
            pieces.push(payload);
            from += after;
        }
        pieces.push_range(first, wrapped, from, self.ring.len());
        (pieces.count, pieces.bytes)
    }

    /// Drops what has left.
    #[inline]
    pub(crate) fn consume(&mut self, len: usize, spares: &mut Spares) {
        match &mut self.shared {
            None => self.ring.consume(len),
            Some(shared) => {
                shared.consume(&mut self.ring, len);
                if shared.queue.is_empty() {
                    self.shared.take().into_iter().for_each(|spare| spares.put(spare));
                }
            }
        }
    }

    /// Drops everything and gives back all memory.
    pub(crate) fn clear(&mut self, pool: &mut Pool, spares: &mut Spares) {
        pool.put(self.ring.release());
        if let Some(mut shared) = self.shared.take() {
            shared.queue.clear();
            (shared.ring_len, shared.len) = (0, 0);
            spares.put(shared);
        }
    }
}

impl Payloads {
    fn consume(&mut self, ring: &mut Ring, mut len: usize) {
        while let Some((after, payload)) = self.queue.front_mut() {
            let from_ring = len.min(*after);
            ring.consume(from_ring);
            *after -= from_ring;
            self.ring_len -= from_ring;
            let from_payload = (len - from_ring).min(payload.len());
            payload.advance(from_payload);
            self.len -= from_payload;
            len -= from_ring + from_payload;
            if *after > 0 || !payload.is_empty() {
                return;
            }
            self.queue.pop_front();
        }
        ring.consume(len);
    }
}

/// Slices being gathered; what no longer fits is left for the next send.
struct Pieces<'s, 'a> {
    slices: &'s mut [IoSlice<'a>; SLICES_MAX],
    count: usize,
    bytes: usize,
}

impl<'a> Pieces<'_, 'a> {
    fn push(&mut self, piece: &'a [u8]) {
        if self.count < SLICES_MAX && !piece.is_empty() {
            self.slices[self.count] = IoSlice::new(piece);
            self.count += 1;
            self.bytes += piece.len();
        }
    }

    /// Bytes `from..to` of a ring's two slices taken together.
    fn push_range(&mut self, first: &'a [u8], wrapped: &'a [u8], from: usize, to: usize) {
        let split = first.len();
        self.push(&first[from.min(split)..to.min(split)]);
        self.push(&wrapped[from.max(split) - split..to.max(split) - split]);
    }
}

/// Pieces that one send takes. A connection has one or two, but for shared payloads.
pub(crate) const SLICES_MAX: usize = 8;

#[cfg(test)]
mod tests {
    use super::*;

    /// What one send would be offered.
    fn offered(queue: &Queue) -> Vec<u8> {
        let mut slices = [IoSlice::new(&[]); SLICES_MAX];
        let (count, bytes) = queue.gather(&mut slices);
        let all: Vec<u8> = slices[..count].iter().flat_map(|slice| slice.iter().copied()).collect();
        assert_eq!(all.len(), bytes);
        all
    }

    /// Shared and copied bytes leave in the order of the calls, however the socket cuts them.
    #[test]
    fn shared_payloads_keep_their_place_at_every_cut() {
        let (mut pool, mut spares) = (Pool::default(), Spares::default());
        for step in 1..=40 {
            let mut queue = Queue::default();
            let mut expected = Vec::new();
            for round in 0..30u8 {
                let copied = vec![round; usize::from(round) % 5];
                let shared = vec![100 + round; usize::from(round) % 7 + 1];
                queue.reserve(copied.len(), &mut pool);
                queue.ring.push(&copied);
                if round % 3 != 0 {
                    queue.push_shared(Bytes::from(shared.clone()), &mut spares);
                    expected.extend_from_slice(&[copied, shared].concat());
                } else {
                    expected.extend_from_slice(&copied);
                }
            }
            let mut left = Vec::new();
            while !queue.is_empty() {
                assert_eq!(queue.len(), expected.len() - left.len());
                let mut next = offered(&queue);
                next.truncate(step);
                queue.consume(next.len(), &mut spares);
                left.extend(next);
            }
            assert_eq!(left, expected);
            queue.clear(&mut pool, &mut spares);
        }
        assert!(spares.take().is_some() && spares.take().is_none(), "one list served them all");
    }

    #[test]
    fn a_cleared_queue_holds_nothing() {
        let (mut pool, mut spares) = (Pool::default(), Spares::default());
        let mut queue = Queue::default();
        queue.reserve(3, &mut pool);
        queue.ring.push(&[1, 2, 3]);
        queue.push_shared(Bytes::from_static(b"shared"), &mut spares);
        queue.clear(&mut pool, &mut spares);
        assert!(queue.is_empty() && queue.ring.capacity() == 0);
        queue.push_shared(Bytes::from_static(b"again"), &mut spares);
        assert_eq!(offered(&queue), b"again");
    }
}
