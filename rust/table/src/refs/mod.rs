//! References: tags and branches, JSON files under `_refs` of the main table (table format 11.3).
//!
//! A branch is a table of its own below the main one, at `tree/<branch>`, whose manifests name it. That is how a
//! handle on a branch finds the main table again: nothing else is kept about it.

mod branches;
mod clones;
mod intents;
mod tags;

use std::str::FromStr;
use std::sync::Arc;

use bytes::Bytes;
use chrono::{DateTime, SecondsFormat, Utc};
use futures::FutureExt;
use pennon_core::manifest::Timestamp;
use pennon_core::{Error, ErrorKind, Result, Version, checksum};
use percent_encoding::percent_decode_str;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

pub use self::branches::{Branch, Branches};
pub(crate) use self::branches::{
    Owner, before_branch, branch_store, explain_missing, forget_branches, owner, refuse_links,
};
pub(crate) use self::clones::{KnownClone, known_clones, remember_clone};
use self::intents::removals_ended;
pub(crate) use self::intents::{begin_removal, begin_restore, end_intent, restores};
pub use self::tags::{Tag, Tags};
use crate::commit::probe;
use crate::runtime::gather;
use crate::session::Session;
use crate::store::{Durability, Store};
use crate::versions::snapshot::Snapshot;
use crate::versions::{MAIN, VersionRef, locate};

/// Order of a list of references, by version.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum RefOrder {
    /// Oldest version first.
    Asc,
    /// Newest version first.
    #[default]
    Desc,
}

impl FromStr for RefOrder {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        match text {
            "asc" => Ok(Self::Asc),
            "desc" => Ok(Self::Desc),
            _ => {
                Err(Error::invalid_input(format!("Invalid sort order '{text}'. Valid values are: asc, desc")))
            }
        }
    }
}

/// The store of the table that a version is a branch of; its own on main.
pub(crate) fn main_store(snapshot: &Snapshot) -> Result<Arc<Store>> {
    let Some(branch) = &snapshot.manifest.branch else { return Ok(Arc::clone(&snapshot.store)) };
    match snapshot.store.above(&branches::tree(branch)) {
        Some(uri) => snapshot.session().store(&snapshot.store, &uri),
        // A branch that was moved elsewhere is a table of its own.
        None => Ok(Arc::clone(&snapshot.store)),
    }
}

/// Checks the name of a tag, or of one segment of a branch.
fn check_name(name: &str, what: &str) -> Result<()> {
    let allowed = |c: char| c.is_alphanumeric() || matches!(c, '.' | '-' | '_');
    let reason = if name.is_empty() {
        "cannot be empty"
    } else if !name.chars().all(allowed) {
        "characters must be either alphanumeric, '.', '-' or '_'"
    } else if name.starts_with('.') {
        "cannot begin with a dot"
    } else if name.ends_with('.') {
        "cannot end with a dot"
    } else if name.ends_with(".lock") {
        "cannot end with .lock"
    } else if name.contains("..") {
        "cannot have two consecutive dots"
    } else {
        return Ok(());
    };
    Err(Error::invalid_input(format!("Ref is invalid: {what} {reason}, found {name:?}")))
}

/// Refuses new names that the reference could not list: it stops at the first one.
fn check_ascii(name: &str) -> Result<()> {
    if name.is_ascii() {
        return Ok(());
    }
    Err(Error::invalid_input(format!("Ref is invalid: {name:?} is not ASCII")))
}

/// The table or branch, and the version, that a reference names.
#[derive(Debug)]
pub(crate) struct RefLocation {
    /// The table or branch.
    pub(crate) store: Arc<Store>,
    /// The branch, `None` on main.
    pub(crate) branch: Option<String>,
    /// The version, `None` for the newest.
    pub(crate) version: Option<Version>,
}

impl RefLocation {
    /// The location of a handle, which relative references start from.
    pub(crate) fn of(snapshot: &Snapshot) -> Self {
        let branch = snapshot.manifest.branch.clone();
        Self { store: Arc::clone(&snapshot.store), branch, version: Some(snapshot.version()) }
    }

