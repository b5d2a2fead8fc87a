//! Versions of the data file format (file format 1.2).

use std::fmt;
use std::str::FromStr;

use crate::{Error, Result};

/// Version of a data file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FileVersion {
    /// 0.1, the older container.
    Legacy,
    /// 2.0
    V2_0,
    /// 2.1
    V2_1,
    /// 2.2, what `stable` means.
    V2_2,
    /// 2.3, not stable yet.
    V2_3,
}

impl FileVersion {
    /// What new tables get.
    pub const STABLE: Self = Self::V2_2;

    /// Major and minor number as a manifest's data file entry states them.
    pub fn manifest_numbers(self) -> (u32, u32) {
        match self {
            Self::Legacy => (0, 2),
            Self::V2_0 => (2, 0),
            Self::V2_1 => (2, 1),
            Self::V2_2 => (2, 2),
            Self::V2_3 => (2, 3),
        }
    }

    /// The version with these numbers in a data file entry. Errors: `Unsupported`.
    pub fn from_manifest_numbers(major: u32, minor: u32) -> Result<Self> {
        Ok(match (major, minor) {
            (0, 0..=2) => Self::Legacy,
            (0, 3) | (2, 0) => Self::V2_0,
            (2, 1) => Self::V2_1,
            (2, 2) => Self::V2_2,
            (2, 3) => Self::V2_3,
            _ => return Err(Error::unsupported(format!("data file version {major}.{minor} is not known"))),
        })
    }

    /// Major and minor number as the file's footer states them; 2.0 says 0.3 there.
    pub fn footer_numbers(self) -> (u16, u16) {
        match self {
            Self::Legacy => (0, 2),
            Self::V2_0 => (0, 3),
            Self::V2_1 => (2, 1),
            Self::V2_2 => (2, 2),
            Self::V2_3 => (2, 3),
        }
    }

    /// The version with these numbers in a footer. Errors: `Unsupported`.
    pub fn from_footer_numbers(major: u16, minor: u16) -> Result<Self> {
        Self::from_manifest_numbers(major.into(), minor.into())
    }

    /// Whether only leaves have columns and nesting is folded into levels.
    pub fn is_structural(self) -> bool {
        self >= Self::V2_1
    }
}

impl fmt::Display for FileVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Legacy => "0.1",
            Self::V2_0 => "2.0",
            Self::V2_1 => "2.1",
            Self::V2_2 => "2.2",
            Self::V2_3 => "2.3",
        })
    }
}

impl FromStr for FileVersion {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        Ok(match text {
            "legacy" | "0.1" => Self::Legacy,
            "2.0" | "0.3" => Self::V2_0,
            "2.1" => Self::V2_1,
            "2.2" | "stable" => Self::V2_2,
            "2.3" | "next" => Self::V2_3,
            _ => {
                return Err(Error::invalid_input(format!(
                    "Unknown Lance storage version: {text:?} (known: legacy, 0.1, 2.0, 2.1, 2.2, stable, 2.3, next)"
                )));
            }
        })
    }
}
