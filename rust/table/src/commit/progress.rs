//! What one commit knows and has written so far.

use std::collections::BTreeSet;
use std::sync::Arc;

use pennon_core::transaction::Rewrite;
use pennon_core::{FieldId, Version};

use super::attempt::TransactionFile;
use super::conclude::Unanswered;
use super::gap::LastLook;
use super::shared_keys::InsertedKeys;
use crate::runtime::Stopwatch;
use crate::session::CommitOptions;
use crate::store::Store;
use crate::versions::Located;
use crate::versions::snapshot::Snapshot;
use crate::write::staged::StagedChange;

/// One commit.
pub(super) struct Commit<'a> {
    pub(super) store: Arc<Store>,
    pub(super) options: &'a CommitOptions,
    pub(super) change: StagedChange,
    /// The version that the caller had.
    pub(super) base: Arc<Snapshot>,
    /// The newest version that was seen.
    pub(super) newest: Arc<Snapshot>,
    /// A version that was read when `newest` was looked for, and turned out not to be it.
    pub(super) expected: Option<Arc<Snapshot>>,
    /// Everything up to here was checked against the change.
    pub(super) checked: Version,
    /// Fields of the rows of an append that a version up to there did not have any more.
    pub(super) gone_fields: BTreeSet<FieldId>,
    /// A rewrite as it was asked for, once it was carried over: it is carried over again from there each time.
    pub(super) original_rewrite: Option<Rewrite>,
    /// The version of the last put, as long as nobody looked whose manifest is there.
    pub(super) unanswered: Option<Located>,
    /// Whether an attempt was made.
    pub(super) has_attempted: bool,
    /// Since the newest version was looked for, and the files of the change had arrived.
    pub(super) since_look: Stopwatch,
    /// The last look for the newest version.
    pub(super) last_look: Option<LastLook>,
    /// The keys that the change inserts, once they were looked for in the rows of others.
    pub(super) inserted_keys: InsertedKeys,
    /// The transaction file that was written last before it was needed.
    pub(super) written_transaction: Option<TransactionFile>,
    /// Transaction files of attempts, which only the committed one needs.
    pub(super) transaction_files: Vec<String>,
}

impl<'a> Commit<'a> {
    pub(super) fn new(base: Arc<Snapshot>, change: StagedChange, options: &'a CommitOptions) -> Self {
        Self {
            store: Arc::clone(&base.store),
            options,
            checked: change.transaction.read_version,
            gone_fields: BTreeSet::new(),
            change,
            newest: Arc::clone(&base),
            base,
            expected: None,
            original_rewrite: None,
            unanswered: None,
            has_attempted: false,
            since_look: Stopwatch::start(),
            last_look: None,
            inserted_keys: InsertedKeys::default(),
            written_transaction: None,
            transaction_files: Vec::new(),
        }
    }

    /// Notes a transaction file that an attempt will need, or that is removed.
    pub(super) fn note_written_ahead(&mut self, file: TransactionFile) {
        self.transaction_files.push(file.path.clone());
        self.written_transaction = Some(file);
    }

    /// The put of an attempt, whose answer is outstanding.
    pub(super) fn put_of(&self, at: Located) -> Unanswered<'_> {
        Unanswered {
            store: &self.store,
            session: self.newest.session(),
            at,
            uuid: &self.change.transaction.uuid,
            durability: self.options.durability,
        }
    }
}
