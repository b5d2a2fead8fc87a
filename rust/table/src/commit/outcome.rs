//! How a commit ended. Only the commit loop knows, so it says so in a type.

use std::sync::Arc;

use pennon_core::{Error, Result, Version};

use crate::versions::snapshot::Snapshot;

/// How a commit ended.
#[derive(Debug, Clone)]
#[must_use = "a commit that failed is no error by itself: look at the outcome"]
pub enum CommitOutcome {
    /// The change is this version. An error is what went wrong afterwards: the caller's lock could not be released.
    Committed(Arc<Snapshot>, Result<()>),
    /// No version has the change, and none will. The files that were staged for it are removed.
    NotCommitted(Error),
    /// Whether a version has the change is not known: the answer of the store was lost, and so was every attempt to
    /// look. The staged files stay. The error is of kind [`CommitUnknown`](pennon_core::ErrorKind::CommitUnknown) and
    /// has the uuid, for [`crate::Dataset::commit_status`].
    Unknown(Error),
}

impl CommitOutcome {
    /// The version; or the error of a change that was not committed, may not have been, or of what followed the commit.
    pub fn into_result(self) -> Result<Arc<Snapshot>> {
        match self {
            Self::Committed(snapshot, afterwards) => match afterwards {
                Ok(()) => Ok(snapshot),
                Err(error) => Err(error.at(format!("version {} is committed, but", snapshot.version()))),
            },
            Self::NotCommitted(error) | Self::Unknown(error) => Err(error),
        }
    }
}

/// Whether a transaction was committed, as the versions say that are there now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CommitStatus {
    /// By this version.
    Committed(Version),
    /// No version since the one it read has it. A request that is still on its way to the store could change that.
    NotCommitted,
    /// Some of the versions since were cleaned up, and the transaction is in none of the others.
    Unknown,
}
