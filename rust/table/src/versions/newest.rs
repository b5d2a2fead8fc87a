//! Versions on local disks that this process found to be the newest, with the state that their directory had then.
//!
//! A directory whose times and size are the same has the same names, so what was the newest is it still, and neither a
//! listing nor a hint is needed. There is one catch: two changes within one tick of the file system's clock look like one.
//!
//! | found by | believed if |
//! |---|---|
//! | a listing | the directory had not changed for [`SETTLED`] by then |
//! | a commit of ours, on the version that was the newest | the file system counts parts of a second |
//!
//! Either way the caller sees to it that the version is there and the next one is not. What is left is a tick in which two
//! others commit and a third one removes the first of these versions, but not ours before it: shorter than a listing takes.

use std::collections::HashMap;
use std::time::Duration;

use pennon_core::manifest::Timestamp;

use super::Located;
use crate::runtime::{self, ProcessCell};
use crate::store::{FileInfo, Store};

/// Longer than a tick of any clock of a file system.
const SETTLED: Duration = Duration::from_secs(3);
/// Tables that are remembered.
const TABLES: usize = 1024;

/// By table.
static NEWEST: ProcessCell<HashMap<String, (FileInfo, Located)>> = ProcessCell::new();

/// The version that was the newest when the directory was in this state.
pub(super) fn get(store: &Store, directory: &FileInfo) -> Option<Located> {
    let find = |(state, at): &(FileInfo, Located)| (state == directory).then_some(*at);
    NEWEST.with(|tables| tables.get(store.root()).and_then(find)).flatten()
}

/// Remembers what a listing found, which began when the directory was in this state.
pub(super) fn listed(store: &Store, directory: FileInfo, newest: Located) {
    let Timestamp { seconds, nanos } = runtime::now();
    let age = |now: i64, then: i64| now.saturating_mul(1000).saturating_sub(then.saturating_mul(1000));
    let millis = |nanos: u32| i64::from(nanos / 1_000_000);
    let changed = directory.changed;
    let age = age(seconds, changed.seconds) + millis(nanos) - millis(changed.nanos);
    if u128::try_from(age).is_ok_and(|age| age > SETTLED.as_millis()) {
        remember(store, directory, newest);
    }
}

/// Remembers a commit on top of the newest version. `directory` is its state afterwards.
pub(super) fn committed(store: &Store, directory: FileInfo, newest: Located) {
    if directory.changed.nanos != 0 {
        remember(store, directory, newest);
    }
}

fn remember(store: &Store, directory: FileInfo, newest: Located) {
    NEWEST.with(|tables| {
        if tables.len() >= TABLES && !tables.contains_key(store.root()) {
            tables.clear();
        }
        tables.insert(store.root().to_owned(), (directory, newest));
    });
}
