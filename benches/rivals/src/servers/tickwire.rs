//! This library, with its defaults but for the number of connections and the length of a message.

use std::time::Duration;

use tickwire::{ConnMap, Event, FrameWriter, Reactor, Wait};

use super::{Frames, PAYLOAD_MAX};
use crate::Failure;
use crate::plan::{Serve, Work};
use crate::process;

pub fn run(serve: &Serve) -> Result<(), Failure> {
    let mut reactor =
        Reactor::builder().frame_len_max(PAYLOAD_MAX).connections_max(1 << 20).build()?;
    let listener = reactor.listen("127.0.0.1:0")?;
    let addr = reactor.local_addr(listener).ok_or("the listener is gone")?;
    process::announce(addr.port().ok_or("no port")?);

    let mut frames = (serve.hz > 0).then(|| Frames::new(serve.hz));
    let mut players = ConnMap::new();
    loop {
        let wait = match &mut frames {
            Some(frames) => Wait::Until(frames.next()),
            None => Wait::Event(Duration::MAX), // as long as it takes, as the others do
        };
        let mut tick = reactor.tick(wait)?;
        for event in &mut tick.events {
            match event {
                Event::Connected { conn, .. } if serve.work == Work::ToAll => {
                    players.insert(conn, ());
                }
                Event::Disconnected { conn, .. } => drop(players.remove(conn)),
                Event::Message { conn, payload } => match serve.work {
                    // A client that does not read is refused further messages, as a game would do.
                    Work::Echo => drop(tick.outbox.send(conn, payload)),
                    Work::ToAll => drop(tick.outbox.broadcast(players.keys(), payload)),
                    Work::Repack => drop(tick.outbox.send_with(conn, |to| repack(payload, to))),
                    Work::EchoEach => {
                        let _ = tick.outbox.send(conn, payload); // as above
                        break; // what is queued leaves before the next one is fetched
                    }
                },
                _ => {}
            }
        }
    }
}

/// One message after another, taken out of a pack and put into the next.
fn repack(mut pack: &[u8], to: &mut FrameWriter<'_>) {
    while let Some((header, rest)) = pack.split_first_chunk::<4>() {
        let len = u32::from_be_bytes(*header) as usize;
        let (message, rest) = rest.split_at(len.min(rest.len()));
        to.put_u32(message.len() as u32);
        to.put_slice(message);
        pack = rest;
    }
}
