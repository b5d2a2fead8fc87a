//! Segments that were built apart: merged, and committed as one index.

use std::sync::Arc;

use futures::FutureExt;
use pennon_core::apply::uncover_older;
use pennon_core::manifest::IndexMetadata;
use pennon_core::wire::index_parts::IndexParts;
use pennon_core::wire::vector_index::StorageDetails;
use pennon_core::{Error, Result};
use pennon_index::{IndexKind, Metric, VectorIndexKind};
use roaring::RoaringBitmap;
use tracing::instrument;
use uuid::Uuid;

use super::optimize::IndexChange;
use super::vectors;
use crate::commit::indexed_versions;
use crate::dataset::Dataset;
use crate::indices::{Coverage, kind_of, segments};
use crate::runtime::{blocking, gather};
use crate::versions::snapshot::Snapshot;

impl Dataset {
    /// Commits segments that were built apart as segments of the index of a name, and moves to the new version. They
    /// replace those that it has of the same fragments, and the others are kept. They do not cover fragments in which
    /// values of the column were replaced, or deleted rows restored, since they were built.
    ///
    /// Errors: `InvalidInput` for no segments, segments of another column or of a later version, and fragments that two of
    /// them cover; if they and the segments that are kept are of several kinds or metrics; if they cover some fragments of an
    /// old segment and not all; if they are of another kind than the index and do not cover the whole version. `NotFound` for
    /// segments whose files this table or branch does not have; `AlreadyExists` for a name of an index over another column;
    /// `Conflict`.
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
        let existing = self.segments_of(name).await?;
        if existing.iter().any(|entry| entry.fields != [field.id]) {
            return Err(Error::already_exists(format!(
                "Index name '{name}' already exists with different fields, please specify a different name"
            )));
        }
        let renamed = |segment: &IndexMetadata| {
            let parts = IndexParts::of(segment)?;
            IndexParts { name: name.to_owned(), ..parts }.entry()
        };
        let new = segments.iter().map(renamed).collect::<Result<Vec<_>>>()?;
        let (read, entries) = (Arc::clone(self.snapshot()), self.snapshot().indices().await?);
        let coverage = blocking(move || Coverage::of(&read, &entries)).await?;
        let live: RoaringBitmap = self.manifest().fragments.ids().map(|id| id.0).collect();
        let replaced = replaced_by(&new, existing, &coverage, &live)?;
        self.commit_indices(new, replaced, Vec::new()).await
    }

    /// Makes one segment of several that are not committed. The rows of fragments that this version does not have any more,
    /// or in which values of the column were replaced, or deleted rows restored, since a part was built, are left out.
    /// Parts of which nothing is left are left out too, unless nothing is left of any.
    ///
    /// Errors: those of [`Self::commit_index_segments`]; `Unsupported` for kinds that cannot be made and for product
    /// quantization with several parameters; those of reading and writing.
    #[instrument(level = "debug", skip_all, fields(table = self.uri(), version = %self.version()))]
    pub async fn merge_index_segments(&self, mut parts: Vec<IndexMetadata>) -> Result<IndexMetadata> {
        check_together(&parts)?;
        check_codes(&parts)?;
        let indexed = indexed_versions(self.snapshot(), &parts, self.version()).await?;
        // The merged segment says that it has the values of this version.
        uncover_older(&mut parts, &indexed, self.manifest())?;
        let live: RoaringBitmap = self.manifest().fragments.ids().map(|id| id.0).collect();
        let covers = |part: &IndexMetadata| part.fragments.as_ref().is_some_and(|f| !f.is_disjoint(&live));
        if parts.iter().any(covers) {
            parts.retain(covers);
        }
        let (read, known) = (Arc::clone(self.snapshot()), parts.clone());
        let merged = blocking(move || segments(&read, &known)).await?;
        if merged.len() < parts.len() {
            return Err(Error::unsupported(format!(
                "{} of {} segments can be read and cover fragments of version {}: commit them without merging them, or build \
                 them again",
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

/// The segments of an index that new ones replace; the others are kept.
///
/// Errors: `InvalidInput` for an old segment of which only some fragments are covered, and for one that is kept and cannot
/// be of the same index as the new ones.
fn replaced_by(
    new: &[IndexMetadata],
    existing: Vec<IndexMetadata>,
    coverage: &Coverage,
    live: &RoaringBitmap,
) -> Result<Vec<IndexMetadata>> {
    let covered = new.iter().fold(RoaringBitmap::new(), |all, entry| all | coverage.fragments(entry));
    let (Some(first), Some(old)) = (new.first(), existing.first()) else { return Ok(existing) };
    let (kind, old_kind) = (kind_of(&IndexParts::of(first)?).0, kind_of(&IndexParts::of(old)?).0);
    let missing = live - &covered;
    if kind != old_kind && !missing.is_empty() {
        return Err(Error::invalid_input(format!(
            "index '{}' has the kind {}, the segments have the kind {} and do not cover the fragments {:?}: expected \
             segments of all fragments for another kind",
            old.name,
            old_kind.name(),
            kind.name(),
            Vec::from_iter(missing)
        )));
    }
    let (mut replaced, mut kept) = (Vec::new(), Vec::new());
    for entry in existing {
        let fragments = coverage.fragments(&entry);
        let uncovered = &fragments - &covered;
        if uncovered.is_empty() || new.iter().any(|segment| segment.uuid == entry.uuid) {
            replaced.push(entry);
        } else if uncovered == fragments {
            kept.push(entry);
        } else {
            return Err(Error::invalid_input(format!(
                "segment {} of index '{}' covers the fragments {:?}, the new segments do not cover {:?} of these: \
                 expected all of them or none",
                entry.uuid,
                entry.name,
                Vec::from_iter(fragments),
                Vec::from_iter(uncovered)
            )));
        }
    }
    check_kinds(kept.iter().chain(new))?;
    Ok(replaced)
}

/// Errors: `InvalidInput` unless these can be segments of one index.
fn check_together(segments: &[IndexMetadata]) -> Result<()> {
    if segments.is_empty() {
        return Err(Error::invalid_input("no segments were given, expected at least one"));
    }
    check_kinds(segments)?;
    let mut covered = RoaringBitmap::new();
    for segment in segments {
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

/// Errors: `InvalidInput` for segments of several kinds, and over vectors of several metrics.
fn check_kinds<'a>(segments: impl IntoIterator<Item = &'a IndexMetadata>) -> Result<()> {
    let mut expected: Option<(IndexKind, Uuid)> = None;
    let mut of_vectors: Option<(VectorIndexKind, u32, Uuid)> = None;
    for segment in segments {
        let parts = IndexParts::of(segment)?;
        let found = kind_of(&parts).0;
        let (kind, other) = *expected.get_or_insert((found, segment.uuid));
        if found != kind {
            return Err(Error::invalid_input(format!(
                "segment {} has the kind {}, expected {}, that of segment {other}",
                segment.uuid,
                found.name(),
                kind.name()
            )));
        }
        if found != IndexKind::Vector {
            continue;
        }
        // An entry without details does not say what it is.
        let Some((found, details)) = vectors::description(&parts)? else { continue };
        let (kind, metric, other) = *of_vectors.get_or_insert((found, details.metric, segment.uuid));
        if found != kind {
            return Err(Error::invalid_input(format!(
                "segment {} has the kind {found}, expected {kind}, that of segment {other}",
                segment.uuid
            )));
        }
        if details.metric != metric {
            let name = |number| Metric::numbered(number).map_or("unknown", Metric::name);
            return Err(Error::invalid_input(format!(
                "segment {} has the metric {}, expected {}, that of segment {other}",
                segment.uuid,
                name(details.metric),
                name(metric)
            )));
        }
    }
    Ok(())
}

/// Errors: `Unsupported` for segments whose product quantization has several parameters.
fn check_codes(segments: &[IndexMetadata]) -> Result<()> {
    let mut expected = None;
    for segment in segments {
        let parts = IndexParts::of(segment)?;
        if kind_of(&parts).0 != IndexKind::Vector {
            continue;
        }
        let described = vectors::description(&parts)?;
        let Some(StorageDetails::Product { num_bits, num_sub_vectors }) =
            described.and_then(|(_, details)| details.storage)
        else {
            continue;
        };
        let found = (num_bits, num_sub_vectors);
        let (codes, other) = *expected.get_or_insert((found, segment.uuid));
        if found != codes {
            let text = |(bits, codes)| format!("{codes} sub-vectors of {bits} bits");
            return Err(Error::unsupported(format!(
                "segment {} has {}, expected {}, that of segment {other}: build one of them again, or commit them as they are",
                segment.uuid,
                text(found),
                text(codes)
            )));
        }
    }
    Ok(())
}
