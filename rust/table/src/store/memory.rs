//! `memory://name`: tables that live as long as the process.
//!
//! The registry belongs to the process: without it a second open would find nothing.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use object_store::ObjectStore;
use object_store::memory::InMemory;
use pennon_core::{Error, Result};

static STORES: Mutex<BTreeMap<String, Arc<dyn ObjectStore>>> = Mutex::new(BTreeMap::new());

/// The key is the first path segment, so that tables below one name share a store.
fn key(name: &str) -> &str {
    name.split('/').next().unwrap_or_default()
}

pub(super) fn open(name: &str) -> Result<Arc<dyn ObjectStore>> {
    let mut stores = STORES.lock().map_err(poisoned)?;
    Ok(Arc::clone(stores.entry(key(name).to_owned()).or_insert_with(|| Arc::new(InMemory::new()))))
}

pub(super) fn register(name: &str, store: Arc<dyn ObjectStore>) -> Result<()> {
    STORES.lock().map_err(poisoned)?.insert(key(name).to_owned(), store);
    Ok(())
}

fn poisoned<T>(_: T) -> Error {
    Error::internal("the registry of memory stores was left locked by a thread that panicked")
}
