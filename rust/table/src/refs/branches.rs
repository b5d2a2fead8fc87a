//! Branches: one JSON file each under `_refs/branches`, the commits under `tree/<branch>`.
//!
//! The file is written before the first manifest of the branch, and removed before its files: a name is taken by
//! exactly one of several callers, and a version that a branch is being made of is protected from cleanup. Its entries in an
//! external manifest store, if there is one, are forgotten last: a deletion that was cut short can be repeated as long as
//! anything is left.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use futures::FutureExt;
use pennon_core::error::ResultExt;
use pennon_core::schema::Metadata;
use pennon_core::{Error, ErrorKind, Result, Version};
use percent_encoding::{AsciiSet, CONTROLS, utf8_percent_encode};
use serde::{Deserialize, Serialize};
use tracing::warn;

use super::clones::{KnownClone, known_clones};
use super::{RefOrder, Tags, check_ascii, check_name, from_json, main_store, name_of, to_json};
use crate::runtime::{utc_now, uuid};
use crate::session::Session;
use crate::store::{Durability, Store};
use crate::versions::snapshot::Snapshot;
use crate::versions::{MAIN, locate};

const BRANCHES: &str = "_refs/branches";
/// Folders of a branch; what else lies below `tree/<branch>` belongs to branches of longer names.
const FOLDERS: [&str; 8] =
    ["_versions", "_transactions", "_deletions", "_indices", "data", "_seals", "_damaged", "_refs"];
/// In file names `/` is encoded, as the reference has it.
const ENCODED: &AsciiSet = &CONTROLS.add(b'/');

/// What the file of a branch says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Branch {
    /// Branch it was made from, `None` for main.
    pub parent_branch: Option<String>,
    /// Version of the parent it was made from.
    pub parent_version: Version,
    /// For each step from main: the version that was branched off, and a random text of 32 hex digits. Branches made
    /// from a branch have its steps before their own.
    pub identifier: Vec<(u64, String)>,
    /// When it was made, in seconds since 1970.
    pub created_at: u64,
    /// Size in bytes of the manifest it was made from.
    pub manifest_size: u64,
    /// Free text by key.
    pub metadata: Metadata,
}

/// The branches of a table.
#[derive(Debug, Clone)]
pub struct Branches {
    snapshot: Arc<Snapshot>,
    durability: Durability,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct BranchFile {
    #[serde(default, alias = "parent_branch")]
    parent_branch: Option<String>,
    #[serde(default)]
    identifier: Identifier,
    #[serde(alias = "parent_version")]
    parent_version: u64,
    #[serde(default, alias = "create_at", alias = "createdAt")]
    create_at: u64,
    #[serde(default, alias = "manifest_size")]
    manifest_size: u64,
    #[serde(default)]
    metadata: Metadata,
}

#[derive(Debug, Default, Serialize, Deserialize)]
struct Identifier {
    #[serde(default)]
    version_mapping: Vec<(u64, String)>,
}

impl Branches {
    pub(crate) fn of(snapshot: Arc<Snapshot>, durability: Durability) -> Self {
        Self { snapshot, durability }
    }

    /// All branches by name; main is none of them.
    pub async fn list(&self) -> Result<BTreeMap<String, Branch>> {
        list(main_store(&self.snapshot)?.as_ref()).await
    }

    /// All branches ordered by the version they were made from, then name.
    pub async fn list_ordered(&self, order: RefOrder) -> Result<Vec<(String, Branch)>> {
        let mut branches: Vec<_> = self.list().await?.into_iter().collect();
        match order {
            RefOrder::Asc => branches.sort_by_key(|(_, branch)| branch.parent_version),
            RefOrder::Desc => branches.sort_by_key(|(_, branch)| std::cmp::Reverse(branch.parent_version)),
        }
        Ok(branches)
    }

    /// Removes a branch with its versions and files, or what a deletion that was cut short left of one.
    ///
    /// Errors: `NotFound`; `InvalidInput` for main; `AlreadyExists` if tags, other branches or shallow clones refer to
    /// it, or if this handle is on it.
    pub async fn delete(&self, name: &str) -> Result<()> {
        check_branch(name)?;
        let store = main_store(&self.snapshot)?;
        if self.snapshot.manifest.branch.as_deref() == Some(name) {
            return Err(in_use(name, "this handle is on it"));
        }
        refuse_links(&store, name)?;
        let found = match read(&store, name).await {
            Ok(found) => Some(found),
            // A deletion that was cut short leaves files, or entries of a manifest store, without a name.
            Err(error) if error.is_not_found() => None,
            Err(error) => return Err(error),
        };
        let Some(found) = found else {
            return match self.delete_versions(&store, name).await? {
                false => Err(missing(name)),
                true => Ok(()),
            };
        };
        self.check_unused(&store, name, &found).await?;
        store.delete_durably(&path(name), self.durability).await?;
        // Whoever makes a branch or a clone of it looks for its name once that is made: what does not show here finds none.
        if let Err(error) = self.check_unused(&store, name, &found).await {
            store.put(&path(name), to_json(&found.file())?, self.durability).await?;
            return Err(error);
        }
        self.delete_versions(&store, name).await.map(drop)
    }

