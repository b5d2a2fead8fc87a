//! The parts of a version: about as many bytes each, in the order of the table.

use std::ops::Range;

use pennon_core::manifest::FragmentSummary;
use pennon_core::{Error, FragmentId, Result};

use crate::scan::FragmentSlice;

/// Bytes of a task where nothing else is asked for.
const BYTES_PER_TASK: u64 = 256 << 20;
/// Fewer bytes are not worth a task of their own, where nothing else is asked for.
const LEAST_BYTES_PER_TASK: u64 = 1 << 20;
/// Tasks that are given rows, at most: a plan has an entry for each.
const MOST_TASKS: usize = 1 << 20;
/// Bytes of a row in files whose size is not recorded.
const ROW_BYTES: u64 = 64;

/// Into how many tasks a job is divided.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Division {
    /// Of about 256 MiB of data files each; as many as there will be where tasks are given rows.
    #[default]
    Auto,
    /// So many, or fewer if there is less to do.
    Tasks(usize),
    /// Of about so many bytes of data files each.
    Bytes(u64),
    /// The same number for each of some workers, but fewer if they would be of less than so many bytes.
    Workers {
        /// How many tasks run at the same time.
        workers: usize,
        /// Bytes of data files of a task, at most, about.
        bytes: u64,
        /// Fewer bytes are not worth a task.
        least_bytes: u64,
    },
}

impl Division {
    /// For so many workers: at most about 256 MiB of data files for a task, and at least 1 MiB, unless others are given.
    pub fn workers(workers: usize, bytes: Option<u64>, least_bytes: Option<u64>) -> Self {
        let bytes = bytes.unwrap_or(BYTES_PER_TASK);
        Self::Workers { workers, bytes, least_bytes: least_bytes.unwrap_or(LEAST_BYTES_PER_TASK) }
    }

    /// The number of tasks, about, for so many bytes.
    fn tasks(self, total: u128) -> u128 {
        match self {
            Self::Auto => total.div_ceil(BYTES_PER_TASK.into()),
            Self::Tasks(tasks) => tasks as u128,
            Self::Bytes(bytes) => total.div_ceil(bytes.into()),
            Self::Workers { workers, bytes, least_bytes } => {
                let tasks = total.div_ceil(bytes.into());
                let even = tasks.max(1).next_multiple_of(workers as u128);
                even.min(tasks.max(total / u128::from(least_bytes.max(1))))
            }
        }
    }
}

/// What is not divided.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unit {
    /// Parts of any fragment may be in several tasks.
    Row,
    /// Only those of a fragment of more than one and a half tasks: when others change it, all of these tasks are done
    /// over.
    Part,
    /// A fragment is in one task.
    Fragment,
}

/// What is divided: positions among the live rows of a fragment, by their share of the bytes of its data files.
#[derive(Debug, Clone)]
pub(super) struct FragmentPart {
    fragment: FragmentId,
    bytes: u64,
    rows: Range<u64>,
    live_rows: u64,
}

impl FragmentPart {
    pub(super) fn of(fragment: &FragmentSummary) -> Self {
        let bytes = match fragment.file_bytes {
            0 => fragment.physical_rows.saturating_mul(ROW_BYTES),
            bytes => bytes,
        };
        let live_rows = fragment.live_rows();
        Self { fragment: fragment.id, bytes, rows: 0..live_rows, live_rows }
    }

    /// Of a whole fragment, only the rows at some positions.
    pub(super) fn at(self, rows: Range<u64>) -> Self {
        let count = rows.end.saturating_sub(rows.start);
        let share = u128::from(self.bytes) * u128::from(count) / u128::from(self.live_rows.max(1));
        Self { bytes: u64::try_from(share).unwrap_or(self.bytes), rows, ..self }
    }

