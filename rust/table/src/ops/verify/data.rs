//! What is inside data files: every page is decoded, and the files of blobs are looked for.
//!
//! A file is taken apart into columns and, page by page, into runs of rows that fit into memory; as many are decoded at a
//! time as there are cores. Of a file without checksums, what decodes is taken for what was written. Files are decoded as
//! the types that they say; those must be types that can be read as the table's.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::ops::Range;
use std::sync::Arc;

use arrow_array::ArrayRef;
use arrow_buffer::NullBuffer;
use futures::{FutureExt, StreamExt, TryStreamExt, stream};
use pennon_core::manifest::{DataFile, naming};
use pennon_core::rows::RowRanges;
use pennon_core::schema::{BlobKind, Field, LogicalType};
use pennon_core::{Error, ErrorKind, FragmentId, Result};
use pennon_datafile::{ColumnMap, FileReader};

use super::report::{Finding, FindingKind};
use super::types;
use crate::blobs::{self, descriptor};
use crate::runtime::{self, processors};
use crate::store::Store;
use crate::versions::snapshot::Snapshot;

/// Encoded bytes that are decoded at once, about.
const UNIT_BYTES: u64 = 4 << 20;
/// Rows that are decoded at once, at most.
const UNIT_ROWS: u64 = 64 << 10;
/// Rows of blobs that are read at once: their size is not known before.
const BLOB_ROWS: u64 = 16;
/// Rows that one task decodes, about.
const TASK_ROWS: u64 = 1 << 20;

/// An open data file.
struct Opened {
    fragment: FragmentId,
    file: DataFile,
    /// Its full path.
    path: String,
    reader: Arc<FileReader>,
    wrong_types: Vec<Finding>,
}

/// Some rows of a column.
struct ColumnPart {
    opened: Arc<Opened>,
    field: Field,
    units: Vec<Range<u64>>,
}

/// What a part turned out to be.
#[derive(Default)]
struct Decoded {
    findings: Vec<Finding>,
    /// Up to where the files of blobs must reach, by their ids.
    blobs: BTreeMap<u32, u64>,
}

/// What is wrong inside the data files of a version, or of some of its fragments, and the files of blobs next to them.
/// Files in `broken` and files that do not open are skipped: they have a finding already.
///
/// Errors: `Store` and `Unsupported` for what could not be looked at.
pub(super) async fn damage(
    snapshot: &Arc<Snapshot>,
    fragments: Option<&[FragmentId]>,
    broken: &HashSet<String>,
) -> Result<Vec<Finding>> {
    let cores = processors();
    let mut files = Vec::new();
    let is_asked = |id: &FragmentId| fragments.is_none_or(|fragments| fragments.contains(id));
    let (mut of_rows, mut of_fragments) = (0, 0);
    for fragment in snapshot.manifest.fragments.decode_all().filter(|fragment| is_asked(&fragment.id)) {
        of_rows += fragment.physical_rows;
        of_fragments += 1;
        for file in &fragment.files {
            let (store, path) = snapshot.locate("data", &file.path, file.base_id)?;
            let path = store.full_path(&path);
            if !broken.contains(&path) {
                files.push((fragment.id, file.clone(), path));
            }
        }
    }
    runtime::advance(|counts| {
        (counts.of_rows, counts.rows) = (Some(of_rows), 0);
        (counts.of_fragments, counts.fragments) = (Some(of_fragments), 0);
    })
    .await?;
    let opened = stream::iter(files).map(|(fragment, file, path)| {
        let snapshot = Arc::clone(snapshot);
        let open = move || match snapshot.file_reader_blocking(&file) {
            Ok(reader) => {
                let wrong_types = types::differing(&snapshot.manifest.schema, &file, reader.metadata());
                let wrong_types = wrong_types.map(|found| found.at(&path).of(fragment)).collect();
                Ok(Some(Arc::new(Opened { fragment, file, path, reader, wrong_types })))
            }
            Err(error) if error.kind() == ErrorKind::Corrupt => Ok(None),
            Err(error) => Err(error),
        };
        runtime::blocking(open).boxed()
    });
    let parts = opened.buffered(cores).try_filter_map(|opened| std::future::ready(Ok(opened)));
    let parts = parts.map_ok(|opened| stream::iter(parts_of(&opened).into_iter().map(Ok))).try_flatten();
    let decoded = parts.map_ok(|part| {
        runtime::blocking(move || {
            let decoded = decode(&part)?;
            Ok((part.opened, decoded))
        })
    });
    let mut decoded = decoded.try_buffered(cores).boxed();
    let (mut findings, mut reported) = (Vec::new(), HashSet::new());
    let mut blobs: HashMap<(String, u32), (Arc<Opened>, u64)> = HashMap::new();
    let mut current: Option<Arc<Opened>> = None;
    while let Some((opened, Decoded { findings: found, blobs: ends })) = decoded.try_next().await? {
        // Parts come in the order of the fragments.
        match current.replace(Arc::clone(&opened)) {
            Some(before) if before.fragment != opened.fragment => read_whole(&before).await?,
            _ => {}
        }
        // A page may lie in several parts.
        findings.extend(found.into_iter().filter(|finding| reported.insert(finding.to_string())));
        for (id, end) in ends {
            let known = blobs.entry((opened.path.clone(), id)).or_insert_with(|| (Arc::clone(&opened), 0));
            known.1 = known.1.max(end);
        }
    }
    drop(decoded);
    if let Some(last) = current {
        read_whole(&last).await?;
    }
    let mut blob_files: Vec<_> =
        blobs.into_iter().map(|((_, id), (opened, end))| (opened, id, end)).collect();
    blob_files.sort_by(|a, b| (a.0.fragment, &a.0.path, a.1).cmp(&(b.0.fragment, &b.0.path, b.1)));
    let looks = blob_files.iter().map(|(opened, id, end)| blob_file(snapshot, opened, *id, *end).boxed());
    findings.extend(runtime::gather(looks.collect()).await?.into_iter().flatten());
    Ok(findings.into_iter().map(|finding| finding.within(snapshot.version())).collect())
}

