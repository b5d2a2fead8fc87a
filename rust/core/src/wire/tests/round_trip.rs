//! Values survive encoding and decoding.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use proptest::prelude::*;
use proptest::sample::Index;

use crate::file::{FileDescriptor, FileVersion};
use crate::manifest::{
    BasePath, CarriedFields, DataFile, DeletionFile, DeletionFileType, Flags, Fragment, Fragments,
    LineageSource, Manifest, ManifestDictionaries, ManifestFile, Timestamp, WriterVersion,
    write_manifest_file,
};
use crate::schema::{CarriedKeys, Field, LogicalType, Metadata, Schema};
use crate::transaction::{
    Append, BloomFilter, CreateIndex, DataOverlay, DataReplacement, Delete, KeyFilter, KeySet, MapUpdate,
    Merge, OldConfigUpdate, Operation, OverlayGroup, Overwrite, Project, Replacement, ReserveFragments,
    Restore, Rewrite, RewriteGroup, Transaction, Update, UpdateBases, UpdateConfig, UpdateMemWalState,
    UpdateMode,
};
use crate::wire::fragment_scan::FragmentScanner;
use crate::{FieldId, FragmentId, Version};

fn metadata() -> impl Strategy<Value = Metadata> {
    prop::collection::btree_map("[a-z:]{0,6}", "[a-zé]{0,4}", 0..3)
}

fn schema() -> impl Strategy<Value = Schema> {
    let leaf = prop_oneof![
        Just(LogicalType::Int64),
        Just(LogicalType::Utf8),
        Just(LogicalType::Null),
        Just(LogicalType::FixedSizeList(Box::new(LogicalType::Float32), 4)),
        Just(LogicalType::Dictionary {
            value: Box::new(LogicalType::Utf8),
            index: Box::new(LogicalType::Int8)
        }),
    ];
    let field =
        |logical_type: LogicalType, children: Vec<Field>, metadata: Metadata, flags: (bool, bool)| Field {
            id: FieldId(0),
            name: String::new(),
            nullable: flags.0,
            logical_type,
            children,
            metadata,
            unenforced_primary_key: flags.1,
            carried: CarriedKeys {
                primary_key_position: 3,
                clustering_key: flags.0,
                clustering_key_position: 1,
            },
        };
    let leaf =
        (leaf, metadata(), any::<(bool, bool)>()).prop_map(move |(t, m, f)| field(t, Vec::new(), m, f));
    let tree = leaf.prop_recursive(4, 12, 3, move |inner| {
        (prop::collection::vec(inner, 1..4), any::<(bool, bool)>(), any::<bool>()).prop_map(
            move |(mut children, flags, list)| {
                if list && children[0].logical_type != LogicalType::Struct {
                    children.truncate(1);
                    field(LogicalType::List, children, Metadata::new(), flags)
                } else {
                    field(LogicalType::Struct, children, Metadata::new(), flags)
                }
            },
        )
    });
    (prop::collection::vec(tree, 0..4), metadata()).prop_map(|(fields, metadata)| {
        fn name(fields: &mut [Field]) {
            for (at, field) in fields.iter_mut().enumerate() {
                field.name = format!("f{at}");
                name(&mut field.children);
            }
        }
        let mut schema = Schema { fields, metadata };
        name(&mut schema.fields);
        schema.with_fresh_ids()
    })
}

fn source() -> impl Strategy<Value = Option<LineageSource>> {
    prop_oneof![
        Just(None),
        Just(Some(LineageSource::Column)),
        prop::collection::vec(any::<u8>(), 0..5).prop_map(|b| Some(LineageSource::Inline(b.into()))),
    ]
}

fn data_file() -> impl Strategy<Value = DataFile> {
    let version = prop_oneof![Just(FileVersion::V2_0), Just(FileVersion::V2_1), Just(FileVersion::V2_2)];
    let columns = prop::collection::vec((-5..100_i32, -1..100_i32), 0..4);
    ("[a-f0-9]{1,8}\\.lance", columns, version, any::<Option<u16>>(), prop::option::of(0..2_u32)).prop_map(
        |(path, columns, version, size, base_id)| DataFile {
            path,
            fields: columns.iter().map(|c| FieldId(c.0)).collect(),
            column_indices: columns.iter().map(|c| c.1).collect(),
            version,
            size: size.filter(|s| *s != 0).map(u64::from),
            base_id,
        },
    )
}

