//! Opening: the centroids, and what the file with the vectors says of them.

use std::ops::Range;
use std::sync::Arc;

use arrow_schema::DataType;
use pennon_core::schema::Field;
use pennon_core::wire::vector_index::IvfMessage;
use pennon_core::{Error, Result};
use pennon_datafile::{Ahead, ColumnMap, FileReader};

use crate::files::{IndexFiles, column, open_both};
use crate::vector::graph::{GraphFile, candidates};
use crate::vector::matrix::Matrix;
use crate::vector::storage::Quantizer;
use crate::vector::{GraphOptions, Metric, VectorIndexKind, VectorModel, metadata};

pub(in crate::vector) const INDEX_FILE: &str = "index.idx";
pub(in crate::vector) const AUXILIARY_FILE: &str = "auxiliary.idx";
/// Bytes of the end of a file that are requested with its metadata: the partitions of most indices are in them.
const AHEAD: u64 = 256 << 10;

/// An index over vectors that was opened: its centroids are in memory, its partitions are read when they are searched.
#[derive(Debug)]
pub struct VectorIndex {
    pub(super) model: Arc<VectorModel>,
    pub(super) vectors: VectorFile,
    pub(super) graphs: Option<GraphFile>,
}

/// The file with the vectors.
#[derive(Debug)]
pub(super) struct VectorFile {
    pub(super) reader: FileReader,
    pub(super) name: String,
    /// Columns of row ids and of vectors.
    pub(super) fields: Vec<Field>,
    pub(super) columns: ColumnMap,
    /// The rows of each partition.
    pub(super) partitions: Vec<Range<u64>>,
}

impl VectorIndex {
    /// Opens an index: reads its centroids.
    ///
    /// Errors: `NotFound`, `Store`, `Unsupported` for kinds of index that are not read, and `Corrupt` with the name of the
    /// file.
    pub fn open(files: Arc<dyn IndexFiles>) -> Result<Self> {
        let [source, vectors] = open_both(files.as_ref(), [(INDEX_FILE, AHEAD), (AUXILIARY_FILE, AHEAD)])?;
        let name = source.name().to_owned();
        let reader = FileReader::open_ahead(source, Ahead::Held(AHEAD))?;
        let (kind, metric, centroids, ivf) = partitions_of(&reader).map_err(|e| e.in_file(&name))?;
        reader.forget_ahead();
        let loss = ivf.loss;
        let graphs = if kind.has_graph() { Some(GraphFile::new(reader, name, &ivf)?) } else { None };
        let name = vectors.name().to_owned();
        let reader = FileReader::open_ahead(vectors, Ahead::Held(AHEAD))?;
        let (quantizer, fields, partitions) =
            vectors_of(&reader, kind, &centroids).map_err(|e| e.in_file(&name))?;
        reader.forget_ahead();
        let columns = reader.column_map();
        let vectors = VectorFile { reader, name, fields, columns, partitions };
        let model = Arc::new(VectorModel { kind, metric, centroids, loss, quantizer });
        Ok(Self { model, vectors, graphs })
    }

    /// What it was built with: others with the same model can be merged with it.
    pub fn model(&self) -> &Arc<VectorModel> {
        &self.model
    }

    /// The kind of index.
    pub fn kind(&self) -> VectorIndexKind {
        self.model.kind
    }

    /// The metric it was built with.
    pub fn metric(&self) -> Metric {
        self.model.metric
    }

    /// Elements of a vector.
    pub fn dimension(&self) -> usize {
        self.model.centroids.dimension()
    }

    /// Type of the elements.
    pub fn element(&self) -> &DataType {
        self.model.centroids.element()
    }

    /// How the graphs of partitions were built, if there are graphs.
    pub fn graph_options(&self) -> Option<GraphOptions> {
        self.graphs.as_ref().map(GraphFile::options)
    }

    /// How many partitions there are, empty ones among them.
    pub fn num_partitions(&self) -> usize {
        self.vectors.partitions.len()
    }

    /// How many rows a partition has; 0 for one that is not there.
    pub fn partition_rows(&self, partition: u32) -> u64 {
        self.vectors.rows(partition).map_or(0, |rows| rows.end - rows.start)
    }

    /// How many rows all partitions have.
    pub fn num_rows(&self) -> u64 {
        self.vectors.partitions.iter().map(|rows| rows.end - rows.start).sum()
    }

    /// Bytes that a search of so many partitions looks at, at most and about: all centroids, and of the largest
    /// partition the ids, the vectors as they are stored, and the edges, so many times.
    pub fn searched_bytes(&self, partitions: usize) -> u64 {
        let rows = self.vectors.partitions.iter().map(|rows| rows.end - rows.start).max().unwrap_or(0);
        self.bytes_of(rows, partitions)
    }

