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
use crate::index::IndexParts;
use crate::runtime::run;

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
}

impl TryFrom<IndexRequest> for NewIndex {
    type Error = Error;

    fn try_from(request: IndexRequest) -> Result<Self, Error> {
        let kind = IndexKind::named(&request.kind)
            .ok_or_else(|| Error::unsupported(format!("Index type {} is not supported", request.kind)))?;
        let mut parameters = IndexParameters::default();
        parameters.page_rows = request.page_rows.unwrap_or(parameters.page_rows);
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
    fields: Vec<String>,
    segments: Vec<SegmentParts>,
    indexed_fragments: u64,
    indexed_rows: u64,
    unindexed_fragments: u64,
    unindexed_rows: u64,
}

impl TryFrom<IndexDescription> for DescriptionParts {
    type Error = Error;

    fn try_from(index: IndexDescription) -> Result<Self, Error> {
        let segment = |segment: SegmentDescription| {
            Ok(SegmentParts {
                entry: IndexParts::from(segment.parts),
                covered: segment.covered.iter().collect(),
                rows: segment.rows,
                size_bytes: segment.size_bytes,
            })
        };
        Ok(Self {
            name: index.name,
            kind: index.kind.name().to_owned(),
            fields: index.fields,
            segments: index.segments.into_iter().map(segment).collect::<Result<_, Error>>()?,
            indexed_fragments: index.indexed_fragments,
            indexed_rows: index.indexed_rows,
            unindexed_fragments: index.unindexed_fragments,
            unindexed_rows: index.unindexed_rows,
        })
    }
}

/// What a segment says of itself.
#[derive(IntoPyObject)]
pub(crate) struct StatisticsParts {
    num_pages: Option<u64>,
    min: Option<String>,
    max: Option<String>,
    num_bitmaps: Option<u64>,
}

impl From<SegmentStatistics> for StatisticsParts {
    fn from(statistics: SegmentStatistics) -> Self {
        match statistics {
            SegmentStatistics::BTree { pages, bounds } => Self {
                num_pages: Some(pages),
                min: bounds.as_ref().map(|(min, _)| min.clone()),
                max: bounds.map(|(_, max)| max),
                num_bitmaps: None,
            },
            SegmentStatistics::Bitmap(count) => {
                Self { num_pages: None, min: None, max: None, num_bitmaps: Some(count) }
            }
        }
    }
}

/// Makes an index.
#[pyfunction]
pub(crate) fn create_index(py: Python<'_>, dataset: &Dataset, request: IndexRequest) -> PyResult<Dataset> {
    let mut dataset = dataset.get(py)?;
    let new = request.try_into().map_err(|error| to_py(py, &error))?;
    run(py, dataset.create_index(new))?;
    Ok(Dataset::wrap(dataset))
}

/// Makes a segment of an index over some fragments, which is not committed.
#[pyfunction]
pub(crate) fn create_index_segment(
    py: Python<'_>,
    dataset: &Dataset,
    request: IndexRequest,
    fragments: Vec<u32>,
) -> PyResult<IndexParts> {
    let dataset = dataset.get(py)?;
    let new = request.try_into().map_err(|error| to_py(py, &error))?;
    let fragments = fragments.into_iter().map(FragmentId).collect();
    let entry = run(py, dataset.create_index_segment(new, fragments))?;
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
    let found = run(py, dataset.describe_indices())?;
    let parts = found.into_iter().map(DescriptionParts::try_from).collect::<Result<_, _>>();
    parts.map_err(|error| to_py(py, &error))
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

/// Takes rows into indices that these do not cover.
#[pyfunction]
pub(crate) fn optimize_indices(
    py: Python<'_>,
    dataset: &Dataset,
    names: Option<Vec<String>>,
    merged_segments: Option<usize>,
    rebuild: bool,
) -> PyResult<Dataset> {
    let mut dataset = dataset.get(py)?;
    let care = IndexCare { names, merged_segments, rebuild };
    run(py, dataset.optimize_indices(&care))?;
    Ok(Dataset::wrap(dataset))
}
