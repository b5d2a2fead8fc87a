//! Values that an index has of the rows that it found: where the result needs no other column of the table, no data file
//! is read for these rows.
//!
//! Only of B-trees whose values have the very type of the column: their pages have the bytes of each value, also of NaN and
//! -0.0.

use std::sync::Arc;

use arrow_array::{Array, ArrayRef};
use arrow_select::interleave::interleave;
use pennon_core::schema::Field;
use pennon_core::{Error, FragmentId, Result, RowAddress};
use pennon_index::{IndexKind, PageRun, ValueTest};
use roaring::RoaringBitmap;

use super::index_matches::{FoundRows, FragmentValues};
use super::index_rows::addresses_in;
use crate::indices::{SearchError, Segment};
use crate::versions::snapshot::Snapshot;

/// Pages of a segment that take more bytes are not held: the rows are found without values, and these are read in pieces.
const MOST_BYTES: u64 = 64 << 20;

/// Whether segments have the values of a field, and know those for which tests hold.
pub(super) fn have_values(segments: &[&Segment], tests: &[&ValueTest], field: &Field) -> bool {
    let is_of = |segment: &&Segment| {
        segment.field == field.id && segment.kind == IndexKind::BTree && segment.key.is_none()
    };
    // The values that pass all tests lie in intervals if those that pass one do.
    let is_known = |test: &&ValueTest| test.is_of_intervals() || **test == ValueTest::IsNull;
    segments.iter().all(is_of) && tests.iter().any(is_known)
}

/// The rows of some fragments for which tests hold, all of them, and their values of a field; `None` if the segments do not
/// give them. Blocks on the store.
pub(super) fn search_values(
    snapshot: &Arc<Snapshot>,
    segments: &[&Segment],
    tests: &[&ValueTest],
    scope: &RoaringBitmap,
    field: &Field,
) -> Result<Option<(FoundRows, FragmentValues)>, SearchError> {
    let data_type = field.data_type();
    let mut found = FoundValues::default();
    for segment in segments {
        let fragments = &segment.covered & scope;
        if fragments.is_empty() {
            continue;
        }
        let runs = segment.search_values(snapshot, tests, &data_type, MOST_BYTES);
        let Some(runs) = runs.map_err(|error| segment.failed(error))? else { return Ok(None) };
        add_runs(snapshot, segment, &runs, &fragments, &mut found)?;
    }
    Ok(Some(found.by_fragment()?))
}

/// Adds the rows of runs that are in some fragments.
fn add_runs(
    snapshot: &Arc<Snapshot>,
    segment: &Segment,
    runs: &[PageRun],
    fragments: &RoaringBitmap,
    found: &mut FoundValues,
) -> Result<()> {
    let rows = runs.iter().flat_map(PageRun::rows).copied();
    let mut addresses = addresses_in(snapshot, segment, rows, fragments)?.into_iter();
    for run in runs {
        for (at, address) in (run.start()..).zip(addresses.by_ref().take(run.rows().len())) {
            if let Some(address) = address {
                found.add(address, run.values(), at)?;
            }
        }
    }
    Ok(())
}

/// Values of rows, as they are found.
#[derive(Debug, Default)]
pub(super) struct FoundValues {
    pieces: Vec<ArrayRef>,
    /// Rows, each with its piece and the position there.
    rows: Vec<(RowAddress, u32, u32)>,
}

impl FoundValues {
    /// Adds a row, whose value is in an array.
    pub(super) fn add(&mut self, row: RowAddress, values: &ArrayRef, at: usize) -> Result<()> {
        if self.pieces.last().is_none_or(|piece| !Arc::ptr_eq(piece, values)) {
            self.pieces.push(Arc::clone(values));
        }
        let too_many = |_| Error::unsupported("more values of an index than have a number");
        let piece = u32::try_from(self.pieces.len() - 1).map_err(too_many)?;
        self.rows.push((row, piece, u32::try_from(at).map_err(too_many)?));
        Ok(())
    }

    /// All rows that were added, each once.
    pub(super) fn by_fragment(mut self) -> Result<(FoundRows, FragmentValues)> {
        self.rows.sort_unstable_by_key(|(row, ..)| *row);
        self.rows.dedup_by_key(|(row, ..)| *row);
        let pieces: Vec<&dyn Array> = self.pieces.iter().map(AsRef::as_ref).collect();
        let number = |number: u32| usize::try_from(number).unwrap_or(usize::MAX);
        let (mut rows, mut values) = (FoundRows::new(), FragmentValues::new());
        for found in self.rows.chunk_by(|a, b| a.0.fragment() == b.0.fragment()) {
            let Some((first, ..)) = found.first() else { continue };
            let FragmentId(fragment) = first.fragment();
            let at: Vec<_> = found.iter().map(|(_, piece, at)| (number(*piece), number(*at))).collect();
            let array = interleave(&pieces, &at);
            values.insert(fragment, array.map_err(|e| Error::internal(format!("values of an index: {e}")))?);
            let offsets = RoaringBitmap::from_sorted_iter(found.iter().map(|(row, ..)| row.offset()));
            rows.insert(fragment, offsets.map_err(|e| Error::internal(format!("sorted rows: {e}")))?);
        }
        Ok((rows, values))
    }
}

#[cfg(test)]
mod tests {
    use arrow_array::Int64Array;

    use super::*;

    fn address(fragment: u32, offset: u32) -> RowAddress {
        RowAddress::new(FragmentId(fragment), offset)
    }

    #[test]
    fn values_are_those_of_their_rows() {
        let pieces: [ArrayRef; 2] = [
            Arc::new(Int64Array::from(vec![Some(10), None, Some(12)])),
            Arc::new(Int64Array::from(vec![20, 21])),
        ];
        let mut found = FoundValues::default();
        for (row, piece, at) in
            [(address(2, 7), 0, 1), (address(0, 9), 0, 2), (address(0, 3), 1, 0), (address(0, 9), 0, 2)]
        {
            found.add(row, &pieces[piece], at).unwrap();
        }
        let (rows, values) = found.by_fragment().unwrap();
        assert_eq!(rows[&0].iter().collect::<Vec<_>>(), [3, 9]);
        let of_first: ArrayRef = Arc::new(Int64Array::from(vec![20, 12]));
        assert_eq!(&values[&0], &of_first);
        assert_eq!((rows[&2].iter().collect::<Vec<_>>(), values[&2].null_count()), (vec![7], 1));
    }
}
