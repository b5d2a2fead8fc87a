//! The first rows of an order, as far as a B-tree knows them: what a scan looks at of which only the first rows are wanted.
//!
//! The values of a B-tree are walked from one end, until so many live rows are found, with all rows that have the last
//! value: equal rows keep the order of the table. Every other row that the index covers lies behind them. What it does not
//! cover is scanned, and who sorts the rows sorts these.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fmt;
use std::sync::Arc;

use arrow_schema::DataType;
use pennon_core::deletion::DeletionVector;
use pennon_core::manifest::IndexMetadata;
use pennon_core::rows::RowRanges;
use pennon_core::schema::Field;
use pennon_core::{Error, Result};
use pennon_index::{IndexKind, PageRun, ScalarIndex, is_ordered};
use roaring::RoaringBitmap;
use uuid::Uuid;

use super::index_matches::{FoundRows, IndexMatches, live_rows};
use super::index_rows::addresses_in;
use super::index_values::FoundValues;
use crate::indices::{
    SearchError, Segment, all_segments, check_versions, is_about_the_index, pass_over, pass_over_all,
};
use crate::json::has_json;
use crate::runtime::blocking;
use crate::versions::snapshot::Snapshot;

/// A share of the covered rows, at most so many of which are found this way: sorting all others takes as long.
const ROWS_PER_ROW: u64 = 8;

/// Of more rows no values are held.
const MOST_VALUES: u64 = 1 << 20;

/// The first rows of an order: others may be left out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FirstRows {
    /// The column with the values that the rows are ordered by.
    pub column: String,
    /// The largest values first.
    pub descending: bool,
    /// Nulls before all values.
    pub nulls_first: bool,
    /// How many rows.
    pub rows: u64,
}

impl fmt::Display for FirstRows {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let direction = if self.descending { " descending" } else { "" };
        let nulls = if self.nulls_first { "first" } else { "last" };
        write!(f, "first {} rows by {}{direction}, nulls {nulls}", self.rows, self.column)
    }
}

/// The first rows of an order among those that a filter matches, if it has one, in some fragments: others that match may be
/// among them. `matching`: what indices say of the filter. `None` if no index knows the order, or if what `matching` says
/// is not exact, or if the index cannot be read: that is an error if `strict`. `values`: the field of the order, if its
/// values shall come with the rows.
pub(super) async fn first_rows(
    snapshot: &Arc<Snapshot>,
    first: &FirstRows,
    scope: RoaringBitmap,
    matching: Option<IndexMatches>,
    values: Option<Field>,
    strict: bool,
) -> Result<Option<IndexMatches>> {
    if matching.as_ref().is_some_and(|matching| !matching.is_exact) {
        return Ok(matching);
    }
    let entries = snapshot.indices().await?;
    let (snapshot, first) = (Arc::clone(snapshot), first.clone());
    if let Some(field) = snapshot.manifest.schema.field(&first.column).filter(|_| strict) {
        check_versions(&entries, &[field.id])?;
    }
    blocking(move || match find(&snapshot, &entries, &first, &scope, matching.as_ref(), values.as_ref()) {
        Err(SearchError { segment, error }) if !strict && is_about_the_index(&error) => {
            match segment {
                Some(uuid) => pass_over(&snapshot, name_of(&entries, uuid), uuid, &error),
                None => pass_over_all(&snapshot, &error),
            }
            Ok(matching)
        }
        Ok(Some(found)) => Ok(Some(match &matching {
            Some(matching) => matching.replaced_by(found),
            None => found,
        })),
        Ok(None) => Ok(matching),
        Err(SearchError { error, .. }) => Err(error),
    })
    .await
}

fn name_of(entries: &[IndexMetadata], uuid: Uuid) -> &str {
    entries.iter().find(|entry| entry.uuid == uuid).map_or("", |entry| &entry.name)
}

/// Which index finds the first rows of an order, and whether with their values, as text; `None` if none does. Reads no
/// index.
pub(super) async fn explain(
    snapshot: &Arc<Snapshot>,
    first: &FirstRows,
    with_values: bool,
) -> Result<Option<String>> {
    if snapshot.manifest.index_section.is_none() {
        return Ok(None);
    }
    let entries = snapshot.indices().await?;
    let (snapshot, first) = (Arc::clone(snapshot), first.clone());
    match blocking(move || described(&snapshot, &entries, &first)).await {
        Err(error) if is_about_the_index(&error) => Ok(None),
        Ok(Some(found)) if with_values => Ok(Some(format!("{found}, with their values"))),
        described => described,
    }
}

/// The segments of the B-tree over a column that covers most; none if it would not pay.
fn chosen(snapshot: &Snapshot, entries: &[IndexMetadata], first: &FirstRows) -> Result<Vec<Segment>> {
    let field = snapshot.manifest.schema.field(&first.column);
    let Some(field) = field.filter(|field| is_ordered(&field.data_type()) && !has_json(&field.to_arrow()))
    else {
        return Ok(Vec::new());
    };
    let mut by_name: BTreeMap<String, Vec<Segment>> = BTreeMap::new();
    for segment in all_segments(snapshot, entries)?.iter() {
        if segment.field == field.id && segment.kind == IndexKind::BTree {
            by_name.entry(segment.name.clone()).or_default().push(segment.clone());
        }
    }
    let covered =
        |segments: &Vec<Segment>| segments.iter().map(|s| live_rows(&snapshot.manifest, &s.covered)).sum();
    let best = by_name.into_values().max_by_key(|segments| -> u64 { covered(segments) }).unwrap_or_default();
    let pays = first.rows.saturating_mul(ROWS_PER_ROW) <= covered(&best);
    Ok(if pays { best } else { Vec::new() })
}

