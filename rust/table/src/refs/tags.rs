//! Tags: names of versions, one JSON file each under `_refs/tags` (table format 11.3).

use std::collections::BTreeMap;
use std::sync::Arc;

use chrono::{DateTime, Utc};
use pennon_core::manifest::Timestamp;
use pennon_core::schema::Metadata;
use pennon_core::{Error, Result, Version};
use percent_encoding::{CONTROLS, utf8_percent_encode};
use serde::{Deserialize, Serialize};

use super::{
    DateTimeText, RefLocation, RefOrder, begin_restore, check_ascii, check_name, end_intent, from_json,
    main_store, name_of, timestamp, to_json,
};
use crate::runtime::utc_now;
use crate::store::{Durability, Store};
use crate::versions::resolve::newest;
use crate::versions::snapshot::Snapshot;
use crate::versions::{VersionRef, locate};

const TAGS: &str = "_refs/tags";

/// What a tag says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tag {
    /// Branch of the version, `None` for the main one.
    pub branch: Option<String>,
    /// The version it names.
    pub version: Version,
    /// When it was made.
    pub created_at: Option<Timestamp>,
    /// When it was last pointed elsewhere or given other metadata.
    pub updated_at: Option<Timestamp>,
    /// Size in bytes of the version's manifest.
    pub manifest_size: u64,
    /// Free text by key.
    pub metadata: Metadata,
}

/// The tags of a table.
#[derive(Debug, Clone)]
pub struct Tags {
    snapshot: Arc<Snapshot>,
    durability: Durability,
}

/// The file. Older writers used snake case and fewer keys.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct TagFile {
    #[serde(default)]
    branch: Option<String>,
    version: u64,
    #[serde(default, alias = "created_at")]
    created_at: Option<DateTimeText>,
    #[serde(default, alias = "updated_at")]
    updated_at: Option<DateTimeText>,
    #[serde(default, alias = "manifest_size")]
    manifest_size: u64,
    #[serde(default)]
    metadata: Metadata,
}

impl Tags {
    pub(crate) fn of(snapshot: Arc<Snapshot>, durability: Durability) -> Self {
        Self { snapshot, durability }
    }

    /// Reads one tag. Errors: `NotFound`, `Corrupt`.
    pub(crate) async fn read(store: &Store, name: &str) -> Result<Tag> {
        check_name(name, "Ref").map_err(|_| missing(name))?;
        let path = path(name);
        match store.get(&path).await {
            Ok(bytes) => decode(&bytes).map_err(|e| e.in_file(store.full_path(&path))),
            Err(error) if error.is_not_found() => Err(missing(name)),
            Err(error) => Err(error),
        }
    }

    /// Names a version; without a reference, the one this handle is at.
    ///
    /// Errors: `InvalidInput` "Ref is invalid: ..." for the name, `AlreadyExists` for a tag that is there,
    /// `NotFound` for a version or tag that is not, also if a cleanup removed the version meanwhile, a retryable `Conflict`
    /// if one does not end with removing it, `Unsupported` on a store that overwrites.
    pub async fn create(&self, name: &str, reference: Option<VersionRef>) -> Result<()> {
        check_name(name, "Ref")?;
        check_ascii(name)?;
        let now = utc_now();
        let (at, tag) = self.tag(reference, now, now, Metadata::new()).await?;
        let (store, session, file) = (self.store()?, self.snapshot.session(), to_json(&tag)?);
        if !super::create(&store, session, &path(name), file.clone(), self.durability).await? {
            return Err(Error::already_exists(format!("Ref conflict error: tag {name} already exists")));
        }
        let Some(error) = self.version_error(&at, &tag).await else { return Ok(()) };
        if is_stored(&store, name, &file).await {
            store.delete_durably(&path(name), self.durability).await?;
        }
        Err(error)
    }

    /// Points a tag at another version. Errors as for [`Self::create`], `NotFound` for the tag itself.
    pub async fn update(&self, name: &str, reference: Option<VersionRef>) -> Result<()> {
        let store = self.store()?;
        let old = Self::read(&store, name).await?;
        let now = utc_now();
        let created =
            old.created_at.and_then(|at| DateTime::from_timestamp(at.seconds, at.nanos)).unwrap_or(now);
        let (at, tag) = self.tag(reference, created, now, old.metadata.clone()).await?;
        // The old version may be needed again, and has no name meanwhile.
        let branch = VersionRef::Branch(old.branch.clone(), None);
        let location =
            RefLocation::of(&self.snapshot).follow(&store, self.snapshot.session(), branch).await?;
        let old_store = location.store;
        let begun = begin_restore(&old_store, old.version).await?;
        let updated = self.put_new(&store, name, (&at, &tag), &old).await;
        end_intent(&old_store, &begun).await;
        updated
    }

    /// Writes a tag, and the old one again if the version of the new one is gone.
    async fn put_new(
        &self,
        store: &Store,
        name: &str,
        (at, tag): (&Store, &TagFile),
        old: &Tag,
    ) -> Result<()> {
        let new = to_json(tag)?;
        store.put(&path(name), new.clone(), self.durability).await?;
        let Some(error) = self.version_error(at, tag).await else { return Ok(()) };
        if is_stored(store, name, &new).await {
            store.put(&path(name), to_json(&file(old))?, self.durability).await?;
        }
        Err(error)
    }

