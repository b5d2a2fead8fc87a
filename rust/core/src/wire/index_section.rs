//! The index section of a manifest file <-> a list of [`IndexMetadata`] (table format 2.7).
//!
//! An entry keeps its bytes: what is written again is what was found, details this release does not understand
//! included.

use bytes::Bytes;
use prost::Message;
use roaring::RoaringBitmap;
use uuid::Uuid;

use super::table::transaction::rewrite::RewrittenIndex as RewrittenWire;
use super::{any, decode_message, table};
use crate::bitmaps::{decode_bitmap, encode_bitmap};
use crate::manifest::IndexMetadata;
use crate::transaction::RewrittenIndex;
use crate::{Error, FieldId, Result, Version, checksum};

/// Decodes an index section, without its length prefix. Errors: `Corrupt` naming the entry.
pub fn decode(bytes: Bytes) -> Result<Vec<IndexMetadata>> {
    checksum::check("index section", &bytes)?;
    let section: table::IndexSection = decode_message("index section", bytes)?;
    section.indices.into_iter().map(IndexMetadata::decode).collect()
}

/// Encodes an index section, without its length prefix. What is stored gets a checksum ([`checksum::append`]).
pub fn encode(indices: &[IndexMetadata]) -> Vec<u8> {
    table::IndexSection { indices: indices.iter().map(|i| i.encoded.clone()).collect() }.encode_to_vec()
}

impl IndexMetadata {
    /// Decodes one entry and keeps its bytes. Errors: `Corrupt` naming the entry and the field.
    pub fn decode(bytes: Bytes) -> Result<Self> {
        let wire: table::IndexMetadata = decode_message("index entry", bytes.clone())?;
        let name = wire.name.clone();
        decode_entry(wire, bytes).map_err(|e| e.at(format!("index entry `{name}`")))
    }

    /// The name of the message in its details, such as `lance.table.BTreeIndexDetails`; `None` without details.
    pub fn details_type(&self) -> Option<String> {
        let wire = table::IndexMetadata::decode(self.encoded.clone()).ok()?;
        Some(any::message_name(&wire.index_details?.type_url)?.to_owned())
    }

    /// The version of its files; `None` if it is not recorded.
    pub fn index_version(&self) -> Option<i32> {
        table::IndexMetadata::decode(self.encoded.clone()).ok()?.index_version
    }

    /// Root that its files lie under; `None` for the table's own.
    pub fn base_id(&self) -> Option<u32> {
        table::IndexMetadata::decode(self.encoded.clone()).ok()?.base_id
    }

    /// Its files: path in its directory, and size in bytes; none if they are not recorded.
    pub fn files(&self) -> Vec<(String, u64)> {
        let wire = table::IndexMetadata::decode(self.encoded.clone()).unwrap_or_default();
        wire.files.into_iter().map(|file| (file.path, file.size_bytes)).collect()
    }

    /// The same entry with another set of covered fragments; what else it says is kept.
    pub fn with_fragments(&self, fragments: RoaringBitmap) -> Result<Self> {
        let mut wire: table::IndexMetadata = decode_message("index entry", self.encoded.clone())?;
        wire.fragment_bitmap = encode_bitmap(&fragments).into();
        Ok(Self { fragments: Some(fragments), encoded: wire.encode_to_vec().into(), ..self.clone() })
    }

    /// The same entry with its files under a root, unless they are under one already.
    pub fn with_base(&self, id: u32) -> Result<Self> {
        let mut wire: table::IndexMetadata = decode_message("index entry", self.encoded.clone())?;
        wire.base_id.get_or_insert(id);
        Ok(Self { encoded: wire.encode_to_vec().into(), ..self.clone() })
    }

    /// The same entry with its files in the table's own folders.
    pub fn without_base(&self) -> Result<Self> {
        let mut wire: table::IndexMetadata = decode_message("index entry", self.encoded.clone())?;
        wire.base_id = None;
        Ok(Self { encoded: wire.encode_to_vec().into(), ..self.clone() })
    }

    /// The entry after its files were rewritten; what it covers is not changed here.
    pub fn rewritten(&self, new: &RewrittenIndex) -> Result<Self> {
        let mut wire: table::IndexMetadata = decode_message("index entry", self.encoded.clone())?;
        let change: RewrittenWire = decode_message("rewritten index", new.encoded.clone())?;
        wire.uuid = change.new_id;
        wire.index_details = change.new_index_details;
        wire.index_version = Some(i32::try_from(change.new_index_version).map_err(|_| {
            Error::invalid_input(format!("index version {} is not possible", change.new_index_version))
        })?);
        wire.files = change.new_index_files;
        // They are where the table writes, wherever those before them are.
        wire.base_id = None;
        Ok(Self { uuid: new.new_id, encoded: wire.encode_to_vec().into(), ..self.clone() })
    }
}

fn decode_entry(wire: table::IndexMetadata, encoded: Bytes) -> Result<IndexMetadata> {
    let Some(uuid) = wire.uuid.as_ref().and_then(|u| Uuid::from_slice(&u.uuid).ok()) else {
        return Err(Error::corrupt("its uuid is missing or not 16 bytes long"));
    };
    let fragments = match &wire.fragment_bitmap {
        bytes if bytes.is_empty() => None,
        bytes => Some(decode_bitmap(bytes).map_err(|e| e.at("its fragment bitmap"))?),
    };
    Ok(IndexMetadata {
        uuid,
        fields: wire.fields.into_iter().map(FieldId).collect(),
        name: wire.name,
        dataset_version: Version(wire.dataset_version),
        fragments,
        encoded,
    })
}
