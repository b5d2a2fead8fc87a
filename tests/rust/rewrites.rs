//! Rows of old fragments in new ones: same ids, versions and values, sorted, in few ranges.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Int32Type, Int64Type, UInt64Type};
use arrow_array::{ArrayRef, Int64Array, ListArray, RecordBatch, StringArray, StructArray};
use arrow_schema::Fields;
use arrow_select::concat::concat_batches;
use futures::TryStreamExt;
use pennon_core::manifest::{Flags, Fragment, LineageSource};
use pennon_core::rows::{RowIdSequence, VersionSequence};
use pennon_core::schema::Metadata;
use pennon_core::transaction::{Operation, Overwrite, Transaction};
use pennon_core::{ErrorKind, FieldId, FragmentId, Version};
use pennon_table::scan::{Projection, ScanOptions};
use pennon_table::{ConflictRetries, Dataset, TransactionOptions, WriteMode, WriteOptions, WrittenFragments};
use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use rand::{Rng, SeedableRng};

use crate::support::*;

/// Value, created at, last updated at of each row id.
type Model = BTreeMap<u64, (i64, u64, u64)>;

/// Text, a struct with nulls and a list, all made of `a`.
fn wide_batch(values: &[i64]) -> RecordBatch {
    let plain = batch(values.iter().copied());
    let x: Int64Array = values.iter().map(|v| (v % 3 != 0).then_some(v * 7)).collect();
    let tag: StringArray =
        values.iter().map(|v| Some("t".repeat(usize::try_from(v % 40).unwrap()))).collect();
    let members: Vec<(&str, ArrayRef)> = vec![("x", Arc::new(x)), ("tag", Arc::new(tag))];
    let fields: Fields =
        members.iter().map(|(n, c)| arrow_schema::Field::new(*n, c.data_type().clone(), true)).collect();
    let valid = values.iter().map(|v| v % 5 != 0).collect::<Vec<bool>>();
    let point = StructArray::new(fields, members.into_iter().map(|(_, c)| c).collect(), Some(valid.into()));
    let lists = values
        .iter()
        .map(|v| (v % 4 != 0).then(move || (0..v % 6).map(move |n| i32::try_from(v * n % 1000).ok())));
    let list = ListArray::from_iter_primitive::<Int32Type, _, _>(lists);
    let more: Vec<(&str, ArrayRef)> = vec![("point", Arc::new(point)), ("list", Arc::new(list))];
    let columns = plain.columns().iter().cloned().chain(more.iter().map(|(_, c)| Arc::clone(c))).collect();
    let plain_fields = plain.schema().fields().iter().map(|f| f.as_ref().clone()).collect::<Vec<_>>();
    let fields = plain_fields
        .into_iter()
        .chain(more.iter().map(|(n, c)| arrow_schema::Field::new(*n, c.data_type().clone(), true)));
    RecordBatch::try_new(Arc::new(arrow_schema::Schema::new(fields.collect::<Vec<_>>())), columns).unwrap()
}

/// All rows by id, and that their other columns are those of `a`.
async fn read(dataset: &Dataset) -> Model {
    let names =
        ["a", "name", "point", "list", "_rowid", "_row_created_at_version", "_row_last_updated_at_version"];
    let columns = Some(Projection::Names(names.map(str::to_owned).to_vec()));
    let scan = dataset.scan(&ScanOptions { columns, ..ScanOptions::default() }).unwrap();
    let schema = Arc::clone(scan.schema());
    let batches: Vec<RecordBatch> = scan.stream().try_collect().await.unwrap();
    let all = concat_batches(&schema, &batches).unwrap();
    let values = all.column(0).as_primitive::<Int64Type>().values().to_vec();
    let expected = wide_batch(&values);
    (0..4).for_each(|at| assert_eq!(all.column(at), expected.column(at), "column {at}"));
    let unsigned = |at: usize| all.column(at).as_primitive::<UInt64Type>().values().to_vec();
    let (ids, created, updated) = (unsigned(4), unsigned(5), unsigned(6));
    let rows = ids.iter().zip(values).zip(created.iter().zip(&updated));
    let model: Model = rows.map(|((id, value), (made, changed))| (*id, (value, *made, *changed))).collect();
    assert_eq!(model.len(), ids.len());
    model
}

