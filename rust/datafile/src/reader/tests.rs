//! Files of the reference against what the reference reads from them, and files that are damaged.

use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use arrow_array::cast::AsArray;
use arrow_array::types::{Float32Type, UInt64Type};
use arrow_array::{FixedSizeListArray, Float64Array, LargeBinaryArray, RecordBatch};
use arrow_schema::{Field as ArrowField, Schema as ArrowSchema};
use arrow_select::concat::{concat, concat_batches};
use pennon_core::ErrorKind;
use pennon_core::file::FileVersion;
use pennon_core::rows::RowRanges;
use pennon_core::schema::{LogicalType, Schema};

use super::*;
use crate::{FileWriter, WriteOptions};

/// Where `tests/golden/datafile` is, or another folder of the same form.
fn folder() -> PathBuf {
    match std::env::var_os("PENNON_DATAFILES") {
        Some(folder) => folder.into(),
        None => Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden/datafile"),
    }
}

fn files() -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> = fs::read_dir(folder())
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|e| e == "lance"))
        .collect();
    files.sort();
    assert!(!files.is_empty());
    files
}

fn expected(path: &Path) -> RecordBatch {
    let file = fs::File::open(path.with_extension("arrow")).unwrap();
    let reader = arrow_ipc::reader::FileReader::try_new(file, None).unwrap();
    let schema = reader.schema();
    let batches: Vec<RecordBatch> = reader.map(|batch| batch.unwrap()).collect();
    concat_batches(&schema, &batches).unwrap()
}

fn open(path: &Path) -> FileReader {
    let name = path.file_name().unwrap().to_string_lossy();
    FileReader::open(Arc::new(MemorySource::new(name, fs::read(path).unwrap()))).unwrap()
}

/// Small and repeatable.
struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % end.max(1)
    }

    /// Ranges in order and disjoint within `0..end`.
    fn ranges(&mut self, count: u64, end: u64) -> RowRanges {
        let mut bounds: Vec<u64> = (0..2 * count).map(|_| self.below(end + 1)).collect();
        bounds.sort_unstable();
        bounds.chunks(2).map(|b| b[0]..b[1]).collect()
    }
}

fn size(n: u64) -> usize {
    usize::try_from(n).unwrap()
}

fn slices(array: &ArrayRef, rows: &RowRanges) -> ArrayRef {
    let parts: Vec<ArrayRef> =
        rows.iter().map(|r| array.slice(size(r.start), size(r.end - r.start))).collect();
    let parts: Vec<&dyn Array> = parts.iter().map(|p| p.as_ref()).collect();
    if parts.is_empty() { array.slice(0, 0) } else { concat(&parts).unwrap() }
}

/// Dictionaries compare by value.
fn same(a: &ArrayRef, b: &ArrayRef) -> bool {
    a.data_type() == b.data_type() && a.to_data() == b.to_data()
}

fn is_null(array: &ArrayRef) -> Vec<bool> {
    (0..array.len()).map(|row| array.is_null(row)).collect()
}

#[test]
fn every_file_reads_as_the_reference_reads_it() {
    let mut problems = Vec::new();
    for path in files() {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        let expected = expected(&path);
        let reader = open(&path);
        let fields = &reader.metadata().schema.fields;
        let end = reader.metadata().num_rows;
        assert_eq!(size(end), expected.num_rows(), "{name}");
        let mut random = Random(end + 1);
        let mut cases = vec![RowRanges::from(0..end), RowRanges::new()];
        for _ in 0..if end == 0 { 0 } else { 20 } {
            let row = random.below(end);
            cases.push(RowRanges::from(row..row + 1));
            cases.push(random.ranges(1, end));
            cases.push(random.ranges(10, end));
        }
        for (field, column) in fields.iter().zip(expected.columns()) {
            for rows in &cases {
                match reader.read(std::slice::from_ref(field), &reader.column_map(), rows) {
                    Err(error) => problems.push(format!("{error} (rows {rows:?})")),
                    Ok(got) => {
                        let wanted = slices(column, rows);
                        let valid = got[0].to_data().validate_full();
                        if got.len() == 1 && valid.is_ok() && same(&got[0], &wanted) {
                            let found = reader.read_nulls(field, &reader.column_map(), rows).unwrap();
                            if is_null(&found) != is_null(&wanted) || found.data_type() != wanted.data_type()
                            {
                                problems.push(format!("{name} `{}` rows {rows:?}: other nulls", field.name));
                            }
                            continue;
                        }
                        let at = (0..wanted.len().min(got[0].len()))
                            .find(|&i| !same(&got[0].slice(i, 1), &wanted.slice(i, 1)));
                        problems.push(format!(
                            "{name} `{}` rows {rows:?}: {valid:?} {} rows of {}, first difference at {at:?}: {:?} {:?}",
                            field.name,
                            got[0].len(),
                            got[0].data_type(),
                            at.map(|at| got[0].slice(at, 1)),
                            at.map(|at| wanted.slice(at, 1)),
                        ));
                    }
                }
                break_after(&problems);
            }
        }
    }
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}

