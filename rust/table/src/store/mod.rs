//! Where the bytes of a table live: byte-range reads, durable writes and put-if-absent.
//!
//! | scheme | implementation |
//! |---|---|
//! | plain path, `file://`, `file-object-store://` | `local`: `std::fs`, reads at positions of files kept open |
//! | `memory://name` | `memory`: `object_store` in memory, one per name and process |
//! | `s3://`, `gs://`, `az://`, `abfs[s]://` ... | `remote`: `object_store` with the same option keys |
//! | `s3+ddb://`, `file+sqlite://` | as `s3://` and `file://`, versions in an external manifest store: `external` |
//!
//! Paths are relative to the root, `/`-separated, and never lead outside it: those of manifests are checked by `core`.
//!
//! Invariant: after [`Store::put_if_absent`] returned `true` the whole file is visible under its name, and with
//! [`Durability::Full`] it survives a power cut.

mod address;
#[cfg(any(feature = "aws", feature = "azure", feature = "gcp"))]
mod clients;
mod copy;
mod disk;
pub(crate) mod external;
mod links;
mod local;
mod local_sink;
mod memory;
mod names;
mod object;
mod object_sink;
#[cfg(test)]
mod object_tests;
mod open_files;
mod options;
#[cfg(any(feature = "aws", feature = "azure", feature = "gcp"))]
mod pool;
mod remote;
mod requests;
mod secrets;
mod sources;
#[cfg(test)]
mod tests;
mod trace;
mod types;
mod upload;

use std::collections::HashMap;
use std::ops::Range;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use futures::{FutureExt, StreamExt, stream};
use object_store::ObjectStore;
use pennon_core::{Error, Result};
use pennon_datafile::VerifyReads;
use tokio::runtime::Handle;
use tracing::{Instrument, instrument, warn};

pub(crate) use self::copy::copy;
use self::external::External;
use self::local::LocalStore;
use self::object::ObjectBackend;
use self::object_sink::ObjectSink;
use self::options::Settings;
pub use self::options::StorageOptions;
pub use self::requests::RequestLimits;
use self::requests::{Client, Requests};
pub(crate) use self::secrets::{Names, shown};
#[doc(hidden)]
pub use self::trace::{DiskChange, DiskTrace};
pub(crate) use self::types::{ConditionalPuts, Created, FileEnd};
pub use self::types::{Durability, FileInfo, ListedFile, Sink};
pub use self::upload::Uploads;
use crate::runtime::{self, IN_FLIGHT, Metrics, waiting};

/// The root of one table on one store. Opening one does no I/O.
pub struct Store {
    uri: String,
    root: String,
    options: StorageOptions,
    backend: Backend,
    external: Option<External>,
    /// Of a cloud store at an endpoint of the user's: the endpoint and the bucket.
    endpoint: Option<String>,
    /// See [`Store::options_digest`].
    digest: OnceLock<u64>,
    verify_reads: VerifyReads,
    metrics: Arc<Metrics>,
}

#[derive(Debug)]
enum Backend {
    Local(Arc<LocalStore>),
    Object(ObjectBackend),
}

impl Store {
    /// The store of a URI or path.
    ///
    /// Relative paths are taken from the working directory of the moment. Errors: `InvalidInput` for an unknown
    /// scheme or an address that cannot be parsed, `Store` for options the scheme refuses.
    pub fn open(uri: &str, options: &StorageOptions) -> Result<Arc<Self>> {
        Self::open_within(uri, options, RequestLimits::default(), Arc::default())
    }

