//! Members to rows.

/// Rows of members of fixed width, given the bytes of each member and how many of them a row has.
pub(crate) fn fixed_rows(members: &[(Vec<u8>, usize)], rows: usize) -> Vec<u8> {
    let row: usize = members.iter().map(|(_, width)| width).sum();
    let mut out = vec![0; rows * row];
    let mut at = 0;
    for (values, width) in members {
        match width {
            1 => scatter::<1>(values, row, at, &mut out),
            2 => scatter::<2>(values, row, at, &mut out),
            4 => scatter::<4>(values, row, at, &mut out),
            8 => scatter::<8>(values, row, at, &mut out),
            16 => scatter::<16>(values, row, at, &mut out),
            _ => {
                for (value, row) in values.chunks_exact((*width).max(1)).zip(out.chunks_exact_mut(row.max(1)))
                {
                    if let Some(slot) = row.get_mut(at..at + width) {
                        slot.copy_from_slice(value);
                    }
                }
            }
        }
        at += width;
    }
    out
}

/// Copies values of `W` bytes to a position of each row.
fn scatter<const W: usize>(values: &[u8], row: usize, at: usize, out: &mut [u8]) {
    for (value, row) in values.as_chunks::<W>().0.iter().zip(out.chunks_exact_mut(row.max(1))) {
        if let Some(slot) = row.get_mut(at..).and_then(|rest| rest.first_chunk_mut::<W>()) {
            *slot = *value;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_stand_in_order() {
        let rows = fixed_rows(&[(vec![1, 2], 1), (vec![3, 4, 5, 6, 7, 8], 3), (vec![9, 10, 11, 12], 2)], 2);
        assert_eq!(rows, [1, 3, 4, 5, 9, 10, 2, 6, 7, 8, 11, 12]);
    }
}