    /// All of them, or only some.
    fn slice(&self, rows: Range<u64>) -> FragmentSlice {
        let is_all = rows == (0..self.live_rows);
        FragmentSlice { fragment: self.fragment, rows: (!is_all).then_some(rows) }
    }
}

/// Tasks that are given rows. Errors: `InvalidInput` for none, for more than [`MOST_TASKS`], and for a size in bytes.
pub(super) fn nothing(division: Division) -> Result<Option<Vec<Vec<FragmentSlice>>>> {
    match division {
        Division::Auto => Ok(None),
        Division::Tasks(0) => Err(no_tasks()),
        Division::Tasks(tasks) if tasks > MOST_TASKS => Err(Error::invalid_input(format!(
            "A job whose tasks are given rows has at most {MOST_TASKS} tasks: found {tasks}"
        ))),
        Division::Tasks(tasks) => Ok(Some(vec![Vec::new(); tasks])),
        Division::Bytes(_) | Division::Workers { .. } => Err(Error::invalid_input(
            "Tasks that are given rows cannot be divided by bytes: say how many tasks there are",
        )),
    }
}

/// The live rows of all fragments, in pieces of about as many bytes. A fragment that may be cut is cut between two
/// pieces, unless a part of less than an eighth of a piece would come off.
pub(super) fn divide(
    fragments: impl Iterator<Item = FragmentPart>,
    division: Division,
    unit: Unit,
) -> Result<Vec<Vec<FragmentSlice>>> {
    let fragments: Vec<FragmentPart> = fragments.filter(|part| !part.rows.is_empty()).collect();
    let total = fragments.iter().map(|part| u128::from(part.bytes.max(1))).sum::<u128>();
    if let Division::Tasks(0)
    | Division::Bytes(0)
    | Division::Workers { workers: 0, .. }
    | Division::Workers { bytes: 0, .. } = division
    {
        return Err(no_tasks());
    }
    // The bytes of all fragments one after another, in pieces of one size.
    let size = total.div_ceil(division.tasks(total).max(1)).max(1);
    let least = size.div_ceil(8);
    let mut tasks: Vec<(u128, Vec<FragmentSlice>)> = Vec::new();
    let mut push = |task: u128, slice| match tasks.last_mut() {
        Some((last, slices)) if *last == task => slices.push(slice),
        _ => tasks.push((task, vec![slice])),
    };
    let mut start = 0_u128;
    for part in fragments {
        let bytes = u128::from(part.bytes.max(1));
        let end = start + bytes;
        let rows = part.rows.end - part.rows.start;
        let row_at = |at: u128| {
            let row = u128::from(rows) * (at - start) / bytes;
            part.rows.start + u64::try_from(row).unwrap_or(rows)
        };
        let is_cut = match unit {
            Unit::Row => true,
            Unit::Part => bytes > size + size / 2,
            Unit::Fragment => false,
        };
        let inner = (start / size + 1..=(end - 1) / size).map(|task| task * size);
        let cuts = inner.filter(|cut| is_cut && cut - start >= least && end - cut >= least);
        let mut from = start;
        for to in cuts.chain([end]) {
            let positions = row_at(from)..row_at(to);
            if !positions.is_empty() {
                push(u128::midpoint(from, to) / size, part.slice(positions));
            }
            from = to;
        }
        start = end;
    }
    Ok(tasks.into_iter().map(|(_, slices)| slices).collect())
}

