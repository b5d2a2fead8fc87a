//! Which settings a client of a cloud gets: those that were given, then those of the environment.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::hash::Hash;
use std::str::FromStr;
use std::sync::Arc;

use object_store::{BackoffConfig, ObjectStore, ObjectStoreScheme, RetryConfig};
use pennon_core::{Error, Result};
use url::Url;

use super::options::{Settings, YES, check_flag, contradiction, environment};
use super::requests::CountingConnector;
use super::secrets::check_endpoint;

type StoreResult = object_store::Result<Arc<dyn ObjectStore>>;

/// What makes a client, and all that makes it differ from others of its bucket.
type Prepared<'a> = (Box<dyn FnOnce() -> StoreResult + 'a>, String);

/// Names of what a client signs requests with, without their prefix.
const CREDENTIALS: [&str; 14] = [
    "access_key_id",
    "secret_access_key",
    "session_token",
    "token",
    "account_key",
    "access_key",
    "master_key",
    "sas_key",
    "sas_token",
    "bearer_token",
    "client_secret",
    "service_account",
    "service_account_path",
    "service_account_key",
];

/// Settings that are addresses of servers, as `Debug` shows the keys.
const ADDRESSES: [&str; 5] = ["Endpoint", "MsiEndpoint", "MetadataEndpoint", "BaseUrl", "AuthorityHost"];

/// Builds a client of one kind. A macro, since the builders share no trait.
macro_rules! prepare {
    ($builder:ty, $url:expr, $settings:expr) => {{
        let chosen = choose($settings)?;
        for (key, value) in &chosen {
            let name = format!("{key:?}");
            // A host alone is no URL, and has no password.
            let is_host = name == "AuthorityHost" && !value.contains("://");
            if ADDRESSES.contains(&name.as_str()) && !is_host {
                check_endpoint(&name, value)?;
            }
        }
        let mut names: Vec<String> = chosen.iter().map(|(key, value)| format!("{key:?}={value}")).collect();
        names.sort_unstable();
        let (url, patience) = ($url.to_string(), $settings.patience);
        let build = move || -> StoreResult {
            let builder = <$builder>::new().with_url(url);
            let builder =
                chosen.into_iter().fold(builder, |builder, (key, value)| builder.with_config(key, value));
            let retry = RetryConfig {
                backoff: BackoffConfig::default(),
                max_retries: patience.client_retries,
                retry_timeout: patience.client_time,
            };
            let builder = builder.with_retry(retry).with_http_connector(CountingConnector::default());
            Ok(Arc::new(builder.build()?))
        };
        Ok((Box::new(build), names.join(" ")))
    }};
}

/// Prepares a client of that cloud.
///
/// Errors: `InvalidInput` for settings that contradict each other, `Unsupported` without a client in this build.
pub(super) fn prepare<'a>(
    scheme: &ObjectStoreScheme,
    url: &Url,
    settings: &Settings,
) -> Result<Prepared<'a>> {
    check(scheme, settings)?;
    match scheme {
        #[cfg(feature = "aws")]
        ObjectStoreScheme::AmazonS3 => prepare!(object_store::aws::AmazonS3Builder, url, settings),
        #[cfg(feature = "azure")]
        ObjectStoreScheme::MicrosoftAzure => {
            prepare!(object_store::azure::MicrosoftAzureBuilder, url, settings)
        }
        #[cfg(feature = "gcp")]
        ObjectStoreScheme::GoogleCloudStorage => {
            prepare!(object_store::gcp::GoogleCloudStorageBuilder, url, settings)
        }
        _ => Err(Error::unsupported(format!("{url}: this build has no client for the scheme"))),
    }
}

/// The value of each key of a client.
///
/// Errors: `InvalidInput` for two values under two names of one key, and for one of the environment that is neither yes nor
/// no and should be.
fn choose<K: FromStr + Eq + Hash>(settings: &Settings) -> Result<HashMap<K, String>> {
    let mut chosen: HashMap<K, (&str, String)> = HashMap::new();
    for (name, value) in &settings.client {
        let Ok(key) = name.parse() else { continue };
        if let Some((other, same)) = chosen.insert(key, (name.as_str(), value.clone()))
            && same != *value
        {
            return Err(contradiction(other, name));
        }
    }
    let mut chosen: HashMap<K, String> = chosen.into_iter().map(|(key, (_, value))| (key, value)).collect();
    for (name, value) in environment() {
        if let Ok(key) = name.parse()
            && let Entry::Vacant(entry) = chosen.entry(key)
        {
            check_flag(&name, &value)?;
            entry.insert(value);
        }
    }
    Ok(chosen)
}

