//! A small MQTT broker: how a foreign protocol moves in.
//!
//! Two seams. The framing is ours to write: where a packet ends, as a [`Codec`] of twenty lines. The protocol is somebody
//! else's: `mqtt-protocol-core` knows MQTT 3.1.1 and 5, takes bytes and gives back what to do, and never sees a socket.
//!
//! ```text
//! cargo run --release --example mqtt_broker -- 127.0.0.1:1883
//! mosquitto_sub -p 1883 -t 'chat/#' -v                         # in a second terminal
//! mosquitto_pub -p 1883 -t chat/lobby -m hello                 # in a third
//! ```
//!
//! Here you will see `listening on 127.0.0.1:1883` and who comes and goes; in the second terminal `chat/lobby hello`.
//!
//! It connects, subscribes, publishes and pings. It keeps nothing: no retained messages, no sessions, no wills, and what was
//! published with a higher quality of service is acknowledged and handed on with 0.

use std::io::Write;
use std::process::ExitCode;
use std::time::Duration;

use mqtt_protocol_core::mqtt;
use mqtt_protocol_core::mqtt::connection::Event as Todo;
use mqtt_protocol_core::mqtt::packet::{GenericPacketTrait, Packet, v3_1_1, v5_0};
use mqtt_protocol_core::mqtt::result_code::{
    ConnectReasonCode, ConnectReturnCode, SubackReasonCode, SubackReturnCode, UnsubackReasonCode,
};
use tickwire::{
    Codec, ConnId, ConnMap, Cut, Envelope, Error, Event, FrameError, Framing, Outbox, Reactor,
    SendError, Tick, Wait,
};

/// MQTT's packets: a byte of kind and flags, the length of the rest as a varint of at most four bytes, the rest.
/// The payload is the whole packet, since that is what the protocol crate wants to see.
#[derive(Debug)]
struct Packets;

impl Codec for Packets {
    fn overhead_max(&self) -> usize {
        0
    }

    fn decode(
        &self,
        bytes: &[u8],
        _: &mut usize,
        payload_len_max: usize,
    ) -> Result<Option<Cut>, FrameError> {
        let mut rest_len = 0;
        for (index, byte) in bytes.iter().skip(1).take(LEN_LEN_MAX).enumerate() {
            rest_len |= usize::from(byte & 0x7f) << (7 * index);
            if *byte < 0x80 {
                let payload_len = 1 + index + 1 + rest_len;
                if payload_len > payload_len_max {
                    return Err(FrameError::TooLarge { declared: payload_len as u64 });
                }
                let cut = Cut { payload_len, ..Cut::default() };
                return Ok((bytes.len() >= payload_len).then_some(cut));
            }
        }
        if bytes.len() > LEN_LEN_MAX {
            return Err(tickwire::BadFrame::Codec("a length of more than four bytes").into());
        }
        Ok(None)
    }

    fn encode(&self, packet: &[u8], _: &mut Envelope) -> Result<(), SendError> {
        match self.decode(packet, &mut 0, packet.len()) {
            Ok(Some(cut)) if cut.payload_len == packet.len() => Ok(()),
            _ => Err(SendError::Malformed),
        }
    }
}

const LEN_LEN_MAX: usize = 4;

type Session = mqtt::Connection<mqtt::role::Server>;

struct Client {
    session: Session,
    filters: Vec<String>,
}

