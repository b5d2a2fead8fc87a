//! Random nested arrays with everything Arrow allows beneath nulls, shared by the tests of shredding and writing.
#![allow(
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    clippy::cast_sign_loss,
    reason = "numbers of a generator, all small"
)]

use std::ops::Range;
use std::sync::Arc;

use arrow_array::*;
use arrow_buffer::{BooleanBuffer, NullBuffer, OffsetBuffer, ScalarBuffer};
use arrow_cast::cast;
use arrow_schema::{DataType, Field as ArrowField, FieldRef, Fields, Schema as ArrowSchema};
use arrow_select::concat::concat;
use bytes::Bytes;
use pennon_core::ErrorKind;
use pennon_core::rows::RowRanges;

use super::*;
use crate::{FileReader, MemorySource};

/// A small generator of numbers, so that a failing case is one seed.
pub(crate) struct Random(pub u64);

impl Random {
    pub(crate) fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        ((self.0 >> 33) as usize) % n
    }

    /// A type of at most this depth.
    pub(crate) fn data_type(&mut self, depth: usize) -> DataType {
        let item = |r: &mut Self| -> FieldRef {
            let nullable = r.below(3) > 0;
            Arc::new(ArrowField::new("item", r.data_type(depth - 1), nullable))
        };
        match self.below(if depth == 0 { 7 } else { 11 }) {
            0 => DataType::Int32,
            1 => DataType::Utf8,
            2 => DataType::LargeBinary,
            3 => DataType::Boolean,
            4 => DataType::FixedSizeList(Arc::new(ArrowField::new("item", DataType::Int16, true)), 3),
            5 => DataType::Dictionary(Box::new(DataType::Int8), Box::new(DataType::Utf8)),
            6 => DataType::Float64,
            7 | 8 => DataType::List(item(self)),
            9 => DataType::LargeList(item(self)),
            _ => DataType::Struct(
                (0..1 + self.below(2))
                    .map(|i| item(self).as_ref().clone().with_name(format!("m{i}")))
                    .collect(),
            ),
        }
    }

    fn nulls(&mut self, nullable: bool, len: usize) -> Option<NullBuffer> {
        let one_in = 1 + self.below(6);
        (nullable && one_in > 1)
            .then(|| NullBuffer::new(BooleanBuffer::collect_bool(len, |_| self.below(one_in) > 0)))
    }

    fn offsets(&mut self, len: usize, longest: usize) -> (usize, Vec<usize>) {
        let mut end = self.below(3);
        let mut offsets = vec![end];
        for _ in 0..len {
            end += self.below(longest);
            offsets.push(end);
        }
        (end + self.below(3), offsets)
    }

    /// An array, now and then a slice of a longer one.
    pub(crate) fn array(&mut self, field: &ArrowField, len: usize) -> ArrayRef {
        let (before, after) = if self.below(2) == 0 { (0, 0) } else { (self.below(9), self.below(9)) };
        self.unsliced(field, before + len + after).slice(before, len)
    }

    fn unsliced(&mut self, field: &ArrowField, len: usize) -> ArrayRef {
        let nulls = self.nulls(field.is_nullable(), len);
        let mut integers = |n: usize| -> Vec<usize> { (0..n).map(|_| self.below(1000)).collect() };
        match field.data_type() {
            DataType::Int32 => {
                let values: Vec<i32> = integers(len).into_iter().map(|v| v as i32 - 500).collect();
                Arc::new(Int32Array::new(values.into(), nulls))
            }
            DataType::Int16 => {
                let values: Vec<i16> = integers(len).into_iter().map(|v| v as i16).collect();
                Arc::new(Int16Array::new(values.into(), nulls))
            }
            DataType::Float64 => {
                let values: Vec<f64> = integers(len).into_iter().map(|v| v as f64).collect();
                Arc::new(Float64Array::new(values.into(), nulls))
            }
            DataType::Boolean => {
                let values = integers(len).into_iter().map(|v| v % 2 == 0).collect::<BooleanBuffer>();
                Arc::new(BooleanArray::new(values, nulls))
            }
            DataType::Dictionary(..) => {
                let keys: Vec<i8> = integers(len).into_iter().map(|v| (v % 5) as i8).collect();
                let values = StringArray::from(vec![Some("a"), Some("bb"), None, Some(""), Some("a")]);
                let values = if field.is_nullable() {
                    values
                } else {
                    values.iter().map(|v| Some(v.unwrap_or("x"))).collect::<StringArray>()
                };
                Arc::new(DictionaryArray::new(Int8Array::new(keys.into(), nulls), Arc::new(values)))
            }
            DataType::Utf8 => {
                let (total, offsets) = self.offsets(len, 6);
                let offsets = offsets.into_iter().map(|o| o as i32).collect::<ScalarBuffer<_>>();
                let text: String = (0..total).map(|i| char::from(b'a' + (i % 26) as u8)).collect();
                Arc::new(StringArray::new(OffsetBuffer::new(offsets), text.into_bytes().into(), nulls))
            }
            DataType::LargeBinary => {
                // Some long values, so that large values are tested as well.
                let longest = if self.below(4) == 0 { 700 } else { 9 };
                let (total, offsets) = self.offsets(len, longest);
                let offsets = offsets.into_iter().map(|o| o as i64).collect::<ScalarBuffer<_>>();
                let bytes: Vec<u8> = (0..total).map(|i| i as u8).collect();
                Arc::new(LargeBinaryArray::new(OffsetBuffer::new(offsets), bytes.into(), nulls))
            }
            DataType::FixedSizeList(item, n) => {
                let items = self.array(item, len * *n as usize);
                Arc::new(FixedSizeListArray::new(Arc::clone(item), *n, items, nulls))
            }
            DataType::List(item) => {
                let (total, offsets) = self.offsets(len, 5);
                let offsets = offsets.into_iter().map(|o| o as i32).collect::<ScalarBuffer<_>>();
                let items = self.array(item, total);
                Arc::new(ListArray::new(Arc::clone(item), OffsetBuffer::new(offsets), items, nulls))
            }
            DataType::LargeList(item) => {
                let (total, offsets) = self.offsets(len, 5);
                let offsets = offsets.into_iter().map(|o| o as i64).collect::<ScalarBuffer<_>>();
                let items = self.array(item, total);
                Arc::new(LargeListArray::new(Arc::clone(item), OffsetBuffer::new(offsets), items, nulls))
            }
            DataType::Struct(members) => {
                let arrays = members.iter().map(|m| self.array(m, len)).collect();
                Arc::new(StructArray::new(members.clone(), arrays, nulls))
            }
            other => panic!("{other}"),
        }
    }
}

