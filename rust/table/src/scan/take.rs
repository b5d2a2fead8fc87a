//! Rows by position, address or id, in the order asked.
//!
//! What is asked becomes row addresses; they are sorted, repeated ones dropped, and read with one call per
//! fragment; the rows then go back to the order asked. A few rows of local files are read on the calling thread:
//! handing them to another would take longer than reading them (`brief.rs`).

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::str::FromStr;
use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch, UInt64Array};
use arrow_schema::Schema as ArrowSchema;
use arrow_select::take::take_record_batch;
use bytes::Bytes;
use futures::{StreamExt, TryStreamExt};
use pennon_core::deletion::DeletionVector;
use pennon_core::lengths::to_u64;
use pennon_core::manifest::Fragment;
use pennon_core::rows::RowRanges;
use pennon_core::schema::Field;
use pennon_core::{Error, FragmentId, Result, RowAddress, RowId};

use super::brief::{is_brief_read, is_indexed_soon};
use super::fragment::{FragmentReader, Needs, NeedsDeletions, prepare};
use super::projection::{Selection, ValueForm};
use super::read::{read_columns, read_concurrently};
use super::row_index::row_id_index;
use super::system_columns::System;
use super::units::array_rows;
use super::{JsonHandling, Members, Projection};
use crate::batches::{batch_with_rows, concat_batches, join_error};
use crate::blobs::read::Blob;
use crate::blobs::{BlobHandling, has_legacy_blobs};
use crate::runtime::{Fault, IN_FLIGHT, each_concurrently, is_planted};
use crate::versions::snapshot::Snapshot;

/// Fragments that threads read concurrently.
const FRAGMENTS_IN_FLIGHT: usize = 8;

/// The rows to take.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TakeRows {
    /// By position among the live rows of the table.
    Positions(Vec<u64>),
    /// By address; deleted rows are left out.
    Addresses(Vec<RowAddress>),
    /// By stable id, or by address in a table without stable ids; see [`Missing`].
    Ids(Vec<RowId>),
}

/// What becomes of an id that no live row has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Missing {
    /// It is left out.
    #[default]
    Skip,
    /// It is an error, `NotFound`, with the number of such ids and the first.
    Error,
    /// It gives a row of nulls.
    Null,
}

impl FromStr for Missing {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        match text {
            "skip" => Ok(Self::Skip),
            "error" => Ok(Self::Error),
            "null" => Ok(Self::Null),
            other => Err(Error::invalid_input(format!(
                "missing is {other:?}; expected \"skip\", \"error\" or \"null\""
            ))),
        }
    }
}

/// How to take rows.
#[derive(Debug, Clone, Default)]
pub struct TakeOptions {
    /// The columns; all of the table if not given.
    pub columns: Option<Projection>,
    /// What paths among the columns give.
    pub members: Members,
    /// Adds `_rowid` at the end.
    pub with_row_id: bool,
    /// Adds `_rowaddr` at the end.
    pub with_row_address: bool,
    /// Deleted rows are found too, by address or id.
    pub ignore_deletions: bool,
    /// What becomes of ids that no row has.
    pub missing: Missing,
    /// What blob columns read as.
    pub blobs: BlobHandling,
    /// What JSON columns read as.
    pub json: JsonHandling,
}

/// Reads rows in the order asked, repeated ones repeatedly.
///
/// Errors: `InvalidInput` for a position past the end or an address outside the table ("... belongs to
/// non-existent fragment"), and for unknown columns; `NotFound` for ids if they must be there.
pub async fn take(snapshot: Arc<Snapshot>, rows: TakeRows, options: &TakeOptions) -> Result<RecordBatch> {
    let asked = match &rows {
        TakeRows::Positions(list) => list.len(),
        TakeRows::Addresses(list) => list.len(),
        TakeRows::Ids(list) => list.len(),
    };
    let by_id = matches!(rows, TakeRows::Ids(_)) && snapshot.manifest.has_stable_row_ids();
    let take = Arc::new(Take::plan(snapshot, options)?);
    let (snapshot, fields) = (&take.snapshot, &take.columns.input.fields);
    if is_brief_read(snapshot, fields, to_u64(asked)) && (!by_id || is_indexed_soon(snapshot)) {
        let (groups, order) = take.locate(rows)?;
        let parts = groups.iter().map(|group| take.read(group)).collect::<Result<_>>()?;
        return take.arrange(parts, &order);
    }
    let locating = Arc::clone(&take);
    let (groups, order) = crate::runtime::blocking(move || locating.locate(rows)).await?;
    let alone = groups.len() == 1;
    let in_flight = if take.snapshot.store.is_local() { FRAGMENTS_IN_FLIGHT } else { IN_FLIGHT };
    let read = |group: Group| {
        let take = Arc::clone(&take);
        crate::runtime::blocking(move || if alone { take.read_alone(&group) } else { take.read(&group) })
    };
    let parts: Vec<RecordBatch> =
        futures::stream::iter(groups).map(read).buffered(in_flight).try_collect().await?;
    take.arrange(parts, &order)
}

