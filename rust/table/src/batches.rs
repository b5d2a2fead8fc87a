//! Rows of several batches as one batch, and values of several arrays as one array: their dictionaries are put together.

use arrow_array::{Array, ArrayRef, RecordBatch};
use arrow_schema::{ArrowError, SchemaRef};
use arrow_select::concat;
use arrow_select::interleave;
use pennon_core::{Error, Result};
use pennon_datafile::{unify_dictionaries, with_one_dictionary};

/// All rows, in their order.
///
/// Errors: `Unsupported` for more items of dictionaries than a column has keys; what `failed` makes of others.
pub(crate) fn concat_batches<'a>(
    schema: &SchemaRef,
    batches: impl IntoIterator<Item = &'a RecordBatch>,
    failed: impl FnOnce(ArrowError) -> Error,
) -> Result<RecordBatch> {
    let batches: Vec<&RecordBatch> = batches.into_iter().collect();
    let unified = with_one_dictionary(&batches)?;
    concat::concat_batches(schema, &unified).map_err(failed)
}

/// Rows by the numbers of their batches, and their own there. Errors: as for [`concat_batches`].
pub(crate) fn interleave_batches(
    batches: &[&RecordBatch],
    rows: &[(usize, usize)],
    failed: impl FnOnce(ArrowError) -> Error,
) -> Result<RecordBatch> {
    let unified = with_one_dictionary(batches)?;
    interleave::interleave_record_batch(&unified.iter().collect::<Vec<_>>(), rows).map_err(failed)
}

/// Values by the numbers of their arrays, and their own there. Errors: as for [`concat_batches`].
pub(crate) fn interleave_arrays(
    arrays: &[ArrayRef],
    values: &[(usize, usize)],
    failed: impl FnOnce(ArrowError) -> Error,
) -> Result<ArrayRef> {
    let unified = unify_dictionaries(arrays)?;
    let arrays: Vec<&dyn Array> = unified.iter().map(AsRef::as_ref).collect();
    interleave::interleave(&arrays, values).map_err(failed)
}
