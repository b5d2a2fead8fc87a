//! Numeric literals next to columns of each type.

use std::cmp::Ordering;
use std::sync::Arc;

use arrow_array::{
    ArrayRef, Decimal128Array, Decimal256Array, Float32Array, Float64Array, Int64Array, RecordBatch,
    UInt8Array,
};
use arrow_buffer::i256;
use proptest::prelude::*;

use super::*;
use crate::expr::Expression;

fn batch(columns: Vec<(&str, ArrayRef)>) -> RecordBatch {
    RecordBatch::try_from_iter_with_nullable(columns.into_iter().map(|(n, a)| (n, a, true))).unwrap()
}

fn rows(sql: &str, batch: &RecordBatch) -> Vec<usize> {
    let filter = Expression::predicate(sql, &batch.schema()).unwrap_or_else(|e| panic!("{sql}: {e}"));
    let mask = filter.evaluate_mask(batch).unwrap_or_else(|e| panic!("{sql}: {e}"));
    (0..batch.num_rows()).filter(|row| mask.value(*row)).collect()
}

/// Prices of 69.15, 71.74 and 5.00, and null, next to floats and whole numbers.
#[test]
fn decimals_are_what_was_written() {
    let prices = [Some(6915), Some(7174), Some(500), None];
    let decimals = Decimal128Array::from(prices.to_vec()).with_precision_and_scale(10, 2).unwrap();
    let large: Decimal256Array = prices.iter().map(|price| price.map(i256::from_i128)).collect();
    let batch = batch(vec![
        ("p", Arc::new(decimals)),
        ("l", Arc::new(large.with_precision_and_scale(76, 2).unwrap())),
        ("f", Arc::new(Float64Array::from(vec![Some(69.15), Some(1e20), Some(-1.0), None]))),
        ("i", Arc::new(Int64Array::from(vec![Some(69), Some(70), Some(-5), None]))),
    ]);
    for (sql, found) in [
        ("{} = 69.15", &[0][..]),
        ("69.15 = {}", &[0]),
        ("{} <> 69.15", &[1, 2]),
        ("{} = '69.15'", &[0]),
        ("{} in (69.15, 5.00)", &[0, 2]),
        ("{} in (69.15, 5.001, null)", &[0]),
        ("{} not in (69.15, 5.001)", &[1, 2]),
        ("{} in (5.001)", &[]),
        ("{} not in (5.001)", &[0, 1, 2]),
        ("{} >= 69.15", &[0, 1]),
        ("{} > 71.74", &[]),
        ("{} < 69.15", &[2]),
        ("{} <= 69.1599", &[0, 2]),
        ("{} between 69.15 and 71.74", &[0, 1]),
        ("{} not between 69.15 and 71.735", &[1, 2]),
        ("69.15 between {} and {}", &[0]),
        ("69.15 in ({}, 1.5)", &[0]),
        ("not ({} = 69.15)", &[1, 2]),
        ("{} is distinct from 69.15", &[1, 2, 3]),
        ("{} is not distinct from 69.155", &[]),
        ("{} < 1e16", &[0, 1, 2]),
        ("{} < 100000000000000000000", &[0, 1, 2]),
        ("{} > -12345678901234567890123456789012345678901234567890.5", &[0, 1, 2]),
        ("{} < 1e-70", &[]),
        ("{} > 1e-300", &[0, 1, 2]),
        ("{} < 1e300", &[0, 1, 2]),
        ("{} = f", &[0]),
        ("{} < f", &[1]),
        ("{} in (f, 71.74)", &[0, 1]),
        ("{} between f and 80", &[0, 2]),
        ("{} > 69", &[0, 1]),
        ("{} = 5", &[2]),
        ("{} = 69.15 + 0", &[0]),
        ("case {} when 69.15 then true else false end", &[0]),
        ("case when {} = 69.15 then true end", &[0]),
        ("nullif({}, 69.15) is null", &[0, 3]),
        ("coalesce({}, 0.01) = 0.01", &[3]),
        ("coalesce({}, 1e-70) = 69.15", &[0]),
        ("greatest({}, 1e-38) > 0", &[0, 1, 2]),
        ("not ({} = 0.99999999999999999999999999999999999995)", &[0, 1, 2]),
        ("not (i between 1e-300 and 18446744073709551615)", &[2]),
        ("f in (-1e30, 1e20)", &[1]),
        ("case {} when 1e-70 then true else false end", &[]),
        ("case {} when 5.001 then false when 5.0 then true end", &[2]),
        ("case {} when 5.001 then false else {} < 70 end", &[0, 2]),
        ("case 69.15 when {} then true end", &[0]),
        ("case {} when f then true end", &[0]),
        ("nullif({}, 5.001) = 5", &[2]),
        ("nullif({}, 1e37) is null", &[3]),
        ("nullif(1.5, {}) = 1.5", &[0, 1, 2, 3]),
        ("{} between 70 and 1e300", &[1]),
        ("{} between 5.001 and 69.149", &[]),
        ("{} not between 5.001 and 69.149", &[0, 1, 2]),
        ("{} between 1e30 and i", &[]),
        ("{} not between i and -1e30", &[0, 1, 2]),
        ("69 in (i, 5)", &[0]),
        ("1.5 in ({}, i)", &[]),
        ("{} = 69.15 and f > -0.0 and f < 1e300", &[0]),
        ("{} = cast(69.15 as decimal(10, 2))", &[0]),
        ("try_cast(1234567890.1234567891 as decimal(38, 10)) = 1234567890.1234567891", &[0, 1, 2, 3]),
        ("-{} = -69.15", &[0]),
        ("i > 69.5", &[1]),
        ("i >= 69.0", &[0, 1]),
        ("i = 69.5", &[]),
        ("i <> 69.5", &[0, 1, 2]),
        ("i in (69.0, 70.5)", &[0]),
        ("i between 68.5 and 69.5", &[0]),
        ("i < -4.5", &[2]),
        ("i > -1e30", &[0, 1, 2]),
        ("i + 0.5 = 69.5", &[0]),
        ("f = 69.15", &[0]),
        ("f < 1e300 and {} > .5", &[0, 1, 2]),
        ("f = 1e20 or {} = 5.", &[1, 2]),
    ] {
        for column in ["p", "l"] {
            let sql = sql.replace("{}", column);
            assert_eq!(rows(&sql, &batch), found, "{sql}");
        }
    }
}

