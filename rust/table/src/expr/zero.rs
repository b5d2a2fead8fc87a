//! Zero and minus zero are equal in a comparison, as SQL and the reference have it.
//!
//! Arrow's kernels order floats totally: `-0.0 < 0.0`. A literal zero therefore becomes the end of the pair
//! that makes the comparison right; two computed sides get `+ 0.0`, which turns minus zero into zero. NaN keeps
//! its place in the total order: above everything and equal to itself.

use arrow_schema::DataType;
use datafusion_common::tree_node::{Transformed, TreeNode};
use datafusion_common::{DFSchema, Result, ScalarValue};
use datafusion_expr::expr::InList;
use datafusion_expr::{Between, BinaryExpr, Expr, ExprSchemable, Operator};
use half::f16;

/// Rewrites all comparisons of floats in a coerced and simplified expression.
pub(super) fn rewrite(expr: Expr, schema: &DFSchema) -> Result<Expr> {
    expr.transform_up(|node| match node {
        Expr::BinaryExpr(comparison) if is_comparison(comparison.op) => comparison_of(comparison, schema),
        Expr::InList(list) => Ok(in_list(list)),
        Expr::Between(between) => Ok(between_ends(between)),
        other => Ok(Transformed::no(other)),
    })
    .map(|t| t.data)
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
    let unsigned = |side: Box<Expr>| {
        Box::new(Expr::BinaryExpr(BinaryExpr::new(side, Operator::Plus, Box::new(literal(zero.clone())))))
    };
    Ok(Transformed::yes(Expr::BinaryExpr(BinaryExpr::new(
        unsigned(node.left),
        node.op,
        unsigned(node.right),
    ))))
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

fn in_list(mut node: InList) -> Transformed<Expr> {
    let Some((minus, plus)) = node.list.iter().find_map(zero_of) else {
        return Transformed::no(Expr::InList(node));
    };
    node.list.retain(|e| zero_of(e).is_none());
    node.list.extend([literal(minus), literal(plus)]);
    Transformed::yes(Expr::InList(node))
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
