//! Vectors of one length, one after another, in the type in which they are computed: floats of 16 bits as those of 32.

use std::ops::Range;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Float32Type, Float64Type, UInt8Type};
use arrow_array::{
    Array, ArrayRef, FixedSizeListArray, Float16Array, Float32Array, Float64Array, UInt8Array,
};
use arrow_buffer::ScalarBuffer;
use arrow_schema::{DataType, Field};
use half::f16;
use half::slice::HalfFloatSliceExt;
use pennon_core::wire::vector_index::{Tensor, TensorType};
use pennon_core::{Error, Result};

/// Elements of vectors.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Values {
    F32(ScalarBuffer<f32>),
    F64(ScalarBuffer<f64>),
    U8(ScalarBuffer<u8>),
}

/// What elements can be.
pub(super) fn is_element(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Float16 | DataType::Float32 | DataType::Float64 | DataType::UInt8)
}

impl Values {
    /// The values of an array of elements; those of nulls are anything. `None` for other types.
    pub(super) fn of_array(array: &dyn Array) -> Option<Self> {
        Some(match array.data_type() {
            DataType::Float16 => Self::F32(to_f32(array.as_primitive())),
            DataType::Float32 => Self::F32(array.as_primitive::<Float32Type>().values().clone()),
            DataType::Float64 => Self::F64(array.as_primitive::<Float64Type>().values().clone()),
            DataType::UInt8 => Self::U8(array.as_primitive::<UInt8Type>().values().clone()),
            _ => return None,
        })
    }

    /// An array of this element type, which the values are rounded to.
    pub(super) fn to_array(&self, element: &DataType) -> ArrayRef {
        match self {
            Self::F32(values) if *element == DataType::Float16 => {
                let rounded = values.iter().map(|value| f16::from_f32(*value));
                Arc::new(Float16Array::from_iter_values(rounded))
            }
            Self::F32(values) => Arc::new(Float32Array::new(values.clone(), None)),
            Self::F64(values) => Arc::new(Float64Array::new(values.clone(), None)),
            Self::U8(values) => Arc::new(UInt8Array::new(values.clone(), None)),
        }
    }

    /// As 32-bit floats.
    pub(super) fn to_f32(&self) -> Vec<f32> {
        match self {
            Self::F32(values) => values.to_vec(),
            Self::F64(values) => values.iter().map(|value| narrowed(*value)).collect(),
            Self::U8(values) => values.iter().map(|value| f32::from(*value)).collect(),
        }
    }

    /// Numbers in the type of others, in which vectors are computed.
    pub(super) fn like(others: &Self, values: impl IntoIterator<Item = f64>) -> Self {
        let values = values.into_iter();
        match others {
            Self::F32(_) => Self::F32(values.map(narrowed).collect()),
            Self::F64(_) => Self::F64(values.collect()),
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "they are bytes")]
            Self::U8(_) => Self::U8(values.map(|value| value as u8).collect()),
        }
    }

    /// As 64-bit floats.
    pub(super) fn to_f64(&self) -> Vec<f64> {
        match self {
            Self::F32(values) => values.iter().map(|value| f64::from(*value)).collect(),
            Self::F64(values) => values.to_vec(),
            Self::U8(values) => values.iter().map(|value| f64::from(*value)).collect(),
        }
    }

    pub(super) fn len(&self) -> usize {
        match self {
            Self::F32(values) => values.len(),
            Self::F64(values) => values.len(),
            Self::U8(values) => values.len(),
        }
    }

    pub(super) fn memory_bytes(&self) -> usize {
        match self {
            Self::F32(values) => values.len() * 4,
            Self::F64(values) => values.len() * 8,
            Self::U8(values) => values.len(),
        }
    }

    /// Some of them; none if they are not there.
    pub(super) fn slice(&self, range: Range<usize>) -> Self {
        let end = range.end.min(self.len());
        let (start, len) = (range.start.min(end), end - range.start.min(end));
        match self {
            Self::F32(values) => Self::F32(values.slice(start, len)),
            Self::F64(values) => Self::F64(values.slice(start, len)),
            Self::U8(values) => Self::U8(values.slice(start, len)),
        }
    }

    /// The same in memory of their own.
    pub(super) fn to_owned(&self) -> Self {
        match self {
            Self::F32(values) => Self::F32(values.to_vec().into()),
            Self::F64(values) => Self::F64(values.to_vec().into()),
            Self::U8(values) => Self::U8(values.to_vec().into()),
        }
    }
}

fn to_f32(values: &Float16Array) -> ScalarBuffer<f32> {
    let mut converted = vec![0.0; values.len()];
    values.values().convert_to_f32_slice(&mut converted);
    converted.into()
}

/// Vectors of one length.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Matrix {
    element: DataType,
    dimension: usize,
    values: Values,
}

impl Matrix {
    /// Vectors of so many elements, which are rounded to a type. Errors: `Internal` for a part of a vector.
    pub(super) fn try_new(element: &DataType, dimension: usize, values: Values) -> Result<Self> {
        if dimension == 0 || !values.len().is_multiple_of(dimension) {
            return Err(Error::internal(format!("{} elements of vectors of {dimension}", values.len())));
        }
        let values = match element {
            DataType::Float16 => Values::of_array(&values.to_array(element)).unwrap_or(values),
            _ => values,
        };
        Ok(Self { element: element.clone(), dimension, values })
    }

