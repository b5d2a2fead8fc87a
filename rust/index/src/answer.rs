//! What an index answers: the rows for which a test holds, among those that the index covers.

use crate::RowSet;

/// How an answer relates to the rows for which a test holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Precision {
    /// These and others: the test must be made of each.
    Candidates,
    /// Exactly these.
    Exact,
}

/// The rows that a test holds for, as far as an index covers them.
#[derive(Debug, Clone, PartialEq)]
pub struct Answer {
    /// Row ids or row addresses, whatever the index has.
    pub rows: RowSet,
    /// Whether the answer is all covered rows except these.
    pub is_complement: bool,
    /// Whether more rows than those may be among them.
    pub precision: Precision,
}

impl Answer {
    /// Exactly these rows.
    pub fn exact(rows: RowSet) -> Self {
        Self { rows, is_complement: false, precision: Precision::Exact }
    }

    /// Exactly all covered rows except these.
    pub fn exact_except(rows: RowSet) -> Self {
        Self { rows, is_complement: true, precision: Precision::Exact }
    }

    /// All covered rows, or fewer.
    pub fn any() -> Self {
        Self { rows: RowSet::new(), is_complement: true, precision: Precision::Candidates }
    }

    /// These rows or fewer.
    pub fn candidates(rows: RowSet) -> Self {
        Self { rows, is_complement: false, precision: Precision::Candidates }
    }
}
