//! Segments that were built apart: merged, and committed as one index.

use std::sync::Arc;

use futures::FutureExt;
use pennon_core::apply::uncover_older_values;
use pennon_core::manifest::IndexMetadata;
use pennon_core::wire::index_parts::IndexParts;
use pennon_core::{Error, Result};
use roaring::RoaringBitmap;
use tracing::instrument;

use super::kind_of;
use super::optimize::IndexChange;
use crate::commit::indexed_versions;
use crate::dataset::Dataset;
use crate::indices::segments;
use crate::runtime::{blocking, gather};
use crate::versions::snapshot::Snapshot;

impl Dataset {
    /// Commits segments that were built apart as the index of a name, in place of the segments that it has, and moves to
    /// the new version. They do not cover fragments in which values of the column were replaced since they were built.
    ///
    /// Errors: `InvalidInput` for no segments, segments of several kinds, of another column or of a later version, and
    /// fragments that two of them cover; `NotFound` for segments whose files this table or branch does not have;
    /// `AlreadyExists` for a name of an index over another column; `Conflict`.
    #[instrument(level = "debug", skip_all, fields(table = self.uri(), version = %self.version()))]
    pub async fn commit_index_segments(
        &mut self,
        name: &str,
        column: &str,
        segments: Vec<IndexMetadata>,
    ) -> Result<()> {
        let field = self.indexed_field(column)?;
        check_together(&segments)?;
        if let Some(other) = segments.iter().find(|segment| segment.fields != [field.id]) {
            return Err(Error::invalid_input(format!(
                "segment {} is over the fields {:?}, expected [{}] for the column '{column}'",
                other.uuid, other.fields, field.id
            )));
        }
        let checks = segments.iter().map(|segment| check_built_here(self.snapshot(), segment).boxed());
        gather(checks.collect()).await?;
        let replaced = self.segments_of(name).await?;
        if replaced.iter().any(|entry| entry.fields != [field.id]) {
            return Err(Error::already_exists(format!(
                "Index name '{name}' already exists with different fields, please specify a different name"
            )));
        }
        let renamed = |segment: &IndexMetadata| {
            let parts = IndexParts::of(segment)?;
            IndexParts { name: name.to_owned(), ..parts }.entry()
        };
        let new = segments.iter().map(renamed).collect::<Result<Vec<_>>>()?;
        self.commit_indices(new, replaced, Vec::new()).await
    }

    /// Makes one segment of several that are not committed. The rows of fragments that this version does not have any more,
    /// or in which values of the column were replaced since a part was built, are left out.
    ///
    /// Errors: those of [`Self::commit_index_segments`]; `Unsupported` for kinds that cannot be made; those of reading and
    /// writing.
    #[instrument(level = "debug", skip_all, fields(table = self.uri(), version = %self.version()))]
    pub async fn merge_index_segments(&self, mut parts: Vec<IndexMetadata>) -> Result<IndexMetadata> {
        check_together(&parts)?;
        let indexed = indexed_versions(self.snapshot(), &parts, self.version()).await?;
        // The merged segment says that it has the values of this version.
        uncover_older_values(&mut parts, &indexed, self.manifest())?;
        let (read, known) = (Arc::clone(self.snapshot()), parts.clone());
        let merged = blocking(move || segments(&read, &known)).await?;
        if merged.len() < parts.len() {
            return Err(Error::unsupported(format!(
                "{} of {} segments can be read and cover fragments of version {}",
                merged.len(),
                parts.len(),
                self.version()
            )));
        }
        let name = parts.first().map(|segment| segment.name.clone()).unwrap_or_default();
        let entries: Vec<&IndexMetadata> = parts.iter().collect();
        let like = merged.first().cloned();
        let change = IndexChange { removed: Vec::new(), merged, fragments: Vec::new(), like };
        Ok(self.remake(&name, &entries, change).await?.0)
    }
}

/// Errors: `InvalidInput` for a segment of a later version than this one, `NotFound` for one whose files are not there.
async fn check_built_here(snapshot: &Snapshot, segment: &IndexMetadata) -> Result<()> {
    let (uuid, current) = (segment.uuid, snapshot.version());
    let root = snapshot.store.root();
    if segment.dataset_version > current {
        return Err(Error::invalid_input(format!(
            "segment {uuid} was built at version {}, expected version {current} of {root} or one before it",
            segment.dataset_version
        )));
    }
    let parts = IndexParts::of(segment)?;
    let (store, directory) = snapshot.locate("_indices", &uuid.to_string(), parts.base_id)?;
    let found = store.list(&directory).await?;
    let missing =
        parts.files.iter().map(|(name, _)| name.as_str()).find(|name| !found.iter().any(|f| f == name));
    match missing.or(found.is_empty().then_some("file")) {
        None => Ok(()),
        Some(name) => Err(Error::not_found(format!(
            "segment {uuid} has no {name} in {}, expected a segment that was built in {root}",
            store.full_path(&directory)
        ))),
    }
}

/// Errors: `InvalidInput` unless these can be segments of one index.
fn check_together(segments: &[IndexMetadata]) -> Result<()> {
    let Some(first) = segments.first() else {
        return Err(Error::invalid_input("no segments were given, expected at least one"));
    };
    let kind = kind_of(&IndexParts::of(first)?).0;
    let mut covered = RoaringBitmap::new();
    for segment in segments {
        let found = kind_of(&IndexParts::of(segment)?).0;
        if found != kind {
            return Err(Error::invalid_input(format!(
                "segment {} has the kind {}, the first one has the kind {}",
                segment.uuid,
                found.name(),
                kind.name()
            )));
        }
        let Some(fragments) = &segment.fragments else {
            return Err(Error::invalid_input(format!(
                "segment {} does not say which fragments it covers",
                segment.uuid
            )));
        };
        if !covered.is_disjoint(fragments) {
            return Err(Error::invalid_input(format!(
                "segment {} covers the fragments {:?}, which another segment covers, too",
                segment.uuid,
                Vec::from_iter(&covered & fragments)
            )));
        }
        covered |= fragments;
    }
    Ok(())
}
