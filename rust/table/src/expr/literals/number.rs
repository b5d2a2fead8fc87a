//! A number that was written, and its neighbors among the values of a type.

use std::cmp::Ordering;

use arrow_buffer::i256;
use arrow_schema::DataType;
use datafusion_common::ScalarValue;
use datafusion_expr::{Cast, Expr};
use half::f16;

use super::literal;

/// Digits of the largest decimals.
const DIGITS: usize = 76;
/// Powers of ten beyond those of all types.
const MOST_EXPONENT: i32 = 10_000;

/// What was written of a fraction, and whether a minus precedes it: of a cast to a float as planning has it.
pub(super) fn written(expr: &Expr) -> Option<(&str, bool)> {
    match expr {
        Expr::Negative(negated) => match written(negated)? {
            (text, false) => Some((text, true)),
            _ => None,
        },
        Expr::Cast(Cast { expr, field }) if *field.data_type() == DataType::Float64 => match expr.as_ref() {
            Expr::Literal(ScalarValue::Utf8(Some(text)), _) => {
                let starts = text.starts_with(|first: char| first.is_ascii_digit() || first == '.');
                (starts && text.parse::<f64>().is_ok()).then_some((text.as_str(), false))
            }
            _ => None,
        },
        _ => None,
    }
}

/// A number that was written in a text: `unscaled` times ten to the power of `-scale`.
#[derive(Debug, Clone, Copy)]
pub(super) struct Number {
    pub(super) unscaled: i256,
    pub(super) scale: i32,
    /// Whether it is not an integer of 64 bits, as it was written.
    pub(super) is_decimal: bool,
}

/// The values of a type next to a number: the greatest one that is not above it, and the least one that is not below. Both
/// are the number, or one of them is missing where the number lies beyond the type.
pub(super) enum Neighbors {
    /// The number itself.
    Equal(ScalarValue),
    Between(ScalarValue, ScalarValue),
    /// Above the greatest value.
    Above(ScalarValue),
    /// Below the least value.
    Below(ScalarValue),
}

impl Number {
    pub(super) fn of(expr: &Expr) -> Option<Self> {
        let integer = |value: i128| Self { unscaled: i256::from_i128(value), scale: 0, is_decimal: false };
        match expr {
            Expr::Literal(ScalarValue::Int64(Some(value)), _) => Some(integer((*value).into())),
            Expr::Literal(ScalarValue::UInt64(Some(value)), _) => Some(integer((*value).into())),
            other => {
                let (text, is_negative) = written(other)?;
                let number = Self::parse(text)?;
                let negated = Self { unscaled: number.unscaled.wrapping_neg(), ..number };
                Some(if is_negative { negated } else { number })
            }
        }
    }

    /// `None` for more digits than a decimal can have.
    fn parse(text: &str) -> Option<Self> {
        let (digits, exponent) = text.split_once(['e', 'E']).unwrap_or((text, "0"));
        let (integral, fraction) = digits.split_once('.').unwrap_or((digits, ""));
        let exponent = exponent.parse().ok().filter(|exponent: &i32| exponent.abs() <= MOST_EXPONENT)?;
        let digits = format!("{integral}{fraction}");
        let digits = digits.trim_start_matches('0');
        let unscaled = match digits.len() {
            0 => i256::ZERO,
            len if len <= DIGITS => i256::from_string(digits)?,
            _ => return None,
        };
        Some(Self {
            unscaled,
            scale: i32::try_from(fraction.len()).ok()?.checked_sub(exponent)?,
            is_decimal: true,
        })
    }

