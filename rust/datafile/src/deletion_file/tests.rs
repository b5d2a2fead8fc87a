use super::*;
use proptest::prelude::*;

const FORMS: [DeletionFileType; 2] = [DeletionFileType::Arrow, DeletionFileType::Bitmap];

/// Written by pylance 14, see `tests/golden/CATALOGUE.md`.
const GOLDEN_ARROW: &[u8] = include_bytes!("../../../../tests/golden/deletion/every_third.arrow");
const GOLDEN_BITMAP: &[u8] = include_bytes!("../../../../tests/golden/deletion/every_second.bin");

fn vector(rows: impl IntoIterator<Item = u32>) -> DeletionVector {
    rows.into_iter().collect()
}

fn rows(vector: &DeletionVector) -> Vec<u32> {
    vector.iter().collect()
}

#[test]
fn reads_what_the_reference_wrote() {
    let arrow = decode(DeletionFileType::Arrow, &Bytes::from_static(GOLDEN_ARROW), 300).unwrap();
    assert_eq!(rows(&arrow), (0..900).step_by(3).collect::<Vec<_>>());
    let bitmap = decode(DeletionFileType::Bitmap, &Bytes::from_static(GOLDEN_BITMAP), 6000).unwrap();
    assert_eq!(rows(&bitmap), (0..12_000).step_by(2).collect::<Vec<_>>());
    // The bitmap has one form; Arrow's depends on the order of the reference's hash set.
    let encoded = encode_as(DeletionFileType::Bitmap, &bitmap).unwrap();
    assert_eq!(encoded[..encoded.len() - 16], *GOLDEN_BITMAP);
}

#[test]
fn form_follows_the_number_of_rows() {
    assert_eq!(encode(&vector(0..4999)).unwrap().0, DeletionFileType::Arrow);
    assert_eq!(encode(&vector(0..5000)).unwrap().0, DeletionFileType::Bitmap);
}

#[test]
fn run_containers_are_read() {
    // Cookie with run flag for one container, flags, key 0 with cardinality 4, one run of 4 from 7.
    let bytes: &[u8] = &[0x3b, 0x30, 0, 0, 1, 0, 0, 3, 0, 1, 0, 7, 0, 3, 0];
    let read = decode(DeletionFileType::Bitmap, &Bytes::from_static(bytes), 4).unwrap();
    assert_eq!(rows(&read), [7, 8, 9, 10]);
}

#[test]
fn every_cut_and_the_empty_file_are_errors() {
    for form in FORMS {
        let bytes = Bytes::from(encode_as(form, &vector([1, 5, 70_000])).unwrap());
        // A bitmap without its checksum is still complete.
        let complete = (form == DeletionFileType::Bitmap).then(|| bytes.len() - 16);
        for end in (0..bytes.len()).filter(|end| Some(*end) != complete) {
            let error = decode(form, &bytes.slice(..end), 3).unwrap_err();
            assert_eq!(error.kind(), pennon_core::ErrorKind::Corrupt, "{form:?} cut at {end}: {error}");
        }
    }
}

#[test]
fn wrong_counts_are_errors() {
    for form in FORMS {
        let bytes = Bytes::from(encode_as(form, &vector(0..10)).unwrap());
        for expected in [0, 9, 11, u64::MAX] {
            let error = decode(form, &bytes, expected).unwrap_err();
            assert!(error.to_string().contains("10 distinct rows"), "{error}");
        }
    }
}

fn arrow_file(columns: Vec<(&str, arrow_array::ArrayRef, bool)>, batches: usize) -> Bytes {
    let batch = RecordBatch::try_from_iter_with_nullable(columns).unwrap();
    let mut writer = IpcWriter::try_new(Vec::new(), &batch.schema()).unwrap();
    for _ in 0..batches {
        writer.write(&batch).unwrap();
    }
    writer.into_inner().unwrap().into()
}

#[test]
fn other_arrow_files_are_errors() {
    let row_numbers = |values: &[u32]| Arc::new(UInt32Array::from(values.to_vec())) as arrow_array::ArrayRef;
    let decode = |file: Bytes, n| decode(DeletionFileType::Arrow, &file, n);
    assert_eq!(
        rows(&decode(arrow_file(vec![("row_id", row_numbers(&[9, 3]), false)], 1), 2).unwrap()),
        [3, 9]
    );
    let nulls = Arc::new(UInt32Array::from(vec![Some(1), None]));
    let signed = Arc::new(arrow_array::Int32Array::from(vec![1, 2]));
    for (file, text) in [
        (arrow_file(vec![("row_id", row_numbers(&[3, 3]), false)], 1), "1 distinct rows"),
        (arrow_file(vec![("row_id", row_numbers(&[1, 2]), false)], 2), "2 record batches"),
        (arrow_file(vec![("row_id", row_numbers(&[1, 2]), false)], 0), "0 record batches"),
        (arrow_file(vec![("id", row_numbers(&[1, 2]), false)], 1), "instead of row_id"),
        (arrow_file(vec![("row_id", nulls, true)], 1), "instead of row_id"),
        (arrow_file(vec![("row_id", signed, false)], 1), "instead of row_id"),
        (
            arrow_file(vec![("row_id", row_numbers(&[1, 2]), false), ("b", row_numbers(&[1, 2]), false)], 1),
            "more than one",
        ),
    ] {
        let error = decode(file, 2).unwrap_err();
        assert_eq!(error.kind(), pennon_core::ErrorKind::Corrupt);
        assert!(error.to_string().contains(text), "{error}");
    }
}

proptest! {
    #[test]
    fn round_trip(set in prop::collection::btree_set(prop_oneof![0u32..3000, any::<u32>()], 0..3000)) {
        let written = vector(set.iter().copied());
        for form in FORMS {
            let bytes = Bytes::from(encode_as(form, &written).unwrap());
            let read = decode(form, &bytes, set.len() as u64).unwrap();
            prop_assert_eq!(rows(&read), set.iter().copied().collect::<Vec<_>>());
        }
    }

    #[test]
    fn garbled_bytes_never_panic(
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
        arrow in any::<bool>(),
    ) {
        let (form, golden) =
            if arrow { (DeletionFileType::Arrow, GOLDEN_ARROW) } else { (DeletionFileType::Bitmap, GOLDEN_BITMAP) };
        let mut bytes = golden.to_vec();
        for (at, value) in changes {
            let at = at.index(bytes.len());
            bytes[at] = value;
        }
        if let Ok(read) = decode(form, &bytes.into(), if arrow { 300 } else { 6000 }) {
            prop_assert_eq!(read.len(), if arrow { 300 } else { 6000 });
        }
    }

    #[test]
    fn any_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        for form in FORMS {
            let _ = decode(form, &bytes.clone().into(), 3);
        }
    }
}

#[test]
fn every_flipped_bit_is_found_or_without_effect() {
    let deleted: Vec<u32> = (0..300).map(|row| row * 7 % 5003).collect();
    let expected = vector(deleted.iter().copied());
    for form in FORMS {
        let file = encode_as(form, &expected).unwrap();
        let (mut found, mut decoded) = (0, 0);
        for bit in 0..file.len() * 8 {
            let mut damaged = file.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            match decode(form, &Bytes::from(damaged), expected.len()) {
                Ok(vector) => {
                    assert_eq!(vector, expected, "{form:?}: bit {bit}");
                    decoded += 1;
                }
                Err(_) => found += 1,
            }
        }
        // Those of the name of the checksum in an Arrow file have no effect.
        assert!(decoded <= 64 && found > 0, "{form:?}: {decoded} of {}", decoded + found);
    }
}
