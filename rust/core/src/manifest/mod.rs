//! One immutable version of a table: schema, fragments and counters (table format, section 2).

mod address_moves;
mod base_path;
mod data_file;
mod deletion_file;
mod envelope;
mod flags;
mod fragment;
mod fragment_reuse;
pub(crate) mod fragment_summary;
mod fragments;
mod index;
mod legacy;
pub mod naming;
pub mod paths;
mod row_counts;
#[cfg(test)]
mod tests;

use std::sync::Arc;

pub use address_moves::AddressMoves;
pub use base_path::BasePath;
use bytes::Bytes;
pub use data_file::DataFile;
pub use deletion_file::{DeletionFile, DeletionFileType};
pub use envelope::{ManifestFile, Tail, write_manifest_file};
pub use flags::Flags;
pub use fragment::{Fragment, LineageSource};
pub use fragment_reuse::{FragmentReuse, ReuseGroup};
pub use fragment_summary::FragmentSummary;
pub use fragments::{Difference, Fragments};
pub use index::IndexMetadata;
pub use legacy::ManifestDictionaries;
pub use row_counts::RowCounts;

use crate::Version;
use crate::file::FileVersion;
use crate::schema::{Metadata, Schema};

/// A point in time, UTC, as the wire has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Timestamp {
    /// Seconds since 1970-01-01T00:00:00Z.
    pub seconds: i64,
    /// Nanoseconds within the second, 0 to 999,999,999.
    pub nanos: u32,
}

/// The error of a table that cannot have another fragment.
pub fn fragment_ids_used_up() -> crate::Error {
    crate::Error::unsupported("all 2^32 fragment ids of the table are used up")
}

impl Timestamp {
    /// Milliseconds since 1970-01-01T00:00:00Z.
    pub fn millis(self) -> i64 {
        self.seconds.saturating_mul(1000).saturating_add(i64::from(self.nanos / 1_000_000))
    }
}

/// Who wrote a manifest.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct WriterVersion {
    /// Library, `lance` for the reference.
    pub library: String,
    /// Version of the library.
    pub version: String,
    /// Pre-release part.
    pub prerelease: Option<String>,
    /// Build part.
    pub build_metadata: Option<String>,
}

/// One version of a table.
#[derive(Debug, Clone, PartialEq)]
pub struct Manifest {
    /// Its number.
    pub version: Version,
    /// Its schema.
    pub schema: Arc<Schema>,
    /// Its fragments, ascending by id. Shared with other versions when unchanged, and decoded when they are read.
    pub fragments: Fragments,
    /// When it was committed.
    pub timestamp: Timestamp,
    /// What a reader must understand.
    pub reader_flags: Flags,
    /// What a writer must understand.
    pub writer_flags: Flags,
    /// Largest fragment id ever used; `None` if no fragment ever existed.
    pub max_fragment_id: Option<u32>,
    /// Name of the transaction file, relative to `_transactions`; empty when there is none.
    pub transaction_file: String,
    /// Who wrote it.
    pub writer: Option<WriterVersion>,
    /// The row id the next new row gets: the number of ids ever handed out.
    pub next_row_id: u64,
    /// Version of newly written data files.
    pub file_version: FileVersion,
    /// Table config.
    pub config: Metadata,
    /// Table metadata.
    pub table_metadata: Metadata,
    /// Further roots that files may lie under.
    pub base_paths: Vec<BasePath>,
    /// Branch, `None` on main.
    pub branch: Option<String>,
    /// Offset of the index section in the manifest file.
    pub index_section: Option<u64>,
    /// Offset of the inline transaction in the manifest file (field 23, or 21 in older files).
    pub transaction_section: Option<u64>,
    /// Fields 4, 8 and 24 to 26, kept as found.
    pub carried: CarriedFields,
}

/// Manifest fields that this release only carries along (table format 2.2).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CarriedFields {
    /// Number 4.
    pub version_aux_data: u64,
    /// Number 8.
    pub tag: String,
    /// Number 24.
    pub max_allocated_field_id: Option<i32>,
    /// Number 25, an encoded message.
    pub clustering: Option<Bytes>,
    /// Number 26.
    pub max_clustering_id: Option<u64>,
    /// The values of dictionaries, of tables with files of version 0.1.
    pub dictionaries: ManifestDictionaries,
}

impl Manifest {
    /// Whether rows of the table have stable ids.
    pub fn has_stable_row_ids(&self) -> bool {
        self.reader_flags.contains(Flags::STABLE_ROW_IDS)
    }

    /// The fragment with that id.
    pub fn fragment(&self, id: crate::FragmentId) -> Option<&Arc<Fragment>> {
        self.fragments.by_id(id)
    }

    /// [`Self::fragment`]. Errors: `InvalidInput` naming the version if it has none with that id.
    pub fn require_fragment(&self, id: crate::FragmentId) -> crate::Result<&Arc<Fragment>> {
        self.fragment(id).ok_or_else(|| self.no_fragment(id))
    }

    /// What [`Self::require_fragment`] says, for who needs no more than a summary.
    pub fn no_fragment(&self, id: crate::FragmentId) -> crate::Error {
        crate::Error::invalid_input(format!("Fragment {id} is not in version {}", self.version))
    }

    /// The id of the next new field: above all in the schema and in the data files (table format 3.1).
    pub fn next_field_id(&self) -> crate::FieldId {
        let in_files = self.fragments.summaries().map(|fragment| fragment.max_field_id);
        let mut max = in_files.fold(self.schema.max_field_id(), Ord::max);
        if self.writer_flags.contains(Flags::NON_REUSABLE_FIELD_IDS) {
            max = max.max(crate::FieldId(self.carried.max_allocated_field_id.unwrap_or_default()));
        }
        crate::FieldId(max.0.saturating_add(1))
    }

    /// Rows in all data files, deleted ones counted.
    pub fn physical_rows(&self) -> u64 {
        self.fragments.summaries().map(|f| f.physical_rows).sum()
    }

    /// Bytes it takes beyond those of its file, about: what is decoded of its fragments later is not counted.
    pub fn memory_bytes(&self) -> usize {
        size_of::<Self>() + self.fragments.memory_bytes()
    }

    /// Rows that are not deleted.
    pub fn live_rows(&self) -> u64 {
        self.fragments.live_rows().map(|(_, rows)| rows).sum()
    }
}