fn deletion_file() -> impl Strategy<Value = DeletionFile> {
    (any::<bool>(), any::<u64>(), any::<u64>(), 0..100_u64, prop::option::of(0..2_u32)).prop_map(
        |(bitmap, version, id, num_deleted_rows, base_id)| DeletionFile {
            file_type: if bitmap { DeletionFileType::Bitmap } else { DeletionFileType::Arrow },
            read_version: Version(version),
            id,
            num_deleted_rows,
            base_id,
        },
    )
}

prop_compose! {
    fn fragment()(
        id in any::<u32>(),
        files in prop::collection::vec(data_file(), 0..3),
        deletion in prop::option::of(deletion_file()),
        physical_rows in 100..=1_u64 << 32,
        row_ids in source(),
        last_updated_at in source(),
        created_at in source(),
        overlays in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..4).prop_map(Bytes::from), 0..2),
        clustering_id in any::<u64>(),
    ) -> Fragment {
        Fragment {
            id: FragmentId(id), files, deletion, physical_rows, row_ids, last_updated_at, created_at, overlays,
            clustering_id, encoded: None,
        }
    }
}

/// The fragment without what is rare.
fn common(mut fragment: Fragment) -> Fragment {
    for source in [&mut fragment.row_ids, &mut fragment.last_updated_at, &mut fragment.created_at] {
        source.take_if(|source| *source == LineageSource::Column);
    }
    Fragment { overlays: Vec::new(), clustering_id: 0, ..fragment }
}

fn fragments() -> impl Strategy<Value = Vec<Fragment>> {
    prop::collection::vec(fragment(), 0..3)
}

fn base_paths() -> Vec<BasePath> {
    vec![
        BasePath { id: 0, name: None, is_dataset_root: true, path: "s3://a/b".to_owned() },
        BasePath { id: 1, name: Some("n".to_owned()), is_dataset_root: false, path: "/c".to_owned() },
    ]
}

prop_compose! {
    fn manifest()(
        version in 1..u64::MAX,
        schema in schema(),
        mut fragments in fragments(),
        flags in any::<(u64, u64)>(),
        next_row_id in any::<u64>(),
        time in (any::<i64>(), 0..1_000_000_000_u32),
        maps in (metadata(), metadata()),
        branch in prop::option::of("[a-z]{0,3}"),
        carried in (any::<u64>(), "[a-z]{0,3}", any::<Option<i32>>(), any::<Option<u64>>()),
        writer in prop::option::of(("[a-z]{0,3}", "[0-9.]{0,3}", prop::option::of("[a-z]{0,2}"))),
    ) -> Manifest {
        fragments.sort_by_key(|f| f.id);
        fragments.dedup_by_key(|f| f.id);
        Manifest {
            version: Version(version),
            schema: Arc::new(schema),
            max_fragment_id: fragments.last().map(|f| f.id.0),
            fragments: fragments.into_iter().map(Arc::new).collect(),
            timestamp: Timestamp { seconds: time.0, nanos: time.1 },
            reader_flags: Flags(flags.0),
            writer_flags: Flags(flags.1),
            transaction_file: "1-x.txn".to_owned(),
            writer: writer.map(|(library, version, prerelease)| WriterVersion {
                library, version, prerelease, build_metadata: None,
            }),
            next_row_id,
            file_version: FileVersion::V2_1,
            config: maps.0,
            table_metadata: maps.1,
            base_paths: base_paths(),
            branch,
            index_section: None,
            transaction_section: None,
            carried: CarriedFields {
                version_aux_data: carried.0,
                tag: carried.1,
                max_allocated_field_id: carried.2,
                clustering: carried.3.map(|n| Bytes::from(n.to_le_bytes().to_vec())),
                max_clustering_id: carried.3,
                dictionaries: ManifestDictionaries::default(),
            },
        }
    }
}

fn update_config() -> impl Strategy<Value = UpdateConfig> {
    let entries = prop::collection::btree_map("[a-z]{0,3}", prop::option::of("[a-z]{0,3}"), 0..3);
    let update = (entries, any::<bool>()).prop_map(|(entries, replace)| MapUpdate { entries, replace });
    let fields = prop::collection::btree_map((0..9).prop_map(FieldId), update.clone(), 0..3);
    (prop::option::of(update.clone()), prop::option::of(update), fields, metadata()).prop_map(
        |(config, schema_metadata, field_metadata, old)| UpdateConfig {
            config,
            table_metadata: None,
            schema_metadata,
            field_metadata,
            old: OldConfigUpdate {
                upserts: old.clone(),
                deletes: old.keys().cloned().collect(),
                schema_metadata: old.clone(),
                field_metadata: BTreeMap::from([(FieldId(2), old)]),
            },
        },
    )
}

