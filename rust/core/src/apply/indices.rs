//! What index entries cover, and which survive a change of fragments (table format 7.2, 7.4, 9.4).
//!
//! Bitmaps are not shrunk when fragments are removed: what an entry covers is its bitmap cut with the live fragments.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use roaring::RoaringBitmap;

use crate::manifest::{Fragment, IndexMetadata, Manifest};
use crate::schema::{Field, Schema};
use crate::transaction::RewrittenIndex;
use crate::{Error, FieldId, FragmentId, Result};

/// Kinds of index that name row addresses, even where rows have stable ids.
const BY_ADDRESS: [&str; 2] = ["ZoneMapIndexDetails", "BloomFilterIndexDetails"];
/// Names row addresses from its version 1 on.
const BTREE_DETAILS: &str = "BTreeIndexDetails";

/// Leaves the entries that the new version keeps, in their order.
///
/// An entry is removed when one of its fields is not in the schema any more. Of several segments of an index those that
/// cover no live fragment are removed; if none covers one, the oldest segment is kept. So an index that covers nothing,
/// such as one that was never trained, is kept until it is dropped or trained.
pub(super) fn retain(entries: &mut Vec<IndexMetadata>, manifest: &Manifest) {
    let indices = std::mem::take(entries);
    let mut by_name: BTreeMap<&str, Vec<&IndexMetadata>> = BTreeMap::new();
    for index in indices.iter().filter(|i| !i.is_system() && has_fields(i, manifest)) {
        by_name.entry(&index.name).or_default().push(index);
    }
    let is_kept = |index: &IndexMetadata| {
        if index.is_system() {
            return true;
        }
        let Some(segments) = by_name.get(index.name.as_str()).filter(|_| has_fields(index, manifest)) else {
            return false;
        };
        if covers_something(index, manifest) {
            return true;
        }
        let all_empty = !segments.iter().any(|s| covers_something(s, manifest));
        let oldest = segments.iter().min_by_key(|s| (s.dataset_version, s.uuid));
        all_empty && oldest.is_some_and(|o| o.uuid == index.uuid)
    };
    entries.extend(indices.iter().filter(|index| is_kept(index)).cloned());
}

/// Takes fragments out of what entries of these fields cover.
pub(super) fn uncover(
    entries: &mut [IndexMetadata],
    fragments: &RoaringBitmap,
    fields: &BTreeSet<FieldId>,
) -> Result<()> {
    for entry in entries.iter_mut().filter(|entry| is_of(entry, fields)) {
        match &entry.fragments {
            Some(covered) if !covered.is_disjoint(fragments) => {
                *entry = entry.with_fragments(covered - fragments)?
            }
            _ => {}
        }
    }
    Ok(())
}

/// Takes those of the fragments out of what entries cover in which values of their fields are in other data files than
/// they were in `before`. Fragments that only one of the versions has are left alone.
pub(super) fn uncover_rewritten(
    entries: &mut [IndexMetadata],
    before: &Manifest,
    after: &Manifest,
    fragments: &RoaringBitmap,
) -> Result<()> {
    for entry in entries.iter_mut().filter(|entry| !entry.is_system()) {
        let Some(covered) = &entry.fragments else { continue };
        let fields = with_descendants(&after.schema, &entry.fields);
        let is_rewritten = |id: &u32| {
            let id = FragmentId(*id);
            match (before.fragments.by_id(id), after.fragments.by_id(id)) {
                (Some(old), Some(new)) if !Arc::ptr_eq(old, new) && old.files != new.files => {
                    fields.iter().any(|field| file_of(old, *field) != file_of(new, *field))
                }
                _ => false,
            }
        };
        let rewritten: RoaringBitmap = (covered & fragments).iter().filter(is_rewritten).collect();
        if !rewritten.is_empty() {
            *entry = entry.with_fragments(covered - rewritten)?;
        }
    }
    Ok(())
}

/// The data file with the values of a field, and the root it lies under. A file that lists no fields has all of them.
fn file_of(fragment: &Fragment, field: FieldId) -> Option<(&str, Option<u32>)> {
    let file = fragment.files.iter().find(|file| file.fields.is_empty() || file.fields.contains(&field))?;
    Some((&file.path, file.base_id))
}

