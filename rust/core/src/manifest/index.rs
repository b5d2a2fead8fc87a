//! An index entry, carried along and kept true (table format 2.7).

use bytes::Bytes;
use roaring::RoaringBitmap;
use uuid::Uuid;

use crate::{FieldId, Version};

/// One index (or index segment) of a table version.
#[derive(Debug, Clone, PartialEq)]
pub struct IndexMetadata {
    /// Names its directory.
    pub uuid: Uuid,
    /// Indexed fields; empty for system indices.
    pub fields: Vec<FieldId>,
    /// Name; several entries with one name are segments of one index.
    pub name: String,
    /// Version that was read when it was first built.
    pub dataset_version: Version,
    /// Fragments it covers; `None` if not recorded.
    pub fragments: Option<RoaringBitmap>,
    /// The whole entry as it was found. Entries whose values did not change are written with it again, so that
    /// details this release does not understand survive.
    pub encoded: Bytes,
}

/// Name of the entry with the rows that compactions moved.
pub(super) const FRAGMENT_REUSE: &str = "__lance_frag_reuse";
/// Names of entries that are not indices of a column.
const SYSTEM_NAMES: [&str; 2] = [FRAGMENT_REUSE, "__lance_mem_wal"];

impl IndexMetadata {
    /// Whether this is an entry that the format itself uses.
    pub fn is_system(&self) -> bool {
        Self::is_system_name(&self.name)
    }

    /// Whether the format itself uses entries of that name.
    pub fn is_system_name(name: &str) -> bool {
        SYSTEM_NAMES.contains(&name)
    }

    /// The version whose values it has: that which it says, unless whoever commits it read an older one. It may be built
    /// long before it is committed.
    pub fn values_of(&self, read: Version) -> Version {
        if self.dataset_version == Version(0) { read } else { self.dataset_version.min(read) }
    }
}
