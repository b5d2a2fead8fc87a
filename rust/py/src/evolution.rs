//! Columns that are added, changed and dropped: of a whole table, committed, or of one fragment, not committed.

use arrow_pyarrow::FromPyArrow;
use arrow_schema::{Field, Schema};
use pennon_core::FragmentId;
use pennon_core::schema::Alteration;
use pennon_table::NewColumns;
use pyo3::intern;
use pyo3::prelude::*;

use crate::arrow::Input;
use crate::dataset::Dataset;
use crate::error::to_py;
use crate::fragment::FragmentParts;
use crate::runtime::run;
use crate::schema::SchemaParts;

/// A fragment with its new file, and the schema to commit it with.
type Evolved = (FragmentParts, SchemaParts);

/// Path, new name, whether it may be null, `pyarrow.DataType`.
type AlterationParts<'py> = (String, Option<String>, Option<bool>, Option<Bound<'py, PyAny>>);

fn evolved((fragment, schema): (pennon_core::manifest::Fragment, pennon_core::schema::Schema)) -> Evolved {
    ((&fragment).into(), schema.into())
}

/// Adds columns by name and SQL expression.
#[pyfunction]
pub(crate) fn add_expressions(
    py: Python<'_>,
    dataset: &Dataset,
    columns: Vec<(String, String)>,
    batch_size: Option<usize>,
) -> PyResult<Dataset> {
    let mut dataset = dataset.get(py)?;
    run(py, dataset.add_columns(NewColumns::Expressions(columns), batch_size))?;
    Ok(Dataset::wrap(dataset))
}

/// Adds columns whose values are given in the order of the rows.
#[pyfunction]
pub(crate) fn add_values(py: Python<'_>, dataset: &Dataset, reader: Input) -> PyResult<Dataset> {
    let mut dataset = dataset.get(py)?;
    reader.run(py, |reader| dataset.add_columns(NewColumns::Values(reader), None))?;
    Ok(Dataset::wrap(dataset))
}

/// Adds columns that are null.
#[pyfunction]
pub(crate) fn add_nulls(py: Python<'_>, dataset: &Dataset, schema: &Bound<'_, PyAny>) -> PyResult<Dataset> {
    let mut dataset = dataset.get(py)?;
    let columns = NewColumns::Null(Schema::from_pyarrow_bound(schema)?.into());
    run(py, dataset.add_columns(columns, None))?;
    Ok(Dataset::wrap(dataset))
}

/// The version with columns that are null, which the next change of rows commits.
#[pyfunction]
pub(crate) fn with_columns(
    py: Python<'_>,
    dataset: &Dataset,
    schema: &Bound<'_, PyAny>,
) -> PyResult<Dataset> {
    let dataset = dataset.get(py)?;
    let columns = Schema::from_pyarrow_bound(schema)?.into();
    dataset.with_columns(columns).map(Dataset::wrap).map_err(|error| to_py(py, &error))
}

/// Alters columns.
#[pyfunction]
pub(crate) fn alter_columns(
    py: Python<'_>,
    dataset: &Dataset,
    alterations: Vec<AlterationParts<'_>>,
) -> PyResult<Dataset> {
    let mut list = Vec::with_capacity(alterations.len());
    for (path, name, nullable, data_type) in alterations {
        // A field has the name of an extension type, the type itself does not.
        let to_field = |to| py.import(intern!(py, "pyarrow"))?.call_method1(intern!(py, "field"), ("", to));
        let field = data_type.map(|to| Field::from_pyarrow_bound(&to_field(to)?)).transpose()?;
        let extension = field.iter().flat_map(|field| field.metadata().clone()).collect();
        let data_type = field.map(|field| field.data_type().clone());
        list.push(Alteration { path, name, nullable, data_type, extension });
    }
    let mut dataset = dataset.get(py)?;
    run(py, dataset.alter_columns(&list))?;
    Ok(Dataset::wrap(dataset))
}

/// Drops columns by their paths.
#[pyfunction]
pub(crate) fn drop_columns(py: Python<'_>, dataset: &Dataset, columns: Vec<String>) -> PyResult<Dataset> {
    let mut dataset = dataset.get(py)?;
    run(py, dataset.drop_columns(&columns))?;
    Ok(Dataset::wrap(dataset))
}

/// Adds the columns of other data by a key.
#[pyfunction]
pub(crate) fn merge_columns(
    py: Python<'_>,
    dataset: &Dataset,
    reader: Input,
    left_on: &str,
    right_on: &str,
) -> PyResult<Dataset> {
    let mut dataset = dataset.get(py)?;
    reader.run(py, |reader| dataset.merge_columns(reader, left_on, right_on))?;
    Ok(Dataset::wrap(dataset))
}

/// [`add_expressions`] for one fragment.
#[pyfunction]
pub(crate) fn add_expressions_in_fragment(
    py: Python<'_>,
    dataset: &Dataset,
    fragment: u32,
    columns: Vec<(String, String)>,
    batch_size: Option<usize>,
) -> PyResult<Evolved> {
    let (dataset, columns) = (dataset.get(py)?, NewColumns::Expressions(columns));
    run(py, dataset.add_columns_in_fragment(FragmentId(fragment), columns, batch_size)).map(evolved)
}

/// [`add_values`] for one fragment.
#[pyfunction]
pub(crate) fn add_values_in_fragment(
    py: Python<'_>,
    dataset: &Dataset,
    fragment: u32,
    reader: Input,
) -> PyResult<Evolved> {
    let (dataset, id) = (dataset.get(py)?, FragmentId(fragment));
    let add = |reader| dataset.add_columns_in_fragment(id, NewColumns::Values(reader), None);
    reader.run(py, add).map(evolved)
}

/// [`merge_columns`] for one fragment.
#[pyfunction]
pub(crate) fn merge_columns_in_fragment(
    py: Python<'_>,
    dataset: &Dataset,
    fragment: u32,
    reader: Input,
    left_on: &str,
    right_on: &str,
) -> PyResult<Evolved> {
    let (dataset, id) = (dataset.get(py)?, FragmentId(fragment));
    let merge = |reader| dataset.merge_columns_in_fragment(id, reader, left_on, right_on);
    reader.run(py, merge).map(evolved)
}