async fn create_wide(uri: &str, values: &[i64], config: &[(&str, &str)], stable: bool) -> Dataset {
    let params = WriteOptions { max_rows_per_file: 90, ..params(WriteMode::Create) };
    let written = Dataset::write_new_fragments(uri, reader(wide_batch(values)), &params).await.unwrap();
    let config: Metadata = config.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
    let operation = Operation::Overwrite(Overwrite {
        fragments: written.fragments,
        schema: written.schema,
        config_upserts: Some(config),
        initial_bases: Vec::new(),
    });
    let transaction = Transaction {
        read_version: Version(0),
        uuid: uuid::Uuid::new_v4().to_string(),
        tag: String::new(),
        properties: Metadata::new(),
        operation,
    };
    let commit = TransactionOptions { create: layout(stable), ..TransactionOptions::default() };
    Dataset::commit(uri, transaction, commit).await.unwrap()
}

/// Some rows under their ids in a new fragment, in any order, as an update moves them.
async fn add_moved(dataset: &Dataset, model: &Model, ids: &[u64]) -> Dataset {
    let mut dataset = dataset.clone();
    let row = |id: &u64| model[id];
    let values: Vec<i64> = ids.iter().map(|id| row(id).0).collect();
    let written =
        dataset.write_fragments(reader(wide_batch(&values)), &params(WriteMode::Append)).await.unwrap();
    let mut fragments = written.fragments;
    let mut created = VersionSequence::default();
    ids.iter().for_each(|id| created.push(1, Version(row(id).1)));
    fragments[0].row_ids = Some(LineageSource::Inline(RowIdSequence::from_slice(ids).encode()));
    fragments[0].created_at = Some(LineageSource::Inline(created.encode()));
    dataset.commit_append(fragments, None, Metadata::new()).await.unwrap();
    dataset
}

async fn delete(dataset: &mut Dataset, values: &[i64]) {
    let list: Vec<String> = values.iter().map(i64::to_string).collect();
    dataset.delete(&format!("a IN ({})", list.join(", ")), ConflictRetries::default()).await.unwrap();
}

/// One random change of table and model.
async fn change(dataset: Dataset, model: &mut Model, dice: &mut StdRng, next: &mut i64) -> Dataset {
    let mut dataset = dataset;
    let mut live: Vec<u64> = model.keys().copied().collect();
    live.shuffle(dice);
    // A small table grows.
    let kind = if live.len() < 60 { 0 } else { dice.random_range(0..3) };
    match kind {
        0 => {
            let count = dice.random_range(1..150);
            let first = dataset.manifest().next_row_id;
            let values: Vec<i64> = (*next..*next + count).collect();
            *next += count;
            let rows = WriteOptions { max_rows_per_file: 90, ..params(WriteMode::Append) };
            dataset.insert(reader(wide_batch(&values)), rows).await.unwrap();
            let version = dataset.version().0;
            model.extend((first..).zip(values).map(|(id, value)| (id, (value, version, version))));
        }
        1 => {
            live.truncate(dice.random_range(1..60));
            let values: Vec<i64> = live.iter().filter_map(|id| model.remove(id)).map(|row| row.0).collect();
            delete(&mut dataset, &values).await;
        }
        _ => {
            live.truncate(dice.random_range(1..80));
            if dice.random_bool(0.5) {
                live.sort_unstable();
            }
            delete(&mut dataset, &live.iter().map(|id| model[id].0).collect::<Vec<_>>()).await;
            dataset = add_moved(&dataset, model, &live).await;
            let version = dataset.version().0;
            live.iter().for_each(|id| model.get_mut(id).unwrap().2 = version);
        }
    }
    dataset
}

