//! Each client talks to all, a number of times a second: many players on one spot. What comes to a client is mixed from all
//! senders, so each message names its sender and its number; of each sender they must come one after another.

use std::io::{ErrorKind, Read, Write};
use std::time::{Duration, Instant};

use super::client::Clients;
use super::schedule::Schedule;
use crate::Failure;
use crate::machine;
use crate::plan::{Aimed, Outcome};
use crate::wire::Wire;

/// One delivery in so many has its time taken.
const TIMED: u32 = 16;
/// Of so many messages of each sender it is known when they were sent.
const KNOWN: usize = 256;

pub fn run(aimed: &Aimed, hz: f64) -> Result<Outcome, Failure> {
    let before = machine::resident(aimed.server)?;
    let wire = Wire::new(aimed.prefix, aimed.load.size, 1, 1); // only for its connections
    let mut clients = Clients::connect(aimed, wire)?;
    let mut crowd = Crowd::new(aimed);
    let mut schedule = Schedule::new(&aimed.load, hz);
    let mut ready = Vec::new();
    loop {
        let now = Instant::now();
        if !clients.span.goes_on(now)? {
            break;
        }
        while let Some((index, due)) = schedule.next(now) {
            clients.span.was_late(now - due);
            crowd.say(&mut clients, index, due);
        }
        clients.poll(0, &mut ready)?;
        for ready in &ready {
            crowd.hear(&mut clients, ready.index);
        }
    }
    let outcome = clients.span.outcome(before)?;
    let end = Instant::now() + Duration::from_secs(3);
    while crowd.missing() > 0 && Instant::now() < end {
        clients.poll(50, &mut ready)?;
        for ready in &ready {
            crowd.hear(&mut clients, ready.index);
        }
    }
    clients.span.missing = crowd.missing();
    clients.span.dead = clients.all.iter().filter(|client| client.is_dead).count() as u64;
    Ok(clients.span.with_errors(outcome))
}

struct Crowd {
    /// What each sender says, apart from the number.
    said: Vec<Vec<u8>>,
    header_len: usize,
    /// The number of each sender's next message, and what each receiver expects of each sender.
    numbers: Vec<u32>,
    expected: Vec<Vec<u32>>,
    sent_at: Vec<Vec<Instant>>,
    /// The unfinished message of each receiver.
    tails: Vec<Vec<u8>>,
    buffer: Vec<u8>,
}

impl Crowd {
    fn new(aimed: &Aimed) -> Crowd {
        let count = aimed.load.clients;
        let size = aimed.load.size.max(8);
        let frame = |sender: usize| {
            let mut frame = Vec::new();
            aimed.prefix.write(size, &mut frame);
            frame.extend_from_slice(&(sender as u32).to_be_bytes());
            frame.extend_from_slice(&[0; 4]);
            frame.extend((8..size).map(|at| (sender * 31 + at * 7) as u8));
            frame
        };
        let said: Vec<_> = (0..count).map(frame).collect();
        Crowd {
            header_len: said[0].len() - size,
            said,
            numbers: vec![0; count],
            expected: vec![vec![0; count]; count],
            sent_at: vec![vec![Instant::now(); KNOWN]; count],
            tails: vec![Vec::new(); count],
            buffer: vec![0; 512 * 1024],
        }
    }

    /// One message of one sender. It is short and alone, so that a socket that does not take it whole is as good as dead.
    fn say(&mut self, clients: &mut Clients, sender: usize, due: Instant) {
        let number = self.numbers[sender];
        let at = self.header_len + 4;
        self.said[sender][at..at + 4].copy_from_slice(&number.to_be_bytes());
        let client = &mut clients.all[sender];
        match client.stream.write(&self.said[sender]) {
            Ok(sent) if sent == self.said[sender].len() => {
                self.sent_at[sender][number as usize % KNOWN] = due;
                self.numbers[sender] += 1;
            }
            Ok(_) => client.is_dead = true,
            Err(error) if error.kind() == ErrorKind::WouldBlock => {} // said less, then
            Err(_) => client.is_dead = true,
        }
    }

    /// Receives once, and checks what has come.
    fn hear(&mut self, clients: &mut Clients, receiver: usize) {
        let tail = &mut self.tails[receiver];
        self.buffer[..tail.len()].copy_from_slice(tail);
        let held = tail.len();
        tail.clear();
        let client = &mut clients.all[receiver];
        let received = match client.stream.read(&mut self.buffer[held..]) {
            Ok(0) => return client.is_dead = true,
            Ok(received) => received,
            Err(error) if error.kind() == ErrorKind::WouldBlock => 0,
            Err(_) => return client.is_dead = true,
        };
        let frame_len = self.said[0].len();
        let frames = self.buffer[..held + received].chunks_exact(frame_len);
        self.tails[receiver].extend_from_slice(frames.remainder());
        for frame in frames {
            let (header, payload) = frame.split_at(self.header_len);
            let word = |at: usize| {
                u32::from_be_bytes([payload[at], payload[at + 1], payload[at + 2], payload[at + 3]])
            };
            let (sender, number) = (word(0) as usize, word(4));
            let span = &mut clients.span;
            span.messages += 1;
            let is_right = self.said.get(sender).is_some_and(|said| {
                header == &said[..self.header_len]
                    && payload[8..] == said[self.header_len + 8..]
                    && self.expected[receiver][sender] == number
            });
            if !is_right {
                span.wrong += 1;
                continue;
            }
            self.expected[receiver][sender] += 1;
            if (receiver as u32 + number) % TIMED == 0 {
                span.took(self.sent_at[sender][number as usize % KNOWN].elapsed());
            }
        }
    }

    /// How many deliveries are still to come.
    fn missing(&self) -> u64 {
        let of = |expected: &Vec<u32>| {
            let pairs = self.numbers.iter().zip(expected);
            pairs.map(|(said, heard)| u64::from(said.saturating_sub(*heard))).sum::<u64>()
        };
        self.expected.iter().map(of).sum()
    }
}
