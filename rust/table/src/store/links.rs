//! Symbolic links in the directory of a local table.
//!
//! Reads follow them, and new files may be written behind a link to a directory. Nothing is removed behind one: whoever
//! hands over a table could have made `data` a link to the data of another.

use std::path::Path;

use pennon_core::{Error, Result};

use super::{Backend, Store};

/// Refuses a directory that is behind a symbolic link below the root, or is one. Errors: `Unsupported`.
pub(super) fn refuse(root: &Path, directory: &str) -> Result<()> {
    let mut at = root.to_owned();
    for part in directory.split('/') {
        at.push(part);
        if at.is_symlink() {
            return Err(Error::unsupported(format!(
                "{}: a symbolic link. Nothing behind it is removed, since it may belong to another table: put the \
                 directory in its place, or register it as a base path",
                at.display()
            )));
        }
    }
    Ok(())
}

impl Store {
    /// Refuses directories behind symbolic links, in which nothing may be removed. Errors: `Unsupported`.
    pub(crate) fn refuse_links<'a>(&self, directories: impl IntoIterator<Item = &'a str>) -> Result<()> {
        match &self.backend {
            Backend::Local(local) => {
                directories.into_iter().try_for_each(|directory| refuse(local.root(), directory))
            }
            Backend::Object(_) => Ok(()),
        }
    }
}
