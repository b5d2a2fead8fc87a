//! The rows of covered fragments that indices found for a filter, and their values if these came with them.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow_array::{Array, ArrayRef, UInt64Array};
use arrow_select::take::take;
use pennon_core::lengths::to_u64;
use pennon_core::manifest::Manifest;
use pennon_core::rows::RowRanges;
use pennon_core::{Error, FragmentId, Result};
use roaring::RoaringBitmap;

/// Rows by fragment.
pub(super) type FoundRows = BTreeMap<u32, RoaringBitmap>;

/// Values by fragment: those of the rows that were found there, in the order of these.
pub(super) type FragmentValues = BTreeMap<u32, ArrayRef>;

/// What indices say of a filter.
#[derive(Debug, Clone)]
pub(crate) struct IndexMatches {
    /// Whether the filter is true for all of the rows.
    pub(super) is_exact: bool,
    covered: RoaringBitmap,
    /// Fragments that segments cover whose files cannot be read.
    unreadable: RoaringBitmap,
    /// Physical rows, of covered fragments that have some.
    rows: FoundRows,
    /// The values of the rows, of some of the fragments, if they were asked for.
    values: FragmentValues,
    /// Which indices found them.
    description: String,
}

impl IndexMatches {
    /// The rows of a fragment; `None` if the indices do not cover it.
    pub(super) fn of(&self, fragment: FragmentId) -> Option<RowRanges> {
        self.bitmap_of(fragment).map(|rows| rows.map_or_else(RowRanges::new, ranges))
    }

    /// The rows of a fragment, if it has some; `None` if the indices do not cover it.
    pub(super) fn bitmap_of(&self, fragment: FragmentId) -> Option<Option<&RoaringBitmap>> {
        self.covered.contains(fragment.0).then(|| self.rows.get(&fragment.0))
    }

    /// Whether an index would say more of a fragment if its files could be read.
    pub(super) fn is_unreadable(&self, fragment: FragmentId) -> bool {
        self.unreadable.contains(fragment.0)
    }

    /// Exactly these rows of the fragments that they cover, from what is described.
    pub(super) fn new(covered: RoaringBitmap, mut rows: FoundRows, description: String) -> Self {
        rows.retain(|_, rows| !rows.is_empty());
        let (unreadable, values) = (RoaringBitmap::new(), FragmentValues::new());
        Self { is_exact: true, covered, unreadable, rows, values, description }
    }

    /// The same where files of segments that cover these fragments cannot be read.
    pub(super) fn with_unreadable(self, unreadable: RoaringBitmap) -> Self {
        Self { unreadable, ..self }
    }

    /// The same, of which the filter is true for all rows only if this holds too.
    pub(super) fn exact_if(self, condition: bool) -> Self {
        Self { is_exact: self.is_exact && condition, ..self }
    }

    /// With values of the rows.
    pub(super) fn with_values(self, values: FragmentValues) -> Self {
        Self { values, ..self }
    }

    /// Whether the values of the rows of a fragment came with them.
    pub(super) fn has_values(&self, fragment: FragmentId) -> bool {
        self.values.contains_key(&fragment.0)
    }

    /// The values of some of the rows of a fragment; `None` if they did not come with the rows.
    pub(super) fn values_of(&self, fragment: FragmentId, wanted: &RowRanges) -> Result<Option<ArrayRef>> {
        let (Some(rows), Some(values)) = (self.rows.get(&fragment.0), self.values.get(&fragment.0)) else {
            return Ok(None);
        };
        values_of(rows, values, wanted).map(Some)
    }

    /// The fragments that they cover.
    pub(super) fn covered(&self) -> &RoaringBitmap {
        &self.covered
    }

    /// These rows in the fragments that others cover, and otherwise their own.
    pub(super) fn replaced_by(&self, others: Self) -> Self {
        let own = self.rows.iter().filter(|(id, _)| !others.covered.contains(**id));
        let mut rows: FoundRows = own.map(|(id, rows)| (*id, rows.clone())).collect();
        rows.extend(others.rows);
        let own = self.values.iter().filter(|(id, _)| !others.covered.contains(**id));
        let mut values: FragmentValues = own.map(|(id, values)| (*id, Arc::clone(values))).collect();
        values.extend(others.values);
        Self {
            is_exact: self.is_exact,
            covered: &self.covered | others.covered,
            unreadable: self.unreadable.clone(),
            rows,
            values,
            description: others.description,
        }
    }

