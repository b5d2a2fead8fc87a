//! Tests as intervals of ascending values: where the values lie that pass.

use std::cmp::Ordering;
use std::ops::Bound as End;

use pennon_datafile::statistics::Bound;

use crate::ValueTest;
use crate::values::Value;

/// Values that lie together in the order of an index.
#[derive(Debug, Clone)]
pub(crate) struct Interval {
    pub(crate) low: End<Bound>,
    pub(crate) high: End<Bound>,
}

/// The values that pass a test.
#[derive(Debug, Clone)]
pub(crate) enum Passing {
    /// Those in these intervals, which ascend and do not overlap.
    Inside(Vec<Interval>),
    /// Nulls.
    Nulls,
    /// All that are neither null nor in these intervals.
    Outside(Vec<Interval>),
}

impl Interval {
    fn point(value: &Bound) -> Self {
        Self { low: End::Included(value.clone()), high: End::Included(value.clone()) }
    }

    /// The values in both; `None` if there can be none.
    fn intersection(&self, other: &Self) -> Option<Self> {
        let low = if is_tighter(&self.low, &other.low, Ordering::Greater) { &self.low } else { &other.low };
        let high = if is_tighter(&self.high, &other.high, Ordering::Less) { &self.high } else { &other.high };
        let order = match (low, high) {
            (End::Unbounded, _) | (_, End::Unbounded) => Ordering::Less,
            (End::Included(low) | End::Excluded(low), End::Included(high) | End::Excluded(high)) => {
                low.compare(high)?
            }
        };
        let is_possible = match order {
            Ordering::Less => true,
            Ordering::Equal => matches!((low, high), (End::Included(_), End::Included(_))),
            Ordering::Greater => false,
        };
        is_possible.then(|| Self { low: low.clone(), high: high.clone() })
    }

    /// Whether a value lies before the interval.
    pub(crate) fn is_above(&self, value: &Value<'_>) -> bool {
        match &self.low {
            End::Unbounded => false,
            End::Included(low) => value.compare(&low.into()) == Ordering::Less,
            End::Excluded(low) => value.compare(&low.into()) != Ordering::Greater,
        }
    }

    /// Whether a value lies behind the interval.
    pub(crate) fn is_below(&self, value: &Value<'_>) -> bool {
        match &self.high {
            End::Unbounded => false,
            End::Included(high) => value.compare(&high.into()) == Ordering::Greater,
            End::Excluded(high) => value.compare(&high.into()) != Ordering::Less,
        }
    }
}

/// Whether an end leaves out more than another one: its value has this order to that of the other one, or is excluded.
fn is_tighter(a: &End<Bound>, b: &End<Bound>, order: Ordering) -> bool {
    match (a, b) {
        (End::Unbounded, _) => false,
        (_, End::Unbounded) => true,
        (End::Included(mine) | End::Excluded(mine), End::Included(theirs) | End::Excluded(theirs)) => {
            match mine.compare(theirs) {
                Some(Ordering::Equal) => matches!(a, End::Excluded(_)),
                found => found == Some(order),
            }
        }
    }
}

