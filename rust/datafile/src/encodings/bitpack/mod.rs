//! FastLanes bit packing of 1024 values of 8, 16, 32 or 64 bits (file format 2.1).
//!
//! | part | content |
//! |---|---|
//! | packed words | `word[W][LANES]` with `LANES = 1024 / T`: lane `l` is a bit stream, least significant bit first |
//! | value at row `r`, lane `l` | bits `r * W .. r * W + W` of the lane's stream |
//! | its logical index | `ORDER[r / 8] * 16 + (r % 8) * 128 + l` |
//!
//! Width `W = T` still permutes; width 0 has no words.

pub(crate) mod decode;
pub(crate) mod encode;
#[cfg(test)]
mod tests;

/// Values in a packed group.
pub(crate) const GROUP: usize = 1024;

/// Order of the blocks of eight rows.
pub(crate) const ORDER: [usize; 8] = [0, 4, 2, 6, 1, 5, 3, 7];
