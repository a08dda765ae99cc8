//! What a seed of the swarm decides beforehand: the settings, the habits of all who take part, and
//! which faults there are.

use std::time::Duration;

use tickwire::sim::{Faults, Rng};
use tickwire::{Builder, Framing, Rate, RatePolicy, Reactor, SendPolicy};

use crate::harness::MS;

/// What a seed decides beforehand.
#[derive(Debug)]
pub(crate) struct Plan {
    /// Each has its own.
    pub(crate) servers: Vec<Settings>,
    pub(crate) client: Settings,
    pub(crate) framing: Framing,
    pub(crate) frame_len_max: usize,
    pub(crate) clients: usize,
    pub(crate) raw_peers: usize,
    pub(crate) steps: usize,
    pub(crate) step_max: Duration,
    /// How often, per mille of the occasions.
    pub(crate) talk: u32,
    pub(crate) echo: u32,
    pub(crate) close: u32,
    pub(crate) kick: u32,
    pub(crate) break_off: u32,
    pub(crate) partition: u32,
    pub(crate) pause: u32,
    pub(crate) latest: u32,
    pub(crate) by_handle: u32,
    /// Raw peers come, go and write while a batch is held.
    pub(crate) meddle: u32,
    /// A game panics in the middle of a batch, or of encoding a message.
    pub(crate) panic: u32,
    /// A process, or everybody's clock, stands still for a while.
    pub(crate) freeze: u32,
    pub(crate) freeze_max: Duration,
    /// A server closes its listener and opens it again, or suspends it.
    pub(crate) relisten: u32,
    /// Whether everybody is silent for a while before the end, until all deadlines have passed.
    pub(crate) silence: u32,
    /// Whether a reactor leaves by `shutdown`.
    pub(crate) shutdown: u32,
    /// After how many turns, about, a raw peer does something drastic.
    pub(crate) raw_patience: usize,
    /// What may be said in all, so that a story with tiny quanta ends today.
    pub(crate) messages: usize,
    pub(crate) bytes: usize,
    pub(crate) server_faults: Faults,
    pub(crate) client_faults: Faults,
}

#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub(crate) framing: Framing,
    pub(crate) frame_len_max: usize,
    pub(crate) batch_memory: usize,
    pub(crate) read_quantum: usize,
    pub(crate) frame_quantum: usize,
    pub(crate) event_budget: usize,
    pub(crate) accept_budget: usize,
    pub(crate) send_queue_max: usize,
    pub(crate) send_policy: SendPolicy,
    pub(crate) shared_len_min: usize,
    pub(crate) connections_max: usize,
    pub(crate) connect_timeout: Duration,
    pub(crate) close_timeout: Duration,
    pub(crate) pace: Duration,
    pub(crate) water_marks: Option<(usize, usize)>,
    pub(crate) message_rate: Option<Rate>,
    pub(crate) byte_rate: Option<Rate>,
    /// What may end a connection without anybody's doing.
    pub(crate) enders: Enders,
}

/// Bounds that end connections of peers who have done nothing wrong but be slow.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Enders {
    pub(crate) idle: Option<Duration>,
    pub(crate) first_frame: Option<Duration>,
    pub(crate) frame: Option<Duration>,
    pub(crate) write_stall: Option<Duration>,
    pub(crate) soft: Option<(usize, Duration, SendPolicy)>,
    pub(crate) rate: bool,
    pub(crate) buffered_max: Option<usize>,
}

impl Enders {
    fn draw(rng: &mut Rng, send_queue_max: usize) -> Enders {
        if rng.chance(600) {
            return Enders::default();
        }
        let time = |rng: &mut Rng| {
            let time = *rng.pick(&[20 * MS, 200 * MS, 3_000 * MS, 20_000 * MS]);
            rng.chance(500).then_some(time)
        };
        let policy = *rng.pick(&[SendPolicy::Error, SendPolicy::Disconnect]);
        let soft = (rng.between(0, send_queue_max), *rng.pick(&[MS, 100 * MS]), policy);
        Enders {
            idle: time(rng),
            first_frame: time(rng),
            frame: time(rng),
            write_stall: time(rng),
            soft: rng.chance(500).then_some(soft),
            rate: rng.chance(300),
            buffered_max: rng
                .chance(300)
                .then_some((send_queue_max * 4).div_ceil(3) + rng.between(0, 1_000)),
        }
    }

    pub(crate) fn are_any(&self) -> bool {
        let times = [self.idle, self.first_frame, self.frame, self.write_stall];
        times.iter().any(Option::is_some)
            || self.soft.is_some()
            || self.rate
            || self.buffered_max.is_some()
    }
}

