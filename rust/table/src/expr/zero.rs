//! Zero and minus zero are equal in a comparison, as SQL and the reference have it.
//!
//! Arrow's kernels order floats totally: `-0.0 < 0.0`. A literal zero therefore becomes the end of the pair
//! that makes the comparison right; two computed sides get `+ 0.0`, which turns minus zero into zero. So do all sides of
//! a list that is not of literals, and of a `CASE` with an operand; `nullif` becomes a `CASE` with a comparison. NaN keeps
//! its place in the total order: above everything and equal to itself.

use arrow_schema::DataType;
use datafusion_common::tree_node::{Transformed, TreeNode};
use datafusion_common::{DFSchema, Result, ScalarValue};
use datafusion_expr::expr::{InList, ScalarFunction};
use datafusion_expr::{Between, BinaryExpr, Case, Expr, ExprSchemable, Operator};
use datafusion_optimizer::simplify_expressions::ExprSimplifier;
use half::f16;

/// Rewrites all comparisons of floats in a coerced and simplified expression.
pub(super) fn rewrite(expr: Expr, schema: &DFSchema) -> Result<Expr> {
    expr.transform_up(|node| match node {
        Expr::BinaryExpr(comparison) if is_comparison(comparison.op) => comparison_of(comparison, schema),
        Expr::InList(list) => in_list(list, schema),
        Expr::Between(between) => Ok(between_ends(between)),
        Expr::Case(case) => case_of(case, schema),
        Expr::ScalarFunction(function) if function.name() == "nullif" => nullif(function, schema),
        other => Ok(Transformed::no(other)),
    })
    .map(|t| t.data)
}

/// Gives zeros that something is compared with the sign of zero, in a coerced expression that was not simplified:
/// simplification takes -0.0 for another value.
pub(super) fn without_sign(expr: Expr, simplifier: &ExprSimplifier) -> Result<Expr> {
    let plain = |side| plain(side, simplifier);
    expr.transform_up(|node| match node {
        Expr::BinaryExpr(BinaryExpr { left, op, right }) if is_comparison(op) => {
            let sides = (Box::new(plain(*left)), Box::new(plain(*right)));
            Ok(Transformed::yes(Expr::BinaryExpr(BinaryExpr::new(sides.0, op, sides.1))))
        }
        Expr::InList(mut node) => {
            node.expr = Box::new(plain(*node.expr));
            node.list = node.list.into_iter().map(plain).collect();
            Ok(Transformed::yes(Expr::InList(node)))
        }
        Expr::Between(mut node) => {
            node.expr = Box::new(plain(*node.expr));
            (node.low, node.high) = (Box::new(plain(*node.low)), Box::new(plain(*node.high)));
            Ok(Transformed::yes(Expr::Between(node)))
        }
        Expr::Case(mut case) if case.expr.is_some() => {
            case.expr = case.expr.map(|operand| Box::new(plain(*operand)));
            for (when, _) in &mut case.when_then_expr {
                **when = plain(std::mem::take(&mut **when));
            }
            Ok(Transformed::yes(Expr::Case(case)))
        }
        Expr::ScalarFunction(mut function) if function.name() == "nullif" => {
            function.args = function.args.into_iter().map(plain).collect();
            Ok(Transformed::yes(Expr::ScalarFunction(function)))
        }
        other => Ok(Transformed::no(other)),
    })
    .map(|t| t.data)
}

/// A zero without a sign; a constant that is computed as its value, anything else as it is.
fn plain(expr: Expr, simplifier: &ExprSimplifier) -> Expr {
    match expr {
        Expr::Column(_) => expr,
        // As in lists, where simplification would take long.
        Expr::Cast(mut cast) if is_number(&cast.expr) => {
            cast.expr = Box::new(plain(*cast.expr, simplifier));
            Expr::Cast(cast)
        }
        Expr::Literal(..) => match zero_of(&expr) {
            Some((_, zero)) => literal(zero),
            None => expr,
        },
        _ if expr.any_column_refs() => expr,
        _ => match simplifier.simplify(expr.clone()) {
            Ok(value @ Expr::Literal(..)) => plain(value, simplifier),
            // Errors are those of the simplification of the whole.
            _ => expr,
        },
    }
}

fn is_number(expr: &Expr) -> bool {
    matches!(expr, Expr::Literal(value, _) if value.data_type().is_numeric())
}

pub(super) fn is_comparison(op: Operator) -> bool {
    use Operator::{Eq, Gt, GtEq, IsDistinctFrom, IsNotDistinctFrom, Lt, LtEq, NotEq};
    matches!(op, Eq | NotEq | Lt | LtEq | Gt | GtEq | IsDistinctFrom | IsNotDistinctFrom)
}

