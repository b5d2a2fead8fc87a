//! Blobs: legacy ones, binary fields that are marked as such (before file version 2.2), and blob v2, fields with the
//! extension name `lance.blob.v2` (from file version 2.2 on).
//!
//! | form | legacy blob | blob v2, a struct of |
//! |---|---|---|
//! | as written: in the schema of a table | bytes | `data`, `uri` and, mostly, `position` and `size` |
//! | descriptor: in the schema of a data file | bytes | `kind`, `position`, `size`, `blob_id`, `blob_uri`; packed |
//! | description: in scans | a struct of `position` and `size` | the members of a descriptor |
//!
//! Descriptors and descriptions say where the bytes are: of a legacy blob in the data file, of blob v2 see
//! [`BlobKind`]. Their members have no ids of their own.

use arrow_schema::Field as ArrowField;

use super::{CarriedKeys, Field, LogicalType, Metadata, Schema};
use crate::{Error, FieldId, Result};

/// Extension name of blob v2.
pub const BLOB_EXTENSION: &str = "lance.blob.v2";

const EXTENSION_NAME: &str = "ARROW:extension:name";
const BLOB: &str = "lance-encoding:blob";
const PACKED: &str = "lance-encoding:packed";
const INLINE: &str = "lance-encoding:blob-inline-size-threshold";
const DEDICATED: &str = "lance-encoding:blob-dedicated-size-threshold";
const PACK_FILE: &str = "lance-encoding:blob-pack-file-size-threshold";

/// Whether a column has blobs, as values or as descriptions.
pub fn is_blob(column: &ArrowField) -> bool {
    let metadata = column.metadata();
    let extension = metadata.get(EXTENSION_NAME).map(String::as_str);
    extension == Some(BLOB_EXTENSION) || metadata.contains_key(BLOB)
}

/// Where the bytes of a blob are; the numbers are those of the files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BlobKind {
    /// In the data file, at `position`.
    Inline = 0,
    /// With others in the file of `blob_id` next to the data file, at `position`.
    Packed = 1,
    /// The whole file of `blob_id` next to the data file.
    Dedicated = 2,
    /// At `blob_uri`: all of it if `size` is 0, else from `position` on. The address is relative to the base path of
    /// number `blob_id` unless that is 0.
    External = 3,
}

impl BlobKind {
    /// The kind of that number. Errors: `Unsupported`.
    pub fn of(number: u8) -> Result<Self> {
        Ok(match number {
            0 => Self::Inline,
            1 => Self::Packed,
            2 => Self::Dedicated,
            3 => Self::External,
            other => return Err(Error::unsupported(format!("blobs of kind {other}"))),
        })
    }
}

/// From which size on, in bytes, a blob is stored how.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BlobThresholds {
    /// Up to this a blob is in the data file.
    pub inline: u64,
    /// Beyond this it has a file of its own, whatever [`Self::inline`] says.
    pub dedicated: u64,
    /// A file of several blobs is not continued beyond this.
    pub pack_file: Option<u64>,
}

impl Field {
    /// Whether the field is a blob v2, in the form in which they are written.
    pub fn is_blob_v2(&self) -> bool {
        self.metadata.get(EXTENSION_NAME).is_some_and(|name| name == BLOB_EXTENSION)
    }

    /// Whether the field of a data file holds descriptors of blobs.
    pub fn holds_blob_descriptors(&self) -> bool {
        let is_marked = self.is_blob_v2() || self.metadata.contains_key(BLOB);
        let names = self.children.iter().map(|member| member.name.as_str());
        is_marked && names.eq(DESCRIPTOR.iter().map(|(name, _)| *name))
    }

    /// Whether this field or one below it is a blob v2.
    pub fn has_blob_v2(&self) -> bool {
        self.is_blob_v2() || self.children.iter().any(Self::has_blob_v2)
    }

    /// Whether the values are legacy blobs: stored outside of the pages of their column.
    pub fn is_legacy_blob(&self) -> bool {
        self.logical_type == LogicalType::LargeBinary && self.is_marked(BLOB)
    }