    /// [`Self::open`], with these limits unless the options name others, and requests counted by these metrics.
    pub(crate) fn open_within(
        uri: &str,
        options: &StorageOptions,
        limits: RequestLimits,
        metrics: Arc<Metrics>,
    ) -> Result<Arc<Self>> {
        let settings = Settings::of(options, limits)?;
        let verify_reads = settings.verify_reads;
        let (files, manifests) = external::split(uri)?;
        let (root, backend) = match address::parse(&files)? {
            address::Address::Local(path) => (
                path.to_string_lossy().into_owned(),
                Backend::Local(Arc::new(LocalStore::new(path, verify_reads, Arc::clone(&metrics)))),
            ),
            address::Address::Memory(name) => {
                let mut store = memory::open(&name)?;
                // What is in memory needs no budget, unless a caller who brings a store of his own wants one.
                if settings.names_requests {
                    let (limits, patience) = (settings.limits, settings.patience);
                    let client = Client::new(store, limits, patience, patience.timeout);
                    store = Arc::new(Requests::new(client, Arc::clone(&metrics)));
                }
                let object = ObjectBackend::new(store, &name, true, verify_reads, Arc::clone(&metrics))?;
                (format!("memory://{name}"), Backend::Object(object))
            }
            address::Address::Remote(url) => {
                let (client, prefix) = remote::open(&url, &settings)?;
                let store = Arc::new(Requests::new(client, Arc::clone(&metrics)));
                let root = url.as_str().trim_end_matches('/').to_owned();
                let object =
                    ObjectBackend::new(store, prefix.as_ref(), false, verify_reads, Arc::clone(&metrics))?;
                (root, Backend::Object(object))
            }
        };
        let (uri, options) = (uri.to_owned(), options.clone());
        let (external, endpoint, digest) = (None, None, OnceLock::new());
        let mut store =
            Self { uri, root, options, backend, external, endpoint, digest, verify_reads, metrics };
        if let Backend::Object(_) = &store.backend {
            store.endpoint = remote::endpoint(&store.root, &store.options);
            // Of the environment that its client was made with.
            store.options_digest();
        }
        if let Some(location) = manifests {
            store.external =
                Some(external::open(location, &store.root, store.object_path(""), &store.options)?);
        }
        Ok(Arc::new(store))
    }

    /// The store of the directory that a file is in, and the name of the file there.
    ///
    /// Errors: as [`Self::open`]; `InvalidInput` for an address that ends without a name.
    pub fn of_file(uri: &str, options: &StorageOptions) -> Result<(Arc<Self>, String)> {
        let (directory, name) = address::directory_and_name(uri)?;
        Ok((Self::open(&directory, options)?, name))
    }

    /// Makes `memory://name` (and everything below it) an object store of the caller's, in this process.
    ///
    /// For stores that `object_store` has no scheme for, and for stores that fail on purpose.
    pub fn register_memory(name: &str, store: Arc<dyn ObjectStore>) -> Result<()> {
        memory::register(name, store)
    }

    /// The address as it was given.
    pub fn uri(&self) -> &str {
        &self.uri
    }

    /// The options as they were given.
    pub fn options(&self) -> &StorageOptions {
        &self.options
    }

    /// What counts the requests.
    pub fn metrics(&self) -> &Arc<Metrics> {
        &self.metrics
    }

    /// The address; a relative path is resolved against the working directory at the time when the store was opened.
    pub fn absolute_uri(&self) -> &str {
        let is_path = self.is_local() && !self.uri.contains("://");
        if is_path { &self.root } else { &self.uri }
    }

    /// The address of a directory below this root.
    pub(crate) fn below(&self, path: &str) -> String {
        address::below(self.absolute_uri(), path)
    }

    /// The address whose [`Self::below`] of that path is this one.
    pub(crate) fn above(&self, path: &str) -> Option<String> {
        address::above(self.absolute_uri(), path)
    }

    /// The manifest store that says which versions are committed, if that is not the store of the files.
    pub(crate) fn external(&self) -> Option<&External> {
        self.external.as_ref()
    }

