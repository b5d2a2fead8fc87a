//! JSON columns are text, as they are to callers, except in functions over JSON and tests for null.
//!
//! In a table a document has a binary form, whose bytes are no text: compared or stored as one they would be something
//! else than a scan gives.

use std::sync::{Arc, LazyLock};

use datafusion_common::tree_node::{Transformed, TreeNode};
use datafusion_common::{DFSchema, Result, ScalarValue};
use datafusion_expr::expr::ScalarFunction;
use datafusion_expr::{Expr, ExprSchemable, ScalarUDF, lit};

use super::nulls::MEMBER;
use crate::json;

static FUNCTIONS: LazyLock<Vec<Arc<ScalarUDF>>> = LazyLock::new(|| json::functions().map(Arc::new).collect());

/// The function that gives the text of a document, and the path that selects all of it.
const TEXT: &str = "json_extract";
const DOCUMENT: &str = "$";

/// The expression over the texts of JSON columns. With `keeps_columns` one that is nothing but a column, or a member of
/// one, is that still.
pub(super) fn over_texts(expr: Expr, schema: &DFSchema, keeps_columns: bool) -> Result<Expr> {
    let has_json = schema.fields().iter().any(|field| json::has_json(field));
    if !has_json || (keeps_columns && is_json(&expr, schema)?) {
        return Ok(expr);
    }
    let over_texts = expr.transform_up(|node| {
        Ok(match node {
            Expr::IsNull(of) => Transformed::yes(Expr::IsNull(Box::new(document(*of)))),
            Expr::IsNotNull(of) => Transformed::yes(Expr::IsNotNull(Box::new(document(*of)))),
            Expr::ScalarFunction(mut call) if is_over_json(&call.func) => {
                call.args = call.args.into_iter().map(document).collect();
                Transformed::yes(Expr::ScalarFunction(call))
            }
            node if is_json(&node, schema)? => Transformed::yes(text_of(node)),
            node => Transformed::no(node),
        })
    })?;
    Ok(over_texts.data)
}

/// Whether it is a column of JSON, or such a member of structs.
fn is_json(expr: &Expr, schema: &DFSchema) -> Result<bool> {
    let may_be = match expr {
        Expr::Column(_) => true,
        Expr::ScalarFunction(call) => call.func.name() == MEMBER,
        _ => false,
    };
    Ok(may_be && json::is_stored(&expr.to_field(schema)?.1))
}

fn is_over_json(function: &ScalarUDF) -> bool {
    FUNCTIONS.iter().any(|known| known.name() == function.name())
}

fn text_of(document: Expr) -> Expr {
    let function = FUNCTIONS.iter().find(|function| function.name() == TEXT);
    match function.map(Arc::clone) {
        Some(function) => {
            Expr::ScalarFunction(ScalarFunction::new_udf(function, vec![document, lit(DOCUMENT)]))
        }
        None => document,
    }
}

/// The document of its text; another expression as it is.
fn document(expr: Expr) -> Expr {
    match expr {
        Expr::ScalarFunction(mut call) if call.func.name() == TEXT && is_all(&call.args) => {
            call.args.swap_remove(0)
        }
        expr => expr,
    }
}

fn is_all(args: &[Expr]) -> bool {
    matches!(args, [_, Expr::Literal(ScalarValue::Utf8(Some(path)), _)] if path == DOCUMENT)
}
