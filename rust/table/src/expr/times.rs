//! Times are compared as they are, whatever the units of columns and constants.
//!
//! Timestamps:
//! Coercion casts a column of seconds to the unit of a constant. Simplification moves that cast to the constant and divides:
//! half past a second would be that second. So the constant is brought to the unit of the column here, exactly: one that the
//! unit cannot hold becomes the timestamp before it, in the comparison that is true for the same rows. Nanoseconds end
//! in the year 2262: what lies behind is greater than all of them.
//!
//! Functions that choose one of several timestamps, as `coalesce` does, get them in one unit in the same way.
//!
//! Times of day: DataFusion compares those of one unit alone, so the coarser ones are cast.

use std::sync::Arc;

use arrow_schema::{DataType, TimeUnit};
use datafusion_common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion_common::{DFSchema, Result, ScalarValue};
use datafusion_expr::expr::{InList, ScalarFunction};
use datafusion_expr::{
    Between, BinaryExpr, Cast, Expr, ExprSchemable, Operator, TryCast, binary_expr, lit, when,
};
use datafusion_optimizer::simplify_expressions::ExprSimplifier;

use super::zero::is_comparison;

/// Functions that give one of their arguments.
pub(super) const CHOICES: [&str; 3] = ["coalesce", "greatest", "least"];

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

/// Gives the timestamps that a function chooses from one unit, in an expression that was not coerced: the coarsest that
/// holds its columns and constants. Coercion takes nanoseconds for constants, and next to dates. `nullif` is the comparison
/// that it stands for.
pub(super) fn choices(expr: Expr, schema: &DFSchema, simplifier: &ExprSimplifier) -> Result<Expr> {
    let rewriter = TimestampRewriter { schema, simplifier };
    expr.transform_up(|node| {
        let Expr::ScalarFunction(call) = &node else { return Ok(Transformed::no(node)) };
        let rewritten = match (call.func.name(), call.args.as_slice()) {
            ("nullif", [value, other]) if rewriter.are_times(value, other) => Some(
                when(binary_expr(value.clone(), Operator::Eq, other.clone()), lit(ScalarValue::Null))
                    .otherwise(value.clone())?,
            ),
            (name, args) if CHOICES.contains(&name) => {
                let args = rewriter.in_common_unit(args);
                args.map(|args| Expr::ScalarFunction(ScalarFunction::new_udf(Arc::clone(&call.func), args)))
            }
            _ => None,
        };
        let is_rewritten = rewritten.is_some();
        Ok(Transformed::new(rewritten.unwrap_or(node), is_rewritten, TreeNodeRecursion::Continue))
    })
    .map(|t| t.data)
}

/// Casts times of day in comparisons, and where a function chooses from them, to the finer one of their units, in an
/// expression that was not coerced.
pub(super) fn in_one_unit(expr: Expr, schema: &DFSchema) -> Result<Expr> {
    let finest = |sides: &[&Expr]| {
        let types = sides.iter().map(|side| side.get_type(schema).ok());
        let types = types.filter(|found| *found != Some(DataType::Null));
        let types = types.map(|found| found.filter(is_time_of_day)).collect::<Option<Vec<_>>>()?;
        // `Time32` comes before `Time64`, seconds before milliseconds, and so on.
        let finest = types.iter().max()?.clone();
        types.iter().any(|other| *other != finest).then_some(finest)
    };
    let cast = |side: Expr, to: &DataType| side.cast_to(to, schema);
    expr.transform_up(|node| {
        let sides = match &node {
            Expr::BinaryExpr(BinaryExpr { left, op, right }) if is_comparison(*op) => vec![&**left, right],
            Expr::Between(Between { expr, low, high, .. }) => vec![&**expr, low, high],
            Expr::InList(InList { expr, list, .. }) => std::iter::once(&**expr).chain(list).collect(),
            Expr::ScalarFunction(call) if CHOICES.contains(&call.func.name()) => call.args.iter().collect(),
            _ => return Ok(Transformed::no(node)),
        };
        match finest(&sides) {
            Some(finest) => Ok(Transformed::yes(
                node.map_children(|side| cast(side, &finest).map(Transformed::yes))?.data,
            )),
            None => Ok(Transformed::no(node)),
        }
    })
    .map(|t| t.data)
}

