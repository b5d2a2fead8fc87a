//! Wire tests: golden bytes of the reference, round trips, corrupt inputs.

mod arrays;
mod corrupt;
mod golden;
mod pages;
mod round_trip;

use std::ops::Range;
use std::path::Path;

use bytes::Bytes;

/// A file of `tests/golden/table`.
pub(crate) fn golden(name: &str) -> Bytes {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden/table").join(name);
    std::fs::read(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display())).into()
}

/// All of them with this extension.
pub(super) fn goldens(extension: &str) -> Vec<(String, Bytes)> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden/table");
    let mut files: Vec<(String, Bytes)> = std::fs::read_dir(dir)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name.ends_with(extension))
        .map(|name| (name.clone(), golden(&name)))
        .collect();
    files.sort();
    assert!(!files.is_empty());
    files
}

/// The bytes at these positions of a file.
pub(crate) fn part(file: &Bytes, range: &Range<u64>) -> Bytes {
    file.slice(usize::try_from(range.start).unwrap()..usize::try_from(range.end).unwrap())
}
