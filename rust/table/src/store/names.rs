//! What a table and its files are called: in messages, in caches, in manifest stores.
//!
//! Invariant: two stores that may differ in what they read, or in what they may read, have different names in caches.
//! An address does not tell: one bucket and path may be at two endpoints, and be read with the credentials of two readers.

use std::collections::BTreeMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::LazyLock;

use pennon_datafile::VerifyReads;

use super::options::with_environment;
use super::{Backend, Store};

/// With a key of this process: nobody can guess options from a digest.
static DIGEST: LazyLock<RandomState> = LazyLock::new(RandomState::new);

impl Store {
    /// The address in its absolute form: equal for all ways of writing a local path.
    pub fn root(&self) -> &str {
        &self.root
    }

    /// The full name of a file, for messages.
    pub fn full_path(&self, path: &str) -> String {
        format!("{}/{path}", self.root)
    }

    /// The path of a file from the root of the store it is in, without a leading slash; the table's for "".
    pub(crate) fn object_path(&self, path: &str) -> String {
        let root = match &self.backend {
            Backend::Local(_) => self.root.trim_start_matches('/').to_owned(),
            Backend::Object(object) => object.prefix().to_owned(),
        };
        if path.is_empty() { root } else { format!("{root}/{path}") }
    }

    /// What a session calls what was read or is open of a path. Local readers differ by the checksums they look at, others
    /// by any option.
    pub(crate) fn reader_name(&self, path: &str) -> String {
        match (&self.backend, self.verify_reads) {
            (Backend::Object(_), _) => {
                format!("{}?options={:016x}", self.full_path(path), self.options_digest())
            }
            (Backend::Local(_), VerifyReads::Metadata) => self.full_path(path),
            (Backend::Local(_), other) => {
                format!("{}?verify_reads={}", self.full_path(path), other.name())
            }
        }
    }

    /// A digest of the options and of what the environment adds to them: equal for stores that are opened alike in this
    /// process.
    pub(crate) fn options_digest(&self) -> u64 {
        *self.digest.get_or_init(|| {
            let sorted: BTreeMap<String, String> = with_environment(&self.options).into_iter().collect();
            DIGEST.hash_one(sorted)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::StorageOptions;
    use super::*;

    fn name(uri: &str, options: &[(&str, &str)]) -> String {
        let options: StorageOptions =
            options.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        Store::open(uri, &options).unwrap().reader_name("data/x")
    }

    #[test]
    fn readers_with_other_options_have_other_names() {
        let named = |options: &[(&str, &str)]| name("memory://names", options);
        let secret = named(&[("aws_secret_access_key", "hush"), ("aws_region", "r")]);
        assert_eq!(secret, named(&[("AWS_REGION", "r"), ("aws_secret_access_key", "hush")]));
        assert!(secret.starts_with("memory://names/data/x") && !secret.contains("hush"), "{secret}");
        for other in [
            vec![],
            vec![("aws_secret_access_key", "hush")],
            vec![("aws_secret_access_key", "other"), ("aws_region", "r")],
            vec![("aws_secret_access_key", "hush"), ("aws_region", "r"), ("timeout", "3s")],
            vec![("aws_secret_access_key", "hush"), ("aws_region", "r"), ("verify_reads", "off")],
        ] {
            assert_ne!(named(&other), secret, "{other:?}");
        }
    }

    #[test]
    fn local_readers_differ_by_checksums_only() {
        let plain = name("/names", &[]);
        assert_eq!(plain, name("/names", &[("aws_region", "r")]));
        assert_ne!(plain, name("/names", &[("verify_reads", "off")]));
    }
}
