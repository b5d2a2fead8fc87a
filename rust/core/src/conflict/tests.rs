//! Every cell of the table for the operations this release commits, and the rebase of deletes.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::rebase::rebase_delete;
use super::{Outcome, check};
use crate::deletion::DeletionVector;
use crate::file::FileVersion;
use crate::manifest::{DataFile, DeletionFile, DeletionFileType, Fragment, Manifest, ManifestFile};
use crate::schema::{Metadata, Schema};
use crate::transaction::{
    Append, Clone, CreateIndex, DataOverlay, DataReplacement, Delete, MapUpdate, Merge, Operation,
    OverlayGroup, Overwrite, Project, Replacement, ReserveFragments, Restore, Rewrite, RewriteGroup,
    Transaction, Update, UpdateBases, UpdateConfig, UpdateMemWalState, UpdateMode,
};
use crate::wire::tests::golden;
use crate::{ErrorKind, FieldId, FragmentId, Version};

fn transaction(operation: Operation) -> Transaction {
    Transaction {
        read_version: Version(1),
        uuid: "their-uuid".to_owned(),
        tag: String::new(),
        properties: Metadata::new(),
        operation,
    }
}

fn file(path: &str) -> DataFile {
    DataFile {
        path: path.to_owned(),
        fields: [FieldId(0)].into(),
        column_indices: [0].into(),
        version: FileVersion::V2_2,
        size: None,
        base_id: None,
    }
}

fn fragment(id: u32, path: &str) -> Fragment {
    Fragment { id: FragmentId(id), ..Fragment::new(vec![file(path)], 10) }
}

fn delete(updated: &[u32], deleted: &[u32]) -> Delete {
    Delete {
        updated_fragments: updated.iter().map(|&id| fragment(id, "a")).collect(),
        deleted_fragment_ids: deleted.iter().copied().map(FragmentId).collect(),
        predicate: "p".to_owned(),
    }
}

fn update(updated: &[u32], removed: &[u32], path: &str) -> Operation {
    Operation::Update(Update {
        removed_fragment_ids: removed.iter().copied().map(FragmentId).collect(),
        updated_fragments: updated.iter().map(|&id| fragment(id, path)).collect(),
        new_fragments: vec![fragment(0, "new")],
        fields_modified: Vec::new(),
        compacted_sstables: Vec::new(),
        fields_for_preserving_fragment_bitmap: Vec::new(),
        mode: UpdateMode::RewriteRows,
        inserted_rows: None,
        updated_offsets: BTreeMap::new(),
        updated_offset_bitmaps: BTreeMap::new(),
    })
}

fn rewrite(old: u32) -> Operation {
    let groups = vec![RewriteGroup { old_fragments: vec![fragment(old, "a")], new_fragments: Vec::new() }];
    Operation::Rewrite(Rewrite { groups, rewritten_indices: Vec::new() })
}

fn replacement(id: u32) -> Operation {
    let replacements = vec![Replacement { fragment: FragmentId(id), file: file("b") }];
    Operation::DataReplacement(DataReplacement { replacements })
}

fn overlay(id: u32) -> Operation {
    let groups = vec![OverlayGroup { fragment: FragmentId(id), overlays: Vec::new() }];
    Operation::DataOverlay(DataOverlay { groups })
}

fn overwrite(config: &[&str]) -> Operation {
    let keys: Metadata = config.iter().map(|k| ((*k).to_owned(), "v".to_owned())).collect();
    Operation::Overwrite(Overwrite {
        fragments: Vec::new(),
        schema: Schema::default(),
        config_upserts: Some(keys).filter(|k| !k.is_empty()),
        initial_bases: Vec::new(),
    })
}

fn map(key: &str) -> Option<MapUpdate> {
    Some(MapUpdate { entries: BTreeMap::from([(key.to_owned(), None)]), replace: false })
}

fn config(key: &str) -> Operation {
    Operation::UpdateConfig(UpdateConfig { config: map(key), ..UpdateConfig::default() })
}

