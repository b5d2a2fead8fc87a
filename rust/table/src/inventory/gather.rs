//! Files, versions, tags, branches and known clones: everything that decides what a file is needed for.
//!
//! Files are listed before versions are: a file of a version that is committed meanwhile is then either not listed or
//! mentioned by a version that is read. A manifest that cannot be decoded is not the same as one that was removed: what
//! it refers to is not known, so nothing may be removed then.
//!
//! | a known clone | taken for |
//! |---|---|
//! | has versions | a table whose files are kept |
//! | its directory is listed, or is absent, and there is no manifest in it | gone: nothing is kept for it, with a warning |
//! | anything else, such as no bucket, no credentials, no network | not reachable: see [`UnreachableClones`] |
//!
//! A directory that is absent cannot be told from one on a disk that is not mounted at the moment; a bucket that is absent
//! can, since listing it is an error, but not from one that was removed for good.

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::Arc;

use futures::FutureExt;
use pennon_core::manifest::naming::{self, NamingScheme};
use pennon_core::manifest::paths::SEALS;
use pennon_core::manifest::{IndexMetadata, Timestamp};
use pennon_core::{Error, ErrorKind, Result, Version};

use super::plan::{CleanupPlan, Policy};
use crate::refs::{self, Branches, KnownClone, Tags};
use crate::runtime::{self, Fault, is_planted};
use crate::session::{CacheSizes, Session};
use crate::store::{Durability, ListedFile, Store};
use crate::versions::snapshot::Snapshot;
use crate::versions::{Located, locate};
use crate::versions::{TRANSACTIONS, VERSIONS, load, manifest_path};

/// The folders of a table whose files are known.
pub(crate) const FOLDERS: [&str; 6] = [VERSIONS, TRANSACTIONS, "_deletions", "_indices", "data", SEALS];

/// The folder of main that has the branches.
const TREE: &str = "tree";

/// Everything found.
pub(crate) struct Inventory {
    pub(crate) plan: CleanupPlan,
    pub(crate) files: Vec<ListedFile>,
    /// The newest version that was listed.
    pub(crate) newest: Version,
    /// The versions of this branch, ascending; detached ones are not among them.
    pub(crate) versions: Vec<Located>,
    /// The detached versions.
    pub(crate) detached: Vec<Located>,
    /// Tags of versions of this branch.
    pub(crate) tags: Vec<(String, Version)>,
    /// Branches that were made from versions of this one, with those versions.
    pub(crate) branches: Vec<(String, Version)>,
    /// Manifests that are there and do not decode.
    pub(crate) damaged: Vec<Damaged>,
    /// What is wrong with tags, branches or records of clones.
    pub(crate) damaged_references: Vec<Error>,
    pub(crate) warnings: Vec<String>,
    /// Whether there are clones that could not be read: any file may be one that only they refer to.
    pub(crate) has_unreachable_clones: bool,
}

/// What a known clone that cannot be reached means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum UnreachableClones {
    /// An error: what the clone refers to may not be removed.
    Refuse,
    /// A warning, for those who remove nothing.
    Warn,
}

/// A manifest that does not decode.
pub(crate) struct Damaged {
    /// Its full path.
    pub(crate) path: String,
    pub(crate) version: Version,
    /// Whether it was not written to its end.
    pub(crate) torn: bool,
    pub(crate) error: Error,
}

/// Called with every version of the branch and its indices.
pub(crate) type See<'a> = dyn FnMut(&Snapshot, &[IndexMetadata]) + Send + 'a;

