//! Messages of tables: manifests with their sections, transactions, entries of indices, and names of files.

use bytes::Bytes;
use pennon_core::file::{
    ColumnMetadata, FileDescriptor, FileVersion, Footer, LegacyFooter, LegacyMetadata, LegacySchema,
};
use pennon_core::manifest::{
    DeletionFileType, Fragment, IndexMetadata, Manifest, ManifestFile, Tail, naming, paths,
};
use pennon_core::transaction::{KeyFilter, Transaction};
use pennon_core::wire::fragment_reuse::StoredMoves;
use pennon_core::wire::index_parts::IndexParts;
use pennon_core::wire::index_section;
use pennon_core::wire::json_index::JsonIndexParts;
use pennon_core::wire::vector_index::{self, IvfMessage, Tensor, VectorIndexDetails};
use pennon_core::{RowAddress, Version, checksum};

use crate::checked;

/// A manifest file with its index section and its transaction.
pub fn manifest(data: &[u8]) {
    let _ = Tail::is_torn(data);
    let Some(file) = checked(ManifestFile::decode(Bytes::copy_from_slice(data))) else { return };
    let _ = file.has_checksum();
    of_manifest(&file.manifest);
    if let Some(section) = checked(file.indices()).flatten() {
        indices(section);
    }
    if let Some(section) = checked(file.transaction()).flatten() {
        transaction(&section);
    }
}

fn of_manifest(manifest: &Manifest) {
    let _ =
        (manifest.physical_rows(), manifest.live_rows(), manifest.memory_bytes(), manifest.next_field_id());
    for (whole, summary) in manifest.fragments.decode_all().zip(manifest.fragments.summaries()) {
        assert_eq!((whole.id, whole.physical_rows), (summary.id, summary.physical_rows));
        assert_eq!(whole.live_rows(), summary.live_rows());
        fragment(&whole);
    }
    let _ = (manifest.fragments.starts(), manifest.fragments.newer_than(Version(2)));
    let again = Manifest::decode(manifest.encode().into()).expect("what was decoded and encoded");
    assert_eq!(again.fragments.len(), manifest.fragments.len());
    let shared = Manifest::decode_sharing(manifest.encode().into(), Some(manifest)).expect("as before");
    assert_eq!(shared.fragments.len(), manifest.fragments.len());
    assert_eq!(again.schema, manifest.schema);
}

fn fragment(fragment: &Fragment) {
    let _ = checked(fragment.row_id_sequence());
    let _ = checked(fragment.created_at_sequence());
    let _ = checked(fragment.last_updated_at_sequence());
    for reference in paths::of_fragment(fragment) {
        let _ = paths::recognise(&reference.path());
    }
    let _ = Fragment::decode(fragment.edit().encode()).expect("what was decoded and encoded");
}

fn indices(section: Bytes) {
    let Some(entries) = checked(index_section::decode(section)) else { return };
    entries.iter().for_each(index);
    let again = index_section::decode(index_section::encode(&entries).into()).expect("as before");
    assert_eq!(again.len(), entries.len());
}

fn index(entry: &IndexMetadata) {
    let _ = (entry.details_type(), entry.index_version(), entry.base_id(), entry.files());
    if let Some(parts) = checked(IndexParts::of(entry)) {
        let _ = checked(parts.entry());
    }
}

/// A transaction, which is encoded again.
pub fn transaction(data: &[u8]) {
    let bytes = Bytes::copy_from_slice(data);
    let _ = Transaction::operation_number(bytes.clone());
    let Some(read) = checked(Transaction::decode(bytes)) else { return };
    let _ = read.operation.name();
    let again = Transaction::decode(read.encode().into()).expect("what was decoded and encoded");
    assert_eq!((again.uuid, again.read_version), (read.uuid, read.read_version));
}

/// One message without the file around it; the first byte says which.
pub fn message(data: &[u8]) {
    let Some((kind, rest)) = data.split_first() else { return };
    let bytes = Bytes::copy_from_slice(rest);
    match kind % 18 {
        0 => {
            checked(Manifest::decode(bytes)).iter().for_each(of_manifest);
        }
        1 => {
            checked(Fragment::decode(bytes)).iter().for_each(fragment);
        }
        2 => indices(bytes),
        3 => {
            checked(IndexMetadata::decode(bytes)).iter().for_each(index);
        }
        4 => match checked(StoredMoves::of_details(&bytes)) {
            Some(StoredMoves::Inline(moves)) => {
                for address in [0, 1, 1 << 32, u64::MAX] {
                    let _ = moves.current(RowAddress(address));
                }
                let _ = (moves.is_empty(), moves.memory_bytes());
            }
            _ => (),
        },
        5 => {
            let _ = checked(VectorIndexDetails::decode(&bytes)).map(|details| details.encode());
            let _ = checked(vector_index::metric_number(&bytes));
        }
        6 => {
            let _ = checked(IvfMessage::decode(bytes)).map(|message| message.encode());
        }
        7 => {
            let _ = checked(Tensor::decode(bytes)).map(|tensor| tensor.encode());
        }
        8 => {
            let _ = checked(KeyFilter::decode(bytes)).map(|filter| filter.encode());
        }
        9 => {
            let _ = checked(JsonIndexParts::of_details(bytes));
        }
        10 => {
            let _ = checked(FileDescriptor::decode(rest)).map(|descriptor| descriptor.encode());
        }
        11 => columns(rest, FileVersion::V2_0),
        12 => columns(rest, FileVersion::V2_1),
        13 => columns(rest, FileVersion::V2_2),
        14 => {
            let _ = checked(LegacyMetadata::decode(rest));
        }
        15 => {
            let _ = checked(LegacySchema::decode(rest));
        }
        16 => {
            let _ = checked(Footer::decode(rest)).map(|footer| footer.encode());
            let _ = LegacyFooter::decode(rest);
        }
        _ => {
            let _ = checked(checksum::check_json(rest));
            let _ = checked(checksum::check("message", rest));
        }
    }
}

fn columns(bytes: &[u8], version: FileVersion) {
    let Some(column) = checked(ColumnMetadata::decode(bytes, version)) else { return };
    let Some(encoded) = column.encode().ok() else { return };
    assert_eq!(ColumnMetadata::decode(&encoded, version).expect("as before"), column);
}

/// Names of files in a table, as listings give them.
pub fn name(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    if let Some((version, scheme)) = naming::parse(text) {
        assert_eq!(naming::parse(&naming::manifest_name(version, scheme)), Some((version, scheme)));
    }
    let _ = naming::parse_detached(text);
    let _ = naming::parse_transaction_file_name(text);
    let _ = naming::blob_folder(text);
    let _ = paths::recognise(text).map(|file| file.kind());
    let _ = checked(paths::check_inside(text));
    let _ = paths::sealed(text);
    let _ = pennon_core::wire::index_parts::parse_uuid(text);
    let _ = DeletionFileType::Arrow.extension();
}
