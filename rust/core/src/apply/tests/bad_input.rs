//! Transactions that do not fit are refused, with the kind that says what to do.

use std::collections::BTreeMap;

use super::*;
use crate::manifest::IndexMetadata;
use crate::schema::LogicalType;
use crate::transaction::{
    Clone as CloneTable, CreateIndex, DataReplacement, MapUpdate, Merge, OldConfigUpdate, Project,
    Replacement, ReserveFragments, Rewrite, RewriteGroup, RewrittenIndex, Update, UpdateBases, UpdateConfig,
    UpdateMode,
};

fn refused(operation: Operation, kind: ErrorKind, says: &str) {
    let (current, indices, _) = read("stable-8-append-with-index");
    let error = apply(Some(&current), &indices, &transaction(operation), &context()).unwrap_err();
    assert_eq!(error.kind(), kind, "{error}");
    assert!(error.to_string().contains(says), "{error}");
}

const AGAIN: ErrorKind = ErrorKind::Conflict { retryable: true };

fn current() -> Manifest {
    read("stable-8-append-with-index").0
}

fn fragment(at: usize) -> Fragment {
    current().fragments.get(at).unwrap().edit()
}

pub(super) fn update() -> Update {
    Update {
        removed_fragment_ids: Vec::new(),
        updated_fragments: Vec::new(),
        new_fragments: Vec::new(),
        fields_modified: Vec::new(),
        compacted_sstables: Vec::new(),
        fields_for_preserving_fragment_bitmap: Vec::new(),
        mode: UpdateMode::RewriteRows,
        inserted_rows: None,
        updated_offset_bitmaps: BTreeMap::new(),
    }
}

#[test]
fn updates() {
    let case = |update, kind, says: &str| refused(Operation::Update(update), kind, says);
    case(Update { removed_fragment_ids: vec![FragmentId(77)], ..update() }, AGAIN, "fragment 77");
    let duplicate = Update { updated_fragments: vec![fragment(0), fragment(0)], ..update() };
    case(duplicate, ErrorKind::InvalidInput, "more than once");
    let longer = Fragment { physical_rows: 50, ..fragment(0) };
    case(Update { updated_fragments: vec![longer], ..update() }, ErrorKind::InvalidInput, "50 rows");
    let taken = Update { new_fragments: vec![fragment(1)], ..update() };
    case(taken, ErrorKind::InvalidInput, "fragment id 1 is taken");
    let log = Update { compacted_sstables: vec![Bytes::new()], ..update() };
    case(log, ErrorKind::Unsupported, "in-memory log");
    let bitmap = BTreeMap::from([(0, Bytes::from_static(b"??"))]);
    case(Update { updated_offset_bitmaps: bitmap, ..update() }, ErrorKind::InvalidInput, "fragment 0");
    let column_backed = Fragment { row_ids: Some(LineageSource::Column), ..Fragment::new(Vec::new(), 1) };
    let column_backed = Update { new_fragments: vec![column_backed], ..update() };
    case(column_backed, ErrorKind::Unsupported, "data column");
}

fn group(old: &[usize], new: Vec<Fragment>) -> RewriteGroup {
    RewriteGroup { old_fragments: old.iter().map(|at| fragment(*at)).collect(), new_fragments: new }
}

#[test]
fn rewrites() {
    let case = |groups, indices, kind, says: &str| {
        refused(Operation::Rewrite(Rewrite { groups, rewritten_indices: indices }), kind, says);
    };
    let gone = Fragment { id: FragmentId(88), ..fragment(0) };
    let gone = RewriteGroup { old_fragments: vec![gone], new_fragments: Vec::new() };
    case(vec![gone], Vec::new(), AGAIN, "fragment 88");
    let duplicate = vec![group(&[0], Vec::new()), group(&[1, 0], Vec::new())];
    case(duplicate, Vec::new(), ErrorKind::InvalidInput, "more than once");
    let new = vec![Fragment::new(Vec::new(), 1)];
    case(vec![group(&[0], new)], Vec::new(), ErrorKind::InvalidInput, "without row ids");
    let index = RewrittenIndex { old_id: Uuid::nil(), new_id: Uuid::nil(), encoded: Bytes::new() };
    case(vec![group(&[0], Vec::new())], vec![index], AGAIN, "is gone");
}

