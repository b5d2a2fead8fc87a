//! How the values of a page become the buffers of its chunks, and how that is declared.

use bytes::Bytes;
use pennon_core::Result;
use pennon_core::file::{CompressiveEncoding, General};

use super::plan::Limits;
use super::values::{Data, Values, put_bits};
use crate::encodings::bitpack::GROUP;
use crate::encodings::flat::encode::pad;
use crate::encodings::general::encode::Compressor;
use crate::encodings::le::{Number, with_width};
use crate::encodings::{bitpack, byte_stream_split, rle};

/// Bytes of an index into a dictionary.
pub(super) const INDEX: usize = 4;

/// Values of a chunk with runs at most: few runs leave hardly more than the overhead of chunks.
const RUN_VALUES: usize = 4096;

/// The form of the items in a chunk.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Form {
    /// As they are; strings behind their offsets.
    #[default]
    Plain,
    /// Bit packing, 1024 values and their width. Of integers outside of lists.
    Inline,
    /// Values and run lengths. Of integers outside of lists.
    Runs,
    /// Byte planes.
    Planes,
}

/// The codec of a page.
#[derive(Debug, Clone, Default)]
pub(crate) struct Codec {
    /// The form of the items.
    pub form: Form,
    /// What compresses the first buffer of them.
    pub compressor: Option<Compressor>,
    /// The symbol table, if the values are FSST codes.
    pub symbols: Option<Bytes>,
}

impl From<Form> for Codec {
    fn from(form: Form) -> Self {
        Self { form, compressor: None, symbols: None }
    }
}

impl Codec {
    /// How the encoding is declared.
    pub(crate) fn encoding(&self, values: &Values) -> CompressiveEncoding {
        let bits = values.item_bits as u64;
        let flat = |bits_per_value| CompressiveEncoding::Flat { bits_per_value };
        let mut items = match (&values.data, self.form) {
            (Data::Variable(_), _) => CompressiveEncoding::Variable { bits_per_offset: bits },
            (_, Form::Plain) => flat(bits),
            (_, Form::Inline) => CompressiveEncoding::InlineBitpacking { uncompressed_bits: bits },
            (_, Form::Runs) => {
                CompressiveEncoding::Rle { values: Box::new(flat(bits)), run_lengths: Box::new(flat(8)) }
            }
            (_, Form::Planes) => CompressiveEncoding::ByteStreamSplit { values: Box::new(flat(bits)) },
        };
        if let Some(symbol_table) = self.symbols.clone() {
            items = CompressiveEncoding::Fsst { symbol_table, values: Box::new(items) };
        }
        if let Some(Compressor { scheme, level }) = self.compressor {
            items = CompressiveEncoding::General(General { scheme, level, values: Box::new(items) });
        }
        values.lists.iter().rev().fold(items, |values, list| CompressiveEncoding::FixedSizeList {
            items_per_value: list.dimension as u64,
            has_validity: list.validity.is_some(),
            values: Box::new(values),
        })
    }

    /// The limits of a chunk with a header of so many bytes. Small enough that one row costs little to read.
    pub(crate) fn limits(&self, values: &Values, large: bool, header: usize) -> Limits {
        let (mut target, chunk) = if large { (16 << 10, 1 << 20) } else { (8 << 10, 32 << 10) };
        let values = match (&values.data, self.form) {
            (Data::Variable(_) | Data::Bits { .. }, _) | (_, Form::Plain | Form::Planes) => 4096,
            (_, Form::Inline) => GROUP,
            (_, Form::Runs) => RUN_VALUES,
        };
        if self.form != Form::Plain || self.compressor.is_some() {
            // They are at most this much longer than what they were made of.
            target = (target + 1024).max(18 << 10);
        }
        if self.form == Form::Runs {
            target = target.max(RUN_VALUES * (INDEX + 1));
        }
        Limits { target, values, chunk, header }
    }
}

/// Writes the chunks of a page.
#[derive(Debug)]
pub(crate) struct Encoder<'a> {
    values: &'a Values,
    codec: &'a Codec,
    scratch: Vec<u8>,
    second: Vec<u8>,
    encoded: Vec<u8>,
}

