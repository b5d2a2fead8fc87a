//! The vectors of a column that an index can hold, and views of them.

use std::ops::Range;

use arrow_array::{Array, FixedSizeListArray};
use arrow_buffer::{ArrowNativeType, ScalarBuffer};
use pennon_core::Result;

use super::Metric;
use super::kernels::{self, Real};
use super::matrix::{Values, elements_of};

/// The vectors that an index can hold: of finite elements, and of length 1 for the metric cosine.
#[derive(Debug)]
pub(super) struct UsableVectors {
    pub(super) values: Values,
    /// The row of each.
    pub(super) rows: Vec<usize>,
}

impl UsableVectors {
    /// Those of a column; left out are vectors that are null, have an element that is null or not finite, or no length
    /// where that matters. Errors: `Internal` for elements that vectors do not have.
    pub(super) fn of(vectors: &FixedSizeListArray, metric: Metric) -> Result<Self> {
        let dimension = usize::try_from(vectors.value_length()).unwrap_or(0).max(1);
        let (values, is_complete) = elements_of(vectors)?;
        let is_complete = |row: usize| match &is_complete {
            Some(rows) => rows.get(row).copied().unwrap_or(false),
            None => true,
        };
        let is_unit = metric == Metric::Cosine;
        Ok(match values {
            Values::F32(values) => {
                let (values, rows) = usable(values, dimension, is_unit, is_complete);
                Self { values: Values::F32(values), rows }
            }
            Values::F64(values) => {
                let (values, rows) = usable(values, dimension, is_unit, is_complete);
                Self { values: Values::F64(values), rows }
            }
            Values::U8(values) => {
                let rows: Vec<usize> = (0..vectors.len()).filter(|row| is_complete(*row)).collect();
                Self { values: Values::U8(gathered(&values, &rows, dimension).into()), rows }
            }
        })
    }
}

/// Usable vectors of floats, of length 1 if `is_unit`, and the row of each.
fn usable<T: Real + ArrowNativeType>(
    values: ScalarBuffer<T>,
    dimension: usize,
    is_unit: bool,
    is_complete: impl Fn(usize) -> bool,
) -> (ScalarBuffer<T>, Vec<usize>) {
    let mut rows = Vec::with_capacity(values.len() / dimension);
    if is_unit {
        let mut units = Vec::with_capacity(values.len());
        for (row, vector) in values.chunks_exact(dimension).enumerate() {
            let length = kernels::length(vector);
            if is_complete(row) && length.is_normal() {
                rows.push(row);
                units.extend(kernels::unit(vector, length));
            }
        }
        return (units.into(), rows);
    }
    rows.extend(finite(&values, dimension).filter(|row| is_complete(*row)));
    match rows.len() * dimension == values.len() {
        true => (values, rows),
        false => (gathered(&values, &rows, dimension).into(), rows),
    }
}

/// The vectors whose elements are all finite.
fn finite<T: Real>(values: &[T], dimension: usize) -> impl Iterator<Item = usize> {
    let is_finite = |vector: &[T]| vector.iter().all(|value| (*value).into().is_finite());
    values
        .chunks_exact(dimension)
        .enumerate()
        .filter(move |(_, vector)| is_finite(vector))
        .map(|(row, _)| row)
}

fn gathered<T: Copy>(values: &[T], rows: &[usize], dimension: usize) -> Vec<T> {
    let vectors = rows.iter().filter_map(|row| values.get(row * dimension..(row + 1) * dimension));
    vectors.flatten().copied().collect()
}

/// The same part of each of many vectors.
#[derive(Debug, Clone, Copy)]
pub(super) struct VectorsView<'a> {
    pub(super) values: &'a Values,
    /// Elements of a vector.
    pub(super) dimension: usize,
    /// The first element of the part.
    pub(super) start: usize,
    /// Elements of the part.
    pub(super) width: usize,
}

impl<'a> VectorsView<'a> {
    /// All of each vector.
    pub(super) fn all(values: &'a Values, dimension: usize) -> Self {
        Self { values, dimension, start: 0, width: dimension }
    }

    pub(super) fn len(&self) -> usize {
        self.values.len() / self.dimension.max(1)
    }

    fn range(&self, row: usize) -> Range<usize> {
        let start = row * self.dimension + self.start;
        start..start + self.width
    }

    /// Calls back with each element of a vector.
    #[inline(always)]
    pub(super) fn for_each(&self, row: usize, mut give: impl FnMut(usize, f64)) {
        match self.values {
            Values::F32(values) => {
                let vector = values.get(self.range(row)).unwrap_or_default();
                vector.iter().enumerate().for_each(|(at, value)| give(at, f64::from(*value)));
            }
            Values::F64(values) => {
                let vector = values.get(self.range(row)).unwrap_or_default();
                vector.iter().enumerate().for_each(|(at, value)| give(at, *value));
            }
            Values::U8(values) => {
                let vector = values.get(self.range(row)).unwrap_or_default();
                vector.iter().enumerate().for_each(|(at, value)| give(at, f64::from(*value)));
            }
        }
    }

    /// The floats of a vector, if they have 32 bits.
    #[inline(always)]
    pub(super) fn floats(&self, row: usize) -> Option<&'a [f32]> {
        match self.values {
            Values::F32(values) => values.get(self.range(row)),
            _ => None,
        }
    }

    /// The bytes of a vector.
    pub(super) fn bytes(&self, row: usize) -> &'a [u8] {
        match self.values {
            Values::U8(values) => values.get(self.range(row)).unwrap_or_default(),
            _ => &[],
        }
    }
}