fn is_time_of_day(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Time32(_) | DataType::Time64(_))
}

/// Timestamps of a column that were cast to a finer unit, or are nanoseconds anyway.
struct Widened<'a> {
    column: &'a Expr,
    unit: TimeUnit,
    zone: Option<Arc<str>>,
}

/// A constant among the timestamps of a unit.
enum Constant {
    /// It is one, or null.
    At(ScalarValue),
    /// It lies between this one and the next.
    After(ScalarValue),
    /// It lies behind the last one.
    Above,
    /// It lies before the first one.
    Below,
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
        let values = list.iter().filter_map(|item| match self.constant(item, &widened) {
            Some(Constant::At(value)) => Some(Some(Expr::Literal(value, None))),
            Some(_) => None,
            None => Some((widened.unit == TimeUnit::Nanosecond).then(|| item.clone())),
        });
        let values = values.collect::<Option<Vec<Expr>>>()?;
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

    /// Whether values are times, and are compared with times or a text.
    fn are_times(&self, value: &Expr, other: &Expr) -> bool {
        let is_time = |expr: &Expr| {
            expr.get_type(self.schema)
                .is_ok_and(|t| t.is_temporal() && !matches!(t, DataType::Duration(_) | DataType::Interval(_)))
        };
        let is_text = matches!(other, Expr::Literal(text, _) if text.try_as_str().is_some());
        is_time(value) && (is_time(other) || is_text) && !value.is_volatile()
    }

    /// The same with constants and dates as timestamps of the unit of the others, or the next one that has all of them.
    fn in_common_unit(&self, args: &[Expr]) -> Option<Vec<Expr>> {
        let types = args.iter().map(|arg| arg.get_type(self.schema).ok()).collect::<Option<Vec<_>>>()?;
        let of_columns = args.iter().zip(&types).filter(|(arg, _)| !is_constant(arg));
        let timestamps = of_columns.filter_map(|(_, data_type)| match data_type {
            DataType::Timestamp(unit, zone) => Some((*unit, zone.clone())),
            _ => None,
        });
        let (finest, zone) = timestamps.max_by_key(|(unit, _)| *unit)?;
        let units = [TimeUnit::Second, TimeUnit::Millisecond, TimeUnit::Microsecond];
        units.into_iter().filter(|unit| *unit >= finest).find_map(|unit| {
            let in_unit = |(arg, data_type): (&Expr, &DataType)| match data_type {
                DataType::Null => Some(arg.clone()),
                DataType::Date32 if zone.is_none() => {
                    arg.clone().cast_to(&DataType::Timestamp(unit, None), self.schema).ok()
                }
                DataType::Timestamp(_, of_arg) if of_arg.is_some() != zone.is_some() => None,
                DataType::Timestamp(..) if !is_constant(arg) => Some(arg.clone()),
                DataType::Timestamp(..) => {
                    match self.constant(arg, &Widened { column: arg, unit, zone: zone.clone() })? {
                        Constant::At(value) => Some(Expr::Literal(value, None)),
                        _ => None,
                    }
                }
                _ => None,
            };
            args.iter().zip(&types).map(in_unit).collect()
        })
    }

