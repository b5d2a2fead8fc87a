//! What must be true of a table after a history.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use pennon_core::manifest::naming::{self, NamingScheme};
use pennon_core::manifest::{Manifest, Tail, paths};
use pennon_core::transaction::Operation;
use pennon_core::transaction::Transaction;
use pennon_core::{FragmentId, Version};
use pennon_table::{CommitStatus, Dataset, OpenOptions};

use super::files::{live_rows, row_ids};
use super::store::SimStore;
use super::writer::{Answer, Effect, Outcomes};

/// A version as its files say, those that were cleaned up included.
struct StoredVersion {
    manifest: Manifest,
    transaction: Transaction,
    rows: BTreeSet<u64>,
}

/// Checks the invariants. Errors: the first one that does not hold.
pub(super) async fn check(store: &SimStore, uri: &str, outcomes: &Outcomes) -> Result<(), String> {
    let versions = versions(store)?;
    files_exist(store, &versions)?;
    let made = changes_are_made_once(&versions, outcomes)?;
    rows_are_those_of_the_changes(&versions, outcomes)?;
    ids_are_given_out_once(&versions)?;
    status_agrees(uri, &made, outcomes).await
}

/// All versions there ever were, by number.
fn versions(store: &SimStore) -> Result<BTreeMap<u64, StoredVersion>, String> {
    let mut versions = BTreeMap::new();
    for path in store.archive() {
        let Some(name) = path.strip_prefix("_versions/") else { continue };
        let Some((version, _)) = naming::parse(name) else { continue };
        let file = store.archived(&path).unwrap_or_default();
        let found = decode(store, &file).map_err(|error| format!("version {version}: {error}"))?;
        versions.insert(version.0, found);
    }
    let version_numbers = versions.keys().copied();
    match version_numbers.eq(1..=u64::try_from(versions.len()).unwrap_or(0)) {
        true => Ok(versions),
        false => Err(format!("the versions are {:?}", versions.keys())),
    }
}

fn decode(store: &SimStore, file: &Bytes) -> pennon_core::Result<StoredVersion> {
    let size = u64::try_from(file.len()).unwrap_or(u64::MAX);
    let range = Tail::locate(file, size)?;
    let at = |position: u64| usize::try_from(position).unwrap_or(usize::MAX).min(file.len());
    let manifest = Manifest::decode(file.slice(at(range.start)..at(range.end)))?;
    let transaction = match manifest.transaction_section {
        Some(offset) => {
            let length = file.get(at(offset)..at(offset + 4)).and_then(|b| <[u8; 4]>::try_from(b).ok());
            let end = offset + 4 + u64::from(length.map_or(0, u32::from_le_bytes));
            Transaction::decode(file.slice(at(offset + 4)..at(end)))?
        }
        None => {
            let path = format!("_transactions/{}", manifest.transaction_file);
            Transaction::decode(store.archived(&path).unwrap_or_default())?
        }
    };
    let rows = live_rows(&manifest, |path| store.archived(path))?;
    let rows = rows.into_iter().map(|(_, _, id)| id).collect();
    Ok(StoredVersion { manifest, transaction, rows })
}

/// Every file that a version needs is there, as long as its manifest is. Another program may have removed transactions.
fn files_exist(store: &SimStore, versions: &BTreeMap<u64, StoredVersion>) -> Result<(), String> {
    let visible: BTreeSet<String> = store.paths().into_iter().collect();
    for (number, found) in versions {
        let name = naming::manifest_name(Version(*number), NamingScheme::V2);
        if !visible.contains(&format!("_versions/{name}")) {
            continue;
        }
        let transaction = format!("_transactions/{}", found.manifest.transaction_file);
        let has_file = !found.manifest.transaction_file.is_empty() && !store.was_removed(&transaction);
        if has_file && !visible.contains(&transaction) {
            return Err(format!("{transaction} of version {number} is not there"));
        }
        for fragment in found.manifest.fragments.decode_all() {
            for file in paths::of_fragment(&fragment) {
                if !visible.contains(&file.path()) {
                    return Err(format!("{} of version {number} is not there", file.path()));
                }
            }
        }
    }
    Ok(())
}

