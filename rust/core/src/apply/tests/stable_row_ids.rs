use super::*;
use crate::manifest::FragmentReuse;
use crate::transaction::{ASSIGNS_ROW_IDS, Merge, Restore};

/// A table without stable row ids that has had fragments 0 to 2, of which 1 is gone.
fn without_ids() -> Manifest {
    let context = ApplyContext { enable_stable_row_ids: false, ..context() };
    let (_, _, created) = read("nested-2.1");
    let (mut manifest, _) = apply(None, &[], &created, &context).unwrap();
    for _ in 0..2 {
        let files = manifest.fragments.decode_all().next().unwrap().files.clone();
        manifest = apply(Some(&manifest), &[], &append(vec![Fragment::new(files, 3)]), &context).unwrap().0;
    }
    manifest.fragments.remove(|id| id == FragmentId(1));
    manifest
}

fn merge(manifest: &Manifest) -> Transaction {
    let fragments = manifest.fragments.decode_all().map(Arc::unwrap_or_clone).collect();
    let schema = manifest.schema.as_ref().clone();
    transaction(Operation::Merge(Merge { fragments, schema, preserves_nullability: true }))
}

fn assigning(manifest: &Manifest) -> Transaction {
    let properties = Metadata::from([(ASSIGNS_ROW_IDS.to_owned(), "addresses".to_owned())]);
    Transaction { properties, ..merge(manifest) }
}

#[test]
fn ids_are_addresses() {
    let current = without_ids();
    let system = IndexMetadata {
        uuid: Uuid::nil(),
        fields: Vec::new(),
        name: FragmentReuse::NAME.to_owned(),
        dataset_version: Version(1),
        fragments: Some(RoaringBitmap::from([2])),
        encoded: Bytes::new(),
    };
    let index = IndexMetadata {
        uuid: Uuid::from_u128(1),
        fields: vec![current.schema.fields[0].id],
        name: "index".to_owned(),
        fragments: Some(RoaringBitmap::from([0, 2])),
        ..system.clone()
    };
    let (next, indices) = apply(Some(&current), &[system, index], &assigning(&current), &context()).unwrap();
    assert!(next.has_stable_row_ids());
    assert!(next.writer_flags.contains(Flags::STABLE_ROW_IDS));
    assert_eq!(next.next_row_id, 3 << 32);
    // What the entry says that is gone now: rows of fragment 2 were moved there, and indices name them by other addresses.
    let [index] = indices.as_slice() else { panic!("{indices:?}") };
    assert_eq!(index.fragments, Some(RoaringBitmap::from([0])));
    for fragment in next.fragments.decode_all() {
        let ids = fragment.row_id_sequence().unwrap().unwrap();
        let start = u64::from(fragment.id.0) << 32;
        assert_eq!(ids, RowIdSequence::from_range(start..start + fragment.physical_rows));
        let versions = VersionSequence::constant(fragment.physical_rows, next.version);
        assert_eq!(fragment.created_at_sequence().unwrap().unwrap(), versions);
        assert_eq!(fragment.last_updated_at_sequence().unwrap().unwrap(), versions);
    }
    // The next rows get ids that no address was.
    let (after, _) =
        apply(Some(&next), &[], &append(vec![Fragment::new(Vec::new(), 3)]), &context()).unwrap();
    let last = after.fragments.decode_all().last().unwrap();
    assert_eq!(last.row_id_sequence().unwrap().unwrap(), RowIdSequence::from_range(3 << 32..(3 << 32) + 3));
    // A merge of a table that has ids leaves them.
    let (merged, _) = apply(Some(&next), &[], &assigning(&next), &context()).unwrap();
    assert_eq!(merged.next_row_id, next.next_row_id);
}

#[test]
fn a_merge_gives_none_by_itself() {
    let current = without_ids();
    let (next, _) = apply(Some(&current), &[], &merge(&current), &context()).unwrap();
    assert!(!next.has_stable_row_ids());
    assert!(next.fragments.decode_all().all(|fragment| fragment.row_ids.is_none()));
}

#[test]
fn ids_are_not_taken_back() {
    let current = without_ids();
    let (next, _) = apply(Some(&current), &[], &assigning(&current), &context()).unwrap();
    let version = current.version;
    let restored = (current, Vec::new());
    let restoring = ApplyContext { restored: Some(&restored), ..context() };
    let restore = transaction(Operation::Restore(Restore { version }));
    let error = apply(Some(&next), &[], &restore, &restoring).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput);
    assert!(error.to_string().contains("from before the table had stable row ids"), "{error}");
}
