//! What a filter requires of single columns, for callers that have bounds of values but not the values.
//!
//! A [`Condition`] is weaker than the filter it comes from: where the filter is true, it is true. What cannot be said
//! that way (columns compared with columns, functions, casts) becomes [`Condition::Any`], which always holds.
//!
//! Negation is carried down to the comparisons, where null stays null; so `NOT a < 5` becomes `a >= 5`. Literals are
//! taken only if they have the column's own type, and never NaN.

use std::collections::BTreeSet;

use arrow_schema::{DataType, Fields, Schema};
use datafusion_common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion_common::{DataFusionError, ScalarValue};
use datafusion_expr::expr::InList;
use datafusion_expr::{Between, BinaryExpr, Expr, Like, Operator};
use pennon_datafile::statistics::Bound;

/// Necessary for a filter to be true.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Condition {
    /// Always holds.
    Any,
    /// All of these hold.
    All(Vec<Condition>),
    /// One of these holds.
    Either(Vec<Condition>),
    /// A test of one column: names from the top down.
    Test(Vec<String>, Test),
}

/// What is asked of a value. Only [`Test::IsNull`] holds for null.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Test {
    IsNull,
    NotNull,
    IsNan,
    /// A number.
    NotNan,
    Eq(Bound),
    NotEq(Bound),
    Less(Bound),
    LessEq(Bound),
    Greater(Bound),
    GreaterEq(Bound),
    /// Equal to one of these, which ascend.
    OneOf(Vec<Bound>),
    /// Begins with these bytes.
    Prefix(Vec<u8>),
}

impl Condition {
    /// The condition of a coerced and simplified filter over the columns of a schema.
    pub(super) fn of(filter: &Expr, schema: &Schema) -> Self {
        derive(filter, schema, false)
    }

    /// Both hold.
    fn and(list: Vec<Self>) -> Self {
        let mut parts = Vec::with_capacity(list.len());
        for part in list {
            match part {
                Self::Any => {}
                Self::All(inner) => parts.extend(inner),
                other => parts.push(other),
            }
        }
        match parts.len() {
            0 => Self::Any,
            1 => parts.pop().unwrap_or(Self::Any),
            _ => Self::All(parts),
        }
    }

    /// One holds.
    fn or(list: Vec<Self>) -> Self {
        if list.contains(&Self::Any) {
            return Self::Any;
        }
        let mut parts = Vec::with_capacity(list.len());
        for part in list {
            match part {
                Self::Either(inner) => parts.extend(inner),
                other => parts.push(other),
            }
        }
        Self::Either(parts)
    }
}

