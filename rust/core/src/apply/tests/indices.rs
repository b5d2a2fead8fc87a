//! What indices cover after values were replaced.

use super::bad_input::update;
use super::*;
use crate::transaction::{CreateIndex, Merge};

/// A version with two columns, fields 0 and 1, and an index of each.
fn current() -> (Manifest, Vec<IndexMetadata>) {
    let (manifest, ..) = read("stable-2-append");
    let of = |name: &str, version, field| {
        let entry = index(name, version, &[0, 1], false);
        IndexMetadata { fields: vec![FieldId(field)], ..entry }
    };
    (manifest, vec![of("first", 1, 0), of("second", 2, 1)])
}

/// The fragment with the column of a field in another file.
fn rewritten(fragment: &Fragment, field: FieldId) -> Fragment {
    let mut fragment = fragment.edit();
    let file = fragment.files[0].clone();
    let tombstoned = file.fields.iter().map(|id| if *id == field { FieldId::TOMBSTONE } else { *id });
    fragment.files[0].fields = tombstoned.collect();
    let new = DataFile { path: "new.lance".to_owned(), fields: [field].into(), ..file };
    fragment.files.push(DataFile { column_indices: [0].into(), ..new });
    fragment
}

fn covered(indices: &[IndexMetadata]) -> Vec<(&str, Vec<u32>)> {
    indices.iter().map(|i| (i.name.as_str(), i.fragments.as_ref().unwrap().iter().collect())).collect()
}

fn apply_to(
    current: &Manifest,
    indices: &[IndexMetadata],
    operation: Operation,
) -> (Manifest, Vec<IndexMetadata>) {
    apply(Some(current), indices, &transaction(operation), &context()).unwrap()
}

fn merge(current: &Manifest, change: impl Fn(&Fragment) -> Fragment) -> Operation {
    Operation::Merge(Merge {
        fragments: current.fragments.decode_all().map(|f| change(&f)).collect(),
        schema: current.schema.as_ref().clone(),
        preserves_nullability: true,
    })
}

#[test]
fn a_merge_uncovers_fragments_with_new_values_of_indexed_columns() {
    let (current, indices) = current();
    let second = |f: &Fragment| if f.id == FragmentId(1) { rewritten(f, FieldId(1)) } else { f.edit() };
    let (_, found) = apply_to(&current, &indices, merge(&current, second));
    assert_eq!(covered(&found), [("first", vec![0, 1]), ("second", vec![0])]);

    let other_files = |f: &Fragment| {
        let mut f = f.edit();
        f.files[0].path = "other.lance".to_owned();
        f
    };
    let (_, found) = apply_to(&current, &indices, merge(&current, other_files));
    assert_eq!(covered(&found), [("first", vec![]), ("second", vec![])]);
}

#[test]
fn a_merge_of_new_columns_uncovers_nothing() {
    let (current, indices) = current();
    let added = |f: &Fragment| {
        let mut f = f.edit();
        let file =
            DataFile { path: "added.lance".to_owned(), fields: [FieldId(9)].into(), ..f.files[0].clone() };
        f.files.push(DataFile { column_indices: [0].into(), ..file });
        f
    };
    let (_, found) = apply_to(&current, &indices, merge(&current, added));
    assert_eq!(covered(&found), [("first", vec![0, 1]), ("second", vec![0, 1])]);
}

#[test]
fn an_update_that_does_not_say_which_fields_it_changed_is_looked_at() {
    let (current, indices) = current();
    let updated = Update {
        updated_fragments: vec![rewritten(current.fragments.get(0).unwrap(), FieldId(0))],
        ..update()
    };
    let (_, found) = apply_to(&current, &indices, Operation::Update(updated));
    assert_eq!(covered(&found), [("first", vec![1]), ("second", vec![0, 1])]);
}

#[test]
fn an_index_does_not_cover_what_changed_since_it_was_made() {
    let (read, indices) = current();
    let second = |f: &Fragment| if f.id == FragmentId(1) { rewritten(f, FieldId(1)) } else { f.edit() };
    let (newer, _) = apply_to(&read, &[], merge(&read, second));
    let create = transaction(Operation::CreateIndex(CreateIndex {
        new_indices: indices.clone(),
        removed_indices: Vec::new(),
    }));
    let uuids: Vec<Uuid> = indices.iter().map(|entry| entry.uuid).collect();
    let found = |older: &[Uuid], restored: &[u32]| {
        let version =
            IndexedVersion { manifest: Arc::new(read.clone()), restored: restored.iter().collect() };
        let indexed = older.iter().map(|uuid| (*uuid, version.clone())).collect();
        let context = ApplyContext { indexed: &indexed, ..context() };
        let (_, found) = apply(Some(&newer), &[], &create, &context).unwrap();
        covered(&found).into_iter().map(|(_, ids)| ids).collect::<Vec<_>>()
    };
    assert_eq!(found(&uuids, &[]), [vec![0, 1], vec![0]]);
    // The second one was made for this version: it has the new values.
    assert_eq!(found(&uuids[..1], &[]), [vec![0, 1], vec![0, 1]]);
    assert_eq!(found(&uuids, &[0]), [vec![1], vec![]]);
}

#[test]
fn an_entry_has_the_values_of_the_oldest_version_that_is_known_of_it() {
    let (_, indices) = current();
    let made_for = |version| IndexMetadata { dataset_version: Version(version), ..indices[0].clone() };
    assert_eq!(made_for(3).values_of(Version(5)), Version(3));
    assert_eq!(made_for(7).values_of(Version(5)), Version(5));
    assert_eq!(made_for(0).values_of(Version(5)), Version(5));
}
