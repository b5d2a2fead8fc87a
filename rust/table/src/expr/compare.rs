//! Comparisons of columns of numbers with literals, and all of several: the filters that are asked most, in loops that
//! a compiler turns into vectors. Arrow compares floats by their total order, a value at a time.
//!
//! Anything else is left to the general evaluation, so are floats among which there is a NaN: there alone the total
//! order says something else than `<` (zeros are equal either way, see `zero.rs`).

use arrow_array::cast::AsArray;
use arrow_array::types::{
    Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type, UInt8Type, UInt16Type, UInt32Type,
    UInt64Type,
};
use arrow_array::{Array, ArrowPrimitiveType, BooleanArray, RecordBatch};
use arrow_buffer::{BooleanBuffer, Buffer};
use datafusion_common::ScalarValue;
use datafusion_expr::{BinaryExpr, Expr, Operator};

/// A filter that is true where all of its comparisons are.
#[derive(Debug)]
pub(super) struct Comparisons(Vec<Comparison>);

#[derive(Debug)]
struct Comparison {
    column: String,
    op: Operator,
    literal: ScalarValue,
}

impl Comparisons {
    /// A coerced and simplified filter, if it is nothing else.
    pub(super) fn of(filter: &Expr) -> Option<Self> {
        let mut list = Vec::new();
        collect(filter, &mut list)?;
        Some(Self(list))
    }

    /// Where the filter is true, if that can be said for these columns.
    pub(super) fn mask(&self, batch: &RecordBatch) -> Option<BooleanArray> {
        let mut all: Option<BooleanBuffer> = None;
        for comparison in &self.0 {
            let holds = comparison.holds(batch.column_by_name(&comparison.column)?.as_ref())?;
            all = Some(match all {
                Some(before) => &before & &holds,
                None => holds,
            });
        }
        all.map(|all| BooleanArray::new(all, None))
    }
}

fn collect(filter: &Expr, list: &mut Vec<Comparison>) -> Option<()> {
    let Expr::BinaryExpr(BinaryExpr { left, op, right }) = filter else { return None };
    if *op == Operator::And {
        collect(left, list)?;
        return collect(right, list);
    }
    let (column, op, literal) = match (left.as_ref(), right.as_ref()) {
        (Expr::Column(column), Expr::Literal(literal, _)) => (column, *op, literal),
        (Expr::Literal(literal, _), Expr::Column(column)) => (column, op.swap()?, literal),
        _ => return None,
    };
    list.push(Comparison { column: column.name.clone(), op, literal: literal.clone() });
    Some(())
}

impl Comparison {
    /// Where the comparison is true; null is not.
    fn holds(&self, array: &dyn Array) -> Option<BooleanBuffer> {
        use ScalarValue as S;
        let op = self.op;
        let bits = match &self.literal {
            S::Float64(Some(literal)) => floats::<Float64Type>(array, op, *literal, |value| value.is_nan()),
            S::Float32(Some(literal)) => floats::<Float32Type>(array, op, *literal, |value| value.is_nan()),
            S::Int64(Some(literal)) => numbers::<Int64Type>(array, op, *literal),
            S::Int32(Some(literal)) => numbers::<Int32Type>(array, op, *literal),
            S::Int16(Some(literal)) => numbers::<Int16Type>(array, op, *literal),
            S::Int8(Some(literal)) => numbers::<Int8Type>(array, op, *literal),
            S::UInt64(Some(literal)) => numbers::<UInt64Type>(array, op, *literal),
            S::UInt32(Some(literal)) => numbers::<UInt32Type>(array, op, *literal),
            S::UInt16(Some(literal)) => numbers::<UInt16Type>(array, op, *literal),
            S::UInt8(Some(literal)) => numbers::<UInt8Type>(array, op, *literal),
            _ => None,
        }?;
        Some(match array.nulls() {
            Some(nulls) => &bits & nulls.inner(),
            None => bits,
        })
    }
}

fn floats<T: ArrowPrimitiveType>(
    array: &dyn Array,
    op: Operator,
    literal: T::Native,
    is_nan: impl Fn(T::Native) -> bool,
) -> Option<BooleanBuffer> {
    let values = array.as_primitive_opt::<T>()?.values();
    let mut any = is_nan(literal);
    values.iter().for_each(|value| any |= is_nan(*value));
    if any { None } else { compare(values, op, literal) }
}

fn numbers<T: ArrowPrimitiveType>(
    array: &dyn Array,
    op: Operator,
    literal: T::Native,
) -> Option<BooleanBuffer> {
    compare(array.as_primitive_opt::<T>()?.values(), op, literal)
}

fn compare<V: Copy + PartialOrd>(values: &[V], op: Operator, literal: V) -> Option<BooleanBuffer> {
    Some(match op {
        Operator::Eq => bits(values, |value| value == literal),
        Operator::NotEq => bits(values, |value| value != literal),
        Operator::Lt => bits(values, |value| value < literal),
        Operator::LtEq => bits(values, |value| value <= literal),
        Operator::Gt => bits(values, |value| value > literal),
        Operator::GtEq => bits(values, |value| value >= literal),
        _ => return None,
    })
}

/// A bit for each value.
#[inline]
fn bits<V: Copy>(values: &[V], holds: impl Fn(V) -> bool) -> BooleanBuffer {
    let (whole, rest) = values.as_chunks::<64>();
    let mut words = Vec::with_capacity(whole.len() + 1);
    for values in whole {
        let mut flags = [0u8; 64];
        flags.iter_mut().zip(values).for_each(|(flag, value)| *flag = u8::from(holds(*value)));
        words.push(word(&flags));
    }
    let mut flags = [0u8; 64];
    flags.iter_mut().zip(rest).for_each(|(flag, value)| *flag = u8::from(holds(*value)));
    words.push(word(&flags));
    BooleanBuffer::new(Buffer::from_vec(words), 0, values.len())
}