/// Reads all of it. `policy` is asked once the versions are listed.
///
/// Errors: `Unsupported` or `Store` for a version that cannot be read, of this table or a branch, and of a known clone
/// unless those may be unreachable; those of `policy`.
pub(crate) async fn gather(
    snapshot: &Arc<Snapshot>,
    delete_unverified: bool,
    unreachable: UnreachableClones,
    policy: impl FnOnce(Timestamp, &[Located]) -> Result<Policy> + Send,
    see: &mut See<'_>,
) -> Result<Inventory> {
    let now = runtime::now();
    let store = &snapshot.store;
    let lists = FOLDERS.iter().map(|folder| store.list_below(folder).boxed()).collect();
    let (all_tags, all_branches) =
        (Tags::of(Arc::clone(snapshot), Durability::Os), Branches::of(Arc::clone(snapshot), Durability::Os));
    let (files, all_tags, all_branches) =
        futures::try_join!(runtime::gather(lists), intact(all_tags.list()), intact(all_branches.list()))?;
    let ((all_tags, damaged_tag), (all_branches, damaged_branch)) = (all_tags, all_branches);
    let files: Vec<ListedFile> = files.into_iter().flatten().collect();

    let branch = snapshot.manifest.branch.as_deref();
    let mut tags: BTreeMap<Version, Vec<String>> = BTreeMap::new();
    for (name, tag) in all_tags.into_iter().filter(|(_, tag)| tag.branch.as_deref() == branch) {
        tags.entry(tag.version).or_default().push(name);
    }
    let branches: Vec<(String, Version)> = all_branches
        .into_iter()
        .filter(|(_, made)| made.parent_branch.as_deref() == branch)
        .map(|(name, made)| (name, made.parent_version))
        .collect();

    let main = refs::main_store(snapshot)?;
    let (versions, tree, clones) =
        futures::try_join!(locate::list(store), main.list_below(TREE), intact(refs::known_clones(store)))?;
    let (mut clones, damaged_clone) = clones;
    if is_planted(Fault::CleanupIgnoresClones) {
        clones.clear();
    }
    let policy = policy(now, &versions)?;
    let points = branches.iter().map(|(name, version)| (*version, name.clone())).collect();
    let mut plan = CleanupPlan::new(policy, now, delete_unverified, snapshot.version(), tags.clone(), points);
    let mut reader = Reader::new();
    let newest = versions.last().map_or(snapshot.version(), |at| at.version);
    let detached: Vec<Located> = files
        .iter()
        .filter_map(|file| naming::parse_detached(file.path.strip_prefix(VERSIONS)?.strip_prefix('/')?))
        .map(|version| Located { version, scheme: NamingScheme::V2 })
        .collect();
    let own: Vec<Located> = versions.iter().chain(&detached).copied().collect();
    let mut take = |version: &Snapshot, indices: &[IndexMetadata]| {
        plan.version(&version.manifest, indices);
        see(version, indices);
    };
    reader.read(store, &own, &mut take).await?;

    reader.others(&main, branch, tree, &mut plan).await?;
    let (mut warnings, mut has_unreachable_clones) = (Vec::new(), false);
    for clone in clones {
        let KnownClone { address, record } = &clone;
        match reader.clone(&clone, store, &mut plan).await {
            Ok(true) => {}
            Ok(false) => warnings.push(format!(
                "the clone {address} is not there any more, as {record} has it: files that only it refers to are not kept"
            )),
            Err(error) if unreachable == UnreachableClones::Warn => {
                has_unreachable_clones = true;
                warnings.push(format!(
                    "the clone {address}, recorded in {record}, cannot be read, so files that only it may refer to are \
                     not reported: {error}"
                ));
            }
            Err(error) => {
                return Err(error.at(format!(
                    "the clone {address} cannot be read, and nothing is removed that it may refer to (if it is gone for \
                     good, remove the record of it, {record})"
                )));
            }
        }
    }
    let tags = tags.into_iter().flat_map(|(at, names)| names.into_iter().map(move |name| (name, at)));
    let tags = tags.collect();
    let damaged = reader.damaged;
    let damaged_references = [damaged_tag, damaged_branch, damaged_clone].into_iter().flatten().collect();
    Ok(Inventory {
        plan,
        files,
        newest,
        versions,
        detached,
        tags,
        branches,
        damaged,
        damaged_references,
        warnings,
        has_unreachable_clones,
    })
}

/// References of one kind, and what is wrong with one of them: none of them is known then. Errors: others than damage.
async fn intact<T: Default>(references: impl Future<Output = Result<T>>) -> Result<(T, Option<Error>)> {
    match references.await {
        Ok(found) => Ok((found, None)),
        Err(error) if error.kind() == ErrorKind::Corrupt => Ok((T::default(), Some(error))),
        Err(error) => Err(error),
    }
}

/// Versions after `known`: commits that were made while a cleanup was in flight.
pub(crate) async fn later(snapshot: &Snapshot, known: Version, plan: &mut CleanupPlan) -> Result<()> {
    let mut versions = locate::list(&snapshot.store).await?;
    versions.retain(|at| at.version > known);
    let mut reader = Reader::new();
    let mut take = |version: &Snapshot, indices: &[IndexMetadata]| plan.version(&version.manifest, indices);
    reader.read(&snapshot.store, &versions, &mut take).await?;
    reader.damaged.into_iter().next().map_or(Ok(()), |damaged| Err(damaged.error))
}

