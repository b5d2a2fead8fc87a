//! What a filter requires of single columns, for callers that have bounds of values but not the values.
//!
//! A [`Condition`] is weaker than the filter it comes from: where the filter is true, it is true. What cannot be said
//! that way (columns compared with columns, functions, casts) becomes [`Condition::Any`], which always holds.
//!
//! Negation is carried down to the comparisons, where null stays null; so `NOT a < 5` becomes `a >= 5`. Literals are
//! taken only if they have the column's own type, and never NaN. Where nothing was left out, the condition is as strong as
//! the filter, and who answers it exactly need not evaluate the filter.

use std::cmp::Ordering;
use std::collections::{BTreeSet, HashMap};
use std::mem::{Discriminant, discriminant};

use arrow_array::Array;
use arrow_schema::{DataType, Fields, Schema};
use datafusion_common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion_common::{DataFusionError, ScalarValue};
use datafusion_expr::expr::{InList, ScalarFunction};
use datafusion_expr::{Between, BinaryExpr, Expr, Like, Operator};
use pennon_datafile::statistics::Bound;
pub(crate) use pennon_index::ValueTest;

/// Necessary for a filter to be true.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Condition {
    /// Always holds.
    Any,
    /// All of these hold.
    All(Vec<Condition>),
    /// One of these holds.
    Either(Vec<Condition>),
    /// A test of one column: names from the top down, of JSON documents with the key of a value.
    Test(Vec<String>, ValueTest),
}

impl Condition {
    /// The condition of a coerced and simplified filter over the columns of a schema, and whether it holds exactly where
    /// the filter is true.
    pub(super) fn of(filter: &Expr, schema: &Schema) -> (Self, bool) {
        let mut deriver = Deriver { schema, is_exact: true };
        (deriver.derive(filter, false), deriver.is_exact)
    }

    /// How many values of columns it names; `None` if some part of it is about others, such as an interval.
    pub(crate) fn value_count(&self) -> Option<usize> {
        let of_parts = |parts: &[Self]| parts.iter().map(Self::value_count).sum::<Option<usize>>();
        match self {
            Self::Any => None,
            Self::All(parts) | Self::Either(parts) => of_parts(parts),
            Self::Test(_, ValueTest::Eq(_)) => Some(1),
            Self::Test(_, ValueTest::OneOf(values)) => Some(values.len()),
            Self::Test(..) => None,
        }
    }

    /// All hold.
    fn and(list: Vec<Self>) -> Self {
        let parts = list.into_iter().flat_map(|part| match part {
            Self::Any => Vec::new(),
            Self::All(inner) => inner,
            other => vec![other],
        });
        let mut parts = ListedValues::join(parts, true);
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
        let parts = list.into_iter().flat_map(|part| match part {
            Self::Either(inner) => inner,
            other => vec![other],
        });
        let mut parts = ListedValues::join(parts, false);
        match parts.len() {
            1 => parts.pop().unwrap_or(Self::Any),
            _ => Self::Either(parts),
        }
    }
}

/// Values of a column that pass, or that do not, gathered from several tests: they are searched for at once.
struct ListedValues {
    /// Position of the test among those that remain.
    at: usize,
    lists: usize,
    values: Vec<Bound>,
}

impl ListedValues {
    /// The same conditions, of which `all` hold or one, the tests that list values of a column as one. Values that pass are
    /// listed together where one holds; those of which all hold are left to indices.
    fn join(parts: impl Iterator<Item = Condition>, all: bool) -> Vec<Condition> {
        type Listing = (Vec<String>, bool, Discriminant<Bound>);
        let mut joined = Vec::new();
        let mut listings: HashMap<Listing, Self> = HashMap::new();
        for part in parts {
            let (path, passes, values) = match part {
                Condition::Test(path, ValueTest::Eq(value)) if !all => (path, true, vec![value]),
                Condition::Test(path, ValueTest::OneOf(values)) if !all => (path, true, values),
                Condition::Test(path, ValueTest::NotEq(value)) => (path, false, vec![value]),
                Condition::Test(path, ValueTest::NoneOf(values)) => (path, false, values),
                other => {
                    joined.push(other);
                    continue;
                }
            };
            // Without values nothing passes, or everything but null.
            let Some(form) = values.first().map(discriminant) else {
                let test = if passes { ValueTest::OneOf(values) } else { ValueTest::NotNull };
                joined.push(Condition::Test(path, test));
                continue;
            };
            let listing = listings.entry((path, passes, form)).or_insert_with_key(|(path, ..)| {
                joined.push(Condition::Test(path.clone(), ValueTest::NotNull));
                Self { at: joined.len() - 1, lists: 0, values: Vec::new() }
            });
            listing.lists += 1;
            listing.values.extend(values);
        }
        for ((path, passes, _), listing) in listings {
            if let Some(part) = joined.get_mut(listing.at) {
                *part = Condition::Test(path, listing.test(passes, all));
            }
        }
        joined
    }

