//! What indices say of a filter: the rows of covered fragments for which it is true, or may be.
//!
//! The tests of a filter's condition are answered by the best index of their column and combined. Fragments that not all
//! of these indices cover are left to the scan.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use pennon_core::manifest::IndexMetadata;
use pennon_core::schema::{Field, Schema};
use pennon_core::{Error, FieldId, FragmentId, Result, RowId};
use pennon_index::{Answer, IndexKind, Precision, RowSet, ValueTest};
use roaring::RoaringBitmap;

use super::brief::{self, is_brief_opening};
use super::find_ascending_ids;
use super::index_matches::{FragmentRows, IndexMatches, live_rows};
use super::index_values;
use crate::expr::{Condition, Expression};
use crate::indices::{
    SearchError, Segment, check_versions, is_about_the_index, pass_over, pass_over_all, segments,
};
use crate::runtime::{blocking, blocking_unless};
use crate::versions::snapshot::Snapshot;

/// How indices answer a filter. Printed, on one line.
#[derive(Debug)]
enum Search<'a> {
    All(Vec<Search<'a>>),
    Either(Vec<Search<'a>>),
    /// Tests of a column, all of which must hold, by the segments of one index.
    Test(Vec<&'a ValueTest>, Vec<&'a Segment>),
}

/// Of so many rows that are read one after another, indices may find one to be read by itself.
const ROWS_PER_MATCH: u64 = 40;

/// What a search found.
struct FoundRows {
    rows: FragmentRows,
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

/// How indices answer a filter, as text; `None` if they do not. Searches none of them. `values`: as for [`search`].
pub(super) async fn explain(
    snapshot: &Arc<Snapshot>,
    filter: &Expression,
    values: Option<Field>,
) -> Result<Option<String>> {
    let Some(plan) = plan_of(snapshot, filter.condition(), values).await? else { return Ok(None) };
    let then = match (plan.is_exact && filter.condition_is_exact(), plan.has_values) {
        (true, true) => "exact, with their values",
        (true, false) => "exact",
        (false, _) => "then the filter",
    };
    Ok(Some(format!("{plan}, {then}")))
}

/// How indices answer a condition. Printed, on one line.
#[derive(Debug)]
pub(crate) struct IndexPlan {
    description: String,
    fragments: (u64, usize),
    /// Live rows that they cover.
    pub(crate) covered_rows: u64,
    is_exact: bool,
    has_values: bool,
}

impl fmt::Display for IndexPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (covered, all) = self.fragments;
        write!(f, "{}, for {covered} of {all} fragments", self.description)
    }
}

/// How indices answer a condition; `None` if they do not. Searches none of them.
pub(crate) async fn explain_condition(
    snapshot: &Arc<Snapshot>,
    condition: &Condition,
) -> Result<Option<IndexPlan>> {
    plan_of(snapshot, condition, None).await
}

async fn plan_of(
    snapshot: &Arc<Snapshot>,
    condition: &Condition,
    values: Option<Field>,
) -> Result<Option<IndexPlan>> {
    if snapshot.manifest.index_section.is_none() || *condition == Condition::Any {
        return Ok(None);
    }
    let entries = snapshot.indices().await?;
    let (snapshot, condition) = (Arc::clone(snapshot), condition.clone());
    let described = blocking(move || {
        let segments = segments(&snapshot, &entries)?;
        let planner = Planner { schema: &snapshot.manifest.schema, segments: &segments };
        let Some((search, is_exact)) = planner.plan(&condition) else { return Ok(None) };
        let covered = search.covered();
        let plan = IndexPlan {
            description: search.to_string(),
            fragments: (covered.len(), snapshot.manifest.fragments.len()),
            covered_rows: live_rows(&snapshot.manifest, &covered),
            is_exact,
            has_values: values.is_some_and(|field| search.has_values(&field)),
        };
        Ok((!covered.is_empty()).then_some(plan))
    });
    match described.await {
        Err(error) if is_about_the_index(&error) => Ok(None),
        described => described,
    }
}

/// Whether a search needs no other thread: for few values that have few rows, by B-trees that are open or quickly opened.
fn is_brief(snapshot: &Snapshot, entries: &[IndexMetadata], condition: &Condition) -> bool {
    if !brief::is_brief_lookup(snapshot, entries, condition.value_count()) {
        return false;
    }
    let Ok(segments) = segments(snapshot, entries) else { return false };
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
    let mut segments = segments(snapshot, entries)?;
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
                let segment = segments.remove(at);
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
    if let (Some(field), Search::Test(tests, segments)) = (values, &search)
        && let Some((rows, values)) = index_values::search_values(snapshot, segments, tests, &covered, field)?
    {
        return Ok(Some(IndexMatches::new(covered, rows, search.to_string()).with_values(values)));
    }
    let found = search.run(snapshot, &covered)?;
    let is_exact = is_exact && found.is_exact;
    Ok(Some(IndexMatches::new(covered, found.rows, search.to_string()).exact_if(is_exact)))
}

