//! Rows of a version that are deleted, updated and inserted, each as somebody else decided.
//!
//! Changes come as rows with these columns besides those of the table:
//!
//! | column | type | what |
//! |---|---|---|
//! | `_rowaddr` | uint64 or int64 | the row of the version; null for a row that is inserted |
//! | `_change_type` | string, optional | `delete`, `update` or `insert` |
//!
//! Without `_change_type` a row without an address is inserted; others are updated if there are columns of the table,
//! else deleted. An update gives new values to the columns of the table that are there, or to those of them that the job
//! names; others keep theirs. Columns that are not there are null in a row that is inserted.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::UInt64Type;
use arrow_array::{Array, RecordBatch, RecordBatchIterator, StringArray, UInt64Array};
use arrow_cast::{CastOptions, cast, cast_with_options};
use arrow_schema::{ArrowError, DataType, Schema as ArrowSchema, SchemaRef};
use arrow_select::take::take_record_batch;
use pennon_core::conflict::rebase::RowsByFragment;
use pennon_core::deletion::DeletionVector;
use pennon_core::schema::{Field, Metadata};
use pennon_core::transaction::KeyFilter;
use pennon_core::{Error, Result, RowAddress, Version};

use super::assign::Assignments;
use super::given::{Given, ROW_ADDRESS};
use crate::batches::concat_batches;
use crate::blobs;
use crate::dataset::Dataset;
use crate::json;
use crate::runtime::blocking;
use crate::versions::snapshot::Snapshot;
use crate::write::moved::{self, Moves, WrittenMoves};
use crate::write::{BatchReader, WriteOptions, WrittenFragments, deletions, inserted_keys};

/// The column that says what becomes of a row.
const CHANGE_TYPE: &str = "_change_type";

/// What was written for changes of rows.
pub(crate) struct WrittenChanges {
    /// Rows of the version that are deleted, or that go on in what was written.
    pub(crate) rows: RowsByFragment,
    pub(crate) written: WrittenFragments,
    pub(crate) inserted_keys: Option<KeyFilter>,
    pub(crate) num_inserted: u64,
    pub(crate) num_updated: u64,
    pub(crate) num_deleted: u64,
}

/// The columns of changes.
#[derive(Clone, Copy)]
pub(crate) struct ChangeColumns<'a> {
    /// All of them.
    pub(crate) all: &'a ArrowSchema,
    /// Those that updates give values; `None`: all that are columns of the table.
    pub(crate) updates: Option<&'a [String]>,
    /// Those whose values in inserted rows the transaction names.
    pub(crate) keys: &'a [String],
    /// Whether rows match where these are the same, and only there.
    pub(crate) exact_keys: bool,
}

impl ChangeColumns<'_> {
    /// The columns of the table, by their positions.
    fn inserted(&self) -> Vec<usize> {
        let is_value = |name: &str| name != ROW_ADDRESS && name != CHANGE_TYPE;
        let fields = self.all.fields().iter().enumerate();
        fields.filter(|(_, field)| is_value(field.name())).map(|(at, _)| at).collect()
    }

    /// Those of them that updates give values. Errors: `InvalidInput` for one that is not there.
    fn updated(&self) -> Result<Vec<usize>> {
        let inserted = self.inserted();
        let Some(names) = self.updates else { return Ok(inserted) };
        let find = |name: &String| {
            let found = self.all.column_with_name(name).map(|(at, _)| at);
            found.filter(|at| inserted.contains(at)).ok_or_else(|| {
                Error::invalid_input(format!("Updates give values to {name}, which changes do not have"))
            })
        };
        names.iter().map(find).collect()
    }

    /// As they are stored.
    fn fields(&self, positions: &[usize], snapshot: &Snapshot) -> Result<SchemaRef> {
        let fields = Arc::new(self.all.project(positions).map_err(failed)?);
        Ok(json::stored_schema_in(&fields, snapshot.arrow_schema()))
    }

    fn key_fields<'a>(&self, snapshot: &'a Snapshot) -> Result<Vec<&'a Field>> {
        let values = self.fields(&self.inserted(), snapshot)?;
        let table = &snapshot.manifest.schema;
        let find = |key: &String| {
            let field = table.field(key).filter(|_| values.column_with_name(key).is_some());
            field.ok_or_else(|| {
                let names: Vec<_> = values.fields().iter().map(|field| field.name().as_str()).collect();
                Error::invalid_input(format!(
                    "The key {key} is not among the columns that changes give values: found {}",
                    names.join(", ")
                ))
            })
        };
        self.keys.iter().map(find).collect()
    }
}

