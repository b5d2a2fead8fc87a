//! Care of an index: rows that it does not cover go into it, segments become one.

use std::collections::BTreeSet;
use std::sync::Arc;

use futures::FutureExt;
use pennon_core::manifest::IndexMetadata;
use pennon_core::wire::index_parts::IndexParts;
use pennon_core::{Error, FragmentId, Result, Version};
use pennon_index::IndexKind;
use roaring::RoaringBitmap;
use tracing::instrument;
use uuid::Uuid;

use super::build::{Build, IndexParameters, written_version};
use super::{segment, vectors};
use crate::dataset::Dataset;
use crate::indices::{Coverage, Segment, is_about_the_index, kind_of, segments};
use crate::runtime;
use crate::versions::load;
use crate::versions::snapshot::Snapshot;
use crate::write::staged::{self, StagedFile};

/// Segments whose files are looked for at a time.
const CHECKED_AT_ONCE: usize = 16;

/// What of an index is built again.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct IndexCare {
    /// The indices; all if not given.
    pub names: Option<Vec<String>>,
    /// So many of the newest segments become one with the rows that no segment covers; 0 makes a segment of these alone.
    /// 1 if not given.
    pub merged_segments: Option<usize>,
    /// Whether the indices are built again from the rows.
    pub rebuild: bool,
}

impl IndexCare {
    fn is_about(&self, name: &str) -> bool {
        self.names.as_ref().is_none_or(|names| names.iter().any(|wanted| wanted == name))
    }
}

/// The new segment of an index, its files, and the entries that it replaces.
pub(super) type Remade = (IndexMetadata, Vec<StagedFile>, Vec<IndexMetadata>);

/// What becomes of one index.
pub(super) struct IndexChange {
    /// Entries that go.
    pub(super) removed: Vec<IndexMetadata>,
    /// Segments that are taken into the new one.
    pub(super) merged: Vec<Segment>,
    /// Fragments that are read for it.
    pub(super) fragments: Vec<FragmentId>,
    /// A segment whose parameters it gets, if there is one that can be read.
    pub(super) like: Option<Segment>,
}

impl Dataset {
    /// Takes rows into the indices that these do not cover, and moves to the version that has the result, if any. Segments
    /// whose files are missing or damaged are built again.
    ///
    /// Errors: `NotFound` for names that no index has; those of reading and writing, and `Conflict`. The table is as before
    /// then, and the files of the attempt are removed.
    #[instrument(level = "debug", skip_all, fields(table = self.uri(), version = %self.version()))]
    pub async fn optimize_indices(&mut self, care: &IndexCare) -> Result<()> {
        let snapshot = Arc::clone(self.snapshot());
        let entries = snapshot.indices().await?;
        if let Some(missing) =
            care.names.iter().flatten().find(|name| !entries.iter().any(|entry| entry.name == **name))
        {
            return Err(Error::not_found(format!("index not found: there is no index named '{missing}'")));
        }
        let mut names: Vec<&str> =
            entries.iter().filter(|e| !e.is_system()).map(|e| e.name.as_str()).collect();
        names.sort_unstable();
        names.dedup();
        let (read, known, wanted) = (Arc::clone(&snapshot), Arc::clone(&entries), care.clone());
        let (readable, lost, coverage) = runtime::blocking(move || {
            let is_lost = |segment: &Segment| {
                let can_make = segment.kind == IndexKind::Vector || super::create::can_make(segment.kind);
                !wanted.rebuild && can_make && wanted.is_about(&segment.name) && segment.is_lost(&read)
            };
            let all = segments(&read, &known)?;
            // Each may wait for the store several times.
            let are_lost = runtime::each_concurrently(CHECKED_AT_ONCE, &all, |segment| Ok(is_lost(segment)))?;
            let (mut readable, mut lost) = (Vec::new(), Vec::new());
            for (segment, is_lost) in all.into_iter().zip(are_lost) {
                if is_lost { lost.push(segment.uuid) } else { readable.push(segment) }
            }
            Ok((readable, lost, Coverage::of(&read, &known)?))
        })
        .await?;
        let (mut new, mut removed, mut files) = (Vec::new(), Vec::new(), Vec::new());
        let remade = async {
            for name in names.into_iter().filter(|name| care.is_about(name)) {
                let of_name: Vec<&IndexMetadata> =
                    entries.iter().filter(|entry| entry.name == name).collect();
                let change = change_of(&snapshot, &of_name, &readable, &lost, &coverage, care).await?;
                let Some(change) = change else { continue };
                let (entry, of_entry, replaced) = self.remake(name, &of_name, change).await?;
                new.push(entry);
                files.extend(of_entry);
                removed.extend(replaced);
            }
            Ok::<_, Error>(())
        };
        if let Err(error) = remade.await {
            staged::remove(&files).await;
            return Err(error);
        }
        if new.is_empty() {
            return Ok(());
        }
        self.commit_indices(new, removed, files).await
    }

