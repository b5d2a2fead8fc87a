//! Entries in an SQLite file.
//!
//! Every write is a transaction of SQLite's, synced before it returns. The file is created with the first version of
//! a table and never again, so that one that got lost is an error and not a table without versions. An empty file
//! serves as a new one: that is how a table that exists is put under the care of a manifest store. Reads change nothing:
//! the address of a manifest store may come from somebody else's table, as the note about a clone.

use std::ffi::OsStr;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use pennon_core::manifest::naming;
use pennon_core::{Error, Result, Version};
use rusqlite::{Connection, ErrorCode, OpenFlags, OptionalExtension, Row, params};

use super::{Entry, ManifestStore};

/// How long a call waits for another process's transaction.
const BUSY: Duration = Duration::from_secs(30);

const SCHEMA: &str = "CREATE TABLE IF NOT EXISTS manifests (
    base_uri TEXT NOT NULL, version INTEGER NOT NULL, path TEXT NOT NULL, size INTEGER, e_tag TEXT,
    PRIMARY KEY (base_uri, version)
) WITHOUT ROWID";

#[derive(Debug)]
pub(super) struct Sqlite {
    file: Arc<File>,
}

#[derive(Debug)]
struct File {
    path: PathBuf,
    /// Where the manifests of the table are.
    versions: PathBuf,
    connection: Mutex<Option<Connection>>,
}

impl Sqlite {
    /// The entries in `path` of a table whose manifests are in `versions`.
    pub(super) fn new(path: PathBuf, versions: PathBuf) -> Self {
        Self { file: Arc::new(File { path, versions, connection: Mutex::default() }) }
    }

    async fn run<T: Send + 'static>(
        &self,
        create: bool,
        call: impl FnOnce(&Connection) -> rusqlite::Result<T> + Send + 'static,
    ) -> Result<T> {
        let file = Arc::clone(&self.file);
        crate::runtime::blocking(move || file.run(create, call)).await
    }
}

impl File {
    fn run<T>(&self, create: bool, call: impl FnOnce(&Connection) -> rusqlite::Result<T>) -> Result<T> {
        // A connection is never left in a transaction, so one that a panic interrupted is as good as any.
        let mut kept = self.connection.lock().unwrap_or_else(PoisonError::into_inner);
        // A file that was removed must not be written through the old handle.
        if !self.path.exists() {
            *kept = None;
        }
        let connection = match kept.take() {
            Some(connection) => connection,
            None => self.open(create)?,
        };
        let result = call(&connection).map_err(|e| self.error(e));
        *kept = Some(connection);
        result
    }

    /// Whether there is a table already: its manifests without their store are an error.
    fn has_versions(&self) -> bool {
        let manifest = |name: &OsStr| name.to_str().is_some_and(|name| naming::parse(name).is_some());
        let entries = std::fs::read_dir(&self.versions).into_iter().flatten();
        entries.flatten().any(|entry| manifest(&entry.file_name()))
    }

    fn open(&self, create: bool) -> Result<Connection> {
        if create && let Some(parent) = self.path.parent() {
            std::fs::create_dir_all(parent)
                .map_err(|e| Error::store(format!("{}: {e}", parent.display())).with_source(e))?;
        }
        let mut flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        flags.set(OpenFlags::SQLITE_OPEN_CREATE, create);
        let open = || {
            let connection = Connection::open_with_flags(&self.path, flags)?;
            connection.busy_timeout(BUSY)?;
            connection.pragma_update(None, "synchronous", "FULL")?;
            connection.pragma_update(None, "trusted_schema", "OFF")?;
            Ok(connection)
        };
        open().map_err(|e| self.error(e))
    }

    fn error(&self, error: rusqlite::Error) -> Error {
        let path = self.path.display();
        let typed = match error.sqlite_error_code() {
            Some(ErrorCode::CannotOpen) if !self.path.exists() => Error::store(format!(
                "{path}: the manifest store of the table is missing; without it the newest version is not known"
            )),
            Some(ErrorCode::NotADatabase | ErrorCode::DatabaseCorrupt) => {
                Error::corrupt(format!("manifest store {path}: {error}"))
            }
            _ => Error::store(format!("manifest store {path}: {error}")),
        };
        typed.with_source(error)
    }
}