/// Their operations, by the columns of the table; those that concern fragments concern fragment 1.
fn theirs() -> Vec<(&'static str, Operation)> {
    let schema = Schema::default();
    let metadata = |key| UpdateConfig { schema_metadata: map(key), ..UpdateConfig::default() };
    let field = UpdateConfig {
        field_metadata: BTreeMap::from([(FieldId(0), MapUpdate::default())]),
        ..UpdateConfig::default()
    };
    vec![
        ("append", Operation::Append(Append { fragments: Vec::new() })),
        ("delete", Operation::Delete(delete(&[1], &[]))),
        ("update", update(&[1], &[], "a")),
        (
            "index",
            Operation::CreateIndex(CreateIndex { new_indices: Vec::new(), removed_indices: Vec::new() }),
        ),
        ("rewrite", rewrite(1)),
        (
            "merge",
            Operation::Merge(Merge {
                fragments: Vec::new(),
                schema: schema.clone(),
                preserves_nullability: false,
            }),
        ),
        ("project", Operation::Project(Project { schema, preserves_nullability: false })),
        ("overwrite", overwrite(&[])),
        ("restore", Operation::Restore(Restore { version: Version(1) })),
        ("config", config("a")),
        ("schema metadata", Operation::UpdateConfig(metadata("a"))),
        ("field metadata", Operation::UpdateConfig(field)),
        ("replacement", replacement(1)),
        ("reserve", Operation::ReserveFragments(ReserveFragments { num_fragments: 1 })),
        ("memwal", Operation::UpdateMemWalState(UpdateMemWalState { compacted_sstables: Vec::new() })),
        (
            "clone",
            Operation::Clone(Clone {
                is_shallow: true,
                ref_name: None,
                ref_version: Version(1),
                ref_path: String::new(),
                branch_name: None,
            }),
        ),
        ("bases", Operation::UpdateBases(UpdateBases { new_bases: Vec::new() })),
        ("overlay", overlay(1)),
        ("unknown", Operation::Unknown(120)),
    ]
}

fn short(outcome: &Outcome) -> &'static str {
    match outcome {
        Outcome::Compatible => "ok",
        Outcome::Rebase => "DV",
        Outcome::Retryable(_) => "Ry",
        Outcome::Incompatible(_) => "X",
    }
}

fn verdict(mine: &Operation, theirs: &Operation) -> &'static str {
    short(&check(&transaction(mine.clone()), &transaction(theirs.clone()), Version(7)))
}

fn row(mine: Operation, expected: &str) {
    let theirs = theirs();
    let expected: Vec<&str> = expected.split_whitespace().collect();
    assert_eq!(expected.len(), theirs.len());
    for ((name, theirs), expected) in theirs.iter().zip(expected) {
        assert_eq!(verdict(&mine, theirs), expected, "{} after {name}", mine.name());
    }
}

#[test]
fn the_table() {
    // append delete update index rewrite merge project overwrite restore
    // config schema field replacement reserve memwal clone bases overlay unknown
    row(
        Operation::Append(Append { fragments: Vec::new() }),
        "ok ok ok ok ok ok ok X X  ok ok ok ok ok X ok ok ok X",
    );
    row(Operation::Delete(delete(&[1], &[])), "ok DV DV ok Ry Ry ok X X  ok ok ok Ry ok X ok ok Ry X");
    row(Operation::Delete(delete(&[2], &[])), "ok ok ok ok ok Ry ok X X  ok ok ok ok ok X ok ok ok X");
    row(Operation::Delete(delete(&[], &[1])), "ok Ry Ry ok Ry Ry ok X X  ok ok ok Ry ok X ok ok Ry X");
    row(overwrite(&[]), "ok ok ok ok ok ok ok Ry ok  ok ok ok ok ok X ok ok ok X");
    row(overwrite(&["a"]), "ok ok ok ok ok ok ok Ry ok  X ok ok ok ok X ok ok ok X");
    row(overwrite(&["b"]), "ok ok ok ok ok ok ok Ry ok  ok ok ok ok ok X ok ok ok X");
    row(
        Operation::Restore(Restore { version: Version(1) }),
        "ok ok ok ok ok ok ok ok ok  ok X X ok ok X ok ok ok X",
    );
}

#[test]
fn what_is_not_decided_yet_conflicts() {
    for (name, mine) in
        theirs().into_iter().filter(|(name, _)| !["append", "delete", "overwrite", "restore"].contains(name))
    {
        for (_, theirs) in theirs() {
            assert!(["Ry", "X"].contains(&verdict(&mine, &theirs)), "{name}");
        }
    }
}

