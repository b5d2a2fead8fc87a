//! The files of a segment, and its decoded pages in the session.

use std::sync::Arc;

use pennon_core::transaction::Operation;
use pennon_core::wire::index_parts::IndexParts;
use pennon_core::{Error, Result};
use pennon_datafile::ByteSource;
use pennon_index::{BTreePage, IndexFiles, PageCache};

use crate::runtime::{processors, shared};
use crate::session::{EntryKind, Session};
use crate::store::Store;
use crate::versions::snapshot::Snapshot;

/// Lists the files of new entries that do not have them: all below the directory. By these an entry without details is
/// known for a B-tree.
///
/// Errors: those of reading; `InvalidInput` for an entry under a base path that the version does not have.
pub(crate) async fn list_files(snapshot: &Snapshot, operation: &mut Operation) -> Result<()> {
    let Operation::CreateIndex(create) = operation else { return Ok(()) };
    for entry in create.new_indices.iter_mut().filter(|entry| !entry.is_system()) {
        let mut parts = IndexParts::of(entry)?;
        if !parts.files.is_empty() {
            continue;
        }
        if let Some(id) = parts.base_id
            && !snapshot.manifest.base_paths.iter().any(|base| base.id == id)
        {
            let (name, table) = (&parts.name, snapshot.store.root());
            return Err(Error::invalid_input(format!(
                "the index {name} lies under base path {id}, which is not registered in {table}"
            )));
        }
        let (store, directory) = snapshot.locate("_indices", &parts.uuid.to_string(), parts.base_id)?;
        let listed = store.list_below(&directory).await?;
        parts.files.extend(listed.into_iter().filter_map(|file| {
            let name = file.path.strip_prefix(&directory)?.strip_prefix('/')?;
            Some((name.to_owned(), file.size))
        }));
        parts.files.sort_unstable();
        *entry = parts.entry()?;
    }
    Ok(())
}

/// Where the files of a segment are.
#[derive(Debug, Clone)]
pub(super) struct SegmentFiles {
    store: Arc<Store>,
    directory: String,
    /// What the session calls them: by the directory, how it is read and when they were made. A uuid may be given again.
    name: String,
    sizes: Vec<(String, u64)>,
}

impl SegmentFiles {
    pub(super) fn new(snapshot: &Snapshot, parts: &IndexParts) -> Result<Self> {
        let (store, directory) = snapshot.locate("_indices", &parts.uuid.to_string(), parts.base_id)?;
        let made = parts.created_at.unwrap_or(0);
        let name = format!("{}@{made}", store.reader_name(&directory));
        Ok(Self { store, directory, name, sizes: parts.files.clone() })
    }

    /// The path of a file, and its size if the entry has it.
    fn file(&self, name: &str) -> (String, Option<u64>) {
        let size = self.sizes.iter().find(|(file, _)| file == name).map(|(_, size)| *size);
        (format!("{}/{name}", self.directory), size)
    }

    /// Errors: `NotFound` for a file of the entry that is not there; `Store`.
    pub(super) fn check(&self) -> Result<()> {
        for (name, _) in &self.sizes {
            let (path, _) = self.file(name);
            if !self.store.wait(self.store.exists(&path))?? {
                return Err(Error::not_found("a file of an index").in_file(self.store.full_path(&path)));
            }
        }
        Ok(())
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn full_directory(&self) -> String {
        self.store.full_path(&self.directory)
    }
}

impl IndexFiles for SegmentFiles {
    fn open(&self, name: &str) -> Result<Arc<dyn ByteSource>> {
        let (path, size) = self.file(name);
        Ok(self.store.source(&path, size))
    }

    fn open_with_ends(&self, files: &[(&str, u64)]) -> Result<Vec<Arc<dyn ByteSource>>> {
        let file = |(name, wanted): &(&str, u64)| {
            let (path, size) = self.file(name);
            (path, size, *wanted)
        };
        self.store.sources_with_ends(files.iter().map(file).collect())
    }
}

/// Pages of a segment that the session keeps.
pub(crate) struct SessionPages<'a> {
    pub(super) session: &'a Session,
    /// What the session calls the files of the segment.
    pub(super) name: &'a str,
}

impl PageCache for SessionPages<'_> {
    fn get(&self, page: u32) -> Option<Arc<BTreePage>> {
        self.session.get(EntryKind::IndexPage(page), self.name)
    }

    fn put(&self, page: u32, content: &Arc<BTreePage>) {
        let bytes = content.memory_bytes() + self.name.len() + 64;
        self.session.put(EntryKind::IndexPage(page), self.name, content, bytes);
    }

    fn on_threads(&self, most: usize, work: &(dyn Fn() -> Result<()> + Sync)) -> Result<()> {
        shared(processors().min(most), work)
    }
}
