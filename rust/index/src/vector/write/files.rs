//! Both files of an index, partition by partition in their order.
//!
//! Rows of a partition are sorted by their ids. Codes of product quantization are stored byte by byte: of all rows the first
//! one, then of all rows the second one.

use std::io::Write;
use std::sync::Arc;

use arrow_array::types::{Float16Type, Float32Type, Float64Type};
use arrow_array::{
    Array, ArrayRef, ArrowPrimitiveType, FixedSizeListArray, PrimitiveArray, RecordBatch, UInt8Array,
    UInt64Array,
};
use arrow_buffer::{Buffer, ScalarBuffer};
use arrow_schema::{DataType, Field, Schema as ArrowSchema, SchemaRef};
use pennon_core::file::FileVersion;
use pennon_core::schema::Schema;
use pennon_core::wire::vector_index::IvfMessage;
use pennon_core::{Error, Result};
use pennon_datafile::{FileWriter, WriteOptions};
use serde_json::json;

use super::graph_vectors::GraphVectors;
use crate::files::WrittenFile;
use crate::vector::VectorModel;
use crate::vector::graph::{self, GraphOptions, GraphRows, NodeDistances};
use crate::vector::index::{AUXILIARY_FILE, INDEX_FILE};
use crate::vector::metadata::{self, StorageMetadata};
use crate::vector::storage::{Quantizer, transposed};

const ROW_ID: &str = "_rowid";

/// Rows of a partition as they are written: each has an id and the bytes of its vector, quantized.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct PartitionRows {
    pub(super) ids: Vec<u64>,
    /// Row by row; of vectors that are stored as they are their elements, little-endian.
    pub(super) codes: Vec<u8>,
}

impl PartitionRows {
    /// How many rows there are.
    pub(super) fn len(&self) -> usize {
        self.ids.len()
    }

    /// Whether there are no rows.
    pub(super) fn is_empty(&self) -> bool {
        self.ids.is_empty()
    }

    /// Adds rows.
    pub(super) fn append(&mut self, mut rows: Self) {
        if self.is_empty() {
            *self = rows;
        } else {
            self.ids.append(&mut rows.ids);
            self.codes.append(&mut rows.codes);
        }
    }

    /// Sorted by id.
    fn sorted(self) -> Self {
        if self.ids.is_sorted() {
            return self;
        }
        let width = self.codes.len() / self.ids.len().max(1);
        let mut rows: Vec<(u64, &[u8])> =
            self.ids.iter().copied().zip(self.codes.chunks_exact(width.max(1))).collect();
        // Two rows of one id stay in their order.
        rows.sort_by_key(|(id, _)| *id);
        let ids = rows.iter().map(|(id, _)| *id).collect();
        let codes = rows.iter().flat_map(|(_, codes)| codes.iter().copied()).collect();
        Self { ids, codes }
    }
}

/// Writes the files of an index of one model.
pub(super) struct VectorIndexWriter<W> {
    model: Arc<VectorModel>,
    index: FileWriter<W>,
    vectors: FileWriter<W>,
    schema: SchemaRef,
    lengths: Vec<u32>,
    graphs: Option<WrittenGraphs>,
}

/// The graphs of the partitions so far.
struct WrittenGraphs {
    options: GraphOptions,
    threads: usize,
    lengths: Vec<u32>,
    texts: Vec<String>,
}

