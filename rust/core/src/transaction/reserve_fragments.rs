//! ReserveFragments (107).

/// Takes fragment ids for later use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReserveFragments {
    /// How many.
    pub num_fragments: u32,
}
