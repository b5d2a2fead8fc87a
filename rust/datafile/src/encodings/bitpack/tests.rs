//! Packing and unpacking against the definition, each other and the verified vectors of file format 2.1.

use arrow_buffer::MutableBuffer;

use super::decode::{self, Packed};
use super::encode::{Pack, inline, inline_bytes, levels, levels_bytes};
use super::{GROUP, ORDER};

fn random(seed: u64) -> impl Iterator<Item = u64> {
    let mut state = seed;
    std::iter::repeat_with(move || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        state ^ state >> 31
    })
}

fn mask(width: usize) -> u64 {
    if width == 0 { 0 } else { u64::MAX >> (64 - width) }
}

fn bytes_of<T: Pack>(values: impl Iterator<Item = u64>) -> Vec<u8> {
    values.flat_map(|v| v.to_le_bytes().into_iter().take(T::BYTES)).collect()
}

fn pack<T: Pack>(values: impl Iterator<Item = u64>, width: usize) -> Vec<u8> {
    let mut out = Vec::new();
    T::pack(&bytes_of::<T>(values), width, &mut out);
    out
}

/// Packs by the definition, bit by bit.
fn defined<T: Pack>(values: &[u64], width: usize) -> Vec<u8> {
    let bits = T::BYTES * 8;
    let lanes = GROUP / bits;
    let mut bytes = vec![0u8; 128 * width];
    for row in 0..bits {
        for lane in 0..lanes {
            let value = values.get(ORDER[row / 8] * 16 + (row % 8) * 128 + lane).copied().unwrap_or(0);
            for bit in 0..width {
                let position = row * width + bit;
                let word = (position / bits) * lanes + lane;
                let at = word * bits + position % bits;
                bytes[at / 8] |= u8::from(value >> bit & 1 == 1) << (at % 8);
            }
        }
    }
    bytes
}

/// Every width, whole groups and short ones.
fn check<T: Pack + Packed + PartialEq>() {
    for width in 0..=T::BYTES * 8 {
        for len in [GROUP, 1, 700] {
            let values: Vec<u64> = random(len as u64).map(|v| v & mask(width)).take(len).collect();
            let what = format!("{len} values of {} bits in {width}", T::BYTES * 8);
            let packed = pack::<T>(values.iter().copied(), width);
            assert!(packed == defined::<T>(&values, width), "{what}");
            let mut portable = Vec::new();
            T::pack_portable(&bytes_of::<T>(values.iter().copied()), width, &mut portable);
            assert!(packed == portable, "{what}: the portable kernel says something else");
            let (mut fast, mut portable) = (T::ZEROS, T::ZEROS);
            T::unpack(&packed, width, &mut fast);
            for (got, expected) in fast.iter().zip(&values) {
                assert_eq!(got.as_usize() as u64, *expected, "{what}");
            }
            T::unpack_portable(&packed, width, &mut portable);
            assert!(portable == fast, "{what}: the portable kernel says something else");
            for (at, expected) in fast.iter().enumerate() {
                assert!(T::value_at(&packed, width, at) == *expected, "{what}: value {at} by itself");
            }

            let bytes = bytes_of::<T>(values.into_iter());
            let mut packed = vec![7];
            inline::<T>(&bytes, &mut packed);
            assert!(packed.len() - 1 <= inline_bytes::<T>(width));
            let mut out = MutableBuffer::new(0);
            decode::inline::<T>(&packed[1..], len, &[0..len], &mut out).unwrap();
            assert_eq!(out.as_slice(), bytes, "{what}");
        }
    }
}

#[test]
fn every_width_of_every_type() {
    check::<u8>();
    check::<u16>();
    check::<u32>();
    check::<u64>();
}

#[test]
fn agrees_with_the_verified_vectors() {
    let ramp = |width: usize| (0..1024u64).map(move |i| i & mask(width));
    assert_eq!(pack::<u8>(ramp(3), 3)[..8], [0x00, 0x49, 0x92, 0xdb, 0x24, 0x6d, 0xb6, 0xff]);
    assert_eq!(pack::<u16>(ramp(1), 1)[..8], [0, 0, 0xff, 0xff, 0, 0, 0xff, 0xff]);
    let vector = [0, 0, 0, 0, 0x81, 0x40, 0x20, 0x10, 0x02, 0x81, 0x40, 0x20, 0x83, 0xc1, 0x60, 0x30];
    assert_eq!(pack::<u32>(ramp(7), 7)[..16], vector);
    assert_eq!(pack::<u64>(ramp(5), 5)[8..16], [0x21, 0x84, 0x10, 0x42, 0x08, 0x21, 0x84, 0x10]);
}

