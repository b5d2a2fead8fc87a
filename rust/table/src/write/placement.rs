//! Where new data files go: below the table's own root, or below base paths in turn (table format 2.6 and 11.4).
//!
//! | the files of | lie in |
//! |---|---|
//! | the table | `data/` below its root |
//! | a base path that is the root of a table | `data/` below it |
//! | another base path | the base path itself |
//!
//! Only data files are placed; deletion files, transactions and manifests always lie below the table's own root.

use std::sync::Arc;

use pennon_core::manifest::{BasePath, DataFile, Fragment};
use pennon_core::{Error, Result};

use super::orphans::remove_files;
use crate::session::Session;
use crate::store::Store;

/// Which roots new data files are written to, one file after the other in turn.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Target {
    /// The table's own.
    #[default]
    Own,
    /// These base paths, each named by its name or its path; the table's own root by its address.
    Bases(Vec<String>),
    /// All base paths that are registered.
    All {
        /// Whether the table's own root comes first.
        with_own: bool,
    },
}

impl Target {
    /// From the options `target_bases` and `target_all_bases`. Errors: `InvalidInput` if both are given.
    pub fn from_options(bases: Option<Vec<String>>, all: Option<bool>) -> Result<Self> {
        match (bases, all) {
            (Some(_), Some(_)) => {
                Err(Error::invalid_input("Cannot specify target_all_bases together with target_bases"))
            }
            (Some(bases), None) => Ok(Self::Bases(bases)),
            (None, Some(with_own)) => Ok(Self::All { with_own }),
            (None, None) => Ok(Self::Own),
        }
    }
}

/// One root.
#[derive(Debug, Clone)]
struct DataRoot {
    base_id: Option<u32>,
    store: Arc<Store>,
    folder: &'static str,
}

/// The roots of one write: at least one.
#[derive(Debug, Clone)]
pub(crate) struct Placement {
    roots: Vec<DataRoot>,
}

impl Placement {
    /// The table's own root.
    pub(crate) fn own(store: Arc<Store>) -> Self {
        Self { roots: vec![DataRoot { base_id: None, store, folder: "data/" }] }
    }

    /// The roots that a target means, of a table with these base paths.
    ///
    /// Errors: `InvalidInput` for a base path that is not registered, or if there is none.
    pub(crate) fn new(
        store: &Arc<Store>,
        session: &Session,
        bases: &[BasePath],
        target: &Target,
    ) -> Result<Self> {
        let mut roots = Vec::new();
        for base in resolve(store, bases, target)? {
            roots.push(match base {
                None => DataRoot { base_id: None, store: Arc::clone(store), folder: "data/" },
                Some(base) => DataRoot {
                    base_id: Some(base.id),
                    store: session.store(store, &base.path)?,
                    folder: if base.is_dataset_root { "data/" } else { "" },
                },
            });
        }
        Ok(Self { roots })
    }

    /// Whether all roots are on local disks.
    pub(super) fn is_local(&self) -> bool {
        self.roots.iter().all(|root| root.store.is_local())
    }

    /// The location of the file of that number: the store, the path there, and the base id.
    pub(super) fn next(&self, number: usize, name: &str) -> Result<(Arc<Store>, String, Option<u32>)> {
        let at = number.checked_rem(self.roots.len()).and_then(|at| self.roots.get(at));
        let root = at.ok_or_else(|| Error::internal("a data file without a root"))?;
        Ok((Arc::clone(&root.store), format!("{}{name}", root.folder), root.base_id))
    }

    /// Where a file that was written is.
    pub(super) fn find(&self, file: &DataFile) -> Option<(&Arc<Store>, String)> {
        let root = self.roots.iter().find(|root| root.base_id == file.base_id)?;
        Some((&root.store, format!("{}{}", root.folder, file.path)))
    }

    /// The paths of files, by the root that they were written to.
    pub(super) fn by_root<'a>(
        &'a self,
        files: &'a [DataFile],
    ) -> impl Iterator<Item = (&'a Arc<Store>, Vec<String>)> {
        self.roots.iter().map(move |root| {
            let files = files.iter().filter(|file| file.base_id == root.base_id);
            (&root.store, files.map(|file| format!("{}{}", root.folder, file.path)).collect())
        })
    }

    /// Removes the data files of fragments that will not be committed; a file that cannot be removed is only an orphan.
    pub(crate) async fn remove(&self, fragments: &[Fragment]) {
        let files = fragments.iter().flat_map(|fragment| &fragment.files);
        let found: Vec<_> = files.filter_map(|file| self.find(file)).collect();
        remove_files(found.iter().map(|(store, path)| (store.as_ref(), path.as_str()))).await;
    }
}

