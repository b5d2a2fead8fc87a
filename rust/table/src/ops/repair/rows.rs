//! Rows whose pages or files are lost: restored as far as older versions have them, and otherwise left out.

use std::collections::{BTreeMap, HashSet};
use std::ops::Range;
use std::sync::Arc;

use pennon_core::conflict::rebase::RowsByFragment;
use pennon_core::deletion::DeletionVector;
use pennon_core::manifest::{Fragment, paths};
use pennon_core::rows::{RowIdSequence, VersionSequence};
use pennon_core::schema::Metadata;
use pennon_core::{Error, FragmentId, Result, RowAddress, RowId, Version};

use super::{RepairAction, RepairKind, Step};
use crate::dataset::Dataset;
use crate::ops::verify::{Finding, FindingKind, Pace, StoredFile, check};
use crate::runtime::blocking;
use crate::scan::{self, FragmentReader};
use crate::versions::snapshot::Snapshot;
use crate::versions::{load, locate};

/// Property of the transaction that leaves out rows: `fragment=<id> rows=<number> row_ids=<start>..<end>,...`, with
/// `row_addresses` in a table without stable row ids, and where these are lost.
const QUARANTINED: &str = "pennon.quarantined";

/// Ascending ids, as ranges.
type Ids = Vec<Range<u64>>;

/// Rows of a fragment to leave out.
pub(super) struct Quarantine {
    fragment: Arc<Fragment>,
    /// The rows; `None` for all.
    offsets: Option<DeletionVector>,
    ids: Ids,
    has_ids: bool,
}

/// The fragment of a version that has a data file or a deletion file.
pub(super) fn fragment_with(snapshot: &Snapshot, path: &str) -> Option<FragmentId> {
    let has = |fragment: &Fragment| {
        let mut files = paths::of_fragment(fragment).filter(|file| file.base_id.is_none());
        files.any(|file| file.path() == path)
    };
    snapshot.manifest.fragments.decode_all().find(|fragment| has(fragment)).map(|fragment| fragment.id)
}

/// Whether findings of a data file or a deletion file mean that rows are lost: not if its bytes are as they were written, or
/// those that were changed are no values.
pub(super) async fn are_lost(snapshot: &Arc<Snapshot>, path: &str, findings: &[&Finding]) -> Result<bool> {
    let only_bytes = findings.iter().all(|finding| finding.kind == FindingKind::WrongSize);
    if only_bytes && path.starts_with("data/") {
        let (store, path) = (Arc::clone(&snapshot.store), path.to_owned());
        let file = StoredFile { store, path, version: snapshot.version(), fragment: None };
        return Ok(!check(&file, Pace::default()).await?.findings.is_empty());
    }
    // Changed bytes that no page has are statistics and padding: whoever reads values does not read them.
    Ok(!findings.iter().all(|finding| finding.bytes.is_some() && finding.pages.is_empty()))
}

/// The rows of a fragment that are in damaged pages; `None` for all of them.
fn rows_of_pages(findings: &[&Finding]) -> Option<Vec<Range<u64>>> {
    let mut rows = Vec::new();
    for finding in findings {
        if finding.pages.is_empty() {
            return None;
        }
        for page in &finding.pages {
            rows.push(page.rows.clone()?);
        }
    }
    Some(rows)
}

