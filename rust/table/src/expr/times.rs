//! A timestamp in a comparison keeps its fraction, whatever the unit of the column.
//!
//! Coercion casts a column of seconds to the unit of a constant. Simplification moves that cast to the constant and divides:
//! half past a second would be that second. So the constant is brought to the unit of the column here, exactly: one that the
//! unit cannot hold becomes the timestamp before it, in the comparison that is true for the same rows.

use std::sync::Arc;

use arrow_schema::{DataType, TimeUnit};
use datafusion_common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion_common::{DFSchema, Result, ScalarValue};
use datafusion_expr::expr::InList;
use datafusion_expr::{Between, BinaryExpr, Cast, Expr, ExprSchemable, Operator, TryCast, binary_expr, lit};
use datafusion_optimizer::simplify_expressions::ExprSimplifier;

use super::zero::is_comparison;

/// Rewrites comparisons of timestamps with constants in an expression that was coerced and not simplified.
pub(super) fn rewrite(expr: Expr, schema: &DFSchema, simplifier: &ExprSimplifier) -> Result<Expr> {
    let rewriter = TimestampRewriter { schema, simplifier };
    expr.transform_up(|node| {
        let rewritten = match &node {
            Expr::BinaryExpr(BinaryExpr { left, op, right }) => rewriter.comparison(left, *op, right),
            Expr::Between(between) => rewriter.between(between),
            Expr::InList(list) => rewriter.in_list(list),
            _ => None,
        };
        let is_rewritten = rewritten.is_some();
        Ok(Transformed::new(rewritten.unwrap_or(node), is_rewritten, TreeNodeRecursion::Continue))
    })
    .map(|t| t.data)
}

/// Timestamps of a column that were cast to a finer unit.
struct Widened<'a> {
    column: &'a Expr,
    unit: TimeUnit,
    zone: Option<Arc<str>>,
}

/// A constant in the unit of a column.
struct Constant {
    /// The last timestamp of the unit that is not after it; null of a null.
    value: ScalarValue,
    is_exact: bool,
}

struct TimestampRewriter<'a> {
    schema: &'a DFSchema,
    simplifier: &'a ExprSimplifier,
}

