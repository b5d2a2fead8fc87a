//! Which keys a merge inserted, so that two merges that insert the same key conflict (table format 8.4).
//!
//! The set is exact or a Bloom filter of split blocks: 32 bytes, eight words of one bit per key.
//!
//! | step | rule |
//! |---|---|
//! | key bytes | integers as 8 bytes, little endian; texts as they are; of several columns each followed by a 0 |
//! | hash | XXH64 with seed 0 |
//! | block | upper half of the hash times the number of blocks, upper half of that |
//! | bit of word i | lower half of the hash times `SALT[i]`, its upper 5 bits |

use std::collections::BTreeSet;

use twox_hash::XxHash64;

use crate::{Error, FieldId, Result};

const SALT: [u32; 8] =
    [0x47b6_137b, 0x4497_4d91, 0x8824_ad5b, 0xa2b7_289d, 0x7054_95c7, 0x2df1_424b, 0x9efc_4947, 0x5c6b_fb31];
const BLOCK_BYTES: usize = 32;

/// A filter of inserted keys.
#[derive(Debug, Clone, PartialEq)]
pub struct KeyFilter {
    /// Fields of the key, in its order.
    pub fields: Vec<FieldId>,
    /// The keys; `None` if the filter does not say.
    pub keys: Option<KeySet>,
}

/// Hashes of keys.
#[derive(Debug, Clone, PartialEq)]
pub enum KeySet {
    /// All of them.
    Exact(BTreeSet<u64>),
    /// A set that may have more.
    Bloom(BloomFilter),
}

/// A Bloom filter of split blocks.
#[derive(Debug, Clone, PartialEq)]
pub struct BloomFilter {
    /// The blocks, words little endian.
    pub bitmap: Vec<u8>,
    /// Keys it was made for.
    pub items: u64,
    /// Share of other keys that it takes for its own, with so many keys.
    pub probability: f64,
}

impl KeyFilter {
    /// Whether a key may be in both. What cannot be compared may.
    ///
    /// ```
    /// use pennon_core::FieldId;
    /// use pennon_core::transaction::{BloomFilter, KeyFilter, KeySet, key_hash};
    /// let filter = |key: u64| {
    ///     let mut bloom = BloomFilter::default();
    ///     bloom.insert(key_hash(&[&key.to_le_bytes()]));
    ///     KeyFilter { fields: vec![FieldId(0)], keys: Some(KeySet::Bloom(bloom)) }
    /// };
    /// assert!(filter(4).may_intersect(&filter(4)));
    /// assert!(!filter(4).may_intersect(&filter(5)));
    /// ```
    pub fn may_intersect(&self, other: &Self) -> bool {
        let (true, Some(mine), Some(theirs)) = (self.fields == other.fields, &self.keys, &other.keys) else {
            return true;
        };
        match (mine, theirs) {
            (KeySet::Exact(mine), KeySet::Exact(theirs)) => !mine.is_disjoint(theirs),
            (KeySet::Exact(keys), KeySet::Bloom(filter)) | (KeySet::Bloom(filter), KeySet::Exact(keys)) => {
                keys.iter().any(|hash| filter.contains(*hash))
            }
            (KeySet::Bloom(mine), KeySet::Bloom(theirs)) => mine.may_intersect(theirs),
        }
    }

    /// Whether it says which keys were inserted. An empty filter does not: that of the reference is empty for keys whose
    /// types it has no bytes for (table format 8.4).
    pub fn says_which(&self) -> bool {
        let has_keys = match &self.keys {
            Some(KeySet::Exact(keys)) => !keys.is_empty(),
            Some(KeySet::Bloom(filter)) => filter.bitmap.iter().any(|byte| *byte != 0),
            None => false,
        };
        has_keys && !self.fields.is_empty()
    }

    /// Whether a key may be among them, by its hash.
    ///
    /// ```
    /// use pennon_core::FieldId;
    /// use pennon_core::transaction::{KeyFilter, KeySet, key_hash};
    /// let [four, five] = [4_u64, 5].map(|key| key_hash(&[&key.to_le_bytes()]));
    /// let filter = KeyFilter { fields: vec![FieldId(0)], keys: Some(KeySet::Exact([four].into())) };
    /// assert!(filter.may_contain(four) && !filter.may_contain(five));
    /// ```
    pub fn may_contain(&self, hash: u64) -> bool {
        match &self.keys {
            Some(KeySet::Exact(keys)) => keys.contains(&hash),
            Some(KeySet::Bloom(filter)) => filter.contains(hash),
            None => true,
        }
    }

