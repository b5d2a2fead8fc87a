//! The change feed: what happened to rows between two versions, computed from the two versions alone.
//!
//! | file | what |
//! |---|---|
//! | `window` | which versions are compared; the error for one that was cleaned up |
//! | `plan` | two versions -> units of rows that changed, without reading a value |
//! | `columns` | the columns of the result, and where a version has them |
//! | `images` | the values of a unit's rows, in either version |
//!
//! Nothing is written for it when a table changes: fragments that differ, their deletion vectors and their id and
//! version sequences are compared ([`pennon_core::rows::row_changes`]). So it works on tables that the reference wrote,
//! and costs what changed. Only rows that changed are read.

mod columns;
mod images;
mod plan;
mod window;

use std::str::FromStr;
use std::sync::Arc;

use arrow_schema::SchemaRef;
use futures::stream;
use futures::{StreamExt, TryStreamExt};
use pennon_core::manifest::Timestamp;
use pennon_core::{Error, FragmentId, Result, Version};
use tracing::instrument;

use self::columns::FeedColumns;
use self::images::{Step, UnitChanges};
use self::plan::Unit;
use self::window::Window;
use crate::dataset::Dataset;
use crate::json;
use crate::runtime::{blocking, processors};
use crate::scan::BatchStream;
use crate::versions::VersionRef;

/// An end of a window of versions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FeedPoint {
    /// A version. Number 0 is the empty table before the first one.
    Version(VersionRef),
    /// The newest version that is not younger than this.
    Time(Timestamp),
}

/// How versions between the ends count.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum FeedMode {
    /// Not at all: a row has at most one change, from its state at the begin to that at the end.
    #[default]
    Net,
    /// Each version's own changes, one version after the other.
    Each,
}

/// Which values a change carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Images {
    /// Those after the change; of a deleted row none.
    #[default]
    Post,
    /// Those before it too: two rows for an update, and the last values of a deleted row.
    Both,
}

/// The version whose columns a feed shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ColumnsOf {
    /// The end of the window.
    #[default]
    End,
    /// The version of the dataset that is asked, which may be later: so that windows fit together.
    Table,
}

impl FromStr for FeedMode {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        match text {
            "net" => Ok(Self::Net),
            "each" => Ok(Self::Each),
            _ => Err(Error::invalid_input(format!("mode is {text:?}, expected \"net\" or \"each\""))),
        }
    }
}

impl FromStr for ColumnsOf {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        match text {
            "end" => Ok(Self::End),
            "table" => Ok(Self::Table),
            _ => Err(Error::invalid_input(format!("columns_of is {text:?}, expected \"end\" or \"table\""))),
        }
    }
}

impl FromStr for Images {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        match text {
            "post" => Ok(Self::Post),
            "both" => Ok(Self::Both),
            _ => Err(Error::invalid_input(format!("images is {text:?}, expected \"post\" or \"both\""))),
        }
    }
}

/// What a feed shows.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct FeedOptions {
    /// Top-level columns by name; all if not given.
    pub columns: Option<Vec<String>>,
    /// Whose columns they are.
    pub columns_of: ColumnsOf,
    /// How versions between the ends count.
    pub mode: FeedMode,
    /// Which values a change carries.
    pub images: Images,
    /// Leaves out updates that left the selected columns as they were.
    pub drop_unchanged: bool,
    /// Shows only a part; all if not given.
    pub part: Option<FeedPart>,
}

/// One of several parts of a feed: each change is in one of them. Which one depends on where the row lives in the two
/// versions that are compared, so it is the same on every machine and at any time. Parts of large feeds are about equally
/// large.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FeedPart {
    number: u32,
    of: u32,
}

impl FeedPart {
    /// A part by its number, from 0 on. Errors: `InvalidInput` for a number that is not below the number of parts.
    pub fn new(number: u32, of: u32) -> Result<Self> {
        if number < of {
            return Ok(Self { number, of });
        }
        Err(Error::invalid_input(format!(
            "part {number} of {of}: expected a number from 0 on and below {of}"
        )))
    }

    /// Whether what has this number is in the part.
    fn has(self, number: u64) -> bool {
        number % u64::from(self.of) == u64::from(self.number)
    }
}

