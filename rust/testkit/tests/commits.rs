//! Histories of commits: none violates an invariant, and each planted fault is found.

#![allow(clippy::panic, clippy::unwrap_used, reason = "a test fails by panicking")]

use pennon_table::runtime::Fault;
use pennon_testkit::simulator::commits;

/// Histories of the quick lane; `make nightly` runs a million.
const HISTORIES: u64 = 5_000;
/// Within as many histories each planted fault must be found.
const PLANTED: u64 = 10_000;

#[test]
fn no_history_violates_an_invariant() {
    let histories = std::env::var("PENNON_HISTORIES").ok().and_then(|text| text.parse().ok());
    let histories: u64 = histories.unwrap_or(HISTORIES);
    let threads = std::thread::available_parallelism().map_or(1, |n| n.get()) as u64;
    std::thread::scope(|scope| {
        for thread in 0..threads {
            scope.spawn(move || {
                for seed in (0..histories).filter(|seed| seed % threads == thread) {
                    if let Err(violation) = commits::run(seed, None) {
                        panic!("{violation}");
                    }
                }
            });
        }
    });
}

#[test]
fn each_planted_fault_is_found() {
    let mut missed = Vec::new();
    for &fault in Fault::COMMITS {
        match (0..PLANTED).find_map(|seed| commits::run(seed, Some(fault)).err()) {
            Some(violation) => println!("{fault:?}: {violation}"),
            None => missed.push(fault),
        }
    }
    assert_eq!(missed, [], "not found in {PLANTED} histories");
}

#[test]
fn a_seed_is_a_history() {
    let mut kinds = [0; 4];
    for seed in 0..200 {
        let first = commits::run(seed, None).unwrap();
        assert_eq!(
            format!("{first:?}"),
            format!("{:?}", commits::run(seed, None).unwrap()),
            "history {seed}"
        );
        let counts = [first.committed, first.not_committed, first.unknown, first.crashed];
        kinds.iter_mut().zip(counts).for_each(|(sum, count)| *sum += count);
    }
    println!("committed, not committed, unknown, crashed: {kinds:?}");
    assert!(kinds.iter().all(|&count| count > 10), "{kinds:?}");
}
