//! Label list indices: the set of rows of each item of lists.
//!
//! The file is that of a bitmap index whose keys are items; a row is in the set of each of its items once, and rows with
//! an empty list are in none. The rows whose list is null are a [`RowSet`] in a global buffer, whose index is in the
//! metadata of the schema (version 1; version 0 does not have them).

use std::io::Write;

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, UInt64Array};
use arrow_buffer::OffsetBuffer;
use arrow_schema::DataType;
use arrow_select::take::take;
use pennon_core::file::FileVersion;
use pennon_core::{Error, Result};
use pennon_datafile::statistics::Bound;

use crate::answer::Answer;
use crate::bitmap::{BitmapIndex, BitmapWriter};
use crate::files::{IndexFiles, WrittenFile, rows_in_buffer};
use crate::row_set::RowSet;
use crate::sort::SortedRun;
use crate::value_test::ValueTest;
use crate::values::Value;

/// Metadata of the schema: which global buffer has the rows whose list is null.
const NULLS: &str = "lance:label_list_nulls";

/// A label list index that was opened.
#[derive(Debug)]
pub struct LabelListIndex {
    items: BitmapIndex,
    /// Rows whose list is null.
    nulls: RowSet,
}

impl LabelListIndex {
    /// Reads the items. Errors: `NotFound`, `Store`, and `Corrupt` with the name of the file.
    pub fn open(files: &dyn IndexFiles) -> Result<Self> {
        let items = BitmapIndex::open(files)?;
        let nulls = Self::nulls_of(&items).map_err(|e| e.in_file(items.name()))?;
        Ok(Self { items, nulls })
    }

    fn nulls_of(items: &BitmapIndex) -> Result<RowSet> {
        let found = rows_in_buffer(items.reader(), NULLS)?;
        found.ok_or_else(|| Error::corrupt(format!("the schema has no `{NULLS}`")))
    }

    /// How many items there are, null among them.
    pub fn num_items(&self) -> usize {
        self.items.num_keys()
    }

    /// Type of the items.
    pub fn item_type(&self) -> &DataType {
        self.items.data_type()
    }

    /// Rows whose list is null.
    pub fn nulls(&self) -> &RowSet {
        &self.nulls
    }

    /// Bytes of memory it holds.
    pub fn memory_bytes(&self) -> usize {
        self.items.memory_bytes() + self.nulls.memory_bytes()
    }

    /// Every item with its rows, in the order of items, some at a time. Errors: those of [`Self::search`].
    pub fn scan(&self, give: &mut dyn FnMut(&ArrayRef, Vec<RowSet>) -> Result<()>) -> Result<()> {
        self.items.scan(give)
    }

    /// The rows for which a test of lists holds; `None` for other tests.
    ///
    /// Errors: `Store`, and `Corrupt` with the name of the file.
    pub fn search(&self, test: &ValueTest) -> Result<Option<Answer>> {
        Ok(Some(match test {
            ValueTest::HasAny(items) => Answer::exact(self.any(items)?),
            ValueTest::HasAll(items) => Answer::exact(self.all(items)?),
            ValueTest::HasNone(items) => Answer::exact_except(self.any(items)?.union(self.nulls.clone())),
            ValueTest::LacksOne(items) => Answer::exact_except(self.all(items)?.union(self.nulls.clone())),
            _ => return Ok(None),
        }))
    }

    fn any(&self, items: &[Option<Bound>]) -> Result<RowSet> {
        let known = items.iter().filter_map(|item| self.position(item.as_ref())).collect();
        Ok(self.items.sets(known)?.into_iter().fold(RowSet::new(), RowSet::union))
    }

    fn all(&self, items: &[Option<Bound>]) -> Result<RowSet> {
        let known: Option<Vec<usize>> = items.iter().map(|item| self.position(item.as_ref())).collect();
        let sets = known.map(|known| self.items.sets(known)).transpose()?;
        let sets = sets.unwrap_or_default().into_iter();
        Ok(sets.reduce(|all, set| all.intersection(&set)).unwrap_or_default())
    }

    fn position(&self, item: Option<&Bound>) -> Option<usize> {
        self.items.position(item.map(Value::from).as_ref())
    }
}

/// The items of lists, each with the row of its list, and the rows whose list is null.
///
/// Errors: `InvalidInput` for values that are not lists, or as many rows as lists are not.
pub fn items_of(lists: &ArrayRef, rows: &UInt64Array) -> Result<(ArrayRef, UInt64Array, RowSet)> {
    if lists.len() != rows.len() {
        return Err(Error::invalid_input(format!("{} lists of {} rows", lists.len(), rows.len())));
    }
    if let Some(lists) = lists.as_list_opt::<i32>() {
        return explode(lists, lists.values(), lists.offsets(), rows);
    }
    match lists.as_list_opt::<i64>() {
        Some(lists) => explode(lists, lists.values(), lists.offsets(), rows),
        None => Err(Error::invalid_input(format!("values of type {}, expected lists", lists.data_type()))),
    }
}

fn explode<O: arrow_array::OffsetSizeTrait>(
    lists: &dyn Array,
    values: &ArrayRef,
    offsets: &OffsetBuffer<O>,
    rows: &UInt64Array,
) -> Result<(ArrayRef, UInt64Array, RowSet)> {
    let (mut at, mut of_item, mut nulls) = (Vec::new(), Vec::new(), Vec::new());
    for (list, ends) in offsets.windows(2).enumerate() {
        let (&[start, end], Some(row)) = (ends, rows.values().get(list)) else { continue };
        if lists.is_null(list) {
            nulls.push(*row);
            continue;
        }
        let before = at.len();
        at.extend(start.as_usize() as u64..end.as_usize() as u64);
        of_item.extend(std::iter::repeat_n(*row, at.len() - before));
    }
    let items = take(values.as_ref(), &UInt64Array::from(at), None)
        .map_err(|e| Error::unsupported(format!("the items of lists: {e}")))?;
    Ok((items, UInt64Array::from(of_item), RowSet::of(nulls)))
}