fn comparison_of(mut node: BinaryExpr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    if zero_of(&node.left).is_some()
        && let Some(op) = node.op.swap()
    {
        node = BinaryExpr::new(node.right, op, node.left);
    }
    if let Some((minus, plus)) = zero_of(&node.right) {
        return Ok(with_zero(node, minus, plus));
    }
    let is_literal = |e: &Expr| matches!(e, Expr::Literal(..));
    if is_literal(&node.left) || is_literal(&node.right) {
        return Ok(Transformed::no(Expr::BinaryExpr(node)));
    }
    let Some(zero) = zero_literal(&node.left.get_type(schema)?) else {
        return Ok(Transformed::no(Expr::BinaryExpr(node)));
    };
    let unsigned = |side: Box<Expr>| Box::new(unsigned(*side, &zero));
    Ok(Transformed::yes(Expr::BinaryExpr(BinaryExpr::new(
        unsigned(node.left),
        node.op,
        unsigned(node.right),
    ))))
}

/// The value of an expression, zero where that is minus zero.
fn unsigned(expr: Expr, zero: &ScalarValue) -> Expr {
    if matches!(expr, Expr::Literal(..)) {
        return if zero_of(&expr).is_some() { literal(zero.clone()) } else { expr };
    }
    Expr::BinaryExpr(BinaryExpr::new(Box::new(expr), Operator::Plus, Box::new(literal(zero.clone()))))
}

/// `CASE x WHEN y ...`, which compares x with each y.
fn case_of(mut case: Case, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let zero = match &case.expr {
        Some(operand) => zero_literal(&operand.get_type(schema)?),
        None => None,
    };
    let Some(zero) = zero else { return Ok(Transformed::no(Expr::Case(case))) };
    case.expr = case.expr.map(|operand| Box::new(unsigned(*operand, &zero)));
    for (when, _) in &mut case.when_then_expr {
        **when = unsigned(std::mem::take(&mut **when), &zero);
    }
    Ok(Transformed::yes(Expr::Case(case)))
}

/// `nullif(x, y)`: the value of x, whose sign is kept, unless it equals y.
fn nullif(function: ScalarFunction, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let [left, right] = function.args.as_slice() else {
        return Ok(Transformed::no(Expr::ScalarFunction(function)));
    };
    let data_type = left.get_type(schema)?;
    if zero_literal(&data_type).is_none() {
        return Ok(Transformed::no(Expr::ScalarFunction(function)));
    }
    let equal = BinaryExpr::new(Box::new(left.clone()), Operator::Eq, Box::new(right.clone()));
    let null = literal(ScalarValue::try_new_null(&data_type)?);
    let when = vec![(Box::new(comparison_of(equal, schema)?.data), Box::new(null))];
    Ok(Transformed::yes(Expr::Case(Case::new(None, when, Some(Box::new(left.clone()))))))
}

fn with_zero(node: BinaryExpr, minus: ScalarValue, plus: ScalarValue) -> Transformed<Expr> {
    let BinaryExpr { left, op, right } = node;
    let between = |negated| {
        let (low, high) = (Box::new(literal(minus.clone())), Box::new(literal(plus.clone())));
        Expr::Between(Between::new(left.clone(), negated, low, high))
    };
    let against = |end: &ScalarValue| {
        Expr::BinaryExpr(BinaryExpr::new(left.clone(), op, Box::new(literal(end.clone()))))
    };
    Transformed::yes(match op {
        Operator::Eq => between(false),
        Operator::NotEq => between(true),
        Operator::IsNotDistinctFrom => Expr::IsTrue(Box::new(between(false))),
        Operator::IsDistinctFrom => Expr::IsNotTrue(Box::new(between(false))),
        Operator::Gt | Operator::LtEq => against(&plus),
        Operator::Lt | Operator::GtEq => against(&minus),
        _ => return Transformed::no(Expr::BinaryExpr(BinaryExpr::new(left, op, right))),
    })
}

fn in_list(mut node: InList, schema: &DFSchema) -> Result<Transformed<Expr>> {
    if node.list.iter().any(|e| !matches!(e, Expr::Literal(..))) {
        let Some(zero) = zero_literal(&node.expr.get_type(schema)?) else {
            return Ok(Transformed::no(Expr::InList(node)));
        };
        let list = node.list.into_iter().map(|e| unsigned(e, &zero)).collect();
        let expr = Box::new(unsigned(*node.expr, &zero));
        return Ok(Transformed::yes(Expr::InList(InList { expr, list, negated: node.negated })));
    }
    let Some((minus, plus)) = node.list.iter().find_map(zero_of) else {
        return Ok(Transformed::no(Expr::InList(node)));
    };
    node.list.retain(|e| zero_of(e).is_none());
    node.list.extend([literal(minus), literal(plus)]);
    Ok(Transformed::yes(Expr::InList(node)))
}

fn between_ends(mut node: Between) -> Transformed<Expr> {
    let mut changed = false;
    if let Some((minus, _)) = zero_of(&node.low) {
        (*node.low, changed) = (literal(minus), true);
    }
    if let Some((_, plus)) = zero_of(&node.high) {
        (*node.high, changed) = (literal(plus), true);
    }
    Transformed::new(Expr::Between(node), changed, datafusion_common::tree_node::TreeNodeRecursion::Continue)
}