    /// The keys of both; it does not say which if they are of other fields, or if one does not say.
    pub fn union(self, other: Self) -> Self {
        let keys = match (self.keys, other.keys) {
            (Some(mine), Some(theirs)) if self.fields == other.fields => mine.union(theirs),
            _ => None,
        };
        Self { fields: self.fields, keys }
    }
}

impl KeySet {
    fn union(self, other: Self) -> Option<Self> {
        match (self, other) {
            (Self::Exact(mut all), Self::Exact(mut others)) => {
                all.append(&mut others);
                Some(Self::Exact(all))
            }
            (Self::Exact(keys), Self::Bloom(mut filter)) | (Self::Bloom(mut filter), Self::Exact(keys)) => {
                filter.items = filter.items.saturating_add(u64::try_from(keys.len()).unwrap_or(u64::MAX));
                keys.into_iter().for_each(|hash| filter.insert(hash));
                Some(Self::Bloom(filter))
            }
            (Self::Bloom(mine), Self::Bloom(theirs)) => mine.union(theirs).map(Self::Bloom),
        }
    }
}

/// As large as the reference makes it: 32 KiB for 8,192 keys.
impl Default for BloomFilter {
    fn default() -> Self {
        Self { bitmap: vec![0; 32 * 1024], items: 8192, probability: 0.00057 }
    }
}

impl BloomFilter {
    /// Adds a key by its hash.
    pub fn insert(&mut self, hash: u64) {
        let Some(at) = block(&self.bitmap, hash) else { return };
        let words = self.bitmap.chunks_exact_mut(4).skip(at * 8);
        for (word, bit) in words.zip(bits(hash)) {
            for (byte, mask) in word.iter_mut().zip((1_u32 << bit).to_le_bytes()) {
                *byte |= mask;
            }
        }
    }

    /// An empty filter for so many keys that takes at most this share of others for its own: as large as the reference
    /// makes it, the smallest power of two from 32 bytes to 128 MiB. Errors: `InvalidInput` unless the share lies
    /// between 0 and 1.
    ///
    /// ```
    /// use pennon_core::transaction::BloomFilter;
    /// assert_eq!(BloomFilter::with_room(8192, 0.00057)?.bitmap.len(), 32768);
    /// assert!(BloomFilter::with_room(8192, 1.0).is_err());
    /// # Ok::<(), pennon_core::Error>(())
    /// ```
    pub fn with_room(items: u64, probability: f64) -> Result<Self> {
        if !(probability > 0.0 && probability < 1.0) {
            return Err(Error::invalid_input(format!(
                "The probability of a Bloom filter is {probability}, expected a number between 0 and 1"
            )));
        }
        let sizes = (5_u32..27).map(|power| 1_usize << power);
        let size = sizes.into_iter().find(|bytes| false_positives(items, *bytes) <= probability);
        Ok(Self { bitmap: vec![0; size.unwrap_or(1 << 27)], items, probability })
    }

    /// Whether a key may be there. A filter without a block may have any.
    pub fn contains(&self, hash: u64) -> bool {
        Self::may_have(&self.bitmap, hash)
    }

    /// Whether a key may be in the filter with these blocks. One without a block may have any.
    pub fn may_have(bitmap: &[u8], hash: u64) -> bool {
        let Some(at) = block(bitmap, hash) else { return true };
        let Some(block) = bitmap.get(at * BLOCK_BYTES..(at + 1) * BLOCK_BYTES) else { return true };
        words(block).zip(bits(hash)).all(|(word, bit)| word & (1 << bit) != 0)
    }

    /// A key sets a bit in every word of its block: one of both is in a block of which no word is empty.
    fn may_intersect(&self, other: &Self) -> bool {
        if self.bitmap.len() != other.bitmap.len() || !self.bitmap.len().is_multiple_of(BLOCK_BYTES) {
            return true;
        }
        let both: Vec<u32> =
            words(&self.bitmap).zip(words(&other.bitmap)).map(|(mine, theirs)| mine & theirs).collect();
        both.chunks_exact(8).any(|block| block.iter().all(|word| *word != 0))
    }

