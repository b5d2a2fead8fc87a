//! Decompression into a buffer whose size is bounded by the input.

use std::io::Read;

use pennon_core::file::CompressionScheme;
use pennon_core::{Error, Result};

use crate::encodings::le::to_usize;

/// The best ratio of an LZ4 block: a byte of a length stands for at most 255 bytes.
const LZ4_RATIO: usize = 255;

/// zstd sizes up to this many times the input are trusted; for larger sizes memory grows step by step.
const TRUSTED_RATIO: usize = 256;

/// First bytes of a zstd frame.
const ZSTD_MAGIC: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];

/// The bytes before compression. Errors: `Corrupt`.
pub(crate) fn decompress(scheme: CompressionScheme, bytes: &[u8]) -> Result<Vec<u8>> {
    match scheme {
        CompressionScheme::Lz4 => lz4(bytes),
        CompressionScheme::Zstd => zstd(bytes),
    }
}

fn lz4(bytes: &[u8]) -> Result<Vec<u8>> {
    let (size, block) = bytes
        .split_first_chunk::<4>()
        .ok_or_else(|| Error::corrupt(format!("LZ4 in a buffer of {} bytes", bytes.len())))?;
    let size = to_usize(u32::from_le_bytes(*size).into())?;
    if size == 0 {
        return Ok(Vec::new());
    }
    if size > block.len().saturating_mul(LZ4_RATIO).saturating_add(64) {
        return Err(Error::corrupt(format!("LZ4 block of {} bytes cannot hold {size} bytes", block.len())));
    }
    let mut out = vec![0; size];
    let len = lz4_flex::block::decompress_into(block, &mut out)
        .map_err(|e| Error::corrupt("LZ4 block is damaged").with_source(e))?;
    check_size(len, size)?;
    Ok(out)
}

fn zstd(bytes: &[u8]) -> Result<Vec<u8>> {
    let damaged = |e: std::io::Error| Error::corrupt("zstd frame is damaged").with_source(e);
    if bytes.starts_with(&ZSTD_MAGIC) {
        let mut out = Vec::new();
        grow(bytes, usize::MAX, &mut out)?;
        return Ok(out);
    }
    let (size, frame) = bytes
        .split_first_chunk::<8>()
        .ok_or_else(|| Error::corrupt(format!("zstd in a buffer of {} bytes", bytes.len())))?;
    let size = to_usize(u64::from_le_bytes(*size))?;
    let mut out = Vec::new();
    if size <= frame.len().saturating_mul(TRUSTED_RATIO) {
        out = zstd::bulk::decompress(frame, size).map_err(damaged)?;
    } else {
        grow(frame, size, &mut out)?;
    }
    check_size(out.len(), size)?;
    Ok(out)
}

/// Decompresses without trusting a size: memory grows with the actual output, up to `limit`.
fn grow(frame: &[u8], limit: usize, out: &mut Vec<u8>) -> Result<()> {
    let damaged = |e: std::io::Error| Error::corrupt("zstd frame is damaged").with_source(e);
    let mut decoder = zstd::stream::read::Decoder::with_buffer(frame).map_err(damaged)?;
    let mut part = vec![0; 1 << 17];
    loop {
        let len = decoder.read(&mut part).map_err(damaged)?;
        if len == 0 {
            return Ok(());
        }
        if out.len() + len > limit || out.try_reserve(len).is_err() {
            return Err(Error::corrupt(format!("zstd frame holds more than {} bytes", out.len())));
        }
        out.extend_from_slice(part.get(..len).unwrap_or_default());
    }
}

fn check_size(found: usize, expected: usize) -> Result<()> {
    if found == expected {
        return Ok(());
    }
    Err(Error::corrupt(format!("{found} bytes after decompression, {expected} expected")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_schemes_decompress() {
        let data = b"abcabcabcabcabcabcabcabcabcabc".repeat(100);
        let mut lz4 = u32::try_from(data.len()).unwrap().to_le_bytes().to_vec();
        lz4.extend(lz4_flex::block::compress(&data));
        assert_eq!(decompress(CompressionScheme::Lz4, &lz4).unwrap(), data);
        let frame = zstd::bulk::compress(&data, 0).unwrap();
        let mut framed = (data.len() as u64).to_le_bytes().to_vec();
        framed.extend(&frame);
        assert_eq!(decompress(CompressionScheme::Zstd, &framed).unwrap(), data);
        assert_eq!(decompress(CompressionScheme::Zstd, &frame).unwrap(), data);
    }

    #[test]
    fn lies_about_sizes_are_errors() {
        let frame = zstd::bulk::compress(&[7; 100_000], 0).unwrap();
        for size in [0u64, 99_999, 100_001, u64::MAX] {
            let mut framed = size.to_le_bytes().to_vec();
            framed.extend(&frame);
            assert!(decompress(CompressionScheme::Zstd, &framed).is_err(), "{size}");
        }
        let block = lz4_flex::block::compress(&[7; 1000]);
        for size in [1u32, 999, 1001, u32::MAX] {
            let mut framed = size.to_le_bytes().to_vec();
            framed.extend(&block);
            assert!(decompress(CompressionScheme::Lz4, &framed).is_err(), "{size}");
        }
        assert!(decompress(CompressionScheme::Lz4, &[1, 2]).is_err());
        assert!(decompress(CompressionScheme::Zstd, &[1, 2]).is_err());
    }
}
