//! Tables of old releases, whose data files have version 0.1: what may be written to them, and the values of their
//! dictionaries, which the reference takes from the manifest file.
//!
//! The invariant: a version has data files of version 0.1, or others, never both. No reader expects both.

use std::collections::BTreeMap;

use bytes::Bytes;

use super::{FragmentSummary, Manifest};
use crate::file::FileVersion;
use crate::{Error, FieldId, Result};

/// Where the values of dictionaries are in the manifest file, and the bytes they are in.
///
/// They come before all sections of the file, so their positions are the same in every file that begins with the same
/// bytes.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ManifestDictionaries {
    /// Of each dictionary field: position and number of its values.
    pub positions: BTreeMap<FieldId, (i64, i64)>,
    /// The beginning of the manifest file; `None` if it was not read.
    pub pages: Option<Bytes>,
}

impl ManifestDictionaries {
    /// Whether there are values that were not read.
    pub fn are_missing(&self) -> bool {
        self.pages.is_none() && !self.positions.is_empty()
    }
}

impl Manifest {
    /// Whether some data file has version 0.1.
    pub fn has_legacy_files(&self) -> bool {
        self.fragments.summaries().any(|fragment| fragment.has_legacy_files)
    }

    /// The version of new data files. Errors: `Unsupported` if that would be 0.1.
    pub fn version_of_new_files(&self) -> Result<FileVersion> {
        match self.file_version {
            FileVersion::Legacy if self.has_legacy_files() => Err(unsupported("cannot be written")),
            // Nothing is left of the old release.
            FileVersion::Legacy => Ok(FileVersion::STABLE),
            version => Ok(version),
        }
    }

    /// The version of new files of indices, which data files of version 0.1 do not prescribe.
    pub fn version_of_index_files(&self) -> FileVersion {
        match self.file_version {
            FileVersion::Legacy => FileVersion::STABLE,
            version => version,
        }
    }

    /// Checks the invariant of this file, and lets go of what only files of version 0.1 need.
    ///
    /// Errors: `Unsupported` if there are data files of version 0.1 and others.
    pub(crate) fn unify_file_version(&mut self) -> Result<()> {
        if self.has_legacy_files() {
            return match self.fragments.summaries().any(FragmentSummary::has_other_than_legacy_files) {
                true => Err(unsupported("cannot be in a table together with files of another version")),
                false => Ok(()),
            };
        }
        self.carried.dictionaries = ManifestDictionaries::default();
        if self.file_version == FileVersion::Legacy {
            let mut fragments = self.fragments.decode_where(|fragment| fragment.data_files > 0);
            let first = fragments.next().and_then(|fragment| Some(fragment.files.first()?.version));
            self.file_version = first.unwrap_or(FileVersion::Legacy);
        }
        Ok(())
    }
}

fn unsupported(what: &str) -> Error {
    Error::unsupported(format!(
        "data files of version 0.1 (legacy) {what}: `optimize.compact_files(data_storage_version=\"2.2\")` \
         writes all rows of the table to files of that version"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ErrorKind;
    use crate::wire::tests::golden;

    /// A manifest of three fragments of which so many, the first ones, have files of version 0.1.
    fn manifest(legacy: usize) -> Manifest {
        let file = super::super::ManifestFile::decode(golden("stable-3-delete.manifest")).unwrap();
        let mut manifest = file.manifest;
        for id in manifest.fragments.ids().take(legacy).collect::<Vec<_>>() {
            let edit = |fragment: &super::super::Fragment| -> Result<_> {
                let mut edited = fragment.edit();
                edited.files.iter_mut().for_each(|file| file.version = FileVersion::Legacy);
                Ok(edited)
            };
            manifest.fragments.replace(id, edit).unwrap();
        }
        manifest.carried.dictionaries.positions.insert(FieldId(3), (2, 5));
        manifest
    }

    #[test]
    fn files_of_version_0_1_are_not_mixed_with_others() {
        let all = manifest(0).fragments.len();
        assert!(all > 1);
        let mut mixed = manifest(1);
        assert!(mixed.has_legacy_files());
        let error = mixed.unify_file_version().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported);
        assert!(
            error.to_string().contains("version 0.1") && error.to_string().contains("compact_files"),
            "{error}"
        );
        let mut old = Manifest { file_version: FileVersion::Legacy, ..manifest(all) };
        old.unify_file_version().unwrap();
        assert!(old.carried.dictionaries.are_missing());
        let error = old.version_of_new_files().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported);
        assert_eq!(old.version_of_index_files(), FileVersion::STABLE);
    }

    #[test]
    fn a_table_without_files_of_version_0_1_is_no_old_one() {
        let mut new = Manifest { file_version: FileVersion::Legacy, ..manifest(0) };
        assert_eq!(new.version_of_new_files().unwrap(), FileVersion::STABLE);
        new.unify_file_version().unwrap();
        assert_eq!(new.file_version, manifest(0).file_version);
        assert_eq!(new.carried.dictionaries, ManifestDictionaries::default());
        new.fragments.clear();
        new.file_version = FileVersion::Legacy;
        new.unify_file_version().unwrap();
        assert_eq!(new.file_version, FileVersion::Legacy);
    }

    #[test]
    fn dictionaries_are_where_they_were() {
        let mut old = Manifest { file_version: FileVersion::Legacy, ..manifest(9) };
        let error = super::super::write_manifest_file(&mut old, None, None).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Internal);
        // The field of the dictionary is not in the schema: nothing refers to its values.
        old.carried.dictionaries.pages = Some(Bytes::from_static(b"values"));
        let file = super::super::write_manifest_file(&mut old, Some(b"indices"), None).unwrap();
        assert!(file.starts_with(b"values\x07\0\0\0indices"));
        let read = super::super::ManifestFile::decode(file.into()).unwrap();
        assert_eq!(read.manifest.index_section, Some(6));
        assert_eq!(read.indices().unwrap().unwrap(), "indices");
        assert!(read.manifest.carried.dictionaries.positions.is_empty());
    }
}