/// Reads versions, and remembers those that do not decode.
struct Reader {
    session: Arc<Session>,
    damaged: Vec<Damaged>,
}

impl Reader {
    fn new() -> Self {
        // What is read once does not push out what others use.
        Self { session: Session::new(CacheSizes { bytes: 0 }), damaged: Vec::new() }
    }

    /// Takes in all versions of main and of all branches of a table, whose files are listed, but not of the one that is
    /// looked at.
    async fn others(
        &mut self,
        main: &Arc<Store>,
        but: Option<&str>,
        tree: Vec<ListedFile>,
        plan: &mut CleanupPlan,
    ) -> Result<()> {
        if but.is_some() {
            let versions = locate::list(main).await?;
            let mut keep = |version: &Snapshot, indices: &[IndexMetadata]| {
                plan.keep(format!("main, version {}", version.version()), &version.manifest, indices);
            };
            self.read(main, &versions, &mut keep).await?;
        }
        // By what is there, not by name: a branch exists before and after its name does.
        let mut branches: BTreeMap<String, Vec<Located>> = BTreeMap::new();
        for file in tree {
            let Some((directory, name)) = file.path.rsplit_once('/') else { continue };
            let branch = directory.strip_prefix("tree/").and_then(|path| path.strip_suffix("/_versions"));
            let version =
                naming::parse(name).or_else(|| Some((naming::parse_detached(name)?, NamingScheme::V2)));
            if let (Some(branch), Some((version, scheme))) = (branch.filter(|b| but != Some(*b)), version) {
                branches.entry(branch.to_owned()).or_default().push(Located { version, scheme });
            }
        }
        for (branch, versions) in branches {
            let store = refs::branch_store(main, &self.session, &branch)?;
            let mut keep = |version: &Snapshot, indices: &[IndexMetadata]| {
                let owner = format!("branch {branch}, version {}", version.version());
                plan.keep(owner, &version.manifest, indices);
            };
            self.read(&store, &versions, &mut keep).await?;
        }
        Ok(())
    }

    /// Takes in all versions of a clone and of its branches; `false` if it has none. Errors: those of reaching it.
    async fn clone(&mut self, clone: &KnownClone, source: &Store, plan: &mut CleanupPlan) -> Result<bool> {
        let store = self.session.open_store(&clone.address, source.options())?;
        let versions = locate::list(&store).await?;
        let mut keep = |version: &Snapshot, indices: &[IndexMetadata]| {
            let owner = format!("clone {}, version {}", clone.address, version.version());
            plan.keep(owner, &version.manifest, indices);
        };
        self.read(&store, &versions, &mut keep).await?;
        self.others(&store, None, store.list_below(TREE).await?, plan).await?;
        Ok(!versions.is_empty())
    }

    /// Reads versions, several at a time, and passes them on. One that was removed since it was listed is left out.
    async fn read(&mut self, store: &Arc<Store>, versions: &[Located], take: &mut See<'_>) -> Result<()> {
        for chunk in versions.chunks(runtime::IN_FLIGHT) {
            let loads = chunk.iter().map(|&at| load(store, &self.session, at).boxed());
            for (at, loaded) in chunk.iter().zip(runtime::gather(loads.collect()).await?) {
                match loaded {
                    Loaded::Whole(snapshot, indices) => take(&snapshot, &indices),
                    Loaded::Gone => {}
                    Loaded::Damaged(error) => self.damaged.push(Damaged {
                        path: store.full_path(&manifest_path(at.version, at.scheme)),
                        version: at.version,
                        torn: load::is_torn(store, *at).await,
                        error,
                    }),
                }
            }
        }
        Ok(())
    }
}

enum Loaded {
    Whole(Arc<Snapshot>, Arc<Vec<IndexMetadata>>),
    Gone,
    Damaged(Error),
}

async fn load(store: &Arc<Store>, session: &Arc<Session>, at: Located) -> Result<Loaded> {
    let load = async {
        let snapshot = load::load(store, session, at).await?;
        let indices = snapshot.indices().await?;
        Ok((snapshot, indices))
    };
    match load.await {
        Ok((snapshot, indices)) => Ok(Loaded::Whole(snapshot, indices)),
        Err(error) if Error::is_not_found(&error) => Ok(Loaded::Gone),
        Err(error) if error.kind() == ErrorKind::Corrupt => Ok(Loaded::Damaged(error)),
        Err(error) => Err(error),
    }
}
