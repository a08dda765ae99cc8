//! What is measured: a server on one reactor, as a game would have it.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use tickwire::{ConnMap, Event, ListenOptions, Reactor, SendPolicy, Tick, Wait};

use crate::scenario::{Kind, ServerOrder};
use crate::talk::{self, Listening};

/// Set when the process that started us is gone or wants us gone.
static ORPHANED: AtomicBool = AtomicBool::new(false);
const ORPHANED_NOTICED_WITHIN: Duration = Duration::from_millis(100);

/// Tells the port on stdout, and serves until stdin closes.
pub(crate) fn run(order: &ServerOrder) -> io::Result<()> {
    rlimit::increase_nofile_limit(u64::MAX)?;
    // Whoever started us holds the other end of stdin. However it ends, the pipe closes, so that we
    // are never left behind.
    thread::spawn(|| {
        let _ = io::copy(&mut io::stdin().lock(), &mut io::sink());
        ORPHANED.store(true, Ordering::Relaxed);
    });

    // All our clients read. One that did not would be let go here and fail the test.
    let mut reactor = Reactor::builder().send_policy(SendPolicy::Disconnect).build()?;
    let port = listen(&mut reactor, order)?;
    talk::write(&mut io::stdout(), &Listening { port })?;

    let fps = order.scenario.fps;
    let broadcasts = order.scenario.kind == Kind::Broadcast;
    let mut audience = ConnMap::new();
    let mut next_frame = Instant::now();
    while !ORPHANED.load(Ordering::Relaxed) {
        let wait = match fps {
            0 => Wait::Event(ORPHANED_NOTICED_WITHIN),
            _ => {
                // A frame that is over already is left out rather than caught up with.
                next_frame = (next_frame + Duration::from_secs(1) / fps).max(Instant::now());
                Wait::Until(next_frame)
            }
        };
        let Tick { events, mut outbox, .. } = reactor.tick(wait)?;
        for event in events {
            // A refusal needs no care here: the policy ends that connection.
            match event {
                // An empty message is the greeting. Without it a client could not tell a connection
                // that we serve from one that only waits to be accepted.
                Event::Connected { conn, .. } => {
                    let _ = outbox.send(conn, &[]);
                    if broadcasts {
                        audience.insert(conn, ());
                    }
                }
                Event::Message { payload, .. } if broadcasts => {
                    outbox.broadcast(audience.keys(), payload);
                }
                Event::Message { conn, payload } => {
                    let _ = outbox.send(conn, payload);
                }
                Event::Disconnected { conn, .. } => {
                    audience.remove(conn);
                }
                _ => {}
            }
        }
    }
    Ok(())
}

/// Listens on all addresses, with one port.
fn listen(reactor: &mut Reactor, order: &ServerOrder) -> io::Result<u16> {
    let options = ListenOptions::new().reuse_port(order.shared);
    let mut port = order.port;
    for index in 0..order.addresses {
        let listener = reactor.listen_with(address(index, port), &options)?;
        let addr = reactor.local_addr(listener).and_then(|addr| addr.as_socket_addr());
        port = addr.expect("we listen there").port();
    }
    Ok(port)
}

/// The addresses from 127.0.0.1 on.
pub(crate) fn address(index: usize, port: u16) -> SocketAddr {
    let ip = Ipv4Addr::from_bits(Ipv4Addr::LOCALHOST.to_bits() + index as u32);
    SocketAddr::from((ip, port))
}
