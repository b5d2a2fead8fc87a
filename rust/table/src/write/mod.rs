//! Writing rows into new, uncommitted fragments.
//!
//! | file | what |
//! |---|---|
//! | `fragments` | record batches to data files, one per fragment |
//! | `identified` | rows that bring their identity, to fragments that carry it |
//! | `lineage` | that identity: in the manifest or in columns of the data file |
//! | `rewrite` | live rows of old fragments in the order of their ids |
//! | `moved` | rows that move, come and go: what updates and merges commit |
//! | `reconcile`, `required` | batches that call members otherwise; nulls where their type says that there are none |
//! | `columns` | more columns of fragments that exist: one more data file each |
//! | `column_writer` | the files of `columns` and `in_place` |
//! | `in_place` | last-updated-at versions of rows that such columns change, in files of their own |
//! | `placement` | which root each data file goes to |
//! | `lookup` | rows of other data by their keys |
//! | `floats` | floats as keys |
//! | `deletions` | deletion vectors to deletion files |
//! | `orphans` | removes files that no version refers to |
//! | `staged` | a transaction with the files that were written for it: what is committed |
//!
//! Files get their final, random names at once: nobody reads a data file that no manifest refers to. A write that
//! fails or is dropped removes what it wrote.

pub(crate) mod column_writer;
pub(crate) mod columns;
pub(crate) mod deletions;
mod floats;
pub(crate) mod fragments;
pub(crate) mod identified;
pub(crate) mod in_place;
pub(crate) mod inserted_keys;
pub(crate) mod lineage;
pub(crate) mod lookup;
pub(crate) mod members;
pub(crate) mod moved;
mod orphans;
pub(crate) mod placement;
mod reconcile;
mod required;
pub(crate) mod rewrite;
pub mod staged;
pub(crate) mod table_types;

use std::str::FromStr;

use bytes::Bytes;
use pennon_core::file::FileVersion;
use pennon_core::manifest::{BasePath, Fragment};
use pennon_core::schema::{Metadata, Schema};
use pennon_core::transaction::{Operation, Overwrite, Transaction};
use pennon_core::{Error, Result, Version};

pub use self::placement::Target;
pub use self::reconcile::reconciled;
pub use self::staged::StagedChange;
pub use crate::blobs::write::{BlobParams, ExternalBlobs};
use crate::session::{CommitOptions, ConnectOptions, CreateOptions};
use crate::store::Uploads;

/// Rows to write: anything that gives record batches of one schema. Read on a blocking thread.
pub type BatchReader = Box<dyn arrow_array::RecordBatchReader + Send>;

/// Transaction property that holds the commit message.
pub const COMMIT_MESSAGE: &str = "__lance_commit_message";

/// What to do with a table that exists.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum WriteMode {
    /// It is an error.
    #[default]
    Create,
    /// Add the rows.
    Append,
    /// Replace rows and schema in a new version.
    Overwrite,
}

impl FromStr for WriteMode {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        match text.to_ascii_lowercase().as_str() {
            "create" => Ok(Self::Create),
            "append" => Ok(Self::Append),
            "overwrite" => Ok(Self::Overwrite),
            _ => Err(Error::invalid_input(format!(
                "Invalid mode {text}. Valid values are: create, append, overwrite"
            ))),
        }
    }
}

/// How rows are written.
#[derive(Debug, Clone)]
pub struct WriteOptions {
    /// What to do with a table that exists.
    pub mode: WriteMode,
    /// Rows after which a new fragment starts.
    pub max_rows_per_file: u64,
    /// Bytes after which a new fragment starts; the last batch is written whole.
    pub max_bytes_per_file: u64,
    /// Encoded size of a page; `None` for the writer's own choice.
    pub max_page_bytes: Option<usize>,
    /// How blob v2 is written.
    pub blobs: BlobParams,
    /// Config of a table that is created.
    pub config: Metadata,
    /// Base paths of a table that is created; id 0 means not assigned yet.
    pub initial_bases: Vec<BasePath>,
    /// Which roots the data files are written to.
    pub target: Target,
    /// Message kept in the transaction.
    pub commit_message: Option<String>,
    /// Properties kept in the transaction.
    pub properties: Metadata,
    /// Uuid of the transaction, to make a repeated commit recognisable; `None` for a fresh one.
    pub uuid: Option<String>,
    /// How the table is reached.
    pub connect: ConnectOptions,
    /// How the rows are committed.
    pub commit: CommitOptions,
    /// How a table that is created is laid out. The file version is that of all new files.
    pub create: CreateOptions,
}

