//! Which rows of a fragment a filter can match, from statistics and lineage, before any of them is read.
//!
//! | column | what is known |
//! |---|---|
//! | stored, with statistics | bounds of runs of rows (`pennon_datafile::statistics`) |
//! | stored in no file of the fragment | all rows are null |
//! | `_row_created_at_version`, `_row_last_updated_at_version` | runs of rows with one version |
//! | `_rowid`, `_rowaddr` | ascending numbers; ids in another order by their extremes |
//! | lineage in data columns | bounds of runs of rows, if they have statistics |
//!
//! The result is a superset of the rows for which the filter is true: what nothing is known of stays. Row sets are
//! physical rows.

use std::cmp::Ordering;

use pennon_core::Result;
use pennon_core::manifest::{Flags, Manifest};
use pennon_core::rows::RowRanges;
use pennon_core::schema::{Field, Schema};
use pennon_datafile::statistics::{Bound, ColumnStatistics};

use super::fragment::{FragmentReader, LeafFacts, SystemValues};
use super::system_columns::System;
use crate::expr::{Condition, Expression, ValueTest};

/// A filter's condition with its columns looked up.
#[derive(Debug)]
pub(super) struct Pruner {
    node: Node,
    /// Whether some lineage is column-backed.
    column_backed: bool,
}

#[derive(Debug)]
enum Node {
    All(Vec<Node>),
    Either(Vec<Node>),
    /// A leaf field, with the structs around it that lead to it.
    Stored(Field, ValueTest),
    System(System, ValueTest),
}

/// Rows that may match; `None` is all of them.
type Kept = Option<RowRanges>;

impl Pruner {
    /// What can be used of a filter, if anything.
    pub(super) fn new(filter: &Expression, manifest: &Manifest) -> Option<Self> {
        let column_backed = manifest.reader_flags.contains(Flags::LINEAGE_COLUMNS);
        node(filter.condition(), &manifest.schema).map(|node| Self { node, column_backed })
    }

    /// Whether statistics of files are needed.
    pub(super) fn opens_files(&self) -> bool {
        fn any(node: &Node, column_backed: bool) -> bool {
            match node {
                Node::All(parts) | Node::Either(parts) => parts.iter().any(|part| any(part, column_backed)),
                Node::Stored(..) => true,
                Node::System(..) => column_backed,
            }
        }
        any(&self.node, self.column_backed)
    }

    /// The rows of a fragment that may match; `None` if that is all. Blocks on the store.
    pub(super) fn kept(&self, fragment: &FragmentReader) -> Result<Kept> {
        kept(&self.node, fragment)
    }
}

fn node(condition: &Condition, schema: &Schema) -> Option<Node> {
    match condition {
        Condition::Any => None,
        Condition::All(parts) => {
            let mut parts: Vec<Node> = parts.iter().filter_map(|p| node(p, schema)).collect();
            // Lineage is at hand: where it leaves nothing, no file is opened.
            parts.sort_by_key(|p| !matches!(p, Node::System(..)));
            if parts.len() > 1 { Some(Node::All(parts)) } else { parts.pop() }
        }
        Condition::Either(parts) => {
            parts.iter().map(|p| node(p, schema)).collect::<Option<_>>().map(Node::Either)
        }
        // Bounds do not say what is in the middle of a text.
        Condition::Test(_, ValueTest::Contains(_)) => None,
        Condition::Test(path, test) => {
            let (first, rest) = path.split_first()?;
            match (schema.field(first), System::named(first)) {
                (Some(field), _) => Some(Node::Stored(along(field, rest)?, test.clone())),
                (None, Some(System::RowOffset) | None) => None,
                (None, Some(system)) => Some(Node::System(system, test.clone())),
            }
        }
    }
}

/// The field with only the members that lead to a leaf.
fn along(field: &Field, path: &[String]) -> Option<Field> {
    let Some((first, rest)) = path.split_first() else { return field.is_leaf().then(|| field.clone()) };
    let mut named = field.children.iter().filter(|c| c.name == *first);
    let member = along(named.next()?, rest)?;
    named.next().is_none().then(|| Field { children: vec![member], ..field.clone() })
}