fn encoded(source: &Option<LineageSource>) -> Option<usize> {
    match source {
        Some(LineageSource::Inline(bytes)) => Some(bytes.len()),
        _ => None,
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn random_histories_survive() {
    for seed in 0..8_u64 {
        let mut dice = StdRng::seed_from_u64(seed);
        let (_directory, uris) = uris(&format!("rewrites-{seed}"));
        let to_columns = seed % 2 == 1;
        let config = [
            ("lance.row_lineage.spill", if to_columns { "true" } else { "false" }),
            ("lance.row_lineage.inline_max_bytes", "20"),
        ];
        let mut dataset = create_wide(
            &uris[usize::try_from(seed / 2 % 2).unwrap()],
            &(0..200).collect::<Vec<_>>(),
            &config,
            true,
        )
        .await;
        let mut model: Model = (0..200).map(|id| (id, (i64::try_from(id).unwrap(), 1, 1))).collect();
        let mut next = 200;
        let mut with_columns = 0;
        for round in 0..3 {
            for _ in 0..6 {
                dataset = change(dataset, &mut model, &mut dice, &mut next).await;
            }
            assert_eq!(read(&dataset).await, model, "seed {seed}, round {round}");
            // Some of the fragments become the whole table.
            let mut chosen: Vec<FragmentId> =
                dataset.manifest().fragments.decode_all().map(|f| f.id).collect();
            chosen.shuffle(&mut dice);
            chosen.truncate(dice.random_range(1..=chosen.len()));
            let in_chosen = ScanOptions {
                with_row_id: true,
                fragments: Some(chosen.iter().map(|&id| id.into()).collect()),
                ..ScanOptions::default()
            };
            let batches: Vec<RecordBatch> =
                dataset.scan(&in_chosen).unwrap().stream().try_collect().await.unwrap();
            let kept: Vec<u64> = batches
                .iter()
                .flat_map(|b| {
                    b.column_by_name("_rowid").unwrap().as_primitive::<UInt64Type>().values().to_vec()
                })
                .collect();
            model.retain(|id, _| kept.contains(id));
            let rows = dice.random_range(20..300);
            let write = WriteOptions { max_rows_per_file: rows, ..params(WriteMode::Create) };
            let next_row_id = dataset.manifest().next_row_id;
            let written = dataset.rewrite_fragments(&chosen, &write).await.unwrap();
            assert_eq!(written.rows, u64::try_from(model.len()).unwrap());
            let (last, full) = written.fragments.split_last().unwrap();
            assert!(full.iter().all(|f| f.physical_rows == rows) && last.physical_rows <= rows);
            with_columns += written.fragments.iter().filter(|f| has_lineage_columns(f)).count();
            overwrite(&mut dataset, written).await;
            dataset.validate().await.unwrap();
            assert_eq!(read(&dataset).await, model, "seed {seed}, round {round}, rewritten");
            assert_eq!(dataset.manifest().next_row_id, next_row_id);
            let order: Vec<u64> = in_order(&dataset).await;
            assert!(order.is_sorted(), "seed {seed}: not in the order of ids");
            for fragment in dataset.manifest().fragments.decode_all() {
                check_storage(&fragment, to_columns);
            }
            let any = dataset.manifest().fragments.decode_all().any(|f| has_lineage_columns(&f));
            assert_eq!(dataset.manifest().reader_flags.contains(Flags::LINEAGE_COLUMNS), any);
            assert_eq!(dataset.manifest().writer_flags.contains(Flags::LINEAGE_COLUMNS), any);
        }
        assert_eq!(with_columns > 0, to_columns, "seed {seed}");
    }
}

/// Commits fragments as all that there is.
async fn overwrite(dataset: &mut Dataset, written: WrittenFragments) {
    let (uri, options) = (dataset.uri().to_owned(), TransactionOptions::default());
    let written = (written, Metadata::new());
    let done = Dataset::commit_new(&uri, written, WriteMode::Overwrite, None, Metadata::new(), options);
    *dataset = done.await.unwrap();
}

async fn in_order(dataset: &Dataset) -> Vec<u64> {
    let columns = Some(Projection::Names(vec!["_rowid".to_owned()]));
    let scan = dataset.scan(&ScanOptions { columns, ..ScanOptions::default() }).unwrap();
    let batches: Vec<RecordBatch> = scan.stream().try_collect().await.unwrap();
    batches.iter().flat_map(|b| b.column(0).as_primitive::<UInt64Type>().values().to_vec()).collect()
}

fn has_lineage_columns(fragment: &Fragment) -> bool {
    [&fragment.row_ids, &fragment.created_at, &fragment.last_updated_at]
        .contains(&&Some(LineageSource::Column))
}

/// What is larger than allowed is a column, everything else is not.
fn check_storage(fragment: &Fragment, to_columns: bool) {
    let fields = &fragment.files[0].fields;
    let sources = [
        (FieldId::ROW_ID, &fragment.row_ids),
        (FieldId::ROW_CREATED_AT, &fragment.created_at),
        (FieldId::ROW_LAST_UPDATED_AT, &fragment.last_updated_at),
    ];
    for (field, source) in sources {
        let inline = encoded(source);
        assert_eq!(fields.contains(&field), inline.is_none());
        assert!(inline.is_none_or(|bytes| !to_columns || bytes <= 20), "{inline:?} bytes stayed");
        assert!(to_columns || inline.is_some());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_of_a_whole_table_come_out_as_ranges() {
    let (_directory, [uri, _]) = uris("rewrite-ranges");
    let mut dataset = create_wide(&uri, &(0..1000).collect::<Vec<_>>(), &[], true).await;
    let mut model: Model = (0..1000).map(|id| (id, (i64::try_from(id).unwrap(), 1, 1))).collect();
    let mut dice = StdRng::seed_from_u64(7);
    for _ in 0..5 {
        let mut ids: Vec<u64> = (0..1000).collect();
        ids.shuffle(&mut dice);
        ids.truncate(100);
        delete(&mut dataset, &ids.iter().map(|id| model[id].0).collect::<Vec<_>>()).await;
        dataset = add_moved(&dataset, &model, &ids).await;
        let version = dataset.version().0;
        ids.iter().for_each(|id| model.get_mut(id).unwrap().2 = version);
    }
    let all: Vec<FragmentId> = dataset.manifest().fragments.decode_all().map(|f| f.id).collect();
    let params = WriteOptions { max_rows_per_file: 400, ..params(WriteMode::Create) };
    let written = dataset.rewrite_fragments(&all, &params).await.unwrap();
    let ids: Vec<RowIdSequence> =
        written.fragments.iter().map(|f| f.row_id_sequence().unwrap().unwrap()).collect();
    assert_eq!(ids, [0..400, 400..800, 800..1000].map(RowIdSequence::from_range));
    assert!(
        written
            .fragments
            .iter()
            .all(|f| encoded(&f.row_ids).unwrap() <= 12 && encoded(&f.created_at).unwrap() <= 16)
    );
    overwrite(&mut dataset, written).await;
    assert_eq!(read(&dataset).await, model);

    // Cut by bytes: the lineage follows the rows that were written.
    let small = WriteOptions { max_bytes_per_file: 20_000, max_page_bytes: Some(1000), ..params };
    let all: Vec<FragmentId> = dataset.manifest().fragments.decode_all().map(|f| f.id).collect();
    let written = dataset.rewrite_fragments(&all, &small).await.unwrap();
    assert!(written.fragments.len() > 3, "{} files", written.fragments.len());
    overwrite(&mut dataset, written).await;
    dataset.validate().await.unwrap();
    assert_eq!(read(&dataset).await, model);
    let nothing = dataset.rewrite_fragments(&[], &small).await.unwrap();
    assert_eq!((nothing.rows, nothing.fragments.len()), (0, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn tables_without_stable_ids_keep_the_order() {
    let (_directory, [uri, _]) = uris("rewrite-addresses");
    let mut dataset =
        create_wide(&uri, &(0..300).collect::<Vec<_>>(), &[("lance.row_lineage.spill", "true")], false).await;
    delete(&mut dataset, &(0..300).filter(|v| v % 3 == 1).collect::<Vec<_>>()).await;
    let params = WriteOptions { max_rows_per_file: 64, ..params(WriteMode::Create) };
    let order = [FragmentId(2), FragmentId(0), FragmentId(3)];
    let written = dataset.rewrite_fragments(&order, &params).await.unwrap();
    assert!(
        written
            .fragments
            .iter()
            .all(|f| f.row_ids.is_none() && f.created_at.is_none() && f.last_updated_at.is_none())
    );
    overwrite(&mut dataset, written).await;
    dataset.validate().await.unwrap();
    let scan = dataset.scan(&ScanOptions::default()).unwrap();
    let batches: Vec<RecordBatch> = scan.stream().try_collect().await.unwrap();
    let found: Vec<i64> =
        batches.iter().flat_map(|b| b.column(0).as_primitive::<Int64Type>().values().to_vec()).collect();
    let expected: Vec<i64> = (180..270).chain(0..90).chain(270..300).filter(|v| v % 3 != 1).collect();
    assert_eq!(found, expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn failures_leave_no_files() {
    let (directory, [uri, _]) = uris("rewrite-failures");
    let dataset = create_wide(&uri, &(0..500).collect::<Vec<_>>(), &[], true).await;
    let root = directory.path().join("table");
    let all: Vec<FragmentId> = dataset.manifest().fragments.decode_all().map(|f| f.id).collect();
    let small = WriteOptions { max_rows_per_file: 30, ..params(WriteMode::Create) };
    let unknown = dataset.rewrite_fragments(&[FragmentId(0), FragmentId(9)], &small).await.unwrap_err();
    assert_eq!(
        (unknown.kind(), unknown.to_string().as_str()),
        (ErrorKind::InvalidInput, "Fragment 9 is not in version 1")
    );
    let repeated = dataset.rewrite_fragments(&[FragmentId(0), FragmentId(0)], &small).await.unwrap_err();
    assert_eq!(repeated.kind(), ErrorKind::InvalidInput);
    // A row that lives twice.
    let model: Model = [(400, (400, 1, 1))].into();
    let doubled = add_moved(&dataset, &model, &[400]).await;
    let before = files(&root);
    let all_of_doubled: Vec<FragmentId> = doubled.manifest().fragments.decode_all().map(|f| f.id).collect();
    let error = doubled.rewrite_fragments(&all_of_doubled, &small).await.unwrap_err();
    assert_eq!(
        (error.kind(), error.to_string().as_str()),
        (ErrorKind::Corrupt, "two live rows have row id 400")
    );
    assert_eq!(files(&root), before);
    // The last file is gone: that shows when others were written.
    let last = &dataset.manifest().fragments.decode_all().next_back().unwrap().files[0].path;
    std::fs::remove_file(root.join("data").join(last)).unwrap();
    let before = files(&root);
    let version = pennon_table::VersionRef::Number(1);
    let fresh =
        Dataset::open(&uri, pennon_table::OpenOptions { version: Some(version), ..options() }).await.unwrap();
    let error = fresh.rewrite_fragments(&all, &small).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corrupt);
    assert_eq!(files(&root), before);
}

#[tokio::test(flavor = "multi_thread")]
async fn nonsense_in_the_config_is_named() {
    for (at, (key, value)) in [
        ("lance.row_lineage.spill", "yes"),
        ("lance.row_lineage.inline_max_bytes", "many"),
        ("lance.row_lineage.inline_max_bytes", "-1"),
    ]
    .into_iter()
    .enumerate()
    {
        let (_directory, [_, uri]) = uris(&format!("rewrite-config-{at}"));
        let config = [("lance.row_lineage.spill", "true"), (key, value)];
        let dataset = create_wide(&uri, &[1, 2, 3], &config, true).await;
        let error =
            dataset.rewrite_fragments(&[FragmentId(0)], &params(WriteMode::Create)).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput);
        assert!(error.to_string().contains(key) && error.to_string().contains(value), "{error}");
    }
}
