//! Every cell of the table, and the rebase of deletes and rewrites.

mod moves;
mod table;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::rebase::rebase_rows;
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

fn short(outcome: &Outcome) -> &'static str {
    match outcome {
        Outcome::Compatible => "ok",
        Outcome::Rebase => "DV",
        Outcome::UnlessSharedKey { needs_rebase: false, .. } => "Key",
        Outcome::UnlessSharedKey { needs_rebase: true, .. } => "Key+DV",
        Outcome::Retryable(_) => "Ry",
        Outcome::Incompatible(_) => "X",
    }
}

fn verdict(mine: &Operation, theirs: &Operation) -> &'static str {
    short(&check(&transaction(mine.clone()), &transaction(theirs.clone()), Version(7)))
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
    // Their rewrite is followed, mine takes their deletions along.
    assert_eq!(verdict(&mine, &rewrite(2)), "DV");
    assert_eq!(verdict(&rewrite(2), &mine), "DV");
    assert_eq!(verdict(&rewrite(2), &update(&[2], &[], "other files")), "Ry");
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

fn ids(ids: &[u32]) -> BTreeSet<FragmentId> {
    ids.iter().copied().map(FragmentId).collect()
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
    let rebased = rebase_rows(&ids(&[0, 1, 2]), &ids(&[3]), &current, &affected, &now).unwrap();
    assert_eq!(rebased.vectors, vectors(&[(0, &[1, 2, 5]), (1, &[0])]));
    assert_eq!(rebased.removed_fragments, [FragmentId(2), FragmentId(3)]);
}

#[test]
fn rebases_that_must_start_over() {
    let current = current(vec![with_deletion(fragment(0, "a"), 2), fragment(1, "a")]);
    let now = vectors(&[(0, &[1, 2])]);
    let kind = |updated: &[u32], removed: &[u32], affected: &[(u32, &[u32])]| {
        rebase_rows(&ids(updated), &ids(removed), &current, &vectors(affected), &now).unwrap_err().kind()
    };
    let retryable = ErrorKind::Conflict { retryable: true };
    assert_eq!(kind(&[0], &[], &[(0, &[2, 3])]), retryable);
    assert_eq!(kind(&[4], &[], &[(4, &[0])]), retryable);
    assert_eq!(kind(&[], &[4], &[]), retryable);
    assert_eq!(kind(&[0], &[], &[]), retryable);
    // A vector that the manifest promises and that was not loaded is never "no deletions".
    let missing = rebase_rows(&ids(&[0]), &ids(&[]), &current, &vectors(&[(0, &[3])]), &BTreeMap::new());
    assert_eq!(missing.unwrap_err().kind(), ErrorKind::Internal);
}