/// The columns that occur in tests for null only.
pub(super) fn null_tests(expr: &Expr) -> Result<Vec<String>, DataFusionError> {
    let (mut tested, mut used) = (BTreeSet::new(), BTreeSet::new());
    expr.apply(|node| {
        match node {
            Expr::IsNull(inner) | Expr::IsNotNull(inner) => {
                if let Expr::Column(column) = inner.as_ref() {
                    tested.insert(column.name.clone());
                    return Ok(TreeNodeRecursion::Jump);
                }
            }
            Expr::Column(column) => {
                used.insert(column.name.clone());
            }
            _ => {}
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(tested.difference(&used).cloned().collect())
}

/// What must hold for the expression to be true, or with `negated` to be false.
fn derive(expr: &Expr, schema: &Schema, negated: bool) -> Condition {
    match expr {
        Expr::Alias(alias) => derive(&alias.expr, schema, negated),
        Expr::Not(inner) => derive(inner, schema, !negated),
        Expr::IsTrue(inner) if !negated => derive(inner, schema, false),
        Expr::IsFalse(inner) if !negated => derive(inner, schema, true),
        Expr::BinaryExpr(BinaryExpr { left, op: op @ (Operator::And | Operator::Or), right }) => {
            let sides = vec![derive(left, schema, negated), derive(right, schema, negated)];
            // Not both is one not.
            if (*op == Operator::And) != negated { Condition::and(sides) } else { Condition::or(sides) }
        }
        Expr::BinaryExpr(BinaryExpr { left, op, right }) => comparison(left, *op, right, schema, negated),
        Expr::IsNull(inner) => null_test(inner, schema, !negated),
        Expr::IsNotNull(inner) => null_test(inner, schema, negated),
        Expr::Between(between) => self::between(between, schema, negated),
        Expr::InList(list) => in_list(list, schema, negated),
        Expr::Like(like) => self::like(like, schema, negated),
        Expr::ScalarFunction(call) if call.func.name() == "isnan" => {
            let test = if negated { Test::NotNan } else { Test::IsNan };
            match call.args.first().and_then(|value| column(value, schema)) {
                Some((path, data_type)) if data_type.is_floating() => Condition::Test(path, test),
                _ => Condition::Any,
            }
        }
        Expr::Column(_) | Expr::ScalarFunction(_) => match column(expr, schema) {
            Some((path, DataType::Boolean)) => {
                Condition::Test(path, Test::Eq(Bound::Int(i128::from(!negated))))
            }
            _ => Condition::Any,
        },
        _ => Condition::Any,
    }
}

fn comparison(left: &Expr, op: Operator, right: &Expr, schema: &Schema, negated: bool) -> Condition {
    let (column, op, literal) = match (column(left, schema), column(right, schema)) {
        (Some(column), None) => (column, Some(op), right),
        (None, Some(column)) => (column, op.swap(), left),
        _ => return Condition::Any,
    };
    let op = if negated { op.and_then(|op| op.negate()) } else { op };
    match (op, bound(literal, &column.1)) {
        (Some(op), Some(value)) => {
            test_of(op, value).map_or(Condition::Any, |t| Condition::Test(column.0, t))
        }
        _ => Condition::Any,
    }
}

fn test_of(op: Operator, value: Bound) -> Option<Test> {
    Some(match op {
        Operator::Eq | Operator::IsNotDistinctFrom => Test::Eq(value),
        Operator::NotEq => Test::NotEq(value),
        Operator::Lt => Test::Less(value),
        Operator::LtEq => Test::LessEq(value),
        Operator::Gt => Test::Greater(value),
        Operator::GtEq => Test::GreaterEq(value),
        _ => return None,
    })
}

fn null_test(expr: &Expr, schema: &Schema, is_null: bool) -> Condition {
    let test = if is_null { Test::IsNull } else { Test::NotNull };
    column(expr, schema).map_or(Condition::Any, |(path, _)| Condition::Test(path, test))
}

fn between(node: &Between, schema: &Schema, negated: bool) -> Condition {
    let outside = node.negated != negated;
    let (low, high) = if outside { (Operator::Lt, Operator::Gt) } else { (Operator::GtEq, Operator::LtEq) };
    let ends = vec![
        comparison(&node.expr, low, &node.low, schema, false),
        comparison(&node.expr, high, &node.high, schema, false),
    ];
    if outside { Condition::or(ends) } else { Condition::and(ends) }
}

fn in_list(node: &InList, schema: &Schema, negated: bool) -> Condition {
    let Some((path, data_type)) = column(&node.expr, schema).filter(|_| node.negated == negated) else {
        return Condition::Any;
    };
    let values = node.list.iter().filter(|e| !is_null(e)).map(|e| bound(e, &data_type));
    let Some(mut values) = values.collect::<Option<Vec<Bound>>>() else { return Condition::Any };
    values.sort_by(|a, b| a.compare(b).unwrap_or(std::cmp::Ordering::Equal));
    Condition::Test(path, Test::OneOf(values))
}

/// A null in a list makes no row true.
fn is_null(expr: &Expr) -> bool {
    matches!(expr, Expr::Literal(value, _) if value.is_null())
}

fn like(node: &Like, schema: &Schema, negated: bool) -> Condition {
    if node.negated != negated || node.case_insensitive || node.escape_char.is_some_and(|c| c != '\\') {
        return Condition::Any;
    }
    let pattern = match node.pattern.as_ref() {
        Expr::Literal(
            ScalarValue::Utf8(Some(text))
            | ScalarValue::LargeUtf8(Some(text))
            | ScalarValue::Utf8View(Some(text)),
            _,
        ) => text,
        _ => return Condition::Any,
    };
    match column(&node.expr, schema) {
        Some((path, DataType::Utf8 | DataType::LargeUtf8)) => {
            Condition::Test(path, Test::Prefix(prefix(pattern)))
        }
        _ => Condition::Any,
    }
}

/// The text before the first wildcard of a pattern.
fn prefix(pattern: &str) -> Vec<u8> {
    let mut prefix = String::new();
    let mut chars = pattern.chars();
    while let Some(c) = chars.next() {
        match c {
            '%' | '_' => break,
            '\\' => match chars.next() {
                Some(c @ ('%' | '_' | '\\')) => prefix.push(c),
                _ => break,
            },
            c => prefix.push(c),
        }
    }
    prefix.into_bytes()
}

/// Path and type of a column or a member of one.
fn column(expr: &Expr, schema: &Schema) -> Option<(Vec<String>, DataType)> {
    match expr {
        Expr::Column(column) => {
            let field = schema.field_with_name(&column.name).ok()?;
            Some((vec![column.name.clone()], field.data_type().clone()))
        }
        Expr::ScalarFunction(call) if call.func.name() == "get_field" => {
            let (parent, names) = call.args.split_first()?;
            let (mut path, mut data_type) = column(parent, schema)?;
            for name in names {
                let Expr::Literal(ScalarValue::Utf8(Some(name)), _) = name else { return None };
                let DataType::Struct(members) = &data_type else { return None };
                let member = only_member(members, name)?;
                path.push(name.clone());
                data_type = member;
            }
            Some((path, data_type))
        }
        _ => None,
    }
}

fn only_member(members: &Fields, name: &str) -> Option<DataType> {
    members.find(name).map(|(_, member)| member.data_type().clone())
}

/// A literal of exactly this type as it is stored.
fn bound(expr: &Expr, data_type: &DataType) -> Option<Bound> {
    let Expr::Literal(value, _) = expr else { return None };
    if &value.data_type() != data_type {
        return None;
    }
    let int = |v: i128| Some(Bound::Int(v));
    let float = |v: f64| (!v.is_nan()).then_some(Bound::Float(v));
    match value {
        ScalarValue::Boolean(Some(v)) => int(i128::from(*v)),
        ScalarValue::Int8(Some(v)) => int(i128::from(*v)),
        ScalarValue::Int16(Some(v)) => int(i128::from(*v)),
        ScalarValue::Int32(Some(v)) | ScalarValue::Date32(Some(v)) => int(i128::from(*v)),
        ScalarValue::Time32Second(Some(v)) | ScalarValue::Time32Millisecond(Some(v)) => int(i128::from(*v)),
        ScalarValue::Int64(Some(v))
        | ScalarValue::Date64(Some(v))
        | ScalarValue::Time64Microsecond(Some(v))
        | ScalarValue::Time64Nanosecond(Some(v))
        | ScalarValue::TimestampSecond(Some(v), _)
        | ScalarValue::TimestampMillisecond(Some(v), _)
        | ScalarValue::TimestampMicrosecond(Some(v), _)
        | ScalarValue::TimestampNanosecond(Some(v), _)
        | ScalarValue::DurationSecond(Some(v))
        | ScalarValue::DurationMillisecond(Some(v))
        | ScalarValue::DurationMicrosecond(Some(v))
        | ScalarValue::DurationNanosecond(Some(v)) => int(i128::from(*v)),
        ScalarValue::UInt8(Some(v)) => int(i128::from(*v)),
        ScalarValue::UInt16(Some(v)) => int(i128::from(*v)),
        ScalarValue::UInt32(Some(v)) => int(i128::from(*v)),
        ScalarValue::UInt64(Some(v)) => int(i128::from(*v)),
        ScalarValue::Decimal128(Some(v), ..) => int(*v),
        ScalarValue::Float16(Some(v)) => float(v.to_f64()),
        ScalarValue::Float32(Some(v)) => float(f64::from(*v)),
        ScalarValue::Float64(Some(v)) => float(*v),
        ScalarValue::Utf8(Some(v)) | ScalarValue::LargeUtf8(Some(v)) => {
            Some(Bound::Bytes(v.clone().into_bytes()))
        }
        ScalarValue::Binary(Some(v))
        | ScalarValue::LargeBinary(Some(v))
        | ScalarValue::FixedSizeBinary(_, Some(v)) => Some(Bound::Bytes(v.clone())),
        _ => None,
    }
}
