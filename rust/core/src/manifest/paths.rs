//! What a file is, by its path below the root of a table (table format, section 1).
//!
//! Cleanup removes nothing that is not recognised here: only names that a writer of the format makes up, and only
//! in the folders it puts them.

use std::borrow::Cow;

use uuid::Uuid;

use super::{DataFile, Fragment, IndexMetadata, Manifest, naming};
use crate::{Error, Result, Version};

/// A file that a writer of the format makes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TableFile {
    /// `_versions/<name>.manifest`.
    Manifest(Version),
    /// `_versions/d<version>.manifest`.
    Detached(Version),
    /// `_versions/<name>.manifest-<uuid>`: a commit through an external manifest store.
    Staged(Version),
    /// `_versions/latest_version_hint.json`.
    Hint,
    /// `_transactions/<read version>-<uuid>.txn`.
    Transaction,
    /// `data/<name>.lance`.
    Data {
        /// Whether the name has the form of those that writers generate; a manifest may refer to others.
        generated: bool,
    },
    /// `data/<name>/<32 binary digits>.blob`: blobs of `data/<name>.lance`.
    Blob,
    /// `_deletions/<fragment>-<read version>-<id>.{arrow,bin}`.
    Deletion,
    /// A file directly below `_indices/<uuid>`.
    Index(Uuid),
    /// `_seals/<path of another file>.seal`: checksums of that file.
    Seal,
    /// `.tmp...`, begun and not completed.
    Temporary,
}

impl TableFile {
    /// One word for it.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Manifest(_) | Self::Detached(_) | Self::Staged(_) => "manifest",
            Self::Hint => "hint",
            Self::Transaction => "transaction",
            Self::Data { .. } => "data",
            Self::Blob => "blob",
            Self::Deletion => "deletion",
            Self::Index(_) => "index",
            Self::Seal => "seal",
            Self::Temporary => "temporary",
        }
    }
}

/// Recognises a path; `None` for files that are not those of a table.
///
/// ```
/// use pennon_core::manifest::paths::{TableFile, recognise};
/// assert_eq!(recognise("_deletions/3-7-99.bin"), Some(TableFile::Deletion));
/// assert_eq!(recognise("data/notes.txt"), None);
/// ```
pub fn recognise(path: &str) -> Option<TableFile> {
    let (folder, name) = path.split_once('/')?;
    if folder == SEALS {
        let is_temporary = name.rsplit('/').next().is_some_and(|name| name.starts_with(".tmp"));
        let temporary = || is_temporary.then_some(TableFile::Temporary);
        let of_file = sealed(path).and_then(recognise).filter(|file| *file != TableFile::Seal);
        return of_file.map(|_| TableFile::Seal).or_else(temporary);
    }
    if folder == "_indices" {
        let (uuid, name) = name.split_once('/')?;
        let uuid = Uuid::try_parse(uuid).ok().filter(|_| uuid.len() == 36)?;
        if name.starts_with(".tmp") && !name.contains('/') {
            return Some(TableFile::Temporary);
        }
        let (_, extension) = name.rsplit_once('.')?;
        let known = !name.contains('/') && matches!(extension, "lance" | "idx" | "binpb");
        return known.then_some(TableFile::Index(uuid));
    }
    if let Some((stem, blob)) = name.split_once('/') {
        let digits = blob.strip_suffix(".blob").unwrap_or_default();
        let known = digits.len() == 32 && digits.bytes().all(|b| matches!(b, b'0' | b'1'));
        return (folder == "data" && known && is_generated(stem)).then_some(TableFile::Blob);
    }
    let temporary = name.starts_with(".tmp").then_some(TableFile::Temporary);
    match folder {
        "_versions" => version_file(name).or(temporary),
        "_transactions" => naming::parse_transaction_file_name(name)
            .filter(|(_, uuid)| Uuid::try_parse(uuid).is_ok())
            .map(|_| TableFile::Transaction)
            .or(temporary),
        "data" => temporary.or_else(|| {
            let stem = name.strip_suffix(".lance")?;
            Some(TableFile::Data { generated: is_generated(stem) })
        }),
        "_deletions" => is_deletion(name).then_some(TableFile::Deletion).or(temporary),
        _ => None,
    }
}

fn version_file(name: &str) -> Option<TableFile> {
    if name == "latest_version_hint.json" {
        return Some(TableFile::Hint);
    }
    if let Some((version, _)) = naming::parse(name) {
        return Some(TableFile::Manifest(version));
    }
    if let Some(version) = naming::parse_detached(name) {
        return Some(TableFile::Detached(version));
    }
    let (manifest, uuid) = name.split_once(".manifest-")?;
    Uuid::try_parse(uuid).ok()?;
    let (version, _) = naming::parse(&format!("{manifest}.manifest"))?;
    Some(TableFile::Staged(version))
}

