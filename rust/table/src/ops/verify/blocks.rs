//! Whether files are what was written: the blocks of data files and of the files of indices that have checksums.

use std::collections::HashSet;
use std::sync::Arc;

use futures::FutureExt;
use pennon_core::manifest::IndexMetadata;
use pennon_core::wire::index_parts::IndexParts;
use pennon_core::{Error, ErrorKind, FragmentId, Result};
use pennon_datafile::{DamagedBlock, FileReader};

use super::report::{Finding, FindingKind};
use crate::runtime;
use crate::versions::snapshot::Snapshot;

/// A file to look at.
struct BlockFile {
    fragment: Option<FragmentId>,
    /// Where it is, and its full path.
    open: Box<dyn FnOnce() -> Result<Arc<FileReader>> + Send>,
    path: String,
}

/// Blocks of the data files of a version, or of some of its fragments, and of the files of its indices that are not as they
/// were written. Files in `broken`, and those that do not open, are skipped: they have a finding already.
///
/// Errors: `Store` and `Unsupported` for what could not be looked at.
pub(super) async fn damage(
    snapshot: &Arc<Snapshot>,
    fragments: Option<&[FragmentId]>,
    indices: &[IndexMetadata],
    broken: &HashSet<String>,
) -> Result<Vec<Finding>> {
    let mut files = data_files(snapshot, fragments)?;
    files.extend(index_files(snapshot, indices)?);
    files.retain(|file| !broken.contains(&file.path));
    let looks = files.into_iter().map(|file| runtime::blocking(move || look(file)).boxed());
    let found = runtime::gather(looks.collect()).await?;
    Ok(found.into_iter().flatten().map(|finding| finding.within(snapshot.version())).collect())
}

fn data_files(snapshot: &Arc<Snapshot>, fragments: Option<&[FragmentId]>) -> Result<Vec<BlockFile>> {
    let is_asked = |id: &FragmentId| fragments.is_none_or(|fragments| fragments.contains(id));
    let mut files = Vec::new();
    for fragment in snapshot.manifest.fragments.decode_all().filter(|fragment| is_asked(&fragment.id)) {
        for file in &fragment.files {
            let (store, path) = snapshot.locate("data", &file.path, file.base_id)?;
            let path = store.full_path(&path);
            let (snapshot, file) = (Arc::clone(snapshot), file.clone());
            let open = Box::new(move || snapshot.file_reader_blocking(&file));
            files.push(BlockFile { fragment: Some(fragment.id), open, path });
        }
    }
    Ok(files)
}

/// The files that the entries of indices name.
fn index_files(snapshot: &Arc<Snapshot>, indices: &[IndexMetadata]) -> Result<Vec<BlockFile>> {
    let mut files = Vec::new();
    for entry in indices {
        let parts = IndexParts::of(entry)?;
        let (store, directory) = snapshot.locate("_indices", &parts.uuid.to_string(), parts.base_id)?;
        for (name, size) in parts.files {
            let (store, path) = (Arc::clone(&store), format!("{directory}/{name}"));
            let full_path = store.full_path(&path);
            let open = Box::new(move || FileReader::open(store.source(&path, Some(size))).map(Arc::new));
            files.push(BlockFile { fragment: None, open, path: full_path });
        }
    }
    Ok(files)
}

fn look(BlockFile { fragment, open, path }: BlockFile) -> Result<Vec<Finding>> {
    let finding = |message: String| {
        let finding = Finding::new(FindingKind::DamagedFile, message).at(&path);
        fragment.into_iter().fold(finding, Finding::of)
    };
    let reader = match open() {
        Ok(reader) => reader,
        // A data file has a finding already.
        Err(error) if error.kind() == ErrorKind::Corrupt && fragment.is_some() => return Ok(Vec::new()),
        Err(error) if matches!(error.kind(), ErrorKind::Corrupt | ErrorKind::NotFound) => {
            return Ok(vec![finding(stripped(&error, &path))]);
        }
        // Not every file of an index is of this format.
        Err(error) if error.kind() == ErrorKind::Unsupported && fragment.is_none() => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let blocks = reader.damaged_blocks()?;
    Ok(blocks.iter().map(|block| finding(described(&reader, block))).collect())
}

fn stripped(error: &Error, path: &str) -> String {
    let message = error.to_string();
    message.strip_prefix(&format!("data file {path}: ")).unwrap_or(&message).to_owned()
}

/// The block, and the pages that have bytes in it.
fn described(reader: &FileReader, block: &DamagedBlock) -> String {
    let pages = reader.pages_in(&block.bytes);
    let pages: Vec<String> =
        pages.iter().map(|(column, page)| format!("page {page} of column {column}")).collect();
    if pages.is_empty() { block.to_string() } else { format!("{block} ({})", pages.join(", ")) }
}
