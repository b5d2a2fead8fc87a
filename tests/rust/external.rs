//! Tables whose versions are in an external manifest store.

use pennon_core::ErrorKind;
use pennon_table::{Dataset, OpenOptions, VersionRef, WriteMode, WriteOptions};

use crate::support::*;

/// Addresses of a table with a manifest store of its own in its directory, and of one with a file that many tables share.
fn uris() -> (tempfile::TempDir, [String; 2]) {
    let directory = tempfile::tempdir().unwrap();
    let at = |path: &str| format!("file+sqlite://{}", directory.path().join(path).to_str().unwrap());
    let shared =
        format!("{}?db={}", at("shared"), directory.path().join("manifests.sqlite").to_str().unwrap());
    let uris = [at("own"), shared];
    (directory, uris)
}

/// The directory of the files.
fn root(uri: &str) -> std::path::PathBuf {
    let path = uri.trim_start_matches("file+sqlite://");
    path.split('?').next().unwrap().into()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_branch_that_was_deleted_can_be_made_again() {
    let (_directory, uris) = uris();
    for uri in &uris {
        let dataset = create(uri, 0..3).await;
        let mut branch = dataset.create_branch("b/c", None).await.unwrap();
        branch.insert(rows(3..5), params(WriteMode::Append)).await.unwrap();
        dataset.branches().delete("b/c").await.unwrap();
        assert_eq!(dataset.branches().delete("b/c").await.unwrap_err().kind(), ErrorKind::NotFound);
        let branch = dataset.create_branch("b/c", None).await.unwrap();
        assert_eq!((branch.version().0, values(&branch).await), (1, vec![0, 1, 2]));
        assert_eq!(values(&dataset).await, [0, 1, 2]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_deletion_forgets_the_versions_that_a_first_one_left() {
    let (_directory, uris) = uris();
    for uri in &uris {
        let dataset = create(uri, 0..3).await;
        dataset.create_branch("b", None).await.unwrap();
        // What a deletion by an older release left: entries without files and without a name.
        std::fs::remove_dir_all(root(uri).join("_refs/branches")).unwrap();
        for folder in ["_versions", "_transactions"] {
            let folder = root(uri).join("tree/b").join(folder);
            if folder.exists() {
                std::fs::remove_dir_all(folder).unwrap();
            }
        }
        assert_eq!(dataset.create_branch("b", None).await.unwrap_err().kind(), ErrorKind::AlreadyExists);
        dataset.branches().delete("b").await.unwrap();
        assert_eq!(dataset.branches().delete("b").await.unwrap_err().kind(), ErrorKind::NotFound);
        assert_eq!(values(&dataset.create_branch("b", None).await.unwrap()).await, [0, 1, 2]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_table_that_was_dropped_leaves_no_versions_of_its_branches() {
    let (_directory, uris) = uris();
    for uri in &uris {
        let dataset = create(uri, 0..3).await;
        for name in ["named", "data/only-files"] {
            dataset.create_branch(name, None).await.unwrap();
        }
        std::fs::remove_file(root(uri).join("_refs/branches/data%2Fonly-files.json")).unwrap();
        Dataset::drop_table(uri, &Default::default(), false).await.unwrap();
        let dataset = create(uri, 5..7).await;
        for name in ["named", "data/only-files"] {
            let branch = dataset.create_branch(name, None).await.unwrap();
            assert_eq!(values(&branch).await, [5, 6]);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn manifests_that_are_renamed_are_found_at_their_new_paths() {
    let (_directory, uris) = uris();
    for uri in &uris {
        let mut layout = layout(true);
        layout.enable_v2_manifest_paths = false;
        let params = WriteOptions { create: layout, ..params(WriteMode::Create) };
        Dataset::write(rows(0..3), uri, params).await.unwrap();
        let mut dataset = append(uri, 3..5).await.unwrap();
        let versions = || {
            let mut names = files(&root(uri).join("_versions"));
            names.retain(|name| name.ends_with(".manifest"));
            names
        };
        assert_eq!(versions(), ["1.manifest", "2.manifest"]);
        dataset.migrate_manifest_paths_v2().await.unwrap();
        let renamed = versions();
        assert!(renamed.iter().all(|name| name.starts_with("1844674407370955161")), "{renamed:?}");
        dataset.migrate_manifest_paths_v2().await.unwrap();
        assert_eq!((renamed.len(), versions()), (2, renamed));

        assert_eq!(values(&open(uri).await).await, [0, 1, 2, 3, 4]);
        let first = OpenOptions { version: Some(VersionRef::Number(1)), ..options() };
        assert_eq!(values(&Dataset::open(uri, first).await.unwrap()).await, [0, 1, 2]);
        let appended = append(uri, 5..6).await.unwrap();
        assert_eq!((appended.version().0, values(&appended).await.len()), (3, 6));
        assert_eq!(appended.versions().await.unwrap().len(), 3);
    }
}
