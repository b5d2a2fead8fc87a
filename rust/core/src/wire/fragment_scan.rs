//! [`Fragment`] straight from its bytes: a manifest has thousands, and opening a table checks them all.
//!
//! This reads what writers write today: known fields, each once, none of a rare kind. At anything else it gives up,
//! and `data_fragment` decodes the message and makes the error if there is one. What this reads, that reads the
//! same (a property test). One walk serves both calls: [`FragmentScanner::check`] allocates nothing, and what it
//! accepts, [`FragmentScanner::read`] reads later. Fragments of one table mostly have the same columns: their lists
//! are shared.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;

use super::cursor::{Cursor, Value};
use super::data_fragment::MAX_PHYSICAL_ROWS;
use crate::file::FileVersion;
use crate::manifest::fragment_summary::{FileVersions, FragmentSummary, saturating};
use crate::manifest::paths::check_inside;
use crate::manifest::{DataFile, DeletionFile, DeletionFileType, Fragment, LineageSource};
use crate::rows::VersionSequence;
use crate::{FieldId, FragmentId, Version};

/// Fragments that [`FragmentScanner::read`] has read in this process.
static DECODED: AtomicU64 = AtomicU64::new(0);

/// How many fragments of manifests this process has decoded so far: what a test of "costs what changed" looks at.
pub fn decoded_fragments() -> u64 {
    DECODED.load(Ordering::Relaxed)
}

/// Reads fragments and remembers the columns of the last file.
#[derive(Default)]
pub(crate) struct FragmentScanner {
    columns: Option<FileColumns>,
}

/// The two lists of a data file, encoded and decoded.
#[derive(Clone)]
struct FileColumns {
    encoded: (Bytes, Bytes),
    fields: Arc<[FieldId]>,
    indices: Arc<[i32]>,
    max_field_id: FieldId,
}

/// A fragment without its data files.
#[derive(Default)]
struct Head<'a> {
    id: FragmentId,
    physical_rows: u64,
    deletion: Option<DeletionFile>,
    row_ids: Option<&'a [u8]>,
    last_updated_at: Option<&'a [u8]>,
    created_at: Option<&'a [u8]>,
}

/// A data file whose columns are still encoded.
struct File<'a> {
    path: &'a str,
    fields: &'a [u8],
    indices: &'a [u8],
    version: FileVersion,
    size: u64,
    base_id: Option<u32>,
}

impl FragmentScanner {
    /// The fragment, its bytes kept; `None` if the general decoder has to look at it.
    pub(crate) fn read(&mut self, bytes: &Bytes) -> Option<Fragment> {
        DECODED.fetch_add(1, Ordering::Relaxed);
        let mut files = Vec::new();
        let head = walk(bytes, |file| {
            let columns = self.columns(bytes, &file)?;
            files.push(DataFile {
                path: file.path.to_owned(),
                fields: columns.fields,
                column_indices: columns.indices,
                version: file.version,
                size: (file.size != 0).then_some(file.size),
                base_id: file.base_id,
            });
            Some(())
        })?;
        let inline = |part: Option<&[u8]>| part.map(|part| LineageSource::Inline(slice(bytes, part)));
        Some(Fragment {
            id: head.id,
            row_ids: inline(head.row_ids),
            last_updated_at: inline(head.last_updated_at),
            created_at: inline(head.created_at),
            deletion: head.deletion,
            encoded: Some(bytes.clone()),
            ..Fragment::new(files, head.physical_rows)
        })
    }

    /// What [`Self::read`] would read, in short; `None` if the general decoder has to look at it, for a base path
    /// whose id is not among `bases`, which ascend, too.
    pub(crate) fn check(&mut self, bytes: &Bytes, bases: &[u32]) -> Option<FragmentSummary> {
        let known = |id: Option<u32>| id.is_none_or(|id| bases.binary_search(&id).is_ok());
        let (mut versions, mut has_legacy_files) = (FileVersions::None, false);
        let (mut data_files, mut file_bytes, mut max_field_id) = (0_u32, 0_u64, FieldId::NO_PARENT);
        let head = walk(bytes, |file| {
            versions = versions.and(file.version);
            has_legacy_files |= file.version == FileVersion::Legacy;
            data_files = data_files.saturating_add(1);
            file_bytes = file_bytes.saturating_add(file.size);
            max_field_id = max_field_id.max(self.max_field_id(bytes, &file)?);
            known(file.base_id).then_some(())
        })?;
        let length = |part: Option<&[u8]>| part.map_or(0, |part| saturating(part.len()));
        let deletion = head.deletion.as_ref();
        let summary = FragmentSummary {
            id: head.id,
            physical_rows: head.physical_rows,
            deleted_rows: deletion.map_or(0, |deletion| deletion.num_deleted_rows),
            file_bytes,
            data_files,
            row_id_bytes: length(head.row_ids),
            version_bytes: length(head.created_at).saturating_add(length(head.last_updated_at)),
            max_field_id,
            versions,
            has_deletions: deletion.is_some(),
            has_row_ids: head.row_ids.is_some(),
            has_lineage_columns: false,
            has_overlays: false,
            has_legacy_files,
        };
        known(deletion.and_then(|deletion| deletion.base_id)).then_some(summary)
    }