/// A group of which an index covers a part cannot be covered afterwards.
#[test]
fn an_index_that_covers_a_part_of_a_group() {
    let (current, indices, _) = read("stable-8-append-with-index");
    let ids: Vec<u32> = current.fragments.ids().map(|id| id.0).collect();
    let groups = vec![group(&[0, 1], Vec::new())];
    let rewrite = transaction(Operation::Rewrite(Rewrite { groups, rewritten_indices: Vec::new() }));
    let entry = |covered: &[u32]| {
        // Version 0 of this index: it names row ids.
        let entry = indices[0].with_fragments(covered.iter().copied().collect()).unwrap();
        by_row_id(&entry)
    };
    let error = apply(Some(&current), &[entry(&ids[..1])], &rewrite, &context()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error}");
    let (_, kept) = apply(Some(&current), &[entry(&ids)], &rewrite, &context()).unwrap();
    assert_eq!(kept[0].fragments, Some(ids[2..].iter().copied().collect()));
    // With addresses the move must be recorded: it still covers the removed fragments only, so nothing.
    let (_, kept) = apply(Some(&current), &indices, &rewrite, &context()).unwrap();
    assert_eq!(kept[0].fragments, indices[0].fragments);
}

fn by_row_id(entry: &IndexMetadata) -> IndexMetadata {
    use prost::Message;
    let mut wire = crate::wire::table::IndexMetadata::decode(entry.encoded.clone()).unwrap();
    wire.index_version = Some(0);
    IndexMetadata::decode(wire.encode_to_vec().into()).unwrap()
}

/// With a fragment reuse entry all indices follow, whatever they name.
#[test]
fn a_fragment_reuse_entry_takes_the_indices_along() {
    let (current, indices, _) = read("stable-8-append-with-index");
    let covered: RoaringBitmap = current.fragments.ids().map(|id| id.0).collect();
    let entry = indices[0].with_fragments(covered).unwrap();
    let reuse = index("__lance_frag_reuse", 1, &[], false);
    let groups = vec![group(&[0, 1], Vec::new())];
    let rewrite = transaction(Operation::Rewrite(Rewrite { groups, rewritten_indices: Vec::new() }));
    let context = ApplyContext { fragment_reuse: Some(&reuse), ..context() };
    let (_, kept) = apply(Some(&current), &[reuse.clone(), entry], &rewrite, &context).unwrap();
    assert_eq!(kept.iter().map(|i| i.name.as_str()).collect::<Vec<_>>(), ["id_idx", "__lance_frag_reuse"]);
    assert_eq!(kept[0].fragments, Some(current.fragments.ids().skip(2).map(|id| id.0).collect()));
}

#[test]
fn columns() {
    let schema = current().schema.as_ref().clone();
    let mut doubled = schema.clone();
    doubled.fields[1].id = doubled.fields[0].id;
    let project = Project { schema: doubled.clone(), preserves_nullability: true };
    refused(Operation::Project(project), ErrorKind::InvalidInput, "taken by another field");
    let mut other_type = schema.clone();
    other_type.fields[0].logical_type = LogicalType::Bool;
    let project = Project { schema: other_type, preserves_nullability: true };
    refused(Operation::Project(project), ErrorKind::InvalidInput, "known by their ids");
    let none = Schema { fields: Vec::new(), ..schema.clone() };
    let project = Project { schema: none, preserves_nullability: true };
    refused(Operation::Project(project), ErrorKind::InvalidInput, "all columns");
    let merge =
        |fragments, schema| Operation::Merge(Merge { fragments, schema, preserves_nullability: true });
    refused(merge(vec![fragment(0)], doubled), ErrorKind::InvalidInput, "taken by another field");
    refused(merge(vec![fragment(1), fragment(1)], schema.clone()), ErrorKind::InvalidInput, "more than once");
    let longer = Fragment { physical_rows: 50, ..fragment(0) };
    refused(merge(vec![longer], schema.clone()), ErrorKind::InvalidInput, "50 rows");
    // A fragment that the table had once; one with an id that it never handed out is new.
    let current = current();
    let ids: Vec<u32> = current.fragments.ids().map(|id| id.0).collect();
    let gone = (0..current.max_fragment_id.unwrap()).find(|id| !ids.contains(id)).unwrap();
    let gone = Fragment { id: FragmentId(gone), ..fragment(0) };
    refused(merge(vec![gone], schema), AGAIN, "which is not in the version before");
}

