//! What the operating system is asked for: reads at positions, complete files under their names, syncs.

use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::ops::Range;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

use bytes::Bytes;
use pennon_core::manifest::Timestamp;
use pennon_core::{Error, Result};
use rustix::buffer::spare_capacity;
use rustix::fs::OFlags;

use super::trace::{self, DiskChange};
use super::{Durability, FileInfo};

pub(super) fn read_at(file: &File, full: &Path, range: Range<u64>) -> Result<Bytes> {
    let length = range.end.saturating_sub(range.start);
    // An end beyond the file must not decide how much is allocated.
    if length > 1 << 20 {
        let size = file.metadata().map_err(|e| io_error(full, e))?.len();
        if range.end > size {
            return Err(cut_short(full, &range, size));
        }
    }
    let length = usize::try_from(length).map_err(|_| cut_short(full, &range, 0))?;
    // Memory that was not set to zero before: for a large read that takes half as long as reading it.
    let mut bytes = Vec::with_capacity(length);
    while bytes.len() < length {
        let at = range.start.saturating_add(u64::try_from(bytes.len()).unwrap_or(u64::MAX));
        match rustix::io::pread(file, spare_capacity(&mut bytes), at) {
            Ok(0) => return Err(cut_short(full, &range, file.metadata().map_or(0, |m| m.len()))),
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(e) => return Err(io_error(full, e.into())),
        }
    }
    bytes.truncate(length);
    Ok(bytes.into())
}

pub(super) fn cut_short(full: &Path, range: &Range<u64>, size: u64) -> Error {
    let Range { start, end } = range;
    Error::corrupt(format!("{}: bytes {start}..{end} are needed, the file has {size}", full.display()))
}

/// Options to write a file with that name, and not the one that a symbolic link of that name leads to.
pub(super) fn without_links() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.write(true).custom_flags(OFlags::NOFOLLOW.bits().cast_signed());
    options
}

/// Creates the file with its content. `make_parent` is called if the directory is missing.
pub(super) fn write_file(
    path: &Path,
    bytes: &[u8],
    durability: Durability,
    make_parent: impl Fn() -> Result<()>,
) -> Result<()> {
    let create = || without_links().create(true).truncate(true).open(path);
    let file = match create() {
        Err(e) if e.kind() == ErrorKind::NotFound => {
            make_parent()?;
            create()
        }
        other => other,
    };
    file.and_then(|mut file| {
        file.write_all(bytes)?;
        trace::written(path);
        if durability == Durability::Full { sync(&file, path) } else { Ok(()) }
    })
    .map_err(|e| io_error(path, e))
}

/// Gives a complete temporary file its final name unless that is taken.
pub(super) fn publish(temporary: &Path, target: &Path) -> Result<bool> {
    let error = match fs::hard_link(temporary, target) {
        Err(e) if matches!(e.kind(), ErrorKind::Unsupported | ErrorKind::PermissionDenied) => {
            match rename_unless_taken(temporary, target) {
                Ok(()) => {
                    trace::changed(target, || DiskChange::Rename(temporary.to_owned(), target.to_owned()));
                    return Ok(true);
                }
                Err(e) if matches!(e.kind(), ErrorKind::Unsupported | ErrorKind::InvalidInput) => {
                    return Err(Error::unsupported(format!(
                        "{}: the file system can neither link a file nor rename it without replacing another one. \
                         Keep the versions in an external manifest store: file+sqlite://",
                        target.display()
                    )));
                }
                Err(e) => e,
            }
        }
        Ok(()) => {
            trace::changed(target, || DiskChange::Link(temporary.to_owned(), target.to_owned()));
            return Ok(true);
        }
        Err(e) => e,
    };
    if error.kind() == ErrorKind::AlreadyExists { Ok(false) } else { Err(io_error(target, error)) }
}

pub(super) fn rename_unless_taken(from: &Path, to: &Path) -> io::Result<()> {
    use rustix::fs::{CWD, RenameFlags, renameat_with};
    renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE).map_err(io::Error::from)
}

pub(super) fn rename(from: &Path, to: &Path) -> Result<()> {
    fs::rename(from, to).map_err(|e| io_error(to, e))?;
    trace::changed(to, || DiskChange::Rename(from.to_owned(), to.to_owned()));
    Ok(())
}

pub(super) fn remove(path: &Path) -> io::Result<()> {
    fs::remove_file(path)?;
    trace::changed(path, || DiskChange::Remove(path.to_owned()));
    Ok(())
}

pub(super) fn sync(file: &File, path: &Path) -> io::Result<()> {
    file.sync_all()?;
    trace::changed(path, || DiskChange::Sync(path.to_owned()));
    Ok(())
}

pub(super) fn sync_parent(path: &Path, durability: Durability) -> Result<()> {
    path.parent().map_or(Ok(()), |parent| sync_directory(parent, durability))
}

pub(super) fn sync_directory(directory: &Path, durability: Durability) -> Result<()> {
    if durability == Durability::Os {
        return Ok(());
    }
    File::open(directory).and_then(|opened| sync(&opened, directory)).map_err(|e| io_error(directory, e))
}

pub(super) fn file_info(metadata: &Metadata) -> FileInfo {
    let nanos = u32::try_from(metadata.ctime_nsec()).unwrap_or(0);
    FileInfo {
        size: metadata.len(),
        e_tag: None,
        stamp: format!("{}.{}-{}", metadata.mtime(), metadata.mtime_nsec(), metadata.ino()),
        changed: Timestamp { seconds: metadata.ctime(), nanos },
    }
}

pub(super) fn is_absent(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory)
}

pub(super) fn io_error(path: &Path, error: io::Error) -> Error {
    let text = format!("{}: {error}", path.display());
    let typed = match error.kind() {
        ErrorKind::NotFound | ErrorKind::NotADirectory => {
            Error::not_found(format!("Not found: {}", path.display()))
        }
        _ => Error::store(text),
    };
    typed.with_source(error)
}
