use bytes::Bytes;
use proptest::prelude::*;

use super::*;
use crate::deletion::DeletionVector;
use crate::{ErrorKind, RowId, Version};

fn hex(text: &str) -> Bytes {
    let digits: Vec<u8> =
        text.bytes().map(|b| u8::try_from(char::from(b).to_digit(16).unwrap()).unwrap()).collect();
    digits.chunks(2).map(|pair| pair[0] << 4 | pair[1]).collect::<Vec<_>>().into()
}

/// Bytes that the reference wrote (table format 4.1).
#[test]
fn golden() {
    let cases: [(&str, &[u64]); 6] = [
        ("0a040a021005", &[0, 1, 2, 3, 4]),
        ("0a060a040805100a", &[5, 6, 7, 8, 9]),
        ("0a0a1a080804100f1a020104", &[4, 14]),
        ("0a091a07081410171a0105", &[20, 22]),
        ("0a102a0e0a0c080b12080200000009000a00", &[13, 11, 20, 21]),
        ("0a060a04080e100f0a060a04080c100d", &[14, 12]),
    ];
    for (text, values) in cases {
        let sequence = RowIdSequence::decode(&hex(text)).unwrap();
        assert_eq!(sequence.iter().collect::<Vec<_>>(), values);
        assert_eq!(sequence.encode(), hex(text));
    }
    for (text, values) in &cases[..5] {
        assert_eq!(RowIdSequence::from_slice(values).encode(), hex(text));
    }
}

/// Each form as Pennon encodes it. The reference reads the same file in the parity tests.
#[test]
fn every_form_is_as_in_the_golden_file() {
    for line in include_str!("../../../../tests/golden/sequences.txt").lines() {
        let [name, ranges, bytes] = line.split(": ").collect::<Vec<_>>().try_into().unwrap();
        let ids: Vec<u64> = ranges
            .split(',')
            .flat_map(|range| {
                let (start, end) = range.split_once('-').unwrap_or((range, range));
                start.parse().unwrap()..=end.parse().unwrap()
            })
            .collect();
        assert_eq!(RowIdSequence::decode(&hex(bytes)).unwrap().iter().collect::<Vec<_>>(), ids, "{name}");
        assert_eq!(RowIdSequence::from_slice(&ids).encode(), hex(bytes), "{name}");
    }
}

#[test]
fn corrupt() {
    for text in [
        "0a",                                         // cut short
        "0a00",                                       // no form
        "0a040a020805",                               // 5..0
        "0a0a1a080804100f1a020184",                   // padding bits
        "0a091a070804100f1a0101",                     // bitmap too short
        "0a0f2a0d0a0b080b120702000000090000",         // odd bytes
        "0a022a00",                                   // array without a form
        "0a0c220a0a0812040200010008000000",           // nonsense
        "0a0822060a04120405000400",                   // sorted but descending
        "0a0e120c100a1a080a06120405000400",           // holes that descend
        "0a0e120c100a1a080a06120405000500",           // a hole named twice
        "0a0c120a100a1a060a0412020b00",               // a hole outside
        "0a041202100a",                               // holes that are not there
        "0a1322110a0f08ffffffffffffffffff0112020100", // 2^64
    ] {
        let error = RowIdSequence::decode(&hex(text)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corrupt, "{text}");
        VersionSequence::decode(&hex(text)).unwrap_err();
    }
    // Two ranges over everything: the length does not fit.
    let all = "0a0d0a0b10ffffffffffffffffff01";
    assert_eq!(RowIdSequence::decode(&hex(all)).unwrap().len(), u64::MAX);
    assert_eq!(RowIdSequence::decode(&hex(&format!("{all}{all}"))).unwrap_err().kind(), ErrorKind::Corrupt);
}