    /// Errors: `AlreadyExists` for tags, branches and shallow clones that refer to a branch.
    async fn check_unused(&self, store: &Store, name: &str, found: &Branch) -> Result<()> {
        let tags = Tags::of(Arc::clone(&self.snapshot), self.durability).list().await?;
        let tagged: Vec<_> = tags
            .iter()
            .filter(|(_, tag)| tag.branch.as_deref() == Some(name))
            .map(|(tag, at)| format!("{tag} ({})", at.version))
            .collect();
        if !tagged.is_empty() {
            return Err(in_use(name, &format!("tags refer to it: {}", tagged.join(", "))));
        }
        let children: Vec<_> = list(store)
            .await?
            .into_iter()
            .filter(|(other, branch)| other != name && branch.descends_from(name, found))
            .map(|(other, branch)| format!("{other} ({})", branch.parent_version))
            .collect();
        if !children.is_empty() {
            return Err(in_use(name, &format!("branches were made from it: {}", children.join(", "))));
        }
        self.check_no_clones(store, name).await
    }

    /// Errors: `AlreadyExists` for a shallow clone that was made of the branch by Pennon, and is there, or cannot be
    /// reached.
    async fn check_no_clones(&self, main: &Store, name: &str) -> Result<()> {
        let branch = branch_store(main, self.snapshot.session(), name)?;
        for KnownClone { address, record } in known_clones(&branch).await? {
            let versions = match self.snapshot.session().open_store(&address, branch.options()) {
                Ok(clone) => locate::list(&clone).await,
                Err(error) => Err(error),
            };
            let why = match versions {
                Ok(versions) if versions.is_empty() => continue,
                Ok(_) => format!("the shallow clone {address} was made of it ({record})"),
                Err(error) => {
                    format!(
                        "the shallow clone {address} that was made of it cannot be reached ({record}): {error}"
                    )
                }
            };
            return Err(in_use(name, &why));
        }
        Ok(())
    }

    /// Removes the files of a branch, then its entries in the manifest store; whether there was anything.
    async fn delete_versions(&self, main: &Store, name: &str) -> Result<bool> {
        let files = delete_branch_files(main, name).await?;
        // After the manifests: a reader that finds a manifest without an entry adds the entry.
        let branch = branch_store(main, self.snapshot.session(), name)?;
        Ok(forget(&branch).await? || files > 0)
    }

    /// Gives a branch other metadata. Errors: `NotFound`.
    pub async fn replace_metadata(&self, name: &str, metadata: Metadata) -> Result<()> {
        let store = main_store(&self.snapshot)?;
        let branch = Branch { metadata, ..read(&store, name).await? };
        store.put(&path(name), to_json(&branch.file())?, self.durability).await
    }

    /// Takes a name for a branch that is about to be made from this version; gives what its file says.
    ///
    /// Errors: `InvalidInput` for the name, `AlreadyExists`, `Unsupported` on a store that overwrites.
    pub(crate) async fn claim(&self, name: &str) -> Result<Branch> {
        check_branch(name)?;
        check_ascii(name)?;
        let store = main_store(&self.snapshot)?;
        let mut identifier = match &self.snapshot.manifest.branch {
            Some(parent) => read(&store, parent).await?.identifier,
            None => Vec::new(),
        };
        let version = self.snapshot.version();
        identifier.push((version.0, uuid().simple().to_string()));
        let branch = Branch {
            parent_branch: self.snapshot.manifest.branch.clone(),
            parent_version: version,
            identifier,
            created_at: u64::try_from(utc_now().timestamp()).unwrap_or(0),
            manifest_size: self.snapshot.source().size,
            metadata: Metadata::new(),
        };
        let (session, file) = (self.snapshot.session(), to_json(&branch.file())?);
        match super::create(&store, session, &path(name), file, self.durability).await {
            Ok(true) => Ok(branch),
            // A client sends a put again when an answer gets lost, and finds what the first one has written.
            Ok(false) if is_claim(&store, name, &branch).await => Ok(branch),
            Ok(false) => {
                Err(Error::already_exists(format!("Ref conflict error: branch {name} already exists")))
            }
            Err(error) if error.kind() == ErrorKind::Store => {
                Err(error
                    .at(format!("branch {name:?} was not made. If it is listed, delete it, then create it")))
            }
            Err(error) => Err(error),
        }
    }

