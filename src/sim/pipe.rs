//! One direction of a connection: bytes under way, bytes that arrived, and the window around both.

use std::collections::VecDeque;
use std::io;
use std::time::Duration;

/// What travels.
#[derive(Debug)]
pub(super) enum Segment {
    Data(Vec<u8>),
    Fin,
    Reset(io::ErrorKind),
}

/// Bytes from one end to the other.
///
/// under way + unread + read but not yet acknowledged = used ≤ window
#[derive(Debug)]
pub(super) struct Pipe {
    window: usize,
    used: usize,
    /// Read by the receiver; the sender will learn of it with the next acknowledgement.
    freed: usize,
    ack_travels: bool,
    under_way: VecDeque<Segment>,
    /// When the line has room for the next segment.
    line_free: Duration,
    /// When the last segment arrives: the next one may not come before it.
    last_arrival: Duration,
    /// Unread segments. The boundaries are kept, so that a fault can deliver them one by one.
    unread: VecDeque<Vec<u8>>,
    /// How much of the first unread segment has been read.
    unread_from: usize,
    unread_len: usize,
    /// Bytes that ever arrived.
    arrived: u64,
    fin: bool,
}

impl Pipe {
    pub(super) fn new(window: usize) -> Pipe {
        Pipe {
            window: window.max(1),
            used: 0,
            freed: 0,
            ack_travels: false,
            under_way: VecDeque::new(),
            line_free: Duration::ZERO,
            last_arrival: Duration::ZERO,
            unread: VecDeque::new(),
            unread_from: 0,
            unread_len: 0,
            arrived: 0,
            fin: false,
        }
    }

    /// How many bytes the sender may add.
    pub(super) fn room(&self) -> usize {
        self.window - self.used
    }

    /// Nothing arrives before `at`: data does not overtake the answer to a connect.
    pub(super) fn hold_until(&mut self, at: Duration) {
        self.last_arrival = self.last_arrival.max(at);
    }

    /// When the last byte of `segment` has left on a line of this bandwidth.
    pub(super) fn depart(
        &mut self,
        segment: &Segment,
        now: Duration,
        bandwidth: usize,
    ) -> Duration {
        let len = match segment {
            Segment::Data(bytes) if bandwidth < usize::MAX => bytes.len() as u64,
            _ => 0,
        };
        let takes = Duration::from_nanos(len * 1_000_000_000 / bandwidth.max(1) as u64);
        self.line_free = self.line_free.max(now) + takes;
        self.line_free
    }

    /// Sends `segment` off; it would arrive at `at`. Answers when it really does.
    pub(super) fn put(&mut self, segment: Segment, at: Duration) -> Duration {
        if let Segment::Data(bytes) = &segment {
            self.used += bytes.len();
            debug_assert!(self.used <= self.window, "the sender looked at `room`");
        }
        self.under_way.push_back(segment);
        self.last_arrival = self.last_arrival.max(at);
        self.last_arrival
    }

    /// The next segment is there. `None` where a reset has discarded it.
    pub(super) fn take(&mut self) -> Option<Segment> {
        self.under_way.pop_front()
    }

    /// Makes what was taken readable.
    pub(super) fn arrive(&mut self, bytes: Vec<u8>) {
        if !bytes.is_empty() {
            self.unread_len += bytes.len();
            self.arrived += bytes.len() as u64;
            self.unread.push_back(bytes);
        }
    }

    pub(super) fn arrive_fin(&mut self) {
        self.fin = true;
    }

    /// Nothing more will arrive; what did stays readable.
    pub(super) fn cut(&mut self) {
        self.under_way.clear();
    }

    /// Whether all was read and the sender said that nothing follows.
    pub(super) fn at_end(&self) -> bool {
        self.fin && self.unread.is_empty()
    }

    pub(super) fn has_fin(&self) -> bool {
        self.fin
    }

    pub(super) fn arrived(&self) -> u64 {
        self.arrived
    }

