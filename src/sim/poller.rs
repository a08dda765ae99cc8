//! How a host learns of readiness: edge-triggered, and with every right to cry wolf.

use std::time::Duration;

use super::world::{ASKED_MAX, Edge, End, Happening, HostId, ListenerKey, State, Watched, World};
use crate::net::{Readiness, Source};

impl World {
    /// Something new about a stream. Whoever is not watched yet is asked when that begins.
    pub(super) fn raise(&mut self, end: End, edge: Edge) {
        let Some(side) = self.side_mut(end) else { return };
        if side.slot.is_none() {
            return;
        }
        side.edge = side.edge.and(edge);
        let host = side.host;
        if !std::mem::replace(&mut side.is_queued, true) {
            self.hosts[host].ready.push_back(Watched::Stream(end));
        }
    }

    /// An edge that a lie put off. The lie covered a FIN or reset too, so the edge tells of those.
    pub(super) fn late_edge(&mut self, end: End, edge: Edge) {
        if self.side_mut(end).is_some() {
            let insist = self.level(end).insist;
            self.raise(end, edge.and(Edge { insist, ..Edge::default() }));
        }
    }

    pub(super) fn raise_listener(&mut self, key: ListenerKey) {
        let Some(listener) = self.listeners[key].as_mut() else { return };
        if listener.index.is_some() && !std::mem::replace(&mut listener.is_queued, true) {
            self.hosts[listener.host].ready.push_back(Watched::Listener(key));
        }
    }

    pub(super) fn plan_edge(&mut self, at: Duration, whom: Watched, edge: Edge) {
        self.plan(
            at,
            match whom {
                Watched::Stream(end) => Happening::StreamEdge { end, edge },
                Watched::Listener(listener) => Happening::ListenerEdge { listener },
            },
        );
    }

    /// What could be done with a stream right now.
    pub(super) fn level(&mut self, end: End) -> Edge {
        let conn = self.conn_mut(end);
        let (side, inward) = (&conn.ends[end.side], &conn.pipes[end.side]);
        let dead = side.state == State::Dead;
        let ended = dead || inward.has_fin();
        let room = side.state == State::Established && conn.pipes[end.peer().side].room() > 0;
        Edge { readable: ended || inward.has_unread(), writable: dead || room, insist: ended }
    }

    /// Waits until `host` has something to hear, at most until `deadline`.
    pub(super) fn wait(
        &mut self,
        host: HostId,
        deadline: Option<Duration>,
        ready: &mut Vec<Readiness>,
    ) {
        self.hosts[host].counts.waits += 1;
        self.settle();
        let (at, times) = self.hosts[host].asked;
        self.hosts[host].asked = (self.now, if at == self.now { times + 1 } else { 0 });
        assert!(times < ASKED_MAX, "the reactor spins");
        let faults = self.hosts[host].faults;
        if self.rng.chance(faults.early) {
            return;
        }
        let is_woken = std::mem::take(&mut self.hosts[host].is_woken);
        while self.hosts[host].ready.is_empty() && !is_woken {
            let is_in_time = |at: &Duration| deadline.is_none_or(|deadline| *at <= deadline);
            match (self.next_at().filter(is_in_time), deadline) {
                (Some(at), _) => self.run_until(at),
                (None, Some(deadline)) => {
                    self.run_until(deadline);
                    self.oversleep(host);
                    break;
                }
                // Nothing will ever happen again; a real poller would wait for ever.
                (None, None) => break,
            }
        }
        self.report(host, ready);
    }

    pub(super) fn sleep(&mut self, host: HostId, deadline: Duration) {
        self.hosts[host].counts.sleeps += 1;
        if deadline > self.now {
            self.run_until(deadline);
            self.oversleep(host);
        }
    }

    fn oversleep(&mut self, host: HostId) {
        let most = self.hosts[host].faults.late_max;
        let late = self.rng.duration(Duration::ZERO, most);
        self.run_until(self.now + late);
    }

    fn report(&mut self, host: HostId, ready: &mut Vec<Readiness>) {
        let faults = self.hosts[host].faults;
        let waiting = self.hosts[host].ready.len();
        let share = match self.rng.chance(faults.partial) {
            true => self.rng.between(waiting.min(1), waiting),
            false => waiting,
        };
        let begin = ready.len();
        for _ in 0..share {
            let Some(whom) = self.hosts[host].ready.pop_front() else { break };
            ready.extend(self.fetch(whom, faults.bare_edges));
        }
        if self.rng.chance(faults.spurious) {
            ready.extend(self.cry_wolf(host));
        }
        if self.rng.chance(faults.shuffled) {
            self.rng.shuffle(&mut ready[begin..]);
        }
        for report in &ready[begin..] {
            let (kind, number) = match report.source {
                Source::Conn(slot) => (32, slot),
                Source::Listener(index) => (33, index),
            };
            let bits = u64::from(report.readable)
                | u64::from(report.writable) << 1
                | u64::from(report.insist) << 2;
            self.trace.note(kind, (host as u64) << 32 | u64::from(number), bits);
        }
    }

    /// The report about `whom`, unless it has been closed meanwhile.
    fn fetch(&mut self, whom: Watched, bare_edges: bool) -> Option<Readiness> {
        match whom {
            Watched::Listener(key) => {
                let listener = self.listeners[key].as_mut()?;
                listener.is_queued = false;
                Some(readiness(Source::Listener(listener.index?), Edge::READABLE))
            }
            Watched::Stream(end) => {
                let side = self.side_mut(end)?;
                side.is_queued = false;
                let slot = side.slot?;
                let edge = std::mem::take(&mut side.edge);
                let told = if bare_edges { edge } else { edge.and(self.level(end)) };
                Some(readiness(Source::Conn(slot), told))
            }
        }
    }

    /// A report without cause, about anyone that this host watches.
    fn cry_wolf(&mut self, host: HostId) -> Option<Readiness> {
        let known = &self.hosts[host];
        let streams = known.streams.keys().map(|&slot| Source::Conn(slot));
        let listeners = known.acceptors.keys().map(|&index| Source::Listener(index));
        let watched: Vec<Source> = streams.chain(listeners).collect();
        if watched.is_empty() {
            return None;
        }
        let source = *self.rng.pick(&watched);
        let bits = self.rng.between(1, 7);
        let (readable, writable, insist) = (bits & 1 != 0, bits & 2 != 0, bits & 4 != 0);
        Some(readiness(source, Edge { readable, writable, insist }))
    }
}

fn readiness(source: Source, edge: Edge) -> Readiness {
    let Edge { readable, writable, insist } = edge;
    Readiness { source, readable, writable, insist }
}