    /// The new segment of an index, its files, and the entries that it replaces.
    pub(super) async fn remake(
        &self,
        name: &str,
        entries: &[&IndexMetadata],
        change: IndexChange,
    ) -> Result<Remade> {
        let snapshot = Arc::clone(self.snapshot());
        let first = entries.first().ok_or_else(|| Error::internal("an index without segments"))?;
        let kind = kind_of(&IndexParts::of(first)?).0;
        let field = first.fields.first().and_then(|id| snapshot.manifest.schema.field_by_id(*id));
        let field = field.ok_or_else(|| Error::internal("an index of a field that is not there"))?.clone();
        if kind == IndexKind::Vector {
            return vectors::remake(self, name, entries, &field, change).await;
        }
        let IndexChange { removed, merged, fragments, like } = change;
        let parameters = match like {
            None => IndexParameters::default(),
            Some(segment) => parameters_of(&snapshot, segment).await?,
        };
        let uuid = runtime::uuid();
        let build =
            Build { snapshot, field, kind, uuid, fragments, parameters, durability: self.durability() };
        let (entry, files) = segment::build(name, build, merged).await?;
        Ok((entry, files, removed))
    }
}

/// The parameters of a segment; those by default if it cannot be read, as a new one needs not be like it.
async fn parameters_of(snapshot: &Arc<Snapshot>, segment: Segment) -> Result<IndexParameters> {
    let read = Arc::clone(snapshot);
    let found = runtime::blocking(move || Ok(IndexParameters::of(segment.open(&read)?.as_ref())));
    match found.await {
        Err(error) if is_about_the_index(&error) => Ok(IndexParameters::default()),
        found => found,
    }
}

