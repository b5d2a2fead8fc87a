//! The identities of a table, each its own type, so that none can stand in for another.
//!
//! A [`RowId`] says nothing about where a row is; a [`RowAddress`] is `fragment << 32 | offset` and is only
//! meaningful together with a version. A fragment is never derived from a row id.

use std::fmt;

macro_rules! identity {
    ($(#[$doc:meta])* $name:ident($inner:ty)) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
        pub struct $name(pub $inner);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }

        impl From<$inner> for $name {
            fn from(value: $inner) -> Self {
                Self(value)
            }
        }
    };
}

identity! {
    /// Number of a table version, from 1 upwards; bit 63 marks a detached version.
    Version(u64)
}
identity! {
    /// Id of a fragment. The wire carries 64 bits, row addresses leave room for 32.
    FragmentId(u32)
}
identity! {
    /// Id of a schema field; negative values are reserved (-1 no parent, -2 tombstone, -3..-5 lineage columns).
    FieldId(i32)
}
identity! {
    /// Stable id of a row, kept across updates and compaction.
    RowId(u64)
}
identity! {
    /// Place of a row in one version: fragment in the upper, physical offset in the lower 32 bits.
    RowAddress(u64)
}

impl Version {
    /// The version after this one.
    #[must_use]
    pub fn next(self) -> Self {
        Self(self.0.saturating_add(1))
    }

    /// Whether this is a detached version, outside the table's history.
    pub fn is_detached(self) -> bool {
        self.0 >> 63 == 1
    }
}

impl FieldId {
    /// Parent of a top-level field.
    pub const NO_PARENT: Self = Self(-1);
    /// A column of a data file that no field of the schema refers to any more.
    pub const TOMBSTONE: Self = Self(-2);
    /// Spilled row ids (table format 4.7).
    pub const ROW_ID: Self = Self(-3);
    /// Spilled created-at versions (table format 4.7).
    pub const ROW_CREATED_AT: Self = Self(-4);
    /// Spilled last-updated-at versions (table format 4.7).
    pub const ROW_LAST_UPDATED_AT: Self = Self(-5);
}

impl FieldId {
    /// Whether it is a column of lineage.
    pub fn is_lineage(self) -> bool {
        matches!(self, Self::ROW_ID | Self::ROW_CREATED_AT | Self::ROW_LAST_UPDATED_AT)
    }
}

impl RowAddress {
    /// The address of a physical offset in a fragment.
    ///
    /// ```
    /// use pennon_core::{FragmentId, RowAddress};
    /// let address = RowAddress::new(FragmentId(3), 7);
    /// assert_eq!((address.fragment(), address.offset()), (FragmentId(3), 7));
    /// ```
    pub fn new(fragment: FragmentId, offset: u32) -> Self {
        Self(u64::from(fragment.0) << 32 | u64::from(offset))
    }

    /// The fragment.
    pub fn fragment(self) -> FragmentId {
        FragmentId((self.0 >> 32) as u32)
    }

    /// The physical offset in the fragment, deleted rows counted.
    #[expect(clippy::cast_possible_truncation, reason = "the lower half is what is wanted")]
    pub fn offset(self) -> u32 {
        self.0 as u32
    }
}
