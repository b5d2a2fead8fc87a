//! What bounds of values say of tests: whether one of the values can pass.

use std::cmp::Ordering;

use pennon_datafile::statistics::{Bound, Zone};

use crate::ValueTest;

impl ValueTest {
    /// Whether the test can hold for one of the rows of a zone, which has so many.
    pub fn may_hold_in(&self, zone: &Zone, rows: u64) -> bool {
        match self {
            ValueTest::IsNull => return zone.nulls > 0,
            ValueTest::NotNull => return zone.nulls < rows,
            ValueTest::IsNan => return zone.has_nan,
            ValueTest::NotNan => return zone.bounds.is_some(),
            // NaN is above or, with its sign set, below everything else.
            _ if zone.has_nan => return true,
            _ => {}
        }
        let Some(bounds) = &zone.bounds else { return false };
        let (min, max) = (&bounds.min, bounds.max.as_ref());
        match self {
            ValueTest::IsNull | ValueTest::NotNull | ValueTest::IsNan | ValueTest::NotNan => true,
            ValueTest::Eq(v) => within(v, min, max),
            ValueTest::NotEq(v) => {
                !(is(min, v, Ordering::Equal) && max.is_some_and(|max| is(max, v, Ordering::Equal)))
            }
            ValueTest::Less(v) => !not_below(min, v),
            ValueTest::LessEq(v) => !is(min, v, Ordering::Greater),
            ValueTest::Greater(v) => max.is_none_or(|max| !not_above(max, v)),
            ValueTest::GreaterEq(v) => max.is_none_or(|max| !is(max, v, Ordering::Less)),
            ValueTest::OneOf(list) => {
                let first = list.partition_point(|v| is(v, min, Ordering::Less));
                list.get(first).is_some_and(|v| within(v, min, max))
            }
            ValueTest::NoneOf(list) => {
                let first = list.partition_point(|v| is(v, min, Ordering::Less));
                let is_only = |v: &Bound| {
                    is(min, v, Ordering::Equal) && max.is_some_and(|max| is(max, v, Ordering::Equal))
                };
                !list.get(first).is_some_and(is_only)
            }
            ValueTest::Prefix(prefix) => match (min, max) {
                (Bound::Bytes(min), max) => {
                    let reaches = match max {
                        Some(Bound::Bytes(max)) => max >= prefix,
                        _ => true,
                    };
                    reaches && (min <= prefix || min.starts_with(prefix))
                }
                _ => true,
            },
            ValueTest::Contains(_)
            | ValueTest::HasAny(_)
            | ValueTest::HasAll(_)
            | ValueTest::HasNone(_)
            | ValueTest::LacksOne(_) => true,
        }
    }
}

fn within(value: &Bound, min: &Bound, max: Option<&Bound>) -> bool {
    !is(value, min, Ordering::Less) && max.is_none_or(|max| !is(value, max, Ordering::Greater))
}

/// Whether two bounds compare so; false for bounds of different forms.
fn is(a: &Bound, b: &Bound, order: Ordering) -> bool {
    a.compare(b) == Some(order)
}

fn not_below(a: &Bound, b: &Bound) -> bool {
    a.compare(b).is_some_and(Ordering::is_ge)
}

fn not_above(a: &Bound, b: &Bound) -> bool {
    a.compare(b).is_some_and(Ordering::is_le)
}
