//! Storage options: the names that are known, and what contradicts itself.
//!
//! Names are those of the reference, which are those of `object_store`, in any case of letters. A dictionary may be shared
//! by stores of several kinds, so what another kind of store means is accepted; what none means is an error, since a
//! misspelled setting silently changes who asks for what. The environment is only read for names that are known.

use std::collections::{BTreeMap, HashMap};
use std::str::FromStr;
use std::time::Duration;

use pennon_core::schema::edit_distance;
use pennon_core::{Error, Result};
use pennon_datafile::VerifyReads;

use super::requests::{Patience, RequestLimits};

/// Settings of a store: the keys of `object_store`, such as `aws_access_key_id` or `azure_storage_account_name`.
pub type StorageOptions = HashMap<String, String>;

/// Environment variables that are taken as options, by prefix; explicit options win.
const ENVIRONMENT: [&str; 4] = ["AWS_", "AZURE_", "DYNAMODB_", "GOOGLE_"];

/// Settings of clients, by the prefix that each may have in front of the name.
const BY_PREFIX: [(&str, &[&str]); 4] = [
    (
        "aws_",
        &[
            "access_key_id",
            "secret_access_key",
            "default_region",
            "region",
            "bucket",
            "bucket_name",
            "endpoint",
            "endpoint_url",
            "session_token",
            "token",
            "virtual_hosted_style_request",
            "s3_express",
            "imdsv1_fallback",
            "metadata_endpoint",
            "unsigned_payload",
            "checksum_algorithm",
            "container_credentials_relative_uri",
            "container_credentials_full_uri",
            "container_authorization_token_file",
            "web_identity_token_file",
            "role_arn",
            "role_session_name",
            "endpoint_url_sts",
            "skip_signature",
            "copy_if_not_exists",
            "conditional_put",
            "disable_tagging",
            "request_payer",
            "server_side_encryption",
            "sse_kms_key_id",
            "sse_bucket_key_enabled",
            "sse_customer_key_base64",
        ],
    ),
    (
        "azure_",
        &[
            "client_id",
            "client_secret",
            "tenant_id",
            "authority_id",
            "authority_host",
            "endpoint",
            "msi_endpoint",
            "identity_endpoint",
            "object_id",
            "msi_resource_id",
            "federated_token_file",
            "use_fabric_endpoint",
            "use_azure_cli",
            "skip_signature",
            "container_name",
            "disable_tagging",
            "fabric_token_service_url",
            "fabric_workload_host",
            "fabric_session_token",
            "fabric_cluster_identifier",
        ],
    ),
    (
        "azure_storage_",
        &[
            "account_key",
            "access_key",
            "master_key",
            "account_name",
            "client_id",
            "client_secret",
            "tenant_id",
            "authority_id",
            "authority_host",
            "sas_key",
            "sas_token",
            "token",
            "use_emulator",
            "endpoint",
        ],
    ),
    (
        "google_",
        &[
            "service_account",
            "service_account_path",
            "service_account_key",
            "bucket",
            "bucket_name",
            "base_url",
            "application_credentials",
            "skip_signature",
        ],
    ),
];

/// Settings of every client, with any of the prefixes of clouds or without.
const CLIENT: [&str; 18] = [
    "allow_http",
    "allow_invalid_certificates",
    "connect_timeout",
    "default_content_type",
    "http1_only",
    "http2_only",
    "http2_keep_alive_interval",
    "http2_keep_alive_timeout",
    "http2_keep_alive_while_idle",
    "http2_max_frame_size",
    "pool_idle_timeout",
    "pool_max_idle_per_host",
    "proxy_url",
    "proxy_ca_certificate",
    "proxy_excludes",
    "randomize_addresses",
    "timeout",
    "user_agent",
];

/// Settings that are yes or no, without their prefix.
const FLAGS: [&str; 17] = [
    "allow_http",
    "allow_invalid_certificates",
    "http1_only",
    "http2_only",
    "http2_keep_alive_while_idle",
    "randomize_addresses",
    "virtual_hosted_style_request",
    "s3_express",
    "imdsv1_fallback",
    "unsigned_payload",
    "skip_signature",
    "disable_tagging",
    "request_payer",
    "sse_bucket_key_enabled",
    "use_emulator",
    "use_fabric_endpoint",
    "use_azure_cli",
];

/// What `object_store` takes for yes, and for no.
pub(super) const YES: [&str; 5] = ["true", "1", "on", "yes", "y"];
const NO: [&str; 5] = ["false", "0", "off", "no", "n"];

