//! What tests of indices over vectors have in common.

use std::collections::HashMap;
use std::sync::Arc;

use arrow_array::{Array, ArrayRef, FixedSizeListArray, Float64Array};
use arrow_cast::cast;
use arrow_schema::{DataType, Field};
use pennon_core::file::FileVersion;
use pennon_core::{Error, Result};
use pennon_datafile::{ByteSource, MemorySource};

use super::random::Random;
use super::train::{ClusterOptions, train_bounds, train_centroids, train_codebook};
use super::write::{BuildOptions, VectorIndexBuilder};
use super::{
    DistanceRange, GraphOptions, Metric, Neighbor, Neighbors, RowMask, VectorIndex, VectorIndexKind,
    VectorModel, VectorStorage,
};
use crate::files::{IndexFiles, WrittenFile};

/// Files in memory.
#[derive(Debug, Clone, Default)]
pub(super) struct Files(pub(super) HashMap<&'static str, Vec<u8>>);

impl Files {
    pub(super) fn of(files: [WrittenFile<Vec<u8>>; 2]) -> Self {
        for file in &files {
            assert_eq!(file.size, file.sink.len() as u64);
        }
        Self(files.into_iter().map(|file| (file.name, file.sink)).collect())
    }

    pub(super) fn open(&self) -> Result<VectorIndex> {
        VectorIndex::open(Arc::new(self.clone()))
    }
}

impl IndexFiles for Files {
    fn open(&self, name: &str) -> Result<Arc<dyn ByteSource>> {
        let bytes = self.0.get(name).ok_or_else(|| Error::not_found(format!("there is no file {name}")))?;
        Ok(Arc::new(MemorySource::new(name, bytes.clone())))
    }
}

/// Vectors in clusters, of a type; with the metric hamming of any bytes.
pub(super) fn random_vectors(
    element: &DataType,
    dimension: usize,
    rows: usize,
    seed: u64,
) -> FixedSizeListArray {
    let mut random = Random::new(seed);
    let centers: Vec<f64> = (0..8 * dimension).map(|_| random.unit() * 4.0 - 2.0).collect();
    let mut values = Vec::with_capacity(rows * dimension);
    for _ in 0..rows {
        let center = random.below(8) * dimension;
        for at in 0..dimension {
            values.push(centers[center + at] + random.unit() - 0.5);
        }
    }
    if *element == DataType::UInt8 {
        values.iter_mut().for_each(|value| *value = (*value * 60.0 + 128.0).clamp(0.0, 255.0).trunc());
    }
    lists(element, dimension, values.into_iter().map(Some).collect(), None)
}

/// Lists of a type, those that are not valid null.
pub(super) fn lists(
    element: &DataType,
    dimension: usize,
    values: Vec<Option<f64>>,
    valid: Option<Vec<bool>>,
) -> FixedSizeListArray {
    let values: ArrayRef = Arc::new(Float64Array::from(values));
    let field = Arc::new(Field::new("item", element.clone(), true));
    let values = cast(&values, element).unwrap();
    FixedSizeListArray::new(field, i32::try_from(dimension).unwrap(), values, valid.map(Into::into))
}

/// A model from a sample.
pub(super) fn model(
    kind: VectorIndexKind,
    metric: Metric,
    sample: &FixedSizeListArray,
    partitions: usize,
    (bits, sub_vectors): (u32, u32),
) -> VectorModel {
    let options = ClusterOptions { max_iterations: 10, ..ClusterOptions::default() };
    let trained = train_centroids(sample, metric, partitions, options, &mut |_, _| Ok(())).unwrap();
    let (centroids, loss) = trained.unwrap();
    let codebook = || {
        let codes = (bits, sub_vectors);
        train_codebook(sample, metric, &centroids, codes, options, &mut |_, _| Ok(())).unwrap().unwrap()
    };
    let codebook = matches!(kind, VectorIndexKind::IvfPq | VectorIndexKind::IvfHnswPq).then(codebook);
    let storage = match (kind, &codebook) {
        (_, Some(codebook)) => {
            VectorStorage::Product { codebook, num_bits: bits, num_sub_vectors: sub_vectors }
        }
        (VectorIndexKind::IvfSq | VectorIndexKind::IvfHnswSq, _) => {
            let (low, high) = train_bounds(sample, metric).unwrap().unwrap();
            VectorStorage::Scalar { low, high }
        }
        _ => VectorStorage::Flat,
    };
    VectorModel::try_new(kind, metric, &centroids, storage).unwrap().with_loss(loss)
}

/// An index of vectors whose rows are numbered by threes.
pub(super) fn built(model: VectorModel, vectors: &FixedSizeListArray) -> Files {
    let rows: Vec<u64> = (0..vectors.len() as u64).map(|row| row * 3).collect();
    let graphs = GraphOptions { m: 8, ef_construction: 60, max_level: 4 };
    let mut builder = VectorIndexBuilder::new(Arc::new(model), BuildOptions::default()).with_graphs(graphs);
    builder.add(vectors, &rows).unwrap();
    Files::of(builder.finish(Vec::new(), Vec::new(), FileVersion::V2_2, &[], &mut |_, _| Ok(())).unwrap().0)
}

/// The nearest rows of all partitions.
pub(super) fn search_all(
    index: &VectorIndex,
    query: &ArrayRef,
    limit: usize,
    range: DistanceRange,
) -> Vec<Neighbor> {
    let query = index.prepare(query).unwrap();
    let partitions: Vec<u32> = index.ranked(&query).unwrap().into_iter().map(|(number, _)| number).collect();
    let mut nearest = Neighbors::new(limit, range);
    for partition in index.read(&partitions).unwrap() {
        index.search(&query, &partition, RowMask::All, &mut nearest).unwrap();
    }
    nearest.into_sorted()
}