    pub(super) fn has_unread(&self) -> bool {
        !self.unread.is_empty()
    }

    /// How many bytes a read would bring at most.
    pub(super) fn readable(&self, one_segment: bool) -> usize {
        match self.unread.front() {
            Some(first) if one_segment => first.len() - self.unread_from,
            _ => self.unread_len,
        }
    }

    /// Moves the next bytes to `into`, which is not longer than what is readable.
    pub(super) fn read(&mut self, into: &mut [u8]) {
        let mut filled = 0;
        while filled < into.len() {
            let first = &self.unread[0][self.unread_from..];
            let len = first.len().min(into.len() - filled);
            into[filled..filled + len].copy_from_slice(&first[..len]);
            filled += len;
            if len == first.len() {
                self.unread.pop_front();
                self.unread_from = 0;
            } else {
                self.unread_from += len;
            }
        }
        self.unread_len -= filled;
        self.freed += filled;
    }

    /// Whether an acknowledgement has to set out now. One under way takes along what is freed
    /// until it arrives.
    pub(super) fn ack_departs(&mut self) -> bool {
        self.freed > 0 && !std::mem::replace(&mut self.ack_travels, true)
    }

    pub(super) fn ack_arrives(&mut self) {
        self.used -= std::mem::take(&mut self.freed);
        self.ack_travels = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arrived(segments: &[&[u8]]) -> Pipe {
        let mut pipe = Pipe::new(16);
        for segment in segments {
            pipe.put(Segment::Data(segment.to_vec()), Duration::ZERO);
            match pipe.take() {
                Some(Segment::Data(bytes)) => pipe.arrive(bytes),
                other => panic!("expected data, not {other:?}"),
            }
        }
        pipe
    }

    #[test]
    fn room_comes_back_with_the_acknowledgement() {
        let mut pipe = arrived(&[&[1; 16]]);
        assert_eq!(pipe.room(), 0);
        pipe.read(&mut [0; 5]);
        assert_eq!(pipe.room(), 0, "the sender does not know yet");
        assert!(pipe.ack_departs());
        pipe.read(&mut [0; 2]);
        assert!(!pipe.ack_departs(), "one is under way");
        pipe.ack_arrives();
        assert_eq!(pipe.room(), 7);
    }

    #[test]
    fn reading_crosses_segments_and_keeps_the_order() {
        let mut pipe = arrived(&[b"abc", b"d", b"efgh"]);
        let mut into = [0; 5];
        pipe.read(&mut into);
        assert_eq!(&into, b"abcde");
        assert_eq!(pipe.readable(false), 3);
        let mut into = [0; 3];
        pipe.read(&mut into);
        assert_eq!(&into, b"fgh");
        assert_eq!(pipe.readable(false), 0);
    }

    #[test]
    fn one_segment_at_a_time_stops_at_its_end() {
        let mut pipe = arrived(&[b"abc", b"d"]);
        pipe.read(&mut [0; 1]);
        assert_eq!((pipe.readable(true), pipe.readable(false)), (2, 3));
    }

    #[test]
    fn a_thin_line_takes_its_time() {
        let mut pipe = Pipe::new(100);
        let second = Duration::from_secs(1);
        let data = |len| Segment::Data(vec![0; len]);
        assert_eq!(pipe.depart(&data(10), second, usize::MAX), second);
        assert_eq!(pipe.depart(&data(10), second, 5), 3 * second);
        assert_eq!(pipe.depart(&data(5), second, 5), 4 * second, "behind the one before");
        assert_eq!(pipe.depart(&Segment::Fin, 2 * second, 5), 4 * second);
        assert_eq!(pipe.depart(&data(5), 9 * second, 5), 10 * second, "the line was free");
    }

    #[test]
    fn segments_never_overtake_each_other() {
        let mut pipe = Pipe::new(16);
        let late = pipe.put(Segment::Data(vec![1]), Duration::from_millis(9));
        assert_eq!(pipe.put(Segment::Fin, Duration::from_millis(2)), late);
    }
}
