//! Scans and takes against a list of rows, over random tables, deletions and options.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Int32Type, Int64Type, UInt64Type};
use arrow_array::{Array, ArrayRef, Int32Array, Int64Array, RecordBatch, StringArray, StructArray};
use arrow_buffer::NullBuffer;
use arrow_schema::{DataType, Field, Fields, Schema};
use futures::TryStreamExt;
use pennon_core::{ErrorKind, RowAddress, RowId};
use pennon_table::scan::{
    Projection, Scan, ScanOptions, TakeOptions, TakeRows, matches, table_predicate, take,
};
use pennon_table::{ConflictRetries, Dataset, WriteMode, WriteOptions};

use crate::support::{layout, params, reader};

/// A row as it was written, and where it went.
#[derive(Debug, Clone, PartialEq)]
struct Row {
    id: i64,
    s: Option<String>,
    a: Option<i64>,
    row_id: u64,
    address: u64,
    created: u64,
}

/// A row as a scan with all system columns shows it.
#[derive(Debug, Clone, PartialEq)]
struct ScannedRow {
    row: Row,
    offset: u64,
    deleted: bool,
}

struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % end
    }

    fn maybe(&mut self, end: u64) -> Option<u64> {
        (self.below(2) == 0).then(|| self.below(end))
    }
}

/// The table, the live rows, and all rows of fragments that still exist.
struct Model {
    dataset: Dataset,
    all: Vec<ScannedRow>,
}

impl Model {
    fn live(&self) -> Vec<&ScannedRow> {
        self.all.iter().filter(|r| !r.deleted).collect()
    }
}

fn batch(random: &mut Random, rows: u64) -> RecordBatch {
    let ids: Int64Array = (0..rows).map(|_| Some(i64::try_from(random.below(100)).unwrap())).collect();
    let texts: StringArray =
        (0..rows).map(|_| Some(random.below(20)).filter(|x| *x > 3).map(|x| format!("s{x}"))).collect();
    let inner: Vec<Option<i64>> = (0..rows)
        .map(|_| Some(random.below(20)).filter(|x| *x > 3).map(|x| i64::try_from(x).unwrap()))
        .collect();
    let fields =
        Fields::from(vec![Field::new("a", DataType::Int64, true), Field::new("b", DataType::Int32, true)]);
    let b: Int32Array = (0..rows).map(|i| i32::try_from(i).ok()).collect();
    let columns: Vec<ArrayRef> =
        vec![Arc::new(inner.iter().map(|v| v.or(Some(77))).collect::<Int64Array>()), Arc::new(b)];
    let nulls = NullBuffer::from_iter(inner.iter().map(Option::is_some));
    let st = StructArray::new(fields.clone(), columns, Some(nulls));
    let schema = Schema::new(vec![
        Field::new("id", DataType::Int64, true),
        Field::new("s", DataType::Utf8, true),
        Field::new("st", DataType::Struct(fields), true),
    ]);
    RecordBatch::try_new(Arc::new(schema), vec![Arc::new(ids), Arc::new(texts), Arc::new(st)]).unwrap()
}

async fn table(random: &mut Random, name: &str, stable: bool) -> Model {
    let uri = format!("memory://scan-{name}/table");
    let mut fragments: Vec<Vec<ScannedRow>> = Vec::new();
    let mut next_id = 0;
    let mut dataset = None;
    for version in 1..=1 + random.below(5) {
        let rows = 1 + random.below(40);
        let data = batch(random, rows);
        let mode = if version == 1 { WriteMode::Create } else { WriteMode::Append };
        let params = WriteOptions { create: layout(stable), ..params(mode) };
        let written = Dataset::write(reader(data.clone()), &uri, params).await.unwrap();
        let fragment = u32::try_from(version - 1).unwrap();
        let scanned = plain(&data).into_iter().zip(0..).map(|((id, s, a), at)| {
            let address = RowAddress::new(fragment.into(), at).0;
            let (row_id, created) = if stable { (next_id + u64::from(at), version) } else { (address, 1) };
            ScannedRow { row: Row { id, s, a, row_id, address, created }, offset: 0, deleted: false }
        });
        fragments.push(scanned.collect());
        next_id += rows;
        dataset = Some(written);
    }
    let mut dataset = dataset.unwrap();
    for _ in 0..random.below(3) {
        let (divisor, rest) =
            (i64::try_from(2 + random.below(6)).unwrap(), i64::try_from(random.below(3)).unwrap());
        dataset.delete(&format!("id % {divisor} = {rest}"), ConflictRetries::default()).await.unwrap();
        fragments.iter_mut().flatten().for_each(|r| r.deleted |= r.row.id % divisor == rest);
    }
    let mut live = 0;
    let mut all: Vec<ScannedRow> =
        fragments.into_iter().filter(|f| f.iter().any(|r| !r.deleted)).flatten().collect();
    for row in &mut all {
        row.offset = live;
        live += u64::from(!row.deleted);
    }
    Model { dataset, all }
}

