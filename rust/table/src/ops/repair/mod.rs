//! Repair: what can be had of damaged files, and what is lost otherwise.
//!
//! | damaged | repaired from |
//! |---|---|
//! | any file | a copy of the table, whose file is as it was written (`copies`) |
//! | a manifest | the version before and the transaction (`metadata`) |
//! | a transaction file | the copy in the manifest |
//! | a deletion file | another version with as many deleted rows; the predicate of the delete that wrote it (`deletions`) |
//! | a seal | the file, which has no other finding |
//! | files of an index of the newest version | its rows: it is built again |
//! | a data file of the newest version | rows of damaged pages that an older version has as they were are restored from there; those that are lost are left out of a new version, which names their ids (`rows`) |
//!
//! A plan is made from a verification and carried out later, or not. Files that are replaced are kept below
//! `_damaged/<uuid>`; nothing is removed. What older versions refer to and no copy has stays damaged, and is reported.

mod copies;
mod deletions;
mod metadata;
mod rows;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use pennon_core::manifest::paths::{self, TableFile};
use pennon_core::{ErrorKind, FragmentId, Result, RowId, Version};
use pennon_datafile::Seal;
use tracing::instrument;
use uuid::Uuid;

use super::index::IndexCare;
use super::verify::{Depth, Finding, FindingKind, Report, StoredFile};
use crate::dataset::{Dataset, OpenOptions};
use crate::runtime;
use crate::session::ConnectOptions;
use crate::store::{Durability, Store};
use crate::versions::snapshot::Snapshot;
use crate::versions::{VersionRef, load, locate};

/// The folder that keeps what was replaced.
const DAMAGED: &str = "_damaged";
/// How a damaged table is repaired.
#[derive(Debug, Clone, Default)]
pub struct RepairOptions {
    /// How the table, and the copy of it, are reached.
    pub connect: ConnectOptions,
    /// URI of a table with the same files: a copy of the directory.
    pub copy: Option<String>,
    /// Whether the plan is carried out.
    pub apply: bool,
    /// How files and versions are made durable.
    pub durability: Durability,
}

/// Something that repairs a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RepairAction {
    /// What it does.
    pub kind: RepairKind,
    /// Full path of the file that it replaces.
    pub path: Option<String>,
    /// The version of that file, or that rows come from.
    pub version: Option<Version>,
    /// The fragment that it leaves out.
    pub fragment: Option<FragmentId>,
    /// What it does, for people.
    pub message: String,
    /// The ids of rows that are lost, or that come back; row addresses in a table without stable row ids.
    pub row_ids: Vec<Range<u64>>,
}

/// What an action does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RepairKind {
    /// Replaces a file with that of a copy of the table.
    CopyFile,
    /// Makes a manifest, a transaction file or a deletion file again.
    RebuildFile,
    /// Builds an index again.
    RebuildIndex,
    /// Leaves a fragment out of a new version.
    QuarantineFragment,
    /// Brings rows of that fragment back from an older version.
    RestoreRows,
}

impl RepairKind {
    /// Its name in snake case.
    pub fn name(self) -> &'static str {
        match self {
            Self::CopyFile => "copy_file",
            Self::RebuildFile => "rebuild_file",
            Self::RebuildIndex => "rebuild_index",
            Self::QuarantineFragment => "quarantine_fragment",
            Self::RestoreRows => "restore_rows",
        }
    }
}

impl fmt::Display for RepairAction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

/// What is wrong with a table, and what was or can be done.
#[derive(Debug, Clone)]
pub struct RepairReport {
    /// Address of the table, in full.
    pub uri: String,
    /// What was wrong before.
    pub findings: Vec<Finding>,
    /// What repairs it, in order; done, if that was asked for.
    pub actions: Vec<RepairAction>,
    /// What nothing repairs; after a repair what is wrong still.
    pub remaining: Vec<Finding>,
}

