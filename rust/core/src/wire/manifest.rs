//! The `Manifest` message <-> [`Manifest`] (table format 2.2).
//!
//! Fragments are entries of bytes: they are checked here, decoded when they are read, and encoding copies those of
//! unchanged fragments.

use std::collections::HashSet;
use std::sync::Arc;

use bytes::Bytes;
use prost::Message;

use super::fragment_scan::FragmentScanner;
use super::{decode_message, fields, file, table, well_known};
use crate::file::FileVersion;
use crate::manifest::{
    BasePath, CarriedFields, Flags, Fragment, Fragments, Manifest, Timestamp, WriterVersion,
};
use crate::{Error, FieldId, FragmentId, Result, Version, checksum};

const FILE_FORMAT: &str = "lance";

impl Manifest {
    /// Decodes the manifest message, without the parts of the manifest file around it (table format 2.2).
    ///
    /// Feature flags are not checked here: readers call [`Flags::check_readable`], writers
    /// [`Flags::check_writable`] as well. Errors: `Corrupt` naming what breaks a rule; `Unsupported` for what this
    /// release cannot represent.
    pub fn decode(bytes: Bytes) -> Result<Self> {
        Self::decode_sharing(bytes, None)
    }

    /// [`Self::decode`] next to another version of the table: fragments that both have with the same bytes are shared,
    /// so that they are checked once, take their memory once, and finding what differs costs little. The result is the
    /// same.
    pub fn decode_sharing(bytes: Bytes, other: Option<&Self>) -> Result<Self> {
        checksum::check("manifest", &bytes)?;
        let wire: table::Manifest = decode_message("manifest", bytes)?;
        let version = wire.version;
        decode(wire, other).map_err(|e| e.at(format!("manifest of version {version}")))
    }

    /// Encodes the manifest message; the bytes of unchanged fragments are copied.
    pub fn encode(&self) -> Vec<u8> {
        encode(self).encode_to_vec()
    }

    /// Appends the message with its checksum, its length in front, as a manifest file has it; `None` if it reaches 4 GiB.
    pub(crate) fn encode_piece(&self, file: &mut Vec<u8>) -> Option<()> {
        let wire = encode(self);
        let length = wire.encoded_len().saturating_add(checksum::LENGTH);
        file.extend_from_slice(&u32::try_from(length).ok()?.to_le_bytes());
        // Room for the footer too, so that the file is allocated once.
        file.reserve_exact(length.saturating_add(16));
        let start = file.len();
        wire.encode_raw(file);
        checksum::append_from(file, start);
        Some(())
    }
}

fn decode(wire: table::Manifest, other: Option<&Manifest>) -> Result<Manifest> {
    if wire.fragment_tree.is_some() {
        return Err(Error::unsupported("it stores its fragments as a tree (field 22)"));
    }
    if wire.version == 0 {
        return Err(Error::corrupt("its version is 0, the first is 1"));
    }
    let transaction_file = wire.transaction_file.as_str();
    if transaction_file.contains(['/', '\\', '\0']) || matches!(transaction_file, "." | "..") {
        return Err(Error::corrupt(format!(
            "transaction file {:?}: expected a name without directories",
            wire.transaction_file
        )));
    }
    let dictionaries = fields::decode_dictionaries(&wire.fields);
    let schema = fields::decode_schema(wire.fields, wire.schema_metadata)?;
    let base_paths = decode_base_paths(wire.base_paths)?;
    // What was checked of a fragment holds for the base paths it was checked with.
    let other = other.filter(|other| other.base_paths == base_paths).map(|other| &other.fragments);
    let fragments = decode_fragments(wire.fragments, &base_paths, other)?;
    let file_version = match wire.data_format {
        Some(format) => decode_data_format(&format)?,
        // Manifests from before the field existed: the files say it.
        None => {
            let mut fragments = fragments.decode_where(|fragment| fragment.data_files > 0);
            let first = fragments.next().and_then(|fragment| Some(fragment.files.first()?.version));
            first.unwrap_or(FileVersion::Legacy)
        }
    };
    let last_fragment = fragments.ids().next_back().map(|id| id.0);
    Ok(Manifest {
        version: Version(wire.version),
        schema: Arc::new(schema),
        max_fragment_id: wire.max_fragment_id.max(last_fragment),
        fragments,
        timestamp: decode_timestamp(wire.timestamp.unwrap_or_default())?,
        reader_flags: Flags(wire.reader_feature_flags),
        writer_flags: Flags(wire.writer_feature_flags),
        transaction_file: wire.transaction_file,
        writer: wire.writer_version.map(|writer| WriterVersion {
            library: writer.library,
            version: writer.version,
            prerelease: writer.prerelease,
            build_metadata: writer.build_metadata,
        }),
        next_row_id: wire.next_row_id,
        file_version,
        config: wire.config,
        table_metadata: wire.table_metadata,
        base_paths,
        branch: wire.branch,
        index_section: wire.index_section,
        transaction_section: wire.transaction_section.or(wire.transaction_section_deprecated),
        carried: CarriedFields {
            version_aux_data: wire.version_aux_data,
            tag: wire.tag,
            max_allocated_field_id: wire.max_allocated_field_id,
            clustering: wire.clustering,
            max_clustering_id: wire.max_clustering_id,
            dictionaries,
        },
    })
}