/// The blobs of rows, in the order asked: address and blob of each, `None` for null. Bytes are not read yet.
///
/// Errors: those of [`take`]; `InvalidInput` "the column ... is not a blob column".
pub async fn take_blobs(
    snapshot: Arc<Snapshot>,
    column: &str,
    rows: TakeRows,
) -> Result<Vec<(RowAddress, Option<Blob>)>> {
    let manifest = &snapshot.manifest;
    let found = manifest.schema.field_by_path(column);
    let is_blob =
        |field: &Field| field.is_blob_v2() || (field.is_legacy_blob() && has_legacy_blobs(manifest));
    let Some(field) = found.filter(|field| is_blob(field)) else {
        return Err(match found {
            Some(_) => Error::invalid_input(format!("the column '{column}' is not a blob column")),
            None => manifest.schema.unknown_column(column),
        });
    };
    // The field by itself, in its parents.
    let id = field.id;
    let options =
        TakeOptions { columns: Some(Projection::Names(vec![column.to_owned()])), ..TakeOptions::default() };
    let take = Take::plan(snapshot, &options)?;
    crate::runtime::blocking(move || {
        let Some(field) = take.columns.input.fields.first() else {
            return Err(Error::internal(format!("field {id} was not planned")));
        };
        let (groups, Order { rows: order, .. }) = take.locate(rows)?;
        let blobs = each_concurrently(FRAGMENTS_IN_FLIGHT, &groups, |group| {
            let base = RowAddress::new(group.reader.fragment.id, 0).0;
            let addresses = group.rows.rows().map(move |offset| RowAddress(base | offset));
            Ok(addresses.zip(group.reader.blob_handles(field, &group.rows)?).collect::<Vec<_>>())
        })?;
        let all: Vec<_> = blobs.into_iter().flatten().collect();
        let at = |&row: &u64| usize::try_from(row).ok().and_then(|row| all.get(row)).cloned();
        order.iter().map(|row| at(row).ok_or_else(|| Error::internal("a row was not read"))).collect()
    })
    .await
}

/// Some bytes of a blob. Errors: `InvalidInput` for a range beyond its end; those of reading.
pub async fn read_blob(blob: Blob, range: Range<u64>) -> Result<Bytes> {
    crate::runtime::blocking(move || blob.read(range)).await
}

struct Take {
    snapshot: Arc<Snapshot>,
    columns: Arc<Selection>,
    ignore_deletions: bool,
    missing: Missing,
}

/// Where what was asked for is among the rows that were read.
struct Order {
    /// The place of each row that there is.
    rows: Vec<u64>,
    /// If others get nulls: whether there is a row, for each that was asked for.
    present: Option<Vec<bool>>,
}

/// Fragments of which something was read before it is known which of their rows are.
type Readers = BTreeMap<FragmentId, FragmentReader>;

/// The wanted rows of one fragment.
struct Group {
    reader: FragmentReader,
    rows: RowRanges,
}

impl Take {
    fn plan(snapshot: Arc<Snapshot>, options: &TakeOptions) -> Result<Self> {
        let appended = System::appended(options.with_row_id, options.with_row_address);
        let columns = options.columns.as_ref();
        let form = ValueForm { blobs: options.blobs, json: options.json, members: options.members };
        let select = || Selection::of(&snapshot, columns, &appended, form).map(Arc::new);
        let is_plain = columns.is_none() && appended.is_empty() && form == ValueForm::PLAIN;
        let columns = if is_plain { snapshot.whole_rows.get_or_make(select)? } else { select()? };
        let ignore_deletions = options.ignore_deletions || is_planted(Fault::TakesFindDeletedRows);
        Ok(Self { snapshot, columns, ignore_deletions, missing: options.missing })
    }

