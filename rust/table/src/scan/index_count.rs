//! How many rows a filter is true for, where an index knows that without a look at where they are.

use std::sync::Arc;

use pennon_core::Result;
use pennon_core::manifest::IndexMetadata;
use pennon_index::{IndexKind, ValueTest};

use super::brief;
use super::index_plan::{IndexSearch, Planner};
use crate::expr::{Condition, Expression};
use crate::indices::{Segment, all_segments, is_about_the_index};
use crate::runtime::blocking_unless;
use crate::versions::snapshot::Snapshot;

/// The number of rows of a version that a filter is true for; `None` unless one segment of an index says it. Segments that
/// cannot be read say nothing.
pub(super) async fn count(snapshot: &Arc<Snapshot>, filter: &Expression) -> Result<Option<u64>> {
    if snapshot.manifest.index_section.is_none() || !filter.condition_is_exact() {
        return Ok(None);
    }
    let entries = snapshot.indices().await?;
    let (snapshot, condition) = (Arc::clone(snapshot), filter.condition().clone());
    let counted = blocking_unless(is_brief(&snapshot, &entries, &condition), move || {
        with_segment(&snapshot, &entries, &condition, |segment, tests| segment.count(&snapshot, tests))
    });
    match counted.await {
        Err(error) if is_about_the_index(&error) => Ok(None),
        counted => Ok(counted?.flatten()),
    }
}

/// Whether counting needs no other thread: a B-tree that is open or quickly opened reads the pages where intervals end.
fn is_brief(snapshot: &Snapshot, entries: &[IndexMetadata], condition: &Condition) -> bool {
    let is_few = |test: &&ValueTest| match test {
        ValueTest::OneOf(values) | ValueTest::NoneOf(values) => values.len() <= brief::VALUES,
        _ => true,
    };
    let is_brief = |segment: &Segment, tests: &[&ValueTest]| {
        let is_opened = || {
            segment.is_open(snapshot) || brief::is_brief_opening([snapshot.manifest.live_rows()].into_iter())
        };
        Ok(segment.files_kind == IndexKind::BTree && tests.iter().all(is_few) && is_opened())
    };
    brief::is_brief_listing(snapshot, entries)
        && with_segment(snapshot, entries, condition, is_brief).is_ok_and(|is_brief| is_brief == Some(true))
}

/// What is said of the only segment that answers a condition exactly, and of the tests that it answers; `None` if there is
/// none, or more than one.
fn with_segment<T>(
    snapshot: &Snapshot,
    entries: &[IndexMetadata],
    condition: &Condition,
    say: impl FnOnce(&Segment, &[&ValueTest]) -> Result<T>,
) -> Result<Option<T>> {
    let segments = all_segments(snapshot, entries)?;
    let planner = Planner { schema: &snapshot.manifest.schema, segments: &segments };
    match planner.plan(condition) {
        Some((IndexSearch::Test(tests, by), true)) => match by.as_slice() {
            [segment] => say(segment, &tests).map(Some),
            _ => Ok(None),
        },
        _ => Ok(None),
    }
}