impl Plan {
    pub(crate) fn of(seed: u64) -> Plan {
        let rng = &mut Rng::new(!seed);
        let framing = *rng.pick(&[Framing::LengthPrefix, Framing::Telepathy]);
        let frame_len_max = *rng.pick(&[1, 2, 10, 100, 1_000, 5_000, 20_000, 30_000, 100_000]);
        let servers: Vec<_> = (0..*rng.pick(&[1, 1, 1, 2, 3]))
            .map(|_| Settings::draw(rng, framing, frame_len_max))
            .collect();
        let client = Settings::draw(rng, framing, frame_len_max);
        let server_faults = draw_faults(rng);
        let client_faults = if rng.chance(500) { server_faults } else { draw_faults(rng) };
        let least = |of: fn(&Settings) -> usize| servers.iter().chain([&client]).map(of).min();
        let quantum = least(|settings| settings.read_quantum).unwrap_or(1);
        let events = least(|settings| settings.event_budget).unwrap_or(1);
        let window = server_faults.window.min(client_faults.window);
        let bandwidth = server_faults.bandwidth.min(client_faults.bandwidth);
        let rate = |rng: &mut Rng, often: u32| match rng.chance(500) {
            true => 0,
            false => rng.between(1, often as usize) as u32,
        };
        Plan {
            clients: rng.between(1, 3),
            raw_peers: rng.between(0, 10),
            steps: rng.between(20, 400),
            step_max: *rng.pick(&[MS, 5 * MS, 20 * MS]),
            talk: rng.between(100, 1_000) as u32,
            echo: rate(rng, 1_000),
            close: rate(rng, 60),
            kick: rate(rng, 60),
            break_off: rate(rng, 900),
            raw_patience: *rng.pick(&[8, 40, 200]),
            partition: rate(rng, 50),
            pause: rate(rng, 200),
            latest: rate(rng, 600),
            by_handle: rate(rng, 600),
            meddle: rate(rng, 500),
            panic: rate(rng, 100),
            freeze: rate(rng, 50),
            freeze_max: *rng.pick(&[100 * MS, 3_000 * MS, 3_600_000 * MS]),
            relisten: if rng.chance(200) { rng.between(1, 50) as u32 } else { 0 },
            silence: rate(rng, 1_000),
            shutdown: rate(rng, 1_000),
            messages: events.saturating_mul(1_000).min(3_000),
            bytes: quantum
                .saturating_mul(1_000)
                .min(window.saturating_mul(300))
                .min(bandwidth.saturating_mul(20))
                .min(1_000_000),
            servers,
            client,
            framing,
            frame_len_max,
            server_faults,
            client_faults,
        }
    }
}

impl Settings {
    fn draw(rng: &mut Rng, framing: Framing, frame_len_max: usize) -> Settings {
        let frame_len = 4 + frame_len_max;
        let send_queue_max = *rng.pick(&[frame_len, 2 * frame_len + 5, 1 << 20]);
        let high = rng.between(0, send_queue_max.min(10_000));
        let low = rng.between(0, high);
        let rate = |rng: &mut Rng, least: u32| {
            let rate = Rate::per_second(*rng.pick(&[least, 20 * least]));
            let rate = rate.burst(*rng.pick(&[least / 20, least, 20 * least])); // a burst a tick has to do;
            rng.chance(250).then_some(rate)
        };
        let enders = Enders::draw(rng, send_queue_max);
        let mut message_rate = rate(rng, 200);
        if enders.rate && rng.chance(500) {
            message_rate = Some(Rate::per_second(20).burst(rng.between(1, 5) as u32));
        }
        Settings {
            framing,
            frame_len_max,
            batch_memory: *rng.pick(&[64 << 10, 100_000, 256 << 10, 4 << 20]),
            read_quantum: *rng.pick(&[1, 2, 7, 100, 4_096, 128 << 10]),
            frame_quantum: *rng.pick(&[1, 2, 5, 100, 2_048]),
            event_budget: *rng.pick(&[1, 2, 5, 50, 16_384]),
            accept_budget: *rng.pick(&[1, 2, 256]),
            send_queue_max,
            send_policy: *rng.pick(&[SendPolicy::Error, SendPolicy::Error, SendPolicy::Disconnect]),
            shared_len_min: *rng.pick(&[0, 1, 100, 16 << 10]),
            connections_max: *rng.pick(&[1, 3, 10, 100]),
            connect_timeout: *rng.pick(&[50 * MS, 500 * MS, 2_000 * MS]),
            close_timeout: *rng.pick(&[20 * MS, 200 * MS, 2_000 * MS]),
            pace: *rng.pick(&[MS, 4 * MS, 50 * MS]),
            water_marks: rng.chance(400).then_some((low, high)),
            message_rate,
            byte_rate: rate(rng, 100_000),
            enders,
        }
    }

