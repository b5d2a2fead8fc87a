//! A change meets the versions since the one it read: each is checked against it, and the change is carried over.

use std::collections::BTreeSet;
use std::sync::Arc;

use futures::FutureExt;
use pennon_core::conflict::{self, Outcome};
use pennon_core::manifest::Fragment;
use pennon_core::schema::Schema;
use pennon_core::transaction::{Merge, Operation, Project, Transaction};
use pennon_core::{Error, FieldId, Result, Version};
use tracing::debug;

use super::progress::Commit;
use super::{attempt, probe, rebase};
use crate::runtime::{Fault, gather, is_planted};
use crate::versions::Located;
use crate::versions::snapshot::Snapshot;
use crate::versions::{load, manifest_path};
use crate::write::staged::StagedChange;

/// A version since the one that was read: what it did. Its manifest is let go, so that many versions take the memory of
/// their transactions.
struct Intervening {
    version: Version,
    /// `None` if the table did not keep it.
    transaction: Option<Transaction>,
    /// Of the own transaction, and of rewrites, which rows are followed through.
    snapshot: Option<Arc<Snapshot>>,
    is_own: bool,
}

/// A version that inserted rows: what to say if one of them has a key that the change inserts too, and the fragments
/// with these rows.
struct KeyCheck<'a> {
    message: String,
    written: &'a [Fragment],
}

/// What the versions in between mean for the change.
#[derive(Default)]
struct Verdict<'a> {
    /// Whether one of them changed fragments that the change also has.
    needs_rebase: bool,
    key_checks: Vec<KeyCheck<'a>>,
}

/// Checks the change against every version after `checked` and carries it over to the newest one.
///
/// Gives the version that the same transaction made before, if there is one: that is looked for in all versions before
/// anything else is said of any of them. `is_last`: whether the change is published next.
pub(super) async fn reconcile(commit: &mut Commit<'_>, is_last: bool) -> Result<Option<Arc<Snapshot>>> {
    let (newest, checked) = (Arc::clone(&commit.newest), commit.checked);
    ensure_is_there(&newest, checked).await?;
    let known = commit.expected.take();
    let intervening = intervening(&newest, known.as_ref(), checked, &commit.change.transaction.uuid).await;
    if intervening.is_err() && is_planted(Fault::CleanupForgetsPut) {
        commit.unanswered = None;
    }
    let mut intervening = intervening?;
    if is_planted(Fault::OnlyNewestIsChecked) {
        intervening.drain(..intervening.len().saturating_sub(1));
    }
    if let Some(done) = own(&intervening) {
        return Ok(Some(done));
    }
    // The manifest of the last put is among them, and is somebody else's.
    commit.unanswered = None;
    if let Some(original) = &commit.original_rewrite {
        commit.change.transaction.operation = Operation::Rewrite(original.clone());
    }
    let Verdict { needs_rebase, key_checks } = match check(&mut commit.change, &intervening).await {
        Err(error) if error.is_retryable() => {
            return Err(lasting(&commit.change, &intervening).unwrap_or(error));
        }
        checked => checked?,
    };
    check_field_ids(commit, &newest, &intervening)?;
    debug!(from = checked.0, to = newest.version().0, needs_rebase, "the change is carried over");
    carry_over(commit, &newest, needs_rebase).await?;
    if key_checks.is_empty() || is_planted(Fault::SharedKeysAreOverlooked) {
        return Ok(None);
    }
    check_keys(commit, &newest, &key_checks, is_last).await?;
    Ok(None)
}

/// Errors: `Corrupt` if a crash of the machine took the version that was read: its numbers of fragments were given out
/// again.
async fn ensure_is_there(newest: &Snapshot, read: Version) -> Result<()> {
    let read = Located { version: read, scheme: newest.source().scheme };
    if load::is_torn(&newest.store, read).await {
        let path = newest.store.full_path(&manifest_path(read.version, read.scheme));
        return Err(Error::corrupt(format!(
            "{path}: the version that was read is gone, its manifest is torn"
        )));
    }
    Ok(())
}