fn plain(batch: &RecordBatch) -> Vec<(i64, Option<String>, Option<i64>)> {
    let ids = batch.column_by_name("id").unwrap().as_primitive::<Int64Type>();
    let texts = batch.column_by_name("s").unwrap().as_string::<i32>();
    let st = batch.column_by_name("st").unwrap().as_struct();
    let a = st.column(0).as_primitive::<Int64Type>();
    let row = |i| {
        let s = texts.is_valid(i).then(|| texts.value(i).to_owned());
        (ids.value(i), s, st.is_valid(i).then(|| a.value(i)))
    };
    (0..batch.num_rows()).map(row).collect()
}

const COLUMNS: [&str; 7] = ["id", "_rowoffset", "st.a", "s", "_rowid", "_row_created_at_version", "_rowaddr"];

fn columns() -> Option<Projection> {
    Some(Projection::Names(COLUMNS.map(String::from).to_vec()))
}

/// What a batch of [`COLUMNS`] shows; of a deleted row neither id nor address.
fn scanned(batch: &RecordBatch) -> Vec<ScannedRow> {
    let number = |name: &str, i: usize| {
        let column = batch.column_by_name(name).unwrap().as_primitive::<UInt64Type>();
        column.is_valid(i).then(|| column.value(i))
    };
    let texts = batch.column_by_name("s").unwrap().as_string::<i32>();
    let a = batch.column_by_name("st.a").unwrap().as_primitive::<Int64Type>();
    let row = |i| ScannedRow {
        row: Row {
            id: batch.column_by_name("id").unwrap().as_primitive::<Int64Type>().value(i),
            s: texts.is_valid(i).then(|| texts.value(i).to_owned()),
            a: a.is_valid(i).then(|| a.value(i)),
            row_id: number("_rowid", i).unwrap_or(u64::MAX),
            address: number("_rowaddr", i).unwrap_or(u64::MAX),
            created: number("_row_created_at_version", i).unwrap(),
        },
        offset: number("_rowoffset", i).unwrap(),
        deleted: number("_rowid", i).is_none(),
    };
    (0..batch.num_rows()).map(row).collect()
}

/// What [`scanned`] makes of a row of the model.
fn shown(row: &ScannedRow) -> ScannedRow {
    let mut row = row.clone();
    if row.deleted {
        (row.row.row_id, row.row.address) = (u64::MAX, u64::MAX);
    }
    row
}

