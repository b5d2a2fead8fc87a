use std::fs;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{Int32Array, Int64Array, RecordBatch, StringArray};
use bytes::Bytes;
use futures::TryStreamExt;
use pennon_core::ErrorKind;

use super::*;
use crate::store::StorageOptions;

fn batch(start: i64, rows: i64) -> RecordBatch {
    let ids = Int64Array::from_iter_values(start..start + rows);
    let texts = StringArray::from_iter_values((start..start + rows).map(|i| format!("row {i}")));
    RecordBatch::try_from_iter([("id", Arc::new(ids) as _), ("text", Arc::new(texts) as _)]).unwrap()
}

async fn open(uri: &str, columns: Option<&[String]>) -> pennon_core::Result<DataFileReader> {
    DataFileReader::open(uri, columns, &StorageOptions::new()).await
}

async fn ids(reader: &DataFileReader, rows: FileRows, batch_size: usize) -> (Vec<usize>, Vec<i64>) {
    let batches: Vec<RecordBatch> = reader.batches(rows, batch_size, 4).unwrap().try_collect().await.unwrap();
    let sizes = batches.iter().map(RecordBatch::num_rows).collect();
    let ids =
        batches.iter().flat_map(|b| b.column(0).as_primitive::<Int64Type>().values().to_vec()).collect();
    (sizes, ids)
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_written_is_read() {
    let directory = tempfile::tempdir().unwrap();
    let local = format!("{}/a b/x.lance", directory.path().display());
    for uri in [local.as_str(), "memory://standalone/x.lance"] {
        let writer = DataFileWriter::create(uri, None, FileWriteParams::default()).await.unwrap();
        writer.add_schema_metadata("k".into(), "v".into()).unwrap();
        assert_eq!(writer.add_global_buffer(Bytes::from_static(b"early")).await.unwrap(), 1);
        writer.write(batch(0, 700)).await.unwrap();
        assert_eq!(writer.add_global_buffer(Bytes::from_static(b"")).await.unwrap(), 2);
        assert_eq!(open(uri, None).await.unwrap_err().kind(), ErrorKind::NotFound);
        writer.write(batch(700, 300)).await.unwrap();
        let summary = writer.finish().await.unwrap();
        assert_eq!(writer.finish().await.unwrap_err().kind(), ErrorKind::InvalidInput);

        let reader = open(uri, None).await.unwrap();
        assert_eq!((summary.rows, summary.size), (1000, reader.metadata().size));
        assert_eq!(reader.schema().metadata()["k"], "v");
        assert_eq!(reader.global_buffer(1).await.unwrap(), "early");
        assert_eq!(reader.global_buffer(2).await.unwrap(), "");
        assert_eq!(reader.global_buffer(3).await.unwrap_err().kind(), ErrorKind::InvalidInput);
        assert_eq!(reader.column_names(), [Some("id".into()), Some("text".into())]);
        let sizes = reader.sizes().await.unwrap();
        assert!(sizes.data + sizes.column_metadata + sizes.global_buffers < summary.size);

        assert_eq!(ids(&reader, FileRows::All, 400).await, (vec![400, 400, 200], (0..1000).collect()));
        let range = FileRows::Range { start: 990, count: 10 };
        assert_eq!(ids(&reader, range, 4).await, (vec![4, 4, 2], (990..1000).collect()));
        let indices = FileRows::Indices(vec![0, 1, 2, 500, 999]);
        assert_eq!(ids(&reader, indices, 2).await, (vec![2, 2, 1], vec![0, 1, 2, 500, 999]));
        assert_eq!(ids(&reader, FileRows::Range { start: 1000, count: 0 }, 2).await, (vec![], vec![]));
        for wrong in [
            FileRows::Range { start: 999, count: 2 },
            FileRows::Range { start: u64::MAX, count: u64::MAX },
            FileRows::Indices(vec![1000]),
            FileRows::Indices(vec![3, 3]),
        ] {
            let error = reader.batches(wrong, 2, 1).err().unwrap();
            assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error}");
        }
        assert!(reader.batches(FileRows::All, 0, 1).is_err());

        let part = open(uri, Some(&["text".into()])).await.unwrap();
        assert_eq!(part.schema().fields().len(), 1);
        for columns in [vec![], vec!["nope".to_owned()]] {
            assert_eq!(open(uri, Some(&columns)).await.unwrap_err().kind(), ErrorKind::InvalidInput);
        }
    }
    assert_eq!(open("memory://nameless", None).await.unwrap_err().kind(), ErrorKind::InvalidInput);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_appears_complete_or_not_at_all() {
    let directory = tempfile::tempdir().unwrap();
    let uri = format!("{}/x.lance", directory.path().display());
    fs::write(&uri, "before").unwrap();
    let schema = batch(0, 0).schema().as_ref().clone();
    let begin = || DataFileWriter::create(&uri, Some(schema.clone()), FileWriteParams::default());
    let untouched = || {
        let names = fs::read_dir(directory.path()).unwrap().count();
        (fs::read(&uri).unwrap(), names) == (b"before".to_vec(), 1)
    };

    let writer = begin().await.unwrap();
    writer.write(batch(0, 10)).await.unwrap();
    drop(writer);
    assert!(untouched(), "dropped");

    let writer = begin().await.unwrap();
    writer.write(batch(0, 10)).await.unwrap();
    writer.abandon().await.unwrap();
    assert!(untouched(), "given up");
    assert!(writer.write(batch(0, 1)).await.is_err());

    let writer = begin().await.unwrap();
    let wrong = Arc::new(Int32Array::from(vec![1]));
    let wrong = RecordBatch::try_from_iter([("id", wrong.clone() as _), ("text", wrong as _)]).unwrap();
    assert_eq!(writer.write(wrong).await.unwrap_err().kind(), ErrorKind::SchemaMismatch);
    assert!(writer.finish().await.is_err());
    assert!(untouched(), "failed");

    let writer = begin().await.unwrap();
    let part = batch(0, 3).project(&[0]).unwrap();
    assert_eq!(writer.write(part).await.unwrap_err().kind(), ErrorKind::SchemaMismatch);
    writer.write(batch(0, 3)).await.unwrap();
    assert!(fs::read(&uri).unwrap() == b"before", "not complete yet");
    assert_eq!(writer.finish().await.unwrap().rows, 3);
    assert_eq!(open(&uri, None).await.unwrap().metadata().num_rows, 3);
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1);
}