    fn widened<'a>(&self, expr: &'a Expr) -> Option<Widened<'a>> {
        self.cast_to_finer(expr).or_else(|| match expr.get_type(self.schema) {
            Ok(DataType::Timestamp(unit @ TimeUnit::Nanosecond, zone)) if is_column(expr) => {
                Some(Widened { column: expr, unit, zone })
            }
            _ => None,
        })
    }

    fn cast_to_finer<'a>(&self, expr: &'a Expr) -> Option<Widened<'a>> {
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
        let is_widened = unit < *finer && !is_moved && is_column(column);
        // A cast of the text's may be within that of the coercion.
        is_widened.then(|| self.cast_to_finer(column).unwrap_or(Widened { column, unit, zone: of_column }))
    }

    fn constant(&self, expr: &Expr, widened: &Widened<'_>) -> Option<Constant> {
        if !is_constant(expr) || expr.is_volatile() {
            return None;
        }
        let (finer, number) = match self.number(expr) {
            Some(found) => found,
            // A text, or another constant, is read in coarser units as well.
            None => self.coarser_number(expr, widened)?,
        };
        if widened.unit == TimeUnit::Nanosecond {
            let number =
                number.filter(|n| n.checked_mul(per_second(widened.unit) / per_second(finer)).is_none())?;
            return Some(if number > 0 { Constant::Above } else { Constant::Below });
        }
        let ratio = Some(per_second(finer) / per_second(widened.unit)).filter(|ratio| *ratio > 0)?;
        let value = number.map(|number| number.checked_div_euclid(ratio)).unwrap_or_default();
        let is_exact = number.is_none_or(|number| number.checked_rem_euclid(ratio) == Some(0));
        let zone = widened.zone.clone();
        let value = match widened.unit {
            TimeUnit::Second => ScalarValue::TimestampSecond(value, zone),
            TimeUnit::Millisecond => ScalarValue::TimestampMillisecond(value, zone),
            TimeUnit::Microsecond => ScalarValue::TimestampMicrosecond(value, zone),
            TimeUnit::Nanosecond => ScalarValue::TimestampNanosecond(value, zone),
        };
        Some(if is_exact { Constant::At(value) } else { Constant::After(value) })
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

    /// The same of a constant that was cast to a unit that may not have it.
    fn coarser_number(&self, constant: &Expr, widened: &Widened<'_>) -> Option<(TimeUnit, Option<i64>)> {
        let Expr::Cast(Cast { expr: inner, field }) = constant else { return None };
        let DataType::Timestamp(_, zone) = field.data_type() else { return None };
        let cast = |expr: &Expr, unit: TimeUnit, zone: &Option<Arc<str>>| {
            expr.clone().cast_to(&DataType::Timestamp(unit, zone.clone()), self.schema).ok()
        };
        let in_coarser_units = |make: &dyn Fn(TimeUnit) -> Option<Expr>| {
            let units = [TimeUnit::Microsecond, widened.unit, TimeUnit::Second];
            units.into_iter().find_map(|unit| self.number(&make(unit)?))
        };
        match inner.get_type(self.schema).ok()? {
            DataType::Utf8
            | DataType::LargeUtf8
            | DataType::Utf8View
            | DataType::Date32
            | DataType::Date64 => in_coarser_units(&|unit| cast(inner, unit, zone)),
            DataType::Timestamp(_, of_inner) if of_inner.is_some() == zone.is_some() => self.number(inner),
            // A timestamp without a zone gets that of the column.
            DataType::Timestamp(_, of_inner) => match inner.as_ref() {
                Expr::Cast(Cast { expr: text, .. }) => {
                    in_coarser_units(&|unit| cast(&cast(text, unit, &of_inner)?, unit, zone))
                }
                _ => None,
            },
            _ => None,
        }
    }
}

