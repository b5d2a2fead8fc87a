//! What an index is built with: the centroids of its partitions, and how vectors are stored.
//!
//! Parts of an index that are built apart, and indices that are to be merged, have the same model.

use arrow_array::FixedSizeListArray;
use arrow_schema::DataType;
use pennon_core::wire::vector_index::{HnswDetails, StorageDetails, VectorIndexDetails};
use pennon_core::{Error, Result};

use super::matrix::{Matrix, Values, elements_of, is_element};
use super::storage::{Codes, ProductQuantizer, Quantizer, ScalarQuantizer};
use super::{Metric, VectorIndexKind};

/// The centroids of partitions, and how vectors are stored.
#[derive(Debug, Clone, PartialEq)]
pub struct VectorModel {
    pub(super) kind: VectorIndexKind,
    pub(super) metric: Metric,
    pub(super) centroids: Matrix,
    pub(super) loss: Option<f64>,
    pub(super) quantizer: Quantizer,
}

/// How vectors are stored, and what that takes.
#[derive(Debug, Clone, Copy)]
pub enum VectorStorage<'a> {
    /// As they are.
    Flat,
    /// By product quantization.
    Product {
        /// In the order of files: by sub-vector, code and element, cut into vectors of all elements.
        codebook: &'a FixedSizeListArray,
        /// Bits of a code: 4 or 8.
        num_bits: u32,
        /// Codes of a vector.
        num_sub_vectors: u32,
    },
    /// By scalar quantization.
    Scalar {
        /// The least element.
        low: f64,
        /// The greatest element.
        high: f64,
    },
}

impl VectorModel {
    /// A model of given centroids.
    ///
    /// Errors: `InvalidInput` for vectors without the metric, for storage that is not of the kind, and for sizes that do not
    /// fit.
    pub fn try_new(
        kind: VectorIndexKind,
        metric: Metric,
        centroids: &FixedSizeListArray,
        storage: VectorStorage<'_>,
    ) -> Result<Self> {
        let centroids = matrix(centroids, "centroids")?;
        let element = centroids.element();
        if !metric.supports(element) {
            return Err(Error::invalid_input(format!(
                "Distance type {metric} does not support {element} vectors"
            )));
        }
        let quantizer = match storage {
            VectorStorage::Flat => Quantizer::Flat,
            VectorStorage::Product { codebook, num_bits, num_sub_vectors } => {
                let codebook = matrix(codebook, "codebook")?;
                if codebook.element() != element || codebook.dimension() != centroids.dimension() {
                    return Err(Error::invalid_input(format!(
                        "a codebook of {} times {}, the centroids are of {} times {element}",
                        codebook.dimension(),
                        codebook.element(),
                        centroids.dimension()
                    )));
                }
                let product =
                    ProductQuantizer::try_new(codebook, num_bits.into(), num_sub_vectors.into(), true);
                Quantizer::Product(product.map_err(|e| Error::invalid_input(e.to_string()))?)
            }
            VectorStorage::Scalar { low, high } if low.is_finite() && high.is_finite() && low <= high => {
                Quantizer::Scalar(ScalarQuantizer::new(low, high))
            }
            VectorStorage::Scalar { low, high } => {
                return Err(Error::invalid_input(format!("the bounds of elements are {low} and {high}")));
            }
        };
        let model = Self { kind, metric, centroids, loss: None, quantizer };
        model.check_kind()?;
        Ok(model)
    }

    fn check_kind(&self) -> Result<()> {
        let fits = match self.kind {
            VectorIndexKind::IvfFlat | VectorIndexKind::IvfHnswFlat => {
                matches!(self.quantizer, Quantizer::Flat)
            }
            VectorIndexKind::IvfPq | VectorIndexKind::IvfHnswPq => {
                matches!(self.quantizer, Quantizer::Product(_))
            }
            VectorIndexKind::IvfSq | VectorIndexKind::IvfHnswSq => {
                matches!(self.quantizer, Quantizer::Scalar(_))
            }
            VectorIndexKind::IvfRq => return Err(Error::unsupported("building an index of type IVF_RQ")),
        };
        if !fits || (self.metric == Metric::Hamming && !matches!(self.quantizer, Quantizer::Flat)) {
            return Err(Error::invalid_input(format!(
                "vectors of an index of type {} by {}",
                self.kind, self.metric
            )));
        }
        Ok(())
    }

    /// The kind of index.
    pub fn kind(&self) -> VectorIndexKind {
        self.kind
    }

    /// The metric.
    pub fn metric(&self) -> Metric {
        self.metric
    }

    /// Elements of a vector.
    pub fn dimension(&self) -> usize {
        self.centroids.dimension()
    }

