//! A time in a comparison keeps its fraction, whatever unit the other side has.
//!
//! Coercion casts both sides to the coarser unit: half past a second would be that second. A constant that the other side's
//! unit cannot hold becomes the time before it, in the comparison that is true for the same rows. Of two sides that are no
//! constants the coarser one is cast to the finer unit.

use arrow_schema::{DataType, TimeUnit};
use datafusion_common::tree_node::{Transformed, TreeNode};
use datafusion_common::{DFSchema, Result, ScalarValue};
use datafusion_expr::expr::InList;
use datafusion_expr::{Between, BinaryExpr, Expr, ExprSchemable, Operator, binary_expr, lit};
use datafusion_optimizer::simplify_expressions::ExprSimplifier;

use super::zero::is_comparison;

/// Rewrites comparisons of times in an expression that was not coerced yet.
pub(super) fn rewrite(expr: Expr, schema: &DFSchema, simplifier: &ExprSimplifier) -> Result<Expr> {
    let times = Times { schema, simplifier };
    expr.transform_up(|node| match node {
        Expr::BinaryExpr(comparison) => times.comparison(comparison),
        Expr::Between(between) => Ok(times.between(between)),
        Expr::InList(list) => Ok(times.in_list(list)),
        other => Ok(Transformed::no(other)),
    })
    .map(|t| t.data)
}

struct Times<'a> {
    schema: &'a DFSchema,
    simplifier: &'a ExprSimplifier,
}

impl Times<'_> {
    fn comparison(&self, node: BinaryExpr) -> Result<Transformed<Expr>> {
        if let Some(before) = self.time_before(&node.left, &node.right)
            && let Some(compared) = compared(&node.left, node.op, before)
        {
            return Ok(Transformed::yes(compared));
        }
        if let Some(op) = node.op.swap()
            && let Some(before) = self.time_before(&node.right, &node.left)
            && let Some(compared) = compared(&node.right, op, before)
        {
            return Ok(Transformed::yes(compared));
        }
        let BinaryExpr { left, op, right } = node;
        let is_comparison = is_comparison(op) && !is_constant(&left) && !is_constant(&right);
        match (self.unit(&left), self.unit(&right)) {
            (Some((coarse, zone)), Some((fine, _))) if is_comparison && fine > coarse => {
                let left = left.cast_to(&DataType::Timestamp(fine, zone), self.schema)?;
                Ok(Transformed::yes(binary_expr(left, op, *right)))
            }
            (Some((fine, _)), Some((coarse, zone))) if is_comparison && fine > coarse => {
                let right = right.cast_to(&DataType::Timestamp(fine, zone), self.schema)?;
                Ok(Transformed::yes(binary_expr(*left, op, right)))
            }
            _ => Ok(Transformed::no(Expr::BinaryExpr(BinaryExpr::new(left, op, right)))),
        }
    }

    fn between(&self, node: Between) -> Transformed<Expr> {
        let end = |op: Operator, end: &Expr| {
            self.time_before(&node.expr, end).and_then(|before| compared(&node.expr, op, before))
        };
        let (low, high) = (end(Operator::GtEq, &node.low), end(Operator::LtEq, &node.high));
        if low.is_none() && high.is_none() {
            return Transformed::no(Expr::Between(node));
        }
        let plain = |op: Operator, end: &Expr| binary_expr((*node.expr).clone(), op, end.clone());
        let low = low.unwrap_or_else(|| plain(Operator::GtEq, &node.low));
        let both = low.and(high.unwrap_or_else(|| plain(Operator::LtEq, &node.high)));
        Transformed::yes(if node.negated { Expr::Not(Box::new(both)) } else { both })
    }

    fn in_list(&self, mut node: InList) -> Transformed<Expr> {
        let before = node.list.len();
        node.list.retain(|time| self.time_before(&node.expr, time).is_none());
        if node.list.len() == before {
            return Transformed::no(Expr::InList(node));
        }
        if node.list.is_empty() {
            return Transformed::yes(if node.negated { always(&node.expr) } else { never(&node.expr) });
        }
        Transformed::yes(Expr::InList(node))
    }

    /// The last time before a constant, in the unit of what it is compared with, if that cannot hold it.
    fn time_before(&self, compared: &Expr, constant: &Expr) -> Option<ScalarValue> {
        let (unit, zone) = self.unit(compared)?;
        if unit == TimeUnit::Nanosecond || is_constant(compared) || !is_constant(constant) {
            return None;
        }
        let units: &[TimeUnit] = match constant.get_type(self.schema).ok()? {
            DataType::Timestamp(finer, _) if finer > unit => &[finer],
            // A time that nanoseconds cannot reach may still have a fraction.
            DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => {
                &[TimeUnit::Nanosecond, TimeUnit::Microsecond]
            }
            _ => return None,
        };
        let (finer, value) = units.iter().find_map(|finer| {
            let time =
                constant.clone().cast_to(&DataType::Timestamp(*finer, zone.clone()), self.schema).ok()?;
            let time = self.simplifier.coerce(time, self.schema).ok()?;
            match self.simplifier.simplify(time).ok()? {
                Expr::Literal(value, _) => Some((*finer, number(&value)?)),
                _ => None,
            }
        })?;
        let each = per_second(finer).checked_div(per_second(unit)).filter(|each| *each > 1)?;
        let before = Some(value.div_euclid(each)).filter(|before| before * each != value)?;
        Some(match unit {
            TimeUnit::Second => ScalarValue::TimestampSecond(Some(before), zone),
            TimeUnit::Millisecond => ScalarValue::TimestampMillisecond(Some(before), zone),
            TimeUnit::Microsecond => ScalarValue::TimestampMicrosecond(Some(before), zone),
            TimeUnit::Nanosecond => return None,
        })
    }

    fn unit(&self, expr: &Expr) -> Option<(TimeUnit, Option<std::sync::Arc<str>>)> {
        match expr.get_type(self.schema).ok()? {
            DataType::Timestamp(unit, zone) => Some((unit, zone)),
            _ => None,
        }
    }
}

