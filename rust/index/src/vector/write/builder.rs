//! An index of new vectors, and of those of other indices with the same model.
//!
//! New vectors are encoded when they are added; in the end partition by partition is completed by the rows of the other
//! indices, and written. So memory is bounded by the limit of gathered rows, a batch, the rows of other indices that
//! are read with one read, and the largest partition; with graphs also by its vectors, which are decoded for that.

use std::io::Write;
use std::sync::Arc;

use arrow_array::FixedSizeListArray;
use pennon_core::file::FileVersion;
use pennon_core::{Error, Result};

use super::encode::Encoder;
use super::gather::Gathered;
use super::{PartitionRows, SpillFile, VectorIndexWriter};
use crate::files::WrittenFile;
use crate::vector::rows::UsableVectors;
use crate::vector::{GraphOptions, VectorIndex, VectorModel, VectorPartition};

/// Bytes of other indices that are read at once.
const READ: u64 = 16 << 20;

/// How an index is built.
#[derive(Debug)]
pub struct BuildOptions {
    /// Threads that compute.
    pub threads: usize,
    /// Bytes of rows that are gathered in memory if there is a file for more.
    pub memory_limit: usize,
    /// The file for more.
    pub spill: Option<Box<dyn SpillFile>>,
}

impl Default for BuildOptions {
    /// One thread, and all in memory.
    fn default() -> Self {
        Self { threads: 1, memory_limit: usize::MAX, spill: None }
    }
}

/// The rows of another index that an index takes over.
pub struct Inherited<'a> {
    /// The other index.
    pub index: &'a VectorIndex,
    /// The number that a row gets, or `None` for a row that is left out.
    pub remap: &'a dyn Fn(u64) -> Option<u64>,
}

/// Builds an index of one model.
#[derive(Debug)]
pub struct VectorIndexBuilder {
    encoder: Encoder,
    gathered: Gathered,
    threads: usize,
    graphs: GraphOptions,
}

impl VectorIndexBuilder {
    /// A builder without rows.
    pub fn new(model: Arc<VectorModel>, options: BuildOptions) -> Self {
        let BuildOptions { threads, memory_limit, spill } = options;
        let width = model.row_bytes();
        let gathered = Gathered::new(model.num_partitions(), width, memory_limit, spill);
        Self { encoder: Encoder::new(model), gathered, threads, graphs: GraphOptions::default() }
    }

    /// The same builder with graphs that are built so, if the model has graphs.
    #[must_use]
    pub fn with_graphs(self, graphs: GraphOptions) -> Self {
        Self { graphs, ..self }
    }

    /// Adds vectors with their rows. Left out are vectors that are null, have elements that are null or not finite, or
    /// no length where that matters. Gives how many were added.
    ///
    /// Errors: `InvalidInput` for vectors that are not of the model, and for as many rows as vectors are not; those of
    /// the file for more than the limit.
    pub fn add(&mut self, vectors: &FixedSizeListArray, rows: &[u64]) -> Result<usize> {
        let model = self.encoder.model();
        let (element, dimension) = (vectors.value_type(), vectors.value_length());
        if element != *model.element() || usize::try_from(dimension) != Ok(model.dimension()) {
            return Err(Error::invalid_input(format!(
                "vectors of {dimension} times {element}, the index has those of {} times {}",
                model.dimension(),
                model.element()
            )));
        }
        let len = arrow_array::Array::len(vectors);
        if len != rows.len() {
            return Err(Error::invalid_input(format!("{len} vectors of {} rows", rows.len())));
        }
        let width = model.row_bytes();
        let usable = UsableVectors::of(vectors, model.metric())?;
        let assigned = self.encoder.assign(&usable, self.threads);
        let codes = self.encoder.encode(&usable, &assigned, self.threads)?;
        for ((assigned, row), code) in assigned.iter().zip(&usable.rows).zip(codes.chunks_exact(width.max(1)))
        {
            let id = rows.get(*row).copied().ok_or_else(|| Error::internal("a vector without a row"))?;
            self.gathered.push(assigned.centroid, id, code)?;
        }
        self.gathered.keep_limit()?;
        Ok(usable.rows.len())
    }

    /// Writes both files with the rows that were added and those of other indices; `index` becomes `index.idx`, `auxiliary`
    /// becomes `auxiliary.idx`. Both are flushed, not synced. Gives how many rows were written as well. `progress` gets
    /// the number of partitions that are written, and of all; what it fails with ends it.
    ///
    /// Errors: `InvalidInput` for an index of another model; `Store`, and `Corrupt` with the name of a file of another
    /// index; those of `progress`.
    pub fn finish<W: Write>(
        mut self,
        index: W,
        auxiliary: W,
        version: FileVersion,
        inherited: &[Inherited<'_>],
        progress: &mut dyn FnMut(u32, u32) -> Result<()>,
    ) -> Result<([WrittenFile<W>; 2], u64)> {
        let model = Arc::clone(self.encoder.model());
        if inherited.iter().any(|other| !other.index.model().is_mergeable_with(&model)) {
            return Err(Error::invalid_input(
                "IVF centroids mismatch across segments: only indices of one model can be merged",
            ));
        }
        let writer = VectorIndexWriter::try_new(Arc::clone(&model), index, auxiliary, version)?;
        let mut writer = writer.with_graphs(self.graphs, self.threads);
        let mut written = 0;
        let partitions = u32::try_from(model.num_partitions());
        let partitions = partitions.map_err(|_| Error::unsupported("more than 2^32 partitions"))?;
        let mut first = 0;
        while first < partitions {
            let end = end_of_read(inherited, first, partitions, model.row_bytes() as u64);
            let partition_numbers: Vec<u32> = (first..end).collect();
            let others = inherited
                .iter()
                .map(|other| other.index.read(&partition_numbers))
                .collect::<Result<Vec<_>>>()?;
            for (at, partition) in partition_numbers.iter().enumerate() {
                let mut rows = self.gathered.take(*partition as usize)?;
                for (other, read) in inherited.iter().zip(&others) {
                    let Some(read) = read.get(at) else { continue };
                    rows.append(kept(&model, read, other.remap));
                }
                written += rows.len() as u64;
                writer.write(rows)?;
                progress(*partition + 1, partitions)?;
            }
            first = end;
        }
        Ok((writer.finish()?, written))
    }
}

/// The end of the partitions that are read at once, of those from one on.
fn end_of_read(inherited: &[Inherited<'_>], first: u32, partitions: u32, width: u64) -> u32 {
    let bytes = |partition: u32| {
        let rows: u64 = inherited.iter().map(|other| other.index.partition_rows(partition)).sum();
        rows.saturating_mul(width + 8)
    };
    let mut total = bytes(first);
    let mut end = first + 1;
    while end < partitions {
        total = total.saturating_add(bytes(end));
        if total > READ {
            break;
        }
        end += 1;
    }
    end
}

/// The rows of a partition with their new numbers.
fn kept(
    model: &VectorModel,
    partition: &VectorPartition,
    remap: &dyn Fn(u64) -> Option<u64>,
) -> PartitionRows {
    let codes = partition.row_codes(model);
    let width = model.row_bytes();
    let mut kept = PartitionRows::default();
    for (id, code) in partition.row_ids().iter().zip(codes.chunks_exact(width.max(1))) {
        if let Some(id) = remap(*id) {
            kept.ids.push(id);
            kept.codes.extend_from_slice(code);
        }
    }
    kept
}
