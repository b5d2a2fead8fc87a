//! Indices over vectors: made, and made in parts.

use std::collections::BTreeMap;

use arrow_array::cast::AsArray;
use arrow_array::{Array, FixedSizeListArray};
use arrow_pyarrow::ToPyArrow;
use pennon_core::wire::index_parts::parse_uuid;
use pennon_core::wire::vector_index::{StorageDetails, VectorIndexDetails};
use pennon_core::{Error, FragmentId};
use pennon_table::ops::index::{NewVectorIndex, VectorModel, VectorParameters, VectorStatistics};
use pyo3::prelude::*;

use crate::arrow::ArrayElements;
use crate::dataset::Dataset;
use crate::error::to_py;
use crate::given::Given;
use crate::index::IndexParts;
use crate::progress::run_staged;
use crate::runtime::run;

/// An index over vectors to make: a dictionary with all of these keys.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct VectorIndexRequest {
    column: String,
    kind: String,
    metric: String,
    name: Option<String>,
    replace: bool,
    train: bool,
    uuid: Option<String>,
    num_partitions: Option<u32>,
    target_partition_size: Option<u64>,
    /// Each a `pyarrow.FixedSizeListArray`.
    ivf_centroids: Option<ArrayElements>,
    pq_codebook: Option<ArrayElements>,
    num_sub_vectors: Option<u32>,
    num_bits: Option<u32>,
    max_iters: Option<u32>,
    sample_rate: Option<u32>,
    m: Option<u32>,
    ef_construction: Option<u32>,
    max_level: Option<u32>,
}

impl TryFrom<VectorIndexRequest> for NewVectorIndex {
    type Error = Error;

    fn try_from(request: VectorIndexRequest) -> Result<Self, Error> {
        let usual = VectorParameters::default();
        Ok(Self {
            column: request.column,
            kind: request.kind.parse()?,
            metric: request.metric.parse()?,
            name: request.name,
            replace: request.replace,
            train: request.train,
            uuid: request.uuid.as_deref().map(parse_uuid).transpose()?,
            parameters: VectorParameters {
                num_partitions: request.num_partitions,
                target_partition_size: request.target_partition_size,
                centroids: request.ivf_centroids.map(|array| vectors("ivf_centroids", &array)).transpose()?,
                codebook: request.pq_codebook.map(|array| vectors("pq_codebook", &array)).transpose()?,
                num_sub_vectors: request.num_sub_vectors,
                num_bits: request.num_bits.unwrap_or(usual.num_bits),
                max_iterations: request.max_iters.unwrap_or(usual.max_iterations),
                sample_rate: request.sample_rate.unwrap_or(usual.sample_rate),
                m: request.m.unwrap_or(usual.m),
                ef_construction: request.ef_construction.unwrap_or(usual.ef_construction),
                max_level: request.max_level.unwrap_or(usual.max_level),
            },
        })
    }
}

fn vectors(name: &str, array: &ArrayElements) -> Result<FixedSizeListArray, Error> {
    let found = array.0.as_fixed_size_list_opt().cloned();
    found.ok_or_else(|| {
        Error::invalid_input(format!("{name} must be fixed-size lists, got {}", array.0.data_type()))
    })
}

