//! Programs of all verbs on a table, its branches and its clones, compared with a model after every step.
//!
//! | file | what |
//! |---|---|
//! | `model` | rows as maps, and what each verb makes of them |
//! | `line` | a table, a branch or a clone: its handles and the states of its versions |
//! | `world` | the lines and the store of a program, and how verbs are called |
//! | `rows` | rows as batches |
//! | `verbs` | the steps: what is drawn of their numbers, and the call of the verb |
//! | `check` | reads: rows, lineage, filters with and without indices, takes, change feeds |
//! | `crashes`, `disk` | what is left when the process or the machine stops at any moment of a verb |
//! | `store` | a store that can be cut off in the midst of a verb, as when the process is killed |
//!
//! A verb may be called on a handle whose version is no longer the newest, so that it is rebased, tried again or refused.
//! It may be cut off after one of its first changes of the store: its version is there or not, whole, and everything
//! before it. Programs are plain data: any part of one is one, and of a program that fails the shortest part that fails
//! like it is reported.

mod check;
mod crashes;
mod disk;
mod line;
mod model;
mod rows;
mod store;
mod verbs;
mod world;

use std::fmt;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use futures::FutureExt;
use futures::future::BoxFuture;
use pennon_core::manifest::Timestamp;
use pennon_table::Durability;
use pennon_table::runtime::{Env, Fault, Turns};
use rand::rngs::StdRng;
use rand::{RngCore, SeedableRng};
use uuid::Uuid;

pub use self::crashes::CrashCounts;
pub use self::verbs::StepKind;
use self::world::World;

/// One step of a program. What its numbers mean depends on the kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Step {
    /// The verb.
    pub kind: StepKind,
    /// What it is about.
    pub subject: u32,
    /// How it is done: the line, the handle, whether the store is cut off, and how it is checked.
    pub manner: u32,
}

/// A program that does not do what the model does.
#[derive(Debug, Clone)]
pub struct Divergence {
    /// The number that it was drawn from.
    pub seed: u64,
    /// The shortest part of it that fails in the same way.
    pub program: Vec<Step>,
    /// How.
    pub what: String,
}

impl fmt::Display for Divergence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "program {}: {}", self.seed, self.what)?;
        self.program.iter().try_for_each(|step| writeln!(f, "    {step:?}"))
    }
}

/// What a program did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Steps.
    pub steps: u64,
    /// Versions that were made.
    pub versions: u64,
    /// Verbs on older handles that were committed on newer versions, or again on them.
    pub rebased: u64,
    /// Verbs on older handles that were refused.
    pub refused: u64,
    /// Verbs that were cut off.
    pub cut: u64,
    /// Of these, whose version is there all the same.
    pub cut_after_commit: u64,
}

impl Counts {
    /// Adds those of another program.
    pub fn add(&mut self, other: &Self) {
        self.steps += other.steps;
        self.versions += other.versions;
        self.rebased += other.rebased;
        self.refused += other.refused;
        self.cut += other.cut;
        self.cut_after_commit += other.cut_after_commit;
    }
}

/// The program of a number.
pub fn program(seed: u64, steps: usize) -> Vec<Step> {
    let mut random = StdRng::seed_from_u64(seed);
    let mut draw = || random.next_u32() >> 1;
    (0..steps).map(|_| Step { kind: StepKind::draw(draw()), subject: draw(), manner: draw() }).collect()
}

/// Where the work of a verb is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Threads {
    /// On the thread that asks for it: half the processor time, most of which threads spend on waking each other.
    One,
    /// On those of a runtime, as in programs of users.
    Several,
}

/// One program in so many has several threads.
const WITH_THREADS: u64 = 4;

/// Runs programs on a runtime of its own.
#[derive(Debug)]
pub struct Simulator {
    runtime: tokio::runtime::Runtime,
}

impl Simulator {
    /// Errors: those of the system, which may have no more threads.
    pub fn new() -> std::io::Result<Self> {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_time().build()?;
        Ok(Self { runtime })
    }

    /// Runs the program of a number, with a planted fault or without.
    ///
    /// Errors: the first difference from the model, by the shortest program that was found to lead to one like it.
    pub fn run(&self, seed: u64, steps: usize, fault: Option<Fault>) -> Result<Counts, Box<Divergence>> {
        let all = program(seed, steps);
        let threads = if seed.is_multiple_of(WITH_THREADS) { Threads::Several } else { Threads::One };
        self.run_program(&all, threads, fault).map_err(|what| {
            let (program, what) = self.shortest(all, what, threads, fault);
            Box::new(Divergence { seed, program, what })
        })
    }

    /// Runs a program. Errors: the first difference from the model.
    pub fn run_program(
        &self,
        program: &[Step],
        threads: Threads,
        fault: Option<Fault>,
    ) -> Result<Counts, String> {
        let _entered = pennon_table::runtime::env::enter(Arc::new(Process::new(threads, fault)));
        self.runtime.block_on(async {
            let mut world = World::in_memory().await?;
            for step in program {
                run(&mut world, step).await.map_err(|what| format!("{step:?}: {what}"))?;
            }
            check_end(&world).await?;
            Ok(world.counts)
        })
    }