    /// The keys of both, in a filter of the larger size; `None` unless that is a multiple of the smaller one.
    fn union(self, other: Self) -> Option<Self> {
        let (mut large, small) =
            if self.bitmap.len() < other.bitmap.len() { (other, self) } else { (self, other) };
        let blocks = |filter: &Self| filter.bitmap.len() / BLOCK_BYTES;
        let (all, few) = (blocks(&large), blocks(&small));
        if few == 0 || !all.is_multiple_of(few) || !large.bitmap.len().is_multiple_of(BLOCK_BYTES) {
            return None;
        }
        // The upper bits of a hash choose the block: those of a larger filter divide those of a smaller one.
        let parts = large.bitmap.chunks_exact_mut(BLOCK_BYTES * (all / few));
        for (part, block) in parts.zip(small.bitmap.chunks_exact(BLOCK_BYTES)) {
            for (byte, other) in part.iter_mut().zip(block.iter().cycle()) {
                *byte |= other;
            }
        }
        large.items = large.items.saturating_add(small.items);
        large.probability = large.probability.max(small.probability);
        Some(large)
    }
}

fn words(bitmap: &[u8]) -> impl Iterator<Item = u32> + '_ {
    bitmap.chunks_exact(4).filter_map(|word| word.try_into().ok()).map(u32::from_le_bytes)
}

/// The block of a key; `None` if there are no blocks.
fn block(bitmap: &[u8], hash: u64) -> Option<usize> {
    let blocks = u64::try_from(bitmap.len() / BLOCK_BYTES).ok().filter(|blocks| *blocks > 0)?;
    usize::try_from((hash >> 32).checked_mul(blocks)? >> 32).ok()
}

/// The share of other keys that a filter of so many bytes with so many keys takes for its own: of a block with i keys it
/// is (1 - (31/32)^i)^8, and i has a Poisson distribution (Putze, Sanders and Singler 2007).
#[expect(clippy::cast_precision_loss, reason = "counts of keys and blocks as factors")]
fn false_positives(items: u64, bytes: usize) -> f64 {
    /// Mean number of keys in a block from which on practically every bit is set.
    const FULL: f64 = 500.0;
    let mean = items as f64 * BLOCK_BYTES as f64 / bytes as f64;
    if mean > FULL {
        return 1.0;
    }
    let (mut share, mut likelihood, mut unset) = (0.0, (-mean).exp(), 1.0_f64);
    for keys in 1..2000_u32 {
        likelihood *= mean / f64::from(keys);
        unset *= 31.0 / 32.0;
        share += likelihood * (1.0 - unset).powi(8);
    }
    share
}

#[expect(clippy::cast_possible_truncation, reason = "the lower half is what is wanted")]
fn bits(hash: u64) -> impl Iterator<Item = u32> {
    SALT.into_iter().map(move |salt| (hash as u32).wrapping_mul(salt) >> 27)
}

