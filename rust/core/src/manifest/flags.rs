//! Feature flags: what a reader or writer of a table must understand (table format, section 6).
//!
//! | bit | meaning | reader word | writer word | read here | written here |
//! |---|---|---|---|---|---|
//! | 1 | deletion files | yes | yes | yes | yes |
//! | 2 | stable row ids | yes | yes | yes | yes |
//! | 4 | without meaning, older writers set it | | | yes | yes |
//! | 8 | table config | no | yes | yes | yes |
//! | 16 | base paths | yes | yes | yes | yes |
//! | 32 | no transaction file | no | yes | yes | yes |
//! | 256 | data files of several versions | yes | yes | yes | yes |
//! | 1024 | tagged fragment-reuse history, matters to indices only | yes | yes | yes | no |
//! | 2048 | lineage in data columns | yes | yes | yes | yes |
//! | 32768 | field ids are never used again | no | yes | yes | no |
//! | others | overlays (64), managed blobs (16384), not known | | | no | no |

use std::fmt;

use crate::{Error, Result};

/// One of the two flag words of a manifest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Flags(pub u64);

impl Flags {
    /// Some fragment has a deletion file.
    pub const DELETION_FILES: Self = Self(1);
    /// Rows have stable ids.
    pub const STABLE_ROW_IDS: Self = Self(2);
    /// Set by older writers, without meaning.
    pub const OLD_FORMAT: Self = Self(4);
    /// The table config is not empty.
    pub const CONFIG: Self = Self(8);
    /// Files may lie under other roots.
    pub const BASE_PATHS: Self = Self(16);
    /// The transaction is only inside the manifest file.
    pub const TRANSACTION_FILE_DISABLED: Self = Self(32);
    /// Overlay files replace cells.
    pub const DATA_OVERLAYS: Self = Self(64);
    /// Data files of more than one file version.
    pub const MIXED_FILE_VERSIONS: Self = Self(256);
    /// Tagged fragment-reuse history.
    pub const TAGGED_FRAGMENT_REUSE: Self = Self(1024);
    /// Row lineage in data columns.
    pub const LINEAGE_COLUMNS: Self = Self(2048);
    /// Blobs managed apart from the data files.
    pub const MANAGED_BLOBS: Self = Self(16384);
    /// Field ids come from a high-water mark.
    pub const NON_REUSABLE_FIELD_IDS: Self = Self(32768);

    /// Flags that a commit carries over instead of recomputing them.
    pub const STICKY: Self =
        Self(Self::MIXED_FILE_VERSIONS.0 | Self::TAGGED_FRAGMENT_REUSE.0 | Self::MANAGED_BLOBS.0);

    const WRITABLE: u64 = Self::DELETION_FILES.0
        | Self::STABLE_ROW_IDS.0
        | Self::OLD_FORMAT.0
        | Self::CONFIG.0
        | Self::BASE_PATHS.0
        | Self::TRANSACTION_FILE_DISABLED.0
        | Self::MIXED_FILE_VERSIONS.0
        | Self::LINEAGE_COLUMNS.0;
    const READABLE: u64 = Self::WRITABLE | Self::TAGGED_FRAGMENT_REUSE.0 | Self::NON_REUSABLE_FIELD_IDS.0;

    /// Whether all of `other` is set.
    pub fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// These flags and `other`.
    #[must_use]
    pub fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// These flags without `other`.
    #[must_use]
    pub fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// `other` set or cleared.
    #[must_use]
    pub fn set(self, other: Self, on: bool) -> Self {
        if on { self.with(other) } else { self.without(other) }
    }

    /// Checks a reader word. Errors: `Unsupported` naming the bits this release cannot read.
    pub fn check_readable(self) -> Result<()> {
        self.check(Self::READABLE, "reader", "read")
    }

    /// Checks a writer word. Errors: `Unsupported` naming the bits this release cannot write.
    pub fn check_writable(self) -> Result<()> {
        self.check(Self::WRITABLE, "writer", "written")
    }

    fn check(self, known: u64, word: &str, verb: &str) -> Result<()> {
        let unknown = self.0 & !known;
        if unknown == 0 {
            return Ok(());
        }
        Err(Error::unsupported(format!(
            "this table cannot be {verb} by this version of Pennon: its {word} feature flags have {}; a newer \
             release may know them",
            Self(unknown)
        )))
    }
}

/// The bits, lowest first: `64 (data overlay files), 512`.
impl fmt::Display for Flags {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut separator = "";
        for bit in (0..64).map(|n| 1_u64 << n).filter(|bit| self.0 & bit != 0) {
            write!(f, "{separator}{bit}")?;
            if let Some(name) = name(bit) {
                write!(f, " ({name})")?;
            }
            separator = ", ";
        }
        if self.0 == 0 { f.write_str("none") } else { Ok(()) }
    }
}

fn name(bit: u64) -> Option<&'static str> {
    Some(match bit {
        1 => "deletion files",
        2 => "stable row ids",
        8 => "table config",
        16 => "base paths",
        32 => "transaction file disabled",
        64 => "data overlay files",
        256 => "mixed file versions",
        1024 => "tagged fragment-reuse history",
        2048 => "row lineage columns",
        16384 => "managed blobs",
        32768 => "non-reusable field ids",
        65536 => "zone write seed",
        _ => return None,
    })
}
