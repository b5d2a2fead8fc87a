//! Expressions of many operators: planned on a stack that is large enough, left shallow.
//!
//! Parsers and planners walk the tree by recursion, and a chain of a thousand ORs is a thousand levels deep. Such
//! a text is planned on a thread of its own; afterwards its AND and OR chains are balanced, so that evaluation
//! needs the logarithm of their length. What is deep in any other way is refused.

use datafusion_common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion_common::{Result, plan_err};
use datafusion_expr::{BinaryExpr, Expr, Operator};
use pennon_core::Error;

/// Texts of more operators than this get a stack of their own.
const MANY: usize = 64;
/// Texts of more operators than this are refused.
const TOO_MANY: usize = 50_000;
/// Bytes of that stack; pages that are not touched cost nothing.
const STACK: usize = 512 << 20;
/// Levels an expression may have in the end.
const LEVELS: usize = 300;
/// Copies of parts of an expression that planning may make, in nodes.
const COPIES: u64 = 100_000;

const TOO_DEEP: &str = "the expression is nested too deeply";

/// Runs `work` where the planning of a text with so many operators fits.
pub(super) fn with_room<T: Send>(
    operators: usize,
    work: impl FnOnce() -> Result<T, Error> + Send,
) -> Result<T, Error> {
    if operators <= MANY {
        return work();
    }
    if operators > TOO_MANY {
        return Err(Error::invalid_input(format!(
            "the expression has too many operators: {operators}, at most {TOO_MANY} are possible"
        )));
    }
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().stack_size(STACK).spawn_scoped(scope, work);
        let thread = thread.map_err(|e| Error::internal(format!("no thread for a long expression: {e}")))?;
        thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

/// The same expression with its chains of AND and OR balanced. Errors: `InvalidInput` if it stays too deep.
pub(super) fn flatten(expr: Expr) -> Result<Expr, Error> {
    let expr = balance(expr).map_err(|e| Error::internal(e.strip_backtrace()))?;
    let levels = levels(&expr);
    if levels > LEVELS {
        return Err(Error::invalid_input(format!(
            "{TOO_DEEP}: {levels} levels, at most {LEVELS} are possible"
        )));
    }
    Ok(expr)
}

/// Errors: a planning error if BETWEEN is within what BETWEEN compares, many times: simplification makes two
/// comparisons of it.
pub(super) fn check_copies(expr: &Expr) -> Result<()> {
    let (nodes, copied) = sizes(expr)?;
    match copied.saturating_sub(nodes) > COPIES {
        true => plan_err!("{TOO_DEEP}: BETWEEN is within what BETWEEN compares"),
        false => Ok(()),
    }
}

/// The nodes of an expression, and those after its simplification, at most.
fn sizes(expr: &Expr) -> Result<(u64, u64)> {
    let (mut nodes, mut copied) = (1_u64, 1_u64);
    let mut times = if matches!(expr, Expr::Between(_)) { 2 } else { 1 };
    expr.apply_children(|child| {
        let (of_child, copies) = sizes(child)?;
        nodes += of_child;
        copied = copied.saturating_add(copies.saturating_mul(times));
        // What is compared comes first.
        times = 1;
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok((nodes, copied))
}

fn balance(expr: Expr) -> Result<Expr> {
    match expr {
        Expr::BinaryExpr(BinaryExpr { op: op @ (Operator::And | Operator::Or), .. }) => {
            let mut operands = Vec::new();
            let mut stack = vec![expr];
            while let Some(node) = stack.pop() {
                match node {
                    Expr::BinaryExpr(BinaryExpr { left, op: inner, right }) if inner == op => {
                        stack.push(*right);
                        stack.push(*left);
                    }
                    other => operands.push(balance(other)?),
                }
            }
            while operands.len() > 1 {
                let mut pairs = operands.into_iter();
                operands = std::iter::from_fn(|| match (pairs.next(), pairs.next()) {
                    (Some(left), Some(right)) => {
                        Some(Expr::BinaryExpr(BinaryExpr::new(Box::new(left), op, Box::new(right))))
                    }
                    (last, _) => last,
                })
                .collect();
            }
            operands
                .pop()
                .ok_or_else(|| datafusion_common::internal_datafusion_err!("a chain without operands"))
        }
        other => other.map_children(|child| Ok(Transformed::yes(balance(child)?))).map(|t| t.data),
    }
}

fn levels(expr: &Expr) -> usize {
    let mut below = 0;
    // The closure gives no error, and what is counted is right in any case.
    let _ = expr.apply_children(|child| {
        below = below.max(levels(child));
        Ok(TreeNodeRecursion::Continue)
    });
    below + 1
}
