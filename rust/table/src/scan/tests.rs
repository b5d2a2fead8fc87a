//! The pure parts, and what is left of fragments before anything is read.

use std::sync::Arc;

use arrow_array::{ArrayRef, Int64Array, RecordBatch, RecordBatchIterator, StringArray};
use arrow_buffer::BooleanBuffer;
use arrow_schema::{DataType, Field};
use pennon_core::FragmentId;
use pennon_core::rows::RowRanges;

use super::execute::Execution;
use super::plan::{ShownRows, within};
use super::units::*;
use super::{Projection, Scan, ScanOptions, TakeOptions, TakeRows, matches, take};
use crate::expr::Expression;
use crate::versions::snapshot::Snapshot;
use crate::{Dataset, WriteMode, WriteOptions};

#[test]
fn bytes_of_huge_values_are_as_many_as_there_can_be() {
    let list = |item| DataType::new_fixed_size_list(item, i32::MAX, true);
    let huge = list(list(list(DataType::Int64)));
    let members = ["a", "b"].map(|name| Field::new(name, huge.clone(), true));
    assert_eq!(value_bytes(&DataType::Struct(members.into_iter().collect()), 1), u64::MAX);
}

/// Compiling is the test: callers move these to other threads.
#[test]
fn futures_can_be_spawned() {
    fn sendable<T: Send>(value: T) -> T {
        value
    }
    fn all(snapshot: &Arc<Snapshot>, scan: Scan, counted: Scan, predicate: Expression) {
        let options = TakeOptions::default();
        drop(sendable(take(Arc::clone(snapshot), TakeRows::Ids(Vec::new()), &options)));
        drop(sendable(matches(Arc::clone(snapshot), None, predicate, false)));
        drop(sendable(scan.stream()));
        drop(sendable(counted.count()));
    }
    let _: fn(&Arc<Snapshot>, Scan, Scan, Expression) = all;
}

#[test]
fn windows_advance() {
    let mut window = Window::new(Some(5), Some(7));
    assert_eq!([3, 4, 10, 10].map(|rows| window.advance(rows)), [3..3, 2..4, 0..5, 0..0]);
    assert!(Window::new(None, None).is_everything());
    assert_eq!(Window::new(None, None).advance(9), 0..9);
}

#[test]
fn units_cover_the_window_once() {
    for (offset, rows_of_result, size) in
        [(None, None, 4), (Some(3), Some(9), 4), (Some(0), Some(0), 1), (Some(100), None, 5)]
    {
        let rows = [5_u64, 0, 10, 3];
        let shown = |(id, live): (u32, &u64)| ShownRows {
            id: FragmentId(id),
            live_before: 0,
            shown: 0..*live,
            is_part: false,
        };
        let planned = within((0..).zip(&rows).map(shown), Window::new(offset, rows_of_result));
        assert!(planned.iter().all(|rows| rows.shown.start < rows.shown.end));
        let units: Vec<(u32, std::ops::Range<u64>)> = planned
            .into_iter()
            .flat_map(|rows| split(rows.shown, size).map(move |r| (rows.id.0, r)))
            .collect();
        assert!(units.iter().all(|(_, rows)| rows.end - rows.start <= size));
        let found: Vec<(u32, u64)> =
            units.into_iter().flat_map(|(id, rows)| rows.map(move |r| (id, r))).collect();
        let all = (0..).zip(&rows).flat_map(|(f, n)| (0..*n).map(move |r| (f, r)));
        let skip = usize::try_from(offset.unwrap_or(0)).unwrap();
        let expected: Vec<_> =
            all.skip(skip).take(usize::try_from(rows_of_result.unwrap_or(1000)).unwrap()).collect();
        assert_eq!(found, expected, "{offset:?} {rows_of_result:?} {size}");
    }
}

#[test]
fn units_are_whole_batches() {
    assert_eq!(unit_rows(8, 8192), 128 << 10);
    assert_eq!(unit_rows(28, 1000), 131_000);
    assert_eq!(unit_rows(1 << 20, 8192), 64);
    assert_eq!(unit_rows(1000, 8192), 16_384);
    assert_eq!(remote_unit_rows(8, 8192), 1 << 20);
    assert_eq!(remote_unit_rows(1000, 8192), 16_384);
}