    /// The largest field id of a file; `None` if its columns do not decode.
    fn max_field_id(&mut self, buffer: &Bytes, file: &File<'_>) -> Option<FieldId> {
        match self.known(file) {
            Some(known) => Some(known.max_field_id),
            None => self.columns(buffer, file).map(|columns| columns.max_field_id),
        }
    }

    fn known(&self, file: &File<'_>) -> Option<&FileColumns> {
        let known = self.columns.as_ref()?;
        (known.encoded.0 == file.fields && known.encoded.1 == file.indices).then_some(known)
    }

    fn columns(&mut self, buffer: &Bytes, file: &File<'_>) -> Option<FileColumns> {
        if let Some(known) = self.known(file) {
            return Some(known.clone());
        }
        let fields: Arc<[FieldId]> = Cursor(file.fields).packed()?.into_iter().map(FieldId).collect();
        let columns = FileColumns {
            encoded: (slice(buffer, file.fields), slice(buffer, file.indices)),
            max_field_id: fields.iter().copied().fold(FieldId::NO_PARENT, Ord::max),
            fields,
            indices: Cursor(file.indices).packed()?.into(),
        };
        if columns.fields.len() != columns.indices.len() {
            return None;
        }
        self.columns = Some(columns.clone());
        Some(columns)
    }
}

/// Reads the newest of the versions in which the rows of a fragment were made or changed.
#[derive(Default)]
pub(crate) struct NewestVersion {
    /// The last sequence and its newest version: fragments often have the same.
    last: Option<(Bytes, Version)>,
}

impl NewestVersion {
    /// Of an encoded fragment; `None` if the general decoder has to look at it.
    pub(crate) fn of(&mut self, bytes: &Bytes) -> Option<Version> {
        let head = walk(bytes, |_| Some(()))?;
        let mut newest = VersionSequence::UNRECORDED;
        for part in [head.created_at, head.last_updated_at].into_iter().flatten() {
            newest = newest.max(self.of_sequence(slice(bytes, part))?);
        }
        Some(newest)
    }

    fn of_sequence(&mut self, sequence: Bytes) -> Option<Version> {
        if let Some((last, newest)) = &self.last
            && *last == sequence
        {
            return Some(*newest);
        }
        let decoded = VersionSequence::decode(&sequence).ok()?;
        let newest = decoded.runs().map(|(_, version)| version).max()?;
        self.last = Some((sequence, newest));
        Some(newest)
    }
}

/// Goes over a fragment and hands out its data files.
fn walk<'a>(bytes: &'a [u8], mut file: impl FnMut(File<'a>) -> Option<()>) -> Option<Head<'a>> {
    let mut head = Head::default();
    let (mut seen, mut cursor) = (0, Cursor(bytes));
    while let Some((tag, value)) = cursor.next(&mut seen, 2)? {
        match (tag, value) {
            (1, Value::Number(id)) => head.id = FragmentId(u32::try_from(id).ok()?),
            (2, Value::Bytes(part)) => file(data_file(part)?)?,
            (3, Value::Bytes(part)) => head.deletion = Some(deletion_file(part)?),
            (4, Value::Number(rows)) => head.physical_rows = rows,
            (5, Value::Bytes(ids)) => head.row_ids = Some(ids),
            (7, Value::Bytes(versions)) => head.last_updated_at = Some(versions),
            (9, Value::Bytes(versions)) => head.created_at = Some(versions),
            _ => return None,
        }
    }
    let deleted = head.deletion.as_ref().map_or(0, |deletion| deletion.num_deleted_rows);
    (head.physical_rows <= MAX_PHYSICAL_ROWS && deleted <= head.physical_rows).then_some(head)
}

fn data_file(file: &[u8]) -> Option<File<'_>> {
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
    check_inside(path).ok()?;
    let version = FileVersion::from_manifest_numbers(major, minor).ok()?;
    Some(File { path, fields, indices, version, size, base_id })
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

/// The part as a slice of the buffer; an empty one does not keep the buffer alive.
fn slice(buffer: &Bytes, part: &[u8]) -> Bytes {
    if part.is_empty() { Bytes::new() } else { buffer.slice_ref(part) }
}
