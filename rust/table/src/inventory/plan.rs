//! Which files are removed and which are kept, and why: pure, from manifests, references and the listing (table format
//! 11.1).
//!
//! Versions are taken in one after the other, of each only what differs from one before: two manifests are held, and each
//! name once.
//!
//! Invariant: a file is removed only if its name is one that writers of the format generate, it is in the folder for
//! such files, and no kept version, on any branch or known clone, mentions its name. Roots are not compared: a name
//! that is mentioned under any root is kept under ours, because a table may have more than one address.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use pennon_core::Version;
use pennon_core::manifest::paths::{self, TableFile};
use pennon_core::manifest::{Fragments, IndexMetadata, Manifest, Timestamp};

use crate::runtime::{Fault, is_planted};
use crate::store::ListedFile;

/// Age at which a file that no version mentions is taken for left behind.
pub(super) const UNVERIFIED_AGE: Duration = Duration::from_secs(7 * 24 * 3600);

/// Which versions are no longer wanted: those that meet every condition given.
#[derive(Debug, Clone, Default)]
pub(crate) struct Policy {
    /// Made before this.
    pub(crate) before: Option<Timestamp>,
    /// Below this.
    pub(crate) below: Option<Version>,
    /// One of these.
    pub(crate) listed: Option<HashSet<Version>>,
}

/// The paths a version refers to, without those of fragments that `last` has too.
fn added(
    manifest: &Manifest,
    indices: &[IndexMetadata],
    last: Option<&Manifest>,
    mut add: impl FnMut(String),
) {
    let nothing = Fragments::default();
    for difference in manifest.fragments.diff(last.map_or(&nothing, |last| &last.fragments)) {
        let files = difference.after().into_iter().flat_map(|fragment| paths::of_fragment(fragment));
        files.for_each(|file| add(file.path()));
    }
    paths::beyond_fragments(manifest, indices).for_each(|file| add(file.path()));
}

/// Why a file is kept or removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Reason {
    /// The version this handle is at.
    CurrentVersion,
    /// A version after it.
    LaterVersion,
    /// The policy wants the version.
    RetainedVersion,
    /// The version has a tag.
    TaggedVersion,
    /// A branch was made from the version.
    BranchedVersion,
    /// A version outside the history.
    DetachedVersion,
    /// A version that is kept refers to the file.
    Referenced,
    /// No version refers to the file, but it is young: a write may be in flight.
    Unverified,
    /// A commit through an external store that may not be complete.
    Staged,
    /// Not a name that writers of the format generate, or not in the folder for it.
    Foreign,
    /// Helps to find the newest version.
    Hint,
    /// The version is not wanted any more.
    OldVersion,
    /// Only versions that are removed refer to the file.
    OldFile,
    /// No version refers to the file, and it is old enough, or unverified files are to be deleted.
    Orphan,
}

impl Policy {
    /// Every version is wanted.
    pub(crate) fn keep_all() -> Self {
        Self { below: Some(Version(0)), ..Self::default() }
    }
}

impl Reason {
    /// Whether the file is removed.
    pub fn removes(self) -> bool {
        matches!(self, Self::OldVersion | Self::OldFile | Self::Orphan)
    }

    /// One word or two for it, in snake case.
    pub fn name(self) -> &'static str {
        match self {
            Self::CurrentVersion => "current_version",
            Self::LaterVersion => "later_version",
            Self::RetainedVersion => "retained_version",
            Self::TaggedVersion => "tagged_version",
            Self::BranchedVersion => "branched_version",
            Self::DetachedVersion => "detached_version",
            Self::Referenced => "referenced",
            Self::Unverified => "unverified",
            Self::Staged => "staged",
            Self::Foreign => "foreign",
            Self::Hint => "hint",
            Self::OldVersion => "old_version",
            Self::OldFile => "old_file",
            Self::Orphan => "orphan",
        }
    }
}

/// What happens to one file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Disposition {
    /// The file.
    pub file: ListedFile,
    /// What the file is; `None` for those that are not of a table.
    pub found: Option<TableFile>,
    /// Why it is kept or removed.
    pub reason: Reason,
    /// The version, branch, clone or tag that the reason names; empty if it names none.
    pub by: String,
}