/// The comparison with a time that lies between `before` and the next one.
fn compared(expr: &Expr, op: Operator, before: ScalarValue) -> Option<Expr> {
    let with = |op| binary_expr(expr.clone(), op, Expr::Literal(before, None));
    match op {
        Operator::Eq => Some(never(expr)),
        Operator::NotEq => Some(always(expr)),
        Operator::Lt | Operator::LtEq => Some(with(Operator::LtEq)),
        Operator::Gt | Operator::GtEq => Some(with(Operator::Gt)),
        Operator::IsNotDistinctFrom => Some(lit(false)),
        Operator::IsDistinctFrom => Some(lit(true)),
        _ => None,
    }
}

/// False, or null where the expression is.
fn never(expr: &Expr) -> Expr {
    binary_expr(expr.clone(), Operator::NotEq, expr.clone())
}

/// True, or null where the expression is.
fn always(expr: &Expr) -> Expr {
    binary_expr(expr.clone(), Operator::Eq, expr.clone())
}

fn is_constant(expr: &Expr) -> bool {
    expr.column_refs().is_empty() && !expr.is_volatile()
}

fn number(value: &ScalarValue) -> Option<i64> {
    match value {
        ScalarValue::TimestampMillisecond(number, _)
        | ScalarValue::TimestampMicrosecond(number, _)
        | ScalarValue::TimestampNanosecond(number, _) => *number,
        _ => None,
    }
}

fn per_second(unit: TimeUnit) -> i64 {
    match unit {
        TimeUnit::Second => 1,
        TimeUnit::Millisecond => 1_000,
        TimeUnit::Microsecond => 1_000_000,
        TimeUnit::Nanosecond => 1_000_000_000,
    }
}