fn decode_fragments(
    wire: Vec<Bytes>,
    base_paths: &[BasePath],
    other: Option<&Fragments>,
) -> Result<Fragments> {
    let mut bases: Vec<u32> = base_paths.iter().map(|base| base.id).collect();
    bases.sort_unstable();
    let nothing = Fragments::default();
    let other = other.unwrap_or(&nothing);
    // Both lists ascend, so what is shared is mostly found at the next position.
    let mut other_ids = other.ids().enumerate().peekable();
    let mut fragments = Fragments::with_capacity(wire.len());
    let (mut scanner, mut last) = (FragmentScanner::default(), None);
    let mut ascending = |id: FragmentId| match last.replace(id) {
        Some(last) if last >= id => {
            Err(Error::corrupt(format!("fragment {id} comes after fragment {last}, expected ascending ids")))
        }
        _ => Ok(()),
    };
    for bytes in wire {
        if let Some(&(at, _)) = other_ids.peek()
            && let Some(id) = fragments.push_shared(other, at, &bytes)
        {
            ascending(id)?;
            other_ids.next();
            continue;
        }
        let mut skip = |id| while other_ids.next_if(|(_, next)| *next <= id).is_some() {};
        if let Some(summary) = scanner.check(&bytes, &bases) {
            ascending(summary.id)?;
            skip(summary.id);
            fragments.push_checked(summary, bytes);
            continue;
        }
        let fragment = Fragment::decode(bytes)?;
        ascending(fragment.id)?;
        skip(fragment.id);
        if let Some(unknown) = fragment.base_ids().find(|id| bases.binary_search(id).is_err()) {
            return Err(Error::corrupt(format!(
                "fragment {}: base path {unknown} is not in the manifest's list",
                fragment.id
            )));
        }
        fragments.push(Arc::new(fragment));
    }
    Ok(fragments)
}

fn decode_data_format(format: &table::DataStorageFormat) -> Result<FileVersion> {
    if format.file_format != FILE_FORMAT {
        return Err(Error::unsupported(format!(
            "data file format {:?} is not known (known: {FILE_FORMAT:?})",
            format.file_format
        )));
    }
    format
        .version
        .parse()
        .map_err(|_| Error::unsupported(format!("data file version {:?} is not known", format.version)))
}

pub(super) fn decode_timestamp(wire: well_known::Timestamp) -> Result<Timestamp> {
    match u32::try_from(wire.nanos) {
        Ok(nanos) if nanos < 1_000_000_000 => Ok(Timestamp { seconds: wire.seconds, nanos }),
        _ => Err(Error::corrupt(format!("timestamp: {} nanoseconds, expected 0 to 999999999", wire.nanos))),
    }
}

fn decode_base_paths(wire: Vec<table::BasePath>) -> Result<Vec<BasePath>> {
    let bases: Vec<BasePath> = wire.into_iter().map(decode_base_path).collect();
    let mut ids = HashSet::with_capacity(bases.len());
    for base in &bases {
        if !ids.insert(base.id) {
            return Err(Error::corrupt(format!(
                "base path {:?}: id {} is taken by another",
                base.path, base.id
            )));
        }
        // Paths with `..` are those of clones that were made by a relative path.
        if base.path.is_empty() || base.path.contains('\0') {
            return Err(Error::corrupt(format!(
                "base path {:?} with id {}: expected a path or a URI",
                base.path, base.id
            )));
        }
    }
    Ok(bases)
}

pub(super) fn decode_base_path(wire: table::BasePath) -> BasePath {
    BasePath { id: wire.id, name: wire.name, is_dataset_root: wire.is_dataset_root, path: wire.path }
}

pub(super) fn encode_base_path(base: &BasePath) -> table::BasePath {
    table::BasePath {
        id: base.id,
        name: base.name.clone(),
        is_dataset_root: base.is_dataset_root,
        path: base.path.clone(),
    }
}

fn encode_fields(manifest: &Manifest) -> Vec<file::Field> {
    let mut fields = fields::encode_fields(&manifest.schema);
    let positions = &manifest.carried.dictionaries.positions;
    for field in &mut fields {
        if let (Some(&(offset, length)), Some(dictionary)) =
            (positions.get(&FieldId(field.id)), &mut field.dictionary)
        {
            *dictionary = file::Dictionary { offset, length };
        }
    }
    fields
}

fn encode(manifest: &Manifest) -> table::Manifest {
    table::Manifest {
        fields: encode_fields(manifest),
        fragments: manifest.fragments.encoded().collect(),
        version: manifest.version.0,
        version_aux_data: manifest.carried.version_aux_data,
        schema_metadata: fields::encode_metadata(&manifest.schema.metadata),
        index_section: manifest.index_section,
        timestamp: Some(well_known::Timestamp {
            seconds: manifest.timestamp.seconds,
            nanos: i32::try_from(manifest.timestamp.nanos).unwrap_or(999_999_999),
        }),
        tag: manifest.carried.tag.clone(),
        reader_feature_flags: manifest.reader_flags.0,
        writer_feature_flags: manifest.writer_flags.0,
        max_fragment_id: manifest.max_fragment_id,
        transaction_file: manifest.transaction_file.clone(),
        writer_version: manifest.writer.as_ref().map(|writer| table::WriterVersion {
            library: writer.library.clone(),
            version: writer.version.clone(),
            prerelease: writer.prerelease.clone(),
            build_metadata: writer.build_metadata.clone(),
        }),
        next_row_id: manifest.next_row_id,
        data_format: Some(table::DataStorageFormat {
            file_format: FILE_FORMAT.to_owned(),
            version: manifest.file_version.to_string(),
        }),
        config: manifest.config.clone(),
        base_paths: manifest.base_paths.iter().map(encode_base_path).collect(),
        table_metadata: manifest.table_metadata.clone(),
        branch: manifest.branch.clone(),
        transaction_section_deprecated: None,
        fragment_tree: None,
        transaction_section: manifest.transaction_section,
        max_allocated_field_id: manifest.carried.max_allocated_field_id,
        clustering: manifest.carried.clustering.clone(),
        max_clustering_id: manifest.carried.max_clustering_id,
    }
}
