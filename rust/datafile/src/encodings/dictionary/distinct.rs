//! Values as indices into the distinct ones among them, given up as soon as there are too many.
#![expect(
    clippy::indexing_slicing,
    reason = "places are masked to the size of the table, which is a power of two"
)]

use crate::encodings::le::Number;

/// Odd, and without a pattern.
const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;

/// Distinct values in the order they were met.
#[derive(Debug, Default)]
pub(crate) struct Distinct {
    /// For each value the index of its item.
    pub indices: Vec<u32>,
    /// Where each item ends, 0 first.
    pub offsets: Vec<u64>,
    /// The items.
    pub bytes: Vec<u8>,
}

/// Where to give up.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    /// Items at most.
    pub items: usize,
    /// Bytes of the items at most.
    pub bytes: usize,
}

/// The distinct ones of `len` values, or `None` when they go beyond the limits.
pub(crate) fn distinct<'a>(
    values: impl Iterator<Item = &'a [u8]>,
    len: usize,
    limits: Limits,
) -> Option<Distinct> {
    let mut found = Distinct { offsets: vec![0], ..Distinct::default() };
    found.indices.reserve(len);
    let mut table = Table::new(64);
    let mut last: Option<(&[u8], u32)> = None;
    // Values made to collide must not cost more than this.
    let mut probes_left = len.saturating_mul(16).saturating_add(1 << 16);
    for value in values {
        if let Some((same, index)) = last.filter(|(last, _)| *last == value) {
            found.indices.push(index);
            last = Some((same, index));
            continue;
        }
        let hash = hash(value);
        let mut place = hash.size() & table.mask;
        let index = loop {
            let (tag, index) = table.places[place];
            if index == 0 {
                break found.add(value, limits)?;
            }
            if tag == hash && found.item(index - 1) == value {
                break index - 1;
            }
            probes_left = probes_left.checked_sub(1)?;
            place = (place + 1) & table.mask;
        };
        if table.places[place].1 == 0 {
            table.places[place] = (hash, index + 1);
            table.used += 1;
            if table.used * 2 > table.mask {
                table = table.grown();
            }
        }
        found.indices.push(index);
        last = Some((value, index));
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

/// Hashes, and indices counted from 1 on.
struct Table {
    places: Vec<(u32, u32)>,
    mask: usize,
    used: usize,
}

impl Table {
    fn new(len: usize) -> Self {
        Self { places: vec![(0, 0); len], mask: len - 1, used: 0 }
    }

    fn grown(self) -> Self {
        let mut table = Self::new((self.mask + 1) * 4);
        table.used = self.used;
        for (hash, index) in self.places.into_iter().filter(|(_, index)| *index > 0) {
            let mut place = hash.size() & table.mask;
            while table.places[place].1 > 0 {
                place = (place + 1) & table.mask;
            }
            table.places[place] = (hash, index);
        }
        table
    }
}

fn hash(value: &[u8]) -> u32 {
    let mix = |hash: u64, word: u64| {
        let mixed = (hash ^ word).wrapping_mul(FACTOR);
        mixed ^ mixed >> 32
    };
    let (words, rest) = value.as_chunks::<8>();
    let mut hash = mix(0, value.len() as u64);
    for word in words {
        hash = mix(hash, u64::from_le_bytes(*word));
    }
    if !rest.is_empty() {
        let mut word = [0; 8];
        word[..rest.len()].copy_from_slice(rest);
        hash = mix(hash, u64::from_le_bytes(word));
    }
    let [a, b, c, d, ..] = mix(hash, FACTOR).to_le_bytes();
    u32::from_le_bytes([a, b, c, d])
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
