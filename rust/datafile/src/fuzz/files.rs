//! Files of the reference, damaged: their metadata more often than their values.

use std::path::Path;
use std::sync::Arc;

use pennon_core::rows::RowRanges;
use pennon_core::schema::Field;

use super::{Random, run};
use crate::{FileReader, MemorySource};

/// More rows are not read at once, since a page of one value has any number of rows.
const MOST_ROWS: u64 = 3000;

fn good_files() -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden/datafile");
    let mut paths: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.retain(|path| path.extension().is_some_and(|e| e == "lance"));
    paths.sort();
    assert!(!paths.is_empty());
    paths.iter().map(|path| std::fs::read(path).unwrap()).collect()
}

fn ranges(random: &mut Random, end: u64) -> RowRanges {
    let end = usize::try_from(end).unwrap();
    let mut bounds: Vec<u64> = (0..2 * random.below(80)).map(|_| random.below(end + 1) as u64).collect();
    bounds.sort_unstable();
    bounds.chunks(2).map(|b| b[0]..b[1]).collect()
}

/// Opens and reads everything; any result is right.
fn read(bytes: Vec<u8>, random: &mut Random) {
    let Ok(reader) = FileReader::open(Arc::new(MemorySource::new("damaged", bytes))) else { return };
    let rows = reader.metadata().num_rows;
    let end = rows.min(MOST_ROWS);
    let last = rows.saturating_sub(MOST_ROWS.min(10))..rows;
    let mut fields = reader.metadata().schema.fields.clone();
    let blobs: Vec<Field> = fields.iter().filter(|field| field.has_blobs()).cloned().collect();
    fields.extend(blobs.iter().map(Field::with_blob_descriptions));
    for field in &fields {
        for rows in [(0..end).into(), ranges(random, end), last.clone().into()] {
            if let Ok(arrays) = reader.read(std::slice::from_ref(field), &reader.column_map(), &rows) {
                assert_eq!(arrays[0].len() as u64, rows.count());
                arrays[0].to_data().validate_full().unwrap();
            }
        }
    }
    let _ = reader.read_u64_column(0, &RowRanges::from(0..end));
}

fn damaged(good: &[Vec<u8>], random: &mut Random) -> usize {
    let mut bytes = random.pick(good).clone();
    // The last kilobytes are the metadata.
    let start = if random.below(3) == 0 { 0 } else { bytes.len().saturating_sub(6000) };
    random.damage(&mut bytes, start);
    let size = bytes.len();
    read(bytes, random);
    size
}

#[test]
fn damaged_files() {
    let good = good_files();
    run(Some(400), |random| damaged(&good, random));
}

#[test]
#[ignore = "runs as long as FUZZ_SECONDS says"]
fn fuzz_files() {
    let good = good_files();
    run(None, |random| damaged(&good, random));
}
