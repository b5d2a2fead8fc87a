//! Which codec the levels of a mini-block page get, and their bytes in a chunk.
//!
//! Bit packing with the width of the highest level is never longer than plain levels, because its tail is stored
//! plainly where that is shorter. Runs are a choice from file version 2.2 on.

use pennon_core::file::{CompressiveEncoding, FileVersion};

use crate::encodings::flat::encode::put_u16;
use crate::encodings::le::Number;
use crate::encodings::{bitpack, rle};

/// Bits of a level in memory.
const BITS: u64 = 16;

/// How levels of one kind are stored in all chunks of a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LevelCodec {
    /// As they are.
    Plain,
    /// Packed to so many bits.
    Packed(usize),
    /// As runs.
    Runs,
}

impl LevelCodec {
    /// The smallest codec for levels that are divided into blocks of these lengths.
    pub(crate) fn choose(
        levels: &[u16],
        highest: u16,
        blocks: impl Iterator<Item = usize> + Clone,
        version: FileVersion,
    ) -> Self {
        let width = (u16::BITS - highest.leading_zeros()).size();
        let packed: usize = blocks.clone().map(|len| bitpack::encode::levels_bytes(len, width)).sum();
        if version >= FileVersion::V2_2 && runs_are_smaller(levels, blocks, packed) {
            return Self::Runs;
        }
        if packed < levels.len() * 2 { Self::Packed(width) } else { Self::Plain }
    }

    /// How the encoding is declared.
    pub(crate) fn encoding(self) -> CompressiveEncoding {
        let flat = |bits_per_value| CompressiveEncoding::Flat { bits_per_value };
        match self {
            Self::Plain => flat(BITS),
            Self::Packed(width) => CompressiveEncoding::OutOfLineBitpacking {
                uncompressed_bits: BITS,
                compressed_bits: width as u64,
            },
            Self::Runs => {
                CompressiveEncoding::Rle { values: Box::new(flat(BITS)), run_lengths: Box::new(flat(8)) }
            }
        }
    }

    /// Appends a block.
    pub(crate) fn put(self, levels: &[u16], out: &mut Vec<u8>) {
        match self {
            Self::Plain => put_u16(levels, out),
            Self::Packed(width) => bitpack::encode::levels(levels, width, out),
            Self::Runs => rle::encode::block(levels, out),
        }
    }
}

fn runs_are_smaller(levels: &[u16], blocks: impl Iterator<Item = usize>, goal: usize) -> bool {
    let changes = levels.iter().zip(levels.iter().skip(1)).filter(|(a, b)| a != b).count();
    if changes * 3 >= goal {
        return false;
    }
    let (mut rest, mut total) = (levels, 0);
    for len in blocks {
        let (block, behind) = rest.split_at_checked(len).unwrap_or((rest, &[]));
        let bytes = rle::encode::block_bytes(block);
        total += bytes;
        // A block of plain levels always has a size that can be stored; one of short runs may not.
        if total >= goal || bytes > 8 + len * 2 {
            return false;
        }
        rest = behind;
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_smallest_codec() {
        let choose = |levels: &[u16], version| {
            let highest = levels.iter().copied().max().unwrap();
            LevelCodec::choose(levels, highest, [levels.len()].into_iter(), version)
        };
        let (old, new) = (FileVersion::V2_1, FileVersion::V2_2);
        let runs: Vec<u16> = (0..4096).map(|i| u16::from(i > 1000)).collect();
        assert_eq!(choose(&runs, old), LevelCodec::Packed(1));
        assert_eq!(choose(&runs, new), LevelCodec::Runs);
        let mixed: Vec<u16> = (0..4096).map(|i| i % 4).collect();
        assert_eq!(choose(&mixed, new), LevelCodec::Packed(2));
        assert_eq!(choose(&mixed[..8], new), LevelCodec::Plain);
    }
}
