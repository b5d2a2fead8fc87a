//! Numbers are compared as they are, whatever the types of columns and constants.
//!
//! DataFusion reads a fraction as a float of 64 bits, and for a comparison casts one side to the type of the other one: next
//! to decimals it multiplies the float by a power of ten, next to integers it makes floats of these, next to floats of
//! integers. None of that is exact. So fractions are read as decimals, and where a column of decimals or integers is compared
//! with one, or of floats with a whole number, the constant is brought to the type of the column here: one that the type
//! cannot hold becomes the number before it, in the comparison that is true for the same rows. Where decimals meet decimals
//! they stay what was written. Everywhere else fractions are the floats that they were.
//!
//! Two columns, of decimals and of floats, are compared as floats of 64 bits, as Spark does.

#[cfg(test)]
mod tests;

use std::ops::ControlFlow;

use arrow_buffer::i256;
use arrow_schema::DataType;
use datafusion_common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion_common::{DFSchema, Result, ScalarValue};
use datafusion_expr::expr::{InList, ScalarFunction};
use datafusion_expr::{
    Between, BinaryExpr, Case, Cast, Expr, ExprSchemable, Operator, TryCast, binary_expr, lit,
};
use datafusion_sql::sqlparser::ast::{self, UnaryOperator, Value};
use half::f16;

use crate::expr::constants::{Constant, always, compare, never};
use crate::expr::times::CHOICES;
use crate::expr::zero::is_comparison;

/// Digits of the largest decimals.
const DIGITS: i64 = 76;

