//! What a store is asked for and answers.

use std::io::Write;
use std::ops::Range;
use std::str::FromStr;

use bytes::Bytes;
use pennon_core::manifest::Timestamp;
use pennon_core::{Error, Result};

use super::Uploads;

/// What has to survive when a commit is acknowledged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Durability {
    /// Everything: files are synced before the manifest that refers to them, the manifest and its directory
    /// before the commit returns. Object stores always work like this.
    #[default]
    Full,
    /// Whatever the operating system has written by then; safe against a killed process, not against a power cut.
    Os,
}

impl Durability {
    /// The bytes that a write has to wait for: syncing is never short.
    pub(super) fn cost(self, bytes: usize) -> u64 {
        match self {
            Self::Full => u64::MAX,
            Self::Os => u64::try_from(bytes).unwrap_or(u64::MAX),
        }
    }

    /// The name that [`FromStr`] reads.
    pub fn name(self) -> &'static str {
        match self {
            Self::Full => "full",
            Self::Os => "os",
        }
    }
}

impl FromStr for Durability {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        match text {
            "full" => Ok(Self::Full),
            "os" => Ok(Self::Os),
            _ => {
                Err(Error::invalid_input(format!("Invalid durability {text:?}. Valid values are: full, os")))
            }
        }
    }
}

/// A file being written. It becomes complete with [`Sink::finish`]; dropped before that, it is removed again.
pub trait Sink: Write + Send {
    /// Writes what is buffered and completes the file.
    fn finish(self: Box<Self>, durability: Durability) -> Result<()>;

    /// As [`Self::finish`], but the file may be on its way still.
    fn finish_later(self: Box<Self>, durability: Durability) -> Result<Uploads> {
        self.finish(durability).map(|()| Uploads::default())
    }
}

/// What identifies the content of a file without reading it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileInfo {
    /// Size in bytes.
    pub size: u64,
    /// What an object store calls the content, if it does.
    pub e_tag: Option<String>,
    /// Changes when the file is replaced: modification time, with the e-tag where there is one.
    pub stamp: String,
    /// When it, or the names in it, changed last, by the store's clock.
    pub changed: Timestamp,
}

impl FileInfo {
    /// Whether an object store calls the content otherwise, if both say what they call it. Listings quote e-tags or not.
    pub(crate) fn has_other_e_tag(&self, stamp: &str) -> bool {
        let plain = |e_tag: &str| e_tag.trim_start_matches("W/").trim_matches('"').to_owned();
        self.e_tag.as_deref().is_some_and(|e_tag| plain(e_tag) != plain(stamp))
    }
}

/// What became of a file that is written unless there is one of its name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Created {
    /// It was written.
    New {
        /// What an object store calls the content, if it does.
        e_tag: Option<String>,
    },
    /// There was one.
    Taken,
}

/// Whether a store certainly refuses to put a file under a name that is taken, if it is asked to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ConditionalPuts<'a> {
    /// It does.
    Trusted,
    /// What serves this endpoint and bucket must be asked.
    OfEndpoint(&'a str),
    /// This store must be asked.
    OfStore,
}

/// The end of a file.
#[derive(Debug, Clone)]
pub(crate) struct FileEnd {
    /// Its last bytes, all of them if it is shorter than what was asked for.
    pub(crate) bytes: Bytes,
    pub(crate) info: FileInfo,
}

/// A file as a recursive listing shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListedFile {
    /// Path below the root of the store.
    pub path: String,
    /// Size in bytes.
    pub size: u64,
    /// When it was last written, by the store's clock.
    pub modified: Timestamp,
}

/// The bytes of a range of a file. Errors: `Corrupt` if it ends before.
pub(super) fn check_length(name: &str, range: &Range<u64>, bytes: Bytes) -> Result<Bytes> {
    let expected = range.end.saturating_sub(range.start);
    if u64::try_from(bytes.len()).ok() == Some(expected) {
        return Ok(bytes);
    }
    Err(Error::corrupt(format!(
        "{name}: the file ends inside bytes {}..{}: found {} of {expected}",
        range.start,
        range.end,
        bytes.len()
    )))
}
