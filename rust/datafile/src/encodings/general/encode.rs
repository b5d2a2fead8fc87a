//! Compression of whole buffers.

use std::io::Cursor;

use pennon_core::file::CompressionScheme;
use pennon_core::{Error, Result};

/// A compressor with its level; zstd alone has levels.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Compressor {
    /// The scheme.
    pub scheme: CompressionScheme,
    /// The requested level, else that of the library.
    pub level: Option<i32>,
}

/// Memory of zstd, to be used again with one [`Compressor`].
#[derive(Default)]
pub(crate) struct Context(Option<zstd::bulk::Compressor<'static>>);

impl Compressor {
    /// Appends the size of the bytes and the compressed bytes.
    pub(crate) fn append(self, bytes: &[u8], out: &mut Vec<u8>) -> Result<()> {
        self.append_in(&mut Context::default(), bytes, out)
    }

    /// As [`Self::append`], for many values.
    pub(crate) fn append_in(self, context: &mut Context, bytes: &[u8], out: &mut Vec<u8>) -> Result<()> {
        let start = out.len();
        match self.scheme {
            CompressionScheme::Lz4 => {
                let size = u32::try_from(bytes.len())
                    .map_err(|_| Error::unsupported(format!("LZ4 of {} bytes in one piece", bytes.len())))?;
                out.extend_from_slice(&size.to_le_bytes());
                out.resize(start + 4 + lz4_flex::block::get_maximum_output_size(bytes.len()), 0);
                let target = out.get_mut(start + 4..).unwrap_or_default();
                let size = lz4_flex::block::compress_into(bytes, target)
                    .map_err(|e| Error::internal("LZ4 failed").with_source(e))?;
                out.truncate(start + 4 + size);
            }
            CompressionScheme::Zstd => {
                out.extend_from_slice(&(bytes.len() as u64).to_le_bytes());
                // Memory that was not set to zero before: most of it may stay untouched.
                out.reserve(zstd::zstd_safe::compress_bound(bytes.len()));
                let mut target = Cursor::new(&mut *out);
                target.set_position(start as u64 + 8);
                let failed = |e| Error::internal("zstd failed").with_source(e);
                let compressor = match &mut context.0 {
                    Some(compressor) => compressor,
                    none => none
                        .insert(zstd::bulk::Compressor::new(self.level.unwrap_or_default()).map_err(failed)?),
                };
                compressor.compress_to_buffer(bytes, &mut target).map_err(failed)?;
            }
        }
        Ok(())
    }

    /// The most bytes that [`Self::append`] appends for so many.
    pub(crate) fn bound(self, len: usize) -> usize {
        match self.scheme {
            CompressionScheme::Lz4 => 4 + lz4_flex::block::get_maximum_output_size(len),
            CompressionScheme::Zstd => 8 + zstd::zstd_safe::compress_bound(len),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::encodings::general::decode::decompress;

    #[test]
    fn what_is_compressed_reads_back() {
        let texts = [Vec::new(), b"a".to_vec(), b"abc".repeat(5000), (0..=255).collect()];
        for (scheme, level) in [
            (CompressionScheme::Lz4, None),
            (CompressionScheme::Zstd, None),
            (CompressionScheme::Zstd, Some(9)),
        ] {
            let compressor = Compressor { scheme, level };
            let mut context = Context::default();
            for text in &texts {
                let mut out = vec![1, 2];
                compressor.append(text, &mut out).unwrap();
                assert!(out.len() - 2 <= compressor.bound(text.len()));
                assert_eq!(&decompress(scheme, &out[2..], usize::MAX).unwrap(), text);
                let mut repeated = vec![1, 2];
                compressor.append_in(&mut context, text, &mut repeated).unwrap();
                assert_eq!(repeated, out);
            }
        }
    }
}