/// What the details of an index over vectors say.
#[derive(IntoPyObject)]
pub(crate) struct VectorDetailsParts {
    metric: u32,
    target_partition_size: u64,
    /// `m`, `ef_construction` and `max_level`.
    hnsw: Option<(u32, u32, u32)>,
    /// `"flat"`, `"pq"`, `"sq"` or `"rq"`, with the bits of a code and codes of a vector.
    storage: Option<(&'static str, u32, u32)>,
    runtime_hints: BTreeMap<String, String>,
}

impl From<VectorIndexDetails> for VectorDetailsParts {
    fn from(details: VectorIndexDetails) -> Self {
        Self {
            metric: details.metric,
            target_partition_size: details.target_partition_size,
            hnsw: details.hnsw.map(|hnsw| (hnsw.m, hnsw.ef_construction, hnsw.max_level)),
            storage: details.storage.map(|storage| match storage {
                StorageDetails::Flat => ("flat", 0, 0),
                StorageDetails::Product { num_bits, num_sub_vectors } => ("pq", num_bits, num_sub_vectors),
                StorageDetails::Scalar { num_bits } => ("sq", num_bits, 0),
                StorageDetails::Rabit { num_bits } => ("rq", num_bits, 0),
            }),
            runtime_hints: details.runtime_hints,
        }
    }
}

/// What a segment of an index over vectors says of itself.
#[derive(IntoPyObject)]
pub(crate) struct VectorStatisticsParts {
    uuid: String,
    directory: String,
    kind: &'static str,
    metric: &'static str,
    dimension: usize,
    partitions: Vec<u64>,
    centroids: Vec<Vec<f64>>,
    loss: Option<f64>,
    product: Option<(u32, u32)>,
    bounds: Option<(f64, f64)>,
}

impl From<VectorStatistics> for VectorStatisticsParts {
    fn from(statistics: VectorStatistics) -> Self {
        Self {
            uuid: statistics.uuid.to_string(),
            directory: statistics.directory,
            kind: statistics.kind.name(),
            metric: statistics.metric.name(),
            dimension: statistics.dimension,
            partitions: statistics.partitions,
            centroids: statistics.centroids,
            loss: statistics.loss,
            product: statistics.product,
            bounds: statistics.bounds,
        }
    }
}

/// What the segments of an index over vectors say of themselves.
#[pyfunction]
pub(crate) fn vector_index_statistics(
    py: Python<'_>,
    dataset: &Dataset,
    name: &str,
) -> PyResult<Vec<VectorStatisticsParts>> {
    let dataset = dataset.get(py)?;
    Ok(run(py, dataset.vector_index_statistics(name))?.into_iter().map(Into::into).collect())
}

/// Makes an index over vectors; a function hears how far it is.
#[pyfunction]
#[pyo3(signature = (dataset, request, progress))]
pub(crate) fn create_vector_index(
    py: Python<'_>,
    dataset: &Dataset,
    request: Given<VectorIndexRequest>,
    progress: Option<&Bound<'_, PyAny>>,
) -> PyResult<Dataset> {
    let mut dataset = dataset.get(py)?;
    let new = request.0.try_into().map_err(|error| to_py(py, &error))?;
    run_staged(py, dataset.create_vector_index(new), progress)?;
    Ok(Dataset::wrap(dataset))
}

/// Makes a segment of an index over the vectors of some fragments, which is not committed; a function hears how far it is.
#[pyfunction]
#[pyo3(signature = (dataset, request, fragments, progress))]
pub(crate) fn create_vector_index_segment(
    py: Python<'_>,
    dataset: &Dataset,
    request: Given<VectorIndexRequest>,
    fragments: Vec<u32>,
    progress: Option<&Bound<'_, PyAny>>,
) -> PyResult<IndexParts> {
    let dataset = dataset.get(py)?;
    let new = request.0.try_into().map_err(|error| to_py(py, &error))?;
    let fragments = fragments.into_iter().map(FragmentId).collect();
    let entry = run_staged(py, dataset.create_vector_index_segment(new, fragments), progress)?;
    IndexParts::try_from(&entry).map_err(|error| to_py(py, &error))
}

/// What parts of an index are built with.
#[derive(IntoPyObject)]
pub(crate) struct ModelParts<'py> {
    ivf_centroids: Bound<'py, PyAny>,
    pq_codebook: Option<Bound<'py, PyAny>>,
}

impl<'py> ModelParts<'py> {
    fn of(py: Python<'py>, model: &VectorModel) -> PyResult<Self> {
        let parts = model.centroids().and_then(|centroids| Ok((centroids, model.codebook()?)));
        let (centroids, codebook) = parts.map_err(|error| to_py(py, &error))?;
        Ok(Self {
            ivf_centroids: centroids.to_data().to_pyarrow(py)?,
            pq_codebook: codebook.map(|(codebook, ..)| codebook.to_data().to_pyarrow(py)).transpose()?,
        })
    }
}

/// What an index would be built with, from a sample of the vectors of some fragments; `None` for too few vectors.
#[pyfunction]
pub(crate) fn train_vector_index<'py>(
    py: Python<'py>,
    dataset: &Dataset,
    request: Given<VectorIndexRequest>,
    fragments: Option<Vec<u32>>,
) -> PyResult<Option<ModelParts<'py>>> {
    let dataset = dataset.get(py)?;
    let new: NewVectorIndex = request.0.try_into().map_err(|error| to_py(py, &error))?;
    let fragments = fragments.map(|ids| ids.into_iter().map(FragmentId).collect());
    let model = run(py, dataset.train_vector_index(&new, fragments))?;
    model.map(|model| ModelParts::of(py, &model)).transpose()
}

/// What the newest segment of an index over vectors is built with; `None` if none covers anything.
#[pyfunction]
pub(crate) fn vector_index_model<'py>(
    py: Python<'py>,
    dataset: &Dataset,
    name: &str,
) -> PyResult<Option<ModelParts<'py>>> {
    let dataset = dataset.get(py)?;
    let model = run(py, dataset.vector_index_model(name))?;
    model.map(|model| ModelParts::of(py, &model)).transpose()
}
