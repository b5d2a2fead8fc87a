//! Rows and segments taken into an index over vectors.
//!
//! Rows go to the partitions that the index has, and are stored as its others are: nothing is trained again unless that is
//! asked for, and the number of partitions stays. A segment that was built with something else is read from the rows again.

use std::sync::Arc;

use pennon_core::manifest::IndexMetadata;
use pennon_core::schema::Field;
use pennon_core::wire::index_parts::IndexParts;
use pennon_core::wire::vector_index::{StorageDetails, VectorIndexDetails};
use pennon_core::{Error, FragmentId, Result};
use pennon_index::{Metric, VectorIndex, VectorIndexKind};
use roaring::RoaringBitmap;

use super::create::{NewEntry, source_of};
use super::describe::{description_in_files, details_of, kind_of, undescribed};
use super::request::VectorParameters;
use super::train::train;
use crate::dataset::Dataset;
use crate::indices::{Segment, segments};
use crate::ops::index::optimize::{IndexChange, Remade};
use crate::runtime::{self, blocking};
use crate::versions::snapshot::Snapshot;

/// Whether an entry is of a kind of index that can be made, by its files if it does not say.
pub(in crate::ops::index) async fn can_remake(snapshot: &Arc<Snapshot>, parts: IndexParts) -> Result<bool> {
    let kind = match kind_of(&details_of(&parts)?) {
        None => {
            let read = Arc::clone(snapshot);
            blocking(move || description_in_files(&read, &parts)).await?.map(|(kind, _)| kind)
        }
        described => described,
    };
    Ok(kind.is_some_and(|kind| kind != VectorIndexKind::IvfRq))
}

/// The new segment of an index over vectors, its files, and the entries that it replaces.
pub(in crate::ops::index) async fn remake(
    dataset: &Dataset,
    name: &str,
    entries: &[&IndexMetadata],
    field: &Field,
    change: IndexChange,
) -> Result<Remade> {
    let snapshot = Arc::clone(dataset.snapshot());
    let IndexChange { removed, merged, fragments, .. } = change;
    let last = entries.last().ok_or_else(|| Error::internal("an index without segments"))?;
    let details = details_of(&IndexParts::of(last)?)?;
    let owned: Vec<IndexMetadata> = entries.iter().map(|entry| (*entry).clone()).collect();
    let read = Arc::clone(&snapshot);
    let known: Vec<(Segment, Arc<VectorIndex>)> = blocking(move || {
        let found = segments(&read, &owned)?.into_iter();
        let opened = found.filter_map(|segment| Some((segment.open_vectors(&read).ok()?, segment)));
        Ok(opened.map(|(index, segment)| (segment, index)).collect())
    })
    .await?;
    let index_of = |uuid| known.iter().find(|(segment, _)| segment.uuid == uuid).map(|(_, index)| index);
    // Everything that there was goes, and nothing is taken over: that is a new index.
    let is_new = merged.is_empty() && !removed.is_empty() && removed.len() == entries.len();
    let base = match merged.last() {
        Some(segment) => index_of(segment.uuid),
        None => known.last().map(|(_, index)| index),
    };
    // An index that covers nothing any more has no segments, and its files still say what the entry does not.
    let in_files = match (base, kind_of(&details)) {
        (None, None) => {
            let (read, parts) = (Arc::clone(&snapshot), IndexParts::of(last)?);
            blocking(move || undescribed(&read, &parts)).await?
        }
        _ => None,
    };
    let base = base.or(in_files.as_ref());
    let parameters = parameters_of(&details, base.map(AsRef::as_ref));
    let uuid = runtime::uuid();
    let entry = NewEntry { name, field, uuid, parameters: &parameters };
    if let Some(model) = base.filter(|_| !is_new).map(|index| Arc::clone(index.model())) {
        let is_same = |segment: &Segment| {
            index_of(segment.uuid).is_some_and(|index| index.model().is_mergeable_with(&model))
        };
        let (merged, others): (Vec<Segment>, Vec<Segment>) = merged.into_iter().partition(is_same);
        let reread = others.iter().fold(RoaringBitmap::new(), |all, segment| all | &segment.covered);
        let fragments = fragments.into_iter().chain(reread.into_iter().map(FragmentId)).collect();
        let source = source_of(&snapshot, field, fragments)?;
        let (made, files) = entry.build(source, model, merged, dataset.durability()).await?;
        return Ok((made, files, removed));
    }
    let (kind, metric) = match (kind_of(&details), base) {
        (Some(kind), _) => (kind, Metric::numbered(details.metric)),
        (None, Some(index)) => (index.kind(), Some(index.metric())),
        (None, None) => {
            return Err(Error::unsupported("an index that does not say how vectors are stored"));
        }
    };
    let metric =
        metric.ok_or_else(|| Error::unsupported(format!("an index by the metric {}", details.metric)))?;
    let details = VectorIndexDetails { metric: metric.number(), ..details };
    let source = source_of(&snapshot, field, fragments)?;
    let (made, files) = match train(&source, kind, metric, &parameters).await? {
        Some(model) => entry.build(source, Arc::new(model), Vec::new(), dataset.durability()).await?,
        None => (entry.entry(&snapshot, &RoaringBitmap::new(), details, kind, None)?, Vec::new()),
    };
    Ok((made, files, removed))
}

/// How an index was built: what its details say, and as many partitions as it has.
fn parameters_of(details: &VectorIndexDetails, index: Option<&VectorIndex>) -> VectorParameters {
    let hint = |name: &str| details.runtime_hints.get(name).and_then(|text| text.parse::<u32>().ok());
    let usual = VectorParameters::default();
    let of_index = index.map(VectorIndex::num_partitions).and_then(|count| u32::try_from(count).ok());
    let (num_bits, num_sub_vectors) = match details.storage {
        Some(StorageDetails::Product { num_bits, num_sub_vectors }) => (num_bits, Some(num_sub_vectors)),
        None => {
            let codebook = index.and_then(|index| index.model().codebook().ok().flatten());
            codebook.map_or((usual.num_bits, None), |(_, bits, count)| (bits, Some(count)))
        }
        _ => (usual.num_bits, None),
    };
    let hnsw = details.hnsw;
    VectorParameters {
        num_partitions: of_index.filter(|count| *count > 0).or(hint("lance.ivf.num_partitions")),
        target_partition_size: Some(details.target_partition_size).filter(|size| *size > 0),
        num_sub_vectors,
        num_bits,
        max_iterations: hint("lance.ivf.max_iters").unwrap_or(usual.max_iterations),
        sample_rate: hint("lance.ivf.sample_rate").unwrap_or(usual.sample_rate),
        m: hnsw.map_or(usual.m, |hnsw| hnsw.m),
        ef_construction: hnsw.map_or(usual.ef_construction, |hnsw| hnsw.ef_construction),
        max_level: hnsw.map_or(usual.max_level, |hnsw| hnsw.max_level),
        ..usual
    }
}
