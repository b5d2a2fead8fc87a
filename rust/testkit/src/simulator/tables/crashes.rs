//! The process or the machine stops at any moment of the last verb of a program.
//!
//! On a local disk states that a crash may leave before and after each change are made again (`disk`); on a store of objects
//! the verb is cut off after each number of changes. What is left must open at the version that was acknowledged last or at
//! one that the verb was making, whole, with all versions, tags and branches from before, and take the next commit. Without
//! syncing that holds for a killed process; after a power cut there may be an error, but never another content of a version.
//! A program without a step is the creation of the table.
//!
//! Not looked at: the removal of a branch or of the table.

use std::collections::{BTreeSet, HashSet};
use std::path::Path;

use pennon_table::ops::verify::Depth;
use pennon_table::store::{DiskChange, DiskTrace};
use pennon_table::{CommitOptions, Dataset, Durability, VersionRef, WriteMode, WriteOptions};

use super::disk::{Disk, Remains};
use super::line::{Line, text};
use super::model::{is_equal, two_columns};
use super::rows::batches;
use super::world::World;
use super::{Step, check, run};

/// States that were left and looked at.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CrashCounts {
    /// All of them.
    pub states: usize,
    /// Of these, with the new version.
    pub after_commit: usize,
    /// Of these, that could not be read or written: only allowed after a power cut if nothing was synced.
    pub errors: usize,
    /// Changes of the disk by the last steps.
    pub changes: usize,
}

impl CrashCounts {
    /// Adds those of another program.
    pub fn add(&mut self, other: &Self) {
        self.states += other.states;
        self.after_commit += other.after_commit;
        self.errors += other.errors;
        self.changes += other.changes;
    }
}

/// Runs a program below a directory of the local disk, then looks at what crashes during its last step leave: whether
/// that is what commits of the `promised` durability leave.
pub(super) async fn on_disk(
    root: &Path,
    program: &[Step],
    durability: Durability,
    promised: Durability,
) -> Result<CrashCounts, String> {
    let trace = DiskTrace::start(root);
    let address = root.to_str().ok_or("the directory has no name in UTF-8")?;
    let mut world = World::create(address.to_owned(), None, durability).await?;
    let (mut begun, mut before) = (0, Vec::new());
    if let Some((last, warm_up)) = program.split_last() {
        for step in warm_up {
            run(&mut world, step).await.map_err(|what| format!("{step:?}: {what}"))?;
        }
        (begun, before) = (trace.count(), world.lines.clone());
        run(&mut world, last).await.map_err(|what| format!("{last:?}: {what}"))?;
    }
    let (changes, after) = (trace.changes(), world.lines.clone());
    drop((trace, world));

    let (mut disk, mut seen, mut counts) = (Disk::default(), HashSet::new(), CrashCounts::default());
    let (warm_up, verb) = changes.split_at(begun);
    warm_up.iter().for_each(|change| disk.change(change));
    counts.changes = verb.len();
    for count in 0_usize..=verb.len() {
        if let Some(change) = count.checked_sub(1).and_then(|last| verb.get(last)) {
            disk.change(change);
        }
        // Acknowledged: whatever happens now, it is there.
        let before = if count == verb.len() { &after } else { &before };
        let killed = verb.get(count).map(|next| disk.killed_during(next)).unwrap_or_default();
        let killed = std::iter::once(disk.killed()).chain(killed);
        let killed = killed.map(|remains| ("killed".to_owned(), remains, false));
        let power_cuts = disk.after_power_cut(u64::try_from(count).unwrap_or(0));
        let power_cuts = power_cuts.into_iter().map(|(name, remains)| (name, remains, true));
        for (state, remains, is_power_cut) in killed.chain(power_cuts) {
            let may_fail = is_power_cut && promised == Durability::Os;
            if !seen.insert((remains.clone(), count == verb.len(), may_fail)) {
                continue;
            }
            restore(root, &remains).map_err(|error| error.to_string())?;
            counts.states += 1;
            let looked = look(before, &after, may_fail).await;
            let found = looked.map_err(|what| {
                let next = verb.get(count).map(shown);
                format!("after {count} of {} changes, {state}, next {next:?}: {what}", verb.len())
            })?;
            counts.after_commit += usize::from(found == CrashOutcome::New);
            counts.errors += usize::from(found == CrashOutcome::Error);
        }
    }
    Ok(counts)
}

/// A change, without what was written.
fn shown(change: &DiskChange) -> String {
    match change {
        DiskChange::Write(path, content) => format!("Write({}, {} bytes)", path.display(), content.len()),
        other => format!("{other:?}"),
    }
}

