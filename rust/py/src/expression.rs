//! Values of an SQL expression over rows in memory.

use arrow_array::Array;
use arrow_pyarrow::ToPyArrow;
use pennon_table::expr::Expression;
use pyo3::prelude::*;

use crate::error::to_py;
use crate::sliced::batch_from_py;

/// The values, a `pyarrow.Array`, of an expression over the columns of a `pyarrow.RecordBatch`.
#[pyfunction]
pub(crate) fn evaluate<'py>(
    py: Python<'py>,
    expression: &str,
    batch: &Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyAny>> {
    let batch = batch_from_py(batch, None)?;
    let values = py.detach(|| Expression::parse(expression, &batch.schema())?.evaluate(&batch));
    values.map_err(|error| to_py(py, &error))?.to_data().to_pyarrow(py)
}
