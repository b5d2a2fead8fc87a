//! From the text a user gives to the place it means.

use std::path::PathBuf;

use pennon_core::{Error, Result};
use url::Url;

use super::secrets::{check_url, shown};

/// A parsed table address.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Address {
    /// An absolute local path.
    Local(PathBuf),
    /// A name in the process-wide memory store.
    Memory(String),
    /// Anything `object_store` may know.
    Remote(Url),
}

/// Schemes that are understood, for the message.
const SCHEMES: &str = "abfs, abfss, adl, az, azure, file, file-object-store, gs, memory, s3, s3a";

/// Schemes with external manifest stores, and those of other programs.
const OTHER_SCHEMES: &str =
    "cos, dbfs, file+sqlite, gcs, goosefs, hdfs, hf, http, https, oss, s3+ddb, tos, wasb, wasbs";

pub(super) fn parse(uri: &str) -> Result<Address> {
    if uri.is_empty() {
        return Err(Error::invalid_input("The address of the table is empty"));
    }
    // Hadoop writes `file:/path`.
    let hadoop = uri.get(..6).filter(|start| start.eq_ignore_ascii_case("file:/")).and_then(|_| uri.get(5..));
    let (scheme, rest) = match (uri.split_once("://"), hadoop) {
        (Some((scheme, rest)), _) => (scheme.to_ascii_lowercase(), rest),
        (None, Some(path)) => ("file".to_owned(), path),
        (None, None) => {
            return match uri.split_once(':') {
                Some((scheme, path)) if is_scheme(scheme) => Err(without_slashes(scheme, path)),
                _ => local(uri),
            };
        }
    };
    match scheme.as_str() {
        "file" | "file-object-store" => {
            check_fragment(uri, rest)?;
            let url = Url::parse(&format!("file://{rest}")).map_err(|e| invalid(uri, e))?;
            let path = url.to_file_path().map_err(|()| invalid(uri, "a local file URI has no host"))?;
            let path = path.to_str().ok_or_else(|| {
                invalid(uri, format!("found {path:?}, which is not UTF-8, expected percent-encoded UTF-8"))
            })?;
            local(path)
        }
        "memory" => Ok(Address::Memory(rest.trim_matches('/').to_owned())),
        "s3" | "s3a" | "gs" | "az" | "azure" | "adl" | "abfs" | "abfss" => {
            let url = Url::parse(uri).map_err(|e| invalid(uri, e))?;
            check_url(&url)?;
            check_fragment(uri, rest)?;
            Ok(Address::Remote(url))
        }
        _ => Err(Error::invalid_input(format!(
            "No object store provider found for scheme: '{scheme}' in {:?}. Valid schemes: {SCHEMES}",
            shown(uri)
        ))),
    }
}

/// Refuses `#` in a URL: what follows would be dropped, and two addresses be those of one table.
fn check_fragment(uri: &str, rest: &str) -> Result<()> {
    if rest.contains('#') {
        return Err(invalid(uri, "found \"#\", expected none: in a name it is written %23"));
    }
    Ok(())
}

/// Whether a local path that begins with this and a colon is taken for an address with a mistake. Other names may have
/// colons, as `C:` has.
fn is_scheme(text: &str) -> bool {
    let mut known = SCHEMES.split(", ").chain(OTHER_SCHEMES.split(", "));
    known.any(|scheme| scheme.eq_ignore_ascii_case(text))
}

/// Shows nothing but the address that was meant, in which secrets are known.
fn without_slashes(scheme: &str, path: &str) -> Error {
    let slashes = if scheme.to_ascii_lowercase().starts_with("file") { ":///" } else { "://" };
    let meant = format!("{scheme}{slashes}{}", path.trim_start_matches('/'));
    Error::invalid_input(format!(
        "The address of the table begins with {scheme}: without two slashes; expected {:?}. A local path with such a \
         name begins with ./",
        shown(&meant)
    ))
}

/// Splits the address of a file into that of its directory and its name.
pub(super) fn directory_and_name(uri: &str) -> Result<(String, String)> {
    let nameless = || Error::invalid_input(format!("{:?} does not name a file", shown(uri)));
    match parse(uri)? {
        Address::Local(path) => {
            let name = path.file_name().and_then(|name| name.to_str()).ok_or_else(nameless)?;
            let directory = path.parent().and_then(|parent| parent.to_str()).ok_or_else(nameless)?;
            Ok((directory.to_owned(), name.to_owned()))
        }
        Address::Memory(path) => {
            let (directory, name) = path.rsplit_once('/').ok_or_else(nameless)?;
            Ok((format!("memory://{directory}"), name.to_owned()))
        }
        Address::Remote(url) => {
            let name = url.path().rsplit('/').next().filter(|name| !name.is_empty()).ok_or_else(nameless)?;
            let decoded =
                percent_encoding::percent_decode_str(name).decode_utf8().map_err(|e| invalid(uri, e))?;
            let (name, mut directory) = (decoded.into_owned(), url.clone());
            directory.path_segments_mut().map_err(|()| nameless())?.pop();
            Ok((directory.into(), name))
        }
    }
}

/// The address of a directory below another; parameters stay at the end.
pub(super) fn below(uri: &str, path: &str) -> String {
    let (address, parameters) = split_parameters(uri);
    format!("{}/{path}{parameters}", address.trim_end_matches('/'))
}

/// Undoes [`below`]; `None` for an address that does not end like that.
pub(super) fn above(uri: &str, path: &str) -> Option<String> {
    let (address, parameters) = split_parameters(uri);
    let above = address.trim_end_matches('/').strip_suffix(path)?.strip_suffix('/')?;
    Some(format!("{above}{parameters}"))
}

fn split_parameters(uri: &str) -> (&str, &str) {
    let start = uri.find("://").and_then(|_| uri.find('?')).unwrap_or(uri.len());
    uri.split_at_checked(start).unwrap_or((uri, ""))
}

fn local(path: &str) -> Result<Address> {
    let home = || std::env::home_dir().ok_or_else(|| invalid(path, "the home directory is not known"));
    let expanded = match path.strip_prefix('~') {
        Some("") => home()?,
        Some(below) if below.starts_with('/') => home()?.join(below.trim_start_matches('/')),
        _ => PathBuf::from(path),
    };
    let path = std::path::absolute(expanded).map_err(|e| invalid(path, e))?;
    // `absolute` keeps a trailing slash, which would make two names of one table.
    Ok(Address::Local(path.components().collect()))
}

fn invalid(uri: &str, reason: impl std::fmt::Display) -> Error {
    Error::invalid_input(format!("Cannot understand the table address {:?}: {reason}", shown(uri)))
}
