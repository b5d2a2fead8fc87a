//! What is asked for, with what follows if it is not said.
//!
//! Defaults and texts of errors are those of the reference.

use arrow_array::cast::AsArray;
use arrow_array::types::Float64Type;
use arrow_array::{Array, FixedSizeListArray};
use arrow_cast::cast;
use arrow_schema::DataType;
use pennon_core::schema::Field;
use pennon_core::{Error, Result};
use pennon_index::{Metric, VectorIndexKind};
use uuid::Uuid;

/// Errors: `InvalidInput` if there is no vector, or one with null, NaN or an infinite element.
fn check_numbers(name: &str, vectors: &FixedSizeListArray) -> Result<()> {
    if vectors.is_empty() {
        return Err(Error::invalid_input(format!("{name} has no vector, expected at least one")));
    }
    let elements = cast(vectors.values(), &DataType::Float64)
        .map_err(|e| Error::invalid_input(format!("{name} must have numbers: {e}")))?;
    let is_number = |element: Option<f64>| element.is_some_and(f64::is_finite);
    match elements.as_primitive::<Float64Type>().iter().find(|element| !is_number(*element)) {
        Some(found) => Err(Error::invalid_input(format!(
            "{name} has the element {}, expected finite numbers",
            found.map_or_else(|| "null".to_owned(), |found| found.to_string())
        ))),
        None => Ok(()),
    }
}

/// Partitions at most, if their number is not given.
const MOST_PARTITIONS: u64 = 4096;

/// An index over vectors to make.
#[derive(Debug, Clone)]
pub struct NewVectorIndex {
    /// The column of vectors, or of lists of vectors; or the path of a nested field.
    pub column: String,
    /// What kind of index.
    pub kind: VectorIndexKind,
    /// How distance is measured.
    pub metric: Metric,
    /// Its name; derived from the column if not given.
    pub name: Option<String>,
    /// Whether an index of that name over the same column is replaced.
    pub replace: bool,
    /// Whether the rows there are go into it; else it covers nothing until it is optimised.
    pub train: bool,
    /// Its uuid; a random one if not given.
    pub uuid: Option<Uuid>,
    /// How it is built.
    pub parameters: VectorParameters,
}

/// How an index over vectors is built.
#[derive(Debug, Clone, PartialEq)]
pub struct VectorParameters {
    /// How many partitions; derived from the rows if not given.
    pub num_partitions: Option<u32>,
    /// Rows of a partition that are aimed at, if their number is not given.
    pub target_partition_size: Option<u64>,
    /// The centroids of partitions; found in a sample if not given.
    pub centroids: Option<FixedSizeListArray>,
    /// The codebook of product quantization, in the order of files; found in a sample if not given.
    pub codebook: Option<FixedSizeListArray>,
    /// Codes of a vector, of product quantization.
    pub num_sub_vectors: Option<u32>,
    /// Bits of a code, of product quantization: 4 or 8.
    pub num_bits: u32,
    /// Passes over the sample at most.
    pub max_iterations: u32,
    /// Rows of the sample for each centroid.
    pub sample_rate: u32,
    /// Neighbours of a node of a graph on its upper levels.
    pub m: u32,
    /// Candidates for neighbours when a graph is built.
    pub ef_construction: u32,
    /// Levels of a graph at most.
    pub max_level: u32,
}

impl Default for VectorParameters {
    fn default() -> Self {
        Self {
            num_partitions: None,
            target_partition_size: None,
            centroids: None,
            codebook: None,
            num_sub_vectors: None,
            num_bits: 8,
            max_iterations: 50,
            sample_rate: 256,
            m: 20,
            ef_construction: 150,
            max_level: 7,
        }
    }
}