impl Default for WriteOptions {
    fn default() -> Self {
        Self {
            mode: WriteMode::Create,
            max_rows_per_file: 1024 * 1024,
            max_bytes_per_file: 90 << 30,
            max_page_bytes: None,
            blobs: BlobParams::default(),
            config: Metadata::new(),
            initial_bases: Vec::new(),
            target: Target::Own,
            commit_message: None,
            properties: Metadata::new(),
            uuid: None,
            connect: ConnectOptions::default(),
            commit: CommitOptions::default(),
            create: CreateOptions::default(),
        }
    }
}

impl WriteOptions {
    pub(crate) fn transaction_properties(&self) -> Metadata {
        let mut properties = self.properties.clone();
        if let Some(message) = &self.commit_message {
            properties.insert(COMMIT_MESSAGE.to_owned(), message.clone());
        }
        properties
    }
}

/// Fragments whose files are written but which no version refers to yet.
#[derive(Debug, Clone)]
pub struct WrittenFragments {
    /// The fragments, without ids.
    pub fragments: Vec<Fragment>,
    /// The table schema their files refer to: the table's for an append, a new one otherwise.
    pub schema: Schema,
    /// Rows in them.
    pub rows: u64,
    /// Bytes of their data files.
    pub bytes: u64,
    /// Files that are on their way to the store.
    pub(crate) uploads: Uploads,
}

impl WrittenFragments {
    /// These fragments, when their files have arrived. Errors: those of writing; the files are removed then.
    pub(crate) async fn arrived(mut self, placement: &placement::Placement) -> Result<Self> {
        if let Err(error) = std::mem::take(&mut self.uploads).arrive().await {
            placement.remove(&self.fragments).await;
            return Err(error);
        }
        Ok(self)
    }

    /// No rows of that schema in files of that version, the newest stable one if not given: an empty table, or the
    /// start of a collection with [`Self::extend`].
    pub fn empty(schema: &arrow_schema::Schema, version: Option<FileVersion>) -> Result<Self> {
        let schema = fragments::schema_of(schema, version.unwrap_or(FileVersion::STABLE))?;
        Ok(Self { fragments: Vec::new(), schema, rows: 0, bytes: 0, uploads: Uploads::default() })
    }

    /// Fragments that got files under a schema, without their numbers.
    pub(crate) fn of(schema: Schema, fragments: Vec<Fragment>) -> Self {
        Self { fragments, schema, rows: 0, bytes: 0, uploads: Uploads::default() }
    }

    /// Adds what another worker wrote. Errors: `SchemaMismatch` if its files refer to other fields.
    pub fn extend(&mut self, other: Self) -> Result<()> {
        if other.schema.fields != self.schema.fields {
            return Err(Error::schema_mismatch(
                "Fragments were written with different schemas by different workers",
            ));
        }
        self.fragments.extend(other.fragments);
        self.rows = self.rows.saturating_add(other.rows);
        self.bytes = self.bytes.saturating_add(other.bytes);
        Ok(())
    }

    /// The operation that makes them the whole content of a table.
    pub(crate) fn overwrite(&self, config: Metadata) -> Operation {
        Operation::Overwrite(Overwrite {
            fragments: self.fragments.clone(),
            schema: self.schema.clone(),
            config_upserts: (!config.is_empty()).then_some(config),
            initial_bases: Vec::new(),
        })
    }

    /// The same as bytes, to ship from a worker to the one who commits.
    ///
    /// It is an encoded `Transaction` of the table format with an `Overwrite` operation.
    pub fn encode(&self) -> Vec<u8> {
        let mut properties = Metadata::new();
        properties.insert(ROWS.to_owned(), self.rows.to_string());
        properties.insert(BYTES.to_owned(), self.bytes.to_string());
        let operation = Operation::Overwrite(Overwrite {
            fragments: self.fragments.clone(),
            schema: self.schema.clone(),
            config_upserts: None,
            initial_bases: Vec::new(),
        });
        Transaction {
            read_version: Version(0),
            uuid: uuid::Uuid::nil().to_string(),
            tag: String::new(),
            properties,
            operation,
        }
        .encode()
    }

    /// Back from [`Self::encode`]. Errors: `Corrupt`.
    pub fn decode(bytes: Bytes) -> Result<Self> {
        let transaction = Transaction::decode(bytes).map_err(|e| e.at("written fragments"))?;
        let number = |name: &str| {
            let text = transaction.properties.get(name).and_then(|text| text.parse().ok());
            text.ok_or_else(|| Error::corrupt(format!("written fragments: no number under {name:?}")))
        };
        let (rows, bytes) = (number(ROWS)?, number(BYTES)?);
        match transaction.operation {
            Operation::Overwrite(Overwrite { fragments, schema, .. }) => {
                Ok(Self { fragments, schema, rows, bytes, uploads: Uploads::default() })
            }
            other => Err(Error::corrupt(format!(
                "written fragments: found a transaction of kind {}",
                other.name()
            ))),
        }
    }
}

const ROWS: &str = "rows";
const BYTES: &str = "bytes";