/// Ids as operations leave them: ascending with gaps of all sizes, or shuffled, in several segments.
fn ids() -> impl Strategy<Value = Vec<Vec<u64>>> {
    let gaps = prop_oneof![Just(1..2_u64), Just(1..4), Just(1..60), Just(1..100_000)];
    let piece = (0..10_000_u64, gaps, 0..120_usize, any::<bool>()).prop_perturb(
        |(start, gaps, n, sorted), mut rng| {
            let mut value = start;
            let mut values: Vec<u64> = (0..n)
                .map(|_| {
                    value += rng.random_range(gaps.clone());
                    value
                })
                .collect();
            if !sorted {
                for at in 0..values.len() {
                    let right = rng.random_range(0..values.len());
                    values.swap(at, right);
                }
            }
            values
        },
    );
    proptest::collection::vec(piece, 0..4)
}

proptest! {
    #[test]
    fn sequences_agree_with_lists(pieces in ids(), from in 0..300_u64, len in 0..300_u64, deleted in proptest::collection::btree_set(0..300_u32, 0..100)) {
        let mut sequence = RowIdSequence::empty();
        pieces.iter().for_each(|piece| sequence.append(RowIdSequence::from_slice(piece)));
        let values: Vec<u64> = pieces.concat();
        prop_assert_eq!(sequence.len(), to_u64(values.len()));
        prop_assert_eq!(sequence.iter().collect::<Vec<_>>(), values.clone());
        prop_assert_eq!(RowIdSequence::decode(&sequence.encode()).unwrap(), sequence.clone());
        for (at, &value) in values.iter().enumerate() {
            prop_assert_eq!(sequence.get(to_u64(at)), Some(RowId(value)));
            let first = values.iter().position(|&v| v == value).map(to_u64);
            prop_assert_eq!(sequence.position(RowId(value)), first);
        }
        prop_assert_eq!(sequence.ascends(), values.is_sorted_by(|a, b| a < b));
        prop_assert_eq!(sequence.get(sequence.len()), None);
        prop_assert_eq!(sequence.position(RowId(u64::MAX)), None);
        let clip = |n: u64| usize::try_from(n).unwrap().min(values.len());
        let part = values[clip(from)..clip(from + len)].to_vec();
        let mut out = Vec::new();
        sequence.extend_into(from..from + len, &mut out);
        prop_assert_eq!(&out, &part);
        prop_assert_eq!(sequence.slice(from..from + len).iter().collect::<Vec<_>>(), part);
        let vector: DeletionVector = deleted.iter().copied().collect();
        let live: Vec<u64> = values.iter().enumerate().filter(|(at, _)| !deleted.contains(&u32::try_from(*at).unwrap())).map(|(_, v)| *v).collect();
        prop_assert_eq!(sequence.mask(&vector).iter().collect::<Vec<_>>(), live);
        if let Some((min, max)) = sequence.min_max() {
            prop_assert!(values.iter().all(|v| (min..=max).contains(v)));
        }
    }

    #[test]
    fn intersections_agree_with_sets(left in ids(), right in ids(), sort in any::<bool>()) {
        let (mut left, mut right) = (left.concat(), right.concat());
        if sort {
            for ids in [&mut left, &mut right] {
                ids.sort_unstable();
                ids.dedup();
            }
        }
        let both: Vec<u64> = left.iter().copied().filter(|id| right.contains(id)).collect();
        let common = RowIdSequence::from_slice(&left).intersect(&RowIdSequence::from_slice(&right));
        prop_assert_eq!(common.iter().collect::<Vec<_>>(), both);
    }

    #[test]
    fn versions_agree_with_lists(runs in proptest::collection::vec((0..20_u64, 1..4_u64), 0..12), from in 0..200_u64, len in 0..200_u64, deleted in proptest::collection::btree_set(0..200_u32, 0..60)) {
        let mut sequence = VersionSequence::default();
        let mut values = Vec::new();
        for (rows, version) in runs {
            sequence.append(&VersionSequence::constant(rows, Version(version)));
            values.extend(std::iter::repeat_n(version, to_index(rows)));
        }
        prop_assert_eq!(VersionSequence::decode(&sequence.encode()).unwrap(), sequence.clone());
        prop_assert_eq!(sequence.len(), to_u64(values.len()));
        let clip = |n: u64| usize::try_from(n).unwrap().min(values.len());
        let part = values[clip(from)..clip(from + len)].to_vec();
        let mut out = Vec::new();
        sequence.extend_into(from..from + len, &mut out);
        prop_assert_eq!(&out, &part);
        out.clear();
        sequence.slice(from..from + len).extend_into(0..1000, &mut out);
        prop_assert_eq!(&out, &part);
        prop_assert_eq!(sequence.get(from).map(|v| v.0), values.get(clip(from)).copied());
        let vector: DeletionVector = deleted.iter().copied().collect();
        out.clear();
        sequence.mask(&vector).extend_into(0..1000, &mut out);
        let live: Vec<u64> = values.iter().enumerate().filter(|(at, _)| !deleted.contains(&u32::try_from(*at).unwrap())).map(|(_, v)| *v).collect();
        prop_assert_eq!(out, live);
        let mut with = VersionSequence::default();
        let changed = |at| if deleted.contains(&u32::try_from(at).unwrap()) { 2 } else { values[at] };
        (0..values.len()).for_each(|at| with.push(1, Version(changed(at))));
        prop_assert_eq!(sequence.with(&vector, Version(2)), with);
    }

    #[test]
    fn any_bytes_are_an_answer(bytes in proptest::collection::vec(any::<u8>(), 0..60)) {
        let bytes = Bytes::from(bytes);
        let _ = RowIdSequence::decode(&bytes);
        let _ = VersionSequence::decode(&bytes);
    }
}