/// Minus zero and zero of the literal's type, if it is a zero.
fn zero_of(expr: &Expr) -> Option<(ScalarValue, ScalarValue)> {
    match expr {
        Expr::Literal(ScalarValue::Float64(Some(v)), _) if *v == 0.0 => {
            Some((ScalarValue::from(-0.0_f64), ScalarValue::from(0.0_f64)))
        }
        Expr::Literal(ScalarValue::Float32(Some(v)), _) if *v == 0.0 => {
            Some((ScalarValue::from(-0.0_f32), ScalarValue::from(0.0_f32)))
        }
        Expr::Literal(ScalarValue::Float16(Some(v)), _) if *v == f16::ZERO => {
            Some((ScalarValue::Float16(Some(f16::NEG_ZERO)), ScalarValue::Float16(Some(f16::ZERO))))
        }
        _ => None,
    }
}

fn zero_literal(data_type: &DataType) -> Option<ScalarValue> {
    match data_type {
        DataType::Float64 => Some(ScalarValue::from(0.0_f64)),
        DataType::Float32 => Some(ScalarValue::from(0.0_f32)),
        DataType::Float16 => Some(ScalarValue::Float16(Some(f16::ZERO))),
        _ => None,
    }
}

fn literal(value: ScalarValue) -> Expr {
    Expr::Literal(value, None)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::{ArrayRef, Float64Array, RecordBatch};

    use crate::expr::Expression;

    #[test]
    fn zero_and_minus_zero_are_equal() {
        let floats = Float64Array::from(vec![Some(0.0), Some(-0.0), Some(f64::NAN), Some(1.0), None]);
        let g = Float64Array::from(vec![Some(-0.0), Some(-0.0), Some(f64::NAN), Some(0.0), None]);
        let columns: Vec<(&str, ArrayRef)> = vec![("f", Arc::new(floats)), ("g", Arc::new(g))];
        let batch =
            RecordBatch::try_from_iter_with_nullable(columns.into_iter().map(|(n, a)| (n, a, true))).unwrap();
        for (sql, rows) in [
            ("f = 0.0", vec![0, 1]),
            ("f = -0.0", vec![0, 1]),
            ("0.0 = f", vec![0, 1]),
            ("f = 0", vec![0, 1]),
            ("f = 0 and f <> cast('-0' as double)", vec![]),
            ("f in (1.0, -(0.0)) and f = 0.0 * -1", vec![0, 1]),
            ("0.0 * -1 in (0.0)", vec![0, 1, 2, 3, 4]),
            ("-(0.0) not in (0.0)", vec![]),
            ("-(0.0) between 0.0 and 1.0", vec![0, 1, 2, 3, 4]),
            ("case -(0.0) when 0.0 then true else false end", vec![0, 1, 2, 3, 4]),
            ("nullif(-(0.0), 0.0) is null", vec![0, 1, 2, 3, 4]),
            ("f > 0", vec![2, 3]),
            ("0 < f", vec![2, 3]),
            ("f >= 0", vec![0, 1, 2, 3]),
            ("f < 0", vec![]),
            ("f <= 0", vec![0, 1]),
            ("f <> 0", vec![2, 3]),
            ("f in (0.0)", vec![0, 1]),
            ("f in (0.0, 1.0, 2.0, 3.0, 5.0)", vec![0, 1, 3]),
            ("f not in (0.0, 4.0, 2.0, 3.0, 5.0)", vec![2, 3]),
            ("f = cast('nan' as double)", vec![2]),
            ("f between 0 and 1", vec![0, 1, 3]),
            ("f not between 0 and 0.5", vec![2, 3]),
            ("f is not distinct from 0.0", vec![0, 1]),
            ("f is distinct from 0.0", vec![2, 3, 4]),
            ("f + 0 = 0", vec![0, 1]),
            ("not (f > 0)", vec![0, 1]),
            ("f = g", vec![0, 1, 2]),
            ("f > g", vec![3]),
            ("f <> 1", vec![0, 1, 2]),
            ("f in (g, 5.0, 6.0, 7.0)", vec![0, 1, 2]),
            ("f not in (g, 5.0, 6.0, 7.0)", vec![3]),
            ("f in (g + 0.5, 5.0, 0.0, 7.0)", vec![0, 1, 2]),
            ("0.0 in (f, g, 6.0, 7.0)", vec![0, 1, 3]),
            ("case f when 0.0 then true else false end", vec![0, 1]),
            ("case f when -0.0 then true when 1 then true else false end", vec![0, 1, 3]),
            ("case f when g then true else false end", vec![0, 1, 2]),
            ("nullif(f, 0.0) is null", vec![0, 1, 4]),
            ("nullif(f, g) is null", vec![0, 1, 2, 4]),
            ("nullif(f, 1) is null", vec![3, 4]),
        ] {
            let mask = Expression::predicate(sql, batch.schema_ref()).unwrap().evaluate_mask(&batch).unwrap();
            let found: Vec<usize> = mask.values().set_indices().collect();
            assert_eq!(found, rows, "{sql}");
        }
    }
}
