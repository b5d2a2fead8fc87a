//! One query against the vectors of a column.

use arrow_array::types::{Float32Type, Float64Type, UInt8Type};
use arrow_array::{Array, ArrayRef, FixedSizeListArray, Float16Array, cast::AsArray};
use arrow_cast::cast;
use arrow_schema::DataType;
use half::slice::HalfFloatSliceExt;
use pennon_core::{Error, Result};
use pennon_datafile::simd_into;

use super::Metric;
use super::kernels::{self, Real};

/// A vector that others are compared with, in the type in which this is computed: that of the column, but `f32` for
/// `f16`.
#[derive(Debug, Clone)]
pub struct VectorQuery {
    metric: Metric,
    dimension: usize,
    values: Values,
}

#[derive(Debug, Clone)]
enum Values {
    F32(Vec<f32>),
    F64(Vec<f64>),
    U8(Vec<u8>),
}

impl VectorQuery {
    /// A query for a column of vectors with so many elements of this type. Its values are cast to that type.
    ///
    /// Errors: `InvalidInput` for another number of values, for nulls, for a type without this metric, and for values
    /// that the type does not have.
    pub fn new(metric: Metric, element: &DataType, dimension: usize, values: &ArrayRef) -> Result<Self> {
        if !metric.supports(element) {
            return Err(Error::invalid_input(format!(
                "Distance type {metric} does not support {element} vectors"
            )));
        }
        if values.len() != dimension {
            return Err(Error::invalid_input(format!(
                "Query vector size {} does not match index column size {dimension}",
                values.len()
            )));
        }
        if values.null_count() > 0 {
            return Err(Error::invalid_input("The query vector has nulls"));
        }
        let not_cast = |e| Error::invalid_input(format!("The query vector does not fit {element}: {e}"));
        let values = cast(values, element).map_err(not_cast)?;
        if values.null_count() > 0 {
            return Err(Error::invalid_input(format!("The query vector has values that {element} does not")));
        }
        let values = match element {
            DataType::Float16 => Values::F32(to_f32(values.as_primitive())),
            DataType::Float32 => Values::F32(values.as_primitive::<Float32Type>().values().to_vec()),
            DataType::Float64 => Values::F64(values.as_primitive::<Float64Type>().values().to_vec()),
            _ => Values::U8(values.as_primitive::<UInt8Type>().values().to_vec()),
        };
        Ok(Self { metric, dimension, values })
    }

    /// The distance of each vector, NaN where there is none: the vector or one of its elements is null or NaN, or the
    /// metric is not defined for it. Errors: `Internal` for vectors of another column.
    pub fn distances(&self, vectors: &FixedSizeListArray) -> Result<Vec<f32>> {
        let start = usize::try_from(vectors.value_offset(0)).unwrap_or(0);
        let elements = vectors.values().slice(start, vectors.len() * self.dimension);
        let other = || Error::internal(format!("vectors of {} for another query", elements.data_type()));
        if usize::try_from(vectors.value_length()) != Ok(self.dimension) {
            return Err(other());
        }
        let mut distances = match &self.values {
            Values::F32(query) => match elements.data_type() {
                DataType::Float32 => {
                    self.of_reals(elements.as_primitive::<Float32Type>().values(), query, vectors.len())
                }
                DataType::Float16 => self.of_reals(&to_f32(elements.as_primitive()), query, vectors.len()),
                _ => return Err(other()),
            },
            Values::F64(query) => {
                let elements = elements.as_primitive_opt::<Float64Type>().ok_or_else(other)?;
                self.of_reals(elements.values(), query, vectors.len())
            }
            Values::U8(query) => {
                let elements = elements.as_primitive_opt::<UInt8Type>().ok_or_else(other)?;
                each(elements.values(), query, vectors.len(), bits_that_differ)
            }
        };
        let has_null_element = |row: usize| {
            elements.nulls().is_some_and(|n| n.slice(row * self.dimension, self.dimension).null_count() > 0)
        };
        if vectors.null_count() > 0 || elements.null_count() > 0 {
            for (row, distance) in distances.iter_mut().enumerate() {
                if vectors.is_null(row) || has_null_element(row) {
                    *distance = f32::NAN;
                }
            }
        }
        Ok(distances)
    }

    fn of_reals<T: Real>(&self, elements: &[T], query: &[T], rows: usize) -> Vec<f32> {
        match self.metric {
            Metric::Dot => each(elements, query, rows, |v, q| narrowed(1.0 - kernels::dot(v, q).into())),
            Metric::Cosine => {
                let length = kernels::dot(query, query).into().sqrt();
                let cosine = |v: &[T], q: &[T]| {
                    // Zero divided by zero is NaN: a vector of length zero has no distance.
                    let lengths = kernels::dot(v, v).into().sqrt() * length;
                    narrowed(1.0 - kernels::dot(v, q).into() / lengths)
                };
                each(elements, query, rows, cosine)
            }
            _ => each(elements, query, rows, |v, q| narrowed(kernels::squared_l2(v, q).into())),
        }
    }
}

/// What a kernel says of each vector. The loop is one piece of code, so that registers of 256 bits are used for it.
fn each<T>(elements: &[T], query: &[T], rows: usize, distance: impl Fn(&[T], &[T]) -> f32) -> Vec<f32> {
    let mut distances = vec![f32::NAN; rows];
    if !query.is_empty() {
        simd_into((elements, query), &mut distances, |(elements, query), distances| {
            for (to, vector) in distances.iter_mut().zip(elements.chunks_exact(query.len())) {
                *to = distance(vector, query);
            }
        });
    }
    distances
}

#[expect(clippy::cast_possible_truncation, reason = "distances are 32-bit floats")]
#[inline(always)]
fn narrowed(distance: f64) -> f32 {
    distance as f32
}

fn to_f32(values: &Float16Array) -> Vec<f32> {
    let mut converted = vec![0.0; values.len()];
    values.values().convert_to_f32_slice(&mut converted);
    converted
}

#[expect(clippy::cast_precision_loss, reason = "vectors have less than 2^24 bits")]
#[inline(always)]
fn bits_that_differ(vector: &[u8], query: &[u8]) -> f32 {
    kernels::hamming(vector, query) as f32
}