impl Disposition {
    /// `manifest`, `data`, `blob`, `deletion`, `index`, `transaction`, `seal`, `temporary`, `hint` or `other`.
    pub fn kind(&self) -> &'static str {
        self.found.map_or("other", |found| found.kind())
    }
}

/// Collects versions one after the other; then decides the disposition of each file.
#[derive(Debug)]
pub(crate) struct CleanupPlan {
    policy: Policy,
    now: Timestamp,
    delete_unverified: bool,
    current: Version,
    tags: BTreeMap<Version, Vec<String>>,
    branches: BTreeMap<Version, String>,
    restores: Vec<Version>,
    versions: BTreeMap<Version, (Reason, String)>,
    /// Path of a file or index directory, and the index in `owners` of the first that refers to it.
    kept: HashMap<String, usize>,
    released: HashSet<String>,
    owners: Vec<String>,
    /// The versions that were added last to `kept` and to `released`: of the next one only what differs is added.
    last_kept: Option<Arc<Manifest>>,
    last_released: Option<Arc<Manifest>>,
    /// Tags that kept a version which the policy does not want.
    blocking_tags: BTreeMap<String, Version>,
}

impl CleanupPlan {
    /// `tags` and `branches` are those of the branch that is cleaned.
    pub(crate) fn new(
        policy: Policy,
        now: Timestamp,
        delete_unverified: bool,
        current: Version,
        tags: BTreeMap<Version, Vec<String>>,
        branches: BTreeMap<Version, String>,
    ) -> Self {
        Self {
            policy,
            now,
            delete_unverified,
            current,
            tags,
            branches,
            restores: Vec::new(),
            versions: BTreeMap::new(),
            kept: HashMap::new(),
            released: HashSet::new(),
            owners: Vec::new(),
            last_kept: None,
            last_released: None,
            blocking_tags: BTreeMap::new(),
        }
    }

    /// Adds a version of the branch that is cleaned.
    pub(crate) fn version(&mut self, manifest: &Arc<Manifest>, indices: &[IndexMetadata]) {
        let version = manifest.version;
        let (reason, by) = self.judge(version, manifest.timestamp);
        if reason.removes() {
            let released = &mut self.released;
            added(manifest, indices, self.last_released.as_deref(), |path| {
                released.insert(path);
            });
            self.last_released = Some(Arc::clone(manifest));
        } else {
            self.keep(format!("version {version}"), manifest, indices);
        }
        if !version.is_detached() {
            self.versions.insert(version, (reason, by));
        }
    }

    /// Adds a version of something else that may refer to files of this table.
    pub(crate) fn keep(&mut self, owner: String, manifest: &Arc<Manifest>, indices: &[IndexMetadata]) {
        let (at, kept) = (self.owners.len(), &mut self.kept);
        self.owners.push(owner);
        added(manifest, indices, self.last_kept.as_deref(), |path| {
            kept.entry(path).or_insert(at);
        });
        self.last_kept = Some(Arc::clone(manifest));
    }

    /// Adds tags, versions that branches were made from, and those that are being restored. Gives the versions that these
    /// keep and that were to go: they are added once more with [`Self::version`].
    pub(crate) fn add_names(
        &mut self,
        tags: BTreeMap<Version, Vec<String>>,
        branches: BTreeMap<Version, String>,
        restores: Vec<Version>,
    ) -> BTreeSet<Version> {
        let named = tags.keys().chain(branches.keys()).chain(&restores);
        let is_old = |version: &Version| self.versions.get(version).is_some_and(|(why, _)| why.removes());
        let kept = named.filter(|version| is_old(version)).copied().collect();
        self.tags.extend(tags);
        self.branches.extend(branches);
        self.restores.extend(restores);
        kept
    }

