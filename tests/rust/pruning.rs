//! Filters with and without statistics against a plain reading of the predicate, over random tables and predicates.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{ArrayRef, BooleanArray, Float64Array, Int64Array, RecordBatch, StringArray, StructArray};
use arrow_buffer::NullBuffer;
use arrow_schema::{DataType, Field, Fields};
use futures::TryStreamExt;
use pennon_table::scan::{Projection, ScanOptions, matches, table_predicate};
use pennon_table::{ConflictRetries, Dataset, WriteMode, WriteOptions};

use crate::support::{layout, params, reader};

struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> i64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        i64::try_from(self.0 % end).unwrap()
    }

    fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        of[usize::try_from(self.below(of.len() as u64)).unwrap()]
    }
}

#[derive(Debug, Clone, PartialEq)]
enum Value {
    Int(i64),
    Float(f64),
    Text(String),
    Bool(bool),
}

impl Value {
    /// SQL's order: zeros are equal, NaN is above everything.
    fn compare(&self, other: &Self) -> std::cmp::Ordering {
        match (self, other) {
            (Self::Int(a), Self::Int(b)) => a.cmp(b),
            (Self::Float(a), Self::Float(b)) => (a + 0.0).total_cmp(&(b + 0.0)),
            (Self::Text(a), Self::Text(b)) => a.cmp(b),
            (Self::Bool(a), Self::Bool(b)) => a.cmp(b),
            _ => unreachable!("columns are compared with literals of their type"),
        }
    }

    fn sql(&self) -> String {
        match self {
            Self::Int(v) => v.to_string(),
            Self::Float(v) => format!("cast('{v}' as double)"),
            Self::Text(v) => format!("'{v}'"),
            Self::Bool(v) => v.to_string(),
        }
    }
}

const COLUMNS: [&str; 6] = ["i", "f", "s", "b", "st.m", "r"];

/// Values of [`COLUMNS`]; the position of the row is the last.
type Row = [Option<Value>; 6];

#[derive(Debug, Clone)]
enum Predicate {
    Compare(usize, &'static str, Value),
    Between(usize, bool, Value, Value),
    In(usize, bool, Vec<Value>),
    IsNull(usize, bool),
    Prefix(bool, String),
    Not(Box<Predicate>),
    And(Box<Predicate>, Box<Predicate>),
    Or(Box<Predicate>, Box<Predicate>),
    /// `(i + 1) % 3 = 0`, of which nothing is known.
    Opaque,
}

impl Predicate {
    fn random(random: &mut Random, depth: u64) -> Self {
        if depth > 0 && random.below(2) == 0 {
            let mut inner = || Box::new(Self::random(random, depth - 1));
            let (a, b) = (inner(), inner());
            return match random.below(5) {
                0 => Self::Not(a),
                1 | 2 => Self::And(a, b),
                _ => Self::Or(a, b),
            };
        }
        let column = usize::try_from(random.below(6)).unwrap();
        match random.below(12) {
            0 => Self::IsNull(column, random.below(2) == 0),
            1 => {
                Self::Between(column, random.below(3) == 0, literal(random, column), literal(random, column))
            }
            2 => {
                let list = (0..1 + random.below(6)).map(|_| literal(random, column)).collect();
                Self::In(column, random.below(4) == 0, list)
            }
            3 => {
                let prefix = random.pick(&["k", "k00", "k0001", "zzz", "", "k9", "same", "samesame"]);
                Self::Prefix(random.below(2) == 0, prefix.to_owned())
            }
            4 if depth > 0 => Self::Opaque,
            _ => Self::Compare(
                column,
                random.pick(&["=", "<>", "<", "<=", ">", ">="]),
                literal(random, column),
            ),
        }
    }

    fn sql(&self) -> String {
        let not = |negated: &bool| if *negated { "not " } else { "" };
        match self {
            Self::Compare(c, op, v) => format!("{} {op} {}", COLUMNS[*c], v.sql()),
            Self::Between(c, n, low, high) => {
                format!("{} {}between {} and {}", COLUMNS[*c], not(n), low.sql(), high.sql())
            }
            Self::In(c, n, list) => {
                let list: Vec<String> = list.iter().map(Value::sql).collect();
                format!("{} {}in ({})", COLUMNS[*c], not(n), list.join(", "))
            }
            Self::IsNull(c, n) => format!("{} is {}null", COLUMNS[*c], not(n)),
            Self::Prefix(true, p) => format!("s like '{p}%'"),
            Self::Prefix(false, p) => format!("starts_with(s, '{p}')"),
            Self::Not(a) => format!("not ({})", a.sql()),
            Self::And(a, b) => format!("({}) and ({})", a.sql(), b.sql()),
            Self::Or(a, b) => format!("({}) or ({})", a.sql(), b.sql()),
            Self::Opaque => "(i + 1) % 3 = 0".to_owned(),
        }
    }

