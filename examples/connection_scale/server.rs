//! What is measured: an echo server on one reactor, as a game would have it.

use std::io::{self, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use tickwire::{Event, Reactor, SendPolicy, Tick, Wait};

/// Set when the process that started us is gone or wants us gone.
static ORPHANED: AtomicBool = AtomicBool::new(false);
const ORPHANED_NOTICED_WITHIN: Duration = Duration::from_millis(100);

/// Tells the address on stdout, and echoes until stdin closes.
pub(crate) fn run(fps: u32) -> io::Result<()> {
    rlimit::increase_nofile_limit(u64::MAX)?;
    // Whoever started us holds the other end of stdin. However it ends, the pipe closes, so that we
    // are never left behind.
    thread::spawn(|| {
        let _ = io::copy(&mut io::stdin().lock(), &mut io::sink());
        ORPHANED.store(true, Ordering::Relaxed);
    });

    // All our clients read. One that did not would be let go here and fail the test.
    let mut reactor = Reactor::builder().send_policy(SendPolicy::Disconnect).build()?;
    let listener = reactor.listen("127.0.0.1:0")?;
    println!("{}", reactor.local_addr(listener).expect("we listen there"));
    io::stdout().flush()?;

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
            if let Event::Message { conn, payload } = event {
                // A refusal needs no care here: the policy ends that connection.
                let _ = outbox.send(conn, payload);
            }
        }
    }
    Ok(())
}
