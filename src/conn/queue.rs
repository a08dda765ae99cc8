//! What waits to leave on one connection, in order.

use std::collections::VecDeque;
use std::io::IoSlice;

use bytes::{Buf, Bytes};

use crate::pool::{Pool, Shelf};
use crate::ring::Ring;

/// Bytes in a ring and, between them, pieces that do not go through the ring: large payloads that several
/// connections share, and messages that a newer one of their kind may replace.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    pub(crate) ring: Ring,
    /// `None` nearly always, and one word then.
    aside: Option<Box<Aside>>,
}

/// Pieces among the bytes of a ring.
#[derive(Debug, Default)]
pub(crate) struct Aside {
    pieces: VecDeque<Piece>,
    /// Bytes of the ring that leave before the last piece.
    ring_len: usize,
    /// Bytes of the pieces.
    len: usize,
}

#[derive(Debug)]
struct Piece {
    /// Bytes of the ring that leave before it, counted from the piece before.
    after: usize,
    content: Content,
}

#[derive(Debug)]
enum Content {
    /// A payload whose header stands in the ring.
    Shared(Bytes),
    /// A whole frame, of which `sent` bytes have left, that a newer one of its slot replaces as long as that is none.
    Latest { slot: u32, frame: Vec<u8>, sent: usize },
}

/// Where the lists of pieces come from and go, so that a warm broadcast allocates none. A queue holds one word,
/// so the box itself goes back and forth.
pub(crate) type Spares = Shelf<Box<Aside>>;

impl Content {
    fn bytes(&self) -> &[u8] {
        match self {
            Content::Shared(payload) => payload,
            Content::Latest { frame, sent, .. } => &frame[*sent..],
        }
    }

    fn advance(&mut self, len: usize) {
        match self {
            Content::Shared(payload) => payload.advance(len),
            Content::Latest { sent, .. } => *sent += len,
        }
    }

    fn release(self, pool: &mut Pool) {
        if let Content::Latest { frame, .. } = self {
            pool.put(frame);
        }
    }
}

impl Queue {
    /// Bytes that wait.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.ring.len() + self.aside.as_ref().map_or(0, |aside| aside.len)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Room for `len` further bytes in the ring; its first buffer holds `usual` bytes at least.
    #[inline]
    pub(crate) fn reserve(&mut self, len: usize, usual: usize, pool: &mut Pool) {
        if self.ring.free() < len {
            let usual = if self.ring.capacity() == 0 { usual } else { 0 };
            self.move_to(pool.take((self.ring.len() + len).max(usual)), pool);
        }
    }

    #[cold]
    #[inline(never)]
    fn move_to(&mut self, mut buffer: Vec<u8>, pool: &mut Pool) {
        buffer.clear(); // a queue only appends, which is quickest where nothing stands yet
        pool.put(self.ring.rehome(buffer));
    }

    /// Room for `len` further bytes behind the live ones, in one piece.
    #[inline]
    pub(crate) fn reserve_appendable(&mut self, len: usize, usual: usize, pool: &mut Pool) {
        if self.ring.wraps() || self.ring.capacity() - self.ring.contiguous_end() < len {
            let usual = if self.ring.capacity() == 0 { usual } else { 0 };
            self.move_to(pool.take((self.ring.len() + len).max(usual)), pool);
        }
    }

    /// Queues a payload behind all that is there.
    pub(crate) fn push_shared(&mut self, payload: Bytes, spares: &mut Spares) {
        self.push_aside(Content::Shared(payload), spares);
    }

    /// Queues a frame behind all that is there, to be replaced by the next of its slot.
    pub(crate) fn push_latest(&mut self, slot: u32, frame: Vec<u8>, spares: &mut Spares) {
        self.push_aside(Content::Latest { slot, frame, sent: 0 }, spares);
    }

    fn push_aside(&mut self, content: Content, spares: &mut Spares) {
        let aside = self.aside.get_or_insert_with(|| spares.take().unwrap_or_default());
        let after = self.ring.len() - aside.ring_len;
        aside.ring_len += after;
        aside.len += content.bytes().len();
        aside.pieces.push_back(Piece { after, content });
    }

    /// The length of the frame of this slot that could be replaced: none of it has left.
    pub(crate) fn latest_len(&self, slot: u32) -> Option<usize> {
        let aside = self.aside.as_ref()?;
        Some(aside.pieces[aside.find(slot)?].content.bytes().len())
    }

    /// Takes out the frame of this slot, if none of it has left.
    pub(crate) fn remove_latest(&mut self, slot: u32, pool: &mut Pool) {
        let Some(aside) = &mut self.aside else { return };
        let Some(index) = aside.find(slot) else { return };
        let piece = aside.pieces.remove(index).expect("it was found there");
        aside.len -= piece.content.bytes().len();
        // The bytes of the ring before it leave before its successor now, or behind all pieces.
        match aside.pieces.get_mut(index) {
            Some(next) => next.after += piece.after,
            None => aside.ring_len -= piece.after,
        }
        piece.content.release(pool);
    }

    /// All that waits, if it lies in one piece, as it nearly always does.
    #[inline]
    pub(crate) fn in_one_piece(&self) -> Option<&[u8]> {
        let (bytes, wrapped) = self.ring.slices();
        (self.aside.is_none() && wrapped.is_empty()).then_some(bytes)
    }