    /// The fragments to read, and for each wanted row its place among what they give.
    fn locate(&self, rows: TakeRows) -> Result<(Vec<Group>, Order)> {
        // Those that are prepared live until they are read.
        let mut readers = Readers::new();
        let mut present = None;
        let addresses = match rows {
            TakeRows::Positions(positions) => self.at_positions(&positions, &mut readers)?,
            TakeRows::Addresses(addresses) => self.at_addresses(addresses, &mut readers)?,
            TakeRows::Ids(ids) if self.missing != Missing::Skip => {
                let found = self.with_ids(&ids, &mut readers)?;
                match self.missing {
                    Missing::Error => check_found(&self.snapshot, &ids, &found)?,
                    _ => present = Some(found.iter().map(Option::is_some).collect()),
                }
                found.into_iter().flatten().collect()
            }
            TakeRows::Ids(ids) if self.snapshot.manifest.has_stable_row_ids() => {
                self.with_ids(&ids, &mut readers)?.into_iter().flatten().collect()
            }
            TakeRows::Ids(ids) => {
                let addresses = ids.into_iter().map(|id| RowAddress(id.0)).collect();
                self.at_addresses(addresses, &mut readers)?
            }
        };
        let mut sorted = addresses.clone();
        sorted.sort_unstable();
        sorted.dedup();
        let position = |a: &RowAddress| sorted.binary_search(a).map_or(0, to_u64);
        let order = Order { rows: addresses.iter().map(position).collect(), present };
        let groups = sorted.chunk_by(|a, b| a.fragment() == b.fragment());
        let groups = groups.map(|rows| self.group(rows, &mut readers)).collect();
        Ok((groups, order))
    }

    fn group(&self, rows: &[RowAddress], readers: &mut Readers) -> Group {
        let id = rows.first().map(|a| a.fragment()).unwrap_or_default();
        let reader = readers.remove(&id).unwrap_or_else(|| self.reader(id));
        Group { reader, rows: rows.iter().map(|a| u64::from(a.offset())).collect() }
    }

    fn reader(&self, id: FragmentId) -> FragmentReader {
        let fragments = &self.snapshot.manifest.fragments;
        let mut before = 0;
        // Only the offset column needs the sum over all fragments before.
        if self.columns.input.system.contains(&System::RowOffset) {
            before = fragments.rows_before(id);
        }
        let fragment = self.snapshot.manifest.fragment(id).cloned();
        let fragment = fragment.unwrap_or_else(|| Arc::new(Fragment::new(Vec::new(), 0)));
        FragmentReader::new(Arc::clone(&self.snapshot), fragment, before)
    }

    fn read(&self, group: &Group) -> Result<RecordBatch> {
        let Selection { input, needed, .. } = &*self.columns;
        let mut arrays = vec![None; needed.len()];
        read_columns(&group.reader, input, &group.rows, needed, self.ignore_deletions, &mut arrays)?;
        self.make(group, &arrays)
    }

    /// As [`Self::read`], for one group that is read by itself.
    fn read_alone(&self, group: &Group) -> Result<RecordBatch> {
        let Selection { input, needed, .. } = &*self.columns;
        let deleted = self.ignore_deletions;
        let arrays = read_concurrently(&group.reader, input, &group.rows, needed, deleted)?;
        self.make(group, &arrays)
    }

    fn make(&self, group: &Group, arrays: &[Option<ArrayRef>]) -> Result<RecordBatch> {
        let Selection { input, output, .. } = &*self.columns;
        output.make(input, arrays, array_rows(&group.rows)?)
    }

    fn arrange(&self, mut parts: Vec<RecordBatch>, order: &Order) -> Result<RecordBatch> {
        let fail = |e| join_error("putting rows in order", e);
        let schema = &self.columns.output.schema;
        if schema.fields().is_empty() {
            let rows = order.present.as_ref().map_or(order.rows.len(), Vec::len);
            return batch_with_rows(Arc::clone(schema), Vec::new(), rows).map_err(fail);
        }
        let rows = match (parts.len(), parts.pop()) {
            (1, Some(only)) => only,
            (_, last) => {
                parts.extend(last);
                concat_batches(schema, &parts, fail)?
            }
        };
        let Order { rows: order, present } = order;
        if let Some(present) = present {
            let mut next = order.iter().copied();
            let positions: UInt64Array =
                present.iter().map(|&is| if is { next.next() } else { None }).collect();
            return take_record_batch(&all_nullable(&rows)?, &positions).map_err(fail);
        }
        let in_order = order.len() == rows.num_rows() && order.iter().zip(0..).all(|(row, at)| *row == at);
        if in_order {
            return Ok(rows);
        }
        take_record_batch(&rows, &UInt64Array::from(order.to_vec())).map_err(fail)
    }

