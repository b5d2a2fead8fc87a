//! How many processors the process uses: those it may run on, unless the program says another number.

use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

/// What the program said; 0 before it did.
static CHOSEN: AtomicUsize = AtomicUsize::new(0);

/// What the system said when it was first asked, 0 before: to read the quota of a control group takes long, compared with
/// a small query.
static AVAILABLE: AtomicUsize = AtomicUsize::new(0);

/// How many threads compute for one call at a time: what the system lets the process run on when it is first asked (its
/// affinity and the quota of its control group among that), or the number that [`set_processors`] was given.
pub fn processors() -> usize {
    match CHOSEN.load(Ordering::Relaxed) {
        0 => available(),
        chosen => chosen,
    }
}

fn available() -> usize {
    match AVAILABLE.load(Ordering::Relaxed) {
        0 => {
            let found = thread::available_parallelism().map_or(1, NonZeroUsize::get);
            AVAILABLE.store(found, Ordering::Relaxed);
            found
        }
        known => known,
    }
}

/// Sets [`processors`] for all calls of the process that begin from now on. Threads that wait for a store are not counted.
pub fn set_processors(number: NonZeroUsize) {
    CHOSEN.store(number.get(), Ordering::Relaxed);
}
