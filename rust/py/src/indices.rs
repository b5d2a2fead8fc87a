//! Indices over values: made, dropped, described, taken care of.

use pennon_core::manifest::IndexMetadata;
use pennon_core::wire::index_parts::parse_uuid;
use pennon_core::{Error, FragmentId};
use pennon_table::ops::index::{
    IndexCare, IndexDescription, IndexKind, IndexParameters, NewIndex, SegmentDescription, SegmentStatistics,
};
use pyo3::prelude::*;

use crate::dataset::Dataset;
use crate::error::to_py;
use crate::given::Given;
use crate::index::IndexParts;
use crate::progress::run_staged;
use crate::runtime::run;
use crate::vector_indices::VectorDetailsParts;

/// An index to make: a dictionary with all of these keys.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct IndexRequest {
    column: String,
    kind: String,
    name: Option<String>,
    replace: bool,
    train: bool,
    uuid: Option<String>,
    page_rows: Option<u32>,
    zone_rows: Option<u32>,
    probability: Option<f64>,
}

impl TryFrom<IndexRequest> for NewIndex {
    type Error = Error;

    fn try_from(request: IndexRequest) -> Result<Self, Error> {
        let kind = IndexKind::named(&request.kind)
            .ok_or_else(|| Error::unsupported(format!("Index type {} is not supported", request.kind)))?;
        let default = IndexParameters::default();
        let parameters = IndexParameters {
            page_rows: request.page_rows.unwrap_or(default.page_rows),
            zone_rows: request.zone_rows.unwrap_or(default.zone_rows),
            probability: request.probability.unwrap_or(default.probability),
        };
        Ok(Self {
            column: request.column,
            kind,
            name: request.name,
            replace: request.replace,
            train: request.train,
            uuid: request.uuid.as_deref().map(parse_uuid).transpose()?,
            parameters,
        })
    }
}

/// A segment: its entry, and how far it reaches.
#[derive(IntoPyObject)]
pub(crate) struct SegmentParts {
    entry: IndexParts,
    covered: Vec<u32>,
    rows: u64,
    size_bytes: u64,
}

/// An index.
#[derive(IntoPyObject)]
pub(crate) struct DescriptionParts {
    name: String,
    kind: String,
    vectors: Option<VectorDetailsParts>,
    fields: Vec<String>,
    segments: Vec<SegmentParts>,
    indexed_fragments: u64,
    indexed_rows: u64,
    unindexed_fragments: u64,
    unindexed_rows: u64,
}

impl From<IndexDescription> for DescriptionParts {
    fn from(index: IndexDescription) -> Self {
        let segment = |segment: SegmentDescription| SegmentParts {
            entry: IndexParts::from(segment.parts),
            covered: segment.covered.iter().collect(),
            rows: segment.rows,
            size_bytes: segment.size_bytes,
        };
        Self {
            name: index.name,
            kind: index.vectors.as_ref().map_or(index.kind.name(), |(kind, _)| kind.name()).to_owned(),
            vectors: index.vectors.map(|(_, details)| details.into()),
            fields: index.fields,
            segments: index.segments.into_iter().map(segment).collect(),
            indexed_fragments: index.indexed_fragments,
            indexed_rows: index.indexed_rows,
            unindexed_fragments: index.unindexed_fragments,
            unindexed_rows: index.unindexed_rows,
        }
    }
}

/// What a segment says of itself, in the order of the reference.
#[derive(Default, IntoPyObject)]
pub(crate) struct StatisticsParts {
    num_pages: Option<u64>,
    page_rows: Option<u64>,
    min: Option<String>,
    max: Option<String>,
    num_bitmaps: Option<u64>,
    num_zones: Option<u64>,
    rows_per_zone: Option<u32>,
    #[pyo3(item("type"))]
    kind: Option<&'static str>,
    num_blocks: Option<u64>,
    number_of_items: Option<u32>,
    probability: Option<f64>,
    num_ngrams: Option<u64>,
}

impl From<SegmentStatistics> for StatisticsParts {
    fn from(statistics: SegmentStatistics) -> Self {
        match statistics {
            SegmentStatistics::BTree { pages, page_rows, bounds } => Self {
                num_pages: Some(pages),
                page_rows: Some(page_rows),
                min: bounds.as_ref().map(|(min, _)| min.clone()),
                max: bounds.map(|(_, max)| max),
                ..Self::default()
            },
            SegmentStatistics::Bitmap(count) => Self { num_bitmaps: Some(count), ..Self::default() },
            SegmentStatistics::ZoneMap { zones, zone_rows } => {
                Self { num_zones: Some(zones), rows_per_zone: Some(zone_rows), ..Self::default() }
            }
            SegmentStatistics::BloomFilter { zones, zone_rows, probability } => Self {
                kind: Some("BloomFilter"),
                num_blocks: Some(zones),
                number_of_items: Some(zone_rows),
                probability: Some(probability),
                ..Self::default()
            },
            SegmentStatistics::NGram(count) => Self { num_ngrams: Some(count), ..Self::default() },
        }
    }
}

