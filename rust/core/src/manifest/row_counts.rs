//! Numbers of rows that a manifest does not say: old releases of the reference left them to the files (table format,
//! corrections to 2.3).
//!
//! Absent and 0 are the same on the wire, so a fragment with data files and 0 rows, or with a deletion file of 0 rows, is
//! one whose files have to be asked. Whoever loads a manifest asks them at once; nobody else sees such a fragment, and
//! the next commit writes the numbers down, as the reference does.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::Arc;

use super::{DeletionFile, Fragment, FragmentSummary, Manifest};
use crate::FragmentId;

/// Rows of a fragment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RowCounts {
    /// Rows in each data file.
    pub physical: u64,
    /// Rows in the deletion file.
    pub deleted: u64,
}

impl Manifest {
    /// Fragments that do not say how many rows they have, or how many of them are deleted.
    pub fn uncounted(&self) -> Vec<Arc<Fragment>> {
        self.fragments.decode_where(FragmentSummary::is_uncounted).collect()
    }

    /// Says how many rows fragments have.
    pub fn count(&mut self, counts: &BTreeMap<FragmentId, RowCounts>) {
        for (id, counts) in counts {
            let counted = |fragment: &Fragment| {
                let deletion = fragment.deletion.clone();
                let deletion = deletion.map(|file| DeletionFile { num_deleted_rows: counts.deleted, ..file });
                Ok(Fragment { physical_rows: counts.physical, deletion, ..fragment.edit() })
            };
            let Ok::<(), Infallible>(()) = self.fragments.replace(*id, counted);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Result;
    use crate::wire::tests::golden;

    /// A manifest whose first fragment was changed.
    fn manifest(change: impl FnOnce(&mut Fragment)) -> Manifest {
        let file = super::super::ManifestFile::decode(golden("stable-3-delete.manifest")).unwrap();
        let mut manifest = file.manifest;
        let id = manifest.fragments.get(0).unwrap().id;
        let edit = |fragment: &Fragment| -> Result<_> {
            let mut edited = fragment.edit();
            change(&mut edited);
            Ok(edited)
        };
        manifest.fragments.replace(id, edit).unwrap();
        Manifest::decode(manifest.encode().into()).unwrap()
    }

    #[test]
    fn what_a_manifest_does_not_say_is_asked_for() {
        let counted = manifest(|_| ());
        assert!(counted.uncounted().is_empty());
        let first = counted.fragments.get(0).unwrap().clone();
        let (physical, deleted) = (first.physical_rows, first.deleted_rows());
        assert!(deleted > 0);
        let without_rows = manifest(|fragment| fragment.physical_rows = 0);
        let without_deleted = manifest(|fragment| fragment.deletion.as_mut().unwrap().num_deleted_rows = 0);
        for mut manifest in [without_rows, without_deleted] {
            assert!(!manifest.uncounted().is_empty());
            assert_eq!(manifest.uncounted().iter().map(|f| f.id).collect::<Vec<_>>(), [first.id]);
            manifest.count(&BTreeMap::from([(first.id, RowCounts { physical, deleted })]));
            assert!(manifest.uncounted().is_empty());
            assert_eq!(manifest.encode(), counted.encode());
        }
    }
}
