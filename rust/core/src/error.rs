//! One error type for all crates, few kinds.
//!
//! The kind says what the caller can do next; the message says what was found, what was expected and where.

use std::fmt;
use std::sync::Arc;

use crate::FragmentId;

/// Result with [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What a caller can do about an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The call was wrong: a bad argument, option, predicate or name. Change the call.
    InvalidInput,
    /// A table, version, tag, column or file is not there.
    NotFound,
    /// Something is there that must not be.
    AlreadyExists,
    /// Data and table schema do not fit together.
    SchemaMismatch,
    /// A concurrent commit got in first. With `retryable`, doing the operation again on the newest version
    /// may succeed.
    Conflict {
        /// Whether repeating the operation on the newest version may succeed.
        retryable: bool,
    },
    /// Whether a change was committed is not known: the answer of the store was lost. Ask for the status of the
    /// transaction before you make the change again.
    CommitUnknown,
    /// The table or file uses something this release cannot read or write.
    Unsupported,
    /// Stored bytes are not what the format says they must be.
    Corrupt,
    /// The store failed: network, permissions, disk.
    Store,
    /// A bug in Pennon.
    Internal,
}

/// The error of every Pennon call.
#[derive(Debug, Clone)]
pub struct Error {
    kind: ErrorKind,
    message: String,
    transaction: Option<Arc<str>>,
    path: Option<Arc<str>>,
    fragment: Option<FragmentId>,
    is_repeated_row: bool,
    source: Option<Arc<dyn std::error::Error + Send + Sync>>,
}

macro_rules! constructors {
    ($($(#[$doc:meta])* $name:ident => $kind:expr;)*) => {
        $($(#[$doc])* pub fn $name(message: impl fmt::Display) -> Self { Self::new($kind, message) })*
    };
}

impl Error {
    /// An error of the given kind.
    pub fn new(kind: ErrorKind, message: impl fmt::Display) -> Self {
        Self {
            kind,
            message: message.to_string(),
            transaction: None,
            path: None,
            fragment: None,
            is_repeated_row: false,
            source: None,
        }
    }

    constructors! {
        /// [`ErrorKind::InvalidInput`].
        invalid_input => ErrorKind::InvalidInput;
        /// [`ErrorKind::NotFound`].
        not_found => ErrorKind::NotFound;
        /// [`ErrorKind::AlreadyExists`].
        already_exists => ErrorKind::AlreadyExists;
        /// [`ErrorKind::SchemaMismatch`].
        schema_mismatch => ErrorKind::SchemaMismatch;
        /// [`ErrorKind::Conflict`] that may succeed when the operation is retried.
        retryable_conflict => ErrorKind::Conflict { retryable: true };
        /// [`ErrorKind::Conflict`] that no retry can resolve.
        conflict => ErrorKind::Conflict { retryable: false };
        /// [`ErrorKind::Unsupported`].
        unsupported => ErrorKind::Unsupported;
        /// [`ErrorKind::Corrupt`].
        corrupt => ErrorKind::Corrupt;
        /// [`ErrorKind::Store`].
        store => ErrorKind::Store;
        /// [`ErrorKind::Internal`].
        internal => ErrorKind::Internal;
    }

    /// [`ErrorKind::CommitUnknown`] of the transaction with that uuid.
    pub fn commit_unknown(uuid: &str, message: impl fmt::Display) -> Self {
        Self { transaction: Some(Arc::from(uuid)), ..Self::new(ErrorKind::CommitUnknown, message) }
    }

    /// [`ErrorKind::InvalidInput`]: several of the given rows are for one row of the table.
    pub fn repeated_row(message: impl fmt::Display) -> Self {
        Self { is_repeated_row: true, ..Self::invalid_input(message) }
    }

    /// The same error with the location where it happened before the message: `location: message`.
    #[must_use]
    pub fn at(mut self, location: impl fmt::Display) -> Self {
        self.message = format!("{location}: {}", self.message);
        self
    }

    /// [`Self::at`] of a file, which [`Self::path`] names.
    #[must_use]
    pub fn in_file(self, path: impl AsRef<str>) -> Self {
        let path = path.as_ref();
        self.at(path).concerning(path)
    }

    /// [`Self::at`] of a data file, which [`Self::path`] names.
    #[must_use]
    pub fn in_data_file(self, path: impl AsRef<str>) -> Self {
        let path = path.as_ref();
        self.at(format_args!("data file {path}")).concerning(path)
    }

    /// [`Self::at`] of a fragment, which [`Self::fragment`] names.
    #[must_use]
    pub fn in_fragment(self, id: FragmentId) -> Self {
        let located = self.at(format_args!("fragment {id}"));
        Self { fragment: located.fragment.or(Some(id)), ..located }
    }

    /// The same error about a file that its message names, unless it is about another one.
    #[must_use]
    pub fn concerning(self, path: &str) -> Self {
        let path = self.path.or_else(|| Some(Arc::from(path)));
        Self { path, ..self }
    }

    /// The same error with its cause attached.
    #[must_use]
    pub fn with_source(mut self, source: impl std::error::Error + Send + Sync + 'static) -> Self {
        self.source = Some(Arc::new(source));
        self
    }

    /// The kind.
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// The uuid of the transaction that the error is about: of every error of kind [`ErrorKind::CommitUnknown`].
    pub fn transaction(&self) -> Option<&str> {
        self.transaction.as_deref()
    }

    /// The file it is about, where that is known: of several the one nearest to the cause.
    pub fn path(&self) -> Option<&str> {
        self.path.as_deref()
    }

    /// The fragment it is about, where that is known.
    pub fn fragment(&self) -> Option<FragmentId> {
        self.fragment
    }

    /// Whether a retry on the newest version may succeed.
    pub fn is_retryable(&self) -> bool {
        matches!(self.kind, ErrorKind::Conflict { retryable: true })
    }

    /// Whether several of the given rows are for one row of the table.
    pub fn is_repeated_row(&self) -> bool {
        self.is_repeated_row
    }

    /// Whether something was not found.
    pub fn is_not_found(&self) -> bool {
        self.kind == ErrorKind::NotFound
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.source.as_ref().map(|s| s.as_ref() as &(dyn std::error::Error + 'static))
    }
}

/// Puts a location before the message of an error, see [`Error::at`].
pub trait ResultExt<T> {
    /// [`Error::at`] on the error, with the location computed only when there is one.
    fn at<P: fmt::Display>(self, location: impl FnOnce() -> P) -> Result<T>;

    /// [`Error::in_file`] on the error, with the path computed only when there is one.
    fn in_file<P: AsRef<str>>(self, path: impl FnOnce() -> P) -> Result<T>;
}

impl<T> ResultExt<T> for Result<T> {
    fn at<P: fmt::Display>(self, location: impl FnOnce() -> P) -> Result<T> {
        self.map_err(|e| e.at(location()))
    }

    fn in_file<P: AsRef<str>>(self, path: impl FnOnce() -> P) -> Result<T> {
        self.map_err(|e| e.in_file(path()))
    }
}
