//! The checked-in wire code is what `protos/` says.

use std::fs;

use pennon_testkit::wire_code;

#[test]
fn generated_code_matches_the_protos() {
    let (protos, checked_in) = wire_code::workspace_paths();
    let out = tempfile::tempdir().unwrap();
    let names = wire_code::generate(&protos, out.path()).unwrap();
    assert!(names.iter().any(|n| n == "lance.table.rs"), "{names:?}");

    let mut found: Vec<String> =
        fs::read_dir(&checked_in).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
    found.sort();
    assert_eq!(found, names, "files in {}", checked_in.display());
    for name in names {
        let expected = fs::read_to_string(out.path().join(&name)).unwrap();
        let found = fs::read_to_string(checked_in.join(&name)).unwrap();
        assert!(found == expected, "{name} is stale: run `cargo run -p pennon-testkit --bin generate-wire`");
    }
}
