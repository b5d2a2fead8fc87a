//! Flags, names and the layout of the manifest file.

mod fragments;

use super::naming::{
    NamingScheme, data_file_name, manifest_name, parse, parse_detached, transaction_file_name,
};
use super::{Flags, ManifestFile, Tail};
use crate::wire::tests::{golden, part};
use crate::{ErrorKind, Version};

#[test]
fn manifest_names() {
    for version in [1, 2, 9, 10, 1 << 40, (1 << 63) - 1].map(Version) {
        for scheme in [NamingScheme::V1, NamingScheme::V2] {
            assert_eq!(parse(&manifest_name(version, scheme)), Some((version, scheme)));
        }
        let name = manifest_name(version, NamingScheme::V2);
        assert_eq!(name.len(), 29);
        assert!(name < manifest_name(Version(version.0 - 1), NamingScheme::V2));
    }
    let detached = Version(1 << 63 | 5);
    let name = manifest_name(detached, NamingScheme::V2);
    assert_eq!(name, "d9223372036854775813.manifest");
    assert_eq!((parse(&name), parse_detached(&name)), (None, Some(detached)));
    for name in [
        "",
        ".manifest",
        "x.manifest",
        "+1.manifest",
        "1.manifest-0f",
        "latest_version_hint.json",
        "99999999999999999999.manifest",
        "d5.manifest",
        // Numbers of detached versions, in the names of others.
        "9223372036854775808.manifest",
        "00000000000000000024.manifest",
    ] {
        assert_eq!((parse(name), parse_detached(name)), (None, None), "{name}");
    }
    assert_eq!(transaction_file_name(Version(3), "u-u"), "3-u-u.txn");
    let name = data_file_name(&[0x80, 1, 2, 0xff, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x0a]);
    assert_eq!(name, "100000000000000100000010ff00000000000000000000000a.lance");
}

#[test]
fn unknown_flags_are_named() {
    let known = Flags(1 | 2 | 4 | 8 | 16 | 32 | 256 | 2048);
    known.check_readable().unwrap();
    known.check_writable().unwrap();
    for bit in [64, 128, 512, 4096, 8192, 16384, 65536, 1 << 17, 1 << 63] {
        for error in [known.with(Flags(bit)).check_readable(), known.with(Flags(bit)).check_writable()] {
            let error = error.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Unsupported);
            assert!(error.to_string().contains(&bit.to_string()), "{error}");
        }
    }
    for bit in [Flags::TAGGED_FRAGMENT_REUSE, Flags::NON_REUSABLE_FIELD_IDS] {
        bit.check_readable().unwrap();
        bit.check_writable().unwrap_err();
    }
    assert_eq!(Flags(64 | 512).to_string(), "64 (data overlay files), 512");
    assert_eq!(Flags(0).to_string(), "none");
    assert_eq!(Flags(3).without(Flags(2)).set(Flags(8), true), Flags(9));
}

#[test]
fn a_tail_is_enough_to_find_the_manifest() {
    let file = golden("stable-6-index.manifest");
    let size = file.len() as u64;
    let message = Tail::locate(&file, size).unwrap();
    for length in 16..file.len() {
        assert_eq!(Tail::locate(&file.slice(file.len() - length..), size).unwrap(), message);
    }
    // Enough for the message and its prefix, not for the sections before it.
    let tail = part(&file, &(message.start - 4..size));
    let partial = ManifestFile::decode_tail(tail.clone(), size).unwrap();
    assert_eq!(partial.manifest, ManifestFile::decode(file.clone()).unwrap().manifest);
    let section = partial.index_section().unwrap().unwrap();
    assert_eq!(partial.read_along(&section).unwrap(), None);
    let bytes = part(&file, &section);
    let content = ManifestFile::unwrap_section(bytes, section.start).unwrap();
    assert_eq!(Some(content), ManifestFile::decode(file.clone()).unwrap().indices().unwrap());
    assert_eq!(ManifestFile::decode_tail(tail.slice(1..), size).unwrap_err().kind(), ErrorKind::Internal);
}