/// Names without a prefix of their own: the requests of any store.
const REQUESTS: [&str; 6] = [
    "client_max_retries",
    "client_retry_timeout",
    "download_retry_count",
    "request_timeout",
    "max_requests_in_flight",
    "max_bytes_in_flight",
];

/// Where the manifest store of `s3+ddb` addresses is, if not at Amazon's.
pub(super) const DYNAMODB_ENDPOINT: &str = "dynamodb_endpoint";

/// Names without an effect here: other programs that are given the same dictionary read when credentials expire, or how
/// the reference's catalogs lay out new tables.
const OTHERS: [&str; 7] = [
    "aws_endpoint_url_s3",
    "bearer_token",
    "expires_at_millis",
    "refresh_offset_millis",
    "new_table_data_storage_version",
    "new_table_enable_v2_manifest_paths",
    "new_table_enable_stable_row_ids",
];

/// Which checksums are looked at when files are read, on any store.
const VERIFY_READS: &str = "verify_reads";

/// What storage options say.
#[derive(Debug, Clone)]
pub(super) struct Settings {
    /// Those of the client, names in lower case.
    #[cfg_attr(
        not(any(feature = "aws", feature = "azure", feature = "gcp")),
        allow(dead_code, reason = "read by clients of clouds")
    )]
    pub(super) client: BTreeMap<String, String>,
    pub(super) limits: RequestLimits,
    pub(super) patience: Patience,
    /// Whether the options say anything about requests.
    pub(super) names_requests: bool,
    /// Which checksums are looked at.
    pub(super) verify_reads: VerifyReads,
}

/// All names.
fn known() -> impl Iterator<Item = String> {
    let of_clients = BY_PREFIX.iter().flat_map(|(prefix, names)| {
        names.iter().flat_map(move |name| [format!("{prefix}{name}"), (*name).to_owned()])
    });
    const PREFIXES: [&str; 4] = ["", "aws_", "azure_", "google_"];
    let of_all = CLIENT.iter().flat_map(|name| PREFIXES.iter().map(move |prefix| format!("{prefix}{name}")));
    let of_any = REQUESTS.iter().chain(&OTHERS).chain([&DYNAMODB_ENDPOINT, &VERIFY_READS]);
    of_clients.chain(of_all).chain(of_any.map(|name| (*name).to_owned()))
}

impl Settings {
    /// Errors: `InvalidInput` for a name that no store has, for a value that is none, for two values of one setting.
    pub(super) fn of(options: &StorageOptions, limits: RequestLimits) -> Result<Self> {
        let given = normal(options)?;
        for (name, value) in &given {
            check_name(name)?;
            check_flag(name, value)?;
        }
        let mut patience = Patience::default();
        let mut limits = limits;
        if let Some(text) = given.get("client_max_retries") {
            patience.client_retries = number("client_max_retries", text)?;
            patience.write_retries = u32::from(patience.client_retries > 0);
            patience.read_retries = patience.write_retries;
        }
        if let Some(text) = given.get("download_retry_count") {
            patience.read_retries = number("download_retry_count", text)?;
        }
        if let Some(text) = given.get("client_retry_timeout") {
            patience.client_time = duration("client_retry_timeout", text)?;
        }
        let timeout = one_of(&given, &["timeout", "request_timeout"])?;
        if let Some((name, text)) = timeout {
            patience.timeout = duration(name, text)?;
        }
        if let Some(text) = given.get("max_requests_in_flight") {
            limits.requests = positive("max_requests_in_flight", text)?;
        }
        if let Some(text) = given.get("max_bytes_in_flight") {
            limits.bytes = positive("max_bytes_in_flight", text)?;
        }
        let names_requests = timeout.is_some() || REQUESTS.iter().any(|name| given.contains_key(*name));
        let verify_reads = given.get(VERIFY_READS).map(|text| text.parse()).transpose()?.unwrap_or_default();
        let of_client = |name: &String| name != VERIFY_READS && !REQUESTS.contains(&name.as_str());
        let mut client: BTreeMap<String, String> = given
            .into_iter()
            .filter(|(name, _)| of_client(name))
            .map(|(name, value)| (name, value.to_owned()))
            .collect();
        if timeout.is_some() {
            let text = humantime::format_duration(patience.timeout).to_string();
            client.insert("timeout".to_owned(), text);
        }
        Ok(Self { client, limits: limits.check()?, patience, names_requests, verify_reads })
    }
}

