//! Clouds: an `object_store` client from a URL, storage options and the environment.

use std::sync::Arc;

use object_store::ObjectStore;
use object_store::path::Path;
use pennon_core::{Error, Result};
use url::Url;

use super::StorageOptions;

/// Environment variables that are taken as options, by prefix; explicit options win.
const ENVIRONMENT: [&str; 4] = ["AWS_", "AZURE_", "DYNAMODB_", "GOOGLE_"];

/// The options, keys in lower case, and those of the environment that they do not override.
pub(super) fn with_environment(options: &StorageOptions) -> StorageOptions {
    let environment = std::env::vars_os().filter_map(|(key, value)| {
        let key = key.into_string().ok().filter(|k| ENVIRONMENT.iter().any(|p| k.starts_with(p)))?;
        Some((key.to_ascii_lowercase(), value.into_string().ok()?))
    });
    let given = options.iter().map(|(key, value)| (key.to_ascii_lowercase(), value.clone()));
    environment.chain(given).collect()
}

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

pub(super) fn open(url: &Url, options: &StorageOptions) -> Result<(Arc<dyn ObjectStore>, Path)> {
    let (store, prefix) =
        object_store::parse_url_opts(url, with_environment(options)).map_err(|e| match e {
            object_store::Error::NotSupported { .. } | object_store::Error::NotImplemented { .. } => {
                Error::unsupported(format!("{url}: this build has no client for the scheme: {e}"))
            }
            other => Error::invalid_input(format!("{url}: {other}")),
        })?;
    Ok((Arc::from(store), prefix))
}
