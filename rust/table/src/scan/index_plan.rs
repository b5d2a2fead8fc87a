//! How indices answer a filter: each test of its condition by the best index of the column, combined.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::Arc;

use pennon_core::schema::{Field, Schema};
use pennon_core::{FieldId, Result};
use pennon_index::{IndexKind, Precision, ValueTest};
use roaring::RoaringBitmap;
use uuid::Uuid;

use super::brief::{self, is_brief_opening};
use super::index_matches::live_rows;
use super::index_values;
use crate::expr::{Condition, Expression};
use crate::indices::{SearchError, Segment, all_segments, is_about_the_index};
use crate::runtime::blocking;
use crate::versions::snapshot::Snapshot;

/// How indices answer a filter. Printed, on one line.
#[derive(Debug)]
pub(super) enum IndexSearch<'a> {
    All(Vec<IndexSearch<'a>>),
    Either(Vec<IndexSearch<'a>>),
    /// Tests of a column, all of which must hold, by the segments of one index.
    Test(Vec<&'a ValueTest>, Vec<&'a Segment>),
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
        let segments = all_segments(&snapshot, &entries)?;
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

/// Adds the fields that a condition tests.
pub(super) fn add_fields(schema: &Schema, condition: &Condition, fields: &mut Vec<FieldId>) {
    match condition {
        Condition::Any => {}
        Condition::All(parts) | Condition::Either(parts) => {
            parts.iter().for_each(|part| add_fields(schema, part, fields));
        }
        Condition::Test(path, _) => fields.extend(column_at(schema, path).map(|(field, _)| field)),
    }
}

pub(super) struct Planner<'a> {
    pub(super) schema: &'a Schema,
    pub(super) segments: &'a [Segment],
}

impl<'a> Planner<'a> {
    /// How to answer a condition, and whether the answer is exact; `None` if indices cannot.
    pub(super) fn plan(&self, condition: &'a Condition) -> Option<(IndexSearch<'a>, bool)> {
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
                let search = if kept.len() > 1 { IndexSearch::All(kept) } else { kept.pop()? };
                Some((search, is_exact))
            }
            Condition::Either(parts) => {
                let planned: Vec<_> = parts.iter().map(|part| self.plan(part)).collect::<Option<_>>()?;
                let is_exact = planned.iter().all(|(_, exact)| *exact);
                Some((IndexSearch::Either(planned.into_iter().map(|(search, _)| search).collect()), is_exact))
            }
            Condition::Test(path, test) => self.test(path, test),
        }
    }

    /// The best index of a column: one that is exact before one that is not, then the one that covers most.
    fn test(&self, path: &[String], test: &'a ValueTest) -> Option<(IndexSearch<'a>, bool)> {
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
        Some((IndexSearch::Test(vec![test], all), precision == Precision::Exact))
    }
}

/// The same searches, those of one index for values in its order as one: of `a >= 1 AND a < 9` each half alone finds many
/// rows.
fn together(searches: Vec<(IndexSearch<'_>, bool)>) -> Vec<(IndexSearch<'_>, bool)> {
    let mut all: Vec<(IndexSearch<'_>, bool)> = Vec::with_capacity(searches.len());
    let mut known: HashMap<Vec<Uuid>, usize> = HashMap::new();
    for (search, is_exact) in searches {
        if let IndexSearch::Test(more, by) = &search
            && more.iter().all(|test| test.is_combinable())
        {
            let at = *known.entry(by.iter().map(|s| s.uuid).collect()).or_insert(all.len());
            if let Some((IndexSearch::Test(tests, _), exact)) = all.get_mut(at) {
                tests.extend(more);
                *exact &= is_exact;
                continue;
            }
        }
        all.push((search, is_exact));
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

impl fmt::Display for IndexSearch<'_> {
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

impl IndexSearch<'_> {
    /// Whether the values of a field come with the rows.
    pub(super) fn has_values(&self, field: &Field) -> bool {
        matches!(self, Self::Test(tests, segments) if index_values::have_values(segments, tests, field))
    }

    /// So many rows, or more, that it finds, as far as indices know without a search. Blocks on the store.
    pub(super) fn rows_at_least(&self, snapshot: &Snapshot) -> Result<u64, SearchError> {
        let each = |parts: &[Self]| {
            parts.iter().map(|p| p.rows_at_least(snapshot)).collect::<Result<Vec<_>, SearchError>>()
        };
        Ok(match self {
            Self::All(parts) => {
                let covered = |part: &Self| live_rows(&snapshot.manifest, &part.covered());
                let mut rows = covered(self);
                // Each part may leave out others. Most often the first one leaves out nearly all.
                for part in parts {
                    let left_out = covered(part).saturating_sub(part.rows_at_least(snapshot)?);
                    rows = rows.saturating_sub(left_out);
                    if rows == 0 {
                        break;
                    }
                }
                rows
            }
            Self::Either(parts) => each(parts)?.into_iter().max().unwrap_or(0),
            Self::Test(tests, segments) => {
                let open = |segment: &Segment| segment.open(snapshot).map_err(|error| segment.failed(error));
                let rows = segments.iter().map(|s| Ok(open(s)?.rows_at_least(tests)));
                rows.sum::<Result<u64, SearchError>>()?
            }
        })
    }

    /// Whether it looks into B-trees only, which are open or small, and of which each expects few rows. Opens them then.
    pub(super) fn is_brief(&self, snapshot: &Snapshot) -> bool {
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
    pub(super) fn covered(&self) -> RoaringBitmap {
        match self {
            Self::All(parts) | Self::Either(parts) => {
                parts.iter().map(Self::covered).reduce(|all, part| all & part).unwrap_or_default()
            }
            Self::Test(_, segments) => segments.iter().fold(RoaringBitmap::new(), |all, s| all | &s.covered),
        }
    }
}