impl<W: Write> VectorIndexWriter<W> {
    /// A writer of both files; `index` becomes `index.idx`, `auxiliary` becomes `auxiliary.idx`. Errors: `Unsupported`
    /// for RaBitQ; those of [`FileWriter::try_new`].
    pub(super) fn try_new(
        model: Arc<VectorModel>,
        index: W,
        auxiliary: W,
        version: FileVersion,
    ) -> Result<Self> {
        if matches!(model.quantizer, Quantizer::Rabit(_)) {
            return Err(Error::unsupported("writing an index of type IVF_RQ"));
        }
        let options = WriteOptions { version, ..WriteOptions::default() };
        let marker = ArrowSchema::new(vec![Field::new("__flat_marker", DataType::UInt64, false)]);
        let has_graph = model.kind().has_graph();
        let of_index =
            if has_graph { Schema::from_arrow(&GraphRows::schema())? } else { Schema::from_arrow(&marker)? };
        let index = FileWriter::try_new(index, of_index, options)?;
        let graphs = has_graph.then(|| WrittenGraphs {
            options: GraphOptions::default(),
            threads: 1,
            lengths: Vec::new(),
            texts: Vec::new(),
        });
        let mut fields = vec![Field::new(ROW_ID, DataType::UInt64, false)];
        let columns = model.quantizer.columns(model.element(), model.dimension())?;
        fields.extend(columns.into_iter().map(|(name, data_type)| Field::new(name, data_type, true)));
        let schema = Arc::new(ArrowSchema::new(fields.clone()));
        // The name is reserved in tables.
        if let Some(id) = fields.first_mut() {
            id.set_name("id");
        }
        let mut of_file = Schema::from_arrow(&ArrowSchema::new(fields))?;
        if let Some(id) = of_file.fields.first_mut() {
            ROW_ID.clone_into(&mut id.name);
        }
        let vectors = FileWriter::try_new(auxiliary, of_file, options)?;
        Ok(Self { model, index, vectors, schema, lengths: Vec::new(), graphs })
    }

    /// The same writer with graphs that are built so, by so many threads, if there are graphs.
    #[must_use]
    pub(super) fn with_graphs(mut self, options: GraphOptions, threads: usize) -> Self {
        if let Some(graphs) = &mut self.graphs {
            (graphs.options, graphs.threads) = (options, threads);
        }
        self
    }

    /// Writes the next partition, whose rows may be in any order. Errors: `Internal` for a partition too many, and for
    /// rows of other vectors; `Store`.
    pub(super) fn write(&mut self, rows: PartitionRows) -> Result<()> {
        if self.lengths.len() == self.model.num_partitions() {
            return Err(Error::internal(format!(
                "more than the {} partitions of the model",
                self.lengths.len()
            )));
        }
        let len = u32::try_from(rows.len());
        self.lengths
            .push(len.map_err(|_| Error::unsupported(format!("a partition of {} rows", rows.len())))?);
        if rows.is_empty() {
            if let Some(graphs) = &mut self.graphs {
                graphs.lengths.push(0);
                graphs.texts.push(graph::empty_text(graphs.options));
            }
            return Ok(());
        }
        let PartitionRows { ids, codes } = rows.sorted();
        let codes = match &self.model.quantizer {
            Quantizer::Product(product) => transposed(&codes, product.code_bytes()),
            _ => codes,
        };
        let lists = lists(self.schema.field(1).data_type(), codes)?;
        if let Some(graphs) = &mut self.graphs {
            let rows = graphs.rows(&self.model, &lists, self.lengths.len() - 1)?;
            self.index.write(&rows)?;
        }
        let columns: Vec<ArrayRef> = vec![Arc::new(UInt64Array::from(ids)), lists];
        let batch = RecordBatch::try_new(Arc::clone(&self.schema), columns);
        self.vectors.write(&batch.map_err(|e| Error::internal(format!("rows of a partition: {e}")))?)
    }