    /// `None` is SQL's unknown.
    fn matches(&self, row: &Row) -> Option<bool> {
        use std::cmp::Ordering::{Equal, Greater, Less};
        Some(match self {
            Self::Compare(c, op, v) => {
                let order = row[*c].as_ref()?.compare(v);
                match *op {
                    "=" => order == Equal,
                    "<>" => order != Equal,
                    "<" => order == Less,
                    "<=" => order != Greater,
                    ">" => order == Greater,
                    _ => order != Less,
                }
            }
            Self::Between(c, n, low, high) => {
                let v = row[*c].as_ref()?;
                (v.compare(low).is_ge() && v.compare(high).is_le()) != *n
            }
            Self::In(c, n, list) => {
                let v = row[*c].as_ref()?;
                list.iter().any(|other| v.compare(other).is_eq()) != *n
            }
            Self::IsNull(c, n) => row[*c].is_none() != *n,
            Self::Prefix(_, p) => match row[2].as_ref()? {
                Value::Text(text) => text.starts_with(p),
                _ => false,
            },
            Self::Not(a) => !a.matches(row)?,
            Self::And(a, b) => match (a.matches(row), b.matches(row)) {
                (Some(false), _) | (_, Some(false)) => false,
                (a, b) => a? && b?,
            },
            Self::Or(a, b) => match (a.matches(row), b.matches(row)) {
                (Some(true), _) | (_, Some(true)) => true,
                (a, b) => a? || b?,
            },
            Self::Opaque => match row[0].as_ref()? {
                Value::Int(v) => (v + 1) % 3 == 0,
                _ => false,
            },
        })
    }
}

fn literal(random: &mut Random, column: usize) -> Value {
    match column {
        1 => Value::Float(random.pick(&[0.0, -0.0, 1.5, -7.0, 3000.0, f64::INFINITY, f64::NAN, 12_345.0])),
        2 => match random.below(4) {
            0 => Value::Text("same".repeat(usize::try_from(random.below(25)).unwrap())),
            _ => Value::Text(format!("k{:05}", random.below(50_000))),
        },
        3 => Value::Bool(random.below(2) == 0),
        _ => Value::Int(random.below(50_000) - 100),
    }
}

/// Rows whose values follow their position here and there, with nulls, NaN and zeros of both signs.
fn rows(random: &mut Random, from: i64, count: i64) -> Vec<Row> {
    let ordered = random.below(2) == 0;
    (from..from + count)
        .map(|at| {
            // Some sections are all null, some never.
            let section = at / 5000 % 4;
            let mut null = |column: i64| section == column || random.below(50) == 0;
            let nulls = [null(0), null(1), null(2), null(3), null(0), null(1)];
            let key = if ordered { at } else { random.below(50_000) };
            let float = match random.below(9000) {
                0 => f64::NAN,
                1 => f64::INFINITY,
                2..40 => -0.0,
                _ if section == 3 => 0.0,
                _ => key as f64,
            };
            let text = match random.below(3000) {
                0 => "same".repeat(20),
                1 => String::new(),
                _ => format!("k{key:05}"),
            };
            let values = [
                Value::Int(key),
                Value::Float(float),
                Value::Text(text),
                Value::Bool(section == 1 || random.below(100) == 0),
                Value::Int(key / 3),
                Value::Int(random.below(1 << 50)),
            ];
            let mut row = values.map(Some);
            row.iter_mut().zip(nulls).for_each(|(v, null)| *v = v.take().filter(|_| !null));
            row
        })
        .collect()
}

fn batch(rows: &[Row], from: i64) -> RecordBatch {
    let int = |c: usize| {
        rows.iter()
            .map(|r| if let Some(Value::Int(v)) = &r[c] { Some(*v) } else { None })
            .collect::<Int64Array>()
    };
    let float = |r: &Row| if let Some(Value::Float(v)) = &r[1] { Some(*v) } else { None };
    let text = |r: &Row| if let Some(Value::Text(v)) = &r[2] { Some(v.clone()) } else { None };
    let flag = |r: &Row| if let Some(Value::Bool(v)) = &r[3] { Some(*v) } else { None };
    // Nulls of the member are nulls of the struct, every other one; what is below them is not null.
    let member = int(4);
    let outer: NullBuffer = member.iter().enumerate().map(|(at, v)| v.is_some() || at % 2 == 0).collect();
    let inner: Int64Array =
        member.iter().enumerate().map(|(at, v)| if at % 2 == 1 { v.or(Some(7)) } else { v }).collect();
    let members = Fields::from(vec![Field::new("m", DataType::Int64, true)]);
    let st = StructArray::new(members, vec![Arc::new(inner)], Some(outer));
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("at", Arc::new((from..).take(rows.len()).map(Some).collect::<Int64Array>())),
        ("i", Arc::new(int(0))),
        ("f", Arc::new(rows.iter().map(float).collect::<Float64Array>())),
        ("s", Arc::new(rows.iter().map(text).collect::<StringArray>())),
        ("b", Arc::new(rows.iter().map(flag).collect::<BooleanArray>())),
        ("st", Arc::new(st)),
        ("r", Arc::new(int(5))),
    ];
    RecordBatch::try_from_iter_with_nullable(columns.into_iter().map(|(n, a)| (n, a, true))).unwrap()
}