    /// The test for values that pass, or that do not.
    fn test(mut self, passes: bool, all: bool) -> ValueTest {
        ascend(&mut self.values);
        // Where one test must hold, only values that are in all lists do not pass.
        let wanted = if passes || all { 1 } else { self.lists };
        let is_same = |a: &Bound, b: &Bound| a.compare(b) == Some(Ordering::Equal);
        let same = self.values.chunk_by(is_same).filter(|same| same.len() >= wanted);
        let mut values: Vec<Bound> = same.filter_map(|same| same.first().cloned()).collect();
        match (values.len(), passes) {
            (0, _) => ValueTest::NotNull,
            (1, _) => {
                values.pop().map_or(ValueTest::NotNull, if passes { ValueTest::Eq } else { ValueTest::NotEq })
            }
            (_, true) => ValueTest::OneOf(values),
            (_, false) => ValueTest::NoneOf(values),
        }
    }
}

/// Sorts values as indices do.
fn ascend(values: &mut [Bound]) {
    values.sort_by(|a, b| a.compare(b).unwrap_or(Ordering::Equal));
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

/// What must hold for expressions to be true, and whether that is all they say.
struct Deriver<'a> {
    schema: &'a Schema,
    is_exact: bool,
}

impl Deriver<'_> {
    /// Nothing can be said.
    fn any(&mut self) -> Condition {
        self.is_exact = false;
        Condition::Any
    }

    /// What must hold for the expression to be true, or with `negated` to be false.
    fn derive(&mut self, expr: &Expr, negated: bool) -> Condition {
        match expr {
            Expr::Alias(alias) => self.derive(&alias.expr, negated),
            Expr::Not(inner) => self.derive(inner, !negated),
            Expr::IsTrue(inner) if !negated => self.derive(inner, false),
            Expr::IsFalse(inner) if !negated => self.derive(inner, true),
            Expr::IsTrue(inner) => self.other_than(inner, true),
            Expr::IsFalse(inner) => self.other_than(inner, false),
            Expr::IsNotTrue(inner) if !negated => self.other_than(inner, true),
            Expr::IsNotFalse(inner) if !negated => self.other_than(inner, false),
            Expr::IsNotTrue(inner) => self.derive(inner, false),
            Expr::IsNotFalse(inner) => self.derive(inner, true),
            Expr::BinaryExpr(BinaryExpr { op: op @ (Operator::And | Operator::Or), .. }) => {
                let parts = operands(expr, *op).map(|part| self.derive(part, negated)).collect();
                // Not both is one not.
                if (*op == Operator::And) != negated { Condition::and(parts) } else { Condition::or(parts) }
            }
            Expr::BinaryExpr(BinaryExpr { left, op, right }) => self.comparison(left, *op, right, negated),
            Expr::IsNull(inner) => self.null_test(inner, !negated),
            Expr::IsNotNull(inner) => self.null_test(inner, negated),
            Expr::Between(between) => self.between(between, negated),
            Expr::InList(list) => self.in_list(list, negated),
            Expr::Like(like) => self.like(like, negated),
            Expr::ScalarFunction(call) => match call.func.name() {
                "isnan" => {
                    let test = if negated { ValueTest::NotNan } else { ValueTest::IsNan };
                    match call.args.first().and_then(|value| column(value, self.schema)) {
                        Some((path, data_type)) if data_type.is_floating() => Condition::Test(path, test),
                        _ => self.any(),
                    }
                }
                "array_has" | "array_has_any" | "array_has_all" => self.items(call, negated),
                "contains" if !negated => self.contains(call),
                _ => self.boolean(expr, negated),
            },
            Expr::Column(_) => self.boolean(expr, negated),
            _ => self.any(),
        }
    }

    fn boolean(&mut self, expr: &Expr, negated: bool) -> Condition {
        match column(expr, self.schema) {
            Some((path, DataType::Boolean)) => {
                Condition::Test(path, ValueTest::Eq(Bound::Int(i128::from(!negated))))
            }
            _ => self.any(),
        }
    }

    /// That a boolean column is null or not this value.
    fn other_than(&mut self, expr: &Expr, value: bool) -> Condition {
        match column(expr, self.schema) {
            Some((path, DataType::Boolean)) => Condition::or(vec![
                Condition::Test(path.clone(), ValueTest::Eq(Bound::Int(i128::from(!value)))),
                Condition::Test(path, ValueTest::IsNull),
            ]),
            _ => self.any(),
        }
    }

    fn comparison(&mut self, left: &Expr, op: Operator, right: &Expr, negated: bool) -> Condition {
        let (column, op, literal) = match (column(left, self.schema), column(right, self.schema)) {
            (Some(column), None) => (column, Some(op), right),
            (None, Some(column)) => (column, op.swap(), left),
            _ => return self.any(),
        };
        let op = if negated { op.and_then(|op| op.negate()) } else { op };
        match op.zip(bound(literal, &column.1)).and_then(|(op, value)| test_of(op, value)) {
            Some(test) => Condition::Test(column.0, test),
            None => self.any(),
        }
    }

    fn null_test(&mut self, expr: &Expr, is_null: bool) -> Condition {
        let test = if is_null { ValueTest::IsNull } else { ValueTest::NotNull };
        match column(expr, self.schema) {
            Some((path, _)) => Condition::Test(path, test),
            None => self.any(),
        }
    }

    fn between(&mut self, node: &Between, negated: bool) -> Condition {
        let outside = node.negated != negated;
        if !outside && let Some(condition) = self.zero(node) {
            return condition;
        }
        let (low, high) =
            if outside { (Operator::Lt, Operator::Gt) } else { (Operator::GtEq, Operator::LtEq) };
        let ends = vec![
            self.comparison(&node.expr, low, &node.low, false),
            self.comparison(&node.expr, high, &node.high, false),
        ];
        if outside { Condition::or(ends) } else { Condition::and(ends) }
    }

    /// That a float is zero, with either sign: nothing lies between them.
    fn zero(&self, node: &Between) -> Option<Condition> {
        let (path, data_type) = column(&node.expr, self.schema)?;
        let ends = [bound(&node.low, &data_type)?, bound(&node.high, &data_type)?];
        let is_zero = |end: &Bound| matches!(end, Bound::Float(value) if *value == 0.0);
        let of_zero =
            ends.iter().all(is_zero) && ends[0].compare(&ends[1]).is_some_and(|order| order.is_lt());
        of_zero.then(|| Condition::Test(path, ValueTest::OneOf(ends.into())))
    }

    /// That a text has another one in it.
    fn contains(&mut self, call: &ScalarFunction) -> Condition {
        let [text, part] = call.args.as_slice() else { return self.any() };
        match (column(text, self.schema), literal_text(part)) {
            (Some((path, DataType::Utf8 | DataType::LargeUtf8)), Some(part)) => {
                Condition::Test(path, ValueTest::Contains(part.clone().into_bytes()))
            }
            _ => self.any(),
        }
    }

    fn in_list(&mut self, node: &InList, negated: bool) -> Condition {
        let excludes = node.negated != negated;
        let Some((path, data_type)) = column(&node.expr, self.schema) else { return self.any() };
        // A null in a list makes no row true, and with NOT no row at all.
        if excludes && node.list.iter().any(is_null) {
            return self.any();
        }
        let values = node.list.iter().filter(|e| !is_null(e)).map(|e| bound(e, &data_type));
        let Some(mut values) = values.collect::<Option<Vec<Bound>>>() else { return self.any() };
        ascend(&mut values);
        values.dedup_by(|a, b| a.compare(b) == Some(Ordering::Equal));
        match (values.len(), excludes) {
            // Without values null passes, too.
            (0, true) => self.any(),
            (_, true) => Condition::Test(path, ValueTest::NoneOf(values)),
            (_, false) => Condition::Test(path, ValueTest::OneOf(values)),
        }
    }

    fn like(&mut self, node: &Like, negated: bool) -> Condition {
        if node.negated != negated || node.case_insensitive || node.escape_char.is_some_and(|c| c != '\\') {
            return self.any();
        }
        let Some(pattern) = literal_text(&node.pattern) else { return self.any() };
        let Some((path, DataType::Utf8 | DataType::LargeUtf8)) = column(&node.expr, self.schema) else {
            return self.any();
        };
        let Pattern { prefix, parts, is_all } = Pattern::of(pattern);
        self.is_exact &= is_all;
        let mut tests: Vec<ValueTest> = parts.into_iter().map(ValueTest::Contains).collect();
        if !prefix.is_empty() || tests.is_empty() {
            tests.insert(0, ValueTest::Prefix(prefix));
        }
        Condition::and(tests.into_iter().map(|test| Condition::Test(path.clone(), test)).collect())
    }

    /// Items that lists have: the first argument is the column, the second one item or a list of items.
    fn items(&mut self, call: &ScalarFunction, negated: bool) -> Condition {
        let [list, items] = call.args.as_slice() else { return self.any() };
        let Some((path, DataType::List(item) | DataType::LargeList(item))) = column(list, self.schema) else {
            return self.any();
        };
        let items = match call.func.name() {
            "array_has" => bound(items, item.data_type()).map(|item| vec![item]),
            _ => literals(items).and_then(|items| {
                items.iter().map(|value| stored(value, item.data_type())).collect::<Option<Vec<_>>>()
            }),
        };
        let Some(items) = items.filter(|items| !items.is_empty()) else { return self.any() };
        let items = items.into_iter().map(Some).collect();
        let all = call.func.name() == "array_has_all";
        Condition::Test(
            path,
            match (all, negated) {
                (false, false) => ValueTest::HasAny(items),
                (true, false) => ValueTest::HasAll(items),
                (false, true) => ValueTest::HasNone(items),
                (true, true) => ValueTest::LacksOne(items),
            },
        )
    }
}