/// The most differences in one report.
fn break_after(problems: &[String]) {
    assert!(problems.len() < 60, "{}", problems.join("\n"));
}

#[test]
fn all_columns_at_once_and_members_alone() {
    for path in files() {
        let expected = expected(&path);
        let reader = open(&path);
        let fields = &reader.metadata().schema.fields;
        let all = RowRanges::from(0..reader.metadata().num_rows);
        let got = reader.read(fields, &reader.column_map(), &all).unwrap();
        for (got, wanted) in got.iter().zip(expected.columns()) {
            assert!(same(got, wanted), "{}", path.display());
        }
        for (field, column) in fields.iter().zip(expected.columns()) {
            let Some(full) = column.as_any().downcast_ref::<arrow_array::StructArray>() else { continue };
            for (member, values) in field.children.iter().zip(full.columns()) {
                let pruned = Field { children: vec![member.clone()], ..field.clone() };
                let got = reader.read(&[pruned], &reader.column_map(), &all).unwrap();
                let got = got[0].as_any().downcast_ref::<arrow_array::StructArray>().unwrap();
                assert_eq!(got.nulls(), full.nulls());
                assert!(same(got.column(0), values), "{} {}", path.display(), member.name);
            }
        }
    }
}

/// The blobs of a field, as bytes or as what their descriptions in the file say.
fn blobs(array: &ArrayRef, file: &[u8]) -> Vec<Option<Vec<u8>>> {
    if let Some(bytes) = array.as_binary_opt::<i64>() {
        return bytes.iter().map(|bytes| bytes.map(<[u8]>::to_vec)).collect();
    }
    let [positions, sizes] = ["position", "size"]
        .map(|name| array.as_struct().column_by_name(name).unwrap().as_primitive::<UInt64Type>());
    let described = |row| {
        let start = size(positions.value(row));
        array.is_valid(row).then(|| file[start..start + size(sizes.value(row))].to_vec())
    };
    (0..array.len()).map(described).collect()
}