/// Makes a directory what a crash has left.
fn restore(root: &Path, remains: &Remains) -> std::io::Result<()> {
    std::fs::remove_dir_all(root)?;
    std::fs::create_dir(root)?;
    remains.directories.iter().try_for_each(std::fs::create_dir_all)?;
    for (path, content) in &remains.files {
        if let Some(directory) = path.parent() {
            std::fs::create_dir_all(directory)?;
        }
        std::fs::write(path, content)?;
    }
    Ok(())
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CrashOutcome {
    Old,
    New,
    Error,
}

/// Looks at all lines, then commits to each.
async fn look(before: &[Line], after: &[Line], may_fail: bool) -> Result<CrashOutcome, String> {
    let mut found = CrashOutcome::Old;
    for (number, now) in after.iter().enumerate() {
        let before = before.get(number);
        let looked = match now.reopened(true).await {
            Ok(opened) => {
                if before.is_none_or(|before| before.newest.version() < opened.version()) {
                    found = CrashOutcome::New;
                }
                match is_whole(&opened, before, now, may_fail).await {
                    Ok(()) => commit(now).await,
                    flaw => flaw,
                }
            }
            // A table that was being made: it is made again.
            Err(error) if before.is_none() && number == 0 && error.is_not_found() => create_table(now).await,
            // A branch or a clone that was being made.
            Err(_) if before.is_none() => Ok(()),
            Err(error) => Err(Flaw::Error(text(error))),
        };
        match looked {
            Ok(()) => {}
            Err(Flaw::Error(_)) if may_fail => found = CrashOutcome::Error,
            Err(Flaw::Error(what) | Flaw::Difference(what)) => {
                return Err(format!("{}: {what}", now.shown()));
            }
        }
    }
    Ok(found)
}

/// What is wrong with a version: it cannot be read, or is not what it was.
enum Flaw {
    Error(String),
    Difference(String),
}

/// The newest version, and all that were there before and are to be there now, are what they were.
async fn is_whole(opened: &Dataset, before: Option<&Line>, after: &Line, may_fail: bool) -> Result<(), Flaw> {
    let newest = opened.version().0;
    let oldest = before.map_or(0, |before| before.newest.version().0);
    if !may_fail && !(oldest..=after.newest.version().0).contains(&newest) {
        return Err(Flaw::Difference(format!("it was at {oldest} and going to {}", after.newest.version())));
    }
    let is_equal = async |dataset: &Dataset| {
        let expected = after.state(dataset.version().0).map_err(Flaw::Difference)?;
        let found = check::state(dataset).await.map_err(Flaw::Error)?;
        is_equal(&found, expected).map_err(Flaw::Difference)
    };
    is_equal(opened).await?;
    let Some(before) = before else { return Ok(()) };
    for number in before.kept.intersection(&after.kept).filter(|number| **number < newest) {
        let version = VersionRef::Number(*number);
        let older = opened.checkout(version).await.map_err(|error| Flaw::Error(text(error)))?;
        is_equal(&older).await?;
    }
    if may_fail {
        return Ok(());
    }
    let tags = opened.tags().list().await.map_err(|error| Flaw::Error(text(error)))?;
    let own = tags.values().filter(|tag| tag.branch == after.branch).map(|tag| tag.version.0);
    let own: BTreeSet<u64> = own.collect();
    let may_be: BTreeSet<u64> = before.tags.union(&after.tags).copied().collect();
    let must_be: BTreeSet<u64> = before.tags.intersection(&after.tags).copied().collect();
    if own.is_subset(&may_be) && must_be.is_subset(&own) {
        Ok(())
    } else {
        Err(Flaw::Difference(format!("versions {own:?} have tags, not at least {must_be:?} of {may_be:?}")))
    }
}

/// Rows that no program has.
fn other_rows(line: &Line) -> [(i64, Option<i64>); 1] {
    [(line.next_key + 1000, Some(1))]
}

fn params(mode: WriteMode) -> WriteOptions {
    let commit = CommitOptions { durability: Durability::Os, ..CommitOptions::default() };
    WriteOptions { mode, commit, ..WriteOptions::default() }
}

/// The next commit, after which nothing is wrong with any file.
async fn commit(line: &Line) -> Result<(), Flaw> {
    let failed = |error| Flaw::Error(text(error));
    let mut table = line.reopened(true).await.map_err(failed)?;
    let before = check::state(&table).await.map_err(Flaw::Error)?;
    let rows = batches(&before.fields, &other_rows(line)).map_err(Flaw::Difference)?;
    table.insert(rows, params(WriteMode::Append)).await.map_err(failed)?;
    let reopened = line.reopened(true).await.map_err(failed)?;
    let mut found = check::state(&reopened).await.map_err(Flaw::Error)?;
    if found.rows.pop_last().and_then(|(_, row)| row.key()) != Some(line.next_key + 1000) {
        return Err(Flaw::Difference("the new row is not there, or not the last one".to_owned()));
    }
    is_equal(&found, &before).map_err(Flaw::Difference)?;
    let report = reopened.verify(Depth::Data).await.map_err(failed)?;
    // What is wrong with other versions and files a power cut may have done.
    report.findings.first().map_or(Ok(()), |finding| Err(Flaw::Error(format!("{finding:?}"))))
}

/// A table is made where there is none.
async fn create_table(line: &Line) -> Result<(), Flaw> {
    let failed = |error| Flaw::Error(text(error));
    let rows = batches(&two_columns(), &other_rows(line)).map_err(Flaw::Difference)?;
    let made = Dataset::write(rows, &line.uri, params(WriteMode::Create)).await.map_err(failed)?;
    match check::state(&made).await.map_err(Flaw::Error)?.rows.len() {
        1 => Ok(()),
        count => Err(Flaw::Difference(format!("the new table has {count} rows"))),
    }
}