    /// Runs a program below an absolute path of the local disk, and looks at states that a crash during its last step may
    /// leave there: whether that is what commits of the `promised` durability leave. Errors: the first state that is
    /// wrong.
    pub fn crash_on_disk(
        &self,
        root: &Path,
        program: &[Step],
        durability: Durability,
        promised: Durability,
    ) -> Result<CrashCounts, String> {
        let _entered = pennon_table::runtime::env::enter(Arc::new(Process::new(Threads::Several, None)));
        self.runtime.block_on(crashes::on_disk(root, program, durability, promised))
    }

    /// Runs a program in memory again and again, its last step cut off after every number of changes of the store; gives
    /// how often. Errors: the first difference from the model.
    pub fn cut_everywhere(&self, program: &[Step]) -> Result<usize, String> {
        let _entered = pennon_table::runtime::env::enter(Arc::new(Process::new(Threads::Several, None)));
        self.runtime.block_on(async {
            let (last, warm_up) = program.split_last().ok_or("the program has no step")?;
            for changes in 0.. {
                let mut world = World::in_memory().await?;
                for step in warm_up {
                    run(&mut world, step).await.map_err(|what| format!("{step:?}: {what}"))?;
                }
                (world.next_cut, world.was_cut) = (Some(changes), false);
                let failed = |what| format!("{last:?}, cut off after {changes} changes: {what}");
                run(&mut world, last).await.map_err(failed)?;
                world.next_cut = None;
                let was_cut = world.was_cut;
                check_end(&world).await.map_err(failed)?;
                if !was_cut {
                    return Ok(changes);
                }
            }
            Ok(0)
        })
    }

    /// A part of a failing program that fails at the same kind of step, without steps that can be left out.
    fn shortest(
        &self,
        mut program: Vec<Step>,
        mut what: String,
        threads: Threads,
        fault: Option<Fault>,
    ) -> (Vec<Step>, String) {
        let kind = |what: &str| what.split(|c: char| c.is_ascii_digit()).next().map(str::to_owned);
        let mut size = program.len() / 2;
        while size > 0 {
            let mut at = 0;
            while at < program.len() {
                let mut rest = program.clone();
                rest.drain(at..program.len().min(at + size));
                match self.run_program(&rest, threads, fault) {
                    Err(other) if kind(&other) == kind(&what) => (program, what) = (rest, other),
                    _ => at += size,
                }
            }
            size /= 2;
        }
        (program, what)
    }
}

/// The longest wait that costs no time: those between tries. Longer ones are limits of other things.
const LONGEST_PAUSE: Duration = Duration::from_secs(10);

/// The environment of a process with a fault, in which waits between tries only let the clock advance.
#[derive(Debug)]
struct Process {
    started: Instant,
    waited: Mutex<Duration>,
    turns: Turns,
    threads: Threads,
    fault: Option<Fault>,
}

impl Process {
    fn new(threads: Threads, fault: Option<Fault>) -> Self {
        let (waited, turns) = (Mutex::default(), Turns::default());
        Self { started: Instant::now(), waited, turns, threads, fault }
    }

    fn waited(&self) -> Duration {
        *self.waited.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Env for Process {
    fn now(&self) -> Timestamp {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default() + self.waited();
        Timestamp { seconds: i64::try_from(since.as_secs()).unwrap_or(i64::MAX), nanos: since.subsec_nanos() }
    }

    fn monotonic(&self) -> Duration {
        self.started.elapsed() + self.waited()
    }

    fn uuid(&self) -> Uuid {
        Uuid::new_v4()
    }

    fn random(&self) -> u64 {
        rand::random()
    }

    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()> {
        if duration > LONGEST_PAUSE {
            return tokio::time::sleep(duration).boxed();
        }
        *self.waited.lock().unwrap_or_else(PoisonError::into_inner) += duration;
        tokio::task::yield_now().boxed()
    }

    fn is_single_threaded(&self) -> bool {
        self.threads == Threads::One
    }

    fn turns(&self) -> &Turns {
        &self.turns
    }

    fn fault(&self) -> Option<Fault> {
        self.fault
    }
}

/// Does a step, and reads what it changed.
async fn run(world: &mut World, step: &Step) -> Result<(), String> {
    world.counts.steps += 1;
    // The table has as many turns as all other lines.
    let lines = world.lines.len();
    let at = usize::try_from(step.manner / 3).unwrap_or(0) % (2 * lines);
    let at = if at < lines { at } else { 0 };
    verbs::run(world, at, step).await?;
    let line = world.line(at)?;
    if step.manner.is_multiple_of(5) {
        line.older = line.newest.clone();
    }
    check::line(line, step).await
}

/// What must be true at the end of a program.
async fn check_end(world: &World) -> Result<(), String> {
    for line in &world.lines {
        check::end(line).await.map_err(|what| format!("at the end, {}: {what}", line.shown()))?;
    }
    Ok(())
}