#[test]
fn tails_have_two_forms() {
    let values = || (0..GROUP as u64).map(|i| i % 7);
    let mut raw = pack::<u16>(values(), 3);
    let mut padded = raw.clone();
    padded.extend(pack::<u16>(values().take(100), 3));
    raw.extend(bytes_of::<u16>(values().take(100)));
    for bytes in [raw, padded] {
        let mut out = MutableBuffer::new(0);
        decode::out_of_line::<u16>(&bytes, 3, 1124, &[0..1124], &mut out).unwrap();
        let expected: Vec<u16> =
            (0..1124u16).map(|i| if i < 1024 { i % 7 } else { (i - 1024) % 7 }).collect();
        assert_eq!(out.typed_data::<u16>(), expected);
        let mut out = MutableBuffer::new(0);
        decode::out_of_line::<u16>(&bytes, 3, 1124, &[5..9, 1020..1030, 1123..1124], &mut out).unwrap();
        let selected: Vec<u16> =
            expected[5..9].iter().chain(&expected[1020..1030]).chain(&expected[1123..]).copied().collect();
        assert_eq!(out.typed_data::<u16>(), selected);
    }
}

#[test]
fn few_and_many_parts_of_groups_are_those_that_were_asked_for() {
    let values: Vec<u64> = random(1).take(3000).map(|v| v & mask(37)).collect();
    let mut out_of_line = Vec::new();
    let mut in_line = Vec::new();
    for group in values.chunks(GROUP) {
        out_of_line.extend(pack::<u64>(group.iter().copied(), 37));
        inline::<u64>(&bytes_of::<u64>(group.iter().copied()), &mut in_line);
    }
    // From a single value to all of them, apart and across the borders of groups.
    for every in [1, 2, 20, 31, 33, 90, 1023, 2999] {
        for length in [1, 2, 30, 700] {
            let slices: Vec<_> =
                (0..3000).step_by(every.max(length)).map(|at| at..(at + length).min(3000)).collect();
            let expected: Vec<u64> = slices.iter().flat_map(|s| &values[s.clone()]).copied().collect();
            let mut out = MutableBuffer::new(0);
            decode::out_of_line::<u64>(&out_of_line, 37, 3000, &slices, &mut out).unwrap();
            assert_eq!(out.typed_data::<u64>(), expected);
            let mut out = MutableBuffer::new(0);
            decode::inline::<u64>(&in_line, 3000, &slices, &mut out).unwrap();
            assert_eq!(out.typed_data::<u64>(), expected);
        }
    }
}

#[test]
fn inline_width_is_checked() {
    use decode::inline;
    let mut bytes = vec![33u8, 0, 0, 0];
    bytes.extend([0; 8192]);
    assert!(inline::<u32>(&bytes, 10, &[0..10], &mut MutableBuffer::new(0)).is_err());
    assert!(inline::<u32>(&[3, 0, 0, 0, 1], 10, &[0..10], &mut MutableBuffer::new(0)).is_err());
    assert!(inline::<u32>(&[3], 10, &[0..10], &mut MutableBuffer::new(0)).is_err());
    let mut out = MutableBuffer::new(0);
    inline::<u32>(&[0; 4], 10, &[2..5], &mut out).unwrap();
    assert_eq!(out.len(), 12);
}

#[test]
fn levels_read_back_with_tails_of_every_kind() {
    for width in 0..=16 {
        for len in [1, 63, 64, 65, 512, 1023, 1024, 1025, 1088, 3000, 4096] {
            let all: Vec<u16> =
                random(len as u64).map(|v| u16::try_from(v & mask(width)).unwrap()).take(len).collect();
            let mut bytes = Vec::new();
            levels(&all, width, &mut bytes);
            assert_eq!(bytes.len(), levels_bytes(len, width));
            let mut out = MutableBuffer::new(0);
            decode::out_of_line::<u16>(&bytes, width, len, &[0..len], &mut out).unwrap();
            assert_eq!(out.typed_data::<u16>(), all, "{len} levels of {width} bits");
        }
    }
}
