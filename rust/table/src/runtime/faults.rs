//! Faults that the simulators plant, to prove that they would find them.
//!
//! Each is a mistake that somebody could make: in the commit loop, in what a commit makes of a version, in what is read. A
//! process's own environment plants none.

macro_rules! faults {
    ($($group:ident: $text:literal { $($(#[$doc:meta])* $name:ident,)* })*) => {
        /// A mistake.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum Fault {
            $($($(#[$doc])* $name,)*)*
        }

        impl Fault {
            $(
                #[doc = $text]
                pub const $group: &[Self] = &[$(Self::$name),*];
            )*
        }
    };
}

faults! {
    COMMITS: "Mistakes in the commit loop, which histories of single commits find." {
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
    TABLES: "Mistakes that programs of all verbs on whole tables find." {
        /// A restore is of the version before the one that was asked for.
        RestoreOfTheVersionBefore,
        /// A merge does not say which keys it inserts.
        InsertedKeysAreForgotten,
        /// The keys that a merge inserts are not looked for among the rows that others wrote meanwhile.
        SharedKeysAreOverlooked,
        /// Row ids that were given out are given out again.
        RowIdsAreReused,
        /// Fragment ids that were given out are given out again.
        FragmentIdsAreReused,
        /// A restore gives out the row ids again that came after the version.
        RestoreReusesRowIds,
        /// Base paths are not taken over from the version before.
        BasePathsAreForgotten,
        /// Indices are said to cover fragments that came after them.
        IndicesCoverNewFragments,
        /// An index that was built for an older version counts as one of the newest.
        IndexedVersionIsForgotten,
        /// Rows that were deleted stay.
        DeletedRowsStay,
        /// The old copies of updated rows stay.
        UpdatedRowsStay,
        /// Fragments without a row left stay.
        EmptiedFragmentsStay,
        /// Fragments that a compaction has replaced stay.
        ReplacedFragmentsStay,
        /// Deletions replace those that were there before.
        EarlierDeletionsAreForgotten,
        /// Updated rows get new ids.
        UpdatedRowsGetNewIds,
        /// Updated rows count as created by the update.
        UpdatedRowsLookNew,
        /// Updated rows count as last updated when they were created.
        UpdatedRowsLookUnchanged,
        /// Rows of a compaction get new ids.
        CompactedRowsGetNewIds,
        /// Rows of a compaction count as updated by it.
        CompactedRowsLookUpdated,
        /// Rows that got values in a new column do not count as updated.
        FilledRowsLookUnchanged,
        /// A delete or an update is carried through a compaction onto rows that were updated meanwhile.
        FollowIgnoresDeletions,
        /// Deleted rows are found by id.
        TakesFindDeletedRows,
        /// The change feed leaves out deletes.
        FeedLeavesOutDeletes,
        /// The change feed leaves out updates.
        FeedLeavesOutUpdates,
        /// A cleanup removes versions with a tag.
        CleanupIgnoresTags,
        /// A cleanup removes versions that branches began with.
        CleanupIgnoresBranches,
        /// A cleanup removes files of clones.
        CleanupIgnoresClones,
    }
}