    /// Whether the field has descriptions instead of legacy blobs, or only one of their members.
    pub fn describes_legacy_blob(&self) -> bool {
        // A struct that is stored as such has members with ids.
        self.logical_type == LogicalType::Struct
            && self.is_marked(BLOB)
            && !self.is_marked(PACKED)
            && !self.children.is_empty()
            && self.children.iter().all(|member| member.id == FieldId::NO_PARENT)
    }

    /// Whether this field or one below it has blobs, in the form in which they are written.
    pub fn has_blobs(&self) -> bool {
        self.is_legacy_blob() || self.is_blob_v2() || self.children.iter().any(Self::has_blobs)
    }

    fn is_marked(&self, key: &str) -> bool {
        self.metadata.get(key).is_some_and(|value| value.eq_ignore_ascii_case("true"))
    }

    /// The sizes that the metadata of the field sets, or else those of the reference: 64 KiB and 4 MiB.
    pub fn blob_thresholds(&self) -> BlobThresholds {
        let number = |key: &str| self.metadata.get(key).and_then(|text| text.parse().ok());
        BlobThresholds {
            inline: number(INLINE).unwrap_or(64 << 10),
            dedicated: number(DEDICATED).unwrap_or(4 << 20),
            pack_file: number(PACK_FILE),
        }
    }

    /// The field with descriptors instead of blob v2, here and below: what a data file contains.
    #[must_use]
    pub fn with_blob_descriptors(&self) -> Self {
        self.replace(&Self::is_blob_v2, &|blob| Self {
            metadata: marks([PACKED, BLOB]),
            children: descriptor_members(),
            ..blob.clone()
        })
    }

    /// The field with descriptions instead of blobs, here and below: what scans give.
    #[must_use]
    pub fn with_blob_descriptions(&self) -> Self {
        self.with_blob_descriptors().replace(&Self::is_legacy_blob, &|blob| Self {
            logical_type: LogicalType::Struct,
            metadata: marks([BLOB]),
            children: legacy_description(),
            ..blob.clone()
        })
    }

    /// The field with bytes instead of blob v2, here and below.
    #[must_use]
    pub fn with_blob_bytes(&self) -> Self {
        self.replace(&Self::is_blob_v2, &|blob| Self {
            logical_type: LogicalType::LargeBinary,
            metadata: blob
                .metadata
                .iter()
                .filter(|(key, _)| *key != EXTENSION_NAME)
                .map(|(key, value)| (key.clone(), value.clone()))
                .collect(),
            children: Vec::new(),
            ..blob.clone()
        })
    }

    /// The field with blob v2 instead of legacy blobs, here and below.
    #[must_use]
    fn with_blob_v2(&self) -> Self {
        self.replace(&Self::is_legacy_blob, &|blob| {
            let mut metadata: Metadata = blob.metadata.clone();
            metadata.remove(BLOB);
            metadata.insert(EXTENSION_NAME.to_owned(), BLOB_EXTENSION.to_owned());
            let members = [("data", LogicalType::LargeBinary), ("uri", LogicalType::Utf8)];
            let children = members.map(|(name, kind)| member(name, kind, true)).into();
            Self { logical_type: LogicalType::Struct, metadata, children, ..blob.clone() }
        })
    }

    /// The field with some fields replaced by others, here and below.
    fn replace(&self, is_replaced: &impl Fn(&Self) -> bool, with: &impl Fn(&Self) -> Self) -> Self {
        if is_replaced(self) {
            return with(self);
        }
        let children = self.children.iter().map(|child| child.replace(is_replaced, with)).collect();
        Self { children, ..self.clone() }
    }
}

impl Schema {
    /// The schema with blob v2 instead of legacy blobs, with fresh ids: file version 2.2 and
    /// later have no others.
    #[must_use]
    pub fn with_blob_v2(self) -> Self {
        if !self.depth_first().any(Field::is_legacy_blob) {
            return self;
        }
        let fields = self.fields.iter().map(Field::with_blob_v2).collect();
        Self { fields, ..self }.with_fresh_ids()
    }
}

