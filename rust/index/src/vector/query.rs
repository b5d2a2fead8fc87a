//! One query against the vectors of a column.

use std::ops::{Range, RangeInclusive};

use arrow_array::{Array, ArrayRef, FixedSizeListArray};
use arrow_cast::cast;
use arrow_schema::DataType;
use pennon_core::{Error, Result};

use super::Metric;
use super::kernels::{self, Real};
use super::matrix::{Values, elements_of, narrowed};
use super::simd::{self, Kernel};

/// A vector that others are compared with, in the type in which this is computed: that of the column, but `f32` for
/// `f16`.
#[derive(Debug, Clone)]
pub struct VectorQuery {
    metric: Metric,
    dimension: usize,
    values: Values,
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
        let values = Values::of_array(values.as_ref());
        let values = values.ok_or_else(|| Error::internal(format!("a query of {element}")))?;
        Ok(Self { metric, dimension, values })
    }

    /// The distance of each vector, NaN where there is none: the vector or one of its elements is null or NaN, or the
    /// metric is not defined for it. Errors: `Internal` for vectors of another column.
    pub fn distances(&self, vectors: &FixedSizeListArray) -> Result<Vec<f32>> {
        if usize::try_from(vectors.value_length()) != Ok(self.dimension) {
            return Err(Error::internal(format!("vectors of {} for another query", vectors.data_type())));
        }
        let (elements, is_complete) = elements_of(vectors)?;
        let mut distances = vec![f32::NAN; vectors.len()];
        self.fill(&elements, 0..vectors.len(), &mut distances)?;
        for (distance, is_complete) in distances.iter_mut().zip(is_complete.into_iter().flatten()) {
            if !is_complete {
                *distance = f32::NAN;
            }
        }
        Ok(distances)
    }

    /// The distances of some of the vectors with these elements. Errors: `Internal` for vectors of another column.
    pub(super) fn fill(&self, vectors: &Values, rows: impl VectorRows, to: &mut [f32]) -> Result<()> {
        match (&self.values, vectors) {
            (Values::F32(query), Values::F32(vectors)) => self.of_reals(vectors, rows, query, to),
            (Values::F64(query), Values::F64(vectors)) => self.of_reals(vectors, rows, query, to),
            (Values::U8(query), Values::U8(vectors)) => fill_distances(vectors, rows, query, to, Bits),
            _ => return Err(Error::internal("vectors of another type than the query")),
        }
        Ok(())
    }

    pub(super) fn values(&self) -> &Values {
        &self.values
    }

    /// The query of length 1 with the same direction, compared by the sum of squared differences; NaN for length zero.
    pub(super) fn normalised(&self) -> Self {
        let values = match &self.values {
            Values::F32(values) => Values::F32(kernels::unit(values, kernels::length(values)).collect()),
            Values::F64(values) => Values::F64(kernels::unit(values, kernels::length(values)).collect()),
            bytes @ Values::U8(_) => bytes.clone(),
        };
        Self { metric: Metric::L2, dimension: self.dimension, values }
    }

    fn of_reals<T: Real>(&self, elements: &[T], rows: impl VectorRows, query: &[T], to: &mut [f32]) {
        match self.metric {
            Metric::Dot => fill_distances(elements, rows, query, to, Product),
            Metric::Cosine => {
                fill_distances(elements, rows, query, to, Angle { length: kernels::length(query) })
            }
            _ => fill_distances(elements, rows, query, to, Squares),
        }
    }
}

/// Rows of vectors, all of which are there.
pub(super) trait VectorRows {
    /// Their vectors of so many elements, more than none.
    fn of<T>(self, elements: &[T], dimension: usize) -> impl Iterator<Item = &[T]>;
}

/// One after another.
impl VectorRows for Range<usize> {
    #[inline(always)]
    fn of<T>(self, elements: &[T], dimension: usize) -> impl Iterator<Item = &[T]> {
        let range = self.start * dimension..self.end * dimension;
        elements.get(range).unwrap_or_default().chunks_exact(dimension)
    }
}

