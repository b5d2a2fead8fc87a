//! Listings and deletions, which are many requests each.
//!
//! A permit is held while the next page, or the answer for some files, is waited for, and not while it is used.

use std::collections::BTreeSet;
use std::sync::Arc;

use futures::stream::{self, BoxStream, ReadyChunks};
use futures::{StreamExt, TryStreamExt};
use object_store::path::Path;
use object_store::{Error, ObjectMeta, Result};

use super::tries::Tries;
use super::{Requests, may_pass};

/// Files that one request lists or deletes.
const PAGE: usize = 1000;
/// Requests for deletions that are made ahead.
const DELETIONS: usize = 20;

/// How far a listing has come.
struct Listing {
    requests: Requests,
    prefix: Option<Path>,
    pages: Option<ReadyChunks<BoxStream<'static, Result<ObjectMeta>>>>,
    has_begun: bool,
    retries: u32,
}

/// All files below a prefix. A listing that fails before its first file is made again.
pub(super) fn list(requests: Requests, prefix: Option<Path>) -> BoxStream<'static, Result<ObjectMeta>> {
    let retries = requests.client.patience.read_retries;
    let listing = Listing { requests, prefix, pages: None, has_begun: false, retries };
    stream::unfold(Some(listing), |listing| async {
        let mut listing = listing?;
        match listing.next().await {
            Ok(Some(page)) => Some((page, Some(listing))),
            Ok(None) => None,
            Err(error) => Some((vec![Err(error)], None)),
        }
    })
    .flat_map(stream::iter)
    .boxed()
}

impl Listing {
    async fn next(&mut self) -> Result<Option<Vec<Result<ObjectMeta>>>> {
        let at = self.prefix.clone().unwrap_or_default();
        loop {
            let client = &self.requests.client;
            let pages =
                self.pages.get_or_insert_with(|| client.store.list(self.prefix.as_ref()).ready_chunks(PAGE));
            let permit = client.budget.acquire(0).await?;
            let page = async {
                match pages.next().await {
                    // An error that comes first is that of the page.
                    Some(mut page) if page.first().is_some_and(Result::is_err) => {
                        page.remove(0).map(|_| None)
                    }
                    page => Ok(page),
                }
            };
            let tries = Arc::<Tries>::default();
            let page = self.requests.attempt(&at, &tries, page).await;
            drop(permit);
            match page {
                Err(error)
                    if self.retries > 0 && !self.has_begun && tries.retries() == 0 && may_pass(&error) =>
                {
                    self.retries -= 1;
                    self.pages = None;
                    self.requests.pause(&at, &error).await;
                }
                page => {
                    self.has_begun = true;
                    return page;
                }
            }
        }
    }
}

/// Deletes files: the path of each that is gone, an error for each that is not.
pub(super) fn delete(
    requests: Requests,
    paths: BoxStream<'static, Result<Path>>,
) -> BoxStream<'static, Result<Path>> {
    let delete = move |paths: std::result::Result<Vec<Path>, stream::TryChunksError<Path, Error>>| {
        let requests = requests.clone();
        async move {
            match paths {
                Ok(paths) => requests.delete_some(paths).await,
                Err(stream::TryChunksError(paths, error)) => {
                    let mut answers = requests.delete_some(paths).await;
                    answers.push(Err(error));
                    answers
                }
            }
        }
    };
    paths.try_chunks(PAGE).map(delete).buffered(DELETIONS).flat_map(stream::iter).boxed()
}

impl Requests {
    /// Deletes some files, and tries those again that are not gone.
    async fn delete_some(&self, paths: Vec<Path>) -> Vec<Result<Path>> {
        let mut retries = self.client.patience.write_retries;
        let mut left: BTreeSet<Path> = paths.into_iter().collect();
        let mut answers = Vec::with_capacity(left.len());
        loop {
            let tries = Arc::<Tries>::default();
            let errors = self.delete_once(&tries, &mut left, &mut answers).await;
            let passing = errors.iter().find(|error| may_pass(error));
            match passing {
                Some(error) if retries > 0 && tries.retries() == 0 && !left.is_empty() => {
                    retries -= 1;
                    let at = left.first().cloned().unwrap_or_default();
                    self.pause(&at, error).await;
                }
                _ => {
                    answers.extend(errors.into_iter().map(Err));
                    return answers;
                }
            }
        }
    }

    /// One try: moves what is gone to the answers.
    async fn delete_once(
        &self,
        tries: &Arc<Tries>,
        left: &mut BTreeSet<Path>,
        answers: &mut Vec<Result<Path>>,
    ) -> Vec<Error> {
        let _permit = match self.client.budget.acquire(0).await {
            Ok(permit) => permit,
            Err(error) => return vec![error],
        };
        let asked: Vec<Result<Path>> = left.iter().cloned().map(Ok).collect();
        let mut deleted = self.client.store.delete_stream(stream::iter(asked).boxed());
        let mut errors = Vec::new();
        let at = left.first().cloned().unwrap_or_default();
        loop {
            let next = async { Ok(deleted.next().await) };
            match self.attempt(&at, tries, next).await {
                Ok(Some(Ok(path))) => {
                    left.remove(&path);
                    answers.push(Ok(path));
                }
                Ok(Some(Err(Error::NotFound { path, .. }))) => {
                    left.remove(&Path::from(path.as_str()));
                    answers.push(Ok(Path::from(path)));
                }
                Ok(Some(Err(error))) => errors.push(error),
                Ok(None) => return errors,
                // Nothing comes any more.
                Err(error) => {
                    errors.push(error);
                    return errors;
                }
            }
        }
    }
}
