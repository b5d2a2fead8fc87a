//! Indices that cannot be read: said once, and done without, unless the caller is strict.

use pennon_core::manifest::IndexMetadata;
use pennon_core::wire::index_parts::IndexParts;
use pennon_core::{Error, ErrorKind, FieldId, Result};
use pennon_index::IndexKind;
use tracing::{debug, warn};
use uuid::Uuid;

use crate::versions::snapshot::Snapshot;

/// Whether an index cannot be read for what it is: the rows that it covers can be scanned all the same.
pub(crate) fn is_about_the_index(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::NotFound | ErrorKind::Corrupt | ErrorKind::Unsupported)
}

/// Says that the rows of a segment are scanned because its files cannot be read: as a warning once in a session.
pub(crate) fn pass_over(snapshot: &Snapshot, index: &str, uuid: Uuid, error: &Error) {
    let table = snapshot.store.root();
    if snapshot.session().is_first(&format!("{table}#{uuid}")) {
        warn!(table, index, %uuid, %error, "an index cannot be read: its rows are scanned");
    } else {
        debug!(table, index, %uuid, %error, "an index cannot be read: its rows are scanned");
    }
}

/// The same of whatever all indices of a version depend on.
pub(crate) fn pass_over_all(snapshot: &Snapshot, error: &Error) {
    let table = snapshot.store.root();
    if snapshot.session().is_first(&format!("{table}#{error}")) {
        warn!(table, %error, "indices cannot be read: all rows are scanned");
    } else {
        debug!(table, %error, "indices cannot be read: all rows are scanned");
    }
}

/// An error of a search, and the segment if it is about files of one.
#[derive(Debug)]
pub(crate) struct SearchError {
    pub(crate) segment: Option<Uuid>,
    pub(crate) error: Error,
}

impl From<Error> for SearchError {
    fn from(error: Error) -> Self {
        Self { segment: None, error }
    }
}

/// That the files of an entry have a newer version than this release reads, if so.
pub(super) fn newer(entry: &IndexMetadata, kind: IndexKind, version: i32) -> Option<Error> {
    let newest = kind.newest_version().filter(|newest| version > *newest)?;
    Some(Error::unsupported(format!(
        "_indices/{}: the files of the index `{}` have the version {version} of {}, expected {newest} at most: use a \
         newer release",
        entry.uuid,
        entry.name,
        kind.name()
    )))
}

/// Errors: `Unsupported` if an index over one of these fields has files of a newer version than this release reads.
pub(crate) fn check_versions(entries: &[IndexMetadata], fields: &[FieldId]) -> Result<()> {
    for entry in entries.iter().filter(|entry| !entry.is_system()) {
        if !entry.fields.iter().any(|field| fields.contains(field)) {
            continue;
        }
        let parts = IndexParts::of(entry)?;
        let names: Vec<&str> = parts.files.iter().map(|(name, _)| name.as_str()).collect();
        let kind = IndexKind::of_details(parts.details.as_ref().map(|(url, _)| url.as_str()), &names);
        if let Some(error) = newer(entry, kind, parts.index_version.unwrap_or(0)) {
            return Err(error);
        }
    }
    Ok(())
}