    fn at_positions(&self, positions: &[u64], readers: &mut Readers) -> Result<Vec<RowAddress>> {
        let fragments = &self.snapshot.manifest.fragments;
        let starts = fragments.starts();
        let rows = starts.last().copied().unwrap_or(0);
        // The last one that starts at or before it; of those that start there the others have no rows.
        let fragment_of =
            |position: u64| starts.partition_point(|&start| start <= position).saturating_sub(1);
        let hit = positions.iter().filter_map(|&position| fragments.get(fragment_of(position)));
        self.prefetch(hit.map(|fragment| fragment.id), readers)?;
        let find = |(given, &position): (usize, &u64)| {
            let at = fragment_of(position);
            let start = starts.get(at).filter(|_| at < fragments.len()).ok_or_else(|| {
                Error::invalid_input(format!(
                    "row position {position} belongs to non-existent fragment: the table has {rows} rows"
                ))
            })?;
            Ok((at, given, position - start))
        };
        // By fragment, with where the positions are among those that are given.
        let mut asked = positions.iter().enumerate().map(find).collect::<Result<Vec<_>>>()?;
        asked.sort_unstable_by_key(|(at, ..)| *at);
        let mut found = vec![RowAddress(0); positions.len()];
        for asked in asked.chunk_by(|a, b| a.0 == b.0) {
            let Some(fragment) = asked.first().and_then(|(at, ..)| fragments.get(*at)) else { continue };
            let mut offsets: Vec<u64> = asked.iter().map(|(.., offset)| *offset).collect();
            if fragment.deletion.is_some() {
                offsets = self.snapshot.deletion_vector_blocking(fragment)?.live_offsets(&offsets);
            }
            for ((_, given, _), offset) in asked.iter().zip(offsets) {
                let offset = u32::try_from(offset).map_err(|_| {
                    Error::corrupt(format!("fragment {}: a row at offset {offset}", fragment.id))
                })?;
                if let Some(found) = found.get_mut(*given) {
                    *found = RowAddress::new(fragment.id, offset);
                }
            }
        }
        Ok(found)
    }

    fn at_addresses(&self, addresses: Vec<RowAddress>, readers: &mut Readers) -> Result<Vec<RowAddress>> {
        self.prefetch(addresses.iter().map(|address| address.fragment()), readers)?;
        let mut kept = Vec::with_capacity(addresses.len());
        let mut known = KnownFragments::of(&self.snapshot);
        for address in addresses {
            let id = address.fragment();
            let (rows, deletions) = known.get(id)?.ok_or_else(|| {
                Error::invalid_input(format!("row address {address} belongs to non-existent fragment: {id}"))
            })?;
            if u64::from(address.offset()) >= rows {
                return Err(Error::invalid_input(format!(
                    "Invalid read params: row address {address} is offset {} of fragment {id} with {rows} rows",
                    address.offset()
                )));
            }
            if self.ignore_deletions || !deletions.contains(address.offset()) {
                kept.push(address);
            }
        }
        Ok(kept)
    }

    /// Loads what is read of the rows of these fragments, all at once, where that takes as long as once.
    fn prefetch(&self, fragments: impl Iterator<Item = FragmentId>, readers: &mut Readers) -> Result<()> {
        let snapshot = &self.snapshot;
        // What is not kept would be read twice.
        if snapshot.store.is_local() || snapshot.session().is_off() {
            return Ok(());
        }
        let hit = BTreeSet::from_iter(fragments).into_iter();
        let hit = hit.filter(|id| snapshot.manifest.fragments.contains_id(*id));
        readers.extend(hit.map(|id| (id, self.reader(id))));
        let fields = &self.columns.input.fields;
        let needs = Needs { fields, values: true, deletions: NeedsDeletions::Yes };
        prepare(readers.values().map(|reader| (reader, needs)))
    }

    fn with_ids(&self, ids: &[RowId], readers: &mut Readers) -> Result<Vec<Option<RowAddress>>> {
        if !self.snapshot.manifest.has_stable_row_ids() {
            return find_ids(&self.snapshot, ids);
        }
        if !self.snapshot.store.is_local() {
            let candidates = row_id_index(&self.snapshot)?.index.candidates(ids)?;
            self.prefetch(candidates.into_iter().map(|address| address.fragment()), readers)?;
        }
        find_stable_ids(&self.snapshot, ids, self.ignore_deletions)
    }
}