#[test]
fn selected_ranges_are_the_rows_of_the_mask() {
    let ranges = RowRanges::from([2..5, 9..10, 20..24]);
    let physical: Vec<u64> = ranges.rows().collect();
    for bits in 0..256_u32 {
        let mask = BooleanBuffer::from_iter((0..8).map(|i| bits >> i & 1 == 1));
        let found: Vec<u64> = select(&ranges, &mask).rows().collect();
        let expected: Vec<u64> = mask.set_indices().map(|i| physical[i]).collect();
        assert_eq!(found, expected);
    }
    let all = RowRanges::from(0..100);
    assert_eq!(select(&all, &BooleanBuffer::new_set(100)), all);
}

/// Rows that units have after those that cannot match were left out.
async fn rows_read(dataset: &Dataset, filter: &str) -> u64 {
    let options = ScanOptions { filter: Some(filter.into()), ..ScanOptions::default() };
    let scan = dataset.scan(&options).unwrap();
    let divide = move || {
        let execution = Execution::new(scan.plan, Arc::default());
        let fragments = 0..execution.plan().fragments.len();
        Ok(fragments.map(|at| execution.candidates(at).unwrap().count()).sum())
    };
    crate::runtime::blocking(divide).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_match_is_not_read() {
    const ZONE: u64 = 8192;
    let rows = 3 * 8192;
    let noise = (0..rows).map(|n: i64| n.wrapping_mul(0x9e37_79b9_7f4a_7c15_u64.cast_signed()));
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("i", Arc::new((0..rows).map(|n| (n % 100 > 0).then_some(n)).collect::<Int64Array>())),
        ("s", Arc::new((0..rows).map(|n| Some(format!("k{n:06}"))).collect::<StringArray>())),
        ("noise", Arc::new(noise.map(Some).collect::<Int64Array>())),
    ];
    let columns = columns.into_iter().map(|(name, array)| (name, array, true));
    let batch = RecordBatch::try_from_iter_with_nullable(columns).unwrap();
    let uri = "memory://scan-pruning/table";
    let mut dataset = None;
    for mode in [WriteMode::Create, WriteMode::Append] {
        let data = RecordBatchIterator::new([Ok(batch.clone())], batch.schema());
        let params = WriteOptions { mode, ..WriteOptions::default() };
        dataset = Some(Dataset::write(Box::new(data), uri, params).await.unwrap());
    }
    let dataset = dataset.unwrap();
    let all = 2 * 3 * ZONE;
    let options = ScanOptions {
        columns: Some(Projection::Names(vec!["s".into(), "i".into()])),
        filter: Some("i > 5 and _rowid < 9".into()),
        limit: Some(10),
        with_row_id: true,
        ..ScanOptions::default()
    };
    let plan = dataset.scan(&options).unwrap().plan().to_string();
    let expected = [
        "scan of memory://scan-pruning/table at version 2",
        "  columns: s, i, _rowid",
        "  columns read: i, s, _rowid",
        "  filter: i > 5 and _rowid < 9",
        "    columns read: i, _rowid",
        "    rows left out unread by: statistics of files, lineage and row addresses",
        "  rows: skip 0, at most 10",
        "  batches: at most 8192 rows, in table order",
        "  fragments: 2 of 2, 49152 rows to look at",
        "    fragment 0: rows 0..24576",
        "    fragment 1: rows 0..24576",
    ];
    assert_eq!(plan.lines().collect::<Vec<_>>(), expected);
    for (filter, expected) in [
        ("i = 17", 2 * ZONE),
        ("i < 0", 0),
        ("i >= 16384 and s like 'k0%'", 2 * ZONE),
        ("i < 5 or i > 24570", 4 * ZONE),
        ("i + 1 = 18", all),
        ("i = 17 or i + 1 = 18", all),
        ("i = 17 and i + 1 = 18", 2 * ZONE),
        ("i is null", all),
        ("s is null", 0),
        ("starts_with(s, 'k024')", 2 * ZONE),
        ("s in ('a', 'k000001', 'z')", 2 * ZONE),
        ("_rowid = 5", 1),
        ("_rowid >= 24576 and i = 17", ZONE),
        ("_rowaddr between 10 and 19", 10),
        ("_row_last_updated_at_version = 2", all / 2),
        ("_row_created_at_version > 2 or _rowid in (3, 4, 30000)", 3),
        ("_rowoffset < 3", all),
    ] {
        assert_eq!(rows_read(&dataset, filter).await, expected, "{filter}");
    }
}

