//! Whether the files of a table are as they were written, by their checksums or their seals: data files, the files of
//! indices, blobs, deletion files, transactions and manifests. Files of other writers have no checksums.

use std::collections::HashSet;
use std::sync::Arc;

use bytes::Bytes;
use futures::FutureExt;
use pennon_core::manifest::{DeletionFileType, ManifestFile, paths};
use pennon_core::transaction::Transaction;
use pennon_core::wire::index_section;
use pennon_core::{Error, ErrorKind, FragmentId, Result, checksum};
use pennon_datafile::{BlockCheck, DamagedBlock, FileReader, Seal, deletion_file};

use super::gather::StoredFile;
use super::pace::Pace;
use super::report::{DamagedPage, Finding, FindingKind};
use crate::runtime::{self, Stopwatch};
use crate::store::Store;
use crate::versions::snapshot::Snapshot;
use crate::versions::{Located, TRANSACTIONS, VERSIONS, manifest_path};

/// Endings of the names of files of blocks.
const OF_BLOCKS: [&str; 2] = [".lance", ".idx"];

/// The ending of the names of files of blobs, which have a seal at their end.
const BLOBS: &str = ".blob";

/// Findings of one file at most.
const MOST_FINDINGS: usize = 100;
/// Pages that a finding names at most.
const MOST_PAGES: usize = 20;

/// What the checksums of files say.
#[derive(Debug, Default)]
pub(crate) struct Checked {
    pub(crate) findings: Vec<Finding>,
    /// Files that have neither checksums nor a seal.
    pub(crate) without_checksums: u64,
}

/// What is wrong in these files. Those in `known`, by their full paths, have a finding already.
///
/// Errors: `Store` and `Unsupported` for what could not be looked at.
pub(super) async fn damage(files: Vec<StoredFile>, known: &HashSet<String>) -> Result<Checked> {
    let wanted = files.into_iter().filter(|file| !known.contains(&file.store.full_path(&file.path)));
    let found = runtime::gather(
        wanted.map(|file| async move { check(&file, Pace::default()).await }.boxed()).collect(),
    );
    let mut all = Checked::default();
    for checked in found.await? {
        all.findings.extend(checked.findings);
        all.without_checksums += checked.without_checksums;
    }
    Ok(all)
}

/// The data files of a version, or of some of its fragments.
pub(super) fn data_files(
    snapshot: &Arc<Snapshot>,
    fragments: Option<&[FragmentId]>,
) -> Result<Vec<StoredFile>> {
    let is_wanted = |id: &FragmentId| fragments.is_none_or(|fragments| fragments.contains(id));
    let mut files = Vec::new();
    for fragment in snapshot.manifest.fragments.decode_all().filter(|fragment| is_wanted(&fragment.id)) {
        for file in &fragment.files {
            let (store, path) = snapshot.locate("data", &file.path, file.base_id)?;
            files.push(StoredFile { store, path, version: snapshot.version(), fragment: Some(fragment.id) });
        }
    }
    Ok(files)
}

/// The manifest of a version.
pub(super) fn manifest(store: &Arc<Store>, at: Located) -> StoredFile {
    let path = manifest_path(at.version, at.scheme);
    StoredFile { store: Arc::clone(store), path, version: at.version, fragment: None }
}

/// Whether a file has checksums of its own. Errors: those of reading it, and `Corrupt` for a small file that is damaged.
pub(crate) async fn has_checksums(file: &StoredFile) -> Result<bool> {
    let found = if is_of_blocks(&file.path) {
        let source = file.store.source(&file.path, None);
        runtime::blocking(move || Ok(FileReader::open_to_verify(source)?.has_checksums())).await
    } else if let Some((_, check)) = check_of_file(&file.path) {
        check(file.store.get(&file.path).await?)
    } else if file.path.ends_with(BLOBS) {
        let source = file.store.source(&file.path, None);
        runtime::blocking(move || Ok(Seal::at_end(source.as_ref())?.is_some())).await
    } else {
        Ok(false)
    };
    match found {
        // Files of old versions, and what newer releases wrote.
        Err(error) if error.kind() == ErrorKind::Unsupported => Ok(false),
        found => found,
    }
}

