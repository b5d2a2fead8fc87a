//! Which operation made a version, told from the first bytes of its manifest file.

use pennon_core::transaction::Transaction;

use crate::commit::latest::Located;
use crate::commit::manifest_path;
use crate::store::Store;

/// Property of a transaction that brought rows back, with the version they are from. A row that was dead may live
/// again after such a version, as after a restore.
pub(super) const RESTORED_ROWS: &str = "pennon.restored_rows";

/// First bytes of a message in a manifest file that tell its operation.
const HEAD: u64 = 256;
/// Field numbers of operations (table format 7.1).
const OVERWRITE: u32 = 102;
const RESTORE: u32 = 106;
/// Size of the length before a message.
const PREFIX: usize = 4;

/// What is known of the operation.
#[derive(Debug, Clone, Copy)]
pub(super) struct MadeBy {
    operation: u32,
    restored_rows: bool,
}

impl MadeBy {
    /// Whether rows that were dead may live again, or have older values.
    pub(super) fn brings_rows_back(self) -> bool {
        self.operation == RESTORE || self.restored_rows
    }

    /// Whether a field id may be another column's than in the version before.
    pub(super) fn replaces_columns(self) -> bool {
        [OVERWRITE, RESTORE].contains(&self.operation)
    }

    fn of(message: &[u8]) -> Option<Self> {
        let operation = Transaction::operation_number(bytes::Bytes::copy_from_slice(message))?;
        let restored_rows = message.windows(RESTORED_ROWS.len()).any(|part| part == RESTORED_ROWS.as_bytes());
        Some(Self { operation, restored_rows })
    }
}

/// `None` if the first bytes do not tell or cannot be read.
pub(super) async fn made_by(store: &Store, at: Located) -> Option<MadeBy> {
    let path = manifest_path(at.version, at.scheme);
    let head = store.get_range(&path, 0..HEAD).await.ok()?;
    let (length, message) = head.split_at_checked(PREFIX)?;
    if let Some(made) = MadeBy::of(message) {
        return Some(made);
    }
    // Behind the indices.
    let length = <[u8; PREFIX]>::try_from(length).ok()?;
    let start = 8 + u64::from(u32::from_le_bytes(length));
    MadeBy::of(&store.get_range(&path, start..start + HEAD).await.ok()?)
}