/// The operands of a chain of ANDs or ORs, from the left.
fn operands(expr: &Expr, op: Operator) -> impl Iterator<Item = &Expr> {
    let mut stack = vec![expr];
    std::iter::from_fn(move || {
        let mut next = stack.pop()?;
        while let Expr::BinaryExpr(BinaryExpr { left, op: inner, right }) = next
            && *inner == op
        {
            stack.push(right);
            next = left;
        }
        Some(next)
    })
}

fn test_of(op: Operator, value: Bound) -> Option<ValueTest> {
    Some(match op {
        Operator::Eq | Operator::IsNotDistinctFrom => ValueTest::Eq(value),
        Operator::NotEq => ValueTest::NotEq(value),
        Operator::Lt => ValueTest::Less(value),
        Operator::LtEq => ValueTest::LessEq(value),
        Operator::Gt => ValueTest::Greater(value),
        Operator::GtEq => ValueTest::GreaterEq(value),
        _ => return None,
    })
}

/// The items of a literal list.
fn literals(expr: &Expr) -> Option<Vec<ScalarValue>> {
    let (values, len) = match expr {
        Expr::Literal(ScalarValue::List(list), _) => (list.values(), list.len()),
        Expr::Literal(ScalarValue::LargeList(list), _) => (list.values(), list.len()),
        _ => return None,
    };
    if len != 1 {
        return None;
    }
    (0..values.len()).map(|at| ScalarValue::try_from_array(values, at).ok()).collect()
}

