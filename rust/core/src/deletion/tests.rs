use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;

/// Offsets of all shapes, in the form of few and in that of many.
fn offsets() -> impl Strategy<Value = BTreeSet<u32>> {
    let piece = (0..300_000_u32, 1..4_u32, 0..900_u32);
    proptest::collection::vec(piece, 0..4).prop_map(|pieces| {
        pieces.iter().flat_map(|&(start, step, count)| (0..count).map(move |n| start + n * step)).collect()
    })
}

proptest! {
    #[test]
    fn algebra_agrees_with_sets(sets in proptest::collection::vec(offsets(), 2), cut in (0..300_000_u32, 0..300_000_u32)) {
        let vectors: Vec<DeletionVector> = sets.iter().map(|set| set.iter().copied().rev().collect()).collect();
        let list = |vector: &DeletionVector| vector.iter().collect::<Vec<_>>();
        let (a, b, left, right) = (&sets[0], &sets[1], &vectors[0], &vectors[1]);
        prop_assert_eq!(list(left), a.iter().copied().collect::<Vec<_>>());
        prop_assert_eq!(list(&left.union(right)), a.union(b).copied().collect::<Vec<_>>());
        prop_assert_eq!(list(&left.difference(right)), a.difference(b).copied().collect::<Vec<_>>());
        prop_assert_eq!(left.difference(right).union(right), left.union(right));
        prop_assert_eq!(left.intersects(right), !a.is_disjoint(b));
        prop_assert_eq!(&DeletionVector::from_roaring(left.to_roaring()), left);
        prop_assert_eq!((left.len(), left.last()), (u64::try_from(a.len()).unwrap(), a.last().copied()));
        let cut = cut.0.min(cut.1)..cut.0.max(cut.1);
        prop_assert_eq!(left.rank(cut.end), u64::try_from(a.range(..cut.end).count()).unwrap());
        let within = u64::from(cut.start)..u64::from(cut.end);
        prop_assert_eq!(left.count_in(within.clone()), u64::try_from(a.range(cut.clone()).count()).unwrap());
        let live: u64 = left.live_ranges(within.clone()).map(|range| range.end - range.start).sum();
        prop_assert_eq!(live, within.end - within.start - left.count_in(within));
        prop_assert!(a.iter().take(50).all(|&offset| left.contains(offset)) && !left.contains(cut.start) | a.contains(&cut.start));
        let mut rest = left.clone();
        rest.remove_range(cut.clone());
        prop_assert_eq!(list(&rest), a.iter().copied().filter(|offset| !cut.contains(offset)).collect::<Vec<_>>());
    }

    #[test]
    fn agrees_with_a_set(deleted in proptest::collection::btree_set(0..200_u32, 0..120), from in 0..200_u64, len in 0..200_u64) {
        let vector: DeletionVector = deleted.iter().copied().collect();
        let live: Vec<u64> = (0..400).filter(|&o| !deleted.contains(&u32::try_from(o).unwrap())).collect();
        let ranges: Vec<_> = vector.live_ranges(from..from + len).collect();
        let found: Vec<u64> = ranges.iter().cloned().flatten().collect();
        let expected: Vec<u64> = live.iter().copied().filter(|&o| (from..from + len).contains(&o)).collect();
        prop_assert_eq!(found, expected);
        prop_assert!(ranges.windows(2).all(|pair| pair[0].end < pair[1].start));
        for (position, &offset) in live.iter().enumerate() {
            prop_assert_eq!(vector.live_offset(u64::try_from(position).unwrap()), offset);
        }
        let positions: Vec<u64> = (0..u64::try_from(live.len()).unwrap()).rev().collect();
        prop_assert_eq!(vector.live_offsets(&positions), live.iter().rev().copied().collect::<Vec<_>>());
        for offset in 0..210 {
            prop_assert_eq!(vector.rank(offset), u64::try_from(deleted.range(..offset).count()).unwrap());
        }
    }
}

/// Deleted runs are stepped over, not walked: a million rows deleted together, with many queries.
#[test]
fn a_long_deleted_run_costs_one_step() {
    let mut bitmap = RoaringBitmap::new();
    bitmap.insert_range(0..3_000_000);
    bitmap.insert_range(4_000_000..4_100_000);
    for optimized in [false, true] {
        if optimized {
            bitmap.optimize();
        }
        let vector = DeletionVector::from_roaring(bitmap.clone());
        assert_eq!(
            vector.live_ranges(1_000_000..5_000_000).collect::<Vec<_>>(),
            [3_000_000..4_000_000, 4_100_000..5_000_000]
        );
        let few: Vec<u64> = (0..20).rev().map(|at| at * 100_000).collect();
        let many: Vec<u64> = (0..2_000).rev().map(|at| at * 1_000).collect();
        for positions in [few, many] {
            let expected: Vec<u64> = positions.iter().map(|position| vector.live_offset(*position)).collect();
            assert_eq!(vector.live_offsets(&positions), expected);
        }
        for position in 0..1_000 {
            assert_eq!(vector.live_offset(position), 3_000_000 + position);
            assert_eq!(vector.live_offset(1_000_000 + position), 4_100_000 + position);
        }
    }
}

#[test]
fn sets() {
    let vector = |offsets: &[u32]| offsets.iter().copied().collect::<DeletionVector>();
    let (left, right) = (vector(&[1, 2]), vector(&[2, 9]));
    assert_eq!(left.union(&right), vector(&[1, 2, 9]));
    assert_eq!(left.difference(&right), vector(&[1]));
    assert!(left.intersects(&right) && !left.intersects(&vector(&[3])));
    let edge = vector(&[0, u32::MAX]);
    assert_eq!(edge.live_ranges(0..1 << 32).collect::<Vec<_>>(), [1..u64::from(u32::MAX)]);
    assert_eq!(edge.iter().collect::<BTreeSet<_>>().len(), 2);
    assert_eq!(edge.live_ranges(1 << 32..1 << 33).collect::<Vec<_>>(), [1 << 32..1 << 33]);
    assert_eq!(edge.live_offset(u64::from(u32::MAX) - 1), 1 << 32);
}
