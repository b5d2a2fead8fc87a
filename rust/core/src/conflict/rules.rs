//! The table of table format 8.2, for the operations this release commits.
//!
//! | mine \ theirs | Append | Delete | Update | CreateIndex | Rewrite | Merge | Project | Overwrite | Restore |
//! |---|---|---|---|---|---|---|---|---|---|
//! | Append | ok | ok | ok | ok | ok | ok | ok | X | X |
//! | Delete | ok | DV | DV | ok | f | Ry | ok | X | X |
//! | Overwrite | ok | ok | ok | ok | ok | ok | ok | Ry | ok |
//! | Restore | ok | ok | ok | ok | ok | ok | ok | ok | ok |
//!
//! | mine \ theirs | UpdateConfig | DataReplacement | Reserve | MemWal | Clone | Bases | Overlay | unknown |
//! |---|---|---|---|---|---|---|---|---|
//! | Append | ok | ok | ok | X | ok | ok | ok | X |
//! | Delete | ok | f | ok | X | ok | ok | f | X |
//! | Overwrite | same key X | ok | ok | X | ok | ok | ok | X |
//! | Restore | schema X | ok | ok | X | ok | ok | ok | X |
//!
//! `DV`: deletion vectors decide; `f`: retryable if a fragment is shared; `Ry`: retryable; `X`: incompatible. The table
//! has no column for overlays; a delete must not overlook values that changed, the others do not mind. Whatever is
//! not in the table is retryable, so that nothing is lost.

use std::collections::BTreeSet;

use super::Outcome;
use crate::manifest::Fragment;
use crate::transaction::{Delete, Operation, Transaction};
use crate::{FragmentId, Version};

/// What `theirs`, committed as `theirs_version`, means for `mine`, which is not committed yet.
pub fn check(mine: &Transaction, theirs: &Transaction, theirs_version: Version) -> Outcome {
    use Operation as Op;
    let verdict = match (&mine.operation, &theirs.operation) {
        (_, Op::Unknown(_)) | (Op::Unknown(_), _) => Verdict::Incompatible("this release does not know it"),

        (Op::Append(_), Op::Overwrite(_) | Op::Restore(_)) => {
            Verdict::Incompatible("the table these rows were written for was replaced")
        }
        (Op::Append(_), Op::UpdateMemWalState(_)) => Verdict::Incompatible(MEM_WAL),
        (Op::Append(_), _) => Verdict::Compatible,

        (Op::Delete(_), Op::Overwrite(_) | Op::Restore(_)) => {
            Verdict::Incompatible("the rows to delete were replaced")
        }
        (Op::Delete(_), Op::UpdateMemWalState(_)) => Verdict::Incompatible(MEM_WAL),
        (Op::Delete(mine), Op::Delete(theirs)) => {
            deletion_vectors(mine, &theirs.updated_fragments, &theirs.deleted_fragment_ids)
        }
        (Op::Delete(mine), Op::Update(theirs)) => {
            deletion_vectors(mine, &theirs.updated_fragments, &theirs.removed_fragment_ids)
        }
        (Op::Delete(mine), Op::Rewrite(theirs)) => {
            shared(mine, theirs.groups.iter().flat_map(|g| &g.old_fragments).map(|f| f.id))
        }
        (Op::Delete(mine), Op::DataReplacement(theirs)) => {
            shared(mine, theirs.replacements.iter().map(|r| r.fragment))
        }
        (Op::Delete(mine), Op::DataOverlay(theirs)) => shared(mine, theirs.groups.iter().map(|g| g.fragment)),
        (Op::Delete(_), Op::Merge(_)) => Verdict::Retryable("it changed the columns of all fragments"),
        (Op::Delete(_), _) => Verdict::Compatible,

        (Op::Overwrite(_), Op::Overwrite(_)) => Verdict::Retryable("both replace the table"),
        (Op::Overwrite(_), Op::UpdateMemWalState(_)) => Verdict::Incompatible(MEM_WAL),
        (Op::Overwrite(mine), Op::UpdateConfig(theirs)) => {
            let mut keys = mine.config_upserts.iter().flat_map(|c| c.keys());
            if keys.any(|key| theirs.touches_config_key(key)) {
                Verdict::Incompatible("both set the same config key")
            } else {
                Verdict::Compatible
            }
        }
        (Op::Overwrite(_), _) => Verdict::Compatible,

        (Op::Restore(_), Op::UpdateConfig(theirs)) if theirs.touches_schema() => {
            Verdict::Incompatible("it changed metadata of the schema or of fields")
        }
        (Op::Restore(_), Op::UpdateMemWalState(_)) => Verdict::Incompatible(MEM_WAL),
        (Op::Restore(_), _) => Verdict::Compatible,

        _ => Verdict::Retryable("this release does not decide on it"),
    };
    let place = || {
        format!(
            "this {} was preempted by concurrent transaction {} ({}) at version {theirs_version}",
            mine.operation.name(),
            theirs.uuid,
            theirs.operation.name()
        )
    };
    match verdict {
        Verdict::Compatible => Outcome::Compatible,
        Verdict::Rebase => Outcome::Rebase,
        Verdict::Retryable(why) => Outcome::Retryable(format!(
            "Retryable commit conflict for version {theirs_version}: {}: {why}",
            place()
        )),
        Verdict::Incompatible(why) => {
            Outcome::Incompatible(format!("Commit conflict for version {theirs_version}: {}: {why}", place()))
        }
    }
}

const MEM_WAL: &str = "it changed the state of an in-memory log";

/// [`Outcome`] with the reason only.
enum Verdict {
    Compatible,
    Rebase,
    Retryable(&'static str),
    Incompatible(&'static str),
}

/// Note DV of the table: both changed rows of a fragment, which is fine as long as they are different rows.
fn deletion_vectors(mine: &Delete, updated: &[Fragment], removed: &[FragmentId]) -> Verdict {
    let touched = touched(mine);
    if removed.iter().any(|id| touched.contains(id)) {
        return Verdict::Retryable("it removed a fragment with rows to delete");
    }
    let mut verdict = Verdict::Compatible;
    for theirs in updated.iter().filter(|f| touched.contains(&f.id)) {
        match mine.updated_fragments.iter().find(|f| f.id == theirs.id) {
            // A fragment I delete whole has no row left that they did not touch.
            None => return Verdict::Retryable("it changed rows of a fragment that is deleted whole"),
            Some(mine) if mine.files != theirs.files => {
                return Verdict::Retryable("it changed the data files of a fragment with rows to delete");
            }
            Some(_) => verdict = Verdict::Rebase,
        }
    }
    verdict
}

/// Note f of the table.
fn shared(mine: &Delete, mut theirs: impl Iterator<Item = FragmentId>) -> Verdict {
    let touched = touched(mine);
    if theirs.any(|id| touched.contains(&id)) {
        return Verdict::Retryable("it changed a fragment with rows to delete");
    }
    Verdict::Compatible
}

fn touched(delete: &Delete) -> BTreeSet<FragmentId> {
    let updated = delete.updated_fragments.iter().map(|f| f.id);
    updated.chain(delete.deleted_fragment_ids.iter().copied()).collect()
}