/// The steps for a fragment of the newest version with findings that mean lost rows; `damaged`: full paths of all files with
/// findings.
pub(super) async fn steps(
    snapshot: &Arc<Snapshot>,
    fragment: FragmentId,
    findings: &[&Finding],
    damaged: &HashSet<String>,
) -> Result<Vec<(RepairAction, Step)>> {
    let fragment = snapshot.manifest.require_fragment(fragment)?;
    let deleted = snapshot.deletion_vector(fragment).await.ok();
    let (rows, has_ids) = live_rows(snapshot, fragment, deleted.as_deref()).await;
    let pages = deleted.is_some().then(|| rows_of_pages(findings)).flatten();
    let in_pages =
        |offset: u64| pages.as_ref().is_none_or(|pages| pages.iter().any(|rows| rows.contains(&offset)));
    let rows: Vec<LiveRow> = rows.into_iter().filter(|row| in_pages(row.offset)).collect();
    // A row that may have been deleted must not be restored.
    let restored = match deleted.is_some() && has_ids {
        true => from_older(snapshot, &rows, damaged).await?,
        false => Vec::new(),
    };
    let known: HashSet<u64> = restored.iter().flat_map(|(_, ids)| ids.iter().copied()).collect();
    let lost: Vec<&LiveRow> = rows.iter().filter(|row| !known.contains(&row.id)).collect();
    let id = fragment.id;
    let action = |kind, version, message, row_ids: &[u64]| RepairAction {
        kind,
        path: None,
        version,
        fragment: Some(id),
        message,
        row_ids: in_ranges(row_ids),
    };
    let mut steps = Vec::new();
    for (version, ids) in restored {
        let message = format!("restore {} rows of fragment {id} from version {version}", ids.len());
        let step = Step::RestoreRows { ids: in_ranges(&ids), fragment: id, version };
        steps.push((action(RepairKind::RestoreRows, Some(version), message, &ids), step));
    }
    if !lost.is_empty() {
        let count = lost.len();
        let message = match (&deleted, &pages) {
            (None, _) => format!(
                "leave fragment {id} out of a new version: which of its {count} rows were deleted is not known"
            ),
            (_, None) => format!("leave fragment {id} out of a new version: {count} of its rows are lost"),
            _ => format!("delete {count} rows of fragment {id} that lie in damaged pages and are lost"),
        };
        let ids: Vec<u64> = lost.iter().map(|row| row.id).collect();
        let offsets = lost.iter().filter_map(|row| u32::try_from(row.offset).ok()).collect();
        let quarantine = Quarantine {
            fragment: Arc::clone(fragment),
            offsets: pages.is_some().then_some(offsets),
            ids: in_ranges(&ids),
            has_ids,
        };
        let action = action(RepairKind::QuarantineFragment, None, message, &ids);
        steps.push((action, Step::Quarantine(quarantine)));
    }
    Ok(steps)
}

/// A row that is not known to be deleted.
#[derive(Debug, Clone)]
struct LiveRow {
    offset: u64,
    /// Its id, or its address in a table without stable row ids.
    id: u64,
    /// The version that changed it last, if that is known.
    updated: Option<Version>,
}

/// The live rows of a fragment, all if it is not known which are deleted, and whether they have ids: not in a table without
/// stable row ids, nor if these lie in the files that are lost.
async fn live_rows(
    snapshot: &Arc<Snapshot>,
    fragment: &Arc<Fragment>,
    deleted: Option<&DeletionVector>,
) -> (Vec<LiveRow>, bool) {
    let lineage = {
        let (snapshot, fragment) = (Arc::clone(snapshot), Arc::clone(fragment));
        blocking(move || lineage(&snapshot, &fragment)).await.ok().flatten()
    };
    let is_deleted =
        |row: u64| deleted.is_some_and(|deleted| u32::try_from(row).is_ok_and(|row| deleted.contains(row)));
    let live = (0..fragment.physical_rows).filter(|row| !is_deleted(*row));
    match lineage {
        Some((ids, versions)) => {
            let row =
                |offset| Some(LiveRow { offset, id: ids.get(offset)?.0, updated: versions.get(offset) });
            (live.filter_map(row).collect(), true)
        }
        None => {
            let id = |offset| u64::from(fragment.id.0) << 32 | offset;
            (live.map(|offset| LiveRow { offset, id: id(offset), updated: None }).collect(), false)
        }
    }
}

fn lineage(
    snapshot: &Arc<Snapshot>,
    fragment: &Arc<Fragment>,
) -> Result<Option<(RowIdSequence, VersionSequence)>> {
    let Some(ids) = scan::lineage(snapshot, fragment)? else { return Ok(None) };
    let reader = FragmentReader::new(Arc::clone(snapshot), Arc::clone(fragment), 0);
    Ok(Some((ids, reader.last_updated()?)))
}