/// The members of a descriptor.
const DESCRIPTOR: [(&str, LogicalType); 5] = [
    ("kind", LogicalType::UInt8),
    ("position", LogicalType::UInt64),
    ("size", LogicalType::UInt64),
    ("blob_id", LogicalType::UInt32),
    ("blob_uri", LogicalType::Utf8),
];

fn descriptor_members() -> Vec<Field> {
    DESCRIPTOR.map(|(name, kind)| member(name, kind, false)).into()
}

/// The members of the description of a legacy blob.
pub fn legacy_description() -> Vec<Field> {
    ["position", "size"].map(|name| member(name, LogicalType::UInt64, true)).into()
}

fn marks<const N: usize>(keys: [&str; N]) -> Metadata {
    keys.map(|key| (key.to_owned(), "true".to_owned())).into()
}

fn member(name: &str, logical_type: LogicalType, nullable: bool) -> Field {
    Field {
        id: FieldId::NO_PARENT,
        name: name.to_owned(),
        nullable,
        logical_type,
        children: Vec::new(),
        metadata: Metadata::new(),
        unenforced_primary_key: false,
        carried: CarriedKeys::default(),
    }
}

#[cfg(test)]
mod tests {
    use arrow_schema::{DataType, Field as ArrowField, Schema as ArrowSchema};

    use super::*;

    #[test]
    fn forms_of_a_field() {
        let blob = ArrowField::new("b", DataType::LargeBinary, true).with_metadata(
            [(BLOB.to_owned(), "true".to_owned()), (INLINE.to_owned(), "7".to_owned())].into(),
        );
        let inside = DataType::Struct(vec![blob, ArrowField::new("x", DataType::Int8, true)].into());
        let schema = ArrowSchema::new(vec![ArrowField::new("s", inside, true)]);
        let legacy = Schema::from_arrow(&schema).unwrap();
        let described = legacy.fields[0].with_blob_descriptions();
        let [blob, _] = described.children.as_slice() else { panic!("{described:?}") };
        let names: Vec<&str> = blob.children.iter().map(|m| m.name.as_str()).collect();
        assert_eq!((names.as_slice(), blob.metadata.len()), (["position", "size"].as_slice(), 1));
        assert_eq!(blob.id, legacy.fields[0].children[0].id);
        assert!(legacy.fields[0].has_blobs() && blob.describes_legacy_blob() && !described.has_blobs());
        assert_eq!(legacy.fields[0].with_blob_bytes(), legacy.fields[0]);
        let schema = legacy.with_blob_v2();
        let ids: Vec<i32> = schema.depth_first().map(|field| field.id.0).collect();
        assert_eq!(ids, [0, 1, 2, 3, 4]);
        let found = schema.field_by_path("s.b").unwrap();
        assert!(found.is_blob_v2() && schema.fields[0].has_blob_v2());
        assert!(!schema.fields[0].is_blob_v2());
        assert_eq!(
            found.blob_thresholds(),
            BlobThresholds { inline: 7, dedicated: 4 << 20, pack_file: None }
        );
        let stored = schema.fields[0].with_blob_descriptors();
        let names: Vec<&str> = stored.children[0].children.iter().map(|m| m.name.as_str()).collect();
        assert_eq!(names, ["kind", "position", "size", "blob_id", "blob_uri"]);
        assert_eq!(stored.children[0].id, found.id);
        assert!(!stored.has_blob_v2());
        assert!(stored.children[0].holds_blob_descriptors() && !found.holds_blob_descriptors());
        assert!(!stored.children[0].describes_legacy_blob());
        assert_eq!(schema.fields[0].with_blob_descriptions(), stored);
        assert_eq!(schema.fields[0].with_blob_bytes().children[0].data_type(), DataType::LargeBinary);
        assert_eq!(BlobKind::of(3).unwrap(), BlobKind::External);
        assert!(BlobKind::of(4).is_err());
    }
}
