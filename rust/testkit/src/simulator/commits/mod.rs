//! Histories of commits: several writers of all operations, a store that misbehaves, and processes that crash at any
//! await, all drawn from one number.
//!
//! | file | what |
//! |---|---|
//! | `env` | the seeded clock, ids and random numbers of a process |
//! | `store` | objects in memory; puts that are answered wrongly, late or not at all; listings that lag or lack an order |
//! | `writer` | what one writer does: stages changes and commits them with the product's own loop |
//! | `files` | fragments and deletion files without data, for the transactions |
//! | `check` | what must be true of the table afterwards |
//!
//! One thread polls the writers in a random order, and all that could differ between two runs comes from the seed: so a
//! seed is a history. Nothing of the commit loop is replaced. The invariants:
//!
//! * every file of a version that exists is there;
//! * an acknowledged change is in exactly one version, and the rows of each version are those that the changes so far
//!   make;
//! * a change that was reported as not committed is in none;
//! * row ids and fragment ids are given out once.

mod check;
mod env;
mod files;
mod store;
mod writer;

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use pennon_table::runtime::Fault;
use pennon_table::runtime::env::enter;

use self::env::{Process, World};
use self::store::SimStore;
pub use self::writer::Outcomes;
use self::writer::Writer;

/// Polls after which a history that does not end is given up: a commit that waits for ever is a violation.
const PATIENCE: usize = 400_000;

/// An invariant that does not hold.
#[derive(Debug, Clone)]
pub struct Violation {
    /// The history.
    pub seed: u64,
    /// What is wrong.
    pub what: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "history {}: {}", self.seed, self.what)
    }
}

/// Runs one history, with a planted fault or without.
///
/// Errors: the first invariant that does not hold.
pub fn run(seed: u64, fault: Option<Fault>) -> Result<Outcomes, Violation> {
    let violation = |what: String| Violation { seed, what };
    let world = World::new(seed);
    let store = SimStore::new(Arc::clone(&world));
    let uri = store.register().map_err(|error| violation(error.to_string()))?;
    let shared = Process::new(&world, fault);
    let setup = Process::new(&world, None);
    let first = poll_alone(&setup, writer::create(&uri)).map_err(&violation)?;
    store.misbehave();
    let count = 2 + world.below(2);
    let writers: Vec<Writer> = (0..count).map(|_| Writer::new(&world, &store, &uri)).collect();
    let mut tasks: Vec<Task<'_>> = Vec::new();
    for writer in &writers {
        // Writers of one process take turns; most are processes of their own.
        let process = match world.one_in(3) {
            true => Arc::clone(&shared),
            false => Process::new(&world, fault),
        };
        tasks.push(Task { process, future: Box::pin(writer.work()) });
    }
    let crashes = world.one_in(3);
    for polls in 0.. {
        if tasks.is_empty() {
            break;
        }
        if polls > PATIENCE {
            return Err(violation("a writer waits for ever".to_owned()));
        }
        let at = world.below(tasks.len());
        if crashes && world.one_in(150) {
            drop(tasks.swap_remove(at));
            continue;
        }
        let Some(task) = tasks.get_mut(at) else { continue };
        let _entered = enter(task.process.clone());
        if task.future.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_ready() {
            drop(tasks.swap_remove(at));
        }
    }
    store.behave();
    let mut outcomes = Outcomes { first, ..Outcomes::default() };
    writers.iter().for_each(|writer| outcomes.add(writer));
    poll_alone(&setup, check::check(&store, &uri, &outcomes)).map_err(violation)?;
    Ok(outcomes)
}

/// One writer in its process.
struct Task<'a> {
    process: Arc<Process>,
    future: Pin<Box<dyn Future<Output = ()> + 'a>>,
}

/// Runs a future to its end in a process of its own.
fn poll_alone<T>(process: &Arc<Process>, future: impl Future<Output = T>) -> T {
    let _entered = enter(process.clone());
    let mut future = Box::pin(future);
    loop {
        if let Poll::Ready(done) = future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            return done;
        }
    }
}
