//! Whether the strings of a page are stored as FSST codes, and the codes.

use arrow_buffer::Buffer;
use arrow_schema::DataType;
use bytes::Bytes;

use super::choose::is_share;
use super::options::{Compression, FieldOptions};
use super::values::{Data, Values};
use crate::encodings::flat::encode::Rope;
use crate::encodings::fsst::train::{PIECE, SAMPLE, train};
use crate::encodings::le::Number;
use crate::encodings::variable::encode::Variable;

/// Bytes below which a symbol table, 2,312 bytes, does not pay.
const MIN_BYTES: usize = 32 << 10;
/// Shorter values hardly contain symbols.
const MIN_LONGEST: u64 = 5;
/// Largest share of the sample that codes may take; decoding takes time.
const WORTHWHILE: f64 = 0.95;

/// The codes and the symbol table, if they save enough or are requested.
pub(crate) fn encode(
    values: &Values,
    data_type: &DataType,
    options: &FieldOptions,
) -> Option<(Values, Bytes)> {
    let Data::Variable(v) = &values.data else { return None };
    let asked = options.compression == Some(Compression::Fsst);
    let is_text = matches!(data_type, DataType::Utf8 | DataType::LargeUtf8);
    let bytes = v.bytes.len();
    if bytes == 0 || (!asked && (options.compression.is_some() || !is_text)) {
        return None;
    }
    let is_large = values.bytes() >= MIN_BYTES && v.longest() >= MIN_LONGEST;
    if !asked && !is_large {
        return None;
    }
    let (pieces, next) = sample(v, 0);
    let table = train(&slices(&pieces));
    if !asked {
        // Measured with other pieces than those of the training.
        let (pieces, _) = sample(v, next);
        let offsets = pieces.len() * v.width;
        let before: usize = pieces.iter().map(Vec::len).sum();
        let (_, codes) = table.encode(&Variable::of(&slices(&pieces), v.width));
        if !is_share(codes.len() + offsets, before + offsets, WORTHWHILE) {
            return None;
        }
    }
    let (offsets, codes) = table.encode(v);
    let codes = Variable { offsets, bytes: Rope::new(vec![Buffer::from_vec(codes)]), width: v.width };
    let codes = Values { lists: Vec::new(), data: Data::Variable(codes), item_bits: values.item_bits };
    Some((codes, table.to_bytes().into()))
}

fn slices(pieces: &[Vec<u8>]) -> Vec<&[u8]> {
    pieces.iter().map(Vec::as_slice).collect()
}

/// Pieces of values from all over the page, and the number from which to take other pieces.
fn sample(v: &Variable, first: usize) -> (Vec<Vec<u8>>, usize) {
    let n = v.offsets.len() - 1;
    let pieces =
        (v.bytes.len().min(SAMPLE) * n / v.bytes.len().max(1)).clamp(1, n).max(SAMPLE / PIECE).min(n);
    // An odd step, so that all of alternating values are in the sample.
    let step = (n / pieces).max(1) | 1;
    let mut sample = Vec::new();
    let mut total = 0;
    for number in first..first + n {
        // The second pass starts at the next value.
        let at = (number * step + number * step / n) % n;
        let (start, len) = (v.start(at), v.value_bytes(at, 1).size());
        // A different part of each long value.
        let skip = if len > PIECE { number.wrapping_mul(7919) % (len - PIECE) } else { 0 };
        let mut piece = Vec::with_capacity(len.min(PIECE));
        v.bytes.copy(start + skip, len.min(PIECE), &mut piece);
        total += piece.len();
        if !piece.is_empty() {
            sample.push(piece);
        }
        if total >= SAMPLE {
            return (sample, number + 1);
        }
    }
    (sample, first)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::encodings::fsst::decode::SymbolTable;

    fn strings(values: impl Iterator<Item = String>) -> Values {
        let (mut offsets, mut bytes) = (vec![0], Vec::new());
        for value in values {
            bytes.extend_from_slice(value.as_bytes());
            offsets.push(bytes.len() as u64);
        }
        let parts = bytes.chunks(1 << 16).map(Buffer::from).collect();
        let v = Variable { offsets, bytes: Rope::new(parts), width: 4 };
        Values { lists: Vec::new(), data: Data::Variable(v), item_bits: 32 }
    }

    fn urls(n: usize) -> Values {
        strings((0..n).map(|i| format!("https://example.org/{}/page-{}", i % 97, i * 31)))
    }

    #[test]
    fn text_becomes_codes_that_lead_back() {
        let values = urls(5000);
        let (codes, table) = encode(&values, &DataType::Utf8, &FieldOptions::default()).unwrap();
        assert!(codes.bytes() * 10 < values.bytes() * 6);
        let table = SymbolTable::parse(&table).unwrap();
        let (Data::Variable(v), Data::Variable(codes)) = (&values.data, &codes.data) else { panic!() };
        let (text, codes_bytes) = (v.bytes.to_vec(), codes.bytes.to_vec());
        let mut out = vec![0; SymbolTable::room(codes_bytes.len())];
        for at in 0..values.len() {
            let code = &codes_bytes[codes.start(at)..codes.start(at + 1)];
            let end = table.decode(code, &mut out, 0).unwrap();
            assert_eq!(out[..end], text[v.start(at)..v.start(at + 1)], "value {at}");
        }
    }

    #[test]
    fn only_where_it_pays() {
        let default = FieldOptions::default();
        assert!(encode(&urls(100), &DataType::Utf8, &default).is_none());
        assert!(encode(&urls(5000), &DataType::Binary, &default).is_none());
        let asked = FieldOptions { compression: Some(Compression::Fsst), ..FieldOptions::default() };
        assert!(encode(&urls(100), &DataType::Binary, &asked).is_some());
        let none = FieldOptions { compression: Some(Compression::None), ..FieldOptions::default() };
        assert!(encode(&urls(5000), &DataType::Utf8, &none).is_none());
        let mut random = crate::writer::tests::Random(3);
        let mut noise =
            || (0..20).map(|_| char::from(b' ' + u8::try_from(random.below(95)).unwrap())).collect();
        assert!(encode(&strings((0..5000).map(|_| noise())), &DataType::Utf8, &default).is_none());
    }
}
