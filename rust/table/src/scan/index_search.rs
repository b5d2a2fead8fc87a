//! What indices say of a filter: the rows of covered fragments for which it is true, or may be. Fragments that not all of
//! the indices cover are left to the scan.

use std::borrow::Cow;
use std::sync::Arc;

use pennon_core::manifest::IndexMetadata;
use pennon_core::schema::Field;
use pennon_core::{Error, FragmentId, Result, RowId};
use pennon_index::{Answer, Precision, RowSet};
use roaring::RoaringBitmap;

use super::brief;
use super::find_ascending_ids;
use super::index_matches::{FoundRows, IndexMatches, live_rows};
use super::index_plan::{IndexSearch, Planner, add_fields};
use super::index_rows::physical_rows;
use super::index_values;
use crate::expr::{Condition, Expression};
use crate::indices::{
    SearchError, Segment, all_segments, check_versions, is_about_the_index, pass_over, pass_over_all,
};
use crate::runtime::blocking_unless;
use crate::versions::snapshot::Snapshot;

/// Of so many rows that are read one after another, indices may find one to be read by itself.
const ROWS_PER_MATCH: u64 = 40;

/// What a search found.
struct SearchRows {
    rows: FoundRows,
    /// Whether there are no others among them: files may be less precise than their kind.
    is_exact: bool,
}

/// Searches the indices of a version; `None` if they have nothing to say, or if they would find so many rows that reading
/// them all costs less, unless they `must` say. Values of the field `values` come with the rows if these are all that the
/// filter is true for and an index has them. A segment that cannot be read is passed over, unless `strict`: that is an error
/// then. `on_start` is called when files of indices are read next, with the fragments whose values come with their rows.
pub(super) async fn search(
    snapshot: &Arc<Snapshot>,
    filter: &Expression,
    values: Option<Field>,
    must: bool,
    strict: bool,
    on_start: impl Fn(RoaringBitmap) + Send + 'static,
) -> Result<Option<IndexMatches>> {
    let are_few = move |found, covered| must || are_few(found, covered);
    let pays = move |_, with_values: Option<&RoaringBitmap>| {
        on_start(with_values.cloned().unwrap_or_default());
        true
    };
    let values = values.filter(|_| filter.condition_is_exact());
    let found = find(snapshot, filter.condition(), values, strict, pays, are_few).await?;
    Ok(found.map(|found| found.exact_if(filter.condition_is_exact())))
}

/// Whether finding so many rows of those that indices cover costs less than looking at all of these.
fn are_few(found_rows: u64, covered_rows: u64) -> bool {
    found_rows.saturating_mul(ROWS_PER_MATCH) <= covered_rows
}

/// As [`search`], of a condition, if a search among so many covered rows pays, and if it finds few of them.
pub(crate) async fn matches_of(
    snapshot: &Arc<Snapshot>,
    condition: &Condition,
    strict: bool,
    pays: impl Fn(u64) -> bool + Send + 'static,
    are_few: impl Fn(u64, u64) -> bool + Send + 'static,
) -> Result<Option<IndexMatches>> {
    find(snapshot, condition, None, strict, move |rows, _| pays(rows), are_few).await
}

async fn find(
    snapshot: &Arc<Snapshot>,
    condition: &Condition,
    values: Option<Field>,
    strict: bool,
    pays: impl Fn(u64, Option<&RoaringBitmap>) -> bool + Send + 'static,
    are_few: impl Fn(u64, u64) -> bool + Send + 'static,
) -> Result<Option<IndexMatches>> {
    if snapshot.manifest.index_section.is_none() || *condition == Condition::Any {
        return Ok(None);
    }
    let entries = snapshot.indices().await?;
    let (snapshot, condition) = (Arc::clone(snapshot), condition.clone());
    let is_brief = is_brief(&snapshot, &entries, &condition);
    blocking_unless(is_brief, move || {
        match search_entries(&snapshot, &entries, &condition, values.as_ref(), strict, pays, are_few) {
            Err(error) if !strict && is_about_the_index(&error) => {
                pass_over_all(&snapshot, &error);
                Ok(None)
            }
            found => found,
        }
    })
    .await
}

