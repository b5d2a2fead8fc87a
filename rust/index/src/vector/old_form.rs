//! The metric of an index, read alone. Of indices of the old form nothing else is read:
//!
//! | bytes | what |
//! |---|---|
//! | any | codes and row ids of the partitions |
//! | u32, so many bytes | `lance.index.pb.Index` |
//! | 16 | the footer of a file of version 0.1, with the position of the length |

use std::sync::Arc;

use bytes::Bytes;
use pennon_core::file::LegacyFooter;
use pennon_core::lengths::to_u64;
use pennon_core::wire::vector_index::old_form_metric;
use pennon_core::{Error, ErrorKind, Result};
use pennon_datafile::{ByteSource, FileReader};

use super::index::INDEX_FILE;
use super::{Metric, metadata};
use crate::files::IndexFiles;

/// The metric of an index. Neither the other file nor the partitions are read.
///
/// Errors: `Unsupported` for files of another form; `Corrupt`; those of reading.
pub fn metric_of_files(files: &dyn IndexFiles) -> Result<Metric> {
    let file = files.open(INDEX_FILE)?;
    let read = FileReader::open(Arc::clone(&file));
    let found = read.and_then(|reader| {
        let found = metadata::kind(&reader.metadata().schema.metadata);
        found.map(|(_, metric)| metric).map_err(|e| e.in_file(file.name()))
    });
    let is_other_form = |error: &Error| matches!(error.kind(), ErrorKind::Corrupt | ErrorKind::Unsupported);
    match found {
        Err(error) if is_other_form(&error) => metric_of_old_form(file.as_ref())
            .map_err(|old_form_error| if is_other_form(&old_form_error) { error } else { old_form_error }),
        found => found,
    }
}

/// The metric of an index of the old form: one file, whose partitions are not read.
fn metric_of_old_form(file: &dyn ByteSource) -> Result<Metric> {
    let other = || Error::unsupported(format!("{} is no index of the old form", file.name()));
    let corrupt = |what: &str| Error::corrupt(format!("{}: {what}", file.name()));
    let read = |start: u64, end: u64| -> Result<Bytes> {
        file.read(&[start..end])?.pop().ok_or_else(|| corrupt("nothing was read"))
    };
    let size = file.size()?;
    let end = size.checked_sub(to_u64(LegacyFooter::SIZE)).ok_or_else(other)?;
    let footer = LegacyFooter::decode(&read(end, size)?).ok_or_else(other)?;
    let start = footer.metadata.checked_add(4).filter(|start| *start <= end);
    let start = start.ok_or_else(|| corrupt("the message lies beyond the end"))?;
    let length = read(footer.metadata, start)?;
    let length = length.first_chunk::<4>().map(|bytes| u64::from(u32::from_le_bytes(*bytes)));
    let message_end = length.and_then(|length| start.checked_add(length)).filter(|message| *message <= end);
    let message = read(start, message_end.ok_or_else(|| corrupt("the message has no length"))?)?;
    old_form_metric(message)?.and_then(Metric::numbered).ok_or_else(other)
}

#[cfg(test)]
mod tests {
    use arrow_schema::DataType;

    use super::*;
    use crate::vector::VectorIndexKind;
    use crate::vector::index::AUXILIARY_FILE;
    use crate::vector::testing::{Files, built, model, random_vectors};

    /// A file with a message whose length and position are as given.
    fn file(message: &[u8], length: u32, position: u64, minor: u8) -> Files {
        let mut bytes = b"codes".to_vec();
        bytes.extend(length.to_le_bytes());
        bytes.extend(message);
        bytes.extend(position.to_le_bytes());
        bytes.extend([0, 0, minor, 0]);
        bytes.extend(b"LANC");
        Files([(INDEX_FILE, bytes)].into())
    }

    fn of_old_form(files: &Files) -> Result<Metric> {
        metric_of_old_form(IndexFiles::open(files, INDEX_FILE)?.as_ref())
    }

    #[test]
    fn one_file_is_read() {
        let vectors = random_vectors(&DataType::Float32, 4, 50, 1);
        let of_kind = |kind| built(model(kind, Metric::Cosine, &vectors, 2, (8, 2)), &vectors);
        for kind in [VectorIndexKind::IvfFlat, VectorIndexKind::IvfHnswSq] {
            let mut files = of_kind(kind);
            files.0.remove(AUXILIARY_FILE).unwrap();
            assert_eq!(files.open().unwrap_err().kind(), ErrorKind::NotFound);
            assert_eq!(metric_of_files(&files).unwrap(), Metric::Cosine);
        }
        let mut damaged = of_kind(VectorIndexKind::IvfFlat);
        damaged.0.get_mut(INDEX_FILE).unwrap().truncate(100);
        assert_eq!(metric_of_files(&damaged).unwrap_err().kind(), ErrorKind::Corrupt);
        assert_eq!(metric_of_files(&Files::default()).unwrap_err().kind(), ErrorKind::NotFound);
    }

    #[test]
    fn the_metric() {
        for (metric, number) in [(Metric::Cosine, 1), (Metric::Dot, 2)] {
            let found = of_old_form(&file(&[10, 1, b'v', 0x2a, 2, 32, number], 7, 5, 1));
            assert_eq!(found.unwrap(), metric);
            let found = metric_of_files(&file(&[10, 1, b'v', 0x2a, 2, 32, number], 7, 5, 1));
            assert_eq!(found.unwrap(), metric);
        }
        assert_eq!(of_old_form(&file(&[0x2a, 2, 8, 1], 4, 5, 1)).unwrap(), Metric::L2);
    }

    #[test]
    fn other_files_are_refused() {
        let kind = |files: &Files| of_old_form(files).unwrap_err().kind();
        let message = [0x2a, 2, 32, 1];
        assert_eq!(kind(&Files::default()), ErrorKind::NotFound);
        assert_eq!(kind(&Files([(INDEX_FILE, b"LANC".to_vec())].into())), ErrorKind::Unsupported);
        assert_eq!(kind(&file(&message, 4, 5, 3)), ErrorKind::Unsupported, "a file of version 2");
        assert_eq!(kind(&file(&[10, 1, b'v'], 3, 5, 1)), ErrorKind::Unsupported, "no vectors");
        assert_eq!(kind(&file(&[0x2a, 2, 32, 9], 4, 5, 1)), ErrorKind::Unsupported, "an unknown metric");
        for (length, position) in [(5, 5), (u32::MAX, 5), (4, 6), (4, 13), (4, 14), (4, u64::MAX)] {
            let found = kind(&file(&message, length, position, 1));
            assert_eq!(found, ErrorKind::Corrupt, "{length} bytes at {position}");
        }
        for end in 0..file(&message, 4, 5, 1).0[INDEX_FILE].len() {
            let cut = file(&message, 4, 5, 1).0[INDEX_FILE][..end].to_vec();
            assert!(of_old_form(&Files([(INDEX_FILE, cut)].into())).is_err(), "{end} bytes");
        }
    }
}