#[test]
fn legacy_blobs_are_described() {
    for version in ["2.0", "2.1", "2.2"] {
        let path = folder().join(format!("blobs-{version}.lance"));
        let (reader, file) = (open(&path), fs::read(&path).unwrap());
        let rows = Random(5).ranges(4, reader.metadata().num_rows);
        let read = |field: &Field| {
            let array =
                reader.read(std::slice::from_ref(field), &reader.column_map(), &rows).unwrap().remove(0);
            assert_eq!(array.data_type(), &field.data_type());
            // The blob is the field itself, or its first member.
            if field.name == "member" { Arc::clone(array.as_struct().column(0)) } else { array }
        };
        for field in &reader.metadata().schema.fields {
            let described = field.with_blob_descriptions();
            let descriptions = read(&described);
            assert_eq!(blobs(&descriptions, &file), blobs(&read(field), &file), "{version}: {}", field.name);
            let mut sizes = described;
            let blob = if field.name == "member" { &mut sizes.children[0] } else { &mut sizes };
            assert!(blob.describes_legacy_blob());
            blob.children.remove(0);
            assert_eq!(read(&sizes).as_struct().columns(), &descriptions.as_struct().columns()[1..]);
        }
    }
    let reader = open(&folder().join("options-2.1.lance"));
    let mut field = reader.metadata().schema.fields[0].clone();
    field.logical_type = LogicalType::LargeBinary;
    field.metadata = [("lance-encoding:blob".to_owned(), "true".to_owned())].into();
    let described = [field.with_blob_descriptions()];
    let error = reader.read(&described, &reader.column_map(), &(0..1).into()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    assert!(error.to_string().contains("not stored as blobs"), "{error}");
}

#[test]
fn damaged_files_are_errors_and_never_panic() {
    let mut random = Random(7);
    for path in files() {
        let good = fs::read(&path).unwrap();
        let len = good.len() as u64;
        for round in 0..60 {
            let mut bytes = good.clone();
            let tail = if random.below(2) == 0 { len } else { len.min(4000) };
            match round % 3 {
                0 => bytes.truncate(size(random.below(len))),
                1 => {
                    let at = size(len - 1 - random.below(tail));
                    bytes[at] ^= 1 << random.below(8);
                }
                _ => {
                    let at = size(len - 1 - random.below(tail));
                    let fill = if random.below(2) == 0 { 0 } else { 255 };
                    let end = (at + 1 + size(random.below(40))).min(bytes.len());
                    bytes[at..end].fill(fill);
                }
            }
            let Ok(reader) = FileReader::open(Arc::new(MemorySource::new("damaged", bytes))) else {
                continue;
            };
            let end = reader.metadata().num_rows.min(100_000);
            let fields = reader.metadata().schema.fields.clone();
            for field in &fields {
                for rows in [RowRanges::from(0..end), random.ranges(3, end)] {
                    let _ = reader.read(std::slice::from_ref(field), &reader.column_map(), &rows);
                    let _ = reader.read_nulls(field, &reader.column_map(), &rows);
                    let _ = reader.bytes_in_memory(&[field], &reader.column_map(), &RowRanges::from(0..end));
                }
            }
        }
    }
}

#[test]
fn ranges_are_checked() {
    let path = files().remove(0);
    let reader = open(&path);
    let fields = &reader.metadata().schema.fields[..1];
    let end = reader.metadata().num_rows;
    for rows in [RowRanges::from(0..end + 1), RowRanges::from([0..1, end + 4..end + 5])] {
        let error = reader.read(fields, &reader.column_map(), &rows).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput);
    }
    let error = reader.read(fields, &ColumnMap::default(), &RowRanges::from(0..end)).unwrap_err();
    assert!(error.to_string().contains("has no column"), "{error}");
}

#[test]
fn other_files_are_refused_by_name() {
    let bytes = fs::read(files().remove(0)).unwrap();
    for (cut, kind) in
        [(0, ErrorKind::Corrupt), (39, ErrorKind::Corrupt), (bytes.len() - 1, ErrorKind::Corrupt)]
    {
        let source = MemorySource::new("cut.lance", bytes[..cut].to_vec());
        let error = FileReader::open(Arc::new(source)).unwrap_err();
        assert_eq!(error.kind(), kind);
        assert!(error.to_string().contains("cut.lance"), "{error}");
    }
    let mut next = bytes;
    let version = next.len() - 8;
    next[version..version + 4].copy_from_slice(&[2, 0, 3, 0]);
    let error = FileReader::open(Arc::new(MemorySource::new("next.lance", next))).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
}

/// Counts the bytes that are read.
#[derive(Debug)]
struct Counting(MemorySource, AtomicUsize);

impl ByteSource for Counting {
    fn size(&self) -> Result<u64> {
        self.0.size()
    }

    fn read(&self, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        let bytes = self.0.read(ranges)?;
        self.1.fetch_add(bytes.iter().map(Bytes::len).sum(), Ordering::Relaxed);
        Ok(bytes)
    }

    fn name(&self) -> &str {
        self.0.name()
    }

    fn is_local(&self) -> bool {
        false
    }
}

/// A column as a file whose reads are counted.
fn counted(field: ArrowField, column: &ArrayRef, version: FileVersion) -> (Arc<Counting>, FileReader) {
    let batch =
        RecordBatch::try_new(Arc::new(ArrowSchema::new(vec![field])), vec![Arc::clone(column)]).unwrap();
    let schema = Schema::from_arrow(&batch.schema()).unwrap();
    let options = WriteOptions { version, ..WriteOptions::default() };
    let mut writer = FileWriter::try_new(Vec::new(), schema, options).unwrap();
    writer.write(&batch).unwrap();
    let bytes = writer.finish().unwrap().1;
    let source = Arc::new(Counting(MemorySource::new("memory", bytes), AtomicUsize::new(0)));
    (Arc::clone(&source), FileReader::open(source).unwrap())
}

