//! The process or the machine stops at any moment of a verb, on a local disk and on a store of objects.
//!
//! `PENNON_CRASHES` sets how many programs are run for each verb in place of those that a test chooses, `PENNON_SEED` where
//! they begin.

#![allow(clippy::panic, clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::HashSet;
use std::ops::Range;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use arrow_array::{ArrayRef, Int64Array, RecordBatch, RecordBatchIterator};
use pennon_table::store::{DiskChange, DiskTrace};
use pennon_table::{BatchReader, ConflictRetries, Dataset, Durability, WriteOptions};
use pennon_testkit::simulator::tables::{CrashCounts, Simulator, Step, StepKind};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

/// The newest version of the table; an older one of it; of a branch or clone that was just made.
const MANNERS: [u32; 3] = [1, 8, 3];

/// A few steps after which each verb has something to do, then the verb.
fn program(kind: StepKind, number: u64, seed: u64) -> Vec<Step> {
    let mut random = StdRng::seed_from_u64(seed.wrapping_add(1000 * kind as u64 + number));
    let mut step = |kind, manner| Step { kind, subject: random.random_range(0..1 << 20), manner };
    // The first program of a verb is about the newest version of the table, the second one about one of the others.
    let manner = match number {
        0 => MANNERS.first(),
        1 => MANNERS.get(1 + kind as usize % 2),
        _ => MANNERS.get(usize::try_from(number).unwrap() % MANNERS.len()),
    };
    let manner = manner.copied().unwrap();
    let begins = if number.is_multiple_of(2) { StepKind::Branch } else { StepKind::Clone };
    let mut steps = vec![
        step(StepKind::AddColumn, 1),
        step(StepKind::Append, 1),
        step(StepKind::CreateIndex, 1),
        step(StepKind::UpdateRows, 1),
        step(StepKind::Delete, 1),
        step(StepKind::Tag, 1),
    ];
    if manner == 3 {
        steps.push(step(begins, 1));
        steps.push(step(StepKind::Append, 3));
    }
    let last = step(kind, manner);
    // The one tag that there is.
    let subject = if kind == StepKind::Untag { 0 } else { last.subject };
    steps.push(Step { subject, ..last });
    steps
}

/// The numbers of the programs that a test runs of the verb at a position.
type Chosen = fn(u64) -> Range<u64>;

/// These programs, and the creation of a table.
fn programs(chosen: Chosen) -> Vec<Vec<Step>> {
    let setting = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let (each, seed) = (setting("PENNON_CRASHES"), setting("PENNON_SEED").unwrap_or(0));
    let of_kind = |(at, (kind, _))| {
        each.map_or_else(|| chosen(at), |each| 0..each).map(move |number| program(kind, number, seed))
    };
    std::iter::once(Vec::new()).chain((0..).zip(StepKind::ALL).flat_map(of_kind)).collect()
}

/// In memory where that is possible: what is left is made from a model of the disk, thousands of times.
fn temporary() -> tempfile::TempDir {
    tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap()
}

/// Calls a function for each program, on as many threads as there are processors.
fn each_program(chosen: Chosen, run: impl Fn(&Simulator, &[Step]) + Sync) {
    let (programs, next) = (programs(chosen), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, |n| n.get()) {
            scope.spawn(|| {
                let simulator = Simulator::new().unwrap();
                while let Some(program) = programs.get(next.fetch_add(1, Ordering::Relaxed)) {
                    run(&simulator, program);
                }
            });
        }
    });
}

/// Runs the programs with one durability, and looks for what another one promises: gives what was found, what was wrong, and
/// the verbs that have changed the disk.
fn crash_on_disk(
    chosen: Chosen,
    durability: Durability,
    promised: Durability,
) -> (CrashCounts, Vec<String>, HashSet<Option<StepKind>>) {
    let found = Mutex::new((CrashCounts::default(), Vec::new(), HashSet::new()));
    each_program(chosen, |simulator, program| {
        let directory = temporary();
        let root = directory.path().join("disk");
        std::fs::create_dir(&root).unwrap();
        let crashed = simulator.crash_on_disk(&root, program, durability, promised);
        let mut found = found.lock().unwrap();
        match crashed {
            Ok(counts) => {
                found.0.add(&counts);
                if counts.changes > 0 {
                    found.2.insert(program.last().map(|step| step.kind));
                }
            }
            Err(what) => found.1.push(format!("{program:#?}\n{what}")),
        }
    });
    found.into_inner().unwrap()
}

