//! Counting and finding set bits in constant time.
//!
//! | table | one entry per | holds |
//! |---|---|---|
//! | `spans` | 65,536 bits | bits set before (u64) |
//! | `blocks` | 512 bits | bits set before within the span (u16) |
//! | `samples` | 4,096 set bits | the block of that bit (u32) |
//!
//! That is 3.2 % of the bitmap, and at most 0.8 % for the samples. A rank reads two entries and at most 64 bytes; a
//! select starts at a sample and bisects the few blocks up to the next.

use crate::rows::{to_index, to_u64};

/// Bytes of a block.
const BLOCK: usize = 64;
/// Blocks of a span: the counts within fit 16 bits.
const SPAN: usize = 128;
/// Set bits between two samples.
const SAMPLE: u64 = 4096;

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
        let byte = to_index(bit / 8);
        let block = byte / BLOCK;
        let whole = bits.get(block * BLOCK..byte / 8 * 8).unwrap_or_default();
        let below = (1_u64 << (bit % 64)) - 1;
        self.before_block(block) + count(whole) + u64::from((word(bits, byte / 8) & below).count_ones())
    }

    /// The set bit that has so many before it.
    pub(super) fn select(&self, bits: &[u8], rank: u64) -> Option<u64> {
        if rank >= self.ones {
            return None;
        }
        let sample = to_index(rank / SAMPLE);
        let mut low = to_index(u64::from(*self.samples.get(sample)?));
        let mut high = self.samples.get(sample + 1).map_or(self.blocks.len(), |&b| to_index(b.into()) + 1);
        // The last block with no more than `rank` bits before it.
        while high - low > 1 {
            let middle = low + (high - low) / 2;
            if self.before_block(middle) <= rank {
                low = middle;
            } else {
                high = middle;
            }
        }
        let mut left = rank - self.before_block(low);
        for at in low * (BLOCK / 8)..(low + 1) * (BLOCK / 8) {
            let word = word(bits, at);
            let ones = u64::from(word.count_ones());
            if left < ones {
                return Some(to_u64(at) * 64 + u64::from(select_in_word(word, left)));
            }
            left -= ones;
        }
        None
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
/// queries"): sums per byte, the byte by one comparison of all, then the bits of that byte.
fn select_in_word(word: u64, rank: u64) -> u32 {
    const ONES: u64 = 0x0101_0101_0101_0101;
    const HIGH: u64 = 0x8080_8080_8080_8080;
    let pairs = word - (word >> 1 & 0x5555_5555_5555_5555);
    let fours = (pairs & 0x3333_3333_3333_3333) + (pairs >> 2 & 0x3333_3333_3333_3333);
    let sums = (fours + (fours >> 4) & 0x0f0f_0f0f_0f0f_0f0f).wrapping_mul(ONES);
    let passed = ((rank.wrapping_mul(ONES) | HIGH) - sums & HIGH).count_ones();
    let shift = passed * 8;
    let before = (sums << 8).checked_shr(shift).unwrap_or(0) & 0xff;
    let mut byte = word.checked_shr(shift).unwrap_or(0) & 0xff;
    for _ in before..rank {
        byte &= byte.wrapping_sub(1);
    }
    shift + byte.trailing_zeros()
}
