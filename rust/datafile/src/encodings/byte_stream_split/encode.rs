//! Values to planes.

/// Appends values of `width` bytes, plane by plane.
pub(crate) fn append(values: &[u8], width: usize, out: &mut Vec<u8>) {
    out.reserve(values.len());
    for plane in 0..width {
        out.extend(values.iter().skip(plane).step_by(width));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::encodings::byte_stream_split::decode;
    use arrow_buffer::MutableBuffer;

    #[test]
    fn planes_read_back() {
        for width in [4, 8] {
            let values: Vec<u8> = (0..width * 9).map(|i| u8::try_from(i).unwrap()).collect();
            let mut planes = Vec::new();
            append(&values, width, &mut planes);
            assert_eq!(planes[..2], [0, u8::try_from(width).unwrap()]);
            let mut out = MutableBuffer::new(0);
            decode::append(&planes, width, 9, &[0..9], &mut out).unwrap();
            assert_eq!(out.as_slice(), values);
        }
    }
}