type Filter = (Option<&'static str>, fn(&ScannedRow) -> bool);

const FILTERS: [Filter; 15] = [
    (None, |_| true),
    (Some("id < 50"), |r| r.row.id < 50),
    (Some("id < 3"), |r| r.row.id < 3),
    (Some("s is null or st.a > 10"), |r| r.row.s.is_none() || r.row.a.is_some_and(|a| a > 10)),
    (Some("_rowid < 20"), |r| r.row.row_id < 20 && !r.deleted),
    (Some("_row_created_at_version = 2 and id > 3"), |r| r.row.created == 2 && r.row.id > 3),
    (Some("_rowid in (3, 17, 21, 22, 4294967299)"), |r| {
        [3, 17, 21, 22, 4_294_967_299].contains(&r.row.row_id) && !r.deleted
    }),
    (Some("_rowid between 5 and 40"), |r| (5..=40).contains(&r.row.row_id) && !r.deleted),
    (Some("_rowaddr > 4294967300 and _rowid <> 30"), |r| {
        r.row.address > 4_294_967_300 && r.row.row_id != 30 && !r.deleted
    }),
    (Some("_row_last_updated_at_version > 2"), |r| r.row.created > 2),
    (Some("not (_row_created_at_version > 1) or id = 4"), |r| r.row.created <= 1 || r.row.id == 4),
    (Some("_row_created_at_version in (2, 4) and _rowid = 7"), |r| {
        [2, 4].contains(&r.row.created) && r.row.row_id == 7 && !r.deleted
    }),
    (Some("true"), |_| true),
    (Some("1 = 2"), |_| false),
    (Some("_rowoffset % 7 = 0"), |r| r.offset % 7 == 0),
];

async fn batches(scan: Scan) -> Vec<RecordBatch> {
    scan.stream().try_collect().await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn scans_and_takes_match_a_list_of_rows() {
    let mut random = Random(88_172_645_463_325_252);
    for round in 0..60 {
        let stable = random.below(2) == 0;
        let model = table(&mut random, &format!("model-{round}"), stable).await;
        for _ in 0..10 {
            check_scan(&mut random, &model).await;
        }
        check_takes(&mut random, &model, stable).await;
    }
}

async fn check_scan(random: &mut Random, model: &Model) {
    let (sql, keeps) = FILTERS[usize::try_from(random.below(15)).unwrap()];
    let options = ScanOptions {
        columns: columns(),
        filter: sql.map(Into::into),
        limit: random.maybe(60),
        offset: random.maybe(50),
        batch_size: random.maybe(30).map(|n| usize::try_from(n).unwrap() + 1),
        strict_batch_size: random.below(3) == 0,
        include_deleted_rows: random.below(4) == 0,
        ..ScanOptions::default()
    };
    let (skip, rows) = (options.offset.unwrap_or(0), options.limit.unwrap_or(10_000));
    let expected: Vec<ScannedRow> = model
        .all
        .iter()
        .filter(|r| (options.include_deleted_rows || !r.deleted) && keeps(r))
        .skip(usize::try_from(skip).unwrap())
        .take(usize::try_from(rows).unwrap())
        .map(shown)
        .collect();
    let scan = model.dataset.scan(&options).unwrap();
    assert_eq!(scan.schema().fields().iter().map(|f| f.name().as_str()).collect::<Vec<_>>(), COLUMNS);
    let found = batches(scan).await;
    let size = options.batch_size.unwrap_or(8192);
    assert!(found.iter().all(|b| (1..=size).contains(&b.num_rows())));
    if options.strict_batch_size {
        assert!(found.iter().rev().skip(1).all(|b| b.num_rows() == size));
    }
    assert_eq!(found.iter().flat_map(scanned).collect::<Vec<_>>(), expected, "{options:?}");
    let counted = model.dataset.scan(&options).unwrap().count().await.unwrap();
    assert_eq!(counted, u64::try_from(expected.len()).unwrap(), "{options:?}");
    if let Some(sql) = sql {
        let snapshot = model.dataset.snapshot();
        let predicate = table_predicate(snapshot, sql).unwrap();
        let found = matches(Arc::clone(snapshot), None, predicate, false).await.unwrap();
        let found: Vec<u64> =
            found.iter().flat_map(|(f, rows)| rows.iter().map(|o| RowAddress::new(*f, o).0)).collect();
        let expected: Vec<u64> = model.live().iter().filter(|r| keeps(r)).map(|r| r.row.address).collect();
        assert_eq!(found, expected, "{sql}");
    }
}

async fn check_takes(random: &mut Random, model: &Model, stable: bool) {
    let live = model.live();
    let snapshot = || Arc::clone(model.dataset.snapshot());
    let options = TakeOptions { columns: columns(), ..TakeOptions::default() };
    for wanted in [0, 1, 5, 40] {
        if live.is_empty() {
            break;
        }
        let end = u64::try_from(live.len()).unwrap();
        let positions: Vec<u64> = (0..wanted).map(|_| random.below(end)).collect();
        let expected: Vec<ScannedRow> =
            positions.iter().map(|p| live[usize::try_from(*p).unwrap()].clone()).collect();
        let addresses = expected.iter().map(|r| RowAddress(r.row.address)).collect();
        let ids = expected.iter().map(|r| RowId(r.row.row_id)).collect();
        for rows in [TakeRows::Positions(positions), TakeRows::Addresses(addresses), TakeRows::Ids(ids)] {
            let found = take(snapshot(), rows.clone(), &options).await.unwrap();
            assert_eq!(scanned(&found), expected, "{rows:?}");
        }
    }
    let past = u64::try_from(live.len()).unwrap();
    for rows in [TakeRows::Positions(vec![past]), TakeRows::Addresses(vec![RowAddress::new(99.into(), 0)])] {
        let error = take(snapshot(), rows, &options).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput);
        assert!(error.to_string().contains("belongs to non-existent fragment"), "{error}");
    }
    if stable {
        let everyone =
            take(snapshot(), TakeRows::Ids((0..300).map(RowId).collect()), &options).await.unwrap();
        assert_eq!(scanned(&everyone), live.iter().map(|r| (*r).clone()).collect::<Vec<_>>());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn unordered_scans_give_the_same_rows() {
    let mut random = Random(7);
    let model = table(&mut random, "unordered", true).await;
    let options =
        ScanOptions { columns: columns(), unordered: true, batch_size: Some(3), ..ScanOptions::default() };
    let mut found: Vec<ScannedRow> =
        batches(model.dataset.scan(&options).unwrap()).await.iter().flat_map(scanned).collect();
    found.sort_by_key(|r| r.offset);
    assert_eq!(found, model.live().into_iter().cloned().collect::<Vec<_>>());
}

#[tokio::test(flavor = "multi_thread")]
async fn columns_are_placed_named_and_computed() {
    let mut random = Random(5);
    let model = table(&mut random, "columns", true).await;
    let names = |list: &[&str]| Some(Projection::Names(list.iter().map(ToString::to_string).collect()));
    let of = |options: ScanOptions| model.dataset.scan(&options).map(|scan| Arc::clone(scan.schema()));
    let with = |columns| ScanOptions { columns, ..ScanOptions::default() };
    let list = |options: ScanOptions| {
        of(options).unwrap().fields().iter().map(|f| f.name().clone()).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(list(with(None)), "id s st");
    assert_eq!(list(with(names(&["st", "st.a", "`st`.b", "_rowid"]))), "st st.a `st`.b _rowid");
    let both = ScanOptions { with_row_id: true, with_row_address: true, ..ScanOptions::default() };
    assert_eq!(list(ScanOptions { columns: names(&["_rowid", "s"]), ..both.clone() }), "s _rowid _rowaddr");
    assert_eq!(list(ScanOptions { columns: names(&[]), ..both }), "_rowid _rowaddr");
    for (asked, text) in [
        (&["id", "id"][..], "Duplicate column name: id"),
        (&["ID"], "No field named ID"),
        (&["st.nope"], "No field named st.nope"),
        (&["nope"], "No field named nope"),
    ] {
        let error = of(with(names(asked))).unwrap_err();
        assert!(error.kind() == ErrorKind::InvalidInput && error.to_string().contains(text), "{error}");
    }
    let expressions = [("x", "id + 1"), ("k", "'text'"), ("b", "st.b"), ("id", "s")];
    let expressions = expressions.map(|(name, sql)| (name.to_owned(), sql.to_owned())).to_vec();
    let options = ScanOptions {
        columns: Some(Projection::Expressions(expressions)),
        filter: Some("id > 10".into()),
        ..ScanOptions::default()
    };
    let live: Vec<&ScannedRow> = model.live().into_iter().filter(|r| r.row.id > 10).collect();
    let found = batches(model.dataset.scan(&options).unwrap()).await;
    let mut at = 0;
    for batch in &found {
        assert_eq!(batch.num_columns(), 4);
        let b = batch.column_by_name("b").unwrap().as_primitive::<Int32Type>();
        for i in 0..batch.num_rows() {
            let row = &live[at].row;
            assert_eq!(batch.column(0).as_primitive::<Int64Type>().value(i), row.id + 1);
            assert_eq!(batch.column(1).as_string::<i32>().value(i), "text");
            assert_eq!(b.is_valid(i), row.a.is_some());
            let s = batch.column(3).as_string::<i32>();
            assert_eq!(s.is_valid(i).then(|| s.value(i)), row.s.as_deref());
            at += 1;
        }
    }
    assert_eq!(at, live.len());
}

#[tokio::test(flavor = "multi_thread")]
async fn wrong_options_are_refused() {
    let mut random = Random(11);
    let model = table(&mut random, "wrong", true).await;
    let base = ScanOptions::default;
    for (options, text) in [
        (
            ScanOptions { include_deleted_rows: true, ..base() },
            "include_deleted_rows is set but with_row_id is false",
        ),
        (ScanOptions { batch_size: Some(0), ..base() }, "batch_size must be between 1"),
        (
            ScanOptions { fragments: Some(vec![pennon_core::FragmentId(99).into()]), ..base() },
            "Fragment 99 is not in version",
        ),
        (ScanOptions { filter: Some("id".into()), ..base() }, "The filter id does not return a boolean"),
        (ScanOptions { filter: Some("id >".into()), ..base() }, "Error parsing statement"),
        (ScanOptions { filter: Some("nope > 1".into()), ..base() }, "No field named nope"),
    ] {
        let error = model.dataset.scan(&options).unwrap_err();
        assert!(error.kind() == ErrorKind::InvalidInput && error.to_string().contains(text), "{error}");
    }
}