    /// Gives back a name that was taken in vain, unless another branch has it by now. A failure is only logged: what went
    /// wrong before matters more.
    pub(crate) async fn give_back(&self, name: &str, claimed: &Branch) {
        let give_back = async {
            let store = main_store(&self.snapshot)?;
            match is_claim(&store, name, claimed).await {
                true => store.delete(&path(name)).await,
                false => Ok(()),
            }
        };
        if let Err(error) = give_back.await {
            warn!(branch = name, %error, "the name of a branch that was not made is still taken: delete the branch");
        }
    }
}

impl Branch {
    fn descends_from(&self, name: &str, ancestor: &Self) -> bool {
        let by_identifier = !ancestor.identifier.is_empty()
            && self.identifier.len() > ancestor.identifier.len()
            && self.identifier.starts_with(&ancestor.identifier);
        by_identifier || self.parent_branch.as_deref() == Some(name)
    }

    /// The error of a version before those of this branch.
    fn begins_later(&self, name: &str, version: Version) -> Error {
        let (parent, first) = (self.parent_branch.as_deref().unwrap_or(MAIN), self.parent_version);
        Error::not_found(format!(
            "There is no version {version} of branch {name}: it begins at version {first} of {parent}, where earlier \
             versions are"
        ))
    }

    fn file(&self) -> BranchFile {
        BranchFile {
            parent_branch: self.parent_branch.clone(),
            identifier: Identifier { version_mapping: self.identifier.clone() },
            parent_version: self.parent_version.0,
            create_at: self.created_at,
            manifest_size: self.manifest_size,
            metadata: self.metadata.clone(),
        }
    }
}

/// What tells a branch from others of its name; `None` for main, and for files of a branch without a name, which may go.
pub(crate) type Owner = Option<Vec<(u64, String)>>;

/// The branch of a version.
pub(crate) async fn owner(snapshot: &Snapshot) -> Result<Owner> {
    let Some(branch) = &snapshot.manifest.branch else { return Ok(None) };
    match read(&*main_store(snapshot)?, branch).await {
        Ok(branch) => Ok(Some(branch.identifier)),
        Err(error) if error.is_not_found() => Ok(None),
        Err(error) => Err(error),
    }
}

/// Where a branch lies below the main table.
pub(super) fn tree(branch: &str) -> String {
    format!("tree/{branch}")
}

/// The store of a branch. Errors: `InvalidInput` for its name.
pub(crate) fn branch_store(main: &Store, session: &Session, branch: &str) -> Result<Arc<Store>> {
    check_branch(branch)?;
    session.store(main, &main.below(&tree(branch)))
}

/// The error of a version that was not found, which names the branch if the table is one, and says so if that begins later.
pub(crate) async fn explain_missing(store: &Store, version: Version, error: Error) -> Error {
    if !error.is_not_found() || version == Version(0) {
        return error;
    }
    match of_store(store).await {
        Some((name, branch)) if version < branch.parent_version => branch.begins_later(&name, version),
        Some((name, _)) => error.at(format!("branch {name}")),
        None => error,
    }
}

/// The error of a version before those of a branch; `None` if the table is not a branch, or begins with that version or an
/// earlier one.
pub(crate) async fn before_branch(store: &Store, version: Version) -> Option<Error> {
    let (name, branch) = of_store(store).await?;
    (version < branch.parent_version).then(|| branch.begins_later(&name, version))
}

/// What a table is a branch of, by its address: its name, and its file in the main table. `None` for a table that is no
/// branch, or cannot be looked up.
async fn of_store(store: &Store) -> Option<(String, Branch)> {
    let address = store.absolute_uri();
    let (address, _) = address.split_once('?').unwrap_or((address, ""));
    let address = address.trim_end_matches('/');
    for (at, before) in address.rmatch_indices("/tree/") {
        let name = address.get(at + before.len()..)?;
        let Some(main) = store.above(&tree(name)) else { continue };
        let Ok(main) = Store::open(&main, store.options()) else { continue };
        if let Ok(branch) = read(&main, name).await {
            return Some((name.to_owned(), branch));
        }
    }
    None
}

/// Refuses a branch behind a symbolic link, of which nothing may be removed. Errors: `Unsupported`.
pub(crate) fn refuse_links(main: &Store, branch: &str) -> Result<()> {
    let folders = FOLDERS.map(|folder| format!("{}/{folder}", tree(branch)));
    main.refuse_links(folders.iter().map(String::as_str))
}

/// Forgets the versions of all branches in an external manifest store: those that have a name, and those that only have
/// files, as after a deletion that was cut short.
pub(crate) async fn forget_branches(main: &Store) -> Result<()> {
    if main.external().is_none() {
        return Ok(());
    }
    let (named, files) = futures::try_join!(main.list(BRANCHES), main.list_below("tree"))?;
    let named = named.iter().filter_map(|file| file.strip_suffix(".json")).map(name_of);
    let named = named.collect::<BTreeSet<_>>();
    // A segment of a name may be that of a folder: each reading of a path is tried.
    let with_files = files.iter().filter_map(|file| file.path.strip_prefix("tree/")).flat_map(|path| {
        path.match_indices('/').filter_map(move |(at, _)| {
            let (branch, rest) = path.split_at_checked(at)?;
            let folder = rest.trim_start_matches('/').split('/').next()?;
            (FOLDERS.contains(&folder) || folder.starts_with("_manifests.")).then(|| branch.to_owned())
        })
    });
    let branches: BTreeSet<String> = named.into_iter().chain(with_files).collect();
    for branch in branches.iter().filter(|branch| check_branch(branch).is_ok()) {
        let branch = Store::open(&main.below(&tree(branch)), main.options())?;
        forget(&branch).await?;
    }
    Ok(())
}

/// Forgets the versions of a branch in its manifest store; whether that had any.
async fn forget(branch: &Store) -> Result<bool> {
    let Some(external) = branch.external() else { return Ok(false) };
    let is_known = external.store.latest(&external.table).await?.is_some();
    external.store.forget(&external.table).await?;
    Ok(is_known)
}

/// Removes what lies in the folders of a branch; the number of files.
async fn delete_branch_files(main: &Store, branch: &str) -> Result<usize> {
    let mut count = 0;
    // Versions first: no manifest may be left without the files it refers to.
    for folder in FOLDERS {
        let files = main.list_below(&format!("{}/{folder}", tree(branch))).await?;
        count += files.len();
        crate::runtime::gather(files.iter().map(|file| main.delete(&file.path).boxed()).collect()).await?;
    }
    Ok(count)
}

async fn list(main: &Store) -> Result<BTreeMap<String, Branch>> {
    let read = |file: String| async move {
        let name = name_of(&file);
        read(main, &name).await.map(|branch| (name, branch))
    };
    Ok(super::list(main, BRANCHES, read).await?.into_iter().collect())
}

async fn read(main: &Store, name: &str) -> Result<Branch> {
    check_branch(name).map_err(|_| missing(name))?;
    let path = path(name);
    let bytes = match main.get(&path).await {
        Ok(bytes) => bytes,
        Err(error) if error.is_not_found() => return Err(missing(name)),
        Err(error) => return Err(error),
    };
    let file: BranchFile = from_json("a branch", &bytes).in_file(|| main.full_path(&path))?;
    Ok(Branch {
        parent_branch: file.parent_branch,
        parent_version: Version(file.parent_version),
        identifier: file.identifier.version_mapping,
        created_at: file.create_at,
        manifest_size: file.manifest_size,
        metadata: file.metadata,
    })
}

/// Whether the file of a branch is the one that was written for this claim.
async fn is_claim(main: &Store, name: &str, claimed: &Branch) -> bool {
    read(main, name).await.is_ok_and(|found| found.identifier == claimed.identifier)
}

pub(super) fn path(name: &str) -> String {
    format!("{BRANCHES}/{}.json", utf8_percent_encode(name, ENCODED))
}

fn missing(name: &str) -> Error {
    Error::not_found(format!("Ref not found error: Branch {name} does not exist"))
}

fn in_use(name: &str, why: &str) -> Error {
    Error::already_exists(format!("Ref conflict error: Branch {name} cannot be deleted: {why}"))
}

/// Errors: `InvalidInput` "Ref is invalid: ..." (table format 11.3).
fn check_branch(name: &str) -> Result<()> {
    if name == MAIN {
        return Err(Error::invalid_input(
            "Ref is invalid: \"main\" is the default branch: use a different branch name",
        ));
    }
    if name.is_empty() {
        return Err(Error::invalid_input("Ref is invalid: a branch name cannot be empty"));
    }
    name.split('/').try_for_each(|segment| check_name(segment, "a segment of a branch name"))
}
