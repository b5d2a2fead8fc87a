//! The machine stops at any moment: after every change of the disk, with what was not synced lost.
//!
//! A model of the disk follows the changes. For each of them it makes the states that a crash may leave:
//!
//! | state | keeps |
//! |---|---|
//! | killed | everything: only the process died |
//! | lost | names and contents that were synced |
//! | hollow | all names, contents that were synced: other files are empty |
//!
//! Each state must open at the version that was acknowledged last or at the one that was being made, whole, and take
//! the next commit. Without syncing that holds for a killed process; after a power cut there may be an error, but
//! never half a version.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{ArrayRef, Int64Array, RecordBatch, RecordBatchIterator};
use futures::TryStreamExt;

use super::trace::Event;
use crate::scan::ScanOptions;
use crate::{
    BatchReader, CommitOptions, Dataset, DeleteOptions, Durability, OpenOptions, VersionRef, WriteMode,
    WriteOptions,
};

/// A change, with what a file that was written has in it.
type TracedChange = (Event, Vec<u8>);

/// Changes below each directory that a test watches.
static TRACES: Mutex<BTreeMap<PathBuf, Vec<TracedChange>>> = Mutex::new(BTreeMap::new());

pub(super) fn observe(event: Event) {
    let (Event::Directory(path)
    | Event::Write(path)
    | Event::Link(_, path)
    | Event::Rename(_, path)
    | Event::Remove(path)
    | Event::Sync(path)) = &event;
    let mut traces = TRACES.lock().unwrap();
    if let Some((_, trace)) = traces.iter_mut().find(|(root, _)| path.starts_with(root)) {
        let content = if let Event::Write(path) = &event { fs::read(path).unwrap() } else { Vec::new() };
        trace.push((event, content));
    }
}

#[derive(Default)]
struct Disk {
    /// Content of each file, and what of it is safe.
    files: Vec<(Vec<u8>, Vec<u8>)>,
    names: BTreeMap<PathBuf, usize>,
    safe_names: BTreeMap<PathBuf, usize>,
    directories: BTreeSet<PathBuf>,
    safe_directories: BTreeSet<PathBuf>,
}

impl Disk {
    fn change(&mut self, (event, content): &TracedChange) {
        match event {
            Event::Directory(path) => drop(self.directories.insert(path.clone())),
            Event::Write(path) => match self.names.get(path) {
                Some(&file) => self.files[file].0.clone_from(content),
                None => {
                    self.names.insert(path.clone(), self.files.len());
                    self.files.push((content.clone(), Vec::new()));
                }
            },
            Event::Link(from, to) => drop(self.names.insert(to.clone(), self.names[from])),
            Event::Rename(from, to) => {
                let file = self.names.remove(from).unwrap();
                self.names.insert(to.clone(), file);
            }
            Event::Remove(path) => drop(self.names.remove(path)),
            Event::Sync(path) => match self.names.get(path) {
                Some(&file) => self.files[file].1 = self.files[file].0.clone(),
                None => {
                    let inside = |name: &Path| name.parent() == Some(path);
                    self.safe_names.retain(|name, _| !inside(name));
                    let names = self.names.iter().filter(|(name, _)| inside(name));
                    self.safe_names.extend(names.map(|(name, file)| (name.clone(), *file)));
                    let directories = self.directories.iter().filter(|name| inside(name));
                    self.safe_directories.extend(directories.cloned());
                }
            },
        }
    }

    /// Files with their content in each of the states.
    fn after_crash(&self) -> [BTreeMap<PathBuf, Vec<u8>>; 3] {
        let reachable = |name: &&PathBuf| {
            name.ancestors()
                .skip(1)
                .all(|d| !self.directories.contains(d) || self.safe_directories.contains(d))
        };
        let killed = self.names.iter().map(|(name, &file)| (name.clone(), self.files[file].0.clone()));
        let lost = self.safe_names.iter().filter(|(name, _)| reachable(name));
        let lost = lost.map(|(name, &file)| (name.clone(), self.files[file].1.clone()));
        let hollow = self.names.iter().map(|(name, &file)| (name.clone(), self.files[file].1.clone()));
        [killed.collect(), lost.collect(), hollow.collect()]
    }
}

