//! All ordered pairs of operations, once on the same fragments, fields, keys and names, once on others.

use bytes::Bytes;
use uuid::Uuid;

use super::*;
use crate::manifest::{BasePath, IndexMetadata};
use crate::transaction::{BloomFilter, KeyFilter, KeySet, RewrittenIndex};

/// Samples by name: what they have to do with fragment, field, key or name `n`.
fn samples(n: u32) -> Vec<(&'static str, Operation)> {
    let schema = || golden_file().manifest.schema.as_ref().clone();
    let key = format!("key {n}");
    let update_config = |update| Operation::UpdateConfig(update);
    let field_metadata = BTreeMap::from([(FieldId(i32::try_from(n).unwrap()), MapUpdate::default())]);
    vec![
        ("Append", Operation::Append(Append { fragments: vec![fragment(0, "new")] })),
        ("Delete", Operation::Delete(delete(&[n], &[]))),
        ("DeleteAll", Operation::Delete(delete(&[], &[n]))),
        ("Update", update(&[n], &[], "a")),
        ("Insert", insert(n)),
        ("Columns", columns(n)),
        ("Index", index(n)),
        ("Rewrite", rewrite(n)),
        (
            "Merge",
            Operation::Merge(Merge {
                fragments: vec![fragment(n, "a")],
                schema: schema(),
                preserves_nullability: true,
            }),
        ),
        ("Project", Operation::Project(Project { schema: schema(), preserves_nullability: true })),
        ("Overwrite", overwrite(&[&key])),
        ("Restore", Operation::Restore(Restore { version: Version(1) })),
        ("Config", config(&key)),
        ("Schema", update_config(UpdateConfig { schema_metadata: map("k"), ..UpdateConfig::default() })),
        ("Field", update_config(UpdateConfig { field_metadata, ..UpdateConfig::default() })),
        ("Replace", replacement(n)),
        ("Reserve", Operation::ReserveFragments(ReserveFragments { num_fragments: 1 })),
        (
            "MemWal",
            Operation::UpdateMemWalState(UpdateMemWalState { compacted_sstables: vec![Default::default()] }),
        ),
        (
            "Clone",
            Operation::Clone(Clone {
                is_shallow: true,
                ref_name: None,
                ref_version: Version(1),
                ref_path: String::new(),
                branch_name: None,
            }),
        ),
        ("Bases", bases(n)),
        ("Overlay", overlay(n)),
        ("Unknown", Operation::Unknown(120)),
    ]
}

fn bases(n: u32) -> Operation {
    let base = BasePath { id: 0, name: None, is_dataset_root: true, path: n.to_string() };
    Operation::UpdateBases(UpdateBases { new_bases: vec![base] })
}

/// A merge that only inserts the key `n`.
fn insert(n: u32) -> Operation {
    let Operation::Update(insert) = update(&[], &[], "a") else { unreachable!() };
    let mut bloom = BloomFilter::default();
    bloom.insert(crate::transaction::key_hash(&[&n.to_le_bytes()]));
    let filter = KeyFilter { fields: vec![FieldId(0)], keys: Some(KeySet::Bloom(bloom)) };
    Operation::Update(Update { inserted_rows: Some(filter), ..insert })
}

fn columns(n: u32) -> Operation {
    let Operation::Update(columns) = update(&[n], &[], "columns") else { unreachable!() };
    let fields_modified = vec![FieldId(0)];
    Operation::Update(Update { mode: UpdateMode::RewriteColumns, fields_modified, ..columns })
}

fn golden_file() -> ManifestFile {
    ManifestFile::decode(golden("stable-6-index.manifest")).unwrap()
}

fn index(n: u32) -> Operation {
    let mut entries = crate::wire::index_section::decode(golden_file().indices().unwrap().unwrap()).unwrap();
    let entry = entries.remove(0).with_fragments([n].into_iter().collect()).unwrap();
    let entry = IndexMetadata { name: n.to_string(), ..entry };
    Operation::CreateIndex(CreateIndex { new_indices: vec![entry], removed_indices: Vec::new() })
}