/// Checks the change against each version in turn, and follows its rows through rewrites.
///
/// Errors: `Conflict`, retryable or not as the rules say (table format 8.2).
async fn check<'a>(change: &mut StagedChange, intervening: &'a [Intervening]) -> Result<Verdict<'a>> {
    let mut verdict = Verdict::default();
    let mine = &mut change.transaction;
    // Without the rows a delete can only drop fragments.
    let affected = change.affected.get_or_insert_default();
    for Intervening { version, transaction, snapshot, .. } in intervening {
        let version = *version;
        let Some(theirs) = transaction else {
            return Err(Error::retryable_conflict(format!(
                "Retryable commit conflict for version {version}: its transaction was not kept"
            )));
        };
        let has_same_fragments = match outcome(mine, change.columns.as_deref(), theirs, version) {
            Outcome::Compatible => false,
            _ if is_planted(Fault::ConflictsAreIgnored) => false,
            Outcome::Rebase => true,
            Outcome::UnlessSharedKey { message, needs_rebase } => {
                let written = conflict::written_fragments(&theirs.operation);
                verdict.key_checks.push(KeyCheck { message, written });
                needs_rebase
            }
            Outcome::Retryable(message) => return Err(Error::retryable_conflict(message)),
            Outcome::Incompatible(message) => return Err(Error::conflict(message)),
        };
        if !has_same_fragments || is_planted(Fault::RebaseIsSkipped) {
            continue;
        }
        // Where its rows go was worked out for the fragments as they were.
        if change.reuse.is_some() {
            return Err(Error::retryable_conflict(format!(
                "Retryable commit conflict for version {version}: rows that were moved were changed meanwhile"
            )));
        }
        verdict.needs_rebase = true;
        if let (Operation::Rewrite(rewrite), Some(snapshot)) = (&theirs.operation, snapshot) {
            rebase::follow(&mut mine.operation, affected, rewrite, snapshot).await?;
        }
    }
    Ok(verdict)
}

/// The ids of dropped columns are given out again: new rows must not become values of another column.
///
/// Errors: retryable `Conflict` if a field of new rows was dropped, and its id was given out again or will be.
fn check_field_ids(commit: &mut Commit<'_>, newest: &Snapshot, intervening: &[Intervening]) -> Result<()> {
    let new = match &commit.change.transaction.operation {
        Operation::Append(append) => &append.fragments,
        Operation::Update(update) => &update.new_fragments,
        _ => return Ok(()),
    };
    let files = || new.iter().flat_map(|fragment| &fragment.files);
    let gone = &mut commit.gone_fields;
    for Intervening { version, transaction, .. } in intervening {
        let Some(Operation::Merge(Merge { schema, .. }) | Operation::Project(Project { schema, .. })) =
            transaction.as_ref().map(|theirs| &theirs.operation)
        else {
            continue;
        };
        let present: BTreeSet<FieldId> = schema.depth_first().map(|field| field.id).collect();
        if let Some(id) = gone.intersection(&present).next() {
            return Err(Error::retryable_conflict(format!(
                "Retryable commit conflict for version {version}: field {id} of the new rows is another column there"
            )));
        }
        let fields = files().flat_map(|file| file.fields.iter()).filter(|id| !id.is_lineage());
        gone.extend(fields.filter(|id| !present.contains(id)));
    }
    match gone.last().filter(|id| **id >= newest.manifest.next_field_id()) {
        None => Ok(()),
        Some(id) => Err(Error::retryable_conflict(format!(
            "Retryable commit conflict for version {}: field {id} of the new rows was dropped, and its id is free again",
            newest.version()
        ))),
    }
}

fn outcome(mine: &Transaction, columns: Option<&Schema>, theirs: &Transaction, version: Version) -> Outcome {
    match columns {
        Some(schema) => conflict::check_with_columns(mine, schema, theirs, version),
        None => conflict::check(mine, theirs, version),
    }
}

/// The conflict with one of the versions for which there is no retrying, whatever the others mean: in a table that was
/// replaced a change must not be made again that was decided for the one before.
fn lasting(change: &StagedChange, intervening: &[Intervening]) -> Option<Error> {
    intervening.iter().find_map(|Intervening { version, transaction, .. }| {
        let columns = change.columns.as_deref();
        match outcome(&change.transaction, columns, transaction.as_ref()?, *version) {
            Outcome::Incompatible(message) => Some(Error::conflict(message)),
            _ => None,
        }
    })
}

/// Makes the change one of the newest version.
async fn carry_over(commit: &mut Commit<'_>, newest: &Arc<Snapshot>, needs_rebase: bool) -> Result<()> {
    let durability = commit.options.durability;
    let change = &mut commit.change;
    let mine = &mut change.transaction;
    let affected = change.affected.get_or_insert_default();
    let (files, uploads) = match &mut mine.operation {
        Operation::Delete(_) | Operation::Update(_) => {
            let written = match needs_rebase {
                true => rebase::rows(newest, &mut mine.operation, affected, durability).await?,
                false => Default::default(),
            };
            // They move to the version they were carried over to (table format 1, transaction file).
            mine.read_version = newest.version();
            written
        }
        Operation::Rewrite(rewrite) if needs_rebase || commit.original_rewrite.is_some() => {
            let original = commit.original_rewrite.get_or_insert_with(|| rewrite.clone());
            let (rebased, files, uploads) = rebase::rewrite(newest, original, durability).await?;
            mine.operation = Operation::Rewrite(rebased);
            (files, uploads)
        }
        other if needs_rebase => {
            return Err(Error::internal(format!("{} transactions are not carried over", other.name())));
        }
        _ => Default::default(),
    };
    change.files.extend(files);
    change.uploads.extend(uploads);
    Ok(())
}

