//! Programs of all verbs on whole tables: none diverges from the model.
//!
//! `PENNON_STEPS` sets how many steps are run, `PENNON_SEED` where their programs begin; `PENNON_PROGRAM` runs the one
//! with that number again.

#![allow(clippy::panic, clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use pennon_table::runtime::Fault;
use pennon_testkit::simulator::tables::{self, Counts, Simulator, Threads};

/// Steps of a program.
const STEPS: usize = 40;
/// Steps of the quick lane; `make nightly` runs ten million.
const ALL_STEPS: u64 = 10_000;
/// Within as many programs each planted fault must be found, from the one in [`FOUND_BY`] on; `PENNON_PLANTED` sets how many
/// are tried from the first one on.
const PLANTED: u64 = 200;

#[test]
fn no_program_diverges() {
    let (first, programs) = match setting("PENNON_PROGRAM") {
        Some(program) => (program, 1),
        None => {
            let steps = setting("PENNON_STEPS").unwrap_or(ALL_STEPS);
            (setting("PENNON_SEED").unwrap_or(0) * 1_000_000_000, steps / STEPS as u64)
        }
    };
    let (counts, next) = (Mutex::new(Counts::default()), AtomicU64::new(first));
    std::thread::scope(|scope| {
        for _ in 0..threads() {
            scope.spawn(|| {
                let simulator = Simulator::new().unwrap();
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= first + programs {
                        break;
                    }
                    match simulator.run(seed, STEPS, None) {
                        Ok(found) => counts.lock().unwrap().add(&found),
                        Err(divergence) => panic!("{divergence}"),
                    }
                }
            });
        }
    });
    let counts = counts.into_inner().unwrap();
    println!("{counts:?}");
    if programs == 1 {
        return;
    }
    assert_eq!(counts.steps, programs * STEPS as u64);
    // Everything that a program can meet was met.
    for (what, count) in [
        ("versions", counts.versions),
        ("rebased", counts.rebased),
        ("refused", counts.refused),
        ("cut", counts.cut),
        ("cut after the commit", counts.cut_after_commit),
    ] {
        assert!(count > counts.steps / 2_000, "{what}: {counts:?}");
    }
}

/// Programs find these mistakes of the commit loop without interleaved awaits: handles that are older than the table are
/// enough.
const IN_THE_LOOP: [Fault; 5] = [
    Fault::OnlyNewestIsChecked,
    Fault::ConflictsAreIgnored,
    Fault::RebaseIsSkipped,
    Fault::StaleBase,
    Fault::CommitRemovesFiles,
];

/// The program that finds each fault; those that are missing here the first one finds.
const FOUND_BY: [(Fault, u64); 13] = [
    (Fault::FilledRowsLookUnchanged, 2),
    (Fault::OnlyNewestIsChecked, 4),
    (Fault::RebaseIsSkipped, 12),
    (Fault::InsertedKeysAreForgotten, 23),
    (Fault::SharedKeysAreOverlooked, 23),
    (Fault::FragmentIdsAreReused, 3),
    (Fault::RestoreReusesRowIds, 3),
    (Fault::IndicesCoverNewFragments, 1),
    (Fault::FollowIgnoresDeletions, 412),
    (Fault::CleanupIgnoresTags, 7),
    (Fault::CleanupIgnoresBranches, 3),
    (Fault::CleanupIgnoresClones, 11),
    (Fault::IndexedVersionIsForgotten, 162),
];

#[test]
fn each_planted_fault_is_found() {
    let all = setting("PENNON_PLANTED");
    let planted = all.unwrap_or(PLANTED);
    let faults: Vec<Fault> = IN_THE_LOOP.iter().chain(Fault::TABLES).copied().collect();
    let missed = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for part in faults.chunks(faults.len().div_ceil(threads())) {
            let missed = &missed;
            scope.spawn(move || {
                let simulator = Simulator::new().unwrap();
                let run = |seed: &u64, fault| {
                    let program = tables::program(*seed, STEPS);
                    simulator.run_program(&program, Threads::One, Some(fault)).err()
                };
                for &fault in part {
                    let known = FOUND_BY.iter().find(|(found, _)| all.is_none() && *found == fault);
                    let first = known.map_or(0, |(_, first)| *first);
                    match (first..first + planted).find_map(|seed| run(&seed, fault).map(|what| (seed, what)))
                    {
                        Some((seed, what)) => println!("{fault:?}: program {seed}: {what}"),
                        None => missed.lock().unwrap().push(fault),
                    }
                }
            });
        }
    });
    assert_eq!(
        missed.into_inner().unwrap(),
        [],
        "not found in {planted} programs from 0 on, or from the number in FOUND_BY"
    );
}

fn setting(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

fn threads() -> usize {
    std::thread::available_parallelism().map_or(1, |n| n.get())
}