/// The paths to the leaves of a field.
pub(crate) fn leaf_paths(field: &ArrowField) -> Vec<LeafPath> {
    let schema = Schema::from_arrow(&ArrowSchema::new(vec![field.clone()])).unwrap();
    let mut paths = Vec::new();
    for_each_leaf(&mut vec![&schema.fields[0]], FileVersion::V2_2, &mut |fields, _| {
        paths.push(LeafPath::new(fields).unwrap());
        Ok(())
    })
    .unwrap();
    paths
}

pub(crate) fn write(batches: &[RecordBatch], options: WriteOptions) -> Result<(Finished, Vec<u8>)> {
    let schema = Schema::from_arrow(&batches[0].schema())?;
    let mut writer = FileWriter::try_new(Vec::new(), schema, options)?;
    for batch in batches {
        writer.write(batch)?;
    }
    writer.finish()
}

/// Reads rows of the first field.
pub(crate) fn read(reader: &FileReader, rows: &RowRanges) -> ArrayRef {
    let fields = reader.metadata().schema.fields.clone();
    reader.read(&fields, &reader.column_map(), rows).unwrap().remove(0)
}

/// Which rows of the first field are null, found without their values where the layout tells.
fn nulls(reader: &FileReader, rows: &RowRanges) -> Vec<bool> {
    let field = &reader.metadata().schema.fields[0];
    let array = reader.read_nulls(field, &reader.column_map(), rows).unwrap();
    (0..array.len()).map(|row| array.is_null(row)).collect()
}

