//! What a verification says: findings, each of a kind, and what lies about without a version that needs it.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;

use pennon_core::manifest::paths::TableFile;
use pennon_core::{FragmentId, Version};
use serde::{Deserialize, Serialize};

use crate::inventory::{Disposition, Reason};

/// What is wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FindingKind {
    /// A manifest was not written to its end.
    TornManifest,
    /// A manifest, or a section of its file, does not decode.
    DamagedManifest,
    /// Manifests of one folder are named in two ways.
    MixedNaming,
    /// A version refers to a file that is not there.
    MissingFile,
    /// A file has another size than the manifest says.
    WrongSize,
    /// A file is not a data file, or its lineage columns or one of its pages do not decode.
    DamagedFile,
    /// A data file has another number of rows or another file version than the manifest says.
    WrongDataFile,
    /// A column of a data file has another type than the manifest says.
    WrongType,
    /// The columns of a fragment do not fit together: fields in two files, columns that a file does not have.
    WrongColumns,
    /// A deletion file does not decode, or disagrees with the manifest.
    WrongDeletions,
    /// Fragment ids are not ascending, or above the largest one recorded.
    FragmentIds,
    /// The schema breaks a rule.
    Schema,
    /// Feature flags and content do not agree.
    Flags,
    /// Row ids or row versions are missing, do not decode or are not as many as there are rows.
    Lineage,
    /// Two rows have the same id.
    DuplicateRowId,
    /// A row has an id that was not given out yet.
    RowIdCounter,
    /// Index entries that share a uuid, or name fields that are not there.
    Index,
    /// The transaction of a version does not decode.
    DamagedTransaction,
    /// A tag names a version that is not there.
    DanglingTag,
    /// The file of a tag or a branch, or the record of a clone, does not decode or was changed.
    DamagedReference,
}

impl FindingKind {
    /// Its name in snake case.
    pub fn name(self) -> &'static str {
        match self {
            Self::TornManifest => "torn_manifest",
            Self::DamagedManifest => "damaged_manifest",
            Self::MixedNaming => "mixed_naming",
            Self::MissingFile => "missing_file",
            Self::WrongSize => "wrong_size",
            Self::DamagedFile => "damaged_file",
            Self::WrongDataFile => "wrong_data_file",
            Self::WrongType => "wrong_type",
            Self::WrongColumns => "wrong_columns",
            Self::WrongDeletions => "wrong_deletions",
            Self::FragmentIds => "fragment_ids",
            Self::Schema => "schema",
            Self::Flags => "flags",
            Self::Lineage => "lineage",
            Self::DuplicateRowId => "duplicate_row_id",
            Self::RowIdCounter => "row_id_counter",
            Self::Index => "index",
            Self::DamagedTransaction => "damaged_transaction",
            Self::DanglingTag => "dangling_tag",
            Self::DamagedReference => "damaged_reference",
        }
    }
}

/// One thing that is wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// What kind of thing.
    pub kind: FindingKind,
    /// The version it is wrong in: of several the newest.
    pub version: Option<Version>,
    /// The fragment.
    pub fragment: Option<FragmentId>,
    /// Full path of the file it is about.
    pub path: Option<String>,
    /// What was found and what was expected.
    pub message: String,
    /// The bytes of the file that were changed, if that is known.
    pub bytes: Option<Range<u64>>,
    /// The pages of columns that have some of these bytes.
    pub pages: Vec<DamagedPage>,
}

/// A page of a data file that has bytes which are not as they were written.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DamagedPage {
    /// The name of the column, with those of the structs around it.
    pub column: String,
    /// The number of the page in its column, from 0.
    pub page: usize,
    /// The rows of the file that it has; `None` if the file does not tell.
    pub rows: Option<Range<u64>>,
}

impl fmt::Display for DamagedPage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "page {} of column `{}`", self.page, self.column)?;
        match &self.rows {
            Some(rows) => write!(f, ", rows {} to {}", rows.start, rows.end),
            None => Ok(()),
        }
    }
}

impl Finding {
    pub(super) fn new(kind: FindingKind, message: impl Into<String>) -> Self {
        Self {
            kind,
            version: None,
            fragment: None,
            path: None,
            message: message.into(),
            bytes: None,
            pages: Vec::new(),
        }
    }

    pub(super) fn of(self, fragment: FragmentId) -> Self {
        Self { fragment: Some(fragment), ..self }
    }

    pub(super) fn at(self, path: impl Into<String>) -> Self {
        Self { path: Some(path.into()), ..self }
    }

    pub(super) fn with_pages(self, bytes: &Range<u64>, pages: Vec<DamagedPage>) -> Self {
        Self { bytes: Some(bytes.clone()), pages, ..self }
    }

    pub(super) fn within(self, version: Version) -> Self {
        Self { version: Some(version), ..self }
    }
}

/// The file, the version, the fragment, then what is wrong.
impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(path) = &self.path {
            write!(f, "{path}: ")?;
        }
        if let Some(version) = self.version {
            write!(f, "version {version}: ")?;
        }
        if let Some(fragment) = self.fragment {
            write!(f, "fragment {fragment}: ")?;
        }
        f.write_str(&self.message)
    }
}

/// Whether versions of other tables, such as clones, may refer to a file.
fn is_of_versions(file: TableFile) -> bool {
    matches!(file, TableFile::Data { .. } | TableFile::Blob | TableFile::Deletion | TableFile::Index(_))
}

/// Files that no version needs, by what they are and why they are there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Leftover {
    /// `data`, `deletion`, `index`, `transaction`, `manifest`, `temporary` or `other`.
    pub kind: &'static str,
    /// `Unverified` (young: a write may be in flight), `Orphan`, `Staged` or `Foreign`.
    pub reason: Reason,
    /// Their number.
    pub files: u64,
    /// Their size together.
    pub bytes: u64,
}

/// Counts what no version needs. If others may need files, those that versions refer to are left out.
pub(super) fn leftovers(
    dispositions: impl Iterator<Item = Disposition>,
    others_may_need: bool,
) -> Vec<Leftover> {
    let mut counted: BTreeMap<(Reason, &'static str), (u64, u64)> = BTreeMap::new();
    for disposition in dispositions {
        if others_may_need
            && disposition.reason != Reason::Foreign
            && disposition.found.is_some_and(is_of_versions)
        {
            continue;
        }
        if matches!(
            disposition.reason,
            Reason::Unverified | Reason::Orphan | Reason::Staged | Reason::Foreign
        ) {
            let (files, bytes) = counted.entry((disposition.reason, disposition.kind())).or_default();
            *files += 1;
            *bytes = bytes.saturating_add(disposition.file.size);
        }
    }
    let leftover = |((reason, kind), (files, bytes))| Leftover { kind, reason, files, bytes };
    counted.into_iter().map(leftover).collect()
}

/// All of it.
#[derive(Debug, Clone)]
pub struct Report {
    /// Address of the table, in full.
    pub uri: String,
    /// The version that was checked down to its rows.
    pub version: Version,
    /// Versions whose manifests were read and whose files were looked for.
    pub versions: u64,
    /// Fragments of the version that was checked.
    pub fragments: u64,
    /// Files that were looked for.
    pub files: u64,
    /// What is wrong, worst places first: manifests, files, then fragment by fragment.
    pub findings: Vec<Finding>,
    /// What no version needs.
    pub leftovers: Vec<Leftover>,
    /// Files without checksums and without a seal, if all data was verified.
    pub without_checksums: u64,
    /// What is worth knowing besides.
    pub notes: Vec<String>,
}
