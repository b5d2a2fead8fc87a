//! Names of the files of a table (table format, section 1).
//!
//! | file | name |
//! |---|---|
//! | manifest, scheme 2 | 20 digits of `u64::MAX - version`, so that the newest sorts first |
//! | manifest, scheme 1 | the version |
//! | detached manifest | `d` and the version, whose bit 63 is set |
//! | transaction | `<read version>-<uuid>.txn` |
//! | data file | the first 3 of 16 random bytes as binary digits, the others as hex digits |

use std::fmt::Write as _;

use crate::Version;

const MANIFEST_SUFFIX: &str = ".manifest";
const V2_DIGITS: usize = 20;

/// How the manifests of a table are named; chosen when the table is created.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum NamingScheme {
    /// The version as it is.
    V1,
    /// `u64::MAX - version`, 20 digits.
    #[default]
    V2,
}

/// Name of a version's manifest in `_versions`.
///
/// ```
/// use pennon_core::Version;
/// use pennon_core::manifest::naming::{NamingScheme, manifest_name};
/// assert_eq!(manifest_name(Version(1), NamingScheme::V2), "18446744073709551614.manifest");
/// assert_eq!(manifest_name(Version(1), NamingScheme::V1), "1.manifest");
/// ```
pub fn manifest_name(version: Version, scheme: NamingScheme) -> String {
    match scheme {
        _ if version.is_detached() => format!("d{version}{MANIFEST_SUFFIX}"),
        NamingScheme::V1 => format!("{version}{MANIFEST_SUFFIX}"),
        NamingScheme::V2 => format!("{:020}{MANIFEST_SUFFIX}", u64::MAX - version.0),
    }
}

/// Version and scheme of a manifest name; `None` for other files, staged and detached manifests included, and for numbers
/// that only detached manifests have.
///
/// The names of the two schemes differ in length: 20 digits are scheme 2 (table format, section 1).
pub fn parse(name: &str) -> Option<(Version, NamingScheme)> {
    let digits = name.strip_suffix(MANIFEST_SUFFIX)?;
    let number = parse_number(digits)?;
    let (version, scheme) = match digits.len() {
        V2_DIGITS => (Version(u64::MAX - number), NamingScheme::V2),
        _ => (Version(number), NamingScheme::V1),
    };
    (!version.is_detached()).then_some((version, scheme))
}

/// Version of a detached manifest's name.
pub fn parse_detached(name: &str) -> Option<Version> {
    let number = parse_number(name.strip_prefix('d')?.strip_suffix(MANIFEST_SUFFIX)?)?;
    Some(Version(number)).filter(|v| v.is_detached())
}

/// Digits only: the standard parser also takes a sign.
fn parse_number(digits: &str) -> Option<u64> {
    digits.bytes().all(|b| b.is_ascii_digit()).then(|| digits.parse().ok())?
}

/// Name of a transaction file in `_transactions`; `uuid` is hyphenated and in lower case.
pub fn transaction_file_name(read_version: Version, uuid: &str) -> String {
    format!("{read_version}-{uuid}.txn")
}

/// Read version and uuid of a transaction file, from its name.
///
/// ```
/// use pennon_core::Version;
/// use pennon_core::manifest::naming::parse_transaction_file_name;
/// assert_eq!(parse_transaction_file_name("7-9f3c.txn"), Some((Version(7), "9f3c")));
/// ```
pub fn parse_transaction_file_name(name: &str) -> Option<(Version, &str)> {
    let (version, uuid) = name.strip_suffix(".txn")?.split_once('-')?;
    Some((Version(version.parse().ok()?), uuid))
}

/// Name of a new data file from 16 random bytes.
///
/// ```
/// use pennon_core::manifest::naming::data_file_name;
/// let name = data_file_name(&[0xb5, 0xb9, 0xaf, 1, 0x78, 0x44, 0x44, 0x1b, 0x91, 0x3a, 0x95, 0x66, 0xfb, 0xf3, 0x4e, 0xfd]);
/// assert_eq!(name, "10110101101110011010111101784444" .to_owned() + "1b913a9566fbf34efd.lance");
/// ```
pub fn data_file_name(random: &[u8; 16]) -> String {
    let mut name = String::with_capacity(56);
    let (binary, hex) = random.split_at(3);
    // Writing to a string does not fail.
    for byte in binary {
        let _ = write!(name, "{byte:08b}");
    }
    for byte in hex {
        let _ = write!(name, "{byte:02x}");
    }
    name.push_str(".lance");
    name
}

/// Path below `data` of a file of blobs next to a data file: a folder named like that file, and the bits of the id,
/// lowest first.
///
/// ```
/// use pennon_core::manifest::naming::blob_file_path;
/// assert_eq!(blob_file_path("a.lance", 6), format!("a/011{}.blob", "0".repeat(29)));
/// ```
pub fn blob_file_path(data_file: &str, blob_id: u32) -> String {
    format!("{}/{:032b}.blob", blob_folder(data_file), blob_id.reverse_bits())
}

/// The folder of those files.
pub fn blob_folder(data_file: &str) -> &str {
    data_file.strip_suffix(".lance").unwrap_or(data_file)
}
