//! Little-endian reads that cannot pass the end, and the casts between file and memory sizes.

use arrow_buffer::ArrowNativeType;
use pennon_core::{Error, Result};

/// `len` bytes from `at`. Errors: `Corrupt` when they are not there.
pub(crate) fn bytes_at(bytes: &[u8], at: usize, len: usize) -> Result<&[u8]> {
    at.checked_add(len).and_then(|end| bytes.get(at..end)).ok_or_else(|| {
        Error::corrupt(format!("{len} bytes needed at offset {at} of a buffer of {} bytes", bytes.len()))
    })
}

/// The number of type `T` at a byte offset. Errors: `Corrupt` when it is not there.
pub(crate) fn number_at<T: Number>(bytes: &[u8], at: usize) -> Result<T> {
    bytes_at(bytes, at, T::BYTES).map(T::read)
}

/// A count or size of the file as a size in memory. Errors: `Corrupt` when it does not fit.
pub(crate) fn to_usize(value: u64) -> Result<usize> {
    usize::try_from(value).map_err(|_| Error::corrupt(format!("size {value} does not fit into memory")))
}

/// Errors: `Corrupt` when memory of that size cannot be had, instead of ending the process.
pub(crate) fn check_allocation(bytes: usize) -> Result<()> {
    const SMALL: usize = 1 << 26;
    if bytes <= SMALL || Vec::<u8>::new().try_reserve_exact(bytes).is_ok() {
        return Ok(());
    }
    Err(too_large(bytes))
}

/// Makes room for more values. Errors: as [`check_allocation`].
pub(crate) fn reserve<T>(values: &mut Vec<T>, more: usize) -> Result<()> {
    values.try_reserve(more).map_err(|_| too_large(more.saturating_mul(size_of::<T>())))
}

/// The error of values that memory has no room for.
pub(crate) fn too_large(bytes: usize) -> Error {
    Error::corrupt(format!("{bytes} bytes would be needed for the values"))
}

/// An unsigned integer on disk and in memory.
pub(crate) trait Number: ArrowNativeType {
    /// Size on disk.
    const BYTES: usize;

    /// The number in the first `BYTES` bytes; zero if there are fewer.
    fn read(bytes: &[u8]) -> Self;

    /// All whole numbers in the bytes.
    fn iter(bytes: &[u8]) -> impl ExactSizeIterator<Item = Self> + Clone + '_;

    /// As a size in memory. Saturates, so that a bounds check that follows fails.
    fn size(self) -> usize;
}

macro_rules! number {
    ($($t:ty),*) => {$(
        impl Number for $t {
            const BYTES: usize = size_of::<$t>();

            fn read(bytes: &[u8]) -> Self {
                bytes.first_chunk().map_or(0, |b| Self::from_le_bytes(*b))
            }

            fn iter(bytes: &[u8]) -> impl ExactSizeIterator<Item = Self> + Clone + '_ {
                bytes.as_chunks::<{ size_of::<$t>() }>().0.iter().map(|b| Self::from_le_bytes(*b))
            }

            fn size(self) -> usize {
                usize::try_from(self).unwrap_or(usize::MAX)
            }
        }
    )*};
}
number!(u8, u16, u32, u64);

/// Calls an expression generic over an unsigned integer with the one of so many bytes.
macro_rules! with_width {
    ($width:expr, $number:ident => $then:expr, $otherwise:expr) => {
        match $width {
            1 => {
                type $number = u8;
                $then
            }
            2 => {
                type $number = u16;
                $then
            }
            4 => {
                type $number = u32;
                $then
            }
            8 => {
                type $number = u64;
                $then
            }
            _ => $otherwise,
        }
    };
}
pub(crate) use with_width;
