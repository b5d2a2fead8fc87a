//! A line of versions: the table, one of its branches, or a clone.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use arrow_schema::{DataType, Field, Schema};
use pennon_core::manifest::BasePath;
use pennon_core::{Error, ErrorKind};
use pennon_table::{CommitOptions, Dataset, Durability, OpenOptions, VersionRef, WriteOptions};

use super::model::{Commit, Effect, State, Value, two_columns};
use super::store::CutStore;
use super::verbs::{self, batches};
use super::{Counts, Step, check};

/// What goes on in one program.
pub(super) struct World {
    /// A store that can be cut off; none on a local disk.
    pub(super) store: Option<Arc<CutStore>>,
    /// After how many changes the next verb is cut off, whatever its step says.
    pub(super) next_cut: Option<usize>,
    /// Whether the last verb was cut off.
    pub(super) was_cut: bool,
    /// The address below which the table and its clones are.
    pub(super) root: String,
    pub(super) lines: Vec<Line>,
    /// A column that verbs add together with their change.
    pub(super) new_column: Option<String>,
    pub(super) counts: Counts,
}

/// Versions in their order, with the model of each.
#[derive(Clone)]
pub(super) struct Line {
    pub(super) uri: String,
    /// A branch of the table.
    pub(super) branch: Option<String>,
    pub(super) newest: Dataset,
    /// A version that may be older.
    pub(super) older: Dataset,
    pub(super) states: BTreeMap<u64, State>,
    /// Those that were not cleaned up.
    pub(super) kept: BTreeSet<u64>,
    /// The first row id that was not given out.
    pub(super) next_row: u64,
    /// The first key that was not used.
    pub(super) next_key: i64,
    pub(super) next_column: u32,
    /// Versions with a tag.
    pub(super) tags: BTreeSet<u64>,
    /// Versions that other lines began with.
    pub(super) referenced: BTreeSet<u64>,
    /// Versions that may have a reference which was cut off.
    pub(super) uncertain: BTreeSet<u64>,
    /// Keys of new rows, by version.
    inserted: BTreeMap<u64, BTreeSet<i64>>,
    /// What its commits survive.
    pub(super) durability: Durability,
}

/// How many versions a verb may make.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Versions {
    /// One.
    One,
    /// Any number, none among them; the rows stay as they are.
    Any,
}

impl World {
    /// In memory, where it can be cut off.
    pub(super) async fn in_memory() -> Result<Self, String> {
        let thread = format!("{:?}", std::thread::current().id());
        let root = format!("programs-{}", thread.replace(|c: char| !c.is_ascii_digit(), ""));
        let store = CutStore::register(&root).map_err(text)?;
        Self::create(format!("memory://{root}"), Some(store), Durability::Full).await
    }

    pub(super) async fn create(
        root: String,
        store: Option<Arc<CutStore>>,
        durability: Durability,
    ) -> Result<Self, String> {
        let uri = format!("{root}/table");
        let rows: Vec<(i64, Value)> = (0..9).map(|key| (key, (key % 4 != 0).then_some(key % 5))).collect();
        let base = BasePath {
            id: 0,
            name: Some("base".to_owned()),
            is_dataset_root: true,
            path: format!("{root}/base"),
        };
        let commit = CommitOptions { durability, ..CommitOptions::default() };
        let options = WriteOptions {
            max_rows_per_file: 4,
            initial_bases: vec![base],
            commit,
            ..WriteOptions::default()
        };
        let newest = Dataset::write(batches(&two_columns(), &rows)?, &uri, options).await.map_err(text)?;
        let mut line = Line::new(uri, None, newest.clone(), durability);
        line.next_key = 9;
        let found = check::state(&newest).await?;
        line.made(&Effect::Overwrite(rows), 0, newest, found)?;
        let counts = Counts::default();
        let lines = vec![line];
        Ok(Self { store, next_cut: None, was_cut: false, root, lines, new_column: None, counts })
    }

    pub(super) async fn run(&mut self, step: &Step) -> Result<(), String> {
        self.counts.steps += 1;
        // The table has as many turns as all other lines.
        let lines = self.lines.len();
        let at = usize::try_from(step.manner / 3).unwrap_or(0) % (2 * lines);
        let at = if at < lines { at } else { 0 };
        verbs::run(self, at, step).await?;
        let line = self.line(at)?;
        if step.manner.is_multiple_of(5) {
            line.older = line.newest.clone();
        }
        check::line(line, step).await
    }

