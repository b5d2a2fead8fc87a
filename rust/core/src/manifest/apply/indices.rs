//! Which index entries survive a change of fragments (table format 7.4).
//!
//! Bitmaps are not shrunk when fragments go: what an entry covers is its bitmap cut with the live fragments.

use std::collections::BTreeMap;

use crate::manifest::{IndexMetadata, Manifest};

const VECTOR_DETAILS: &str = "VectorIndexDetails";

/// Entries of `indices` that the new version keeps, in their order.
///
/// An entry goes when one of its fields left the schema. Among the entries of a name: a lone vector index that covers
/// nothing goes, a lone scalar one stays; of several segments the empty ones go, but if all are empty, the oldest
/// scalar one stays.
pub(super) fn retain(indices: &[IndexMetadata], manifest: &Manifest) -> Vec<IndexMetadata> {
    let mut by_name: BTreeMap<&str, Vec<&IndexMetadata>> = BTreeMap::new();
    for index in indices.iter().filter(|i| !i.is_system() && has_fields(i, manifest)) {
        by_name.entry(&index.name).or_default().push(index);
    }
    let stays = |index: &IndexMetadata| {
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
        let oldest = segments.iter().filter(|s| !is_vector(s)).min_by_key(|s| (s.dataset_version, s.uuid));
        all_empty && oldest.is_some_and(|o| o.uuid == index.uuid)
    };
    indices.iter().filter(|index| stays(index)).cloned().collect()
}

fn has_fields(index: &IndexMetadata, manifest: &Manifest) -> bool {
    index.fields.iter().all(|id| manifest.schema.depth_first().any(|f| f.id == *id))
}

/// An entry that does not say what it covers is taken to cover something.
fn covers_something(index: &IndexMetadata, manifest: &Manifest) -> bool {
    let live = |id: u32| manifest.fragment(id.into()).is_some();
    index.fragments.as_ref().is_none_or(|fragments| fragments.iter().any(live))
}

fn is_vector(index: &IndexMetadata) -> bool {
    index.details_type().is_some_and(|name| name.ends_with(VECTOR_DETAILS))
}