#[test]
fn large_rows_are_read_in_parts() {
    const MIB: u64 = 1 << 20;
    assert_eq!(rows_of_a_part(32, 32 * MIB), None);
    assert_eq!(rows_of_a_part(33, 33 * MIB), Some(16));
    assert_eq!(rows_of_a_part(64, 25_600 * MIB), Some(1));
    assert_eq!(rows_of_a_part(1, u64::MAX), None);
    assert_eq!(rows_of_a_part(1_000_000, 0), None);
}

/// 200 MB that take a few kilobytes in the file: its size says nothing about the memory that a unit takes.
#[tokio::test(flavor = "multi_thread")]
async fn large_values_leave_in_small_units_and_in_order() {
    use futures::TryStreamExt;
    let rows = 200_i64;
    let value = |n: i64| (n % 10 > 0).then(|| format!("{n:04}").repeat(250_000));
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("i", Arc::new((0..rows).map(Some).collect::<Int64Array>())),
        ("s", Arc::new((0..rows).map(value).collect::<StringArray>())),
    ];
    let columns = columns.into_iter().map(|(name, array)| (name, array, true));
    let batch = RecordBatch::try_from_iter_with_nullable(columns).unwrap();
    let data = RecordBatchIterator::new([Ok(batch.clone())], batch.schema());
    let uri = "memory://scan-large/table";
    let dataset = Dataset::write(Box::new(data), uri, WriteOptions::default()).await.unwrap();
    for (filter, unordered, expected) in [
        (None, false, (0..rows).collect::<Vec<i64>>()),
        (None, true, (0..rows).collect()),
        (Some("s IS NOT NULL AND i < 100"), false, (0..100).filter(|i| i % 10 > 0).collect()),
        (Some("s IS NULL"), false, (0..rows).step_by(10).collect()),
        (Some("length(s) > 5"), false, (0..rows).filter(|i| i % 10 > 0).collect()),
        (Some("s LIKE '0042%' OR s IS NULL"), false, (0..rows).filter(|i| i % 10 == 0 || *i == 42).collect()),
    ] {
        let options = ScanOptions { filter: filter.map(Into::into), unordered, ..ScanOptions::default() };
        let batches: Vec<RecordBatch> = dataset.scan(&options).unwrap().stream().try_collect().await.unwrap();
        let bytes = batches.iter().map(RecordBatch::get_array_memory_size).max().unwrap();
        assert!(bytes < 80 << 20, "{bytes} bytes in a batch, filter {filter:?}");
        let mut found = Vec::new();
        for batch in &batches {
            let i = batch.column(0).as_any().downcast_ref::<Int64Array>().unwrap();
            let s = batch.column(1).as_any().downcast_ref::<StringArray>().unwrap();
            for (i, s) in i.values().iter().zip(s.iter()) {
                assert_eq!(s, value(*i).as_deref());
                found.push(*i);
            }
        }
        if unordered {
            found.sort_unstable();
        }
        assert_eq!(found, expected, "filter {filter:?}");
    }
    let predicate = Expression::predicate("s IS NULL", &batch.schema()).unwrap();
    let snapshot = dataset.snapshot();
    let read = || snapshot.store.metrics().counters().read_bytes;
    let before = read();
    let found = matches(Arc::clone(snapshot), None, predicate, false).await.unwrap();
    assert_eq!(found.first_key_value().map(|(_, rows)| rows.len()), Some(20));
    assert!(read() - before < 10_000, "{} bytes", read() - before);
}
