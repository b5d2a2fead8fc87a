//! Values to runs.

use crate::encodings::le::Number;

/// Longest run.
const LONGEST: u8 = u8::MAX;

/// Appends a value and a length for each run.
pub(crate) fn split<T: Number>(values: &[u8], out: &mut Vec<u8>, lengths: &mut Vec<u8>) {
    each::<T>(values, |value, length| {
        out.extend_from_slice(value);
        lengths.push(length);
    });
}

/// Bytes of [`block`].
pub(crate) fn block_bytes(levels: &[u16]) -> usize {
    let mut runs = 0;
    each_run(levels.iter().copied(), |_, _| runs += 1);
    8 + runs * 3
}

/// Appends levels as a block: bytes of the values, the values, the lengths.
pub(crate) fn block(levels: &[u16], out: &mut Vec<u8>) {
    let mut lengths = Vec::new();
    let start = out.len();
    out.resize(start + 8, 0);
    each_run(levels.iter().copied(), |level, length| {
        out.extend_from_slice(&level.to_le_bytes());
        lengths.push(length);
    });
    let size = (out.len() - start - 8) as u64;
    if let Some(slot) = out.get_mut(start..start + 8) {
        slot.copy_from_slice(&size.to_le_bytes());
    }
    out.extend_from_slice(&lengths);
}

fn each<T: Number>(values: &[u8], mut run: impl FnMut(&[u8], u8)) {
    let mut start = 0;
    each_run(T::iter(values), |_, length| {
        run(values.get(start..start + T::BYTES).unwrap_or_default(), length);
        start += usize::from(length) * T::BYTES;
    });
}

fn each_run<T: PartialEq + Copy>(mut values: impl Iterator<Item = T>, mut run: impl FnMut(T, u8)) {
    let Some(mut current) = values.next() else { return };
    let mut length = 1;
    for value in values {
        if value == current && length < LONGEST {
            length += 1;
            continue;
        }
        run(current, length);
        (current, length) = (value, 1);
    }
    run(current, length);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::encodings::rle::decode;
    use arrow_buffer::MutableBuffer;
    use proptest::prelude::*;

    fn check<T: Number + PartialEq>(runs: &[(u8, usize)]) {
        let value = |v: u8| vec![v; T::BYTES];
        let bytes: Vec<u8> = runs.iter().flat_map(|&(v, n)| value(v).repeat(n)).collect();
        let (mut values, mut lengths) = (Vec::new(), Vec::new());
        split::<T>(&bytes, &mut values, &mut lengths);
        let n = bytes.len() / T::BYTES;
        let mut out = MutableBuffer::new(0);
        decode::append::<T>(&values, &lengths, n, &[0..n], &mut out).unwrap();
        assert_eq!(out.as_slice(), bytes);
    }

    proptest! {
        #[test]
        fn runs_read_back(runs in prop::collection::vec((0u8..3, 0usize..700), 0..9)) {
            check::<u8>(&runs);
            check::<u16>(&runs);
            check::<u32>(&runs);
            check::<u64>(&runs);
            let levels: Vec<u16> =
                runs.iter().flat_map(|&(v, n)| std::iter::repeat_n(u16::from(v), n)).collect();
            let mut bytes = Vec::new();
            block(&levels, &mut bytes);
            prop_assert_eq!(bytes.len(), block_bytes(&levels));
            let (values, lengths) = decode::split_block(&bytes).unwrap();
            let mut out = MutableBuffer::new(0);
            decode::append::<u16>(values, lengths, levels.len(), &[0..levels.len()], &mut out).unwrap();
            prop_assert_eq!(out.typed_data::<u16>(), levels);
        }
    }

    #[test]
    fn long_runs_are_split() {
        let (mut values, mut lengths) = (Vec::new(), Vec::new());
        split::<u16>(&[7, 0].repeat(600), &mut values, &mut lengths);
        assert_eq!(values, [7, 0, 7, 0, 7, 0]);
        assert_eq!(lengths, [255, 255, 90]);
    }
}