    /// Vectors from their file. Errors: `Corrupt` for other shapes, and for types that no vectors have.
    pub(super) fn of_tensor(tensor: &Tensor) -> Result<Self> {
        let &[rows, dimension] = tensor.shape() else {
            return Err(Error::corrupt(format!(
                "a tensor has the shape {:?}, expected 2 dimensions",
                tensor.shape()
            )));
        };
        let dimension = usize::try_from(dimension).ok().filter(|dimension| *dimension > 0 || rows == 0);
        let dimension =
            dimension.ok_or_else(|| Error::corrupt(format!("{rows} vectors without elements")))?;
        let data = tensor.data();
        let (element, values) = match tensor.element() {
            TensorType::Float16 => {
                let (chunks, _) = data.as_chunks();
                let halves: Vec<f16> = chunks.iter().map(|bytes| f16::from_le_bytes(*bytes)).collect();
                (DataType::Float16, Values::F32(to_f32(&Float16Array::from(halves))))
            }
            TensorType::Float32 => {
                let (chunks, _) = data.as_chunks();
                (
                    DataType::Float32,
                    Values::F32(chunks.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect()),
                )
            }
            TensorType::Float64 => {
                let (chunks, _) = data.as_chunks();
                (
                    DataType::Float64,
                    Values::F64(chunks.iter().map(|bytes| f64::from_le_bytes(*bytes)).collect()),
                )
            }
            TensorType::UInt8 => (DataType::UInt8, Values::U8(data.to_vec().into())),
            other => return Err(Error::corrupt(format!("vectors of {other:?}"))),
        };
        Ok(Self { element, dimension, values })
    }

    /// What files have of it: so many vectors. Errors: `Unsupported` for more than files can count.
    pub(super) fn to_tensor(&self) -> Result<Tensor> {
        let too_many = |_| Error::unsupported(format!("{} vectors of {}", self.rows(), self.dimension));
        let shape = [self.rows(), self.dimension].map(|len| u32::try_from(len).map_err(too_many));
        let shape = shape.into_iter().collect::<Result<Vec<_>>>()?;
        let (element, data) = match (&self.element, &self.values) {
            (DataType::Float16, Values::F32(values)) => {
                let halves = values.iter().flat_map(|value| f16::from_f32(*value).to_le_bytes());
                (TensorType::Float16, halves.collect::<Vec<u8>>())
            }
            (_, Values::F32(values)) => {
                (TensorType::Float32, values.iter().flat_map(|value| value.to_le_bytes()).collect())
            }
            (_, Values::F64(values)) => {
                (TensorType::Float64, values.iter().flat_map(|value| value.to_le_bytes()).collect())
            }
            (_, Values::U8(values)) => (TensorType::UInt8, values.to_vec()),
        };
        Tensor::try_new(element, shape, data.into())
    }

    /// As lists that are not null.
    pub(super) fn to_lists(&self) -> Result<FixedSizeListArray> {
        let item = Arc::new(Field::new("item", self.element.clone(), true));
        let dimension = i32::try_from(self.dimension);
        let dimension =
            dimension.map_err(|_| Error::unsupported(format!("vectors of {}", self.dimension)))?;
        FixedSizeListArray::try_new(item, dimension, self.values.to_array(&self.element), None)
            .map_err(|e| Error::internal(format!("vectors: {e}")))
    }

    pub(super) fn element(&self) -> &DataType {
        &self.element
    }

    pub(super) fn dimension(&self) -> usize {
        self.dimension
    }

    pub(super) fn rows(&self) -> usize {
        self.values.len() / self.dimension.max(1)
    }

    pub(super) fn values(&self) -> &Values {
        &self.values
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.values.memory_bytes()
    }
}

/// The elements of lists, of one length each, and whether each list is there with all of them. Errors: `Internal` for
/// elements that vectors do not have.
pub(super) fn elements_of(vectors: &FixedSizeListArray) -> Result<(Values, Option<Vec<bool>>)> {
    let dimension = usize::try_from(vectors.value_length()).unwrap_or(0);
    let start = usize::try_from(vectors.value_offset(0)).unwrap_or(0);
    let elements = vectors.values().slice(start, vectors.len() * dimension);
    let values = Values::of_array(elements.as_ref());
    let values = values.ok_or_else(|| Error::internal(format!("vectors of {}", elements.data_type())))?;
    if vectors.null_count() == 0 && elements.null_count() == 0 {
        return Ok((values, None));
    }
    let is_complete = |row: usize| {
        let nulls = elements.nulls();
        !vectors.is_null(row) && nulls.is_none_or(|n| n.slice(row * dimension, dimension).null_count() == 0)
    };
    Ok((values, Some((0..vectors.len()).map(is_complete).collect())))
}

#[expect(clippy::cast_possible_truncation, reason = "distances are 32-bit floats")]
#[inline(always)]
pub(super) fn narrowed(distance: f64) -> f32 {
    distance as f32
}
