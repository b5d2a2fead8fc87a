//! Single codecs, each compared with a `memcpy` of its output: bit packing, byte planes and FSST in cache, and
//! whole pages of files in memory.
//!
//! `cargo bench --profile dist -p pennon-datafile`, or with a part of a claim to measure only those. The sides take turns,
//! times are medians. Criterion would do more, but enables a feature of `serde` that compiles all of Arrow a second time
//! for tests.

mod measure;

use std::collections::HashMap;
use std::error::Error;
use std::sync::Arc;

use arrow_array::{Array, ArrayRef, Float64Array, Int64Array, RecordBatch, StringArray};
use arrow_buffer::MutableBuffer;
use arrow_schema::{Field, Schema as ArrowSchema};
use measure::compare_with_copy;
use pennon_core::deletion::DeletionVector;
use pennon_core::rows::RowRanges;
use pennon_core::schema::Schema;
use pennon_datafile::bench_support::{Fsst, join_planes, pack, split_planes, unpack, unpack_group};
use pennon_datafile::{FileReader, FileWriter, MemorySource, WriteOptions};

/// As in the wheel: freed memory is used again.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Values of a page.
const ROWS: i64 = 1_000_000;

/// Packed values: with their source they fit into the nearest cache.
const PACKED: usize = 2048;

type Done = Result<(), Box<dyn Error>>;

/// Keys and values of a field's metadata, without the prefix of the keys.
type Options<'a> = &'a [(&'a str, &'a str)];

fn main() -> Done {
    println!("{:<44}{:>12}{:>12}{:>8}  rate", "claim", "pennon", "memcpy", "ratio");
    packing()?;
    planes()?;
    symbols()?;
    pages()?;
    deletions()
}

/// Numbers without order.
fn scattered(i: i64) -> i64 {
    let mixed = i.wrapping_mul(0x9e37_79b9_7f4a_7c15_u64.cast_signed());
    (mixed ^ mixed >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9_u64.cast_signed()) >> 8 & i64::MAX
}

fn packing() -> Done {
    let widths: [(usize, &[usize]); 4] =
        [(1, &[1, 4, 7]), (2, &[4, 8, 10, 12, 16]), (4, &[8, 10, 12, 16, 24]), (8, &[8, 10, 12, 16, 40])];
    for (bytes, widths) in widths {
        let bits = bytes * 8;
        for &width in widths {
            let values: Vec<u8> = (0..i64::try_from(PACKED)?)
                .flat_map(|i| (scattered(i) & ((1 << width) - 1)).to_le_bytes().into_iter().take(bytes))
                .collect();
            let mut packed = Vec::new();
            pack(&values, bytes, width, &mut packed)?;
            let mut out = MutableBuffer::new(0);
            unpack(&packed, bytes, width, PACKED, &mut out)?;
            assert_eq!(out.as_slice(), values, "{width} bits as u{bits}");
            let claim = format!("unpack {width} bits to u{bits}");
            let size = values.len();
            compare_with_copy(&claim, PACKED, "G/s", size, || unpack_group(&packed, bytes, width, &mut out));
            let claim = format!("unpack {width} bits and append u{bits}");
            compare_with_copy(&claim, PACKED, "G/s", size, || {
                unpack(&packed, bytes, width, PACKED, &mut out)
            });
            let mut packed = Vec::with_capacity(packed.len());
            compare_with_copy(&format!("pack u{bits} to {width} bits"), PACKED, "G/s", size, || {
                packed.clear();
                pack(&values, bytes, width, &mut packed)
            });
        }
    }
    Ok(())
}

fn planes() -> Done {
    for width in [4, 8] {
        let n = 2 * PACKED / width;
        let values: Vec<u8> = (0..i64::try_from(n * width)?).map(|i| scattered(i).to_le_bytes()[3]).collect();
        let (mut planes, mut out) = (Vec::new(), MutableBuffer::new(0));
        split_planes(&values, width, &mut planes);
        join_planes(&planes, width, n, &mut out)?;
        assert_eq!(out.as_slice(), values);
        let claim = format!("join {width} byte planes");
        compare_with_copy(&claim, values.len(), "GB/s", values.len(), || {
            join_planes(&planes, width, n, &mut out)
        });
        let claim = format!("split into {width} byte planes");
        compare_with_copy(&claim, values.len(), "GB/s", values.len(), || {
            split_planes(&values, width, &mut planes)
        });
    }
    Ok(())
}

/// Twenty random letters.
fn letters(i: i64) -> String {
    let mut seed = scattered(i);
    let mut letter = || {
        seed = scattered(seed);
        char::from(b'a' + u8::try_from(seed % 26).unwrap_or_default())
    };
    (0..20).map(|_| letter()).collect()
}

fn words(i: i64) -> String {
    const WORDS: [&str; 12] = [
        "delayed", "carrier", "the", "arrival", "airport", "of", "distance", "flight", "and", "weather",
        "departed", "late",
    ];
    let word = |at: i64| WORDS.get(usize::try_from(scattered(i * 8 + at) % 12).unwrap_or(0));
    (0..8).filter_map(word).fold(String::new(), |text, word| text + word + " ")
}

