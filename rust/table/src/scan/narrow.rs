//! Which fragments a filter can match at all, by what it says of `_rowid` and `_rowaddr`.
//!
//! A filter such as `_rowid = 7` or `_rowid IN (..) AND a > 3` concerns few fragments. The row id index finds them without
//! a look at the others, of which a table may have a million. The result is a superset of the fragments with a row for
//! which the filter is true; what is done with those is the same as without it.

use std::ops::RangeInclusive;
use std::sync::Arc;

use pennon_core::manifest::Flags;
use pennon_core::{FragmentId, Result, RowId};
use pennon_datafile::statistics::Bound;

use super::prune::{interval, number};
use super::row_index::row_id_index;
use super::system_columns::System;
use crate::expr::{Condition, Expression, ValueTest};
use crate::versions::snapshot::Snapshot;

/// From so many fragments on an index is made for one filter; below it is used if it costs next to nothing.
const MANY_FRAGMENTS: usize = 1000;
/// A range of ids that is wider than this part of them concerns too many fragments.
const NARROW: u64 = 8;
/// A range of so many ids is narrow.
const FEW_IDS: u64 = 1 << 16;

/// Whether [`fragments`] can say something about a filter.
pub(super) fn narrows(snapshot: &Snapshot, filter: &Expression) -> bool {
    fn any(condition: &Condition, snapshot: &Snapshot) -> bool {
        match condition {
            Condition::Any => false,
            Condition::All(parts) => parts.iter().any(|part| any(part, snapshot)),
            Condition::Either(parts) => parts.iter().all(|part| any(part, snapshot)),
            Condition::Test(path, test) => column(path, snapshot).is_some() && ids(test).is_some(),
        }
    }
    snapshot.manifest.fragments.len() > 1 && any(filter.condition(), snapshot)
}

/// The fragments that a filter can match, ascending; `None` if that may be any. Blocks on the store, and makes the index
/// of row ids if that pays. Errors: those of making it.
pub(super) fn fragments(snapshot: &Arc<Snapshot>, filter: &Expression) -> Result<Option<Vec<FragmentId>>> {
    of_condition(filter.condition(), snapshot)
}

fn of_condition(condition: &Condition, snapshot: &Arc<Snapshot>) -> Result<Option<Vec<FragmentId>>> {
    match condition {
        Condition::Any => Ok(None),
        Condition::All(parts) => {
            let mut all: Option<Vec<FragmentId>> = None;
            for part in parts {
                match (&mut all, of_condition(part, snapshot)?) {
                    (Some(all), Some(found)) => all.retain(|id| found.binary_search(id).is_ok()),
                    (_, None) => {}
                    (none, found) => *none = found,
                }
            }
            Ok(all)
        }
        Condition::Either(parts) => {
            let mut all = Vec::new();
            for part in parts {
                match of_condition(part, snapshot)? {
                    Some(found) => all.extend(found),
                    None => return Ok(None),
                }
            }
            all.sort_unstable();
            all.dedup();
            Ok(Some(all))
        }
        Condition::Test(path, test) => match (column(path, snapshot), ids(test)) {
            (Some(System::RowId), Some(ids)) if snapshot.manifest.has_stable_row_ids() => {
                with_ids(snapshot, &ids)
            }
            // An address, which is also the id in a table without stable ids.
            (Some(_), Some(ids)) => Ok(at_addresses(snapshot, &ids)),
            _ => Ok(None),
        },
    }
}

/// The column of ids or addresses, if that is what it is: a column of the table may have the same name.
fn column(path: &[String], snapshot: &Snapshot) -> Option<System> {
    let [name] = path else { return None };
    let system = System::named(name).filter(|_| snapshot.manifest.schema.field(name).is_none());
    system.filter(|system| matches!(system, System::RowId | System::RowAddress))
}

/// Numbers for which a test holds.
enum Ids {
    List(Vec<u64>),
    Range(RangeInclusive<u64>),
}

fn ids(test: &ValueTest) -> Option<Ids> {
    let is_integer = |bound: &Bound| matches!(bound, Bound::Int(_));
    match test {
        // There are no ids below zero and beyond 64 bits.
        ValueTest::Eq(value) if is_integer(value) => Some(Ids::List(number(value).into_iter().collect())),
        ValueTest::OneOf(list) if list.iter().all(is_integer) => {
            Some(Ids::List(list.iter().filter_map(number).collect()))
        }
        _ => match interval(test)? {
            (low, Some(high)) => Some(Ids::Range(low..=high)),
            (_, None) => Some(Ids::List(Vec::new())),
        },
    }
}

fn with_ids(snapshot: &Arc<Snapshot>, ids: &Ids) -> Result<Option<Vec<FragmentId>>> {
    let manifest = &snapshot.manifest;
    let ids = match ids {
        Ids::List(list) => Ids::List(list.clone()),
        Ids::Range(range) => {
            let range = *range.start()..=(*range.end()).min(manifest.next_row_id.saturating_sub(1));
            let most = (manifest.next_row_id / NARROW).max(FEW_IDS);
            if range.end().saturating_sub(*range.start()) >= most {
                return Ok(None);
            }
            Ids::Range(range)
        }
    };
    let in_columns = manifest.reader_flags.contains(Flags::LINEAGE_COLUMNS);
    let pays = manifest.fragments.len() >= MANY_FRAGMENTS && !in_columns;
    if !pays && !snapshot.has_related_row_id_index() {
        return Ok(None);
    }
    let known = row_id_index(snapshot)?;
    Ok(Some(match ids {
        Ids::Range(range) => known.index.fragments_with(range),
        Ids::List(list) => {
            let ids: Vec<RowId> = list.into_iter().map(RowId).collect();
            let found = known.index.candidates(&ids)?;
            let mut found: Vec<FragmentId> = found.into_iter().map(|address| address.fragment()).collect();
            found.sort_unstable();
            found.dedup();
            found
        }
    }))
}

fn at_addresses(snapshot: &Snapshot, ids: &Ids) -> Option<Vec<FragmentId>> {
    let fragments = &snapshot.manifest.fragments;
    let fragment = |address: u64| FragmentId(u32::try_from(address >> 32).unwrap_or(u32::MAX));
    match ids {
        Ids::List(list) => {
            let mut found: Vec<FragmentId> =
                list.iter().map(|id| fragment(*id)).filter(|id| fragments.contains_id(*id)).collect();
            found.sort_unstable();
            found.dedup();
            Some(found)
        }
        Ids::Range(range) if range.is_empty() => Some(Vec::new()),
        Ids::Range(range) => {
            let wanted = fragment(*range.start())..=fragment(*range.end());
            Some(fragments.ids().filter(|id| wanted.contains(id)).collect())
        }
    }
}
