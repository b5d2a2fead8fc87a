//! Numbers are compared as they are, whatever the types of columns and constants.
//!
//! DataFusion reads a fraction as a float of 64 bits, and for a comparison casts one side to the type of the other one: next
//! to decimals it multiplies the float by a power of ten, next to integers it makes floats of these, next to floats of
//! integers. None of that is exact. So the text of a fraction is kept, and where a column of decimals or integers is
//! compared with one, or of floats with an integer, the literal becomes the value of the column's type below or above
//! it, in the comparison that is true for the same rows. Where one of several decimals is chosen literals are decimals,
//! too. Everywhere else fractions are the floats that they were.
//!
//! Columns of decimals and of floats are compared as floats of 64 bits, as Spark does.

mod number;
#[cfg(test)]
mod tests;

use std::ops::ControlFlow;

use arrow_schema::{DataType, Field};
use datafusion_common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion_common::{DFSchema, Result, ScalarValue};
use datafusion_expr::expr::{InList, ScalarFunction};
use datafusion_expr::{
    Between, BinaryExpr, Case, Cast, Expr, ExprSchemable, Operator, TryCast, binary_expr, lit,
};
use datafusion_sql::sqlparser::ast::{self, CastKind, ExactNumberInfo, Value};

use self::number::{Neighbors, Number, written};
use crate::expr::times::CHOICES;
use crate::expr::zero::is_comparison;

/// Makes casts of texts to floats of the fractions of a syntax tree: planning takes them for the floats that they are, and
/// knows what was written all the same.
pub(super) fn keep_texts(expr: &mut ast::Expr) {
    let _ = ast::visit_expressions_mut(expr, |node| {
        match node {
            ast::Expr::Value(value) => {
                if let Some(text) = fraction(&value.value) {
                    *node = cast_to_float(text);
                }
            }
            // Its value is not an expression of its own.
            ast::Expr::Interval(interval) => {
                if let ast::Expr::Cast { expr, .. } = interval.value.as_mut()
                    && let ast::Expr::Value(value) = expr.as_mut()
                    && let Value::SingleQuotedString(text) = &value.value
                {
                    *interval.value = ast::Expr::value(Value::Number(text.clone(), false));
                }
            }
            _ => {}
        }
        ControlFlow::<()>::Continue(())
    });
}

/// The text of a number that is not an integer of 64 bits.
fn fraction(value: &Value) -> Option<String> {
    match value {
        Value::Number(text, _) => Some(text.replace('_', "")).filter(|text| text.parse::<u64>().is_err()),
        _ => None,
    }
}

fn cast_to_float(text: String) -> ast::Expr {
    ast::Expr::Cast {
        kind: CastKind::Cast,
        expr: Box::new(ast::Expr::value(Value::SingleQuotedString(text))),
        data_type: ast::DataType::Double(ExactNumberInfo::None),
        array: false,
        format: None,
    }
}

/// The comparison of a column with a number, by values of the column's type: true for the same rows, null for the same.
fn compare(column: Expr, op: Operator, number: Neighbors) -> Expr {
    use Operator::{Eq, Gt, GtEq, IsDistinctFrom, IsNotDistinctFrom, Lt, LtEq, NotEq};
    let with = |column, op, value| binary_expr(column, op, literal(value));
    match (op, number) {
        (op, Neighbors::Equal(value)) => with(column, op, value),
        (IsDistinctFrom, _) => lit(true),
        (IsNotDistinctFrom, _) => lit(false),
        (Lt | LtEq, Neighbors::Between(floor, _)) => with(column, LtEq, floor),
        (Gt | GtEq, Neighbors::Between(_, ceiling)) => with(column, GtEq, ceiling),
        (NotEq, Neighbors::Between(floor, ceiling)) => nothing_between(column, floor, ceiling, true),
        (Eq, Neighbors::Between(floor, ceiling)) => nothing_between(column, floor, ceiling, false),
        // All values that are not null.
        (NotEq | Lt | LtEq, Neighbors::Above(most)) => with(column, LtEq, most),
        (NotEq | Gt | GtEq, Neighbors::Below(least)) => with(column, GtEq, least),
        // None of them.
        (_, Neighbors::Above(most)) => with(column, Gt, most),
        (_, Neighbors::Below(least)) => with(column, Lt, least),
        (op, Neighbors::Between(floor, _)) => with(column, op, floor),
    }
}