/// Errors: `InvalidInput` for columns that changes cannot have, and for keys that are not among them.
pub(crate) fn check_changes(snapshot: &Snapshot, columns: &ChangeColumns<'_>) -> Result<()> {
    let wrong = |what: String| Err(Error::invalid_input(format!("Changes of rows have {what}")));
    match columns.all.column_with_name(ROW_ADDRESS).map(|(_, field)| field.data_type()) {
        Some(DataType::UInt64 | DataType::Int64) => {}
        Some(other) => return wrong(format!("a column {ROW_ADDRESS} of type {other}; expected uint64")),
        None => return wrong(format!("no column {ROW_ADDRESS}; expected the addresses of rows, as uint64")),
    }
    if let Some((_, field)) = columns.all.column_with_name(CHANGE_TYPE)
        && !matches!(field.data_type(), DataType::Utf8 | DataType::LargeUtf8 | DataType::Dictionary(..))
    {
        return wrong(format!("a column {CHANGE_TYPE} of type {}; expected strings", field.data_type()));
    }
    for values in [columns.inserted(), columns.updated()?] {
        if !values.is_empty() {
            Assignments::of_columns(snapshot, &*columns.fields(&values, snapshot)?)?;
        }
    }
    columns.key_fields(snapshot).map(drop)
}

