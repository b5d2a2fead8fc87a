//! The local disk, with `std::fs`.
//!
//! | step of a durable publish | why |
//! |---|---|
//! | write `.tmp_<name>_<uuid>` next to the target, sync it | no reader sees half a file |
//! | hard-link it to the target | fails if the name exists: this is the put-if-absent |
//! | unlink the temporary name, sync the directory | the new name survives a power cut |
//!
//! File systems without hard links rename, if they can do that without replacing. A directory that had to be created
//! has its parent synced too. Files that are published together are synced concurrently, and each of their directories
//! once. Files read at positions are kept open (`open_files`).
//!
//! Calls that touch names or few bytes and do not sync are made on the calling thread: to hand them to another one
//! takes longer than they do.

use std::collections::BTreeSet;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, ErrorKind, Read};
use std::ops::Range;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use pennon_core::manifest::Timestamp;
use pennon_core::{Error, Result};
use pennon_datafile::{ByteSource, VerifyReads};
use tracing::trace_span;

use super::disk::{
    file_info, io_error, is_absent, publish, read_at, remove, rename, sync, sync_directory, sync_parent,
    without_links, write_file,
};
use super::local_sink::LocalSink;
use super::object::coalesce;
use super::open_files::OpenFiles;
use super::trace::{self, DiskChange};
use super::{Durability, FileEnd, FileInfo, ListedFile, Sink, links};
use crate::runtime::{self, Metrics, concurrently};

/// Ranges closer than this are read at once: copying half a page costs less than another system call.
const COALESCE: u64 = 2 * 1024;
/// What is read or written at most on the calling thread.
const SHORT: u64 = 256 * 1024;
/// A directory of up to this size, as the file system counts it, is listed on the calling thread: about 300 names.
const SHORT_DIRECTORY: u64 = 16 * 1024;
/// Files synced at a time: the file system writes its journal once for all of them.
const SYNCS: usize = 16;
/// Buffer between the encoder and the file.
const WRITE_BUFFER: usize = 1 << 20;

#[derive(Debug)]
pub(super) struct LocalStore {
    root: PathBuf,
    open: OpenFiles,
    verify_reads: VerifyReads,
    metrics: Arc<Metrics>,
}

impl LocalStore {
    pub(super) fn new(root: PathBuf, verify_reads: VerifyReads, metrics: Arc<Metrics>) -> Self {
        Self { root, open: OpenFiles::new(), verify_reads, metrics }
    }

