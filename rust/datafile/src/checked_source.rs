//! A source that checks the blocks it reads.

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use pennon_core::{Error, Result};

use crate::container::checksums::Checksums;
use crate::encodings::le::to_usize;
use crate::source::{ByteSource, VerifyReads};

/// A file whose blocks have checksums: whole blocks are read, and checked.
#[derive(Debug)]
pub(crate) struct CheckedSource {
    source: Arc<dyn ByteSource>,
    checksums: Checksums,
    /// The checksums of the blocks.
    table: Bytes,
}

impl CheckedSource {
    /// Checks what is read of a source, whose blocks have these checksums.
    pub(crate) fn new(source: Arc<dyn ByteSource>, checksums: Checksums, table: Bytes) -> Self {
        Self { source, checksums, table }
    }
}

/// The checksums of the blocks of a file.
pub(crate) fn read_table(source: &dyn ByteSource, checksums: &Checksums) -> Result<Bytes> {
    let table = source.read(&[checksums.table_range()])?.pop();
    table.ok_or_else(|| Error::internal("the checksums of blocks were not read"))
}

impl ByteSource for CheckedSource {
    fn size(&self) -> Result<u64> {
        self.source.size()
    }

    fn read(&self, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        let widened: Vec<Range<u64>> = ranges
            .iter()
            .map(|range| if range.is_empty() { range.clone() } else { self.checksums.widened(range) })
            .collect();
        let read = self.source.read(&widened)?;
        let parts = ranges.iter().zip(&widened).zip(read);
        parts
            .map(|((range, widened), bytes)| {
                match self.checksums.damaged_blocks(widened, &bytes, &self.table)?.first() {
                    Some(damaged) => Err(Error::corrupt(damaged.to_string())),
                    None => {
                        let start = to_usize(range.start - widened.start)?;
                        Ok(bytes.slice(start..start + to_usize(range.end - range.start)?))
                    }
                }
            })
            .collect()
    }

    fn name(&self) -> &str {
        self.source.name()
    }

    fn is_local(&self) -> bool {
        self.source.is_local()
    }

    fn forget(&self) {
        self.source.forget();
    }

    fn verify_reads(&self) -> VerifyReads {
        VerifyReads::Pages
    }
}

#[cfg(test)]
mod tests {
    use arrow_array::builder::{Int32Builder, ListBuilder};
    use arrow_array::{ArrayRef, BinaryArray, Int64Array, RecordBatch, StringArray};
    use pennon_core::file::FileVersion;
    use pennon_core::rows::RowRanges;
    use pennon_core::schema::Schema;

    use super::*;
    use crate::container::DamagedBlock;
    use crate::source::MemorySource;
    use crate::{FileReader, FileWriter, WriteOptions};

    /// A file in memory of which these checksums are looked at.
    #[derive(Debug)]
    struct File(MemorySource, VerifyReads);

    impl ByteSource for File {
        fn size(&self) -> Result<u64> {
            self.0.size()
        }

        fn read(&self, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
            self.0.read(ranges)
        }

        fn name(&self) -> &str {
            self.0.name()
        }

        fn is_local(&self) -> bool {
            false
        }

        fn verify_reads(&self) -> VerifyReads {
            self.1
        }
    }

    const ROWS: usize = 12_000;