/// What is wrong in a file, read at a pace. A file that is gone has nothing wrong.
///
/// Errors: `Store` for what could not be looked at.
pub(crate) async fn check(file: &StoredFile, pace: Pace) -> Result<Checked> {
    let full_path = file.store.full_path(&file.path);
    let kind = kind_of(&file.path);
    let finding = |message: &str| {
        let message = message.strip_prefix(&format!("data file {full_path}: ")).unwrap_or(message);
        let finding = Finding::new(kind, message).at(&full_path).within(file.version);
        file.fragment.into_iter().fold(finding, Finding::of)
    };
    let mut checked = Checked::default();
    match look(file, pace).await {
        Ok(Look::Compared(damaged, reader)) => {
            for block in damaged.iter().take(MOST_FINDINGS) {
                let pages = reader.as_deref().map_or_else(Vec::new, |reader| pages_in(reader, block));
                checked.findings.push(finding(&described(block, &pages)).with_pages(&block.bytes, pages));
            }
            if damaged.len() > MOST_FINDINGS {
                let more = damaged.len() - MOST_FINDINGS;
                checked.findings.push(finding(&format!("{more} more parts were changed")));
            }
        }
        Ok(Look::WithoutChecksums) => checked.without_checksums = 1,
        Ok(Look::DamagedSeal(error)) => {
            let seal = file.store.full_path(&paths::seal(&file.path));
            let finding = Finding::new(FindingKind::DamagedFile, error.to_string());
            checked.findings.push(finding.at(seal).within(file.version));
        }
        Err(error) if error.kind() == ErrorKind::Corrupt => {
            checked.findings.push(finding(&error.to_string()))
        }
        // A file that was removed since the listing is not damage.
        Err(error) if error.is_not_found() => {}
        Err(error) => return Err(error),
    }
    Ok(checked)
}

/// What the checksums of a file say.
enum Look {
    /// Damaged blocks, and the reader of a file with pages.
    Compared(Vec<DamagedBlock>, Option<Arc<FileReader>>),
    DamagedSeal(Error),
    WithoutChecksums,
}

/// Compares a file with its checksums or its seal.
async fn look(file: &StoredFile, pace: Pace) -> Result<Look> {
    let mut reader = None;
    if is_of_blocks(&file.path) {
        let source = file.store.source(&file.path, None);
        let open = move || {
            let opened = FileReader::open_to_verify(source)?;
            Ok((opened.block_check()?, Arc::new(opened)))
        };
        match runtime::blocking(open).await {
            Ok((Some(blocks), opened)) => {
                return Ok(Look::Compared(damaged_blocks(blocks, pace).await?, Some(opened)));
            }
            Ok((None, opened)) => reader = Some(opened),
            Err(error) if error.kind() == ErrorKind::Unsupported => {}
            Err(error) => return Err(error),
        }
    } else if let Some((_, check)) = check_of_file(&file.path) {
        let bytes = file.store.get(&file.path).await?;
        match runtime::blocking(move || check(bytes)).await {
            Ok(true) => return Ok(Look::Compared(Vec::new(), None)),
            Ok(false) => {}
            // What a newer release wrote, or a changed bit made of it: a seal tells.
            Err(error) if error.kind() == ErrorKind::Unsupported => {}
            Err(error) => return Err(error),
        }
    }
    if file.path.ends_with(BLOBS) {
        let source = file.store.source(&file.path, None);
        let check = move || {
            let seal = Seal::at_end(source.as_ref())?;
            seal.map(|seal| seal.block_check(source)).transpose()
        };
        if let Some(blocks) = runtime::blocking(check).await? {
            return Ok(Look::Compared(damaged_blocks(blocks, pace).await?, None));
        }
    }
    let seal = match file.store.seal(&file.path).await {
        Ok(Some(seal)) => seal,
        Ok(None) => return Ok(Look::WithoutChecksums),
        Err(error) if error.kind() == ErrorKind::Corrupt => return Ok(Look::DamagedSeal(error)),
        Err(error) => return Err(error),
    };
    let source = file.store.source(&file.path, None);
    let blocks = runtime::blocking(move || seal.block_check(source)).await?;
    Ok(Look::Compared(damaged_blocks(blocks, pace).await?, reader))
}

