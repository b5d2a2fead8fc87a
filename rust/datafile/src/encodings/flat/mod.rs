//! Values of a fixed number of bits one after another: whole bytes, or one bit as in an Arrow bitmap (file format 4.5).

pub(crate) mod decode;
pub(crate) mod encode;
