//! Where the chunks of a mini-block page start and end, and the repetition index that follows from it
//! (file format 4.4).
//!
//! A chunk has a power of two of values, at least two, with the levels up to the last value; the last chunk takes
//! the rest. Levels without value belong to the chunk of the next value, so a long run of empty or null lists may
//! not fit into any chunk; then there is no plan.

use super::levels::PageLevels;

/// Levels of a chunk at most: their bytes, two each, are counted in 16 bits.
const MAX_LEVELS: usize = 32_767;

/// Values and levels of a chunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Chunk {
    /// Value slots.
    pub values: usize,
    /// Positions; the same as values where there are no lists.
    pub levels: usize,
}

/// Limits of a plan; sizes are in bytes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    /// Value bytes of a chunk that has more than two values.
    pub target: usize,
    /// Values of a chunk.
    pub values: usize,
    /// A whole chunk.
    pub chunk: usize,
    /// Header of a chunk.
    pub header: usize,
}

/// The chunks of a page; `bytes(at, n)` is the size of `n` values from `at`. `None` when there is no plan.
pub(crate) fn plan(
    levels: &PageLevels,
    limits: Limits,
    mut bytes: impl FnMut(usize, usize) -> usize,
) -> Option<Vec<Chunk>> {
    let mut chunks = Vec::new();
    let (mut value, mut level) = (0, 0);
    let level_buffers = usize::from(levels.rep.is_some()) + usize::from(levels.def.is_some());
    let fits = |value_bytes: usize, num_levels: usize| {
        let level_bytes = level_buffers * (2 * num_levels).next_multiple_of(8);
        (level_buffers == 0 || num_levels <= MAX_LEVELS)
            && limits.header + level_bytes + value_bytes <= limits.chunk
    };
    loop {
        let left = levels.slots - value;
        let last = Chunk { values: left, levels: levels.len - level };
        if left <= limits.values {
            let size = bytes(value, left);
            if (size <= limits.target || left <= 2) && fits(size, last.levels) {
                chunks.push(last);
                return Some(chunks);
            }
        }
        // A chunk that is not the last leaves at least one value to the last.
        let mut values = 1usize << limits.values.min(left.checked_sub(1)?).checked_ilog2()?;
        let chunk = loop {
            if values < 2 {
                return None;
            }
            let size = bytes(value, values);
            if size <= limits.target || values == 2 {
                let num_levels = levels.positions_of(level, values, MAX_LEVELS);
                if let Some(levels) = num_levels.filter(|&n| fits(size, n)) {
                    break Chunk { values, levels };
                }
            }
            values /= 2;
        };
        chunks.push(chunk);
        value += chunk.values;
        level += chunk.levels;
    }
}

/// Per chunk: rows that end in it, and levels of its last row when that continues in the next chunk.
pub(crate) fn repetition_index(levels: &PageLevels, chunks: &[Chunk]) -> Vec<(u64, u64)> {
    let mut index: Vec<(u64, u64)> = Vec::with_capacity(chunks.len());
    let mut at = 0;
    for (number, chunk) in chunks.iter().enumerate() {
        let rep = levels.rep_of(at, chunk.levels);
        at += chunk.levels;
        let starts = |&(_, &r): &(usize, &u16)| r == levels.max_rep;
        let starts_with_row = rep.first() == Some(&levels.max_rep);
        if let Some(before) = index.last_mut().filter(|(_, leftover)| starts_with_row && *leftover != 0) {
            // The row that seemed unfinished had ended with its chunk.
            before.0 += 1;
            before.1 = 0;
        }
        let rows = rep.iter().enumerate().skip(1).filter(starts).count() as u64;
        let last_start = rep.iter().enumerate().rev().find(starts).map_or(0, |(at, _)| at);
        let is_last = number + 1 == chunks.len();
        index.push(if is_last { (rows + 1, 0) } else { (rows, (rep.len() - last_start) as u64) });
    }
    index
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limits() -> Limits {
        Limits { target: 64, values: 4096, chunk: 1000, header: 8 }
    }

    fn flat(slots: usize) -> PageLevels {
        PageLevels { rows: slots, len: slots, slots, ..PageLevels::default() }
    }

    #[test]
    fn powers_of_two_and_a_rest() {
        let values =
            |n| plan(&flat(n), limits(), |_, n| n * 8).unwrap().iter().map(|c| c.values).collect::<Vec<_>>();
        assert_eq!(values(1), [1]);
        assert_eq!(values(8), [8]);
        assert_eq!(values(9), [8, 1]);
        assert_eq!(values(21), [8, 8, 5]);
        assert_eq!(plan(&flat(3), limits(), |_, n| n * 100).unwrap().len(), 2);
    }

    #[test]
    fn no_plan_for_a_value_behind_too_many_levels() {
        let mut def = vec![1u16; 40_000];
        def[39_999] = 0;
        def[0] = 0;
        def[1] = 0;
        let page = PageLevels {
            rows: 40_000,
            len: 40_000,
            slots: 3,
            rep: Some(vec![1; 40_000]),
            def: Some(def),
            max_rep: 1,
            ..PageLevels::default()
        };
        assert_eq!(plan(&page, limits(), |_, n| n), None);
    }

    #[test]
    fn repetition_index_of_rows_across_chunks() {
        // Rows of 3, 1, 4 and 2 items in chunks of 4, 4 and 2.
        let rep = vec![1, 0, 0, 1, 1, 0, 0, 0, 1, 0];
        let page =
            PageLevels { rows: 4, len: 10, slots: 10, rep: Some(rep), max_rep: 1, ..PageLevels::default() };
        let chunk = |n| Chunk { values: n, levels: n };
        assert_eq!(repetition_index(&page, &[chunk(4), chunk(4), chunk(2)]), [(2, 0), (1, 0), (1, 0)]);
        assert_eq!(repetition_index(&page, &[chunk(2), chunk(4), chunk(4)]), [(0, 2), (2, 2), (2, 0)]);
    }
}
