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

use std::collections::{BTreeMap, HashMap, HashSet};
use std::future::Future;
use std::sync::Arc;

use futures::FutureExt;
use pennon_core::manifest::naming::{self, NamingScheme};
use pennon_core::manifest::paths::SEALS;
use pennon_core::manifest::{IndexMetadata, Timestamp};
use pennon_core::{Error, ErrorKind, Result, Version};

use super::plan::{CleanupPlan, Policy};
use crate::refs::{self, Branch, Branches, KnownClone, Tag, Tags};
use crate::runtime;
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
    elsewhere: Elsewhere,
}

/// What was read besides the branch that is looked at. A branch or clone may be made again under its name.
#[derive(Default)]
struct Elsewhere {
    /// Manifests of branches, by path, and when they were written.
    manifests: HashMap<String, Timestamp>,
    /// Clones with versions, by their record.
    clones: HashSet<String>,
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
    let tags = tags_of(branch, all_tags);
    let branches = branches_of(branch, all_branches);

    let main = refs::main_store(snapshot)?;
    let ((versions, detached), tree, clones) = futures::try_join!(
        locate::list_all(store),
        main.list_below(TREE),
        intact(refs::known_clones(store))
    )?;
    let (clones, damaged_clone) = clones;
    let policy = policy(now, &versions)?;
    let points = branches.iter().map(|(name, version)| (*version, name.clone())).collect();
    let mut plan = CleanupPlan::new(policy, now, delete_unverified, snapshot.version(), tags.clone(), points);
    let mut reader = Reader::new();
    let newest = versions.last().map_or(snapshot.version(), |at| at.version);
    let own: Vec<Located> = versions.iter().chain(&detached).copied().collect();
    let mut take = |version: &Snapshot, indices: &[IndexMetadata]| {
        plan.version(&version.manifest, indices);
        see(version, indices);
    };
    reader.read(store, &own, &mut take).await?;

    let mut elsewhere = Elsewhere::default();
    reader.main(&main, branch, &mut plan).await?;
    reader.branches(&main, branch, tree, &mut elsewhere.manifests, &mut plan).await?;
    let (mut warnings, mut has_unreachable_clones) = (Vec::new(), false);
    for clone in clones {
        let KnownClone { address, record } = &clone;
        match reader.clone(&clone, store, &mut plan).await {
            Ok(true) => drop(elsewhere.clones.insert(clone.record)),
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
            Err(error) => return Err(clone_error(&clone, error)),
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
        elsewhere,
    })
}

/// The tags of versions of a branch.
fn tags_of(branch: Option<&str>, all: BTreeMap<String, Tag>) -> BTreeMap<Version, Vec<String>> {
    let mut tags: BTreeMap<Version, Vec<String>> = BTreeMap::new();
    for (name, tag) in all.into_iter().filter(|(_, tag)| tag.branch.as_deref() == branch) {
        tags.entry(tag.version).or_default().push(name);
    }
    tags
}

/// The branches that were made from versions of a branch, with those versions.
fn branches_of(branch: Option<&str>, all: BTreeMap<String, Branch>) -> Vec<(String, Version)> {
    let made_here = all.into_iter().filter(|(_, made)| made.parent_branch.as_deref() == branch);
    made_here.map(|(name, made)| (name, made.parent_version)).collect()
}

fn clone_error(clone: &KnownClone, error: Error) -> Error {
    let KnownClone { address, record } = clone;
    error.at(format!(
        "the clone {address} cannot be read, and nothing is removed that it may refer to (if it is gone for good, remove \
         the record of it, {record})"
    ))
}

/// References of one kind, and what is wrong with one of them: none of them is known then. Errors: others than damage.
async fn intact<T: Default>(references: impl Future<Output = Result<T>>) -> Result<(T, Option<Error>)> {
    match references.await {
        Ok(found) => Ok((found, None)),
        Err(error) if error.kind() == ErrorKind::Corrupt => Ok((T::default(), Some(error))),
        Err(error) => Err(error),
    }
}

