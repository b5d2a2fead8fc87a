//! How fast a file of one column is read from memory: whole, in batches, and row by row.
//!
//! `cargo bench -p pennon-datafile`, or with paths of data files to measure those instead of written ones.

use std::error::Error;
use std::sync::Arc;
use std::time::{Duration, Instant};

use arrow_array::{Array, ArrayRef, Float64Array, Int64Array, RecordBatch, StringArray};
use pennon_core::file::FileVersion;
use pennon_core::schema::Schema;
use pennon_datafile::{FileReader, FileWriter, MemorySource, WriteOptions};

const ROWS: i64 = 2_000_000;
const BATCH: u64 = 65_536;
const ROUNDS: usize = 5;

fn main() -> Result<(), Box<dyn Error>> {
    let paths: Vec<String> = std::env::args().skip(1).filter(|a| !a.starts_with('-')).collect();
    println!("{:<34}{:>12}{:>12}{:>14}", "column", "whole", "batches", "row");
    for path in &paths {
        measure(path, std::fs::read(path)?)?;
    }
    if !paths.is_empty() {
        return Ok(());
    }
    let scattered = |i: i64| i.wrapping_mul(0x9e37_79b9_7f4a_7c15_u64.cast_signed());
    let columns: [(&str, ArrayRef); 4] = [
        ("int64", Arc::new(Int64Array::from_iter_values((0..ROWS).map(scattered)))),
        (
            "int64, a tenth null",
            Arc::new((0..ROWS).map(|i| (i % 10 > 0).then_some(i)).collect::<Int64Array>()),
        ),
        ("float64", Arc::new(Float64Array::from_iter_values((0..1_i32 << 21).map(f64::from)))),
        (
            "string of 20",
            Arc::new(StringArray::from_iter_values(
                (0..ROWS).map(|i| format!("{:020}", scattered(i) & i64::MAX)),
            )),
        ),
    ];
    for (name, column) in columns {
        let batch = RecordBatch::try_from_iter([("x", column)])?;
        let schema = Schema::from_arrow(&batch.schema())?;
        let options = WriteOptions { version: FileVersion::STABLE, ..WriteOptions::default() };
        let mut writer = FileWriter::try_new(Vec::new(), schema, options)?;
        writer.write(&batch)?;
        measure(name, writer.finish()?.1)?;
    }
    Ok(())
}

/// Prints a line for each column of a file.
fn measure(name: &str, bytes: Vec<u8>) -> Result<(), Box<dyn Error>> {
    let reader = FileReader::open(Arc::new(MemorySource::new(name, bytes)))?;
    let rows = reader.metadata().num_rows;
    let columns = reader.column_map();
    for field in &reader.metadata().schema.fields {
        let field = std::slice::from_ref(field);
        let mut size = 0;
        let mut whole = Duration::MAX;
        let mut batches = Duration::MAX;
        for _ in 0..ROUNDS {
            let start = Instant::now();
            let arrays = reader.read(field, &columns, std::slice::from_ref(&(0..rows)))?;
            whole = whole.min(start.elapsed());
            size = arrays.iter().map(|a| a.get_buffer_memory_size()).sum::<usize>();
            let start = Instant::now();
            for from in (0..rows).step_by(usize::try_from(BATCH)?) {
                reader.read(field, &columns, std::slice::from_ref(&(from..rows.min(from + BATCH))))?;
            }
            batches = batches.min(start.elapsed());
        }
        let start = Instant::now();
        let takes = 1000;
        for i in 0..takes {
            let row = i * 7919 % rows.max(1);
            reader.read(field, &columns, std::slice::from_ref(&(row..rows.min(row + 1))))?;
        }
        let row = start.elapsed() / u32::try_from(takes)?;
        let rate = |time: Duration| format!("{:.2} GB/s", size as f64 / time.as_secs_f64() / 1e9);
        println!("{name:<34}{:>12}{:>12}{:>14}", rate(whole), rate(batches), format!("{row:.1?}"));
    }
    Ok(())
}
