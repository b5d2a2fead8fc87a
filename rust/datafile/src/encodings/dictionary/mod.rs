//! Values as indices into the distinct values of the page (file format 4.5).
//!
//! The values of the page are then 0-based indices and the items are a block of their own. The index of a null row
//! is arbitrary.

pub(crate) mod decode;
pub(crate) mod distinct;
pub(crate) mod encode;
pub(crate) mod unify;
