//! Counting and finding set bits in constant time.
//!
//! | table | one entry per | holds |
//! |---|---|---|
//! | `spans` | 65,536 bits | bits set before (u64) |
//! | `blocks` | 512 bits | bits set before within the span (u16) |
//! | `samples` | 4,096 set bits | the block of that bit (u32) |
//!
//! That is 3.2 % of the bitmap, and at most 0.8 % for the samples. A rank reads two entries and a block; a select
//! starts at a sample and looks for the block among the few up to the next.

use crate::rows::{to_index, to_u64};

/// Bytes of a block.
const BLOCK: usize = 64;
/// Blocks of a span: the counts within fit 16 bits.
const SPAN: usize = 128;
/// Set bits between two samples.
const SAMPLE: u64 = 4096;
/// Blocks that are looked at after a guess.
const NEAR: usize = 4;

/// The directory of one bitmap.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Directory {
    spans: Box<[u64]>,
    blocks: Box<[u16]>,
    samples: Box<[u32]>,
    ones: u64,
}

impl Directory {
    pub(super) fn new(bits: &[u8]) -> Self {
        let block_count = bits.len().div_ceil(BLOCK);
        let mut spans = Vec::with_capacity(block_count.div_ceil(SPAN));
        let mut blocks = Vec::with_capacity(block_count);
        let mut samples = Vec::new();
        let (mut ones, mut before_span, mut number) = (0_u64, 0_u64, 0_u32);
        for span in bits.chunks(BLOCK * SPAN) {
            spans.push(ones);
            before_span = ones.max(before_span);
            for block in span.chunks(BLOCK) {
                blocks.push(u16::try_from(ones - before_span).unwrap_or(u16::MAX));
                ones += count(block);
                while to_u64(samples.len()).saturating_mul(SAMPLE) < ones {
                    samples.push(number);
                }
                number = number.saturating_add(1);
            }
        }
        Self { spans: spans.into(), blocks: blocks.into(), samples: samples.into(), ones }
    }

    /// Number of set bits.
    pub(super) fn ones(&self) -> u64 {
        self.ones
    }

    /// Bytes it takes.
    pub(super) fn memory(&self) -> usize {
        self.spans.len() * 8 + self.blocks.len() * 2 + self.samples.len() * 4
    }

    fn before_block(&self, block: usize) -> u64 {
        let within = self.blocks.get(block).copied().unwrap_or_default();
        self.spans.get(block / SPAN).copied().unwrap_or_default() + u64::from(within)
    }

    /// Number of bits set before this one.
    pub(super) fn rank(&self, bits: &[u8], bit: u64) -> u64 {
        let at = to_index(bit / 512);
        let words = block(bits, at);
        // All words of the block, those behind masked away: that is faster than a loop of varying length.
        let whole = (0..).zip(words).map(|(n, word)| if n < bit / 64 % 8 { word } else { 0 }.count_ones());
        let part = words.get(to_index(bit / 64 % 8)).map_or(0, |word| word & ((1 << (bit % 64)) - 1));
        self.before_block(at) + u64::from(whole.sum::<u32>() + part.count_ones())
    }

    /// The set bit that has so many before it.
    pub(super) fn select(&self, bits: &[u8], rank: u64) -> Option<u64> {
        if rank >= self.ones {
            return None;
        }
        let sample = to_index(rank / SAMPLE);
        let low = to_index(u64::from(*self.samples.get(sample)?));
        let last = self.blocks.len() - 1;
        let high = self.samples.get(sample + 1).map_or(last, |&b| to_index(b.into()));
        let at = self.block_of(rank, low, high);
        let left = rank - self.before_block(at);
        // All words are counted and none is branched on: which one it is nobody can predict.
        let (mut passed, mut before, mut total, mut found) = (0_u64, 0, 0, 0);
        for word in block(bits, at) {
            found = if total <= left { word } else { found };
            before = if total <= left { total } else { before };
            passed += u64::from(total <= left);
            total += u64::from(word.count_ones());
        }
        let word = to_u64(at) * 8 + passed - 1;
        Some(word * 64 + select_in_word(found, left - before))
    }

