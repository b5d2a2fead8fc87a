//! Columns of another file, whose pages are taken as they are.

use std::io::Write;

use pennon_core::{Error, Result};

use super::FileWriter;
use crate::container::writer::Page;
use crate::reader::FileReader;

impl<W: Write> FileWriter<W> {
    /// Takes a column of another file as it is stored there: its pages are copied, and nothing is decoded. Batches need not
    /// have the column then. The file gets no statistics of it.
    ///
    /// Both files must be of the same version, 2.1 or later, and have the same leaf of that name at the top of their
    /// schemas, which holds no blobs.
    ///
    /// Errors: `InvalidInput` for other columns, and if rows were written before; [`Self::finish`] gives the same if the
    /// batches have other numbers of rows in the end. Those of reading; `Store` when the sink fails.
    pub fn copy_column(&mut self, name: &str, from: &FileReader) -> Result<()> {
        self.check_alive()?;
        let refused = |what: &str| Error::invalid_input(format!("column `{name}` cannot be copied: {what}"));
        let (version, of_source) = (self.version, from.metadata().version);
        if version != of_source || !version.is_structural() {
            return Err(refused(&format!(
                "it is in a file of version {of_source}, this one has version {version}"
            )));
        }
        if self.rows > 0 {
            return Err(refused("the file has rows"));
        }
        let mut fields = self.schema.fields.iter().enumerate();
        let (at, field) =
            fields.find(|(_, field)| field.name == name).ok_or_else(|| refused("the file has none"))?;
        if self.copied.contains_key(&at) {
            return Err(refused("it was copied before"));
        }
        let source = from.metadata().schema.field(name).ok_or_else(|| refused("the other file has none"))?;
        let (found, expected) = (source.data_type(), field.data_type());
        if found != expected || source.nullable != field.nullable || source.metadata != field.metadata {
            return Err(refused(&format!("it is {found}, expected {expected}, or has other metadata")));
        }
        let (Some([column]), Some(stored)) =
            (self.columns.get_mut(at).map(Vec::as_mut_slice), from.column_map().column(source.id))
        else {
            return Err(refused("it has several columns"));
        };
        if column.has_blobs() {
            return Err(refused("its values are outside of its pages"));
        }
        let index = column.index();
        column.take_statistics();
        self.failed = true;
        let mut rows = 0;
        for page in from.pages_of(stored) {
            let buffers = from.stored_page(page)?.into_iter().map(Vec::from).collect();
            let copied = Page { num_rows: page.num_rows, layout: page.layout.clone(), buffers };
            self.out.page(index, copied, rows)?;
            rows += page.num_rows;
        }
        self.failed = false;
        self.copied.insert(at, rows);
        Ok(())
    }

    /// Errors: `InvalidInput` unless the columns that were copied have the rows of the others.
    pub(super) fn check_copied(&self) -> Result<()> {
        match self.copied.values().find(|rows| **rows != self.rows) {
            None => Ok(()),
            Some(rows) => Err(Error::invalid_input(format!(
                "a column that was copied has {rows} rows, the batches have {}",
                self.rows
            ))),
        }
    }
}

