//! Verify: does everything that the versions of a table promise hold?
//!
//! | looked at | how |
//! |---|---|
//! | every version of the branch | the manifest decodes; its files are there and have the stated size |
//! | one version, the newest by default | data file footers, deletion files, row ids and versions, flags, indices |
//! | every file of all versions, if data is asked for | it is as it was written, if it has checksums or a seal |
//! | the data of that version, if that is asked for | every page decodes, as the table's types; the files of blobs are there |
//! | what other versions have besides, if data is asked for | the same of their fragments and data files |
//! | everything in the table's folders | what no version needs, by cause (`crate::inventory`) |
//!
//! `files` lists the files of all versions, for sealing and scrubbing too. `gather`, `blocks` and `data` read, `judge`
//! and `types` decide from values, `others` goes from version to version. Damage is a finding, not an error; an error
//! means that something could not be looked at.

mod blocks;
mod data;
pub(super) mod files;
mod gather;
mod judge;
mod others;
mod pace;
mod report;
#[cfg(test)]
mod tests;
mod types;

use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;

use pennon_core::lengths::to_u64;
use pennon_core::manifest::IndexMetadata;
use pennon_core::{Error, ErrorKind, FragmentId, Result};

pub(super) use self::blocks::{check, has_checksums};
pub(super) use self::files::missing;
pub(super) use self::gather::StoredFile;
pub(super) use self::pace::Pace;
pub use self::report::{DamagedPage, Finding, FindingKind, Leftover, Report};
use tracing::instrument;

use crate::dataset::{Dataset, OpenOptions};
use crate::inventory::{self, Policy, UnreachableClones};
use crate::refs;
use crate::runtime;
use crate::session::{CacheSizes, Session};
use crate::store::shown;
use crate::versions::snapshot::Snapshot;
use crate::versions::{TRANSACTIONS, VERSIONS, load, locate};

/// How far down a version is checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Depth {
    /// Its files open, and its rows are as many as it says and have their ids.
    #[default]
    Rows,
    /// The files of all versions are as they were written, by their checksums; their fragments have the rows, deletions and
    /// ids that the manifests say; every page of every data file decodes as well, and blobs have their bytes: that reads
    /// the whole table.
    Data,
}

/// How often another version is verified in place of one that was removed meanwhile, at most.
const MAX_LOOKS: usize = 8;

impl Dataset {
    /// Opens a table that may be damaged and verifies it: down to its rows the version asked for, by default the newest
    /// one that can be read.
    ///
    /// Errors: `NotFound` if there is no table or version; `Corrupt` if none of its versions can be read; `Unsupported`
    /// and `Store` for what could not be looked at.
    #[instrument(level = "debug", skip_all, fields(table = %shown(uri)))]
    pub async fn verify_table(uri: &str, options: OpenOptions, depth: Depth) -> Result<Report> {
        if options.version.is_some() || options.asof.is_some() {
            return Self::open(uri, options).await?.verify(depth).await;
        }
        let (store, session) = options.connect.open(uri)?;
        let mut versions = locate::list(&store).await?;
        let (mut first, mut looks) = (None, 0);
        while let Some(at) = versions.pop() {
            match load::load(&store, &session, at).await {
                Ok(snapshot) => {
                    let report = Self::at(Arc::clone(&snapshot), options.commit.clone()).verify(depth).await;
                    match report {
                        // A cleanup removed it, so there are newer ones.
                        Err(error) if looks < MAX_LOOKS && was_removed(&snapshot, &error).await? => {
                            looks += 1;
                            versions = locate::list(&store).await?;
                        }
                        report => return report,
                    }
                }
                Err(error) if error.is_not_found() => {}
                Err(error) if error.kind() == ErrorKind::Corrupt => drop(first.get_or_insert(error)),
                Err(error) => return Err(error),
            }
        }
        Err(first.unwrap_or_else(|| load::not_found(&store, VERSIONS)))
    }

