//! Which form ids get: the one place that decides (table format 4.2).
//!
//! The form with the fewest bytes, computed from smallest, largest, count and order of the ids. Any form may follow
//! any other in a sequence, so ids with wide gaps become several segments where that is smaller.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;

use super::Segment;
use super::array::UnsortedArray;
use super::range_with_bitmap::WithBitmap;
use super::range_with_holes::WithHoles;
use super::sorted_array::SortedArray;
use super::values::{Values, Width};
use crate::rows::{to_index, to_u64};

/// A gap that pays for a new segment: its bits would be 512 bytes.
const WIDE: u64 = 4096;
/// Bytes that a segment more has to save for it to be worth a closer look.
const COST: u64 = 32;

/// Ids that can be walked repeatedly, as runs from first to last.
pub(in crate::rows) trait Runs {
    fn each(&self, run: impl FnMut(u64, u64));

    /// All ids; they are so many.
    fn ids(&self, count: u64) -> Cow<'_, [u64]> {
        let mut ids = Vec::with_capacity(to_index(count));
        self.each(|first, last| ids.extend(first..=last));
        ids.into()
    }

    /// Gives the words that have bits set, a bit per id from `start` on; a word may come in parts.
    fn words(&self, start: u64, mut word: impl FnMut(u64, u64)) {
        self.each(|first, last| {
            let (first, last) = (first - start, last - start);
            let (from, to) = (u64::MAX << (first % 64), u64::MAX >> (63 - last % 64));
            if first / 64 == last / 64 {
                return word(first / 64, from & to);
            }
            word(first / 64, from);
            (first / 64 + 1..last / 64).for_each(|at| word(at, u64::MAX));
            word(last / 64, to);
        });
    }
}

impl Runs for &[u64] {
    fn each(&self, mut run: impl FnMut(u64, u64)) {
        self.iter().for_each(|&id| run(id, id));
    }

    fn ids(&self, _: u64) -> Cow<'_, [u64]> {
        Cow::Borrowed(self)
    }

    fn words(&self, start: u64, mut word: impl FnMut(u64, u64)) {
        let (mut at, mut bits) = (0, 0_u64);
        for id in *self {
            let bit = id - start;
            if bit / 64 != at {
                word(at, bits);
                (at, bits) = (bit / 64, 0);
            }
            bits |= 1 << (bit % 64);
        }
        word(at, bits);
    }
}

impl Runs for &[(u64, u64)] {
    fn each(&self, mut run: impl FnMut(u64, u64)) {
        self.iter().for_each(|&(first, last)| run(first, last));
    }
}

/// Segments for these ids, in this order: one, or several if they are smaller together.
pub(in crate::rows) fn choose_several(ids: &[u64], mut segment: impl FnMut(Segment)) {
    let Some(ends) = Statistics::of_ends(ids) else { return };
    if widest_gap(ids) < WIDE {
        return segment(ends.encode(&ids));
    }
    let (mut descents, mut breaks) = (0_u64, 1_u64);
    for (before, after) in ids.iter().zip(ids.iter().skip(1)) {
        descents += u64::from(after <= before);
        // A descent wraps around and is a wide gap.
        breaks += u64::from(is_break(*before, *after));
    }
    let (min, max) = if descents == 0 { (ends.min, ends.max) } else { min_max(ids).unwrap_or_default() };
    let all = Statistics { min, max, count: ends.count };
    let size = if descents == 0 { all.form().1 } else { nested(all.array_size()) };
    if breaks.saturating_mul(COST) < size {
        let pieces = || ids.chunk_by(|a, b| !is_break(*a, *b));
        let mut total = 0_u64;
        let fits = pieces().filter_map(Statistics::of_ends).all(|piece| {
            total = total.saturating_add(piece.form().1);
            total < size
        });
        if fits {
            // What is between two breaks ascends.
            let encoded = |piece: &[u64]| Some(Statistics::of_ends(piece)?.encode(&piece));
            return pieces().filter_map(encoded).for_each(segment);
        }
    }
    segment(if descents == 0 { all.encode(&ids) } else { unsorted(ids, min, max) });
}

/// No gap between neighbours is wider, and if this is less than [`WIDE`] they ascend: all gaps or-ed together, which
/// is close enough and takes one instruction for several ids.
fn widest_gap(ids: &[u64]) -> u64 {
    let gaps = ids.iter().zip(ids.iter().skip(1)).map(|(before, after)| gap(*before, *after));
    gaps.fold(0, |all, gap| all | gap)
}

/// Number of ids that are missing between two; very large if they do not ascend.
fn gap(before: u64, after: u64) -> u64 {
    after.wrapping_sub(before).wrapping_sub(1)
}

fn is_break(before: u64, after: u64) -> bool {
    gap(before, after) >= WIDE
}