fn main() -> ExitCode {
    env_logger::Builder::from_env(env_logger::Env::default().default_filter_or("info")).init();
    let listen = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:1883".to_owned());
    match serve(&listen) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn serve(listen: &str) -> Result<(), Error> {
    let mut reactor =
        Reactor::builder().framing(Framing::custom(&Packets)).frame_len_max(256 * 1024).build()?;
    let listener = reactor.listen(listen)?;
    println!("listening on {}", reactor.local_addr(listener).expect("we listen there"));
    let _ = std::io::stdout().flush(); // a launcher may wait for this line
    let mut clients = ConnMap::new();
    loop {
        let tick = reactor.tick(Wait::Event(Duration::from_secs(1)))?;
        let Tick { events, mut outbox, .. } = tick;
        for event in events {
            match event {
                Event::Connected { conn, .. } => {
                    let mut session = Session::new(mqtt::Version::Undetermined);
                    session.set_auto_ping_response(true);
                    session.set_auto_pub_response(true);
                    clients.insert(conn, Client { session, filters: Vec::new() });
                }
                Event::Message { conn, payload } => {
                    hear(&mut clients, conn, payload, &mut outbox);
                }
                Event::Disconnected { conn, reason } => {
                    log::info!("{conn} left: {reason}");
                    clients.remove(conn);
                }
                _ => {}
            }
        }
    }
}

/// One packet of a client: what the session makes of it, and what we make of that.
fn hear(clients: &mut ConnMap<Client>, conn: ConnId, packet: &[u8], outbox: &mut Outbox<'_>) {
    let Some(client) = clients.get_mut(conn) else {
        return;
    };
    let todo = client.session.recv(&mut mqtt::common::Cursor::new(packet));
    for packet in client.carry_out(conn, todo, outbox) {
        match packet {
            Packet::V3_1_1Publish(publish) => {
                route(clients, publish.topic_name(), publish.payload().as_slice(), outbox);
            }
            Packet::V5_0Publish(publish) => {
                route(clients, publish.topic_name(), publish.payload().as_slice(), outbox);
            }
            other => {
                if let Some(client) = clients.get_mut(conn) {
                    client.answer(conn, other, outbox);
                }
            }
        }
    }
}

/// Hands a message on to all that want it.
fn route(clients: &mut ConnMap<Client>, topic: &str, message: &[u8], outbox: &mut Outbox<'_>) {
    for (conn, client) in clients.iter_mut() {
        if client.filters.iter().any(|filter| matches(filter, topic)) {
            client.publish(conn, topic, message, outbox);
        }
    }
}

impl Client {
    /// Sends and closes as the session wants. Returns the packets that it has received.
    fn carry_out(&mut self, conn: ConnId, todo: Vec<Todo>, outbox: &mut Outbox<'_>) -> Vec<Packet> {
        let mut received = Vec::new();
        for todo in todo {
            match todo {
                Todo::NotifyPacketReceived(packet) => received.push(packet),
                Todo::RequestSendPacket { packet, .. } => {
                    if let Err(error) = outbox.send(conn, &packet.to_continuous_buffer()) {
                        log::warn!("{conn}: a packet was not sent: {error}");
                    }
                }
                Todo::RequestClose => {
                    outbox.close(conn);
                }
                Todo::NotifyError(error) => {
                    log::warn!("{conn}: {error:?}");
                    outbox.close(conn);
                }
                // Keep-alive is left to the reactor's own deadlines (`Builder::idle_timeout`).
                _ => {}
            }
        }
        received
    }

    /// Sends what the session lets through.
    fn say(&mut self, conn: ConnId, packet: impl Into<Packet>, outbox: &mut Outbox<'_>) {
        let todo = self.session.send(packet.into());
        self.carry_out(conn, todo, outbox);
    }

    /// What a broker has to answer, but for publishing.
    fn answer(&mut self, conn: ConnId, packet: Packet, outbox: &mut Outbox<'_>) {
        const BUILT: &str = "all that it needs is set";
        match packet {
            Packet::V3_1_1Connect(connect) => {
                log::info!("{conn} is {:?}, MQTT 3.1.1", connect.client_id());
                let accepted = v3_1_1::Connack::builder()
                    .session_present(false)
                    .return_code(ConnectReturnCode::Accepted);
                self.say(conn, accepted.build().expect(BUILT), outbox);
            }
            Packet::V5_0Connect(connect) => {
                log::info!("{conn} is {:?}, MQTT 5", connect.client_id());
                let accepted = v5_0::Connack::builder()
                    .session_present(false)
                    .reason_code(ConnectReasonCode::Success);
                self.say(conn, accepted.build().expect(BUILT), outbox);
            }
            Packet::V3_1_1Subscribe(subscribe) => {
                let filters = subscribe.entries().iter().map(|entry| entry.topic_filter().into());
                self.filters.extend(filters);
                let granted = vec![SubackReturnCode::SuccessMaximumQos0; subscribe.entries().len()];
                let ack = v3_1_1::Suback::builder()
                    .packet_id(subscribe.packet_id())
                    .return_codes(granted);
                self.say(conn, ack.build().expect(BUILT), outbox);
            }
            Packet::V5_0Subscribe(subscribe) => {
                let filters = subscribe.entries().iter().map(|entry| entry.topic_filter().into());
                self.filters.extend(filters);
                let granted = vec![SubackReasonCode::GrantedQos0; subscribe.entries().len()];
                let ack =
                    v5_0::Suback::builder().packet_id(subscribe.packet_id()).reason_codes(granted);
                self.say(conn, ack.build().expect(BUILT), outbox);
            }
            Packet::V3_1_1Unsubscribe(unsubscribe) => {
                for entry in unsubscribe.entries() {
                    self.filters.retain(|filter| filter != entry.as_str());
                }
                let ack = v3_1_1::Unsuback::builder().packet_id(unsubscribe.packet_id());
                self.say(conn, ack.build().expect(BUILT), outbox);
            }
            Packet::V5_0Unsubscribe(unsubscribe) => {
                for entry in unsubscribe.entries() {
                    self.filters.retain(|filter| filter != entry.as_str());
                }
                let done = vec![UnsubackReasonCode::Success; unsubscribe.entries().len()];
                let ack =
                    v5_0::Unsuback::builder().packet_id(unsubscribe.packet_id()).reason_codes(done);
                self.say(conn, ack.build().expect(BUILT), outbox);
            }
            Packet::V3_1_1Disconnect(_) | Packet::V5_0Disconnect(_) => {
                outbox.close(conn);
            }
            _ => {}
        }
    }

    fn publish(&mut self, conn: ConnId, topic: &str, message: &[u8], outbox: &mut Outbox<'_>) {
        let packet: Result<Packet, _> = match self.session.get_protocol_version() {
            mqtt::Version::V5_0 => v5_0::Publish::builder()
                .topic_name(topic)
                .and_then(|publish| publish.payload(message).build())
                .map(Packet::from),
            _ => v3_1_1::Publish::builder()
                .topic_name(topic)
                .and_then(|publish| publish.payload(message).build())
                .map(Packet::from),
        };
        match packet {
            Ok(packet) => self.say(conn, packet, outbox),
            Err(error) => log::warn!("{topic:?} cannot be handed on: {error:?}"),
        }
    }
}

/// Whether a topic is one of those that a filter names: `+` stands for one level, `#` for all that follow.
fn matches(filter: &str, topic: &str) -> bool {
    if topic.starts_with('$') && filter.starts_with(['+', '#']) {
        return false;
    }
    let mut topic = topic.split('/');
    for level in filter.split('/') {
        match (level, topic.next()) {
            ("#", _) => return true,
            ("+", Some(_)) => {}
            (level, Some(other)) if level == other => {}
            _ => return false,
        }
    }
    topic.next().is_none()
}