#[async_trait]
impl ManifestStore for Sqlite {
    async fn latest(&self, table: &str) -> Result<Option<Entry>> {
        let table = table.to_owned();
        if !self.file.path.exists() && !self.file.has_versions() {
            return Ok(None);
        }
        let query = "SELECT version, path, size, e_tag FROM manifests WHERE base_uri = ? ORDER BY version DESC LIMIT 1";
        self.run(false, move |connection| {
            if !has_entries(connection)? {
                return Ok(None);
            }
            connection.query_row(query, [table], entry).optional()
        })
        .await
    }

    async fn get(&self, table: &str, version: Version) -> Result<Option<Entry>> {
        let table = table.to_owned();
        let version = integer(version.0)?;
        let query = "SELECT version, path, size, e_tag FROM manifests WHERE base_uri = ? AND version = ?";
        self.run(false, move |connection| {
            if !has_entries(connection)? {
                return Ok(None);
            }
            connection.query_row(query, params![table, version], entry).optional()
        })
        .await
    }

    async fn put_if_absent(&self, table: &str, new: &Entry) -> Result<bool> {
        let (table, new) = (table.to_owned(), new.clone());
        let (version, size) = (integer(new.version.0)?, new.size.map(integer).transpose()?);
        let insert =
            "INSERT OR IGNORE INTO manifests (base_uri, version, path, size, e_tag) VALUES (?, ?, ?, ?, ?)";
        let create = !self.file.path.exists() && !self.file.has_versions();
        self.run(create, move |connection| {
            connection.execute(SCHEMA, [])?;
            Ok(connection.execute(insert, params![table, version, new.path, size, new.e_tag])? == 1)
        })
        .await
    }

    async fn put_if_exists(&self, table: &str, new: &Entry) -> Result<()> {
        let (table, new) = (table.to_owned(), new.clone());
        let (version, size) = (integer(new.version.0)?, new.size.map(integer).transpose()?);
        let update = "UPDATE manifests SET path = ?, size = ?, e_tag = ? WHERE base_uri = ? AND version = ?";
        let replaced = self.run(false, move |connection| {
            if !has_entries(connection)? {
                return Ok(0);
            }
            connection.execute(update, params![new.path, size, new.e_tag, table, version])
        });
        if replaced.await? == 0 {
            let path = self.file.path.display();
            return Err(Error::store(format!(
                "manifest store {path}: there is no entry of version {version}"
            )));
        }
        Ok(())
    }

    async fn remove(&self, table: &str, version: Version) -> Result<()> {
        let (table, version) = (table.to_owned(), integer(version.0)?);
        if !self.file.path.exists() {
            return Ok(());
        }
        let delete = "DELETE FROM manifests WHERE base_uri = ? AND version = ?";
        self.run(false, move |connection| {
            if !has_entries(connection)? {
                return Ok(());
            }
            connection.execute(delete, params![table, version]).map(drop)
        })
        .await
    }

    async fn forget(&self, table: &str) -> Result<()> {
        let table = table.to_owned();
        if !self.file.path.exists() {
            return Ok(());
        }
        self.run(false, move |connection| {
            if !has_entries(connection)? {
                return Ok(());
            }
            connection.execute("DELETE FROM manifests WHERE base_uri = ?", [table]).map(drop)
        })
        .await
    }
}

/// Whether the file has the table of entries: not before the first version, and not if it is not a manifest store.
fn has_entries(connection: &Connection) -> rusqlite::Result<bool> {
    let query = "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'manifests'";
    connection.query_row(query, [], |_| Ok(())).optional().map(|found| found.is_some())
}

fn entry(row: &Row<'_>) -> rusqlite::Result<Entry> {
    let unsigned = |column: usize, value: i64| {
        u64::try_from(value).map_err(|_| rusqlite::Error::IntegralValueOutOfRange(column, value))
    };
    let size = row.get::<_, Option<i64>>(2)?.map(|size| unsigned(2, size)).transpose()?;
    Ok(Entry { version: Version(unsigned(0, row.get(0)?)?), path: row.get(1)?, size, e_tag: row.get(3)? })
}

fn integer(number: u64) -> Result<i64> {
    i64::try_from(number).map_err(|_| Error::internal(format!("{number} does not fit into 63 bits")))
}