fn large_values(column: &ArrayRef) -> (Arc<Counting>, FileReader) {
    let field = ArrowField::new("x", column.data_type().clone(), true);
    counted(field, column, WriteOptions::default().version)
}

#[test]
fn bytes_of_blobs_are_not_read_for_descriptions() {
    let marks = [("lance-encoding:blob".to_owned(), "true".to_owned())];
    let field = ArrowField::new("x", DataType::LargeBinary, true).with_metadata(marks.into());
    let value = |row: u64| (!row.is_multiple_of(3)).then(|| vec![7; 10_000]);
    let column: ArrayRef = Arc::new((0..600).map(value).collect::<LargeBinaryArray>());
    for version in [FileVersion::V2_0, FileVersion::V2_1] {
        let (source, reader) = counted(field.clone(), &column, version);
        let described = [reader.metadata().schema.fields[0].with_blob_descriptions()];
        source.1.store(0, Ordering::Relaxed);
        let read = reader.read(&described, &reader.column_map(), &(0..600).into()).unwrap();
        assert_eq!((read[0].len(), read[0].null_count()), (600, 200));
        let read = source.1.load(Ordering::Relaxed);
        assert!(read <= 600 * 16 + 4096, "{version}: {read} bytes");
    }
}

#[test]
fn nulls_among_large_values_are_found_without_them() {
    let mut random = Random(3);
    let mut noise =
        |len: u64| (0..len).map(|_| u8::try_from(random.below(256)).unwrap()).collect::<Vec<u8>>();
    // Stored as they are, and compressed one by one.
    for (value, in_memory) in [(noise(20_600), 20_300), (b"abcd".repeat(20_150), 80_300)] {
        let rows = 600_u64;
        let column: ArrayRef = Arc::new(
            (0..rows)
                .map(|row| (row % 3 > 0).then_some(&value[size(row)..]))
                .collect::<arrow_array::BinaryArray>(),
        );
        let (source, reader) = large_values(&column);
        let fields = &reader.metadata().schema.fields;
        let columns = reader.column_map();
        for ranges in [RowRanges::from(0..rows), RowRanges::from([3..4, 9..100, 599..600]), RowRanges::new()]
        {
            let wanted = slices(&column, &ranges);
            let read = reader.read(fields, &columns, &ranges).unwrap();
            assert!(same(&read[0], &wanted), "rows {ranges:?}");
            source.1.store(0, Ordering::Relaxed);
            let nulls = reader.read_nulls(&fields[0], &columns, &ranges).unwrap();
            assert_eq!(is_null(&nulls), is_null(&wanted));
            let taken = source.1.load(Ordering::Relaxed);
            assert!(taken <= size(rows) * 8, "{taken} bytes for the nulls of {ranges:?}");
        }
        for (ranges, count) in [(RowRanges::from(0..rows), 400), (RowRanges::from([0..30, 60..90]), 40)] {
            let estimate = reader.bytes_in_memory(&[&fields[0]], &columns, &ranges).unwrap();
            let right = in_memory * count;
            assert!((right / 2..right * 2).contains(&estimate), "{estimate} bytes, {right} are right");
        }
    }
}

