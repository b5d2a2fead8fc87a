//! The rows of one side of a join, found by their keys.
//!
//! | keys | where their rows are |
//! |---|---|
//! | words that lie close together, as those of a column that counts do | a place for each word (a perfect hash) |
//! | any others | by hash, at the next free place if it is taken (linear probing) |
//!
//! Rows with one place are a list, the last one first.

use pennon_core::{Error, Result};

use super::keys::Keys;
use super::source::to_u64;

/// Rows by key.
pub(super) struct Table {
    coding: Coding,
    places: Places,
    /// The keys, if codes do not tell them apart.
    keys: Option<Keys>,
    /// A bit for each code: most rows that match nothing are told by it, and it fits a cache that the places do not.
    seen: Vec<u64>,
    /// The bits of a code that name its bit.
    seen_by: Code,
    /// For each row, one before it in the same place; empty as long as there is none.
    next: Vec<u32>,
}

/// What a key is looked up by.
type Code = u64;

#[derive(Debug, Clone, Copy)]
enum Coding {
    /// The distance of its word from the lowest one.
    Distance {
        lowest: u64,
    },
    Hash,
}

enum Places {
    /// The last row with each word, from the lowest one on.
    Words(Vec<u32>),
    /// Upper half of a hash and the last row that has it, at the first place from the one that the lower half names on
    /// that was free. A power of two, at most half of them taken.
    Hashes(Vec<u64>),
}

const NONE: u32 = u32::MAX;
/// The row of a slot.
const ROW: u64 = NONE as u64;
/// No row.
const FREE: u64 = u64::MAX;
/// Words from the lowest to the highest for each row, at most: their places take what slots and keys would.
const WORDS_PER_ROW: u64 = 8;
/// Sixteen bits for each hash.
const SEEN_HASHES_PER_WORD: usize = 4;

impl Table {
    /// A table of rows, without those that have nulls in their keys.
    ///
    /// Errors: `InvalidInput` for more rows than 32 bits can name.
    pub(super) fn new(keys: Keys, rows: usize, not_null: impl Fn(usize) -> bool) -> Result<Self> {
        let Ok(count) = u32::try_from(rows) else {
            return Err(Error::invalid_input(format!("{rows} keys at once: lower the memory limit")));
        };
        let span = keys.words().and_then(|words| span(words, &not_null));
        let close = span.filter(|(lowest, highest)| (highest - lowest) / WORDS_PER_ROW < u64::from(count));
        let mut table = match close {
            Some((lowest, highest)) => Self::of_words(lowest, to_usize(highest - lowest).saturating_add(1)),
            None => Self::of_hashes(rows),
        };
        let mut numbers = 0_u32..;
        table.coding.for_each(&keys, rows, |row, code| {
            let Some(at) = numbers.next().filter(|_| not_null(row)) else { return };
            let other = table.insert(code, at);
            if other != NONE {
                table.next.resize(rows, NONE);
                if let Some(before) = table.next.get_mut(row) {
                    *before = other;
                }
            }
        });
        Ok(Self { keys: matches!(table.coding, Coding::Hash).then_some(keys), ..table })
    }

    fn of_words(lowest: u64, words: usize) -> Self {
        Self {
            coding: Coding::Distance { lowest },
            places: Places::Words(vec![NONE; words]),
            keys: None,
            seen: vec![0; words.div_ceil(64)],
            seen_by: u64::MAX,
            next: Vec::new(),
        }
    }

    fn of_hashes(rows: usize) -> Self {
        let seen = rows.div_ceil(SEEN_HASHES_PER_WORD).next_power_of_two();
        Self {
            coding: Coding::Hash,
            places: Places::Hashes(vec![FREE; rows.max(1).saturating_mul(2).next_power_of_two()]),
            keys: None,
            seen: vec![0; seen],
            seen_by: to_u64(seen).saturating_mul(64) - 1,
            next: Vec::new(),
        }
    }

    /// Puts a row in its place; gives the one that was there.
    fn insert(&mut self, code: Code, row: u32) -> u32 {
        let (word, bit) = self.bit(code);
        if let Some(word) = self.seen.get_mut(word) {
            *word |= bit;
        }
        match &mut self.places {
            Places::Words(rows) => {
                rows.get_mut(to_usize(code)).map_or(NONE, |place| std::mem::replace(place, row))
            }
            Places::Hashes(slots) => {
                let (slot, other) = find(slots, code);
                if let Some(slot) = slots.get_mut(slot) {
                    *slot = (code & !ROW) | u64::from(row);
                }
                other
            }
        }
    }

    /// The word and the bit of a code among those that were seen.
    fn bit(&self, code: Code) -> (usize, u64) {
        let code = code & self.seen_by;
        (to_usize(code >> 6), 1 << (code & 63))
    }

    /// Adds those of the first rows of some keys that most likely have rows here.
    pub(super) fn candidates(
        &self,
        keys: &Keys,
        rows: usize,
        not_null: impl Fn(usize) -> bool,
        found: &mut Vec<(usize, Code)>,
    ) {
        self.coding.for_each(keys, rows, |row, code| {
            let (word, bit) = self.bit(code);
            if self.seen.get(word).is_some_and(|word| word & bit != 0) && not_null(row) {
                found.push((row, code));
            }
        });
    }

    /// The last of the rows whose keys may be that of a code.
    pub(super) fn last(&self, code: Code) -> Option<u32> {
        let row = match &self.places {
            Places::Words(rows) => rows.get(to_usize(code)).copied().unwrap_or(NONE),
            Places::Hashes(slots) => find(slots, code).1,
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
        let mut at = last;
        let rows = std::iter::from_fn(move || {
            let row = usize::try_from(at).ok().filter(|_| at != NONE)?;
            at = self.next.get(row).copied().unwrap_or(NONE);
            Some(row)
        });
        rows.filter(move |at| self.keys.as_ref().is_none_or(|known| known.equal(*at, keys, row)))
    }
}

impl Coding {
    /// The codes of the first rows, in order.
    fn for_each(self, keys: &Keys, rows: usize, mut each: impl FnMut(usize, Code)) {
        match (self, keys.words()) {
            (Self::Distance { lowest }, Some(words)) => {
                let words = words.iter().take(rows).enumerate();
                words.for_each(|(row, word)| each(row, word.wrapping_sub(lowest)));
            }
            _ => keys.for_each_hash(rows, each),
        }
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