/// Whether DataFusion can read all fractions of a syntax tree as decimals, which have no minus zero.
pub(super) fn are_decimals(expr: &ast::Expr) -> bool {
    let read = ast::visit_expressions(expr, |node| {
        let is_decimal = match node {
            ast::Expr::Value(value) => number(&value.value).is_none_or(|text| digits(text).is_some()),
            ast::Expr::UnaryOp { op: UnaryOperator::Minus, expr } => match expr.as_ref() {
                ast::Expr::Value(value) => number(&value.value).is_none_or(|text| digits(text) != Some(0)),
                _ => true,
            },
            _ => true,
        };
        if is_decimal { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    });
    read.is_continue()
}

/// The text of a number that is no integer of 64 bits.
fn number(value: &Value) -> Option<&str> {
    match value {
        Value::Number(text, _) => Some(text.as_str()).filter(|text| text.parse::<u64>().is_err()),
        _ => None,
    }
}

/// Digits of a number that are needed, as far as a decimal has them; none for zero.
fn digits(text: &str) -> Option<i64> {
    let (digits, exponent) = text.split_once(['e', 'E']).unwrap_or((text, "0"));
    let (integral, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let exponent: i64 = exponent.parse().ok()?;
    let [integral, fraction] = [integral, fraction].map(|part| part.replace('_', ""));
    let scale = i64::try_from(fraction.len()).ok()?.checked_sub(exponent)?;
    let len = i64::try_from(integral.len() + fraction.len()).ok()?;
    let is_zero = !integral.bytes().chain(fraction.bytes()).any(|digit| digit != b'0');
    let fits = len.max(scale) <= DIGITS && (-DIGITS..=DIGITS).contains(&scale);
    fits.then_some(if is_zero { 0 } else { len })
}

/// A number that was written in a text: `unscaled` times ten to the power of `-scale`.
#[derive(Debug, Clone, Copy)]
struct Number {
    unscaled: i256,
    scale: i32,
    /// Whether it was read as a decimal.
    is_fraction: bool,
}

impl Number {
    fn of(expr: &Expr) -> Option<Self> {
        let Expr::Literal(value, _) = expr else { return None };
        let (unscaled, scale, is_fraction) = match value {
            ScalarValue::Int64(Some(value)) => (i256::from_i128((*value).into()), 0, false),
            ScalarValue::UInt64(Some(value)) => (i256::from_i128((*value).into()), 0, false),
            ScalarValue::Decimal128(Some(value), _, scale) => {
                (i256::from_i128(*value), (*scale).into(), true)
            }
            ScalarValue::Decimal256(Some(value), _, scale) => (*value, (*scale).into(), true),
            _ => return None,
        };
        Some(Self { unscaled, scale, is_fraction })
    }

    /// The whole number of these units, of which ten to the power of `scale` are one, that is not above it; and whether it is
    /// that. `None` if it has too many digits.
    fn in_units(self, scale: i32) -> Option<(i256, bool)> {
        let power = |exponent: i32| i256::from_i128(10).checked_pow(exponent.unsigned_abs());
        let more = scale - self.scale;
        if more >= 0 {
            let zero = self.unscaled == i256::ZERO;
            return if zero {
                Some((i256::ZERO, true))
            } else {
                Some((self.unscaled.checked_mul(power(more)?)?, true))
            };
        }
        let Some(power) = power(more) else {
            // Less than one unit.
            return Some((if self.unscaled.is_negative() { i256::MINUS_ONE } else { i256::ZERO }, false));
        };
        let (quotient, rest) = (self.unscaled.checked_div(power)?, self.unscaled.checked_rem(power)?);
        match (rest == i256::ZERO, rest.is_negative()) {
            (true, _) => Some((quotient, true)),
            (false, false) => Some((quotient, false)),
            (false, true) => Some((quotient.checked_sub(i256::ONE)?, false)),
        }
    }

    /// The constant among the values of a type; `None` where the comparison is exact without it.
    fn among(self, data_type: &DataType) -> Option<Constant> {
        match data_type {
            DataType::Decimal128(precision, scale) | DataType::Decimal256(precision, scale) => {
                let most = i256::from_i128(10).checked_pow((*precision).into())?.checked_sub(i256::ONE)?;
                self.between(most.wrapping_neg(), most, (*scale).into(), |value| match data_type {
                    DataType::Decimal128(..) => {
                        Some(ScalarValue::Decimal128(Some(value.to_i128()?), *precision, *scale))
                    }
                    _ => Some(ScalarValue::Decimal256(Some(value), *precision, *scale)),
                })
            }
            integers if integers.is_integer() && self.is_fraction => {
                let (least, most) = range(integers)?;
                let [least, most] = [least, most].map(i256::from_i128);
                self.between(least, most, 0, |value| {
                    ScalarValue::try_from_string(value.to_string(), integers).ok()
                })
            }
            floats if !self.is_fraction => {
                let value = self.unscaled.to_i128()?;
                before(value, floats).map(Constant::After)
            }
            _ => None,
        }
    }

    /// The constant among the units between two numbers, both included.
    fn between(
        self,
        least: i256,
        most: i256,
        scale: i32,
        value: impl FnOnce(i256) -> Option<ScalarValue>,
    ) -> Option<Constant> {
        let beyond = if self.unscaled.is_negative() { Constant::Below } else { Constant::Above };
        match self.in_units(scale) {
            None => Some(beyond),
            Some((floor, _)) if floor > most => Some(Constant::Above),
            Some((floor, _)) if floor < least => Some(Constant::Below),
            Some((floor, true)) => value(floor).map(Constant::At),
            Some((floor, false)) => value(floor).map(Constant::After),
        }
    }
}

/// The least and the greatest integer of a type.
fn range(integers: &DataType) -> Option<(i128, i128)> {
    Some(match integers {
        DataType::Int8 => (i8::MIN.into(), i8::MAX.into()),
        DataType::Int16 => (i16::MIN.into(), i16::MAX.into()),
        DataType::Int32 => (i32::MIN.into(), i32::MAX.into()),
        DataType::Int64 => (i64::MIN.into(), i64::MAX.into()),
        DataType::UInt8 => (0, u8::MAX.into()),
        DataType::UInt16 => (0, u16::MAX.into()),
        DataType::UInt32 => (0, u32::MAX.into()),
        DataType::UInt64 => (0, u64::MAX.into()),
        _ => return None,
    })
}

/// The float before a whole number; `None` if a float is that number.
#[allow(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    reason = "it is compared with what it was"
)]
fn before(number: i128, floats: &DataType) -> Option<ScalarValue> {
    // Infinity becomes the greatest integer, which is no number of 64 bits.
    let order = |float: f64| (float as i128).cmp(&number);
    match floats {
        DataType::Float64 => {
            let nearest = number as f64;
            let value = if order(nearest).is_gt() { nearest.next_down() } else { nearest };
            order(nearest).is_ne().then_some(ScalarValue::Float64(Some(value)))
        }
        DataType::Float32 => {
            let nearest = number as f32;
            let value = if order(nearest.into()).is_gt() { nearest.next_down() } else { nearest };
            order(nearest.into()).is_ne().then_some(ScalarValue::Float32(Some(value)))
        }
        DataType::Float16 => {
            let nearest = f16::from_f64(number as f64);
            // Of positive floats the one before has the bits before, of negative ones those behind.
            let down = |float: f16| match float.is_sign_negative() {
                true => f16::from_bits(float.to_bits() + 1),
                false => f16::from_bits(float.to_bits() - 1),
            };
            let value = if order(nearest.into()).is_gt() { down(nearest) } else { nearest };
            order(nearest.into()).is_ne().then_some(ScalarValue::Float16(Some(value)))
        }
        _ => None,
    }
}