/// How an action is carried out.
enum Step {
    Put { store: Arc<Store>, path: String, bytes: Bytes },
    Seal { store: Arc<Store>, path: String },
    Copy { from: StoredFile, store: Arc<Store>, path: String },
    Quarantine(rows::Quarantine),
    RestoreRows { ids: Vec<Range<u64>>, fragment: FragmentId, version: Version },
    RebuildIndex(String),
}

impl Step {
    fn replaces_a_file(&self) -> bool {
        matches!(self, Self::Put { .. } | Self::Seal { .. } | Self::Copy { .. })
    }
}

/// Actions, and what they are for.
#[derive(Default)]
struct RepairPlan {
    steps: Vec<(RepairAction, Step)>,
    unrepaired: Vec<Finding>,
}

impl Dataset {
    /// Verifies a table with its data, plans what repairs it, and does that if it is asked for.
    ///
    /// Errors: those of [`Self::verify_table`]; those of writing, after which the table is as far as the repair came, and
    /// the repair can be called again.
    #[instrument(level = "debug", skip_all, fields(table = uri))]
    pub async fn repair_table(uri: &str, options: &RepairOptions) -> Result<RepairReport> {
        let mut verified = verify(uri, options).await?;
        let findings = verified.findings.clone();
        let mut actions = Vec::new();
        let kept_in = format!("{DAMAGED}/{}", runtime::uuid());
        loop {
            let mut plan = plan(uri, &verified, options).await?;
            if !options.apply {
                let actions = plan.steps.into_iter().map(|(action, _)| action).collect();
                return Ok(RepairReport { uri: verified.uri, findings, actions, remaining: plan.unrepaired });
            }
            // What was done and did not help is not done again.
            plan.steps.retain(|(action, _)| !actions.contains(action));
            // After files were replaced more may be known, and nothing else be needed.
            let has_files = plan.steps.iter().any(|(_, step)| step.replaces_a_file());
            plan.steps.retain(|(_, step)| step.replaces_a_file() == has_files);
            if plan.steps.is_empty() {
                break;
            }
            let run = RepairRun { uri, options, kept_in: &kept_in };
            for (action, step) in plan.steps {
                run.execute(step).await?;
                actions.push(action);
            }
            verified = verify(uri, options).await?;
        }
        Ok(RepairReport { uri: verified.uri, findings, actions, remaining: verified.findings })
    }
}

async fn verify(uri: &str, options: &RepairOptions) -> Result<Report> {
    let open = OpenOptions { connect: options.connect.clone(), ..OpenOptions::default() };
    Dataset::verify_table(uri, open, Depth::Data).await
}

async fn open(uri: &str, options: &RepairOptions, version: Option<Version>) -> Result<Dataset> {
    let version = version.map(|version| VersionRef::Number(version.0));
    Dataset::open(uri, OpenOptions { version, connect: options.connect.clone(), ..OpenOptions::default() })
        .await
}

