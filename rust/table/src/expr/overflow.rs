//! A sum, difference or product of integers that its type cannot hold is an error, as a division by zero is.
//!
//! DataFusion wraps it around unless each operation says otherwise, and always where simplification computes with constants.

use std::sync::Arc;

use arrow_schema::{DataType, Schema};
use datafusion_common::tree_node::{Transformed, TreeNode};
use datafusion_common::{DFSchema, Result, ScalarValue};
use datafusion_expr::{BinaryExpr, Expr, ExprSchemable, Operator};
use datafusion_physical_expr::PhysicalExpr;
use datafusion_physical_expr::expressions::{self, Literal, NegativeExpr};

/// Computes with the constants of a coerced expression, before it is simplified.
pub(super) fn fold(expr: Expr) -> Result<Expr> {
    expr.transform_up(|node| {
        let value = match &node {
            Expr::BinaryExpr(BinaryExpr { left, op, right }) => match (left.as_ref(), op, right.as_ref()) {
                (Expr::Literal(left, _), op, Expr::Literal(right, _)) if are_integers(left, right) => {
                    match op {
                        Operator::Plus => Some(left.add_checked(right)?),
                        Operator::Minus => Some(left.sub_checked(right)?),
                        Operator::Multiply => Some(left.mul_checked(right)?),
                        _ => None,
                    }
                }
                _ => None,
            },
            _ => None,
        };
        Ok(value.map_or_else(|| Transformed::no(node), |value| Transformed::yes(Expr::Literal(value, None))))
    })
    .map(|t| t.data)
}

/// Makes whole numbers unsigned next to unsigned ones of 64 bits, in an expression that was not coerced: coercion makes
/// decimals of both. A difference stays, since it may be negative.
pub(super) fn unsigned(expr: Expr, schema: &DFSchema) -> Result<Expr> {
    let is_unsigned = |side: &Expr| matches!(side.get_type(schema), Ok(DataType::UInt64));
    let number = |side: &Expr| match side {
        Expr::Literal(ScalarValue::Int64(Some(number)), _) => u64::try_from(*number).ok(),
        _ => None,
    };
    let literal = |number| Box::new(Expr::Literal(ScalarValue::UInt64(Some(number)), None));
    expr.transform_up(|mut node| {
        if let Expr::BinaryExpr(BinaryExpr { left, op, right }) = &mut node
            && matches!(op, Operator::Plus | Operator::Multiply | Operator::Divide | Operator::Modulo)
        {
            if let Some(number) = number(right).filter(|_| is_unsigned(left)) {
                *right = literal(number);
                return Ok(Transformed::yes(node));
            }
            if let Some(number) = number(left).filter(|_| is_unsigned(right)) {
                *left = literal(number);
                return Ok(Transformed::yes(node));
            }
        }
        Ok(Transformed::no(node))
    })
    .map(|t| t.data)
}

/// An expression over columns whose operations fail where they overflow.
pub(super) fn checked(expr: Arc<dyn PhysicalExpr>, input: &Schema) -> Result<Arc<dyn PhysicalExpr>> {
    expr.transform_up(|node| {
        if let Some(binary) = node.downcast_ref::<expressions::BinaryExpr>() {
            if matches!(binary.op(), Operator::Plus | Operator::Minus | Operator::Multiply) {
                return Ok(Transformed::yes(Arc::new(binary.clone().with_fail_on_overflow(true))));
            }
        } else if let Some(negative) = node.downcast_ref::<NegativeExpr>() {
            let data_type = negative.arg().data_type(input)?;
            if data_type.is_signed_integer() {
                let zero = Arc::new(Literal::new(ScalarValue::new_zero(&data_type)?));
                let difference =
                    expressions::BinaryExpr::new(zero, Operator::Minus, Arc::clone(negative.arg()));
                return Ok(Transformed::yes(Arc::new(difference.with_fail_on_overflow(true))));
            }
        }
        Ok(Transformed::no(node))
    })
    .map(|t| t.data)
}

fn are_integers(left: &ScalarValue, right: &ScalarValue) -> bool {
    left.data_type().is_integer() && left.data_type() == right.data_type()
}

#[cfg(test)]
mod tests {
    use arrow_array::cast::AsArray;
    use arrow_array::types::Int64Type;
    use arrow_array::{ArrayRef, Int32Array, Int64Array, RecordBatch, UInt64Array};
    use pennon_core::ErrorKind;

    use super::super::Expression;
    use super::*;

    #[test]
    fn unsigned_numbers_stay_unsigned() {
        let schema = Schema::new(vec![arrow_schema::Field::new("u", DataType::UInt64, true)]);
        let type_of = |sql: &str| Expression::parse(sql, &schema).unwrap().data_type().clone();
        for sql in ["u + 1", "1 + u", "u % 10", "u / 2", "2 * u + 1", "(u + 1) * 3"] {
            assert_eq!(type_of(sql), DataType::UInt64, "{sql}");
        }
        assert!(matches!(type_of("u - 1"), DataType::Decimal128(..)));
        assert_eq!(type_of("u * 0.5"), DataType::Float64);
    }

    #[test]
    fn what_overflows_is_an_error() {
        let columns: Vec<(&str, ArrayRef)> = vec![
            ("big", Arc::new(Int64Array::from(vec![Some(i64::MAX), Some(i64::MIN), None]))),
            ("small", Arc::new(Int32Array::from(vec![Some(i32::MAX), Some(2), None]))),
            ("unsigned", Arc::new(UInt64Array::from(vec![Some(u64::MAX), Some(0), None]))),
        ];
        let batch =
            RecordBatch::try_from_iter_with_nullable(columns.into_iter().map(|(n, a)| (n, a, true))).unwrap();
        for sql in [
            "big + 1 > 0",
            "big - 1",
            "big * 2",
            "-big",
            "small * small",
            "unsigned + unsigned",
            "abs(big + 1)",
            "CASE WHEN small = 2 THEN big - 1 ELSE big + 1 END",
        ] {
            let error = Expression::parse(sql, &batch.schema()).unwrap().evaluate(&batch).unwrap_err();
            assert!(
                error.kind() == ErrorKind::InvalidInput && error.to_string().contains("verflow"),
                "{sql}: {error}"
            );
        }
        for sql in ["9223372036854775807 + 1", "big > 9223372036854775807 * 2", "-9223372036854775807 - 2"] {
            let error = Expression::parse(sql, &batch.schema()).unwrap_err();
            assert!(
                error.kind() == ErrorKind::InvalidInput && error.to_string().contains("verflow"),
                "{sql}: {error}"
            );
        }
        let fits = "big / 2 + small * 2";
        let found = Expression::parse(fits, &batch.schema()).unwrap().evaluate(&batch).unwrap();
        let expected = [Some(i64::MAX / 2 + 2 * i64::from(i32::MAX)), Some(i64::MIN / 2 + 4), None];
        assert_eq!(found.as_primitive::<Int64Type>().iter().collect::<Vec<_>>(), expected);
    }
}
