//! Objects in memory whose store misbehaves.
//!
//! | | what the caller sees |
//! |---|---|
//! | put | done; an error though it is done; "there is one" for one's own, as after a retry by the client; an error, and the object appears later or never |
//! | listing | all names, or without the newest manifests; in order, or in none |
//! | get | what is there; sometimes an error |
//!
//! What was put once is kept in an archive, so that the check can read versions that were cleaned up.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use futures::stream::{BoxStream, StreamExt};
use object_store::path::Path;
use object_store::{
    CopyOptions, Error, GetOptions, GetResult, GetResultPayload, ListResult, MultipartUpload, ObjectMeta,
    ObjectStore, PutMode, PutMultipartOptions, PutOptions, PutPayload, PutResult, Result,
};
use pennon_table::Store;

use super::env::{World, pause};

/// A put that has not arrived yet.
#[derive(Debug, Clone)]
struct Late {
    path: Path,
    bytes: Bytes,
    mode: PutMode,
    /// Operations until it arrives.
    left: usize,
}

#[derive(Debug, Default)]
struct Objects {
    visible: BTreeMap<Path, Bytes>,
    archive: BTreeMap<Path, Bytes>,
    /// What another program removed.
    removed: BTreeSet<Path>,
    late: Vec<Late>,
}

/// The store of one history.
#[derive(Debug)]
pub(super) struct SimStore {
    world: Arc<World>,
    /// The first segment of every path.
    name: String,
    objects: Mutex<Objects>,
    misbehaves: AtomicBool,
    /// One put in so many goes wrong; 0 for none.
    puts: AtomicUsize,
    /// One get in so many fails; 0 for none.
    gets: AtomicUsize,
    lists_late: AtomicBool,
    lists_unordered: AtomicBool,
}

impl fmt::Display for SimStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SimStore")
    }
}

impl SimStore {
    pub(super) fn new(world: Arc<World>) -> Arc<Self> {
        let thread = format!("{:?}", std::thread::current().id());
        let name = format!("simulated-{}", thread.replace(|c: char| !c.is_ascii_digit(), ""));
        Arc::new(Self {
            world,
            name,
            objects: Mutex::default(),
            misbehaves: AtomicBool::default(),
            puts: AtomicUsize::default(),
            gets: AtomicUsize::default(),
            lists_late: AtomicBool::default(),
            lists_unordered: AtomicBool::default(),
        })
    }

    /// Makes it the store of an address, one for each thread: the next history takes it over.
    pub(super) fn register(self: &Arc<Self>) -> pennon_core::Result<String> {
        Store::register_memory(&self.name, Arc::<Self>::clone(self))?;
        Ok(format!("memory://{}/table", self.name))
    }

    /// Draws how it misbehaves from now on.
    pub(super) fn misbehave(&self) {
        let world = &self.world;
        let of = |choices: &[usize]| choices.get(world.below(choices.len())).copied().unwrap_or(0);
        self.puts.store(of(&[0, 2, 4, 12]), Ordering::Relaxed);
        self.gets.store(of(&[0, 0, 60]), Ordering::Relaxed);
        self.lists_late.store(world.one_in(3), Ordering::Relaxed);
        self.lists_unordered.store(world.one_in(4), Ordering::Relaxed);
        self.misbehaves.store(true, Ordering::Relaxed);
    }

    /// Ends that; what was on its way arrives.
    pub(super) fn behave(&self) {
        self.misbehaves.store(false, Ordering::Relaxed);
        self.let_arrive();
    }

    /// What is on its way arrives: no request outlives the version it is for, which is kept for days.
    pub(super) fn let_arrive(&self) {
        let mut objects = self.objects();
        for late in std::mem::take(&mut objects.late) {
            objects.put(&late.path, &late.bytes, &late.mode);
        }
    }

    /// What an object of the table holds, or held, by its path below the root.
    pub(super) fn archived(&self, path: &str) -> Option<Bytes> {
        self.objects().archive.get(&self.path(path)).cloned()
    }