impl TimestampRewriter<'_> {
    fn comparison(&self, left: &Expr, op: Operator, right: &Expr) -> Option<Expr> {
        if !is_comparison(op) {
            return None;
        }
        let (widened, constant, op) = match self.widened(left) {
            Some(widened) => (widened, right, op),
            None => (self.widened(right)?, left, op.swap()?),
        };
        let constant = self.constant(constant, &widened)?;
        compare(widened.column, op, constant)
    }

    fn between(&self, node: &Between) -> Option<Expr> {
        let [low, high] = [(Operator::GtEq, &node.low), (Operator::LtEq, &node.high)]
            .map(|(op, end)| (self.comparison(&node.expr, op, end), op, end));
        if low.0.is_none() && high.0.is_none() {
            return None;
        }
        let [low, high] = [low, high].map(|(rewritten, op, end)| {
            rewritten.unwrap_or_else(|| binary_expr((*node.expr).clone(), op, (**end).clone()))
        });
        let both = low.and(high);
        Some(if node.negated { Expr::Not(Box::new(both)) } else { both })
    }

    fn in_list(&self, node: &InList) -> Option<Expr> {
        let InList { expr, list, negated } = node;
        let Some(widened) = self.widened(expr) else { return self.in_columns(node) };
        let constants: Option<Vec<_>> = list.iter().map(|item| self.constant(item, &widened)).collect();
        let values = constants?.into_iter().filter(|constant| constant.is_exact);
        let values: Vec<Expr> = values.map(|constant| Expr::Literal(constant.value, None)).collect();
        Some(match (values.is_empty(), negated) {
            (true, true) => always(widened.column),
            (true, false) => never(widened.column),
            _ => Expr::InList(InList::new(Box::new(widened.column.clone()), values, *negated)),
        })
    }

    /// A constant that is one of some columns.
    fn in_columns(&self, node: &InList) -> Option<Expr> {
        node.list.iter().find_map(|item| self.widened(item))?;
        let each = node.list.iter().map(|item| {
            let rewritten = self.comparison(&node.expr, Operator::Eq, item);
            rewritten.unwrap_or_else(|| binary_expr((*node.expr).clone(), Operator::Eq, item.clone()))
        });
        let any = each.reduce(Expr::or)?;
        Some(if node.negated { Expr::Not(Box::new(any)) } else { any })
    }

    fn widened<'a>(&self, expr: &'a Expr) -> Option<Widened<'a>> {
        let (column, to) = match expr {
            Expr::Cast(Cast { expr, field }) | Expr::TryCast(TryCast { expr, field }) => {
                (expr, field.data_type())
            }
            _ => return None,
        };
        let DataType::Timestamp(finer, zone) = to else { return None };
        let DataType::Timestamp(unit, of_column) = column.get_type(self.schema).ok()? else { return None };
        // A cast that gives or takes a zone moves the timestamps as well.
        let is_moved = zone.is_some() != of_column.is_some();
        let is_widened = unit < *finer && !is_moved && !is_constant(column) && !column.is_volatile();
        // A cast of the text's may be within that of the coercion.
        is_widened.then(|| self.widened(column).unwrap_or(Widened { column, unit, zone: of_column }))
    }

    fn constant(&self, expr: &Expr, widened: &Widened<'_>) -> Option<Constant> {
        if !is_constant(expr) || expr.is_volatile() {
            return None;
        }
        let (finer, number) = match self.number(expr) {
            Some(found) => found,
            // Nanoseconds end in the year 2262; a text is read in coarser units as well.
            None => self.numbers_of_text(expr, widened)?,
        };
        let ratio = Some(per_second(finer) / per_second(widened.unit)).filter(|ratio| *ratio > 0)?;
        let value = number.map(|number| number.checked_div_euclid(ratio)).unwrap_or_default();
        let is_exact = number.is_none_or(|number| number.checked_rem_euclid(ratio) == Some(0));
        let zone = widened.zone.clone();
        let value = match widened.unit {
            TimeUnit::Second => ScalarValue::TimestampSecond(value, zone),
            TimeUnit::Millisecond => ScalarValue::TimestampMillisecond(value, zone),
            TimeUnit::Microsecond => ScalarValue::TimestampMicrosecond(value, zone),
            TimeUnit::Nanosecond => return None,
        };
        Some(Constant { value, is_exact })
    }

    /// The unit and the number of a constant timestamp.
    fn number(&self, constant: &Expr) -> Option<(TimeUnit, Option<i64>)> {
        let simplified = match constant {
            Expr::Literal(..) => constant.clone(),
            _ => self.simplifier.simplify(constant.clone()).ok()?,
        };
        match simplified {
            Expr::Literal(ScalarValue::TimestampSecond(number, _), _) => Some((TimeUnit::Second, number)),
            Expr::Literal(ScalarValue::TimestampMillisecond(number, _), _) => {
                Some((TimeUnit::Millisecond, number))
            }
            Expr::Literal(ScalarValue::TimestampMicrosecond(number, _), _) => {
                Some((TimeUnit::Microsecond, number))
            }
            Expr::Literal(ScalarValue::TimestampNanosecond(number, _), _) => {
                Some((TimeUnit::Nanosecond, number))
            }
            _ => None,
        }
    }

    fn numbers_of_text(&self, constant: &Expr, widened: &Widened<'_>) -> Option<(TimeUnit, Option<i64>)> {
        let Expr::Cast(Cast { expr: text, field }) = constant else { return None };
        let DataType::Timestamp(_, zone) = field.data_type() else { return None };
        let is_text = matches!(
            **text,
            Expr::Literal(ScalarValue::Utf8(_) | ScalarValue::LargeUtf8(_) | ScalarValue::Utf8View(_), _)
        );
        [TimeUnit::Microsecond, widened.unit].iter().filter(|_| is_text).find_map(|unit| {
            let cast = text.clone().cast_to(&DataType::Timestamp(*unit, zone.clone()), self.schema).ok()?;
            self.number(&cast)
        })
    }
}

/// The comparison of a column with a constant, whose value was rounded down to the unit of the column.
fn compare(column: &Expr, op: Operator, constant: Constant) -> Option<Expr> {
    let with = |op| Some(binary_expr(column.clone(), op, Expr::Literal(constant.value, None)));
    if constant.is_exact {
        return with(op);
    }
    match op {
        Operator::Eq => Some(never(column)),
        Operator::NotEq => Some(always(column)),
        Operator::Lt | Operator::LtEq => with(Operator::LtEq),
        Operator::Gt | Operator::GtEq => with(Operator::Gt),
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
    expr.column_refs().is_empty()
}

fn per_second(unit: TimeUnit) -> i64 {
    match unit {
        TimeUnit::Second => 1,
        TimeUnit::Millisecond => 1_000,
        TimeUnit::Microsecond => 1_000_000,
        TimeUnit::Nanosecond => 1_000_000_000,
    }
}
