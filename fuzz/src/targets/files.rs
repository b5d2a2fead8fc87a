//! Data files: opened, described and read, with and without a look at checksums.

use std::ops::Range;
use std::sync::Arc;

use arrow_array::Array;
use bytes::Bytes;
use pennon_core::rows::RowRanges;
use pennon_datafile::{Ahead, ByteSource, FileMetadata, FileReader, MemorySource, Seal, VerifyReads};
use twox_hash::XxHash3_64;

use crate::checked;
use crate::inputs::Pieces;

/// More rows are not read at once, since a page of one value has any number of rows.
const MOST_ROWS: u64 = 3000;
/// Fields of a schema that are read.
const MOST_FIELDS: usize = 12;

/// A file in memory, read with or without a look at checksums.
#[derive(Debug)]
pub struct Source(pub MemorySource, pub VerifyReads);

impl Source {
    /// Bytes of which no checksum is compared.
    pub fn unchecked(bytes: Vec<u8>) -> Arc<dyn ByteSource> {
        Arc::new(Self(MemorySource::new("input", bytes), VerifyReads::Off))
    }
}

impl ByteSource for Source {
    fn size(&self) -> pennon_core::Result<u64> {
        self.0.size()
    }

    fn read(&self, ranges: &[Range<u64>]) -> pennon_core::Result<Vec<Bytes>> {
        self.0.read(ranges)
    }

    fn name(&self) -> &str {
        self.0.name()
    }

    fn is_local(&self) -> bool {
        false
    }

    fn seal(&self) -> pennon_core::Result<Option<Seal>> {
        Seal::at_end(&self.0)
    }

    fn verify_reads(&self) -> VerifyReads {
        self.1
    }
}

/// A file as it is, of any version; the first byte says how much is read with the metadata.
pub fn datafile(data: &[u8]) {
    let Some((ahead, file)) = data.split_first() else { return };
    let ahead = [Ahead::Metadata, Ahead::Held(u64::from(*ahead)), Ahead::Kept][usize::from(ahead % 3)];
    for verify in [VerifyReads::Off, VerifyReads::Pages] {
        let source = Arc::new(Source(MemorySource::new("input", file.to_vec()), verify));
        if let Some(reader) = checked(FileReader::open_ahead(source, ahead)) {
            read(&reader);
        }
    }
    let source: Arc<dyn ByteSource> = Arc::new(MemorySource::new("input", file.to_vec()));
    if let Some(reader) = checked(FileReader::open_to_verify(source))
        && let Some(check) = checked(reader.block_check()).flatten()
        && let Some(damaged) = checked(check.all_damaged_blocks())
    {
        for block in damaged {
            for (column, page) in reader.pages_in(&block.bytes) {
                let _ = (reader.column_name(column), reader.rows_of_page(column, page));
            }
        }
    }
}

/// A file that is made of pieces.
pub fn pieces(data: &[u8]) {
    let source = Source::unchecked(Pieces::decode(data).file());
    let _ = checked(FileMetadata::read(source.as_ref()));
    if let Some(reader) = checked(FileReader::open(source)) {
        read(&reader);
    }
}

/// Reads all of a file. Arrays are as long as was asked for, and valid.
pub fn read(reader: &FileReader) {
    let metadata = reader.metadata();
    let rows = metadata.num_rows;
    let end = rows.min(MOST_ROWS);
    let map = reader.column_map();
    let scattered: RowRanges = (0..end).step_by(7).map(|row| row..(row + 1 + row % 3).min(end)).collect();
    let last: RowRanges = (rows.saturating_sub(300)..rows).into();
    for field in metadata.schema.fields.iter().take(MOST_FIELDS) {
        let fields = std::slice::from_ref(field);
        for ranges in [&(0..end).into(), &scattered, &last] {
            if let Some(arrays) = checked(reader.read(fields, &map, ranges)) {
                assert_eq!(arrays.len(), 1);
                assert_eq!(arrays[0].len() as u64, ranges.count());
                arrays[0].to_data().validate_full().expect("an array that was read");
            }
        }
        if let Some(nulls) = checked(reader.read_nulls(field, &map, &scattered)) {
            assert_eq!(nulls.len() as u64, scattered.count());
        }
        let _ = checked(reader.bytes_in_memory(&[field], &map, &scattered));
    }
    for column in 0..u32::try_from(metadata.columns.len().min(MOST_FIELDS)).unwrap_or(0) {
        let _ = checked(reader.statistics(column));
        let _ = checked(reader.read_u64_column(column, &(0..end).into()));
        let _ = (reader.column_name(column), reader.rows_of_page(column, 0), reader.rows_of_page(column, 1));
    }
    for buffer in 0..u32::try_from(metadata.global_buffers.len().min(MOST_FIELDS)).unwrap_or(0) {
        let _ = checked(reader.global_buffer(buffer));
    }
    let _ = (reader.pages_in(&(0..metadata.size / 2)), reader.memory_size());
}

/// A seal, with a checksum that is made right, alone and behind a file.
pub fn seal(data: &[u8]) {
    let Some((length, rest)) = data.split_first() else { return };
    let (file, seal) = rest.split_at(rest.len().min(usize::from(*length)));
    let mut seal = seal.to_vec();
    let checksum = XxHash3_64::oneshot(&seal);
    seal.extend_from_slice(&checksum.to_le_bytes());
    let source: Arc<dyn ByteSource> = Arc::new(MemorySource::new("input", file.to_vec()));
    if let Some(seal) = checked(Seal::decode(&Bytes::from(seal.clone()))) {
        let _ = (seal.size(), checked(seal.check(file)), seal.encode());
        if let Some(check) = checked(seal.block_check(Arc::clone(&source))) {
            let _ = checked(check.all_damaged_blocks());
        }
        if let Some(source) = checked(seal.checked(source)) {
            let _ = checked(source.read(&[0..file.len() as u64, 0..1]));
        }
    }
    let length = seal.len() as u64;
    let whole = [file, &seal, &length.to_le_bytes(), b"PENNSEAL"].concat();
    let _ = checked(Seal::at_end(&MemorySource::new("input", whole)));
    let _ = checked(Seal::at_end(&MemorySource::new("input", rest.to_vec())));
}