impl<'a> Encoder<'a> {
    /// An encoder of these values.
    pub(crate) fn new(values: &'a Values, codec: &'a Codec) -> Self {
        Self { values, codec, scratch: Vec::new(), second: Vec::new(), encoded: Vec::new() }
    }

    /// Buffers of a chunk.
    pub(crate) fn num_buffers(&self) -> usize {
        self.values.bitmaps().count() + 1 + usize::from(self.codec.form == Form::Runs)
    }

    /// Bytes of all values before they are encoded.
    pub(crate) fn bytes(&self) -> usize {
        self.values.bytes()
    }

    /// Bytes of a chunk's buffers at most, each padded to 8.
    pub(crate) fn chunk_bytes(&self, at: usize, len: usize) -> usize {
        let bitmaps =
            self.values.bitmaps().map(|(per_row, _)| (per_row * len).div_ceil(8).next_multiple_of(8));
        let bitmaps = bitmaps.sum::<usize>();
        let (mut first, second) = match &self.values.data {
            Data::Bits { per_row, .. } => ((per_row * len).div_ceil(8), 0),
            Data::Variable(v) => (v.value_bytes(at, len).size() + (len + 1) * v.width, 0),
            Data::Fixed { width, .. } => match self.codec.form {
                Form::Plain | Form::Planes => (width * len, 0),
                Form::Inline => ((8 + width * GROUP) * len.div_ceil(GROUP), 0),
                Form::Runs => (width * len, len),
            },
        };
        if let Some(compressor) = self.codec.compressor {
            first = compressor.bound(first);
        }
        bitmaps + first.next_multiple_of(8) + second.next_multiple_of(8)
    }

    /// Appends the buffers of a chunk, each padded to 8 bytes, and their sizes. `out` is a multiple of 8.
    pub(crate) fn put(
        &mut self,
        at: usize,
        len: usize,
        out: &mut Vec<u8>,
        sizes: &mut Vec<usize>,
    ) -> Result<()> {
        for (per_row, bits) in self.values.bitmaps() {
            let start = out.len();
            put_bits(bits, at * per_row, len * per_row, out);
            sizes.push(out.len() - start);
            pad(8, 0, out);
        }
        let start = out.len();
        self.second.clear();
        match self.codec.compressor {
            None => {
                put_items(self.values, self.codec.form, at, len, &mut self.scratch, out, &mut self.second);
            }
            Some(compressor) => {
                self.encoded.clear();
                let encoded = &mut self.encoded;
                put_items(
                    self.values,
                    self.codec.form,
                    at,
                    len,
                    &mut self.scratch,
                    encoded,
                    &mut self.second,
                );
                compressor.append(encoded, out)?;
            }
        }
        sizes.push(out.len() - start);
        pad(8, 0, out);
        if self.codec.form == Form::Runs {
            sizes.push(self.second.len());
            out.extend_from_slice(&self.second);
            pad(8, 0, out);
        }
        Ok(())
    }
}

fn put_items(
    values: &Values,
    form: Form,
    at: usize,
    len: usize,
    scratch: &mut Vec<u8>,
    out: &mut Vec<u8>,
    lengths: &mut Vec<u8>,
) {
    match &values.data {
        Data::Bits { per_row, bits } => put_bits(bits, at * per_row, len * per_row, out),
        Data::Variable(v) => v.put_chunk(at, len, out),
        Data::Fixed { width, bytes } => {
            let (at, len) = (at * width, len * width);
            match form {
                Form::Plain => bytes.copy(at, len, out),
                Form::Planes => {
                    let item = values.item_bits / 8;
                    byte_stream_split::encode::append(bytes.slice(at, len, scratch), item, out);
                }
                Form::Inline => {
                    let values = bytes.slice(at, len, scratch);
                    with_width!(*width, T => bitpack::encode::inline::<T>(values, out), {});
                }
                Form::Runs => {
                    let values = bytes.slice(at, len, scratch);
                    with_width!(*width, T => rle::encode::split::<T>(values, out, lengths), {});
                }
            }
        }
    }
}