/// Errors: `InvalidInput` for settings of which only one can hold.
fn check(scheme: &ObjectStoreScheme, settings: &Settings) -> Result<()> {
    let prefixes: &[&str] = match scheme {
        ObjectStoreScheme::AmazonS3 => &["", "aws_"],
        ObjectStoreScheme::MicrosoftAzure => &["", "azure_", "azure_storage_"],
        ObjectStoreScheme::GoogleCloudStorage => &["", "google_"],
        _ => return Ok(()),
    };
    let given = |name: &str| {
        prefixes.iter().find_map(|prefix| settings.client.get_key_value(&format!("{prefix}{name}")))
    };
    let is_on = |name: &str| given(name).filter(|(_, value)| is_true(value));
    if let Some((skip, _)) = is_on("skip_signature")
        && let Some((credential, _)) = CREDENTIALS.iter().find_map(|name| given(name))
    {
        return Err(contradiction(skip, credential));
    }
    if let (Some((first, _)), Some((second, _))) = (is_on("http1_only"), is_on("http2_only")) {
        return Err(contradiction(first, second));
    }
    let is_plain = |(_, value): &(&String, &String)| value.starts_with("http://");
    let endpoints = ["endpoint", "endpoint_url", "endpoint_url_s3"];
    let plain = endpoints.iter().find_map(|name| given(name).filter(is_plain));
    if let Some((endpoint, value)) = plain
        && is_on("allow_http").is_none()
        && is_on("use_emulator").is_none()
        && (given("allow_http").is_some() || !is_plain_http_allowed())
    {
        return Err(match given("allow_http") {
            Some((allow, _)) => contradiction(endpoint, allow),
            None => Error::invalid_input(format!(
                "Storage option {endpoint:?}: found {value:?}, expected https://, or \"allow_http\" as well"
            )),
        });
    }
    Ok(())
}

/// Whether the environment allows endpoints without TLS.
fn is_plain_http_allowed() -> bool {
    let names = ["allow_http", "use_emulator"];
    environment().any(|(name, value)| names.iter().any(|end| name.ends_with(end)) && is_true(&value))
}

fn is_true(value: &str) -> bool {
    YES.iter().any(|yes| value.eq_ignore_ascii_case(yes))
}

#[cfg(all(test, feature = "aws"))]
mod tests {
    use object_store::aws::AmazonS3ConfigKey;
    use pennon_core::ErrorKind;

    use super::*;
    use crate::store::{RequestLimits, StorageOptions, Store};

    fn options(pairs: &[(&str, &str)]) -> StorageOptions {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn contradictions_are_refused() {
        for pairs in [
            [("aws_endpoint", "https://a"), ("endpoint_url", "https://b")],
            [("aws_skip_signature", "true"), ("aws_access_key_id", "key")],
            [("aws_endpoint", "http://a"), ("allow_http", "false")],
            [("http1_only", "true"), ("http2_only", "1")],
        ] {
            let error = Store::open("s3://bucket/table", &options(&pairs)).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error}");
            let text = error.to_string();
            assert!(pairs.iter().all(|(name, _)| text.contains(name)), "{text}");
        }
        let error = Store::open("s3://bucket/table", &options(&[("endpoint", "http://a")])).unwrap_err();
        assert!(error.to_string().contains("allow_http"), "{error}");
        let well = [("aws_endpoint", "https://a"), ("endpoint_url", "https://a"), ("skip_signature", "true")];
        Store::open("s3://bucket/table", &options(&well)).unwrap();
        // Meant for another store.
        let shared = [("aws_skip_signature", "true"), ("azure_storage_account_key", "key")];
        Store::open("s3://bucket/table", &options(&shared)).unwrap();
    }

    #[test]
    fn addresses_are_checked() {
        let azure = |name: &str, value: &str| {
            let given = [("account_name", "a"), ("account_key", "YQ=="), (name, value)];
            Store::open("az://container/table", &options(&given)).map(drop)
        };
        for (name, value) in [
            ("use_fabric_endpoint", "true"),
            ("authority_host", "login.example.com"),
            ("authority_host", "https://login.example.com"),
        ] {
            azure(name, value).unwrap();
        }
        for name in ["authority_host", "azure_storage_endpoint", "msi_endpoint"] {
            let error = azure(name, "https://user:password@example.com").unwrap_err();
            assert!(!error.to_string().contains("user:password"), "{error}");
        }
    }

    #[test]
    fn the_names_of_a_key_are_one_setting() {
        let settings =
            options(&[("endpoint", "https://a"), ("AWS_ENDPOINT_URL", "https://a"), ("region", "r")]);
        let settings = Settings::of(&settings, RequestLimits::default()).unwrap();
        let chosen: HashMap<AmazonS3ConfigKey, String> = choose(&settings).unwrap();
        assert_eq!(chosen.get(&AmazonS3ConfigKey::Endpoint).map(String::as_str), Some("https://a"));
        assert_eq!(chosen.get(&AmazonS3ConfigKey::Region).map(String::as_str), Some("r"));
    }
}