async fn read_whole(opened: &Opened) -> Result<()> {
    let rows = opened.reader.metadata().num_rows;
    runtime::advance(|counts| {
        counts.fragments += 1;
        counts.rows += rows;
    })
    .await
}

/// The file of blobs that reach up to `end`, if it is missing or ends before.
async fn blob_file(snapshot: &Snapshot, opened: &Opened, id: u32, end: u64) -> Result<Option<Finding>> {
    let name = naming::blob_file_path(&opened.file.path, id);
    let (store, path): (Arc<Store>, String) = snapshot.locate("data", &name, opened.file.base_id)?;
    let finding = match store.info(&path).await? {
        None => Finding::new(FindingKind::MissingFile, "the file of blobs is not there"),
        Some(info) if info.size < end => {
            let message = format!("{} bytes, the blobs in it reach up to {end}", info.size);
            Finding::new(FindingKind::WrongSize, message)
        }
        Some(_) => return Ok(None),
    };
    Ok(Some(finding.at(store.full_path(&path)).of(opened.fragment)))
}

/// Each column of a file, some pages at a time.
fn parts_of(opened: &Arc<Opened>) -> Vec<ColumnPart> {
    let (reader, map) = (&opened.reader, opened.reader.column_map());
    let mut parts = Vec::new();
    for field in reader.metadata().schema.fields.iter().flat_map(single_columns) {
        let (mut units, mut rows) = (Vec::new(), 0);
        for unit in units_of(reader, &map, &field) {
            rows += unit.end - unit.start;
            units.push(unit);
            if rows >= TASK_ROWS {
                let units = std::mem::take(&mut units);
                parts.push(ColumnPart { opened: Arc::clone(opened), field: field.clone(), units });
                rows = 0;
            }
        }
        if !units.is_empty() {
            parts.push(ColumnPart { opened: Arc::clone(opened), field, units });
        }
    }
    parts
}

/// The field once for each of the members that can be read alone, so that each may be damaged for itself.
fn single_columns(field: &Field) -> Vec<Field> {
    let is_struct = field.logical_type == LogicalType::Struct && !field.children.is_empty();
    if !is_struct || pennon_datafile::is_packed(field) {
        return vec![field.clone()];
    }
    let members = field.children.iter().flat_map(single_columns);
    members.map(|member| Field { children: vec![member], ..field.clone() }).collect()
}

