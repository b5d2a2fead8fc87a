//! Programs of all verbs on whole tables: none diverges from the model.
//!
//! `PENNON_STEPS` sets how many steps are run, `PENNON_SEED` where their programs begin; `PENNON_PROGRAM` runs the one with that
//! number again.

#![allow(clippy::panic, clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::Mutex;

use pennon_table::runtime::Fault;
use pennon_testkit::simulator::tables::{self, Counts, Simulator};

/// Steps of a program.
const STEPS: usize = 40;
/// Steps of the quick lane; `make nightly` runs a million.
const ALL_STEPS: u64 = 10_000;
/// Within as many programs each planted fault must be found.
const PLANTED: u64 = 200;

#[test]
fn no_program_diverges() {
    let setting = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let (first, programs) = match setting("PENNON_PROGRAM") {
        Some(program) => (program, 1),
        None => {
            let steps = setting("PENNON_STEPS").unwrap_or(ALL_STEPS);
            (setting("PENNON_SEED").unwrap_or(0) * 1_000_000_000, steps / STEPS as u64)
        }
    };
    let threads = std::thread::available_parallelism().map_or(1, |n| n.get()) as u64;
    let counts = Mutex::new(Counts::default());
    std::thread::scope(|scope| {
        for thread in 0..threads {
            let counts = &counts;
            scope.spawn(move || {
                let simulator = Simulator::new().unwrap();
                for seed in (first..first + programs).filter(|seed| seed % threads == thread) {
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

/// Programs find mistakes in commits without interleaved awaits: handles that are older than the table are enough.
#[test]
fn faults_in_commits_are_found() {
    let simulator = Simulator::new().unwrap();
    for fault in [
        Fault::OnlyNewestIsChecked,
        Fault::ConflictsAreIgnored,
        Fault::RebaseIsSkipped,
        Fault::StaleBase,
        Fault::CommitRemovesFiles,
    ] {
        let found = (0..PLANTED)
            .find_map(|seed| simulator.run_program(&tables::program(seed, STEPS), Some(fault)).err());
        assert!(found.is_some(), "{fault:?} was not found in {PLANTED} programs");
    }
}