    /// What leaves next, in order, in as many pieces as there is room for. Returns the number of
    /// pieces and of bytes.
    #[inline]
    pub(crate) fn gather<'a>(&'a self, slices: &mut [IoSlice<'a>; SLICES_MAX]) -> (usize, usize) {
        let mut pieces = Pieces { slices, count: 0, bytes: 0 };
        let (first, wrapped) = self.ring.slices();
        let mut from = 0;
        for piece in self.aside.iter().flat_map(|aside| &aside.pieces) {
            pieces.push_range(first, wrapped, from, from + piece.after);
            pieces.push(piece.content.bytes());
            from += piece.after;
            if pieces.count == SLICES_MAX {
                return (pieces.count, pieces.bytes); // the rest has to wait for the next send
            }
        }
        pieces.push_range(first, wrapped, from, self.ring.len());
        (pieces.count, pieces.bytes)
    }

    /// Drops what has left.
    #[inline]
    pub(crate) fn consume(&mut self, len: usize, pool: &mut Pool, spares: &mut Spares) {
        match &mut self.aside {
            None => self.ring.consume(len),
            Some(aside) => {
                aside.consume(&mut self.ring, len, pool);
                if aside.pieces.is_empty() {
                    self.aside.take().into_iter().for_each(|spare| spares.put(spare));
                }
            }
        }
    }

    /// Drops everything and gives back all memory.
    pub(crate) fn clear(&mut self, pool: &mut Pool, spares: &mut Spares) {
        pool.put(self.ring.release());
        if let Some(mut aside) = self.aside.take() {
            aside.pieces.drain(..).for_each(|piece| piece.content.release(pool));
            (aside.ring_len, aside.len) = (0, 0);
            spares.put(aside);
        }
    }
}

impl Aside {
    /// Where the frame of this slot is that could be replaced.
    fn find(&self, slot: u32) -> Option<usize> {
        self.pieces.iter().position(|piece| match piece.content {
            Content::Latest { slot: of, sent, .. } => of == slot && sent == 0,
            Content::Shared(_) => false,
        })
    }

    fn consume(&mut self, ring: &mut Ring, mut len: usize, pool: &mut Pool) {
        while let Some(piece) = self.pieces.front_mut() {
            let from_ring = len.min(piece.after);
            ring.consume(from_ring);
            piece.after -= from_ring;
            self.ring_len -= from_ring;
            let from_piece = (len - from_ring).min(piece.content.bytes().len());
            piece.content.advance(from_piece);
            self.len -= from_piece;
            len -= from_ring + from_piece;
            if piece.after > 0 || !piece.content.bytes().is_empty() {
                return;
            }
            self.pieces.pop_front().into_iter().for_each(|piece| piece.content.release(pool));
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
                queue.reserve(copied.len(), 0, &mut pool);
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
                queue.consume(next.len(), &mut pool, &mut spares);
                left.extend(next);
            }
            assert_eq!(left, expected);
            queue.clear(&mut pool, &mut spares);
        }
        assert!(spares.take().is_some() && spares.take().is_none(), "one list served them all");
    }

    /// The wire order is the call order, with what was superseded left out.
    #[test]
    fn the_latest_message_of_a_slot_replaces_what_has_not_begun_to_leave() {
        let (mut pool, mut spares) = (Pool::default(), Spares::default());
        let mut queue = Queue::default();
        let ring = |queue: &mut Queue, pool: &mut Pool, bytes: &[u8]| {
            queue.reserve(bytes.len(), 0, pool);
            queue.ring.push(bytes);
        };
        let lent = |pool: &mut Pool, bytes: &[u8]| {
            let mut frame = pool.take(bytes.len());
            frame.clear();
            frame.extend_from_slice(bytes);
            frame
        };
        queue.push_latest(1, lent(&mut pool, b"one-a"), &mut spares);
        ring(&mut queue, &mut pool, b"x");
        queue.push_latest(2, lent(&mut pool, b"two-a"), &mut spares);
        ring(&mut queue, &mut pool, b"y");
        assert_eq!(queue.latest_len(2), Some(5));
        queue.remove_latest(2, &mut pool);
        queue.push_latest(2, lent(&mut pool, b"two-bb"), &mut spares);
        assert_eq!(offered(&queue), b"one-axytwo-bb");

        queue.consume(2, &mut pool, &mut spares); // the first has begun to leave
        assert_eq!(queue.latest_len(1), None);
        queue.remove_latest(1, &mut pool);
        queue.push_latest(1, lent(&mut pool, b"one-c"), &mut spares);
        assert_eq!(offered(&queue), b"e-axytwo-bbone-c");
        queue.remove_latest(2, &mut pool);
        assert_eq!(offered(&queue), b"e-axyone-c");
        queue.remove_latest(1, &mut pool);
        ring(&mut queue, &mut pool, b"z");
        assert_eq!((offered(&queue), queue.len()), (b"e-axyz".to_vec(), 6));
        queue.consume(6, &mut pool, &mut spares);
        assert!(queue.is_empty() && queue.aside.is_none());
    }

    #[test]
    fn a_cleared_queue_holds_nothing() {
        let (mut pool, mut spares) = (Pool::default(), Spares::default());
        let mut queue = Queue::default();
        queue.reserve(3, 0, &mut pool);
        queue.ring.push(&[1, 2, 3]);
        queue.push_shared(Bytes::from_static(b"shared"), &mut spares);
        queue.clear(&mut pool, &mut spares);
        assert!(queue.is_empty() && queue.ring.capacity() == 0);
        queue.push_shared(Bytes::from_static(b"again"), &mut spares);
        assert_eq!(offered(&queue), b"again");
    }
}
