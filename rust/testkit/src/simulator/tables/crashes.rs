//! The process or the machine stops at any moment of the last verb of a program.
//!
//! On a local disk every state that a crash may leave after each change is made again (`disk`); on a store of objects the
//! verb is cut off after each number of changes. What is left must open at the version that was acknowledged last or at one
//! that the verb was making, whole, with all versions, tags and branches from before, and take the next commit. Without
//! syncing that holds for a killed process; after a power cut there may be an error, but never half a version.

use std::collections::{BTreeSet, HashSet};
use std::path::Path;

use pennon_table::ops::verify::Depth;
use pennon_table::store::{DiskChange, DiskTrace};
use pennon_table::{CommitOptions, Dataset, Durability, VersionRef, WriteMode, WriteOptions};

use super::disk::{Disk, Remains};
use super::line::{Line, World, text};
use super::verbs::batches;
use super::{Step, check};

/// States that were left and looked at.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CrashCounts {
    /// All of them.
    pub states: usize,
    /// Of these, with the new version.
    pub after_commit: usize,
    /// Of these, that could not be read or written: only allowed after a power cut if nothing was synced.
    pub errors: usize,
}

impl CrashCounts {
    /// Adds those of another program.
    pub fn add(&mut self, other: &Self) {
        self.states += other.states;
        self.after_commit += other.after_commit;
        self.errors += other.errors;
    }
}

/// Runs a program below a directory of the local disk, then looks at what crashes during its last step leave: whether that is
/// what commits of the `promised` durability leave.
pub(super) async fn on_disk(
    root: &Path,
    program: &[Step],
    durability: Durability,
    promised: Durability,
) -> Result<CrashCounts, String> {
    let trace = DiskTrace::of(root);
    let (last, warm_up) = program.split_last().ok_or("the program has no step")?;
    let address = root.to_str().ok_or("the directory has no name in UTF-8")?;
    let mut world = World::create(address.to_owned(), None, durability).await?;
    for step in warm_up {
        world.run(step).await.map_err(|what| format!("{step:?}: {what}"))?;
    }
    let (begun, before) = (trace.count(), world.lines.clone());
    world.run(last).await.map_err(|what| format!("{last:?}: {what}"))?;
    let (changes, after) = (trace.changes(), world.lines.clone());
    drop((trace, world));

    let (mut disk, mut seen, mut counts) = (Disk::default(), HashSet::new(), CrashCounts::default());
    let (warm_up, verb) = changes.split_at(begun);
    warm_up.iter().for_each(|change| disk.change(change));
    for count in 0_usize..=verb.len() {
        if let Some(change) = count.checked_sub(1).and_then(|last| verb.get(last)) {
            disk.change(change);
        }
        // Acknowledged: whatever happens now, it is there.
        let before = if count == verb.len() { &after } else { &before };
        let power_cuts = disk.after_power_cut(u64::try_from(count).unwrap_or(0));
        let power_cuts = power_cuts.into_iter().map(|(name, remains)| (name, remains, true));
        for (state, remains, is_power_cut) in
            std::iter::once(("killed".to_owned(), disk.killed(), false)).chain(power_cuts)
        {
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

/// Looks at all lines, then commits to the first.
async fn look(before: &[Line], after: &[Line], may_fail: bool) -> Result<CrashOutcome, String> {
    let mut found = CrashOutcome::Old;
    for (number, now) in after.iter().enumerate() {
        let opened = match (now.reopened(true).await, before.get(number)) {
            (Ok(opened), _) => opened,
            // A branch or a clone that was being made.
            (Err(_), None) => continue,
            (Err(_), Some(_)) if may_fail => return Ok(CrashOutcome::Error),
            (Err(error), Some(_)) => return Err(format!("{}: {}", now.shown(), text(error))),
        };
        match is_whole(&opened, before.get(number), now, may_fail).await {
            Ok(()) => {}
            Err(Flaw::Error(_)) if may_fail => return Ok(CrashOutcome::Error),
            Err(Flaw::Error(what) | Flaw::Difference(what)) => {
                return Err(format!("{}, version {}: {what}", now.shown(), opened.version()));
            }
        }
        let is_new = before.get(number).is_none_or(|before| before.newest.version() < opened.version());
        if is_new {
            found = CrashOutcome::New;
        }
    }
    match (commit(after).await, may_fail) {
        (Ok(()), _) => Ok(found),
        (Err(_), true) => Ok(CrashOutcome::Error),
        (Err(what), false) => Err(format!("the next commit: {what}")),
    }
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
        check::is_equal(&found, expected).map_err(Flaw::Difference)
    };
    is_equal(opened).await?;
    let Some(before) = before.filter(|_| !may_fail) else { return Ok(()) };
    for number in before.kept.intersection(&after.kept).filter(|number| **number < newest) {
        let version = VersionRef::Number(*number);
        let older = opened.checkout(version).await.map_err(|error| Flaw::Error(text(error)))?;
        is_equal(&older).await?;
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

/// The next commit to the table, after which nothing is wrong with any file.
async fn commit(lines: &[Line]) -> Result<(), String> {
    let line = lines.first().ok_or("there is no line")?;
    let mut table = line.reopened(true).await.map_err(text)?;
    let before = check::state(&table).await?;
    let rows = [(line.next_key + 1000, Some(1))];
    let commit = CommitOptions { durability: Durability::Os, ..CommitOptions::default() };
    let params = WriteOptions { mode: WriteMode::Append, commit, ..WriteOptions::default() };
    table.insert(batches(&before.fields, &rows)?, params).await.map_err(text)?;
    let reopened = line.reopened(true).await.map_err(text)?;
    let mut found = check::state(&reopened).await?;
    if found.rows.pop_last().and_then(|(_, row)| row.key()) != Some(line.next_key + 1000) {
        return Err("the new row is not there, or not the last one".to_owned());
    }
    check::is_equal(&found, &before)?;
    let report = reopened.verify(Depth::Data).await.map_err(text)?;
    report.findings.first().map_or(Ok(()), |finding| Err(format!("{finding:?}")))
}
