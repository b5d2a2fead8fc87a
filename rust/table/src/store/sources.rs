//! Files of a store that are read in ranges, and their seals: that of `<path>` is `_seals/<path>.seal`. Other writers know
//! nothing of seals.

use std::ops::Range;
use std::sync::{Arc, Once};

use bytes::Bytes;
use pennon_core::error::ResultExt;
use pennon_core::manifest::paths;
use pennon_core::{Error, ErrorKind, Result};
use pennon_datafile::{ByteSource, Seal, VerifyReads};
use tracing::warn;

use super::local::LocalStore;
use super::{Backend, Store};

/// A source of a file that may have a seal.
#[derive(Debug)]
struct SealableSource {
    source: Arc<dyn ByteSource>,
    /// The seal.
    seal: Arc<dyn ByteSource>,
}

impl ByteSource for SealableSource {
    fn size(&self) -> Result<u64> {
        self.source.size()
    }

    fn read(&self, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        self.source.read(ranges)
    }

    fn name(&self) -> &str {
        self.source.name()
    }

    fn is_local(&self) -> bool {
        self.source.is_local()
    }

    fn forget(&self) {
        self.source.forget();
    }

    fn seal(&self) -> Result<Option<Seal>> {
        let read = || {
            let all = 0..self.seal.size()?;
            let bytes = self.seal.read(std::slice::from_ref(&all))?.pop();
            bytes.ok_or_else(|| Error::internal("nothing was read of a seal"))
        };
        decode(self.seal.name(), read())
    }

    fn verify_reads(&self) -> VerifyReads {
        self.source.verify_reads()
    }
}

impl Store {
    /// A file to read ranges of. `size` saves asking for it. Does no I/O until something is read.
    ///
    /// Reading from a remote source waits for the network and must only be done on a blocking thread.
    pub fn source(&self, path: &str, size: Option<u64>) -> Arc<dyn ByteSource> {
        self.sealable(path, self.unsealed_source(path, size))
    }

    /// As [`Self::source`], of files with their sizes, if these are known, of each of which so many of the last bytes are
    /// wanted first: from a remote store they are read at once. Use on a blocking thread.
    pub(crate) fn sources_with_ends(
        &self,
        files: Vec<(String, Option<u64>, u64)>,
    ) -> Result<Vec<Arc<dyn ByteSource>>> {
        match &self.backend {
            Backend::Local(_) => {
                Ok(files.into_iter().map(|(path, size, _)| self.source(&path, size)).collect())
            }
            Backend::Object(object) => {
                let paths: Vec<String> = files.iter().map(|(path, ..)| path.clone()).collect();
                let sources = object.sources_with_ends(files, |path| self.full_path(path))?;
                Ok(paths.iter().zip(sources).map(|(path, source)| self.sealable(path, source)).collect())
            }
        }
    }

    fn unsealed_source(&self, path: &str, size: Option<u64>) -> Arc<dyn ByteSource> {
        match &self.backend {
            Backend::Local(local) => LocalStore::source(local, path, size),
            Backend::Object(object) => object.source(path, self.full_path(path), size),
        }
    }

    /// A source that knows the seal of its file, if seals are looked at.
    fn sealable(&self, path: &str, source: Arc<dyn ByteSource>) -> Arc<dyn ByteSource> {
        match self.verify_reads {
            VerifyReads::Pages => {
                let seal = self.unsealed_source(&paths::seal(path), None);
                Arc::new(SealableSource { source, seal })
            }
            VerifyReads::Off | VerifyReads::Metadata => source,
        }
    }

    /// The seal of a file, if it has one of a kind that is known. Errors: `Corrupt` for one that was changed.
    pub(crate) async fn seal(&self, path: &str) -> Result<Option<Seal>> {
        let path = paths::seal(path);
        decode(&self.full_path(&path), self.get(&path).await)
    }

    /// Compares a file that was read whole with its seal, if seals are looked at. Errors: `Corrupt`.
    pub(crate) async fn check_seal(&self, path: &str, bytes: &[u8]) -> Result<()> {
        match self.verify_reads {
            VerifyReads::Pages => check(self.seal(path).await?.as_ref(), bytes),
            VerifyReads::Off | VerifyReads::Metadata => Ok(()),
        }
    }

    /// [`Self::check_seal`], waiting on the calling thread.
    pub(crate) fn check_seal_blocking(&self, path: &str, bytes: &[u8]) -> Result<()> {
        match self.verify_reads {
            VerifyReads::Pages => {
                let path = paths::seal(path);
                check(decode(&self.full_path(&path), self.get_blocking(&path))?.as_ref(), bytes)
            }
            VerifyReads::Off | VerifyReads::Metadata => Ok(()),
        }
    }

    /// Whether seals are looked at when files are read.
    pub(crate) fn looks_at_seals(&self) -> bool {
        self.verify_reads == VerifyReads::Pages
    }
}

fn check(seal: Option<&Seal>, bytes: &[u8]) -> Result<()> {
    seal.map_or(Ok(()), |seal| seal.check(bytes))
}

/// A seal that was read, if it was there.
fn decode(name: &str, read: Result<Bytes>) -> Result<Option<Seal>> {
    static UNKNOWN: Once = Once::new();
    let bytes = match read {
        Err(error) if error.is_not_found() => return Ok(None),
        read => read?,
    };
    match Seal::decode(&bytes) {
        Ok(seal) => Ok(Some(seal)),
        Err(error) if error.kind() == ErrorKind::Unsupported => {
            UNKNOWN.call_once(|| warn!(seal = name, %error, "seals of an unknown kind are passed over"));
            Ok(None)
        }
        Err(error) => Err(error).in_file(|| name),
    }
}
