//! Sequences of row ids and versions, sets of rows, and deletion files.

use bytes::Bytes;
use pennon_core::deletion::DeletionVector;
use pennon_core::manifest::DeletionFileType;
use pennon_core::rows::{RowIdSequence, VersionSequence};
use pennon_core::{RowId, Version};
use pennon_datafile::deletion_file;
use pennon_index::RowSet;

use crate::checked;

/// Rows of a sequence that are looked at: few bytes may be 2^64 of them.
const LOOKED_AT: u64 = 4096;

fn deleted(len: u64) -> DeletionVector {
    (0..u32::try_from(len.min(LOOKED_AT)).unwrap_or(0)).step_by(3).collect()
}

/// A sequence of row ids, asked whatever readers ask it.
pub fn row_ids(data: &[u8]) {
    let bytes = Bytes::copy_from_slice(data);
    let Some(ids) = checked(RowIdSequence::decode(&bytes)) else { return };
    let len = ids.len();
    assert_eq!(ids.is_empty(), len == 0);
    let mut first = Vec::new();
    ids.extend_into(0..len.min(LOOKED_AT), &mut first);
    assert_eq!(first.len() as u64, len.min(LOOKED_AT));
    for (position, id) in (0..).zip(&first).step_by(7) {
        assert_eq!(ids.get(position), Some(RowId(*id)));
        assert!(ids.contains(RowId(*id)));
        let _ = ids.position(RowId(*id));
    }
    let mut last = Vec::new();
    ids.extend_into(len.saturating_sub(LOOKED_AT)..len, &mut last);
    for id in [0, 1, u64::MAX, u64::MAX - 1, len] {
        let _ = (ids.contains(RowId(id)), ids.get(id), ids.position(RowId(id)));
    }
    if let Some((min, max)) = ids.min_max() {
        assert!(first.iter().chain(&last).all(|id| (min..=max).contains(id)));
    }
    let _ = ids.slice(len / 3..len / 2).len();
    if len <= 1 << 20 {
        let _ = ids.ascends();
        let part = ids.slice(0..len.min(LOOKED_AT));
        assert_eq!(part.iter().collect::<Vec<_>>(), first);
        assert!(ids.mask(&deleted(len)).len() <= len);
        let mut more = part.clone();
        more.append(ids.slice(len / 2..len));
        assert_eq!(RowIdSequence::decode(&more.encode()).expect("what was encoded").len(), more.len());
        let _ = ids.intersect(&part);
    }
    assert_eq!(RowIdSequence::decode(&ids.encode()).expect("what was encoded"), ids);
}

/// A sequence of versions.
pub fn row_versions(data: &[u8]) {
    let Some(versions) = checked(VersionSequence::decode(&Bytes::copy_from_slice(data))) else { return };
    let len = versions.len();
    let mut values = Vec::new();
    versions.extend_into(0..len.min(LOOKED_AT), &mut values);
    assert_eq!(values.len() as u64, len.min(LOOKED_AT));
    for (position, version) in (0..).zip(&values).step_by(5) {
        assert_eq!(versions.get(position), Some(Version(*version)));
    }
    let _ = (versions.get(len), versions.get(u64::MAX), versions.slice(len / 2..len));
    let _ = versions.mask(&deleted(len));
    let _ = versions.with(&deleted(len), Version(9));
    let mut more = versions.clone();
    more.append(&versions.slice(0..len.min(10)));
    assert_eq!(VersionSequence::decode(&versions.encode()).expect("what was encoded"), versions);
}

/// Sets of rows, of both forms.
pub fn row_sets(data: &[u8]) {
    let Some((form, rest)) = data.split_first() else { return };
    let read = if form % 2 == 0 { RowSet::decode(rest) } else { RowSet::decode_treemap(rest) };
    let Some(rows) = checked(read) else { return };
    let _ = (rows.len(), rows.is_empty(), rows.memory_bytes(), rows.contains(u64::MAX), rows.contains(0));
    let _ = rows.iter().map(|all| all.take(4096).count());
    let _ = rows.below(0, 77);
    let other = RowSet::of(vec![1, 5, 1 << 32, u64::MAX]);
    let both = rows.intersection(&other);
    assert!(both.len() <= 4);
    let encoded = rows.encode().expect("a set that was read");
    assert_eq!(checked(RowSet::decode(&encoded)).expect("what was encoded"), rows);
    let _ = rows.encode_treemap();
    let _ = rows.union(other);
}

/// Deletion files of both forms; the first bytes are the form and the number of rows that the manifest gives.
pub fn deletions(data: &[u8]) {
    let Some((&[form, low, high], rest)) = data.split_first_chunk() else { return };
    let form = if form % 2 == 0 { DeletionFileType::Arrow } else { DeletionFileType::Bitmap };
    let bytes = Bytes::copy_from_slice(rest);
    let _ = checked(deletion_file::check(form, rest));
    let expected = u64::from(u16::from_le_bytes([low, high]));
    if let Some(rows) = checked(deletion_file::decode(form, &bytes, expected)) {
        assert_eq!(rows.len(), expected);
    }
    let Some(rows) = checked(deletion_file::decode_uncounted(form, &bytes, 1 << 20)) else { return };
    assert!(rows.len() <= 1 << 20);
    let encoded = deletion_file::encode_as(form, &rows).expect("rows that were read");
    let again = deletion_file::decode(form, &encoded.into(), rows.len()).expect("what was encoded");
    assert_eq!(again, rows);
}
