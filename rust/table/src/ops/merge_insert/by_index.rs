//! Rows of the table that may match, found by indices over key columns instead of reading all keys.
//!
//! What indices find are candidates: the join compares their keys like any others, so that a merge does the same with an
//! index and without. Fragments that the indices do not cover are read.

use std::sync::Arc;

use pennon_core::Result;
use pennon_core::schema::Field;
use pennon_index::{ValueTest, distinct_values, is_ordered};

use super::plan::MergePlan;
use super::sides::JoinColumns;
use super::source::MergeSource;
use crate::expr::Condition;
use crate::runtime::blocking;
use crate::scan::{self, IndexMatches};
use crate::versions::snapshot::Snapshot;

/// Keys of a table that are read and compared in the time that an index takes to find a row by its key.
const ROWS_PER_KEY: u64 = 1_000;
/// The same where requests take long: the rows that were found are requested one by one, all keys in large pieces.
const REMOTE_ROWS_PER_KEY: u64 = 10_000;
/// Of so many rows that are read one after another, indices may find one to be read by itself.
const ROWS_PER_MATCH: u64 = 8;

/// Whether looking so many keys up costs less than reading all that indices cover.
fn pays(keys: u64, covered_rows: u64, is_local: bool) -> bool {
    keys <= most_keys(covered_rows, is_local)
}

/// The most keys for which [`pays`] says so.
fn most_keys(covered_rows: u64, is_local: bool) -> u64 {
    covered_rows / if is_local { ROWS_PER_KEY } else { REMOTE_ROWS_PER_KEY }
}

/// Whether reading so many rows that indices found costs less than reading all that they cover.
fn are_few(found_rows: u64, covered_rows: u64) -> bool {
    found_rows.saturating_mul(ROWS_PER_MATCH) <= covered_rows
}

/// The rows of the table that may have a key of the source; `None` if indices cannot say, or if they would not pay.
pub(super) async fn find(
    snapshot: &Arc<Snapshot>,
    plan: &Arc<MergePlan>,
    source: &Arc<MergeSource>,
) -> Result<Option<IndexMatches>> {
    let (manifest, is_local, keys) = (&snapshot.manifest, snapshot.store.is_local(), source.rows);
    if plan.by_row_id || manifest.index_section.is_none() || !pays(keys, manifest.live_rows(), is_local) {
        return Ok(None);
    }
    let condition = {
        let (plan, source) = (Arc::clone(plan), Arc::clone(source));
        blocking(move || condition(&plan, &source)).await?
    };
    let found =
        scan::matches_of(snapshot, &condition, false, move |rows| pays(keys, rows, is_local), are_few)
            .await?;
    Ok(found.filter(|found| are_few(found.found_rows(), found.covered_rows(manifest))))
}

/// Which indices find keys, and how many pay; `None` if there are none.
pub(super) async fn explain(snapshot: &Arc<Snapshot>, plan: &MergePlan) -> Result<Option<String>> {
    let condition =
        Condition::All(keys(plan).map(|(_, key)| test(key, ValueTest::OneOf(Vec::new()))).collect());
    let Some(found) = scan::explain_condition(snapshot, &condition).await? else { return Ok(None) };
    let most = most_keys(found.covered_rows, snapshot.store.is_local());
    Ok(Some(format!("{found}, if the source has at most {most} rows")))
}

/// The key columns whose values indices can hold, with their positions.
fn keys(plan: &MergePlan) -> impl Iterator<Item = (usize, &Field)> {
    plan.on.iter().enumerate().filter(|(_, key)| is_ordered(&key.data_type()))
}

fn test(key: &Field, test: ValueTest) -> Condition {
    Condition::Test(vec![key.name.clone()], test)
}

/// What the keys of a source require of a row.
fn condition(plan: &MergePlan, source: &MergeSource) -> Result<Condition> {
    let columns = JoinColumns::of(plan);
    let batches =
        source.batches()?.map(|numbered| columns.keys_of(&numbered?.1)).collect::<Result<Vec<_>>>()?;
    let of_key = |(at, key): (usize, &Field)| {
        let arrays: Vec<_> = batches.iter().filter_map(|keys| keys.get(at).cloned()).collect();
        let (values, has_nan) = distinct_values(&arrays);
        let any = test(key, ValueTest::OneOf(values));
        if has_nan { Condition::Either(vec![any, test(key, ValueTest::IsNan)]) } else { any }
    };
    Ok(Condition::All(keys(plan).map(of_key).collect()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn indices_pay_for_few_keys_and_few_rows() {
        for is_local in [true, false] {
            for rows in [0, 999, 10_000, 5_000_000, u64::MAX] {
                let most = most_keys(rows, is_local);
                assert!(pays(most, rows, is_local) && !pays(most + 1, rows, is_local), "{rows}");
            }
        }
        // Requests take longer than comparisons.
        assert!(pays(2_000, 5_000_000, true) && !pays(2_000, 5_000_000, false));
        assert!(are_few(0, 0) && are_few(1, 8) && !are_few(1, 7) && !are_few(u64::MAX / 2, u64::MAX / 2));
    }
}
