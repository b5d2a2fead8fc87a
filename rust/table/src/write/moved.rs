//! Rows that move to new fragments under the ids they have, rows that come and rows that go: what updates and merges
//! commit.
//!
//! Rows that move come first, in the order of their ids, so that the ids of a new fragment are few segments; they keep
//! the versions that made them. Rows that come follow in the order they are given and get their ids at the commit
//! (table format 4.3). A row that moves or goes is deleted where it was.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow_array::RecordBatch;
use bytes::Bytes;
use pennon_core::bitmaps::encode_bitmap;
use pennon_core::conflict::rebase::RowsByFragment;
use pennon_core::deletion::DeletionVector;
use pennon_core::lengths::to_u64;
use pennon_core::manifest::Fragment;
use pennon_core::schema::Metadata;
use pennon_core::transaction::{KeyFilter, Operation, Update, UpdateMode};
use pennon_core::{Error, FieldId, FragmentId, Result};

use super::deletions::{self, MergedDeletions};
use super::fragments::Limits;
use super::identified::{self, IdentifiedRows};
use super::in_place::RowsInPlace;
use super::lineage::{InlineLimit, Lineage};
use super::placement::Placement;
use super::rewrite::{RewriteSource, Rewriter};
use super::staged::{self, StagedChange};
use super::{BatchReader, WriteOptions, WrittenFragments};
use crate::runtime::cancellation;
use crate::scan::Input;
use crate::store::{Durability, Uploads};
use crate::versions::snapshot::Snapshot;

/// Makes of rows as they were read what is written, with all columns of the table: of all, or of the first ones. The others
/// are given once more then.
pub(crate) type Changed<'a> = Box<dyn FnMut(RecordBatch) -> Result<RecordBatch> + Send + 'a>;

/// What becomes of the rows of a version.
pub(crate) struct Moves {
    /// Live rows that go on in new fragments.
    pub(crate) moved: RowsByFragment,
    /// The columns that are read of them, by name; system columns are possible.
    pub(crate) columns: Vec<String>,
    /// What is written for them; called in the order of their ids.
    pub(crate) changed: Changed<'static>,
    /// Rows that come, with the columns of the table.
    pub(crate) inserted: Option<BatchReader>,
    /// Rows that go.
    pub(crate) deleted: RowsByFragment,
    /// Fields whose values change in rows that move.
    pub(crate) fields: Vec<FieldId>,
    /// Keys of the rows that come.
    pub(crate) inserted_keys: Option<KeyFilter>,
}

/// Rows of a version that others moved to new fragments, and those that go.
pub(crate) struct WrittenMoves {
    pub(crate) rows: RowsByFragment,
    pub(crate) new_fragments: Vec<Fragment>,
    /// Fields whose values change in rows that move.
    pub(crate) fields: Vec<FieldId>,
    /// Keys of the rows that come.
    pub(crate) inserted_keys: Option<KeyFilter>,
}

/// What is to be committed, with the files written for it.
#[derive(Debug)]
pub(crate) struct Staged {
    pub(crate) update: Update,
    /// All rows that move or go, at the version that was read.
    pub(crate) affected: RowsByFragment,
    /// Rows that changed where they are, if their versions are columns in new files.
    pub(crate) in_place: Option<RowsInPlace>,
    /// Files that are on their way to the store.
    pub(crate) uploads: Uploads,
}

impl Staged {
    /// The change of the version that was read, which owns the files.
    pub(crate) fn change(self, read: &Snapshot, properties: Metadata) -> Result<StagedChange> {
        let Self { update, affected, in_place, uploads } = self;
        let transaction = staged::transaction(read.version(), None, properties, Operation::Update(update));
        let change = StagedChange::staged(read, transaction)?;
        Ok(StagedChange { affected: Some(affected), in_place, uploads, ..change })
    }

    /// As [`Self::change`], for a transaction that has a uuid; the new fragments stay whose they are.
    pub(crate) fn change_without_new(
        self,
        read: &Snapshot,
        uuid: String,
        properties: Metadata,
    ) -> Result<StagedChange> {
        let Self { update, affected, in_place, uploads } = self;
        let owned = Update { new_fragments: Vec::new(), ..update.clone() };
        let transaction = |update| {
            staged::transaction(
                read.version(),
                Some(uuid.clone()),
                properties.clone(),
                Operation::Update(update),
            )
        };
        let change = StagedChange::staged(read, transaction(owned))?;
        let transaction = transaction(update);
        Ok(StagedChange { transaction, affected: Some(affected), in_place, uploads, ..change })
    }
}