/// Segments for ascending ids: one, or several if they are smaller together.
pub(in crate::rows) fn choose_runs(runs: &impl Runs, mut segment: impl FnMut(Segment)) {
    let mut pieces: Vec<Statistics> = Vec::new();
    runs.each(|first, last| match pieces.last_mut() {
        Some(piece) if first - piece.max <= WIDE => piece.add(first, last),
        _ => pieces.push(Statistics { min: first, max: last, count: last - first + 1 }),
    });
    let (Some(first), Some(last)) = (pieces.first(), pieces.last()) else { return };
    let count = pieces.iter().map(|piece| piece.count).sum();
    let all = Statistics { min: first.min, max: last.max, count };
    let total = pieces.iter().fold(0_u64, |total, piece| total.saturating_add(piece.form().1));
    if pieces.len() == 1 || all.form().1 <= total {
        return segment(all.encode(runs));
    }
    let mut pieces = pieces.into_iter();
    let mut piece = pieces.next();
    let mut ids: Vec<(u64, u64)> = Vec::new();
    runs.each(|first, last| {
        ids.push((first, last));
        if let Some(complete) = piece.take_if(|piece| piece.max == last) {
            segment(complete.encode(&ids.as_slice()));
            ids.clear();
            piece = pieces.next();
        }
    });
}

fn min_max(ids: &[u64]) -> Option<(u64, u64)> {
    let (min, max) = ids.iter().fold((u64::MAX, 0), |(min, max), &id| (id.min(min), id.max(max)));
    (min <= max).then_some((min, max))
}

fn unsorted(ids: &[u64], min: u64, max: u64) -> Segment {
    let values = Values::encode(ids.iter().copied(), min, max, ids.len());
    Segment::Array(Arc::new(UnsortedArray::new(values)))
}

enum Form {
    Range,
    Holes,
    Bitmap,
    Sorted,
}

/// What is known of ids after one pass.
struct Statistics {
    min: u64,
    max: u64,
    count: u64,
}

impl Statistics {
    /// Of ids that ascend.
    fn of_ends(ids: &[u64]) -> Option<Self> {
        Some(Self { min: *ids.first()?, max: *ids.last()?, count: to_u64(ids.len()) })
    }

    fn add(&mut self, first: u64, last: u64) {
        self.max = last;
        self.count += last - first + 1;
    }

    /// Bytes of the ids as a list.
    fn array_size(&self) -> u64 {
        nested(array(self.max - self.min, self.count, self.min))
    }

    /// The smallest form for ascending ids and its bytes in the sequence; the first of equals.
    fn form(&self) -> (Form, u64) {
        let as_sorted = nested(self.array_size());
        // The end of a range is exclusive, so the largest number is in none.
        let Some(end) = self.max.checked_add(1) else { return (Form::Sorted, as_sorted) };
        let span = end - self.min;
        let ends = field(self.min) + field(end);
        let holes = span - self.count;
        if holes == 0 {
            return (Form::Range, nested(nested(ends)));
        }
        // The holes lie closer together than the ids.
        let as_holes = nested(array(span - 1, holes, self.min + 1));
        let as_holes = nested(nested(ends.saturating_add(as_holes)));
        let as_bitmap = nested(nested(ends + nested(span.div_ceil(8))));
        if as_holes <= as_bitmap && as_holes <= as_sorted {
            (Form::Holes, as_holes)
        } else if as_bitmap <= as_sorted {
            (Form::Bitmap, as_bitmap)
        } else {
            (Form::Sorted, as_sorted)
        }
    }

    /// The segment of ascending ids.
    fn encode(&self, runs: &impl Runs) -> Segment {
        let ids = self.min..self.max.saturating_add(1);
        match self.form().0 {
            Form::Range => Segment::range(ids),
            Form::Holes => Segment::Holes(Arc::new(WithHoles::trusted(ids.clone(), holes(runs, ids)))),
            Form::Bitmap => {
                Segment::Bitmap(Arc::new(WithBitmap::trusted(ids.clone(), bits(runs, ids).into())))
            }
            Form::Sorted => Segment::Sorted(Arc::new(SortedArray::trusted(self.values(runs)))),
        }
    }

    fn values(&self, runs: &impl Runs) -> Values {
        let ids = runs.ids(self.count);
        Values::encode(ids.iter().copied(), self.min, self.max, ids.len())
    }
}

/// The ids of a range that the runs lack.
fn holes(runs: &impl Runs, ids: Range<u64>) -> Values {
    let mut holes = Vec::new();
    let mut next = ids.start;
    runs.each(|first, last| {
        if first != next {
            holes.extend(next..first);
        }
        next = last + 1;
    });
    let bounds = (holes.first().copied().unwrap_or_default(), holes.last().copied().unwrap_or_default());
    Values::encode(holes.iter().copied(), bounds.0, bounds.1, holes.len())
}