/// About the newest version of every verb, about another one of every fourth.
#[test]
fn every_crash_leaves_whole_versions() {
    let chosen: Chosen = |at| 0..1 + u64::from(at.is_multiple_of(4));
    let (counts, wrong, kinds) = crash_on_disk(chosen, Durability::Full, Durability::Full);
    println!("synced: {counts:?}");
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
    assert!(counts.states > 500 && counts.after_commit > counts.states / 10, "{counts:?}");
    assert_eq!(counts.errors, 0);
    // The creation of a table is the program without a step.
    assert!(kinds.contains(&None));
    let idle: Vec<_> = StepKind::ALL.into_iter().filter(|(kind, _)| !kinds.contains(&Some(*kind))).collect();
    assert_eq!(idle, [], "verbs that changed nothing");
}

/// Of every second verb.
#[test]
fn what_is_not_synced_is_never_another_content() {
    let (counts, wrong, _) = crash_on_disk(|at| 0..at % 2, Durability::Os, Durability::Os);
    println!("not synced: {counts:?}");
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
    assert!(counts.states > 500 && counts.errors > 0 && counts.errors < counts.states, "{counts:?}");
}

/// The check can fail: whatever a verb writes, some crash takes it if it was not synced.
#[test]
fn what_is_not_synced_is_found() {
    let (_, wrong, _) = crash_on_disk(|_| 0..1, Durability::Os, Durability::Full);
    let programs = programs(|_| 0..1).len();
    println!("{} of {programs} programs", wrong.len());
    assert!(wrong.len() > programs / 2, "{} of {programs} programs", wrong.len());
}

#[test]
fn every_verb_may_be_cut_off_after_every_change() {
    let (cuts, chosen): (_, Chosen) = (AtomicUsize::new(0), |_| 0..3);
    each_program(chosen, |simulator, program| {
        // The creation of the table is not a step that could be cut off.
        if program.is_empty() {
            return;
        }
        match simulator.cut_everywhere(program) {
            Ok(count) => drop(cuts.fetch_add(count, Ordering::Relaxed)),
            Err(what) => panic!("{program:#?}\n{what}"),
        }
    });
    let cuts = cuts.into_inner();
    println!("{cuts} cuts");
    assert!(cuts > 50, "{cuts}");
}

fn rows(count: i64) -> BatchReader {
    let column: ArrayRef = Arc::new(Int64Array::from_iter_values(0..count));
    let batch = RecordBatch::try_from_iter([("a", column)]).unwrap();
    Box::new(RecordBatchIterator::new([Ok(batch.clone())], batch.schema()))
}

/// Of a tag and of a branch: the name is removed, then its directory is synced.
#[tokio::test(flavor = "multi_thread")]
async fn deleted_references_stay_deleted() {
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path().join("references");
    let dataset = Dataset::write(rows(3), root.to_str().unwrap(), WriteOptions::default()).await.unwrap();
    dataset.tags().create("a", None).await.unwrap();
    dataset.create_branch("b", None).await.unwrap();
    let trace = DiskTrace::start(&root);
    dataset.tags().delete("a").await.unwrap();
    dataset.branches().delete("b").await.unwrap();
    let changes = trace.changes();
    for name in ["_refs/tags/a.json", "_refs/branches/b.json"] {
        let path = root.join(name);
        let at = |wanted| changes.iter().position(|change| *change == wanted).unwrap();
        let removed = at(DiskChange::Remove(path.clone()));
        let synced = at(DiskChange::Sync(path.parent().unwrap().to_owned()));
        assert!(removed < synced, "{name}");
    }
}

/// All data files are synced, then their directory once, then the manifest gets its name; so are deletion files.
#[tokio::test(flavor = "multi_thread")]
async fn files_of_a_commit_are_synced_together() {
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path().join("together");
    let trace = DiskTrace::start(&root);
    let params = WriteOptions { max_rows_per_file: 2, ..WriteOptions::default() };
    let mut dataset = Dataset::write(rows(40), root.to_str().unwrap(), params).await.unwrap();
    let written = trace.changes();
    dataset.delete("a % 2 = 0", ConflictRetries::default()).await.unwrap();
    let deleted = trace.changes().split_off(written.len());
    for (changes, folder) in [(written, "data"), (deleted, "_deletions")] {
        let folder = root.join(folder);
        let at = |wanted: &dyn Fn(&DiskChange) -> bool| -> Vec<usize> {
            changes.iter().enumerate().filter(|(_, change)| wanted(change)).map(|(at, _)| at).collect()
        };
        let inside = |path: &Path| path.parent() == Some(&folder);
        let writes = at(&|change| matches!(change, DiskChange::Write(path, _) if inside(path)));
        let syncs = at(&|change| matches!(change, DiskChange::Sync(path) if inside(path)));
        let names = at(&|change| matches!(change, DiskChange::Sync(path) if *path == folder));
        let published = at(&|change| matches!(change, DiskChange::Link(..)));
        assert_eq!((writes.len(), syncs.len(), names.len(), published.len()), (20, 20, 1, 1));
        assert!(writes.last() < syncs.first() && syncs.last() < names.first() && names < published);
    }
}