/// False, or the negation, where a column is not null: no value lies at or above the ceiling and at or below the floor.
fn nothing_between(column: Expr, floor: ScalarValue, ceiling: ScalarValue, negated: bool) -> Expr {
    Expr::Between(Between::new(
        Box::new(column),
        negated,
        Box::new(literal(ceiling)),
        Box::new(literal(floor)),
    ))
}

fn literal(value: ScalarValue) -> Expr {
    Expr::Literal(value, None)
}

/// Rewrites the numbers of an expression that was not coerced. `is_decimal` says whether its value is to be a decimal.
pub(super) fn rewrite(expr: Expr, schema: &DFSchema, is_decimal: bool) -> Result<Expr> {
    Rewriter { schema }.value(expr, is_decimal)
}

struct Rewriter<'a> {
    schema: &'a DFSchema,
}

/// A part of an expression that is compared, or one of several values.
enum Side {
    /// A number, and its literal.
    Number(Number, Expr),
    /// Anything else, rewritten, and its type.
    Other(Expr, DataType),
}

impl Side {
    fn into_expr(self) -> Expr {
        match self {
            Self::Number(_, literal) => float(literal),
            Self::Other(expr, _) => expr,
        }
    }

    /// The same, a decimal as a float.
    fn into_float(self, schema: &DFSchema) -> Result<Expr> {
        match self {
            Self::Other(expr, data_type) if data_type.is_decimal() => {
                expr.cast_to(&DataType::Float64, schema)
            }
            other => Ok(other.into_expr()),
        }
    }
}

/// Whether there are decimals and floats among some sides that are no numbers.
fn are_mixed<'s>(sides: impl IntoIterator<Item = &'s Side>) -> bool {
    let (mut has_decimals, mut has_floats) = (false, false);
    for side in sides {
        if let Side::Other(_, data_type) = side {
            has_decimals |= data_type.is_decimal();
            has_floats |= data_type.is_floating();
        }
    }
    has_decimals && has_floats
}

