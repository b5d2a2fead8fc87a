//! Scrub: the files of a table, each to be compared with its checksums by itself, at a pace.
//!
//! Whoever scrubs a table decides the order, remembers which files are done, and can go on later.

use pennon_core::manifest::naming::NamingScheme;
use pennon_core::{Error, FragmentId, Result, Version};
use tracing::instrument;

use super::verify::{Finding, Pace, StoredFile, check, files, missing};
use crate::dataset::Dataset;
use crate::runtime::Stopwatch;
use crate::versions::manifest_path;

/// The files of all versions of a table.
#[derive(Debug)]
pub struct Scrub {
    dataset: Dataset,
    files: Vec<StoredFile>,
}

/// A file of a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScrubFile {
    /// Its full path.
    pub path: String,
    /// The newest version that refers to it.
    pub version: Version,
    /// Of a data file of the opened version.
    pub fragment: Option<FragmentId>,
}

/// What was found in a file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ScrubbedFile {
    /// What is wrong with it; nothing for a file that is gone because its version is.
    pub findings: Vec<Finding>,
    /// Its size in bytes; `None` if it is gone.
    pub bytes: Option<u64>,
    /// Whether it has checksums or a seal. Data files of the opened version that have none are decoded.
    pub has_checksums: bool,
}

impl Dataset {
    /// The files of all versions, to be looked at one by one. Errors: those of listing the table and reading its manifests.
    #[instrument(level = "debug", skip_all, fields(table = self.uri(), version = %self.version()))]
    pub async fn scrub(&self) -> Result<Scrub> {
        Ok(Scrub { dataset: self.clone(), files: files::of_table(self).await? })
    }
}

impl Scrub {
    /// URI of the table.
    pub fn uri(&self) -> &str {
        self.dataset.uri()
    }

    /// The files: data files of the opened version, others by path, manifests.
    pub fn files(&self) -> Vec<ScrubFile> {
        let file = |file: &StoredFile| ScrubFile {
            path: file.store.full_path(&file.path),
            version: file.version,
            fragment: file.fragment,
        };
        self.files.iter().map(file).collect()
    }

    /// Compares one of the files, read at so many bytes a second at most, with its checksums.
    ///
    /// Errors: `InvalidInput` for a file that is not among them, `Store` for one that could not be looked at.
    pub async fn check(&self, at: usize, bytes_per_second: Option<u64>) -> Result<ScrubbedFile> {
        let file = self.files.get(at).ok_or_else(|| {
            let count = self.files.len();
            Error::invalid_input(format!("file {at} of {count} files of the table"))
        })?;
        let Some(info) = file.store.info(&file.path).await? else { return self.absent(file).await };
        let pace = Pace::new(bytes_per_second);
        let start = Stopwatch::start();
        let checked = check(file, pace).await?;
        let mut found = ScrubbedFile {
            findings: checked.findings,
            bytes: Some(info.size),
            has_checksums: checked.without_checksums == 0,
        };
        let mut read = info.size;
        if let Some(fragment) = file.fragment.filter(|_| !found.has_checksums) {
            let of_file = Some(file.store.full_path(&file.path));
            // All files of the fragment are read.
            let all = self.dataset.manifest().require_fragment(fragment)?;
            let sizes = all.files.iter().filter_map(|file| file.size);
            read = read.saturating_add(sizes.sum());
            let findings = self.dataset.verify_data(&[fragment]).await?;
            found.findings.extend(findings.into_iter().filter(|finding| finding.path == of_file));
        }
        pace.wait(start, read).await;
        Ok(found)
    }

    /// A file that is not there: its version may have been cleaned up since the files were listed.
    async fn absent(&self, file: &StoredFile) -> Result<ScrubbedFile> {
        let table = &self.dataset.snapshot().store;
        for scheme in [NamingScheme::V2, NamingScheme::V1] {
            let manifest = manifest_path(file.version, scheme);
            if manifest != file.path && table.exists(&manifest).await? {
                return Ok(ScrubbedFile { findings: vec![missing(file)], ..ScrubbedFile::default() });
            }
        }
        Ok(ScrubbedFile::default())
    }
}