fn kept(node: &Node, fragment: &FragmentReader) -> Result<Kept> {
    match node {
        Node::All(parts) => {
            let mut rows: Kept = None;
            for part in parts {
                rows = match (rows, kept(part, fragment)?) {
                    (Some(a), Some(b)) => Some(a.intersect(&b)),
                    (a, b) => a.or(b),
                };
                if rows.as_ref().is_some_and(RowRanges::is_empty) {
                    break;
                }
            }
            Ok(rows)
        }
        Node::Either(parts) => {
            let mut rows = RowRanges::new();
            for part in parts {
                match kept(part, fragment)? {
                    Some(more) => rows = rows.union(&more),
                    None => return Ok(None),
                }
            }
            Ok(Some(rows))
        }
        Node::Stored(field, test) => Ok(match fragment.facts_of(field)? {
            LeafFacts::Nothing => None,
            LeafFacts::AllNull => (*test != ValueTest::IsNull).then(RowRanges::new),
            LeafFacts::Statistics(statistics) => {
                Some(by_zone(&statistics, fragment.fragment.physical_rows, test))
            }
        }),
        Node::System(system, test) => system_rows(*system, test, fragment),
    }
}

fn by_zone(statistics: &ColumnStatistics, rows: u64, test: &ValueTest) -> RowRanges {
    let mut kept = RowRanges::new();
    let mut start = 0_u64;
    for zone in &statistics.zones {
        let end = start.saturating_add(statistics.zone_rows).min(rows);
        if test.may_hold_in(zone, end - start) {
            kept.insert(start..end);
        }
        start = end;
    }
    kept
}

fn system_rows(system: System, test: &ValueTest, fragment: &FragmentReader) -> Result<Kept> {
    // Ids and addresses of deleted rows, where those are shown, are null.
    if matches!(test, ValueTest::IsNull | ValueTest::NotNull) {
        return Ok(None);
    }
    let rows = fragment.fragment.physical_rows;
    let all = |is_true: bool| if is_true { None } else { Some(RowRanges::new()) };
    Ok(match fragment.system_values(system)? {
        SystemValues::Unknown => None,
        SystemValues::Constant(value) => all(is_true_for(test, value)),
        SystemValues::Statistics(statistics) => Some(by_zone(&statistics, rows, test)),
        SystemValues::Runs(runs) => {
            let kept = runs.runs().filter(|(_, version)| is_true_for(test, version.0));
            Some(kept.map(|(span, _)| span).collect())
        }
        SystemValues::From(first) => match test {
            ValueTest::OneOf(list) => {
                let offsets = list.iter().filter_map(number).filter_map(|v| v.checked_sub(first));
                Some(offsets.filter(|&offset| offset < rows).collect())
            }
            _ => interval(test).map(|(low, high)| {
                let start = low.saturating_sub(first).min(rows);
                let end = high.map_or(0, |high| high.saturating_add(1).saturating_sub(first)).min(rows);
                RowRanges::from(start..end)
            }),
        },
        SystemValues::Ids(ids) => {
            let position = |v: &Bound| ids.position(pennon_core::RowId(number(v)?));
            match test {
                ValueTest::OneOf(list) => Some(list.iter().filter_map(position).collect()),
                ValueTest::Eq(value) => Some(position(value).into_iter().collect()),
                _ => match interval(test) {
                    None => None,
                    Some((low, high)) => {
                        let outside = ids
                            .min_max()
                            .is_none_or(|(min, max)| max < low || high.is_none_or(|high| min > high));
                        if outside {
                            Some(RowRanges::new())
                        } else if ids.ascends() {
                            let below = |end: u64| first_at_least(rows, |at| ids.get(at).map(|id| id.0), end);
                            let start = below(low);
                            let end = high.map_or(0, |high| high.checked_add(1).map_or(rows, below));
                            Some(RowRanges::from(start..end))
                        } else {
                            None
                        }
                    }
                },
            }
        }
    })
}