/// Changes, read and divided by what becomes of the rows.
struct Changes {
    deleted: Vec<RowAddress>,
    updated: Given,
    /// Columns of the table.
    inserted: RecordBatch,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum RowChange {
    Delete,
    Update,
    Insert,
}

impl Changes {
    /// Reads all. Errors: `InvalidInput` for a row that says nothing that can be done.
    fn read(
        data: BatchReader,
        table: &ArrowSchema,
        update_columns: &[usize],
        insert_columns: &[usize],
    ) -> Result<Self> {
        let data = json::stored_in(data, table);
        let schema = data.schema();
        let batches = data.collect::<std::result::Result<Vec<_>, _>>().map_err(failed)?;
        let all = concat_batches(&schema, &batches, failed)?;
        drop(batches);
        let addresses = addresses(&all)?;
        let kinds = kinds(&all)?;
        let address = |row: usize| (!addresses.is_null(row)).then(|| addresses.value(row));
        let (mut deleted, mut updated, mut ids, mut inserted) = (vec![], vec![], vec![], vec![]);
        for row in 0..all.num_rows() {
            let default = match address(row) {
                None => RowChange::Insert,
                Some(_) if update_columns.is_empty() => RowChange::Delete,
                Some(_) => RowChange::Update,
            };
            let change = kinds.as_ref().map_or(Ok(default), |kinds| kind(kinds, row))?;
            match (change, address(row)) {
                (RowChange::Delete, Some(address)) => deleted.push(RowAddress(address)),
                (RowChange::Update, Some(address)) => {
                    updated.push(row as u64);
                    ids.push(address);
                }
                (RowChange::Insert, None) => inserted.push(row as u64),
                (RowChange::Insert, Some(address)) => {
                    return Err(Error::invalid_input(format!(
                        "Row {row} of the changes is to be inserted and has the address {address}; expected none"
                    )));
                }
                (RowChange::Delete | RowChange::Update, None) => {
                    return Err(Error::invalid_input(format!(
                        "Row {row} of the changes is to be deleted or updated and has no address"
                    )));
                }
            }
        }
        let rows = |rows: Vec<u64>, columns: &[usize]| {
            let values = all.project(columns).map_err(failed)?;
            match rows.first() {
                None => Ok(RecordBatch::new_empty(values.schema())),
                Some(first) if columns.is_empty() => Err(Error::invalid_input(format!(
                    "Row {first} of the changes is to be updated or inserted, and there are no columns of the table"
                ))),
                Some(_) => take_record_batch(&values, &UInt64Array::from(rows)).map_err(failed),
            }
        };
        let updated = Given::new(ROW_ADDRESS, ids, rows(updated, update_columns)?)?;
        Ok(Self { deleted, updated, inserted: rows(inserted, insert_columns)? })
    }
}

fn addresses(all: &RecordBatch) -> Result<UInt64Array> {
    let column =
        all.column_by_name(ROW_ADDRESS).ok_or_else(|| Error::internal("changes have no addresses"))?;
    // Spark has no unsigned integers.
    let options = CastOptions { safe: false, ..CastOptions::default() };
    let column = cast_with_options(column, &DataType::UInt64, &options).map_err(failed)?;
    Ok(column.as_primitive::<UInt64Type>().clone())
}

fn kinds(all: &RecordBatch) -> Result<Option<StringArray>> {
    let Some(column) = all.column_by_name(CHANGE_TYPE) else { return Ok(None) };
    Ok(Some(cast(column, &DataType::Utf8).map_err(failed)?.as_string::<i32>().clone()))
}

fn kind(kinds: &StringArray, row: usize) -> Result<RowChange> {
    match (!kinds.is_null(row)).then(|| kinds.value(row)) {
        Some("delete") => Ok(RowChange::Delete),
        Some("update") => Ok(RowChange::Update),
        Some("insert") => Ok(RowChange::Insert),
        other => Err(Error::invalid_input(format!(
            "Row {row} of the changes has the {CHANGE_TYPE} {}; expected 'delete', 'update' or 'insert'",
            other.map_or_else(|| "null".to_owned(), |text| format!("'{text}'"))
        ))),
    }
}

impl Dataset {
    /// Writes rows of this version that change, and those that are inserted, to new fragments, for somebody else to
    /// commit. `shares`: how many tasks insert about as many rows.
    ///
    /// The changes are held in memory. Errors: `InvalidInput` for a row that says nothing that can be done, a row with
    /// two changes, rows that cannot be there, an update of a deleted row, and values that cannot be cast or stored;
    /// those of reading and writing. Files that were written are removed then.
    pub(crate) async fn write_changes(
        &self,
        data: BatchReader,
        columns: &ChangeColumns<'_>,
        params: &WriteOptions,
        shares: usize,
    ) -> Result<WrittenChanges> {
        let (update_columns, insert_columns) = (columns.updated()?, columns.inserted());
        let data = blobs::without_addresses(data, self.schema());
        let table = Arc::clone(self.snapshot().arrow_schema());
        let read = blocking(move || Changes::read(data, &table, &update_columns, &insert_columns));
        let Changes { deleted, updated, inserted } = read.await?;
        let moved = deletions::by_fragment(updated.keys().iter().copied().map(RowAddress));
        let num_updated = updated.keys().len() as u64;
        let deletes = check_deletes(&deleted, &moved)?;
        let mut rows = deletes.clone();
        moved.iter().for_each(|(id, moved)| deletions::add(&mut rows, *id, moved));
        let live = deletions::merge(self.snapshot(), rows).await?.affected;
        check_live(updated.keys(), &live, self.version())?;
        let num_deleted = deleted.iter().filter(|address| is_among(**address, &live)).count() as u64;
        let num_inserted = inserted.num_rows() as u64;
        let (mut inserted_keys, mut reader) = (None, None);
        if inserted.num_rows() > 0 {
            let casts = Assignments::of_columns(self.snapshot(), &inserted.schema())?;
            let rows = casts.full_rows(&inserted)?;
            let keys = columns.key_fields(self.snapshot())?;
            if !keys.is_empty() {
                let fields = keys.iter().map(|key| key.id).collect();
                inserted_keys = if columns.exact_keys {
                    let columns = keys.iter().filter_map(|key| rows.column_by_name(&key.name).cloned());
                    let hashes = inserted_keys::hashes_without_null(&columns.collect::<Vec<_>>())?;
                    inserted_keys::filter(fields, hashes, shares)
                } else {
                    Some(KeyFilter { fields, keys: None })
                };
            }
            let schema = rows.schema();
            reader = Some(Box::new(RecordBatchIterator::new([Ok(rows)], schema)) as BatchReader);
        }
        let written = if num_updated + num_inserted == 0 {
            WrittenFragments::of(self.schema().as_ref().clone(), Vec::new())
        } else {
            let moves = self.moves_of(updated, moved, reader)?;
            moved::write_fragments(self.snapshot(), moves, params).await?
        };
        Ok(WrittenChanges { rows: live, written, inserted_keys, num_inserted, num_updated, num_deleted })
    }

