//! Clients of this process: one for each store and setting, with its connections and its budget.
//!
//! A client is kept while somebody uses it, and the last few a while longer: who opens a table again finds connections
//! that are open. Connections are driven by the runtime that opened them, so each runtime has its own; where there is
//! none, nothing is shared. A forked child has none of its parent's threads and must not touch its connections.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Weak};

use pennon_core::Result;
use tokio::runtime::Handle;

use super::requests::Client;
use crate::runtime::ProcessCell;

/// Clients that are kept though nobody uses them.
const RECENT: usize = 4;
/// Entries of clients that are gone are dropped when there are this many.
const MANY: usize = 64;

static POOL: ProcessCell<Pool> = ProcessCell::new();

#[derive(Default)]
struct Pool {
    clients: HashMap<String, Weak<Client>>,
    recent: VecDeque<Arc<Client>>,
}

/// The client of that key in this process and runtime, a new one if there is none.
pub(super) fn client(key: &str, open: impl FnOnce() -> Result<Arc<Client>>) -> Result<Arc<Client>> {
    let Ok(runtime) = Handle::try_current() else { return open() };
    let key = format!("{} {key}", runtime.id());
    if let Some(client) = POOL.with(|pool| pool.find(&key)).flatten() {
        return Ok(client);
    }
    let fresh = open()?;
    // Whoever was faster wins, so that there is one budget.
    let kept = POOL.with(|pool| match pool.find(&key) {
        Some(client) => client,
        None => pool.keep(key, Arc::clone(&fresh)),
    });
    Ok(kept.unwrap_or(fresh))
}

impl Pool {
    fn find(&mut self, key: &str) -> Option<Arc<Client>> {
        let client = self.clients.get(key)?.upgrade()?;
        self.note(&client);
        Some(client)
    }

    fn keep(&mut self, key: String, client: Arc<Client>) -> Arc<Client> {
        if self.clients.len() >= MANY {
            self.clients.retain(|_, client| client.strong_count() > 0);
        }
        self.clients.insert(key, Arc::downgrade(&client));
        self.note(&client);
        client
    }

    fn note(&mut self, client: &Arc<Client>) {
        self.recent.retain(|recent| !Arc::ptr_eq(recent, client));
        self.recent.push_back(Arc::clone(client));
        if self.recent.len() > RECENT {
            self.recent.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use object_store::memory::InMemory;

    use super::*;
    use crate::store::requests::{Patience, RequestLimits};

    fn open(key: &str) -> Arc<Client> {
        let fresh = || {
            let limits = RequestLimits::default();
            Ok(Client::new(Arc::new(InMemory::new()), limits, Patience::default(), Duration::MAX))
        };
        client(key, fresh).unwrap()
    }

    /// Tests run at the same time, and the lock is not waited for: what is shared is found sooner or later.
    fn is_shared(key: &str, client: &Arc<Client>) -> bool {
        (0..100).any(|_| Arc::ptr_eq(&open(key), client))
    }

    #[tokio::test]
    async fn a_runtime_has_one_client_of_a_key() {
        let first = open("pool-one");
        assert!(is_shared("pool-one", &first));
        assert!(!Arc::ptr_eq(&open("pool-two"), &first));
        let elsewhere = crate::runtime::thread("pool", || {
            let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
            let client = runtime.block_on(async { open("pool-one") });
            (client, open("pool-one"))
        });
        let (of_other_runtime, of_none) = elsewhere.unwrap().join().unwrap();
        assert!(!Arc::ptr_eq(&of_other_runtime, &first) && !Arc::ptr_eq(&of_none, &first));
    }

    #[tokio::test]
    async fn the_last_few_are_kept() {
        let weak = Arc::downgrade(&open("pool-kept"));
        assert!(weak.upgrade().is_some());
        for number in 0..100 {
            drop(open(&format!("pool-kept-{number}")));
        }
        assert!(weak.upgrade().is_none());
    }
}
