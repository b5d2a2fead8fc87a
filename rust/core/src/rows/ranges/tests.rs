//! The algebra against sets of numbers.

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;

/// Ranges in any order, empty, touching and overlapping ones among them.
fn ranges() -> impl Strategy<Value = Vec<Range<u64>>> {
    let range = (0..90_u64, 0..12_u64).prop_map(|(start, rows)| start..start + rows);
    proptest::collection::vec(range, 0..12)
}

fn set(ranges: &[Range<u64>]) -> BTreeSet<u64> {
    ranges.iter().cloned().flatten().collect()
}

/// The set of a value whose invariant holds.
fn checked(rows: &RowRanges) -> BTreeSet<u64> {
    assert!(rows.iter().all(|range| range.start < range.end), "an empty range in {rows:?}");
    assert!(rows.as_slice().windows(2).all(|pair| pair[0].end < pair[1].start), "{rows:?}");
    rows.rows().collect()
}

fn list(rows: impl IntoIterator<Item = u64>) -> Vec<u64> {
    rows.into_iter().collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn constructors_hold_the_invariant(list in ranges(), more in ranges()) {
        let expected = set(&list);
        let rows: RowRanges = list.iter().cloned().collect();
        prop_assert_eq!(&checked(&rows), &expected);
        prop_assert_eq!(&rows, &expected.iter().copied().collect::<RowRanges>());
        prop_assert_eq!(&rows, &expected.iter().rev().copied().collect::<RowRanges>());
        let mut inserted = RowRanges::new();
        list.iter().for_each(|range| inserted.insert(range.clone()));
        prop_assert_eq!(&inserted, &rows);
        let mut extended = rows.clone();
        extended.extend(more.iter().cloned());
        prop_assert_eq!(checked(&extended), expected.union(&set(&more)).copied().collect());
        let single = list.first().cloned().unwrap_or(7..7);
        prop_assert_eq!(checked(&RowRanges::from(single.clone())), set(&[single]));
    }

    #[test]
    fn algebra_agrees_with_sets(a in ranges(), b in ranges(), cut in (0..110_u64, 0..110_u64)) {
        let (left, right): (RowRanges, RowRanges) = (a.iter().cloned().collect(), b.iter().cloned().collect());
        let (a, b) = (set(&a), set(&b));
        prop_assert_eq!(checked(&left.union(&right)), a.union(&b).copied().collect());
        prop_assert_eq!(checked(&left.intersect(&right)), a.intersection(&b).copied().collect());
        let within = cut.0..cut.1;
        prop_assert_eq!(
            checked(&left.clip(within.clone())),
            a.iter().copied().filter(|row| within.contains(row)).collect()
        );
        for gap in 0..6 {
            let inside = |row: &u64| {
                let before = a.range(..=*row).next_back().map_or(u64::MAX, |last| row - last);
                let after = a.range(*row..).next().map_or(u64::MAX, |next| next - row);
                before == 0 || before.saturating_add(after) <= gap + 1
            };
            prop_assert_eq!(checked(&left.with_gaps(gap)), (0..110).filter(inside).collect());
        }
        prop_assert_eq!(left.count(), u64::try_from(a.len()).unwrap());
        prop_assert_eq!(left.is_empty(), a.is_empty());
        let span = a.first().zip(a.last()).map_or(0..0, |(first, last)| *first..last + 1);
        prop_assert_eq!(left.span(), span);
        prop_assert!((0..110).all(|row| left.contains(row) == a.contains(&row)));
    }

    #[test]
    fn rows_are_counted_off(a in ranges(), rows in 0..120_u64, piece in 0..30_u64) {
        let (all, a) = (a.iter().cloned().collect::<RowRanges>(), list(set(&a)));
        let at = usize::try_from(rows).unwrap().min(a.len());
        prop_assert_eq!(list(checked(&all.clone().take(rows))), &a[..at]);
        prop_assert_eq!(list(checked(&all.clone().skip(rows))), &a[at..]);
        let pieces: Vec<Vec<u64>> = all.clone().split_by(piece).map(|rows| list(checked(&rows))).collect();
        let expected: Vec<&[u64]> = a.chunks(usize::try_from(piece.max(1)).unwrap()).collect();
        prop_assert_eq!(pieces, expected);
        let ranked = all.clone().ranked();
        for row in 0..110 {
            let position = a.binary_search(&row).ok().map(|at| u64::try_from(at).unwrap());
            prop_assert_eq!(ranked.position(row), position);
        }
        prop_assert_eq!(ranked.rows(), &all);
    }

    #[test]
    fn positions_select_rows(a in ranges(), positions in ranges()) {
        let (all, a) = (a.iter().cloned().collect::<RowRanges>(), list(set(&a)));
        let positions: RowRanges = positions.iter().cloned().collect();
        let expected: BTreeSet<u64> =
            positions.rows().filter_map(|at| a.get(usize::try_from(at).unwrap())).copied().collect();
        prop_assert_eq!(checked(&all.select(&positions)), expected);
        // Positions one by one give the same.
        prop_assert_eq!(all.select(positions.rows().map(|at| at..at + 1)), all.select(&positions));
    }

    #[test]
    fn columns_with_several_rows_for_one(a in ranges(), n in 0..5_u64) {
        let rows: RowRanges = a.iter().cloned().collect();
        let expected = set(&a).into_iter().flat_map(|row| row * n..row * n + n).collect();
        prop_assert_eq!(checked(&rows.scaled(n).unwrap()), expected);
    }
}

#[test]
fn the_ends_of_what_can_be_counted() {
    let all = RowRanges::from(0..u64::MAX);
    assert_eq!((all.count(), all.contains(u64::MAX - 1), all.contains(u64::MAX)), (u64::MAX, true, false));
    assert_eq!(all.scaled(2), None);
    assert_eq!(all.clone().skip(u64::MAX), RowRanges::new());
    assert_eq!(all.clone().take(u64::MAX), all);
    assert_eq!(all.clone().split_by(u64::MAX).count(), 1);
    assert_eq!(
        RowRanges::from(u64::MAX - 2..u64::MAX).skip(1).take(5),
        RowRanges::from(u64::MAX - 1..u64::MAX)
    );
    assert_eq!([u64::MAX].into_iter().collect::<RowRanges>(), RowRanges::new());
    let backwards = Range { start: 5, end: 3 };
    assert!(RowRanges::from(backwards.clone()).is_empty() && all.clip(backwards.clone()).is_empty());
    let mut rows = RowRanges::from(0..9);
    rows.insert(backwards);
    assert_eq!(rows, RowRanges::from(0..9));
}

#[test]
fn positions_that_go_back_are_not_found_twice() {
    let rows = RowRanges::from([0..3, 10..13]);
    assert_eq!(rows.select([4..5, 0..2]), RowRanges::from(11..12));
}

#[test]
fn shown_as_people_write_ranges() {
    assert_eq!(RowRanges::new().to_string(), "none");
    assert_eq!(RowRanges::from([0..3, 5..6]).to_string(), "0..3, 5..6");
    let many: RowRanges = (0..9).map(|n| 2 * n).collect();
    assert_eq!(many.to_string(), "0..1, 2..3, 4..5, 6..7 and 5 more ranges up to 17");
}
