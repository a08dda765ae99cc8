//! The clients of one process: all on one reactor. They connect, send, and check what comes.

use std::io;
use std::time::{Duration, Instant};

use tickwire::{ConnId, ConnMap, Event, Handle, Reactor, SendError, Tick, Wait};

use crate::payload;
use crate::scenario::{Kind, LoadOrder};
use crate::schedule::Place;
use crate::server;
use crate::tally::Tally;

/// How many connects are under way at one time: the smallest usual backlog (128) holds them.
const CONNECTING_MAX: usize = 100;

/// The longest wait in one tick, so that whoever asks for something is heard.
const WAIT_MAX: Duration = Duration::from_millis(50);

pub(crate) struct Crowd {
    reactor: Reactor,
    /// In the order in which they were made; also those that are gone.
    conns: Vec<ConnId>,
    /// Those that are there.
    clients: ConnMap<Client>,
    place: Place,
    broadcast: bool,
    size: usize,
    port: u16,
    addresses: usize,
    /// How many clients there are to be.
    wanted: usize,
    pub(crate) tally: Tally,
    /// What the send times in the payloads count from.
    epoch: Instant,
    /// Messages that are still to come to those that are there.
    outstanding: u64,
    /// Sent by the one client that sends, in a broadcast.
    broadcasts: u32,
    scratch: Vec<u8>,
}

struct Client {
    number: u32,
    greeted: bool,
    sent: u32,
    received: u32,
}

impl Crowd {
    pub(crate) fn new(order: &LoadOrder) -> io::Result<Crowd> {
        Ok(Crowd {
            reactor: Reactor::builder().connections_max(order.clients_max.max(1)).build()?,
            conns: Vec::new(),
            clients: ConnMap::new(),
            place: Place {
                index: order.index,
                processes: order.processes,
                clients: order.clients_max,
            },
            broadcast: order.scenario.kind == Kind::Broadcast,
            size: order.scenario.size,
            port: order.port,
            addresses: order.addresses,
            wanted: 0,
            tally: Tally::default(),
            epoch: Instant::now(),
            outstanding: 0,
            broadcasts: 0,
            scratch: vec![0; order.scenario.size],
        })
    }

    pub(crate) fn handle(&mut self) -> io::Result<Handle> {
        Ok(self.reactor.handle()?)
    }

    pub(crate) fn want(&mut self, more: usize) {
        self.wanted += more;
    }

    /// Clients whose connect has no outcome yet, or was not begun.
    pub(crate) fn waiting(&self) -> usize {
        self.wanted.saturating_sub(self.answered())
    }

    fn answered(&self) -> usize {
        self.tally.connected + self.tally.unconnected()
    }

    /// Clients that were made, also those that are gone.
    pub(crate) fn made(&self) -> usize {
        self.conns.len()
    }

    pub(crate) fn outstanding(&self) -> u64 {
        self.outstanding
    }

    /// Begins as many connects as may be under way.
    pub(crate) fn connect(&mut self) -> io::Result<()> {
        let begun_max = self.wanted.min(self.answered() + CONNECTING_MAX);
        while self.conns.len() < begun_max {
            let number = self.place.number(self.conns.len());
            let addr = server::address(number % self.addresses, self.port);
            let conn = self.reactor.connect(addr)?;
            let number = number as u32;
            self.clients.insert(conn, Client { number, greeted: false, sent: 0, received: 0 });
            self.conns.push(conn);
        }
        Ok(())
    }

    /// Counts out who has not been greeted so far.
    pub(crate) fn give_up_waiting(&mut self) {
        self.tally.ungreeted(self.waiting());
    }

    /// Sends one message of a client, by its place in this process.
    pub(crate) fn send(&mut self, local: usize) {
        let conn = self.conns[local];
        // A client that was disconnected is in the tally already.
        let Some(client) = self.clients.get_mut(conn) else { return };
        let now = self.epoch.elapsed().as_nanos() as u64;
        payload::make(&mut self.scratch, client.number, client.sent, now);
        match self.reactor.outbox().send(conn, &self.scratch) {
            Ok(()) => {
                client.sent += 1;
                let receivers = match self.broadcast {
                    true => self.clients.len() as u64,
                    false => 1,
                };
                self.broadcasts += u32::from(self.broadcast);
                self.tally.sent += 1;
                self.tally.awaited += receivers;
                self.outstanding += receivers;
            }
            Err(SendError::Stale | SendError::Closing) => {}
            Err(error) => self.tally.refused(error),
        }
    }

    /// One tick, and a look at what it brought.
    pub(crate) fn turn(&mut self, wait: Duration) -> io::Result<()> {
        let tick = self.reactor.tick(Wait::Event(wait.min(WAIT_MAX)))?;
        let Tick { events, .. } = tick;
        let now = self.epoch.elapsed();
        for event in events {
            match event {
                Event::Message { conn, payload } => {
                    let client = self.clients.get_mut(conn).expect("it is there until it is lost");
                    if payload.is_empty() && !client.greeted {
                        client.greeted = true;
                        self.tally.connected += 1;
                        continue;
                    }
                    let (from, sent) = match self.broadcast {
                        true => (0, self.broadcasts),
                        false => (client.number, client.sent),
                    };
                    if client.received == sent {
                        self.tally.wrong(); // nobody has sent that much
                        continue;
                    }
                    match payload::check(payload, self.size, from, client.received) {
                        Some(sent) => {
                            self.tally.trips.record(now.saturating_sub(Duration::from_nanos(sent)));
                        }
                        None => self.tally.wrong(),
                    }
                    client.received += 1;
                    self.tally.received += 1;
                    self.outstanding -= 1;
                }
                Event::Disconnected { conn, reason } => {
                    let client = self.clients.remove(conn).expect("it was there");
                    match client.greeted {
                        true => self.tally.lost(reason),
                        false => self.tally.connect_failed(reason),
                    }
                    let sent = if self.broadcast { self.broadcasts } else { client.sent };
                    self.outstanding -= u64::from(sent - client.received);
                }
                Event::ConnectFailed { conn, reason } => {
                    self.clients.remove(conn);
                    self.tally.connect_failed(reason);
                }
                _ => {}
            }
        }
        Ok(())
    }
}