    /// How many rows they found, deleted ones too.
    pub(crate) fn found_rows(&self) -> u64 {
        self.rows.values().map(RoaringBitmap::len).sum()
    }

    /// Whether they found at most so many rows, deleted ones too.
    pub(super) fn are_at_most(&self, rows: u64) -> bool {
        // None of the bitmaps is empty, so few are looked at.
        let mut left = Some(rows);
        self.rows.values().all(|rows| {
            left = left.and_then(|left| left.checked_sub(rows.len()));
            left.is_some()
        })
    }

    /// How many live rows they cover.
    pub(crate) fn covered_rows(&self, manifest: &Manifest) -> u64 {
        live_rows(manifest, &self.covered)
    }

    /// Which indices they are.
    pub(crate) fn description(&self) -> &str {
        &self.description
    }
}

pub(super) fn live_rows(manifest: &Manifest, fragments: &RoaringBitmap) -> u64 {
    let summaries = fragments.iter().filter_map(|id| manifest.fragments.summary(FragmentId(id)));
    summaries.map(|fragment| fragment.live_rows()).sum()
}

fn ranges(rows: &RoaringBitmap) -> RowRanges {
    let (mut found, mut rows) = (RowRanges::new(), rows.iter());
    let mut add = |first: u32, last: u32| {
        let end = u64::from(last) + 1;
        found.insert(u64::from(first)..end);
        end
    };
    let mut end = None;
    while let Some(row) = rows.next() {
        let in_a_run = end == Some(u64::from(row));
        end = Some(add(row, row));
        // To look for the end of a run takes longer than to see that there is none.
        if in_a_run && let Some(rest) = rows.next_range() {
            end = Some(add(*rest.start(), *rest.end()));
        }
    }
    found
}

/// Of the values of some rows those of the wanted rows, which are among them.
fn values_of(rows: &RoaringBitmap, values: &ArrayRef, wanted: &RowRanges) -> Result<ArrayRef> {
    if wanted.count() == to_u64(values.len()) {
        return Ok(Arc::clone(values));
    }
    let mut positions = Vec::with_capacity(usize::try_from(wanted.count()).unwrap_or(0));
    for range in wanted.clone() {
        let start = u32::try_from(range.start).ok().filter(|start| rows.contains(*start));
        let start =
            start.ok_or_else(|| Error::internal("a row without the value that an index has of it"))?;
        let before = rows.rank(start) - 1;
        positions.extend(before..before + (range.end - range.start));
    }
    match (positions.first(), positions.last()) {
        (Some(first), Some(last)) if last - first < to_u64(positions.len()) => {
            let first = usize::try_from(*first).unwrap_or(usize::MAX);
            Ok(values.slice(first, positions.len()))
        }
        _ => take(values.as_ref(), &UInt64Array::from(positions), None)
            .map_err(|e| Error::internal(format!("values of an index: {e}"))),
    }
}

#[cfg(test)]
mod tests {
    use arrow_array::Int64Array;
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn ranges_are_the_rows(runs in prop::collection::vec((0_u32..200_000, 1_u32..5_000), 0..40), step in 1_u32..4) {
            let rows: RoaringBitmap =
                runs.iter().flat_map(|(start, count)| (*start..start + count).step_by(step as usize)).collect();
            let expected: RowRanges = rows.iter().map(u64::from).collect();
            prop_assert_eq!(ranges(&rows), expected);
        }
    }

    #[test]
    fn values_of_few_of_the_rows() {
        let rows: RoaringBitmap = [1, 2, 3, 9, 70_000].into_iter().collect();
        let values: ArrayRef = Arc::new(Int64Array::from(vec![1, 2, 3, 9, 70_000]));
        let wanted = |ranges: &[std::ops::Range<u64>]| ranges.iter().cloned().collect::<RowRanges>();
        for ranges in [&[1..4, 9..10, 70_000..70_001][..], &[2..4], &[2..3, 70_000..70_001], &[1..2, 3..4]] {
            let found = values_of(&rows, &values, &wanted(ranges)).unwrap();
            let expected: ArrayRef =
                Arc::new(ranges.iter().cloned().flatten().map(u64::cast_signed).collect::<Int64Array>());
            assert_eq!(&found, &expected);
        }
        assert!(values_of(&rows, &values, &wanted(&[4..5])).is_err());
    }
}