impl VectorParameters {
    /// How many partitions an index of so many rows has.
    pub(super) fn partitions(&self, kind: VectorIndexKind, rows: u64) -> u32 {
        if let Some(centroids) = &self.centroids {
            return u32::try_from(centroids.len()).unwrap_or(u32::MAX);
        }
        if let Some(partitions) = self.num_partitions {
            return partitions;
        }
        let target = self.target_partition_size.unwrap_or(match kind {
            VectorIndexKind::IvfFlat | VectorIndexKind::IvfRq => 4096,
            VectorIndexKind::IvfPq | VectorIndexKind::IvfSq => 8192,
            _ => 1 << 20,
        });
        u32::try_from((rows / target.max(1)).clamp(1, MOST_PARTITIONS)).unwrap_or(1)
    }

    /// Errors: `InvalidInput` for numbers out of their range, and parts that do not fit together.
    pub(super) fn check(&self, kind: VectorIndexKind, dimension: usize) -> Result<()> {
        let at_least = |name: &str, value: u32, least: u32| match value >= least {
            true => Ok(()),
            false => Err(Error::invalid_input(format!("{name} must be at least {least}, got {value}"))),
        };
        at_least("num_partitions", self.num_partitions.unwrap_or(1), 1)?;
        at_least("max_iters", self.max_iterations, 1)?;
        at_least("sample_rate", self.sample_rate, 1)?;
        if self.target_partition_size == Some(0) {
            return Err(Error::invalid_input("target_partition_size must be at least 1, got 0"));
        }
        if kind.has_graph() {
            at_least("m", self.m, 4)?;
            at_least("ef_construction", self.ef_construction, self.m)?;
            at_least("max_level", self.max_level, 1)?;
        }
        if self.codebook.is_some() && self.centroids.is_none() {
            return Err(Error::invalid_input("ivf_centroids must be specified when pq_codebook is provided"));
        }
        let of_dimension = |name: &str, vectors: &Option<FixedSizeListArray>| match vectors {
            Some(vectors) if usize::try_from(vectors.value_length()) != Ok(dimension) => {
                let found = vectors.value_length();
                Err(Error::invalid_input(format!(
                    "{name} has vectors of {found}, expected {dimension} elements"
                )))
            }
            _ => Ok(()),
        };
        for (name, vectors) in [("ivf_centroids", &self.centroids), ("pq_codebook", &self.codebook)] {
            of_dimension(name, vectors)?;
            vectors.as_ref().map_or(Ok(()), |vectors| check_numbers(name, vectors))?;
        }
        if let (Some(centroids), Some(partitions)) = (&self.centroids, self.num_partitions)
            && usize::try_from(partitions) != Ok(centroids.len())
        {
            return Err(Error::invalid_input(format!(
                "ivf_centroids has {} vectors, num_partitions is {partitions}",
                centroids.len()
            )));
        }
        match kind {
            VectorIndexKind::IvfPq | VectorIndexKind::IvfHnswPq => self.check_product(dimension),
            _ => Ok(()),
        }
    }

    fn check_product(&self, dimension: usize) -> Result<()> {
        if !matches!(self.num_bits, 4 | 8) {
            return Err(Error::invalid_input(format!("num_bits must be 4 or 8, got {}", self.num_bits)));
        }
        let count = self.num_sub_vectors.ok_or_else(|| {
            Error::invalid_input(
                "num_partitions and num_sub_vectors are required for IVF_PQ: num_sub_vectors is missing",
            )
        })?;
        let divides = usize::try_from(count).is_ok_and(|count| count > 0 && dimension.is_multiple_of(count));
        if !divides {
            return Err(Error::invalid_input(format!(
                "dimension ({dimension}) must be divisible by num_sub_vectors ({count})"
            )));
        }
        if self.num_bits == 4 && !count.is_multiple_of(2) {
            return Err(Error::invalid_input(format!(
                "num_sub_vectors must be even for num_bits of 4, got {count}"
            )));
        }
        Ok(())
    }
}