fn commit(durability: Durability) -> CommitOptions {
    CommitOptions { durability, ..CommitOptions::default() }
}

fn rows(values: &[i64]) -> BatchReader {
    let column: ArrayRef = Arc::new(Int64Array::from(values.to_vec()));
    let batch = RecordBatch::try_from_iter([("a", column)]).unwrap();
    Box::new(RecordBatchIterator::new([Ok(batch.clone())], batch.schema()))
}

async fn open(uri: &str) -> pennon_core::Result<(Dataset, Vec<i64>)> {
    let dataset =
        Dataset::open(uri, OpenOptions { commit: commit(Durability::Os), ..OpenOptions::default() }).await?;
    let batches: Vec<RecordBatch> = dataset.scan(&ScanOptions::default())?.stream().try_collect().await?;
    let mut values: Vec<i64> =
        batches.iter().flat_map(|b| b.column(0).as_primitive::<Int64Type>().values().to_vec()).collect();
    values.sort_unstable();
    Ok((dataset, values))
}

const STEPS: usize = 9;

async fn step(number: usize, uri: &str, durability: Durability) {
    let params = |mode| WriteOptions { mode, commit: commit(durability), ..WriteOptions::default() };
    if number == 0 {
        Dataset::write(rows(&[1, 2, 3]), uri, params(WriteMode::Create)).await.unwrap();
        return;
    }
    let mut dataset =
        Dataset::open(uri, OpenOptions { commit: commit(durability), ..OpenOptions::default() })
            .await
            .unwrap();
    match number {
        1 => dataset.insert(rows(&[4, 5]), params(WriteMode::Append)).await.unwrap(),
        2 | 4 => {
            let condition = format!("a = {number}");
            dataset.delete(&condition, DeleteOptions::default()).await.unwrap();
        }
        3 => dataset.tags().create("three", Some(VersionRef::Number(3))).await.unwrap(),
        5 => dataset.insert(rows(&[6]), params(WriteMode::Append)).await.unwrap(),
        6 => dataset.insert(rows(&[7, 8]), params(WriteMode::Overwrite)).await.unwrap(),
        7 => {
            let mut third = dataset.checkout(VersionRef::Tag("three".to_owned())).await.unwrap();
            third.restore().await.unwrap();
        }
        _ => dataset.insert(rows(&[9]), params(WriteMode::Append)).await.unwrap(),
    }
}

