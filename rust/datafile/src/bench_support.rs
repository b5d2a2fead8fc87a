//! Single codecs for `cargo bench`, which sees public names only. No other code may use this.

use arrow_buffer::MutableBuffer;
use pennon_core::{Error, Result};

use crate::encodings::bitpack::GROUP;
use crate::encodings::bitpack::decode::{Packed, out_of_line};
use crate::encodings::bitpack::encode::Pack;
use crate::encodings::byte_stream_split;
use crate::encodings::fsst::decode::SymbolTable;
use crate::encodings::fsst::encode::Encoder;
use crate::encodings::fsst::train::train;
use crate::encodings::le::{Number, with_width};
use crate::encodings::variable::encode::Variable;

/// Appends whole groups of 1024 unsigned integers of `bytes` bytes, packed to `width` bits.
///
/// Errors: `InvalidInput` for integers of another size than 1, 2, 4 or 8 bytes.
pub fn pack(values: &[u8], bytes: usize, width: usize, out: &mut Vec<u8>) -> Result<()> {
    fn groups<T: Pack>(values: &[u8], width: usize, out: &mut Vec<u8>) {
        values.chunks(GROUP * T::BYTES).for_each(|group| T::pack(group, width, out));
    }
    with_width!(bytes, T => groups::<T>(values, width, out), return Err(not_integers(bytes)));
    Ok(())
}

/// Unpacks whole groups of integers of `bytes` bytes, of `width` bits each.
///
/// Errors: as [`pack`]; `Corrupt` for a width above the bits of the type.
pub fn unpack(packed: &[u8], bytes: usize, width: usize, n: usize, out: &mut MutableBuffer) -> Result<()> {
    fn groups<T: Packed>(packed: &[u8], width: usize, n: usize, out: &mut MutableBuffer) -> Result<()> {
        out.clear();
        out_of_line::<T>(packed, width, n, std::slice::from_ref(&(0..n)), out)
    }
    with_width!(bytes, T => groups::<T>(packed, width, n, out), Err(not_integers(bytes)))
}

/// Unpacks each group into the same memory: the cost without appending the values.
///
/// Errors: as [`unpack`].
pub fn unpack_group(packed: &[u8], bytes: usize, width: usize, out: &mut MutableBuffer) -> Result<()> {
    fn group<T: Packed>(packed: &[u8], width: usize, out: &mut MutableBuffer) -> Result<()> {
        out.resize(GROUP * T::BYTES, 0);
        let values = out.typed_data_mut::<T>().first_chunk_mut();
        let values = values.ok_or_else(|| Error::internal("a group has no room for its values"))?;
        for packed in packed.chunks_exact(GROUP / 8 * width.max(1)) {
            T::unpack(packed, width, values);
        }
        Ok(())
    }
    with_width!(bytes, T => group::<T>(packed, width, out), Err(not_integers(bytes)))
}

/// Splits values of `width` bytes into planes.
pub fn split_planes(values: &[u8], width: usize, out: &mut Vec<u8>) {
    out.clear();
    byte_stream_split::encode::append(values, width, out);
}

/// Joins the planes of `n` values of `width` bytes. Errors: `Corrupt` when there are fewer.
pub fn join_planes(planes: &[u8], width: usize, n: usize, out: &mut MutableBuffer) -> Result<()> {
    out.clear();
    byte_stream_split::decode::append(planes, width, n, std::slice::from_ref(&(0..n)), out)
}

/// Text with its symbol table and its codes.
#[derive(Debug)]
pub struct Fsst {
    values: Variable,
    encoder: Encoder,
    decoder: SymbolTable,
    codes: Vec<u8>,
    ends: Vec<u64>,
}

impl Fsst {
    /// Trains on the first `sample` values and encodes all of them.
    ///
    /// Errors: `Internal` if the table cannot be read back.
    pub fn new(values: &[&[u8]], sample: usize) -> Result<Self> {
        let encoder = train(values.get(..sample).unwrap_or(values));
        let decoder = SymbolTable::parse(&encoder.to_bytes())?;
        let values = Variable::of(values, 4);
        let (ends, codes) = encoder.encode(&values);
        Ok(Self { values, encoder, decoder, codes, ends })
    }

    /// Bytes of the codes.
    pub fn size(&self) -> usize {
        self.codes.len()
    }

    /// Encodes all values: where the codes of each end, and the codes.
    pub fn encode(&self) -> (Vec<u64>, Vec<u8>) {
        self.encoder.encode(&self.values)
    }

    /// Decodes value by value; returns the number of bytes of all. Errors: `Corrupt` for a code without symbol.
    pub fn decode(&self, out: &mut Vec<u8>) -> Result<usize> {
        out.resize(SymbolTable::room(self.codes.len()), 0);
        let mut at = 0;
        for (start, end) in self.ends.iter().zip(self.ends.iter().skip(1)) {
            let codes = self.codes.get(start.size()..end.size()).unwrap_or_default();
            at = self.decoder.decode(codes, out, at)?;
        }
        Ok(at)
    }
}

fn not_integers(bytes: usize) -> Error {
    Error::invalid_input(format!("integers of {bytes} bytes, expected 1, 2, 4 or 8"))
}
