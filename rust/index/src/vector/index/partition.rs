//! Rows of partitions, several of them with one read.

use std::ops::Range;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::UInt64Type;
use arrow_array::{Array, ArrayRef, FixedSizeListArray};
use arrow_buffer::ScalarBuffer;
use pennon_core::error::ResultExt;
use pennon_core::rows::RowRanges;
use pennon_core::{Error, Result};

use super::VectorIndex;
use crate::vector::VectorModel;
use crate::vector::graph::Graph;
use crate::vector::matrix::Matrix;
use crate::vector::storage::Codes;

/// A partition that was read: its rows and their vectors.
#[derive(Debug)]
pub struct VectorPartition {
    pub(super) number: u32,
    pub(super) row_ids: ScalarBuffer<u64>,
    pub(super) codes: Codes,
    pub(super) graph: Option<Graph>,
}

impl VectorPartition {
    /// Its number, from 0.
    pub fn number(&self) -> u32 {
        self.number
    }

    /// The row of each vector: row ids of a table where they are stable, else row addresses.
    pub fn row_ids(&self) -> &[u64] {
        &self.row_ids
    }

    /// The codes of all rows, row by row.
    pub(in crate::vector) fn row_codes(&self, model: &VectorModel) -> Vec<u8> {
        match &self.codes {
            Codes::Flat(values) => values.to_bytes(model.element()),
            Codes::Product(codes) => codes.row_bytes(),
            Codes::Scalar(codes) => codes.bytes().to_vec(),
            Codes::Rabit(_) => Vec::new(),
        }
    }

    /// Bytes of memory.
    pub fn memory_bytes(&self) -> usize {
        let graph = self.graph.as_ref().map_or(0, Graph::memory_bytes);
        self.row_ids.len() * 8 + self.codes.memory_bytes() + graph + size_of::<Self>()
    }
}

impl VectorIndex {
    /// The vectors of a partition, as far as their codes tell: with the metric cosine those of length 1.
    ///
    /// Errors: `Unsupported` for RaBitQ and for vectors that are too long for lists, `Internal` for a partition of
    /// another index.
    pub fn vectors(&self, partition: &VectorPartition) -> Result<FixedSizeListArray> {
        let number = usize::try_from(partition.number).unwrap_or(usize::MAX);
        let values = self.model.decode(&partition.codes, number)?;
        Matrix::try_new(self.element(), self.dimension(), values)?.to_lists()
    }

    /// Reads partitions with one read of the file, in the order of the request.
    ///
    /// Errors: `InvalidInput` for a partition that is not there, `Store`, and `Corrupt` with the name of the file.
    pub fn read(&self, partitions: &[u32]) -> Result<Vec<Arc<VectorPartition>>> {
        let file = &self.vectors;
        let ranges = partitions.iter().map(|partition| {
            let range = file.rows(*partition).cloned();
            range.ok_or_else(|| Error::invalid_input(format!("there is no partition {partition}")))
        });
        let ranges = ranges.collect::<Result<Vec<_>>>()?;
        let rows: RowRanges = ranges.iter().filter(|range| !range.is_empty()).cloned().collect();
        let arrays = file.reader.read(&file.fields, &file.columns, &rows)?;
        let is_shared = ranges.len() > 1;
        let ranked = rows.ranked();
        let graphs = match &self.graphs {
            Some(graphs) => {
                let rows =
                    |range: &Range<u64>| usize::try_from(range.end - range.start).unwrap_or(usize::MAX);
                graphs.read(&partitions.iter().copied().zip(ranges.iter().map(rows)).collect::<Vec<_>>())?
            }
            None => vec![None; ranges.len()],
        };
        let of_partition = |((number, range), graph): ((&u32, Range<u64>), Option<Graph>)| {
            let start = if range.is_empty() { Some(0) } else { ranked.position(range.start) };
            let start = start.and_then(|start| usize::try_from(start).ok());
            let len = usize::try_from(range.end - range.start).ok();
            let (Some(start), Some(len)) = (start, len) else {
                return Err(Error::internal("rows of a partition were not read"));
            };
            if arrays.iter().any(|array| array.len() < start + len) {
                return Err(Error::internal("rows of a partition were not read"));
            }
            let columns: Vec<ArrayRef> = arrays.iter().map(|array| array.slice(start, len)).collect();
            let partition =
                self.partition(*number, &columns, is_shared).at(|| format!("partition {number}"))?;
            Ok(Arc::new(VectorPartition { graph, ..partition }))
        };
        let partitions = partitions.iter().zip(ranges).zip(graphs).map(of_partition);
        partitions.collect::<Result<_>>().in_file(|| &file.name)
    }

    fn partition(&self, number: u32, columns: &[ArrayRef], own: bool) -> Result<VectorPartition> {
        let Some((ids, columns)) = columns.split_first() else {
            return Err(Error::internal("a partition without columns"));
        };
        let ids = ids.as_primitive_opt::<UInt64Type>().filter(|ids| ids.null_count() == 0);
        let ids = ids.ok_or_else(|| Error::corrupt("`_rowid` has a null"))?.values();
        let row_ids = if own { ids.to_vec().into() } else { ids.clone() };
        let codes = self.model.quantizer.codes(columns, own)?;
        Ok(VectorPartition { number, row_ids, codes, graph: None })
    }
}