/// Writes the arrays, reads everything and some ranges, with a reader that has read the pages and with new readers.
pub(crate) fn check(
    field: &ArrowField,
    arrays: &[ArrayRef],
    options: WriteOptions,
    random: &mut Random,
) -> FileReader {
    let batches: Vec<RecordBatch> = arrays.iter().map(|a| one_column(field.clone(), a.clone())).collect();
    let (finished, bytes) = write(&batches, options).unwrap();
    let parts: Vec<&dyn Array> = arrays.iter().map(|a| a.as_ref()).collect();
    let full = plain(concat(&parts).unwrap());
    let total = finished.rows as usize;
    assert_eq!(total, full.len());
    let bytes = Bytes::from(bytes);
    let open = || FileReader::open(Arc::new(MemorySource::new("a.lance", bytes.clone()))).unwrap();
    let reader = open();
    assert_eq!(&plain(read(&reader, &RowRanges::from(0..total as u64))), &full);
    let is_null =
        |array: &ArrayRef| -> Vec<bool> { (0..array.len()).map(|row| array.is_null(row)).collect() };
    for _ in 0..4 {
        let mut ends: Vec<usize> = (0..8).map(|_| random.below(total + 1)).collect();
        ends.sort_unstable();
        let ranges: Vec<Range<usize>> =
            ends.as_chunks::<2>().0.iter().map(|[start, end]| *start..*end).collect();
        let slices: Vec<ArrayRef> = ranges.iter().map(|r| full.slice(r.start, r.len())).collect();
        let slices: Vec<&dyn Array> = slices.iter().map(|a| a.as_ref()).collect();
        let wanted = concat(&slices).unwrap();
        let asked: RowRanges = ranges.iter().map(|r| r.start as u64..r.end as u64).collect();
        assert_eq!(&plain(read(&reader, &asked)), &wanted, "rows {asked:?}");
        assert_eq!(&plain(read(&open(), &asked)), &wanted, "rows {asked:?}, read first");
        let read = is_null(&plain(read(&reader, &asked)));
        assert_eq!(nulls(&open(), &asked), read, "nulls of rows {asked:?}");
    }
    reader
}

/// Dictionaries by value: unused items of a dictionary do not matter.
pub(crate) fn plain(array: ArrayRef) -> ArrayRef {
    let wanted = without_dictionaries(array.data_type());
    if &wanted == array.data_type() { array } else { cast(&array, &wanted).unwrap() }
}

fn without_dictionaries(data_type: &DataType) -> DataType {
    let item = |f: &FieldRef| {
        let data_type = without_dictionaries(f.data_type());
        Arc::new(f.as_ref().clone().with_data_type(data_type))
    };
    match data_type {
        DataType::Dictionary(_, value) => value.as_ref().clone(),
        DataType::List(f) => DataType::List(item(f)),
        DataType::LargeList(f) => DataType::LargeList(item(f)),
        DataType::FixedSizeList(f, n) => DataType::FixedSizeList(item(f), *n),
        DataType::Struct(members) => DataType::Struct(members.iter().map(item).collect()),
        other => other.clone(),
    }
}

fn one_column(field: ArrowField, array: ArrayRef) -> RecordBatch {
    RecordBatch::try_new(Arc::new(ArrowSchema::new(vec![field])), vec![array]).unwrap()
}

#[test]
fn nulls_in_required_fields_name_the_path() {
    let required = ArrowField::new("b", DataType::Int32, false);
    let members = Fields::from(vec![required.clone()]);
    // Arrow checks nesting itself, so the data is nullable and the schema is not.
    let loose = Fields::from(vec![required.clone().with_nullable(true)]);
    let integers: ArrayRef = Arc::new(Int32Array::from(vec![Some(1), None]));
    let nested = StructArray::new(loose.clone(), vec![integers.clone()], None);
    let schema = ArrowSchema::new(vec![ArrowField::new("a", DataType::Struct(members), true)]);
    let schema = Schema::from_arrow(&schema).unwrap();
    let mut writer = FileWriter::try_new(Vec::new(), schema.clone(), WriteOptions::default()).unwrap();
    let batch = one_column(ArrowField::new("a", DataType::Struct(loose.clone()), true), Arc::new(nested));
    let error = writer.write(&batch).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::SchemaMismatch);
    let text = "The field `a.b` contained null values even though the field is marked non-null";
    assert_eq!(error.to_string(), text);
    assert!(writer.finish().is_err());

    // Beneath a null struct they do not count.
    let masked = StructArray::new(loose.clone(), vec![integers], Some(vec![true, false].into()));
    let mut writer = FileWriter::try_new(Vec::new(), schema, WriteOptions::default()).unwrap();
    let batch = one_column(ArrowField::new("a", DataType::Struct(loose), true), Arc::new(masked));
    writer.write(&batch).unwrap();
    writer.finish().unwrap();
}