    fn moves_of(
        &self,
        updated: Given,
        moved: RowsByFragment,
        inserted: Option<BatchReader>,
    ) -> Result<Moves> {
        let moves = if updated.keys().is_empty() {
            // What is read of no rows does not matter.
            Moves {
                moved,
                columns: self.schema().fields.iter().map(|field| field.name.clone()).collect(),
                fields: Vec::new(),
                changed: Box::new(Ok),
                inserted: None,
                deleted: RowsByFragment::new(),
                inserted_keys: None,
            }
        } else {
            super::moves(Assignments::of_rows(self.snapshot(), Arc::new(updated))?, moved)
        };
        Ok(Moves { inserted, ..moves })
    }

    /// Commits what several calls of [`Self::write_changes`] wrote, and moves to the new version: as a delete that the
    /// history shows with `predicate` if there is one and nothing was written, else as an update. The files stay
    /// whatever becomes of the commit. Idempotent by uuid.
    ///
    /// Errors: `InvalidInput` if two of them changed one row; those of a commit.
    pub(crate) async fn commit_changes(
        &mut self,
        columns: &ChangeColumns<'_>,
        predicate: Option<&str>,
        parts: Vec<(RowsByFragment, Option<KeyFilter>, WrittenFragments)>,
        uuid: String,
        properties: Metadata,
    ) -> Result<()> {
        let mut rows = RowsByFragment::new();
        let (mut keys, mut fragments) = (Vec::new(), Vec::new());
        for (part, inserted, written) in parts {
            deletions::add_disjoint(&mut rows, part)?;
            keys.extend(inserted);
            fragments.extend(written.fragments);
        }
        if let Some(predicate) = predicate.filter(|_| fragments.is_empty()) {
            return self.commit_delete(rows, predicate, Some(uuid), properties).await.map(drop);
        }
        let (snapshot, values) = (self.snapshot(), columns.updated()?);
        let fields = if values.is_empty() {
            Vec::new()
        } else {
            moved::with_members(
                Assignments::of_columns(snapshot, &*columns.fields(&values, snapshot)?)?.fields(),
            )
        };
        let inserted_keys = inserted_keys::union(keys);
        let moves = WrittenMoves { rows, new_fragments: fragments, fields, inserted_keys };
        self.commit_moves(moves, uuid, properties).await
    }
}

fn is_among(address: RowAddress, rows: &RowsByFragment) -> bool {
    rows.get(&address.fragment()).is_some_and(|rows| rows.contains(address.offset()))
}

/// Errors: `InvalidInput` for rows to update that are deleted.
fn check_live(updated: &[u64], live: &RowsByFragment, version: Version) -> Result<()> {
    let gone: Vec<u64> =
        updated.iter().copied().filter(|address| !is_among(RowAddress(*address), live)).collect();
    let Some(first) = gone.first() else { return Ok(()) };
    Err(Error::invalid_input(format!(
        "{} rows to update are deleted at version {version}; the first has the address {first}",
        gone.len()
    )))
}

/// Rows to delete, each once and none that is updated. Errors: `InvalidInput`.
fn check_deletes(deleted: &[RowAddress], updated: &RowsByFragment) -> Result<RowsByFragment> {
    let rows = deletions::by_fragment(deleted.iter().copied());
    let distinct = rows.values().map(DeletionVector::len).sum::<u64>();
    let is_updated =
        |(id, rows): (&_, &DeletionVector)| updated.get(id).is_some_and(|updated| updated.intersects(rows));
    if distinct < deleted.len() as u64 || rows.iter().any(is_updated) {
        return Err(Error::repeated_row(
            "A row has two changes: expected each address once among the rows that are deleted or updated",
        ));
    }
    Ok(rows)
}

fn failed(error: ArrowError) -> Error {
    Error::invalid_input(format!("The changes of rows: {error}"))
}
