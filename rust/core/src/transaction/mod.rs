//! Transactions: what a commit changes, in full (table format, section 7).
//!
//! Every operation has its own file. Operations this release does not apply are still decoded, because the conflict
//! rules look at what others committed; an unknown operation is kept as its number.

mod append;
mod clone;
mod create_index;
mod data_overlay;
mod data_replacement;
mod delete;
mod key_filter;
mod merge;
mod overwrite;
mod project;
mod reserve_fragments;
mod restore;
mod rewrite;
mod update;
mod update_bases;
mod update_config;
mod update_mem_wal_state;

pub use append::Append;
pub use clone::Clone;
pub use create_index::CreateIndex;
pub use data_overlay::{DataOverlay, OverlayGroup};
pub use data_replacement::{DataReplacement, Replacement};
pub use delete::Delete;
pub use key_filter::{BloomFilter, KeyFilter, KeySet, key_hash};
pub use merge::Merge;
pub use overwrite::Overwrite;
pub use project::Project;
pub use reserve_fragments::ReserveFragments;
pub use restore::Restore;
pub use rewrite::{Rewrite, RewriteGroup, RewrittenIndex};
pub use update::{Update, UpdateMode};
pub use update_bases::UpdateBases;
pub use update_config::{MapUpdate, OldConfigUpdate, UpdateConfig};
pub use update_mem_wal_state::UpdateMemWalState;

use crate::Version;
use crate::schema::Metadata;

/// Property of a `Merge` that gives the rows of a table without stable row ids such ids: their addresses.
pub const ASSIGNS_ROW_IDS: &str = "pennon.assigns_row_ids";

/// One commit, as its writer describes it.
#[derive(Debug, Clone, PartialEq)]
pub struct Transaction {
    /// The version the writer read; 0 when it creates the table.
    pub read_version: Version,
    /// Hyphenated, lower case; identifies a commit that is retried.
    pub uuid: String,
    /// Not used.
    pub tag: String,
    /// What the user noted.
    pub properties: Metadata,
    /// The change.
    pub operation: Operation,
}

impl Transaction {
    /// Whether the rows of a table without stable row ids get such ids.
    pub fn assigns_row_ids(&self) -> bool {
        matches!(self.operation, Operation::Merge(_)) && self.properties.contains_key(ASSIGNS_ROW_IDS)
    }
}

/// The change of a transaction (table format 7.1).
#[derive(Debug, Clone, PartialEq)]
pub enum Operation {
    /// Adds fragments (100).
    Append(Append),
    /// Deletes rows (101).
    Delete(Delete),
    /// Replaces everything, or creates the table (102).
    Overwrite(Overwrite),
    /// Adds and removes index entries (103).
    CreateIndex(CreateIndex),
    /// Moves rows to other fragments without changing them (104).
    Rewrite(Rewrite),
    /// Changes columns and the whole fragment list (105).
    Merge(Merge),
    /// Goes back to an older version (106).
    Restore(Restore),
    /// Takes fragment ids (107).
    ReserveFragments(ReserveFragments),
    /// Changes, adds and deletes rows (108).
    Update(Update),
    /// Drops or renames columns (109).
    Project(Project),
    /// Changes config and metadata (110).
    UpdateConfig(UpdateConfig),
    /// Replaces data files column by column (111).
    DataReplacement(DataReplacement),
    /// Changes the state of in-memory logs (112).
    UpdateMemWalState(UpdateMemWalState),
    /// Copies a version of another table (113).
    Clone(Clone),
    /// Adds roots (114).
    UpdateBases(UpdateBases),
    /// Replaces cells (115).
    DataOverlay(DataOverlay),
    /// An operation that is not known; its number, 0 if there is none.
    Unknown(u32),
}

impl Operation {
    /// Its name, as the format calls it.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Append(_) => "Append",
            Self::Delete(_) => "Delete",
            Self::Overwrite(_) => "Overwrite",
            Self::CreateIndex(_) => "CreateIndex",
            Self::Rewrite(_) => "Rewrite",
            Self::Merge(_) => "Merge",
            Self::Restore(_) => "Restore",
            Self::ReserveFragments(_) => "ReserveFragments",
            Self::Update(_) => "Update",
            Self::Project(_) => "Project",
            Self::UpdateConfig(_) => "UpdateConfig",
            Self::DataReplacement(_) => "DataReplacement",
            Self::UpdateMemWalState(_) => "UpdateMemWalState",
            Self::Clone(_) => "Clone",
            Self::UpdateBases(_) => "UpdateBases",
            Self::DataOverlay(_) => "DataOverlay",
            Self::Unknown(_) => "Unknown",
        }
    }
}
