//! Sets of row ids or row addresses, as the files of indices store them.
//!
//! | bytes | type | content |
//! |---|---|---|
//! | 4 | u32 | parts, n |
//! | | n times | u32 upper half, u32 size, a 32-bit roaring bitmap of that size: the lower halves |
//!
//! Little endian, upper halves ascending. A part of size 0 has all lower halves. Indices of three letters store sets
//! otherwise: u64 parts, and of each u32 upper half and its bitmap, without a size.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::ops::Range;

use pennon_core::bitmaps::{decode_bitmap, encode_bitmap};
use pennon_core::{Error, Result};
use roaring::RoaringBitmap;

/// A set of 64-bit numbers, by their upper halves: fragments, if the numbers are row addresses.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct RowSet {
    parts: BTreeMap<u32, LowerHalves>,
}

/// The lower halves of a part.
#[derive(Debug, Clone, PartialEq)]
enum LowerHalves {
    /// These; never none.
    Some(RoaringBitmap),
    /// All 2^32.
    All,
}

impl RowSet {
    /// No rows.
    pub fn new() -> Self {
        Self::default()
    }

    /// The set of these numbers, in any order.
    ///
    /// ```
    /// use pennon_index::RowSet;
    /// let set = RowSet::of(vec![1 << 32 | 1, 2, 1]);
    /// assert_eq!(set.iter().unwrap().collect::<Vec<_>>(), [1, 2, 1 << 32 | 1]);
    /// ```
    pub fn of(mut row_numbers: Vec<u64>) -> Self {
        if !row_numbers.is_sorted() {
            row_numbers.sort_unstable();
        }
        row_numbers.dedup();
        let mut set = Self::new();
        for run in row_numbers.chunk_by(|a, b| upper(*a) == upper(*b)) {
            let Some(first) = run.first() else { continue };
            let lower = run.iter().map(|number| lower(*number));
            // They ascend, so none is refused.
            let part = RoaringBitmap::from_sorted_iter(lower).unwrap_or_default();
            set.parts.insert(upper(*first), LowerHalves::Some(part));
        }
        set
    }

    /// The set with these lower halves of one upper half.
    pub fn of_part(upper: u32, lower: RoaringBitmap) -> Self {
        let mut set = Self::new();
        set.insert_part(upper, lower);
        set
    }

    /// Adds lower halves of an upper half.
    pub fn insert_part(&mut self, upper: u32, lower: RoaringBitmap) {
        if lower.is_empty() {
            return;
        }
        match self.parts.entry(upper) {
            Entry::Vacant(slot) => {
                slot.insert(LowerHalves::Some(lower));
            }
            Entry::Occupied(mut slot) => {
                if let LowerHalves::Some(before) = slot.get_mut() {
                    *before |= lower;
                }
            }
        }
    }

    /// Adds consecutive lower halves of an upper half.
    pub fn insert_range(&mut self, upper: u32, lower: Range<u32>) {
        if lower.is_empty() {
            return;
        }
        match self.parts.entry(upper).or_insert_with(|| LowerHalves::Some(RoaringBitmap::new())) {
            LowerHalves::Some(part) => {
                part.insert_range(lower);
            }
            LowerHalves::All => {}
        }
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.parts.is_empty()
    }

    /// How many there are.
    pub fn len(&self) -> u64 {
        let of_part = |part: &LowerHalves| match part {
            LowerHalves::Some(lower) => lower.len(),
            LowerHalves::All => 1 << 32,
        };
        self.parts.values().map(of_part).fold(0, u64::saturating_add)
    }

    /// Whether a number is there.
    pub fn contains(&self, number: u64) -> bool {
        match self.parts.get(&upper(number)) {
            None => false,
            Some(LowerHalves::All) => true,
            Some(LowerHalves::Some(part)) => part.contains(lower(number)),
        }
    }