/// The folder of seals: checksums of files whose writer left none in them.
pub const SEALS: &str = "_seals";

/// The seal of a file.
///
/// ```
/// use pennon_core::manifest::paths::{seal, sealed};
/// assert_eq!(seal("data/0.lance"), "_seals/data/0.lance.seal");
/// assert_eq!(sealed("_seals/data/0.lance.seal"), Some("data/0.lance"));
/// ```
pub fn seal(path: &str) -> String {
    format!("{SEALS}/{path}.seal")
}

/// The file that a seal is of; `None` if the path is not that of a seal.
pub fn sealed(path: &str) -> Option<&str> {
    path.strip_prefix(SEALS)?.strip_prefix('/')?.strip_suffix(".seal")
}

/// A file, or the directory of an index, that a version refers to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reference<'a> {
    /// Folder below the root: `data`, `_deletions`, `_indices` or `_transactions`.
    pub folder: &'static str,
    /// Path in it.
    pub name: Cow<'a, str>,
    /// Root it lies under; `None` for the table's own.
    pub base_id: Option<u32>,
    /// Size in bytes, if the version states it.
    pub size: Option<u64>,
}

impl Reference<'_> {
    /// The path below the root it lies under, if that is the root of a table.
    pub fn path(&self) -> String {
        format!("{}/{}", self.folder, self.name)
    }

    /// Whether both are one file, whatever is said of its size.
    pub fn is_same_file(&self, other: &Reference<'_>) -> bool {
        (self.folder, &self.name, self.base_id) == (other.folder, &other.name, other.base_id)
    }

    /// The same without what it was taken from.
    pub fn into_owned(self) -> Reference<'static> {
        Reference { name: Cow::Owned(self.name.into_owned()), ..self }
    }
}

/// The reference to a data file.
pub fn data(file: &DataFile) -> Reference<'_> {
    let name = Cow::Borrowed(file.path.as_str());
    Reference { folder: "data", name, base_id: file.base_id, size: file.known_size() }
}

/// The deletion file of a fragment.
pub fn deletion(fragment: &Fragment) -> Option<Reference<'_>> {
    let deletion = fragment.deletion.as_ref()?;
    let name = Cow::Owned(deletion.file_name(fragment.id));
    Some(Reference { folder: "_deletions", name, base_id: deletion.base_id, size: None })
}

/// The data files of a fragment, then its deletion file.
pub fn of_fragment(fragment: &Fragment) -> impl Iterator<Item = Reference<'_>> {
    fragment.files.iter().map(data).chain(deletion(fragment))
}

/// Everything that a version refers to: costs what the table costs.
pub fn references<'a>(
    manifest: &'a Manifest,
    indices: &'a [IndexMetadata],
) -> impl Iterator<Item = Reference<'a>> {
    let owned = |file: Reference<'_>| -> Reference<'a> { file.into_owned() };
    let of_fragments = manifest.fragments.decode_all();
    let of_fragments =
        of_fragments.flat_map(move |fragment| of_fragment(&fragment).map(owned).collect::<Vec<_>>());
    of_fragments.chain(beyond_fragments(manifest, indices))
}

/// What a version refers to besides the files of its fragments: indices and its transaction file.
pub fn beyond_fragments<'a>(
    manifest: &'a Manifest,
    indices: &'a [IndexMetadata],
) -> impl Iterator<Item = Reference<'a>> {
    let indices = indices.iter().map(|index| Reference {
        folder: "_indices",
        name: Cow::Owned(index.uuid.to_string()),
        base_id: index.base_id(),
        size: None,
    });
    let transaction = (!manifest.transaction_file.is_empty()).then_some(Reference {
        folder: "_transactions",
        name: Cow::Borrowed(manifest.transaction_file.as_str()),
        base_id: None,
        size: None,
    });
    indices.chain(transaction)
}

/// Refuses a path that would leave the directory it is relative to, or that names no file in it. Errors: `Corrupt`.
///
/// ```
/// use pennon_core::manifest::paths::check_inside;
/// assert!(check_inside("part/x.lance").is_ok());
/// assert!(check_inside("../x.lance").is_err());
/// assert!(check_inside("/etc/passwd").is_err());
/// ```
pub fn check_inside(path: &str) -> Result<()> {
    // Nearly all paths are plain names, and there are thousands: one pass for those.
    let special = path.bytes().fold(false, |found, byte| found | matches!(byte, b'/' | b'\\' | b':' | b'\0'));
    if !special && !matches!(path, "" | "." | "..") {
        return Ok(());
    }
    let absolute =
        path.starts_with(['/', '\\']) || path.contains("://") || path.as_bytes().get(1) == Some(&b':');
    let climbs = path.split(['/', '\\']).any(|part| part == "..");
    if matches!(path, "" | ".") || absolute || climbs || path.contains('\0') {
        return Err(Error::corrupt(format!(
            "path {path:?} is not inside the table: expected a relative path without `..`"
        )));
    }
    Ok(())
}

