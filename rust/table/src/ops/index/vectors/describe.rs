//! What an index over vectors says of itself.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::Float64Type;
use arrow_cast::cast;
use arrow_schema::DataType;
use pennon_core::wire::index_parts::IndexParts;
use pennon_core::wire::vector_index::{StorageDetails, VectorIndexDetails};
use pennon_core::{Error, Result};
use pennon_index::{Metric, VectorIndex, VectorIndexKind, VectorModel};
use uuid::Uuid;

use crate::indices::{Segment, is_about_the_index, open_undescribed};
use crate::versions::snapshot::Snapshot;

/// Partitions that are read at once.
const READ_AHEAD: usize = 64;

/// A segment of an index over vectors.
#[derive(Debug, Clone, PartialEq)]
pub struct VectorStatistics {
    /// Names its directory.
    pub uuid: Uuid,
    /// The directory.
    pub directory: String,
    /// What kind of index.
    pub kind: VectorIndexKind,
    /// How distance is measured.
    pub metric: Metric,
    /// Elements of a vector.
    pub dimension: usize,
    /// The rows of each partition.
    pub partitions: Vec<u64>,
    /// The centroid of each partition.
    pub centroids: Vec<Vec<f64>>,
    /// The sum of distances to centroids in the training data, if recorded.
    pub loss: Option<f64>,
    /// Bits of a code and codes of a vector, of product quantization.
    pub product: Option<(u32, u32)>,
    /// The bounds of elements, of scalar quantization.
    pub bounds: Option<(f64, f64)>,
}

/// The kind of an entry and what its details say; `None` if they do not. Errors: `Corrupt`.
pub(in crate::ops::index) fn description(
    parts: &IndexParts,
) -> Result<Option<(VectorIndexKind, VectorIndexDetails)>> {
    let details = details_of(parts)?;
    Ok(kind_of(&details).map(|kind| (kind, details)))
}

/// The details of an entry; those by default if it has none. Errors: `Corrupt`.
pub(super) fn details_of(parts: &IndexParts) -> Result<VectorIndexDetails> {
    parts
        .details
        .as_ref()
        .map_or_else(|| Ok(VectorIndexDetails::default()), |(_, details)| VectorIndexDetails::decode(details))
}

/// The kind that details say; `None` if they do not.
pub(super) fn kind_of(details: &VectorIndexDetails) -> Option<VectorIndexKind> {
    let has_graph = details.hnsw.is_some();
    Some(match (details.storage?, has_graph) {
        (StorageDetails::Flat, false) => VectorIndexKind::IvfFlat,
        (StorageDetails::Flat, true) => VectorIndexKind::IvfHnswFlat,
        (StorageDetails::Product { .. }, false) => VectorIndexKind::IvfPq,
        (StorageDetails::Product { .. }, true) => VectorIndexKind::IvfHnswPq,
        (StorageDetails::Scalar { .. }, false) => VectorIndexKind::IvfSq,
        (StorageDetails::Scalar { .. }, true) => VectorIndexKind::IvfHnswSq,
        (StorageDetails::Rabit { .. }, _) => VectorIndexKind::IvfRq,
    })
}

/// The kind and the metric in the files of an entry that does not say them; `None` if they cannot be read. Blocks on the
/// store.
pub(in crate::ops::index) fn description_in_files(
    snapshot: &Snapshot,
    parts: &IndexParts,
) -> Result<Option<(VectorIndexKind, VectorIndexDetails)>> {
    let index = undescribed(snapshot, parts)?;
    Ok(index.map(|index| {
        (index.kind(), VectorIndexDetails { metric: index.metric().number(), ..Default::default() })
    }))
}

/// The index of an entry that does not say what it is; `None` if it cannot be read. Blocks on the store.
pub(super) fn undescribed(snapshot: &Snapshot, parts: &IndexParts) -> Result<Option<Arc<VectorIndex>>> {
    match open_undescribed(snapshot, parts) {
        Ok(index) => Ok(Some(index)),
        Err(error) if is_about_the_index(&error) => Ok(None),
        Err(error) => Err(error),
    }
}

/// What a segment says of itself. Blocks on the store.
pub(in crate::ops::index) fn statistics(snapshot: &Snapshot, segment: &Segment) -> Result<VectorStatistics> {
    let index = segment.open_vectors(snapshot)?;
    let centroids = index.model().centroids()?;
    let values = cast(centroids.values(), &DataType::Float64)
        .map_err(|e| Error::internal(format!("centroids of an index: {e}")))?;
    let values = values.as_primitive::<Float64Type>().values();
    let partitions = 0..u32::try_from(index.num_partitions()).unwrap_or(u32::MAX);
    let product = index.model().codebook()?.map(|(_, bits, count)| (bits, count));
    Ok(VectorStatistics {
        uuid: segment.uuid,
        directory: segment.directory(),
        kind: index.kind(),
        metric: index.metric(),
        dimension: index.dimension(),
        partitions: partitions.map(|partition| index.partition_rows(partition)).collect(),
        centroids: values.chunks_exact(index.dimension().max(1)).map(<[f64]>::to_vec).collect(),
        loss: index.model().loss(),
        product,
        bounds: index.model().bounds(),
    })
}

/// What a segment is built with. Blocks on the store.
pub(in crate::ops::index) fn model(snapshot: &Snapshot, segment: &Segment) -> Result<Arc<VectorModel>> {
    Ok(Arc::clone(segment.open_vectors(snapshot)?.model()))
}

/// Reads all partitions into the session, as many as there is room for. Blocks on the store.
pub(in crate::ops::index) fn prewarm(snapshot: &Snapshot, segment: &Segment) -> Result<()> {
    let index = segment.open_vectors(snapshot)?;
    let partitions: Vec<u32> = (0..).take(index.num_partitions()).collect();
    for chunk in partitions.chunks(READ_AHEAD) {
        let read: Vec<Arc<_>> = segment.partitions(snapshot, &index, chunk)?;
        drop(read);
    }
    Ok(())
}
