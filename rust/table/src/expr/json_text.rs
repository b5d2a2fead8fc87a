//! JSON columns are text, as they are to callers, except in functions over JSON and tests for null.
//!
//! In a table a document has a binary form, whose bytes are no text: compared or stored as one they would be something
//! else than a scan gives.

use std::sync::{Arc, LazyLock};

use arrow_schema::DataType;
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
/// The function that gives a part of a document as a document.
const PART: &str = "json_get";
/// The function that gives an item of a list.
const ITEM: &str = "array_element";

/// The expression over the texts of JSON columns. With `keeps_documents` a column, a member of one, and a part of a
/// document stay documents.
pub(super) fn over_texts(expr: Expr, schema: &DFSchema, keeps_documents: bool) -> Result<Expr> {
    if !schema.fields().iter().any(|field| json::has_json(field)) {
        return Ok(expr);
    }
    let is_item = matches!(&expr, Expr::ScalarFunction(call) if call.func.name() == ITEM);
    let is_document = keeps_documents && !is_item && is_json(&expr, schema);
    let over_texts = expr.transform_up(|node| {
        let node = match node {
            Expr::IsNull(of) => Expr::IsNull(Box::new(document(*of))),
            Expr::IsNotNull(of) => Expr::IsNotNull(Box::new(document(*of))),
            Expr::ScalarFunction(mut call) if takes_documents(call.func.name()) => {
                call.args = call.args.into_iter().map(document).collect();
                Expr::ScalarFunction(call)
            }
            node => node,
        };
        Ok(Transformed::yes(if is_json(&node, schema) { text_of(node) } else { node }))
    })?;
    Ok(if is_document { document(over_texts.data) } else { over_texts.data })
}

/// Whether it is a document in its binary form: a JSON column, a member of structs, an item of a list, or a part of one.
fn is_json(expr: &Expr, schema: &DFSchema) -> bool {
    let field = |expr: &Expr| expr.to_field(schema).ok().map(|(_, field)| field);
    match expr {
        Expr::ScalarFunction(call) if call.func.name() == PART => true,
        Expr::ScalarFunction(call) if call.func.name() == ITEM => {
            let list = call.args.first().and_then(field);
            list.is_some_and(|list| match list.data_type() {
                DataType::List(item) | DataType::LargeList(item) | DataType::FixedSizeList(item, _) => {
                    json::is_stored(item)
                }
                _ => false,
            })
        }
        Expr::ScalarFunction(call) if call.func.name() != MEMBER => false,
        Expr::Column(_) | Expr::ScalarFunction(_) => field(expr).is_some_and(|field| json::is_stored(&field)),
        _ => false,
    }
}

/// Whether a function is over documents, or over lists, which have documents for items.
fn takes_documents(function: &str) -> bool {
    function == "make_array"
        || function.starts_with("array_")
        || FUNCTIONS.iter().any(|known| known.name() == function)
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