async fn plan(uri: &str, verified: &Report, options: &RepairOptions) -> Result<RepairPlan> {
    let mut plan = RepairPlan::default();
    if verified.findings.is_empty() {
        return Ok(plan);
    }
    let dataset = open(uri, options, Some(verified.version)).await?;
    let snapshot = dataset.snapshot();
    let is_newest = newest_whole(&snapshot.store).await? == Some(snapshot.version());
    let copy = copies::TableCopy::open(options).await?;
    let damaged: HashSet<String> = verified.findings.iter().filter_map(|found| found.path.clone()).collect();
    let mut by_file: BTreeMap<&str, Vec<&Finding>> = BTreeMap::new();
    for finding in &verified.findings {
        match &finding.path {
            Some(path) => by_file.entry(path).or_default().push(finding),
            None => plan.unrepaired.push(finding.clone()),
        }
    }
    let sizes: HashMap<String, u64> = {
        let indices = snapshot.indices().await.unwrap_or_default();
        let files = paths::references(&snapshot.manifest, &indices);
        files.filter_map(|file| Some((file.path(), file.size?))).collect()
    };
    // What deletion files and transactions are made again from.
    let mut versions = Vec::new();
    let wants_versions = |path: &&str| {
        below(&snapshot.store, path)
            .is_some_and(|path| path.starts_with("_deletions/") || path.starts_with("_transactions/"))
    };
    if by_file.keys().any(wants_versions) {
        for at in locate::list(&snapshot.store).await? {
            versions.extend(load::load(&snapshot.store, snapshot.session(), at).await.ok());
        }
    }
    let mut fragments: BTreeMap<FragmentId, Vec<&Finding>> = BTreeMap::new();
    let mut indices: BTreeMap<String, &str> = BTreeMap::new();
    for (full_path, findings) in by_file {
        let Some(path) = below(&snapshot.store, full_path) else {
            // Below another base path: that is another table.
            plan.unrepaired.extend(findings.into_iter().cloned());
            continue;
        };
        // Its rows may read all the same, and no other copy has another type.
        let (of_types, findings): (Vec<_>, Vec<_>) =
            findings.into_iter().partition(|finding| finding.kind == FindingKind::WrongType);
        plan.unrepaired.extend(of_types.into_iter().cloned());
        if findings.is_empty() {
            continue;
        }
        let file = (path, sizes.get(path).copied());
        if let Some(step) = file_step(snapshot, copy.as_ref(), file, &findings, &damaged, &versions).await? {
            plan.steps.push(step);
            continue;
        }
        let fragment = rows::fragment_with(snapshot, path).filter(|_| is_newest);
        match (paths::recognise(path), fragment) {
            (Some(TableFile::Index(uuid)), _) if is_newest => match index_of(snapshot, uuid).await? {
                Some(name) => drop(indices.entry(name).or_insert(full_path)),
                None => plan.unrepaired.extend(findings.into_iter().cloned()),
            },
            (_, Some(fragment)) if rows::are_lost(snapshot, path, &findings).await? => {
                fragments.entry(fragment).or_default().extend(findings);
            }
            _ => plan.unrepaired.extend(findings.into_iter().cloned()),
        }
    }
    for (fragment, findings) in fragments {
        plan.steps.extend(rows::steps(snapshot, fragment, &findings, &damaged).await?);
    }
    // From the rows that can be read then.
    plan.steps.extend(indices.into_iter().map(|(name, path)| rebuild_index(name, path)));
    Ok(plan)
}

/// The version that a table is opened at, if its manifest decodes: those that were not written to their end are skipped.
async fn newest_whole(store: &Store) -> Result<Option<Version>> {
    for at in locate::list(store).await?.into_iter().rev() {
        if !load::is_torn(store, at).await {
            return Ok(Some(at.version));
        }
    }
    Ok(None)
}

/// The path below a table of a file with a full path.
fn below<'a>(store: &Store, full_path: &'a str) -> Option<&'a str> {
    full_path.strip_prefix(store.full_path("").trim_end_matches('/'))?.strip_prefix('/')
}