async fn found(dataset: &Dataset, sql: &str, ignore_statistics: bool) -> Vec<i64> {
    let options = ScanOptions {
        columns: Some(Projection::Names(vec!["at".to_owned()])),
        filter: Some(sql.into()),
        ignore_statistics,
        ..ScanOptions::default()
    };
    let counted = dataset.scan(&options).unwrap().count().await.unwrap();
    let batches: Vec<RecordBatch> = dataset.scan(&options).unwrap().stream().try_collect().await.unwrap();
    let rows: Vec<i64> =
        batches.iter().flat_map(|b| b.column(0).as_primitive::<Int64Type>().values().to_vec()).collect();
    assert_eq!(counted, rows.len() as u64, "{sql}");
    rows
}

#[tokio::test(flavor = "multi_thread")]
async fn pruning_changes_no_result() {
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    for round in 0..4 {
        let uri = format!("memory://pruning-{round}/table");
        let mut all: Vec<Row> = Vec::new();
        let mut dataset = None;
        for mode in [WriteMode::Create, WriteMode::Append] {
            let from = i64::try_from(all.len()).unwrap();
            let count = 20_000 + random.pick(&[0, 4000, 8192 * 2]);
            let more = rows(&mut random, from, count);
            let params = WriteOptions { create: layout(round % 2 == 0), ..params(mode) };
            dataset = Some(Dataset::write(reader(batch(&more, from)), &uri, params).await.unwrap());
            all.extend(more);
        }
        let mut dataset = dataset.unwrap();
        let mut deleted = vec![false; all.len()];
        if round > 1 {
            let gone = Predicate::random(&mut random, 1);
            dataset.delete(&gone.sql(), ConflictRetries::default()).await.unwrap();
            for (row, deleted) in all.iter().zip(&mut deleted) {
                *deleted = gone.matches(row) == Some(true);
            }
        }
        for _ in 0..50 {
            let predicate = Predicate::random(&mut random, 3);
            let sql = predicate.sql();
            let expected: Vec<i64> = (0..)
                .zip(all.iter().zip(&deleted))
                .filter(|(_, (row, deleted))| !**deleted && predicate.matches(row) == Some(true))
                .map(|(at, _)| at)
                .collect();
            assert_eq!(found(&dataset, &sql, false).await, expected, "{sql}");
            assert_eq!(found(&dataset, &sql, true).await, expected, "{sql}");
            let snapshot = dataset.snapshot();
            let predicate = table_predicate(snapshot, &sql).unwrap();
            let matching = matches(Arc::clone(snapshot), None, predicate, false).await.unwrap();
            let matching: u64 = matching.values().map(|rows| rows.len()).sum();
            assert_eq!(matching, expected.len() as u64, "{sql}");
        }
    }
}