/// The ids of rows that older versions have as they are, in files that are not damaged, the newest of these versions first.
async fn from_older(
    snapshot: &Arc<Snapshot>,
    rows: &[LiveRow],
    damaged: &HashSet<String>,
) -> Result<Vec<(Version, Vec<u64>)>> {
    let (store, session) = (&snapshot.store, snapshot.session());
    let mut found = Vec::new();
    let mut wanted: Vec<LiveRow> = rows.iter().filter(|row| row.updated.is_some()).cloned().collect();
    for at in locate::list(store).await?.into_iter().rev().filter(|at| at.version < snapshot.version()) {
        if wanted.is_empty() {
            break;
        }
        let Ok(older) = load::load(store, session, at).await else { continue };
        if older.manifest.schema.fields != snapshot.manifest.schema.fields {
            continue;
        }
        let (rows, files) = (wanted.clone(), damaged.clone());
        let Ok(ids) = blocking(move || ids_in(&older, &rows, &files)).await else { continue };
        if !ids.is_empty() {
            let taken: HashSet<u64> = ids.iter().copied().collect();
            wanted.retain(|row| !taken.contains(&row.id));
            found.push((at.version, ids));
        }
    }
    Ok(found)
}

/// Which rows a version has as they were last changed, in files that are not damaged. Blocks on the store.
fn ids_in(older: &Arc<Snapshot>, wanted: &[LiveRow], damaged: &HashSet<String>) -> Result<Vec<u64>> {
    let ids: Vec<RowId> = wanted.iter().map(|row| RowId(row.id)).collect();
    let mut by_fragment: BTreeMap<FragmentId, Vec<(&LiveRow, RowAddress)>> = BTreeMap::new();
    for (row, address) in wanted.iter().zip(scan::find_ids(older, &ids)?) {
        if let Some(address) = address {
            by_fragment.entry(address.fragment()).or_default().push((row, address));
        }
    }
    let mut found = Vec::new();
    for (id, rows) in by_fragment {
        let fragment = older.manifest.require_fragment(id)?;
        let mut files = paths::of_fragment(fragment);
        let is_lost = files.any(|file| match older.locate(file.folder, &file.name, file.base_id) {
            Ok((store, path)) => damaged.contains(&store.full_path(&path)),
            Err(_) => true,
        });
        if is_lost {
            continue;
        }
        let versions = FragmentReader::new(Arc::clone(older), Arc::clone(fragment), 0).last_updated()?;
        let is_same = |(row, at): &&(&LiveRow, RowAddress)| versions.get(at.offset().into()) == row.updated;
        found.extend(rows.iter().filter(is_same).map(|(row, _)| row.id));
    }
    found.sort_unstable();
    Ok(found)
}

/// Ascending ids as ranges.
fn in_ranges(ids: &[u64]) -> Ids {
    let mut ids = ids.to_vec();
    ids.sort_unstable();
    let mut ranges: Ids = Vec::new();
    for id in ids {
        match ranges.last_mut().filter(|last| last.end == id) {
            Some(last) => last.end = id + 1,
            None => ranges.push(id..id + 1),
        }
    }
    ranges
}

impl Quarantine {
    /// Commits a version without the rows. Errors: `InvalidInput` if the fragment was changed since the plan was made.
    pub(super) async fn commit(self, dataset: Dataset) -> Result<()> {
        let Self { fragment, offsets, ids, has_ids } = self;
        let id = fragment.id;
        let now = dataset.manifest().fragment(id);
        // Rows of it may have been restored, and be deleted in it.
        if now.is_none_or(|now| now.files != fragment.files) {
            return Err(Error::invalid_input(format!(
                "fragment {id} was changed by another writer since the repair was planned: repair again"
            )));
        }
        let rows: u64 = ids.iter().map(|range| range.end - range.start).sum();
        let ids: Vec<String> = ids.iter().map(|range| format!("{}..{}", range.start, range.end)).collect();
        let what = if has_ids { "row_ids" } else { "row_addresses" };
        let text = format!("fragment={id} rows={rows} {what}={}", ids.join(","));
        let properties = Metadata::from([(QUARANTINED.to_owned(), text)]);
        let first = u64::from(id.0) << 32;
        let predicate = format!("_rowaddr >= {first} AND _rowaddr < {}", first + (1 << 32));
        if let Some(offsets) = offsets {
            let mut dataset = dataset;
            let rows = RowsByFragment::from([(id, offsets)]);
            return dataset.commit_delete(rows, &predicate, None, properties).await.map(drop);
        }
        dataset.publish_removal(vec![id], &predicate, properties).await.map(drop)
    }
}