    pub(super) fn line(&mut self, at: usize) -> Result<&mut Line, String> {
        self.lines.get_mut(at).ok_or_else(|| format!("there is no line {at}"))
    }

    /// Calls a verb: on the newest version or on an older one, and perhaps cut off.
    pub(super) async fn call(
        &mut self,
        at: usize,
        step: &Step,
        effect: &Effect,
        versions: Versions,
        verb: impl AsyncFnOnce(&mut Dataset) -> pennon_core::Result<()>,
    ) -> Result<(), String> {
        let line = self.line(at)?;
        let mut handle = line.handle(step).clone();
        let read = handle.version().0;
        let is_older = read < line.newest.version().0;
        let effect = match self.new_column.clone() {
            None => effect.clone(),
            Some(name) => {
                let column = Field::new(&name, DataType::Int64, true);
                handle = handle.with_columns(Arc::new(Schema::new(vec![column]))).map_err(text)?;
                Effect::WithColumn(name, Box::new(effect.clone()))
            }
        };
        let (result, is_cut) = self.cut(step, verb(&mut handle)).await;
        let line = self.line(at)?;
        let newest = line.reopened(is_cut).await.map_err(text)?;
        let (before, version) = (line.newest.version().0, newest.version().0);
        let counts = match (version - before, &result) {
            (0, Ok(())) if versions == Versions::Any => Counts::default(),
            (0, Ok(())) => return Err("an acknowledged change made no version".to_owned()),
            (0, Err(_)) if is_cut => Counts { cut: 1, ..Counts::default() },
            (0, Err(error)) if is_older && is_refusal(error) => Counts { refused: 1, ..Counts::default() },
            (0, Err(error)) => return Err(format!("an error: {}", text(error.clone()))),
            (_, Err(error)) if !is_cut => {
                return Err(format!("an error, and it is done: {}", text(error.clone())));
            }
            (2.., _) if versions == Versions::One => {
                return Err(format!("{} versions were made", version - before));
            }
            (made, Err(_)) => Counts { versions: made, cut: 1, cut_after_commit: 1, ..Counts::default() },
            (made, Ok(())) if handle.version() != newest.version() => {
                return Err(format!(
                    "the handle is at {}, the table at {version}, after {made} versions",
                    handle.version()
                ));
            }
            (made, Ok(())) => Counts { versions: made, rebased: u64::from(is_older), ..Counts::default() },
        };
        if version > before {
            let found = check::state(&newest).await?;
            line.made(&effect, read, newest, found)?;
        } else if is_cut {
            line.newest = newest;
            check::is_unchanged(line).await?;
        }
        self.counts.add(&counts);
        Ok(())
    }

    /// Does something, and cuts the store off at some change of it, or not. Whether that has happened is the second
    /// result.
    pub(super) async fn cut<T>(&mut self, step: &Step, work: impl Future<Output = T>) -> (T, bool) {
        let drawn =
            || step.manner.is_multiple_of(7).then(|| usize::try_from(step.manner / 7 % 13).ok()).flatten();
        let Some(store) = &self.store else { return (work.await, false) };
        if let Some(changes) = self.next_cut.take().or_else(drawn) {
            store.cut_after(changes);
        }
        let result = work.await;
        self.was_cut = store.mend();
        (result, self.was_cut)
    }

    /// What must be true at the end of a program.
    pub(super) async fn end(&mut self) -> Result<(), String> {
        for line in &self.lines {
            check::end(line).await.map_err(|what| format!("at the end, {}: {what}", line.shown()))?;
        }
        Ok(())
    }
}

impl Line {
    pub(super) fn new(uri: String, branch: Option<String>, newest: Dataset, durability: Durability) -> Self {
        Self {
            uri,
            branch,
            older: newest.clone(),
            newest,
            states: BTreeMap::new(),
            kept: BTreeSet::new(),
            next_row: 0,
            next_key: 0,
            next_column: 0,
            tags: BTreeSet::new(),
            referenced: BTreeSet::new(),
            uncertain: BTreeSet::new(),
            inserted: BTreeMap::new(),
            durability,
        }
    }

