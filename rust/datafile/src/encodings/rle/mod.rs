//! Run lengths: distinct values and, per value, a one-byte length from 1 to 255 (file format 2.4).
//!
//! | context | bytes |
//! |---|---|
//! | mini-block | two buffers: values, lengths |
//! | block (levels, from 2.2 on) | u64 size of the values, values, lengths |
//!
//! The lengths add up to the number of values.

pub(crate) mod decode;
pub(crate) mod encode;
