//! A new segment of an index: the values of some fragments, and the entries of other segments.
//!
//! Entries whose rows the other segment does not cover any more, or that are deleted, are left out on the way: after an
//! update a segment over row ids still has the values that rows had before.

use std::sync::Arc;

use arrow_array::{Array, ArrayRef, BooleanArray, UInt64Array};
use arrow_select::concat::concat;
use arrow_select::filter::filter;
use arrow_select::take::take;
use bytes::Bytes;
use pennon_core::manifest::IndexMetadata;
use pennon_core::schema::Field;
use pennon_core::wire::index_parts::IndexParts;
use pennon_core::{Error, FragmentId, Result, RowAddress};
use pennon_index::{RowSet, ScalarIndex, SortedRun, zone_map_details};
use roaring::RoaringBitmap;
use uuid::Uuid;

use super::IndexKind;
use super::build::{self, Build, RUN_BYTES, RUN_ROWS};
use super::entries::{Entries, KEPT};
use super::zones::{self, ZoneSource};
use crate::batches::{array_bytes, most_value_bytes};
use crate::indices::Segment;
use crate::runtime::{self, blocking};
use crate::scan::covered_rows;
use crate::versions::snapshot::Snapshot;
use crate::write::staged::StagedFile;

/// Makes a segment of the values of fragments and of the entries of other segments: its entry, and its files.
///
/// Errors: those of reading and writing; nothing is left of the files then.
pub(super) async fn build(
    name: &str,
    build: Build,
    merged: Vec<Segment>,
) -> Result<(IndexMetadata, Vec<StagedFile>)> {
    let (snapshot, kind, version) = (Arc::clone(&build.snapshot), build.kind, build.version());
    let (field, uuid) = (build.field.clone(), build.uuid);
    let mut covered: RoaringBitmap = build.fragments.iter().map(|id| id.0).collect();
    merged.iter().for_each(|segment| covered |= &segment.covered);
    let details = match kind {
        IndexKind::ZoneMap => zone_map_details(build.parameters.zone_rows, &build.field.data_type()).into(),
        _ => Bytes::new(),
    };
    let built = if kind.has_zones() {
        let source = zones_of(&snapshot, merged, build.fragments.clone()).await?;
        zones::run(build, source).await?
    } else {
        let (by_address, read) = (build.by_address(), Arc::clone(&snapshot));
        let entries = blocking(move || {
            let mut entries = Entries::new(KEPT);
            merged.iter().try_for_each(|s| add_entries_of(&read, s, by_address, &mut entries))?;
            Ok(entries)
        });
        build::run(build, entries.await?).await?
    };
    let entry = IndexParts {
        fragments: Some(covered.into_iter().collect()),
        index_version: Some(version),
        files: built.sizes,
        details: Some((kind.details_type(), details)),
        ..new_entry(&snapshot, name, &field, uuid)
    };
    Ok((entry.entry()?, built.files))
}

/// What the entry of a segment says that is made now, whatever its kind.
pub(super) fn new_entry(snapshot: &Snapshot, name: &str, field: &Field, uuid: Uuid) -> IndexParts {
    IndexParts {
        uuid,
        name: name.to_owned(),
        fields: vec![field.id],
        dataset_version: snapshot.version(),
        fragments: None,
        index_version: None,
        created_at: u64::try_from(runtime::now().millis()).ok(),
        base_id: None,
        files: Vec::new(),
        details: None,
        covering_fields: Vec::new(),
    }
}

/// The zones of segments, and of fragments that are read. Those of a segment that does not say enough of its rows are made
/// again.
async fn zones_of(
    snapshot: &Arc<Snapshot>,
    merged: Vec<Segment>,
    mut fragments: Vec<FragmentId>,
) -> Result<ZoneSource> {
    let mut kept = Vec::with_capacity(merged.len());
    for segment in merged {
        let (read, covered) = (Arc::clone(snapshot), segment.covered.clone());
        let has_moves = segment.has_moves();
        let index = blocking(move || segment.open(&read)).await?;
        if has_moves || !index.has_whole_zones() {
            fragments.extend(covered.into_iter().map(FragmentId));
        } else {
            kept.push((index, covered));
        }
    }
    Ok(ZoneSource { kept, ..ZoneSource::of_fragments(fragments) })
}

/// Adds the entries of a segment for live rows that it covers. Blocks on the store.
fn add_entries_of(
    snapshot: &Arc<Snapshot>,
    segment: &Segment,
    by_address: bool,
    entries: &mut Entries,
) -> Result<()> {
    let mut kept = KeptEntries { entries, values: Vec::new(), rows: Vec::new(), bytes: 0 };
    let mut keep = |values: &ArrayRef, rows: &UInt64Array| {
        let current = current_rows(snapshot, segment, by_address, rows)?;
        let is_kept: BooleanArray = current.iter().map(|row| Some(row.is_some())).collect();
        let values = filter(values.as_ref(), &is_kept)
            .map_err(|e| Error::internal(format!("values of an index: {e}")))?;
        kept.add(values, current.into_iter().flatten().collect())
    };
    match segment.open(snapshot)?.as_ref() {
        ScalarIndex::BTree(index) => index.scan(&mut |values, rows| keep(&values, &rows))?,
        ScalarIndex::Bitmap(index) => index.scan(&mut |keys, sets| each_entry(keys, &sets, &mut keep))?,
        ScalarIndex::LabelList(index) => {
            index.scan(&mut |items, sets| each_entry(items, &sets, &mut keep))?;
            let rows = UInt64Array::from_iter_values(rows_of(index.nulls())?);
            let live = current_rows(snapshot, segment, by_address, &rows)?;
            let null_lists = live.into_iter().flatten().collect();
            let known = &mut kept.entries.null_lists;
            *known = std::mem::take(known).union(null_lists);
        }
        ScalarIndex::ZoneMap(_) | ScalarIndex::BloomFilter(_) | ScalarIndex::NGram(_) => {
            return Err(Error::internal("an index that does not have its values"));
        }
    }
    kept.finish()
}

