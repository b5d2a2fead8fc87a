//! Settings that many calls share: how a table is reached, how changes are committed, how a new table is laid out.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use pennon_core::Result;
use pennon_core::file::FileVersion;

use super::{CacheSizes, CommitLock, Session};
use crate::store::{Durability, Names, RequestLimits, StorageOptions, Store};

/// How a table is reached.
#[derive(Clone, Default)]
pub struct ConnectOptions {
    /// Settings of the store.
    pub storage_options: StorageOptions,
    /// What a new session keeps.
    pub cache: CacheSizes,
    /// What the stores of a new session may have in flight.
    pub requests: RequestLimits,
    /// A session to use instead of a new one.
    pub session: Option<Arc<Session>>,
}

impl fmt::Debug for ConnectOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ConnectOptions")
            .field("storage_options", &Names(&self.storage_options))
            .field("cache", &self.cache)
            .field("requests", &self.requests)
            .field("session", &self.session)
            .finish()
    }
}

impl ConnectOptions {
    /// The store of a table and the session to use, a new one unless one was given. Errors: those of [`Store::open`].
    pub(crate) fn open(&self, uri: &str) -> Result<(Arc<Store>, Arc<Session>)> {
        let session = self.session.clone().unwrap_or_else(|| Session::with_limits(self.cache, self.requests));
        Ok((session.open_store(uri, &self.storage_options)?, session))
    }
}

/// How every verb commits through a handle.
#[derive(Debug, Clone)]
pub struct CommitOptions {
    /// What an acknowledged commit survives.
    pub durability: Durability,
    /// Attempts after losing races; at least one is made. With 0 an overwrite is only accepted right on top of
    /// the version it read.
    pub max_retries: u32,
    /// No retry starts after this time.
    pub timeout: Duration,
    /// Held while a manifest is published.
    pub lock: Option<Arc<dyn CommitLock>>,
}

impl Default for CommitOptions {
    fn default() -> Self {
        Self { durability: Durability::Full, max_retries: 20, timeout: Duration::from_secs(1800), lock: None }
    }
}

/// How a table that is created is laid out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CreateOptions {
    /// Whether its rows get stable ids.
    pub enable_stable_row_ids: bool,
    /// Whether it names its manifests in the newer way.
    pub enable_v2_manifest_paths: bool,
    /// Version of its data files, also when a table is overwritten. `None`: the table's, or else the newest stable one.
    pub file_version: Option<FileVersion>,
}

impl Default for CreateOptions {
    fn default() -> Self {
        Self { enable_stable_row_ids: true, enable_v2_manifest_paths: true, file_version: None }
    }
}