#[test]
fn what_cannot_be_written_is_refused_with_its_reason() {
    let schema = |field: ArrowField| Schema::from_arrow(&ArrowSchema::new(vec![field])).unwrap();
    let plain = schema(ArrowField::new("a", DataType::Int32, true));
    for version in [FileVersion::Legacy, FileVersion::V2_3] {
        let options = WriteOptions { version, ..WriteOptions::default() };
        let error = FileWriter::try_new(Vec::new(), plain.clone(), options).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported);
        assert!(error.to_string().contains(&version.to_string()), "{error}");
    }
    let members =
        vec![ArrowField::new("key", DataType::Utf8, false), ArrowField::new("value", DataType::Int32, true)];
    let entries = ArrowField::new("entries", DataType::Struct(members.into()), false);
    let map = schema(ArrowField::new("m", DataType::Map(entries.into(), false), true));
    let options = WriteOptions { version: FileVersion::V2_1, ..WriteOptions::default() };
    let error = FileWriter::try_new(Vec::new(), map.clone(), options).unwrap_err();
    assert!(error.to_string().contains("field `m`: maps need file version 2.2"), "{error}");
    assert!(FileWriter::try_new(Vec::new(), map, WriteOptions::default()).is_ok());
}

#[test]
fn missing_columns_and_other_types_are_schema_mismatches() {
    let wanted = ArrowSchema::new(vec![ArrowField::new("a", DataType::Int32, true)]);
    for batch in [
        one_column(ArrowField::new("b", DataType::Int32, true), Arc::new(Int32Array::from(vec![1]))),
        one_column(ArrowField::new("a", DataType::Int64, true), Arc::new(Int64Array::from(vec![1]))),
    ] {
        let schema = Schema::from_arrow(&wanted).unwrap();
        let mut writer = FileWriter::try_new(Vec::new(), schema, WriteOptions::default()).unwrap();
        let error = writer.write(&batch).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::SchemaMismatch);
        assert!(error.to_string().contains("`a`"), "{error}");
    }
}

#[test]
fn values_of_no_bytes_cannot_be_written() {
    for data_type in [DataType::Struct(Fields::empty()), DataType::FixedSizeBinary(0)] {
        let field = ArrowField::new("a", data_type.clone(), true);
        let batch = one_column(field, new_null_array(&data_type, 2));
        let error = write(&[batch], WriteOptions::default()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported);
        assert!(error.to_string().contains("field `a`"), "{error}");
    }
}

#[test]
fn what_a_version_cannot_hold_is_refused_by_path() {
    let flag = |data_type, flag: &str| {
        let metadata = [(flag.to_owned(), "true".to_owned())];
        ArrowField::new("a", data_type, true).with_metadata(metadata.into())
    };
    let packed = |member| {
        let members = vec![ArrowField::new("x", member, true)];
        flag(DataType::Struct(members.into()), "lance-encoding:packed")
    };
    let item = |data_type| Arc::new(ArrowField::new("item", data_type, true));
    let structs = DataType::Struct(vec![ArrowField::new("x", DataType::Int8, true)].into());
    let pairs = DataType::FixedSizeList(item(DataType::Int8), 2);
    let blob = flag(DataType::LargeBinary, "lance-encoding:blob");
    let fixed = DataType::FixedSizeList(item(structs), 2);
    let second = ArrowField::new("a", DataType::LargeBinary, true)
        .with_metadata([("ARROW:extension:name".to_owned(), "lance.blob.v2".to_owned())].into());
    let all = [FileVersion::V2_0, FileVersion::V2_1, FileVersion::V2_2];
    for (field, refused, why) in [
        (packed(DataType::Utf8), &all[..2], "members of type Utf8 in a packed struct need file version 2.2"),
        (packed(pairs), &all[1..2], "need file version 2.0 or 2.2"),
        (packed(DataType::Boolean), &all[..], "have no whole bytes"),
        (packed(fixed.clone()), &all[..], "values of type FixedSizeList"),
        (packed(DataType::FixedSizeBinary(0)), &all[..], "have no bytes"),
        (flag(DataType::Binary, "lance-encoding:blob"), &all[..], "blobs of type Binary"),
        (ArrowField::new("a", DataType::List(blob.into()), true), &all[1..], "blobs in lists"),
        (second, &all[..], "lance.blob.v2"),
        (ArrowField::new("a", fixed.clone(), true), &all[..2], "fixed-size lists of structs"),
        (ArrowField::new("a", DataType::List(item(fixed)), true), &all[..], "fixed-size lists of structs"),
    ] {
        for version in all {
            let schema = Schema::from_arrow(&ArrowSchema::new(vec![field.clone()])).unwrap();
            let written =
                FileWriter::try_new(Vec::new(), schema, WriteOptions { version, ..WriteOptions::default() });
            assert_eq!(written.is_err(), refused.contains(&version), "{field} in {version}");
            if let Err(error) = written {
                assert_eq!(error.kind(), ErrorKind::Unsupported);
                assert!(error.to_string().contains(why), "{error}");
                assert!(error.to_string().contains("field `a"), "{error}");
            }
        }
    }
}