/// Rows mine, columns theirs; `/`: on the same and on others. Of the reference except where `DV` stands against Rewrite,
/// and that it does not look for keys: it retries. It knows nothing of keys that are replaced, and takes back the
/// metadata of a field with Project.
const EXPECTED: &str = "
.         Append Delete DeleteAll Update Insert Columns Index Rewrite Merge Project Overwrite Restore Config Schema Field Replace Reserve MemWal Clone Bases Overlay Unknown
Append    ok     ok     ok        ok     ok     ok      ok    ok      ok    ok      X         X       ok     ok     ok    ok      ok      X      ok    ok    X       X
Delete    ok     DV/ok  Ry/ok     DV/ok  ok     Ry/ok   ok    DV/ok   Ry    ok      X         X       ok     ok     ok    Ry/ok   ok      X      ok    ok    X       X
DeleteAll ok     Ry/ok  Ry/ok     Ry/ok  ok     Ry/ok   ok    DV/ok   Ry    ok      X         X       ok     ok     ok    Ry/ok   ok      X      ok    ok    X       X
Update    ok     DV/ok  Ry/ok     DV/ok  ok     Ry/ok   ok    DV/ok   Ry    ok      X         X       ok     ok     ok    Ry/ok   ok      ok     ok    ok    X       X
Insert    Key    ok     ok        Key    Key/ok Ry      ok    ok      Ry    ok      X         X       ok     ok     ok    Ry      ok      ok     ok    ok    X       X
Columns   ok     Ry/ok  Ry/ok     Ry/ok  ok     Ry/ok   ok    Ry/ok   Ry    ok      X         X       ok     ok     ok    Ry/ok   ok      ok     ok    ok    X       X
Index     ok     ok     ok        ok     ok     ok      Ry/ok Ry/ok   ok    ok      X         X       ok     ok     ok    Ry      ok      X      ok    ok    X       X
Rewrite   ok     DV/ok  DV/ok     DV/ok  ok     Ry/ok   Ry/ok Ry/ok   Ry    ok      X         X       ok     ok     ok    Ry/ok   ok      ok     ok    ok    X       X
Merge     Ry     Ry     Ry        Ry     Ry     Ry      ok    Ry      Ry    X       X         X       ok     Ry     Ry    Ry      ok      X      ok    ok    X       X
Project   ok     ok     ok        ok     ok     ok      ok    ok      Ry    Ry      X         X       ok     ok     Ry    ok      ok      X      ok    ok    X       X
Overwrite ok     ok     ok        ok     ok     ok      ok    ok      ok    ok      Ry        ok      X/ok   ok     ok    ok      ok      X      ok    ok    X       X
Restore   ok     ok     ok        ok     ok     ok      ok    ok      ok    ok      ok        ok      ok     X      X     ok      ok      X      ok    ok    X       X
Config    ok     ok     ok        ok     ok     ok      ok    ok      ok    ok      ok        ok      X/ok   ok     ok    ok      ok      ok     ok    ok    X       X
Schema    ok     ok     ok        ok     ok     ok      ok    ok      Ry    ok      X         X       ok     X      ok    ok      ok      ok     ok    ok    X       X
Field     ok     ok     ok        ok     ok     ok      ok    ok      Ry    ok      X         X       ok     ok     X/ok  ok      ok      ok     ok    ok    X       X
Replace   ok     ok     X/ok      Ry/ok  ok     Ry/ok   Ry    Ry/ok   Ry    ok      X         X       ok     ok     ok    Ry/ok   ok      X      ok    ok    X       X
Reserve   ok     ok     ok        ok     ok     ok      ok    ok      ok    ok      X         X       ok     ok     ok    ok      ok      ok     ok    ok    X       X
MemWal    X      X      X         ok     ok     ok      ok    ok      X     X       X         X       ok     ok     ok    X       ok      X      X     ok    X       X
Clone     ok     ok     ok        ok     ok     ok      ok    ok      ok    ok      ok        ok      ok     ok     ok    ok      ok      ok     ok    ok    X       X
Bases     ok     ok     ok        ok     ok     ok      ok    ok      ok    ok      ok        ok      ok     ok     ok    ok      ok      ok     ok    X/ok  X       X
Overlay   X      X      X         X      X      X       X     X       X     X       X         X       X      X      X     X       X       X      X     X     X       X
Unknown   X      X      X         X      X      X       X     X       X     X       X         X       X      X      X     X       X       X      X     X     X       X
";

#[test]
fn all_pairs() {
    let mut lines = EXPECTED.trim().lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    let names = lines.next().unwrap();
    let (mine, same, others) = (samples(1), samples(1), samples(2));
    assert_eq!(names[1..], same.iter().map(|(name, _)| *name).collect::<Vec<_>>());
    let mut pairs = 0;
    for (line, (name, mine)) in lines.zip(&mine) {
        assert_eq!(line[0], *name);
        for (at, expected) in line[1..].iter().enumerate() {
            let (on_same, on_others) = expected.split_once('/').unwrap_or((expected, expected));
            assert_eq!(verdict(mine, &same[at].1), on_same, "{name} after {} of the same", same[at].0);
            assert_eq!(verdict(mine, &others[at].1), on_others, "{name} after {} of others", same[at].0);
            pairs += 2;
        }
    }
    assert_eq!(pairs, 2 * 22 * 22);
}

