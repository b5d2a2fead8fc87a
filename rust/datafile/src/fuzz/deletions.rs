//! Deletion files of both forms, damaged.

use bytes::Bytes;
use pennon_core::deletion::DeletionVector;
use pennon_core::manifest::DeletionFileType;

use super::{Random, run};
use crate::deletion_file::{decode, encode_as};

fn rows(random: &mut Random) -> DeletionVector {
    let mut rows = Vec::new();
    for _ in 0..1 + random.below(40) {
        let mut any = |bits| 1 << random.below(bits);
        let (start, len) = (any(31), any(12));
        let (start, len) = (random.below(start), random.below(len));
        let (start, len) = (u32::try_from(start).unwrap(), u32::try_from(len).unwrap());
        rows.extend(start..start.saturating_add(len + 1));
    }
    rows.into_iter().collect()
}

fn damaged(random: &mut Random, form: DeletionFileType) -> usize {
    let rows = rows(random);
    let mut bytes = encode_as(form, &rows).unwrap();
    assert_eq!(decode(form, &Bytes::from(bytes.clone()), rows.len()).unwrap(), rows);
    for _ in 0..20 {
        random.damage(&mut bytes, 0);
        let expected = if random.below(8) == 0 { random.extreme() } else { rows.len() };
        if let Ok(read) = decode(form, &Bytes::from(bytes.clone()), expected) {
            assert_eq!(read.len(), expected);
        }
    }
    bytes.len()
}

#[test]
fn damaged_deletion_files() {
    run(Some(200), |random| damaged(random, DeletionFileType::Arrow));
    run(Some(200), |random| damaged(random, DeletionFileType::Bitmap));
}

#[test]
#[ignore = "runs as long as FUZZ_SECONDS says"]
fn fuzz_deletion_arrow() {
    run(None, |random| damaged(random, DeletionFileType::Arrow));
}

#[test]
#[ignore = "runs as long as FUZZ_SECONDS says"]
fn fuzz_deletion_bitmap() {
    run(None, |random| damaged(random, DeletionFileType::Bitmap));
}
