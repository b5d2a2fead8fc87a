//! A line of versions: the table, one of its branches, or a clone.

use std::collections::{BTreeMap, BTreeSet};

use pennon_core::Error;
use pennon_table::{CommitOptions, Dataset, Durability, OpenOptions, VersionRef};

use super::Step;
use super::model::{Commit, Effect, State, is_equal};

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
            is_equal(&found, &effect.applied(&commit)?)
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

pub(super) fn text(error: Error) -> String {
    format!("{:?}: {error}", error.kind())
}
