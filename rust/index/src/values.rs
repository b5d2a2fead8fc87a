//! Values of arrays in the order that indices have: nulls first, then the total order of Arrow, in which -0.0 is below 0.0
//! and a NaN lies beyond infinity, with its sign. Texts and binaries are compared byte by byte.

use std::cmp::Ordering;
use std::ops::Range;

use arrow_array::cast::AsArray;
use arrow_array::types::{
    Date32Type, Date64Type, Decimal128Type, DurationMicrosecondType, DurationMillisecondType,
    DurationNanosecondType, DurationSecondType, Float16Type, Float32Type, Float64Type, Int8Type, Int16Type,
    Int32Type, Int64Type, Time32MillisecondType, Time32SecondType, Time64MicrosecondType,
    Time64NanosecondType, TimestampMicrosecondType, TimestampMillisecondType, TimestampNanosecondType,
    TimestampSecondType, UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use arrow_array::{Array, ArrayRef, StringArray};
use arrow_schema::{DataType, TimeUnit};
use pennon_datafile::statistics::Bound;

/// A value that is not null.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Value<'a> {
    /// Integers, booleans, temporal values, decimals of at most 128 bits.
    Int(i128),
    /// Floats, NaN too.
    Float(f64),
    /// Texts and binaries.
    Bytes(&'a [u8]),
}

impl Value<'_> {
    /// The order of two values; values of different forms, which no column has, are ordered by their form.
    pub(crate) fn compare(&self, other: &Value<'_>) -> Ordering {
        match (self, other) {
            (Value::Int(a), Value::Int(b)) => a.cmp(b),
            (Value::Float(a), Value::Float(b)) => a.total_cmp(b),
            (Value::Bytes(a), Value::Bytes(b)) => a.cmp(b),
            (a, b) => a.form().cmp(&b.form()),
        }
    }

    fn form(&self) -> u8 {
        match self {
            Value::Int(_) => 0,
            Value::Float(_) => 1,
            Value::Bytes(_) => 2,
        }
    }

    /// The value with its own bytes.
    pub(crate) fn to_bound(self) -> Bound {
        match self {
            Self::Int(value) => Bound::Int(value),
            Self::Float(value) => Bound::Float(value),
            Self::Bytes(value) => Bound::Bytes(value.to_vec()),
        }
    }
}

impl PartialEq for Value<'_> {
    /// Of floats by their bits: a NaN is equal to itself.
    fn eq(&self, other: &Self) -> bool {
        self.compare(other) == Ordering::Equal
    }
}

impl<'a> From<&'a Bound> for Value<'a> {
    fn from(bound: &'a Bound) -> Self {
        match bound {
            Bound::Int(value) => Self::Int(*value),
            Bound::Float(value) => Self::Float(*value),
            Bound::Bytes(value) => Self::Bytes(value),
        }
    }
}

/// Whether values of a type have an order here: the types that indices over values can hold.
///
/// ```
/// use arrow_schema::DataType;
/// assert!(pennon_index::is_ordered(&DataType::Utf8) && !pennon_index::is_ordered(&DataType::Null));
/// ```
pub fn is_ordered(data_type: &DataType) -> bool {
    use DataType as T;
    matches!(
        data_type,
        T::Boolean
            | T::Int8
            | T::Int16
            | T::Int32
            | T::Int64
            | T::UInt8
            | T::UInt16
            | T::UInt32
            | T::UInt64
            | T::Float16
            | T::Float32
            | T::Float64
            | T::Utf8
            | T::LargeUtf8
            | T::Binary
            | T::LargeBinary
            | T::FixedSizeBinary(_)
            | T::Decimal128(..)
            | T::Date32
            | T::Date64
            | T::Time32(_)
            | T::Time64(_)
            | T::Timestamp(..)
            | T::Duration(_)
    )
}

/// A value of an array; `None` if it is null, or of a type without order.
pub(crate) fn value_at(array: &dyn Array, at: usize) -> Option<Value<'_>> {
    use DataType as T;
    if at >= array.len() || array.is_null(at) {
        return None;
    }
    macro_rules! int {
        ($type:ty) => {
            Value::Int(i128::from(array.as_primitive::<$type>().value(at)))
        };
    }
    Some(match array.data_type() {
        T::Boolean => Value::Int(i128::from(array.as_boolean().value(at))),
        T::Int8 => int!(Int8Type),
        T::Int16 => int!(Int16Type),
        T::Int32 => int!(Int32Type),
        T::Int64 => int!(Int64Type),
        T::UInt8 => int!(UInt8Type),
        T::UInt16 => int!(UInt16Type),
        T::UInt32 => int!(UInt32Type),
        T::UInt64 => int!(UInt64Type),
        T::Float16 => Value::Float(f64::from(array.as_primitive::<Float16Type>().value(at))),
        T::Float32 => Value::Float(f64::from(array.as_primitive::<Float32Type>().value(at))),
        T::Float64 => Value::Float(array.as_primitive::<Float64Type>().value(at)),
        T::Utf8 => Value::Bytes(array.as_string::<i32>().value(at).as_bytes()),
        T::LargeUtf8 => Value::Bytes(array.as_string::<i64>().value(at).as_bytes()),
        T::Binary => Value::Bytes(array.as_binary::<i32>().value(at)),
        T::LargeBinary => Value::Bytes(array.as_binary::<i64>().value(at)),
        T::FixedSizeBinary(_) => Value::Bytes(array.as_fixed_size_binary().value(at)),
        T::Decimal128(..) => int!(Decimal128Type),
        T::Date32 => int!(Date32Type),
        T::Date64 => int!(Date64Type),
        T::Time32(TimeUnit::Second) => int!(Time32SecondType),
        T::Time32(_) => int!(Time32MillisecondType),
        T::Time64(TimeUnit::Microsecond) => int!(Time64MicrosecondType),
        T::Time64(_) => int!(Time64NanosecondType),
        T::Timestamp(TimeUnit::Second, _) => int!(TimestampSecondType),
        T::Timestamp(TimeUnit::Millisecond, _) => int!(TimestampMillisecondType),
        T::Timestamp(TimeUnit::Microsecond, _) => int!(TimestampMicrosecondType),
        T::Timestamp(TimeUnit::Nanosecond, _) => int!(TimestampNanosecondType),
        T::Duration(TimeUnit::Second) => int!(DurationSecondType),
        T::Duration(TimeUnit::Millisecond) => int!(DurationMillisecondType),
        T::Duration(TimeUnit::Microsecond) => int!(DurationMicrosecondType),
        T::Duration(TimeUnit::Nanosecond) => int!(DurationNanosecondType),
        _ => return None,
    })
}

