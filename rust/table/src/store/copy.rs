//! Files copied from one store to another one.

use pennon_core::{Error, Result};

use super::{Durability, Store};

/// Bytes of a file that are read at once.
const CHUNK: u64 = 8 << 20;

/// Copies a file, which appears when it is complete, also over one of that name. Blocks on both stores.
pub(crate) fn copy(from: &Store, path: &str, target: &Store, to: &str, durability: Durability) -> Result<()> {
    let source = from.source(path, None);
    let size = source.size()?;
    let mut sink = target.replacing_sink(to, durability)?;
    let mut start = 0;
    while start < size {
        let range = start..size.min(start.saturating_add(CHUNK));
        start = range.end;
        for bytes in source.read(&[range])? {
            sink.write_all(&bytes)
                .map_err(|e| Error::store(format!("{}: {e}", target.full_path(to))).with_source(e))?;
        }
    }
    sink.finish(durability)
}
