//! A segment of listed ids that ascend.

use std::ops::Range;

use super::values::Values;
use crate::{Error, Result};

/// Ids, each larger than the one before.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct SortedArray(Values);

impl SortedArray {
    /// Errors: `Corrupt` if the ids do not ascend.
    pub(crate) fn new(values: Values) -> Result<Self> {
        if !values.ascend() {
            return Err(Error::corrupt("a sorted segment whose ids do not ascend"));
        }
        Ok(Self(values))
    }

    /// Values that are known to ascend.
    pub(super) fn trusted(values: Values) -> Self {
        Self(values)
    }

    pub(crate) fn values(&self) -> &Values {
        &self.0
    }

    pub(super) fn len(&self) -> u64 {
        self.0.len()
    }

    pub(super) fn get(&self, position: u64) -> Option<u64> {
        self.0.get(position)
    }

    pub(super) fn position(&self, id: u64) -> Option<u64> {
        let at = self.0.below(id);
        (self.0.get(at) == Some(id)).then_some(at)
    }

    pub(super) fn bounds(&self) -> Option<(u64, u64)> {
        Some((self.0.get(0)?, self.0.get(self.0.len().checked_sub(1)?)?))
    }

    pub(super) fn append_to(&self, positions: Range<u64>, out: &mut Vec<u64>) {
        self.0.append_to(positions, out);
    }
}
