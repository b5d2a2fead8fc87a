//! General compressors, of pages and of single buffers.

/// General compressors (file format 2.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CompressionScheme {
    /// u32 size, then a raw LZ4 block.
    Lz4,
    /// u64 size, then a zstd frame.
    Zstd,
}