    /// What is known about a put of a name that is taken.
    pub(crate) fn conditional_puts(&self) -> ConditionalPuts<'_> {
        match (&self.backend, &self.endpoint) {
            _ if self.external.is_some() => ConditionalPuts::Trusted,
            (Backend::Local(_), _) => ConditionalPuts::Trusted,
            (Backend::Object(_), Some(endpoint)) => ConditionalPuts::OfEndpoint(endpoint),
            (Backend::Object(_), None) if self.is_memory() => ConditionalPuts::OfStore,
            (Backend::Object(_), None) => ConditionalPuts::Trusted,
        }
    }

    /// Whether the files are on a local disk.
    pub(crate) fn is_local(&self) -> bool {
        matches!(self.backend, Backend::Local(_))
    }

    /// Whether it lives as long as the process, under a name that another one may get.
    pub(crate) fn is_memory(&self) -> bool {
        self.root.starts_with("memory://")
    }

    /// Threads that read at a time for one call, where the time of a request counts and not that of its bytes.
    pub(crate) fn readers(&self) -> usize {
        if self.is_local() { 1 } else { IN_FLIGHT }
    }

    /// Whether a listing gives names in their lexicographic order. `object_store` promises none; S3 (except its
    /// directory buckets, whose names end with `--x-s3`), GCS and Azure document one.
    pub(crate) fn lists_in_order(&self) -> bool {
        let is_directory_bucket = || {
            let host = self.root.split_once("://").and_then(|(_, rest)| rest.split('/').next());
            host.is_some_and(|bucket| bucket.ends_with("--x-s3"))
        };
        match &self.backend {
            Backend::Local(_) => false,
            Backend::Object(_) => !self.is_memory() && !is_directory_bucket(),
        }
    }

    /// The whole file. Errors: `NotFound`, `Store`.
    #[instrument(level = "trace", skip_all, fields(path = self.full_path(path)))]
    pub async fn get(&self, path: &str) -> Result<Bytes> {
        match &self.backend {
            Backend::Local(local) => match local.get_short(path)? {
                Some(bytes) => Ok(bytes),
                None => local.run(path, |local, path| local.get(path)).await,
            },
            Backend::Object(object) => object.get(path).await.map_err(|e| self.object_error(path, e)),
        }
    }

    /// A part of the file. Errors: `NotFound`, `Corrupt` when the file ends before the range does, `Store`.
    #[instrument(level = "trace", skip_all, fields(path = self.full_path(path), ?range))]
    pub async fn get_range(&self, path: &str, range: Range<u64>) -> Result<Bytes> {
        match &self.backend {
            Backend::Local(local) => {
                let length = range.end.saturating_sub(range.start);
                local.run_sized(path, length, move |local, path| local.get_range(path, range)).await
            }
            Backend::Object(object) => {
                let bytes =
                    object.get_range(path, range.clone()).await.map_err(|e| self.object_error(path, e))?;
                types::check_length(&self.full_path(path), &range, bytes)
            }
        }
    }

    /// The last `length` bytes of the file (all if it is shorter) and the file's size.
    #[instrument(level = "trace", skip_all, fields(path = self.full_path(path), length))]
    pub async fn get_tail(&self, path: &str, length: u64) -> Result<(Bytes, u64)> {
        let end = self.get_end(path, length, None).await?;
        Ok(end.map_or_else(Default::default, |end| (end.bytes, end.info.size)))
    }

    /// The last `length` bytes of a file and what identifies its content, with one request; `None` if the file still is
    /// what `known` says, which only object stores can tell.
    #[instrument(level = "trace", skip_all, fields(path = self.full_path(path), length))]
    pub(crate) async fn get_end(
        &self,
        path: &str,
        length: u64,
        known: Option<&FileInfo>,
    ) -> Result<Option<FileEnd>> {
        match &self.backend {
            Backend::Local(local) => {
                let call = move |local: &LocalStore, path: &str| local.get_end(path, length);
                local.run_sized(path, length, call).await.map(Some)
            }
            Backend::Object(object) => {
                let known = known.and_then(|known| known.e_tag.as_deref());
                object.get_end(path, length, known).await.map_err(|e| self.object_error(path, e))
            }
        }
    }

    /// [`Self::get`], waiting on the calling thread: use it on a blocking one.
    pub(crate) fn get_blocking(&self, path: &str) -> Result<Bytes> {
        match &self.backend {
            Backend::Local(local) => local.get(path),
            Backend::Object(object) => object.wait(object.get(path))?.map_err(|e| self.object_error(path, e)),
        }
    }

    /// Size and stamp of a file, `None` if it is not there.
    #[instrument(level = "trace", skip_all, fields(path = self.full_path(path)))]
    pub async fn info(&self, path: &str) -> Result<Option<FileInfo>> {
        match &self.backend {
            Backend::Local(local) => local.info(path),
            Backend::Object(object) => object.info(path).await.map_err(|e| self.object_error(path, e)),
        }
    }

    /// Whether the file is there.
    pub async fn exists(&self, path: &str) -> Result<bool> {
        Ok(self.info(path).await?.is_some())
    }

    /// Waits for a call on the calling thread: use it on a blocking one.
    pub(crate) fn wait<T>(&self, call: impl Future<Output = T>) -> Result<T> {
        match &self.backend {
            Backend::Local(_) => Ok(waiting(|| futures::executor::block_on(call))),
            Backend::Object(object) => object.wait(call),
        }
    }

    /// Names of the files directly in a directory, in no order; none if the directory is not there.
    #[instrument(level = "trace", skip_all, fields(path = self.full_path(directory)))]
    pub async fn list(&self, directory: &str) -> Result<Vec<String>> {
        match &self.backend {
            Backend::Local(local) if local.is_short(directory) => local.list(directory),
            Backend::Local(local) => local.run(directory, |local, path| local.list(path)).await,
            Backend::Object(object) => {
                let listed = object.list(directory).await.map_err(|e| self.object_error(directory, e))?;
                Ok(listed.into_iter().map(|(name, _)| name).collect())
            }
        }
    }

    /// The same with what an object store says of the files.
    pub(crate) async fn list_infos(&self, directory: &str) -> Result<Vec<(String, Option<FileInfo>)>> {
        let Backend::Object(object) = &self.backend else {
            return Ok(self.list(directory).await?.into_iter().map(|name| (name, None)).collect());
        };
        let listed = object.list(directory).await.map_err(|e| self.object_error(directory, e))?;
        Ok(listed.into_iter().map(|(name, info)| (name, Some(info))).collect())
    }

    /// All files below a directory, in no order; none if it is not there. Links are not followed.
    #[instrument(level = "trace", skip_all, fields(path = self.full_path(directory)))]
    pub async fn list_below(&self, directory: &str) -> Result<Vec<ListedFile>> {
        match &self.backend {
            Backend::Local(local) => local.run(directory, |local, path| local.list_below(path)).await,
            Backend::Object(object) => {
                object.list_below(directory).await.map_err(|e| self.object_error(directory, e))
            }
        }
    }

    /// The first name in a directory, in lexicographic order, that `accept` takes. On object stores this reads one
    /// page of the listing when the name is there, and gives what that page says of the file `also`.
    #[instrument(level = "trace", skip_all, fields(path = self.full_path(directory)))]
    pub async fn list_first<T: Send + 'static>(
        &self,
        directory: &str,
        accept: impl Fn(&str) -> Option<T> + Send + Sync + 'static,
        also: Option<&str>,
    ) -> Result<(Option<T>, Option<FileInfo>)> {
        let Backend::Object(object) = &self.backend else {
            let mut names = self.list(directory).await?;
            names.sort_unstable();
            return Ok((names.iter().find_map(|name| accept(name)), None));
        };
        object.list_first(directory, accept, also).await.map_err(|e| self.object_error(directory, e))
    }

    /// Writes a file, replacing one of that name: readers see the old or the new content, never a part.
    #[instrument(level = "trace", skip_all, fields(path = self.full_path(path), bytes = bytes.len()))]
    pub async fn put(&self, path: &str, bytes: Bytes, durability: Durability) -> Result<()> {
        match &self.backend {
            Backend::Local(local) => {
                let cost = durability.cost(bytes.len());
                local.run_sized(path, cost, move |local, path| local.put(path, &bytes, durability)).await
            }
            Backend::Object(object) => object.put(path, bytes).await.map_err(|e| self.object_error(path, e)),
        }
    }

    /// Writes a short file that only hints at something: as [`Self::put`], but on local disks over the file that is
    /// there, of which a reader or a power cut may find a part.
    pub(crate) async fn put_hint(&self, path: &str, bytes: Bytes) -> Result<()> {
        match &self.backend {
            Backend::Local(local) => local.put_over(path, &bytes),
            Backend::Object(_) => self.put(path, bytes, Durability::Os).await,
        }
    }

    /// Writes files with names that no other writer uses and no version refers to yet, without the cost of
    /// [`Self::put`] for each. They are synced together.
    #[instrument(level = "trace", skip_all, fields(path = self.root(), files = files.len()))]
    pub async fn put_new(&self, files: Vec<(String, Bytes)>, durability: Durability) -> Result<()> {
        match &self.backend {
            Backend::Local(local) => {
                let bytes = files.iter().map(|(_, bytes)| bytes.len()).sum();
                let put = move |local: &LocalStore, _: &str| local.put_new(&files, durability);
                local.run_sized("", durability.cost(bytes), put).await
            }
            Backend::Object(object) => {
                let puts = files.into_iter().map(|(path, bytes)| {
                    let put = async move {
                        object.put(&path, bytes).await.map_err(|e| self.object_error(&path, e))
                    };
                    put.boxed()
                });
                // After an error the others are waited for: what arrives after its removal would stay.
                let puts: Vec<_> = puts.collect();
                let done = stream::iter(puts).buffer_unordered(IN_FLIGHT).collect::<Vec<_>>().await;
                done.into_iter().collect()
            }
        }
    }

    /// As [`Self::put_new`], but the files may be on their way still.
    pub(crate) async fn put_new_later(
        self: &Arc<Self>,
        files: Vec<(String, Bytes)>,
        durability: Durability,
    ) -> Result<Uploads> {
        match Handle::try_current() {
            Ok(runtime) if !self.is_local() && !runtime::is_single_threaded() && !files.is_empty() => {
                let store = Arc::clone(self);
                let put = async move { store.put_new(files, durability).await };
                Ok(Uploads::start(&runtime, put.in_current_span()))
            }
            _ => self.put_new(files, durability).await.map(|()| Uploads::default()),
        }
    }

    /// Writes a file unless one of that name exists; `false` if it does. Exactly one of several callers gets `true`.
    ///
    /// After an error the file may have been written all the same.
    pub async fn put_if_absent(&self, path: &str, bytes: Bytes, durability: Durability) -> Result<bool> {
        Ok(self.create(path, bytes, durability).await? != Created::Taken)
    }

    /// [`Self::put_if_absent`], and what the store calls the content.
    #[instrument(name = "put_if_absent", level = "trace", skip_all, fields(path = self.full_path(path), bytes = bytes.len()))]
    pub(crate) async fn create(&self, path: &str, bytes: Bytes, durability: Durability) -> Result<Created> {
        let local = match &self.backend {
            Backend::Local(local) => local,
            Backend::Object(object) => {
                return object.create(path, &self.full_path(path), bytes).await;
            }
        };
        let cost = durability.cost(bytes.len());
        let put = move |local: &LocalStore, path: &str| local.put_if_absent(path, &bytes, durability);
        let is_new = local.run_sized(path, cost, put).await?;
        Ok(if is_new { Created::New { e_tag: None } } else { Created::Taken })
    }

    /// Copies a file to another name, replacing one of that name.
    #[instrument(level = "trace", skip_all, fields(path = self.full_path(from), to))]
    pub(crate) async fn copy(&self, from: &str, to: &str, durability: Durability) -> Result<()> {
        match &self.backend {
            Backend::Local(local) => {
                let to = to.to_owned();
                local.run(from, move |local, from| local.put(&to, &local.get(from)?, durability)).await
            }
            Backend::Object(object) => object.copy(from, to).await.map_err(|e| self.object_error(from, e)),
        }
    }

    /// Makes a file that was written before durable, and the entry of its directory.
    #[instrument(level = "trace", skip_all, fields(path = self.full_path(path)))]
    pub(crate) async fn sync(&self, path: &str, durability: Durability) -> Result<()> {
        match &self.backend {
            Backend::Local(local) => local.run(path, move |local, path| local.sync(path, durability)).await,
            Backend::Object(_) => Ok(()),
        }
    }

    /// Makes files durable that sinks completed with [`Durability::Os`], all together, then their names. Use on a
    /// blocking thread.
    pub(crate) fn sync_new_blocking<'a>(
        &self,
        paths: impl Iterator<Item = &'a str>,
        durability: Durability,
    ) -> Result<()> {
        match &self.backend {
            Backend::Local(local) => local.sync_new(paths, durability),
            Backend::Object(_) => Ok(()),
        }
    }

    /// Removes a file; one that is not there is no error, one behind a symbolic link to a directory is.
    #[instrument(level = "trace", skip_all, fields(path = self.full_path(path)))]
    pub async fn delete(&self, path: &str) -> Result<()> {
        match &self.backend {
            Backend::Local(local) => local.run(path, |local, path| local.delete(path)).await,
            Backend::Object(object) => object.delete(path).await.map_err(|e| self.object_error(path, e)),
        }
    }

    /// [`Self::delete`]; with [`Durability::Full`] a power cut does not bring the file back.
    pub(crate) async fn delete_durably(&self, path: &str, durability: Durability) -> Result<()> {
        self.delete(path).await?;
        self.sync_removal(path, durability).await
    }

    /// Makes durable that a file is not there any more.
    pub(crate) async fn sync_removal(&self, path: &str, durability: Durability) -> Result<()> {
        match &self.backend {
            Backend::Local(local) => {
                local.run(path, move |local, path| local.sync_removal(path, durability)).await
            }
            Backend::Object(_) => Ok(()),
        }
    }

    /// Removes files with as few requests as the store allows: what became of each. One that is not there is no error.
    #[instrument(level = "trace", skip_all, fields(path = self.root(), files = paths.len()))]
    pub(crate) async fn delete_many(&self, paths: Vec<String>) -> HashMap<String, Result<()>> {
        match &self.backend {
            Backend::Local(_) => {
                let mut results = HashMap::with_capacity(paths.len());
                for path in paths {
                    results.insert(path.clone(), self.delete(&path).await);
                }
                results
            }
            Backend::Object(object) => {
                let results = paths.iter().zip(object.delete_many(&paths).await);
                let named = |(path, result): (&String, object::StoreResult<()>)| {
                    (path.clone(), result.map_err(|e| self.object_error(path, e)))
                };
                results.map(named).collect()
            }
        }
    }

    /// Removes directories if nothing is in them; failures do not matter. Object stores have none.
    pub(crate) async fn remove_empty_directories(&self, directories: Vec<String>) {
        if let Backend::Local(local) = &self.backend {
            let remove = move |local: &LocalStore, _: &str| {
                directories.iter().for_each(|directory| local.remove_empty_directory(directory));
                Ok(())
            };
            if let Err(error) = local.run("", remove).await {
                warn!(path = self.root(), %error, "empty directories were not removed");
            }
        }
    }

    /// Removes files that nothing refers to, without waiting for requests: for `Drop`. Where no runtime is left to do
    /// it they stay, until cleanup finds them.
    pub(crate) fn discard(&self, paths: Vec<String>) {
        match &self.backend {
            Backend::Local(local) => paths.iter().for_each(|path| drop(local.delete(path))),
            Backend::Object(object) => object.discard(paths),
        }
    }

    /// Removes everything under the root; `false` if there was nothing.
    pub async fn delete_all(&self) -> Result<bool> {
        match &self.backend {
            Backend::Local(local) => local.run("", |local, _| local.delete_all()).await,
            Backend::Object(object) => object.delete_all().await.map_err(|e| self.object_error("", e)),
        }
    }

    /// A new file to write. Use on a blocking thread. `durability` is that of new directories on the way.
    pub fn sink(&self, path: &str, durability: Durability) -> Result<Box<dyn Sink>> {
        match &self.backend {
            Backend::Local(local) => local.sink(path, durability),
            Backend::Object(object) => Ok(Box::new(ObjectSink::new(object, path, self.full_path(path)))),
        }
    }

    /// As [`Self::sink`], but a file of that name is replaced: readers see the old or the new one, never a part.
    pub fn replacing_sink(&self, path: &str, durability: Durability) -> Result<Box<dyn Sink>> {
        match &self.backend {
            Backend::Local(local) => local.replacing_sink(path, durability),
            Backend::Object(_) => self.sink(path, durability),
        }
    }

    fn object_error(&self, path: &str, error: object_store::Error) -> Error {
        object::error(&self.full_path(path), error)
    }
}