#[test]
fn fractions_are_floats_otherwise() {
    let batch = batch(vec![("i", Arc::new(Int64Array::from(vec![1])))]);
    let values = [
        ("1.5", DataType::Float64),
        ("-0.0", DataType::Float64),
        ("i * 1.1", DataType::Float64),
        ("case when i = 1 then 1.5 else 2.5 end", DataType::Float64),
        ("coalesce(1.5, i)", DataType::Float64),
        ("1e300", DataType::Float64),
    ];
    for (sql, data_type) in values {
        assert_eq!(*Expression::parse(sql, &batch.schema()).unwrap().data_type(), data_type, "{sql}");
    }
    for sql in
        ["interval 1.5 day = interval '1 day 12 hours'", "cast('1.5' as double) = 1.5", "[1.5][1] = 1.5"]
    {
        assert_eq!(rows(sql, &batch), [0], "{sql}");
    }
    let negative = Expression::parse("-0.0", &batch.schema()).unwrap().evaluate(&batch).unwrap();
    assert_eq!(ScalarValue::try_from_array(&negative, 0).unwrap().to_string(), "-0");
}

/// Texts that name thousands of values are neither deep nor slow.
#[test]
fn lists_of_several_types_may_be_long() {
    let decimals = Decimal128Array::from(vec![6915, 50]).with_precision_and_scale(10, 2).unwrap();
    let batch = batch(vec![
        ("p", Arc::new(decimals)),
        ("f", Arc::new(Float64Array::from(vec![69.15, 1.0]))),
        ("i", Arc::new(Int64Array::from(vec![1, 100_000]))),
    ]);
    let halves = (0..20_000).map(|n| format!("{n}.5")).collect::<Vec<_>>().join(", ");
    assert_eq!(rows(&format!("p in (f, {halves})"), &batch), [0, 1]);
    assert_eq!(rows(&format!("p in ({halves})"), &batch), [1]);
    assert_eq!(rows(&format!("7.5 in (i, {halves})"), &batch), [0, 1]);
    let nested = (0..12)
        .fold("p".to_owned(), |inner, _| format!("case when {inner} in (0.5, p, f) then 0.5 else 0 end"));
    assert_eq!(rows(&format!("{nested} = 0.5"), &batch), [0, 1]);
}