/// The options, keys in lower case, and those of the environment that they do not override.
pub(super) fn with_environment(options: &StorageOptions) -> StorageOptions {
    let given = options.iter().map(|(key, value)| (key.to_ascii_lowercase(), value.clone()));
    environment().chain(given).collect()
}

/// Variables of the environment that may be options, names in lower case.
pub(super) fn environment() -> impl Iterator<Item = (String, String)> {
    std::env::vars_os().filter_map(|(key, value)| {
        let key = key.into_string().ok().filter(|k| ENVIRONMENT.iter().any(|p| k.starts_with(p)))?;
        Some((key.to_ascii_lowercase(), value.into_string().ok()?))
    })
}

/// The options with keys in lower case.
fn normal(options: &StorageOptions) -> Result<BTreeMap<String, &str>> {
    let mut normal: BTreeMap<String, &str> = BTreeMap::new();
    for (name, value) in options {
        if normal.insert(name.to_ascii_lowercase(), value).is_some_and(|other| other != value) {
            return Err(Error::invalid_input(format!(
                "Storage option {:?} is given twice, with different values",
                name.to_ascii_lowercase()
            )));
        }
    }
    Ok(normal)
}

/// The value of a setting that has several names.
fn one_of<'a>(
    given: &BTreeMap<String, &'a str>,
    names: &[&'static str],
) -> Result<Option<(&'static str, &'a str)>> {
    let mut found: Option<(&'static str, &'a str)> = None;
    for name in names {
        let Some(value) = given.get(*name) else { continue };
        match found {
            Some((other, same)) if same != *value => return Err(contradiction(other, name)),
            _ => found = Some((*name, *value)),
        }
    }
    Ok(found)
}

/// Two options that cannot both hold.
pub(super) fn contradiction(left: &str, right: &str) -> Error {
    let (first, second) = if left < right { (left, right) } else { (right, left) };
    Error::invalid_input(format!("Storage options {first:?} and {second:?} contradict each other"))
}

fn check_name(name: &str) -> Result<()> {
    if known().any(|known| known == name) {
        return Ok(());
    }
    let nearest = known().map(|known| (edit_distance(name, &known), known)).min();
    let hint = match nearest {
        Some((distance, known)) if distance <= 2 + name.len() / 8 => format!(", did you mean {known:?}?"),
        _ => "; see the storage options of the reference, and max_requests_in_flight, max_bytes_in_flight"
            .to_owned(),
    };
    Err(Error::invalid_input(format!("Unknown storage option: found {name:?}{hint}")))
}

/// Errors: `InvalidInput` for a setting that is yes or no and has another value.
pub(super) fn check_flag(name: &str, value: &str) -> Result<()> {
    let prefixes = BY_PREFIX.iter().map(|(prefix, _)| *prefix).chain([""]);
    let mut names = prefixes.filter_map(|prefix| name.strip_prefix(prefix));
    let is_either = |value: &str| YES.iter().chain(&NO).any(|either| value.eq_ignore_ascii_case(either));
    if names.any(|name| FLAGS.contains(&name)) && !is_either(value) {
        return Err(invalid(name, value, "\"true\" or \"false\""));
    }
    Ok(())
}

fn invalid(name: &str, text: &str, expected: &str) -> Error {
    Error::invalid_input(format!("Storage option {name:?}: found {text:?}, expected {expected}"))
}

fn number<T: FromStr>(name: &str, text: &str) -> Result<T> {
    text.trim().parse().map_err(|_| invalid(name, text, "a number that is not negative"))
}

fn positive(name: &str, text: &str) -> Result<usize> {
    number(name, text)
        .ok()
        .filter(|number| *number > 0)
        .ok_or_else(|| invalid(name, text, "a number from 1 on"))
}

/// Seconds, or a number with a unit.
fn duration(name: &str, text: &str) -> Result<Duration> {
    let seconds = text.trim().parse().map(Duration::from_secs).ok();
    let found = seconds.or_else(|| humantime::parse_duration(text.trim()).ok());
    found
        .filter(|found| !found.is_zero())
        .ok_or_else(|| invalid(name, text, "seconds, or a time such as \"30s\""))
}

#[cfg(test)]
mod tests {
    use pennon_core::ErrorKind;

    use super::*;

    fn options(pairs: &[(&str, &str)]) -> StorageOptions {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    fn settings(pairs: &[(&str, &str)]) -> Result<Settings> {
        Settings::of(&options(pairs), RequestLimits::default())
    }

    fn refused(pairs: &[(&str, &str)]) -> String {
        let error = settings(pairs).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput, "{pairs:?}");
        error.to_string()
    }