/// Runs of rows that lie in one page of each column and are decoded at once.
fn units_of(reader: &FileReader, map: &ColumnMap, field: &Field) -> Vec<Range<u64>> {
    let metadata = reader.metadata();
    let rows = metadata.num_rows;
    let (mut cuts, mut bytes) = (BTreeSet::from([0, rows]), 0_u64);
    let fields = with_members(field);
    let columns = fields.iter().filter_map(|f| usize::try_from(map.column(f.id)?).ok());
    for column in columns.filter_map(|column| metadata.columns.get(column)) {
        let buffers = column.pages.iter().flat_map(|page| &page.buffers);
        bytes =
            buffers.fold(bytes, |sum, buffer| sum.saturating_add(buffer.end.saturating_sub(buffer.start)));
        let positions: u64 = column.pages.iter().fold(0, |sum, page| sum.saturating_add(page.num_rows));
        // Those of items of lists, in files of version 2.0, are not rows.
        let Some(per_row) = positions.checked_div(rows).filter(|n| n.checked_mul(rows) == Some(positions))
        else {
            continue;
        };
        let mut start = 0_u64;
        for page in &column.pages {
            start = start.saturating_add(page.num_rows);
            cuts.extend(start.checked_div(per_row).filter(|row| *row < rows));
        }
    }
    let is_blob = fields.iter().any(|field| field.is_legacy_blob());
    let fitting = UNIT_BYTES.saturating_mul(rows).checked_div(bytes).unwrap_or(UNIT_ROWS);
    let step = if is_blob { BLOB_ROWS } else { fitting.clamp(1, UNIT_ROWS) };
    let cuts: Vec<u64> = cuts.into_iter().collect();
    let mut units = Vec::new();
    for (&start, &end) in cuts.iter().zip(cuts.iter().skip(1)) {
        let mut at = start;
        while at < end {
            let next = at.saturating_add(step).min(end);
            units.push(at..next);
            at = next;
        }
    }
    units
}

/// The field and all below it.
fn with_members(field: &Field) -> Vec<&Field> {
    let below = field.children.iter().flat_map(with_members);
    std::iter::once(field).chain(below).collect()
}

fn decode(part: &ColumnPart) -> Result<Decoded> {
    let ColumnPart { opened, field, units } = part;
    let map = opened.reader.column_map();
    let mut decoded = Decoded::default();
    let damaged = |error: &Error| {
        let message = error.to_string();
        let message = message.strip_prefix(&format!("data file {}: ", opened.path)).unwrap_or(&message);
        Finding::new(FindingKind::DamagedFile, message).at(&opened.path).of(opened.fragment)
    };
    if units.first().is_some_and(|unit| unit.start == 0) {
        decoded.findings.extend_from_slice(&opened.wrong_types);
        for column in with_members(field).iter().filter_map(|field| map.column(field.id)) {
            match opened.reader.statistics(column) {
                Err(error) if error.kind() == ErrorKind::Corrupt => decoded.findings.push(damaged(&error)),
                other => drop(other?),
            }
        }
    }
    let mut waiting: Vec<Range<u64>> = units.iter().rev().cloned().collect();
    while let Some(unit) = waiting.pop() {
        let read = opened.reader.read(std::slice::from_ref(field), &map, &RowRanges::from(unit.clone()));
        let read = read.and_then(|arrays| {
            let array = arrays.first().ok_or_else(|| Error::internal("nothing was read of a column"))?;
            extents(field, array, opened.reader.metadata().size, &mut decoded.blobs)
        });
        match read {
            Ok(()) => {}
            Err(error) if error.kind() == ErrorKind::Corrupt => decoded.findings.push(damaged(&error)),
            // More text than an array can hold.
            Err(error) if error.kind() == ErrorKind::InvalidInput && unit.end - unit.start > 1 => {
                let middle = unit.start + (unit.end - unit.start) / 2;
                waiting.extend([middle..unit.end, unit.start..middle]);
            }
            Err(error) => return Err(error),
        }
    }
    Ok(decoded)
}

/// Up to where the descriptors of blobs in an array reach in the files next to the data file.
///
/// Errors: `Corrupt` for one that reaches beyond the data file itself, or is none.
fn extents(field: &Field, array: &ArrayRef, size: u64, ends: &mut BTreeMap<u32, u64>) -> Result<()> {
    let mut look = |blobs: &Field, array: &ArrayRef, _: Option<&NullBuffer>| {
        // What this release cannot read is damage in a file that it can read.
        let rows = descriptor::rows(array);
        let rows = rows.map_err(|e| Error::corrupt(format!("field `{}`: {e}", blobs.name)))?;
        for blob in rows.into_iter().flatten().filter(|blob| blob.size > 0) {
            let end = blob.position.checked_add(blob.size);
            let end = end.filter(|end| blob.kind != BlobKind::Inline || *end <= size).ok_or_else(|| {
                Error::corrupt(format!(
                    "field `{}`: a blob of {} bytes at {} in a file of {size} bytes",
                    blobs.name, blob.size, blob.position
                ))
            })?;
            if matches!(blob.kind, BlobKind::Packed | BlobKind::Dedicated) {
                let known = ends.entry(blob.blob_id).or_default();
                *known = end.max(*known);
            }
        }
        Ok(Arc::clone(array))
    };
    blobs::replace(field, field, array, None, &Field::holds_blob_descriptors, &mut look).map(drop)
}