    /// In how many ticks at most a whole message is handed out of a socket that had it when the first of them began, if the
    /// game fetches everything and this many connections are served. `None` where a fault, a rate or a small buffer may
    /// delay it further.
    pub(crate) fn patience(&self, faults: &Faults, peers: usize) -> Option<usize> {
        let Faults { recv_short, recv_one_byte, recv_interrupted, recv_blocked, .. } = *faults;
        let is_helpful = [recv_short, recv_one_byte, recv_interrupted, recv_blocked] == [0; 4]
            && !faults.recv_segments
            && [faults.recv_shortage, faults.partial, faults.early] == [0; 3];
        let frame_len = 4 + self.frame_len_max;
        let has_room = self.read_quantum >= frame_len
            && (peers + 1) * (self.read_quantum + frame_len + (20 << 10)) <= self.batch_memory;
        let is_unhurried = self.message_rate.is_none() && self.byte_rate.is_none();
        // First and last events take half of the budget at most.
        (is_helpful && has_room && is_unhurried)
            .then(|| (2 * peers * self.frame_quantum).div_ceil(self.event_budget) + 2)
    }

    pub(crate) fn builder(&self) -> Builder {
        let Enders { idle, first_frame, frame, write_stall, soft, rate, buffered_max } =
            self.enders;
        let policy = if rate { RatePolicy::Disconnect } else { RatePolicy::Pause };
        let mut builder = Reactor::builder()
            .framing(self.framing)
            .frame_len_max(self.frame_len_max)
            .batch_memory(self.batch_memory)
            .read_quantum(self.read_quantum)
            .frame_quantum(self.frame_quantum)
            .event_budget(self.event_budget)
            .accept_budget(self.accept_budget)
            .send_queue_max(self.send_queue_max)
            .send_policy(self.send_policy)
            .shared_len_min(self.shared_len_min)
            .connections_max(self.connections_max)
            .connect_timeout(self.connect_timeout)
            .close_timeout(self.close_timeout)
            .pace(self.pace)
            .message_rate(self.message_rate)
            .byte_rate(self.byte_rate)
            .rate_policy(policy)
            .idle_timeout(idle)
            .first_frame_timeout(first_frame)
            .frame_timeout(frame)
            .write_stall_timeout(write_stall);
        if let Some((low, high)) = self.water_marks {
            builder = builder.water_marks(low, high);
        }
        if let Some((bytes, time, policy)) = soft {
            builder = builder.send_queue_soft(bytes, time, policy);
        }
        match buffered_max {
            Some(bytes) => builder.buffered_max(bytes),
            None => builder,
        }
    }
}

/// Which faults there are, and how bad they are.
fn draw_faults(rng: &mut Rng) -> Faults {
    // A story has few kinds of faults or many; a single one is seen best when alone.
    let often = *rng.pick(&[0, 50, 200, 500]);
    let mut rate = |most: u32| match rng.chance(often) {
        true => rng.between(1, most as usize) as u32,
        false => 0,
    };
    let mut faults = Faults {
        resets: rate(10),
        reset_overtakes: rate(1_000),
        recv_short: rate(800),
        recv_one_byte: rate(300),
        recv_interrupted: rate(500),
        recv_blocked: rate(500),
        recv_shortage: rate(300),
        drained_unknown: rate(1_000),
        send_short: rate(800),
        send_one_byte: rate(300),
        send_interrupted: rate(500),
        send_blocked: rate(500),
        send_shortage: rate(300),
        accept_interrupted: rate(500),
        accept_blocked: rate(500),
        accept_errors: rate(300),
        accept_shortage: rate(300),
        register_errors: rate(200),
        connect_refused: rate(300),
        connect_hangs: rate(300),
        connect_unavailable: rate(300),
        spurious: rate(800),
        partial: rate(800),
        shuffled: rate(1_000),
        early: rate(500),
        ..Faults::default()
    };
    faults.recv_segments = rng.chance(often);
    faults.bare_edges = rng.chance(500);
    faults.window = *rng.pick(&[1, 10, 100, 4_096, 64 << 10, 1 << 20]);
    faults.delay_max = *rng.pick(&[Duration::ZERO, MS, 20 * MS]);
    if rng.chance(often) {
        faults.bandwidth = *rng.pick(&[1_000, 20_000, 1_000_000]);
    }
    faults.delay_min = *rng.pick(&[Duration::ZERO, faults.delay_max]);
    if rng.chance(often) {
        faults.late_max = 3 * MS;
    }
    if rng.chance(often) {
        faults.call_time_max = Duration::from_micros(50);
    }
    if rng.chance(often) {
        faults.descriptors_max = rng.between(2, 5); // the listener needs one
    }
    faults
}