    /// The numbers in ascending order; `None` if a part has all.
    pub fn iter(&self) -> Option<impl Iterator<Item = u64> + '_> {
        let parts = self.bitmaps()?;
        Some(parts.into_iter().flat_map(|(high, part)| part.iter().map(move |low| join(high, low))))
    }

    /// Upper halves and their lower halves, ascending; `None` if a part has all.
    pub fn bitmaps(&self) -> Option<Vec<(u32, &RoaringBitmap)>> {
        let parts = self.parts.iter().map(|(&high, part)| match part {
            LowerHalves::Some(part) => Some((high, part)),
            LowerHalves::All => None,
        });
        parts.collect()
    }

    /// Upper halves of which there are numbers, ascending.
    pub fn uppers(&self) -> impl Iterator<Item = u32> + '_ {
        self.parts.keys().copied()
    }

    /// The lower halves of an upper half that are below a limit.
    pub fn below(&self, upper: u32, limit: u32) -> RoaringBitmap {
        match self.parts.get(&upper) {
            None => RoaringBitmap::new(),
            Some(LowerHalves::Some(part)) if part.max().is_none_or(|max| max < limit) => part.clone(),
            Some(LowerHalves::Some(part)) => {
                let mut part = part.clone();
                part.remove_range(limit..=u32::MAX);
                part
            }
            Some(LowerHalves::All) => {
                let mut all = RoaringBitmap::new();
                all.insert_range(0..limit);
                all
            }
        }
    }

    /// Keeps the numbers of some upper halves.
    pub fn retain_uppers(&mut self, mut is_kept: impl FnMut(u32) -> bool) {
        self.parts.retain(|upper, _| is_kept(*upper));
    }

    /// The numbers of both sets.
    #[must_use]
    pub fn union(mut self, other: Self) -> Self {
        for (upper, part) in other.parts {
            match part {
                LowerHalves::Some(lower) => self.insert_part(upper, lower),
                LowerHalves::All => {
                    self.parts.insert(upper, LowerHalves::All);
                }
            }
        }
        self
    }

    /// The numbers that both sets have.
    #[must_use]
    pub fn intersection(&self, other: &Self) -> Self {
        let both = |(upper, mine): (&u32, &LowerHalves)| {
            let part = match (mine, other.parts.get(upper)?) {
                (LowerHalves::All, theirs) => theirs.clone(),
                (mine, LowerHalves::All) => mine.clone(),
                (LowerHalves::Some(mine), LowerHalves::Some(theirs)) => LowerHalves::Some(mine & theirs),
            };
            let is_empty = matches!(&part, LowerHalves::Some(lower) if lower.is_empty());
            (!is_empty).then_some((*upper, part))
        };
        Self { parts: self.parts.iter().filter_map(both).collect() }
    }

    /// Bytes of memory, about.
    pub fn memory_bytes(&self) -> usize {
        let of_part = |part: &LowerHalves| match part {
            LowerHalves::Some(lower) => lower.serialized_size(),
            LowerHalves::All => 0,
        };
        self.parts.values().map(|part| 64 + of_part(part)).sum()
    }

    /// The bytes that [`Self::decode`] reads.
    pub fn encode(&self) -> Result<Vec<u8>> {
        let too_large = |_| Error::unsupported("a set of rows with more than 4 GiB in one part");
        let mut bytes = Vec::with_capacity(4 + self.memory_bytes());
        bytes.extend(u32::try_from(self.parts.len()).map_err(too_large)?.to_le_bytes());
        for (upper, part) in &self.parts {
            bytes.extend(upper.to_le_bytes());
            match part {
                LowerHalves::All => bytes.extend(0_u32.to_le_bytes()),
                LowerHalves::Some(lower) => {
                    let lower = encode_bitmap(lower);
                    bytes.extend(u32::try_from(lower.len()).map_err(too_large)?.to_le_bytes());
                    bytes.extend(lower);
                }
            }
        }
        Ok(bytes)
    }

    /// The bytes of a set of one number, which [`Self::encode`] would give.
    ///
    /// The bitmap is that of the roaring format with one array container: cookie, number of containers, key and number of
    /// values less one, where it begins, the value.
    pub(crate) fn encode_one(number: u64) -> [u8; 30] {
        const COOKIE: u32 = 12_346;
        const BITMAP: u32 = 18;
        const HEADER: u32 = 16;
        let [key, value] = [lower(number) >> 16, lower(number) & 0xffff];
        let words = [1, upper(number), BITMAP, COOKIE, 1, key, HEADER];
        let mut bytes = [0; 30];
        let (head, last) = bytes.split_at_mut(28);
        for (slot, word) in head.as_chunks_mut::<4>().0.iter_mut().zip(words) {
            *slot = word.to_le_bytes();
        }
        last.iter_mut().zip(value.to_le_bytes()).for_each(|(slot, byte)| *slot = byte);
        bytes
    }

    /// The set that bytes say. Errors: `Corrupt`.
    pub fn decode(bytes: &[u8]) -> Result<Self> {
        let (count, mut rest) =
            bytes.split_first_chunk().ok_or_else(|| cut("number of parts", bytes.len()))?;
        let count = u32::from_le_bytes(*count);
        let mut parts = BTreeMap::new();
        let mut last: Option<u32> = None;
        for _ in 0..count {
            let (head, after) = rest.split_first_chunk::<8>().ok_or_else(|| cut("part", rest.len()))?;
            let [a, b, c, d, e, f, g, h] = *head;
            let (upper, size) = (u32::from_le_bytes([a, b, c, d]), u32::from_le_bytes([e, f, g, h]));
            if last.is_some_and(|last| last >= upper) {
                return Err(Error::corrupt(format!("set of rows: part {upper} follows part {last:?}")));
            }
            last = Some(upper);
            let size = usize::try_from(size).map_err(|_| cut("bitmap", after.len()))?;
            let (bitmap, after) = after.split_at_checked(size).ok_or_else(|| cut("bitmap", after.len()))?;
            rest = after;
            if size == 0 {
                parts.insert(upper, LowerHalves::All);
                continue;
            }
            let lower = decode_bitmap(bitmap).map_err(|e| e.at(format!("set of rows, part {upper}")))?;
            if !lower.is_empty() {
                parts.insert(upper, LowerHalves::Some(lower));
            }
        }
        if !rest.is_empty() {
            return Err(Error::corrupt(format!("set of rows: {} bytes after its {count} parts", rest.len())));
        }
        Ok(Self { parts })
    }
}

