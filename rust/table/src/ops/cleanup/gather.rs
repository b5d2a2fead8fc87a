//! What a cleanup has to know: files, versions, tags, branches and known clones.
//!
//! Files are listed before versions are: a file of a version that is committed meanwhile is then either not listed or
//! mentioned by a version that is read.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use futures::FutureExt;
use pennon_core::error::ResultExt;
use pennon_core::manifest::Timestamp;
use pennon_core::manifest::naming::{self, NamingScheme};
use pennon_core::{Error, Result, Version};

use super::CleanupOptions;
use super::plan::{Plan, Policy};
use crate::commit::latest::{self, Located};
use crate::commit::{VERSIONS, load};
use crate::refs::{self, Branches, Tags};
use crate::session::{CacheSizes, Session};
use crate::snapshot::Snapshot;
use crate::store::{Durability, ListedFile, Store};

/// The folders that a cleanup looks at.
const FOLDERS: [&str; 5] = [VERSIONS, super::TRANSACTIONS, "_deletions", "_indices", "data"];

/// Everything found.
pub(super) struct Found {
    pub(super) plan: Plan,
    pub(super) files: Vec<ListedFile>,
    /// The newest version that was read.
    pub(super) newest: Version,
    /// Branches that were made from versions of this one, with those versions.
    pub(super) branches: Vec<(String, Version)>,
    pub(super) warnings: Vec<String>,
}

/// Reads all of it.
///
/// Errors: `Corrupt`, `Unsupported` or `Store` for a version that cannot be read, of this table, a branch or a known
/// clone: nobody knows what it refers to.
pub(super) async fn gather(snapshot: &Arc<Snapshot>, options: &CleanupOptions) -> Result<Found> {
    let now = now()?;
    let store = &snapshot.store;
    let lists = FOLDERS.iter().map(|folder| store.list_below(folder).boxed()).collect();
    let files: Vec<ListedFile> = crate::gather(lists).await?.into_iter().flatten().collect();

    let branch = snapshot.manifest.branch.as_deref();
    let mut tags: BTreeMap<Version, Vec<String>> = BTreeMap::new();
    for (name, tag) in Tags::of(Arc::clone(snapshot), Durability::Os).list().await? {
        if tag.branch.as_deref() == branch {
            tags.entry(tag.version).or_default().push(name);
        }
    }
    let all_branches = Branches::of(Arc::clone(snapshot), Durability::Os).list().await?;
    let branches: Vec<(String, Version)> = all_branches
        .into_iter()
        .filter(|(_, made)| made.parent_branch.as_deref() == branch)
        .map(|(name, made)| (name, made.parent_version))
        .collect();

    let versions = latest::list(store).await?;
    let policy = policy(options, now, snapshot.version(), &versions)?;
    let points = branches.iter().map(|(name, version)| (*version, name.clone())).collect();
    let mut plan = Plan::new(policy, now, options.delete_unverified, snapshot.version(), tags, points);
    // What is read once does not push out what others use.
    let session = Session::new(CacheSizes { bytes: 0 });
    let newest = versions.last().map_or(snapshot.version(), |at| at.version);
    read(store, &session, &versions, |version, indices| plan.version(&version.manifest, indices)).await?;
    let detached: Vec<Located> = files
        .iter()
        .filter_map(|file| naming::parse_detached(file.path.strip_prefix(VERSIONS)?.strip_prefix('/')?))
        .map(|version| Located { version, scheme: NamingScheme::V2 })
        .collect();
    read(store, &session, &detached, |version, indices| plan.version(&version.manifest, indices)).await?;

    let main = refs::main_store(snapshot)?;
    others(&main, branch, &session, &mut plan).await?;
    let mut warnings = Vec::new();
    for address in refs::known_clones(store).await? {
        let clone = Store::open(&address, store.options()).at(|| format!("the clone {address}"))?;
        let versions = latest::list(&clone).await.at(|| format!("the clone {address}"))?;
        if versions.is_empty() {
            warnings.push(format!("the clone {address} is not there any more"));
        }
        let owner = |version: Version| format!("clone {address}, version {version}");
        let keep = |version: &Snapshot, indices: &[_]| {
            plan.keep(owner(version.version()), &version.manifest, indices);
        };
        read(&clone, &session, &versions, keep).await.at(|| format!("the clone {address}"))?;
        others(&clone, None, &session, &mut plan).await?;
    }
    Ok(Found { plan, files, newest, branches, warnings })
}

