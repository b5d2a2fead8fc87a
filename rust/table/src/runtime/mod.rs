//! The ground floor: what the crate takes from the process it runs in.
//!
//! | file | what |
//! |---|---|
//! | `env` | clock, ids, randomness and waiting, which a simulation replaces ([`Env`]) |
//! | `backoff` | how long to wait after losing a race |
//! | `limits` | how much one operation does at a time |
//! | `work` | calls in flight, blocking work, threads |
//! | `computing` | the processors that threads of a session share |
//! | `cancel` | a call that is dropped stops the work it started |
//! | `faults` | mistakes that the commit simulator plants |
//! | `process_cell` | values of the process that a forked child can use |
//! | `progress` | how far a long step is, for whoever started it |
//! | `metrics` | counters of requests, bytes, retries, cache hits and rows |
//! | `turns` | commits of one process to one table, one after the other |
//!
//! How many threads compute for a call is [`processors`], which the file crate asks as well.
//!
//! Invariant: no other file of the crate asks the system for the time, an id or a random number, sleeps, or starts
//! threads. `clippy.toml` bans the functions.

pub mod env;

mod backoff;
mod cancel;
mod computing;
mod faults;
mod limits;
pub mod metrics;
mod process_cell;
pub mod progress;
mod turns;
mod work;

pub use pennon_datafile::{processors, set_processors};

pub(crate) use self::backoff::Backoff;
pub(crate) use self::cancel::{CancellationToken, cancellation, check};
pub(crate) use self::computing::{Computing, waiting};
pub use self::env::Env;
pub(crate) use self::env::{
    Stopwatch, is_planted, is_single_threaded, now, pause, planted, random, random_below, sleep, utc_now,
    uuid, within,
};
pub use self::faults::Fault;
pub(crate) use self::limits::IN_FLIGHT;
pub(crate) use self::metrics::Counter;
pub use self::metrics::{Counters, Metrics};
pub(crate) use self::process_cell::ProcessCell;
pub use self::progress::{Observer, StepCounts, observed};
pub(crate) use self::progress::{StepCounter, advance, blocking_counted};
pub(crate) use self::turns::TURN_PATIENCE;
pub use self::turns::Turns;
pub(crate) use self::work::{
    blocking, blocking_unless, concurrently, detach_blocking, each_concurrently, gather, guarded, shared,
    spawn, thread, wait_for,
};