impl RowSet {
    /// The bytes that [`Self::decode_treemap`] reads. Errors: `Unsupported` for a part that has all lower halves.
    pub fn encode_treemap(&self) -> Result<Vec<u8>> {
        let mut bytes = Vec::with_capacity(8 + self.memory_bytes());
        bytes.extend((self.parts.len() as u64).to_le_bytes());
        for (upper, part) in &self.parts {
            let LowerHalves::Some(lower) = part else {
                return Err(Error::unsupported(format!("a set with all rows of part {upper}")));
            };
            bytes.extend(upper.to_le_bytes());
            bytes.extend(encode_bitmap(lower));
        }
        Ok(bytes)
    }

    /// The set that bytes say in the form of indices of three letters. Errors: `Corrupt`.
    pub fn decode_treemap(bytes: &[u8]) -> Result<Self> {
        let (count, mut rest) =
            bytes.split_first_chunk().ok_or_else(|| cut("number of parts", bytes.len()))?;
        let count = u64::from_le_bytes(*count);
        let mut set = Self::new();
        let mut last: Option<u32> = None;
        for _ in 0..count {
            let (upper, after) = rest.split_first_chunk().ok_or_else(|| cut("part", rest.len()))?;
            let upper = u32::from_le_bytes(*upper);
            if last.is_some_and(|last| last >= upper) {
                return Err(Error::corrupt(format!("set of rows: part {upper} follows part {last:?}")));
            }
            last = Some(upper);
            rest = after;
            let lower = RoaringBitmap::deserialize_from(&mut rest)
                .map_err(|e| Error::corrupt(format!("set of rows, part {upper}: {e}")))?;
            set.insert_part(upper, lower);
        }
        if !rest.is_empty() {
            return Err(Error::corrupt(format!("set of rows: {} bytes after its {count} parts", rest.len())));
        }
        Ok(set)
    }
}

impl FromIterator<u64> for RowSet {
    fn from_iter<I: IntoIterator<Item = u64>>(row_numbers: I) -> Self {
        Self::of(row_numbers.into_iter().collect())
    }
}

/// The number of an upper and a lower half.
pub(crate) fn join(upper: u32, lower: u32) -> u64 {
    u64::from(upper) << 32 | u64::from(lower)
}

/// The upper half: the fragment of a row address.
pub(crate) fn upper(number: u64) -> u32 {
    let [a, b, c, d, ..] = number.to_be_bytes();
    u32::from_be_bytes([a, b, c, d])
}

/// The lower half: the offset of a row address.
pub(crate) fn lower(number: u64) -> u32 {
    let [a, b, c, d, ..] = number.to_le_bytes();
    u32::from_le_bytes([a, b, c, d])
}

