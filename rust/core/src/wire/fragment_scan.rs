//! [`Fragment`] straight from its bytes: a manifest has thousands, and opening a table decodes them all.
//!
//! This reads what writers write today: known fields, each once, none of a rare kind. At anything else it gives up,
//! and `data_fragment` decodes the message and finds the words if it is an error. What this reads, that reads the
//! same (a property test). Fragments of one table mostly have the same columns: their lists are shared.

use std::sync::Arc;

use bytes::Bytes;

use super::cursor::{Cursor, Value};
use super::data_fragment::{MAX_PHYSICAL_ROWS, check_inside};
use crate::file::FileVersion;
use crate::manifest::{DataFile, DeletionFile, DeletionFileType, Fragment, LineageSource};
use crate::{FieldId, FragmentId, Version};

/// Reads fragments and remembers the columns of the last file.
#[derive(Default)]
pub(super) struct FragmentScanner {
    columns: Option<Columns>,
}

/// The two lists of a data file, encoded and decoded.
#[derive(Clone)]
struct Columns {
    encoded: (Bytes, Bytes),
    fields: Arc<[FieldId]>,
    indices: Arc<[i32]>,
}

impl FragmentScanner {
    /// The fragment, its bytes kept; `None` if the general decoder has to look at it.
    pub(super) fn read(&mut self, bytes: &Bytes) -> Option<Fragment> {
        let mut fragment = Fragment::new(Vec::new(), 0);
        let (mut seen, mut cursor) = (0, Cursor(bytes));
        while let Some((tag, value)) = cursor.next(&mut seen, 2)? {
            match (tag, value) {
                (1, Value::Number(id)) => fragment.id = FragmentId(u32::try_from(id).ok()?),
                (2, Value::Bytes(file)) => fragment.files.push(self.data_file(bytes, file)?),
                (3, Value::Bytes(file)) => fragment.deletion = Some(deletion_file(file)?),
                (4, Value::Number(rows)) => fragment.physical_rows = rows,
                (5, Value::Bytes(ids)) => fragment.row_ids = inline(bytes, ids),
                (7, Value::Bytes(versions)) => fragment.last_updated_at = inline(bytes, versions),
                (9, Value::Bytes(versions)) => fragment.created_at = inline(bytes, versions),
                _ => return None,
            }
        }
        let possible =
            fragment.physical_rows <= MAX_PHYSICAL_ROWS && fragment.deleted_rows() <= fragment.physical_rows;
        fragment.encoded = Some(bytes.clone());
        possible.then_some(fragment)
    }

    fn data_file(&mut self, whole: &Bytes, file: &[u8]) -> Option<DataFile> {
        let (mut path, mut fields, mut indices): (&str, &[u8], &[u8]) = ("", &[], &[]);
        let (mut major, mut minor, mut size, mut base_id) = (0, 0, 0, None);
        let (mut seen, mut cursor) = (0, Cursor(file));
        while let Some((tag, value)) = cursor.next(&mut seen, 0)? {
            match (tag, value) {
                (1, Value::Bytes(text)) => path = std::str::from_utf8(text).ok()?,
                (2, Value::Bytes(packed)) => fields = packed,
                (3, Value::Bytes(packed)) => indices = packed,
                (4, Value::Number(number)) => major = u32::try_from(number).ok()?,
                (5, Value::Number(number)) => minor = u32::try_from(number).ok()?,
                (6, Value::Number(number)) => size = number,
                (7, Value::Number(number)) => base_id = Some(u32::try_from(number).ok()?),
                _ => return None,
            }
        }
        if base_id.is_none() {
            check_inside(path).ok()?;
        }
        let version = FileVersion::from_manifest_numbers(major, minor).ok()?;
        let columns = self.columns(whole, fields, indices)?;
        Some(DataFile {
            path: path.to_owned(),
            fields: columns.fields,
            column_indices: columns.indices,
            version,
            size: (size != 0).then_some(size),
            base_id,
        })
    }

    fn columns(&mut self, whole: &Bytes, fields: &[u8], indices: &[u8]) -> Option<Columns> {
        if let Some(known) = &self.columns
            && known.encoded.0 == fields
            && known.encoded.1 == indices
        {
            return Some(known.clone());
        }
        let columns = Columns {
            encoded: (slice(whole, fields), slice(whole, indices)),
            fields: Cursor(fields).packed()?.into_iter().map(FieldId).collect(),
            indices: Cursor(indices).packed()?.into(),
        };
        if columns.fields.len() != columns.indices.len() {
            return None;
        }
        self.columns = Some(columns.clone());
        Some(columns)
    }
}

fn deletion_file(file: &[u8]) -> Option<DeletionFile> {
    let (mut file_type, mut read_version, mut id, mut num_deleted_rows, mut base_id) = (0, 0, 0, 0, None);
    let (mut seen, mut cursor) = (0, Cursor(file));
    while let Some((tag, value)) = cursor.next(&mut seen, 0)? {
        match (tag, value) {
            (1, Value::Number(number)) => file_type = number,
            (2, Value::Number(number)) => read_version = number,
            (3, Value::Number(number)) => id = number,
            (4, Value::Number(number)) => num_deleted_rows = number,
            (7, Value::Number(number)) => base_id = Some(u32::try_from(number).ok()?),
            _ => return None,
        }
    }
    let file_type = match file_type {
        0 => DeletionFileType::Arrow,
        1 => DeletionFileType::Bitmap,
        _ => return None,
    };
    Some(DeletionFile { file_type, read_version: Version(read_version), id, num_deleted_rows, base_id })
}

fn inline(whole: &Bytes, part: &[u8]) -> Option<LineageSource> {
    Some(LineageSource::Inline(slice(whole, part)))
}

/// The part as a slice of the whole; nothing of the whole is kept alive for an empty one.
fn slice(whole: &Bytes, part: &[u8]) -> Bytes {
    if part.is_empty() { Bytes::new() } else { whole.slice_ref(part) }
}