    fn batch() -> RecordBatch {
        let mixed = |at: usize| (at as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let mut lists = ListBuilder::new(Int32Builder::new());
        for at in 0..ROWS {
            let length = usize::try_from(mixed(at) >> 62).unwrap();
            lists.append_option((length > 0).then(|| (0..3).take(length).map(Some)));
        }
        let words = (0..ROWS).map(|at| (at % 7 > 0).then(|| format!("{:x}", mixed(at) >> 20)));
        let large = (0_u8..).take(ROWS / 500).map(|at| vec![at; 700]);
        let large: Vec<Vec<u8>> = large.collect();
        let of_row = |at: usize| large.get(at / 500).filter(|_| at.is_multiple_of(500)).map(Vec::as_slice);
        let columns: [(&str, ArrayRef); 4] = [
            ("key", Arc::new(Int64Array::from_iter_values((0..ROWS).map(|at| mixed(at).cast_signed())))),
            ("word", Arc::new(words.collect::<StringArray>())),
            ("list", Arc::new(lists.finish())),
            ("large", Arc::new((0..ROWS).map(of_row).collect::<BinaryArray>())),
        ];
        RecordBatch::try_from_iter(columns).unwrap()
    }

    fn write(batch: &RecordBatch, version: FileVersion) -> Vec<u8> {
        let schema = Schema::from_arrow(&batch.schema()).unwrap();
        let options = WriteOptions { version, max_page_bytes: 20_000 };
        let mut writer = FileWriter::try_new(Vec::new(), schema, options).unwrap();
        writer.add_global_buffer(b"of the application").unwrap();
        writer.write(batch).unwrap();
        writer.finish().unwrap().1
    }

    fn open(bytes: Vec<u8>) -> Result<FileReader> {
        FileReader::open(Arc::new(File(MemorySource::new("file", bytes), VerifyReads::Pages)))
    }

    fn damaged_blocks(reader: &FileReader) -> Vec<DamagedBlock> {
        reader.block_check().unwrap().unwrap().all_damaged_blocks().unwrap()
    }

    fn read(reader: &FileReader, rows: &RowRanges) -> Result<Vec<ArrayRef>> {
        reader.read(&reader.metadata().schema.fields, &reader.column_map(), rows)
    }

    #[test]
    fn every_flipped_bit_is_found_or_without_effect() {
        let batch = batch();
        let all = RowRanges::from(0..ROWS as u64);
        let few = RowRanges::from([5..9, 4_000..4_001, 11_990..12_000]);
        for version in [FileVersion::V2_0, FileVersion::V2_1, FileVersion::V2_2] {
            let file = write(&batch, version);
            let reader = open(file.clone()).unwrap();
            let fields = reader.metadata().schema.fields.clone();
            assert!(reader.has_checksums() && damaged_blocks(&reader).is_empty());
            let (expected, expected_few) = (read(&reader, &all).unwrap(), read(&reader, &few).unwrap());
            for (field, (found, written)) in fields.iter().zip(expected.iter().zip(batch.columns())) {
                assert!(found == written, "{version}: {}", field.name);
            }
            let bits = file.len() * 8;
            // All of the metadata, and some of what lies before it.
            let of_metadata = (bits - 8 * 600..bits).collect::<Vec<_>>();
            let elsewhere = (0..1_500_u64)
                .map(|at| usize::try_from(at.wrapping_mul(0x9e37_79b9_7f4a_7c15) % bits as u64).unwrap());
            let (mut at_opening, mut in_blocks) = (0, 0);
            for bit in of_metadata.into_iter().chain(elsewhere) {
                let mut damaged = file.clone();
                damaged[bit / 8] ^= 1 << (bit % 8);
                let Ok(reader) = open(damaged) else {
                    at_opening += 1;
                    continue;
                };
                let blocks = damaged_blocks(&reader);
                assert_eq!(blocks.len(), 1, "{version}: bit {bit} is not found");
                in_blocks += 1;
                for (rows, expected) in [(&all, &expected), (&few, &expected_few)] {
                    match read(&reader, rows) {
                        Ok(arrays) => assert_eq!(arrays, *expected, "{version}: bit {bit}"),
                        Err(error) => {
                            assert!(error.to_string().contains("changed after"), "bit {bit}: {error}");
                        }
                    }
                }
            }
            assert!(at_opening > 4_000 && in_blocks > 1_000, "{version}: {at_opening}, {in_blocks}");
        }
    }

    #[test]
    fn a_damaged_block_names_its_pages() {
        let batch = batch();
        let file = write(&batch, FileVersion::V2_2);
        let page = open(file.clone()).unwrap().metadata().columns[1].pages[2].clone();
        let mut damaged = file;
        let at = usize::try_from(page.buffers[1].start).unwrap();
        damaged[at + 3] ^= 1;
        let reader = open(damaged).unwrap();
        let blocks = damaged_blocks(&reader);
        assert!(reader.pages_in(&blocks[0].bytes).contains(&(1, 2)), "{blocks:?}");
        let error = read(&reader, &RowRanges::from(0..ROWS as u64)).unwrap_err().to_string();
        assert!(error.contains("data file file: ") && error.contains("were changed after"), "{error}");
    }

    #[test]
    fn files_without_checksums_and_of_unknown_kinds_are_read_as_they_are() {
        let batch = batch();
        let mut file = write(&batch, FileVersion::V2_2);
        let record = file.len() - 88;
        file[record + 8] = 1 ^ 0b11_0000;
        let reader = open(file.clone()).unwrap();
        assert!(!reader.has_checksums() && reader.block_check().unwrap().is_none());
        assert_eq!(read(&reader, &RowRanges::from(0..ROWS as u64)).unwrap(), batch.columns());
        file[record..record + 8].fill(0);
        assert!(!open(file).unwrap().has_checksums());
    }

    #[test]
    fn checksums_can_be_left_out() {
        let batch = batch();
        let mut file = write(&batch, FileVersion::V2_2);
        let at = file.len() - 41;
        file[at] ^= 1;
        let error = FileReader::open(Arc::new(MemorySource::new("file", file.clone()))).unwrap_err();
        assert!(error.to_string().contains("the metadata was changed"), "{error}");
        let reader =
            FileReader::open(Arc::new(File(MemorySource::new("file", file), VerifyReads::Off))).unwrap();
        assert_eq!(read(&reader, &RowRanges::from(0..ROWS as u64)).unwrap(), batch.columns());
    }
}