/// Values of an array that are looked at one by one, whose type is looked up once.
#[derive(Debug, Clone, Copy)]
pub(crate) enum TypedValues<'a> {
    Int32(&'a [i32]),
    Int64(&'a [i64]),
    Float64(&'a [f64]),
    Text(&'a StringArray),
    Other(&'a dyn Array),
}

impl<'a> TypedValues<'a> {
    pub(crate) fn of(array: &'a dyn Array) -> Self {
        use DataType as T;
        macro_rules! slice {
            ($form:ident, $type:ty) => {
                Self::$form(array.as_primitive::<$type>().values())
            };
        }
        if array.null_count() > 0 {
            return Self::Other(array);
        }
        match array.data_type() {
            T::Int32 => slice!(Int32, Int32Type),
            T::Date32 => slice!(Int32, Date32Type),
            T::Int64 => slice!(Int64, Int64Type),
            T::Timestamp(TimeUnit::Millisecond, _) => slice!(Int64, TimestampMillisecondType),
            T::Timestamp(TimeUnit::Microsecond, _) => slice!(Int64, TimestampMicrosecondType),
            T::Timestamp(TimeUnit::Nanosecond, _) => slice!(Int64, TimestampNanosecondType),
            T::Float64 => slice!(Float64, Float64Type),
            T::Utf8 => Self::Text(array.as_string()),
            _ => Self::Other(array),
        }
    }

    /// The first position in a range whose value passes, where all behind it pass too. Nulls, which come first, do not.
    ///
    /// Among numbers no branch depends on them, so that the processor begins the next search before this one ends.
    pub(crate) fn first_that(self, range: Range<usize>, passes: impl Fn(&Value<'_>) -> bool) -> usize {
        let is_before = |value: Value<'_>| !passes(&value);
        match self {
            Self::Int32(values) => end_of(values, range, |value| is_before(Value::Int(i128::from(*value)))),
            Self::Int64(values) => end_of(values, range, |value| is_before(Value::Int(i128::from(*value)))),
            Self::Float64(values) => end_of(values, range, |value| is_before(Value::Float(*value))),
            Self::Text(_) | Self::Other(_) => {
                first_in(range, |at| self.get(at).is_some_and(|value| passes(&value)))
            }
        }
    }

    /// A value; `None` if it is null, of a type without order, or not there.
    pub(crate) fn get(self, at: usize) -> Option<Value<'a>> {
        match self {
            Self::Int32(values) => values.get(at).map(|value| Value::Int(i128::from(*value))),
            Self::Int64(values) => values.get(at).map(|value| Value::Int(i128::from(*value))),
            Self::Float64(values) => values.get(at).map(|value| Value::Float(*value)),
            Self::Text(texts) => (at < texts.len()).then(|| Value::Bytes(texts.value(at).as_bytes())),
            Self::Other(array) => value_at(array, at),
        }
    }
}

/// The end of the values of a range that are before those that are looked for.
fn end_of<T>(values: &[T], range: Range<usize>, is_before: impl Fn(&T) -> bool) -> usize {
    range.start + values.get(range).unwrap_or_default().partition_point(is_before)
}

/// The first position in a range for which a condition holds that holds for all behind it.
pub(crate) fn first_in(range: Range<usize>, passes: impl Fn(usize) -> bool) -> usize {
    let (mut low, mut high) = (range.start, range.end);
    while low < high {
        let middle = low + (high - low) / 2;
        if passes(middle) { high = middle } else { low = middle + 1 }
    }
    low
}

/// The order of two values of arrays, nulls first.
pub(crate) fn compare_at(a: (&dyn Array, usize), b: (&dyn Array, usize)) -> Ordering {
    match (value_at(a.0, a.1), value_at(b.0, b.1)) {
        (Some(a), Some(b)) => a.compare(&b),
        (a, b) => a.is_some().cmp(&b.is_some()),
    }
}

/// The values of some arrays, ascending, each once, without nulls and NaNs; and whether there is a NaN.
///
/// NaN has no one place among values that were stored with fewer bits: who looks for it asks for
/// [all of them](crate::ValueTest::IsNan).
pub fn distinct_values(arrays: &[ArrayRef]) -> (Vec<Bound>, bool) {
    let mut has_nan = false;
    let mut values: Vec<Value<'_>> = Vec::with_capacity(arrays.iter().map(|array| array.len()).sum());
    for array in arrays {
        for value in (0..array.len()).filter_map(|at| value_at(array.as_ref(), at)) {
            match value {
                Value::Float(float) if float.is_nan() => has_nan = true,
                value => values.push(value),
            }
        }
    }
    values.sort_unstable_by(Value::compare);
    values.dedup();
    (values.into_iter().map(Value::to_bound).collect(), has_nan)
}
