//! Counting and finding set bits in constant time.
//!
//! | table | one entry per | holds |
//! |---|---|---|
//! | `spans` | 2,147,483,648 bits | bits set before (u64) |
//! | `blocks` | 512 bits | bits set before within the span (u32) |
//! | `samples` | 4,096 set bits | the block of that bit (u32) |
//!
//! That is 6.3 % of the bitmap, and at most 0.8 % for the samples. A rank reads two entries and a block; a select
//! starts at a sample and looks for the block among the few up to the next.
//!
//! The same code is compiled twice: in `x86` with the instructions that count and place bits, chosen when the processor
//! has them, and here without.

mod scalar;
#[cfg(target_arch = "x86_64")]
mod x86;

#[cfg(not(target_arch = "x86_64"))]
use scalar::Fast;
use scalar::select_in_word;
#[cfg(target_arch = "x86_64")]
use x86::Fast;

use crate::rows::{to_index, to_u64};

/// Bytes of a block.
const BLOCK: usize = 64;
/// Blocks of a span: the counts within fit 32 bits.
const SPAN: usize = 1 << 22;
/// Set bits between two samples.
const SAMPLE: u64 = 4096;
/// Blocks that are looked at around a guess.
const GUESSED: usize = 4;

/// The directory of one bitmap.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Directory {
    spans: Box<[u64]>,
    /// With some at the end that no rank reaches.
    blocks: Box<[u32]>,
    /// And the last block.
    samples: Box<[u32]>,
    ones: u64,
    fast: Option<Fast>,
}

impl Directory {
    pub(super) fn new(bits: &[u8]) -> Self {
        match Fast::detect() {
            Some(fast) => fast.directory(bits),
            None => Self::build(bits, None),
        }
    }

    #[inline(always)]
    fn build(bits: &[u8], fast: Option<Fast>) -> Self {
        let block_count = bits.len().div_ceil(BLOCK);
        let mut spans = Vec::with_capacity(block_count.div_ceil(SPAN));
        let mut blocks = Vec::with_capacity(block_count + GUESSED);
        let mut samples = Vec::new();
        let (mut ones, mut before_span, mut number) = (0_u64, 0_u64, 0_u32);
        for span in bits.chunks(BLOCK * SPAN) {
            spans.push(ones);
            before_span = ones.max(before_span);
            for block in span.chunks(BLOCK) {
                blocks.push(u32::try_from(ones - before_span).unwrap_or(u32::MAX));
                ones += count(block);
                while to_u64(samples.len()).saturating_mul(SAMPLE) < ones {
                    samples.push(number);
                }
                number = number.saturating_add(1);
            }
        }
        blocks.extend([u32::MAX; GUESSED]);
        samples.push(number.saturating_sub(1));
        Self { spans: spans.into(), blocks: blocks.into(), samples: samples.into(), ones, fast }
    }

    /// Number of set bits.
    pub(super) fn ones(&self) -> u64 {
        self.ones
    }

    #[inline(always)]
    fn before_block(&self, block: usize) -> u64 {
        let within = self.blocks.get(block).copied().unwrap_or_default();
        self.spans.get(block / SPAN).copied().unwrap_or_default() + u64::from(within)
    }

    /// Number of bits set before this one.
    #[inline]
    pub(super) fn rank(&self, bits: &[u8], bit: u64) -> u64 {
        match self.fast {
            Some(fast) => fast.rank(self, bits, bit),
            None => self.rank_here(bits, bit),
        }
    }

    /// The set bit that has so many before it.
    #[inline]
    pub(super) fn select(&self, bits: &[u8], rank: u64) -> Option<u64> {
        match self.fast {
            Some(fast) => fast.select(self, bits, rank),
            None => self.select_by(bits, rank, select_in_word),
        }
    }

    #[inline(always)]
    fn rank_here(&self, bits: &[u8], bit: u64) -> u64 {
        let at = to_index(bit / 512);
        let words = block(bits, at);
        // All words of the block, those behind masked away: that is faster than a loop of varying length.
        let counts = (0..).zip(words).map(|(n, word)| if n < bit / 64 % 8 { word } else { 0 }.count_ones());
        let part = words.get(to_index(bit / 64 % 8)).map_or(0, |word| word & ((1 << (bit % 64)) - 1));
        self.before_block(at) + u64::from(counts.sum::<u32>() + part.count_ones())
    }