impl Inventory {
    /// Keeps the versions that tags and branches name which came since, and those that are being restored, before any version
    /// is removed.
    ///
    /// Errors: those of reading, also for a damaged tag or branch.
    pub(crate) async fn add_new_names(&mut self, snapshot: &Arc<Snapshot>) -> Result<()> {
        let (tags, branches) = (
            Tags::of(Arc::clone(snapshot), Durability::Os),
            Branches::of(Arc::clone(snapshot), Durability::Os),
        );
        let (tags, branches, restores) =
            futures::try_join!(tags.list(), branches.list(), refs::restores(&snapshot.store))?;
        let branch = snapshot.manifest.branch.as_deref();
        let points =
            branches_of(branch, branches).into_iter().map(|(name, version)| (version, name)).collect();
        let kept = self.plan.add_names(tags_of(branch, tags), points, restores);
        let versions: Vec<Located> =
            self.versions.iter().filter(|at| kept.contains(&at.version)).copied().collect();
        let plan = &mut self.plan;
        let mut take =
            |version: &Snapshot, indices: &[IndexMetadata]| plan.version(&version.manifest, indices);
        let mut reader = Reader::new();
        reader.read(&snapshot.store, &versions, &mut take).await?;
        reader.intact()
    }

    /// Keeps the files of versions, branches and clones that came since, after the manifests of old versions were removed.
    /// Whoever makes one looks for the version that it comes from once it is made: as long as that was there, it is seen
    /// here. Says whether one that was removed is being restored: then no file may go.
    ///
    /// Errors: those of reading, for a clone too that cannot be reached.
    pub(crate) async fn add_later(&mut self, snapshot: &Arc<Snapshot>) -> Result<bool> {
        let (store, branch) = (&snapshot.store, snapshot.manifest.branch.as_deref());
        let main = refs::main_store(snapshot)?;
        // Before the versions: one that has ended by now is among these.
        let restores = refs::restores(store).await?;
        let ((mut versions, detached), tree, clones) =
            futures::try_join!(locate::list_all(store), main.list_below(TREE), refs::known_clones(store))?;
        versions.retain(|at| at.version > self.newest);
        versions.extend(detached.into_iter().filter(|at| !self.detached.contains(at)));
        let (mut reader, plan) = (Reader::new(), &mut self.plan);
        let mut take =
            |version: &Snapshot, indices: &[IndexMetadata]| plan.version(&version.manifest, indices);
        reader.read(store, &versions, &mut take).await?;
        reader.branches(&main, branch, tree, &mut self.elsewhere.manifests, plan).await?;
        for clone in clones.iter().filter(|clone| !self.elsewhere.clones.contains(&clone.record)) {
            reader.clone(clone, store, plan).await.map_err(|error| clone_error(clone, error))?;
        }
        reader.intact()?;
        Ok(self.plan.old_versions().any(|version| restores.contains(&version)))
    }
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

    /// The first version that does not decode, as an error.
    fn intact(self) -> Result<()> {
        self.damaged.into_iter().next().map_or(Ok(()), |damaged| Err(damaged.error))
    }

    /// Takes in all versions of main, unless that is looked at.
    async fn main(
        &mut self,
        main: &Arc<Store>,
        looked_at: Option<&str>,
        plan: &mut CleanupPlan,
    ) -> Result<()> {
        if looked_at.is_none() {
            return Ok(());
        }
        let versions = locate::list(main).await?;
        let mut keep = |version: &Snapshot, indices: &[IndexMetadata]| {
            plan.keep(format!("main, version {}", version.version()), &version.manifest, indices);
        };
        self.read(main, &versions, &mut keep).await
    }

    /// Takes in the versions of the branches of a table, whose files are listed: not of the one that is looked at, nor those
    /// of manifests that are known, to which it adds them.
    async fn branches(
        &mut self,
        main: &Arc<Store>,
        looked_at: Option<&str>,
        tree: Vec<ListedFile>,
        known: &mut HashMap<String, Timestamp>,
        plan: &mut CleanupPlan,
    ) -> Result<()> {
        // By what is there, not by name: a branch exists before and after its name does.
        let mut branches: BTreeMap<String, Vec<Located>> = BTreeMap::new();
        for file in tree {
            let Some((directory, name)) = file.path.rsplit_once('/') else { continue };
            let branch = directory.strip_prefix("tree/").and_then(|path| path.strip_suffix("/_versions"));
            let version =
                naming::parse(name).or_else(|| Some((naming::parse_detached(name)?, NamingScheme::V2)));
            let branch = branch.filter(|branch| looked_at != Some(*branch));
            if let (Some(branch), Some((version, scheme))) = (branch, version)
                && known.insert(file.path.clone(), file.modified) != Some(file.modified)
            {
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
        self.branches(&store, None, store.list_below(TREE).await?, &mut HashMap::new(), plan).await?;
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