/// The comparison of a column with a constant.
fn compare(column: &Expr, op: Operator, constant: Constant) -> Option<Expr> {
    use Operator::{Eq, Gt, GtEq, IsDistinctFrom, IsNotDistinctFrom, Lt, LtEq, NotEq};
    let with = |op, value| Some(binary_expr(column.clone(), op, Expr::Literal(value, None)));
    match (constant, op) {
        (Constant::At(value), op) => with(op, value),
        (_, Eq) => Some(never(column)),
        (_, NotEq) => Some(always(column)),
        (_, IsNotDistinctFrom) => Some(lit(false)),
        (_, IsDistinctFrom) => Some(lit(true)),
        (Constant::After(value), Lt | LtEq) => with(LtEq, value),
        (Constant::After(value), Gt | GtEq) => with(Gt, value),
        (Constant::Above, Lt | LtEq) | (Constant::Below, Gt | GtEq) => Some(always(column)),
        (Constant::Above, Gt | GtEq) | (Constant::Below, Lt | LtEq) => Some(never(column)),
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

/// Whether it has a value of its own in each row, and always the same.
fn is_column(expr: &Expr) -> bool {
    !is_constant(expr) && !expr.is_volatile()
}

fn per_second(unit: TimeUnit) -> i64 {
    match unit {
        TimeUnit::Second => 1,
        TimeUnit::Millisecond => 1_000,
        TimeUnit::Microsecond => 1_000_000,
        TimeUnit::Nanosecond => 1_000_000_000,
    }
}

#[cfg(test)]
mod tests {
    use arrow_array::{
        ArrayRef, Date32Array, RecordBatch, Time32SecondArray, Time64MicrosecondArray,
        TimestampMicrosecondArray, TimestampNanosecondArray, TimestampSecondArray,
    };

    use super::*;
    use crate::expr::Expression;

    /// Rows of seconds 0, 1, 2 and null, and the same in microseconds.
    #[test]
    fn times_keep_their_fractions() {
        let seconds = TimestampSecondArray::from(vec![Some(0), Some(1), Some(2), None]);
        let micros = TimestampMicrosecondArray::from(vec![Some(0), Some(1_500_000), Some(2_000_000), None]);
        let columns: [(&str, ArrayRef); 4] = [
            ("d", Arc::new(Date32Array::from(vec![Some(0), Some(1), Some(2), None]))),
            ("t", Arc::new(seconds.clone())),
            ("z", Arc::new(seconds.with_timezone("+01:00"))),
            ("u", Arc::new(micros)),
        ];
        let batch = RecordBatch::try_from_iter_with_nullable(columns.map(|(n, a)| (n, a, true))).unwrap();
        let half = "timestamp '1970-01-01 00:00:01.5'";
        for (sql, rows) in [
            ("t = {}", 0),
            ("t <> {}", 3),
            ("not (t = {})", 3),
            ("t < {}", 2),
            ("t <= {}", 2),
            ("t > {}", 1),
            ("t >= {}", 1),
            ("{} > t", 2),
            ("{} <= t", 1),
            ("t is not distinct from {}", 0),
            ("t is distinct from {}", 4),
            ("t between {} and {} + interval '1 second'", 1),
            ("t not between {} and {} + interval '1 second'", 2),
            ("t in ({}, timestamp '1970-01-01 00:00:01')", 1),
            ("t in ({})", 0),
            ("t not in ({})", 3),
            ("t = '1970-01-01 00:00:01.5'", 0),
            ("t < '9999-01-01 00:00:00.5'", 3),
            ("t < '9999-01-01'", 3),
            ("u < '9999-12-31 23:59:59'", 3),
            ("t > '9999-01-01'", 0),
            ("{} between t and t", 0),
            ("{} not between t and t", 3),
            ("{} between t and u", 1),
            ("{} in (t, u)", 1),
            ("{} not in (t, u)", 2),
            ("cast(t as timestamp) = {}", 0),
            ("t in ({}, null)", 0),
            ("t not in ({}, null)", 0),
            ("t = timestamp '1677-09-21 00:12:43.145224193'", 0),
            ("t > timestamp '1677-09-21 00:12:43.145224193'", 3),
            ("d = timestamp '1970-01-02 12:00:00'", 0),
            ("d < timestamp '1970-01-02 12:00:00'", 2),
            ("t = timestamp '1970-01-01 00:00:01'", 1),
            ("t > timestamp '1969-12-31 23:59:59.5'", 3),
            ("t <= timestamp '1969-12-31 23:59:59.5'", 0),
            ("z = '1970-01-01 01:00:01.5'", 0),
            ("z < '1970-01-01 01:00:01.5+01:00'", 2),
            ("t = u", 2),
            ("u > t", 1),
            ("t < u", 1),
            ("u = {}", 1),
            ("u = timestamp '1970-01-01 00:00:01.5000001'", 0),
        ] {
            let sql = sql.replace("{}", half);
            let filter = Expression::predicate(&sql, &batch.schema()).unwrap();
            assert_eq!(filter.evaluate_mask(&batch).unwrap().true_count(), rows, "{sql}");
        }
    }

    /// Rows of 0, 1 and 2 nanoseconds or seconds and null, compared with times behind and before all nanoseconds.
    #[test]
    fn times_beyond_nanoseconds_are_compared() {
        let nanos = TimestampNanosecondArray::from(vec![Some(0), Some(1), Some(2), None]);
        let seconds = TimestampSecondArray::from(vec![Some(0), Some(1), Some(2), None]);
        let columns: [(&str, ArrayRef); 5] = [
            ("w", Arc::new(seconds.clone().with_timezone("UTC"))),
            ("e", Arc::new(seconds.with_timezone("+01:00"))),
            ("d", Arc::new(Date32Array::from(vec![Some(0), Some(1), Some(2), None]))),
            ("n", Arc::new(nanos.clone())),
            ("z", Arc::new(nanos.with_timezone("UTC"))),
        ];
        let batch = RecordBatch::try_from_iter_with_nullable(columns.map(|(n, a)| (n, a, true))).unwrap();
        for (sql, rows) in [
            ("n < {late}", 3),
            ("n <= {late}", 3),
            ("n > {late}", 0),
            ("n = {late}", 0),
            ("n <> {late}", 3),
            ("not (n < {late})", 0),
            ("{late} > n", 3),
            ("n > {early}", 3),
            ("n < {early}", 0),
            ("n between {early} and {late}", 3),
            ("n not between {early} and {late}", 0),
            ("n between timestamp '1970-01-01 00:00:00.000000001' and {late}", 2),
            ("n in ({late}, timestamp '1970-01-01 00:00:00.000000001')", 1),
            ("n not in ({late})", 3),
            ("n is distinct from {late}", 4),
            ("n < '3000-01-01'", 3),
            ("z < '3000-01-01T00:00:00Z'", 3),
            ("z < {late}", 3),
            ("z > {early}", 3),
            ("z in ({late}, timestamp '1970-01-01 00:00:00.000000001')", 1),
            ("z between {early} and {late}", 3),
            ("n < date '3000-01-01'", 3),
            ("z < date '3000-01-01'", 3),
            ("z > date '0001-01-01'", 3),
            ("z < date '1970-01-02'", 3),
            ("z < date '1970-01-01'", 0),
            ("w < {late}", 3),
            ("w > {early}", 3),
            ("w = {late}", 0),
            ("w in ({late}, timestamp '1970-01-01 00:00:02')", 1),
            ("w < date '3000-01-01'", 3),
            ("w > date '0001-01-01'", 3),
            ("w >= timestamp '1970-01-01 00:00:00.5'", 2),
            ("e < timestamp '1970-01-01 00:30:00'", 0),
            ("e <= timestamp '1970-01-01 01:00:00.5'", 1),
            ("e < {late}", 3),
            ("d < {late}", 3),
            ("n < cast('3000-01-01' as timestamp(6))", 3),
            ("n < timestamp '2262-04-11 23:47:16'", 3),
            ("n >= timestamp '1970-01-01 00:00:00.000000001'", 2),
        ] {
            let sql = sql.replace("{late}", "timestamp '3000-01-01 00:00:00'");
            let sql = sql.replace("{early}", "timestamp '1000-01-01 00:00:00'");
            let filter =
                Expression::predicate(&sql, &batch.schema()).unwrap_or_else(|e| panic!("{sql}: {e}"));
            assert_eq!(filter.evaluate_mask(&batch).unwrap().true_count(), rows, "{sql}");
        }
    }

    /// Rows of 1, 2 and 3 seconds and null, in several units.
    #[test]
    fn times_of_day_are_compared_across_units() {
        let seconds = Time32SecondArray::from(vec![Some(1), Some(2), Some(3), None]);
        let micros =
            Time64MicrosecondArray::from(vec![Some(1_000_000), Some(2_500_000), Some(3_000_000), None]);
        let columns: [(&str, ArrayRef); 2] = [("s", Arc::new(seconds)), ("u", Arc::new(micros))];
        let batch = RecordBatch::try_from_iter_with_nullable(columns.map(|(n, a)| (n, a, true))).unwrap();
        for (sql, rows) in [
            ("s = time '00:00:01'", 1),
            ("s < time '00:00:02.5'", 2),
            ("time '00:00:02.5' <= u", 2),
            ("u = time '00:00:02.5'", 1),
            ("s = u", 2),
            ("s between time '00:00:01.5' and u", 2),
            ("s in (time '00:00:01', time '00:00:01.5')", 1),
            ("s not in (time '00:00:01')", 2),
            ("s in (time '00:00:01', time '00:00:01.5', null)", 1),
            ("u = '00:00:02.5'", 1),
            ("cast('00:00:03' as time) = s", 1),
        ] {
            let filter = Expression::predicate(sql, &batch.schema()).unwrap_or_else(|e| panic!("{sql}: {e}"));
            assert_eq!(filter.evaluate_mask(&batch).unwrap().true_count(), rows, "{sql}");
        }
    }
}