#[test]
fn what_was_read_with_the_metadata_is_not_read_again() {
    let mixed = |row: u64| row.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let texts = (0..9000).map(|row| (row % 3 > 0).then(|| format!("{:x}{:x}", mixed(row), mixed(row + 9))));
    let columns: [ArrayRef; 2] = [
        Arc::new(texts.collect::<arrow_array::StringArray>()),
        Arc::new((0..9000).map(mixed).collect::<UInt64Array>()),
    ];
    for column in columns {
        let (source, _) = large_values(&column);
        let held =
            FileReader::open_ahead(Arc::clone(&source) as Arc<dyn ByteSource>, Ahead::Held(1 << 30)).unwrap();
        let (fields, map) = (&held.metadata().schema.fields, held.column_map());
        source.1.store(0, Ordering::Relaxed);
        let rows = RowRanges::from([3..5000, 8999..9000]);
        let read = held.read(fields, &map, &rows).unwrap();
        let nulls = held.read_nulls(&fields[0], &map, &rows).unwrap();
        assert_eq!((is_null(&nulls), same(&read[0], &slices(&column, &rows))), (is_null(&read[0]), true));
        if column.null_count() == 0 {
            assert_eq!(held.read_u64_column(0, &rows).unwrap().len(), 4998);
        }
        assert_eq!(source.1.load(Ordering::Relaxed), 0);
        held.forget_ahead();
        held.read(fields, &map, &rows).unwrap();
        assert!(source.1.load(Ordering::Relaxed) > 0);
    }
}

#[test]
fn a_few_plain_rows_are_read_without_the_rest_of_their_chunk() {
    let rows = 20_000_i32;
    let mixed = |at: i32| at.wrapping_mul(0x9e37_79b9_u32.cast_signed());
    let plain: Float64Array = (0..rows).map(|at| f64::from(mixed(at)).sin()).collect::<Vec<_>>().into();
    let with_nulls: Float64Array =
        (0..rows).map(|at| (at % 5 > 0).then(|| f64::from(mixed(at)).sin())).collect();
    let items = |at: i32| (0..3).map(|i| Some((mixed(at + i) as f32).sin())).collect::<Vec<_>>();
    let lists =
        FixedSizeListArray::from_iter_primitive::<Float32Type, _, _>((0..rows).map(|at| Some(items(at))), 3);
    let columns: [ArrayRef; 3] = [Arc::new(plain), Arc::new(with_nulls), Arc::new(lists)];
    for (at, column) in columns.into_iter().enumerate() {
        let field = arrow_schema::Field::new("x", column.data_type().clone(), true);
        let batch =
            RecordBatch::try_new(Arc::new(ArrowSchema::new(vec![field])), vec![Arc::clone(&column)]).unwrap();
        let schema = Schema::from_arrow(&batch.schema()).unwrap();
        let mut writer = FileWriter::try_new(Vec::new(), schema, WriteOptions::default()).unwrap();
        writer.write(&batch).unwrap();
        let bytes = writer.finish().unwrap().1;
        let source = Arc::new(Counting(MemorySource::new("memory", bytes), AtomicUsize::new(0)));
        let reader = FileReader::open(Arc::clone(&source) as Arc<dyn ByteSource>).unwrap();
        let fields = &reader.metadata().schema.fields;
        let mut random = Random(9);
        let spread: RowRanges = (0..40).map(|i| i * 500 + i..i * 500 + i + 1 + i % 3).collect();
        let ends = [0..1, 19_999..20_000, 0..20_000].map(RowRanges::from);
        let mut cases = Vec::from(ends);
        cases.extend([spread, RowRanges::from([0..3, 5..6])]);
        cases.extend((0..50).map(|_| random.ranges(6, 20_000)));
        // From a chunk with few of its rows into a chunk with many, and both separately.
        cases.extend((0..40).map(|i| RowRanges::from([i * 97..i * 97 + 3, i * 97 + 300..i * 97 + 2000])));
        for ranges in cases {
            let read = reader.read(fields, &reader.column_map(), &ranges).unwrap();
            assert!(same(&read[0], &slices(&column, &ranges)), "column {at}, rows {ranges:?}");
        }
        source.1.store(0, Ordering::Relaxed);
        reader.read(fields, &reader.column_map(), &RowRanges::from(10_000..10_001)).unwrap();
        let taken = source.1.load(Ordering::Relaxed);
        assert_eq!(taken < 100, at != 1, "{taken} bytes for a row of column {at}");
    }
}

/// A file on a store where requests take long, with the requests that came.
#[derive(Debug)]
struct FarSource {
    file: MemorySource,
    reads: Mutex<Vec<Vec<Range<u64>>>>,
}

impl ByteSource for FarSource {
    fn size(&self) -> Result<u64> {
        self.file.size()
    }

    fn read(&self, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        self.reads.lock().unwrap().push(ranges.to_vec());
        self.file.read(ranges)
    }

