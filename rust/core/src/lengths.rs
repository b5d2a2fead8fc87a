//! Lengths of what is in memory, as numbers of the format.

/// A length in 64 bits.
///
/// ```
/// assert_eq!(pennon_core::lengths::to_u64([1, 2].len()), 2);
/// ```
pub fn to_u64(length: usize) -> u64 {
    // No platform has lengths of more than 64 bits.
    u64::try_from(length).unwrap_or(u64::MAX)
}
