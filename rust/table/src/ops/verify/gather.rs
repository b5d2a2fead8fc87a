//! What verification has to know of files: whether they are there, and what is in them.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use futures::FutureExt;
use pennon_core::manifest::naming::NamingScheme;
use pennon_core::manifest::{Fragment, IndexMetadata, paths};
use pennon_core::{Error, ErrorKind, FragmentId, Result, Version};

use super::judge::{DataFileFact, FileFact, FragmentFacts, has_lineage_columns};
use super::report::{Finding, FindingKind};
use crate::scan;
use crate::store::{ListedFile, Store};
use crate::versions::Located;
use crate::versions::snapshot::Snapshot;
use crate::versions::{load, manifest_path};

/// Files that versions refer to.
#[derive(Default)]
pub(super) struct Expected {
    files: HashMap<String, ExpectedFile>,
    problems: Vec<Finding>,
}

/// A file that a version refers to.
#[derive(Debug, Clone)]
pub(crate) struct StoredFile {
    pub(crate) store: Arc<Store>,
    /// Path below that store.
    pub(crate) path: String,
    pub(crate) version: Version,
    /// Of a data file of the version that is verified.
    pub(crate) fragment: Option<FragmentId>,
}

impl From<&ExpectedFile> for StoredFile {
    fn from(file: &ExpectedFile) -> Self {
        Self {
            store: Arc::clone(&file.store),
            path: file.path.clone(),
            version: file.owner.version,
            fragment: None,
        }
    }
}

struct ExpectedFile {
    store: Arc<Store>,
    /// Path below that store.
    path: String,
    /// The sizes that versions state, each with the newest one that does.
    sizes: BTreeMap<u64, Version>,
    /// The newest version that refers to it.
    owner: Located,
    /// Where that version's manifest is.
    table: Arc<Store>,
    /// Whether it is a directory in which something must be.
    directory: bool,
}

impl Expected {
    pub(super) fn add(&mut self, snapshot: &Snapshot, indices: &[IndexMetadata]) {
        for file in paths::references(&snapshot.manifest, indices) {
            let (store, path) = match snapshot.locate(file.folder, &file.name, file.base_id) {
                Ok(located) => located,
                Err(error) => {
                    let problem = Finding::new(FindingKind::DamagedManifest, error.to_string());
                    self.problems.push(problem.within(snapshot.version()));
                    continue;
                }
            };
            if file.folder != "_indices" {
                self.expect(snapshot, &store, path, file.size, false);
                continue;
            }
            let Some(index) = indices.iter().find(|index| index.uuid.to_string() == file.name) else {
                continue;
            };
            let files = index.files();
            // Entries of the format's own may have all they say in the manifest, and an index of nothing, such as one
            // that was never trained, has no files.
            let is_empty = index.fragments.as_ref().is_some_and(|covered| covered.is_empty());
            if files.is_empty() && !index.is_system() && !is_empty {
                self.expect(snapshot, &store, path.clone(), None, true);
            }
            for (name, size) in files {
                let path = format!("{path}/{name}");
                self.expect(snapshot, &store, path, (size > 0).then_some(size), false);
            }
        }
    }

    fn expect(
        &mut self,
        snapshot: &Snapshot,
        store: &Arc<Store>,
        path: String,
        size: Option<u64>,
        directory: bool,
    ) {
        let version = snapshot.version();
        let owner = Located { version, scheme: snapshot.source().scheme };
        let file = self.files.entry(store.full_path(&path)).or_insert_with(|| ExpectedFile {
            store: Arc::clone(store),
            path,
            sizes: BTreeMap::new(),
            owner,
            table: Arc::clone(&snapshot.store),
            directory,
        });
        if let Some(size) = size {
            let newest = file.sizes.entry(size).or_insert(version);
            *newest = version.max(*newest);
        }
        if version > file.owner.version {
            file.owner = owner;
            file.table = Arc::clone(&snapshot.store);
        }
    }

    /// Every file, with the newest version that refers to it.
    pub(super) fn stored_files(&self) -> Vec<StoredFile> {
        let mut files: Vec<StoredFile> =
            self.files.values().filter(|file| !file.directory).map(Into::into).collect();
        files.sort_unstable_by(|a, b| a.path.cmp(&b.path));
        files
    }

    /// Base paths that are not registered.
    pub(super) fn problems(&self) -> Vec<Finding> {
        self.problems.clone()
    }