    /// Writes what is left. Both files are flushed, not synced. Errors: `Internal` unless all partitions were written;
    /// `Store`.
    pub(super) fn finish(mut self) -> Result<[WrittenFile<W>; 2]> {
        let partitions = self.model.num_partitions();
        if self.lengths.len() != partitions {
            return Err(Error::internal(format!(
                "{} of {partitions} partitions were written",
                self.lengths.len()
            )));
        }
        let (lengths, key, texts) = match self.graphs {
            Some(graphs) => (graphs.lengths, metadata::HNSW, graphs.texts),
            None => (vec![0; partitions], metadata::FLAT, vec![String::new(); partitions]),
        };
        let of_index = IvfMessage {
            offsets: starts(&lengths),
            lengths,
            centroids: Some(self.model.centroids.to_tensor()?),
            loss: self.model.loss,
        };
        // Behind the rows, so that whoever opens the files finds these buffers with the metadata.
        self.index.flush()?;
        self.vectors.flush()?;
        let buffer = self.index.add_global_buffer(&of_index.encode())?;
        let VectorModel { kind, metric, .. } = *self.model;
        self.index.add_schema_metadata(metadata::INDEX.to_owned(), metadata::kind_text(kind, metric));
        self.index.add_schema_metadata(metadata::IVF.to_owned(), buffer.to_string());
        self.index.add_schema_metadata(key.to_owned(), json!(texts).to_string());
        let (index, index_sink) = self.index.finish()?;

        let offsets = starts(&self.lengths);
        let ivf = IvfMessage { offsets, lengths: self.lengths, centroids: None, loss: None };
        let buffer = self.vectors.add_global_buffer(&ivf.encode())?;
        let dimension = self.model.dimension() as u64;
        let storage = match &self.model.quantizer {
            Quantizer::Flat => StorageMetadata::Flat { dimension },
            Quantizer::Scalar(scalar) => {
                let (low, high) = scalar.bounds();
                StorageMetadata::Scalar { dimension, low, high }
            }
            Quantizer::Product(product) => StorageMetadata::Product {
                codebook: self.vectors.add_global_buffer(&product.codebook().to_tensor()?.encode())?,
                bits: product.bits() as u64,
                sub_vectors: product.sub_vectors() as u64,
                dimension,
                transposed: true,
            },
            Quantizer::Rabit(_) => return Err(Error::unsupported("writing an index of type IVF_RQ")),
        };
        self.vectors.add_schema_metadata(metadata::DISTANCE_TYPE.to_owned(), metric.name().to_owned());
        self.vectors.add_schema_metadata(metadata::IVF.to_owned(), buffer.to_string());
        self.vectors.add_schema_metadata(metadata::STORAGE.to_owned(), storage.to_text());
        let (vectors, vectors_sink) = self.vectors.finish()?;
        Ok([
            WrittenFile { name: INDEX_FILE, size: index.size, sink: index_sink },
            WrittenFile { name: AUXILIARY_FILE, size: vectors.size, sink: vectors_sink },
        ])
    }
}

impl WrittenGraphs {
    /// The rows of the graph of a partition, whose vectors are these rows of their file.
    fn rows(&mut self, model: &VectorModel, lists: &ArrayRef, partition: usize) -> Result<RecordBatch> {
        let codes = model.quantizer.written_codes(lists)?;
        let count = u32::try_from(lists.len());
        let count = count.map_err(|_| Error::unsupported(format!("a graph of {} vectors", lists.len())))?;
        let vectors = GraphVectors::of(model, &codes, partition)?;
        let distances = &vectors;
        let graph = graph::build(count, self.options, self.threads, distances);
        let GraphRows { batch, text } = GraphRows::of(&graph, self.options, |a, b| distances.between(a, b))?;
        let length = u32::try_from(batch.num_rows());
        self.lengths.push(length.map_err(|_| Error::unsupported("a graph of 2^32 nodes"))?);
        self.texts.push(text);
        Ok(batch)
    }
}

/// Where each partition begins.
fn starts(lengths: &[u32]) -> Vec<u64> {
    let next = |end: &mut u64, length: &u32| {
        let start = *end;
        *end += u64::from(*length);
        Some(start)
    };
    lengths.iter().scan(0, next).collect()
}

/// Lists of a type from the bytes of all their items, little-endian. Errors: `Internal` for other numbers of bytes.
fn lists(list: &DataType, bytes: Vec<u8>) -> Result<ArrayRef> {
    let DataType::FixedSizeList(item, len) = list else {
        return Err(Error::internal(format!("codes of type {list}")));
    };
    let items: ArrayRef = match item.data_type() {
        DataType::Float16 => floats::<Float16Type, 2>(&bytes, half::f16::from_le_bytes),
        DataType::Float32 => floats::<Float32Type, 4>(&bytes, f32::from_le_bytes),
        DataType::Float64 => floats::<Float64Type, 8>(&bytes, f64::from_le_bytes),
        _ => Arc::new(UInt8Array::new(ScalarBuffer::from(Buffer::from_vec(bytes)), None)),
    };
    let lists = FixedSizeListArray::try_new(Arc::clone(item), *len, items, None);
    Ok(Arc::new(lists.map_err(|e| Error::internal(format!("rows of a partition: {e}")))?))
}

fn floats<T: ArrowPrimitiveType, const N: usize>(
    bytes: &[u8],
    of: impl Fn([u8; N]) -> T::Native,
) -> ArrayRef {
    let (chunks, _) = bytes.as_chunks::<N>();
    Arc::new(PrimitiveArray::<T>::from_iter_values(chunks.iter().map(|bytes| of(*bytes))))
}
