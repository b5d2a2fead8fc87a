//! Symbol tables from samples of text, in five passes (the paper's algorithm 3): encode a growing part of the
//! sample with the table so far, count symbols and pairs of them, and keep those that save the most bytes.
#![expect(clippy::indexing_slicing, reason = "counters have a place for each pair of codes and literals")]

use super::encode::{Encoder, LITERAL, MAX_LEN, PADDING, Symbol};

/// Bytes of a sample, about.
pub(crate) const SAMPLE: usize = 16 << 10;
/// Longest piece of a value in a sample.
pub(crate) const PIECE: usize = 512;
/// Parts of the sample, in 128ths, that each pass reads.
const ROUNDS: [usize; 5] = [8, 38, 68, 98, 128];
/// Codes and literals.
const SYMBOLS: usize = 512;

/// A table for text like these pieces.
pub(crate) fn train(pieces: &[&[u8]]) -> Encoder {
    let mut table = Encoder::new(std::iter::empty());
    let (mut single, mut pairs) = (vec![0u32; SYMBOLS], vec![0u16; SYMBOLS * SYMBOLS]);
    let mut padded = Vec::with_capacity(PIECE + PADDING);
    for part in ROUNDS {
        let last = part == 128;
        single.fill(0);
        pairs.fill(0);
        for (number, piece) in pieces.iter().enumerate() {
            // Another part of the sample each time, spread over all of it.
            if number.wrapping_mul(0x9e37_79b9) >> 8 & 127 >= part {
                continue;
            }
            padded.clear();
            padded.extend_from_slice(piece);
            padded.resize(piece.len() + PADDING, 0);
            count(&table, &padded, piece.len(), &mut single, (!last).then_some(pairs.as_mut_slice()));
        }
        table = next(&table, &single, (!last).then_some(pairs.as_slice()), (5 * part / 128).max(1));
    }
    table
}

/// Counts the codes of a text, and its pairs of codes.
fn count(table: &Encoder, text: &[u8], len: usize, single: &mut [u32], mut pairs: Option<&mut [u16]>) {
    let mut before: Option<usize> = None;
    let mut at = 0;
    while at < len {
        let (found, size) = table.find(text, at, len - at);
        let found = usize::from(found);
        let first = usize::from(LITERAL) + usize::from(text[at]);
        single[found] += 1;
        if size > 1 {
            // The first byte may replace the symbol, so that another symbol can start after it.
            single[first] += 1;
        }
        if let (Some(before), Some(pairs)) = (before, pairs.as_deref_mut()) {
            let mut add = |next: usize| {
                let count = &mut pairs[before * SYMBOLS + next];
                *count = count.saturating_add(1);
            };
            add(found);
            if size > 1 {
                add(first);
            }
        }
        before = Some(found);
        at += size;
    }
}

/// The symbols and pairs that save most; `least` is how often a symbol must occur.
fn next(table: &Encoder, single: &[u32], pairs: Option<&[u16]>, least: usize) -> Encoder {
    let mut candidates: Vec<(Symbol, u64)> = Vec::new();
    let least = u32::try_from(least).unwrap_or(u32::MAX);
    for (first, &count) in (0u16..).zip(single).filter(|(_, count)| **count > 0) {
        let symbol = table.symbol(first);
        if count >= least {
            // Without a symbol of its own a single byte costs two.
            let weight = if symbol.len == 1 { 8 } else { 1 };
            candidates.push((symbol, u64::from(count) * (symbol.len * weight) as u64));
        }
        let Some(pairs) = pairs.filter(|_| symbol.len < MAX_LEN) else { continue };
        let row = &pairs[usize::from(first) * SYMBOLS..][..SYMBOLS];
        for (second, &count) in (0u16..).zip(row).filter(|(_, count)| u32::from(**count) >= least) {
            let both = symbol.then(table.symbol(second));
            candidates.push((both, u64::from(count) * both.len as u64));
        }
    }
    candidates.sort_unstable();
    candidates.dedup_by(|same, kept| {
        let equal = same.0 == kept.0;
        kept.1 += if equal { same.1 } else { 0 };
        equal
    });
    candidates.sort_unstable_by_key(|&(symbol, gain)| (std::cmp::Reverse(gain), symbol));
    // All candidates: of the many symbols that start alike the table takes only one.
    Encoder::new(candidates.into_iter().map(|(symbol, _)| symbol))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::encodings::fsst::decode::SymbolTable;
    use crate::encodings::le::Number;
    use crate::encodings::variable::encode::Variable;
    use proptest::prelude::*;

    /// Bytes of the codes, after a check that they decode to the values.
    fn check(values: &[&[u8]]) -> usize {
        let table = train(values);
        let stored = SymbolTable::parse(&table.to_bytes()).unwrap();
        let (ends, codes) = table.encode(&Variable::of(values, 4));
        assert_eq!(ends.len(), values.len() + 1);
        for (value, ends) in values.iter().zip(ends.windows(2)) {
            let codes = &codes[ends[0].size()..ends[1].size()];
            let mut out = vec![0; SymbolTable::room(codes.len())];
            let len = stored.decode(codes, &mut out, 0).unwrap();
            assert_eq!(&out[..len], *value);
        }
        codes.len()
    }

    proptest! {
        #[test]
        fn any_bytes_read_back(values in prop::collection::vec(prop::collection::vec(0u8..255, 0..40), 1..60)) {
            check(&values.iter().map(Vec::as_slice).collect::<Vec<_>>());
        }

        #[test]
        fn words_read_back(values in prop::collection::vec("(http://|www\\.|[a-c\u{0}]){0,12}", 1..60)) {
            check(&values.iter().map(String::as_bytes).collect::<Vec<_>>());
        }
    }

    #[test]
    fn blocks_and_values_longer_than_one() {
        let text: Vec<u8> =
            (0..400_000u32).map(|i| b"/abc xyz"[(i.wrapping_mul(i) >> 5 & 7).size()]).collect();
        let lens = [0, 1, 100_000, 0, 0, 70_000, 5, 60_000, 6_000, 130_000, 0];
        let short = (0..3000).map(|i| i % 23);
        let mut rest = text.as_slice();
        let values: Vec<&[u8]> =
            lens.into_iter().chain(short).map_while(|len| rest.split_off(..len)).collect();
        assert!(values.len() > 2000);
        check(&values);
        check(&values[1..2]);
        check(&[]);
        check(&[b"", b""]);
    }

    #[test]
    fn repeating_text_shrinks() {
        let values: Vec<String> = (0..300).map(|i| format!("http://www.example.org/item/{i}")).collect();
        let values: Vec<&[u8]> = values.iter().map(String::as_bytes).collect();
        let before: usize = values.iter().map(|v| v.len()).sum();
        assert!(check(&values) * 3 < before);
    }
}