    /// Paths of the objects that are there.
    pub(super) fn paths(&self) -> Vec<String> {
        self.objects().visible.keys().filter_map(|path| self.below(path)).collect()
    }

    /// Every path that ever was.
    pub(super) fn archive(&self) -> Vec<String> {
        self.objects().archive.keys().filter_map(|path| self.below(path)).collect()
    }

    /// Puts an object as another program would.
    pub(super) fn put_now(&self, path: &str, bytes: Bytes) -> bool {
        self.objects().put(&self.path(path), &bytes, &PutMode::Create)
    }

    /// Removes an object as another program would.
    pub(super) fn remove_now(&self, path: &str) {
        let path = self.path(path);
        let mut objects = self.objects();
        objects.visible.remove(&path);
        objects.removed.insert(path);
    }

    /// Whether another program removed an object.
    pub(super) fn was_removed(&self, path: &str) -> bool {
        self.objects().removed.contains(&self.path(path))
    }

    fn path(&self, path: &str) -> Path {
        Path::from(format!("{}/table/{path}", self.name))
    }

    fn below(&self, path: &Path) -> Option<String> {
        let table = path.as_ref().strip_prefix(&self.name)?.strip_prefix("/table/")?;
        Some(table.to_owned())
    }

    fn objects(&self) -> MutexGuard<'_, Objects> {
        self.objects.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn fault(&self) -> Error {
        Error::Generic { store: "SimStore", source: "the connection was reset".into() }
    }

    fn goes_wrong(&self, rate: &AtomicUsize) -> bool {
        let rate = rate.load(Ordering::Relaxed);
        self.misbehaves.load(Ordering::Relaxed) && rate > 0 && self.world.one_in(rate)
    }

    fn is(&self, flag: &AtomicBool) -> bool {
        self.misbehaves.load(Ordering::Relaxed) && flag.load(Ordering::Relaxed)
    }

    /// A request takes time, in which others have their turns.
    async fn request(&self) {
        self.world.pass(Duration::from_millis(1));
        if self.misbehaves.load(Ordering::Relaxed) {
            pause(self.world.below(4)).await;
            let mut objects = self.objects();
            let mut arrived = Vec::new();
            objects.late.retain_mut(|late| {
                late.left = late.left.saturating_sub(1);
                if late.left == 0 {
                    arrived.push(late.clone());
                }
                late.left > 0
            });
            for late in arrived {
                objects.put(&late.path, &late.bytes, &late.mode);
            }
        }
    }

    fn listing(&self, prefix: Option<&Path>) -> Vec<ObjectMeta> {
        let objects = self.objects();
        let below = |path: &&Path| prefix.is_none_or(|prefix| path.prefix_matches(prefix));
        let mut listed: Vec<ObjectMeta> = objects
            .visible
            .iter()
            .filter(|(path, _)| below(path))
            .map(|(path, bytes)| meta(path, bytes))
            .collect();
        drop(objects);
        if self.is(&self.lists_late) && self.world.one_in(3) {
            // Newer manifests sort first.
            let hidden = self.world.below(3);
            let newest: Vec<Path> =
                listed.iter().map(|o| o.location.clone()).filter(is_manifest).take(hidden).collect();
            listed.retain(|object| !newest.contains(&object.location));
        }
        if self.is(&self.lists_unordered) {
            for end in (1..listed.len()).rev() {
                listed.swap(end, self.world.below(end + 1));
            }
        }
        listed
    }
}

impl Objects {
    /// Whether it was put.
    fn put(&mut self, path: &Path, bytes: &Bytes, mode: &PutMode) -> bool {
        if *mode == PutMode::Create && self.visible.contains_key(path) {
            return false;
        }
        self.visible.insert(path.clone(), bytes.clone());
        self.archive.insert(path.clone(), bytes.clone());
        true
    }
}

fn is_manifest(path: &Path) -> bool {
    path.as_ref().ends_with(".manifest")
}

