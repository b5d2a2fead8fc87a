//! The commit loop: the one place where manifests are written (table format, section 8).
//!
//! | step | here |
//! |---|---|
//! | wait for other commits of this process to the table | `runtime::turns` |
//! | find the newest version | `versions::locate`, `versions::load` |
//! | check the change against every version since the one it read, and carry it over | `reconcile` |
//! | what is known meanwhile | `progress` |
//! | decide: compatible, rebase, retryable, incompatible | `pennon_core::conflict` (pure) |
//! | look for inserted keys in the rows that others wrote | `shared_keys` |
//! | rewrite deletions, moves, rewrites and changes in place for the newest version | `rebase` |
//! | next manifest from newest manifest and transaction | `pennon_core::apply` (pure) |
//! | transaction file, manifest with put-if-absent, hint | `attempt`; `external` where the store needs help |
//! | hold the caller's lock meanwhile, if there is one | `lock` |
//! | take it back if its name was that of a version which was cleaned up | `gap` |
//! | wait before a retry | `runtime::backoff` |
//! | say how it ended | `conclude`, `outcome` |
//! | remove the files of a change that was not committed | `commit_loop` |
//! | corrupt it, for simulators that must find that | `planted` |
//!
//! Invariants: a commit is acknowledged only if exactly one manifest carries its transaction. A transaction whose uuid
//! is found in a version since the one it read is committed already; that is how an answer that got lost, and a caller
//! that tries again, are recognised. Every exit goes through one function, which looks for that uuid as long as the
//! answer to a put is outstanding; staged files are removed only when it found out that the change is not committed.

mod attempt;
pub(crate) mod clone;
mod commit_loop;
mod conclude;
mod create;
mod detached;
mod external;
mod gap;
mod lock;
mod outcome;
mod planted;
pub(crate) mod probe;
mod progress;
mod rebase;
mod reconcile;
mod shared_keys;
mod status;

pub(crate) use self::attempt::{indexed_versions, rebuild};
pub(crate) use self::commit_loop::commit;
pub(crate) use self::create::{already_exists, create};
pub(crate) use self::detached::detached;
pub use self::outcome::{CommitOutcome, CommitStatus};
pub(crate) use self::status::{find_repeated, status};
