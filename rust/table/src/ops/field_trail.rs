//! Which fields of two versions are the same column.
//!
//! The id of a dropped column is given out again once no data file lists it (table format 3.1), as after a compaction
//! of all fragments; an overwrite gives new ids, and a restore goes back to the columns before. A data file that lists
//! the id and is in both versions rules all that out. Otherwise the versions between decide: whether one does not have
//! the column, or was made by an overwrite.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use futures::FutureExt;
use pennon_core::manifest::Manifest;
use pennon_core::schema::{Field, Schema};
use pennon_core::transaction::Operation;
use pennon_core::{FieldId, Result, Version};
use tokio::sync::Mutex;

use crate::scan::{Continuity, NullableFields};
use crate::versions::load;
use crate::versions::snapshot::Snapshot;
use crate::versions::{Located, locate};

/// Columns of one version as they are read from others of the table.
#[derive(Debug)]
pub(super) struct TracedColumns {
    fields: NullableFields,
    shown: Arc<Snapshot>,
    pub(super) trail: FieldTrail,
}

impl TracedColumns {
    /// These top-level columns of a version.
    pub(super) fn new<'a>(shown: &Arc<Snapshot>, columns: impl IntoIterator<Item = &'a Field>) -> Self {
        Self { fields: NullableFields::of(columns), shown: Arc::clone(shown), trail: FieldTrail::default() }
    }

    /// The columns, which may be null at every level.
    pub(super) fn fields(&self) -> &[Field] {
        self.fields.fields()
    }

    /// What can be read of them in a version, with the ids that they have there: `None` for those it does not have with
    /// that type. Reads other versions only where ids and names do not agree.
    pub(super) async fn in_version(&self, version: &Arc<Snapshot>) -> Result<Vec<Option<Field>>> {
        let schema = &version.manifest.schema;
        let ambiguous = self.fields.ambiguous_in(schema);
        let known = if ambiguous.is_empty() {
            Continuity::default()
        } else {
            self.trail.continuity(version, &self.shown, &ambiguous).await?
        };
        Ok(self.fields.in_version(schema, &known))
    }
}

/// What versions of a table did to its fields. Each version is read once at most.
#[derive(Debug, Default)]
pub(super) struct FieldTrail(Mutex<VersionSteps>);

#[derive(Debug, Default)]
struct VersionSteps {
    listed: Option<BTreeMap<Version, Located>>,
    /// `None` for a version that is not there.
    steps: BTreeMap<Version, Option<VersionStep>>,
}

/// The fields of a version, and those of which version they were before.
#[derive(Debug)]
struct VersionStep {
    schema: Arc<Schema>,
    origin: Origin,
}

#[derive(Debug, Clone, Copy)]
enum Origin {
    /// The version before.
    Previous,
    /// One that was restored.
    Restored(Version),
    /// None: it was overwritten, or nothing tells.
    Unknown,
}

impl FieldTrail {
    /// Those of the fields, which both versions have, whose id may be that of another column in the older one.
    pub(super) async fn maybe_reused(
        &self,
        old: &Arc<Snapshot>,
        new: &Arc<Snapshot>,
        fields: BTreeSet<FieldId>,
    ) -> Result<Vec<FieldId>> {
        let mut open = without_shared_file(&old.manifest, &new.manifest, fields);
        if !open.is_empty()
            && let Some(schemas) = self.schemas_between(old, new, false).await?
        {
            open.retain(|&id| !are_with(&schemas, id));
        }
        Ok(open.into_iter().collect())
    }

    /// What is known of these fields of one version in another.
    async fn continuity(
        &self,
        version: &Arc<Snapshot>,
        shown: &Arc<Snapshot>,
        fields: &BTreeSet<FieldId>,
    ) -> Result<Continuity> {
        let schema = &version.manifest.schema;
        let mut open: BTreeSet<FieldId> =
            fields.iter().copied().filter(|&id| schema.field_by_id(id).is_some()).collect();
        let (shares_file, same_id) = in_shared_file(&version.manifest, &shown.manifest, &open);
        open.retain(|id| !same_id.contains(id));
        let mut known = Continuity { same_id, overwritten: false };
        if shares_file && open.is_empty() {
            return Ok(known);
        }
        match self.schemas_between(version, shown, true).await? {
            Some(schemas) => known.same_id.extend(open.into_iter().filter(|&id| are_with(&schemas, id))),
            None => known.overwritten = !shares_file,
        }
        Ok(known)
    }

    /// The schemas of the versions that lead from one to the other; `None` if one of them was made by an overwrite, or is
    /// not there, or is of another branch. A restore leads to the version that it restored, if `through_restores`, else
    /// nowhere.
    async fn schemas_between(
        &self,
        begin: &Arc<Snapshot>,
        end: &Arc<Snapshot>,
        through_restores: bool,
    ) -> Result<Option<Vec<Arc<Schema>>>> {
        let is_apart = begin.store.root() != end.store.root();
        if is_apart || begin.version().is_detached() || end.version().is_detached() {
            return Ok(None);
        }
        let mut steps = self.0.lock().await;
        let mut schemas = Vec::new();
        let (mut low, mut high) = (begin.version().min(end.version()), begin.version().max(end.version()));
        while low != high {
            let Some(step) = steps.get([begin, end], low.next(), high).await? else { return Ok(None) };
            add(&mut schemas, &step.schema);
            let before = match step.origin {
                Origin::Previous => Version(high.0 - 1),
                Origin::Restored(version) if through_restores && version < high => version,
                _ => return Ok(None),
            };
            (low, high) = (low.min(before), low.max(before));
        }
        if low < begin.version().min(end.version()) {
            // Where the two parted.
            let Some(step) = steps.get([begin, end], low, low).await? else { return Ok(None) };
            add(&mut schemas, &step.schema);
        }
        Ok(Some(schemas))
    }
}