/// The same rows, of fields that may be null.
fn all_nullable(rows: &RecordBatch) -> Result<RecordBatch> {
    let schema = rows.schema();
    let fields: Vec<_> = schema.fields().iter().map(|f| f.as_ref().clone().with_nullable(true)).collect();
    let schema = Arc::new(ArrowSchema::new(fields).with_metadata(schema.metadata().clone()));
    let nullable = batch_with_rows(schema, rows.columns().to_vec(), rows.num_rows());
    nullable.map_err(|e| Error::internal(format!("columns that may be null: {e}")))
}

/// Errors: `NotFound` for ids that no live row has, saying how many and the first.
pub(crate) fn check_found(snapshot: &Snapshot, ids: &[RowId], found: &[Option<RowAddress>]) -> Result<()> {
    let mut missing = ids.iter().zip(found).filter(|(_, address)| address.is_none());
    let Some((first, _)) = missing.next() else { return Ok(()) };
    Err(Error::not_found(format!(
        "{} of {} row ids are not in version {}; the first is {first}",
        missing.count() + 1,
        ids.len(),
        snapshot.version()
    )))
}

/// The addresses of live rows by `_rowid`: a stable id, or the address itself in a table without stable ids; `None`
/// for those that no live row has. Blocks on the store.
pub(crate) fn find_ids(snapshot: &Arc<Snapshot>, ids: &[RowId]) -> Result<Vec<Option<RowAddress>>> {
    if snapshot.manifest.has_stable_row_ids() {
        return find_stable_ids(snapshot, ids, false);
    }
    let mut known = KnownFragments::of(snapshot);
    let live = |id: &RowId| {
        let address = RowAddress(id.0);
        let Some((rows, deletions)) = known.get(address.fragment())? else { return Ok(None) };
        let is_live = u64::from(address.offset()) < rows && !deletions.contains(address.offset());
        Ok(is_live.then_some(address))
    };
    ids.iter().map(live).collect()
}

/// Fragments that addresses name, each looked up once.
struct KnownFragments<'a> {
    snapshot: &'a Snapshot,
    known: BTreeMap<FragmentId, usize>,
    found: Vec<Option<(u64, Arc<DeletionVector>)>>,
    /// The last one that was asked for: neighbours are mostly of one fragment.
    last: Option<(FragmentId, usize)>,
}

impl<'a> KnownFragments<'a> {
    fn of(snapshot: &'a Snapshot) -> Self {
        Self { snapshot, known: BTreeMap::new(), found: Vec::new(), last: None }
    }

    /// How many rows a fragment has, and which of these are deleted; `None` if there is no such fragment. Blocks on the
    /// store.
    fn get(&mut self, id: FragmentId) -> Result<Option<(u64, &DeletionVector)>> {
        let at = match self.last {
            Some((last, at)) if last == id => at,
            _ => match self.known.entry(id) {
                Entry::Occupied(known) => *known.get(),
                Entry::Vacant(unknown) => {
                    let fragment = self.snapshot.manifest.fragment(id);
                    let deletions = fragment.map(|fragment| self.snapshot.deletion_vector_blocking(fragment));
                    let rows = fragment.map(|fragment| fragment.physical_rows);
                    self.found.push(rows.zip(deletions.transpose()?));
                    *unknown.insert(self.found.len() - 1)
                }
            },
        };
        self.last = Some((id, at));
        let found = self.found.get(at).and_then(Option::as_ref);
        Ok(found.map(|(rows, deletions)| (*rows, deletions.as_ref())))
    }
}

/// The addresses of the live rows with some stable ids, which ascend. Blocks on the store.
pub(super) fn find_ascending_ids(
    snapshot: &Arc<Snapshot>,
    ids: impl Iterator<Item = RowId>,
) -> Result<Vec<RowAddress>> {
    row_id_index(snapshot)?.index.lookup_ascending(ids, &mut |id| deletions(snapshot, id))
}

fn find_stable_ids(
    snapshot: &Arc<Snapshot>,
    ids: &[RowId],
    with_deleted: bool,
) -> Result<Vec<Option<RowAddress>>> {
    let mut deletions = |id: FragmentId| deletions(snapshot, id);
    let index = row_id_index(snapshot)?;
    match with_deleted {
        true => index.index.lookup_with_deleted(ids, &mut deletions),
        false => index.index.lookup(ids, &mut deletions),
    }
}

/// The deletion vector of a fragment that the row id index names. Blocks on the store.
fn deletions(snapshot: &Arc<Snapshot>, id: FragmentId) -> Result<Arc<DeletionVector>> {
    let missing = || Error::internal(format!("the row id index names fragment {id}, which is not there"));
    snapshot.deletion_vector_blocking(snapshot.manifest.fragment(id).ok_or_else(missing)?)
}
