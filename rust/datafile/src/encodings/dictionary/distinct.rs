//! Values as indices into their distinct values, abandoned as soon as there are too many.
#![expect(
    clippy::indexing_slicing,
    reason = "places are masked to the size of the table, which is a power of two"
)]

use crate::encodings::le::Number;

/// Odd, and without a pattern.
const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;

/// Distinct values in the order of their first occurrence.
#[derive(Debug, Default)]
pub(crate) struct Distinct {
    /// For each value the index of its item.
    pub indices: Vec<u32>,
    /// Where each item ends, 0 first.
    pub offsets: Vec<u64>,
    /// The items.
    pub bytes: Vec<u8>,
}

/// Limits of the distinct values.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    /// Items at most.
    pub items: usize,
    /// Bytes of the items at most.
    pub bytes: usize,
}

/// The distinct values of `len` values, or `None` when they exceed the limits.
pub(crate) fn distinct<'a>(
    values: impl Iterator<Item = &'a [u8]>,
    len: usize,
    limits: Limits,
) -> Option<Distinct> {
    let mut found = Distinct { offsets: vec![0], ..Distinct::default() };
    found.indices.reserve(len);
    let mut table = Table::new(64);
    // Values made to collide must not cost more than this.
    let mut probes_left = len.saturating_mul(16).saturating_add(1 << 16);
    for value in values {
        let key = Key::of(value);
        let mut slot = key.slot() & table.mask;
        let index = loop {
            let (known, index) = table.slots[slot];
            if index == 0 {
                let index = found.add(value, limits)?;
                table.insert(slot, key, index + 1);
                break index;
            }
            if known == key && (key.is_whole() || found.item(index - 1) == value) {
                break index - 1;
            }
            probes_left = probes_left.checked_sub(1)?;
            slot = (slot + 1) & table.mask;
        };
        found.indices.push(index);
    }
    Some(found)
}

/// About how many distinct values there are, by how often a sample of them repeats; `None` if it hardly does.
pub(crate) fn estimate<'a>(sample: impl ExactSizeIterator<Item = &'a [u8]>) -> Option<usize> {
    let len = sample.len();
    let found = distinct(sample, len, Limits { items: len, bytes: usize::MAX })?.offsets.len() - 1;
    let repeated = len - found;
    match repeated {
        _ if repeated * 64 < len => None,
        _ if repeated * 8 >= len * 7 => Some(found),
        _ if repeated * 2 >= len => Some(found + found / 4),
        // Of n values drawn from d, about n * n / 2 d repeat another one.
        _ => Some(len * len / (2 * repeated)),
    }
}

impl Distinct {
    fn item(&self, index: u32) -> &[u8] {
        let at = index.size();
        self.bytes.get(self.offsets[at].size()..self.offsets[at + 1].size()).unwrap_or_default()
    }

    fn add(&mut self, value: &[u8], limits: Limits) -> Option<u32> {
        let index = self.offsets.len() - 1;
        self.bytes.extend_from_slice(value);
        self.offsets.push(self.bytes.len() as u64);
        let fits = index < limits.items && self.bytes.len() <= limits.bytes;
        u32::try_from(index).ok().filter(|&i| fits && i < u32::MAX - 1)
    }
}

/// A value of at most 16 bytes, or a hash and the last bytes of a longer value.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Key {
    words: [u64; 2],
    len: usize,
}

impl Key {
    #[inline]
    fn of(value: &[u8]) -> Self {
        let len = value.len();
        let four = |four: Option<&[u8; 4]>| four.map_or(0, |bytes| u64::from(u32::from_le_bytes(*bytes)));
        let words = match (value.first_chunk(), value.last_chunk()) {
            (Some(first), Some(last)) if len <= 16 => [u64::from_le_bytes(*first), u64::from_le_bytes(*last)],
            (Some(_), Some(last)) => {
                let words = value.as_chunks::<8>().0.iter();
                let hash = words.fold(0, |hash, word| mix(hash ^ u64::from_le_bytes(*word)));
                [hash, u64::from_le_bytes(*last)]
            }
            _ if len >= 4 => [four(value.first_chunk()), four(value.last_chunk())],
            _ => [value.iter().fold(0, |word, byte| word << 8 | u64::from(*byte)), 0],
        };
        Self { words, len }
    }