    /// The integer of these units, of which ten to the power of `scale` are one, that is not above it; and whether it
    /// is that. `None` if it has too many digits.
    fn in_units(self, scale: i32) -> Option<(i256, bool)> {
        if self.unscaled == i256::ZERO {
            return Some((i256::ZERO, true));
        }
        let power = i256::from_i128(10).checked_pow((scale - self.scale).unsigned_abs());
        if scale >= self.scale {
            return Some((self.unscaled.checked_mul(power?)?, true));
        }
        let Some(power) = power else {
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

    /// Its neighbors among the values of a type; `None` where the comparison is exact without them.
    pub(super) fn among(self, data_type: &DataType) -> Option<Neighbors> {
        match data_type {
            DataType::Decimal128(precision, scale) | DataType::Decimal256(precision, scale) => {
                let most = i256::from_i128(10).checked_pow((*precision).into())?.checked_sub(i256::ONE)?;
                self.among_units(most.wrapping_neg(), most, (*scale).into(), |value| match data_type {
                    DataType::Decimal128(..) => {
                        Some(ScalarValue::Decimal128(Some(value.to_i128()?), *precision, *scale))
                    }
                    _ => Some(ScalarValue::Decimal256(Some(value), *precision, *scale)),
                })
            }
            integers if integers.is_integer() && self.is_decimal => {
                let (least, most) = range(integers)?;
                let [least, most] = [least, most].map(i256::from_i128);
                self.among_units(least, most, 0, |value| {
                    ScalarValue::try_from_string(value.to_string(), integers).ok()
                })
            }
            // With a point or an exponent it is a float.
            floats if floats.is_floating() && self.scale == 0 => around(self.unscaled.to_i128()?, floats),
            _ => None,
        }
    }

    /// Its neighbors among units from one number to another.
    fn among_units(
        self,
        least: i256,
        most: i256,
        scale: i32,
        value: impl Fn(i256) -> Option<ScalarValue>,
    ) -> Option<Neighbors> {
        Some(match self.in_units(scale) {
            None if self.unscaled.is_negative() => Neighbors::Below(value(least)?),
            None => Neighbors::Above(value(most)?),
            Some((floor, is_exact)) if floor > most || (floor == most && !is_exact) => {
                Neighbors::Above(value(most)?)
            }
            Some((floor, _)) if floor < least => Neighbors::Below(value(least)?),
            Some((floor, true)) => Neighbors::Equal(value(floor)?),
            Some((floor, false)) => Neighbors::Between(value(floor)?, value(floor.checked_add(i256::ONE)?)?),
        })
    }

    /// A literal of it as a decimal of at most 38 or 76 digits.
    pub(super) fn decimal(self, most: i32) -> Option<Expr> {
        let scale = self.scale.max(0);
        let (unscaled, _) = self.in_units(scale)?;
        let precision = Some(self.integral_digits().max(0) + scale).filter(|digits| *digits <= most)?;
        let (precision, scale) = (u8::try_from(precision.max(1)).ok()?, i8::try_from(scale).ok()?);
        Some(literal(match most {
            38 => ScalarValue::Decimal128(Some(unscaled.to_i128()?), precision, scale),
            _ => ScalarValue::Decimal256(Some(unscaled), precision, scale),
        }))
    }

    /// A literal of it as a decimal with its digits; `None` for integers of 64 bits, and if it has too many.
    pub(super) fn natural_decimal(self) -> Option<Expr> {
        if self.is_decimal { self.decimal(38).or_else(|| self.decimal(76)) } else { None }
    }

    /// Digits before the point.
    pub(super) fn integral_digits(self) -> i32 {
        let digits = self.unscaled.to_string().trim_start_matches('-').len();
        i32::try_from(digits).unwrap_or(i32::MAX) - self.scale
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

/// The floats below and above an integer; `None` if a float is that integer.
#[allow(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    reason = "the float is compared with the integer"
)]
fn around(integer: i128, floats: &DataType) -> Option<Neighbors> {
    // Infinity becomes the greatest integer of 128 bits.
    let order = |float: f64| (float as i128).cmp(&integer);
    match floats {
        DataType::Float64 => {
            let nearest = integer as f64;
            let value = |float| ScalarValue::Float64(Some(float));
            between(order(nearest), value(nearest.next_down()), value(nearest), value(nearest.next_up()))
        }
        DataType::Float32 => {
            let nearest = integer as f32;
            let value = |float| ScalarValue::Float32(Some(float));
            between(
                order(nearest.into()),
                value(nearest.next_down()),
                value(nearest),
                value(nearest.next_up()),
            )
        }
        DataType::Float16 => {
            let nearest = f16::from_f64(integer as f64);
            // The bits of positive floats ascend, those of negative ones descend.
            let step = |is_up: bool| match nearest.is_sign_negative() == is_up {
                true => f16::from_bits(nearest.to_bits().wrapping_sub(1)),
                false => f16::from_bits(nearest.to_bits().wrapping_add(1)),
            };
            let value = |float| ScalarValue::Float16(Some(float));
            between(order(nearest.into()), value(step(false)), value(nearest), value(step(true)))
        }
        _ => None,
    }
}

/// The two of three floats between which a number lies, of which the order to the second one is known.
fn between(order: Ordering, down: ScalarValue, nearest: ScalarValue, up: ScalarValue) -> Option<Neighbors> {
    match order {
        Ordering::Less => Some(Neighbors::Between(nearest, up)),
        Ordering::Equal => None,
        Ordering::Greater => Some(Neighbors::Between(down, nearest)),
    }
}
