//! All files of all versions of a table.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use pennon_core::Result;
use pennon_core::manifest::paths::{self, TableFile};

use super::gather::{Expected, StoredFile};
use super::report::{Finding, FindingKind};
use super::{afresh, blocks, indices};
use crate::dataset::Dataset;
use crate::inventory::{self, Inventory, Policy, UnreachableClones};
use crate::store::Store;
use crate::versions::snapshot::Snapshot;

/// The files of all versions of a table, those of the opened version first. Some may lie below other base paths.
///
/// Errors: those of listing the table and reading its manifests.
pub(crate) async fn of_table(dataset: &Dataset) -> Result<Vec<StoredFile>> {
    let snapshot = &afresh(dataset.snapshot());
    let mut expected = Expected::default();
    let mut see = |version: &Snapshot, indices: &[_]| expected.add(version, indices);
    let policy = |_, _: &[_]| Ok(Policy::keep_all());
    let found = inventory::gather(snapshot, false, UnreachableClones::Warn, policy, &mut see).await?;
    expected.add(snapshot, &indices(snapshot).await?);
    all(snapshot, &expected, &found)
}

/// Whether a file lies in the table itself.
pub(crate) fn is_own(file: &StoredFile, store: &Store) -> bool {
    file.store.root() == store.root()
}

/// The finding of a file that is not there though its version is.
pub(crate) fn missing(file: &StoredFile) -> Finding {
    let finding = Finding::new(FindingKind::MissingFile, "the file is not there");
    let finding = finding.at(file.store.full_path(&file.path)).within(file.version);
    file.fragment.into_iter().fold(finding, Finding::of)
}

/// The files of all versions that were found.
pub(super) fn all(
    snapshot: &Arc<Snapshot>,
    expected: &Expected,
    found: &Inventory,
) -> Result<Vec<StoredFile>> {
    let mut files = blocks::data_files(snapshot, None)?;
    let name = |file: &StoredFile| file.store.full_path(&file.path);
    let of_version: HashSet<String> = files.iter().map(name).collect();
    files.extend(expected.stored_files().into_iter().filter(|file| !of_version.contains(&name(file))));
    let blobs = blobs(&files, found, &snapshot.store);
    files.extend(blobs);
    files.extend(found.versions.iter().map(|at| blocks::manifest(&snapshot.store, *at)));
    Ok(files)
}

/// The files of blobs next to data files in the table itself.
fn blobs(files: &[StoredFile], found: &Inventory, store: &Store) -> Vec<StoredFile> {
    let of_data: HashMap<&str, &StoredFile> =
        files.iter().filter(|file| is_own(file, store)).map(|file| (file.path.as_str(), file)).collect();
    let blobs = found.files.iter().filter(|file| paths::recognise(&file.path) == Some(TableFile::Blob));
    let of_file = |path: &str| {
        let (stem, _) = path.rsplit_once('/')?;
        let data = of_data.get(format!("{stem}.lance").as_str())?;
        Some(StoredFile { path: path.to_owned(), ..(*data).clone() })
    };
    blobs.filter_map(|file| of_file(&file.path)).collect()
}