/// A bit for each id of a range, set for those in the runs.
fn bits(runs: &impl Runs, ids: Range<u64>) -> Vec<u8> {
    let length = to_index((ids.end - ids.start).div_ceil(8));
    let mut words = vec![0_u64; length.div_ceil(8)];
    runs.words(ids.start, |at, bits| {
        if let Some(word) = words.get_mut(to_index(at)) {
            *word |= bits;
        }
    });
    let mut bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    bytes.truncate(length);
    bytes
}

/// Bytes of a list of numbers that are so far apart.
fn array(spread: u64, count: u64, base: u64) -> u64 {
    let width = Width::for_spread(spread);
    let base = if width == Width::Eight { 0 } else { field(base) };
    nested(base.saturating_add(nested(count.saturating_mul(width.bytes()))))
}

/// Bytes of a number field; zero is left out.
fn field(value: u64) -> u64 {
    if value == 0 { 0 } else { varint(value) + 1 }
}

/// Bytes of a field of so many bytes with its tag and length.
fn nested(length: u64) -> u64 {
    length.saturating_add(varint(length) + 1)
}

fn varint(value: u64) -> u64 {
    u64::from((64 - (value | 1).leading_zeros()).div_ceil(7))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::wire::rows::encode_row_ids;

    /// One segment.
    fn choose(ids: &[u64]) -> Segment {
        let (min, max) = min_max(ids).unwrap();
        match ids.is_sorted_by(|a, b| a < b) {
            true => Statistics::of_ends(ids).unwrap().encode(&ids),
            false => unsorted(ids, min, max),
        }
    }

    /// The ids in every form that can hold them.
    fn forms(ids: &[u64]) -> Vec<Segment> {
        let (min, max) = min_max(ids).unwrap();
        let mut forms = vec![unsorted(ids, min, max)];
        if ids.is_sorted_by(|a, b| a < b) {
            let values = Values::encode(ids.iter().copied(), min, max, ids.len());
            forms.push(Segment::Sorted(Arc::new(SortedArray::new(values).unwrap())));
            if let Some(end) = max.checked_add(1).filter(|end| end - min < 1 << 20) {
                forms.push(Segment::Holes(Arc::new(WithHoles::trusted(min..end, holes(&ids, min..end)))));
                forms.push(Segment::Bitmap(Arc::new(WithBitmap::trusted(
                    min..end,
                    bits(&ids, min..end).into(),
                ))));
            }
        }
        forms
    }

    fn ids() -> impl Strategy<Value = Vec<u64>> {
        let bases = prop_oneof![Just(0), 0..1000_u64, Just(1 << 33), Just(u64::MAX - 300)];
        let gaps = prop_oneof![Just(1), Just(2), Just(8), Just(30), Just(5000), Just(1 << 20), Just(1 << 40)];
        let piece = (bases, gaps, 1..200_usize, any::<bool>());
        piece.prop_perturb(|(base, gap, count, shuffled), mut rng| {
            let next = |id: &u64| id.checked_add(rng.random_range(1..=gap));
            let mut ids: Vec<u64> = std::iter::successors(Some(base), next).take(count).collect();
            if shuffled {
                ids.sort_unstable_by_key(|id| id.wrapping_mul(0x9e37_79b9_7f4a_7c15));
            }
            ids
        })
    }

    proptest! {
        #[test]
        fn no_form_is_smaller(ids in ids()) {
            let mut chosen = Vec::new();
            choose_several(&ids, |segment| chosen.push(segment));
            let size = encode_row_ids(&chosen).len();
            let single = encode_row_ids(&[choose(&ids)]);
            prop_assert!(size <= single.len());
            let mut found = Vec::new();
            chosen.iter().for_each(|segment| segment.append_to(0..segment.len(), &mut found));
            prop_assert_eq!(&found, &ids);
            for form in forms(&ids) {
                // A range may be a few bytes longer than a list of one id near 2^64.
                let size = encode_row_ids(std::slice::from_ref(&form)).len();
                prop_assert!(single.len() <= size || ids.len() < 9);
                let mut found = Vec::new();
                form.append_to(0..form.len(), &mut found);
                prop_assert_eq!(&found, &ids);
                found.clear();
                form.runs(3..150, |first, last| found.extend(first..=last));
                prop_assert_eq!(&found, ids.get(3..ids.len().min(150)).unwrap_or_default());
                for (position, &id) in ids.iter().enumerate() {
                    prop_assert_eq!(form.get(to_u64(position)), Some(id));
                    prop_assert_eq!(form.position(id), Some(to_u64(position)));
                    let next = id.wrapping_add(1);
                    prop_assert_eq!(form.position(next).is_some(), ids.contains(&next));
                }
                prop_assert_eq!(form.get(form.len()), None);
            }
            if ids.is_sorted_by(|a, b| a < b) {
                let mut from_runs = Vec::new();
                choose_runs(&ids.as_slice(), |segment| from_runs.push(segment));
                prop_assert!(encode_row_ids(&from_runs).len() <= size);
            }
        }
    }
}
