//! Byte planes: first bytes of all values, then all second bytes, and so on (file format 4.5).

pub(crate) mod decode;
pub(crate) mod encode;