    /// Whether equal keys are equal values.
    fn is_whole(self) -> bool {
        self.len <= 16
    }

    #[inline]
    fn slot(self) -> usize {
        let [first, last] = self.words;
        mix(mix(first ^ self.len as u64) ^ last).size()
    }
}

/// Keys, and indices counted from 1 on.
#[derive(Default)]
struct Table {
    slots: Vec<(Key, u32)>,
    mask: usize,
    used: usize,
}

impl Table {
    fn new(len: usize) -> Self {
        Self { slots: vec![(Key::default(), 0); len], mask: len - 1, used: 0 }
    }

    fn insert(&mut self, slot: usize, key: Key, index: u32) {
        self.slots[slot] = (key, index);
        self.used += 1;
        if self.used * 2 > self.mask {
            let slots = std::mem::take(self).slots;
            *self = Self::new(slots.len() * 4);
            for (key, index) in slots.into_iter().filter(|(_, index)| *index > 0) {
                let mut slot = key.slot() & self.mask;
                while self.slots[slot].1 > 0 {
                    slot = (slot + 1) & self.mask;
                }
                self.slots[slot] = (key, index);
                self.used += 1;
            }
        }
    }
}

/// Each bit of the word affects each bit of the result.
#[inline]
fn mix(word: u64) -> u64 {
    let product = (u128::from(word) * u128::from(FACTOR)).to_le_bytes();
    let (low, high) = product.split_at(8);
    u64::read(low) ^ u64::read(high)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const NO_LIMITS: Limits = Limits { items: usize::MAX, bytes: usize::MAX };

    proptest! {
        #[test]
        fn indices_lead_back_to_the_values(values in prop::collection::vec("[ab]{0,12}", 0..300)) {
            let found = distinct(values.iter().map(|v| v.as_bytes()), values.len(), NO_LIMITS).unwrap();
            let back: Vec<&[u8]> = found.indices.iter().map(|&i| found.item(i)).collect();
            prop_assert_eq!(back, values.iter().map(|v| v.as_bytes()).collect::<Vec<_>>());
            let different: std::collections::HashSet<_> = values.iter().collect();
            prop_assert_eq!(found.offsets.len() - 1, different.len());
        }
    }

    #[test]
    fn slots_differ_wherever_the_values_do() {
        for at in 0..16 {
            for len in at + 1..20 {
                let key = |last: u8| {
                    let mut value = vec![b'x'; len];
                    value[at] = last;
                    Key::of(&value).slot() & 0xff
                };
                let slots: std::collections::HashSet<usize> = (0..100).map(key).collect();
                assert!(slots.len() > 60, "{} slots for byte {at} of {len}", slots.len());
            }
        }
    }

    #[test]
    fn many_items_and_limits() {
        let values: Vec<[u8; 8]> = (0..20_000u64).map(|i| (i % 5000 * 77).to_le_bytes()).collect();
        let values = || values.iter().map(|v| v.as_slice());
        let found = distinct(values(), 20_000, NO_LIMITS).unwrap();
        assert_eq!((found.offsets.len(), found.indices[5001], found.indices[4999]), (5001, 1, 4999));
        assert!(distinct(values(), 20_000, Limits { items: 5000, bytes: 40_000 }).is_some());
        assert!(distinct(values(), 20_000, Limits { items: 4999, bytes: 40_000 }).is_none());
        assert!(distinct(values(), 20_000, Limits { items: 5000, bytes: 39_999 }).is_none());
    }

    #[test]
    fn estimates() {
        let sample = |d: u64| -> Vec<[u8; 8]> {
            (0..4096u64).map(|i| (i.wrapping_mul(FACTOR) >> 20) % d).map(u64::to_le_bytes).collect()
        };
        let estimate = |d: u64| estimate(sample(d).iter().map(|v| v.as_slice()));
        assert_eq!(estimate(10), Some(10));
        assert!((5_000..20_000).contains(&estimate(10_000).unwrap()));
        assert_eq!(estimate(1 << 40), None);
    }
}