/// Whether a search needs no other thread: for few values that have few rows, by B-trees that are open or quickly opened.
fn is_brief(snapshot: &Snapshot, entries: &[IndexMetadata], condition: &Condition) -> bool {
    if !brief::is_brief_lookup(snapshot, entries, condition.value_count()) {
        return false;
    }
    let Ok(segments) = all_segments(snapshot, entries) else { return false };
    let planner = Planner { schema: &snapshot.manifest.schema, segments: &segments };
    planner.plan(condition).is_some_and(|(search, _)| search.is_brief(snapshot))
}

fn search_entries(
    snapshot: &Arc<Snapshot>,
    entries: &[IndexMetadata],
    condition: &Condition,
    values: Option<&Field>,
    strict: bool,
    pays: impl Fn(u64, Option<&RoaringBitmap>) -> bool,
    are_few: impl Fn(u64, u64) -> bool,
) -> Result<Option<IndexMatches>> {
    if strict {
        let mut fields = Vec::new();
        add_fields(&snapshot.manifest.schema, condition, &mut fields);
        check_versions(entries, &fields)?;
    }
    let known = all_segments(snapshot, entries)?;
    let mut segments = Cow::Borrowed(known.as_slice());
    let mut unreadable = RoaringBitmap::new();
    loop {
        let SearchError { segment, error } =
            match search_segments(snapshot, &segments, condition, values, &pays, &are_few) {
                Ok(found) => return Ok(found.map(|found| found.with_unreadable(unreadable))),
                Err(failed) => failed,
            };
        // Without it others may answer.
        match segments.iter().position(|s| Some(s.uuid) == segment).filter(|_| !strict) {
            Some(at) => {
                let segment = segments.to_mut().remove(at);
                pass_over(snapshot, &segment.name, segment.uuid, &error);
                unreadable |= segment.covered;
            }
            None => return Err(error),
        }
    }
}

fn search_segments(
    snapshot: &Arc<Snapshot>,
    segments: &[Segment],
    condition: &Condition,
    values: Option<&Field>,
    pays: impl Fn(u64, Option<&RoaringBitmap>) -> bool,
    are_few: impl Fn(u64, u64) -> bool,
) -> Result<Option<IndexMatches>, SearchError> {
    let planner = Planner { schema: &snapshot.manifest.schema, segments };
    let Some((search, is_exact)) = planner.plan(condition) else { return Ok(None) };
    let covered = search.covered();
    let covered_rows = live_rows(&snapshot.manifest, &covered);
    let values = values.filter(|field| is_exact && search.has_values(field));
    if covered.is_empty()
        || !pays(covered_rows, values.map(|_| &covered))
        || !are_few(search.rows_at_least(snapshot)?, covered_rows)
    {
        return Ok(None);
    }
    if let (Some(field), IndexSearch::Test(tests, segments)) = (values, &search)
        && let Some((rows, values)) = index_values::search_values(snapshot, segments, tests, &covered, field)?
    {
        return Ok(Some(IndexMatches::new(covered, rows, search.to_string()).with_values(values)));
    }
    let found = search.run(snapshot, &covered)?;
    let is_exact = is_exact && found.is_exact;
    Ok(Some(IndexMatches::new(covered, found.rows, search.to_string()).exact_if(is_exact)))
}