/// Adds the fields that a condition tests.
fn add_fields(schema: &Schema, condition: &Condition, fields: &mut Vec<FieldId>) {
    match condition {
        Condition::Any => {}
        Condition::All(parts) | Condition::Either(parts) => {
            parts.iter().for_each(|part| add_fields(schema, part, fields));
        }
        Condition::Test(path, _) => fields.extend(column_at(schema, path).map(|(field, _)| field)),
    }
}

struct Planner<'a> {
    schema: &'a Schema,
    segments: &'a [Segment],
}

impl<'a> Planner<'a> {
    /// How to answer a condition, and whether the answer is exact; `None` if indices cannot.
    fn plan(&self, condition: &'a Condition) -> Option<(Search<'a>, bool)> {
        match condition {
            Condition::Any => None,
            Condition::All(parts) => {
                let planned: Vec<_> = parts.iter().filter_map(|part| self.plan(part)).collect();
                let mut is_exact = planned.len() == parts.len() && planned.iter().all(|(_, exact)| *exact);
                let planned = together(planned);
                let most =
                    planned.iter().map(|(search, _)| search.covered()).max_by_key(RoaringBitmap::len)?;
                let count = planned.len();
                // An index over fewer fragments would leave more to the scan than it spares.
                let kept = planned.into_iter().map(|(search, _)| search);
                let mut kept: Vec<_> = kept.filter(|search| most.is_subset(&search.covered())).collect();
                is_exact &= kept.len() == count;
                let search = if kept.len() > 1 { Search::All(kept) } else { kept.pop()? };
                Some((search, is_exact))
            }
            Condition::Either(parts) => {
                let planned: Vec<_> = parts.iter().map(|part| self.plan(part)).collect::<Option<_>>()?;
                let is_exact = planned.iter().all(|(_, exact)| *exact);
                Some((Search::Either(planned.into_iter().map(|(search, _)| search).collect()), is_exact))
            }
            Condition::Test(path, test) => self.test(path, test),
        }
    }

    /// The best index of a column: one that is exact before one that is not, then the one that covers most.
    fn test(&self, path: &[String], test: &'a ValueTest) -> Option<(Search<'a>, bool)> {
        let (field, key) = column_at(self.schema, path)?;
        let mut by_name: BTreeMap<&str, (Precision, Vec<&Segment>)> = BTreeMap::new();
        for segment in self.segments.iter().filter(|s| s.field == field && s.key.as_deref() == key) {
            let Some(precision) = segment.precision(test) else { continue };
            let (worst, all) = by_name.entry(&segment.name).or_insert((Precision::Exact, Vec::new()));
            *worst = precision.min(*worst);
            all.push(segment);
        }
        let covered = |all: &[&Segment]| all.iter().map(|s| s.covered.len()).sum::<u64>();
        let (precision, all) =
            by_name.into_values().max_by_key(|(precision, all)| (*precision, covered(all)))?;
        Some((Search::Test(vec![test], all), precision == Precision::Exact))
    }
}

/// The same searches, those for intervals of one index as one: of `a >= 1 AND a < 9` each half alone finds many rows.
fn together(searches: Vec<(Search<'_>, bool)>) -> Vec<(Search<'_>, bool)> {
    let mut all: Vec<(Search<'_>, bool)> = Vec::with_capacity(searches.len());
    for (search, is_exact) in searches {
        let Search::Test(more, by) = &search else {
            all.push((search, is_exact));
            continue;
        };
        let are_of_intervals = |tests: &[&ValueTest]| tests.iter().all(|test| test.is_of_intervals());
        let same = all.iter_mut().find_map(|(before, exact)| match before {
            Search::Test(tests, segments) if are_of_intervals(tests) && are_of_intervals(more) => {
                let is_same = segments.iter().map(|s| s.uuid).eq(by.iter().map(|s| s.uuid));
                is_same.then_some((tests, exact))
            }
            _ => None,
        });
        match same {
            Some((tests, exact)) => {
                tests.extend(more);
                *exact &= is_exact;
            }
            None => all.push((search, is_exact)),
        }
    }
    all
}

/// The field of a path of names, and the key of its documents that the path ends with, if it does.
fn column_at<'a>(schema: &Schema, path: &'a [String]) -> Option<(FieldId, Option<&'a str>)> {
    match field_at(schema, path) {
        Some(field) => Some((field, None)),
        None => path.split_last().and_then(|(key, rest)| Some((field_at(schema, rest)?, Some(key.as_str())))),
    }
}

/// The field of a path of names.
fn field_at(schema: &Schema, path: &[String]) -> Option<FieldId> {
    let (first, rest) = path.split_first()?;
    let mut field = schema.field(first)?;
    for name in rest {
        field = field.children.iter().find(|child| child.name == *name)?;
    }
    Some(field.id)
}

impl fmt::Display for Search<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (parts, word) = match self {
            Self::All(parts) => (parts, "AND"),
            Self::Either(parts) => (parts, "OR"),
            Self::Test(_, segments) => {
                let Some(first) = segments.first() else { return f.write_str("nothing") };
                write!(f, "{} ({}", first.name, first.kind.name())?;
                return match segments.len() {
                    1 => f.write_str(")"),
                    count => write!(f, ", {count} segments)"),
                };
            }
        };
        for (at, part) in parts.iter().enumerate() {
            if at > 0 {
                write!(f, " {word} ")?;
            }
            match part {
                Self::Test(..) => write!(f, "{part}")?,
                Self::All(_) | Self::Either(_) => write!(f, "({part})")?,
            }
        }
        Ok(())
    }
}