/// What is to be done for an index, if anything.
async fn change_of(
    snapshot: &Arc<Snapshot>,
    entries: &[&IndexMetadata],
    readable: &[Segment],
    lost: &[Uuid],
    coverage: &Coverage,
    care: &IndexCare,
) -> Result<Option<IndexChange>> {
    let live: RoaringBitmap = snapshot.manifest.fragments.ids().map(|id| id.0).collect();
    let fragments_of = |bitmap: RoaringBitmap| bitmap.into_iter().map(FragmentId).collect::<Vec<_>>();
    let Some(name) = entries.first().map(|entry| entry.name.as_str()) else { return Ok(None) };
    let mut kinds = Vec::with_capacity(entries.len());
    for entry in entries {
        let parts = IndexParts::of(entry)?;
        let kind = kind_of(&parts).0;
        let can_make = match kind {
            IndexKind::Vector => vectors::can_remake(snapshot, parts).await?,
            kind => super::create::can_make(kind) && supports(snapshot, entry, kind),
        };
        if !can_make {
            return Ok(None);
        }
        kinds.push(kind);
    }
    let like = readable.iter().find(|segment| segment.name == name).cloned();
    if care.rebuild {
        let removed = entries.iter().map(|entry| (*entry).clone()).collect();
        return Ok(Some(IndexChange { removed, merged: Vec::new(), fragments: fragments_of(live), like }));
    }
    let covered = entries.iter().map(|entry| coverage.fragments(entry));
    let covered = covered.fold(RoaringBitmap::new(), |all, more| all | more);
    let uncovered = &live - covered;
    let count = care.merged_segments.unwrap_or(1).min(entries.len());
    let is_lost = |entry: &IndexMetadata| lost.contains(&entry.uuid);
    let is_complete = uncovered.is_empty() && count < 2;
    if is_complete && !entries.iter().any(|entry| is_lost(entry)) {
        return Ok(None);
    }
    // A segment keeps the entries of rows that it does not cover any more. Readers that mask segments together, as the
    // reference does, take them for rows of a segment that covers these; so there is one segment if it may name such rows.
    let stable = snapshot.manifest.has_stable_row_ids();
    let names_ids = |kind: &IndexKind| !kind.has_addresses(written_version(*kind, stable), stable);
    let newest = entries.iter().filter_map(|entry| entry.fragments.as_ref()?.max()).max();
    let may_be_named = coverage.has_moves()
        || kinds.iter().any(names_ids)
        || uncovered.min().is_some_and(|oldest| Some(oldest) <= newest)
        || were_there(snapshot, entries, &uncovered).await?;
    let count = match (may_be_named, is_complete) {
        (true, _) => entries.len(),
        (false, true) => 0,
        (false, false) => count,
    };
    let newest = entries.iter().rev().take(count).rev();
    let others = entries.iter().take(entries.len() - count).filter(|entry| is_lost(entry));
    let chosen: Vec<&IndexMetadata> = others.chain(newest).copied().collect();
    // Segments that cannot be read any more are replaced as if they covered nothing.
    let merged: Vec<Segment> = readable
        .iter()
        .filter(|s| s.name == name && chosen.iter().any(|e| e.uuid == s.uuid))
        .cloned()
        .collect();
    let kept = merged.iter().fold(RoaringBitmap::new(), |all, segment| all | &segment.covered);
    let of_chosen = chosen.iter().map(|entry| coverage.fragments(entry));
    let of_chosen = of_chosen.fold(RoaringBitmap::new(), |all, more| all | more);
    let fragments = fragments_of(uncovered | (of_chosen - kept));
    let removed = chosen.into_iter().cloned().collect();
    Ok(Some(IndexChange { removed, merged, fragments, like }))
}

/// Whether an index of a kind like that of an entry can be made: the reference also orders values of 256 bits and documents,
/// has zones of values of any type, and knows indices that carry values of further fields.
fn supports(snapshot: &Snapshot, entry: &IndexMetadata, kind: IndexKind) -> bool {
    let [field] = entry.fields.as_slice() else { return false };
    let is_supported = |field| {
        super::create::fits(kind, field) || (kind.has_zones() && !crate::json::has_json(&field.to_arrow()))
    };
    snapshot.manifest.schema.field_by_id(*field).is_none_or(is_supported)
}

/// Whether one of some fragments was there in a version that an entry was made for, which may name its rows: values that
/// were replaced in place since then are not covered any more.
///
/// Errors: those of reading. Of a version that is gone only fragments of several data files are taken for older ones.
async fn were_there(
    snapshot: &Arc<Snapshot>,
    entries: &[&IndexMetadata],
    fragments: &RoaringBitmap,
) -> Result<bool> {
    let Some(oldest) = fragments.min() else { return Ok(false) };
    let versions: BTreeSet<Version> =
        entries.iter().map(|entry| entry.values_of(snapshot.version())).collect();
    let scheme = snapshot.source().scheme;
    let loads = versions.into_iter().map(|version| {
        let load = async move {
            match load::load_version(&snapshot.store, snapshot.session(), version, scheme).await {
                Ok(found) => Ok(Some(found)),
                Err(error) if error.is_not_found() => Ok(None),
                Err(error) => Err(error),
            }
        };
        load.boxed()
    });
    let has_several_files =
        |id: u32| snapshot.manifest.fragment(FragmentId(id)).is_some_and(|fragment| fragment.files.len() > 1);
    Ok(runtime::gather(loads.collect()).await?.into_iter().any(|version| match version {
        Some(version) => Some(oldest) <= version.manifest.max_fragment_id,
        None => fragments.iter().any(has_several_files),
    }))
}
