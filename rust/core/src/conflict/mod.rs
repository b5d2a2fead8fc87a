//! Whether a transaction may follow another one that got in first (table format, section 8).
//!
//! Values in, decision out: the commit loop loads the transactions and does what is decided here.

pub mod rebase;
mod rules;
#[cfg(test)]
mod tests;

pub use rules::{check, check_with_columns, written_fragments};

/// What a transaction that got in first means for mine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// Mine can follow as it is.
    Compatible,
    /// Mine can follow if its rows are disjoint from theirs: deletion vectors decide, see [`rebase`].
    Rebase,
    /// Mine must be retried if a row of their [`written_fragments`] has a key that mine inserts. Otherwise it can follow.
    UnlessSharedKey {
        /// Why it must be retried.
        message: String,
        /// Whether its rows have to be disjoint from theirs as well, as with [`Outcome::Rebase`].
        needs_rebase: bool,
    },
    /// Mine must be retried on the newer version; why.
    Retryable(String),
    /// Mine is incompatible: it cannot be retried; why.
    Incompatible(String),
}
