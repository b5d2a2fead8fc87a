//! Comparisons of a column with a constant that its type may not have.

use datafusion_common::ScalarValue;
use datafusion_expr::{Expr, Operator, binary_expr, lit};

/// A constant among the values of a type.
pub(super) enum Constant {
    /// It is one, or null.
    At(ScalarValue),
    /// It lies between this one and the next.
    After(ScalarValue),
    /// It lies behind the last one.
    Above,
    /// It lies before the first one.
    Below,
}

/// The comparison of a column with a constant, by a value of the column's type: true for the same rows, null for the same.
pub(super) fn compare(column: &Expr, op: Operator, constant: Constant) -> Option<Expr> {
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
pub(super) fn never(expr: &Expr) -> Expr {
    binary_expr(expr.clone(), Operator::NotEq, expr.clone())
}

/// True, or null where the expression is.
pub(super) fn always(expr: &Expr) -> Expr {
    binary_expr(expr.clone(), Operator::Eq, expr.clone())
}

pub(super) fn is_constant(expr: &Expr) -> bool {
    expr.column_refs().is_empty()
}

/// Whether it has a value of its own in each row, and always the same.
pub(super) fn is_column(expr: &Expr) -> bool {
    !is_constant(expr) && !expr.is_volatile()
}