/// Writes the new fragments and the deletion files of moves. Of `params` the sizes of files and pages count, the
/// version of files, where they go and the durability.
///
/// Errors: `InvalidInput` for rows that cannot be there; `SchemaMismatch` for nulls where none may be; those of reading,
/// of `changed` and of `inserted`. Files that were written are removed then.
pub(crate) async fn write(snapshot: &Arc<Snapshot>, moves: Moves, params: &WriteOptions) -> Result<Staged> {
    write_from(snapshot, None, moves, params).await
}

/// [`write`] with rows that move out of another version: what lives of them in this one is among those that go.
pub(crate) async fn write_from(
    snapshot: &Arc<Snapshot>,
    from: Option<&Arc<Snapshot>>,
    mut moves: Moves,
    params: &WriteOptions,
) -> Result<Staged> {
    let mut deleted = std::mem::take(&mut moves.deleted);
    if from.is_none() {
        for (id, rows) in &moves.moved {
            deletions::add(&mut deleted, *id, rows);
        }
    }
    let MergedDeletions { affected, vectors, removed } = match from {
        None => merge_live(snapshot, deleted, &moves.moved).await?,
        Some(_) => deletions::merge(snapshot, deleted).await?,
    };
    let placement = placement(snapshot, params)?;
    let (fields, inserted_keys) = (std::mem::take(&mut moves.fields), moves.inserted_keys.take());
    let written = write_rows(snapshot, from, moves, placement.clone(), params).await?;
    let mut uploads = written.uploads;
    let updated = match deletions::write_later(snapshot, vectors, None, params.commit.durability).await {
        Ok((updated, others)) => {
            uploads.extend(others);
            updated
        }
        Err(error) => {
            // What arrives after it was removed would stay; whether it arrives does not matter any more.
            let _ = uploads.arrive().await;
            placement.remove(&written.fragments).await;
            return Err(error);
        }
    };
    let update = rewritten_rows(removed, updated, written.fragments, fields, inserted_keys);
    Ok(Staged { update, affected, in_place: None, uploads })
}

/// The first half of [`write`], for somebody else to commit: rows that move, in new fragments.
pub(crate) async fn write_fragments(
    snapshot: &Arc<Snapshot>,
    moves: Moves,
    params: &WriteOptions,
) -> Result<WrittenFragments> {
    let placement = placement(snapshot, params)?;
    write_rows(snapshot, None, moves, placement.clone(), params).await?.arrived(&placement).await
}

/// The second half: deletion files for rows that go, or go on in fragments that others wrote, whose files stay theirs.
///
/// Errors: `InvalidInput` for rows that cannot be there or are deleted already.
pub(crate) async fn stage(
    snapshot: &Arc<Snapshot>,
    moves: WrittenMoves,
    durability: Durability,
) -> Result<Staged> {
    let WrittenMoves { rows, new_fragments, fields, inserted_keys } = moves;
    let MergedDeletions { affected, vectors, removed } = merge_live(snapshot, rows.clone(), &rows).await?;
    let (updated, uploads) = deletions::write_later(snapshot, vectors, None, durability).await?;
    let update = rewritten_rows(removed, updated, new_fragments, fields, inserted_keys);
    Ok(Staged { update, affected, in_place: None, uploads })
}

/// Rows to delete, merged with the vectors of a version. Errors: `InvalidInput` if some of `moved` are deleted already.
async fn merge_live(
    snapshot: &Arc<Snapshot>,
    rows: RowsByFragment,
    moved: &RowsByFragment,
) -> Result<MergedDeletions> {
    let merged = deletions::merge(snapshot, rows).await?;
    let is_gone = |(id, rows): &(&FragmentId, &DeletionVector)| !is_among(rows, merged.affected.get(id));
    match moved.iter().find(is_gone) {
        Some((id, _)) => {
            Err(Error::invalid_input(format!("Rows to move of fragment {id} are deleted already")))
        }
        None => Ok(merged),
    }
}

fn placement(snapshot: &Snapshot, params: &WriteOptions) -> Result<Placement> {
    Placement::new(&snapshot.store, snapshot.session(), &snapshot.manifest.base_paths, &params.target)
}