    /// Bytes that [`Self::follow`] looks at for so many rows, about: of the neighbors of all candidates. `None` if
    /// there are no graphs.
    pub fn followed_bytes(&self, rows: usize, ef: Option<usize>) -> Option<u64> {
        let compared = (candidates(rows, ef) as u64).saturating_mul(self.graph_options()?.degree().into());
        Some(self.bytes_of(compared, 1))
    }

    /// Bytes of all centroids, and of so many rows of each of so many partitions.
    fn bytes_of(&self, rows: u64, partitions: usize) -> u64 {
        let edges = self.graph_options().map_or(0, |options| 4 * u64::from(options.degree()));
        let of_row = 8 + self.model.row_bytes() as u64 + edges;
        let of_partitions = rows.saturating_mul(of_row).saturating_mul(partitions as u64);
        of_partitions.saturating_add(self.model.memory_bytes() as u64)
    }

    /// Bytes of memory it holds.
    pub fn memory_bytes(&self) -> usize {
        self.graphs.as_ref().map_or(0, GraphFile::memory_bytes)
            + self.model.memory_bytes()
            + self.vectors.partitions.len() * 16
            + self.vectors.reader.memory_size()
    }
}

impl VectorFile {
    pub(super) fn rows(&self, partition: u32) -> Option<&Range<u64>> {
        self.partitions.get(usize::try_from(partition).ok()?)
    }
}

type Partitions = (VectorIndexKind, Metric, Matrix, IvfMessage);

fn partitions_of(reader: &FileReader) -> Result<Partitions> {
    let metadata = &reader.metadata().schema.metadata;
    let (kind, metric) = metadata::kind(metadata)?;
    let mut ivf = IvfMessage::decode(reader.global_buffer(metadata::ivf_buffer(metadata)?)?)?;
    let centroids =
        ivf.centroids.take().ok_or_else(|| Error::unsupported("an index without a tensor of centroids"))?;
    let centroids = Matrix::of_tensor(&centroids).map_err(|e| e.at("centroids"))?;
    if !metric.supports(centroids.element()) {
        return Err(Error::corrupt(format!("centroids of {} compared by {metric}", centroids.element())));
    }
    Ok((kind, metric, centroids, ivf))
}

type Vectors = (Quantizer, Vec<Field>, Vec<Range<u64>>);

fn vectors_of(reader: &FileReader, kind: VectorIndexKind, centroids: &Matrix) -> Result<Vectors> {
    let (element, dimension) = (centroids.element(), centroids.dimension());
    let quantizer = Quantizer::of_file(reader, kind, element, dimension)?;
    let schema = &reader.metadata().schema;
    let ids = column(reader, "_rowid")?;
    if ids.data_type() != DataType::UInt64 {
        return Err(Error::corrupt(format!("`_rowid` has the type {}, expected UInt64", ids.data_type())));
    }
    let mut fields = vec![ids];
    for (name, expected) in quantizer.columns(element, dimension)? {
        let field = column(reader, name)?;
        let found = field.data_type();
        let fits = match (&found, &expected) {
            (DataType::FixedSizeList(item, len), DataType::FixedSizeList(of, expected)) => {
                (item.data_type(), len) == (of.data_type(), expected)
            }
            _ => found == expected,
        };
        if !fits {
            return Err(Error::corrupt(format!("`{name}` has the type {found}, expected {expected}")));
        }
        fields.push(field);
    }
    let ivf = IvfMessage::decode(reader.global_buffer(metadata::ivf_buffer(&schema.metadata)?)?)?;
    let (found, expected) = (ivf.lengths.len(), centroids.rows());
    if found != expected || ivf.offsets.len() != expected {
        let offsets = ivf.offsets.len();
        return Err(Error::corrupt(format!(
            "{found} lengths and {offsets} offsets of {expected} partitions"
        )));
    }
    let all = reader.metadata().num_rows;
    let mut partitions = Vec::with_capacity(expected);
    for (partition, (start, len)) in ivf.offsets.into_iter().zip(ivf.lengths).enumerate() {
        let end = start.checked_add(u64::from(len)).filter(|end| len == 0 || *end <= all);
        let end = end.ok_or_else(|| {
            Error::corrupt(format!(
                "partition {partition} has {len} rows from row {start}, the file has {all}"
            ))
        })?;
        partitions.push(start..end);
    }
    Ok((quantizer, fields, partitions))
}