fn meta(path: &Path, bytes: &Bytes) -> ObjectMeta {
    ObjectMeta {
        location: path.clone(),
        last_modified: chrono::DateTime::UNIX_EPOCH,
        size: u64::try_from(bytes.len()).unwrap_or(u64::MAX),
        e_tag: Some(format!("{:p}", bytes.as_ptr())),
        version: None,
    }
}

#[async_trait]
impl ObjectStore for SimStore {
    async fn put_opts(&self, path: &Path, payload: PutPayload, options: PutOptions) -> Result<PutResult> {
        self.request().await;
        let (bytes, mode) = (Bytes::from(payload), options.mode);
        let taken = || Error::AlreadyExists { path: path.to_string(), source: "412".into() };
        let done = || Ok(PutResult { e_tag: None, version: None });
        // Only manifests: an object that nobody refers to yet may fail in any way, and the caller gives up.
        if is_manifest(path) && self.goes_wrong(&self.puts) {
            return match self.world.below(5) {
                0 => {
                    self.objects().put(path, &bytes, &mode);
                    Err(self.fault())
                }
                1 => {
                    self.objects().put(path, &bytes, &mode);
                    Err(taken())
                }
                2 => {
                    let left = 1 + self.world.below(60);
                    self.objects().late.push(Late { path: path.clone(), bytes, mode, left });
                    Err(self.fault())
                }
                3 => Err(self.fault()),
                _ => {
                    pause(self.world.below(40)).await;
                    if self.objects().put(path, &bytes, &mode) { done() } else { Err(taken()) }
                }
            };
        }
        if self.objects().put(path, &bytes, &mode) { done() } else { Err(taken()) }
    }

    async fn put_multipart_opts(&self, _: &Path, _: PutMultipartOptions) -> Result<Box<dyn MultipartUpload>> {
        Err(Error::NotImplemented { operation: "put_multipart".into(), implementer: "SimStore".into() })
    }

    async fn get_opts(&self, path: &Path, options: GetOptions) -> Result<GetResult> {
        self.request().await;
        if self.goes_wrong(&self.gets) {
            return Err(self.fault());
        }
        let bytes = self.objects().visible.get(path).cloned();
        let bytes = bytes
            .ok_or_else(|| Error::NotFound { path: path.to_string(), source: "no such object".into() })?;
        let meta = meta(path, &bytes);
        let range = match &options.range {
            None => 0..meta.size,
            Some(range) => range
                .as_range(meta.size)
                .map_err(|error| Error::Generic { store: "SimStore", source: error.to_string().into() })?,
        };
        let slice = |at: u64| usize::try_from(at).unwrap_or(usize::MAX).min(bytes.len());
        let content = bytes.slice(slice(range.start)..slice(range.end));
        let payload = GetResultPayload::Stream(futures::stream::iter([Ok(content)]).boxed());
        Ok(GetResult { payload, meta, range, attributes: Default::default() })
    }

    async fn get_ranges(&self, path: &Path, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        let mut found = Vec::with_capacity(ranges.len());
        for range in ranges {
            let options = GetOptions { range: Some(range.clone().into()), ..GetOptions::default() };
            found.push(self.get_opts(path, options).await?.bytes().await?);
        }
        Ok(found)
    }

    fn delete_stream(&self, paths: BoxStream<'static, Result<Path>>) -> BoxStream<'static, Result<Path>> {
        let paths = futures::executor::block_on(paths.collect::<Vec<_>>());
        let mut objects = self.objects();
        paths.iter().flatten().for_each(|path| drop(objects.visible.remove(path)));
        futures::stream::iter(paths).boxed()
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        futures::stream::iter(self.listing(prefix).into_iter().map(Ok)).boxed()
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        self.request().await;
        Ok(ListResult { objects: self.listing(prefix), common_prefixes: Vec::new() })
    }

    async fn copy_opts(&self, _: &Path, _: &Path, _: CopyOptions) -> Result<()> {
        Err(Error::NotImplemented { operation: "copy".into(), implementer: "SimStore".into() })
    }
}
