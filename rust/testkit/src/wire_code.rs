//! Generates the wire code of `pennon-core` from `protos/`.
//!
//! The result is checked in, so that no build needs a protobuf compiler; a test compares it with the protos.
//! Maps become `BTreeMap` (equal values have equal bytes), byte fields become `Bytes` (slices of the input).

use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};

/// Writes one file per protobuf package into `out_dir` and returns their names, sorted.
///
/// `protos_dir` is the folder of the `.proto` files. Errors: what the compiler reports, or the file system.
pub fn generate(protos_dir: &Path, out_dir: &Path) -> Result<Vec<String>, Box<dyn Error>> {
    let mut protos: Vec<PathBuf> =
        fs::read_dir(protos_dir)?.map(|entry| Ok(entry?.path())).collect::<std::io::Result<Vec<_>>>()?;
    protos.retain(|path| path.extension().is_some_and(|e| e == "proto"));
    protos.sort();

    let descriptors = protox::compile(&protos, [protos_dir])?;
    fs::create_dir_all(out_dir)?;
    prost_build::Config::new()
        .out_dir(out_dir)
        .bytes(["."])
        .btree_map(["."])
        .compile_well_known_types()
        .disable_comments([".google.protobuf"])
        .compile_fds(descriptors)?;

    let mut names: Vec<String> = fs::read_dir(out_dir)?
        .map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()))
        .collect::<std::io::Result<Vec<_>>>()?;
    names.sort();
    Ok(names)
}

/// Where the protos and the generated code lie in the workspace.
pub fn workspace_paths() -> (PathBuf, PathBuf) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    (root.join("protos"), root.join("rust/core/src/wire/generated"))
}