/// Takes in all versions of all branches of a table but one.
async fn others(main: &Arc<Store>, but: Option<&str>, session: &Arc<Session>, plan: &mut Plan) -> Result<()> {
    // By what is there, not by name: a branch exists before and after its name does.
    let mut branches: BTreeMap<String, Vec<Located>> = BTreeMap::new();
    for file in main.list_below("tree").await? {
        let Some((directory, name)) = file.path.rsplit_once('/') else { continue };
        let branch = directory.strip_prefix("tree/").and_then(|path| path.strip_suffix("/_versions"));
        let version = naming::parse(name).or_else(|| Some((naming::parse_detached(name)?, NamingScheme::V2)));
        if let (Some(branch), Some((version, scheme))) = (branch.filter(|b| but != Some(*b)), version) {
            branches.entry(branch.to_owned()).or_default().push(Located { version, scheme });
        }
    }
    for (branch, versions) in branches {
        let store = refs::branch_store(main, session, &branch)?;
        let keep = |version: &Snapshot, indices: &[_]| {
            plan.keep(format!("branch {branch}, version {}", version.version()), &version.manifest, indices);
        };
        read(&store, session, &versions, keep).await?;
    }
    Ok(())
}

/// Versions after `known`: commits that came while a cleanup was under way.
pub(super) async fn later(snapshot: &Snapshot, known: Version, plan: &mut Plan) -> Result<()> {
    let mut versions = latest::list(&snapshot.store).await?;
    versions.retain(|at| at.version > known);
    let session = Session::new(CacheSizes { bytes: 0 });
    let take = |version: &Snapshot, indices: &[_]| plan.version(&version.manifest, indices);
    read(&snapshot.store, &session, &versions, take).await
}

/// Reads versions, some at a time, and hands them on. One that went since it was listed is left out.
async fn read(
    store: &Arc<Store>,
    session: &Arc<Session>,
    versions: &[Located],
    mut take: impl FnMut(&Snapshot, &[pennon_core::manifest::IndexMetadata]),
) -> Result<()> {
    for some in versions.chunks(crate::IN_FLIGHT) {
        let loads = some.iter().map(|&at| {
            let load = async move {
                match load::load(store, session, at).await {
                    Ok(snapshot) => {
                        let indices = snapshot.indices().await?;
                        Ok(Some((snapshot, indices)))
                    }
                    Err(error) if error.is_not_found() => Ok(None),
                    Err(error) => Err(error),
                }
            };
            load.boxed()
        });
        for (snapshot, indices) in crate::gather(loads.collect()).await?.into_iter().flatten() {
            take(&snapshot, &indices);
        }
    }
    Ok(())
}

fn policy(
    options: &CleanupOptions,
    now: Timestamp,
    current: Version,
    versions: &[Located],
) -> Result<Policy> {
    let below = match options.retain_versions {
        None => None,
        Some(0) => {
            return Err(Error::invalid_input("retain_versions must be greater than 0, got 0"));
        }
        Some(count) => {
            let upto = versions.iter().rev().filter(|at| at.version <= current);
            let oldest = upto.take(usize::try_from(count).unwrap_or(usize::MAX)).last();
            oldest.map(|at| at.version)
        }
    };
    let before = options.older_than.map(|age| {
        let seconds = i64::try_from(age.as_secs()).unwrap_or(i64::MAX);
        let (mut seconds, mut nanos) = (now.seconds.saturating_sub(seconds), now.nanos);
        match nanos.checked_sub(age.subsec_nanos()) {
            Some(rest) => nanos = rest,
            None => {
                seconds = seconds.saturating_sub(1);
                nanos = nanos.saturating_add(1_000_000_000).saturating_sub(age.subsec_nanos());
            }
        }
        Timestamp { seconds, nanos }
    });
    let listed: Option<HashSet<Version>> =
        options.versions.as_ref().map(|listed| listed.iter().copied().map(Version).collect());
    Ok(Policy { before, below, listed })
}

fn now() -> Result<Timestamp> {
    let since = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_err(|e| Error::store("the system's clock is before 1970").with_source(e))?;
    let seconds = i64::try_from(since.as_secs()).unwrap_or(i64::MAX);
    Ok(Timestamp { seconds, nanos: since.subsec_nanos() })
}
