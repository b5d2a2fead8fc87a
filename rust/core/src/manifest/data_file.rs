//! A data file as a fragment refers to it (table format 2.5).

use std::sync::Arc;

use crate::FieldId;
use crate::file::FileVersion;

/// One data file of a fragment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DataFile {
    /// Path relative to the data directory.
    pub path: String,
    /// Field of each column; from file version 2.1 on only leaf fields.
    pub fields: Arc<[FieldId]>,
    /// Column index of each field, as long as `fields`; -1 for a field without a column.
    pub column_indices: Arc<[i32]>,
    /// File format version.
    pub version: FileVersion,
    /// Size in bytes; `None` if not known.
    pub size: Option<u64>,
    /// Root the file lies under; `None` for the table's own.
    pub base_id: Option<u32>,
}

impl DataFile {
    /// Its size, if that is known: what manifests say of files of version 0.1 is not always true. Some releases of the
    /// reference record another size, and no release looks at it.
    pub fn known_size(&self) -> Option<u64> {
        self.size.filter(|_| self.version != FileVersion::Legacy)
    }

    /// The file without its values of some fields, which are not looked at any more; `None` if it has no others.
    pub fn without(&self, is_replaced: impl Fn(&FieldId) -> bool) -> Option<Self> {
        if !self.fields.iter().any(&is_replaced) {
            return Some(self.clone());
        }
        let keep = |id: &FieldId| if is_replaced(id) { FieldId::TOMBSTONE } else { *id };
        let fields: Arc<[FieldId]> = self.fields.iter().map(keep).collect();
        let any = fields.iter().any(|id| *id != FieldId::TOMBSTONE);
        any.then(|| Self { fields, ..self.clone() })
    }

    /// The column that holds a field; in files of version 0.1, which find their pages by field id, its position among
    /// the fields.
    pub fn column_of(&self, field: FieldId) -> Option<u32> {
        let at = self.fields.iter().position(|&f| f == field)?;
        if self.version == FileVersion::Legacy && self.column_indices.is_empty() {
            return u32::try_from(at).ok();
        }
        self.column_indices.get(at).and_then(|&c| u32::try_from(c).ok())
    }
}