/// 64 bytes of 0 or 1 as bits.
#[inline]
fn word(flags: &[u8; 64]) -> u64 {
    let mut bytes = [0u8; 8];
    for (byte, flags) in bytes.iter_mut().zip(flags.as_chunks::<8>().0) {
        // The highest byte of the product has the flags as bits; no two of its summands meet.
        let [.., highest] = u64::from_le_bytes(*flags).wrapping_mul(0x0102_0408_1020_4080).to_le_bytes();
        *byte = highest;
    }
    u64::from_ne_bytes(bytes)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::{ArrayRef, Float64Array, Int32Array, PrimitiveArray, RecordBatch};
    use arrow_select::filter::prep_null_mask_filter;

    use crate::expr::Expression;

    use super::*;

    /// The mask by comparisons alone, if they know it; the general evaluation must say the same.
    fn mask(sql: &str, columns: &[(&str, ArrayRef)]) -> Option<BooleanArray> {
        let batch = RecordBatch::try_from_iter_with_nullable(
            columns.iter().map(|(name, array)| (*name, Arc::clone(array), true)),
        );
        let batch = batch.unwrap();
        let filter = Expression::predicate(sql, &batch.schema()).unwrap();
        let values = filter.evaluate(&batch).unwrap();
        let expected = prep_null_mask_filter(values.as_boolean());
        assert_eq!(filter.evaluate_mask(&batch).unwrap(), expected, "{sql} of {columns:?}");
        filter.inner.comparisons.as_ref().and_then(|c| c.mask(&batch))
    }

    fn check<T: ArrowPrimitiveType>(values: &[T::Native], literals: &[&str])
    where
        PrimitiveArray<T>: From<Vec<T::Native>> + FromIterator<Option<T::Native>>,
    {
        let many: Vec<T::Native> = values.iter().copied().cycle().take(200).collect();
        let plain = PrimitiveArray::<T>::from(many.clone());
        let with_nulls: PrimitiveArray<T> =
            many.iter().enumerate().map(|(at, value)| (at % 3 > 0).then_some(*value)).collect();
        for array in [plain, with_nulls] {
            for (from, len) in [(0, 0), (0, 1), (0, 63), (0, 64), (0, 65), (3, 128), (7, 193)] {
                let array = Arc::new(array.slice(from, len)) as ArrayRef;
                for literal in literals {
                    for op in ["<", "<=", ">", ">=", "=", "!="] {
                        let sql = [format!("v {op} {literal}"), format!("{literal} {op} v")];
                        for sql in sql {
                            let known = mask(&sql, &[("v", Arc::clone(&array))]).is_some();
                            assert!(known || literal.starts_with("0.0"), "{sql} is not known");
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn comparisons_say_what_the_general_evaluation_says() {
        check::<Int8Type>(&[i8::MIN, -1, 0, 1, i8::MAX], &["-1", "0", "100"]);
        check::<Int16Type>(&[i16::MIN, -1, 0, 1, i16::MAX], &["-1", "0", "1000"]);
        check::<Int32Type>(&[i32::MIN, -1, 0, 1, i32::MAX], &["-1", "0", "100000"]);
        check::<Int64Type>(&[i64::MIN, -1, 0, 1, i64::MAX], &["-1", "0", "5000000000"]);
        check::<UInt8Type>(&[0, 1, 2, u8::MAX], &["1", "200"]);
        check::<UInt16Type>(&[0, 1, 2, u16::MAX], &["1", "60000"]);
        check::<UInt32Type>(&[0, 1, 2, u32::MAX], &["1", "4000000000"]);
        check::<UInt64Type>(&[0, 1, 2, u64::MAX], &["1", "5000000000"]);
        let edges = [f64::NEG_INFINITY, -1.5, -0.0, 0.0, f64::MIN_POSITIVE, 0.25, 1.5, f64::INFINITY];
        check::<Float64Type>(&edges, &["-1.5", "0.0", "0.25"]);
        check::<Float32Type>(&[f32::NEG_INFINITY, -1.5, -0.0, 0.0, 0.25, f32::INFINITY], &["0.0", "0.25"]);
    }

    #[test]
    fn several_comparisons_hold_together() {
        let ints = Arc::new(Int32Array::from_iter((0..150).map(|i| (i % 7 > 0).then_some(i)))) as ArrayRef;
        let floats =
            Arc::new(Float64Array::from_iter_values((0..150).map(|i| f64::from(i) / 3.0))) as ArrayRef;
        let columns = [("i", ints), ("f", floats)];
        let found = mask("i >= 20 AND f < 30 AND i != 44", &columns).unwrap();
        assert_eq!(found.true_count(), (20..90).filter(|i| i % 7 > 0 && *i != 44).count());
        assert_eq!(mask("i BETWEEN 20 AND 29", &columns).unwrap().true_count(), 8);
        for general in
            ["i > f", "i > 3 OR f > 2", "i + 1 > 3", "i IS NULL", "NOT (i > 3 AND f > 2)", "i % 2 = 0"]
        {
            assert!(mask(general, &columns).is_none(), "{general}");
        }
    }

    #[test]
    fn among_nans_the_total_order_decides() {
        for nan in [f64::NAN, -f64::NAN] {
            let values = Arc::new(Float64Array::from(vec![1.0, nan, -1.0])) as ArrayRef;
            for op in ["<", "<=", ">", ">=", "=", "!="] {
                assert!(mask(&format!("v {op} 0.5"), &[("v", Arc::clone(&values))]).is_none());
            }
        }
    }
}
