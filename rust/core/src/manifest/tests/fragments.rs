//! Fragments that are decoded when they are read, compared with a plain list of them.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use proptest::prelude::*;
use proptest::sample::Index;

use crate::FragmentId;
use crate::file::FileVersion;
use crate::manifest::{DataFile, DeletionFile, DeletionFileType, Fragment, Fragments, LineageSource};
use crate::wire::FragmentScanner;

fn fragment(id: u32, rows: u64, deleted: u64) -> Fragment {
    let file = DataFile {
        path: format!("{id}.lance"),
        fields: Arc::new([0, 1].map(crate::FieldId)),
        column_indices: Arc::new([0, 1]),
        version: FileVersion::V2_2,
        size: Some(100),
        base_id: None,
    };
    let deletion = DeletionFile {
        file_type: DeletionFileType::Arrow,
        read_version: crate::Version(1),
        id: 7,
        num_deleted_rows: deleted,
        base_id: None,
    };
    Fragment {
        id: FragmentId(id),
        deletion: (deleted > 0).then_some(deletion),
        row_ids: Some(LineageSource::Inline(Bytes::from_static(&[10, 4, 10, 2, 16, 5]))),
        ..Fragment::new(vec![file], rows)
    }
}

/// Fragments as a manifest gives them: checked, none decoded.
fn lazy(fragments: &BTreeMap<u32, Fragment>) -> Fragments {
    let mut lazy = Fragments::default();
    for fragment in fragments.values() {
        let bytes = fragment.encode();
        lazy.push_checked(FragmentScanner::default().check(&bytes, &[]).unwrap(), bytes);
    }
    lazy
}

fn plain(fragments: &Fragments) -> Vec<Fragment> {
    fragments.decode_all().map(|fragment| fragment.edit()).collect()
}

#[derive(Debug, Clone)]
enum Step {
    Push(u64),
    Delete(Index),
    Remove(Index),
    Look(Index),
    Clone,
    All,
}

fn change() -> impl Strategy<Value = Step> {
    prop_oneof![
        (1..9_u64).prop_map(Step::Push),
        any::<Index>().prop_map(Step::Delete),
        any::<Index>().prop_map(Step::Remove),
        any::<Index>().prop_map(Step::Look),
        Just(Step::Clone),
        Just(Step::All),
    ]
}

proptest! {
    #[test]
    fn they_are_what_a_list_of_them_is(
        sizes in prop::collection::btree_map(0..20_u32, 5..9_u64, 1..9),
        changes in prop::collection::vec(change(), 0..12),
    ) {
        let mut model: BTreeMap<u32, Fragment> =
            sizes.into_iter().map(|(id, rows)| (id, fragment(id, rows, 0))).collect();
        let mut fragments = lazy(&model);
        let first = fragments.clone();
        let before = model.clone();
        for change in changes {
            let id = |at: Index| model.keys().copied().nth(at.index(model.len().max(1)));
            match change {
                Step::Push(rows) => {
                    let id = model.keys().next_back().map_or(0, |last| last + 1);
                    fragments.push(Arc::new(fragment(id, rows, 0)));
                    model.insert(id, fragment(id, rows, 0));
                }
                Step::Delete(at) => {
                    let Some(id) = id(at) else { continue };
                    let with =
                        |current: &Fragment| Ok::<_, ()>(fragment(current.id.0, current.physical_rows, 1));
                    prop_assert_eq!(fragments.replace(FragmentId(id), with), Ok(()));
                    let rows = model[&id].physical_rows;
                    model.insert(id, fragment(id, rows, 1));
                }
                Step::Remove(at) => {
                    let Some(gone) = id(at) else { continue };
                    fragments.remove(|id| id == FragmentId(gone));
                    model.remove(&gone);
                    prop_assert_eq!(fragments.replace(FragmentId(gone), |_| Err(())), Ok(()));
                }
                Step::Look(at) => {
                    let Some(id) = id(at) else { continue };
                    let found = fragments.by_id(FragmentId(id)).map(|fragment| fragment.edit());
                    prop_assert_eq!(found.as_ref(), model.get(&id));
                    let at = fragments.position(FragmentId(id)).unwrap();
                    prop_assert_eq!(fragments.get(at).map(|f| f.id), Some(FragmentId(id)));
                }
                Step::Clone => fragments = fragments.clone(),
                Step::All => fragments.change_all(|f| (f.id.0 % 2 == 0).then(|| f.edit())),
            }
            prop_assert_eq!(fragments.len(), model.len());
        }
        let differ: Vec<_> = model.keys().copied().filter(|id| before.get(id) != model.get(id)).collect();
        let found: Vec<_> = fragments.diff(&first).filter(|found| found.after().is_some()).map(|f| f.id().0).collect();
        prop_assert_eq!(&found, &differ);
        let back: Vec<_> = first.diff(&fragments).map(|found| (found.id(), found.after().cloned())).collect();
        for (id, old) in &back {
            prop_assert_eq!(old.as_ref().map(|old| old.edit()), before.get(&id.0).cloned());
        }
        let gone = before.keys().filter(|id| !model.contains_key(*id)).count();
        prop_assert_eq!(back.len(), fragments.diff(&first).count());
        prop_assert_eq!(first.diff(&fragments).filter(|found| found.before().is_none()).count(), gone);
        for id in 0..30 {
            let same = before.get(&id).is_some_and(|old| model.get(&id) == Some(old));
            prop_assert_eq!(fragments.share(&first, FragmentId(id)), same);
        }
        let live: Vec<_> = model.values().map(|f| (f.id, f.live_rows())).collect();
        prop_assert_eq!(fragments.live_rows().collect::<Vec<_>>(), live);
        for id in 0..30 {
            let before: u64 = model.range(..id).map(|(_, f)| f.live_rows()).sum();
            prop_assert_eq!(fragments.rows_before(FragmentId(id)), before);
        }
        let read: Fragments = fragments.decode_all().map(|fragment| Arc::new(fragment.edit())).collect();
        prop_assert!(fragments.summaries().eq(read.summaries()));
        prop_assert_eq!(fragments.ids().collect::<Vec<_>>(), model.keys().map(|id| FragmentId(*id)).collect::<Vec<_>>());
        let deletions: Vec<_> = fragments.summaries().map(|summary| summary.has_deletions).collect();
        prop_assert_eq!(deletions, model.values().map(|f| f.deletion.is_some()).collect::<Vec<_>>());
        let encoded: Vec<Bytes> = fragments.encoded().collect();
        prop_assert_eq!(encoded, model.values().map(Fragment::encode).collect::<Vec<_>>());
        prop_assert_eq!(plain(&fragments), model.into_values().collect::<Vec<_>>());
    }
}

#[test]
fn unchanged_fragments_are_shared() {
    let model = (0..3).map(|id| (id, fragment(id, 5, 0))).collect();
    let first = lazy(&model);
    let mut second = first.clone();
    second.replace(FragmentId(1), |f| Ok::<_, ()>(fragment(f.id.0, 5, 2))).unwrap();
    let same = |id| Arc::ptr_eq(first.by_id(id).unwrap(), second.by_id(id).unwrap());
    let shared: Vec<bool> = first.ids().map(same).collect();
    assert_eq!(shared, [true, false, true]);
    assert!(second.decode_all().all(|fragment| fragment.encoded.is_some()));
}
