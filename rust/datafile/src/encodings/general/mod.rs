//! General compressors around another encoding (file format 2.3).
//!
//! | scheme | bytes |
//! |---|---|
//! | LZ4 | u32 size before compression, one raw LZ4 block |
//! | zstd | u64 size before compression, one frame; a bare frame is read too |

pub(crate) mod decode;
pub(crate) mod encode;