impl Search<'_> {
    /// Whether the values of a field come with the rows.
    fn has_values(&self, field: &Field) -> bool {
        matches!(self, Self::Test(tests, segments) if index_values::have_values(segments, tests, field))
    }

    /// So many rows, or more, that it finds, as far as indices know without a search. Blocks on the store.
    fn rows_at_least(&self, snapshot: &Snapshot) -> Result<u64, SearchError> {
        let each = |parts: &[Self]| {
            parts.iter().map(|p| p.rows_at_least(snapshot)).collect::<Result<Vec<_>, SearchError>>()
        };
        Ok(match self {
            // Other parts may leave any of them out.
            Self::All(_) => 0,
            Self::Either(parts) => each(parts)?.into_iter().max().unwrap_or(0),
            Self::Test(tests, segments) => {
                let open = |segment: &Segment| segment.open(snapshot).map_err(|error| segment.failed(error));
                let rows = segments.iter().map(|s| Ok(open(s)?.rows_at_least(tests)));
                rows.sum::<Result<u64, SearchError>>()?
            }
        })
    }

    /// Whether it looks into B-trees only, which are open or small, and of which each expects few rows. Opens them then.
    fn is_brief(&self, snapshot: &Snapshot) -> bool {
        let mut segments = Vec::new();
        self.add_segments(&mut segments);
        let opened = segments.iter().filter(|s| !s.is_open(snapshot));
        segments.iter().all(|s| s.files_kind == IndexKind::BTree)
            && is_brief_opening(opened.map(|s| live_rows(&snapshot.manifest, &s.covered)))
            && self.expects_few(snapshot)
    }

    /// Adds the segments that it looks into.
    fn add_segments<'a>(&'a self, all: &mut Vec<&'a Segment>) {
        match self {
            Self::All(parts) | Self::Either(parts) => parts.iter().for_each(|part| part.add_segments(all)),
            Self::Test(_, segments) => all.extend(segments.iter().copied()),
        }
    }

    fn expects_few(&self, snapshot: &Snapshot) -> bool {
        match self {
            Self::All(parts) | Self::Either(parts) => parts.iter().all(|part| part.expects_few(snapshot)),
            Self::Test(..) => self.rows_at_least(snapshot).is_ok_and(|rows| rows <= brief::MATCHES),
        }
    }

    /// The fragments that it can answer for.
    fn covered(&self) -> RoaringBitmap {
        match self {
            Self::All(parts) | Self::Either(parts) => {
                parts.iter().map(Self::covered).reduce(|all, part| all & part).unwrap_or_default()
            }
            Self::Test(_, segments) => segments.iter().fold(RoaringBitmap::new(), |all, s| all | &s.covered),
        }
    }

    /// The rows of some fragments that it covers.
    fn run(&self, snapshot: &Arc<Snapshot>, scope: &RoaringBitmap) -> Result<FoundRows, SearchError> {
        match self {
            Self::All(parts) => {
                let mut scope = scope.clone();
                let (mut all, mut is_exact): (Option<FragmentRows>, _) = (None, true);
                for part in parts {
                    let FoundRows { rows: found, is_exact: of_part } = part.run(snapshot, &scope)?;
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
                Ok(FoundRows { rows: all.unwrap_or_default(), is_exact })
            }
            Self::Either(parts) => {
                let mut all = FoundRows { rows: FragmentRows::new(), is_exact: true };
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
                let mut all = FoundRows { rows: FragmentRows::new(), is_exact: true };
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
) -> Result<FragmentRows> {
    let physical = |id: u32| {
        let rows = snapshot.manifest.fragments.summary(FragmentId(id)).map_or(0, |f| f.physical_rows);
        u32::try_from(rows).unwrap_or(u32::MAX)
    };
    let mut rows: FragmentRows = if segment.has_addresses(snapshot) {
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
fn rows_with_ids(snapshot: &Arc<Snapshot>, ids: &RowSet) -> Result<FragmentRows> {
    let every = || Error::unsupported("an index that has all row ids of a part");
    if ids.is_empty() {
        return Ok(FragmentRows::new());
    }
    let mut found = find_ascending_ids(snapshot, ids.iter().ok_or_else(every)?.map(RowId))?;
    if !found.is_sorted() {
        found.sort_unstable();
    }
    let mut rows = FragmentRows::new();
    for of_fragment in found.chunk_by(|a, b| a.fragment() == b.fragment()) {
        let Some(first) = of_fragment.first() else { continue };
        let offsets = RoaringBitmap::from_sorted_iter(of_fragment.iter().map(|row| row.offset()));
        let duplicate = |_| Error::internal(format!("a row of fragment {} has two ids", first.fragment()));
        rows.insert(first.fragment().0, offsets.map_err(duplicate)?);
    }
    Ok(rows)
}
