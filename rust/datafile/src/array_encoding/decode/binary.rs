//! Strings and binary values: their ends in the first pass, their bytes in the second.

use arrow_array::OffsetSizeTrait;
use bytes::Bytes;
use pennon_core::file::BinaryArray;
use pennon_core::rows::RowRanges;
use pennon_core::{Error, Result};

use super::columns::Page;
use super::ends::Ends;
use super::flat::Flat;
use crate::encodings::fsst::decode::SymbolTable;
use crate::encodings::le::{bytes_at, check_allocation};
use crate::source::Fetch;
use crate::values::{Data, Strings, Validity};

/// Rows of a binary array.
#[derive(Debug)]
pub(super) struct Binary<'a> {
    page: Page<'a>,
    array: BinaryArray,
    /// Set if the bytes are codes.
    symbols: Option<Box<SymbolTable>>,
    ends: Ends<'a>,
    lengths: Vec<usize>,
    validity: Validity,
    bytes: Option<Flat<'a>>,
}

impl<'a> Binary<'a> {
    /// Requests the ends of rows.
    pub(super) fn ask(
        page: &Page<'a>,
        array: &BinaryArray,
        symbol_table: Option<&[u8]>,
        rows: &RowRanges,
        fetch: &mut Fetch,
    ) -> Result<Self> {
        let symbols = symbol_table.map(SymbolTable::parse).transpose()?;
        Ok(Self {
            page: *page,
            array: *array,
            symbols: symbols.filter(SymbolTable::is_compressed).map(Box::new),
            ends: Ends::ask(page, &array.indices, array.null_adjustment, rows, fetch)?,
            lengths: Vec::new(),
            validity: Validity::default(),
            bytes: None,
        })
    }

    /// Takes the bytes of the previous pass; returns whether another pass follows.
    pub(super) fn step(&mut self, bytes: &[Bytes], fetch: &mut Fetch) -> Result<bool> {
        if let Some(values) = &mut self.bytes {
            values.take(bytes)?;
            return Ok(false);
        }
        self.ends.take(bytes)?;
        let (lengths, validity) = (&mut self.lengths, &mut self.validity);
        let covered = self.ends.resolve(u64::MAX, |length, valid| {
            // A length that does not fit exceeds every buffer, which is found when its bytes are requested.
            lengths.push(usize::try_from(length).unwrap_or(usize::MAX));
            validity.append(valid);
        })?;
        // How long texts are nobody knows beforehand.
        let page = Page { values: u64::MAX, ..self.page };
        self.bytes = Some(Flat::ask(&page, &self.array.bytes, 8, covered, fetch)?);
        Ok(true)
    }

    /// Appends the values.
    pub(super) fn append_to(self, out: &mut Data, nulls: &mut Validity) -> Result<()> {
        match out {
            Data::Variable32(strings) => self.append_strings(strings)?,
            Data::Variable64(strings) => self.append_strings(strings)?,
            _ => return Err(Error::internal("strings for another type")),
        }
        let len = self.validity.len();
        match self.validity.finish() {
            Some(valid) => valid.iter().for_each(|valid| nulls.append(valid)),
            None => nulls.append_valid(len),
        }
        Ok(())
    }

    fn append_strings<O: OffsetSizeTrait>(&self, out: &mut Strings<O>) -> Result<()> {
        let bytes = self.bytes.as_ref().ok_or_else(|| Error::internal("strings that were not read"))?;
        let total = bytes.bytes()?.map(<[u8]>::len).sum();
        check_allocation(total)?;
        if let Some(symbols) = &self.symbols {
            let codes: Vec<u8> = bytes.bytes()?.flatten().copied().collect();
            return self.append_codes(symbols, &codes, out);
        }
        let mut end = out.bytes.len();
        out.check_end(end.saturating_add(total))?;
        out.bytes.reserve(total);
        bytes.bytes()?.for_each(|part| out.bytes.extend_from_slice(part));
        // The lengths add up to the bytes, see `Ends::resolve`.
        out.offsets.extend(self.lengths.iter().map(|length| {
            end += length;
            O::usize_as(end)
        }));
        Ok(())
    }

    fn append_codes<O: OffsetSizeTrait>(
        &self,
        symbols: &SymbolTable,
        codes: &[u8],
        out: &mut Strings<O>,
    ) -> Result<()> {
        let mut scratch = Vec::new();
        let mut start = 0;
        for &length in &self.lengths {
            let value = bytes_at(codes, start, length)?;
            let room = SymbolTable::room(length);
            if scratch.len() < room {
                check_allocation(room)?;
                scratch.resize(room, 0);
            }
            let end = symbols.decode(value, &mut scratch, 0)?;
            out.append(scratch.get(..end).unwrap_or_default())?;
            start += length;
        }
        Ok(())
    }
}