/// The hash of a key: its columns in the order of the key, integers as 8 bytes, little endian.
pub fn key_hash(columns: &[&[u8]]) -> u64 {
    let xxh64 = |bytes: &[u8]| XxHash64::oneshot(0, bytes);
    match columns {
        [column] => xxh64(column),
        _ => {
            let mut bytes = Vec::new();
            for column in columns {
                bytes.extend_from_slice(column);
                bytes.push(0);
            }
            xxh64(&bytes)
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Block and bits of keys that the reference inserted.
    #[test]
    fn keys_of_the_reference() {
        let four = 4_i64.to_le_bytes();
        type Case<'a> = (&'a [&'a [u8]], usize, [u32; 8]);
        let cases: [Case<'_>; 3] = [
            (&[&four], 174, [4, 2, 23, 27, 5, 0, 14, 8]),
            (&[b"abc"], 274, [13, 11, 23, 21, 6, 14, 29, 29]),
            (&[&four, b"abc"], 658, [9, 19, 19, 27, 14, 18, 13, 5]),
        ];
        for (key, block, bits) in cases {
            let mut filter = BloomFilter::default();
            filter.insert(key_hash(key));
            let mut expected = vec![0_u8; 32 * 1024];
            for (word, bit) in bits.into_iter().enumerate() {
                expected[block * 32 + word * 4 + usize::try_from(bit / 8).unwrap()] |= 1 << (bit % 8);
            }
            assert_eq!(filter.bitmap, expected);
            assert!(filter.contains(key_hash(key)));
        }
    }

    /// Values of the published test program of the hash.
    #[test]
    fn known_hashes() {
        assert_eq!(key_hash(&[b""]), 0xef46_db37_51d8_e999);
        assert_eq!(key_hash(&[b"a"]), 0xd24e_c4f1_a98c_6e5b);
        assert_eq!(key_hash(&[b"abc"]), 0x44bc_2cf5_ad77_0999);
        let text = b"Nobody inspects the spammish repetition";
        assert_eq!(key_hash(&[text]), 0xfbce_a83c_8a37_8bf1);
    }

    /// Sizes that the reference chose.
    #[test]
    fn sizes_of_the_reference() {
        for (items, probability, bytes) in [
            (8192, 0.00057, 32768),
            (8192, 0.05, 8192),
            (1000, 0.001, 4096),
            (100, 0.01, 256),
            (16, 0.01, 32),
            (1, 0.5, 32),
        ] {
            let filter = BloomFilter::with_room(items, probability).unwrap();
            assert_eq!(filter.bitmap.len(), bytes, "{items} {probability}");
        }
        assert_eq!(BloomFilter::with_room(u64::MAX, 0.01).unwrap().bitmap.len(), 1 << 27);
        assert!(BloomFilter::with_room(1, f64::NAN).is_err());
    }

    fn filter(keys: &BTreeSet<u64>, exact: bool) -> KeyFilter {
        filter_of_size(keys, if exact { None } else { Some(32 * 1024) })
    }

    /// Exact without a size in bytes.
    fn filter_of_size(keys: &BTreeSet<u64>, bytes: Option<usize>) -> KeyFilter {
        let hashes = keys.iter().map(|key| key_hash(&[&key.to_le_bytes()]));
        let keys = if bytes.is_none() {
            KeySet::Exact(hashes.collect())
        } else {
            let bitmap = vec![0; bytes.unwrap_or_default()];
            let mut bloom = BloomFilter { bitmap, ..BloomFilter::default() };
            hashes.for_each(|hash| bloom.insert(hash));
            KeySet::Bloom(bloom)
        };
        KeyFilter { fields: vec![FieldId(0)], keys: Some(keys) }
    }

    proptest! {
        /// The union has the keys of both, and is the filter that all keys together would have made.
        #[test]
        fn a_union_has_the_keys_of_both(
            left in prop::collection::btree_set(any::<u64>(), 0..40),
            right in prop::collection::btree_set(any::<u64>(), 0..40),
            sizes in (0_u32..6, 0_u32..6),
        ) {
            let size = |power: u32| (power > 0).then(|| 32 << power);
            let (left_size, right_size) = (size(sizes.0), size(sizes.1));
            let both = filter_of_size(&left, left_size).union(filter_of_size(&right, right_size));
            let all: BTreeSet<u64> = left.union(&right).copied().collect();
            for key in &all {
                let alone = BTreeSet::from([*key]);
                prop_assert!(both.may_intersect(&filter_of_size(&alone, None)));
            }
            if left_size == right_size {
                let expected = filter_of_size(&all, left_size);
                match (both.keys, expected.keys) {
                    (Some(KeySet::Bloom(found)), Some(KeySet::Bloom(expected))) => {
                        prop_assert_eq!(found.bitmap, expected.bitmap);
                    }
                    (found, expected) => prop_assert_eq!(found, expected),
                }
            }
        }

        /// A common key is never overlooked, in whatever forms the filters are; exact ones are exact.
        #[test]
        fn common_keys_are_found(
            left in prop::collection::btree_set(0_u64..200, 0..20),
            right in prop::collection::btree_set(0_u64..200, 0..20),
            forms: (bool, bool),
        ) {
            let found = filter(&left, forms.0).may_intersect(&filter(&right, forms.1));
            let common = !left.is_disjoint(&right);
            prop_assert!(found || !common);
            if forms.0 && forms.1 {
                prop_assert_eq!(found, common);
            }
        }
    }

    #[test]
    fn few_keys_are_distinguished_and_incomparable_filters_may_intersect() {
        let (left, right) =
            (filter(&BTreeSet::from([1, 2, 3]), false), filter(&BTreeSet::from([7, 8]), false));
        assert!(!left.may_intersect(&right));
        assert!(left.may_intersect(&KeyFilter { fields: vec![FieldId(1)], ..right.clone() }));
        assert!(left.may_intersect(&KeyFilter { keys: None, ..right.clone() }));
        let smaller = BloomFilter { bitmap: vec![0; 64], ..BloomFilter::default() };
        assert!(left.may_intersect(&KeyFilter { keys: Some(KeySet::Bloom(smaller)), ..right.clone() }));
        let empty = BloomFilter { bitmap: Vec::new(), ..BloomFilter::default() };
        assert!(
            filter(&BTreeSet::from([1]), true)
                .may_intersect(&KeyFilter { keys: Some(KeySet::Bloom(empty)), ..right })
        );
    }
}
