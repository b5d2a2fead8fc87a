//! Partitions and codes of vectors.

use std::sync::Arc;

use arrow_schema::DataType;
use half::f16;
use pennon_core::{Error, Result};

use crate::vector::matrix::{Values, narrowed};
use crate::vector::rows::{UsableVectors, VectorsView};
use crate::vector::storage::{ProductQuantizer, Quantizer};
use crate::vector::train::assign::{Assignment, Centroids};
use crate::vector::train::prepared;
use crate::vector::{Metric, VectorModel};

/// Assigns vectors to the partitions of a model, and quantizes them.
#[derive(Debug)]
pub(super) struct Encoder {
    model: Arc<VectorModel>,
    centroids: Centroids,
    /// Of centroids, element by element.
    floats: Vec<f64>,
    /// Of product quantization what the codes of each sub-vector stand for.
    sub_vectors: Vec<Centroids>,
}

impl Encoder {
    pub(super) fn new(model: Arc<VectorModel>) -> Self {
        let floats = model.centroids.values().to_f64();
        let centroids = prepared(&floats, model.dimension(), model.metric);
        let sub_vectors = match &model.quantizer {
            Quantizer::Product(product) => sub_vectors(product),
            _ => Vec::new(),
        };
        Self { model, centroids, floats, sub_vectors }
    }

    pub(super) fn model(&self) -> &Arc<VectorModel> {
        &self.model
    }

    /// The partition of each vector.
    pub(super) fn assign(&self, vectors: &UsableVectors, threads: usize) -> Vec<Assignment> {
        self.centroids.assign(VectorsView::all(&vectors.values, self.model.dimension()), threads)
    }

    /// The codes of vectors, row by row.
    pub(super) fn encode(
        &self,
        vectors: &UsableVectors,
        assigned: &[Assignment],
        threads: usize,
    ) -> Result<Vec<u8>> {
        Ok(match &self.model.quantizer {
            Quantizer::Flat => vectors.values.to_bytes(self.model.element()),
            Quantizer::Scalar(scalar) => match &vectors.values {
                Values::F32(values) => values.iter().map(|value| scalar.encode(f64::from(*value))).collect(),
                Values::F64(values) => values.iter().map(|value| scalar.encode(*value)).collect(),
                Values::U8(values) => values.to_vec(),
            },
            Quantizer::Product(product) => {
                let residuals = self.residuals(vectors, assigned);
                self.product_codes(product, &residuals, threads)
            }
            Quantizer::Rabit(_) => {
                return Err(Error::unsupported("adding vectors to an index of type IVF_RQ"));
            }
        })
    }

    /// What product quantization encodes.
    fn residuals(&self, vectors: &UsableVectors, assigned: &[Assignment]) -> Values {
        if self.model.metric == Metric::Dot {
            return vectors.values.clone();
        }
        let dimension = self.model.dimension();
        let view = VectorsView::all(&vectors.values, dimension);
        let mut residuals = Vec::with_capacity(vectors.values.len());
        for (row, assigned) in assigned.iter().enumerate() {
            let start = assigned.centroid as usize * dimension;
            let centroid = self.floats.get(start..start + dimension).unwrap_or_default();
            view.for_each(row, |at, value| {
                residuals.push(narrowed(value - centroid.get(at).copied().unwrap_or(0.0)));
            });
        }
        Values::F32(residuals.into())
    }

    fn product_codes(&self, product: &ProductQuantizer, residuals: &Values, threads: usize) -> Vec<u8> {
        let dimension = self.model.dimension();
        let (width, bytes) = (dimension / product.sub_vectors().max(1), product.code_bytes());
        let rows = residuals.len() / dimension.max(1);
        let mut codes = vec![0_u8; rows * bytes];
        for (number, centroids) in self.sub_vectors.iter().enumerate() {
            let view = VectorsView { values: residuals, dimension, start: number * width, width };
            let assigned = centroids.assign(view, threads);
            // Two codes of 4 bits share a byte, the even one in the lower half.
            let (byte, shift) = if product.bits() == 8 { (number, 0) } else { (number / 2, number % 2 * 4) };
            for (to, assigned) in codes.iter_mut().skip(byte).step_by(bytes.max(1)).zip(assigned) {
                *to |= u8::try_from(assigned.centroid).unwrap_or(0) << shift;
            }
        }
        codes
    }
}

fn sub_vectors(product: &ProductQuantizer) -> Vec<Centroids> {
    let codebook = product.codebook().values().to_f64();
    let width = product.codebook().dimension() / product.sub_vectors().max(1);
    let size = codebook.len() / product.sub_vectors().max(1);
    let parts = codebook.chunks_exact(size.max(1));
    parts.map(|part| Centroids::of_floats(part, width, false)).collect()
}

impl Values {
    /// Little-endian, in this element type, which the values are rounded to.
    pub(in crate::vector) fn to_bytes(&self, element: &DataType) -> Vec<u8> {
        match self {
            Self::F32(values) if *element == DataType::Float16 => {
                values.iter().flat_map(|value| f16::from_f32(*value).to_le_bytes()).collect()
            }
            Self::F32(values) => values.iter().flat_map(|value| value.to_le_bytes()).collect(),
            Self::F64(values) => values.iter().flat_map(|value| value.to_le_bytes()).collect(),
            Self::U8(values) => values.to_vec(),
        }
    }
}
