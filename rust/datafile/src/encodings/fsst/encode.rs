//! Text to codes: the longest known symbol at each position, found with two lookups (Boncz, Neumann and Leis,
//! "FSST: Fast Random Access String Compression", 2020).
//!
//! | table | by | contains |
//! |---|---|---|
//! | long | a hash of three bytes | at most one symbol of three to eight bytes |
//! | short | two bytes | a symbol of these two, else of the first, else the escape; whether a long one may start so |
//!
//! Each step waits for the one before, so the parts of a text are encoded in turns.
#![expect(
    clippy::indexing_slicing,
    reason = "tables are as large as the bits of their indices can count; texts and codes have room behind them"
)]

use std::ops::Range;

use super::{ESCAPE, MAGIC, TABLE_SIZE};
use crate::encodings::le::Number;
use crate::encodings::variable::encode::Variable;

/// Symbols of a table at most: one code is the escape.
pub(super) const MAX_SYMBOLS: usize = 255;
/// Longest symbol.
pub(super) const MAX_LEN: usize = 8;
/// The code of a byte where no symbol fits: this plus the byte.
pub(super) const LITERAL: u16 = 256;
/// Zeros that must follow a text, so that eight bytes can be read at each position.
pub(crate) const PADDING: usize = MAX_LEN;

const LONG_BITS: u32 = 12;

/// Bytes of text that are encoded at once: with their codes they fit into the inner caches.
const BLOCK: u64 = 64 << 10;
/// Parts of a block.
const LANES: usize = 4;

/// Up to eight bytes; the first is the lowest.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Symbol {
    pub bytes: u64,
    pub len: usize,
}

impl Symbol {
    /// This symbol and as much of the next as has room.
    pub(super) fn then(self, next: Self) -> Self {
        let len = (self.len + next.len).min(MAX_LEN);
        Self { bytes: (self.bytes | next.bytes << (8 * self.len)) & mask(len), len }
    }
}

#[derive(Debug, Clone, Copy)]
struct Long {
    bytes: u64,
    mask: u64,
    code: u8,
    len: u8,
}

/// The code for the first one or two bytes of a text, in one number: in the low two bytes a code, or the escape and
/// a byte; then the number of bytes of text, and the number of bytes written.
#[derive(Debug, Clone, Copy)]
struct Short(u32);

/// Whether a long symbol may start with these bytes.
const MAY_BE_LONG: u32 = 1 << 31;

impl Short {
    fn code(code: u8, len: u8) -> Self {
        Self(u32::from_le_bytes([code, 0, len, 1]))
    }

    fn escaped(byte: u8) -> Self {
        Self(u32::from_le_bytes([ESCAPE, byte, 1, 2]))
    }

    #[inline(always)]
    fn put(self, cursor: Cursor, out: &mut [u8]) -> Cursor {
        let [first, second, len, size] = self.0.to_le_bytes();
        out[cursor.at..cursor.at + 2].copy_from_slice(&[first, second]);
        Cursor { from: cursor.from + usize::from(len), at: cursor.at + usize::from(size & 3), ..cursor }
    }
}

/// A symbol table that encodes.
#[derive(Debug, Clone)]
pub(crate) struct Encoder {
    symbols: Vec<Symbol>,
    short: Vec<Short>,
    /// By one byte, for the last byte of a value.
    single: Vec<Short>,
    long: Vec<Long>,
}