/// A null in a list makes no row true.
fn is_null(expr: &Expr) -> bool {
    matches!(expr, Expr::Literal(value, _) if value.is_null())
}

/// A literal text.
fn literal_text(expr: &Expr) -> Option<&String> {
    match expr {
        Expr::Literal(
            ScalarValue::Utf8(Some(text))
            | ScalarValue::LargeUtf8(Some(text))
            | ScalarValue::Utf8View(Some(text)),
            _,
        ) => Some(text),
        _ => None,
    }
}

/// What a pattern says of texts.
struct Pattern {
    /// They begin with this.
    prefix: Vec<u8>,
    /// They have these in them.
    parts: Vec<Vec<u8>>,
    /// Whether that is all.
    is_all: bool,
}

impl Pattern {
    fn of(pattern: &str) -> Self {
        // Texts between wildcards; those of any length are `%`, others are of one character.
        let (mut texts, mut wildcards, mut is_understood) = (vec![String::new()], Vec::new(), true);
        let mut chars = pattern.chars();
        while let Some(c) = chars.next() {
            let c = match c {
                '%' | '_' => {
                    wildcards.push(c);
                    texts.push(String::new());
                    continue;
                }
                '\\' => match chars.next() {
                    Some(c @ ('%' | '_' | '\\')) => c,
                    _ => {
                        is_understood = false;
                        break;
                    }
                },
                c => c,
            };
            if let Some(text) = texts.last_mut() {
                text.push(c);
            }
        }
        let mut texts = texts.into_iter();
        let prefix = texts.next().unwrap_or_default().into_bytes();
        let ends_open = texts.len() > 0 && texts.clone().next_back().is_some_and(|text| text.is_empty());
        let parts: Vec<Vec<u8>> = texts.filter(|text| !text.is_empty()).map(String::into_bytes).collect();
        let of_any_length = is_understood && ends_open && wildcards.iter().all(|c| *c == '%');
        let is_all = of_any_length && (parts.is_empty() || (prefix.is_empty() && parts.len() == 1));
        Self { prefix, parts, is_all }
    }
}

