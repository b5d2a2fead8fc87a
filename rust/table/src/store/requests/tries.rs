//! What a client sends for one request.
//!
//! A client sends a request again when the store is busy or a connection breaks, with growing pauses, and tells nobody.
//! What runs in the scope of a [`Tries`] is counted: an HTTP request for what the one before it asked for is a
//! retry. (Requests for credentials go elsewhere.)

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

tokio::task_local! {
    static CURRENT: Arc<Tries>;
}

/// The HTTP requests that were sent for one request.
#[derive(Debug, Default)]
pub(super) struct Tries {
    last: AtomicU64,
    retries: AtomicU64,
}

impl Tries {
    /// Counts what the future sends.
    pub(super) async fn count<T>(self: &Arc<Self>, request: impl Future<Output = T>) -> T {
        CURRENT.scope(Arc::clone(self), request).await
    }

    /// How often something was sent again.
    pub(super) fn retries(&self) -> u64 {
        self.retries.load(Ordering::Relaxed)
    }

    #[cfg_attr(not(feature = "cloud"), allow(dead_code, reason = "called by clients"))]
    fn sent(&self, hash: u64) {
        if self.last.swap(hash, Ordering::Relaxed) == hash {
            self.retries.fetch_add(1, Ordering::Relaxed);
        }
    }
}

#[cfg(any(feature = "aws", feature = "azure", feature = "gcp"))]
pub(in crate::store) use self::http_client::CountingConnector;

#[cfg(any(feature = "aws", feature = "azure", feature = "gcp"))]
mod http_client {
    use std::hash::{BuildHasher, BuildHasherDefault};

    use async_trait::async_trait;
    use object_store::client::{
        HttpClient, HttpConnector, HttpError, HttpRequest, HttpResponse, HttpService, ReqwestConnector,
    };
    use twox_hash::XxHash64;

    use super::CURRENT;

    /// Makes clients whose requests are counted.
    #[derive(Debug, Default)]
    pub(in crate::store) struct CountingConnector(ReqwestConnector);

    impl HttpConnector for CountingConnector {
        fn connect(&self, options: &object_store::ClientOptions) -> object_store::Result<HttpClient> {
            Ok(HttpClient::new(Counting(self.0.connect(options)?)))
        }
    }

    #[derive(Debug)]
    struct Counting(HttpClient);

    #[async_trait]
    impl HttpService for Counting {
        async fn call(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
            // Outside of a scope nobody counts.
            let _ = CURRENT.try_with(|tries| {
                let hash = BuildHasherDefault::<XxHash64>::default();
                tries.sent(hash.hash_one((request.method(), request.uri())).max(1));
            });
            self.0.execute(request).await
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_is_sent_again_is_counted() {
        let tries = Arc::<Tries>::default();
        tries
            .count(async {
                for hash in [5, 5, 7, 5, 5, 5] {
                    CURRENT.with(|tries| tries.sent(hash));
                }
            })
            .await;
        assert_eq!(tries.retries(), 3);
    }
}