fn cut(what: &str, left: usize) -> Error {
    Error::corrupt(format!("set of rows: the {what} is cut off, {left} bytes are left"))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_bytes_are_those_of_the_reference() {
        let set = RowSet::of(vec![1, 2, 1 << 32 | 1]);
        let mut expected = Vec::new();
        for text in [
            "02000000 00000000 14000000 3a300000 01000000 0000 0100 10000000 0100 0200",
            "01000000 12000000 3a300000 01000000 0000 0000 10000000 0100",
        ] {
            let digits: String = text.split_whitespace().collect();
            expected.extend(
                (0..digits.len()).step_by(2).map(|at| u8::from_str_radix(&digits[at..at + 2], 16).unwrap()),
            );
        }
        assert_eq!(set.encode().unwrap(), expected);
        assert_eq!(RowSet::decode(&expected).unwrap(), set);
    }

    #[test]
    fn a_part_of_size_zero_has_all() {
        let bytes = [1_u32, 7, 0].map(u32::to_le_bytes).concat();
        let set = RowSet::decode(&bytes).unwrap();
        assert!(
            set.contains(7 << 32) && set.contains(7 << 32 | u64::from(u32::MAX)) && !set.contains(8 << 32)
        );
        assert_eq!((set.len(), set.below(7, 5).len()), (1 << 32, 5));
        assert!(set.iter().is_none());
        assert_eq!(set.encode().unwrap(), bytes);
    }

    #[test]
    fn damaged_bytes_are_an_error() {
        let good = RowSet::of(vec![1, 2, 1 << 32 | 1]).encode().unwrap();
        for end in 0..good.len() {
            assert!(RowSet::decode(&good[..end]).is_err(), "{end} bytes");
        }
        let longer = [good.as_slice(), &[0]].concat();
        assert!(RowSet::decode(&longer).is_err());
        // A part that says to be longer than its bitmap.
        let mut longer_part = [RowSet::of(vec![1, 2]).encode().unwrap(), vec![0]].concat();
        longer_part[8] += 1;
        assert!(RowSet::decode(&longer_part).unwrap_err().to_string().contains("ends at byte"));
        let treemap = RowSet::of(vec![1, 2, 1 << 32 | 1]).encode_treemap().unwrap();
        for end in 0..treemap.len() {
            assert!(RowSet::decode_treemap(&treemap[..end]).is_err(), "{end} bytes of a treemap");
        }
        assert!(RowSet::decode_treemap(&[treemap.as_slice(), &[0]].concat()).is_err());
        let duplicate_part = [2_u32, 7, 0, 7, 0].map(u32::to_le_bytes).concat();
        assert!(RowSet::decode(&duplicate_part).is_err());
    }

    proptest! {
        #[test]
        fn one_number(number: u64) {
            prop_assert_eq!(RowSet::encode_one(number).to_vec(), RowSet::of(vec![number]).encode().unwrap());
        }

        #[test]
        fn as_a_set_of_numbers(a in rows(), b in rows(), limit in 0..300_u32) {
            let (x, y) = (RowSet::from_iter(a.clone()), RowSet::from_iter(b.clone()));
            prop_assert_eq!(&RowSet::decode(&x.encode().unwrap()).unwrap(), &x);
            let treemap = x.encode_treemap().unwrap();
            prop_assert_eq!(&RowSet::decode_treemap(&treemap).unwrap(), &x);
            prop_assert_eq!(roaring::RoaringTreemap::deserialize_from(&treemap[..]).unwrap(), a.iter().collect());
            let elements = |set: &RowSet| set.iter().unwrap().collect::<BTreeSet<_>>();
            prop_assert_eq!(elements(&x), a.clone());
            prop_assert_eq!(elements(&x.intersection(&y)), &a & &b);
            prop_assert_eq!(elements(&x.clone().union(y)), &a | &b);
            prop_assert_eq!(x.len(), a.len() as u64);
            let below: BTreeSet<u64> = x.below(1, limit).iter().map(|low| join(1, low)).collect();
            let expected = a.iter().copied().filter(|n| upper(*n) == 1 && lower(*n) < limit).collect::<BTreeSet<_>>();
            prop_assert_eq!(below, expected);
        }
    }

    fn rows() -> impl Strategy<Value = BTreeSet<u64>> {
        proptest::collection::btree_set(
            (0..3_u32, 0..400_u32).prop_map(|(high, low)| join(high, low)),
            0..200,
        )
    }
}
