//! One version and a transaction make the next version: pure, no I/O (table format 7.2).
//!
//! Row ids, fragment ids and version sequences of new rows are handed out here, so an attempt that lost the race gets
//! others on top of the winner. Counters never go back: `max_fragment_id` and `next_row_id` only grow.
//!
//! Each operation has a file; here is what they share. An operation changes the fragments, schema and indices of the
//! next version, which begins as a copy of the current one.

mod append;
mod clone;
mod create_index;
mod data_replacement;
mod delete;
mod flags;
mod fragments;
mod indices;
mod lineage;
mod lineage_columns;
mod merge;
mod overwrite;
mod project;
mod reserve_fragments;
mod restore;
mod rewrite;
mod stable_row_ids;
#[cfg(test)]
mod tests;
mod update;
mod update_bases;
mod update_config;

use std::collections::BTreeMap;

use uuid::Uuid;

use crate::file::FileVersion;
use crate::manifest::{Fragment, IndexMetadata, Manifest, Timestamp, WriterVersion};
use crate::transaction::{Operation, Transaction};
use crate::{Error, FragmentId, Result, Version};

pub use create_index::{IndexedVersion, uncover_older};
pub use lineage_columns::{Sequences, needed_lineage_columns};

/// What applying a transaction needs besides the transaction.
#[derive(Debug, Clone)]
pub struct ApplyContext<'a> {
    /// When the version is made.
    pub timestamp: Timestamp,
    /// The largest version whose name is taken, if it is above the current one: of manifests that cannot be read.
    pub taken: Version,
    /// Name of the transaction file; empty if there is none.
    pub transaction_file: String,
    /// Content of the version that a `Restore` goes back to or a `Clone` copies.
    pub restored: Option<&'a (Manifest, Vec<IndexMetadata>)>,
    /// By entry of a `CreateIndex` the version that it was made for, if that is not the current one: values that were
    /// replaced and rows that were restored since then are not covered by it.
    pub indexed: &'a BTreeMap<Uuid, IndexedVersion>,
    /// The entry that keeps old row addresses usable after a `Rewrite` whose indices are not rewritten (table format
    /// 9.5); a transaction cannot contain it.
    pub fragment_reuse: Option<&'a IndexMetadata>,
    /// Who makes the version.
    pub writer: WriterVersion,
    /// Whether a table that is created gets stable row ids; existing tables keep what they have.
    pub enable_stable_row_ids: bool,
    /// File version that a created or overwritten table states; `None`: that of its files, else the current one.
    pub file_version: Option<FileVersion>,
    /// Fragments of the current version that [`needed_lineage_columns`] names, with these sequences inline:
    /// column-backed lineage that was read.
    pub inline_lineage: &'a BTreeMap<FragmentId, Fragment>,
    /// Whether the last-updated-at columns in the changed fragments of an `Update` were written for the version that is
    /// made. If not, the versions are computed from those of the current version and stored inline.
    pub writes_version_column: bool,
}

impl ApplyContext<'_> {
    fn next_version(&self, current: &Manifest) -> Version {
        current.version.max(self.taken).next()
    }
}

/// The version after `current` (the first one without it) and its indices.
///
/// `indices` are those of `current`. The flags of `current` must have been checked for writing.
/// Errors: `Unsupported` for operations that are not applied, and for data files of version 0.1 next to others;
/// retryable `Conflict` if a fragment of the transaction is not there any more; `InvalidInput` for what does not fit
/// the table.
pub fn apply(
    current: Option<&Manifest>,
    indices: &[IndexMetadata],
    transaction: &Transaction,
    context: &ApplyContext<'_>,
) -> Result<(Manifest, Vec<IndexMetadata>)> {
    let (mut next, indices) = match (current, &transaction.operation) {
        (Some(current), operation) => {
            let (mut next, mut indices) = change(current, indices, operation, context)?;
            if transaction.assigns_row_ids() && !current.has_stable_row_ids() {
                stable_row_ids::assign(&mut next, &mut indices)?;
            }
            (next, indices)
        }
        (None, Operation::Overwrite(overwrite)) => (overwrite::create(overwrite, context)?, Vec::new()),
        (None, Operation::Clone(clone)) => clone::create(clone, context)?,
        (None, operation) => {
            return Err(Error::not_found(format!("{} on a table that does not exist", operation.name())));
        }
    };
    next.timestamp = context.timestamp;
    next.transaction_file.clone_from(&context.transaction_file);
    next.writer = Some(context.writer.clone());
    next.index_section = None;
    next.transaction_section = None;
    next.unify_file_version()?;
    flags::recompute(&mut next)?;
    Ok((next, indices))
}

fn change(
    current: &Manifest,
    indices: &[IndexMetadata],
    operation: &Operation,
    context: &ApplyContext<'_>,
) -> Result<(Manifest, Vec<IndexMetadata>)> {
    // The same content under the next number.
    let mut next = Manifest { version: context.next_version(current), ..current.clone() };
    let mut indices = indices.to_vec();
    match operation {
        Operation::Append(append) => append::apply(append, &mut next)?,
        Operation::Delete(delete) => delete::apply(delete, &mut next, &mut indices)?,
        Operation::Overwrite(overwrite) => {
            overwrite::apply(overwrite, &mut next, context)?;
            indices.clear();
        }
        Operation::CreateIndex(create) => create_index::apply(create, &next, &mut indices, context)?,
        Operation::Rewrite(rewrite) => rewrite::apply(rewrite, current, &mut next, &mut indices, context)?,
        Operation::Merge(merge) => merge::apply(merge, current, &mut next, &mut indices, context)?,
        Operation::Restore(restore) => return restore::apply(restore, current, context),
        Operation::ReserveFragments(reserve) => reserve_fragments::apply(*reserve, &mut next)?,
        Operation::Update(update) => update::apply(update, current, &mut next, &mut indices, context)?,
        Operation::Project(project) => project::apply(project, &mut next, &mut indices)?,
        Operation::UpdateConfig(update) => update_config::apply(update, &mut next)?,
        Operation::DataReplacement(replacement) => {
            data_replacement::apply(replacement, &mut next, &mut indices)?;
        }
        Operation::UpdateBases(bases) => update_bases::apply(bases, &mut next)?,
        Operation::Clone(_) => {
            return Err(Error::invalid_input("Clone starts a table: there is one already"));
        }
        Operation::UpdateMemWalState(_) | Operation::DataOverlay(_) | Operation::Unknown(_) => {
            return Err(Error::unsupported(format!(
                "{} transactions cannot be committed by this release",
                operation.name()
            )));
        }
    }
    Ok((next, indices))
}