/// A value that is stored as a decimal has all of the digits that were written.
#[test]
fn decimals_are_stored_as_they_were_written() {
    let batch = batch(vec![("i", Arc::new(Int64Array::from(vec![1])))]);
    let of = DataType::Decimal128(38, 10);
    for (sql, value) in [
        ("1234567890.1234567891", 12_345_678_901_234_567_891_i128),
        ("case when i = 1 then 1234567890.1234567891 else 0.5 end", 12_345_678_901_234_567_891),
        ("coalesce(null, 1234567890.1234567891)", 12_345_678_901_234_567_891),
        ("i", 10_000_000_000),
        ("1.5", 15_000_000_000),
    ] {
        let found = Expression::parse_as(sql, &batch.schema(), &of).unwrap().evaluate(&batch).unwrap();
        assert_eq!(
            ScalarValue::try_from_array(&found, 0).unwrap(),
            ScalarValue::Decimal128(Some(value), 38, 10)
        );
    }
}

#[test]
fn whole_numbers_are_not_rounded_to_floats() {
    let batch = batch(vec![
        ("f", Arc::new(Float32Array::from(vec![16_777_216.0, 16_777_218.0, f32::NAN]))),
        ("d", Arc::new(Float64Array::from(vec![9_007_199_254_740_992.0, f64::INFINITY, -1e30]))),
        ("i", Arc::new(Int64Array::from(vec![9_007_199_254_740_993, 0, 1]))),
        ("b", Arc::new(UInt8Array::from(vec![0, 255, 7]))),
    ]);
    for (sql, found) in [
        ("f = 16777217", &[][..]),
        ("f < 16777217", &[0]),
        ("f >= 16777217", &[1, 2]),
        ("f = 16777218", &[1]),
        ("d = 9007199254740993", &[]),
        ("d < 9007199254740993", &[0, 2]),
        ("d > 9007199254740993", &[1]),
        ("d <> 9007199254740993", &[0, 1, 2]),
        ("d < 18446744073709551617", &[0, 2]),
        ("i = 9007199254740992.0", &[]),
        ("i > 9007199254740992.0", &[0]),
        ("b > -0.5", &[0, 1, 2]),
        ("b < 255.5", &[0, 1, 2]),
        ("b >= 255.5", &[]),
        ("b in (7.0, 300.0)", &[2]),
    ] {
        assert_eq!(rows(sql, &batch), found, "{sql}");
    }
}

proptest! {
    #[test]
    fn as_exact_arithmetic_has_it(
        values in prop::collection::vec(-1200_i64..1200, 1..8),
        scale in 0_i8..4,
        number in -120_000_i64..120_000,
        digits in 0_usize..5,
    ) {
        let text = {
            let sign = if number < 0 { "-" } else { "" };
            let padded = format!("{:0>width$}", number.unsigned_abs(), width = digits + 1);
            let (integral, fraction) = padded.split_at(padded.len() - digits);
            format!("{sign}{integral}.{fraction}")
        };
        let decimals = Decimal128Array::from_iter_values(values.iter().map(|v| i128::from(*v)));
        let batch = batch(vec![
            ("d", Arc::new(decimals.with_precision_and_scale(6, scale).unwrap())),
            ("i", Arc::new(Int64Array::from(values.clone()))),
        ]);
        for (column, scale) in [("d", u32::try_from(scale).unwrap()), ("i", 0)] {
            let order = |value: &i64| {
                let value = i128::from(*value) * 10_i128.pow(u32::try_from(digits).unwrap());
                value.cmp(&(i128::from(number) * 10_i128.pow(scale)))
            };
            let with = |passes: &dyn Fn(Ordering) -> bool| {
                (0..values.len()).filter(|at| passes(order(&values[*at]))).collect::<Vec<_>>()
            };
            for (op, passes) in [
                ("=", Ordering::is_eq as fn(Ordering) -> bool),
                ("<>", Ordering::is_ne),
                ("<", Ordering::is_lt),
                ("<=", Ordering::is_le),
                (">", Ordering::is_gt),
                (">=", Ordering::is_ge),
            ] {
                let sql = format!("{column} {op} {text}");
                prop_assert_eq!(rows(&sql, &batch), with(&passes), "{}", sql);
            }
            let sql = format!("{column} in ({text}, 5000.5)");
            prop_assert_eq!(rows(&sql, &batch), with(&Ordering::is_eq), "{}", sql);
        }
    }
}