    /// Removes a tag. Errors: `NotFound`.
    pub async fn delete(&self, name: &str) -> Result<()> {
        Self::read(&*self.store()?, name).await?;
        self.store()?.delete_durably(&path(name), self.durability).await
    }

    /// All tags by name.
    pub async fn list(&self) -> Result<BTreeMap<String, Tag>> {
        let store = self.store()?;
        let store = store.as_ref();
        let read = |file: String| async move {
            let name = name_of(&file);
            Self::read(store, &name).await.map(|tag| (name, tag))
        };
        Ok(super::list(store, TAGS, read).await?.into_iter().collect())
    }

    /// All tags ordered by version, then name.
    pub async fn list_ordered(&self, order: RefOrder) -> Result<Vec<(String, Tag)>> {
        let mut tags: Vec<_> = self.list().await?.into_iter().collect();
        match order {
            RefOrder::Asc => tags.sort_by_key(|(_, tag)| tag.version),
            RefOrder::Desc => tags.sort_by_key(|(_, tag)| std::cmp::Reverse(tag.version)),
        }
        Ok(tags)
    }

    /// The version a tag names. Errors: `NotFound`.
    pub async fn get_version(&self, name: &str) -> Result<Version> {
        Ok(Self::read(&*self.store()?, name).await?.version)
    }

    /// Gives a tag other metadata. Errors: `NotFound`.
    pub async fn replace_metadata(&self, name: &str, metadata: Metadata) -> Result<()> {
        let tag = Tag { metadata, ..Self::read(&*self.store()?, name).await? };
        self.store()?.put(&path(name), to_json(&file(&tag))?, self.durability).await
    }

    fn store(&self) -> Result<Arc<Store>> {
        main_store(&self.snapshot)
    }

    async fn tag(
        &self,
        reference: Option<VersionRef>,
        created: DateTime<Utc>,
        updated: DateTime<Utc>,
        metadata: Metadata,
    ) -> Result<(Arc<Store>, TagFile)> {
        let (store, branch, version) = self.resolve(reference).await?;
        let tag = TagFile {
            manifest_size: self.manifest_size(&store, branch.as_deref(), version).await?,
            branch,
            version: version.0,
            created_at: Some(DateTimeText::of(created)),
            updated_at: Some(DateTimeText::of(updated)),
            metadata,
        };
        Ok((store, tag))
    }

    /// The error of a version that is not there any more: a cleanup, or a deletion of its branch, that did not see the tag may
    /// have removed it.
    async fn version_error(&self, store: &Store, tag: &TagFile) -> Option<Error> {
        let (branch, version) = (tag.branch.as_deref(), Version(tag.version));
        // A cleanup that began later sees the tag.
        if let Err(error) = super::removals_ended(store, version).await {
            return Some(error);
        }
        let is_named = async {
            match branch {
                Some(branch) => super::is_branch(&*self.store()?, branch).await,
                None => Ok(true),
            }
        };
        let (size, is_named) = futures::join!(self.manifest_size(store, branch, version), is_named);
        let is_gone = is_named.is_ok_and(|is_named| !is_named);
        size.err()
            .filter(Error::is_not_found)
            .or_else(|| is_gone.then(|| locate::missing_version(branch, version)))
    }

    async fn resolve(&self, reference: Option<VersionRef>) -> Result<(Arc<Store>, Option<String>, Version)> {
        let mut location = RefLocation::of(&self.snapshot);
        if let Some(reference) = reference {
            location = location.follow(&self.store()?, self.snapshot.session(), reference).await?;
        }
        let version = match location.version {
            Some(version) => version,
            None => newest(&location.store, self.snapshot.session(), None).await?.version(),
        };
        Ok((location.store, location.branch, version))
    }

    async fn manifest_size(&self, store: &Store, branch: Option<&str>, version: Version) -> Result<u64> {
        let found = locate::manifest_size(store, version, self.snapshot.source().scheme).await?;
        found.ok_or_else(|| locate::missing_version(branch, version))
    }
}

/// Whether a tag is what was written, and was not changed by others since.
async fn is_stored(store: &Store, name: &str, written: &[u8]) -> bool {
    store.get(&path(name)).await.is_ok_and(|found| found == written)
}

/// File of a tag; what is not ASCII is percent-encoded there, as the reference has it.
fn path(name: &str) -> String {
    format!("{TAGS}/{}.json", utf8_percent_encode(name, CONTROLS))
}

fn missing(name: &str) -> Error {
    Error::not_found(format!("Ref not found error: tag {name} does not exist"))
}

fn decode(bytes: &[u8]) -> Result<Tag> {
    let file: TagFile = from_json("a tag", bytes)?;
    Ok(Tag {
        branch: file.branch,
        version: Version(file.version),
        created_at: timestamp(file.created_at)?,
        updated_at: timestamp(file.updated_at)?,
        manifest_size: file.manifest_size,
        metadata: file.metadata,
    })
}

fn file(tag: &Tag) -> TagFile {
    let text = |at: Option<Timestamp>| {
        let time = at.and_then(|at| DateTime::from_timestamp(at.seconds, at.nanos))?;
        Some(DateTimeText::of(time))
    };
    TagFile {
        branch: tag.branch.clone(),
        version: tag.version.0,
        created_at: text(tag.created_at),
        updated_at: text(tag.updated_at),
        manifest_size: tag.manifest_size,
        metadata: tag.metadata.clone(),
    }
}
