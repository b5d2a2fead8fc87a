//! Simplification that keeps the nulls of lists.
//!
//! DataFusion makes one list of two with the same operand and takes an empty one for false: `a IN (1) AND a IN (2)` is
//! NULL where `a` is, and so is `a NOT IN (1) OR a NOT IN (2)`. Equalities joined by OR become lists first. Expressions
//! where two lists could meet are therefore simplified in parts that have one each. Casts of a column are taken off when
//! that leaves the values of a list as they are, so an operand is the same with and without one.

use std::collections::HashMap;

use datafusion_common::Result;
use datafusion_common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion_expr::expr::ScalarFunction;
use datafusion_expr::simplify::{ExprSimplifyResult, SimplifyContext};
use datafusion_expr::{BinaryExpr, Cast, Expr, Operator, TryCast};
use datafusion_optimizer::simplify_expressions::ExprSimplifier;

/// Simplifies a coerced expression; `context` is that of the simplifier.
pub(super) fn simplify(expr: Expr, simplifier: &ExprSimplifier, context: &SimplifyContext) -> Result<Expr> {
    if !lists_can_meet(&expr)? {
        return simplifier.simplify(expr);
    }
    let part = |child| simplify(child, simplifier, context).map(Transformed::yes);
    // Some functions are carried out by simplification alone: `coalesce` becomes a CASE.
    Ok(match expr.map_children(part)?.data {
        Expr::ScalarFunction(ScalarFunction { func, args }) => match func.simplify(args, context)? {
            ExprSimplifyResult::Simplified(expr) => expr,
            ExprSimplifyResult::Original(args) => Expr::ScalarFunction(ScalarFunction { func, args }),
        },
        expr => expr,
    })
}

/// What is compared with literals: how often with a list of them, and how often with one.
#[derive(Default)]
struct Comparisons {
    with_lists: usize,
    with_one: usize,
}

/// Whether one operand is in two lists, or in what becomes two.
fn lists_can_meet(expr: &Expr) -> Result<bool> {
    let mut found: HashMap<&Expr, Comparisons> = HashMap::new();
    let [mut and, mut or, mut not] = [false; 3];
    expr.apply(|node| {
        match node {
            Expr::Not(_) => not = true,
            Expr::InList(list) => found.entry(without_casts(&list.expr)).or_default().with_lists += 1,
            Expr::BinaryExpr(BinaryExpr { left, op, right }) => match op {
                Operator::And => and = true,
                Operator::Or => or = true,
                Operator::Eq | Operator::NotEq => {
                    let operand = if matches!(**left, Expr::Literal(..)) { right } else { left };
                    found.entry(without_casts(operand)).or_default().with_one += 1;
                }
                _ => {}
            },
            _ => {}
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    let lists_are_made = usize::from([and, or, not].iter().filter(|seen| **seen).count() > 1);
    let lists = |found: &Comparisons| found.with_lists + lists_are_made * (found.with_one / 2);
    Ok((and || or) && found.values().any(|found| lists(found) > 1))
}

fn without_casts(mut expr: &Expr) -> &Expr {
    while let Expr::Cast(Cast { expr: inner, .. }) | Expr::TryCast(TryCast { expr: inner, .. }) = expr {
        expr = inner;
    }
    expr
}