    fn name(&self) -> &str {
        self.file.name()
    }

    fn is_local(&self) -> bool {
        false
    }
}

#[test]
fn lookup_buffers_are_read_with_the_metadata() {
    let mut random = Random(7);
    let floats: Vec<f64> = (0..600_000).map(|_| random.below(1 << 40) as f64).collect();
    let words: Vec<String> = (0..600_000).map(|_| format!("word {}", random.below(50))).collect();
    let columns: [(&str, ArrayRef); 2] = [
        ("number", Arc::new(Float64Array::from(floats.clone()))),
        ("word", Arc::new(arrow_array::StringArray::from(words.clone()))),
    ];
    let batch = RecordBatch::try_from_iter(columns).unwrap();
    for version in [FileVersion::V2_1, FileVersion::V2_2] {
        let schema = Schema::from_arrow(&batch.schema()).unwrap();
        let options = WriteOptions { version, ..WriteOptions::default() };
        let mut writer = FileWriter::try_new(Vec::new(), schema, options).unwrap();
        writer.write(&batch).unwrap();
        let (finished, bytes) = writer.finish().unwrap();
        assert_eq!(finished.size, bytes.len() as u64);
        let source = Arc::new(FarSource { file: MemorySource::new("far", bytes), reads: Mutex::default() });
        let reader = FileReader::open(Arc::clone(&source) as Arc<dyn ByteSource>).unwrap();
        let rows = RowRanges::from([3..5, 250_000..250_002, 599_999..600_000]);
        let fields = reader.metadata().schema.fields.clone();
        let arrays = reader.read(&fields, &reader.column_map(), &rows).unwrap();
        let at = [3, 4, 250_000, 250_001, 599_999];
        let expected: Vec<f64> = at.iter().map(|&row: &usize| floats[row]).collect();
        assert_eq!(*arrays[0], Float64Array::from(expected) as Float64Array);
        let expected: Vec<&str> = at.iter().map(|&row| words[row].as_str()).collect();
        assert_eq!(*arrays[1], arrow_array::StringArray::from(expected));
        let reads = source.reads.lock().unwrap();
        assert_eq!(reads.len(), 2, "{version}: {reads:?}");
        // Some chunks, and not whole pages.
        let bytes: u64 = reads[1].iter().map(|range| range.end - range.start).sum();
        assert!(bytes < 200_000, "{version}: {bytes} bytes");
        // Nothing of a page lies between the lookup buffers and the metadata.
        let pages = reader.metadata().columns.iter().flat_map(|column| &column.pages);
        for page in pages {
            let [table, values, ..] = page.buffers.as_slice() else { panic!("{page:?}") };
            assert!(table.start >= values.end, "{page:?}");
        }
    }
}

/// The reference up to 10.0 asks for the lookup buffers of a page at once, and gets wrong bytes in another order.
#[test]
fn lookup_buffers_of_a_page_are_in_their_order() {
    let mut random = Random(8);
    let words: Vec<String> = (0..5000).map(|_| format!("n{}", random.below(700))).collect();
    let few: Vec<String> = (0..5000).map(|_| format!("n{}", random.below(7))).collect();
    let texts = |words: Vec<String>| Arc::new(arrow_array::StringArray::from(words)) as ArrayRef;
    let batch = RecordBatch::try_from_iter([("many", texts(words)), ("few", texts(few))]).unwrap();
    for version in [FileVersion::V2_1, FileVersion::V2_2] {
        let schema = Schema::from_arrow(&batch.schema()).unwrap();
        let options = WriteOptions { version, ..WriteOptions::default() };
        let mut writer = FileWriter::try_new(Vec::new(), schema, options).unwrap();
        writer.write(&batch).unwrap();
        let source = Arc::new(MemorySource::new("texts", writer.finish().unwrap().1));
        let reader = FileReader::open(source as Arc<dyn ByteSource>).unwrap();
        for (column, values_first) in reader.metadata().columns.iter().zip([false, true]) {
            let [table, values, dictionary] = column.pages[0].buffers.as_slice() else {
                panic!("{column:?}")
            };
            assert!(table.end <= dictionary.start, "{column:?}");
            assert_eq!(values.end <= table.start, values_first, "{column:?}");
        }
    }
}
