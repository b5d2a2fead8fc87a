//! Simplification that keeps the nulls of lists.
//!
//! DataFusion makes one list of two with the same operand and takes an empty one for false: `a IN (1) AND a IN (2)` is
//! NULL where `a` is, and so is `a NOT IN (1) OR a NOT IN (2)`. Equalities joined by OR become lists first. Expressions
//! where two lists could meet are therefore simplified in parts that have one each.

use std::collections::HashMap;

use datafusion_common::Result;
use datafusion_common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion_expr::{BinaryExpr, Expr, Operator};
use datafusion_optimizer::simplify_expressions::ExprSimplifier;

/// Simplifies a coerced expression.
pub(super) fn simplify(expr: Expr, simplifier: &ExprSimplifier) -> Result<Expr> {
    if lists_can_meet(&expr)? {
        expr.map_children(|child| simplify(child, simplifier).map(Transformed::yes)).map(|t| t.data)
    } else {
        simplifier.simplify(expr)
    }
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
            Expr::InList(list) => found.entry(&list.expr).or_default().with_lists += 1,
            Expr::BinaryExpr(BinaryExpr { left, op, right }) => match op {
                Operator::And => and = true,
                Operator::Or => or = true,
                Operator::Eq | Operator::NotEq => {
                    let operand = if matches!(**left, Expr::Literal(..)) { right } else { left };
                    found.entry(operand).or_default().with_one += 1;
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