/// Path and type of a column or a member of one, also of one whose numbers are cast to a type that has them all.
fn column(expr: &Expr, schema: &Schema) -> Option<(Vec<String>, DataType)> {
    match expr {
        Expr::Cast(cast) => {
            let (path, data_type) = column(&cast.expr, schema)?;
            let to = cast.field.data_type();
            has_all_numbers(to, &data_type).then(|| (path, to.clone()))
        }
        Expr::Column(column) => {
            let field = schema.field_with_name(&column.name).ok()?;
            Some((vec![column.name.clone()], field.data_type().clone()))
        }
        Expr::ScalarFunction(call) if call.func.name() == super::nulls::MEMBER => {
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
        Expr::ScalarFunction(call) => {
            let data_type = match call.func.name() {
                "json_get_int" => DataType::Int64,
                "json_get_float" => DataType::Float64,
                "json_get_string" => DataType::Utf8,
                _ => return None,
            };
            let [document, Expr::Literal(ScalarValue::Utf8(Some(key)), _)] = call.args.as_slice() else {
                return None;
            };
            let (mut path, DataType::LargeBinary) = column(document, schema)? else { return None };
            path.push(key.clone());
            Some((path, data_type))
        }
        _ => None,
    }
}

/// Whether a type has every number of another one, so that a cast changes none of them.
fn has_all_numbers(to: &DataType, from: &DataType) -> bool {
    use DataType::{Float16, Float32, Float64, Int8, Int16, Int32, Int64, UInt8, UInt16, UInt32};
    match from {
        Float16 => matches!(to, Float32 | Float64),
        Float32 => *to == Float64,
        Int8 => matches!(to, Int16 | Int32 | Int64),
        Int16 => matches!(to, Int32 | Int64),
        Int32 => *to == Int64,
        UInt8 => matches!(to, UInt16 | UInt32 | DataType::UInt64 | Int16 | Int32 | Int64),
        UInt16 => matches!(to, UInt32 | DataType::UInt64 | Int32 | Int64),
        UInt32 => matches!(to, DataType::UInt64 | Int64),
        _ => false,
    }
}

fn only_member(members: &Fields, name: &str) -> Option<DataType> {
    members.find(name).map(|(_, member)| member.data_type().clone())
}

/// A literal of exactly this type as it is stored.
fn bound(expr: &Expr, data_type: &DataType) -> Option<Bound> {
    let Expr::Literal(value, _) = expr else { return None };
    stored(value, data_type)
}

/// A value of exactly this type as it is stored.
fn stored(value: &ScalarValue, data_type: &DataType) -> Option<Bound> {
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