fn described(snapshot: &Snapshot, entries: &[IndexMetadata], first: &FirstRows) -> Result<Option<String>> {
    let segments = chosen(snapshot, entries, first)?;
    let Some(segment) = segments.first() else { return Ok(None) };
    Ok(Some(format!("{first}: {} ({})", segment.name, segment.kind.name())))
}

/// Rows of some fragments, the first rows of an order among them; `matching`: the only rows that count, those of fragments
/// that it does not cover left out. `None` if no index knows the order. Blocks on the store.
fn find(
    snapshot: &Arc<Snapshot>,
    entries: &[IndexMetadata],
    first: &FirstRows,
    scope: &RoaringBitmap,
    matching: Option<&IndexMatches>,
    values: Option<&Field>,
) -> Result<Option<IndexMatches>, SearchError> {
    let segments = chosen(snapshot, entries, first)?;
    let data_type = values.map(Field::data_type);
    let mut values = data_type.as_ref().map(|_| FoundValues::default());
    let mut found = FoundRows::new();
    let mut covered = RoaringBitmap::new();
    for segment in &segments {
        let mut fragments = &segment.covered & scope;
        if let Some(matching) = matching {
            fragments &= matching.covered();
        }
        let mut walk = Walk {
            snapshot,
            segment,
            matching,
            deletions: BTreeMap::new(),
            fragments,
            wanted: first.rows,
            found: FoundRows::new(),
            count: 0,
            values: &mut values,
        };
        walk.run(first, data_type.as_ref()).map_err(|error| segment.failed(error))?;
        covered |= walk.fragments;
        for (id, rows) in walk.found {
            *found.entry(id).or_default() |= rows;
        }
    }
    let Some(segment) = segments.first() else { return Ok(None) };
    let description = format!("{} ({})", segment.name, segment.kind.name());
    if covered.is_empty() {
        return Ok(None);
    }
    let found = IndexMatches::new(covered, found, description);
    Ok(Some(match values {
        Some(values) => found.with_values(values.by_fragment()?.1),
        None => found,
    }))
}

/// The walk over the values of a segment.
struct Walk<'a> {
    snapshot: &'a Arc<Snapshot>,
    segment: &'a Segment,
    matching: Option<&'a IndexMatches>,
    /// Deleted and, of a filter, matching rows of the fragments that were met.
    deletions: BTreeMap<u32, (Arc<DeletionVector>, Option<RowRanges>)>,
    fragments: RoaringBitmap,
    wanted: u64,
    found: FoundRows,
    count: u64,
    /// The values of the rows that were found, also by other segments, if they are wanted.
    values: &'a mut Option<FoundValues>,
}

impl Walk<'_> {
    /// `data_type`: of the values, if they are wanted.
    fn run(&mut self, first: &FirstRows, data_type: Option<&DataType>) -> Result<()> {
        let (snapshot, segment) = (self.snapshot, self.segment);
        let index = segment.open(snapshot)?;
        let ScalarIndex::BTree(index) = index.as_ref() else {
            return Err(Error::internal("an order of an index that is not a B-tree"));
        };
        if data_type != Some(index.data_type()) {
            *self.values = None;
        }
        segment.with_pages(snapshot, |pages| {
            let mut run = |run: &PageRun, is_new: bool| -> Result<bool> {
                if is_new && self.count >= self.wanted {
                    return Ok(false);
                }
                self.add(run)?;
                Ok(true)
            };
            if first.nulls_first && !index.walk_nulls(pages, &mut run)? {
                return Ok(());
            }
            if !index.walk(first.descending, pages, &mut run)? || first.nulls_first {
                return Ok(());
            }
            index.walk_nulls(pages, &mut run).map(drop)
        })
    }

    /// Adds the rows that count.
    fn add(&mut self, run: &PageRun) -> Result<()> {
        let (snapshot, rows) = (self.snapshot, run.rows());
        let addresses = addresses_in(snapshot, self.segment, rows.iter().copied(), &self.fragments)?;
        for (at, address) in (run.start()..).zip(addresses) {
            let Some(address) = address else { continue };
            let (id, offset) = (address.fragment(), address.offset());
            let (deleted, matching) = match self.deletions.entry(id.0) {
                Entry::Occupied(entry) => entry.into_mut(),
                Entry::Vacant(entry) => {
                    let fragment = snapshot.manifest.require_fragment(id)?;
                    let deleted = snapshot.deletion_vector_blocking(fragment)?;
                    entry.insert((deleted, self.matching.and_then(|matching| matching.of(id))))
                }
            };
            let is_live = !deleted.contains(offset);
            if is_live && matching.as_ref().is_none_or(|rows| rows.contains(u64::from(offset))) {
                self.count += u64::from(self.found.entry(id.0).or_default().insert(offset));
                if let Some(values) = self.values.as_mut() {
                    values.add(address, run.values(), at)?;
                }
            }
        }
        if self.count > MOST_VALUES {
            *self.values = None;
        }
        Ok(())
    }
}
