//! A thread that receives and a thread that sends for each connection, and queues between them and the game's thread: the
//! design of Telepathy, in Rust.

use std::collections::HashMap;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;

use super::{Frames, PAYLOAD_MAX, listener};
use crate::Failure;
use crate::plan::{Serve, Work};
use crate::process;

enum Event {
    Connected(u32, Arc<Outgoing>),
    Message(u32, Vec<u8>),
    Disconnected(u32),
}

/// What is to be sent to one client.
#[derive(Default)]
struct Outgoing {
    queue: Mutex<Queue>,
    has_more: Condvar,
}

#[derive(Default)]
struct Queue {
    messages: Vec<Vec<u8>>,
    is_over: bool,
}

pub fn run(serve: &Serve) -> Result<(), Failure> {
    let listener = listener()?;
    process::announce(listener.local_addr()?.port());
    let (events, inbox) = sync_channel(1 << 16);
    let work = serve.work;
    let hz = serve.hz;
    thread::spawn(move || play(&inbox, work, hz));
    for id in 0.. {
        let (stream, _) = listener.accept()?;
        stream.set_nodelay(true)?;
        let outgoing = Arc::new(Outgoing::default());
        let events = events.clone();
        let (input, output) = (stream.try_clone()?, stream);
        thread::Builder::new().stack_size(64 * 1024).spawn({
            let outgoing = outgoing.clone();
            move || send_all(output, &outgoing)
        })?;
        thread::Builder::new().stack_size(64 * 1024).spawn(move || {
            if events.send(Event::Connected(id, outgoing.clone())).is_ok() {
                receive_all(input, id, &events);
                outgoing.end();
            }
        })?;
    }
    Ok(())
}

/// The game's thread.
fn play(inbox: &Receiver<Event>, work: Work, hz: u32) {
    let mut clients: HashMap<u32, Arc<Outgoing>> = HashMap::new();
    let mut handle = |event| match event {
        Event::Connected(id, outgoing) => drop(clients.insert(id, outgoing)),
        Event::Disconnected(id) => drop(clients.remove(&id)),
        Event::Message(id, message) => match work {
            Work::ToAll => clients.values().for_each(|client| client.push(message.clone())),
            _ => {
                if let Some(client) = clients.get(&id) {
                    client.push(message);
                }
            }
        },
    };
    if hz == 0 {
        inbox.iter().for_each(handle);
        return;
    }
    let mut frames = Frames::new(hz);
    loop {
        let next = frames.next();
        thread::sleep(next.saturating_duration_since(std::time::Instant::now()));
        inbox.try_iter().for_each(&mut handle);
    }
}

/// A header and then a payload, each with its own receive.
fn receive_all(mut input: TcpStream, id: u32, events: &SyncSender<Event>) {
    let mut header = [0; 4];
    while input.read_exact(&mut header).is_ok() {
        let len = u32::from_be_bytes(header) as usize;
        if len > PAYLOAD_MAX {
            break;
        }
        let mut message = vec![0; len];
        if input.read_exact(&mut message).is_err()
            || events.send(Event::Message(id, message)).is_err()
        {
            break;
        }
    }
    let _ = input.shutdown(Shutdown::Both); // it may be closed already
    let _ = events.send(Event::Disconnected(id)); // nobody listens if the game has ended
}

/// All that has been queued meanwhile, in one send.
fn send_all(mut output: TcpStream, outgoing: &Outgoing) {
    let mut bytes = Vec::new();
    while let Some(messages) = outgoing.take() {
        bytes.clear();
        for message in &messages {
            bytes.extend_from_slice(&(message.len() as u32).to_be_bytes());
            bytes.extend_from_slice(message);
        }
        if output.write_all(&bytes).is_err() {
            return;
        }
    }
}

impl Outgoing {
    fn push(&self, message: Vec<u8>) {
        self.queue.lock().expect("nobody panics").messages.push(message);
        self.has_more.notify_one();
    }

    fn end(&self) {
        self.queue.lock().expect("nobody panics").is_over = true;
        self.has_more.notify_one();
    }

    /// Waits until there is something to send, or never will be.
    fn take(&self) -> Option<Vec<Vec<u8>>> {
        let queue = self.queue.lock().expect("nobody panics");
        let nothing = |queue: &mut Queue| queue.messages.is_empty() && !queue.is_over;
        let mut queue = self.has_more.wait_while(queue, nothing).expect("nobody panics");
        (!queue.messages.is_empty()).then(|| std::mem::take(&mut queue.messages))
    }
}