#[test]
fn deletes_of_one_fragment() {
    let mine = Operation::Delete(delete(&[1, 2], &[3]));
    assert_eq!(verdict(&mine, &update(&[2], &[], "other files")), "Ry");
    assert_eq!(verdict(&mine, &update(&[], &[2], "a")), "Ry");
    assert_eq!(verdict(&mine, &Operation::Delete(delete(&[], &[1]))), "Ry");
    assert_eq!(verdict(&mine, &Operation::Delete(delete(&[], &[3]))), "Ry");
    assert_eq!(verdict(&mine, &Operation::Delete(delete(&[1, 3], &[]))), "Ry");
    assert_eq!(verdict(&mine, &Operation::Delete(delete(&[1, 4], &[5]))), "DV");
    assert_eq!(verdict(&mine, &update(&[4], &[5], "a")), "ok");
    assert_eq!(verdict(&Operation::Delete(delete(&[], &[])), &rewrite(1)), "ok");
}

#[test]
fn messages_say_who_and_when() {
    let mine = transaction(Operation::Append(Append { fragments: Vec::new() }));
    match check(&mine, &transaction(overwrite(&[])), Version(7)) {
        Outcome::Incompatible(message) => {
            for part in ["Append", "Overwrite", "their-uuid", "version 7"] {
                assert!(message.contains(part), "{message}");
            }
        }
        other => panic!("{other:?}"),
    }
}

fn current(fragments: Vec<Fragment>) -> Manifest {
    let file = ManifestFile::decode(golden("stable-1-create.manifest")).unwrap();
    Manifest { fragments: fragments.into_iter().map(Arc::new).collect(), ..file.manifest }
}

fn with_deletion(fragment: Fragment, rows: u64) -> Fragment {
    let deletion = DeletionFile {
        file_type: DeletionFileType::Bitmap,
        read_version: Version(1),
        id: 1,
        num_deleted_rows: rows,
        base_id: None,
    };
    Fragment { deletion: Some(deletion), ..fragment }
}

fn vectors(entries: &[(u32, &[u32])]) -> BTreeMap<FragmentId, DeletionVector> {
    let vector = |rows: &[u32]| DeletionVector::from_iter(rows.iter().copied());
    entries.iter().map(|(id, rows)| (FragmentId(*id), vector(rows))).collect()
}

#[test]
fn rebased_deletes_have_both_sets_of_rows() {
    let current = current(vec![
        with_deletion(fragment(0, "a"), 2),
        fragment(1, "a"),
        with_deletion(fragment(2, "a"), 9),
        fragment(3, "a"),
    ]);
    let now = vectors(&[(0, &[1, 2]), (2, &[0, 1, 2, 3, 4, 5, 6, 7, 8])]);
    let affected = vectors(&[(0, &[5]), (1, &[0]), (2, &[9])]);
    let rebased = rebase_delete(&delete(&[0, 1, 2], &[3]), &current, &affected, &now).unwrap();
    assert_eq!(rebased.vectors, vectors(&[(0, &[1, 2, 5]), (1, &[0])]));
    assert_eq!(rebased.removed_fragments, [FragmentId(2), FragmentId(3)]);
}

#[test]
fn rebases_that_must_start_over() {
    let current = current(vec![with_deletion(fragment(0, "a"), 2), fragment(1, "a")]);
    let now = vectors(&[(0, &[1, 2])]);
    let kind = |delete: &Delete, affected: &[(u32, &[u32])]| {
        rebase_delete(delete, &current, &vectors(affected), &now).unwrap_err().kind()
    };
    let retryable = ErrorKind::Conflict { retryable: true };
    assert_eq!(kind(&delete(&[0], &[]), &[(0, &[2, 3])]), retryable);
    assert_eq!(kind(&delete(&[4], &[]), &[(4, &[0])]), retryable);
    assert_eq!(kind(&delete(&[], &[4]), &[]), retryable);
    assert_eq!(kind(&delete(&[0], &[]), &[]), retryable);
    // A vector that the manifest promises and nobody loaded is never "no deletions".
    let missing = rebase_delete(&delete(&[0], &[]), &current, &vectors(&[(0, &[3])]), &BTreeMap::new());
    assert_eq!(missing.unwrap_err().kind(), ErrorKind::Internal);
}