/// Fragments of moved rows are covered by entries whose fields did not change and that covered all the rows before.
pub(super) fn cover_moved(
    entries: &mut [IndexMetadata],
    moved: &[FragmentId],
    from: &BTreeSet<FragmentId>,
    changed: &BTreeSet<FieldId>,
) -> Result<()> {
    if moved.is_empty() {
        return Ok(());
    }
    for entry in entries
        .iter_mut()
        .filter(|entry| !entry.is_system() && !is_of(entry, changed) && !is_by_address(entry))
    {
        let Some(covered) = &entry.fragments else { continue };
        if from.iter().all(|id| covered.contains(id.0)) {
            let mut more = covered.clone();
            more.extend(moved.iter().map(|id| id.0));
            *entry = entry.with_fragments(more)?;
        }
    }
    Ok(())
}

/// Old fragments of a group and the new ones in their place.
pub(super) type Move = (BTreeSet<FragmentId>, RoaringBitmap);

/// Entries that were rewritten are replaced; these, and those that `follow`, cover new fragments in place of the old ones.
///
/// Errors: `InvalidInput` if an entry covers only some fragments of a group; retryable `Conflict` if a rewritten entry
/// is gone.
pub(super) fn rewrite(
    entries: &mut [IndexMetadata],
    rewritten: &[RewrittenIndex],
    moves: &[Move],
    follow: impl Fn(&IndexMetadata) -> bool,
) -> Result<()> {
    for new in rewritten {
        let Some(entry) = entries.iter_mut().find(|entry| entry.uuid == new.old_id) else {
            return Err(Error::retryable_conflict(format!(
                "the index {} that was rewritten is gone",
                new.old_id
            )));
        };
        *entry = entry.rewritten(new)?;
    }
    let is_rewritten = |entry: &IndexMetadata| rewritten.iter().any(|new| new.new_id == entry.uuid);
    for entry in
        entries.iter_mut().filter(|entry| !entry.is_system() && (is_rewritten(entry) || follow(entry)))
    {
        let Some(mut covered) = entry.fragments.clone() else { continue };
        for (old, new) in moves {
            let inside = old.iter().filter(|id| covered.contains(id.0)).count();
            if inside == 0 {
                continue;
            }
            if inside < old.len() {
                return Err(Error::invalid_input(format!(
                    "The compaction plan included a rewrite group that was a split of indexed and non-indexed data: \
                     index `{}` covers {inside} of the fragments {old:?}",
                    entry.name
                )));
            }
            old.iter().for_each(|id| {
                covered.remove(id.0);
            });
            covered |= new;
        }
        if entry.fragments.as_ref() != Some(&covered) {
            *entry = entry.with_fragments(covered)?;
        }
    }
    Ok(())
}

/// These fields with all below them.
fn with_descendants(schema: &Schema, ids: &[FieldId]) -> BTreeSet<FieldId> {
    fn add(field: &Field, all: &mut BTreeSet<FieldId>) {
        all.insert(field.id);
        field.children.iter().for_each(|child| add(child, all));
    }
    let mut all = ids.iter().copied().collect();
    ids.iter().filter_map(|id| schema.field_by_id(*id)).for_each(|field| add(field, &mut all));
    all
}

fn is_of(entry: &IndexMetadata, fields: &BTreeSet<FieldId>) -> bool {
    entry.fields.iter().any(|id| fields.contains(id))
}

fn has_fields(index: &IndexMetadata, manifest: &Manifest) -> bool {
    index.fields.iter().all(|id| manifest.schema.depth_first().any(|f| f.id == *id))
}

/// Whether moved rows must be recorded in the index, although they keep their ids.
pub(super) fn is_by_address(index: &IndexMetadata) -> bool {
    let details = index.details_type().unwrap_or_default();
    BY_ADDRESS.iter().any(|kind| details.ends_with(kind))
        || (details.ends_with(BTREE_DETAILS) && index.index_version().unwrap_or(0) > 0)
}

/// An entry that does not say what it covers is taken to cover something.
fn covers_something(index: &IndexMetadata, manifest: &Manifest) -> bool {
    let live = |id: u32| manifest.fragments.contains_id(id.into());
    index.fragments.as_ref().is_none_or(|fragments| fragments.iter().any(live))
}