    /// Looks for all of them, first in a listing of the table. Those of a version that went meanwhile are left out.
    pub(super) async fn look(&self, own: &Store, listing: &[ListedFile]) -> Result<Vec<FileFact>> {
        let listed: HashMap<&str, u64> = listing.iter().map(|file| (file.path.as_str(), file.size)).collect();
        let mut names: Vec<&String> = self.files.keys().collect();
        names.sort_unstable();
        let looks =
            names.into_iter().filter_map(|name| Some((name, self.files.get(name)?))).map(|(name, file)| {
                let listed =
                    (file.store.root() == own.root()).then(|| listed.get(file.path.as_str())).flatten();
                // One that was just being written when it was listed has its size by now.
                let listed = listed.filter(|found| file.sizes.iter().all(|(stated, _)| stated == *found));
                let look = async move {
                    let found = match listed {
                        Some(size) => Some(*size),
                        None => file.size_now().await?,
                    };
                    if found.is_none() && !file.is_wanted().await? {
                        return Ok(Vec::new());
                    }
                    let fact = |version, stated| FileFact { path: name.clone(), version, stated, found };
                    if found.is_none() || file.sizes.is_empty() {
                        return Ok(vec![fact(file.owner.version, None)]);
                    }
                    Ok(file.sizes.iter().map(|(size, version)| fact(*version, Some(*size))).collect())
                };
                look.boxed()
            });
        Ok(crate::runtime::gather(looks.collect()).await?.into_iter().flatten().collect())
    }
}

impl ExpectedFile {
    /// Its size; of a directory that of its content. `None` if it is not there.
    async fn size_now(&self) -> Result<Option<u64>> {
        if self.directory {
            let files = self.store.list_below(&self.path).await?;
            return Ok((!files.is_empty()).then(|| files.iter().map(|file| file.size).sum()));
        }
        Ok(self.store.info(&self.path).await?.map(|info| info.size))
    }

    /// Whether the version that refers to it is still there.
    async fn is_wanted(&self) -> Result<bool> {
        let scheme = if self.owner.version.is_detached() { NamingScheme::V2 } else { self.owner.scheme };
        self.table.exists(&manifest_path(self.owner.version, scheme)).await
    }
}

/// The transaction of a version, if it does not decode.
pub(super) async fn transaction(snapshot: &Snapshot) -> Result<Option<Finding>> {
    match load::transaction(snapshot).await {
        Ok(_) => Ok(None),
        Err(error) if error.kind() == ErrorKind::Corrupt => {
            Ok(Some(Finding::new(FindingKind::DamagedTransaction, error.to_string())))
        }
        Err(error) => Err(error),
    }
}

/// Opens the files of fragments, several at a time. Those in `broken` are left alone.
pub(super) async fn fragments(
    snapshot: &Arc<Snapshot>,
    fragments: &[Arc<Fragment>],
    broken: &HashSet<String>,
) -> Result<Vec<FragmentFacts>> {
    let reads = fragments.iter().map(|fragment| {
        let (snapshot, fragment) = (Arc::clone(snapshot), Arc::clone(fragment));
        let broken = fragment_files(&snapshot, &fragment)
            .map(|names| names.into_iter().map(|name| (broken.contains(&name), name)).collect::<Vec<_>>());
        crate::runtime::blocking(move || facts(&snapshot, &fragment, broken?)).boxed()
    });
    crate::runtime::gather(reads.collect()).await
}

/// Full names of the data files, then of the deletion file.
fn fragment_files(snapshot: &Snapshot, fragment: &Fragment) -> Result<Vec<String>> {
    let names = paths::of_fragment(fragment).map(|file| {
        let (store, path) = snapshot.locate(file.folder, &file.name, file.base_id)?;
        Ok(store.full_path(&path))
    });
    names.collect()
}

fn facts(
    snapshot: &Arc<Snapshot>,
    fragment: &Arc<Fragment>,
    names: Vec<(bool, String)>,
) -> Result<FragmentFacts> {
    let mut names = names.into_iter();
    let mut files = Vec::with_capacity(fragment.files.len());
    for (file, (broken, name)) in fragment.files.iter().zip(names.by_ref()) {
        let fact = if broken {
            DataFileFact::Absent
        } else {
            match damage(snapshot.file_reader_blocking(file))? {
                Err(error) => DataFileFact::Broken(error),
                Ok(reader) => {
                    let metadata = reader.metadata();
                    let columns = u64::try_from(metadata.columns.len()).unwrap_or(u64::MAX);
                    DataFileFact::Open { rows: metadata.num_rows, columns, version: metadata.version }
                }
            }
        };
        files.push((name, fact));
    }
    let (is_broken, deletion_file) = names.next().unzip();
    let deletions = match is_broken {
        Some(true) => None,
        _ => Some(damage(snapshot.deletion_vector_blocking(fragment))?.map(|vector| vector.as_ref().clone())),
    };
    let unread = files.iter().any(|(_, fact)| !matches!(fact, DataFileFact::Open { .. }));
    let lineage = match unread && has_lineage_columns(fragment) {
        true => None,
        false => Some(damage(scan::lineage(snapshot, fragment))?),
    };
    Ok(FragmentFacts { files, deletion_file, deletions, lineage })
}

/// Damage as a fact; other errors as what they are.
fn damage<T>(result: Result<T>) -> Result<Result<T, Error>> {
    match result {
        Err(error) if error.kind() != ErrorKind::Corrupt => Err(error),
        result => Ok(result),
    }
}
