//! How other threads reach the reactor's: a list that they append to, and a bell.

#[cfg(not(loom))]
use std::sync::{
    Mutex,
    atomic::{AtomicBool, Ordering},
};

#[cfg(loom)]
use loom::sync::{
    Mutex,
    atomic::{AtomicBool, Ordering},
};

/// Letters from any number of threads to one reader.
///
/// The bell is rung by who finds the box empty: once for all letters until the reader has taken them. A reader who takes
/// first and sleeps afterwards misses none: a letter that comes after the taking finds the box empty and rings.
#[derive(Debug)]
pub(crate) struct Mailbox<T> {
    letters: Mutex<Letters<T>>,
    /// There may be letters; so that a reader who finds none need not lock.
    has_any: AtomicBool,
}

#[derive(Debug)]
struct Letters<T> {
    list: Vec<T>,
    is_closed: bool,
}

impl<T> Mailbox<T> {
    pub(crate) fn new() -> Mailbox<T> {
        Mailbox {
            letters: Mutex::new(Letters { list: Vec::new(), is_closed: false }),
            has_any: AtomicBool::new(false),
        }
    }

    /// Puts a letter in; whether the bell is to be rung, or the letter back if nobody reads any more.
    pub(crate) fn put(&self, letter: T) -> Result<bool, T> {
        let mut letters = self.lock();
        if letters.is_closed {
            return Err(letter);
        }
        letters.list.push(letter);
        self.has_any.store(true, Ordering::Release);
        Ok(letters.list.len() == 1)
    }

    /// Takes all letters into `into`, which is empty; its memory serves for the next ones.
    pub(crate) fn take(&self, into: &mut Vec<T>) {
        debug_assert!(into.is_empty());
        if self.has_any.load(Ordering::Acquire) {
            let mut letters = self.lock();
            self.has_any.store(false, Ordering::Release);
            std::mem::swap(&mut letters.list, into);
        }
    }

    /// Nobody reads any more. What was not taken is dropped.
    pub(crate) fn close(&self) {
        let mut letters = self.lock();
        letters.is_closed = true;
        letters.list = Vec::new();
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.lock().is_closed
    }

    #[cfg(not(loom))]
    fn lock(&self) -> std::sync::MutexGuard<'_, Letters<T>> {
        // Nothing in here can panic half-way, so a poisoned lock guards a whole list.
        self.letters.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    #[cfg(loom)]
    fn lock(&self) -> loom::sync::MutexGuard<'_, Letters<T>> {
        self.letters.lock().expect("no thread panics in a model")
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn the_bell_is_rung_once_for_all_letters() {
        let mailbox = Mailbox::new();
        assert_eq!(mailbox.put(1), Ok(true));
        assert_eq!(mailbox.put(2), Ok(false));
        let mut letters = Vec::new();
        mailbox.take(&mut letters);
        assert_eq!(letters, [1, 2]);
        letters.clear();
        mailbox.take(&mut letters);
        assert!(letters.is_empty());
        assert_eq!(mailbox.put(3), Ok(true));
    }

    #[test]
    fn a_closed_box_gives_letters_back() {
        let mailbox = Mailbox::new();
        assert_eq!(mailbox.put(1), Ok(true));
        mailbox.close();
        assert_eq!(mailbox.put(2), Err(2));
        assert!(mailbox.is_closed());
    }
}

/// `RUSTFLAGS="--cfg loom" cargo test --release --lib mailbox`: every order in which the threads may run.
#[cfg(all(test, loom))]
mod model {
    use loom::sync::Arc;
    use loom::sync::atomic::{AtomicUsize, Ordering};
    use loom::thread;

    use super::*;

    #[test]
    fn no_letter_is_lost_and_none_stays_unannounced() {
        loom::model(|| {
            let mailbox = Arc::new(Mailbox::new());
            let bell = Arc::new(AtomicUsize::new(0));
            let writers: Vec<_> = (0..2)
                .map(|letter| {
                    let (mailbox, bell) = (mailbox.clone(), bell.clone());
                    thread::spawn(move || {
                        if mailbox.put(letter).expect("it is open") {
                            bell.fetch_add(1, Ordering::SeqCst);
                        }
                    })
                })
                .collect();
            // The reader takes at any moment …
            let mut read = Vec::new();
            mailbox.take(&mut read);
            for writer in writers {
                writer.join().expect("no panic");
            }
            // … and whatever is left then was announced after what it has taken.
            let rings = bell.load(Ordering::SeqCst);
            let mut rest = Vec::new();
            mailbox.take(&mut rest);
            assert!(rings >= usize::from(!read.is_empty()) + usize::from(!rest.is_empty()));
            read.append(&mut rest);
            read.sort();
            assert_eq!(read, [0, 1]);
        });
    }
}
