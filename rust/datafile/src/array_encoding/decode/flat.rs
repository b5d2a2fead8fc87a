//! Values of a fixed number of bits: the bytes of some rows of a buffer.

use std::ops::Range;

use bytes::Bytes;
use pennon_core::file::{CompressionScheme, FlatArray};
use pennon_core::{Error, Result};

use super::columns::{Page, Pages};
use crate::encodings::le::{Number, to_usize};
use crate::source::Fetch;
use crate::values::{Data, Validity};

/// Rows of a flat array, requested or loaded.
#[derive(Debug)]
pub(super) struct Flat<'a> {
    bits: usize,
    /// As requested: neighbours may touch or overlap by the end before a row, and empty ranges are kept.
    rows: Vec<Range<u64>>,
    state: State<'a>,
}

#[derive(Debug)]
enum State<'a> {
    /// The bytes of each range, by its position in the pass.
    Asked(Vec<usize>),
    /// The whole compressed buffer.
    AskedWhole {
        ticket: usize,
        scheme: CompressionScheme,
        /// Bytes that the values of the page take, at most.
        most: usize,
        page: usize,
        buffer: u32,
        pages: &'a Pages,
    },
    Loaded(Vec<RangeBytes>),
}

/// A range of rows: some values of some bytes.
#[derive(Debug)]
struct RangeBytes {
    bytes: Bytes,
    values: Range<usize>,
}

impl<'a> Flat<'a> {
    /// Requests rows of values of that many bits: one, or whole bytes.
    pub(super) fn ask(
        page: &Page<'a>,
        array: &FlatArray,
        bits: usize,
        rows: Vec<Range<u64>>,
        fetch: &mut Fetch,
    ) -> Result<Self> {
        if array.bits_per_value != bits as u64 {
            return Err(Error::corrupt(format!(
                "values of {} bits, the type has {bits}",
                array.bits_per_value
            )));
        }
        let buffers = &page.metadata.buffers;
        let buffer = usize::try_from(array.buffer).ok().and_then(|at| buffers.get(at)).ok_or_else(|| {
            Error::corrupt(format!("{} buffers, the encoding needs a buffer {}", buffers.len(), array.buffer))
        })?;
        let state = match array.compression {
            None => {
                let ask = |rows: &Range<u64>| Ok(fetch.add(byte_range(buffer, rows, array.bits_per_value)?));
                State::Asked(rows.iter().map(ask).collect::<Result<_>>()?)
            }
            Some(scheme) => match page.pages.decompressed(page.number, array.buffer) {
                Some(bytes) => State::Loaded(parts_of_buffer(&bytes, &rows, bits)?),
                None => State::AskedWhole {
                    ticket: fetch.add(buffer.clone()),
                    scheme,
                    most: most_bytes(page.values, array.bits_per_value),
                    page: page.number,
                    buffer: array.buffer,
                    pages: page.pages,
                },
            },
        };
        Ok(Self { bits, rows, state })
    }

    /// Takes the bytes that were requested.
    pub(super) fn take(&mut self, bytes: &[Bytes]) -> Result<()> {
        let get = |ticket: usize| {
            bytes.get(ticket).cloned().ok_or_else(|| Error::internal("bytes that were not asked for"))
        };
        let parts = match &self.state {
            State::Loaded(_) => return Ok(()),
            State::Asked(tickets) => {
                let part = |(rows, &ticket): (&Range<u64>, &usize)| {
                    let first = match self.bits {
                        1 => to_usize(rows.start % 8)?,
                        _ => 0,
                    };
                    let values = first..first + to_usize(rows.end - rows.start)?;
                    Ok(RangeBytes { bytes: get(ticket)?, values })
                };
                self.rows.iter().zip(tickets).map(part).collect::<Result<_>>()?
            }
            State::AskedWhole { ticket, scheme, most, page, buffer, pages } => {
                let decompressed = pages.decompress(*page, *buffer, (*scheme, *most), &get(*ticket)?)?;
                parts_of_buffer(&decompressed, &self.rows, self.bits)?
            }
        };
        self.state = State::Loaded(parts);
        Ok(())
    }

    fn parts(&self) -> Result<&[RangeBytes]> {
        match &self.state {
            State::Loaded(parts) => Ok(parts),
            _ => Err(Error::internal("values that were not read")),
        }
    }

    /// The bytes of each range of rows; of values of whole bytes only.
    pub(super) fn bytes(&self) -> Result<impl Iterator<Item = &[u8]>> {
        let width = self.bits / 8;
        let bytes = move |part: &'_ RangeBytes| -> Range<usize> {
            part.values.start * width..part.values.end * width
        };
        Ok(self.parts()?.iter().map(move |part| part.bytes.get(bytes(part)).unwrap_or_default()))
    }

    /// The 64-bit numbers of each range of rows.
    pub(super) fn u64_values(&self) -> Result<impl Iterator<Item = impl Iterator<Item = u64>>> {
        Ok(self.bytes()?.map(u64::iter))
    }

    /// Appends the values.
    pub(super) fn append_to(&self, out: &mut Data) -> Result<()> {
        match out {
            Data::Bits(bits) if self.bits == 1 => {
                for part in self.parts()? {
                    bits.append_packed_range(part.values.clone(), &part.bytes);
                }
            }
            Data::Fixed { width, bytes } if *width * 8 == self.bits => {
                self.bytes()?.for_each(|part| bytes.extend_from_slice(part));
            }
            _ => return Err(Error::internal(format!("values of {} bits for another type", self.bits))),
        }
        Ok(())
    }

    /// Appends bits as validity.
    pub(super) fn append_validity(&self, out: &mut Validity) -> Result<()> {
        for part in self.parts()? {
            out.append_bitmap(&part.bytes, part.values.clone());
        }
        Ok(())
    }
}

/// The bytes in the file that rows of a buffer are in. Errors: `Corrupt` when the buffer is shorter.
fn byte_range(buffer: &Range<u64>, rows: &Range<u64>, bits: u64) -> Result<Range<u64>> {
    let start = rows.start.checked_mul(bits).map(|n| n / 8);
    let end = rows.end.checked_mul(bits).map(|n| n.div_ceil(8));
    let within = |at: Option<u64>| buffer.start.checked_add(at?).filter(|&at| at <= buffer.end);
    match (within(start), within(end)) {
        (Some(start), Some(end)) if start <= end => Ok(start..end),
        _ => Err(Error::corrupt(format!(
            "values {} to {} of {bits} bits in a buffer of {} bytes",
            rows.start,
            rows.end,
            buffer.end.saturating_sub(buffer.start)
        ))),
    }
}

/// Bytes of so many values, with those that fill up the last words of a bitmap.
fn most_bytes(values: u64, bits: u64) -> usize {
    let bytes = u128::from(values) * u128::from(bits) / 8 + 64;
    usize::try_from(bytes).unwrap_or(usize::MAX)
}

fn parts_of_buffer(bytes: &Bytes, rows: &[Range<u64>], bits: usize) -> Result<Vec<RangeBytes>> {
    let part = |rows: &Range<u64>| {
        let values = to_usize(rows.start)?..to_usize(rows.end)?;
        if values.end.checked_mul(bits).is_none_or(|n| n.div_ceil(8) > bytes.len()) {
            return Err(Error::corrupt(format!(
                "values {} to {} of {bits} bits in {} bytes after decompression",
                rows.start,
                rows.end,
                bytes.len()
            )));
        }
        Ok(RangeBytes { bytes: bytes.clone(), values })
    };
    rows.iter().map(part).collect()
}