/// How a damaged file is replaced; `None` if it cannot be.
async fn file_step(
    snapshot: &Arc<Snapshot>,
    copy: Option<&copies::TableCopy>,
    (path, size): (&str, Option<u64>),
    findings: &[&Finding],
    damaged: &HashSet<String>,
    versions: &[Arc<Snapshot>],
) -> Result<Option<(RepairAction, Step)>> {
    let store = &snapshot.store;
    let action = |kind, message| RepairAction {
        kind,
        path: Some(store.full_path(path)),
        version: findings.first().and_then(|finding| finding.version),
        fragment: None,
        message,
        row_ids: Vec::new(),
    };
    if let Some(sealed) = paths::sealed(path) {
        let message = format!("seal {sealed} again");
        let step = Step::Seal { store: Arc::clone(store), path: sealed.to_owned() };
        let is_sound = !damaged.contains(&store.full_path(sealed));
        return Ok(is_sound.then(|| (action(RepairKind::RebuildFile, message), step)));
    }
    if let Some(copy) = copy
        && let Some(from) = copy.find(store, path, size).await?
    {
        let message = format!("replace {path} with that of {}", copy.uri());
        let step = Step::Copy { from, store: Arc::clone(store), path: path.to_owned() };
        return Ok(Some((action(RepairKind::CopyFile, message), step)));
    }
    let rebuilt = match findings.first().map(|finding| finding.kind) {
        Some(FindingKind::TornManifest | FindingKind::DamagedManifest) if path.starts_with("_versions/") => {
            metadata::manifest(snapshot, path).await?
        }
        _ if path.starts_with("_transactions/") => metadata::transaction_file(versions, path).await,
        _ if path.starts_with("_deletions/") => deletions::rebuild(versions, path).await?,
        _ => None,
    };
    Ok(rebuilt.map(|Rebuilt { bytes, from }| {
        let message = format!("make {path} again, from {from}");
        let step = Step::Put { store: Arc::clone(store), path: path.to_owned(), bytes };
        (action(RepairKind::RebuildFile, message), step)
    }))
}

/// A file that was made again.
struct Rebuilt {
    bytes: Bytes,
    /// What it was made from.
    from: String,
}

async fn index_of(snapshot: &Arc<Snapshot>, uuid: Uuid) -> Result<Option<String>> {
    let entries = snapshot.indices().await?;
    let entry = entries.iter().find(|entry| entry.uuid == uuid && !entry.is_system());
    Ok(entry.map(|entry| entry.name.clone()))
}

fn rebuild_index(name: String, path: &str) -> (RepairAction, Step) {
    let action = RepairAction {
        kind: RepairKind::RebuildIndex,
        path: Some(path.to_owned()),
        version: None,
        fragment: None,
        message: format!("build index {name} again from the rows"),
        row_ids: Vec::new(),
    };
    (action, Step::RebuildIndex(name))
}

/// A repair that is carried out.
struct RepairRun<'a> {
    uri: &'a str,
    options: &'a RepairOptions,
    /// The folder for what is replaced, of this repair alone.
    kept_in: &'a str,
}

impl RepairRun<'_> {
    async fn execute(&self, step: Step) -> Result<()> {
        let durability = self.options.durability;
        match step {
            Step::Put { store, path, bytes } => {
                self.keep(&store, &path).await?;
                store.put(&path, bytes, durability).await
            }
            Step::Seal { store, path } => {
                self.keep(&store, &paths::seal(&path)).await?;
                let source = store.source(&path, None);
                let seal = runtime::blocking(move || Seal::of(source.as_ref())).await?;
                store.put(&paths::seal(&path), seal.encode().into(), durability).await
            }
            Step::Copy { from, store, path } => {
                self.keep(&store, &path).await?;
                copies::copy(from, store, path, durability).await
            }
            Step::Quarantine(quarantine) => quarantine.commit(self.newest().await?).await,
            Step::RestoreRows { ids, fragment, version } => {
                let ids: Vec<_> = ids.into_iter().flatten().map(RowId).collect();
                self.newest().await?.restore_lost_rows(&ids, fragment, version).await
            }
            Step::RebuildIndex(name) => {
                let care = IndexCare { names: Some(vec![name]), rebuild: true, ..IndexCare::default() };
                self.newest().await?.optimize_indices(&care).await
            }
        }
    }

    async fn newest(&self) -> Result<Dataset> {
        open(self.uri, self.options, None).await
    }

    /// Keeps a copy of a file that is replaced, if it is there.
    async fn keep(&self, store: &Store, path: &str) -> Result<()> {
        match store.copy(path, &format!("{}/{path}", self.kept_in), self.options.durability).await {
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
            kept => kept,
        }
    }
}
