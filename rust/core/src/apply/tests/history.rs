//! Histories of tables that the reference made: each version is made again from the one before.

use std::collections::BTreeSet;
use std::path::Path;

use super::{ApplyContext, Bytes, IndexMetadata, Manifest, ManifestFile, Transaction, apply, context};
use crate::transaction::Operation;
use crate::wire::index_section;

struct Made {
    manifest: Manifest,
    indices: Vec<IndexMetadata>,
    transaction: Transaction,
}

fn history(name: &str) -> Vec<Made> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden/operations").join(name);
    let mut paths: Vec<_> = std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    let read = |path| {
        let file = ManifestFile::decode(Bytes::from(std::fs::read(path).unwrap())).unwrap();
        let indices = file.indices().unwrap().map_or(Vec::new(), |b| index_section::decode(b).unwrap());
        let transaction = Transaction::decode(file.transaction().unwrap().unwrap()).unwrap();
        let manifest = Manifest { index_section: None, transaction_section: None, ..file.manifest };
        Made { manifest, indices, transaction }
    };
    paths.into_iter().map(read).collect()
}

/// Applies all transactions of a history and compares. Gives the names of the operations.
fn made_again(name: &str, enable_stable_row_ids: bool) -> BTreeSet<&'static str> {
    let versions = history(name);
    let mut before: Option<&Made> = None;
    for expected in &versions {
        let restored = match &expected.transaction.operation {
            Operation::Restore(restore) => {
                let target = versions.iter().find(|made| made.manifest.version == restore.version).unwrap();
                Some((target.manifest.clone(), target.indices.clone()))
            }
            _ => None,
        };
        let context = ApplyContext {
            timestamp: expected.manifest.timestamp,
            transaction_file: expected.manifest.transaction_file.clone(),
            writer: expected.manifest.writer.clone().unwrap(),
            restored: restored.as_ref(),
            enable_stable_row_ids,
            ..context()
        };
        let operation = expected.transaction.operation.name();
        let location = format!("{name} version {} ({operation})", expected.manifest.version);
        let (current, indices) =
            before.map_or((None, &[][..]), |before| (Some(&before.manifest), before.indices.as_slice()));
        let (found, found_indices) = apply(current, indices, &expected.transaction, &context)
            .unwrap_or_else(|error| panic!("{location}: {error}"));
        assert_eq!(found, expected.manifest, "{location}");
        let rebuilt = |indices: &[IndexMetadata]| indices.iter().map(rebuilt).collect::<Vec<_>>();
        assert_eq!(rebuilt(&found_indices), rebuilt(&expected.indices), "{location}");
        before = Some(expected);
    }
    versions.iter().map(|made| made.transaction.operation.name()).collect()
}

/// The same set of fragments may have several forms.
fn rebuilt(index: &IndexMetadata) -> IndexMetadata {
    let Some(fragments) = &index.fragments else { return index.clone() };
    index.with_fragments(fragments.iter().collect()).unwrap()
}

#[test]
fn what_calls_commit() {
    let all = BTreeSet::from([
        "Append",
        "CreateIndex",
        "Delete",
        "Merge",
        "Overwrite",
        "Project",
        "ReserveFragments",
        "Restore",
        "Rewrite",
        "Update",
        "UpdateConfig",
    ]);
    assert_eq!(made_again("verbs-stable", true), all);
    assert_eq!(made_again("verbs-addresses", false), all);
}

#[test]
fn what_no_call_commits() {
    let all = BTreeSet::from([
        "Append",
        "CreateIndex",
        "DataReplacement",
        "Delete",
        "Merge",
        "Overwrite",
        "Project",
        "Rewrite",
        "Update",
        "UpdateBases",
    ]);
    assert_eq!(made_again("raw-addresses", false), all);
    let without_rewrite = all.into_iter().filter(|name| *name != "Rewrite").collect();
    assert_eq!(made_again("raw-stable", true), without_rewrite);
}