#[cfg(test)]
#[allow(clippy::indexing_slicing, clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use std::sync::Arc;

    use arrow_array::{ArrayRef, RecordBatch, UInt64Array};
    use arrow_schema::{DataType, Field, Schema as ArrowSchema};
    use pennon_core::ErrorKind;
    use pennon_core::file::FileVersion;
    use pennon_core::rows::RowRanges;
    use pennon_core::schema::Schema;
    use proptest::prelude::*;

    use super::super::tests::{Random, plain, write};
    use super::*;
    use crate::{MemorySource, WriteOptions};

    const OPTIONS: WriteOptions = WriteOptions { version: FileVersion::V2_2, max_page_bytes: 8 << 20 };

    fn batch(columns: Vec<(Field, ArrayRef)>) -> RecordBatch {
        let (fields, arrays): (Vec<Field>, Vec<ArrayRef>) = columns.into_iter().unzip();
        RecordBatch::try_new(Arc::new(ArrowSchema::new(fields)), arrays).unwrap()
    }

    fn rows(len: usize) -> (Field, ArrayRef) {
        let rows: UInt64Array = (0..len as u64).map(|row| row * 7).collect();
        (Field::new("rows", DataType::UInt64, false), Arc::new(rows))
    }

    fn opened(bytes: Vec<u8>) -> FileReader {
        FileReader::open(Arc::new(MemorySource::new("f.lance", bytes))).unwrap()
    }

    fn writer(batch: &RecordBatch, options: WriteOptions) -> FileWriter<Vec<u8>> {
        FileWriter::try_new(Vec::new(), Schema::from_arrow(&batch.schema()).unwrap(), options).unwrap()
    }

    proptest! {
        #[test]
        fn a_copy_reads_as_the_original(
            seed: u64, lens in prop::collection::vec(0usize..400, 1..4), small_pages: bool, old: bool,
        ) {
            let mut random = Random(seed);
            let field = Field::new("values", random.data_type(0), random.below(3) > 0);
            let options = WriteOptions {
                version: if old { FileVersion::V2_1 } else { FileVersion::V2_2 },
                max_page_bytes: if small_pages { 500 } else { 8 << 20 },
            };
            let batches: Vec<RecordBatch> =
                lens.iter().map(|&len| batch(vec![rows(len), (field.clone(), random.array(&field, len))])).collect();
            let original = opened(write(&batches, options).unwrap().1);
            let mut writer = writer(&batches[0], options);
            writer.copy_column("values", &original).unwrap();
            for (at, batch) in batches.iter().enumerate() {
                // With the column, which is passed over, and without.
                writer.write(&batch.project(if at == 0 { &[0, 1] } else { &[0] }).unwrap()).unwrap();
            }
            let copy = opened(writer.finish().unwrap().1);
            prop_assert_eq!(copy.metadata().num_rows, original.metadata().num_rows);
            let all = RowRanges::from(0..original.metadata().num_rows);
            let read = |reader: &FileReader| {
                let fields = &reader.metadata().schema.fields;
                reader.read(fields, &reader.column_map(), &all).unwrap().into_iter().map(plain).collect::<Vec<_>>()
            };
            prop_assert_eq!(read(&copy), read(&original));
            prop_assert!(copy.metadata().checksums.is_some());
        }
    }

    #[test]
    fn what_cannot_be_copied_is_refused() {
        let text = |len: usize| {
            (
                Field::new("values", DataType::Utf8, true),
                Random(1).array(&Field::new("values", DataType::Utf8, true), len),
            )
        };
        let two = batch(vec![rows(3), text(3)]);
        let original = opened(write(std::slice::from_ref(&two), OPTIONS).unwrap().1);
        let refused = |writer: &mut FileWriter<Vec<u8>>, name: &str| {
            let error = writer.copy_column(name, &original).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error}");
            error.to_string()
        };
        let old = WriteOptions { version: FileVersion::V2_1, ..OPTIONS };
        assert!(
            refused(&mut writer(&two, old), "values")
                .contains("a file of version 2.2, this one has version 2.1")
        );
        assert!(refused(&mut writer(&two, OPTIONS), "none").contains("the file has none"));
        let other = batch(vec![rows(3), (Field::new("values", DataType::UInt64, false), rows(3).1)]);
        assert!(refused(&mut writer(&other, OPTIONS), "values").contains("it is Utf8, expected UInt64"));
        let mut begun = writer(&two, OPTIONS);
        begun.write(&two).unwrap();
        assert!(refused(&mut begun, "values").contains("the file has rows"));
        let mut short = writer(&two, OPTIONS);
        short.copy_column("values", &original).unwrap();
        assert!(refused(&mut short, "values").contains("it was copied before"));
        short.write(&two.slice(0, 2).project(&[0]).unwrap()).unwrap();
        let error = short.finish().unwrap_err();
        assert!(error.to_string().contains("has 3 rows, the batches have 2"), "{error}");
    }
}