/// The values that pass; `None` for tests that no intervals describe.
pub(crate) fn passing(test: &ValueTest) -> Option<Passing> {
    let interval = |low, high| Some(Passing::Inside(vec![Interval { low, high }]));
    let infinity = Bound::Float(f64::INFINITY);
    let lowest = Bound::Float(f64::NEG_INFINITY);
    match test {
        ValueTest::IsNull => Some(Passing::Nulls),
        ValueTest::NotNull => Some(Passing::Outside(Vec::new())),
        // By its sign a NaN lies below or above all numbers.
        ValueTest::IsNan => {
            let below = Interval { low: End::Unbounded, high: End::Excluded(lowest) };
            let above = Interval { low: End::Excluded(infinity), high: End::Unbounded };
            Some(Passing::Inside(vec![below, above]))
        }
        ValueTest::NotNan => interval(End::Included(lowest), End::Included(infinity)),
        ValueTest::Eq(value) => Some(Passing::Inside(vec![Interval::point(value)])),
        ValueTest::NotEq(value) => Some(Passing::Outside(vec![Interval::point(value)])),
        ValueTest::Less(value) => interval(End::Unbounded, End::Excluded(value.clone())),
        ValueTest::LessEq(value) => interval(End::Unbounded, End::Included(value.clone())),
        ValueTest::Greater(value) => interval(End::Excluded(value.clone()), End::Unbounded),
        ValueTest::GreaterEq(value) => interval(End::Included(value.clone()), End::Unbounded),
        ValueTest::OneOf(values) => {
            let mut values: Vec<&Bound> = values.iter().collect();
            // By their order: -0.0 and 0.0 are equal otherwise.
            values.dedup_by(|a, b| a.compare(b) == Some(Ordering::Equal));
            Some(Passing::Inside(values.into_iter().map(Interval::point).collect()))
        }
        ValueTest::Prefix(prefix) => {
            let high = after(prefix).map_or(End::Unbounded, |next| End::Excluded(Bound::Bytes(next)));
            interval(End::Included(Bound::Bytes(prefix.clone())), high)
        }
        ValueTest::Contains(_)
        | ValueTest::HasAny(_)
        | ValueTest::HasAll(_)
        | ValueTest::HasNone(_)
        | ValueTest::LacksOne(_) => None,
    }
}

/// The values that pass all of some tests; `None` if no intervals describe those of several.
pub(crate) fn passing_all(tests: &[&ValueTest]) -> Option<Passing> {
    let (first, rest) = tests.split_first()?;
    let mut all = passing(first)?;
    for test in rest {
        let (Passing::Inside(before), Passing::Inside(more)) = (all, passing(test)?) else { return None };
        let both = before.iter().flat_map(|a| more.iter().filter_map(|b| a.intersection(b)));
        all = Passing::Inside(both.collect());
    }
    Some(all)
}

/// The first bytes behind all that begin with a prefix; `None` if there are none.
fn after(prefix: &[u8]) -> Option<Vec<u8>> {
    let last = prefix.iter().rposition(|byte| *byte < u8::MAX)?;
    let mut next = prefix.get(..=last)?.to_vec();
    if let Some(byte) = next.last_mut() {
        *byte += 1;
    }
    Some(next)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn passes(test: &ValueTest, value: &Value<'_>) -> bool {
        let inside =
            |intervals: &[Interval]| intervals.iter().any(|i| !i.is_above(value) && !i.is_below(value));
        match passing(test).unwrap() {
            Passing::Inside(intervals) => inside(&intervals),
            Passing::Outside(intervals) => !inside(&intervals),
            Passing::Nulls => false,
        }
    }

    #[test]
    fn prefixes_end_where_the_next_one_begins() {
        let starts = |prefix: &[u8], text: &[u8]| {
            assert_eq!(
                passes(&ValueTest::Prefix(prefix.to_vec()), &Value::Bytes(text)),
                text.starts_with(prefix),
                "{prefix:?} {text:?}"
            );
        };
        let texts: [&[u8]; 7] = [b"", b"a", b"ab", b"b", &[255], &[255, 255], &[97, 255, 3]];
        for prefix in texts {
            texts.iter().for_each(|text| starts(prefix, text));
        }
    }

    #[test]
    fn nan_lies_beyond_infinity_with_its_sign() {
        for value in [f64::NAN, -f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -0.0, 0.0, 1.5] {
            assert_eq!(passes(&ValueTest::IsNan, &Value::Float(value)), value.is_nan());
            assert_eq!(passes(&ValueTest::NotNan, &Value::Float(value)), !value.is_nan());
        }
        assert!(passes(&ValueTest::Less(Bound::Float(0.0)), &Value::Float(-f64::NAN)));
        assert!(passes(&ValueTest::Greater(Bound::Float(0.0)), &Value::Float(f64::NAN)));
    }
}
