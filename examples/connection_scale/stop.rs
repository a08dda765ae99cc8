//! Ctrl-C and SIGTERM: the row at hand is ended early and what there is so far is shown.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};

static ASKED: AtomicBool = AtomicBool::new(false);

pub(crate) fn listen() -> io::Result<()> {
    ctrlc::set_handler(|| {
        if ASKED.swap(true, Ordering::Relaxed) {
            std::process::exit(130); // asked twice: do not wait for the row's end
        }
    })
    .map_err(io::Error::other)
}

pub(crate) fn is_asked() -> bool {
    ASKED.load(Ordering::Relaxed)
}
