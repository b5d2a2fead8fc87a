//! Text to codes: the longest known symbol at each place, found with two lookups (Boncz, Neumann and Leis, "FSST:
//! Fast Random Access String Compression", 2020).
//!
//! | table | by | holds |
//! |---|---|---|
//! | long | a hash of three bytes | at most one symbol of three to eight bytes |
//! | short | two bytes | a symbol of these two, else of the first, else the escape |
#![expect(clippy::indexing_slicing, reason = "tables are as large as the bits of their indices can count")]

use super::{ESCAPE, MAGIC, TABLE_SIZE};
use crate::encodings::le::Number;

/// Symbols of a table at most: one code is the escape.
pub(super) const MAX_SYMBOLS: usize = 255;
/// Longest symbol.
pub(super) const MAX_LEN: usize = 8;
/// What is found where no symbol fits: this plus the byte.
pub(super) const LITERAL: u16 = 256;
/// Zeros that must follow a text, so that eight bytes can be read at each of its places.
pub(crate) const PADDING: usize = MAX_LEN;

const LONG_BITS: u32 = 12;

/// Up to eight bytes; the first is the lowest.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Symbol {
    pub bytes: u64,
    pub len: usize,
}

impl Symbol {
    /// This and as much of the next as has room.
    pub(super) fn then(self, next: Self) -> Self {
        let len = (self.len + next.len).min(MAX_LEN);
        Self { bytes: (self.bytes | next.bytes << (8 * self.len)) & mask(len), len }
    }
}

#[derive(Debug, Clone, Copy)]
struct Long {
    symbol: Symbol,
    mask: u64,
    code: u16,
}

/// A symbol table that encodes.
#[derive(Debug, Clone)]
pub(crate) struct Encoder {
    symbols: Vec<Symbol>,
    /// Code or literal in the lower half, length in the upper.
    short: Vec<[u16; 2]>,
    single: [u16; 256],
    long: Vec<Long>,
}

impl Encoder {
    /// A table of these symbols. One whose place is taken by an earlier one is left out.
    pub(super) fn new(candidates: impl Iterator<Item = Symbol>) -> Self {
        let mut single = [0; 256];
        for (byte, code) in (LITERAL..).zip(&mut single) {
            *code = byte;
        }
        // A mask of nothing never gives these bytes.
        let none = Long { symbol: Symbol { bytes: 1, len: MAX_LEN + 1 }, mask: 0, code: 0 };
        let mut table =
            Self { symbols: Vec::new(), short: Vec::new(), single, long: vec![none; 1 << LONG_BITS] };
        let mut pairs = Vec::new();
        for symbol in candidates {
            let Some(code) =
                u16::try_from(table.symbols.len()).ok().filter(|&c| usize::from(c) < MAX_SYMBOLS)
            else {
                break;
            };
            match symbol.len {
                1 => table.single[(symbol.bytes & 0xff).size()] = code,
                2 => pairs.push((symbol, code)),
                _ => {
                    let long = &mut table.long[place(symbol.bytes)];
                    if long.mask != 0 {
                        continue;
                    }
                    *long = Long { symbol, mask: mask(symbol.len), code };
                }
            }
            table.symbols.push(symbol);
        }
        table.short = (0..1usize << 16).map(|two| [table.single[two & 0xff], 1]).collect();
        for (symbol, code) in pairs {
            table.short[(symbol.bytes & 0xffff).size()] = [code, 2];
        }
        table
    }

    /// What a code or literal stands for.
    pub(super) fn symbol(&self, found: u16) -> Symbol {
        match found.checked_sub(LITERAL) {
            Some(byte) => Symbol { bytes: byte.into(), len: 1 },
            None => self.symbols.get(usize::from(found)).copied().unwrap_or_default(),
        }
    }

    /// The longest symbol at the start of a word of which `left` bytes count: its code or literal, and its length.
    pub(super) fn find(&self, word: u64, left: usize) -> (u16, usize) {
        let long = &self.long[place(word)];
        if word & long.mask == long.symbol.bytes && long.symbol.len <= left {
            return (long.code, long.symbol.len);
        }
        if left < 2 {
            return (self.single[(word & 0xff).size()], 1);
        }
        let [code, len] = self.short[(word & 0xffff).size()];
        (code, usize::from(len))
    }

    /// Encodes one value of a text to `out[at..]` and returns where it ends. `out` has two bytes for each of the
    /// value's; [`PADDING`] follows the text.
    pub(crate) fn encode(
        &self,
        text: &[u8],
        value: std::ops::Range<usize>,
        out: &mut [u8],
        mut at: usize,
    ) -> usize {
        let mut from = value.start;
        while from < value.end {
            let (found, len) = self.find(word(text, from), value.end - from);
            from += len;
            let [low, high] = found.to_le_bytes();
            if high == 0 {
                out[at] = low;
                at += 1;
            } else {
                out[at] = ESCAPE;
                out[at + 1] = low;
                at += 2;
            }
        }
        at
    }

    /// The table as it is stored.
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(TABLE_SIZE);
        let n = u8::try_from(self.symbols.len()).unwrap_or(u8::MAX);
        bytes.extend_from_slice(&[n, 0, n, 1]);
        bytes.extend_from_slice(&MAGIC.to_le_bytes());
        for symbol in &self.symbols {
            bytes.extend_from_slice(&symbol.bytes.to_le_bytes());
        }
        bytes.extend(self.symbols.iter().map(|s| u8::try_from(s.len).unwrap_or_default()));
        bytes.resize(TABLE_SIZE, 0);
        bytes
    }
}

/// The eight bytes at a place; zeros behind the end.
pub(super) fn word(text: &[u8], at: usize) -> u64 {
    text.get(at..).and_then(|rest| rest.first_chunk()).map_or(0, |word| u64::from_le_bytes(*word))
}

fn mask(len: usize) -> u64 {
    if len >= MAX_LEN { u64::MAX } else { (1 << (8 * len)) - 1 }
}

fn place(word: u64) -> usize {
    let hash = (word & 0xff_ffff).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (hash >> (u64::BITS - LONG_BITS)).size()
}