/// The first position, of ascending values, whose value is not below a limit.
fn first_at_least(len: u64, value: impl Fn(u64) -> Option<u64>, limit: u64) -> u64 {
    let (mut low, mut high) = (0, len);
    while low < high {
        let middle = low + (high - low) / 2;
        if value(middle).is_some_and(|v| v < limit) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    low
}

/// Whether a test that is not about null holds for a number.
fn is_true_for(test: &ValueTest, value: u64) -> bool {
    let value = Bound::Int(value.into());
    let order = |bound: &Bound| value.compare(bound);
    let below = |list: &[Bound]| list.partition_point(|v| order(v).is_some_and(Ordering::is_gt));
    match test {
        ValueTest::IsNull | ValueTest::IsNan => false,
        ValueTest::NotNull | ValueTest::NotNan | ValueTest::Prefix(_) | ValueTest::Contains(_) => true,
        ValueTest::HasAny(_) | ValueTest::HasAll(_) | ValueTest::HasNone(_) | ValueTest::LacksOne(_) => true,
        ValueTest::Eq(v) => order(v).is_none_or(Ordering::is_eq),
        ValueTest::NotEq(v) => order(v).is_none_or(Ordering::is_ne),
        ValueTest::Less(v) => order(v).is_none_or(Ordering::is_lt),
        ValueTest::LessEq(v) => order(v).is_none_or(Ordering::is_le),
        ValueTest::Greater(v) => order(v).is_none_or(Ordering::is_gt),
        ValueTest::GreaterEq(v) => order(v).is_none_or(Ordering::is_ge),
        ValueTest::OneOf(list) => list.get(below(list)).is_some_and(|v| order(v).is_none_or(Ordering::is_eq)),
        ValueTest::NoneOf(list) => list.get(below(list)).is_none_or(|v| order(v).is_none_or(Ordering::is_ne)),
    }
}

pub(super) fn number(bound: &Bound) -> Option<u64> {
    match bound {
        Bound::Int(value) => u64::try_from(*value).ok(),
        _ => None,
    }
}

/// The numbers for which a test holds: the smallest and the largest, which is `None` if there is no number at all.
/// `None` for a test that no interval describes.
pub(super) fn interval(test: &ValueTest) -> Option<(u64, Option<u64>)> {
    let value = |bound: &Bound| number(bound);
    Some(match test {
        ValueTest::Eq(v) => (value(v)?, value(v)),
        ValueTest::Less(v) => (0, value(v)?.checked_sub(1)),
        ValueTest::LessEq(v) => (0, Some(value(v)?)),
        ValueTest::Greater(v) => match value(v)?.checked_add(1) {
            Some(low) => (low, Some(u64::MAX)),
            None => (u64::MAX, None),
        },
        ValueTest::GreaterEq(v) => (value(v)?, Some(u64::MAX)),
        ValueTest::IsNull
        | ValueTest::NotNull
        | ValueTest::IsNan
        | ValueTest::NotNan
        | ValueTest::NotEq(_)
        | ValueTest::OneOf(_)
        | ValueTest::NoneOf(_)
        | ValueTest::Prefix(_)
        | ValueTest::Contains(_)
        | ValueTest::HasAny(_)
        | ValueTest::HasAll(_)
        | ValueTest::HasNone(_)
        | ValueTest::LacksOne(_) => return None,
    })
}

#[cfg(test)]
mod tests {
    use pennon_datafile::statistics::{Bounds, Zone};

    use super::*;

    fn may_hold(test: &ValueTest, zone: &Zone, rows: u64) -> bool {
        test.may_hold_in(zone, rows)
    }

    /// Zones of small integers against all rows they can have.
    #[test]
    fn a_zone_is_kept_if_one_of_its_values_passes() {
        let int = |v: i128| Bound::Int(v);
        let passes = |test: &ValueTest, v: i128| match test {
            ValueTest::IsNull => false,
            ValueTest::NotNull | ValueTest::Prefix(_) => true,
            ValueTest::Eq(b) => int(v) == *b,
            ValueTest::NotEq(b) => int(v) != *b,
            ValueTest::Less(Bound::Int(b)) => v < *b,
            ValueTest::LessEq(Bound::Int(b)) => v <= *b,
            ValueTest::Greater(Bound::Int(b)) => v > *b,
            ValueTest::GreaterEq(Bound::Int(b)) => v >= *b,
            ValueTest::OneOf(list) => list.contains(&int(v)),
            ValueTest::NoneOf(list) => !list.contains(&int(v)),
            other => unreachable!("{other:?}"),
        };
        for (min, max) in (0..5).flat_map(|min| (min..5).map(move |max| (min, max))) {
            let bounds = Bounds { min: int(min), max: Some(int(max)) };
            let zone = Zone { nulls: 1, has_nan: false, bounds: Some(bounds) };
            for v in -1..6 {
                let list = vec![int(v), int(v + 3)];
                let lists = [ValueTest::OneOf(list.clone()), ValueTest::NoneOf(list), ValueTest::NotNull];
                let tests = [
                    ValueTest::Eq,
                    ValueTest::NotEq,
                    ValueTest::Less,
                    ValueTest::LessEq,
                    ValueTest::Greater,
                    ValueTest::GreaterEq,
                ];
                for test in tests.into_iter().map(|t| t(int(v))).chain(lists) {
                    for n in 0..8_u64 {
                        assert_eq!(is_true_for(&test, n), passes(&test, n.into()), "{test:?} {n}");
                    }
                    // All values between the bounds: the zone is kept exactly if one passes.
                    assert_eq!(
                        may_hold(&test, &zone, 9),
                        (min..=max).any(|v| passes(&test, v)),
                        "{test:?} {min}..={max}"
                    );
                    if let Some((low, high)) = interval(&test).filter(|_| v >= 0) {
                        for n in 0..8_u64 {
                            let inside = n >= low && high.is_some_and(|high| n <= high);
                            assert_eq!(inside, passes(&test, n.into()), "{test:?} {n}");
                            assert_eq!(inside, is_true_for(&test, n));
                        }
                    }
                }
            }
            assert!(may_hold(&ValueTest::IsNull, &zone, 9));
        }
        let empty = Zone { nulls: 9, ..Zone::default() };
        assert!(!may_hold(&ValueTest::Eq(int(0)), &empty, 9) && !may_hold(&ValueTest::NotNull, &empty, 9));
        let nan = Zone { has_nan: true, ..Zone::default() };
        assert!(may_hold(&ValueTest::IsNan, &nan, 9) && !may_hold(&ValueTest::NotNan, &nan, 9));
        let bounds = Bounds { min: Bound::Float(1.0), max: Some(Bound::Float(1.0)) };
        let finite = Zone { bounds: Some(bounds), ..Zone::default() };
        assert!(!may_hold(&ValueTest::IsNan, &finite, 9) && may_hold(&ValueTest::NotNan, &finite, 9));
        assert!(
            may_hold(&ValueTest::Greater(Bound::Float(1.0)), &nan, 9)
                && !may_hold(&ValueTest::IsNull, &nan, 9)
        );
    }

    #[test]
    fn a_bound_that_is_no_number_of_rows_leaves_nothing_out() {
        for bound in [Bound::Int(1 << 70), Bound::Int(-1), Bound::Float(2.5)] {
            let tests =
                [ValueTest::Eq, ValueTest::Less, ValueTest::LessEq, ValueTest::Greater, ValueTest::GreaterEq];
            for test in tests.map(|test| test(bound.clone())) {
                assert_eq!(interval(&test), None, "{test:?}");
            }
        }
    }

    #[test]
    fn prefixes() {
        let bytes = |s: &str| Bound::Bytes(s.as_bytes().to_vec());
        let zone = |min: &str, max: Option<&str>| Zone {
            bounds: Some(Bounds { min: bytes(min), max: max.map(bytes) }),
            ..Zone::default()
        };
        let kept = |prefix: &str, zone: &Zone| may_hold(&ValueTest::Prefix(prefix.into()), zone, 1);
        let fruits = zone("banana", Some("melon"));
        for (prefix, expected) in [("b", true), ("ba", true), ("a", false), ("bb", true), ("m", true)]
            .into_iter()
            .chain([("melon", true), ("melons", false), ("n", false), ("", true), ("banana", true)])
        {
            assert_eq!(kept(prefix, &fruits), expected, "{prefix}");
        }
        assert!(kept("zz", &zone("banana", None)) && !kept("a", &zone("banana", None)));
    }
}
