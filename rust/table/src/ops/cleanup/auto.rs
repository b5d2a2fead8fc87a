//! Cleanup after commits, as the table's config says (table format 11.2).
//!
//! Settings are checked before they are stored, and when they are read: others may have stored them.
//!
//! | key | value |
//! |---|---|
//! | `lance.auto_cleanup.interval`, `retain_versions`, `delete_rate_limit`, `delete_concurrency` | a whole number |
//! | `lance.auto_cleanup.older_than` | a duration: numbers with units, such as `7d`, `3600s`, `1h 30m` |
//! | `lance.auto_cleanup.referenced_branch` | `true` or `false` |

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
        if let Err(error) = clean_if_due(&snapshot).await {
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

async fn clean_if_due(snapshot: &Arc<Snapshot>) -> Result<()> {
    let Some(auto) = parse(&snapshot.manifest.config)? else { return Ok(()) };
    if auto.interval > 0 && snapshot.version().0.is_multiple_of(auto.interval) {
        super::run(snapshot, &auto.options).await?;
    }
    Ok(())
}

/// Checks a setting; those with other keys are not looked at. Errors: `InvalidInput` naming the key and what was
/// expected.
pub(in crate::ops) fn check(key: &str, value: &str) -> Result<()> {
    let (valid, expected) = match key.strip_prefix(PREFIX) {
        Some("interval" | "delete_rate_limit" | "delete_concurrency") => {
            (number(value).is_some(), "a whole number")
        }
        Some("retain_versions") => {
            (number(value).is_some_and(|count| count > 0), "a whole number, at least 1")
        }
        Some("older_than") => (duration(value).is_some(), "a duration such as 7d or 3600s"),
        Some("referenced_branch") => (value.parse::<bool>().is_ok(), "true or false"),
        _ => return Ok(()),
    };
    if valid {
        return Ok(());
    }
    Err(Error::invalid_input(format!("{key} is {value:?}, expected {expected}")))
}

/// The settings; `None` without an interval. Errors: those of [`check`].
fn parse(config: &Metadata) -> Result<Option<AutoCleanup>> {
    let text = |name: &str| config.get(&format!("{PREFIX}{name}"));
    if text("interval").is_none() {
        return Ok(None);
    }
    for (key, value) in config {
        check(key, value)?;
    }
    let count = |name: &str| text(name).and_then(|value| number(value));
    let older_than = text("older_than").and_then(|value| duration(value));
    let retain_versions = count("retain_versions");
    // Without any condition everything but the newest version would go.
    let default = CleanupOptions::default();
    let older_than = if retain_versions.is_some() { older_than } else { older_than.or(default.older_than) };
    // The version before the new one is kept, as with the reference: the writer of the new one has just read it.
    let retain_versions = Some(retain_versions.unwrap_or(2).max(2));
    let options = CleanupOptions {
        older_than,
        retain_versions,
        delete_rate_limit: count("delete_rate_limit"),
        delete_concurrency: count("delete_concurrency"),
        error_if_tagged_old_versions: false,
        ..default
    };
    Ok(count("interval").map(|interval| AutoCleanup { interval, options }))
}

fn number(text: &str) -> Option<u64> {
    text.parse().ok()
}

/// Numbers with units that follow one another, such as `14days` or `1h 30m`, as the reference reads them.
fn duration(text: &str) -> Option<Duration> {
    humantime::parse_duration(text.trim()).ok()
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
            ("1 month", 2_630_016),
        ] {
            assert_eq!(duration(text).unwrap().as_secs(), seconds, "{text}");
        }
        let wrong = ["", "5", "s", "-1s", "1h,30m", "7 fortnights", "99999999999999999999s"];
        for text in wrong {
            assert_eq!(duration(text), None, "{text}");
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