    /// The last block from `low` to `high` with no more than `rank` bits before it.
    fn block_of(&self, rank: u64, mut low: usize, mut high: usize) -> usize {
        // Bits are spread evenly, more or less: a guess is off by a block or two.
        let guess = low + (high - low) * to_index(rank % SAMPLE) / to_index(SAMPLE);
        let start = guess.saturating_sub(2).max(low);
        let starts_before = |at: &usize| *at <= high && self.before_block(*at) <= rank;
        let passed = (start + 1..=start + NEAR).filter(starts_before).count();
        if passed < NEAR && starts_before(&start) {
            return start + passed;
        }
        high += 1;
        while high - low > 1 {
            let middle = low + (high - low) / 2;
            if self.before_block(middle) <= rank {
                low = middle;
            } else {
                high = middle;
            }
        }
        low
    }
}

/// The words of a block; what lies behind the end is 0.
fn block(bits: &[u8], at: usize) -> [u64; 8] {
    let rest = bits.get(at * BLOCK..).unwrap_or_default();
    let words = |bytes: &[u8; BLOCK]| {
        let words = bytes.as_chunks::<8>().0;
        std::array::from_fn(|n| words.get(n).map_or(0, |word| u64::from_le_bytes(*word)))
    };
    match rest.first_chunk::<BLOCK>() {
        Some(bytes) => words(bytes),
        None => {
            let mut bytes = [0; BLOCK];
            bytes.iter_mut().zip(rest).for_each(|(to, from)| *to = *from);
            words(&bytes)
        }
    }
}

/// Word number `at`; what lies behind the end is 0.
pub(super) fn word(bits: &[u8], at: usize) -> u64 {
    let rest = bits.get(at * 8..).unwrap_or_default();
    match rest.first_chunk::<8>() {
        Some(bytes) => u64::from_le_bytes(*bytes),
        None => rest.iter().take(8).rev().fold(0, |word, &byte| word << 8 | u64::from(byte)),
    }
}

fn count(bits: &[u8]) -> u64 {
    let (words, rest) = bits.as_chunks::<8>();
    let whole: u64 = words.iter().map(|w| u64::from(u64::from_le_bytes(*w).count_ones())).sum();
    whole + rest.iter().map(|byte| u64::from(byte.count_ones())).sum::<u64>()
}

/// Position of the set bit of a word that has `rank` before it (Vigna, "Broadword implementation of rank/select
/// queries"): sums per byte, the byte by one comparison of all, then the bit of that byte from a table.
fn select_in_word(word: u64, rank: u64) -> u64 {
    const ONES: u64 = 0x0101_0101_0101_0101;
    const HIGH: u64 = 0x8080_8080_8080_8080;
    let pairs = word - (word >> 1 & 0x5555_5555_5555_5555);
    let fours = (pairs & 0x3333_3333_3333_3333) + (pairs >> 2 & 0x3333_3333_3333_3333);
    let sums = ((fours + (fours >> 4)) & 0x0f0f_0f0f_0f0f_0f0f).wrapping_mul(ONES);
    let passed = (((rank.wrapping_mul(ONES) | HIGH) - sums) & HIGH) >> 7;
    // Not all bytes are passed: the word has more bits than `rank`.
    let shift = (passed.wrapping_mul(ONES) >> 56) % 8 * 8;
    let before = ((sums << 8) >> shift) & 0xff;
    let bits = BITS.get(to_index((word >> shift) & 0xff));
    let bit = bits.and_then(|bits| bits.get(to_index(rank.wrapping_sub(before)))).copied();
    shift + u64::from(bit.unwrap_or_default())
}

/// Positions of the set bits of each byte.
static BITS: [[u8; 8]; 256] = {
    let mut table = [[0; 8]; 256];
    let mut rest: &mut [[u8; 8]] = &mut table;
    let mut byte = 0_u16;
    while let [entry, others @ ..] = rest {
        let (mut places, mut bit): (&mut [u8], u8) = (entry, 0);
        while bit < 8 {
            if byte >> bit & 1 == 1
                && let [place, others @ ..] = places
            {
                *place = bit;
                places = others;
            }
            bit += 1;
        }
        byte += 1;
        rest = others;
    }
    table
};