async fn damaged_blocks(blocks: BlockCheck, pace: Pace) -> Result<Vec<DamagedBlock>> {
    let (start, mut read) = (Stopwatch::start(), 0_u64);
    let blocks = Arc::new(blocks);
    let mut damaged = Vec::new();
    for range in blocks.ranges() {
        read += range.end - range.start;
        let part = Arc::clone(&blocks);
        DamagedBlock::append(&mut damaged, runtime::blocking(move || part.damaged_blocks(&range)).await?);
        pace.wait(start, read).await;
    }
    Ok(damaged)
}

fn is_of_blocks(path: &str) -> bool {
    OF_BLOCKS.iter().any(|ending| path.ends_with(ending))
}

fn kind_of(path: &str) -> FindingKind {
    check_of_file(path).map_or(FindingKind::DamagedFile, |(kind, _)| kind)
}

/// Checks the content of a file, and says whether it has a checksum.
type Check = fn(Bytes) -> Result<bool>;

/// How a file is checked that is read whole, and what it is if it is wrong.
fn check_of_file(path: &str) -> Option<(FindingKind, Check)> {
    let (kind, check): (_, Check) = match path.split_once('/')?.0 {
        "_deletions" if path.ends_with(".arrow") => {
            (FindingKind::WrongDeletions, |bytes| check_deletions(DeletionFileType::Arrow, &bytes))
        }
        "_deletions" => {
            (FindingKind::WrongDeletions, |bytes| check_deletions(DeletionFileType::Bitmap, &bytes))
        }
        TRANSACTIONS => (FindingKind::DamagedTransaction, check_transaction),
        VERSIONS => (FindingKind::DamagedManifest, check_manifest),
        _ => return None,
    };
    Some((kind, check))
}

/// Errors: `Corrupt` for a deletion file that is not as it was written, or does not decode.
fn check_deletions(form: DeletionFileType, bytes: &Bytes) -> Result<bool> {
    let has_checksum = deletion_file::check(form, bytes)?;
    if !has_checksum {
        deletion_file::decode_uncounted(form, bytes, u64::MAX)?;
    }
    Ok(has_checksum)
}

/// Errors: `Corrupt` for a transaction that is not as it was written, or does not decode.
fn check_transaction(bytes: Bytes) -> Result<bool> {
    let has_checksum = checksum::check("transaction", &bytes)?;
    Transaction::decode(bytes)?;
    Ok(has_checksum)
}

/// Errors: `Corrupt` for a manifest, or a section of its file, that is not as it was written.
fn check_manifest(bytes: Bytes) -> Result<bool> {
    let file = ManifestFile::decode(bytes)?;
    file.indices()?.map(index_section::decode).transpose()?;
    file.transaction()?.map(Transaction::decode).transpose()?;
    Ok(file.has_checksum())
}

/// The pages that have bytes in a run of blocks.
fn pages_in(reader: &FileReader, block: &DamagedBlock) -> Vec<DamagedPage> {
    let pages = reader.pages_in(&block.bytes).into_iter();
    let named = pages.map(|(column, page)| DamagedPage {
        column: reader.column_name(column).unwrap_or_else(|| format!("number {column}")),
        page,
        rows: reader.rows_of_page(column, page),
    });
    named.collect()
}

/// The blocks, and the first pages that have bytes in them.
fn described(block: &DamagedBlock, pages: &[DamagedPage]) -> String {
    if pages.is_empty() {
        return block.to_string();
    }
    let named = pages.iter().take(MOST_PAGES).map(ToString::to_string);
    let more = if pages.len() > MOST_PAGES { ", and others" } else { "" };
    format!("{block} ({}{more})", named.collect::<Vec<_>>().join(", "))
}