    /// Verifies the table: this version down to its rows, of the others that their files are there.
    ///
    /// Reads the manifests of all versions, and opens every data and deletion file of this one. A known clone that cannot be
    /// read is a note, and files that only it may refer to are no leftovers then. Errors: `Unsupported` and `Store` for what
    /// of this table could not be looked at; damage is reported.
    #[instrument(level = "debug", skip_all, fields(table = self.uri(), version = %self.version()))]
    pub async fn verify(&self, depth: Depth) -> Result<Report> {
        let snapshot = &afresh(self.snapshot());
        let mut expected = gather::Expected::default();
        let mut versions = 0_u64;
        let mut see = |version: &Snapshot, indices: &[_]| {
            versions += 1;
            expected.add(version, indices);
        };
        let policy = |_, _: &[_]| Ok(Policy::keep_all());
        let found = inventory::gather(snapshot, false, UnreachableClones::Warn, policy, &mut see).await?;
        // A version that is not listed, such as one that is being cleaned up, is looked at all the same.
        let indices = indices(snapshot).await?;
        expected.add(snapshot, &indices);
        let facts = expected.look(&snapshot.store, &found.files).await?;
        let mut without_checksums = 0;
        let folder = snapshot.store.full_path(VERSIONS);
        let mut findings = judge::manifests(&folder, &found.versions, &found.damaged);
        let present: BTreeSet<_> =
            found.versions.iter().chain(&found.detached).map(|at| at.version).collect();
        findings.extend(judge::tags(&found.tags, &present));
        let of_reference = |error: &Error| Finding::new(FindingKind::DamagedReference, error.to_string());
        findings.extend(found.damaged_references.iter().map(of_reference));
        findings.extend(expected.problems());
        findings.extend(judge::files(&facts));
        let broken: HashSet<String> = findings.iter().filter_map(|finding| finding.path.clone()).collect();
        findings.extend(content(snapshot, &indices, &broken).await?);
        if depth == Depth::Data {
            let known: HashSet<String> = findings.iter().filter_map(|finding| finding.path.clone()).collect();
            let checked = blocks::damage(files::all(snapshot, &expected, &found)?, &known).await?;
            findings.extend(checked.findings);
            without_checksums = checked.without_checksums;
            findings.extend(data::damage(snapshot, None, &broken).await?);
            let known: HashSet<String> = findings.iter().filter_map(|finding| finding.path.clone()).collect();
            findings.extend(others::content(snapshot, &found.versions, &known).await?);
        }
        let mut notes = found.warnings;
        if !found.damaged.is_empty() {
            let count = found.damaged.len();
            notes.push(format!(
                "{count} manifest(s) cannot be read: files that only they refer to look left over"
            ));
        }
        if let Some((branch, _)) = found.branches.first() {
            let main = refs::main_store(snapshot)?;
            let branch = refs::branch_store(&main, snapshot.session(), branch)?;
            let (count, address) = (found.branches.len(), branch.root());
            notes.push(format!(
                "{count} branch(es) made from this table are verified by their own addresses, such as {address}"
            ));
        }
        if without_checksums > 0 {
            notes.push(format!(
                "{without_checksums} file(s) have no checksums: what decodes in them is taken for what was written; \
                 sealing the table adds checksums"
            ));
        }
        let dispositions = found.files.into_iter().map(|file| found.plan.disposition(file));
        Ok(Report {
            uri: snapshot.store.root().to_owned(),
            version: self.version(),
            versions,
            fragments: to_u64(snapshot.manifest.fragments.len()),
            files: to_u64(facts.len()),
            findings,
            leftovers: report::leftovers(dispositions, found.has_unreachable_clones),
            without_checksums,
            notes,
        })
    }

