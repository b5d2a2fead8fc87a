//! Cleanup after commits, as the table's config says (table format 11.2).

use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use pennon_core::schema::Metadata;
use pennon_core::{Error, Result};
use tracing::warn;

use super::CleanupOptions;
use crate::versions::snapshot::Snapshot;

const PREFIX: &str = "lance.auto_cleanup.";

/// What the config of a table says.
#[derive(Debug, Clone, PartialEq, Eq)]
struct AutoCleanup {
    interval: u64,
    options: CleanupOptions,
}

/// Cleans up if it is time to. The commit is done already: a failure of the cleanup does not fail it.
pub(crate) fn after_commit(snapshot: Arc<Snapshot>) -> BoxFuture<'static, ()> {
    let clean = async move {
        if let Ok(Some(auto)) = parse(&snapshot.manifest.config)
            && auto.interval > 0
            && snapshot.version().0.is_multiple_of(auto.interval)
            && let Err(error) = super::run(&snapshot, &auto.options).await
        {
            warn!(
                path = snapshot.store.root(),
                version = snapshot.version().0,
                %error,
                "the automatic cleanup after a commit failed"
            );
        }
    };
    clean.boxed()
}

/// The settings; `None` without an interval. Errors: `InvalidInput` naming the key.
fn parse(config: &Metadata) -> Result<Option<AutoCleanup>> {
    let number = |name: &str| {
        let key = format!("{PREFIX}{name}");
        let parse = |text: &String| {
            let number = text.parse::<u64>();
            number.map_err(|e| Error::invalid_input(format!("{key} is {text:?}: {e}")).with_source(e))
        };
        config.get(&key).map(parse).transpose()
    };
    let Some(interval) = number("interval")? else { return Ok(None) };
    let older_than = config.get(&format!("{PREFIX}older_than")).map(|text| duration(text)).transpose()?;
    let retain_versions = number("retain_versions")?;
    if retain_versions == Some(0) {
        return Err(Error::invalid_input(format!("{PREFIX}retain_versions is 0, expected at least 1")));
    }
    // Without any condition everything but the newest version would go.
    let default = CleanupOptions::default();
    let older_than = if retain_versions.is_some() { older_than } else { older_than.or(default.older_than) };
    // The version before the new one is kept, as with the reference: the writer of the new one has just read it.
    let retain_versions = Some(retain_versions.unwrap_or(2).max(2));
    let options = CleanupOptions {
        older_than,
        retain_versions,
        delete_rate_limit: number("delete_rate_limit")?,
        delete_concurrency: number("delete_concurrency")?,
        error_if_tagged_old_versions: false,
        ..default
    };
    Ok(Some(AutoCleanup { interval, options }))
}

/// Numbers with units that follow one another, such as `14days` or `1h 30m`, as the reference reads them.
fn duration(text: &str) -> Result<Duration> {
    humantime::parse_duration(text.trim()).map_err(|error| {
        Error::invalid_input(format!("{PREFIX}older_than is {text:?}, not a duration: {error}"))
            .with_source(error)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations() {
        for (text, seconds) in [
            ("0s", 0),
            ("14days", 14 * 86_400),
            ("1h 30m", 5_400),
            ("2weeks 3days", 17 * 86_400),
            ("1209600s", 1_209_600),
            ("1500ms", 1),
            ("1.5h", 5_400),
        ] {
            assert_eq!(duration(text).unwrap().as_secs(), seconds, "{text}");
        }
        for text in ["", "5", "s", "-1s", "1 parsec", "99999999999999999999s"] {
            duration(text).unwrap_err();
        }
    }

    #[test]
    fn settings() {
        let config = |pairs: &[(&str, &str)]| -> Metadata {
            pairs.iter().map(|(key, value)| (format!("{PREFIX}{key}"), (*value).to_owned())).collect()
        };
        assert_eq!(parse(&config(&[("older_than", "1s")])).unwrap(), None);
        let parsed = |pairs: &[(&str, &str)]| parse(&config(pairs)).unwrap().unwrap();
        let auto = parsed(&[("interval", "3")]);
        assert_eq!((auto.interval, auto.options.older_than), (3, CleanupOptions::default().older_than));
        let auto = parsed(&[("interval", "20"), ("retain_versions", "5"), ("delete_rate_limit", "100")]);
        assert_eq!(auto.options.older_than, None);
        assert_eq!((auto.options.retain_versions, auto.options.delete_rate_limit), (Some(5), Some(100)));
        for bad in ["interval", "retain_versions", "delete_rate_limit", "delete_concurrency", "older_than"] {
            let mut pairs = vec![("interval", "1")];
            pairs.push((bad, "abc"));
            assert!(parse(&config(&pairs)).unwrap_err().to_string().contains(bad), "{bad}");
        }
    }
}