fn no_tasks() -> Error {
    Error::invalid_input("A job needs at least one task or worker, and a task at least one byte: found 0")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn parts(sizes: &[(u64, u64)]) -> Vec<FragmentPart> {
        let ids = (0..).map(FragmentId);
        let part =
            |(fragment, &(bytes, live_rows))| FragmentPart { fragment, bytes, rows: 0..live_rows, live_rows };
        ids.zip(sizes).map(part).collect()
    }

    #[test]
    fn small_fragments_share_a_task_and_large_ones_are_divided() {
        let tasks = divide(
            parts(&[(10, 1), (10, 1), (200, 100), (20, 1)]).into_iter(),
            Division::Tasks(3),
            Unit::Row,
        );
        let all_of = |id| FragmentSlice::from(FragmentId(id));
        let part = |rows| FragmentSlice { fragment: FragmentId(2), rows: Some(rows) };
        let expected =
            [vec![all_of(0), all_of(1), part(0..30)], vec![part(30..70)], vec![part(70..100), all_of(3)]];
        assert_eq!(tasks.unwrap(), expected);
        let sizes = [(10, 1), (10, 1), (200, 100), (20, 1)];
        let tasks = divide(parts(&sizes).into_iter(), Division::Tasks(3), Unit::Fragment);
        assert_eq!(tasks.unwrap(), [vec![all_of(0), all_of(1)], vec![all_of(2)], vec![all_of(3)]]);
    }

    #[test]
    fn rows_at_some_positions_are_divided_by_their_bytes() {
        let parts = || parts(&[(1000, 100), (1000, 100)]).into_iter().map(|part| part.at(40..50));
        let slice = |id, rows| FragmentSlice { fragment: FragmentId(id), rows: Some(rows) };
        let tasks = divide(parts(), Division::Tasks(4), Unit::Row).unwrap();
        assert_eq!(tasks, [[slice(0, 40..45)], [slice(0, 45..50)], [slice(1, 40..45)], [slice(1, 45..50)]]);
        let tasks = divide(parts(), Division::Bytes(1000), Unit::Row).unwrap();
        assert_eq!(tasks, [[slice(0, 40..50), slice(1, 40..50)]]);
        assert_eq!(divide(parts().map(|part| part.at(3..3)), Division::Auto, Unit::Row).unwrap(), [[]; 0]);
    }

    #[test]
    fn fragments_are_cut_where_tasks_end_but_for_slivers() {
        let slice = |id, rows| FragmentSlice { fragment: FragmentId(id), rows };
        let tasks = divide(parts(&[(100, 100); 3]).into_iter(), Division::Tasks(2), Unit::Row).unwrap();
        let expected =
            [vec![slice(0, None), slice(1, Some(0..50))], vec![slice(1, Some(50..100)), slice(2, None)]];
        assert_eq!(tasks, expected);
        // The first fragment is a tenth of a task too long, the second one ends a fifth of a task too late.
        let sizes = [(110, 110), (110, 110), (80, 80)];
        let tasks = divide(parts(&sizes).into_iter(), Division::Tasks(3), Unit::Row).unwrap();
        let expected = [
            vec![slice(0, None)],
            vec![slice(1, Some(0..90))],
            vec![slice(1, Some(90..110)), slice(2, None)],
        ];
        assert_eq!(tasks, expected);
        for unit in [Unit::Part, Unit::Fragment] {
            let tasks = divide(parts(&sizes).into_iter(), Division::Tasks(3), unit).unwrap();
            assert_eq!(tasks, [[slice(0, None)], [slice(1, None)], [slice(2, None)]]);
        }
    }

    #[test]
    fn workers_have_the_same_number_of_tasks() {
        const MIB: u64 = 1 << 20;
        let count = |total: u64, workers, bytes| {
            let division = Division::workers(workers, Some(bytes), None);
            divide(parts(&[(total, 1 << 30)]).into_iter(), division, Unit::Row).unwrap().len()
        };
        assert_eq!(count(340 * MIB, 2, 128 * MIB), 4);
        assert_eq!(count(340 * MIB, 16, 128 * MIB), 16);
        assert_eq!(count(10 * MIB, 16, 128 * MIB), 10);
        assert_eq!(count(MIB / 2, 16, 128 * MIB), 1);
        assert_eq!(count(1 << 40, 3, 128 * MIB), 8193);
        // What a person asks for may be less.
        assert_eq!(count(10 * MIB, 2, MIB / 4), 40);
        let division = Division::workers(16, None, Some(4 * MIB));
        assert_eq!(divide(parts(&[(10 * MIB, 1 << 30)]).into_iter(), division, Unit::Row).unwrap().len(), 2);
    }

    #[test]
    fn nothing_can_be_divided_into_no_tasks() {
        let no_workers = Division::workers(0, None, None);
        let no_bytes = Division::workers(1, Some(0), None);
        for division in [Division::Tasks(0), Division::Bytes(0), no_workers, no_bytes] {
            assert!(divide(parts(&[(1, 1)]).into_iter(), division, Unit::Row).is_err());
        }
        let too_many = Division::Tasks(MOST_TASKS + 1);
        for division in [Division::Tasks(0), too_many, Division::Bytes(9), Division::workers(9, None, None)] {
            assert!(nothing(division).is_err());
        }
        assert!(divide(std::iter::empty(), Division::Auto, Unit::Row).unwrap().is_empty());
    }

    proptest! {
        #[test]
        fn every_live_row_is_in_one_task(
            sizes in proptest::collection::vec((0_u64..2000, 0_u64..500, 0_u64..500, 0_u64..500), 0..40),
            division in prop_oneof![
                (1_usize..12).prop_map(Division::Tasks),
                (1_u64..9000).prop_map(Division::Bytes),
                (1_usize..9, 1_u64..9000, 1_u64..900)
                    .prop_map(|(workers, bytes, least)| Division::workers(workers, Some(bytes), Some(least))),
            ],
            unit in prop_oneof![Just(Unit::Row), Just(Unit::Part), Just(Unit::Fragment)],
        ) {
            // Of each fragment the live rows between two positions.
            let sizes = sizes.into_iter().map(|(bytes, before, rows, after)| {
                (bytes, before + rows + after, before..before + rows)
            });
            let sizes: Vec<(u64, u64, Range<u64>)> = sizes.collect();
            let all: Vec<(u64, u64)> = sizes.iter().map(|(bytes, live, _)| (*bytes, *live)).collect();
            let cut = || parts(&all).into_iter().zip(&sizes).map(|(part, (.., rows))| part.at(rows.clone()));
            let tasks = divide(cut(), division, unit).unwrap();
            let bytes: Vec<u64> =
                cut().map(|part| if part.rows.is_empty() { 0 } else { part.bytes.max(1) }).collect();
            let total = u128::from(bytes.iter().sum::<u64>());
            let count = division.tasks(total).max(1);
            prop_assert!(tasks.len() as u128 <= count);
            prop_assert!(tasks.iter().all(|task| !task.is_empty()));
            let mut next: Vec<u64> = sizes.iter().map(|(.., rows)| rows.start).collect();
            for slice in tasks.iter().flatten() {
                let at = slice.fragment.0 as usize;
                let positions = slice.positions(all[at].1).unwrap();
                prop_assert_eq!(positions.start, next[at]);
                next[at] = positions.end;
            }
            let ends: Vec<u64> = sizes.iter().map(|(.., rows)| rows.end).collect();
            prop_assert_eq!(&next, &ends);
            if unit == Unit::Row {
                // A quarter more than a task, and a row at either end, which is not cut.
                let row = |(at, bytes): (usize, &u64)| bytes.div_ceil((ends[at] - sizes[at].2.start).max(1));
                let most = total.div_ceil(count) * 5 / 4
                    + 2
                    + 2 * u128::from(bytes.iter().enumerate().map(row).max().unwrap_or(0));
                for task in &tasks {
                    let share = |slice: &FragmentSlice| {
                        let at = slice.fragment.0 as usize;
                        let rows = slice.positions(all[at].1).unwrap();
                        bytes[at] * (rows.end - rows.start) / (ends[at] - sizes[at].2.start)
                    };
                    prop_assert!(u128::from(task.iter().map(share).sum::<u64>()) <= most);
                }
            }
        }
    }
}
