//! Decompression into a buffer whose size is bounded by the input, at the end of what is there already.

use std::io::{Cursor, Read};

use pennon_core::file::CompressionScheme;
use pennon_core::{Error, Result};

use crate::encodings::le::to_usize;

/// The best ratio of an LZ4 block: a byte of a length stands for at most 255 bytes.
const LZ4_RATIO: usize = 255;

/// First bytes of a zstd frame.
const ZSTD_MAGIC: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];
/// The most bytes that come out of a block of a zstd frame.
const ZSTD_BLOCK: usize = 128 << 10;

/// The bytes before compression, of which there are at most `most`. Errors: `Corrupt`.
pub(crate) fn decompress(scheme: CompressionScheme, bytes: &[u8], most: usize) -> Result<Vec<u8>> {
    let mut out = Vec::new();
    decompress_onto(scheme, bytes, most, &mut out)?;
    Ok(out)
}

/// Appends the bytes before compression, of which there are at most `most`: what the rows need, if that is known. A
/// frame of zstd can stand for 40,000 times its bytes. Errors: `Corrupt`.
pub(crate) fn decompress_onto(
    scheme: CompressionScheme,
    bytes: &[u8],
    most: usize,
    out: &mut Vec<u8>,
) -> Result<()> {
    match scheme {
        CompressionScheme::Lz4 => lz4(bytes, most, out),
        CompressionScheme::Zstd => zstd(bytes, most, out),
    }
}

fn lz4(bytes: &[u8], most: usize, out: &mut Vec<u8>) -> Result<()> {
    let (size, block) = bytes
        .split_first_chunk::<4>()
        .ok_or_else(|| Error::corrupt(format!("LZ4 in a buffer of {} bytes", bytes.len())))?;
    let size = to_usize(u32::from_le_bytes(*size).into())?;
    if size == 0 {
        return Ok(());
    }
    check_most(size, most)?;
    if size > block.len().saturating_mul(LZ4_RATIO).saturating_add(64) {
        return Err(Error::corrupt(format!("LZ4 block of {} bytes cannot hold {size} bytes", block.len())));
    }
    let start = out.len();
    out.resize(start + size, 0);
    let len = lz4_flex::block::decompress_into(block, out.get_mut(start..).unwrap_or_default())
        .map_err(|e| Error::corrupt("LZ4 block is damaged").with_source(e))?;
    check_size(len, size)
}

fn zstd(bytes: &[u8], most: usize, out: &mut Vec<u8>) -> Result<()> {
    if bytes.starts_with(&ZSTD_MAGIC) {
        return grow(bytes, most, out);
    }
    let (size, frame) = bytes
        .split_first_chunk::<8>()
        .ok_or_else(|| Error::corrupt(format!("zstd in a buffer of {} bytes", bytes.len())))?;
    let size = to_usize(u64::from_le_bytes(*size))?;
    check_most(size, most)?;
    let start = out.len();
    if capacity(frame).is_some_and(|most| size <= most) && out.try_reserve(size).is_ok() {
        let mut end = Cursor::new(&mut *out);
        end.set_position(start as u64);
        zstd::zstd_safe::DCtx::create().decompress(&mut end, frame).map_err(|code| {
            Error::corrupt(format!("zstd frame is damaged: {}", zstd::zstd_safe::get_error_name(code)))
        })?;
    } else {
        grow(frame, size, out)?;
    }
    check_size(out.len() - start, size)
}

/// The most bytes that the blocks of one zstd frame (RFC 8878) can stand for, by their headers; `None` if the frame
/// ends within one of them.
fn capacity(frame: &[u8]) -> Option<usize> {
    let (header, _) = frame.strip_prefix(&ZSTD_MAGIC)?.split_first()?;
    let is_single = header >> 5 & 1 == 1;
    let window = usize::from(!is_single);
    let dictionary = match header & 3 {
        3 => 4,
        bytes => usize::from(bytes),
    };
    let content = match header >> 6 {
        0 => usize::from(is_single),
        log => 1 << log,
    };
    let mut at = ZSTD_MAGIC.len() + 1 + window + dictionary + content;
    let mut total = 0_usize;
    loop {
        let (block, _) = frame.get(at..)?.split_first_chunk::<3>()?;
        let [low, middle, high] = block.map(usize::from);
        let word = low | middle << 8 | high << 16;
        let size = word >> 3;
        // Plain, one byte many times, compressed.
        let (stored, stands_for) = match word >> 1 & 3 {
            0 => (size, size),
            1 => (1, size),
            2 => (size, ZSTD_BLOCK),
            _ => return None,
        };
        at = at.checked_add(3 + stored)?;
        total = total.checked_add(stands_for)?;
        if word & 1 == 1 {
            return (at <= frame.len()).then_some(total);
        }
    }
}

/// Decompresses without trusting a size: memory grows with the actual output, up to `limit`.
fn grow(frame: &[u8], limit: usize, out: &mut Vec<u8>) -> Result<()> {
    let damaged = |e: std::io::Error| Error::corrupt("zstd frame is damaged").with_source(e);
    let start = out.len();
    let mut decoder = zstd::stream::read::Decoder::with_buffer(frame).map_err(damaged)?;
    let mut part = vec![0; 1 << 17];
    loop {
        let len = decoder.read(&mut part).map_err(damaged)?;
        if len == 0 {
            return Ok(());
        }
        let found = out.len() - start;
        if found + len > limit || out.try_reserve(len).is_err() {
            return Err(Error::corrupt(format!("zstd frame holds more than {found} bytes")));
        }
        out.extend_from_slice(part.get(..len).unwrap_or_default());
    }
}

