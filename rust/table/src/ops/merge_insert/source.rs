//! The rows of a source, kept as long as a merge lasts: in memory, or in a temporary file if they are many.
//!
//! They are read once, because a source may be a stream; a retry after a conflict joins them again.

use std::ops::Range;
use std::sync::Arc;

use arrow_array::{Array, RecordBatch};
use arrow_schema::SchemaRef;
use pennon_core::lengths::to_u64;
use pennon_core::{Error, Result};

use crate::json;
use crate::runtime::{CancellationToken, check};
use crate::spill::{Spilled, Writer};
use crate::write::BatchReader;

/// Rows of a slice of a batch.
const SLICE_ROWS: usize = 32 << 10;

/// A source that was read.
pub(super) struct MergeSource {
    pub(super) schema: SchemaRef,
    /// Rows.
    pub(super) rows: u64,
    /// Bytes of their values, about.
    pub(super) bytes: u64,
    kept: Kept,
}

enum Kept {
    Memory(Arc<Vec<RecordBatch>>),
    File(Spilled),
}

/// Batches, each with the number of its first row.
pub(super) type Numbered = Box<dyn Iterator<Item = Result<(u64, RecordBatch)>> + Send>;

impl MergeSource {
    /// Reads a source to its end. With more bytes than `limit` it goes to a temporary file.
    ///
    /// Errors: `InvalidInput` "Reading the data failed: ..." if the source fails; `Store` for the file.
    pub(super) fn collect(reader: BatchReader, limit: u64, token: &CancellationToken) -> Result<Self> {
        let reader = json::stored(reader);
        let schema = reader.schema();
        let (mut rows, mut bytes) = (0_u64, 0_u64);
        let mut batches = Vec::new();
        let mut file: Option<Writer> = None;
        for batch in reader {
            check(token)?;
            let batch = batch.map_err(|e| Error::invalid_input(format!("Reading the data failed: {e}")))?;
            if batch.num_rows() == 0 {
                continue;
            }
            rows = rows.saturating_add(to_u64(batch.num_rows()));
            bytes = bytes.saturating_add(bytes_of(&batch));
            match &mut file {
                Some(file) => file.write(&batch)?,
                None => batches.push(batch),
            }
            if file.is_none() && bytes > limit {
                let mut writer = Writer::new(&schema)?;
                batches.drain(..).try_for_each(|batch| writer.write(&batch))?;
                file = Some(writer);
            }
        }
        let kept = match file {
            Some(file) => Kept::File(file.finish()?),
            None => Kept::Memory(Arc::new(batches)),
        };
        Ok(Self { schema, rows, bytes, kept })
    }

    /// Whether the rows are in a file.
    pub(super) fn is_spilled(&self) -> bool {
        matches!(self.kept, Kept::File(_))
    }

    /// All rows, in order.
    pub(super) fn batches(&self) -> Result<Numbered> {
        let mut first = 0;
        let number = move |batch: Result<RecordBatch>| {
            let batch = batch?;
            let start = first;
            first += to_u64(batch.num_rows());
            Ok((start, batch))
        };
        Ok(match &self.kept {
            Kept::Memory(batches) => {
                let (batches, mut at, mut start) = (Arc::clone(batches), 0, 0);
                let next = move || {
                    let batch = batches.get(at)?;
                    let rows = SLICE_ROWS.min(batch.num_rows() - start);
                    let slice = batch.slice(start, rows);
                    start += rows;
                    if start == batch.num_rows() {
                        (at, start) = (at + 1, 0);
                    }
                    Some(Ok(slice))
                };
                Box::new(std::iter::from_fn(next).map(number))
            }
            Kept::File(file) => Box::new(file.read()?.map(number)),
        })
    }

    /// The batches as they are in memory, with the rows of each; none of a file.
    pub(super) fn in_memory(&self) -> Vec<(Range<u64>, &RecordBatch)> {
        let Kept::Memory(batches) = &self.kept else { return Vec::new() };
        let mut end = 0;
        let with_rows = |batch| {
            let start = end;
            end += to_u64(RecordBatch::num_rows(batch));
            (start..end, batch)
        };
        batches.iter().map(with_rows).collect()
    }
}

/// Bytes of the values of these rows alone, even if they are a part of larger arrays.
pub(super) fn bytes_of(batch: &RecordBatch) -> u64 {
    let column = |column: &dyn Array| {
        column.to_data().get_slice_memory_size().unwrap_or_else(|_| column.get_array_memory_size())
    };
    batch.columns().iter().map(|array| to_u64(column(array.as_ref()))).sum()
}
