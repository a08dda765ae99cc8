//! message-io, with its framed TCP: the closest thing to this library among what is published in Rust.

use std::collections::HashMap;

use message_io::network::{NetEvent, Transport};
use message_io::node;

use crate::Failure;
use crate::plan::{Serve, Work};
use crate::process;

pub fn run(serve: &Serve) -> Result<(), Failure> {
    let (handler, listener) = node::split::<()>();
    let (_, addr) = handler.network().listen(Transport::FramedTcp, "127.0.0.1:0")?;
    process::announce(addr.port());
    let work = serve.work;
    let mut everybody = HashMap::new();
    listener.for_each(move |event| match event.network() {
        NetEvent::Accepted(endpoint, _) => drop(everybody.insert(endpoint, ())),
        NetEvent::Disconnected(endpoint) => drop(everybody.remove(&endpoint)),
        NetEvent::Message(endpoint, message) => match work {
            Work::ToAll => {
                for &endpoint in everybody.keys() {
                    handler.network().send(endpoint, message);
                }
            }
            _ => {
                handler.network().send(endpoint, message);
            }
        },
        NetEvent::Connected(..) => {}
    });
    Ok(())
}
