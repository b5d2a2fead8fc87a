//! Changes of inputs that keep their shape.

use libfuzzer_sys::fuzzer_mutate;

use crate::inputs::{Index, Pieces};
use crate::{Shape, Target};

/// Bytes that libFuzzer changes at once, of what keeps its length.
const WINDOW: usize = 64;
/// Bytes that a piece may become longer by.
const MORE: usize = 64;

struct Random(u64);

impl Random {
    fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 >> 16).unwrap_or(0) % end.max(1)
    }
}

/// Changes the first `size` bytes; the new length, at most `max_size`. One time in eight as if they were any bytes.
pub fn mutate(target: &Target, data: &mut [u8], size: usize, max_size: usize, seed: u32) -> usize {
    let mut random = Random(u64::from(seed).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    let used = &mut data[..size];
    let changed = match target.shape {
        Shape::Positions if size > 0 && random.below(8) > 0 => {
            window(used, &mut random);
            return size;
        }
        Shape::Pieces if random.below(8) > 0 => {
            let mut pieces = Pieces::decode(used);
            of_pieces(&mut pieces, &mut random);
            pieces.encode()
        }
        Shape::Index if random.below(8) > 0 => {
            let mut index = Index::decode(used);
            match random.below(8) {
                0 => window(&mut index.head, &mut random),
                1..=4 => of_pieces(&mut index.first, &mut random),
                _ => of_pieces(&mut index.second, &mut random),
            }
            index.encode()
        }
        _ => return fuzzer_mutate(data, size, max_size),
    };
    if changed.len() > max_size {
        return fuzzer_mutate(data, size, max_size);
    }
    data[..changed.len()].copy_from_slice(&changed);
    changed.len()
}

fn of_pieces(pieces: &mut Pieces, random: &mut Random) {
    let others = pieces.buffers.len() + pieces.columns.len();
    match random.below(2 + 2 * others) {
        0 => window(&mut pieces.pages, random),
        1 if random.below(4) == 0 => pieces.version = pieces.version.wrapping_add(1),
        1 => window(&mut pieces.pages, random),
        at => {
            let all = pieces.buffers.iter_mut().chain(&mut pieces.columns);
            if let Some(piece) = all.into_iter().nth(at % others.max(1)) {
                any(piece, random);
            }
        }
    }
}

/// Lets libFuzzer change a piece, which may become longer or shorter.
fn any(piece: &mut Vec<u8>, random: &mut Random) {
    // Most fields of messages and numbers of buffers stay where they are.
    if !piece.is_empty() && random.below(2) == 0 {
        return window(piece, random);
    }
    let size = piece.len();
    piece.resize(size + MORE, 0);
    let changed = fuzzer_mutate(piece, size, size + MORE);
    piece.truncate(changed);
}

/// Lets libFuzzer change a part, more often than not near the end, where the metadata of files is.
fn window(data: &mut [u8], random: &mut Random) {
    let from = if random.below(3) == 0 { 0 } else { data.len().saturating_sub(4096) };
    let start = from + random.below(data.len() - from);
    let end = data.len().min(start + 1 + random.below(WINDOW));
    let Some(part) = data.get_mut(start..end).filter(|part| !part.is_empty()) else { return };
    let was = part.to_vec();
    let length = part.len();
    let changed = fuzzer_mutate(part, length, length).min(length);
    // What became shorter is followed by what was there.
    part[changed..].copy_from_slice(&was[changed..]);
}
