//! Files on their way to a store.
//!
//! Where a request takes long, a file that is complete need not have arrived before the next one is made: only what
//! refers to it must wait, and that is the manifest.

use futures::FutureExt;
use futures::future::{BoxFuture, Shared, join_all};
use pennon_core::{Error, Result};
use tokio::runtime::Handle;

/// A file on its way. Sent whether or not anybody waits for it.
type Upload = Shared<BoxFuture<'static, Result<()>>>;

/// Some files on their way; none for files that are there.
#[derive(Debug, Clone, Default)]
pub struct Uploads(Vec<Upload>);

impl Uploads {
    /// Sends a file.
    pub(super) fn start(runtime: &Handle, send: impl Future<Output = Result<()>> + Send + 'static) -> Self {
        let sent = runtime.spawn(send).map(|sent| match sent {
            Ok(result) => result,
            Err(failure) => Err(Error::store("an upload was given up").with_source(failure)),
        });
        Self(vec![sent.boxed().shared()])
    }

    /// How many files.
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// Waits for these as well.
    pub(crate) fn extend(&mut self, others: Self) {
        self.0.extend(others.0);
    }

    /// Waits until every file has arrived or failed. Errors: that of the first one that failed.
    pub(crate) async fn arrive(&self) -> Result<()> {
        join_all(self.0.iter().cloned()).await.into_iter().collect()
    }

    /// [`Self::arrive`], on a blocking thread.
    pub(crate) fn arrive_blocking(&self) -> Result<()> {
        if self.0.is_empty() { Ok(()) } else { futures::executor::block_on(self.arrive()) }
    }
}