    #[test]
    fn names_are_known_or_refused_with_the_nearest_one() {
        for (name, nearest) in [
            ("aws_acces_key_id", "aws_access_key_id"),
            ("AWS_ENDPIONT", "aws_endpoint"),
            ("client_max_retry", "client_max_retries"),
            ("azure_storage_acount_name", "azure_storage_account_name"),
            ("max_request_in_flight", "max_requests_in_flight"),
        ] {
            let text = refused(&[(name, "x")]);
            assert!(text.contains(&format!("{nearest:?}")), "{text}");
            assert!(text.contains(&name.to_ascii_lowercase()), "{text}");
        }
        let text = refused(&[("colour", "blue")]);
        assert!(!text.contains("did you mean"), "{text}");
        // One dictionary for stores of all kinds.
        let shared =
            [("aws_region", "eu"), ("account_name", "a"), ("google_base_url", "b"), ("Allow_HTTP", "true")];
        assert_eq!(settings(&shared).unwrap().client.get("allow_http").map(String::as_str), Some("true"));
        assert!(!settings(&shared).unwrap().names_requests);
    }

    #[test]
    fn requests_have_settings() {
        let settings = settings(&[
            ("client_max_retries", "3"),
            ("client_retry_timeout", "7"),
            ("request_timeout", "1500ms"),
            ("timeout", "1500ms"),
            ("download_retry_count", "4"),
            ("max_requests_in_flight", "5"),
            ("max_bytes_in_flight", "6000"),
        ])
        .unwrap();
        assert_eq!(settings.limits, RequestLimits { requests: 5, bytes: 6000 });
        let patience = Patience {
            client_retries: 3,
            client_time: Duration::from_secs(7),
            timeout: Duration::from_millis(1500),
            read_retries: 4,
            write_retries: 1,
        };
        assert_eq!(settings.patience, patience);
        assert_eq!(settings.patience.of_client(), Duration::from_millis(8500));
        assert_eq!(settings.client.get("timeout").map(String::as_str), Some("1s 500ms"));
        assert!(settings.names_requests && !settings.client.contains_key("request_timeout"));
    }

    #[test]
    fn values_are_checked() {
        for (name, value) in [
            ("max_requests_in_flight", "0"),
            ("max_bytes_in_flight", "0"),
            ("max_bytes_in_flight", "-1"),
            ("client_max_retries", "many"),
            ("request_timeout", "soon"),
            ("timeout", "0"),
            ("allow_http", "yess"),
            ("google_skip_signature", ""),
            ("azure_storage_use_emulator", "2"),
        ] {
            let text = refused(&[(name, value)]);
            assert!(text.contains(name) && text.contains(&format!("{value:?}")), "{text}");
        }
        let text = refused(&[("timeout", "1s"), ("request_timeout", "2s")]);
        assert!(text.contains("contradict"), "{text}");
        settings(&[("allow_http", "Yes"), ("aws_s3_express", "OFF"), ("use_emulator", "n")]).unwrap();
        refused(&[("aws_region", "a"), ("AWS_REGION", "b")]);
        settings(&[("aws_region", "a"), ("AWS_REGION", "a")]).unwrap();
        for limits in [RequestLimits { requests: 0, bytes: 1 }, RequestLimits { requests: 1, bytes: 0 }] {
            let error = Settings::of(&StorageOptions::new(), limits).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error}");
        }
    }

    /// A name that a client reads is a name that is known.
    #[cfg(all(feature = "aws", feature = "azure", feature = "gcp"))]
    #[test]
    fn names_are_those_of_the_clients() {
        use object_store::aws::AmazonS3ConfigKey;
        use object_store::azure::AzureConfigKey;
        use object_store::gcp::GoogleConfigKey;
        let own = [&DYNAMODB_ENDPOINT, &VERIFY_READS];
        let others: Vec<&str> = REQUESTS.iter().chain(&OTHERS).chain(own).copied().collect();
        for name in known().filter(|name| !others.contains(&name.as_str())) {
            // `azure_storage_` is a prefix of some names only, and some have no short form.
            let is_known = AmazonS3ConfigKey::from_str(&name).is_ok()
                || AzureConfigKey::from_str(&name).is_ok()
                || GoogleConfigKey::from_str(&name).is_ok();
            assert!(is_known, "{name}");
        }
        for flag in FLAGS {
            assert!(known().any(|name| name == flag), "{flag}");
        }
        assert!(AzureConfigKey::from_str("bearer_token").is_ok());
        assert!(AmazonS3ConfigKey::from_str("aws_endpoint_url_s3").is_ok());
    }
}