impl IndexSearch<'_> {
    /// The rows of some fragments that it covers.
    fn run(&self, snapshot: &Arc<Snapshot>, scope: &RoaringBitmap) -> Result<SearchRows, SearchError> {
        match self {
            Self::All(parts) => {
                let mut scope = scope.clone();
                let (mut all, mut is_exact): (Option<FoundRows>, _) = (None, true);
                for part in parts {
                    let SearchRows { rows: found, is_exact: of_part } = part.run(snapshot, &scope)?;
                    is_exact &= of_part;
                    let both = match all {
                        None => found,
                        Some(before) => before
                            .into_iter()
                            .filter_map(|(id, rows)| Some((id, rows & found.get(&id)?)))
                            .filter(|(_, rows)| !rows.is_empty())
                            .collect(),
                    };
                    scope = both.keys().copied().collect();
                    all = Some(both);
                    if scope.is_empty() {
                        break;
                    }
                }
                Ok(SearchRows { rows: all.unwrap_or_default(), is_exact })
            }
            Self::Either(parts) => {
                let mut all = SearchRows { rows: FoundRows::new(), is_exact: true };
                for part in parts {
                    let found = part.run(snapshot, scope)?;
                    all.is_exact &= found.is_exact;
                    for (id, rows) in found.rows {
                        *all.rows.entry(id).or_default() |= rows;
                    }
                }
                Ok(all)
            }
            Self::Test(tests, segments) => {
                let mut all = SearchRows { rows: FoundRows::new(), is_exact: true };
                for segment in segments {
                    let fragments = &segment.covered & scope;
                    if fragments.is_empty() {
                        continue;
                    }
                    let answer = segment.search(snapshot, tests).map_err(|error| segment.failed(error))?;
                    let answer = answer.ok_or_else(|| {
                        Error::unsupported(format!(
                            "index `{}` cannot answer what it was chosen for",
                            segment.name
                        ))
                    })?;
                    all.is_exact &= answer.precision == Precision::Exact;
                    // A row counts only where this segment covers it: an id may have moved to where another one does.
                    for (id, rows) in by_fragment(snapshot, segment, answer, &fragments)? {
                        *all.rows.entry(id).or_default() |= rows;
                    }
                }
                Ok(all)
            }
        }
    }
}

/// The rows of an answer in some fragments, by their addresses.
fn by_fragment(
    snapshot: &Arc<Snapshot>,
    segment: &Segment,
    answer: Answer,
    fragments: &RoaringBitmap,
) -> Result<FoundRows> {
    let physical = |id: u32| u32::try_from(physical_rows(snapshot, FragmentId(id))).unwrap_or(u32::MAX);
    let mut rows: FoundRows = if segment.has_addresses(snapshot) {
        let named = answer.rows.uppers().filter(|id| fragments.contains(*id));
        named.map(|id| (id, answer.rows.below(id, physical(id)))).collect()
    } else {
        let mut rows = rows_with_ids(snapshot, &answer.rows)?;
        rows.retain(|id, _| fragments.contains(*id));
        rows
    };
    if !answer.is_complement {
        return Ok(rows);
    }
    let others = |id: u32| {
        let mut all = RoaringBitmap::new();
        all.insert_range(0..physical(id));
        (id, all - rows.remove(&id).unwrap_or_default())
    };
    Ok(fragments.iter().map(others).collect())
}

/// The live rows with these ids.
fn rows_with_ids(snapshot: &Arc<Snapshot>, ids: &RowSet) -> Result<FoundRows> {
    let every = || Error::unsupported("an index that has all row ids of a part");
    if ids.is_empty() {
        return Ok(FoundRows::new());
    }
    let mut found = find_ascending_ids(snapshot, ids.iter().ok_or_else(every)?.map(RowId))?;
    if !found.is_sorted() {
        found.sort_unstable();
    }
    let mut rows = FoundRows::new();
    for of_fragment in found.chunk_by(|a, b| a.fragment() == b.fragment()) {
        let Some(first) = of_fragment.first() else { continue };
        let offsets = RoaringBitmap::from_sorted_iter(of_fragment.iter().map(|row| row.offset()));
        let duplicate = |_| Error::internal(format!("a row of fragment {} has two ids", first.fragment()));
        rows.insert(first.fragment().0, offsets.map_err(duplicate)?);
    }
    Ok(rows)
}
