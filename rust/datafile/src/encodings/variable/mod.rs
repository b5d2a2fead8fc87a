//! Strings and binary: offsets, then bytes.
//!
//! | context | bytes |
//! |---|---|
//! | mini-block (file format 4.5) | `n + 1` offsets of 32 or 64 bits relative to the start of this buffer, then the bytes |
//! | block (file format 2.5) | bits per offset, position of the bytes, `n + 1` offsets from 0, bytes; all numbers as wide as an offset |

pub(crate) mod decode;
pub(crate) mod encode;