#[test]
fn members_of_packed_structs_are_null_only_with_their_struct() {
    let members: Fields = vec![ArrowField::new("x", DataType::Int32, true)].into();
    let values: ArrayRef = Arc::new(Int32Array::from(vec![Some(1), None, Some(3)]));
    let field = ArrowField::new("a", DataType::Struct(members.clone()), true)
        .with_metadata([("packed".to_owned(), "true".to_owned())].into());
    for (valid, fits) in
        [([true, false, true], true), ([true, true, true], false), ([false, true, true], false)]
    {
        let array = StructArray::new(members.clone(), vec![values.clone()], Some(valid.to_vec().into()));
        let written = write(&[one_column(field.clone(), Arc::new(array))], WriteOptions::default());
        assert_eq!(written.is_ok(), fits);
        if let Err(error) = written {
            assert_eq!(error.kind(), ErrorKind::InvalidInput);
            assert!(
                error.to_string().contains("field `a`: member `x` of a packed struct has 1 nulls"),
                "{error}"
            );
        }
    }
}

#[test]
fn structs_without_members() {
    let nothing = |name: &str| ArrowField::new(name, DataType::Struct(Fields::empty()), true);
    let plain = |len: usize| -> ArrayRef { Arc::new(StructArray::new_empty_fields(len, None)) };
    let members = Fields::from(vec![ArrowField::new("x", DataType::Int32, true), nothing("e")]);
    let values = Arc::new(Int32Array::from(vec![Some(1), None, Some(3)]));
    let around = |nulls| -> ArrayRef {
        Arc::new(StructArray::new(members.clone(), vec![values.clone(), plain(3)], nulls))
    };
    let outer = ArrowField::new("s", DataType::Struct(members.clone()), true);
    let item = Arc::new(nothing("item"));
    let lists = ListArray::new(Arc::clone(&item), OffsetBuffer::from_lengths([1, 0]), plain(1), None);
    let list = ArrowField::new("l", DataType::List(item), true);
    let nulls = || Some(NullBuffer::from(vec![true, false, true]));
    for version in [FileVersion::V2_1, FileVersion::V2_2] {
        let options = WriteOptions { version, ..WriteOptions::default() };
        check(&nothing("e"), &[plain(5000), plain(7)], options, &mut Random(3));
        check(&outer, &[around(None), around(None)], options, &mut Random(4));
        for (field, array) in [
            (nothing("e"), Arc::new(StructArray::new_empty_fields(3, nulls())) as ArrayRef),
            (nothing("e"), Arc::new(StructArray::new_empty_fields(2, Some(NullBuffer::new_null(2))))),
            (outer.clone(), around(nulls())),
            (list.clone(), Arc::new(lists.clone())),
        ] {
            let error = write(&[one_column(field, array)], options).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Unsupported);
            assert!(error.to_string().contains("structs without members"), "{error}");
        }
        let turned = DataType::Struct(members.iter().rev().cloned().collect());
        let schema = ArrowSchema::new(vec![ArrowField::new("s", turned, true)]);
        let schema = Schema::from_arrow(&schema).unwrap();
        let error = FileWriter::try_new(Vec::new(), schema, options).unwrap_err();
        assert!(error.to_string().contains("field `s.e`: behind a struct without members"), "{error}");
    }
}

#[test]
fn finished_names_leaves_and_counts_bytes() {
    let members = Fields::from(vec![ArrowField::new("x", DataType::Int8, true)]);
    let a = StructArray::new(members.clone(), vec![Arc::new(Int8Array::from(vec![1, 2]))], None);
    let schema = ArrowSchema::new(vec![
        ArrowField::new("a", DataType::Struct(members), true),
        ArrowField::new("b", DataType::Utf8, true),
    ]);
    let b = StringArray::from(vec!["p", "q"]);
    let batch = RecordBatch::try_new(Arc::new(schema), vec![Arc::new(a), Arc::new(b)]).unwrap();
    let (finished, bytes) = write(&[batch], WriteOptions::default()).unwrap();
    assert_eq!(finished.fields, [FieldId(1), FieldId(2)]);
    assert_eq!(finished.column_indices, [0, 1]);
    assert_eq!((finished.rows, finished.size), (2, bytes.len() as u64));
}
