//! UpdateMemWalState (112).

use bytes::Bytes;

/// Changes the state of in-memory logs; carried along only.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UpdateMemWalState {
    /// Messages.
    pub compacted_sstables: Vec<Bytes>,
}