/// Makes an index; a function hears how far it is.
#[pyfunction]
#[pyo3(signature = (dataset, request, progress))]
pub(crate) fn create_index(
    py: Python<'_>,
    dataset: &Dataset,
    request: Given<IndexRequest>,
    progress: Option<&Bound<'_, PyAny>>,
) -> PyResult<Dataset> {
    let mut dataset = dataset.get(py)?;
    let new = request.0.try_into().map_err(|error| to_py(py, &error))?;
    run_staged(py, dataset.create_index(new), progress)?;
    Ok(Dataset::wrap(dataset))
}

/// Makes a segment of an index over some fragments, which is not committed; a function hears how far it is.
#[pyfunction]
#[pyo3(signature = (dataset, request, fragments, progress))]
pub(crate) fn create_index_segment(
    py: Python<'_>,
    dataset: &Dataset,
    request: Given<IndexRequest>,
    fragments: Vec<u32>,
    progress: Option<&Bound<'_, PyAny>>,
) -> PyResult<IndexParts> {
    let dataset = dataset.get(py)?;
    let new = request.0.try_into().map_err(|error| to_py(py, &error))?;
    let fragments = fragments.into_iter().map(FragmentId).collect();
    let entry = run_staged(py, dataset.create_index_segment(new, fragments), progress)?;
    IndexParts::try_from(&entry).map_err(|error| to_py(py, &error))
}

/// Commits segments that were built apart.
#[pyfunction]
pub(crate) fn commit_index_segments(
    py: Python<'_>,
    dataset: &Dataset,
    name: &str,
    column: &str,
    segments: Vec<IndexParts>,
) -> PyResult<Dataset> {
    let mut dataset = dataset.get(py)?;
    let segments = entries(py, segments)?;
    run(py, dataset.commit_index_segments(name, column, segments))?;
    Ok(Dataset::wrap(dataset))
}

/// Makes one segment of several that are not committed.
#[pyfunction]
pub(crate) fn merge_index_segments(
    py: Python<'_>,
    dataset: &Dataset,
    segments: Vec<IndexParts>,
) -> PyResult<IndexParts> {
    let dataset = dataset.get(py)?;
    let segments = entries(py, segments)?;
    let merged = run(py, dataset.merge_index_segments(segments))?;
    IndexParts::try_from(&merged).map_err(|error| to_py(py, &error))
}

fn entries(py: Python<'_>, segments: Vec<IndexParts>) -> PyResult<Vec<IndexMetadata>> {
    let entries = segments.into_iter().map(IndexMetadata::try_from).collect::<Result<_, _>>();
    entries.map_err(|error: Error| to_py(py, &error))
}

/// Removes an index.
#[pyfunction]
pub(crate) fn drop_index(py: Python<'_>, dataset: &Dataset, name: &str) -> PyResult<Dataset> {
    let mut dataset = dataset.get(py)?;
    run(py, dataset.drop_index(name))?;
    Ok(Dataset::wrap(dataset))
}

/// The indices by name.
#[pyfunction]
pub(crate) fn describe_indices(py: Python<'_>, dataset: &Dataset) -> PyResult<Vec<DescriptionParts>> {
    let dataset = dataset.get(py)?;
    Ok(run(py, dataset.describe_indices())?.into_iter().map(Into::into).collect())
}

/// What the segments of an index say of themselves.
#[pyfunction]
pub(crate) fn index_statistics(
    py: Python<'_>,
    dataset: &Dataset,
    name: &str,
) -> PyResult<Vec<StatisticsParts>> {
    let dataset = dataset.get(py)?;
    Ok(run(py, dataset.index_statistics(name))?.into_iter().map(Into::into).collect())
}

/// Reads an index into the session.
#[pyfunction]
pub(crate) fn prewarm_index(py: Python<'_>, dataset: &Dataset, name: &str) -> PyResult<()> {
    let dataset = dataset.get(py)?;
    run(py, dataset.prewarm_index(name))
}

/// Takes rows into indices that these do not cover; a function hears how far it is.
#[pyfunction]
#[pyo3(signature = (dataset, names, merged_segments, rebuild, progress))]
pub(crate) fn optimize_indices(
    py: Python<'_>,
    dataset: &Dataset,
    names: Option<Vec<String>>,
    merged_segments: Option<usize>,
    rebuild: bool,
    progress: Option<&Bound<'_, PyAny>>,
) -> PyResult<Dataset> {
    let mut dataset = dataset.get(py)?;
    let care = IndexCare { names, merged_segments, rebuild };
    run_staged(py, dataset.optimize_indices(&care), progress)?;
    Ok(Dataset::wrap(dataset))
}
