//! Codes back to bytes.
#![expect(
    clippy::indexing_slicing,
    reason = "codes are bytes into tables of 256, the target has 8 bytes per code and a window left"
)]

use pennon_core::{Error, Result};

use super::{ESCAPE, MAGIC, TABLE_SIZE};
use crate::encodings::le::{bytes_at, number_at};

/// Bytes that four symbols may be written to.
const WINDOW: usize = 64;

/// A symbol table, ready to decode.
pub(crate) struct SymbolTable {
    symbols: [[u8; 8]; 256],
    /// Length of each symbol; 0 for codes without one, the escape among them.
    lengths: [u8; 256],
    compressed: bool,
}

impl std::fmt::Debug for SymbolTable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SymbolTable").field("compressed", &self.compressed).finish_non_exhaustive()
    }
}

impl SymbolTable {
    /// Reads a table. Errors: `Corrupt`.
    pub(crate) fn parse(bytes: &[u8]) -> Result<Self> {
        if bytes.len() != TABLE_SIZE || number_at::<u32>(bytes, 4)? != MAGIC {
            return Err(Error::corrupt(format!(
                "FSST symbol table of {} bytes, expected {TABLE_SIZE} with the mark \"FSST\" at 4",
                bytes.len()
            )));
        }
        let n = usize::from(bytes[0]);
        let mut table = Self { symbols: [[0; 8]; 256], lengths: [0; 256], compressed: bytes[3] != 0 };
        for (symbol, stored) in table.symbols.iter_mut().zip(bytes_at(bytes, 8, n * 8)?.as_chunks::<8>().0) {
            *symbol = *stored;
        }
        for (length, &stored) in table.lengths.iter_mut().zip(bytes_at(bytes, 8 + n * 8, n)?) {
            if !(1..=8).contains(&stored) {
                return Err(Error::corrupt(format!("FSST symbol of {stored} bytes, expected 1 to 8")));
            }
            *length = stored;
        }
        Ok(table)
    }

    /// Whether values are codes; otherwise they are stored as they are.
    pub(crate) fn is_compressed(&self) -> bool {
        self.compressed
    }

    /// Room that decoding this many bytes of codes needs at most.
    pub(crate) fn room(codes: usize) -> usize {
        codes.saturating_mul(8).saturating_add(WINDOW)
    }

    /// Decodes one value to `out[at..]` and returns where it ends.
    ///
    /// `out` has [`Self::room`] for the codes from `at` on. Errors: `Corrupt` for a code without symbol.
    pub(crate) fn decode(&self, codes: &[u8], out: &mut [u8], mut at: usize) -> Result<usize> {
        let mut i = 0;
        while i < codes.len() {
            // Four symbols at once, if none of the codes is an escape.
            if let (Some(four), Some(window)) = (codes[i..].first_chunk::<4>(), out[at..].first_chunk_mut()) {
                let lengths = four.map(|code| usize::from(self.lengths[usize::from(code)]));
                if !lengths.contains(&0) {
                    at += self.four(*four, lengths, window);
                    i += 4;
                    continue;
                }
            }
            let code = codes[i];
            let length = usize::from(self.lengths[usize::from(code)]);
            if length > 0 {
                out[at..at + 8].copy_from_slice(&self.symbols[usize::from(code)]);
                at += length;
                i += 1;
            } else if let (ESCAPE, Some(&literal)) = (code, codes.get(i + 1)) {
                out[at] = literal;
                at += 1;
                i += 2;
            } else {
                return Err(Error::corrupt(format!("FSST code {code} at byte {i} of a value has no symbol")));
            }
        }
        Ok(at)
    }

    /// Writes the symbols of four codes and returns how many bytes they have.
    #[inline(always)]
    fn four(&self, codes: [u8; 4], lengths: [usize; 4], window: &mut [u8; WINDOW]) -> usize {
        let mut end = 0;
        for (code, length) in codes.into_iter().zip(lengths) {
            // The mask changes nothing: it shows the compiler that three lengths and a symbol fit into the window.
            window[end..end + 8].copy_from_slice(&self.symbols[usize::from(code)]);
            end += length & 15;
        }
        end
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(symbols: &[&[u8]]) -> Vec<u8> {
        let mut bytes = vec![u8::try_from(symbols.len()).unwrap(), 0, 0, 1];
        bytes.extend(MAGIC.to_le_bytes());
        for symbol in symbols {
            let mut padded = [0; 8];
            padded[..symbol.len()].copy_from_slice(symbol);
            bytes.extend(padded);
        }
        bytes.extend(symbols.iter().map(|s| u8::try_from(s.len()).unwrap()));
        bytes.resize(TABLE_SIZE, 0);
        bytes
    }

    #[test]
    fn symbols_and_literals() {
        let table = SymbolTable::parse(&table(&[b"http://w", b"a"])).unwrap();
        let codes = [0, 1, 255, b'x', 1];
        let mut out = vec![0; SymbolTable::room(codes.len())];
        let end = table.decode(&codes, &mut out, 0).unwrap();
        assert_eq!(&out[..end], b"http://waxa");
    }

    #[test]
    fn damage_is_an_error() {
        let good = table(&[b"ab"]);
        let parsed = SymbolTable::parse(&good).unwrap();
        let mut out = vec![0; 100];
        assert!(parsed.decode(&[1], &mut out, 0).is_err());
        assert!(parsed.decode(&[0, 255], &mut out, 0).is_err());
        assert!(SymbolTable::parse(&good[1..]).is_err());
        let mut long = good.clone();
        long[16] = 9;
        assert!(SymbolTable::parse(&long).is_err());
        let mut unmarked = good;
        unmarked[4] = 0;
        assert!(SymbolTable::parse(&unmarked).is_err());
    }
}
