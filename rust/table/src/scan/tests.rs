//! The pure parts.

use std::sync::Arc;

use arrow_buffer::BooleanBuffer;

use super::plan::*;
use super::{Rows, Scan, TakeOptions, matches, take};
use crate::expr::Expression;
use crate::snapshot::Snapshot;

/// Compiling is the test: callers move these to other threads.
#[test]
fn futures_can_be_spawned() {
    fn sendable<T: Send>(value: T) -> T {
        value
    }
    fn all(snapshot: &Arc<Snapshot>, scan: Scan, counted: Scan, predicate: Expression) {
        let options = TakeOptions::default();
        drop(sendable(take(Arc::clone(snapshot), Rows::Ids(Vec::new()), &options)));
        drop(sendable(matches(Arc::clone(snapshot), None, predicate)));
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
    for (offset, limit, size) in
        [(None, None, 4), (Some(3), Some(9), 4), (Some(0), Some(0), 1), (Some(100), None, 5)]
    {
        let rows = [5_u64, 0, 10, 3];
        let units = units(rows, Window::new(offset, limit), size);
        let found: Vec<(usize, u64)> =
            units.iter().flat_map(|u| u.rows.clone().map(|r| (u.fragment, r))).collect();
        let all = rows.iter().enumerate().flat_map(|(f, n)| (0..*n).map(move |r| (f, r)));
        let skip = usize::try_from(offset.unwrap_or(0)).unwrap();
        let expected: Vec<_> = all.skip(skip).take(usize::try_from(limit.unwrap_or(1000)).unwrap()).collect();
        assert_eq!(found, expected, "{offset:?} {limit:?} {size}");
        assert!(units.iter().all(|u| u.rows.end - u.rows.start <= size));
    }
}

#[test]
fn units_are_whole_batches() {
    assert_eq!(unit_rows(8, 8192), 128 << 10);
    assert_eq!(unit_rows(28, 1000), 131_000);
    assert_eq!(unit_rows(1 << 20, 8192), 64);
    assert_eq!(unit_rows(1000, 8192), 16_384);
}

#[test]
fn selected_ranges_are_the_rows_of_the_mask() {
    let ranges = [2..5, 5..5, 9..10, 20..24];
    let physical: Vec<u64> = ranges.iter().cloned().flatten().collect();
    for bits in 0..256_u32 {
        let mask = BooleanBuffer::from_iter((0..8).map(|i| bits >> i & 1 == 1));
        let found: Vec<u64> = select(&ranges, &mask).into_iter().flatten().collect();
        let expected: Vec<u64> = mask.set_indices().map(|i| physical[i]).collect();
        assert_eq!(found, expected);
    }
    assert_eq!(select(&[0..100], &BooleanBuffer::new_set(100)), [0..100]);
}