#[test]
fn replaced_files() {
    let file = fragment(0).files[0].clone();
    let case = |files: &[(u32, &DataFile)], kind, says: &str| {
        let replacement =
            |(id, file): &(u32, &DataFile)| Replacement { fragment: FragmentId(*id), file: (*file).clone() };
        let replacements = files.iter().map(replacement).collect();
        refused(Operation::DataReplacement(DataReplacement { replacements }), kind, says);
    };
    let part = DataFile { fields: [FieldId(1)].into(), column_indices: [0].into(), ..file.clone() };
    case(&[(0, &file), (1, &part)], ErrorKind::InvalidInput, "same fields");
    case(&[(66, &file)], AGAIN, "fragment 66");
    let unknown = DataFile { fields: [FieldId(40)].into(), column_indices: [0].into(), ..file };
    case(&[(0, &unknown)], ErrorKind::InvalidInput, "field 40");
}

#[test]
fn config_bases_and_ids() {
    let config = |update| Operation::UpdateConfig(update);
    let field_metadata = BTreeMap::from([(FieldId(55), MapUpdate::default())]);
    let field = UpdateConfig { field_metadata, ..UpdateConfig::default() };
    refused(config(field), ErrorKind::InvalidInput, "id 55");
    let old = OldConfigUpdate { deletes: vec!["a".to_owned()], ..OldConfigUpdate::default() };
    let mixed = UpdateConfig { config: Some(MapUpdate::default()), old, ..UpdateConfig::default() };
    refused(config(mixed), ErrorKind::InvalidInput, "older form");
    let base = |id, path: &str| BasePath { id, name: None, is_dataset_root: true, path: path.to_owned() };
    let bases = |new_bases| Operation::UpdateBases(UpdateBases { new_bases });
    refused(bases(vec![base(0, "a"), base(1, "b")]), ErrorKind::InvalidInput, "there already");
    refused(bases(vec![base(0, "a"), base(0, "a")]), ErrorKind::InvalidInput, "there already");
    let reserve = Operation::ReserveFragments(ReserveFragments { num_fragments: u32::MAX });
    refused(reserve, ErrorKind::Unsupported, "fragment ids");
    let clone = CloneTable {
        is_shallow: true,
        ref_name: None,
        ref_version: Version(1),
        ref_path: "p".to_owned(),
        branch_name: None,
    };
    refused(Operation::Clone(clone), ErrorKind::InvalidInput, "there is one already");
    let mut entry = index("new", 1, &[0], false);
    entry.fields = vec![FieldId(33)];
    let create = CreateIndex { new_indices: vec![entry], removed_indices: Vec::new() };
    refused(Operation::CreateIndex(create), ErrorKind::InvalidInput, "field 33");
}

/// The older form of a config change, which no current writer uses.
#[test]
fn the_older_form_of_a_config_change() {
    let (current, indices, _) = read("stable-8-append-with-index");
    let map = |key: &str| Metadata::from([(key.to_owned(), "1".to_owned())]);
    let current = Manifest { config: map("gone"), ..current };
    let old = OldConfigUpdate {
        upserts: map("a"),
        deletes: vec!["gone".to_owned()],
        schema_metadata: map("s"),
        field_metadata: BTreeMap::from([(FieldId(0), map("f"))]),
    };
    let update = transaction(Operation::UpdateConfig(UpdateConfig { old, ..UpdateConfig::default() }));
    let (next, _) = apply(Some(&current), &indices, &update, &context()).unwrap();
    assert_eq!((&next.config, &next.schema.metadata), (&map("a"), &map("s")));
    assert_eq!(next.schema.fields[0].metadata, map("f"));
}

/// Ids in a new fragment are never given to other rows, even if no row had them before.
#[test]
fn existing_row_ids_raise_the_counter() {
    let (current, ..) = read("stable-1-create");
    let existing = Fragment {
        row_ids: Some(LineageSource::Inline(RowIdSequence::from_range(100..102).encode())),
        ..Fragment::new(Vec::new(), 3)
    };
    let (next, _) = apply(Some(&current), &[], &append(vec![existing]), &context()).unwrap();
    let ids: Vec<u64> = next.fragments.get(2).unwrap().row_id_sequence().unwrap().unwrap().iter().collect();
    assert_eq!((ids, next.next_row_id), (vec![100, 101, 102], 103));
}

#[test]
fn a_clone_like_that_of_the_reference() {
    let (source, indices, _) = read("stable-restore");
    let (mut expected, expected_indices, clone) = read("clone");
    let source = (source, indices);
    let context = ApplyContext {
        timestamp: expected.timestamp,
        transaction_file: expected.transaction_file.clone(),
        writer: expected.writer.clone().unwrap(),
        restored: Some(&source),
        ..context()
    };
    let (found, found_indices) = apply(None, &[], &clone, &context).unwrap();
    expected.index_section = None;
    expected.transaction_section = None;
    assert_eq!(found, expected);
    assert_eq!(found_indices, expected_indices);
}
