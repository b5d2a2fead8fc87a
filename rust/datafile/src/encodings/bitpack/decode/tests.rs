//! Unpacking against the definition and the verified vectors of file format 2.1.

use super::*;

/// Packs by the definition, bit by bit.
fn pack<T: Packed>(values: &[u64; GROUP], width: usize) -> Vec<u8> {
    let bits = T::BYTES * 8;
    let lanes = GROUP / bits;
    let mut bytes = vec![0u8; 128 * width];
    for row in 0..bits {
        for lane in 0..lanes {
            let value = values[ORDER[row / 8] * 16 + (row % 8) * 128 + lane];
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

fn check<T: Packed + PartialEq>() {
    let bits = T::BYTES * 8;
    for width in 0..=bits {
        let mask = if width == 0 { 0 } else { u64::MAX >> (64 - width) };
        let mut state = 0x9e37_79b9_7f4a_7c15u64;
        let values: [u64; GROUP] = std::array::from_fn(|_| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state ^ state >> 31) & mask
        });
        let packed = pack::<T>(&values, width);
        let mut out = T::ZEROS;
        T::unpack(&packed, width, &mut out);
        for (got, expected) in out.iter().zip(values) {
            assert_eq!(got.as_usize() as u64, expected, "width {width} of {bits}");
        }
        let mut portable = T::ZEROS;
        T::unpack_portable(&packed, width, &mut portable);
        assert!(portable == out, "width {width} of {bits}: the portable kernel says something else");
    }
}

#[test]
fn unpacks_every_width_as_defined() {
    check::<u8>();
    check::<u16>();
    check::<u32>();
    check::<u64>();
}

#[test]
fn agrees_with_the_verified_vectors() {
    let ramp = |width: usize| std::array::from_fn(|i| i as u64 & ((1 << width) - 1));
    assert_eq!(pack::<u8>(&ramp(3), 3)[..8], [0x00, 0x49, 0x92, 0xdb, 0x24, 0x6d, 0xb6, 0xff]);
    assert_eq!(pack::<u16>(&ramp(1), 1)[..8], [0, 0, 0xff, 0xff, 0, 0, 0xff, 0xff]);
    assert_eq!(pack::<u32>(&ramp(7), 7)[..12], [0, 0, 0, 0, 0x81, 0x40, 0x20, 0x10, 0x02, 0x81, 0x40, 0x20]);
    assert_eq!(pack::<u64>(&ramp(5), 5)[8..16], [0x21, 0x84, 0x10, 0x42, 0x08, 0x21, 0x84, 0x10]);
}

#[test]
fn tails_have_two_forms() {
    let values: [u64; GROUP] = std::array::from_fn(|i| i as u64 % 7);
    let mut tail = [0u64; GROUP];
    tail[..100].copy_from_slice(&values[..100]);
    let mut raw = pack::<u16>(&values, 3);
    let mut padded = raw.clone();
    padded.extend(pack::<u16>(&tail, 3));
    raw.extend(values[..100].iter().flat_map(|&v| u16::try_from(v).unwrap().to_le_bytes()));
    for bytes in [raw, padded] {
        let mut out = MutableBuffer::new(0);
        out_of_line::<u16>(&bytes, 3, 1124, &[0..1124], &mut out).unwrap();
        let expected: Vec<u16> =
            (0..1124u16).map(|i| if i < 1024 { i % 7 } else { (i - 1024) % 7 }).collect();
        assert_eq!(out.typed_data::<u16>(), expected);
        let mut out = MutableBuffer::new(0);
        out_of_line::<u16>(&bytes, 3, 1124, &[5..9, 1020..1030, 1123..1124], &mut out).unwrap();
        let picked: Vec<u16> =
            expected[5..9].iter().chain(&expected[1020..1030]).chain(&expected[1123..]).copied().collect();
        assert_eq!(out.typed_data::<u16>(), picked);
    }
}

#[test]
fn inline_width_is_checked() {
    let mut bytes = vec![33u8, 0, 0, 0];
    bytes.extend([0; 8192]);
    assert!(inline::<u32>(&bytes, 10, &[0..10], &mut MutableBuffer::new(0)).is_err());
    assert!(inline::<u32>(&[3, 0, 0, 0, 1], 10, &[0..10], &mut MutableBuffer::new(0)).is_err());
    assert!(inline::<u32>(&[3], 10, &[0..10], &mut MutableBuffer::new(0)).is_err());
    let mut out = MutableBuffer::new(0);
    inline::<u32>(&[0; 4], 10, &[2..5], &mut out).unwrap();
    assert_eq!(out.len(), 12);
}
