//! Fixed-size lists of primitives (file format 4.5 and 4.6).
//!
//! | context | bytes |
//! |---|---|
//! | mini-block | one buffer per level with a bitmap of its items, outer first, then the buffers of the items |
//! | full-zip | the same per value, each bitmap rounded up to whole bytes |
//!
//! A list that is null has a definition level; its items are arbitrary.

pub(crate) mod decode;