/// Rewrites the numbers of an expression that was not coerced. `is_decimal` says whether its value is to be a decimal.
pub(super) fn rewrite(expr: Expr, schema: &DFSchema, is_decimal: bool) -> Result<Expr> {
    Rewriter { schema }.value(expr, is_decimal)
}

struct Rewriter<'a> {
    schema: &'a DFSchema,
}

/// A side of a comparison.
#[derive(Clone)]
enum Side {
    /// A number, and its literal.
    Number(Number, Expr),
    /// Anything else, rewritten.
    Other(Expr),
}

impl Side {
    fn into_expr(self) -> Expr {
        match self {
            Self::Number(_, literal) => float(literal),
            Self::Other(expr) => expr,
        }
    }
}

impl Rewriter<'_> {
    /// The same as a value; a number that is a decimal stays one if that is wanted.
    fn value(&self, expr: Expr, is_decimal: bool) -> Result<Expr> {
        match expr {
            Expr::Literal(..) if is_decimal => Ok(expr),
            Expr::Case(case) if is_decimal => self.case(case, true),
            Expr::ScalarFunction(call) if is_decimal && is_choice(&call) => self.choice(call, true),
            other => self.rewritten(other),
        }
    }

    fn rewritten(&self, expr: Expr) -> Result<Expr> {
        expr.transform_down(|node| {
            let rewritten = match node {
                Expr::Literal(..) => float(node),
                Expr::Cast(_) | Expr::TryCast(_) if is_written_as_decimal(&node) => node,
                Expr::BinaryExpr(BinaryExpr { left, op, right }) if is_comparison(op) => {
                    self.comparison(self.side(*left)?, op, self.side(*right)?)?.0
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
            None => self.rewritten(expr).map(Side::Other),
        }
    }

    /// A comparison, and whether a constant was brought to the type of the other side.
    fn comparison(&self, left: Side, op: Operator, right: Side) -> Result<(Expr, bool)> {
        let (left, op, right) = match (left, op.swap(), right) {
            (left @ Side::Number(..), Some(swapped), right @ Side::Other(_)) => (right, swapped, left),
            (left, _, right) => (left, op, right),
        };
        if let (Side::Other(side), Side::Number(number, _)) = (&left, &right)
            && let Some(exact) = self.among(*number, side)?.and_then(|constant| compare(side, op, constant))
        {
            return Ok((exact, true));
        }
        let [left, right] = self.alike([left.into_expr(), right.into_expr()])?;
        Ok((binary_expr(left, op, right), false))
    }

    /// A number among the values of another side.
    fn among(&self, number: Number, side: &Expr) -> Result<Option<Constant>> {
        if side.is_volatile() {
            return Ok(None);
        }
        Ok(number.among(&side.get_type(self.schema)?))
    }

    /// The same, the decimals among them as floats if there are floats.
    fn alike<const N: usize>(&self, sides: [Expr; N]) -> Result<[Expr; N]> {
        let mut are_decimals = [false; N];
        let mut has_floats = false;
        for (side, is_decimal) in sides.iter().zip(&mut are_decimals) {
            let data_type = side.get_type(self.schema)?;
            *is_decimal = data_type.is_decimal();
            has_floats |= data_type.is_floating();
        }
        let mut cast = sides;
        for (side, is_decimal) in cast.iter_mut().zip(are_decimals) {
            if is_decimal && has_floats {
                *side = std::mem::take(side).cast_to(&DataType::Float64, self.schema)?;
            }
        }
        Ok(cast)
    }

    fn between(&self, node: Between) -> Result<Expr> {
        let Between { expr, negated, low, high } = node;
        let is_volatile = expr.is_volatile();
        let (expr, low, high) = (self.side(*expr)?, self.side(*low)?, self.side(*high)?);
        if !is_volatile {
            let (above, below) = match negated {
                false => (Operator::GtEq, Operator::LtEq),
                true => (Operator::Lt, Operator::Gt),
            };
            let (from, is_exact) = self.comparison(expr.clone(), above, low.clone())?;
            let (to, is_exact_too) = self.comparison(expr.clone(), below, high.clone())?;
            if is_exact || is_exact_too {
                return Ok(if negated { from.or(to) } else { from.and(to) });
            }
        }
        let [expr, low, high] = self.alike([expr, low, high].map(Side::into_expr))?;
        Ok(Expr::Between(Between::new(Box::new(expr), negated, Box::new(low), Box::new(high))))
    }

    fn in_list(&self, node: InList) -> Result<Expr> {
        let InList { expr, list, negated } = node;
        let is_volatile = expr.is_volatile();
        let expr = self.side(*expr)?;
        let items = list.into_iter().map(|item| self.side(item)).collect::<Result<Vec<_>>>()?;
        if !is_volatile && self.differ(&expr, &items)? {
            let equal =
                |item: Side| self.comparison(expr.clone(), Operator::Eq, item).map(|(equal, _)| equal);
            let any = items.into_iter().map(equal).collect::<Result<Vec<_>>>()?.into_iter().reduce(Expr::or);
            let any = any.unwrap_or_else(|| lit(false));
            return Ok(if negated { Expr::Not(Box::new(any)) } else { any });
        }
        let expr = expr.into_expr();
        let (mut values, mut is_exact) = (Vec::with_capacity(items.len()), false);
        for item in items {
            let constant = match &item {
                Side::Number(number, _) => self.among(*number, &expr)?,
                Side::Other(_) => None,
            };
            is_exact |= constant.is_some();
            match constant {
                Some(Constant::At(value)) => values.push(Expr::Literal(value, None)),
                // No value of the type is equal to it.
                Some(_) => {}
                None => values.push(item.into_expr()),
            }
        }
        Ok(match (is_exact && values.is_empty(), negated) {
            (true, true) => always(&expr),
            (true, false) => never(&expr),
            _ => Expr::InList(InList::new(Box::new(expr), values, negated)),
        })
    }

    /// Whether a value and the items of a list are no values of one type: decimals and floats that are not numbers, or a
    /// number and others.
    fn differ(&self, expr: &Side, items: &[Side]) -> Result<bool> {
        let (mut has_decimals, mut has_floats) = (false, false);
        for side in std::iter::once(expr).chain(items) {
            if let Side::Other(side) = side {
                let data_type = side.get_type(self.schema)?;
                has_decimals |= data_type.is_decimal();
                has_floats |= data_type.is_floating();
            }
        }
        let of_items =
            matches!(expr, Side::Number(..)) && items.iter().any(|item| matches!(item, Side::Other(_)));
        Ok((has_decimals && has_floats) || of_items)
    }

    /// A `CASE`; numbers that are compared with decimals, and those that are values next to decimals, stay decimals.
    fn case(&self, case: Case, is_decimal: bool) -> Result<Expr> {
        let Case { expr, when_then_expr, else_expr } = case;
        let (whens, thens): (Vec<_>, Vec<_>) = when_then_expr.into_iter().unzip();
        let has_operand = expr.is_some();
        let mut compared = self.values(expr.into_iter().chain(whens).map(|boxed| *boxed), false)?.into_iter();
        let operand = if has_operand { compared.next().map(Box::new) } else { None };
        let has_else = else_expr.is_some();
        let mut values = self.values(thens.into_iter().chain(else_expr).map(|boxed| *boxed), is_decimal)?;
        let otherwise = if has_else { values.pop().map(Box::new) } else { None };
        let pairs = compared.map(Box::new).zip(values.into_iter().map(Box::new)).collect();
        Ok(Expr::Case(Case::new(operand, pairs, otherwise)))
    }

    fn choice(&self, call: ScalarFunction, is_decimal: bool) -> Result<Expr> {
        let args = self.values(call.args, is_decimal)?;
        Ok(Expr::ScalarFunction(ScalarFunction::new_udf(call.func, args)))
    }

    /// Values of which one is chosen, or that are compared with each other: numbers stay decimals if others of them are.
    fn values(&self, values: impl IntoIterator<Item = Expr>, is_decimal: bool) -> Result<Vec<Expr>> {
        let (mut sides, mut stay) = (Vec::new(), is_decimal);
        for value in values {
            sides.push(match Number::of(&value) {
                Some(number) => Side::Number(number, value),
                None => {
                    let value = self.value(value, is_decimal)?;
                    stay |= value.get_type(self.schema)?.is_decimal();
                    Side::Other(value)
                }
            });
        }
        let value = |side| match side {
            Side::Number(_, literal) if stay => literal,
            side => side.into_expr(),
        };
        Ok(sides.into_iter().map(value).collect())
    }
}

fn is_choice(call: &ScalarFunction) -> bool {
    let name = call.func.name();
    CHOICES.contains(&name) || matches!(name, "nullif" | "nvl" | "nvl2")
}

/// Whether it is a number that is cast to a decimal.
fn is_written_as_decimal(expr: &Expr) -> bool {
    match expr {
        Expr::Cast(Cast { expr, field }) | Expr::TryCast(TryCast { expr, field }) => {
            field.data_type().is_decimal() && Number::of(expr).is_some()
        }
        _ => false,
    }
}

/// The float of 64 bits that a fraction is otherwise.
fn float(literal: Expr) -> Expr {
    match Number::of(&literal) {
        Some(Number { unscaled, scale, is_fraction: true }) => {
            let value = format!("{unscaled}e{}", -scale).parse().ok();
            Expr::Literal(ScalarValue::Float64(value), None)
        }
        _ => literal,
    }
}