fn rewritten_rows(
    removed_fragment_ids: Vec<FragmentId>,
    updated_fragments: Vec<Fragment>,
    new_fragments: Vec<Fragment>,
    fields: Vec<FieldId>,
    inserted_rows: Option<KeyFilter>,
) -> Update {
    Update {
        removed_fragment_ids,
        updated_fragments,
        new_fragments,
        fields_for_preserving_fragment_bitmap: fields,
        mode: UpdateMode::RewriteRows,
        inserted_rows,
        ..Update::default()
    }
}

fn is_among(rows: &DeletionVector, all: Option<&DeletionVector>) -> bool {
    all.map_or(rows.is_empty(), |all| rows.difference(all).is_empty())
}

async fn write_rows(
    snapshot: &Arc<Snapshot>,
    from: Option<&Arc<Snapshot>>,
    moves: Moves,
    placement: Placement,
    params: &WriteOptions,
) -> Result<WrittenFragments> {
    let Moves { moved, columns, changed, inserted, .. } = moves;
    let version = params.create.file_version.map_or_else(|| snapshot.manifest.version_of_new_files(), Ok)?;
    let limits = Limits::new(params, version)?;
    // Conflicts between writers that bring back the same rows show by ids in the manifest only.
    let inline = match from {
        None => InlineLimit::of(&snapshot.manifest.config)?,
        Some(_) => InlineLimit::NONE,
    };
    let from = Arc::clone(from.unwrap_or(snapshot));
    let columns = Input::of(&from, &columns)?;
    let snapshot = Arc::clone(snapshot);
    let (token, _guard) = cancellation();
    crate::runtime::blocking(move || {
        let moved = moved.into_iter().filter(|(_, rows)| !rows.is_empty());
        let moved = moved.map(|(id, rows)| (id, Some(rows))).collect();
        let sources = RewriteSource::open_all(&from, moved, &columns, &token)?;
        let moved = Rewriter::new(&sources, &columns, limits.bytes)?;
        let mut rows = MovedThenNew { moved, read: None, changed, inserted, next: None };
        let table = &snapshot.manifest.schema;
        identified::write(&mut rows, placement, table, limits, inline, &token)
    })
    .await
}

/// Rows that move, then rows that come.
struct MovedThenNew<'a> {
    moved: Rewriter<'a>,
    /// What was read of the rows that move and is not written yet; not empty.
    read: Option<RecordBatch>,
    changed: Changed<'static>,
    inserted: Option<BatchReader>,
    /// What was read of the rows that come and is not written yet; not empty.
    next: Option<RecordBatch>,
}

impl MovedThenNew<'_> {
    /// Reads on until there is a row that comes, or none any more.
    fn fill(&mut self) -> Result<()> {
        while self.next.is_none() {
            let Some(batch) = self.inserted.as_mut().and_then(Iterator::next) else { return Ok(()) };
            let batch = batch.map_err(|e| Error::invalid_input(format!("Reading the data failed: {e}")))?;
            self.next = Some(batch).filter(|batch| batch.num_rows() > 0);
        }
        Ok(())
    }
}

impl IdentifiedRows for MovedThenNew<'_> {
    fn ahead(&mut self, known: Lineage, rows: u64) -> Result<(u64, Lineage)> {
        let pending = self.read.as_ref().map_or(0, |batch| to_u64(batch.num_rows()));
        let (planned, mut lineage) = self.moved.ahead(known, rows.saturating_sub(pending))?;
        let planned = planned.saturating_add(pending);
        // That is the version of the commit.
        lineage.updated = None;
        if planned >= rows {
            return Ok((planned, lineage));
        }
        self.fill()?;
        Ok((if self.next.is_some() { rows } else { planned }, lineage))
    }

    fn read(&mut self, rows: u64) -> Result<Option<RecordBatch>> {
        let most = usize::try_from(rows).unwrap_or(usize::MAX);
        let read = match self.read.take() {
            Some(batch) => Some(batch),
            None => self.moved.read(rows)?,
        };
        if let Some(batch) = read {
            let given = batch.slice(0, batch.num_rows().min(most));
            let (count, bytes) = (given.num_rows(), given.get_array_memory_size());
            let changed = (self.changed)(given)?;
            if changed.get_array_memory_size() > bytes {
                self.moved.fit(&changed);
            }
            let done = changed.num_rows();
            if done == 0 || done > count {
                return Err(Error::internal(format!("{done} rows were made of {count}")));
            }
            if done < batch.num_rows() {
                self.read = Some(batch.slice(done, batch.num_rows() - done));
            }
            return Ok(Some(changed));
        }
        self.fill()?;
        let Some(batch) = self.next.take() else { return Ok(None) };
        if batch.num_rows() <= most {
            return Ok(Some(batch));
        }
        self.next = Some(batch.slice(most, batch.num_rows() - most));
        Ok(Some(batch.slice(0, most)))
    }
}

