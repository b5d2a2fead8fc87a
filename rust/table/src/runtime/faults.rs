//! Faults that the commit simulator plants, to prove that it would find them.
//!
//! Each is a mistake that somebody could make in the commit loop. A process's own environment plants none.

/// A mistake in the commit loop.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Fault {
    /// At the timeout nobody asks what became of the last put.
    TimeoutForgetsPut,
    /// A version in between was cleaned up: nobody asks what became of the last put.
    CleanupForgetsPut,
    /// The transaction of a version is not kept: it is taken for somebody else's.
    LostTransactionIsOthers,
    /// A version needs features that this release does not have: nobody asks what became of the last put.
    FeaturesForgetPut,
    /// A put that failed is taken for one that did not happen.
    FailedPutIsForgotten,
    /// A manifest that is not there yet is taken for one that will never be.
    UnknownIsNotCommitted,
    /// Staged files are removed though the outcome is unknown.
    UnknownRemovesFiles,
    /// Staged files are removed though they are committed.
    CommitRemovesFiles,
    /// The transaction file of the committed version is removed.
    CommitRemovesTransaction,
    /// The versions in between are not searched for one's own.
    OwnVersionIsOthers,
    /// The manifest is put over one that is there.
    PutOverwrites,
    /// Only the newest version is checked for conflicts.
    OnlyNewestIsChecked,
    /// Conflicts are not checked.
    ConflictsAreIgnored,
    /// Deletions are not carried over to the newest version.
    RebaseIsSkipped,
    /// The next version is made of the one that was read.
    StaleBase,
}

impl Fault {
    /// All of them.
    pub const ALL: [Self; 15] = [
        Self::TimeoutForgetsPut,
        Self::CleanupForgetsPut,
        Self::LostTransactionIsOthers,
        Self::FeaturesForgetPut,
        Self::FailedPutIsForgotten,
        Self::UnknownIsNotCommitted,
        Self::UnknownRemovesFiles,
        Self::CommitRemovesFiles,
        Self::CommitRemovesTransaction,
        Self::OwnVersionIsOthers,
        Self::PutOverwrites,
        Self::OnlyNewestIsChecked,
        Self::ConflictsAreIgnored,
        Self::RebaseIsSkipped,
        Self::StaleBase,
    ];
}