/// Bytes of vectors that are prefetched behind the one that is read.
const PREFETCHED_BYTES: usize = 2048;
/// Bounds of how many vectors that is.
const PREFETCHED: RangeInclusive<usize> = 2..=16;

/// Anywhere, so no processor foresees which vector is next.
impl VectorRows for &[u32] {
    #[inline(always)]
    fn of<T>(self, elements: &[T], dimension: usize) -> impl Iterator<Item = &[T]> {
        let range = move |row: u32| row as usize * dimension..(row as usize + 1) * dimension;
        let vector = move |row: &u32| elements.get(range(*row)).unwrap_or_default();
        let bytes = (dimension * size_of::<T>()).max(1);
        let ahead = (PREFETCHED_BYTES / bytes).clamp(*PREFETCHED.start(), *PREFETCHED.end());
        self.iter().take(ahead).skip(1).for_each(|row| simd::prefetch(vector(row)));
        self.iter().enumerate().map(move |(at, row)| {
            if let Some(later) = self.get(at + ahead) {
                simd::prefetch(vector(later));
            }
            vector(row)
        })
    }
}

/// What a kernel says of each of the vectors with these elements.
pub(super) fn fill_distances<T, C: Comparison<T>>(
    elements: &[T],
    rows: impl VectorRows,
    query: &[T],
    to: &mut [f32],
    comparison: C,
) {
    if !query.is_empty() {
        simd::run(EachVector { vectors: rows.of(elements, query.len()), query, to, comparison });
    }
}

/// A distance of a vector from a query.
pub(super) trait Comparison<T> {
    fn distance<const FUSED: bool>(&self, vector: &[T], query: &[T]) -> f32;
}

struct EachVector<'a, I, T, C> {
    vectors: I,
    query: &'a [T],
    to: &'a mut [f32],
    comparison: C,
}

impl<'a, I: Iterator<Item = &'a [T]>, T: 'a, C: Comparison<T>> Kernel for EachVector<'_, I, T, C> {
    type Output = ();

    #[inline(always)]
    fn run<const LANES: usize, const FUSED: bool>(self) {
        let Self { vectors, query, to, comparison } = self;
        for (to, vector) in to.iter_mut().zip(vectors) {
            *to = comparison.distance::<FUSED>(vector, query);
        }
    }
}

/// The sum of squared differences.
pub(super) struct Squares;

impl<T: Real> Comparison<T> for Squares {
    #[inline(always)]
    fn distance<const FUSED: bool>(&self, vector: &[T], query: &[T]) -> f32 {
        narrowed(kernels::squared_l2::<FUSED, T>(vector, query).into())
    }
}

pub(super) struct Product;

impl<T: Real> Comparison<T> for Product {
    #[inline(always)]
    fn distance<const FUSED: bool>(&self, vector: &[T], query: &[T]) -> f32 {
        narrowed(1.0 - kernels::dot::<FUSED, T>(vector, query).into())
    }
}

/// With the length of the query.
struct Angle {
    length: f64,
}

impl<T: Real> Comparison<T> for Angle {
    #[inline(always)]
    fn distance<const FUSED: bool>(&self, vector: &[T], query: &[T]) -> f32 {
        // Zero divided by zero is NaN: a vector of length zero has no distance.
        let lengths = kernels::dot::<FUSED, T>(vector, vector).into().sqrt() * self.length;
        // Rounding must not make it negative, which no lower bound of 0 lets pass.
        narrowed((1.0 - kernels::dot::<FUSED, T>(vector, query).into() / lengths).clamp(0.0, 2.0))
    }
}

/// The number of bits that differ.
pub(super) struct Bits;

impl Comparison<u8> for Bits {
    #[expect(clippy::cast_precision_loss, reason = "vectors have less than 2^24 bits")]
    #[inline(always)]
    fn distance<const FUSED: bool>(&self, vector: &[u8], query: &[u8]) -> f32 {
        kernels::hamming(vector, query) as f32
    }
}
