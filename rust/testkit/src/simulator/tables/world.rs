//! What goes on in one program: the lines of versions, the store, and the calls of verbs.

use std::sync::Arc;

use arrow_schema::{DataType, Field, Schema};
use pennon_core::manifest::BasePath;
use pennon_core::{Error, ErrorKind};
use pennon_table::{CommitOptions, Dataset, Durability, WriteOptions};

use super::line::{Line, text};
use super::model::{Effect, Value, two_columns};
use super::rows::batches;
use super::store::CutStore;
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
        if self.was_cut {
            store.end_intents().await;
        }
        (result, self.was_cut)
    }
}

/// Whether a verb on an older version may end like that: what others did in between stands in its way.
fn is_refusal(error: &Error) -> bool {
    use ErrorKind::*;
    matches!(error.kind(), Conflict { .. } | NotFound | InvalidInput | SchemaMismatch)
}
