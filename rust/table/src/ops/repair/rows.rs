//! Fragments whose files are lost: rows come back as far as older versions have them, and the rest is left out.

use std::collections::{BTreeMap, HashSet};
use std::ops::Range;
use std::sync::Arc;

use pennon_core::deletion::DeletionVector;
use pennon_core::manifest::{Fragment, paths};
use pennon_core::rows::{RowIdSequence, VersionSequence};
use pennon_core::schema::Metadata;
use pennon_core::transaction::Delete;
use pennon_core::{Error, FragmentId, Result, RowAddress, RowId, Version};

use super::{RepairAction, RepairKind, Step};
use crate::dataset::Dataset;
use crate::runtime::blocking;
use crate::scan::{self, FragmentReader};
use crate::store::Uploads;
use crate::versions::snapshot::Snapshot;
use crate::versions::{load, locate};

/// Property of the transaction that leaves out a fragment: `fragment=<id> rows=<number> row_ids=<start>..<end>,...`, with
/// row addresses in a table without stable row ids.
const QUARANTINED: &str = "pennon.quarantined";

/// Ascending ids, as ranges.
pub(super) type Ids = Vec<Range<u64>>;

/// A fragment to leave out.
pub(super) struct Quarantine {
    fragment: Arc<Fragment>,
    ids: Ids,
}

/// The fragment of a version that has a data file, a blob next to one, or a deletion file.
pub(super) fn fragment_with(snapshot: &Snapshot, path: &str) -> Option<FragmentId> {
    let has = |fragment: &Fragment| {
        paths::of_fragment(fragment).filter(|file| file.base_id.is_none()).any(|file| {
            let of_file = file.path();
            of_file == path || of_file.strip_suffix(".lance").is_some_and(|stem| is_below(path, stem))
        })
    };
    snapshot.manifest.fragments.decode_all().find(|fragment| has(fragment)).map(|fragment| fragment.id)
}

fn is_below(path: &str, folder: &str) -> bool {
    path.strip_prefix(folder).is_some_and(|rest| rest.starts_with('/'))
}

/// The steps for a fragment whose files are lost; `damaged`: full paths of all files that are.
pub(super) async fn quarantine(
    dataset: &Dataset,
    fragment: FragmentId,
    damaged: &HashSet<String>,
) -> Result<Vec<(RepairAction, Step)>> {
    let snapshot = dataset.snapshot();
    let missing = || Error::internal(format!("fragment {fragment} is not in the version that was verified"));
    let fragment =
        snapshot.manifest.fragments.decode_all().find(|found| found.id == fragment).ok_or_else(missing)?;
    let deleted = snapshot.deletion_vector(&fragment).await.ok();
    let rows = live_rows(snapshot, &fragment, deleted.as_deref()).await;
    let ids: Vec<u64> = rows.iter().map(|(id, _)| *id).collect();
    // A row that may have been deleted must not come back.
    let restored = match deleted.is_some() && snapshot.manifest.has_stable_row_ids() {
        true => from_older(snapshot, rows, damaged).await?,
        false => Vec::new(),
    };
    let coming_back: HashSet<u64> = restored.iter().flat_map(|(_, ids)| ids.iter().copied()).collect();
    let lost: Vec<u64> = ids.iter().copied().filter(|id| !coming_back.contains(id)).collect();
    let action = |kind, version, message, ids: &[u64]| RepairAction {
        kind,
        path: None,
        version,
        fragment: Some(fragment.id),
        message,
        row_ids: in_ranges(ids),
    };
    let id = fragment.id;
    let mut steps = Vec::new();
    for (version, ids) in restored {
        let message = format!("bring back {} rows of fragment {id} from version {version}", ids.len());
        let step = Step::RestoreRows { ids: in_ranges(&ids), version };
        steps.push((action(RepairKind::RestoreRows, Some(version), message, &ids), step));
    }
    if !lost.is_empty() {
        let message = match deleted {
            Some(_) => {
                format!("leave fragment {id} out of a new version: {} of its rows are lost", lost.len())
            }
            None => format!(
                "leave fragment {id} out of a new version: which of its {} rows were deleted is not known",
                lost.len()
            ),
        };
        let quarantine = Quarantine { fragment: Arc::clone(&fragment), ids: in_ranges(&lost) };
        let action = action(RepairKind::QuarantineFragment, None, message, &lost);
        steps.push((action, Step::Quarantine(quarantine)));
    }
    Ok(steps)
}