#[test]
fn large_values() {
    let edge = [u64::MAX - 3, u64::MAX - 1, u64::MAX];
    let sequence = RowIdSequence::from_slice(&edge);
    assert_eq!(RowIdSequence::decode(&sequence.encode()).unwrap().iter().collect::<Vec<_>>(), edge);
    let spread = [0, 1 << 40];
    assert_eq!(RowIdSequence::from_slice(&spread).get(1), Some(RowId(1 << 40)));
    assert_eq!(RowIdSequence::decode(&RowIdSequence::from_slice(&spread).encode()).unwrap().len(), 2);
}

/// The numbers between these would take more bytes than 64 bits can count.
#[test]
fn wide_gaps() {
    let ids = RowIdSequence::from_slice(&[1, 2, 1 << 62, u64::MAX - 1]);
    for sequence in [ids.clone(), ids.slice(0..4), ids.mask(&DeletionVector::from_iter([1]))] {
        let decoded = RowIdSequence::decode(&sequence.encode()).unwrap();
        assert_eq!(decoded.iter().last(), Some(u64::MAX - 1));
    }
    // An array of a manifest that somebody else wrote: 1, 2^62 and 3. A part of it is encoded again.
    let array = hex("0a1e2a1c1a1a1218010000000000000000000000000000400300000000000000");
    let array = RowIdSequence::decode(&array).unwrap();
    assert_eq!(array.slice(0..2), RowIdSequence::from_slice(&[1, 1 << 62]));
}

/// 100,000 segments: look-ups must not walk them.
#[test]
fn many_segments() {
    let mut sequence = RowIdSequence::empty();
    let id = |at: u64| at * 7919 % 100_003 * 10;
    (0..100_000).for_each(|at| sequence.append(RowIdSequence::from_range(id(at)..id(at) + 1)));
    let sequence = RowIdSequence::decode(&sequence.encode()).unwrap();
    for at in 0..100_000 {
        assert_eq!(sequence.get(at), Some(RowId(id(at))));
        assert_eq!(sequence.position(RowId(id(at))), Some(at));
        assert!(!sequence.contains(RowId(id(at) + 1)));
    }
    let mut repeated = sequence.slice(10..20);
    repeated.append(sequence.slice(0..20));
    assert_eq!(repeated.position(RowId(id(12))), Some(2));
    assert_eq!(repeated.position(RowId(id(2))), Some(12));
}
