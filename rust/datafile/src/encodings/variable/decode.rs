//! Offsets and bytes, plain or FSST codes, into the buffers of an array.

use std::ops::Range;

use arrow_array::OffsetSizeTrait;
use pennon_core::{Error, Result};

use crate::encodings::fsst::decode::SymbolTable;
use crate::encodings::le::{Number, bytes_at, check_allocation, number_at};
use crate::values::Strings;

/// Appends parts of the `n` values of a mini-block buffer with offsets of type `T`.
pub(crate) fn append<T: Number, O: OffsetSizeTrait>(
    bytes: &[u8],
    n: usize,
    slices: &[Range<usize>],
    fsst: Option<&SymbolTable>,
    scratch: &mut Vec<u8>,
    out: &mut Strings<O>,
) -> Result<()> {
    let offsets = bytes_at(bytes, 0, n.saturating_add(1).saturating_mul(T::BYTES))?;
    for slice in slices {
        let offsets = bytes_at(offsets, slice.start * T::BYTES, (slice.len() + 1) * T::BYTES)?;
        match fsst {
            Some(table) => append_fsst::<T, O>(bytes, offsets, table, scratch, out)?,
            None => append_plain::<T, O>(bytes, offsets, out)?,
        }
    }
    Ok(())
}

/// Appends the `n` values of the block form (file format 2.5).
pub(crate) fn append_block<O: OffsetSizeTrait>(
    bytes: &[u8],
    n: usize,
    fsst: Option<&SymbolTable>,
    out: &mut Strings<O>,
) -> Result<()> {
    let bits = number_at::<u8>(bytes, 0)?;
    match bits {
        32 => append_items::<u32, O>(bytes, n, fsst, out),
        64 => append_items::<u64, O>(bytes, n, fsst, out),
        _ => Err(Error::corrupt(format!("block of strings with {bits}-bit offsets"))),
    }
}

fn append_items<T: Number, O: OffsetSizeTrait>(
    bytes: &[u8],
    n: usize,
    fsst: Option<&SymbolTable>,
    out: &mut Strings<O>,
) -> Result<()> {
    if number_at::<T>(bytes, 0)?.size() != T::BYTES * 8 {
        return Err(Error::unsupported("block of strings in the form of an early pre-release"));
    }
    let position = number_at::<T>(bytes, T::BYTES)?.size();
    let offsets = bytes_at(bytes, 2 * T::BYTES, n.saturating_add(1).saturating_mul(T::BYTES))?;
    let values = bytes.get(position..).ok_or_else(|| {
        Error::corrupt(format!("strings at {position} of a block of {} bytes", bytes.len()))
    })?;
    match fsst {
        Some(table) => append_fsst::<T, O>(values, offsets, table, &mut Vec::new(), out),
        None => append_plain::<T, O>(values, offsets, out),
    }
}

/// The bytes from the first offset to the last, which must be in order.
fn region<'a, T: Number>(bytes: &'a [u8], offsets: &[u8]) -> Result<&'a [u8]> {
    let mut last = T::default();
    let mut ordered = true;
    let mut all = T::iter(offsets);
    let first = all.next().unwrap_or_default();
    if first > last {
        last = first;
    }
    for offset in all {
        ordered &= offset >= last;
        last = offset;
    }
    match bytes.get(first.size()..last.size()) {
        Some(region) if ordered => Ok(region),
        _ => Err(Error::corrupt(format!(
            "string offsets from {} to {} in a buffer of {} bytes{}",
            first.size(),
            last.size(),
            bytes.len(),
            if ordered { "" } else { " are not in order" }
        ))),
    }
}

fn append_plain<T: Number, O: OffsetSizeTrait>(
    bytes: &[u8],
    offsets: &[u8],
    out: &mut Strings<O>,
) -> Result<()> {
    let region = region::<T>(bytes, offsets)?;
    let base = out.bytes.len();
    out.check_end(base.saturating_add(region.len()))?;
    let first = number_at::<T>(offsets, 0)?.size();
    out.offsets.extend(T::iter(offsets).skip(1).map(|o| O::usize_as(base + (o.size() - first))));
    out.bytes.extend_from_slice(region);
    Ok(())
}

fn append_fsst<T: Number, O: OffsetSizeTrait>(
    bytes: &[u8],
    offsets: &[u8],
    table: &SymbolTable,
    scratch: &mut Vec<u8>,
    out: &mut Strings<O>,
) -> Result<()> {
    if !table.is_compressed() {
        return append_plain::<T, O>(bytes, offsets, out);
    }
    let region = region::<T>(bytes, offsets)?;
    let room = SymbolTable::room(region.len());
    if scratch.len() < room {
        check_allocation(room)?;
        scratch.resize(room, 0);
    }
    let base = out.bytes.len();
    let first = number_at::<T>(offsets, 0)?.size();
    let (mut start, mut end) = (0, 0);
    out.offsets.reserve(offsets.len() / T::BYTES);
    for offset in T::iter(offsets).skip(1) {
        let next = offset.size() - first;
        end = table.decode(region.get(start..next).unwrap_or_default(), scratch, end)?;
        out.offsets.push(O::usize_as(base + end));
        start = next;
    }
    out.check_end(base.saturating_add(end))?;
    out.bytes.extend_from_slice(scratch.get(..end).unwrap_or_default());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn strings(values: &[&str]) -> Vec<u8> {
        let mut end = u32::try_from((values.len() + 1) * 4).unwrap();
        let mut bytes = end.to_le_bytes().to_vec();
        for value in values {
            end += u32::try_from(value.len()).unwrap();
            bytes.extend(end.to_le_bytes());
        }
        bytes.extend(values.concat().bytes());
        bytes
    }

    fn empty() -> Strings<i32> {
        Strings { offsets: vec![0], bytes: Vec::new() }
    }

    #[test]
    fn parts_are_rebased() {
        let bytes = strings(&["ab", "", "cde", "f"]);
        let mut out = empty();
        append::<u32, i32>(&bytes, 4, &[0..1, 2..4], None, &mut Vec::new(), &mut out).unwrap();
        assert_eq!((out.offsets, out.bytes), (vec![0, 2, 5, 6], b"abcdef".to_vec()));
    }

    #[test]
    fn bad_offsets_are_errors() {
        let good = strings(&["ab", "", "cde", "f"]);
        for (at, value) in [(8, 21u32), (16, 99), (0, 30), (4, u32::MAX)] {
            let mut bytes = good.clone();
            bytes[at..at + 4].copy_from_slice(&value.to_le_bytes());
            let result = append::<u32, i32>(&bytes, 4, &[0..4], None, &mut Vec::new(), &mut empty());
            assert!(result.is_err(), "{value} at {at}");
        }
        let short = append::<u32, i32>(&good, 100, &[0..100], None, &mut Vec::new(), &mut empty());
        assert!(short.is_err());
    }

    #[test]
    fn block_form() {
        let mut bytes: Vec<u8> = [32u32, 20, 0, 1, 3].iter().flat_map(|v| v.to_le_bytes()).collect();
        bytes.extend(b"abc");
        let mut out = empty();
        append_block(&bytes, 2, None, &mut out).unwrap();
        assert_eq!((out.offsets, out.bytes), (vec![0, 1, 3], b"abc".to_vec()));
        assert!(append_block(&bytes[..22], 2, None, &mut empty()).is_err());
        assert!(append_block(&bytes, 3, None, &mut empty()).is_err());
    }
}
