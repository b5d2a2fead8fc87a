//! The rows of one side of a join, found by their keys.
//!
//! | keys | where their rows are |
//! |---|---|
//! | words that lie close together, as those of a column that counts do | a slot for each word (a perfect hash) |
//! | any others | by hash, in the next free slot if it is taken (linear probing) |
//!
//! Rows of one slot are a list, the last row first.

use pennon_core::lengths::to_u64;
use pennon_core::{Error, Result};

use super::keys::Keys;

/// Rows by key.
pub(super) struct Table {
    index: KeyIndex,
    occupied: Occupied,
    chain: Chain,
}

enum KeyIndex {
    /// The last row with each word, from the lowest one on.
    Words { lowest: u64, rows: Vec<u32> },
    /// Upper half of a hash and the last row that has it, in the first free slot from the one that the lower half names
    /// on. A power of two, at most half of them taken. The keys distinguish what has one hash.
    Hashes { slots: Vec<u64>, keys: Keys },
}

/// What a key is looked up by: the distance of its word from the lowest one, or its hash.
type Code = u64;

const NONE: u32 = u32::MAX;
/// The row of a slot.
const ROW: u64 = NONE as u64;
/// No row.
const FREE: u64 = u64::MAX;
/// Words from the lowest to the highest for each row, at most: slots for them take what hashes and keys would.
const WORDS_PER_ROW: u64 = 8;
/// Sixteen bits for each hash.
const HASHES_PER_WORD: usize = 4;

impl Table {
    /// A table of rows, without those that have nulls in their keys.
    ///
    /// Errors: `InvalidInput` for more rows than 32 bits can name.
    pub(super) fn new(keys: Keys, rows: usize, not_null: impl Fn(usize) -> bool) -> Result<Self> {
        let Ok(count) = u32::try_from(rows) else {
            return Err(Error::invalid_input(format!("{rows} keys at once: lower the memory limit")));
        };
        let words = keys.words().and_then(|words| Some((words, span(words, &not_null)?)));
        let is_close = |(low, high): (u64, u64)| (high - low) / WORDS_PER_ROW < u64::from(count);
        Ok(match words.filter(|(_, span)| is_close(*span)) {
            Some((words, span)) => Self::of_words(words, span, not_null),
            None => Self::of_hashes(keys, rows, not_null),
        })
    }

    fn of_words(words: &[u64], (lowest, highest): (u64, u64), not_null: impl Fn(usize) -> bool) -> Self {
        let count = to_usize(highest - lowest).saturating_add(1);
        let (mut rows, mut occupied) = (vec![NONE; count], Occupied::new(count.div_ceil(64), u64::MAX));
        let mut chain = Chain::default();
        for ((row, word), at) in words.iter().enumerate().zip(0_u32..) {
            let code = word.wrapping_sub(lowest);
            if not_null(row)
                && let Some(slot) = rows.get_mut(to_usize(code))
            {
                occupied.insert(code);
                chain.put(row, std::mem::replace(slot, at), words.len());
            }
        }
        Self { index: KeyIndex::Words { lowest, rows }, occupied, chain }
    }

    fn of_hashes(keys: Keys, rows: usize, not_null: impl Fn(usize) -> bool) -> Self {
        let mut slots = vec![FREE; rows.max(1).saturating_mul(2).next_power_of_two()];
        let words = rows.div_ceil(HASHES_PER_WORD).next_power_of_two();
        let mut occupied = Occupied::new(words, to_u64(words).saturating_mul(64) - 1);
        let mut chain = Chain::default();
        let mut rows_left = 0_u32..;
        keys.for_each_hash(rows, |row, hash| {
            let Some(at) = rows_left.next().filter(|_| not_null(row)) else { return };
            occupied.insert(hash);
            let (slot, other) = find(&slots, hash);
            if let Some(slot) = slots.get_mut(slot) {
                *slot = (hash & !ROW) | u64::from(at);
            }
            chain.put(row, other, rows);
        });
        Self { index: KeyIndex::Hashes { slots, keys }, occupied, chain }
    }

