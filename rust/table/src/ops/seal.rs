//! Seal: checksums for the files of a table whose writers left none in them.
//!
//! The seal of a file is a file of its own (`pennon_datafile::Seal`) below `_seals`. Nothing that the table has is written
//! again, and there is no commit: other readers do not see a difference. Files below other base paths are those of another
//! table, and are sealed there.

use std::collections::HashSet;

use futures::FutureExt;
use pennon_core::manifest::paths;
use pennon_core::{ErrorKind, Result};
use pennon_datafile::Seal;
use tracing::instrument;

use super::verify::{Depth, Finding, StoredFile, files, has_checksums};
use crate::dataset::Dataset;
use crate::runtime;
use crate::store::Durability;

/// What became of the files of all versions of a table.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SealReport {
    /// Files that were sealed.
    pub sealed: u64,
    /// Their size together, in bytes.
    pub bytes: u64,
    /// Files that had a seal before.
    pub sealed_before: u64,
    /// Files that have checksums in them.
    pub with_checksums: u64,
    /// Files below other base paths, which were left as they are.
    pub elsewhere: u64,
    /// What is wrong with the table: files that a finding names were not sealed.
    pub findings: Vec<Finding>,
}

/// What becomes of one file.
enum Sealed {
    Now(u64),
    Already,
    HasChecksums,
    /// Removed by a cleanup since it was listed.
    Gone,
}

impl Dataset {
    /// Gives a seal to every file of all versions that has no checksums, after the table was verified with its data.
    ///
    /// Reads the table two times. Interrupted, it leaves seals of some files, which are right, and can be called again.
    /// Errors: those of [`Self::verify`] and of writing.
    #[instrument(level = "debug", skip_all, fields(table = self.uri(), version = %self.version()))]
    pub async fn seal(&self) -> Result<SealReport> {
        let findings = self.verify(Depth::Data).await?.findings;
        let damaged: HashSet<&str> = findings.iter().filter_map(|finding| finding.path.as_deref()).collect();
        let store = &self.snapshot().store;
        let listed = store.list_below(paths::SEALS).await?;
        let known: HashSet<&str> = listed.iter().filter_map(|file| paths::sealed(&file.path)).collect();
        let (own, elsewhere): (Vec<StoredFile>, Vec<StoredFile>) =
            files::of_table(self).await?.into_iter().partition(|file| files::is_own(file, store));
        let wanted = own.into_iter().filter(|file| !damaged.contains(store.full_path(&file.path).as_str()));
        let mut report = SealReport { elsewhere: elsewhere.len() as u64, ..SealReport::default() };
        let durability = self.durability();
        let seals = wanted.map(|file| {
            let is_known = known.contains(file.path.as_str());
            async move { seal(&file, is_known, durability).await }.boxed()
        });
        for sealed in runtime::gather(seals.collect()).await? {
            match sealed {
                Sealed::Now(bytes) => {
                    report.sealed += 1;
                    report.bytes = report.bytes.saturating_add(bytes);
                }
                Sealed::Already => report.sealed_before += 1,
                Sealed::HasChecksums => report.with_checksums += 1,
                Sealed::Gone => {}
            }
        }
        report.findings = findings;
        Ok(report)
    }
}

async fn seal(file: &StoredFile, is_known: bool, durability: Durability) -> Result<Sealed> {
    if is_known {
        return Ok(Sealed::Already);
    }
    let made = async {
        if has_checksums(file).await? {
            return Ok::<_, pennon_core::Error>(Sealed::HasChecksums);
        }
        let source = file.store.source(&file.path, None);
        let seal = runtime::blocking(move || Seal::of(source.as_ref())).await?;
        let bytes = seal.size();
        file.store.put(&paths::seal(&file.path), seal.encode().into(), durability).await?;
        runtime::advance(|counts| {
            counts.tasks += 1;
            counts.bytes = counts.bytes.saturating_add(bytes);
        })
        .await?;
        Ok(Sealed::Now(bytes))
    };
    match made.await {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(Sealed::Gone),
        made => made,
    }
}
