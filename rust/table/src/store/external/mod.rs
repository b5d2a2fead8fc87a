//! External manifest stores: who says which version is committed where the store of the files cannot
//! (table format, section 13).
//!
//! | scheme | manifest store |
//! |---|---|
//! | `s3+ddb://bucket/path?ddbTableName=name` | `dynamodb`: an item per version, laid out as the reference lays it out |
//! | `file+sqlite:///path[?db=/path/to/file]` | `sqlite`: a row per version, for file systems without an atomic create |
//!
//! A version is committed when its entry is put. The steps around that, and how a reader completes a commit that
//! was interrupted, are in `versions::external`.

#[cfg(feature = "aws")]
mod dynamodb;
#[cfg(feature = "sqlite")]
mod sqlite;

use std::fmt::Debug;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use pennon_core::{Error, Result, Version};
use url::Url;

use super::StorageOptions;
use super::secrets::shown;

/// What the manifest store records of a version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Entry {
    /// The version.
    pub(crate) version: Version,
    /// Where its manifest is, from the root of the store of the files: the staged name, later the final one.
    pub(crate) path: String,
    /// Size of the manifest file in bytes.
    pub(crate) size: Option<u64>,
    /// E-tag of the manifest file, if it has one.
    pub(crate) e_tag: Option<String>,
}

/// A service that takes an entry for a version at most once. `table` names the table in it.
///
/// After an error of a put the entry may have been written all the same.
#[async_trait]
pub(crate) trait ManifestStore: Debug + Send + Sync {
    /// The entry with the largest version; `None` for a table that is not known.
    async fn latest(&self, table: &str) -> Result<Option<Entry>>;

    /// The entry of a version.
    async fn get(&self, table: &str, version: Version) -> Result<Option<Entry>>;

    /// Puts an entry unless its version has one; `false` if it has.
    async fn put_if_absent(&self, table: &str, entry: &Entry) -> Result<bool>;

    /// Replaces the entry of a version. Errors: `Store` if it has none.
    async fn put_if_exists(&self, table: &str, entry: &Entry) -> Result<()>;

    /// Removes the entry of a version; one that is not there is no error.
    async fn remove(&self, table: &str, version: Version) -> Result<()>;

    /// Removes the entries of a table.
    async fn forget(&self, table: &str) -> Result<()>;
}

/// The manifest store of one table.
#[derive(Debug, Clone)]
pub(crate) struct External {
    /// Where the entries are.
    pub(crate) store: Arc<dyn ManifestStore>,
    /// Name of the table there: the path of its root in the store of its files.
    pub(crate) table: String,
}

/// Where the entries of a table are, from its address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Location {
    /// A DynamoDB table.
    DynamoDb(String),
    /// An SQLite file; `None` for the one in the root of the table.
    Sqlite(Option<PathBuf>),
}

/// Splits an address into that of the files and that of the manifest store.
///
/// Errors: `InvalidInput` for parameters other than the scheme's.
pub(super) fn split(uri: &str) -> Result<(String, Option<Location>)> {
    let Some((scheme, rest)) = uri.split_once("://") else { return Ok((uri.to_owned(), None)) };
    let (files, parameter) = match scheme.to_ascii_lowercase().as_str() {
        "s3+ddb" => ("s3", "ddbTableName"),
        "file+sqlite" => ("file", "db"),
        _ => return Ok((uri.to_owned(), None)),
    };
    let invalid = |why: String| {
        Error::invalid_input(format!("Cannot understand the table address {:?}: {why}", shown(uri)))
    };
    let mut url = Url::parse(&format!("{files}://{rest}")).map_err(|e| invalid(e.to_string()))?;
    let mut value = None;
    for (key, given) in url.query_pairs() {
        if key != parameter || value.is_some() {
            return Err(invalid(format!(
                "found the parameter {key:?}, expected {parameter:?} once and no other"
            )));
        }
        value = Some(given.into_owned());
    }
    url.set_query(None);
    let location = match (files, value) {
        ("s3", Some(name)) if !name.is_empty() => Location::DynamoDb(name),
        ("s3", _) => return Err(invalid(format!("the parameter {parameter:?} is missing"))),
        (_, path) => Location::Sqlite(path.map(PathBuf::from)),
    };
    Ok((url.into(), Some(location)))
}

/// The manifest store of a table whose files have the given root and path. Opening it does no I/O.
pub(super) fn open(
    location: Location,
    root: &str,
    table: String,
    options: &StorageOptions,
) -> Result<External> {
    let store = match location {
        Location::DynamoDb(name) => dynamo_db(root, name, options)?,
        Location::Sqlite(path) => sqlite_file(Path::new(root), path)?,
    };
    Ok(External { store, table })
}

#[cfg(feature = "aws")]
fn dynamo_db(root: &str, name: String, options: &StorageOptions) -> Result<Arc<dyn ManifestStore>> {
    Ok(Arc::new(dynamodb::DynamoDb::new(root, name, options)?))
}

#[cfg(not(feature = "aws"))]
fn dynamo_db(root: &str, _: String, _: &StorageOptions) -> Result<Arc<dyn ManifestStore>> {
    Err(Error::unsupported(format!("{root}: this build has no client for DynamoDB (feature `aws`)")))
}

#[cfg(feature = "sqlite")]
fn sqlite_file(root: &Path, path: Option<PathBuf>) -> Result<Arc<dyn ManifestStore>> {
    let path = path.unwrap_or_else(|| root.join("_manifests.sqlite"));
    Ok(Arc::new(sqlite::Sqlite::new(path, root.join("_versions"))))
}

#[cfg(not(feature = "sqlite"))]
fn sqlite_file(root: &Path, _: Option<PathBuf>) -> Result<Arc<dyn ManifestStore>> {
    Err(Error::unsupported(format!("{}: this build has no SQLite (feature `sqlite`)", root.display())))
}
