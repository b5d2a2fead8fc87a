//! Pages of file version 2.0: each holds one array, stored as a tree of encodings (file format 3).
//!
//! Nesting is not folded into levels here: a struct has a header column without data, a list has a column of
//! offsets, and their children have columns of their own. The pages of a list and of its items are independent of
//! each other, so which items a read needs is known only after its offsets were read.

pub(crate) mod decode;
pub(crate) mod encode;
#[cfg(test)]
mod tests;
