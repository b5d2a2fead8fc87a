//! Floats as keys: values that compare as equal have one bit pattern.

use std::sync::Arc;

use arrow_array::ArrayRef;
use arrow_array::cast::AsArray;
use arrow_array::types::{Float16Type, Float32Type, Float64Type};
use arrow_schema::DataType;

/// The same floats with one zero and one NaN, since who compares values, as Spark does, takes the zeros for one key and all
/// NaN for another. Other types are as they were.
pub(super) fn canonical_float(keys: &ArrayRef) -> ArrayRef {
    macro_rules! canonical {
        ($type:ty, $native:ident) => {
            Arc::new(keys.as_primitive::<$type>().unary::<_, $type>(|key| {
                if key.is_nan() {
                    $native::NAN
                } else if key == $native::default() {
                    $native::default()
                } else {
                    key
                }
            }))
        };
    }
    use half::f16;
    match keys.data_type() {
        DataType::Float16 => canonical!(Float16Type, f16),
        DataType::Float32 => canonical!(Float32Type, f32),
        DataType::Float64 => canonical!(Float64Type, f64),
        _ => Arc::clone(keys),
    }
}

#[cfg(test)]
mod tests {
    use arrow_array::{Array, Float32Array, Float64Array, Int64Array};

    use super::*;

    #[test]
    fn zeros_are_one_and_so_are_nans() {
        let other_nan = f64::from_bits(f64::NAN.to_bits() ^ (1 << 63) ^ 5);
        let keys: ArrayRef =
            Arc::new(Float64Array::from(vec![Some(0.0), Some(-0.0), None, Some(other_nan), Some(-1.5)]));
        let found = canonical_float(&keys);
        assert_eq!((found.len(), found.null_count()), (5, 1));
        let found = found.as_primitive::<Float64Type>();
        let bits: Vec<_> = found.iter().map(|key| key.map(f64::to_bits)).collect();
        let expected = [Some(0.0), Some(0.0), None, Some(f64::NAN), Some(-1.5)];
        assert_eq!(bits, expected.map(|key: Option<f64>| key.map(f64::to_bits)));

        let keys: ArrayRef = Arc::new(Float32Array::from(vec![-0.0, f32::from_bits(f32::NAN.to_bits() | 7)]));
        let found = canonical_float(&keys);
        let bits: Vec<_> =
            found.as_primitive::<Float32Type>().values().iter().map(|key| key.to_bits()).collect();
        assert_eq!(bits, [0, f32::NAN.to_bits()]);

        let keys: ArrayRef = Arc::new(Int64Array::from(vec![1]));
        assert!(Arc::ptr_eq(&canonical_float(&keys), &keys));
    }
}