    /// `in_word` finds the bit of a word with so many before it.
    #[inline(always)]
    fn select_by(&self, bits: &[u8], rank: u64, in_word: impl Fn(u64, u64) -> u64) -> Option<u64> {
        if rank >= self.ones {
            return None;
        }
        match self.guess(bits, rank) {
            Some((number, word, left)) => Some(to_u64(number) * 64 + in_word(word, left)),
            None => self.anywhere(bits, rank),
        }
    }

    /// Number and content of the word of a set bit, and how many of its bits are set before. `None` if that takes more
    /// than a look at a few blocks: bits are spread evenly, more or less, so a guess is off by a block or two.
    #[inline(always)]
    fn guess(&self, bits: &[u8], rank: u64) -> Option<(usize, u64, u64)> {
        let [low, high] = self.samples.get(to_index(rank / SAMPLE)..)?.first_chunk::<2>()?;
        let step = u64::from(high.wrapping_sub(*low)) * (rank % SAMPLE) / SAMPLE;
        let start = (to_index(u64::from(*low) + step)).saturating_sub(1);
        let guess = self.blocks.get(start..)?.first_chunk::<GUESSED>()?;
        let passed: usize = guess.iter().map(|&bits| usize::from(u64::from(bits) <= rank)).sum();
        let before = guess.get(passed.wrapping_sub(1))?;
        if passed == GUESSED || self.spans.len() > 1 {
            return None;
        }
        let at = start + passed - 1;
        let block: &[u8; BLOCK] = bits.get(at.saturating_mul(BLOCK)..)?.first_chunk()?;
        let words = block.as_chunks::<8>().0;
        let word = |number: usize| words.get(number).map_or(0, |word| u64::from_le_bytes(*word));
        let (number, word, left) = in_block(word, rank - u64::from(*before));
        Some((at * 8 + number, word, left))
    }

    #[cold]
    #[inline(never)]
    fn anywhere(&self, bits: &[u8], rank: u64) -> Option<u64> {
        let sample = to_index(rank / SAMPLE);
        let [low, high] = self.samples.get(sample..)?.first_chunk::<2>()?;
        let (mut low, mut high) = (to_index(u64::from(*low)), to_index(u64::from(*high)) + 1);
        while high - low > 1 {
            let middle = low + (high - low) / 2;
            if self.before_block(middle) <= rank {
                low = middle;
            } else {
                high = middle;
            }
        }
        let left = rank - self.before_block(low);
        let (number, first, left) = in_block(|number| word(bits, low * 8 + number), left);
        Some(to_u64(low * 8 + number) * 64 + select_in_word(first, left))
    }
}

/// Of the set bit of a block that has `left` before it: number and content of its word, and how many are set before it
/// there. Half, quarter and word are not branched on, because the processor cannot predict which it is.
#[inline(always)]
fn in_block(word: impl Fn(usize) -> u64, mut left: u64) -> (usize, u64, u64) {
    let count = |number| u64::from(word(number).count_ones());
    let first = count(0) + count(1);
    let half = first + count(2) + count(3);
    let third = count(4) + count(5);
    let upper = left >= half;
    left -= if upper { half } else { 0 };
    let quarter = if upper { third } else { first };
    let odd = left >= quarter;
    left -= if odd { quarter } else { 0 };
    let number = usize::from(upper) * 4 + usize::from(odd) * 2;
    let (first, second) = (word(number), word(number + 1));
    let ones = u64::from(first.count_ones());
    let later = left >= ones;
    left -= if later { ones } else { 0 };
    (number + usize::from(later), if later { second } else { first }, left)
}

/// The words of a block; what lies behind the end is 0.
#[inline(always)]
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
#[inline(always)]
pub(super) fn word(bits: &[u8], at: usize) -> u64 {
    let rest = bits.get(at * 8..).unwrap_or_default();
    match rest.first_chunk::<8>() {
        Some(bytes) => u64::from_le_bytes(*bytes),
        None => rest.iter().take(8).rev().fold(0, |word, &byte| word << 8 | u64::from(byte)),
    }
}

#[inline(always)]
fn count(bits: &[u8]) -> u64 {
    let (words, rest) = bits.as_chunks::<8>();
    let counts: u64 = words.iter().map(|w| u64::from(u64::from_le_bytes(*w).count_ones())).sum();
    counts + rest.iter().map(|byte| u64::from(byte.count_ones())).sum::<u64>()
}