fn symbols() -> Done {
    for (name, value) in [("20 random letters", letters as fn(i64) -> String), ("words", words)] {
        let values: Vec<String> = (0..10_000).map(value).collect();
        let values: Vec<&[u8]> = values.iter().map(String::as_bytes).collect();
        let fsst = Fsst::new(&values, 800)?;
        let mut out = Vec::new();
        let size = fsst.decode(&mut out)?;
        assert_eq!(out.get(..size), Some(values.concat().as_slice()));
        compare_with_copy(&format!("FSST decode {name}"), size, "GB/s", size, || fsst.decode(&mut out));
        compare_with_copy(&format!("FSST encode {name}"), size, "GB/s", fsst.size(), || fsst.encode());
    }
    Ok(())
}

/// A file of one column that is encoded in a certain way, and the field to read.
fn file(column: ArrayRef, options: Options, encoding: &str) -> Result<FileReader, Box<dyn Error>> {
    let metadata: HashMap<String, String> =
        options.iter().map(|(key, value)| (format!("lance-encoding:{key}"), (*value).to_owned())).collect();
    let field = Field::new("x", column.data_type().clone(), true).with_metadata(metadata);
    let batch = RecordBatch::try_new(Arc::new(ArrowSchema::new(vec![field])), vec![column])?;
    let mut writer =
        FileWriter::try_new(Vec::new(), Schema::from_arrow(&batch.schema())?, WriteOptions::default())?;
    writer.write(&batch)?;
    let reader = FileReader::open(Arc::new(MemorySource::new("memory", writer.finish()?.1)))?;
    for page in reader.metadata().columns.iter().flat_map(|column| &column.pages) {
        let layout = page.layout.to_string();
        assert!(layout.contains(encoding), "a page is {layout}, expected {encoding}");
    }
    Ok(reader)
}

/// Measures reading rows of a file into one array.
fn read(claim: &str, reader: &FileReader, rows: &RowRanges) -> Done {
    let (fields, columns) = (&reader.metadata().schema.fields, reader.column_map());
    let [array] = &reader.read(fields, &columns, rows)?[..] else {
        return Err("one column was written".into());
    };
    let size = array.to_data().get_slice_memory_size()?;
    compare_with_copy(claim, size, "GB/s", size, || reader.read(fields, &columns, rows));
    Ok(())
}

fn int64s(value: impl Fn(i64) -> i64) -> ArrayRef {
    Arc::new(Int64Array::from_iter_values((0..ROWS).map(value)))
}

fn strings(value: impl Fn(i64) -> String) -> ArrayRef {
    Arc::new(StringArray::from_iter_values((0..ROWS / 4).map(value)))
}

#[expect(clippy::cast_precision_loss, reason = "any numbers will do")]
fn float64s() -> ArrayRef {
    Arc::new(Float64Array::from_iter_values((0..ROWS).map(|i| scattered(i) as f64)))
}

fn pages() -> Done {
    let carrier = |i| format!("carrier {:02}", scattered(i) % 40);
    let nullable = (0..ROWS).map(|i| (i % 10 > 0).then_some(scattered(i))).collect::<Int64Array>();
    let cases: [(&str, ArrayRef, Options, &str); 9] = [
        ("read float64, plain", float64s(), &[], "flat 64"),
        (
            "read float64, byte planes and zstd",
            float64s(),
            &[("compression", "zstd"), ("bss", "on")],
            "byte-stream-split",
        ),
        ("read int64 0..999, packed", int64s(|i| scattered(i) % 1000), &[], "bitpack 64"),
        ("read int64, a tenth null", Arc::new(nullable), &[], "flat 64"),
        ("read int64, runs of 50", int64s(|i| scattered(i / 50)), &[], "rle("),
        ("read int64, dictionary of 1,000", int64s(|i| scattered(scattered(i) % 1000)), &[], "dictionary of"),
        ("read strings, dictionary of 40", strings(carrier), &[], "dictionary of"),
        ("read strings of 20 letters, plain", strings(letters), &[("compression", "none")], "variable 32"),
        ("read strings of 20 letters, FSST", strings(letters), &[("compression", "fsst")], "fsst("),
    ];
    for (claim, column, options, encoding) in cases {
        let rows = RowRanges::from(0..column.len() as u64);
        read(claim, &file(column, options, encoding)?, &rows)?;
    }
    Ok(())
}

fn deletions() -> Done {
    let reader = file(float64s(), &[], "flat 64")?;
    for percent in [1, 10, 50] {
        let deleted = (0..u32::try_from(ROWS)?).filter(|&i| scattered(i.into()) % 100 < percent);
        let deleted: DeletionVector = deleted.collect();
        let live: RowRanges = deleted.live_ranges(0..ROWS.unsigned_abs()).collect();
        read(&format!("read float64, {percent} % of the rows deleted"), &reader, &live)?;
    }
    Ok(())
}