/// The base paths of a target, `None` for the table's own root.
fn resolve<'a>(store: &Store, bases: &'a [BasePath], target: &Target) -> Result<Vec<Option<&'a BasePath>>> {
    let is_own = |name: &str| Store::open(name, store.options()).is_ok_and(|at| at.root() == store.root());
    let trimmed = |path: &str| path.trim_end_matches('/').to_owned();
    let found = match target {
        Target::Own => vec![None],
        Target::Bases(names) if names.is_empty() => vec![None],
        Target::Bases(names) => {
            let find = |name: &String| {
                let by_name = bases.iter().find(|base| base.name.as_ref() == Some(name));
                let by_path = || bases.iter().find(|base| trimmed(&base.path) == trimmed(name));
                let own = || is_own(name).then_some(None);
                by_name.or_else(by_path).map(Some).or_else(own).ok_or_else(|| {
                    let known: Vec<String> = bases.iter().map(display).collect();
                    Error::invalid_input(format!(
                        "Base reference '{name}' not found in available bases: {}",
                        if known.is_empty() { "there are none".to_owned() } else { known.join(", ") }
                    ))
                })
            };
            names.iter().map(find).collect::<Result<_>>()?
        }
        Target::All { with_own } => {
            let mut bases: Vec<&BasePath> = bases.iter().collect();
            bases.sort_by_key(|base| base.id);
            with_own.then_some(None).into_iter().chain(bases.into_iter().map(Some)).collect()
        }
    };
    if found.is_empty() {
        return Err(Error::invalid_input(
            "target_all_bases found no registered bases and the table's own root is left out: register bases with \
             add_bases",
        ));
    }
    Ok(found)
}

fn display(base: &BasePath) -> String {
    match &base.name {
        Some(name) => format!("{name:?} ({})", base.path),
        None => base.path.clone(),
    }
}

/// New base paths as they are registered in a table at `store`: with absolute paths and, from `first` on, with ids.
///
/// Errors: `InvalidInput` for a path that nothing can open, that climbs with `..`, or that lies in the table itself.
pub(crate) fn prepare(bases: &[BasePath], store: &Store, mut next: u32) -> Result<Vec<BasePath>> {
    let mut prepared = Vec::with_capacity(bases.len());
    for base in bases {
        base.check()?;
        let opened = Store::open(&base.path, store.options())
            .map_err(|error| Error::invalid_input(format!("base path {:?}: {error}", base.path)))?;
        let (own, root) = (store.root(), opened.root());
        if root == own || root.strip_prefix(own).is_some_and(|below| below.starts_with('/')) {
            return Err(Error::invalid_input(format!(
                "base path {:?} lies in the table itself, {own}: expected another place",
                base.path
            )));
        }
        let path = if base.path.contains("://") { base.path.clone() } else { root.to_owned() };
        let mut base = BasePath { path, ..base.clone() };
        if base.id == 0 {
            base.id = next;
        }
        next =
            next.max(base.id).checked_add(1).ok_or_else(|| Error::unsupported("all base ids are used up"))?;
        prepared.push(base);
    }
    Ok(prepared)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn base(id: u32, name: Option<&str>, path: &str, is_dataset_root: bool) -> BasePath {
        BasePath { id, name: name.map(str::to_owned), is_dataset_root, path: path.to_owned() }
    }

    #[test]
    fn targets_and_turns() {
        let bases = [base(2, Some("two"), "memory://b/two", true), base(1, None, "memory://b/one/", false)];
        let store = Store::open("memory://placement", &Default::default()).unwrap();
        let session = Session::new(crate::CacheSizes::default());
        let first_paths = |target: Target| {
            let placement = Placement::new(&store, &session, &bases, &target)?;
            let at = |number| {
                let (store, path, id) = placement.next(number, "x").unwrap();
                (store.full_path(&path), id)
            };
            Ok::<_, Error>([at(0), at(1), at(2)].map(|(path, id)| format!("{path} {id:?}")))
        };
        let own = "memory://placement/data/x None";
        let (first, second) = ("memory://b/one/x Some(1)", "memory://b/two/data/x Some(2)");
        let named = |names: &[&str]| Target::Bases(names.iter().map(ToString::to_string).collect());
        assert_eq!(first_paths(Target::Own).unwrap(), [own, own, own]);
        assert_eq!(first_paths(named(&[])).unwrap(), [own, own, own]);
        assert_eq!(first_paths(named(&["two", "memory://b/one"])).unwrap(), [second, first, second]);
        assert_eq!(first_paths(named(&["memory://placement/", "two"])).unwrap(), [own, second, own]);
        assert_eq!(first_paths(Target::All { with_own: true }).unwrap(), [own, first, second]);
        assert_eq!(first_paths(Target::All { with_own: false }).unwrap(), [first, second, first]);
        assert!(first_paths(named(&["three"])).unwrap_err().to_string().contains("\"two\" (memory://b/two)"));
        Placement::new(&store, &session, &[], &Target::All { with_own: false }).unwrap_err();
    }

    #[test]
    fn paths_that_make_no_sense() {
        let store = Store::open("/tables/t", &Default::default()).unwrap();
        let prepared =
            prepare(&[base(0, None, "/bases/b/", false), base(7, None, "memory://x", true)], &store, 3);
        let paths: Vec<_> = prepared.unwrap().into_iter().map(|base| (base.id, base.path)).collect();
        assert_eq!(paths, [(3, "/bases/b".to_owned()), (7, "memory://x".to_owned())]);
        for path in [
            "",
            "/a/../b",
            "..",
            "s3://b/../c",
            "zzz://x",
            "/tables/t",
            "/tables/t/",
            "/tables/t/data",
            "/a\0b",
        ] {
            prepare(&[base(0, None, path, true)], &store, 1).unwrap_err();
        }
        prepare(&[base(0, None, "/tables/t2", true)], &store, 1).unwrap();
    }
}