impl Encoder {
    /// A table of these symbols. A symbol whose slot has an earlier symbol is left out.
    pub(super) fn new(candidates: impl Iterator<Item = Symbol>) -> Self {
        let mut single: Vec<Short> = (0..=u8::MAX).map(Short::escaped).collect();
        // A mask of 0 never matches these bytes.
        let mut long = vec![Long { bytes: 1, mask: 0, code: 0, len: 0 }; 1 << LONG_BITS];
        let mut symbols: Vec<Symbol> = Vec::new();
        let mut pairs = Vec::new();
        for symbol in candidates {
            let Some(code) = u8::try_from(symbols.len()).ok().filter(|&c| usize::from(c) < MAX_SYMBOLS)
            else {
                break;
            };
            match symbol.len {
                1 => single[(symbol.bytes & 0xff).size()] = Short::code(code, 1),
                2 => pairs.push((symbol, code)),
                _ => {
                    let long = &mut long[long_slot(symbol.bytes)];
                    if long.mask != 0 {
                        continue;
                    }
                    let len = u8::try_from(symbol.len).unwrap_or_default();
                    *long = Long { bytes: symbol.bytes, mask: mask(symbol.len), code, len };
                }
            }
            symbols.push(symbol);
        }
        let mut short: Vec<Short> = (0..1usize << 16).map(|two| single[two & 0xff]).collect();
        for (symbol, code) in pairs {
            short[(symbol.bytes & 0xffff).size()] = Short::code(code, 2);
        }
        for symbol in symbols.iter().filter(|symbol| symbol.len > 2) {
            short[(symbol.bytes & 0xffff).size()].0 |= MAY_BE_LONG;
        }
        Self { symbols, short, single, long }
    }

    /// The symbol of a code or literal.
    pub(super) fn symbol(&self, found: u16) -> Symbol {
        match found.checked_sub(LITERAL) {
            Some(byte) => Symbol { bytes: byte.into(), len: 1 },
            None => self.symbols.get(usize::from(found)).copied().unwrap_or_default(),
        }
    }

    /// The longest symbol at a position of a text where at least two bytes of a value are left.
    #[inline(always)]
    fn longest(&self, text: &[u8], from: usize, left: usize) -> Short {
        let two = text[from..].first_chunk().map_or(0, |two| u16::from_le_bytes(*two));
        let short = self.short[usize::from(two)];
        if short.0 & MAY_BE_LONG == 0 {
            return short;
        }
        let word = word(text, from);
        let long = &self.long[long_slot(word)];
        if word & long.mask == long.bytes && usize::from(long.len) <= left {
            return Short::code(long.code, long.len);
        }
        Short(short.0 & !MAY_BE_LONG)
    }

    /// The longest symbol at a position of a text where any bytes of a value are left: its code or literal, and its
    /// length.
    pub(super) fn find(&self, text: &[u8], from: usize, left: usize) -> (u16, usize) {
        let found =
            if left < 2 { self.single[usize::from(text[from])] } else { self.longest(text, from, left) };
        let [code, byte, len, size] = found.0.to_le_bytes();
        (if size == 2 { LITERAL + u16::from(byte) } else { code.into() }, len.into())
    }

    /// Encodes all values: where the codes of each end, 0 first, and the codes.
    pub(crate) fn encode(&self, values: &Variable) -> (Vec<u64>, Vec<u8>) {
        let offsets = values.offsets.as_slice();
        let n = offsets.len() - 1;
        let mut ends = vec![0; n + 1];
        let mut codes = Vec::with_capacity(values.bytes.len());
        let (mut text, mut out) = (Vec::new(), Vec::new());
        let mut first = 0;
        while first < n {
            let start = offsets[first];
            let last =
                offsets.partition_point(|&end| end <= start + BLOCK).saturating_sub(1).clamp(first + 1, n);
            text.clear();
            values.copy(first, last - first, &mut text);
            let len = text.len();
            text.resize(len + PADDING, 0);
            if out.len() < len * 2 {
                out.resize(len * 2, 0);
            }
            let cut = |lane: usize| match lane {
                0 => first,
                LANES => last,
                _ => {
                    let goal = start + (len * lane / LANES) as u64;
                    offsets.partition_point(|&end| end < goal).clamp(first, last)
                }
            };
            let mut lanes: [Lane; LANES] = std::array::from_fn(|lane| Lane {
                offsets: &offsets[..=last],
                start,
                next: cut(lane),
                values: cut(lane)..cut(lane + 1),
                // A byte takes two bytes at most.
                base: (offsets[cut(lane)] - start).size() * 2,
            });
            let ends_of_lanes = self.encode_block(&text, &mut lanes, &mut out, &mut ends);
            for (lane, end) in lanes.iter().zip(ends_of_lanes) {
                let base = codes.len() as u64;
                codes.extend_from_slice(&out[lane.base..end]);
                ends[lane.values.start + 1..=lane.values.end].iter_mut().for_each(|end| *end += base);
            }
            first = last;
        }
        (ends, codes)
    }