/// What was acknowledged is in one version, what was not committed in none. Gives the version of each change.
fn changes_are_made_once(
    versions: &BTreeMap<u64, StoredVersion>,
    outcomes: &Outcomes,
) -> Result<BTreeMap<String, u64>, String> {
    let mut made = BTreeMap::new();
    for (number, found) in versions {
        let uuid = &found.transaction.uuid;
        if let Some(before) = made.insert(uuid.clone(), *number) {
            return Err(format!("the change {uuid} is in version {before} and in version {number}"));
        }
    }
    for (uuid, (effect, answer)) in &outcomes.changes {
        let version = made.get(uuid);
        match (answer, version) {
            (Answer::Committed, None) => {
                return Err(format!("{effect:?} ({uuid}) was acknowledged and is in no version"));
            }
            (Answer::NotCommitted, Some(version)) => {
                return Err(format!("{effect:?} ({uuid}) was not committed and is in version {version}"));
            }
            _ => {}
        }
    }
    Ok(made)
}

/// The rows of each version are those that the changes up to it make.
fn rows_are_those_of_the_changes(
    versions: &BTreeMap<u64, StoredVersion>,
    outcomes: &Outcomes,
) -> Result<(), String> {
    let mut ever = BTreeSet::new();
    for (number, found) in versions {
        let before = number.checked_sub(1).and_then(|before| versions.get(&before));
        let before = before.map(|before| before.rows.clone()).unwrap_or_default();
        let uuid = &found.transaction.uuid;
        let effect = match outcomes.changes.get(uuid) {
            Some((effect, _)) => effect.clone(),
            None if *uuid == outcomes.first => Effect::Replace(7),
            None if matches!(
                found.transaction.operation,
                Operation::Rewrite(_) | Operation::ReserveFragments(_)
            ) =>
            {
                Effect::Keep
            }
            None => return Err(format!("no writer made version {number}")),
        };
        let new: BTreeSet<u64> = found.rows.difference(&ever).copied().collect();
        let has_new = |rows: u64| u64::try_from(new.len()).ok() == Some(rows);
        let agrees = match &effect {
            Effect::Insert(rows) => has_new(*rows) && found.rows == &before | &new,
            Effect::Replace(rows) => has_new(*rows) && found.rows == new,
            Effect::Delete(ids) => found.rows == &before - ids,
            Effect::Keep => found.rows == before,
            Effect::Restore(version) => versions.get(version).is_some_and(|then| then.rows == found.rows),
        };
        if !agrees {
            return Err(format!(
                "version {number} has rows {:?} after {effect:?} of version {} with rows {before:?}",
                found.rows, found.transaction.read_version
            ));
        }
        ever.extend(&found.rows);
    }
    Ok(())
}

/// No row id is in two rows of a version, and no fragment id means two fragments.
fn ids_are_given_out_once(versions: &BTreeMap<u64, StoredVersion>) -> Result<(), String> {
    let mut first_files: BTreeMap<FragmentId, String> = BTreeMap::new();
    for (number, found) in versions {
        let mut live = 0;
        for fragment in found.manifest.fragments.decode_all() {
            live += fragment.physical_rows - fragment.deleted_rows();
            let ids = row_ids(&fragment).map_err(|error| error.to_string())?;
            if ids.iter().any(|&id| id >= found.manifest.next_row_id) {
                return Err(format!("version {number} has a row id that may be given out again"));
            }
            let file = fragment.files.first().map(|file| file.path.clone()).unwrap_or_default();
            let known = first_files.entry(fragment.id).or_insert_with(|| file.clone());
            if *known != file {
                return Err(format!("fragment {} of version {number} was another one before", fragment.id));
            }
        }
        if u64::try_from(found.rows.len()).ok() != Some(live) {
            return Err(format!("version {number} has {live} live rows with {} ids", found.rows.len()));
        }
    }
    Ok(())
}

/// What can be asked later is what happened.
async fn status_agrees(uri: &str, made: &BTreeMap<String, u64>, outcomes: &Outcomes) -> Result<(), String> {
    let Ok(dataset) = Dataset::open(uri, OpenOptions::default()).await else { return Ok(()) };
    for (uuid, _) in outcomes.changes.iter().filter(|(_, (_, answer))| *answer == Answer::Unknown) {
        let Ok(status) = dataset.commit_status(uuid).await else { continue };
        let agrees = match (status, made.get(uuid)) {
            (CommitStatus::Committed(version), Some(made)) => version.0 == *made,
            (CommitStatus::NotCommitted, None) | (CommitStatus::Unknown, _) => true,
            _ => false,
        };
        if !agrees {
            return Err(format!("the status of {uuid} is {status:?}, it is in version {:?}", made.get(uuid)));
        }
    }
    Ok(())
}