/// 24 binary and 26 hex digits, or the hyphenated uuid of earlier writers.
fn is_generated(stem: &str) -> bool {
    let lower_hex = |b: u8| matches!(b, b'0'..=b'9' | b'a'..=b'f');
    match stem.as_bytes().split_at_checked(24) {
        Some((binary, hex)) if hex.len() == 26 => {
            binary.iter().all(|b| matches!(b, b'0' | b'1')) && hex.iter().all(|&b| lower_hex(b))
        }
        _ => stem.len() == 36 && Uuid::try_parse(stem).is_ok(),
    }
}

fn is_deletion(name: &str) -> bool {
    let Some(stem) = name.strip_suffix(".arrow").or_else(|| name.strip_suffix(".bin")) else { return false };
    let digits = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
    stem.split('-').count() == 3 && stem.split('-').all(digits)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_writers_are_recognised_and_others_are_not() {
        let uuid = "d53689f7-1b93-47ff-af8b-a0c13f8bdce1";
        let data = "10001101100111100011110100000000000000000000000000.lance";
        for (path, expected) in [
            ("_versions/18446744073709551614.manifest".to_owned(), Some(TableFile::Manifest(Version(1)))),
            ("_versions/7.manifest".to_owned(), Some(TableFile::Manifest(Version(7)))),
            (format!("_versions/7.manifest-{uuid}"), Some(TableFile::Staged(Version(7)))),
            (
                "_versions/d9223372036854775813.manifest".to_owned(),
                Some(TableFile::Detached(Version(1 << 63 | 5))),
            ),
            ("_versions/latest_version_hint.json".to_owned(), Some(TableFile::Hint)),
            ("_versions/.tmp_7.manifest_0f".to_owned(), Some(TableFile::Temporary)),
            (format!("_transactions/1-{uuid}.txn"), Some(TableFile::Transaction)),
            (format!("data/{data}"), Some(TableFile::Data { generated: true })),
            (format!("data/{uuid}.lance"), Some(TableFile::Data { generated: true })),
            (format!("data/{uuid}/{}.blob", "01".repeat(16)), Some(TableFile::Blob)),
            ("data/mine.lance".to_owned(), Some(TableFile::Data { generated: false })),
            ("_deletions/0-1-18034007696955919556.arrow".to_owned(), Some(TableFile::Deletion)),
            (
                format!("_indices/{uuid}/page_data.lance"),
                Some(TableFile::Index(Uuid::try_parse(uuid).unwrap())),
            ),
            (format!("_indices/{uuid}/.tmp_page_data.lance_0f"), Some(TableFile::Temporary)),
            (format!("_indices/{uuid}/.tmpfYbmq4"), Some(TableFile::Temporary)),
            (format!("_seals/data/{data}.seal"), Some(TableFile::Seal)),
            (format!("_seals/_indices/{uuid}/index.idx.seal"), Some(TableFile::Seal)),
        ] {
            assert_eq!(recognise(&path), expected, "{path}");
        }
        for path in [
            "".to_owned(),
            data.to_owned(),
            format!("elsewhere/{data}"),
            format!("data/part/{data}"),
            "data/notes.txt".to_owned(),
            format!("data/mine/{}.blob", "01".repeat(16)),
            format!("data/{uuid}/01.blob"),
            "_versions/notes.json".to_owned(),
            "_versions/7.manifest-notes".to_owned(),
            "_transactions/1-notes.txn".to_owned(),
            "_deletions/0-1.arrow".to_owned(),
            "_deletions/0-1-x.bin".to_owned(),
            "_indices/notes/page_data.lance".to_owned(),
            format!("_indices/{uuid}/notes.txt"),
            format!("_indices/{uuid}/part/.tmpfYbmq4"),
            "_indices/notes/.tmpfYbmq4".to_owned(),
            format!("_indices/{uuid}/part/page_data.lance"),
            "tree/dev/data/x.lance".to_owned(),
            format!("_seals/data/{data}"),
            "_seals/data/notes.txt.seal".to_owned(),
            format!("_seals/_seals/data/{data}.seal.seal"),
        ] {
            assert_eq!(recognise(&path), None, "{path}");
        }
    }
}