impl VersionSteps {
    /// The last one of some versions; `None` if one of them is not there. The others are read with it.
    async fn get(
        &mut self,
        known: [&Arc<Snapshot>; 2],
        first: Version,
        last: Version,
    ) -> Result<Option<&VersionStep>> {
        if !self.steps.contains_key(&last) && !self.load(known, first, last).await? {
            return Ok(None);
        }
        Ok(self.steps.get(&last).and_then(Option::as_ref))
    }

    /// Reads those of some versions that were not read yet; `known` are at hand. Whether all are listed.
    async fn load(&mut self, known: [&Arc<Snapshot>; 2], first: Version, last: Version) -> Result<bool> {
        let all = (first.0..=last.0).map(Version);
        let missing: Vec<Version> = all.filter(|version| !self.steps.contains_key(version)).collect();
        let (at_hand, others): (Vec<_>, Vec<_>) =
            missing.into_iter().partition(|version| known.iter().any(|known| known.version() == *version));
        for snapshot in known.into_iter().filter(|snapshot| at_hand.contains(&snapshot.version())) {
            self.steps.insert(snapshot.version(), Some(VersionStep::of(snapshot).await?));
        }
        if !others.is_empty() {
            let [table, _] = known;
            if self.listed.is_none() {
                let listed = locate::list(&table.store).await?;
                self.listed = Some(listed.into_iter().map(|at| (at.version, at)).collect());
            }
            let listed = self.listed.iter().flatten().map(|(_, at)| at);
            let found: Vec<Located> = listed.filter(|at| others.contains(&at.version)).copied().collect();
            if found.len() < others.len() {
                return Ok(false);
            }
            let versions: Vec<Version> = found.iter().map(|at| at.version).collect();
            let read = found.into_iter().map(|at| VersionStep::read(table, at).boxed()).collect();
            self.steps.extend(versions.into_iter().zip(crate::runtime::gather(read).await?));
        }
        Ok(true)
    }
}

impl VersionStep {
    async fn of(snapshot: &Snapshot) -> Result<Self> {
        let origin = match load::transaction(snapshot).await?.map(|transaction| transaction.operation) {
            None | Some(Operation::Overwrite(_)) => Origin::Unknown,
            Some(Operation::Restore(restore)) => Origin::Restored(restore.version),
            Some(_) => Origin::Previous,
        };
        Ok(Self { schema: Arc::clone(&snapshot.manifest.schema), origin })
    }

    /// `None` for a version that was cleaned up meanwhile.
    async fn read(table: &Snapshot, at: Located) -> Result<Option<Self>> {
        match load::listed(&table.store, table.session(), at).await? {
            Some(found) => Self::of(&found).await.map(Some),
            None => Ok(None),
        }
    }
}

/// Adds a schema that is not the last one.
fn add(schemas: &mut Vec<Arc<Schema>>, schema: &Arc<Schema>) {
    if schemas.last().is_none_or(|last| last.fields != schema.fields) {
        schemas.push(Arc::clone(schema));
    }
}

fn are_with(schemas: &[Arc<Schema>], id: FieldId) -> bool {
    schemas.iter().all(|schema| schema.field_by_id(id).is_some())
}

/// Those of the fields that data files list, but none that both versions have.
fn without_shared_file(old: &Manifest, new: &Manifest, mut fields: BTreeSet<FieldId>) -> BTreeSet<FieldId> {
    let (_, shared) = in_shared_file(old, new, &fields);
    fields.retain(|id| !shared.contains(id));
    if !fields.is_empty() {
        let mut listed = BTreeSet::new();
        for fragment in new.fragments.decode_all().chain(old.fragments.decode_all()) {
            listed.extend(fragment.files.iter().flat_map(|file| file.fields.iter().copied()));
        }
        fields.retain(|id| listed.contains(id));
    }
    fields
}

/// Whether both versions have a data file, and those of the fields that such files list. All of them are looked at only
/// as long as a field was not found.
fn in_shared_file(old: &Manifest, new: &Manifest, fields: &BTreeSet<FieldId>) -> (bool, BTreeSet<FieldId>) {
    let (mut shares_file, mut found) = (false, BTreeSet::new());
    for fragment in new.fragments.decode_all() {
        let before = old.fragment(fragment.id);
        for file in &fragment.files {
            let shared = before.and_then(|before| before.files.iter().find(|other| other.path == file.path));
            let Some(shared) = shared else { continue };
            shares_file = true;
            let both = file.fields.iter().filter(|id| fields.contains(id) && shared.fields.contains(id));
            found.extend(both);
        }
        if shares_file && found.len() == fields.len() {
            break;
        }
    }
    (shares_file, found)
}