fn check_most(size: usize, most: usize) -> Result<()> {
    if size <= most {
        return Ok(());
    }
    Err(Error::corrupt(format!("{size} bytes after decompression, at most {most} are needed")))
}

fn check_size(found: usize, expected: usize) -> Result<()> {
    if found == expected {
        return Ok(());
    }
    Err(Error::corrupt(format!("{found} bytes after decompression, {expected} expected")))
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use pennon_core::file::{CompressiveEncoding, General};

    use super::*;
    use crate::encodings::codec::{Codec, Scratch};
    use crate::values::{Data, Physical};

    #[test]
    fn both_schemes_decompress() {
        let data = b"abcabcabcabcabcabcabcabcabcabc".repeat(100);
        let mut lz4 = u32::try_from(data.len()).unwrap().to_le_bytes().to_vec();
        lz4.extend(lz4_flex::block::compress(&data));
        assert_eq!(decompress(CompressionScheme::Lz4, &lz4, usize::MAX).unwrap(), data);
        let frame = zstd::bulk::compress(&data, 0).unwrap();
        let mut framed = (data.len() as u64).to_le_bytes().to_vec();
        framed.extend(&frame);
        assert_eq!(decompress(CompressionScheme::Zstd, &framed, usize::MAX).unwrap(), data);
        assert_eq!(decompress(CompressionScheme::Zstd, &frame, usize::MAX).unwrap(), data);
    }

    #[test]
    fn large_and_small_ratios_and_what_was_there_before() {
        let noise: Vec<u8> = (0..300_000u32).map(|i| i.wrapping_mul(0x9e37_79b9).to_be_bytes()[0]).collect();
        for data in [vec![7; 5_000_000], noise.repeat(3), b"ab".repeat(70_000), vec![1], Vec::new()] {
            for level in [1, 3, 19] {
                let frame = zstd::bulk::compress(&data, level).unwrap();
                assert!(capacity(&frame).unwrap() >= data.len());
                let mut framed = (data.len() as u64).to_le_bytes().to_vec();
                framed.extend(&frame);
                for bytes in [&framed, &frame] {
                    let mut out = vec![1, 2];
                    decompress_onto(CompressionScheme::Zstd, bytes, usize::MAX, &mut out).unwrap();
                    assert!(out[..2] == [1, 2] && out[2..] == data);
                }
                for end in (8..framed.len()).step_by(framed.len() / 50 + 1) {
                    assert!(decompress(CompressionScheme::Zstd, &framed[..end], usize::MAX).is_err());
                }
            }
        }
        // Two frames one after another, as the form without size allows.
        let two = zstd::bulk::compress(b"ab", 0).unwrap().repeat(2);
        assert_eq!(decompress(CompressionScheme::Zstd, &two, usize::MAX).unwrap(), b"abab");
    }

    #[test]
    fn lies_about_sizes_are_errors() {
        let frame = zstd::bulk::compress(&[7; 100_000], 0).unwrap();
        for size in [0u64, 99_999, 100_001, u64::MAX] {
            let mut framed = size.to_le_bytes().to_vec();
            framed.extend(&frame);
            let error = decompress(CompressionScheme::Zstd, &framed, usize::MAX).unwrap_err();
            assert_eq!(error.kind(), pennon_core::ErrorKind::Corrupt, "{size}");
        }
        let block = lz4_flex::block::compress(&[7; 1000]);
        for size in [1u32, 999, 1001, u32::MAX] {
            let mut framed = size.to_le_bytes().to_vec();
            framed.extend(&block);
            assert!(decompress(CompressionScheme::Lz4, &framed, usize::MAX).is_err(), "{size}");
        }
        assert!(decompress(CompressionScheme::Lz4, &[1, 2], usize::MAX).is_err());
        assert!(decompress(CompressionScheme::Zstd, &[1, 2], usize::MAX).is_err());
    }
    /// A few kilobytes that stand for a gigabyte: what the rows cannot need is not written to memory.
    #[test]
    fn no_more_comes_out_than_the_rows_need() {
        let mut bomb = zstd::stream::write::Encoder::new(Vec::new(), 1).unwrap();
        (0..1024).for_each(|_| bomb.write_all(&[7; 1 << 20]).unwrap());
        let frame = bomb.finish().unwrap();
        assert!(frame.len() < 100_000, "{}", frame.len());
        let mut framed = (1_u64 << 30).to_le_bytes().to_vec();
        framed.extend(&frame);
        let mut lz4 = 1_000_000_u32.to_le_bytes().to_vec();
        lz4.extend(lz4_flex::block::compress(&[7; 1_000_000]));
        for (scheme, bytes) in [
            (CompressionScheme::Zstd, &frame),
            (CompressionScheme::Zstd, &framed),
            (CompressionScheme::Lz4, &lz4),
        ] {
            let mut out = Vec::new();
            decompress_onto(scheme, bytes, 100_000, &mut out).unwrap_err();
            assert!(out.capacity() < 1 << 20, "{}", out.capacity());
            let flat = Box::new(CompressiveEncoding::Flat { bits_per_value: 64 });
            let encoding = CompressiveEncoding::General(General { scheme, level: None, values: flat });
            let codec = Codec::compile(&encoding, Physical::Fixed(8), &[]).unwrap();
            let mut data = Data::with_capacity(Physical::Fixed(8), 1000).unwrap();
            let read = codec.append_items(&[bytes], 1000, &[0..1000], &mut data, &mut Scratch::default());
            assert!(read.unwrap_err().to_string().contains("bytes"));
            codec.append_block(bytes, 1000, &mut data).unwrap_err();
        }
    }
}