/// What is kept of a segment, in its order, until it is enough for a sorted run.
struct KeptEntries<'a> {
    entries: &'a mut Entries,
    values: Vec<ArrayRef>,
    rows: Vec<u64>,
    bytes: u64,
}

impl KeptEntries<'_> {
    fn add(&mut self, values: ArrayRef, rows: Vec<u64>) -> Result<()> {
        let bytes = array_bytes(values.as_ref());
        if self.rows.len() + rows.len() > RUN_ROWS || self.bytes.saturating_add(bytes) > RUN_BYTES {
            self.finish()?;
        }
        self.bytes = self.bytes.saturating_add(bytes);
        self.values.push(values);
        self.rows.extend(rows);
        Ok(())
    }

    /// Makes a run of what there is.
    fn finish(&mut self) -> Result<()> {
        let (values, rows) = (std::mem::take(&mut self.values), std::mem::take(&mut self.rows));
        self.bytes = 0;
        if rows.is_empty() {
            return Ok(());
        }
        let values: Vec<&dyn Array> = values.iter().map(AsRef::as_ref).collect();
        let values = concat(&values).map_err(|e| Error::internal(format!("values of an index: {e}")))?;
        self.entries.add(SortedRun::of_sorted(values, UInt64Array::from(rows))?)
    }
}

/// Gives each key once for each of its rows, and these, in pieces of some rows and bytes.
fn each_entry(
    keys: &ArrayRef,
    sets: &[RowSet],
    give: &mut dyn FnMut(&ArrayRef, &UInt64Array) -> Result<()>,
) -> Result<()> {
    let most = RUN_BYTES / most_value_bytes(keys.as_ref()).max(1);
    let most = usize::try_from(most).unwrap_or(usize::MAX).clamp(1, RUN_ROWS);
    let (mut at, mut rows) = (Vec::new(), Vec::new());
    let mut give_piece = |at: &mut Vec<u64>, rows: &mut Vec<u64>| {
        let values = take(keys.as_ref(), &UInt64Array::from(std::mem::take(at)), None)
            .map_err(|e| Error::internal(format!("values of an index: {e}")))?;
        give(&values, &UInt64Array::from(std::mem::take(rows)))
    };
    for (key, set) in (0_u64..).zip(sets) {
        for row in rows_of(set)? {
            at.push(key);
            rows.push(row);
            if rows.len() == most {
                give_piece(&mut at, &mut rows)?;
            }
        }
    }
    if rows.is_empty() { Ok(()) } else { give_piece(&mut at, &mut rows) }
}

fn rows_of(set: &RowSet) -> Result<impl Iterator<Item = u64> + '_> {
    set.iter().ok_or_else(|| Error::unsupported("an index that has all rows of a part"))
}

/// How the new segment names the rows of another one; `None` for those that are not live in fragments that this one
/// covers.
fn current_rows(
    snapshot: &Arc<Snapshot>,
    segment: &Segment,
    by_address: bool,
    rows: &UInt64Array,
) -> Result<Vec<Option<u64>>> {
    let has_addresses = segment.has_addresses(snapshot);
    if has_addresses && !by_address {
        return Err(Error::internal("an index over addresses becomes one over ids"));
    }
    let addresses = covered_rows(snapshot, segment, rows.values())?;
    let named = |(row, address): (&u64, Option<RowAddress>)| {
        // Ids stay ids; else the address is what it is now.
        Some(if by_address { address?.0 } else { address.map(|_| *row)? })
    };
    Ok(rows.values().iter().zip(addresses).map(named).collect())
}

#[cfg(test)]
mod tests {
    use arrow_array::StringArray;

    use super::*;

    /// All at once they would be more than offsets of 32 bits count.
    #[test]
    fn entries_of_a_long_key_come_in_pieces() {
        let long = "k".repeat(40 << 20);
        let keys: ArrayRef = Arc::new(StringArray::from(vec!["a", long.as_str()]));
        let sets = [RowSet::from_iter([7]), RowSet::from_iter(10..70)];
        let (mut found, mut pieces) = (Vec::new(), 0);
        each_entry(&keys, &sets, &mut |values, rows| {
            assert!(array_bytes(values.as_ref()) <= RUN_BYTES);
            assert_eq!(values.len(), rows.len());
            pieces += 1;
            found.extend(rows.values().iter().copied());
            Ok(())
        })
        .unwrap();
        assert_eq!(found, Vec::from_iter([7].into_iter().chain(10..70)));
        assert!(pieces > 1);
    }

    #[test]
    fn entries_become_runs_that_are_spilled() {
        let mut entries = Entries::new(0);
        let mut kept = KeptEntries { entries: &mut entries, values: Vec::new(), rows: Vec::new(), bytes: 0 };
        for part in 0..5_u64 {
            let rows = 700_000;
            let values: ArrayRef = Arc::new(UInt64Array::from_iter_values(std::iter::repeat_n(part, rows)));
            kept.add(values, vec![part; rows]).unwrap();
        }
        kept.finish().unwrap();
        let (mut runs, mut rows) = (0, 0);
        entries
            .merge(1 << 20, &mut |run| {
                runs += 1;
                rows += run.len();
                Ok(())
            })
            .unwrap();
        assert_eq!(rows, 5 * 700_000);
        assert!(runs > 1 && entries.spilled_files() == 5);
    }
}