    /// Runs a call on a blocking thread.
    pub(super) async fn run<T: Send + 'static>(
        self: &Arc<Self>,
        path: &str,
        call: impl FnOnce(&Self, &str) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let (local, path) = (Arc::clone(self), path.to_owned());
        runtime::blocking(move || call(&local, &path)).await
    }

    /// Runs a call that reads or writes that many bytes, here if it is short.
    pub(super) async fn run_sized<T: Send + 'static>(
        self: &Arc<Self>,
        path: &str,
        bytes: u64,
        call: impl FnOnce(&Self, &str) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        if bytes <= SHORT { call(self, path) } else { self.run(path, call).await }
    }

    fn resolve(&self, path: &str) -> PathBuf {
        if path.is_empty() { self.root.clone() } else { self.root.join(path) }
    }

    pub(super) fn root(&self) -> &Path {
        &self.root
    }

    fn error(&self, path: &str, error: io::Error) -> Error {
        io_error(&self.resolve(path), error)
    }

    pub(super) fn get(&self, path: &str) -> Result<Bytes> {
        let bytes = fs::read(self.resolve(path)).map_err(|e| self.error(path, e))?;
        self.metrics.add_read(bytes.len());
        Ok(bytes.into())
    }

    /// The whole file if it is short.
    pub(super) fn get_short(&self, path: &str) -> Result<Option<Bytes>> {
        let full = self.resolve(path);
        let mut file = File::open(&full).map_err(|e| io_error(&full, e))?;
        let size = file.metadata().map_err(|e| io_error(&full, e))?.len();
        if size > SHORT {
            return Ok(None);
        }
        let mut bytes = Vec::with_capacity(usize::try_from(size).unwrap_or(0));
        file.read_to_end(&mut bytes).map_err(|e| io_error(&full, e))?;
        self.metrics.add_read(bytes.len());
        Ok(Some(bytes.into()))
    }

    pub(super) fn get_range(&self, path: &str, range: Range<u64>) -> Result<Bytes> {
        let full = self.resolve(path);
        let file = File::open(&full).map_err(|e| io_error(&full, e))?;
        self.read_at(&file, &full, range)
    }

    pub(super) fn get_end(&self, path: &str, length: u64) -> Result<FileEnd> {
        let full = self.resolve(path);
        let mut file = File::open(&full).map_err(|e| io_error(&full, e))?;
        let info = file_info(&file.metadata().map_err(|e| io_error(&full, e))?);
        let size = info.size;
        if size <= length {
            let mut bytes = Vec::with_capacity(usize::try_from(size).unwrap_or(0));
            file.read_to_end(&mut bytes).map_err(|e| io_error(&full, e))?;
            self.metrics.add_read(bytes.len());
            let size = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
            return Ok(FileEnd { bytes: bytes.into(), info: FileInfo { size, ..info } });
        }
        Ok(FileEnd { bytes: self.read_at(&file, &full, size - length..size)?, info })
    }

    pub(super) fn info(&self, path: &str) -> Result<Option<FileInfo>> {
        self.metrics.add_read(0);
        match fs::metadata(self.resolve(path)) {
            Ok(metadata) => Ok(Some(file_info(&metadata))),
            Err(e) if is_absent(&e) => Ok(None),
            Err(e) => Err(self.error(path, e)),
        }
    }

    /// Whether listing a directory takes no longer than handing the call to another thread.
    pub(super) fn is_short(&self, directory: &str) -> bool {
        fs::metadata(self.resolve(directory)).map_or(true, |metadata| metadata.len() <= SHORT_DIRECTORY)
    }

    pub(super) fn list(&self, directory: &str) -> Result<Vec<String>> {
        self.metrics.add_read(0);
        let entries = match fs::read_dir(self.resolve(directory)) {
            Ok(entries) => entries,
            Err(e) if is_absent(&e) => return Ok(Vec::new()),
            Err(e) => return Err(self.error(directory, e)),
        };
        let mut names = Vec::new();
        for entry in entries {
            // A name that is not UTF-8 is none of ours.
            if let Ok(name) = entry.map_err(|e| self.error(directory, e))?.file_name().into_string() {
                names.push(name);
            }
        }
        Ok(names)
    }

    pub(super) fn list_below(&self, directory: &str) -> Result<Vec<ListedFile>> {
        let (mut found, mut waiting) = (Vec::new(), vec![directory.to_owned()]);
        while let Some(at) = waiting.pop() {
            self.metrics.add_read(0);
            let entries = match fs::read_dir(self.resolve(&at)) {
                Ok(entries) => entries,
                Err(e) if is_absent(&e) => continue,
                Err(e) => return Err(self.error(&at, e)),
            };
            for entry in entries {
                let entry = entry.map_err(|e| self.error(&at, e))?;
                let Ok(name) = entry.file_name().into_string() else { continue };
                let path = if at.is_empty() { name } else { format!("{at}/{name}") };
                let metadata = match entry.metadata() {
                    Ok(metadata) => metadata,
                    Err(e) if is_absent(&e) => continue,
                    Err(e) => return Err(self.error(&path, e)),
                };
                if metadata.is_dir() {
                    waiting.push(path);
                } else if metadata.is_file() {
                    let nanos = u32::try_from(metadata.mtime_nsec()).unwrap_or(0);
                    let modified = Timestamp { seconds: metadata.mtime(), nanos };
                    found.push(ListedFile { path, size: metadata.len(), modified });
                }
            }
        }
        Ok(found)
    }

    pub(super) fn put(&self, path: &str, bytes: &[u8], durability: Durability) -> Result<()> {
        self.metrics.add_write(bytes.len());
        let target = self.resolve(path);
        let temporary = self.temporary(&target)?;
        let written = write_file(&temporary, bytes, durability, || self.make_parent(&target, durability))
            .and_then(|()| rename(&temporary, &target));
        if written.is_err() {
            let _ = remove(&temporary);
        }
        self.forget(path);
        written.and_then(|()| sync_parent(&target, durability))
    }

    /// Writes over a short file of the same length, else as [`Self::put`]. A power cut or a reader meanwhile may find
    /// anything in it; but no name and no file is made.
    pub(super) fn put_over(&self, path: &str, bytes: &[u8]) -> Result<()> {
        let target = self.resolve(path);
        if let Ok(file) = without_links().open(&target)
            && file.metadata().is_ok_and(|metadata| usize::try_from(metadata.len()).ok() == Some(bytes.len()))
        {
            self.metrics.add_write(bytes.len());
            file.write_all_at(bytes, 0).map_err(|e| io_error(&target, e))?;
            trace::written(&target);
            return Ok(());
        }
        self.put(path, bytes, Durability::Os)
    }

    pub(super) fn put_new(&self, files: &[(String, Bytes)], durability: Durability) -> Result<()> {
        for (path, bytes) in files {
            self.metrics.add_write(bytes.len());
            let target = self.resolve(path);
            write_file(&target, bytes, Durability::Os, || self.make_parent(&target, durability))?;
        }
        self.sync_new(files.iter().map(|(path, _)| path.as_str()), durability)
    }

    /// Makes files durable that were written and not synced, then their names.
    pub(super) fn sync_new<'a>(
        &self,
        paths: impl Iterator<Item = &'a str>,
        durability: Durability,
    ) -> Result<()> {
        if durability == Durability::Os {
            return Ok(());
        }
        let files: Vec<PathBuf> = paths.map(|path| self.resolve(path)).collect();
        let next = AtomicUsize::new(0);
        let sync_some = |_| {
            while let Some(path) = files.get(next.fetch_add(1, Ordering::Relaxed)) {
                File::open(path).and_then(|file| sync(&file, path)).map_err(|e| io_error(path, e))?;
            }
            Ok(())
        };
        concurrently(files.len().min(SYNCS), sync_some)?;
        let directories: BTreeSet<&Path> = files.iter().filter_map(|path| path.parent()).collect();
        directories.into_iter().try_for_each(|directory| sync_directory(directory, durability))
    }

    pub(super) fn put_if_absent(&self, path: &str, bytes: &[u8], durability: Durability) -> Result<bool> {
        self.metrics.add_write(bytes.len());
        let target = self.resolve(path);
        let temporary = self.temporary(&target)?;
        let written = write_file(&temporary, bytes, durability, || self.make_parent(&target, durability))
            .and_then(|()| publish(&temporary, &target));
        let _ = remove(&temporary);
        let published = written?;
        if published {
            sync_parent(&target, durability)?;
        }
        Ok(published)
    }

    pub(super) fn sync(&self, path: &str, durability: Durability) -> Result<()> {
        let target = self.resolve(path);
        if durability == Durability::Full {
            File::open(&target).and_then(|file| sync(&file, &target)).map_err(|e| io_error(&target, e))?;
        }
        sync_parent(&target, durability)
    }

    pub(super) fn delete(&self, path: &str) -> Result<()> {
        self.metrics.add_write(0);
        self.forget(path);
        if let Some((directory, _)) = path.rsplit_once('/') {
            links::refuse(&self.root, directory)?;
        }
        match remove(&self.resolve(path)) {
            Err(e) if !is_absent(&e) => Err(self.error(path, e)),
            _ => Ok(()),
        }
    }

    /// Makes durable that a file is not there any more.
    pub(super) fn sync_removal(&self, path: &str, durability: Durability) -> Result<()> {
        match sync_parent(&self.resolve(path), durability) {
            Err(error) if error.is_not_found() => Ok(()),
            synced => synced,
        }
    }

    pub(super) fn delete_all(&self) -> Result<bool> {
        self.metrics.add_write(0);
        self.open.clear();
        match fs::remove_dir_all(&self.root) {
            Ok(()) => Ok(true),
            Err(e) if is_absent(&e) => Ok(false),
            Err(e) => Err(self.error("", e)),
        }
    }

    pub(super) fn source(this: &Arc<Self>, path: &str, size: Option<u64>) -> Arc<dyn ByteSource> {
        let full = this.resolve(path);
        let name = full.to_string_lossy().into_owned();
        Arc::new(LocalSource { store: Arc::clone(this), full, name, path: path.to_owned(), size })
    }

    pub(super) fn sink(&self, path: &str, durability: Durability) -> Result<Box<dyn Sink>> {
        self.new_sink(self.resolve(path), None, durability)
    }

    pub(super) fn replacing_sink(&self, path: &str, durability: Durability) -> Result<Box<dyn Sink>> {
        let target = self.resolve(path);
        if target.is_dir() {
            return Err(Error::store(format!("{}: it is a directory", target.display())));
        }
        self.new_sink(self.temporary(&target)?, Some(target), durability)
    }

    fn new_sink(
        &self,
        full: PathBuf,
        target: Option<PathBuf>,
        durability: Durability,
    ) -> Result<Box<dyn Sink>> {
        let create = || OpenOptions::new().write(true).create_new(true).open(&full);
        let file = match create() {
            Err(e) if e.kind() == ErrorKind::NotFound => {
                self.make_parent(&full, durability)?;
                create()
            }
            other => other,
        }
        .map_err(|e| io_error(&full, e))?;
        Ok(Box::new(LocalSink {
            file: Some(BufWriter::with_capacity(WRITE_BUFFER, file)),
            full,
            target,
            complete: false,
            metrics: Arc::clone(&self.metrics),
            written: 0,
        }))
    }

    fn temporary(&self, target: &Path) -> Result<PathBuf> {
        let name = target.file_name().and_then(|n| n.to_str());
        let name = name.ok_or_else(|| Error::internal(format!("{}: not a file name", target.display())))?;
        Ok(target.with_file_name(format!(".tmp_{name}_{}", runtime::uuid().simple())))
    }

    /// Creates the directory of a file with all above it.
    fn make_parent(&self, target: &Path, durability: Durability) -> Result<()> {
        let Some(parent) = target.parent() else { return Ok(()) };
        let missing: Vec<&Path> = parent.ancestors().take_while(|p| !p.exists()).collect();
        fs::create_dir_all(parent).map_err(|e| io_error(parent, e))?;
        for directory in missing.iter().rev() {
            trace::changed(directory, || DiskChange::CreateDirectory(directory.to_path_buf()));
        }
        // A new directory is an entry of its parent: sync from the outermost inwards.
        missing.into_iter().rev().try_for_each(|directory| sync_parent(directory, durability))
    }

    /// Removes an empty directory; one that is not empty is kept.
    pub(super) fn remove_empty_directory(&self, path: &str) {
        if links::refuse(&self.root, path).is_err() {
            return;
        }
        let directory = self.resolve(path);
        if fs::remove_dir(&directory).is_ok() {
            trace::changed(&directory, || DiskChange::RemoveDirectory(directory.clone()));
        }
    }

    /// The file, opened now or before.
    pub(super) fn file(&self, path: &str, full: &Path) -> Result<Arc<File>> {
        if let Some(file) = self.open.get(path) {
            return Ok(file);
        }
        let opened = match File::open(full) {
            // EMFILE, ENFILE: there are no descriptors left; close ours before giving up.
            Err(e) if matches!(e.raw_os_error(), Some(23 | 24)) => {
                self.open.clear();
                File::open(full)
            }
            other => other,
        };
        let file = Arc::new(opened.map_err(|e| io_error(full, e))?);
        self.open.insert(path, &file);
        Ok(file)
    }

    fn forget(&self, path: &str) {
        self.open.remove(path);
    }

    /// [`read_at`], counted.
    pub(super) fn read_at(&self, file: &File, full: &Path, range: Range<u64>) -> Result<Bytes> {
        let bytes = read_at(file, full, range)?;
        self.metrics.add_read(bytes.len());
        Ok(bytes)
    }
}

/// A file that is read in ranges.
#[derive(Debug)]
struct LocalSource {
    store: Arc<LocalStore>,
    full: PathBuf,
    name: String,
    path: String,
    size: Option<u64>,
}

impl ByteSource for LocalSource {
    fn size(&self) -> Result<u64> {
        if let Some(size) = self.size {
            return Ok(size);
        }
        let file = self.store.file(&self.path, &self.full)?;
        Ok(file.metadata().map_err(|e| io_error(&self.full, e))?.len())
    }

    fn read(&self, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        let file = self.store.file(&self.path, &self.full)?;
        let mut parts = Vec::with_capacity(ranges.len());
        for group in coalesce(ranges, COALESCE) {
            let _span = trace_span!("read", path = self.name, range = ?group.span).entered();
            let bytes = self.store.read_at(&file, &self.full, group.span.clone())?;
            group.split(&bytes, &mut parts);
        }
        Ok(parts)
    }

    fn name(&self) -> &str {
        &self.name
    }

    fn is_local(&self) -> bool {
        true
    }

    fn verify_reads(&self) -> VerifyReads {
        self.store.verify_reads
    }
}
