//! Clouds: an `object_store` client from a URL, storage options and the environment.

use std::sync::Arc;

#[cfg(any(feature = "aws", feature = "azure", feature = "gcp"))]
use object_store::ObjectStoreScheme;
use object_store::path::Path;
use pennon_core::{Error, Result};
#[cfg(any(feature = "aws", feature = "azure", feature = "gcp"))]
use url::Position;
use url::Url;

use super::StorageOptions;
use super::options::{Settings, with_environment};
use super::requests::Client;
#[cfg(any(feature = "aws", feature = "azure", feature = "gcp"))]
use super::{clients, pool};

/// The endpoint and the bucket of a root, if the options or the environment name an endpoint: whatever answers there
/// speaks the protocol of a cloud, and may not do all that the cloud does.
pub(super) fn endpoint(root: &str, options: &StorageOptions) -> Option<String> {
    if root.starts_with("memory://") {
        return None;
    }
    let given = with_environment(options).into_iter();
    let mut named: Vec<String> = given
        .filter(|(key, _)| key.contains("endpoint") || key.contains("emulator"))
        .map(|(key, value)| format!("{key}={value}"))
        .collect();
    // `scheme://bucket`, and the account in front of it.
    let bucket = root.splitn(4, '/').take(3).collect::<Vec<_>>().join("/");
    named.sort_unstable();
    (!named.is_empty()).then(|| format!("{bucket} {}", named.join(" ")))
}

/// Errors: `Unsupported`.
#[cfg(not(any(feature = "aws", feature = "azure", feature = "gcp")))]
pub(super) fn open(url: &Url, _: &Settings) -> Result<(Arc<Client>, Path)> {
    Err(Error::unsupported(format!("{url}: this build has no client for the scheme")))
}

/// The client for a URL, and the path of the URL in its store.
///
/// Errors: `InvalidInput` for settings that are refused or contradict each other, `Unsupported` for a cloud that this
/// build has no client for.
#[cfg(any(feature = "aws", feature = "azure", feature = "gcp"))]
pub(super) fn open(url: &Url, settings: &Settings) -> Result<(Arc<Client>, Path)> {
    let invalid = |error: object_store::Error| Error::invalid_input(format!("{url}: {error}"));
    let (scheme, path) = ObjectStoreScheme::parse(url).map_err(|error| invalid(error.into()))?;
    let (store, chosen) = clients::prepare(&scheme, url, settings)?;
    let bucket = &url[..Position::BeforePath];
    let key = format!("{bucket} {chosen} {:?} {:?}", settings.limits, settings.patience);
    let client = pool::client(&key, || {
        let store = store().map_err(invalid)?;
        Ok(Client::new(store, settings.limits, settings.patience, settings.patience.of_client()))
    })?;
    Ok((client, path))
}
