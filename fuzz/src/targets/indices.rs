//! Files of indices: opened, searched and scanned.

use std::sync::Arc;

use arrow_array::{ArrayRef, Float64Array, UInt8Array};
use arrow_schema::DataType;
use pennon_core::Result;
use pennon_datafile::ByteSource;
use pennon_datafile::statistics::Bound;
use pennon_index::{
    DistanceRange, IndexFiles, IndexKind, Neighbors, NoPageCache, RowMask, ScalarIndex, ValueTest,
    VectorIndex,
};

use super::files::Source;
use crate::checked;
use crate::inputs::Index;

/// Kinds of index over single values; the first byte of an input is a position in it.
pub const KINDS: [IndexKind; 6] = [
    IndexKind::BTree,
    IndexKind::Bitmap,
    IndexKind::LabelList,
    IndexKind::ZoneMap,
    IndexKind::BloomFilter,
    IndexKind::NGram,
];

/// Types of values; the second byte of an input is a position in it.
pub const TYPES: [DataType; 8] = [
    DataType::Int64,
    DataType::Utf8,
    DataType::Float64,
    DataType::UInt8,
    DataType::Boolean,
    DataType::Date32,
    DataType::Binary,
    DataType::Float32,
];

/// Partitions and pages that are read.
const MOST: u32 = 6;

#[derive(Debug)]
struct Files {
    first: Vec<u8>,
    second: Vec<u8>,
}

impl IndexFiles for Files {
    fn open(&self, name: &str) -> Result<Arc<dyn ByteSource>> {
        let is_second = matches!(name, "page_data.lance" | "auxiliary.idx");
        Ok(Source::unchecked(if is_second { self.second.clone() } else { self.first.clone() }))
    }
}

fn files(index: &Index) -> Arc<Files> {
    Arc::new(Files { first: index.first.file(), second: index.second.file() })
}

fn bounds(value: &[u8]) -> [Bound; 3] {
    let mut number = [0; 8];
    number[..value.len().min(8)].copy_from_slice(&value[..value.len().min(8)]);
    let float = f64::from_le_bytes(number);
    [
        Bound::Int(i64::from_le_bytes(number).into()),
        Bound::Float(if float.is_nan() { 1.5 } else { float }),
        Bound::Bytes(value.iter().copied().filter(u8::is_ascii).collect()),
    ]
}

fn tests(value: &[u8]) -> Vec<ValueTest> {
    use ValueTest as T;
    let text = || b"abc def".to_vec();
    let mut tests =
        vec![T::IsNull, T::NotNull, T::IsNan, T::NotNan, T::Prefix(b"a".to_vec()), T::Contains(text())];
    for bound in bounds(value) {
        tests.extend([
            T::Eq(bound.clone()),
            T::NotEq(bound.clone()),
            T::Less(bound.clone()),
            T::GreaterEq(bound.clone()),
            T::OneOf(vec![bound.clone()]),
            T::HasAny(vec![Some(bound.clone()), None]),
            T::HasAll(vec![Some(bound.clone())]),
            T::HasNone(vec![Some(bound)]),
        ]);
    }
    tests
}

/// An index over single values.
pub fn scalar(data: &[u8]) {
    let input = Index::decode(data);
    let (kind, data_type) =
        (KINDS[usize::from(input.head[0]) % KINDS.len()], &TYPES[usize::from(input.head[1]) % TYPES.len()]);
    let Some(index) = checked(ScalarIndex::open(kind, files(&input), data_type)) else { return };
    let _ = (index.value_type(), index.has_whole_zones(), index.memory_bytes());
    let tests = tests(&input.head[2..]);
    for test in &tests {
        let _ = checked(index.search(&[test], &NoPageCache));
        let _ = index.rows_at_least(&[test]);
    }
    if let [.., less, _, one_of, _, _, _] = tests.as_slice() {
        let _ = checked(index.search(&[less, one_of], &NoPageCache));
    }
    match &index {
        ScalarIndex::BTree(index) => {
            let _ = checked(index.bounds(&NoPageCache));
            let _ = checked(index.num_rows());
            let mut pages = 0..MOST;
            let _ = index.scan(&mut |values, rows| {
                assert_eq!(arrow_array::Array::len(&values), arrow_array::Array::len(&rows));
                pages.next().map(|_| ()).ok_or_else(|| pennon_core::Error::invalid_input("enough"))
            });
            for descending in [false, true] {
                let mut runs = 0..100;
                let _ = checked(index.walk(descending, &NoPageCache, &mut |_, _| Ok(runs.next().is_some())));
            }
            let _ = checked(index.walk_nulls(&NoPageCache, &mut |run, _| Ok(run.rows().is_empty())));
        }
        ScalarIndex::Bitmap(index) => {
            let _ = checked(index.scan(&mut |_, _| Ok(())));
        }
        ScalarIndex::LabelList(index) => {
            let _ = checked(index.scan(&mut |_, _| Ok(())));
        }
        ScalarIndex::NGram(index) => {
            let _ = checked(index.scan(&mut |_, _| Ok(())));
        }
        _ => (),
    }
}

/// An index over vectors.
pub fn vectors(data: &[u8]) {
    let input = Index::decode(data);
    let Some(index) = checked(VectorIndex::open(files(&input))) else { return };
    let _ = (index.kind(), index.metric(), index.num_rows(), index.memory_bytes(), index.graph_options());
    let dimension = index.dimension();
    if dimension > 1 << 12 {
        return;
    }
    let value = input.head[2];
    let values: ArrayRef = match index.element() {
        DataType::UInt8 => Arc::new(UInt8Array::from(vec![value; dimension])),
        _ => Arc::new(Float64Array::from(vec![f64::from(value) / 16.0; dimension])),
    };
    let query = checked(index.prepare(&values));
    let ranked = query.as_ref().and_then(|query| checked(index.ranked(query)));
    let partitions: Vec<u32> = (0..MOST.min(u32::try_from(index.num_partitions()).unwrap_or(0))).collect();
    let total: u64 =
        partitions.iter().map(|partition| index.partition_rows(*partition)).fold(0, u64::saturating_add);
    if total > 1 << 14 {
        return;
    }
    let _ = ranked;
    let Some(read) = checked(index.read(&partitions)) else { return };
    for partition in read {
        let _ = (partition.number(), partition.row_ids().len(), partition.memory_bytes());
        let _ = checked(index.vectors(&partition));
        let Some(query) = &query else { continue };
        for ef in [None, Some(1)] {
            let query = query.clone().with_ef(ef);
            for mask in
                [RowMask::All, RowMask::Bits(&[0x5555]), RowMask::Test(&|position, _| position % 2 == 0)]
            {
                let mut nearest = Neighbors::new(1, DistanceRange::default());
                let _ = checked(index.search(&query, &partition, mask, &mut nearest));
            }
        }
    }
}