    /// Follows a reference: numbers count on the branch one is on, tags and branches belong to `main`.
    ///
    /// Errors: `NotFound` for a tag, `InvalidInput` for the name of a branch.
    pub(crate) async fn follow(
        mut self,
        main: &Arc<Store>,
        session: &Session,
        reference: VersionRef,
    ) -> Result<Self> {
        let on = |branch: Option<String>| match branch.filter(|branch| branch != MAIN) {
            Some(branch) => Ok((branch_store(main, session, &branch)?, Some(branch))),
            None => Ok::<_, Error>((Arc::clone(main), None)),
        };
        let mut reference = Some(reference);
        while let Some(step) = reference.take() {
            self.version = None;
            match step {
                VersionRef::Number(number) => self.version = Some(Version(number)),
                VersionRef::Tag(name) => {
                    let tag = Tags::read(main, &name).await?;
                    let corrupt = |e: Error| Error::corrupt(format!("tag {name}: {e}")).with_source(e);
                    (self.store, self.branch) = on(tag.branch).map_err(corrupt)?;
                    self.version = Some(tag.version);
                }
                VersionRef::Branch(branch, inner) => {
                    (self.store, self.branch) = on(branch)?;
                    reference = inner.map(|inner| *inner);
                }
            }
        }
        Ok(self)
    }
}

/// Writes the file of a new reference; `false` if the name is taken. If the answer is lost, the file that is there says
/// whether it was written.
///
/// Errors: `Unsupported` for a store that overwrites; those of the put.
async fn create(
    store: &Arc<Store>,
    session: &Arc<Session>,
    path: &str,
    file: Bytes,
    durability: Durability,
) -> Result<bool> {
    // A store without conditional puts would overwrite it, also one whose versions are in an external manifest store.
    if !store.is_local() && store.exists(path).await? {
        return Ok(false);
    }
    match probe::create(store, session, path, &file, durability).await {
        Err(error) if error.kind() == ErrorKind::Store && !store.is_local() => match store.get(path).await {
            Ok(found) => Ok(found == file),
            Err(_) => Err(error),
        },
        created => created,
    }
}

/// RFC 3339 text with nanoseconds in UTC.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(transparent)]
struct DateTimeText(String);

impl DateTimeText {
    fn of(time: DateTime<Utc>) -> Self {
        Self(time.to_rfc3339_opts(SecondsFormat::Nanos, true))
    }
}

fn timestamp(text: Option<DateTimeText>) -> Result<Option<Timestamp>> {
    let Some(DateTimeText(text)) = text else { return Ok(None) };
    let time = DateTime::parse_from_rfc3339(&text)
        .map_err(|e| Error::corrupt(format!("not a time of RFC 3339: {text:?}")).with_source(e))?;
    Ok(Some(Timestamp { seconds: time.timestamp(), nanos: time.timestamp_subsec_nanos() }))
}

/// Whether there is a branch of a name. Errors: those of the store.
async fn is_branch(main: &Store, name: &str) -> Result<bool> {
    main.exists(&branches::path(name)).await
}

/// The error of a version of which a branch or clone was made, as [`locate::removed_meanwhile`], or whose own branch was
/// deleted meanwhile, and maybe made again: `before` is what [`owner`] gave before.
pub(crate) async fn lost_source(source: &Snapshot, before: &Owner) -> Option<Error> {
    let (removed, now) = futures::join!(locate::removed_meanwhile(source), owner(source));
    let is_lost = now.is_ok_and(|now| now != *before);
    removed.or_else(|| {
        is_lost.then(|| locate::missing_version(source.manifest.branch.as_deref(), source.version()))
    })
}

/// What the files of a folder of references say, read by their names without `.json`. Those that were removed since they
/// were listed are left out.
async fn list<T: Send, F: Future<Output = Result<T>> + Send>(
    store: &Store,
    folder: &str,
    read: impl Fn(String) -> F,
) -> Result<Vec<T>> {
    let files = store.list(folder).await?;
    let reads = files.iter().filter_map(|file| file.strip_suffix(".json")).map(|file| {
        let reading = read(file.to_owned());
        let read = async move {
            match reading.await {
                Ok(found) => Ok(Some(found)),
                // Removed meanwhile, or not the name of a reference.
                Err(error) if error.is_not_found() => Ok(None),
                Err(error) => Err(error),
            }
        };
        read.boxed()
    });
    Ok(gather(reads.collect()).await?.into_iter().flatten().collect())
}

/// The name of the reference that a file is of, given without `.json`.
fn name_of(file: &str) -> String {
    percent_decode_str(file).decode_utf8_lossy().into_owned()
}

/// The file of a reference, with a checksum.
fn to_json<T: Serialize>(file: &T) -> Result<Bytes> {
    let text = serde_json::to_string_pretty(file)
        .map_err(|e| Error::internal("a reference does not become JSON").with_source(e))?;
    Ok(checksum::with_checksum(&text).into())
}

/// Decodes the file of a reference; `what` says what it is of. Errors: `Corrupt`, also for a wrong checksum.
fn from_json<T: DeserializeOwned>(what: &str, bytes: &[u8]) -> Result<T> {
    checksum::check_json(bytes)?;
    serde_json::from_slice(bytes).map_err(|e| Error::corrupt(format!("not {what}: {e}")).with_source(e))
}
