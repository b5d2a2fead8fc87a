//! Structs in one column, row by row (file format 4.3, 4.5 and 4.9).
//!
//! | form | bytes of a row |
//! |---|---|
//! | all members of fixed width | the members in order, without padding |
//! | some of variable width (2.2, full-zip only) | each member in order, those of variable width after their length |
//!
//! Members have no nulls of their own; a null struct has a definition level.

pub(crate) mod decode;
pub(crate) mod encode;