/// Looks for the keys that the change inserts in the rows that others inserted.
///
/// Errors: retryable `Conflict` if one is there.
async fn check_keys(
    commit: &mut Commit<'_>,
    newest: &Arc<Snapshot>,
    checks: &[KeyCheck<'_>],
    is_last: bool,
) -> Result<()> {
    let (change, durability) = (&commit.change, commit.options.durability);
    let is_known = change.columns.is_none() && change.in_place.is_none();
    let file = (is_known && is_last).then(|| attempt::file_ahead(newest, &change.transaction)).flatten();
    // On its way while keys are read; one that is not written now is written by the attempt.
    let write = async {
        let file = file.as_ref()?;
        probe::create(&newest.store, newest.session(), &file.path, &file.bytes, durability).await.ok()
    };
    let written: Vec<&[Fragment]> = checks.iter().map(|check| check.written).collect();
    let (keys, transaction) = (&mut commit.inserted_keys, &change.transaction);
    let (shared, is_written) =
        futures::join!(keys.shared(newest, transaction, &written, &change.uploads), write);
    if let (Some(true), Some(file)) = (is_written, file) {
        commit.note_written_ahead(file);
    }
    match shared?.and_then(|at| checks.get(at)) {
        Some(check) => Err(Error::retryable_conflict(check.message.clone())),
        None => Ok(()),
    }
}

/// The version after `checked` that this very transaction made.
pub(super) async fn find_own(
    newest: &Arc<Snapshot>,
    checked: Version,
    mine: &Transaction,
) -> Result<Option<Arc<Snapshot>>> {
    Ok(own(&intervening(newest, None, checked, &mine.uuid).await?))
}

/// The one of some versions that this very transaction made.
fn own(intervening: &[Intervening]) -> Option<Arc<Snapshot>> {
    if is_planted(Fault::OwnVersionIsOthers) {
        return None;
    }
    intervening.iter().find(|version| version.is_own)?.snapshot.clone()
}

/// Versions after `checked` up to `newest` with their transactions, ascending. `known` may be one of them, `mine` is the own
/// transaction's uuid.
async fn intervening(
    newest: &Arc<Snapshot>,
    known: Option<&Arc<Snapshot>>,
    checked: Version,
    mine: &str,
) -> Result<Vec<Intervening>> {
    let versions = checked.0.saturating_add(1)..=newest.version().0;
    let loads = versions.map(|version| {
        let load = async move {
            let read = [Some(newest), known].into_iter().flatten().find(|read| read.version().0 == version);
            let snapshot = if let Some(read) = read {
                Arc::clone(read)
            } else {
                let at = Located { version: Version(version), scheme: newest.source().scheme };
                match load::load(&newest.store, newest.session(), at).await {
                    Ok(snapshot) => snapshot,
                    // Nobody built on a version that was not written to its end, or knows what it was to be.
                    Err(_) if load::is_torn(&newest.store, at).await => return Ok(None),
                    Err(error) if error.is_not_found() => return Err(cleaned_up(version)),
                    Err(error) => return Err(error),
                }
            };
            let transaction = load::transaction(&snapshot).await?;
            let is_own = match &transaction {
                None if is_planted(Fault::LostTransactionIsOthers) => false,
                Some(transaction) => transaction.uuid == mine,
                None => load::uuid(&snapshot).await?.is_some_and(|uuid| uuid == mine),
            };
            let is_rewrite =
                matches!(&transaction, Some(made) if matches!(made.operation, Operation::Rewrite(_)));
            let version = snapshot.version();
            let snapshot = (is_own || is_rewrite).then_some(snapshot);
            Ok(Some(Intervening { version, transaction, snapshot, is_own }))
        };
        load.boxed()
    });
    Ok(gather(loads.collect()).await?.into_iter().flatten().collect())
}

/// The conflict with a version of another writer that was cleaned up.
pub(super) fn cleaned_up(version: u64) -> Error {
    Error::retryable_conflict(format!(
        "Retryable commit conflict for version {version}: the version is gone, what it changed is not known"
    ))
}