    /// Encodes the parts of a block in turns; returns the end of the codes of each value.
    fn encode_block(
        &self,
        text: &[u8],
        lanes: &mut [Lane; LANES],
        out: &mut [u8],
        ends: &mut [u64],
    ) -> [usize; LANES] {
        let mut cursors: [Cursor; LANES] = std::array::from_fn(|lane| {
            let base = lanes[lane].base;
            Cursor { from: base / 2, stop: base / 2, at: base }
        });
        'together: loop {
            for (cursor, lane) in cursors.iter_mut().zip(lanes.iter_mut()) {
                if cursor.is_at_end() {
                    *cursor = lane.resume(*cursor, self, text, out, ends);
                    if cursor.is_at_end() {
                        break 'together;
                    }
                }
            }
            for cursor in &mut cursors {
                *cursor = self.longest(text, cursor.from, cursor.stop - cursor.from).put(*cursor, out);
            }
        }
        for (cursor, lane) in cursors.iter_mut().zip(lanes) {
            loop {
                if cursor.is_at_end() {
                    *cursor = lane.resume(*cursor, self, text, out, ends);
                    if cursor.is_at_end() {
                        break;
                    }
                }
                *cursor = self.longest(text, cursor.from, cursor.stop - cursor.from).put(*cursor, out);
            }
        }
        cursors.map(|cursor| cursor.at)
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

/// Start and end of the rest of a value in a block, and the position of its codes.
#[derive(Debug, Clone, Copy)]
struct Cursor {
    from: usize,
    stop: usize,
    at: usize,
}

impl Cursor {
    /// Whether fewer than two bytes are left.
    #[inline(always)]
    fn is_at_end(self) -> bool {
        self.from + 1 >= self.stop
    }
}

/// Some values of a block.
struct Lane<'a> {
    /// Where each value of the text ends, from the start of the text on, 0 first; and where the block starts.
    offsets: &'a [u64],
    start: u64,
    values: Range<usize>,
    /// The value after the current one.
    next: usize,
    /// Where the codes start.
    base: usize,
}

impl Lane<'_> {
    /// Encodes the last byte of a value and all of shorter values, and moves to the next value of two bytes or
    /// more, or to the end of the last value.
    #[inline(never)]
    fn resume(
        &mut self,
        mut cursor: Cursor,
        table: &Encoder,
        text: &[u8],
        out: &mut [u8],
        ends: &mut [u64],
    ) -> Cursor {
        loop {
            if cursor.from < cursor.stop {
                cursor = table.single[usize::from(text[cursor.from])].put(cursor, out);
            }
            if self.next > self.values.start {
                ends[self.next] = (cursor.at - self.base) as u64;
            }
            if self.next == self.values.end {
                return cursor;
            }
            self.next += 1;
            cursor.stop = (self.offsets[self.next] - self.start).size();
            if !cursor.is_at_end() {
                return cursor;
            }
        }
    }
}

/// The eight bytes at a position; 0 if there are fewer.
pub(super) fn word(text: &[u8], at: usize) -> u64 {
    text.get(at..).and_then(|rest| rest.first_chunk()).map_or(0, |word| u64::from_le_bytes(*word))
}

fn mask(len: usize) -> u64 {
    if len >= MAX_LEN { u64::MAX } else { (1 << (8 * len)) - 1 }
}

fn long_slot(word: u64) -> usize {
    let hash = (word & 0xff_ffff).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (hash >> (u64::BITS - LONG_BITS)).size()
}
