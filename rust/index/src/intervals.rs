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
        ValueTest::OneOf(values) => Some(Passing::Inside(points(values))),
        ValueTest::NoneOf(values) => Some(Passing::Outside(points(values))),
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

/// The values that pass all of some tests; `None` if no intervals describe those of one.
pub(crate) fn passing_all(tests: &[&ValueTest]) -> Option<Passing> {
    let mut all = tests.iter().map(|test| passing(test)).collect::<Option<Vec<_>>>()?;
    // The shortest first: a long list is walked once, not once for each other test.
    all.sort_by_key(Passing::len);
    all.into_iter().reduce(Passing::and)
}

impl Passing {
    fn len(&self) -> usize {
        match self {
            Self::Inside(intervals) | Self::Outside(intervals) => intervals.len(),
            Self::Nulls => 0,
        }
    }

    /// The values that pass both.
    fn and(self, other: Self) -> Self {
        match (self, other) {
            (Self::Nulls, Self::Nulls) => Self::Nulls,
            (Self::Nulls, _) | (_, Self::Nulls) => Self::Inside(Vec::new()),
            (Self::Outside(none), other) | (other, Self::Outside(none)) if none.is_empty() => other,
            (a, b) => Self::Inside(intersection(&a.inside(), &b.inside())),
        }
    }

    /// The intervals in which the values lie that pass, if these are not nulls.
    fn inside(self) -> Vec<Interval> {
        match self {
            Self::Inside(intervals) => intervals,
            Self::Outside(intervals) => gaps(&intervals),
            Self::Nulls => Vec::new(),
        }
    }
}

/// An interval for each of some values, which ascend.
fn points(values: &[Bound]) -> Vec<Interval> {
    let mut values: Vec<&Bound> = values.iter().collect();
    // By their order: -0.0 and 0.0 are equal otherwise.
    values.dedup_by(|a, b| a.compare(b) == Some(Ordering::Equal));
    values.into_iter().map(Interval::point).collect()
}

/// The values in one of some intervals and in one of others; each ascend and do not overlap.
fn intersection(left: &[Interval], right: &[Interval]) -> Vec<Interval> {
    let mut both = Vec::new();
    let (mut left, mut right) = (left.iter().peekable(), right.iter().peekable());
    while let (Some(a), Some(b)) = (left.peek(), right.peek()) {
        both.extend(a.intersection(b));
        // What ends first has no value in common with those behind the other one.
        let first = if is_tighter(&a.high, &b.high, Ordering::Less) { &mut left } else { &mut right };
        first.next();
    }
    both
}

/// The intervals before, between and behind others, which ascend and do not overlap.
fn gaps(intervals: &[Interval]) -> Vec<Interval> {
    let other_side = |end: &End<Bound>| match end {
        End::Included(value) => Some(End::Excluded(value.clone())),
        End::Excluded(value) => Some(End::Included(value.clone())),
        End::Unbounded => None,
    };
    let mut gaps = Vec::with_capacity(intervals.len() + 1);
    let mut start = Some(End::Unbounded);
    for interval in intervals {
        let gap = start.zip(other_side(&interval.low));
        gaps.extend(gap.map(|(low, high)| Interval { low, high }));
        start = other_side(&interval.high);
    }
    gaps.extend(start.map(|low| Interval { low, high: End::Unbounded }));
    gaps
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
    fn long_lists_are_walked_once() {
        let list = |step: i128| (0..200_000).map(|at| Bound::Int(at * step)).collect::<Vec<_>>();
        let (twos, threes) = (ValueTest::OneOf(list(2)), ValueTest::OneOf(list(3)));
        let fives = ValueTest::NoneOf(list(5));
        let below = ValueTest::Less(Bound::Int(30_000));
        let tests = [&fives, &twos, &threes, &below];
        let Some(Passing::Inside(found)) = passing_all(&tests) else { panic!("of intervals") };
        // Multiples of six that are none of thirty; all pairs of intervals would take minutes.
        assert_eq!(found.len(), 4000);
        assert!(!found.iter().any(|found| found.is_above(&Value::Int(6)) && found.is_below(&Value::Int(6))));
        let Some(Passing::Inside(found)) = passing_all(&[&fives, &ValueTest::IsNull]) else {
            panic!("of intervals")
        };
        assert!(found.is_empty());
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