fn operation() -> impl Strategy<Value = Operation> {
    prop_oneof![
        fragments().prop_map(|fragments| Operation::Append(Append { fragments })),
        (fragments(), any::<Vec<u32>>(), "[a-z =']{0,9}").prop_map(|(updated_fragments, ids, predicate)| {
            let deleted_fragment_ids = ids.into_iter().map(FragmentId).collect();
            Operation::Delete(Delete { updated_fragments, deleted_fragment_ids, predicate })
        }),
        (fragments(), schema(), metadata()).prop_map(|(fragments, schema, config)| {
            let config_upserts = Some(config).filter(|c| !c.is_empty());
            Operation::Overwrite(Overwrite { fragments, schema, config_upserts, initial_bases: base_paths() })
        }),
        (fragments(), schema(), any::<bool>()).prop_map(|(fragments, schema, preserves_nullability)| {
            Operation::Merge(Merge { fragments, schema, preserves_nullability })
        }),
        (fragments(), fragments()).prop_map(|(old_fragments, new_fragments)| {
            let groups = vec![RewriteGroup { old_fragments, new_fragments }];
            Operation::Rewrite(Rewrite { groups, rewritten_indices: Vec::new() })
        }),
        any::<u64>().prop_map(|v| Operation::Restore(Restore { version: Version(v) })),
        any::<u32>().prop_map(|n| Operation::ReserveFragments(ReserveFragments { num_fragments: n })),
        (fragments(), fragments(), any::<bool>()).prop_map(|(updated_fragments, new_fragments, columns)| {
            let exact = KeySet::Exact([7, u64::MAX].into());
            let keys = if new_fragments.is_empty() { exact } else { KeySet::Bloom(BloomFilter::default()) };
            Operation::Update(Update {
                removed_fragment_ids: vec![FragmentId(7)],
                updated_fragments,
                new_fragments,
                fields_modified: vec![FieldId(3)],
                compacted_sstables: vec![Bytes::from_static(b"\x08\x01")],
                fields_for_preserving_fragment_bitmap: vec![FieldId(0), FieldId(9)],
                mode: if columns { UpdateMode::RewriteColumns } else { UpdateMode::RewriteRows },
                inserted_rows: columns.then_some(KeyFilter { fields: vec![FieldId(5)], keys: Some(keys) }),
                updated_offset_bitmaps: BTreeMap::from([(5, Bytes::from_static(b"x"))]),
            })
        }),
        (schema(), any::<bool>()).prop_map(|(schema, preserves_nullability)| {
            // Project says nothing about the schema's metadata.
            let schema = Schema { metadata: Metadata::new(), ..schema };
            Operation::Project(Project { schema, preserves_nullability })
        }),
        update_config().prop_map(Operation::UpdateConfig),
        data_file().prop_map(|file| {
            let replacements = vec![Replacement { fragment: FragmentId(1), file }];
            Operation::DataReplacement(DataReplacement { replacements })
        }),
        Just(Operation::CreateIndex(CreateIndex { new_indices: Vec::new(), removed_indices: Vec::new() })),
        Just(Operation::UpdateMemWalState(UpdateMemWalState {
            compacted_sstables: vec![Bytes::from_static(b"y")]
        })),
        Just(Operation::UpdateBases(UpdateBases { new_bases: base_paths() })),
        Just(Operation::DataOverlay(DataOverlay {
            groups: vec![OverlayGroup { fragment: FragmentId(2), overlays: vec![Bytes::from_static(b"z")] }],
        })),
        prop::option::of("[a-z]{0,3}").prop_map(|name| {
            Operation::Clone(crate::transaction::Clone {
                is_shallow: true,
                ref_name: name.clone(),
                ref_version: Version(3),
                ref_path: "p".to_owned(),
                branch_name: name,
            })
        }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn fragments_survive(fragment in fragment()) {
        let decoded = Fragment::decode(fragment.encode()).unwrap();
        prop_assert_eq!(decoded.edit(), fragment);
    }

    /// Whole, and with bytes changed or cut off: the scanner reads what the general decoder reads, or gives up.
    #[test]
    fn fragments_are_scanned_as_decoded(
        fragment in fragment(),
        changes in prop::collection::vec((any::<Index>(), any::<u8>()), 0..3),
        cut in prop::option::of(any::<Index>()),
    ) {
        let mut bytes = common(fragment).encode().to_vec();
        for (at, byte) in changes {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        bytes.truncate(cut.map_or(bytes.len(), |cut| cut.index(bytes.len())));
        let bytes = Bytes::from(bytes);
        let checked = FragmentScanner::default().check(&bytes, &[0, 1]);
        let read = FragmentScanner::default().read(&bytes);
        if checked.is_some() {
            prop_assert!(read.is_some());
        }
        if let Some(read) = read {
            let summary = checked.map(|_| Fragments::from_iter([Arc::new(read.clone())]).summaries().next().copied());
            prop_assert_eq!(checked, summary.flatten());
            prop_assert_eq!(read, Fragment::decode(bytes).unwrap());
        }
    }

    #[test]
    fn what_writers_write_is_scanned(fragments in prop::collection::vec(fragment().prop_map(common), 1..4)) {
        let mut scanner = FragmentScanner::default();
        for fragment in fragments {
            prop_assert_eq!(scanner.read(&fragment.encode()).map(|read| read.edit()), Some(fragment));
        }
    }

    #[test]
    fn file_descriptors_survive(schema in schema(), num_rows in any::<u64>()) {
        let descriptor = FileDescriptor { schema, num_rows };
        prop_assert_eq!(FileDescriptor::decode(&descriptor.encode()).unwrap(), descriptor);
    }

    #[test]
    fn manifest_files_survive(
        mut manifest in manifest(),
        indices in prop::option::of(prop::collection::vec(any::<u8>(), 0..9)),
        transaction in prop::option::of(prop::collection::vec(any::<u8>(), 0..9)),
    ) {
        let file = Bytes::from(write_manifest_file(&mut manifest, indices.as_deref(), transaction.as_deref()).unwrap());
        let decoded = ManifestFile::decode(file.clone()).unwrap();
        prop_assert_eq!(decoded.indices().unwrap(), indices.map(Bytes::from));
        prop_assert_eq!(decoded.transaction().unwrap(), transaction.map(Bytes::from));
        let mut read = decoded.manifest;
        read.fragments = read.fragments.decode_all().map(|fragment| Arc::new(fragment.edit())).collect();
        prop_assert_eq!(read, manifest);
    }

    /// Decoded next to another version, with some fragments removed, changed and added there.
    #[test]
    fn manifests_share_what_is_the_same(
        first in manifest(),
        changes in prop::collection::vec(0..4_u8, 20),
        other_bases in any::<bool>(),
    ) {
        let mut second = first.clone();
        let changed = first.fragments.decode_all().zip(changes.iter().cycle()).filter_map(|(fragment, change)| {
            match change {
                0 => None,
                1 => Some(Arc::new(Fragment { deletion: None, clustering_id: 1, ..fragment.edit() })),
                _ => Some(fragment),
            }
        });
        second.fragments = changed.collect();
        if other_bases {
            let id = second.base_paths.iter().map(|base| base.id).max().map_or(0, |id| id.saturating_add(1));
            let base = BasePath { id, name: None, is_dataset_root: false, path: "elsewhere".to_owned() };
            second.base_paths.push(base);
        }
        let first = Manifest::decode(first.encode().into()).unwrap();
        for (base, other) in [(&first, &second), (&second, &first)] {
            let base = Manifest::decode(base.encode().into()).unwrap();
            let alone = Manifest::decode(other.encode().into()).unwrap();
            let shared = Manifest::decode_sharing(other.encode().into(), Some(&base)).unwrap();
            prop_assert_eq!(&shared, &alone);
            prop_assert!(shared.fragments.summaries().eq(alone.fragments.summaries()));
            let differences = |list: &Fragments| list.diff(&base.fragments).map(|found| found.id()).collect::<Vec<_>>();
            prop_assert_eq!(differences(&shared.fragments), differences(&alone.fragments));
        }
    }

    #[test]
    fn transactions_survive(operation in operation(), properties in metadata(), read_version in any::<u64>()) {
        let transaction = Transaction {
            read_version: Version(read_version),
            uuid: "c0ffee".to_owned(),
            tag: String::new(),
            properties,
            operation,
        };
        prop_assert_eq!(Transaction::decode(transaction.encode().into()).unwrap(), transaction);
    }

    #[test]
    fn random_bytes_do_not_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let bytes = Bytes::from(bytes);
        let _ = Manifest::decode(bytes.clone());
        let _ = Transaction::decode(bytes.clone());
        let _ = Fragment::decode(bytes.clone());
        let _ = FileDescriptor::decode(&bytes);
        let _ = ManifestFile::decode(bytes);
    }
}
