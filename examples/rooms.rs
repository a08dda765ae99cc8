//! A first chat, as docs/first-hour.md builds it: names, rooms, leaving.
//!
//! ```text
//! cargo run --example rooms
//! ```

use std::time::Duration;

use tickwire::{ConnId, ConnMap, Error, Event, Outbox, Reactor, Tick, Wait};

struct Guest {
    name: String,
    room: String,
}

fn main() -> Result<(), Error> {
    let addr = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:7777".to_owned());
    let mut reactor = Reactor::new()?;
    let listener = reactor.listen(&addr)?;
    println!("listening on {}", reactor.local_addr(listener).expect("we listen there"));

    let mut guests = ConnMap::new();
    loop {
        let Tick { events, mut outbox, .. } = reactor.tick(Wait::Event(Duration::from_secs(1)))?;
        for event in events {
            match event {
                Event::Connected { conn, .. } => tell(&mut outbox, conn, "Your name?"),
                Event::Message { conn, payload } => {
                    let text = String::from_utf8_lossy(payload);
                    hear(&mut guests, &mut outbox, conn, &text);
                }
                Event::Disconnected { conn, reason } => {
                    if let Some(Guest { name, room }) = guests.remove(conn) {
                        println!("{name} left: {reason}");
                        tell_room(&guests, &mut outbox, &room, &format!("{name} left"));
                    }
                }
                _ => {}
            }
        }
    }
}

fn hear(guests: &mut ConnMap<Guest>, outbox: &mut Outbox<'_>, conn: ConnId, text: &str) {
    let Some(guest) = guests.get_mut(conn) else {
        // The first message is a name.
        guests.insert(conn, Guest { name: text.to_owned(), room: "lobby".to_owned() });
        return tell_room(guests, outbox, "lobby", &format!("{text} came"));
    };
    if text == "/quit" {
        tell(outbox, conn, "Goodbye!");
        outbox.close(conn); // after the goodbye; `Disconnected` follows
    } else if let Some(room) = text.strip_prefix("/room ") {
        let name = guest.name.clone();
        let before = std::mem::replace(&mut guest.room, room.to_owned());
        tell_room(guests, outbox, &before, &format!("{name} went to {room}"));
        tell_room(guests, outbox, room, &format!("{name} came"));
    } else {
        let (line, room) = (format!("{}: {text}", guest.name), guest.room.clone());
        tell_room(guests, outbox, &room, &line);
    }
}

fn tell_room(guests: &ConnMap<Guest>, outbox: &mut Outbox<'_>, room: &str, text: &str) {
    let there = guests.iter().filter(|(_, guest)| guest.room == room).map(|(conn, _)| conn);
    for (conn, refusal) in outbox.broadcast(there, text.as_bytes()).refused {
        println!("{conn} missed {text:?}: {refusal}");
    }
}

fn tell(outbox: &mut Outbox<'_>, conn: ConnId, text: &str) {
    if let Err(refusal) = outbox.send(conn, text.as_bytes()) {
        println!("{conn} missed {text:?}: {refusal}");
    }
}