/// The states of a program's disk, checked. Gives how many there were, and how many of them raised an error.
async fn crash_everywhere(durability: Durability) -> (usize, usize) {
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path().join("disk");
    fs::create_dir(&root).unwrap();
    let uri = root.join("table").to_str().unwrap().to_owned();
    TRACES.lock().unwrap().insert(root.clone(), Vec::new());
    // How many changes there were when a step was acknowledged, and what the table was then.
    let mut acknowledged = Vec::new();
    for number in 0..STEPS {
        step(number, &uri, durability).await;
        let changes = TRACES.lock().unwrap()[&root].len();
        let (dataset, values) = open(&uri).await.unwrap();
        acknowledged.push((changes, dataset.version(), values));
    }
    let trace = TRACES.lock().unwrap().remove(&root).unwrap();
    let (mut disk, mut seen, mut errors) = (Disk::default(), HashSet::new(), 0);
    for count in 0..=trace.len() {
        if let Some(change) = count.checked_sub(1).map(|last| &trace[last]) {
            disk.change(change);
        }
        let done = acknowledged.iter().rposition(|(changes, ..)| *changes <= count);
        for (kind, files) in disk.after_crash().into_iter().enumerate() {
            if !seen.insert((files.clone(), done)) {
                continue;
            }
            let crashed = directory.path().join(format!("crashed-{count}-{kind}"));
            for (name, content) in files {
                let target = crashed.join(name.strip_prefix(&root).unwrap());
                fs::create_dir_all(target.parent().unwrap()).unwrap();
                fs::write(target, content).unwrap();
            }
            let uri = crashed.join("table").to_str().unwrap().to_owned();
            let case =
                format!("after {count} of {} changes, state {kind}: {:?}", trace.len(), trace.get(count));
            let power_cut = durability == Durability::Os && kind > 0;
            let (mut dataset, mut values) = match open(&uri).await {
                Ok(opened) => opened,
                Err(_) if power_cut || done.is_none() => {
                    errors += 1;
                    continue;
                }
                Err(error) => panic!("{case}: {error}"),
            };
            let next = done.map_or(0, |done| done + 1);
            let allowed = if power_cut {
                &acknowledged[..]
            } else {
                &acknowledged[done.unwrap_or(0)..STEPS.min(next + 1)]
            };
            let found = (dataset.version(), values.clone());
            assert!(
                allowed.iter().any(|(_, version, values)| (*version, values) == (found.0, &found.1)),
                "{case}: {found:?}"
            );
            let params = WriteOptions {
                mode: WriteMode::Append,
                commit: commit(Durability::Os),
                ..WriteOptions::default()
            };
            match dataset.insert(rows(&[1000]), params).await {
                Err(_) if power_cut => errors += 1,
                other => {
                    other.unwrap_or_else(|error| panic!("{case}: {error}"));
                    values.push(1000);
                    let (reopened, found) = open(&uri).await.unwrap();
                    reopened.validate().await.unwrap();
                    assert_eq!(found, values, "{case}");
                }
            }
            fs::remove_dir_all(&crashed).unwrap();
        }
    }
    (seen.len(), errors)
}

#[tokio::test(flavor = "multi_thread")]
async fn every_crash_leaves_a_whole_version() {
    let (states, without_a_table) = crash_everywhere(Durability::Full).await;
    println!("synced: {states} states, {without_a_table} of them before there was a table");
    assert!(states > 100 && without_a_table < 10, "{states} states, {without_a_table} without a table");
    let (states, errors) = crash_everywhere(Durability::Os).await;
    println!("not synced: {states} states, {errors} errors after a power cut");
    assert!(states > 100, "{states} states");
}

/// All data files are synced, then their directory once, then the manifest gets its name; so are deletion files.
#[tokio::test(flavor = "multi_thread")]
async fn files_of_a_commit_are_synced_together() {
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path().join("together");
    let uri = root.to_str().unwrap();
    TRACES.lock().unwrap().insert(root.clone(), Vec::new());
    let values: Vec<i64> = (0..40).collect();
    let params = WriteOptions { max_rows_per_file: 2, ..WriteOptions::default() };
    let mut dataset = Dataset::write(rows(&values), uri, params).await.unwrap();
    let written = std::mem::take(TRACES.lock().unwrap().get_mut(&root).unwrap());
    dataset.delete("a % 2 = 0", DeleteOptions::default()).await.unwrap();
    let deleted = TRACES.lock().unwrap().remove(&root).unwrap();
    for (trace, folder) in [(written, "data"), (deleted, "_deletions")] {
        let folder = root.join(folder);
        let at = |wanted: &dyn Fn(&Event) -> bool| -> Vec<usize> {
            trace.iter().enumerate().filter(|(_, (event, _))| wanted(event)).map(|(at, _)| at).collect()
        };
        let inside = |path: &Path| path.parent() == Some(&folder);
        let writes = at(&|event| matches!(event, Event::Write(path) if inside(path)));
        let syncs = at(&|event| matches!(event, Event::Sync(path) if inside(path)));
        let names = at(&|event| matches!(event, Event::Sync(path) if *path == folder));
        let published = at(&|event| matches!(event, Event::Link(..)));
        assert_eq!((writes.len(), syncs.len(), names.len(), published.len()), (20, 20, 1, 1));
        assert!(writes.last() < syncs.first() && syncs.last() < names.first() && names < published);
    }
}