    /// Type of the elements.
    pub fn element(&self) -> &DataType {
        self.centroids.element()
    }

    /// How many partitions there are.
    pub fn num_partitions(&self) -> usize {
        self.centroids.rows()
    }

    /// The centroid of each partition. Errors: `Unsupported` for vectors that are too long for lists.
    pub fn centroids(&self) -> Result<FixedSizeListArray> {
        self.centroids.to_lists()
    }

    /// The codebook of product quantization, in the order of files, and the bits and the number of codes of a vector.
    pub fn codebook(&self) -> Result<Option<(FixedSizeListArray, u32, u32)>> {
        let Quantizer::Product(product) = &self.quantizer else { return Ok(None) };
        let [bits, sub_vectors] =
            [product.bits(), product.sub_vectors()].map(|n| u32::try_from(n).unwrap_or(0));
        Ok(Some((product.codebook().to_lists()?, bits, sub_vectors)))
    }

    /// The bounds of scalar quantization.
    pub fn bounds(&self) -> Option<(f64, f64)> {
        match &self.quantizer {
            Quantizer::Scalar(scalar) => Some(scalar.bounds()),
            _ => None,
        }
    }

    /// The same model with the sum of distances to centroids in the training data.
    #[must_use]
    pub fn with_loss(self, loss: f64) -> Self {
        Self { loss: Some(loss), ..self }
    }

    /// The sum of distances to centroids in the training data, if recorded.
    pub fn loss(&self) -> Option<f64> {
        self.loss
    }

    /// The details of an index entry, without hints.
    pub fn details(&self, hnsw: Option<HnswDetails>) -> VectorIndexDetails {
        let storage = match &self.quantizer {
            Quantizer::Flat => StorageDetails::Flat,
            Quantizer::Product(product) => StorageDetails::Product {
                num_bits: u32::try_from(product.bits()).unwrap_or(0),
                num_sub_vectors: u32::try_from(product.sub_vectors()).unwrap_or(0),
            },
            Quantizer::Scalar(_) => StorageDetails::Scalar { num_bits: 8 },
            Quantizer::Rabit(rabit) => {
                StorageDetails::Rabit { num_bits: u32::try_from(rabit.bits()).unwrap_or(0) }
            }
        };
        VectorIndexDetails {
            metric: self.metric.number(),
            hnsw,
            storage: Some(storage),
            ..VectorIndexDetails::default()
        }
    }

    /// What codes of a partition stand for.
    pub(super) fn decode(&self, codes: &Codes, partition: usize) -> Result<Values> {
        let like = self.centroids.values();
        match (&self.quantizer, codes) {
            (Quantizer::Flat, Codes::Flat(values)) => Ok(values.clone()),
            (Quantizer::Scalar(scalar), Codes::Scalar(codes)) => {
                Ok(Values::like(like, codes.bytes().iter().map(|code| scalar.decode(*code))))
            }
            (Quantizer::Product(product), Codes::Product(codes)) => {
                Ok(Values::like(like, product.decode(codes, self.metric, &self.centroids, partition)))
            }
            (Quantizer::Rabit(_), _) => Err(Error::unsupported("vectors of an index of type IVF_RQ")),
            _ => Err(Error::internal("a partition of another index")),
        }
    }

    /// Bytes of a quantized vector.
    pub(super) fn row_bytes(&self) -> usize {
        match &self.quantizer {
            Quantizer::Flat => self.dimension() * self.element().primitive_width().unwrap_or(1),
            Quantizer::Product(product) => product.code_bytes(),
            Quantizer::Scalar(_) | Quantizer::Rabit(_) => self.dimension(),
        }
    }

    /// Whether rows of partitions of both can be put together: partitions are around the same centroids, and codes mean
    /// the same.
    pub fn is_mergeable_with(&self, other: &Self) -> bool {
        self.metric == other.metric && self.centroids == other.centroids && self.quantizer == other.quantizer
    }

    /// Bytes of memory it holds.
    pub fn memory_bytes(&self) -> usize {
        self.centroids.memory_bytes() + self.quantizer.memory_bytes() + size_of::<Self>()
    }
}

/// Vectors that are all there. Errors: `InvalidInput`.
pub(super) fn matrix(vectors: &FixedSizeListArray, what: &str) -> Result<Matrix> {
    let element = vectors.value_type();
    if !is_element(&element) {
        return Err(Error::invalid_input(format!("{what} of {element}, expected floats or uint8")));
    }
    let (values, is_complete) = elements_of(vectors)?;
    let dimension = usize::try_from(vectors.value_length()).unwrap_or(0);
    if is_complete.is_some() || dimension == 0 {
        return Err(Error::invalid_input(format!("{what} without some of their elements")));
    }
    Matrix::try_new(&element, dimension, values)
}
