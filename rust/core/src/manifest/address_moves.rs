//! Where the rows of replaced fragments are now.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use roaring::{RoaringBitmap, RoaringTreemap};

use crate::{Error, FragmentId, Result, RowAddress};

/// Moves of rows between fragments, one after the other: of a group's moved rows, in the order of their old addresses, the
/// n-th is the n-th row of its new fragments, unless the group has an order of its own.
#[derive(Debug, Clone, Default)]
pub struct AddressMoves {
    /// By fragment that was replaced.
    replaced: HashMap<u32, ReplacedFragment, BuildHasherDefault<FragmentHasher>>,
    groups: Vec<Group>,
}

/// Spreads ids of fragments: millions of addresses are looked up, by few ids that nobody chose to collide.
#[derive(Debug, Clone, Default)]
struct FragmentHasher(u64);

impl Hasher for FragmentHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_u32(u32::from(*byte)));
    }

    fn write_u32(&mut self, id: u32) {
        self.0 = (self.0 ^ u64::from(id)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
}

#[derive(Debug, Clone)]
struct ReplacedFragment {
    group: usize,
    /// Moved rows of the group that come before those of the fragment.
    before: u64,
    moved: Ranks,
}

#[derive(Debug, Clone)]
struct Group {
    old: RoaringBitmap,
    new: RoaringBitmap,
    /// Moved rows before each of the new fragments, ascending.
    starts: Vec<(u64, FragmentId)>,
    /// The rank of each moved row in the new fragments, if that is another one than in the old.
    order: Option<Vec<u32>>,
}

/// The rank of each number of a set.
#[derive(Debug, Clone)]
enum Ranks {
    /// Of all numbers below this one.
    Below(u32),
    /// By 64 numbers: which are in the set, and how many before them are.
    Words(Vec<(u64, u32)>),
}

impl Ranks {
    fn new(set: &RoaringBitmap) -> Self {
        let end = set.max().map_or(0, |max| u64::from(max) + 1);
        match u32::try_from(end) {
            Ok(end) if set.len() == u64::from(end) => return Self::Below(end),
            _ => {}
        }
        let mut words: Vec<(u64, u32)> = Vec::new();
        for (rank, number) in (0_u32..).zip(set) {
            let at = usize::try_from(number / 64).unwrap_or(usize::MAX);
            while words.len() <= at {
                words.push((0, rank));
            }
            if let Some((bits, _)) = words.last_mut() {
                *bits |= 1 << (number % 64);
            }
        }
        Self::Words(words)
    }

    fn of(&self, number: u32) -> Option<u32> {
        match self {
            Self::Below(end) => (number < *end).then_some(number),
            Self::Words(words) => {
                let (bits, before) = words.get(usize::try_from(number / 64).ok()?)?;
                let bit = 1_u64 << (number % 64);
                (bits & bit != 0).then(|| before + (bits & (bit - 1)).count_ones())
            }
        }
    }
}

impl AddressMoves {
    /// No moves.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds rows of fragments that were replaced by others, given with the number of their rows; `order` has the rank of
    /// each moved row in the new fragments, if that is another one than in the old.
    ///
    /// Errors: `Corrupt` if other rows moved than the new fragments have, or a fragment was replaced before.
    pub fn add(
        &mut self,
        moved: &RoaringTreemap,
        old: impl IntoIterator<Item = FragmentId>,
        new: impl IntoIterator<Item = (FragmentId, u64)>,
        order: Option<Vec<u32>>,
    ) -> Result<()> {
        let group = self.groups.len();
        let old: RoaringBitmap = old.into_iter().map(|id| id.0).collect();
        let (mut starts, mut rows) = (Vec::new(), 0_u64);
        for (id, count) in new {
            starts.push((rows, id));
            rows = rows.saturating_add(count);
        }
        if moved.len() != rows {
            return Err(Error::corrupt(format!(
                "{} rows of the fragments {:?} moved, their new fragments have {rows}",
                moved.len(),
                Vec::from_iter(&old)
            )));
        }
        if let Some(order) = order.as_ref().filter(|order| order.len() as u64 != rows) {
            return Err(Error::corrupt(format!("an order of {} rows for {rows} that moved", order.len())));
        }
        let mut before = 0;
        for (id, rows) in moved.bitmaps() {
            if !old.contains(id) {
                return Err(Error::corrupt(format!("rows of fragment {id} moved, which was not replaced")));
            }
            let replaced = ReplacedFragment { group, before, moved: Ranks::new(rows) };
            before += rows.len();
            if self.replaced.insert(id, replaced).is_some() {
                return Err(Error::corrupt(format!("fragment {id} was replaced more than once")));
            }
        }
        // Those of which no row was left.
        for id in &old {
            let empty = ReplacedFragment { group, before, moved: Ranks::Below(0) };
            self.replaced.entry(id).or_insert(empty);
        }
        let new = starts.iter().map(|(_, id)| id.0).collect();
        self.groups.push(Group { old, new, starts, order });
        Ok(())
    }

    /// Whether nothing moved.
    pub fn is_empty(&self) -> bool {
        self.groups.is_empty()
    }

    /// Where a row is now that was at an address once; `None` if it was deleted before it could move.
    pub fn current(&self, mut address: RowAddress) -> Option<RowAddress> {
        // No fragment is replaced twice, so this is the longest way without a circle.
        for _ in 0..=self.groups.len() {
            let Some(replaced) = self.replaced.get(&address.fragment().0) else { return Some(address) };
            let Group { starts, order, .. } = self.groups.get(replaced.group)?;
            let mut rank = replaced.before + u64::from(replaced.moved.of(address.offset())?);
            if let Some(order) = order {
                rank = u64::from(*order.get(usize::try_from(rank).ok()?)?);
            }
            let (start, id) =
                starts.get(starts.partition_point(|(start, _)| *start <= rank).checked_sub(1)?)?;
            address = RowAddress::new(*id, u32::try_from(rank - start).ok()?);
        }
        None
    }

    /// As [`Self::current`], of several rows of a fragment: where those are that are left, by fragments, of which one may be
    /// there twice.
    pub fn current_of(
        &self,
        fragment: FragmentId,
        offsets: &RoaringBitmap,
    ) -> Vec<(FragmentId, RoaringBitmap)> {
        let mut found = Vec::new();
        let mut waiting = vec![(fragment, offsets.clone())];
        for _ in 0..=self.groups.len() {
            for (id, offsets) in std::mem::take(&mut waiting) {
                match self.replaced.get(&id.0) {
                    None => found.push((id, offsets)),
                    Some(replaced) => self.follow(replaced, &offsets, &mut waiting),
                }
            }
        }
        found
    }

    /// Adds the rows of the new fragments that these rows of a replaced one became.
    fn follow(
        &self,
        replaced: &ReplacedFragment,
        offsets: &RoaringBitmap,
        moved: &mut Vec<(FragmentId, RoaringBitmap)>,
    ) {
        let Some(Group { starts, order, .. }) = self.groups.get(replaced.group) else { return };
        let ranks = offsets.iter().filter_map(|offset| replaced.moved.of(offset));
        let mut ranks: Vec<u64> = ranks.map(|rank| replaced.before + u64::from(rank)).collect();
        if let Some(order) = order {
            let new = |rank: &u64| usize::try_from(*rank).ok().and_then(|rank| order.get(rank));
            ranks = ranks.iter().filter_map(new).map(|rank| u64::from(*rank)).collect();
            ranks.sort_unstable();
        }
        let ends = starts.iter().skip(1).map(|(end, _)| *end).chain([u64::MAX]);
        let mut rest = ranks.as_slice();
        for ((start, id), end) in starts.iter().zip(ends) {
            let (of_fragment, others) = rest.split_at(rest.partition_point(|rank| *rank < end));
            rest = others;
            let offsets = of_fragment.iter().filter_map(|rank| u32::try_from(rank - start).ok());
            // They ascend, so none is refused.
            let offsets = RoaringBitmap::from_sorted_iter(offsets).unwrap_or_default();
            if !offsets.is_empty() {
                moved.push((*id, offsets));
            }
        }
    }

    /// If the rows of a fragment moved to consecutive addresses, without a gap: how many these are, and the first address.
    /// Those of a fragment that was not replaced are where they were.
    pub fn run_of(&self, fragment: FragmentId) -> Option<(u32, RowAddress)> {
        let Some(replaced) = self.replaced.get(&fragment.0) else {
            return Some((u32::MAX, RowAddress::new(fragment, 0)));
        };
        let Ranks::Below(rows) = replaced.moved else { return None };
        let (first, last) = (RowAddress::new(fragment, 0), RowAddress::new(fragment, rows.checked_sub(1)?));
        let (first, last) = (self.current(first)?, self.current(last)?);
        // Moves keep the order of a group that has none of its own; then nothing is between the two but these rows.
        let is_run =
            first.fragment() == last.fragment() && last.0.checked_sub(first.0) == Some(u64::from(rows) - 1);
        (is_run && self.groups.iter().all(|group| group.order.is_none())).then_some((rows, first))
    }

    /// The fragments that have all rows of these, in place of those that were replaced.
    pub fn covered(&self, fragments: &RoaringBitmap) -> RoaringBitmap {
        let mut covered = fragments.clone();
        for group in &self.groups {
            if covered.is_disjoint(&group.old) {
                continue;
            }
            if group.old.is_subset(&covered) {
                covered |= &group.new;
            }
            covered -= &group.old;
        }
        covered
    }

    /// The groups of replaced fragments that a set has none of, or all: `false` if it has a part of one.
    pub fn are_whole_in(&self, fragments: &RoaringBitmap) -> bool {
        self.groups.iter().all(|group| group.old.is_disjoint(fragments) || group.old.is_subset(fragments))
    }

    /// Whether some of these fragments were replaced.
    pub fn touch(&self, fragments: &RoaringBitmap) -> bool {
        self.groups.iter().any(|group| !group.old.is_disjoint(fragments))
    }

    /// Bytes of memory, about.
    pub fn memory_bytes(&self) -> usize {
        let of = |replaced: &ReplacedFragment| match &replaced.moved {
            Ranks::Below(_) => 64,
            Ranks::Words(words) => 64 + 16 * words.len(),
        };
        let orders = self.groups.iter().filter_map(|group| group.order.as_ref()).map(|order| 4 * order.len());
        self.replaced.values().map(of).sum::<usize>() + orders.sum::<usize>()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;
    use crate::ErrorKind;

    fn at(fragment: u32, offset: u32) -> RowAddress {
        RowAddress::new(FragmentId(fragment), offset)
    }

    fn of(addresses: &[RowAddress]) -> RoaringTreemap {
        addresses.iter().map(|address| address.0).collect()
    }

    #[test]
    fn rows_are_followed_through_two_compactions() {
        let mut moves = AddressMoves::new();
        let moved = of(&[at(0, 0), at(0, 2), at(1, 1)]);
        moves.add(&moved, [0, 1, 2].map(FragmentId), [(FragmentId(5), 2), (FragmentId(6), 1)], None).unwrap();
        moves.add(&of(&[at(5, 1), at(6, 0)]), [5, 6].map(FragmentId), [(FragmentId(9), 2)], None).unwrap();
        let now = |fragment, offset| moves.current(at(fragment, offset));
        assert_eq!([now(0, 2), now(1, 1), now(6, 0)], [Some(at(9, 0)), Some(at(9, 1)), Some(at(9, 1))]);
        assert_eq!([now(0, 0), now(0, 1), now(2, 0), now(1, 7)], [None; 4]);
        assert_eq!(now(3, 4), Some(at(3, 4)));
        assert_eq!(moves.run_of(FragmentId(3)), Some((u32::MAX, at(3, 0))));
        assert_eq!(moves.run_of(FragmentId(5)), None);
        let of_fragment = |id, offsets: [u32; 2]| moves.current_of(FragmentId(id), &offsets.into());
        assert_eq!(of_fragment(0, [1, 2]), [(FragmentId(9), RoaringBitmap::from([0]))]);
        assert_eq!(of_fragment(3, [4, 5]), [(FragmentId(3), RoaringBitmap::from([4, 5]))]);
        let covered = |ids: &[u32]| Vec::from_iter(moves.covered(&ids.iter().copied().collect()));
        assert_eq!(covered(&[0, 1, 2, 3]), [3, 9]);
        assert_eq!(covered(&[0, 2]), [0_u32; 0]);
        assert_eq!(covered(&[5, 6]), [9]);
    }

    #[test]
    fn moves_that_do_not_add_up_are_corrupt() {
        let mut moves = AddressMoves::new();
        let mut add = |rows: &[RowAddress], old: u32, new| {
            moves.add(&of(rows), [FragmentId(old)], [(FragmentId(9), new)], None).unwrap_err().kind()
        };
        assert_eq!(add(&[at(0, 0)], 0, 2), ErrorKind::Corrupt);
        assert_eq!(add(&[at(1, 0)], 0, 1), ErrorKind::Corrupt);
    }

    #[test]
    fn moves_in_a_circle_end() {
        let mut moves = AddressMoves::new();
        moves.add(&of(&[at(0, 0)]), [FragmentId(0)], [(FragmentId(1), 1)], None).unwrap();
        moves.add(&of(&[at(1, 0)]), [FragmentId(1)], [(FragmentId(0), 1)], None).unwrap();
        assert_eq!(moves.current(at(0, 0)), None);
        assert_eq!(moves.current_of(FragmentId(0), &[0].into()), []);
    }

    proptest! {
        #[test]
        fn the_nth_moved_row_is_the_nth_new_one(
            rows in proptest::collection::btree_set((0..3_u32, 0..300_u32), 0..200), cut in 0..200_usize,
            reversed: bool,
        ) {
            let rows: Vec<RowAddress> = rows.into_iter().map(|(id, offset)| at(id, offset)).collect();
            let first = cut.min(rows.len());
            let sizes = [(FragmentId(7), first as u64), (FragmentId(8), (rows.len() - first) as u64)];
            let mut moves = AddressMoves::new();
            let order = reversed.then(|| (0..u32::try_from(rows.len()).unwrap()).rev().collect());
            moves.add(&of(&rows), [0, 1, 2].map(FragmentId), sizes, order).unwrap();
            for id in 0..3 {
                for offset in 0..310 {
                    let rank = rows.binary_search(&at(id, offset)).ok();
                    let rank = rank.map(|rank| if reversed { rows.len() - 1 - rank } else { rank });
                    let expected = rank.map(|rank| match rank.checked_sub(first) {
                        None => at(7, rank.try_into().unwrap()),
                        Some(rank) => at(8, rank.try_into().unwrap()),
                    });
                    prop_assert_eq!(moves.current(at(id, offset)), expected);
                }
                if let Some((count, first)) = moves.run_of(FragmentId(id)) {
                    for offset in 0..count.min(310) {
                        let expected = at(first.fragment().0, first.offset() + offset);
                        prop_assert_eq!(moves.current(at(id, offset)), Some(expected));
                    }
                    prop_assert!(moves.current(at(id, count)).is_none());
                }
                let of_fragment: BTreeSet<RowAddress> =
                    (0..310).filter(|offset| offset % 3 > 0).filter_map(|offset| moves.current(at(id, offset))).collect();
                let offsets = (0..310).filter(|offset| offset % 3 > 0).collect();
                let parts = moves.current_of(FragmentId(id), &offsets);
                let found = parts.iter().flat_map(|(id, offsets)| offsets.iter().map(|offset| RowAddress::new(*id, offset)));
                prop_assert_eq!(found.collect::<BTreeSet<_>>(), of_fragment);
            }
        }
    }
}
