//! What errors, logs and `Debug` must not show: passwords in addresses, and the values of storage options.

use std::borrow::Cow;
use std::fmt::{Debug, Formatter, Result as FmtResult};

use pennon_core::{Error, Result};
use url::Url;

use super::{StorageOptions, Store};

/// Parameters of addresses whose values anybody may see.
const PUBLIC: [&str; 2] = ["ddbTableName", "db"];

/// An address as it may be shown: without a user with a password, and without the values of parameters.
pub(crate) fn shown(uri: &str) -> Cow<'_, str> {
    let Some((scheme, rest)) = uri.split_once("://") else { return Cow::Borrowed(uri) };
    let (location, parameters) = rest.split_once('?').unwrap_or((rest, ""));
    let authority = location.split(['/', '#']).next().unwrap_or_default();
    let user = authority.rsplit_once('@').map(|(user, _)| user).filter(|user| user.contains(':'));
    if user.is_none() && parameters.is_empty() {
        return Cow::Borrowed(uri);
    }
    let location = match user {
        Some(user) => format!("***{}", location.get(user.len()..).unwrap_or_default()),
        None => location.to_owned(),
    };
    let parameter = |text: &str| match text.split_once('=') {
        Some((name, _)) if PUBLIC.contains(&name) => text.to_owned(),
        Some((name, _)) => format!("{name}=***"),
        None if text.is_empty() => String::new(),
        None => "***".to_owned(),
    };
    let parameters: Vec<String> = parameters.split('&').map(parameter).collect();
    let mark = if rest.contains('?') { "?" } else { "" };
    Cow::Owned(format!("{scheme}://{location}{mark}{}", parameters.join("&")))
}

/// Refuses the URL of a table with what clients do not take from there, and errors would show.
pub(super) fn check_url(url: &Url) -> Result<()> {
    let found = match (url.password(), url.query()) {
        (Some(_), _) => "a password",
        (_, Some(_)) => "parameters",
        (None, None) => return Ok(()),
    };
    Err(Error::invalid_input(format!(
        "Cannot understand the table address {:?}: found {found}, expected none. Credentials are storage options",
        shown(url.as_str())
    )))
}

/// Refuses an endpoint that is not a URL of a server, or shows a password in every error.
#[cfg(any(feature = "aws", feature = "azure", feature = "gcp"))]
pub(super) fn check_endpoint(name: &str, value: &str) -> Result<()> {
    let url = Url::parse(value).ok().filter(|url| url.has_host() && matches!(url.scheme(), "http" | "https"));
    match url {
        Some(url) if url.password().is_none() => Ok(()),
        Some(_) => Err(Error::invalid_input(format!(
            "Storage option {name}: found {:?} with a password, expected an address without one",
            shown(value)
        ))),
        None => Err(Error::invalid_input(format!(
            "Storage option {name}: found {:?}, expected http:// or https:// and a host",
            shown(value)
        ))),
    }
}

/// Shows the names of storage options.
pub(crate) struct Names<'a>(pub(crate) &'a StorageOptions);

impl Debug for Names<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> FmtResult {
        let mut names: Vec<&String> = self.0.keys().collect();
        names.sort_unstable();
        f.debug_set().entries(names).finish()
    }
}

impl Debug for Store {
    fn fmt(&self, f: &mut Formatter<'_>) -> FmtResult {
        f.debug_struct("Store").field("uri", &self.uri).field("options", &Names(&self.options)).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_addresses_show() {
        for (uri, expected) in [
            ("/a/b?c=d", "/a/b?c=d"),
            ("s3://b/t", "s3://b/t"),
            ("s3://u:p@b/t", "s3://***@b/t"),
            ("s3://u:p@w@b/t?sig=x&y", "s3://***@b/t?sig=***&***"),
            ("abfss://container@account/t", "abfss://container@account/t"),
            ("s3+ddb://b/t?ddbTableName=n", "s3+ddb://b/t?ddbTableName=n"),
            ("s3://b/t?", "s3://b/t?"),
            ("s3://b/a@b:c", "s3://b/a@b:c"),
            ("ftp://u:p@", "ftp://***@"),
        ] {
            assert_eq!(shown(uri), expected);
        }
    }

    #[test]
    fn debug_shows_names() {
        let options = StorageOptions::from([("aws_secret_access_key".to_owned(), "hush".to_owned())]);
        let store = Store::open("memory://secrets", &options).unwrap();
        let text = format!(
            "{store:?} {:?}",
            crate::ConnectOptions { storage_options: options, ..Default::default() }
        );
        assert!(text.contains("aws_secret_access_key") && !text.contains("hush"), "{text}");
    }
}