#[test]
fn what_the_samples_do_not_show() {
    // Keys of a merge without a filter are not known: its new rows may have any.
    assert_eq!(verdict(&insert(1), &update(&[7], &[], "a")), "Key");
    assert_eq!(verdict(&update(&[7], &[], "a"), &insert(1)), "ok");
    let (Operation::Update(rows), Operation::Update(keys)) = (update(&[1], &[], "a"), insert(1)) else {
        unreachable!()
    };
    let upsert = Operation::Update(Update { inserted_rows: keys.inserted_rows, ..rows });
    assert_eq!(verdict(&upsert, &update(&[1], &[], "a")), "Key+DV");
    assert_eq!(verdict(&upsert, &update(&[], &[1], "a")), "Ry");
    // Keys that the merge does not tell.
    let Operation::Update(upsert) = upsert else { unreachable!() };
    let fields = vec![FieldId(0)];
    let bloom =
        |bytes: usize| KeySet::Bloom(BloomFilter { bitmap: vec![0; bytes], ..BloomFilter::default() });
    for keys in [
        KeyFilter { fields: fields.clone(), keys: None },
        KeyFilter { fields: fields.clone(), keys: Some(KeySet::Exact([].into())) },
        KeyFilter { fields: fields.clone(), keys: Some(bloom(0)) },
        KeyFilter { fields, keys: Some(bloom(32)) },
        KeyFilter { fields: Vec::new(), keys: Some(KeySet::Exact([7].into())) },
    ] {
        let upsert = Operation::Update(Update { inserted_rows: Some(keys), ..upsert.clone() });
        let append = Operation::Append(Append { fragments: vec![fragment(0, "new")] });
        assert_eq!((verdict(&upsert, &append), verdict(&upsert, &update(&[7], &[], "a"))), ("Ry", "Ry"));
    }
    // Values in place of other fields than the key, of the key, and of who knows which.
    for (fields, expected) in [(vec![FieldId(3)], "Key"), (vec![FieldId(0)], "Ry"), (Vec::new(), "Ry")] {
        let Operation::Update(theirs) = columns(7) else { unreachable!() };
        let theirs = Operation::Update(Update { fields_modified: fields, ..theirs });
        assert_eq!(verdict(&insert(1), &theirs), expected);
    }
    // Clearing the config is a change of every key.
    let clear = MapUpdate { replace: true, ..MapUpdate::default() };
    let clear = Operation::UpdateConfig(UpdateConfig { config: Some(clear), ..UpdateConfig::default() });
    assert_eq!((verdict(&clear, &config("a")), verdict(&config("a"), &clear)), ("X", "X"));
    // An index of a column that is not in the new schema.
    let lost = Operation::Merge(Merge {
        fragments: vec![fragment(1, "a")],
        schema: Schema::default(),
        preserves_nullability: true,
    });
    let dropped = Operation::Project(Project { schema: Schema::default(), preserves_nullability: true });
    assert_eq!((verdict(&lost, &index(1)), verdict(&index(1), &lost)), ("Ry", "Ry"));
    assert_eq!((verdict(&dropped, &index(1)), verdict(&index(1), &dropped)), ("ok", "Ry"));
    // New rows with a column that is not in the new schema: a merge may have given it another type.
    let append = Operation::Append(Append { fragments: vec![fragment(0, "new")] });
    assert_eq!((verdict(&append, &lost), verdict(&append, &dropped)), ("Ry", "ok"));
    // An index that does not say what it covers may cover anything.
    let Operation::CreateIndex(mut create) = index(5) else { unreachable!() };
    create.new_indices[0].fragments = None;
    assert_eq!(verdict(&Operation::CreateIndex(create), &rewrite(1)), "Ry");
    // Other columns of the same fragment.
    let mut other = file("c");
    other.fields = [FieldId(9)].into();
    let replacements = vec![Replacement { fragment: FragmentId(1), file: other }];
    let other = Operation::DataReplacement(DataReplacement { replacements });
    assert_eq!(verdict(&replacement(1), &other), "ok");
    assert_eq!(verdict(&other, &index(1)), "ok");
}

#[test]
fn an_index_that_is_dropped_is_neither_extended_nor_brought_back() {
    let Operation::CreateIndex(CreateIndex { new_indices: first, .. }) = index(1) else { unreachable!() };
    let second: Vec<IndexMetadata> =
        first.iter().map(|entry| IndexMetadata { uuid: Uuid::from_u128(7), ..entry.clone() }).collect();
    let create = |new: &[IndexMetadata], removed: &[IndexMetadata]| {
        Operation::CreateIndex(CreateIndex { new_indices: new.to_vec(), removed_indices: removed.to_vec() })
    };
    let drop = create(&[], &first);
    for optimize in [create(&second, &first), create(&second, &[])] {
        assert_eq!((verdict(&drop, &optimize), verdict(&optimize, &drop)), ("Ry", "Ry"));
    }
    assert_eq!(verdict(&drop, &drop), "ok");
    assert_eq!((verdict(&drop, &index(2)), verdict(&index(2), &drop)), ("ok", "ok"));
    // A compaction of rows that moves them in its files.
    let moved = RewrittenIndex { old_id: first[0].uuid, new_id: Uuid::from_u128(7), encoded: Bytes::new() };
    let Operation::Rewrite(rewrite) = rewrite(1) else { unreachable!() };
    let rewrite = Operation::Rewrite(Rewrite { rewritten_indices: vec![moved], ..rewrite });
    assert_eq!((verdict(&drop, &rewrite), verdict(&rewrite, &drop)), ("Ry", "Ry"));
    assert_eq!(verdict(&create(&[], &second), &rewrite), "ok");
}
