//! Members of a null struct are null.
//!
//! DataFusion's field access gives the member as it is stored, and what is stored below a null struct may be
//! anything. Before an expression sees a struct, its nulls are handed down; those of structs that it makes itself,
//! before it asks for their members.

use std::mem;
use std::sync::{Arc, LazyLock};

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, BooleanArray, StructArray};
use arrow_schema::{ArrowError, DataType, Field};
use arrow_select::nullif::nullif;
use datafusion_common::tree_node::{Transformed, TreeNode};
use datafusion_common::{DFSchema, Result};
use datafusion_expr::{
    ColumnarValue, Expr, ExprSchemable, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};

/// The same struct with its nulls in all members, down to the leaves; other arrays as they are.
pub(crate) fn hand_down(array: ArrayRef) -> Result<ArrayRef, ArrowError> {
    let Some(parent) = array.as_struct_opt() else { return Ok(array) };
    let is_null = parent.nulls().filter(|n| n.null_count() > 0).map(|n| BooleanArray::new(!n.inner(), None));
    let member = |child: &ArrayRef| {
        let child = match &is_null {
            Some(is_null) => nullif(child.as_ref(), is_null)?,
            None => Arc::clone(child),
        };
        hand_down(child)
    };
    let children = parent.columns().iter().map(member).collect::<Result<Vec<_>, _>>()?;
    // Members that may not be null are nullable here: the type is only seen by the expression.
    let fields = parent.fields().iter().map(|f| Arc::new(f.as_ref().clone().with_nullable(true)));
    let fields: Vec<_> = fields
        .zip(&children)
        .map(|(f, c)| Arc::new(f.as_ref().clone().with_data_type(c.data_type().clone())))
        .collect();
    Ok(Arc::new(StructArray::try_new_with_length(
        fields.into(),
        children,
        parent.nulls().cloned(),
        parent.len(),
    )?))
}

/// A member of a struct, null where the struct is.
pub(crate) fn visible(parent: &StructArray, member: &ArrayRef) -> Result<ArrayRef, ArrowError> {
    match parent.nulls().filter(|nulls| nulls.null_count() > 0) {
        Some(nulls) => nullif(member, &BooleanArray::new(!nulls.inner(), None)),
        None => Ok(Arc::clone(member)),
    }
}

/// The type with members of structs that may be null, down to the leaves.
pub(super) fn allowed(data_type: &DataType) -> DataType {
    let DataType::Struct(members) = data_type else { return data_type.clone() };
    let member = |field: &Arc<Field>| {
        let field = field.as_ref().clone();
        let data_type = allowed(field.data_type());
        Arc::new(field.with_data_type(data_type).with_nullable(true))
    };
    DataType::Struct(members.iter().map(member).collect())
}

/// An expression that asks for members of structs that it makes only after their nulls were handed down.
pub(super) fn in_members(expr: Expr, schema: &DFSchema) -> Result<Expr> {
    expr.transform_up(|node| {
        let mut call = match node {
            Expr::ScalarFunction(call) if call.func.name() == MEMBER => call,
            node => return Ok(Transformed::no(node)),
        };
        if let Some(parent) = call.args.first_mut()
            && !is_stored(parent, schema)
        {
            *parent = HAND_DOWN.call(vec![mem::take(parent)]);
        }
        Ok(Transformed::yes(Expr::ScalarFunction(call)))
    })
    .map(|t| t.data)
}

/// DataFusion's field access.
pub(super) const MEMBER: &str = "get_field";

/// Whether it is a column, or a member of structs down from one.
fn is_stored(expr: &Expr, schema: &DFSchema) -> bool {
    match expr {
        Expr::Column(_) => true,
        Expr::ScalarFunction(call) if call.func.name() == MEMBER => call.args.first().is_some_and(|parent| {
            matches!(parent.get_type(schema), Ok(DataType::Struct(_))) && is_stored(parent, schema)
        }),
        _ => false,
    }
}

static HAND_DOWN: LazyLock<ScalarUDF> = LazyLock::new(|| ScalarUDF::from(HandDown::default()));

/// [`hand_down`] as a function that no text can name.
#[derive(Debug, PartialEq, Eq, Hash)]
struct HandDown(Signature);

impl Default for HandDown {
    fn default() -> Self {
        Self(Signature::any(1, Volatility::Immutable))
    }
}

impl ScalarUDFImpl for HandDown {
    fn name(&self) -> &'static str {
        "hand_down"
    }

    fn signature(&self) -> &Signature {
        &self.0
    }

    fn return_type(&self, arg_types: &[DataType]) -> Result<DataType> {
        Ok(arg_types.first().map_or(DataType::Null, allowed))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let rows = args.number_rows;
        let array = args.args.into_iter().next().map(|arg| arg.into_array(rows)).transpose()?;
        let array = array.map(hand_down).transpose()?;
        Ok(array.map_or(ColumnarValue::Scalar(datafusion_common::ScalarValue::Null), ColumnarValue::Array))
    }
}
