//! Record batches to data files: one file per fragment, cut by rows and bytes.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use arrow_array::RecordBatch;
use arrow_schema::{DataType, Fields};
use pennon_core::file::FileVersion;
use pennon_core::manifest::{DataFile, Fragment, naming};
use pennon_core::schema::{Field, LogicalType, Schema};
use pennon_core::{Error, Result};
use pennon_datafile::{FileWriter, WriteOptions};
use uuid::Uuid;

use super::{BatchReader, WriteParams, WrittenFragments};
use crate::store::{Durability, Sink, Store};

/// When a new file is begun, and how files are encoded.
#[derive(Debug, Clone, Copy)]
struct Limits {
    rows: u64,
    bytes: u64,
    options: WriteOptions,
    durability: Durability,
}

/// Writes rows whose columns carry the ids of `table`. Columns that the data does not have are left out of the
/// files and read as null.
pub(crate) async fn write(
    store: Arc<Store>,
    table: &Schema,
    version: FileVersion,
    data: BatchReader,
    params: &WriteParams,
) -> Result<WrittenFragments> {
    refuse_json_text(data.schema().fields(), "")?;
    let data_schema = Schema::from_arrow(&data.schema())?;
    let schema =
        Schema { fields: present(&table.fields, &data_schema.fields), metadata: table.metadata.clone() };
    let table = table.clone();
    let mut options = WriteOptions { version, ..WriteOptions::default() };
    if let Some(bytes) = params.max_page_bytes {
        options.max_page_bytes = bytes;
    }
    let limits = Limits {
        rows: at_least_one(params.max_rows_per_file, "max_rows_per_file")?,
        bytes: at_least_one(params.max_bytes_per_file, "max_bytes_per_file")?,
        options,
        durability: params.durability,
    };
    let stop = StopOnDrop(Arc::new(AtomicBool::new(false)));
    let stopped = Arc::clone(&stop.0);
    crate::blocking(move || {
        let mut writer =
            FragmentWriter { store, schema, limits, current: None, written: Vec::new(), keep: false };
        for batch in data {
            if stopped.load(Ordering::Relaxed) {
                return Err(Error::store("the write was given up"));
            }
            let batch = batch.map_err(|e| Error::invalid_input(format!("Reading the data failed: {e}")))?;
            if batch.num_columns() == 0 && batch.num_rows() > 0 {
                return Err(Error::invalid_input(format!(
                    "{} rows without columns cannot be stored",
                    batch.num_rows()
                )));
            }
            writer.write(&batch)?;
        }
        writer.finish(table)
    })
    .await
}

/// JSON is stored in a binary form that this release does not make of text.
fn refuse_json_text(fields: &Fields, parent: &str) -> Result<()> {
    for field in fields {
        let path = format!("{parent}{}", field.name());
        if field.extension_type_name() == Some("arrow.json") {
            return Err(Error::unsupported(format!("field `{path}`: JSON text cannot be written yet")));
        }
        match field.data_type() {
            DataType::Struct(members) => refuse_json_text(members, &format!("{path}."))?,
            DataType::List(item) | DataType::LargeList(item) | DataType::Map(item, _) => {
                refuse_json_text(&Fields::from(vec![Arc::clone(item)]), &format!("{path}."))?;
            }
            _ => {}
        }
    }
    Ok(())
}

fn at_least_one(limit: u64, name: &str) -> Result<u64> {
    if limit == 0 {
        Err(Error::invalid_input(format!("{name} is 0, expected at least 1")))
    } else {
        Ok(limit)
    }
}

/// The fields of the table that the data has, with the table's ids and in the table's order.
fn present(table: &[Field], data: &[Field]) -> Vec<Field> {
    let find = |field: &Field| data.iter().find(|d| d.name == field.name);
    table
        .iter()
        .filter_map(|field| {
            let given = find(field)?;
            let children = match field.logical_type {
                LogicalType::Struct => present(&field.children, &given.children),
                _ => field.children.clone(),
            };
            Some(Field { children, ..field.clone() })
        })
        .collect()
}

/// Tells the blocking thread that nobody waits for it any more.
struct StopOnDrop(Arc<AtomicBool>);

impl Drop for StopOnDrop {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

struct FragmentWriter {
    store: Arc<Store>,
    schema: Schema,
    limits: Limits,
    current: Option<(String, FileWriter<Box<dyn Sink>>)>,
    written: Vec<Fragment>,
    keep: bool,
}

impl FragmentWriter {
    fn write(&mut self, batch: &RecordBatch) -> Result<()> {
        let mut start = 0;
        while start < batch.num_rows() {
            let mut writer = match self.current.take() {
                Some(writer) => writer,
                None => self.begin()?,
            };
            let room = self.limits.rows.saturating_sub(writer.1.rows());
            let count = usize::try_from(room).unwrap_or(usize::MAX).min(batch.num_rows() - start);
            writer.1.write(&batch.slice(start, count))?;
            start += count;
            let full = writer.1.rows() >= self.limits.rows || writer.1.bytes_written() >= self.limits.bytes;
            self.current = Some(writer);
            if full {
                self.end()?;
            }
        }
        Ok(())
    }

    fn begin(&self) -> Result<(String, FileWriter<Box<dyn Sink>>)> {
        let name = naming::data_file_name(Uuid::new_v4().as_bytes());
        let sink = self.store.sink(&data_path(&name), self.limits.durability)?;
        Ok((name, FileWriter::try_new(sink, self.schema.clone(), self.limits.options)?))
    }

    fn end(&mut self) -> Result<()> {
        let Some((path, writer)) = self.current.take() else { return Ok(()) };
        let (finished, sink) = writer.finish()?;
        sink.finish(self.limits.durability)?;
        let file = DataFile {
            path,
            fields: finished.fields.into(),
            column_indices: finished.column_indices.into(),
            version: self.limits.options.version,
            size: Some(finished.size),
            base_id: None,
        };
        self.written.push(Fragment::new(vec![file], finished.rows));
        Ok(())
    }

    fn finish(mut self, schema: Schema) -> Result<WrittenFragments> {
        self.end()?;
        self.keep = true;
        let fragments = std::mem::take(&mut self.written);
        let rows = fragments.iter().map(|f| f.physical_rows).sum();
        let bytes = fragments.iter().flat_map(|f| &f.files).filter_map(|f| f.size).sum();
        Ok(WrittenFragments { fragments, schema, rows, bytes })
    }
}

impl Drop for FragmentWriter {
    fn drop(&mut self) {
        // The file in progress goes with its sink.
        self.current = None;
        if !self.keep {
            for file in self.written.iter().flat_map(|f| &f.files) {
                self.store.delete_blocking(&data_path(&file.path));
            }
        }
    }
}

/// Removes the data files of fragments that will not be committed; a file that stays is only an orphan.
pub(crate) async fn remove(store: &Store, fragments: &[Fragment]) {
    for file in fragments.iter().flat_map(|f| &f.files) {
        let _ = store.delete(&data_path(&file.path)).await;
    }
}

fn data_path(name: &str) -> String {
    format!("data/{name}")
}