/// The vectors of a field.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct VectorType {
    /// The type of their elements.
    pub(super) element: DataType,
    /// How many elements a vector has.
    pub(super) dimension: usize,
    /// Whether rows have lists of vectors.
    pub(super) is_list: bool,
}

impl VectorType {
    /// Errors: `SchemaMismatch` for another type, and for elements that have no distance.
    pub(super) fn of(field: &Field, column: &str) -> Result<Self> {
        let data_type = field.data_type();
        let (vector, is_list) = match &data_type {
            DataType::List(item) | DataType::LargeList(item) => (item.data_type(), true),
            _ => (&data_type, false),
        };
        let DataType::FixedSizeList(element, dimension) = vector else {
            return Err(Error::schema_mismatch(format!(
                "Vector column {column} must be FixedSizeListArray or a list of such, got {data_type}"
            )));
        };
        let element = element.data_type().clone();
        let dimension = usize::try_from(*dimension).unwrap_or(0);
        let has_distance = Metric::L2.supports(&element) || Metric::Hamming.supports(&element);
        if !has_distance || dimension == 0 {
            return Err(Error::schema_mismatch(format!(
                "Vector column {column} must have floating value type, or uint8 for hamming, got {data_type}"
            )));
        }
        Ok(Self { element, dimension, is_list })
    }

    /// Errors: `InvalidInput` for a metric by which these vectors have no index.
    pub(super) fn check_metric(&self, metric: Metric) -> Result<()> {
        if !metric.supports(&self.element) {
            let element = &self.element;
            return Err(Error::invalid_input(format!(
                "Metric {metric} is not supported for vectors of {element}"
            )));
        }
        if self.is_list && metric != Metric::Cosine {
            return Err(Error::invalid_input(format!(
                "An index over lists of vectors is by cosine, got the metric {metric}"
            )));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn partitions_follow_the_rows() {
        let parameters = VectorParameters::default();
        assert_eq!(parameters.partitions(VectorIndexKind::IvfFlat, 0), 1);
        assert_eq!(parameters.partitions(VectorIndexKind::IvfFlat, 41_000), 10);
        assert_eq!(parameters.partitions(VectorIndexKind::IvfPq, 41_000), 5);
        assert_eq!(parameters.partitions(VectorIndexKind::IvfHnswSq, 20_000), 1);
        assert_eq!(parameters.partitions(VectorIndexKind::IvfFlat, 1 << 40), 4096);
        let given = VectorParameters { num_partitions: Some(7), ..parameters };
        assert_eq!(given.partitions(VectorIndexKind::IvfFlat, 41_000), 7);
    }

    #[test]
    fn numbers_out_of_their_range() {
        let refused =
            |kind, parameters: VectorParameters| parameters.check(kind, 16).unwrap_err().to_string();
        let of = VectorParameters::default;
        let flat = VectorIndexKind::IvfFlat;
        assert!(
            refused(flat, VectorParameters { num_partitions: Some(0), ..of() }).contains("num_partitions")
        );
        assert!(refused(flat, VectorParameters { max_iterations: 0, ..of() }).contains("max_iters"));
        let graph = VectorIndexKind::IvfHnswSq;
        assert!(refused(graph, VectorParameters { m: 3, ..of() }).contains("m must be at least 4"));
        assert!(refused(graph, VectorParameters { ef_construction: 10, ..of() }).contains("at least 20"));
        let product = VectorIndexKind::IvfPq;
        assert!(refused(product, of()).contains("num_sub_vectors is missing"));
        let three = VectorParameters { num_sub_vectors: Some(3), ..of() };
        assert!(refused(product, three).contains("dimension (16) must be divisible by num_sub_vectors (3)"));
        let odd = VectorParameters { num_sub_vectors: Some(1), num_bits: 4, ..of() };
        assert!(refused(product, odd).contains("must be even"));
        assert!(VectorParameters { num_sub_vectors: Some(4), ..of() }.check(product, 16).is_ok());
    }
}
