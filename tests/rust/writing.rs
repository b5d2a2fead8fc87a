//! Create, append, overwrite; cutting into fragments; what is left after a failure.

use std::sync::Arc;

use arrow_array::{Int64Array, RecordBatch, RecordBatchIterator};
use arrow_schema::{ArrowError, DataType, Field, Schema};
use pennon_core::ErrorKind;
use pennon_core::transaction::Operation;
use pennon_table::write::COMMIT_MESSAGE;
use pennon_table::{CommitOptions, CreateOptions, Dataset, WriteMode, WriteOptions, WrittenFragments};

use crate::support::*;

#[tokio::test(flavor = "multi_thread")]
async fn create_append_overwrite() {
    let (_directory, uris) = uris("writing");
    for uri in &uris {
        let first = create(uri, 0..3).await;
        assert_eq!((first.version().0, first.uri()), (1, uri.as_str()));
        let error = Dataset::write(rows(0..1), uri, params(WriteMode::Create)).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::AlreadyExists);
        assert!(error.to_string().starts_with("Dataset already exists: "), "{error}");
        let mut second = append(uri, 3..5).await.unwrap();
        assert_eq!(
            by_id(&second).await.into_iter().collect::<Vec<_>>(),
            [(0, 0), (1, 1), (2, 2), (3, 3), (4, 4)]
        );
        second.insert(rows([9]), params(WriteMode::Overwrite)).await.unwrap();
        assert_eq!(second.version().0, 3);
        // Ids go on after an overwrite.
        assert_eq!(by_id(&second).await.into_iter().collect::<Vec<_>>(), [(5, 9)]);
        assert_eq!(values(&first).await, [0, 1, 2]);
        assert_eq!(second.latest_version().await.unwrap().0, 3);
        open(uri).await.validate().await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn appending_to_nothing_creates() {
    let (_directory, uris) = uris("absent");
    for uri in &uris {
        assert_eq!(append(uri, 0..2).await.unwrap().version().0, 1);
        let empty = append(uri, []).await.unwrap();
        assert_eq!((empty.version().0, empty.count_rows(None).await.unwrap()), (2, 2));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn fragments_are_cut_by_rows_and_bytes() {
    let (_directory, [uri, memory]) = uris("cut");
    let dataset = create_cut(&uri, 0..10, 4).await;
    let rows: Vec<u64> = dataset.manifest().fragments.decode_all().map(|f| f.physical_rows).collect();
    assert_eq!(rows, [4, 4, 2]);
    assert_eq!(values(&dataset).await, (0..10).collect::<Vec<_>>());
    let schema = batch(0..1).schema();
    let batches = (0..4).map(|i| Ok(batch(i * 100..i * 100 + 100)));
    let data = Box::new(RecordBatchIterator::new(batches, schema));
    let params = WriteOptions { max_bytes_per_file: 1, ..params(WriteMode::Create) };
    let dataset = Dataset::write(data, &memory, params).await.unwrap();
    assert_eq!(dataset.manifest().fragments.len(), 4);
    dataset.validate().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn columns_may_be_missing_and_in_any_order() {
    let (_directory, uris) = uris("columns");
    for uri in &uris {
        let mut dataset = create(uri, 0..2).await;
        let names = batch([7]).project(&[1, 0]).unwrap();
        dataset.insert(reader(names), params(WriteMode::Append)).await.unwrap();
        let only_a = batch([8]).project(&[0]).unwrap();
        dataset.insert(reader(only_a), params(WriteMode::Append)).await.unwrap();
        assert_eq!(values(&dataset).await, [0, 1, 7, 8]);
        assert_eq!(dataset.count_rows(Some("name is null")).await.unwrap(), 1);
        dataset.validate().await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn other_schemas_are_refused() {
    let (directory, [uri, _]) = uris("schema");
    let mut dataset = create(&uri, 0..2).await;
    let before = files(directory.path());
    for data in [other("b", DataType::Int64), other("a", DataType::Utf8)] {
        let error = dataset.insert(data, params(WriteMode::Append)).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::SchemaMismatch);
        assert!(error.to_string().starts_with("Append with different schema: "), "{error}");
    }
    assert_eq!((dataset.version().0, files(directory.path())), (1, before));
}

#[tokio::test(flavor = "multi_thread")]
async fn failed_writes_leave_nothing() {
    let (directory, [uri, _]) = uris("failed");
    let mut dataset = create(&uri, 0..2).await;
    let before = files(directory.path());
    let schema = batch(0..1).schema();
    let batches = [Ok(batch(0..10)), Err(ArrowError::ComputeError("the source broke".into()))];
    let data = Box::new(RecordBatchIterator::new(batches, schema));
    let cut = WriteOptions { max_rows_per_file: 3, ..params(WriteMode::Append) };
    let error = dataset.insert(data, cut.clone()).await.unwrap_err();
    assert!(error.to_string().contains("the source broke"), "{error}");
    assert_eq!(files(directory.path()), before);

    let field = Field::new("a", DataType::Int64, false);
    let required = Arc::new(Schema::new(vec![field.clone()]));
    let nullable = Arc::new(Schema::new(vec![field.with_nullable(true)]));
    let uri = format!("{uri}-2");
    let column = Arc::new(Int64Array::from(vec![1, 2]));
    let mut dataset = Dataset::write(
        reader(RecordBatch::try_new(required, vec![column]).unwrap()),
        &uri,
        params(WriteMode::Create),
    )
    .await
    .unwrap();
    let nulls =
        RecordBatch::try_new(nullable, vec![Arc::new(Int64Array::from(vec![Some(1), None]))]).unwrap();
    let before = files(directory.path());
    dataset.insert(reader(nulls), params(WriteMode::Append)).await.unwrap_err();
    assert_eq!(files(directory.path()), before);
}

#[tokio::test(flavor = "multi_thread")]
async fn durable_writes_and_messages() {
    let (_directory, uris) = uris("durable");
    for uri in &uris {
        let params = WriteOptions {
            commit: CommitOptions::default(),
            commit_message: Some("first".into()),
            properties: [("k".to_owned(), "v".to_owned())].into(),
            uuid: Some("11111111-2222-3333-4444-555555555555".into()),
            ..WriteOptions::default()
        };
        let mut dataset = Dataset::write(rows(0..3), uri, params).await.unwrap();
        dataset.delete("a = 1", Default::default()).await.unwrap();
        let transaction = dataset.read_transaction(1.into()).await.unwrap().unwrap();
        assert_eq!(transaction.uuid, "11111111-2222-3333-4444-555555555555");
        assert_eq!(transaction.properties.get(COMMIT_MESSAGE).map(String::as_str), Some("first"));
        assert_eq!(transaction.properties.get("k").map(String::as_str), Some("v"));
        assert!(matches!(transaction.operation, Operation::Overwrite(_)));
        let recent = dataset.get_transactions(5).await.unwrap();
        let names: Vec<_> = recent.iter().map(|t| t.as_ref().unwrap().operation.name()).collect();
        assert_eq!(names, ["Delete", "Overwrite"]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn older_names_and_no_stable_ids() {
    let (directory, [uri, _]) = uris("v1");
    let params = WriteOptions {
        create: CreateOptions { enable_v2_manifest_paths: false, ..layout(false) },
        ..params(WriteMode::Create)
    };
    Dataset::write(rows(0..3), &uri, params).await.unwrap();
    let mut dataset = append(&uri, 3..5).await.unwrap();
    dataset.delete("a = 4", Default::default()).await.unwrap();
    for number in 1..=3 {
        assert!(directory.path().join(format!("table/_versions/{number}.manifest")).exists());
    }
    assert!(!dataset.manifest().has_stable_row_ids());
    let dataset = open(&uri).await;
    assert_eq!((dataset.version().0, values(&dataset).await), (3, vec![0, 1, 2, 3]));
    dataset.validate().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn workers_write_and_one_commits() {
    let (_directory, uris) = uris("workers");
    for uri in &uris {
        let uuid = || Some("aaaaaaaa-2222-3333-4444-555555555555".to_owned());
        let options = params(WriteMode::Create);
        let mut all = WrittenFragments::empty(&batch([]).schema(), None).unwrap();
        for worker in 0..3 {
            let data = rows(worker * 10..worker * 10 + 5);
            let written = Dataset::write_new_fragments(uri, data, &options).await.unwrap();
            assert_eq!(written.rows, 5);
            all.extend(WrittenFragments::decode(written.encode().into()).unwrap()).unwrap();
        }
        let commit = transaction_options();
        for _ in 0..2 {
            let written = all.clone();
            let mode = WriteMode::Overwrite;
            let dataset = Dataset::commit_new(
                uri,
                (written, Default::default()),
                mode,
                uuid(),
                Default::default(),
                commit.clone(),
            )
            .await
            .unwrap();
            assert_eq!((dataset.version().0, dataset.count_rows(None).await.unwrap()), (1, 15));
        }
        let base = open(uri).await;
        let written = base.write_fragments(rows(100..102), &options).await.unwrap();
        append(uri, 200..201).await.unwrap();
        for _ in 0..2 {
            let uuid = Some("bbbbbbbb-2222-3333-4444-555555555555".to_owned());
            let mut dataset = base.clone();
            dataset.commit_append(written.fragments.clone(), uuid, Default::default()).await.unwrap();
            assert_eq!((dataset.version().0, dataset.count_rows(None).await.unwrap()), (3, 18));
        }
        open(uri).await.validate().await.unwrap();
        let error = WrittenFragments::decode(vec![1, 2, 3].into()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corrupt);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn many_fragments_fit_into_the_descriptors() {
    let (_directory, [uri, _]) = uris("descriptors");
    let dataset = create_cut(&uri, 0..1500, 1).await;
    assert_eq!(dataset.manifest().fragments.len(), 1500);
    for _ in 0..2 {
        assert_eq!(values(&open(&uri).await).await.len(), 1500);
    }
}