/// The ids of the live rows of a fragment, of all if it is not known which are deleted, with the versions that changed them
/// last; addresses and no versions if the table has no stable row ids, or if they lie in the files that are lost.
async fn live_rows(
    snapshot: &Arc<Snapshot>,
    fragment: &Arc<Fragment>,
    deleted: Option<&DeletionVector>,
) -> Vec<(u64, Option<Version>)> {
    let lineage = {
        let (snapshot, fragment) = (Arc::clone(snapshot), Arc::clone(fragment));
        blocking(move || lineage(&snapshot, &fragment)).await.ok().flatten()
    };
    let is_deleted =
        |row: u64| deleted.is_some_and(|deleted| u32::try_from(row).is_ok_and(|row| deleted.contains(row)));
    let live = (0..fragment.physical_rows).filter(|row| !is_deleted(*row));
    match lineage {
        Some((ids, versions)) => live.filter_map(|row| Some((ids.get(row)?.0, versions.get(row)))).collect(),
        None => live.map(|row| (u64::from(fragment.id.0) << 32 | row, None)).collect(),
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

/// The rows that older versions have as they are, in files that are not damaged, the newest of these versions first.
async fn from_older(
    snapshot: &Arc<Snapshot>,
    mut wanted: Vec<(u64, Option<Version>)>,
    damaged: &HashSet<String>,
) -> Result<Vec<(Version, Vec<u64>)>> {
    let (store, session) = (&snapshot.store, snapshot.session());
    let mut found = Vec::new();
    wanted.retain(|(_, version)| version.is_some());
    for at in locate::list(store).await?.into_iter().rev().filter(|at| at.version < snapshot.version()) {
        if wanted.is_empty() {
            break;
        }
        let Ok(older) = load::load(store, session, at).await else { continue };
        if older.manifest.schema.fields != snapshot.manifest.schema.fields {
            continue;
        }
        let (rows, files) = (wanted.clone(), damaged.clone());
        let Ok(here) = blocking(move || rows_in(&older, &rows, &files)).await else { continue };
        if !here.is_empty() {
            let taken: HashSet<u64> = here.iter().copied().collect();
            wanted.retain(|(id, _)| !taken.contains(id));
            found.push((at.version, here));
        }
    }
    Ok(found)
}

/// Which rows a version has as they were last changed, in files that are not damaged. Blocks on the store.
fn rows_in(
    older: &Arc<Snapshot>,
    wanted: &[(u64, Option<Version>)],
    damaged: &HashSet<String>,
) -> Result<Vec<u64>> {
    let ids: Vec<RowId> = wanted.iter().map(|(id, _)| RowId(*id)).collect();
    let mut by_fragment: BTreeMap<FragmentId, Vec<(u64, Option<Version>, RowAddress)>> = BTreeMap::new();
    for ((id, version), address) in wanted.iter().zip(scan::find_ids(older, &ids)?) {
        if let Some(address) = address {
            by_fragment.entry(address.fragment()).or_default().push((*id, *version, address));
        }
    }
    let mut found = Vec::new();
    for (id, rows) in by_fragment {
        let Some(fragment) = older.manifest.fragments.decode_all().find(|fragment| fragment.id == id) else {
            continue;
        };
        let is_lost = paths::of_fragment(&fragment).any(|file| {
            match older.locate(file.folder, &file.name, file.base_id) {
                Ok((store, path)) => damaged.contains(&store.full_path(&path)),
                Err(_) => true,
            }
        });
        if is_lost {
            continue;
        }
        let versions = FragmentReader::new(Arc::clone(older), fragment, 0).last_updated()?;
        let is_same = |version: Option<Version>, address: RowAddress| {
            version.is_some() && versions.get(address.offset().into()) == version
        };
        found.extend(rows.iter().filter(|(_, version, at)| is_same(*version, *at)).map(|(id, ..)| *id));
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
    /// Commits a version without the fragment. Errors: `InvalidInput` if it was changed since the plan was made.
    pub(super) async fn commit(self, dataset: Dataset) -> Result<()> {
        let Self { fragment, ids } = self;
        let id = fragment.id;
        let now = dataset.manifest().fragments.decode_all().find(|now| now.id == id);
        // Rows of it may have come back, and be deleted in it.
        if now.is_none_or(|now| now.files != fragment.files) {
            return Err(Error::invalid_input(format!(
                "fragment {id} was changed since the repair was planned: plan it again"
            )));
        }
        let rows: u64 = ids.iter().map(|range| range.end - range.start).sum();
        let ids: Vec<String> = ids.iter().map(|range| format!("{}..{}", range.start, range.end)).collect();
        let text = format!("fragment={id} rows={rows} row_ids={}", ids.join(","));
        let delete = Delete {
            updated_fragments: Vec::new(),
            deleted_fragment_ids: vec![id],
            predicate: format!(
                "_rowaddr >= {} AND _rowaddr < {}",
                u64::from(id.0) << 32,
                (u64::from(id.0) + 1) << 32
            ),
        };
        let properties = Metadata::from([(QUARANTINED.to_owned(), text)]);
        dataset.commit_vectors(delete, None, None, properties, Uploads::default()).await.map(drop)
    }
}