/// Changed rows by fragment, as an update says them whose rows stay where they are.
pub(crate) fn offset_bitmaps(rows: &RowsByFragment) -> BTreeMap<u64, Bytes> {
    let bitmap = |(id, rows): (&FragmentId, &DeletionVector)| {
        (u64::from(id.0), encode_bitmap(&rows.to_roaring()).into())
    };
    rows.iter().map(bitmap).collect()
}

/// The ids of fields and of all fields below them.
pub(crate) fn with_members<'a>(
    fields: impl IntoIterator<Item = &'a pennon_core::schema::Field>,
) -> Vec<FieldId> {
    let mut stack: Vec<&pennon_core::schema::Field> = fields.into_iter().collect();
    let mut ids = Vec::new();
    while let Some(field) = stack.pop() {
        ids.push(field.id);
        stack.extend(&field.children);
    }
    ids.sort_unstable();
    ids
}

#[cfg(test)]
mod tests {
    use arrow_array::cast::AsArray;
    use arrow_array::types::Int32Type;
    use arrow_array::{ArrayRef, Int32Array, RecordBatchIterator};
    use pennon_core::rows::RowRanges;

    use super::*;
    use crate::scan::FragmentReader;
    use crate::{Dataset, WriteMode};

    fn batch(values: std::ops::Range<i32>) -> RecordBatch {
        let values: ArrayRef = Arc::new(Int32Array::from_iter_values(values));
        RecordBatch::try_from_iter([("a", values)]).unwrap()
    }

    fn reader(values: std::ops::Range<i32>) -> BatchReader {
        let batch = batch(values);
        let schema = batch.schema();
        Box::new(RecordBatchIterator::new([Ok(batch)], schema))
    }

    /// Rows that were read and not made into new ones yet are the first of the next file.
    #[tokio::test(flavor = "multi_thread")]
    async fn rows_are_changed_a_few_at_a_time() {
        let params =
            WriteOptions { mode: WriteMode::Overwrite, max_rows_per_file: 5, ..WriteOptions::default() };
        let name = format!("memory://moved-{}", crate::runtime::uuid());
        let dataset = Dataset::write(reader(0..12), &name, params.clone()).await.unwrap();
        for pieces in 1..4 {
            let rows = |id: u32, rows: u32| (FragmentId(id), (0..rows).collect::<DeletionVector>());
            let moves = Moves {
                moved: RowsByFragment::from([rows(0, 5), rows(1, 5), rows(2, 2)]),
                columns: vec!["a".to_owned()],
                changed: Box::new(move |read| Ok(read.slice(0, read.num_rows().min(pieces)))),
                inserted: Some(reader(12..15)),
                deleted: RowsByFragment::new(),
                fields: Vec::new(),
                inserted_keys: None,
            };
            let Staged { update, uploads, .. } = write(dataset.snapshot(), moves, &params).await.unwrap();
            uploads.arrive().await.unwrap();
            let (mut found, mut ids) = (Vec::new(), Vec::new());
            for fragment in &update.new_fragments {
                let reader =
                    FragmentReader::new(Arc::clone(dataset.snapshot()), Arc::new(fragment.clone()), 0);
                let fields: Vec<_> = dataset.schema().fields.iter().collect();
                let read = reader.read(&fields, &RowRanges::from(0..fragment.physical_rows)).unwrap();
                found.push(read[0].as_primitive::<Int32Type>().values().to_vec());
                // Rows that come get their ids at the commit.
                if ids.len() < 10 {
                    ids.extend(reader.all_row_ids().unwrap().iter());
                }
            }
            assert_eq!(found, [[0, 1, 2, 3, 4], [5, 6, 7, 8, 9], [10, 11, 12, 13, 14]]);
            assert_eq!(ids, (0..10).collect::<Vec<_>>());
        }
    }
}