/// Writes the file of a label list index.
pub struct LabelListWriter<W> {
    items: BitmapWriter<W>,
}

impl<W: Write> LabelListWriter<W> {
    /// A writer of items of a type. Errors: those of [`BitmapWriter::try_new`].
    pub fn try_new(sink: W, item_type: &DataType, version: FileVersion) -> Result<Self> {
        Ok(Self { items: BitmapWriter::try_new(sink, item_type, version)? })
    }

    /// Appends items that are not below those before, each with its row.
    pub fn write(&mut self, run: &SortedRun) -> Result<()> {
        self.items.write(run)
    }

    /// Appends an item, which is above those before, with its rows.
    pub fn write_item(&mut self, item: ArrayRef, rows: &RowSet) -> Result<()> {
        self.items.write_key(item, rows)
    }

    /// Writes what is left, and the rows whose list is null. The sink is flushed, not synced.
    pub fn finish(mut self, nulls: &RowSet) -> Result<WrittenFile<W>> {
        let buffer = self.items.add_buffer(&nulls.encode()?)?;
        self.items.add_metadata(NULLS, buffer.to_string());
        self.items.finish()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::sync::Arc;

    use arrow_array::types::Int32Type;
    use arrow_array::{ListArray, StringArray};
    use pennon_datafile::{ByteSource, MemorySource};
    use proptest::prelude::*;

    use super::*;
    use crate::merge_runs;

    #[derive(Debug)]
    struct File(Vec<u8>);

    impl IndexFiles for File {
        fn open(&self, name: &str) -> Result<Arc<dyn ByteSource>> {
            Ok(Arc::new(MemorySource::new(name, self.0.clone())))
        }
    }

    type Lists = Vec<Option<Vec<Option<i32>>>>;

    fn written(lists: &Lists) -> File {
        let array: ArrayRef = Arc::new(ListArray::from_iter_primitive::<Int32Type, _, _>(lists.clone()));
        let rows: UInt64Array = (0..lists.len() as u64).map(|row| row * 3).collect();
        let (items, rows, nulls) = items_of(&array, &rows).unwrap();
        let mut writer = LabelListWriter::try_new(Vec::new(), items.data_type(), FileVersion::V2_1).unwrap();
        let half = items.len() / 2;
        let run = |start, len| SortedRun::sort(&items.slice(start, len), &rows.slice(start, len)).unwrap();
        let runs = [run(0, half), run(half, items.len() - half)];
        merge_runs(&runs, 5, &mut |run| writer.write(&run)).unwrap();
        File(writer.finish(&nulls).unwrap().sink)
    }

    proptest! {
        #[test]
        fn lists_are_found_as_by_looking_at_each(
            lists in proptest::collection::vec(
                proptest::option::weighted(0.8, proptest::collection::vec(proptest::option::weighted(0.9, 0..6_i32), 0..4)),
                0..30,
            ),
            wanted in proptest::collection::vec(proptest::option::weighted(0.9, 0..7_i32), 1..4),
        ) {
            let index = LabelListIndex::open(&written(&lists)).unwrap();
            let items: Vec<Option<Bound>> = wanted.iter().map(|v| v.map(|v| Bound::Int(v.into()))).collect();
            type Holds = fn(&[Option<i32>], &[Option<i32>]) -> bool;
            let tests: [(ValueTest, Holds); 4] = [
                (ValueTest::HasAny(items.clone()), |list, wanted| wanted.iter().any(|item| list.contains(item))),
                (ValueTest::HasAll(items.clone()), |list, wanted| wanted.iter().all(|item| list.contains(item))),
                (ValueTest::HasNone(items.clone()), |list, wanted| !wanted.iter().any(|item| list.contains(item))),
                (ValueTest::LacksOne(items), |list, wanted| !wanted.iter().all(|item| list.contains(item))),
            ];
            for (test, holds_for) in tests {
                let answer = index.search(&test).unwrap().unwrap();
                let found: BTreeSet<usize> =
                    (0..lists.len()).filter(|row| answer.rows.contains(*row as u64 * 3) != answer.is_complement).collect();
                let expected = lists.iter().enumerate().filter(|(_, list)| {
                    list.as_ref().is_some_and(|list| holds_for(list, &wanted))
                });
                prop_assert_eq!(found, expected.map(|(row, _)| row).collect::<BTreeSet<_>>(), "{:?}", test);
            }
        }
    }

    #[test]
    fn other_values_are_refused() {
        let texts: ArrayRef = Arc::new(StringArray::from(vec!["a"]));
        assert!(
            items_of(&texts, &UInt64Array::from(vec![0])).unwrap_err().to_string().contains("expected lists")
        );
        assert!(items_of(&texts, &UInt64Array::from(vec![0, 1])).is_err());
    }

    #[test]
    fn a_bitmap_index_is_none() {
        let mut writer = BitmapWriter::try_new(Vec::new(), &DataType::Int32, FileVersion::V2_1).unwrap();
        writer.write_key(Arc::new(arrow_array::Int32Array::from(vec![1])), &RowSet::of(vec![1])).unwrap();
        let file = writer.finish().unwrap();
        let error = LabelListIndex::open(&File(file.sink)).unwrap_err();
        assert!(error.to_string().contains("lance:label_list_nulls"), "{error}");
    }
}
