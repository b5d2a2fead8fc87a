//! Runs back to values.

use std::ops::Range;

use arrow_buffer::MutableBuffer;
use pennon_core::{Error, Result};

use crate::encodings::le::{Number, check_allocation, to_usize};

/// Appends parts of the `n` values whose runs are in `values` and `lengths`.
///
/// The slices are in order and within `0..n`.
pub(crate) fn append<T: Number>(
    values: &[u8],
    lengths: &[u8],
    n: usize,
    slices: &[Range<usize>],
    out: &mut MutableBuffer,
) -> Result<()> {
    check_runs::<T>(values, lengths, n)?;
    let mut runs = T::iter(values).zip(lengths.iter().map(|&l| usize::from(l)));
    let mut run = (T::default(), 0);
    let mut position = 0; // first value of the current run
    for slice in slices {
        let mut at = slice.start;
        while at < slice.end {
            while position + run.1 <= at {
                position += run.1;
                run = runs.next().ok_or_else(|| Error::internal("runs end early"))?;
            }
            let take = (position + run.1).min(slice.end) - at;
            out.extend(std::iter::repeat_n(run.0, take));
            at += take;
        }
    }
    Ok(())
}

/// Splits the block form into values and lengths.
pub(crate) fn split_block(bytes: &[u8]) -> Result<(&[u8], &[u8])> {
    let error = || Error::corrupt(format!("run lengths in a block of {} bytes", bytes.len()));
    let (size, rest) = bytes.split_first_chunk::<8>().ok_or_else(error)?;
    rest.split_at_checked(to_usize(u64::from_le_bytes(*size))?).ok_or_else(error)
}

fn check_runs<T: Number>(values: &[u8], lengths: &[u8], n: usize) -> Result<()> {
    if values.len() != lengths.len().saturating_mul(T::BYTES) {
        return Err(Error::corrupt(format!(
            "{} bytes of run values of {} bytes each with {} run lengths",
            values.len(),
            T::BYTES,
            lengths.len()
        )));
    }
    let total: usize = lengths.iter().map(|&l| usize::from(l)).sum();
    // The last run of releases of the reference up to 4.0 may be longer than the values that are left.
    let last = lengths.last().map_or(0, |&l| usize::from(l));
    if total < n || (total > n && total - last >= n) {
        return Err(Error::corrupt(format!("runs of {total} values where {n} are expected")));
    }
    check_allocation(n.saturating_mul(T::BYTES))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_become_values() {
        let values = [1u16, 2, 1].map(u16::to_le_bytes).concat();
        let mut out = MutableBuffer::new(0);
        append::<u16>(&values, &[3, 0, 2], 5, &[0..5], &mut out).unwrap();
        assert_eq!(out.typed_data::<u16>(), [1, 1, 1, 1, 1]);
        let mut out = MutableBuffer::new(0);
        append::<u16>(&values, &[255, 200, 2], 457, &[0..1, 254..257, 454..457], &mut out).unwrap();
        assert_eq!(out.typed_data::<u16>(), [1, 1, 2, 2, 2, 1, 1]);
    }

    #[test]
    fn the_last_run_may_be_too_long() {
        let mut out = MutableBuffer::new(0);
        append::<u8>(&[1, 2], &[3, 3], 4, &[0..1, 2..4], &mut out).unwrap();
        assert_eq!(out.as_slice(), [1, 1, 2]);
        assert!(append::<u8>(&[1, 2], &[3, 3], 3, &[0..3], &mut out).is_err());
    }

    #[test]
    fn wrong_totals_are_errors() {
        let mut out = MutableBuffer::new(0);
        assert!(append::<u8>(&[1, 2], &[3, 3], 7, &[0..7], &mut out).is_err());
        assert!(append::<u8>(&[1, 2], &[3], 3, &[0..3], &mut out).is_err());
        assert!(split_block(&[1, 0, 0]).is_err());
        assert!(split_block(&[9, 0, 0, 0, 0, 0, 0, 0, 1]).is_err());
    }
}