    /// What is wrong inside the data files of some fragments of this version, of all that open: for somebody who verifies
    /// the table down to its rows as well.
    pub(crate) async fn verify_data(&self, fragments: &[FragmentId]) -> Result<Vec<Finding>> {
        let (snapshot, broken) = (afresh(self.snapshot()), HashSet::new());
        let files = blocks::data_files(&snapshot, Some(fragments))?;
        let mut findings = blocks::damage(files, &broken).await?.findings;
        findings.extend(data::damage(&snapshot, Some(fragments), &broken).await?);
        Ok(findings)
    }

    /// Checks this version down to its rows, and that its files are there: [`Self::verify`] without a look at anything
    /// else.
    ///
    /// Opens every data and deletion file. Errors: `Corrupt` naming the first thing that is wrong.
    #[instrument(level = "debug", skip_all, fields(table = self.uri(), version = %self.version()))]
    pub async fn validate(&self) -> Result<()> {
        let snapshot = &afresh(self.snapshot());
        let indices = snapshot.indices().await?;
        let mut expected = gather::Expected::default();
        expected.add(snapshot, &indices);
        let facts = expected.look(&snapshot.store, &[]).await?;
        // A transaction file is only read by those who want to know what happened.
        let needed = facts.iter().filter(|fact| !fact.path.contains(&format!("/{TRANSACTIONS}/")));
        let mut findings: Vec<Finding> = expected.problems();
        findings.extend(judge::files(needed));
        if findings.is_empty() {
            findings = content(snapshot, &indices, &HashSet::new()).await?;
        }
        match findings.into_iter().next() {
            None => Ok(()),
            Some(Finding { path: Some(path), message, fragment: None, .. }) => {
                Err(Error::corrupt(format!("{path}: {message} (version {} refers to it)", self.version())))
            }
            Some(finding) => Err(Error::corrupt(format!(
                "{}: {finding}",
                snapshot.store.full_path(&snapshot.source().path)
            ))),
        }
    }
}

/// Whether an error is that of a version which a cleanup removed while it was looked at.
async fn was_removed(snapshot: &Snapshot, error: &Error) -> Result<bool> {
    Ok(error.is_not_found() && !snapshot.store.exists(&snapshot.source().path).await?)
}

/// The same version with nothing in its caches: what was read before says nothing about what is there now.
fn afresh(snapshot: &Snapshot) -> Arc<Snapshot> {
    let (store, manifest) = (Arc::clone(&snapshot.store), Arc::clone(&snapshot.manifest));
    Snapshot::new(store, Session::new(CacheSizes::default()), manifest, snapshot.source().clone())
}

/// The index entries of a version; none if they do not decode, which is reported with its manifest.
async fn indices(snapshot: &Snapshot) -> Result<Arc<Vec<IndexMetadata>>> {
    match snapshot.indices().await {
        Err(error) if error.kind() == ErrorKind::Corrupt => Ok(Arc::default()),
        indices => indices,
    }
}

/// What is wrong in one version. `broken` are files that are known to be wrong.
async fn content(
    snapshot: &Arc<Snapshot>,
    indices: &[IndexMetadata],
    broken: &HashSet<String>,
) -> Result<Vec<Finding>> {
    let mut findings = judge::version(&snapshot.manifest, indices);
    findings.extend(gather::transaction(snapshot).await?);
    let mut ids = judge::Ids::default();
    let all = to_u64(snapshot.manifest.fragments.len());
    runtime::advance(|counts| counts.of_fragments = Some(all)).await?;
    let mut fragments = snapshot.manifest.fragments.decode_all();
    loop {
        let chunk: Vec<_> = fragments.by_ref().take(runtime::IN_FLIGHT).collect();
        if chunk.is_empty() {
            break;
        }
        for (fragment, facts) in chunk.iter().zip(gather::fragments(snapshot, &chunk, broken).await?) {
            findings.extend(judge::fragment(&snapshot.manifest, fragment, &facts, &mut ids));
        }
        runtime::advance(|counts| counts.fragments += to_u64(chunk.len())).await?;
    }
    let version = snapshot.version();
    Ok(findings.into_iter().map(|finding| finding.within(version)).collect())
}
