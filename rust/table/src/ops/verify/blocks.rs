//! Whether the files of a table are as they were written, by their checksums: blocks of data files and of the files of
//! indices, deletion files, transactions and manifests. Files of other writers have none.

use std::collections::HashSet;
use std::sync::Arc;

use bytes::Bytes;
use futures::FutureExt;
use pennon_core::manifest::{DeletionFileType, ManifestFile};
use pennon_core::transaction::Transaction;
use pennon_core::wire::index_section;
use pennon_core::{ErrorKind, FragmentId, Result, checksum};
use pennon_datafile::{DamagedBlock, FileReader, deletion_file};

use super::gather::StoredFile;
use super::report::{Finding, FindingKind};
use crate::runtime;
use crate::store::Store;
use crate::versions::snapshot::Snapshot;
use crate::versions::{Located, TRANSACTIONS, VERSIONS, manifest_path};

/// Endings of the names of files of blocks.
const OF_BLOCKS: [&str; 2] = [".lance", ".idx"];

/// Findings of one file at most.
const MOST_FINDINGS: usize = 100;
/// Pages that a finding names at most.
const MOST_PAGES: usize = 20;

/// What is wrong in these files. Those in `known`, by their full paths, have a finding already.
///
/// Errors: `Store` and `Unsupported` for what could not be looked at.
pub(super) async fn damage(files: Vec<StoredFile>, known: &HashSet<String>) -> Result<Vec<Finding>> {
    let wanted = files.into_iter().filter(|file| !known.contains(&file.store.full_path(&file.path)));
    let found = runtime::gather(wanted.map(|file| look(file).boxed()).collect()).await?;
    Ok(found.into_iter().flatten().collect())
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

async fn look(file: StoredFile) -> Result<Vec<Finding>> {
    let full_path = file.store.full_path(&file.path);
    let finding = |kind, message: String| {
        let message = message.strip_prefix(&format!("data file {full_path}: ")).unwrap_or(&message);
        let finding = Finding::new(kind, message).at(&full_path).within(file.version);
        file.fragment.into_iter().fold(finding, Finding::of)
    };
    let (kind, found) = if OF_BLOCKS.iter().any(|ending| file.path.ends_with(ending)) {
        let file = file.clone();
        (FindingKind::DamagedFile, runtime::blocking(move || blocks(&file)).await)
    } else if let Some((kind, check)) = check_of_file(&file.path) {
        match file.store.get(&file.path).await {
            Ok(bytes) => (kind, runtime::blocking(move || check(bytes).map(|()| Vec::new())).await),
            Err(error) => (kind, Err(error)),
        }
    } else {
        return Ok(Vec::new());
    };
    match found {
        Ok(messages) => Ok(messages.into_iter().map(|message| finding(kind, message)).collect()),
        Err(error) if error.kind() == ErrorKind::Corrupt => Ok(vec![finding(kind, error.to_string())]),
        // A file that was removed since the listing is no damage. Old files have no checksums.
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::Unsupported) => Ok(Vec::new()),
        Err(error) => Err(error),
    }
}

/// Checks the content of a file.
type Check = fn(Bytes) -> Result<()>;

/// How a file is checked that is read whole, and what it is if it is wrong.
fn check_of_file(path: &str) -> Option<(FindingKind, Check)> {
    let (kind, check): (_, Check) = match path.split_once('/')?.0 {
        "_deletions" if path.ends_with(".arrow") => {
            (FindingKind::WrongDeletions, |bytes| deletion_file::check(DeletionFileType::Arrow, &bytes))
        }
        "_deletions" => {
            (FindingKind::WrongDeletions, |bytes| deletion_file::check(DeletionFileType::Bitmap, &bytes))
        }
        TRANSACTIONS => {
            (FindingKind::DamagedTransaction, |bytes| checksum::check("transaction", &bytes).map(drop))
        }
        VERSIONS => (FindingKind::DamagedManifest, check_manifest),
        _ => return None,
    };
    Some((kind, check))
}

/// Errors: `Corrupt` for a manifest, or a section of its file, that is not as it was written.
fn check_manifest(bytes: Bytes) -> Result<()> {
    let file = ManifestFile::decode(bytes)?;
    file.indices()?.map(index_section::decode).transpose()?;
    file.transaction()?.map(Transaction::decode).transpose()?;
    Ok(())
}

fn blocks(file: &StoredFile) -> Result<Vec<String>> {
    let reader = FileReader::open_to_verify(file.store.source(&file.path, None))?;
    let damaged = reader.damaged_blocks()?;
    let mut messages: Vec<String> =
        damaged.iter().take(MOST_FINDINGS).map(|block| described(&reader, block)).collect();
    if damaged.len() > MOST_FINDINGS {
        messages.push(format!("{} more parts were changed", damaged.len() - MOST_FINDINGS));
    }
    Ok(messages)
}

/// The blocks, and the first pages that have bytes in them.
fn described(reader: &FileReader, block: &DamagedBlock) -> String {
    let pages = reader.pages_in(&block.bytes);
    if pages.is_empty() {
        return block.to_string();
    }
    let named = pages.iter().take(MOST_PAGES).map(|(column, page)| format!("page {page} of column {column}"));
    let more = if pages.len() > MOST_PAGES { ", and others" } else { "" };
    format!("{block} ({}{more})", named.collect::<Vec<_>>().join(", "))
}