impl Rewriter<'_> {
    /// The same as a value; a number that is a decimal stays one if that is wanted.
    fn value(&self, expr: Expr, is_decimal: bool) -> Result<Expr> {
        if is_decimal && let Some(number) = Number::of(&expr) {
            return Ok(number.natural_decimal().unwrap_or_else(|| float(expr)));
        }
        match expr {
            Expr::Case(case) if is_decimal => self.case(case, true),
            Expr::ScalarFunction(call) if is_decimal && is_choice(&call) => self.choice(call, true),
            other => self.rewritten(other),
        }
    }

    fn rewritten(&self, expr: Expr) -> Result<Expr> {
        expr.transform_down(|node| {
            let rewritten = match node {
                number if written(&number).is_some() => float(number),
                Expr::Cast(cast) if is_decimal_number(&cast.expr, &cast.field) => {
                    Expr::Cast(Cast { expr: Box::new(self.value(*cast.expr, true)?), ..cast })
                }
                Expr::TryCast(cast) if is_decimal_number(&cast.expr, &cast.field) => {
                    Expr::TryCast(TryCast { expr: Box::new(self.value(*cast.expr, true)?), ..cast })
                }
                Expr::BinaryExpr(BinaryExpr { left, op, right }) if is_comparison(op) => {
                    self.comparison(self.side(*left)?, op, self.side(*right)?)?
                }
                Expr::Between(between) => self.between(between)?,
                Expr::InList(list) => self.in_list(list)?,
                Expr::Case(case) => self.case(case, false)?,
                Expr::ScalarFunction(call) if is_choice(&call) => self.choice(call, false)?,
                other => return Ok(Transformed::no(other)),
            };
            Ok(Transformed::new(rewritten, true, TreeNodeRecursion::Jump))
        })
        .map(|t| t.data)
    }

    fn side(&self, expr: Expr) -> Result<Side> {
        match Number::of(&expr) {
            Some(number) => Ok(Side::Number(number, expr)),
            None => {
                let expr = self.rewritten(expr)?;
                let data_type = self.type_of(&expr);
                Ok(Side::Other(expr, data_type))
            }
        }
    }

    /// The type of an expression; null if that is not known before coercion.
    fn type_of(&self, expr: &Expr) -> DataType {
        expr.get_type(self.schema).unwrap_or(DataType::Null)
    }

    fn comparison(&self, left: Side, op: Operator, right: Side) -> Result<Expr> {
        let (left, op, right) = match (left, op.swap(), right) {
            (left @ Side::Number(..), Some(swapped), right @ Side::Other(..)) => (right, swapped, left),
            (left, _, right) => (left, op, right),
        };
        match (left, right) {
            (Side::Other(column, data_type), Side::Number(number, literal)) => {
                Ok(match number.among(&data_type) {
                    Some(neighbors) => compare(column, op, neighbors),
                    None => binary_expr(column, op, float(literal)),
                })
            }
            (left, right) if are_mixed([&left, &right]) => {
                Ok(binary_expr(left.into_float(self.schema)?, op, right.into_float(self.schema)?))
            }
            (left, right) => Ok(binary_expr(left.into_expr(), op, right.into_expr())),
        }
    }

    fn between(&self, node: Between) -> Result<Expr> {
        let Between { expr, negated, low, high } = node;
        let (expr, low, high) = (self.side(*expr)?, self.side(*low)?, self.side(*high)?);
        let made = |expr, low, high| {
            Expr::Between(Between::new(Box::new(expr), negated, Box::new(low), Box::new(high)))
        };
        if are_mixed([&expr, &low, &high]) {
            let [expr, low, high] = [expr, low, high].map(|side| side.into_float(self.schema));
            return Ok(made(expr?, low?, high?));
        }
        let (column, data_type) = match expr {
            Side::Other(column, data_type) => (column, data_type),
            // Of a number between columns each is compared with it.
            Side::Number(number, literal) => {
                let number = || Side::Number(number, literal.clone());
                let low =
                    self.comparison(low, if negated { Operator::Gt } else { Operator::LtEq }, number())?;
                let high =
                    self.comparison(high, if negated { Operator::Lt } else { Operator::GtEq }, number())?;
                return Ok(if negated { low.or(high) } else { low.and(high) });
            }
        };
        let among = |side: &Side| match side {
            Side::Number(number, _) => number.among(&data_type),
            Side::Other(..) => None,
        };
        let low = match among(&low) {
            Some(Neighbors::Equal(value) | Neighbors::Between(_, value) | Neighbors::Below(value)) => {
                literal(value)
            }
            // No value is as large.
            Some(Neighbors::Above(most)) => {
                return Ok(binary_expr(
                    column,
                    if negated { Operator::LtEq } else { Operator::Gt },
                    literal(most),
                ));
            }
            None => low.into_expr(),
        };
        let high = match among(&high) {
            Some(Neighbors::Equal(value) | Neighbors::Between(value, _) | Neighbors::Above(value)) => {
                literal(value)
            }
            // No value is as small.
            Some(Neighbors::Below(least)) => {
                return Ok(binary_expr(
                    column,
                    if negated { Operator::GtEq } else { Operator::Lt },
                    literal(least),
                ));
            }
            None => high.into_expr(),
        };
        Ok(made(column, low, high))
    }

    fn in_list(&self, node: InList) -> Result<Expr> {
        let InList { expr, list, negated } = node;
        let expr = self.side(*expr)?;
        let items = list.into_iter().map(|item| self.side(item)).collect::<Result<Vec<_>>>()?;
        if are_mixed(std::iter::once(&expr).chain(&items)) {
            let items = items.into_iter().map(|item| item.into_float(self.schema)).collect::<Result<_>>()?;
            return Ok(Expr::InList(InList::new(Box::new(expr.into_float(self.schema)?), items, negated)));
        }
        let (column, data_type) = match expr {
            Side::Other(column, data_type) => (column, data_type),
            number @ Side::Number(..) => {
                let mut all = self.alike(std::iter::once(number).chain(items).collect(), false).into_iter();
                let expr = all.next().map(Box::new).unwrap_or_default();
                return Ok(Expr::InList(InList::new(expr, all.collect(), negated)));
            }
        };
        let (mut values, mut missing) = (Vec::with_capacity(items.len()), None);
        for item in items {
            let neighbors = match &item {
                Side::Number(number, _) => number.among(&data_type),
                Side::Other(..) => None,
            };
            match neighbors {
                Some(Neighbors::Equal(value)) => values.push(literal(value)),
                // No value of the type is equal to it.
                Some(neighbors) => missing = Some(neighbors),
                None => values.push(item.into_expr()),
            }
        }
        Ok(match missing {
            Some(neighbors) if values.is_empty() => {
                compare(column, if negated { Operator::NotEq } else { Operator::Eq }, neighbors)
            }
            _ => Expr::InList(InList::new(Box::new(column), values, negated)),
        })
    }

    /// A `CASE`. Literals that are compared with an operand become values of its type, or their branches are left out.
    fn case(&self, case: Case, is_decimal: bool) -> Result<Expr> {
        let Case { expr, when_then_expr, else_expr } = case;
        let (whens, thens): (Vec<_>, Vec<_>) = when_then_expr.into_iter().unzip();
        let (operand, whens) = match expr {
            None => {
                let whens = whens.into_iter().map(|when| self.rewritten(*when).map(Some));
                (None, whens.collect::<Result<Vec<_>>>()?)
            }
            Some(operand) => {
                let (operand, whens) = self.compared(*operand, whens.into_iter().map(|when| *when))?;
                (Some(Box::new(operand)), whens)
            }
        };
        let has_else = else_expr.is_some();
        let values = thens.into_iter().chain(else_expr).map(|value| self.one_of(*value, is_decimal));
        let mut values = self.alike(values.collect::<Result<Vec<_>>>()?, is_decimal);
        let otherwise = if has_else { values.pop().map(Box::new) } else { None };
        let mut pairs: Vec<_> = whens.into_iter().zip(values).collect();
        if pairs.iter().all(|(when, _)| when.is_none()) {
            // One stays for the type.
            pairs.truncate(1);
            let pairs = pairs.into_iter().map(|(_, value)| (Box::new(lit(false)), Box::new(value)));
            return Ok(Expr::Case(Case::new(None, pairs.collect(), otherwise)));
        }
        let pairs = pairs.into_iter().filter_map(|(when, value)| Some((Box::new(when?), Box::new(value))));
        Ok(Expr::Case(Case::new(operand, pairs.collect(), otherwise)))
    }

    /// An operand and what it is compared with; none for numbers that no value of its type is equal to.
    fn compared(
        &self,
        operand: Expr,
        others: impl Iterator<Item = Expr>,
    ) -> Result<(Expr, Vec<Option<Expr>>)> {
        let operand = self.side(operand)?;
        let others = others.map(|other| self.side(other)).collect::<Result<Vec<_>>>()?;
        if are_mixed(std::iter::once(&operand).chain(&others)) {
            let others = others.into_iter().map(|other| other.into_float(self.schema).map(Some));
            let others = others.collect::<Result<_>>()?;
            return Ok((operand.into_float(self.schema)?, others));
        }
        match operand {
            Side::Other(operand, data_type) => {
                let others = others.into_iter().map(|other| match &other {
                    Side::Number(number, _) => match number.among(&data_type) {
                        Some(Neighbors::Equal(value)) => Some(literal(value)),
                        Some(_) => None,
                        None => Some(other.into_expr()),
                    },
                    Side::Other(..) => Some(other.into_expr()),
                });
                Ok((operand, others.collect()))
            }
            number @ Side::Number(..) => {
                let mut all = self.alike(std::iter::once(number).chain(others).collect(), false).into_iter();
                let operand = all.next().unwrap_or_default();
                Ok((operand, all.map(Some).collect()))
            }
        }
    }

    fn choice(&self, call: ScalarFunction, is_decimal: bool) -> Result<Expr> {
        let ScalarFunction { func, args } = call;
        if func.name() == "nullif"
            && let [_, second] = args.as_slice()
            && Number::of(second).is_some()
        {
            let mut args = args.into_iter();
            let (first, second) = (args.next().unwrap_or_default(), args);
            if Number::of(&first).is_none() {
                let (first, mut others) = self.compared(first, second)?;
                return Ok(match others.pop().flatten() {
                    Some(second) => Expr::ScalarFunction(ScalarFunction::new_udf(func, vec![first, second])),
                    None => first,
                });
            }
            let args = std::iter::once(first).chain(second).map(|arg| self.one_of(arg, is_decimal));
            let args = self.alike(args.collect::<Result<Vec<_>>>()?, is_decimal);
            return Ok(Expr::ScalarFunction(ScalarFunction::new_udf(func, args)));
        }
        let args = args.into_iter().map(|arg| self.one_of(arg, is_decimal));
        let args = self.alike(args.collect::<Result<Vec<_>>>()?, is_decimal);
        Ok(Expr::ScalarFunction(ScalarFunction::new_udf(func, args)))
    }

    /// One of several values.
    fn one_of(&self, value: Expr, is_decimal: bool) -> Result<Side> {
        match Number::of(&value) {
            Some(number) => Ok(Side::Number(number, value)),
            None => {
                let value = self.value(value, is_decimal)?;
                let data_type = self.type_of(&value);
                Ok(Side::Other(value, data_type))
            }
        }
    }

    /// Values of which one is chosen: numbers that were read as decimals are decimals if `is_decimal`, or if others are and
    /// there is a type that has all of them.
    fn alike(&self, sides: Vec<Side>, is_decimal: bool) -> Vec<Expr> {
        let (mut integral, mut scale, mut most) = (0, 0, None);
        for side in &sides {
            let (digits, of_side) = match side {
                Side::Number(number, _) => (number.integral_digits(), number.scale.max(0)),
                Side::Other(_, DataType::Decimal128(precision, scale)) => {
                    most = most.max(Some(38));
                    (i32::from(*precision) - i32::from(*scale), i32::from(*scale))
                }
                Side::Other(_, DataType::Decimal256(precision, scale)) => {
                    most = most.max(Some(76));
                    (i32::from(*precision) - i32::from(*scale), i32::from(*scale))
                }
                Side::Other(..) => continue,
            };
            integral = integral.max(digits);
            scale = scale.max(of_side);
        }
        let digits: i32 = integral.saturating_add(scale);
        let most = most.or(is_decimal.then_some(if digits <= 38 { 38 } else { 76 }));
        let fits = most.filter(|most| digits <= *most);
        let value = |side| match side {
            Side::Number(number, literal) if number.is_decimal => {
                fits.and_then(|most| number.decimal(most)).unwrap_or_else(|| float(literal))
            }
            Side::Number(_, literal) | Side::Other(literal, _) => literal,
        };
        sides.into_iter().map(value).collect()
    }
}

fn is_choice(call: &ScalarFunction) -> bool {
    let name = call.func.name();
    CHOICES.contains(&name) || matches!(name, "nullif" | "nvl" | "nvl2")
}

/// Whether it is a number that is cast to a decimal.
fn is_decimal_number(expr: &Expr, field: &Field) -> bool {
    field.data_type().is_decimal() && Number::of(expr).is_some_and(|number| number.is_decimal)
}

/// The float of 64 bits that a fraction is otherwise.
fn float(number: Expr) -> Expr {
    match written(&number) {
        Some((text, is_negative)) => {
            let value = text.parse().ok().map(|value: f64| if is_negative { -value } else { value });
            literal(ScalarValue::Float64(value))
        }
        None => number,
    }
}