/// Changes between two versions of a table, ready to be read.
#[derive(Debug)]
pub struct ChangeFeed {
    window: Window,
    columns: Arc<FeedColumns>,
    images: Images,
    drop_unchanged: bool,
    part: Option<FeedPart>,
}

impl Dataset {
    /// The changes after `begin` up to and including `end`, or up to this version.
    ///
    /// The columns are `_change_type` (`insert`, `update_preimage`, `update_postimage`, `delete`), `_rowid`,
    /// `_commit_version` and `_commit_timestamp`, then those of the table as `end` has them, or this version, all
    /// nullable. In other versions a column is the one with its field id, also under another name, or through an overwrite
    /// the one with its name; values are null where a version has none of that type. A net change counts as committed by
    /// the end. Deletions come first, then updates, then insertions.
    ///
    /// A row is updated if its last-updated version differs, in whichever direction; compactions are silent. Where
    /// the files of a selected column changed in a fragment without a trace in the lineage, or only one of the versions
    /// has a column, or its field id was another column's meanwhile, the values are compared.
    ///
    /// Errors: `InvalidInput` for rows without stable ids, unknown columns, an end before the begin or on another
    /// branch; `NotFound` for versions that are not there or no more, saying what would have kept them.
    #[instrument(level = "debug", skip_all, fields(table = self.uri(), version = %self.version()))]
    pub async fn changes(
        &self,
        begin: FeedPoint,
        end: Option<FeedPoint>,
        options: &FeedOptions,
    ) -> Result<ChangeFeed> {
        let window = Window::find(self, begin, end, options.mode).await?;
        let shown = match options.columns_of {
            ColumnsOf::End => window.end(),
            ColumnsOf::Table => self.snapshot(),
        };
        let columns = FeedColumns::new(shown, options.columns.as_deref())?;
        let FeedOptions { images, drop_unchanged, part, .. } = *options;
        Ok(ChangeFeed { window, columns: Arc::new(columns), images, drop_unchanged, part })
    }

    /// The fragments that may have rows that were created or updated after an older version, by what the manifest says of
    /// them: all such rows are in these.
    pub fn fragments_since(&self, older: Version) -> Vec<FragmentId> {
        self.manifest().fragments.newer_than(older)
    }
}

/// The changes of units, so many of which are read at a time; parts of one that is too large follow each other.
fn changes_of(step: &Arc<Step>, units: Vec<Unit>, at_a_time: usize) -> BatchStream {
    let (step, of_parts) = (Arc::clone(step), Arc::clone(step));
    let read = move |unit: Unit| {
        let step = Arc::clone(&step);
        blocking(move || match step.read(&unit)? {
            UnitChanges::Batch(batch) => json::shown_batch(batch).map(UnitChanges::Batch),
            parts @ UnitChanges::Parts(_) => Ok(parts),
        })
    };
    let changes = move |changes| match changes {
        UnitChanges::Batch(batch) => stream::iter([Ok(batch)]).boxed(),
        UnitChanges::Parts(units) => changes_of(&of_parts, units, at_a_time),
    };
    stream::iter(units).map(read).buffered(at_a_time).map_ok(changes).try_flatten().boxed()
}

impl ChangeFeed {
    /// The columns of the result.
    pub fn schema(&self) -> &SchemaRef {
        &self.columns.schema
    }

    /// The changes. Needs a tokio runtime.
    pub fn stream(self) -> BatchStream {
        let Self { window, columns, images, drop_unchanged, part } = self;
        let cores = processors();
        let ahead = window.ahead();
        let prepare = move |pair: Result<_>| {
            let columns = Arc::clone(&columns);
            async move {
                let (old, new) = pair?;
                let step = Arc::new(Step::new(old, new, columns, images, drop_unchanged).await?);
                let units = step.plan(cores, part).await?;
                Ok((step, units))
            }
        };
        let read = move |(step, units)| changes_of(&step, units, cores + ahead);
        let batches = window.pairs().map(prepare).buffered(ahead).map_ok(read);
        batches.try_flatten().try_filter(|batch| std::future::ready(batch.num_rows() > 0)).boxed()
    }
}