    /// Adds those of the first rows of some keys that most likely have rows here.
    pub(super) fn candidates(
        &self,
        keys: &Keys,
        rows: usize,
        not_null: impl Fn(usize) -> bool,
        found: &mut Vec<(usize, Code)>,
    ) {
        let mut note = |row, code| {
            if self.occupied.has(code) && not_null(row) {
                found.push((row, code));
            }
        };
        match (&self.index, keys.words()) {
            (KeyIndex::Words { lowest, .. }, Some(words)) => {
                let words = words.iter().take(rows).enumerate();
                words.for_each(|(row, word)| note(row, word.wrapping_sub(*lowest)));
            }
            _ => keys.for_each_hash(rows, note),
        }
    }

    /// The last of the rows whose keys may be that of a code.
    pub(super) fn last(&self, code: Code) -> Option<u32> {
        let row = match &self.index {
            KeyIndex::Words { rows, .. } => rows.get(to_usize(code)).copied().unwrap_or(NONE),
            KeyIndex::Hashes { slots, .. } => find(slots, code).1,
        };
        Some(row).filter(|row| *row != NONE)
    }

    /// The rows that have the key of a row of `keys`: of `last`, which [`Self::last`] gave for it, and those before.
    pub(super) fn rows<'a>(
        &'a self,
        last: u32,
        keys: &'a Keys,
        row: usize,
    ) -> impl Iterator<Item = usize> + 'a {
        let is_equal = move |at: &usize| match &self.index {
            KeyIndex::Words { .. } => true,
            KeyIndex::Hashes { keys: known, .. } => known.equal(*at, keys, row),
        };
        self.chain.with(last).filter(is_equal)
    }
}

/// A bit for each code: it excludes most rows that match nothing, and fits a cache that the slots do not fit.
struct Occupied {
    words: Vec<u64>,
    /// The bits of a code that name its bit.
    by: Code,
}

impl Occupied {
    fn new(words: usize, by: Code) -> Self {
        Self { words: vec![0; words], by }
    }

    fn position(&self, code: Code) -> (usize, u64) {
        let code = code & self.by;
        (to_usize(code >> 6), 1 << (code & 63))
    }

    fn insert(&mut self, code: Code) {
        let (word, bit) = self.position(code);
        if let Some(word) = self.words.get_mut(word) {
            *word |= bit;
        }
    }

    fn has(&self, code: Code) -> bool {
        let (word, bit) = self.position(code);
        self.words.get(word).is_some_and(|word| word & bit != 0)
    }
}

/// For each row, one before it in the same slot; empty as long as there is none.
#[derive(Default)]
struct Chain(Vec<u32>);

impl Chain {
    /// Notes the row that was in the slot of a row before it. `rows`: how many there are in all.
    fn put(&mut self, row: usize, other: u32, rows: usize) {
        if other != NONE {
            self.0.resize(rows, NONE);
            if let Some(previous) = self.0.get_mut(row) {
                *previous = other;
            }
        }
    }

    /// A row and those before it.
    fn with(&self, row: u32) -> impl Iterator<Item = usize> + '_ {
        let mut at = row;
        std::iter::from_fn(move || {
            let row = usize::try_from(at).ok().filter(|_| at != NONE)?;
            at = self.0.get(row).copied().unwrap_or(NONE);
            Some(row)
        })
    }
}

/// The slot of a hash and its row; a free one if there is none.
fn find(slots: &[u64], hash: Code) -> (usize, u32) {
    let last = slots.len() - 1;
    let mut at = to_usize(hash & ROW) & last;
    loop {
        match slots.get(at) {
            Some(&slot) if slot != FREE && (slot ^ hash) & !ROW != 0 => at = (at + 1) & last,
            Some(&slot) => return (at, u32::try_from(slot & ROW).unwrap_or(NONE)),
            None => return (0, NONE),
        }
    }
}

/// The lowest and the highest word; `None` if there is none.
fn span(words: &[u64], not_null: impl Fn(usize) -> bool) -> Option<(u64, u64)> {
    let mut words = words.iter().enumerate().filter(|(row, _)| not_null(*row)).map(|(_, word)| *word);
    let first = words.next()?;
    Some(words.fold((first, first), |(low, high), word| (low.min(word), high.max(word))))
}

fn to_usize(code: Code) -> usize {
    usize::try_from(code).unwrap_or(usize::MAX)
}
