//! What a test sees of the local disk: each change, in its order. Nothing outside of tests.

use std::path::PathBuf;

/// A change of the disk.
#[cfg_attr(not(test), expect(dead_code, reason = "read by tests only"))]
#[derive(Debug, Clone)]
pub(super) enum Event {
    /// A directory was made.
    Directory(PathBuf),
    /// A file was made or filled; its content is what it has now.
    Write(PathBuf),
    /// A second name.
    Link(PathBuf, PathBuf),
    /// Another name, in the place of a file that had it.
    Rename(PathBuf, PathBuf),
    /// A name was removed.
    Remove(PathBuf),
    /// A file's content or a directory's names survive a power cut.
    Sync(PathBuf),
}

#[cfg(not(test))]
pub(super) fn event(_: impl FnOnce() -> Event) {}

#[cfg(test)]
pub(super) fn event(event: impl FnOnce() -> Event) {
    super::crash_tests::observe(event());
}