    pub(super) fn shown(&self) -> String {
        let branch = self.branch.as_deref().map(|branch| format!(", branch {branch}")).unwrap_or_default();
        format!("{}{branch}", self.uri)
    }

    /// The handle that a step uses.
    pub(super) fn handle(&self, step: &Step) -> &Dataset {
        if step.manner.is_multiple_of(4) { &self.older } else { &self.newest }
    }

    /// What the model has of a version.
    pub(super) fn state(&self, version: u64) -> Result<&State, String> {
        self.states.get(&version).ok_or_else(|| format!("the model has no version {version}"))
    }

    /// What the model has of the newest version.
    pub(super) fn newest_state(&self) -> Result<&State, String> {
        self.state(self.newest.version().0)
    }

    /// One of the versions that are kept.
    pub(super) fn any_version(&self, number: u32) -> u64 {
        let at = usize::try_from(number).unwrap_or(0) % self.kept.len().max(1);
        self.kept.iter().nth(at).copied().unwrap_or(0)
    }

    /// Keys that were not used, so many.
    pub(super) fn new_keys(&mut self, count: u32) -> Vec<i64> {
        let first = self.next_key;
        self.next_key += i64::from(count);
        (first..self.next_key).collect()
    }

    /// The newest version by the handle there is, or as another process sees it.
    pub(super) async fn reopened(&self, as_another: bool) -> pennon_core::Result<Dataset> {
        if !as_another {
            let mut newest = self.newest.clone();
            newest.checkout_latest().await?;
            return Ok(newest);
        }
        let version = self.branch.clone().map(|branch| VersionRef::Branch(Some(branch), None));
        let commit = CommitOptions { durability: self.durability, ..CommitOptions::default() };
        let options = OpenOptions { version, commit, ..OpenOptions::default() };
        Dataset::open(&self.uri, options).await
    }

    /// The newest version was made by a verb that began at version `read`: compares it with what it must be.
    pub(super) fn made(
        &mut self,
        effect: &Effect,
        read: u64,
        newest: Dataset,
        found: State,
    ) -> Result<(), String> {
        let (before, version) = (self.newest.version().0, newest.version().0);
        let nothing = State::default();
        let base = self.states.get(&before).unwrap_or(&nothing);
        // A verb on an older version was carried over to the newest one as it was decided there, or decided again.
        let decided = |read: u64| {
            let read = self.states.get(&read).unwrap_or(base);
            let commit = Commit { read, base, found: &found, version, next_row: self.next_row };
            check::is_equal(&found, &effect.applied(&commit)?)
        };
        let repeated = decided(before);
        let is_repeated = repeated.is_ok();
        if let Err(what) = repeated {
            decided(read).map_err(|other| match read == before {
                true => what,
                false => format!("decided at version {read}: {other}; decided at version {before}: {what}"),
            })?;
        }
        let new: BTreeSet<i64> = found.rows.range(self.next_row..).filter_map(|(_, row)| row.key()).collect();
        if let Effect::Merge { .. } = effect.of_rows() {
            let others = self.inserted.range(read + 1..).find(|(_, keys)| !keys.is_disjoint(&new));
            if let (Some((other, _)), false) = (others, is_repeated) {
                return Err(format!("a merge has inserted a key that version {other} has inserted"));
            }
        }
        self.inserted.insert(version, new);
        self.next_row =
            found.rows.keys().next_back().map_or(self.next_row, |last| self.next_row.max(last + 1));
        for between in before + 1..version {
            self.states.insert(between, self.states.get(&before).cloned().unwrap_or_default());
            self.kept.insert(between);
        }
        self.states.insert(version, found);
        self.kept.insert(version);
        self.newest = newest;
        Ok(())
    }
}

/// Whether a verb on an older version may end like that: what others did in between stands in its way.
fn is_refusal(error: &Error) -> bool {
    use ErrorKind::*;
    matches!(error.kind(), Conflict { .. } | NotFound | InvalidInput | SchemaMismatch)
}

pub(super) fn text(error: Error) -> String {
    format!("{:?}: {error}", error.kind())
}
