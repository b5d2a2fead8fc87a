//! The versions of a table: where their manifests are, and what is in them.
//!
//! | file | what |
//! |---|---|
//! | `count` | rows of fragments whose manifest does not record them |
//! | `locate` | the newest version, and all of them, by the names of their manifests |
//! | `load` | from a manifest file to a [`Snapshot`], and from a snapshot to its transaction |
//! | `missing` | the error of a version that was cleaned up |
//! | `resolve` | the newest version that can be read, and the version of a time |
//! | `snapshot` | one immutable version, with what was read of it so far |
//! | `row_ids` | the row id index of a version, and of those near it |
//! | `recent` | large manifests that this process has in memory |
//! | `newest` | versions that this process knows to be the newest |
//! | `external` | versions that an external manifest store says are committed |
//!
//! Invariant: only reads. What is finished here for a writer that stopped half-way (`external`) was committed by it.

mod count;
pub(crate) mod external;
pub(crate) mod load;
pub(crate) mod locate;
pub(crate) mod missing;
mod newest;
mod recent;
pub(crate) mod resolve;
pub(crate) mod row_ids;
pub(crate) mod snapshot;

use pennon_core::Version;
use pennon_core::manifest::naming::{self, NamingScheme};

pub use self::resolve::VersionRef;
pub use self::snapshot::Snapshot;

/// Folder of the manifests.
pub(crate) const VERSIONS: &str = "_versions";
/// Folder of the transaction files.
pub(crate) const TRANSACTIONS: &str = "_transactions";
pub(crate) const HINT: &str = "_versions/latest_version_hint.json";

/// The path of a manifest below the table's root.
pub(crate) fn manifest_path(version: Version, scheme: NamingScheme) -> String {
    format!("{VERSIONS}/{}", naming::manifest_name(version, scheme))
}

/// Name of the default branch in references. It has no file.
pub(crate) const MAIN: &str = "main";

/// A version and how its manifest is named.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Located {
    pub(crate) version: Version,
    pub(crate) scheme: NamingScheme,
}