    fn judge(&mut self, version: Version, made: Timestamp) -> (Reason, String) {
        let plain = |reason| (reason, String::new());
        if version.is_detached() {
            return plain(Reason::DetachedVersion);
        }
        match version.cmp(&self.current) {
            std::cmp::Ordering::Equal => return plain(Reason::CurrentVersion),
            std::cmp::Ordering::Greater => return plain(Reason::LaterVersion),
            std::cmp::Ordering::Less => {}
        }
        let policy = &self.policy;
        let unwanted = policy.before.is_none_or(|before| made < before)
            && policy.below.is_none_or(|below| version < below)
            && policy.listed.as_ref().is_none_or(|listed| listed.contains(&version));
        if !unwanted || self.restores.contains(&version) {
            return plain(Reason::RetainedVersion);
        }
        if let Some(tags) = self.tags.get(&version).filter(|_| !is_planted(Fault::CleanupIgnoresTags)) {
            self.blocking_tags.extend(tags.iter().map(|tag| (tag.clone(), version)));
            return (Reason::TaggedVersion, format!("tag {}", tags.join(", ")));
        }
        match self.branches.get(&version).filter(|_| !is_planted(Fault::CleanupIgnoresBranches)) {
            Some(branch) => (Reason::BranchedVersion, format!("branch {branch}")),
            None => plain(Reason::OldVersion),
        }
    }

    /// Tags of versions that the policy does not want.
    pub(crate) fn blocking_tags(&self) -> &BTreeMap<String, Version> {
        &self.blocking_tags
    }

    /// Versions that are removed, ascending.
    pub(crate) fn old_versions(&self) -> impl Iterator<Item = Version> {
        self.versions.iter().filter(|(_, (reason, _))| reason.removes()).map(|(version, _)| *version)
    }

    /// What happens to a file in one of the table's folders.
    pub(crate) fn disposition(&self, file: ListedFile) -> Disposition {
        let found = paths::recognise(&file.path);
        let (reason, by) = self.reason(&file);
        Disposition { file, found, reason, by }
    }

    /// Why a file in one of the table's folders is kept or removed, and the version, branch, clone or tag that keeps it.
    pub(crate) fn reason(&self, file: &ListedFile) -> (Reason, String) {
        match paths::recognise(&file.path) {
            None => (Reason::Foreign, String::new()),
            Some(found) => self.reason_of(found, file),
        }
    }

    fn reason_of(&self, found: TableFile, file: &ListedFile) -> (Reason, String) {
        if found == TableFile::Seal {
            return self.reason_of_seal(file);
        }
        let key = match found {
            TableFile::Hint => return (Reason::Hint, String::new()),
            TableFile::Detached(_) => return (Reason::DetachedVersion, String::new()),
            TableFile::Manifest(version) => {
                // One that was not there when the versions were listed is newer than those.
                let later = || (Reason::LaterVersion, String::new());
                return self.versions.get(&version).cloned().unwrap_or_else(later);
            }
            // Later versions are committed only after this one is complete.
            TableFile::Staged(version) if version > self.current => return (Reason::Staged, String::new()),
            // Blobs are removed with their data file.
            TableFile::Blob => format!("{}.lance", file.path.rsplit_once('/').map_or("", |(stem, _)| stem)),
            TableFile::Index(uuid) => format!("_indices/{uuid}"),
            _ => file.path.clone(),
        };
        if let Some(owner) = self.kept.get(&key) {
            return (Reason::Referenced, self.owners.get(*owner).cloned().unwrap_or_default());
        }
        if self.released.contains(&key) {
            return (Reason::OldFile, String::new());
        }
        let reason = match found {
            TableFile::Data { generated: false } => Reason::Foreign,
            _ if self.delete_unverified || self.age(file) >= UNVERIFIED_AGE => Reason::Orphan,
            _ => Reason::Unverified,
        };
        (reason, String::new())
    }

    /// A seal goes with the file that it is of.
    fn reason_of_seal(&self, seal: &ListedFile) -> (Reason, String) {
        let path = paths::sealed(&seal.path).unwrap_or_default();
        match paths::recognise(path) {
            // The manifest went in a cleanup by another writer.
            Some(TableFile::Manifest(version))
                if version <= self.current && !self.versions.contains_key(&version) =>
            {
                (Reason::Orphan, String::new())
            }
            Some(found) if found != TableFile::Seal => {
                self.reason_of(found, &ListedFile { path: path.to_owned(), ..seal.clone() })
            }
            _ => (Reason::Foreign, String::new()),
        }
    }

    fn age(&self, file: &ListedFile) -> Duration {
        let seconds = self.now.seconds.saturating_sub(file.modified.seconds);
        Duration::from_secs(u64::try_from(seconds).unwrap_or(0))
    }
}
