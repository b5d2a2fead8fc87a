//! Which fragments to compact, and which of them together: decided from values (table format 9.2).
//!
//! Invariant: the fragments of a task are neighbours, and every index covers all of them or none.

use pennon_core::FragmentId;
use pennon_core::file::FileVersion;
use pennon_core::manifest::{Fragment, FragmentSummary};
use roaring::RoaringBitmap;

use super::options::Settings;

/// Why a fragment may be compacted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Candidate {
    /// Because of its deleted rows.
    Alone,
    /// If a neighbour is, too.
    WithNeighbours,
}

/// Neighbours that may be compacted together.
struct Bin<'a> {
    fragments: Vec<&'a FragmentSummary>,
    /// Which of the indices cover them.
    indices: Vec<bool>,
    /// Whether one of them is enough.
    alone: bool,
}

/// Fragments that are one task each. `covered`: the fragments of each index.
pub(super) fn plan<'a>(
    fragments: impl Iterator<Item = &'a FragmentSummary>,
    covered: &[RoaringBitmap],
    settings: &Settings,
) -> Vec<Vec<FragmentId>> {
    let mut bins: Vec<Bin<'_>> = Vec::new();
    let mut follows = false;
    for fragment in fragments {
        let Some(candidate) = candidate(fragment, settings) else {
            follows = false;
            continue;
        };
        let is_covered = || covered.iter().map(|bitmap| bitmap.contains(fragment.id.0));
        let alone = candidate == Candidate::Alone;
        match bins.last_mut() {
            Some(bin) if follows && is_covered().eq(bin.indices.iter().copied()) => {
                bin.fragments.push(fragment);
                bin.alone |= alone;
            }
            _ => bins.push(Bin { fragments: vec![fragment], indices: is_covered().collect(), alone }),
        }
        follows = true;
    }
    bins.retain(|bin| bin.fragments.len() > 1 || bin.alone);
    let tasks = bins.into_iter().flat_map(|bin| split(bin.fragments, settings.target_rows));
    within(tasks, settings)
}

fn candidate(fragment: &FragmentSummary, settings: &Settings) -> Option<Candidate> {
    if settings.excluded.contains(&fragment.id) {
        return None;
    }
    // Numbers of rows have 32 bits, which a float holds exactly.
    let share = |rows: u64| f64::from(u32::try_from(rows).unwrap_or(u32::MAX));
    let deleted = share(fragment.deleted_rows) / share(fragment.physical_rows.max(1));
    // Files of version 0.1 are rewritten all or none: they cannot be in a table together with others.
    if fragment.has_legacy_files
        && settings.file_version.is_some_and(|version| version != FileVersion::Legacy)
    {
        return Some(Candidate::Alone);
    }
    if settings.threshold.is_some_and(|threshold| deleted > threshold) {
        Some(Candidate::Alone)
    } else if fragment.physical_rows < settings.target_rows {
        Some(Candidate::WithNeighbours)
    } else {
        None
    }
}

/// Pieces of at least so many live rows each.
fn split(bin: Vec<&FragmentSummary>, target: u64) -> Vec<Vec<&FragmentSummary>> {
    let mut left: u64 = bin.iter().map(|f| f.live_rows()).sum();
    let (mut pieces, mut piece, mut rows) = (Vec::new(), Vec::new(), 0);
    for fragment in bin {
        let live = fragment.live_rows();
        (rows, left) = (rows + live, left - live);
        piece.push(fragment);
        if rows >= target && left >= target {
            pieces.push(std::mem::take(&mut piece));
            rows = 0;
        }
    }
    if !piece.is_empty() {
        pieces.push(piece);
    }
    pieces
}

/// The first tasks, as long as they stay within the budget.
fn within<'a>(
    tasks: impl Iterator<Item = Vec<&'a FragmentSummary>>,
    settings: &Settings,
) -> Vec<Vec<FragmentId>> {
    let (mut fragments, mut rows, mut bytes) = (0_u64, 0_u64, 0_u64);
    let tasks = tasks.take_while(|task| {
        fragments += u64::try_from(task.len()).unwrap_or(u64::MAX);
        rows += task.iter().map(|f| f.live_rows()).sum::<u64>();
        bytes += task.iter().map(|f| f.file_bytes).sum::<u64>();
        fragments <= settings.max_fragments && rows <= settings.max_rows && bytes <= settings.max_bytes
    });
    tasks.map(|task| task.into_iter().map(|fragment| fragment.id).collect()).collect()
}

/// Bytes of the data files of a fragment.
pub(super) fn source_bytes(fragment: &Fragment) -> u64 {
    fragment.files.iter().filter_map(|file| file.size).sum()
}

/// Fragments that a task makes of so many rows, unless their files become too large.
pub(super) fn new_fragments(live: u64, target: u64) -> usize {
    usize::try_from(live.div_ceil(rows_per_file(live, target).max(1))).unwrap_or(0)
}

/// Rows of each new fragment of a task, so that they are as many as there are whole targets, and about equal.
pub(super) fn rows_per_file(live: u64, target: u64) -> u64 {
    live.div_ceil((live / target.max(1)).max(1)).max(1)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use pennon_core::manifest::{DataFile, DeletionFile, DeletionFileType, Fragments};
    use pennon_core::schema::Metadata;
    use pennon_core::{FieldId, Version};
    use proptest::prelude::*;

    use super::super::options::CompactionOptions;
    use super::*;

    fn fragment(id: u32, rows: u64, deleted: u64) -> Arc<Fragment> {
        let deletion = DeletionFile {
            file_type: DeletionFileType::Bitmap,
            read_version: Version(1),
            id: 1,
            num_deleted_rows: deleted,
            base_id: None,
        };
        let deletion = (deleted > 0).then_some(deletion);
        Arc::new(Fragment { id: FragmentId(id), deletion, ..Fragment::new(Vec::new(), rows) })
    }

    fn tens(count: u32) -> Vec<Arc<Fragment>> {
        (0..count).map(|id| fragment(id, 10, 0)).collect()
    }

    fn settings(target: u64) -> Settings {
        let options =
            CompactionOptions { target_rows_per_fragment: Some(target), ..CompactionOptions::default() };
        options.settings(&Metadata::new()).unwrap()
    }

    /// The ids of each task.
    fn tasks(fragments: &[Arc<Fragment>], covered: &[RoaringBitmap], settings: &Settings) -> Vec<Vec<u32>> {
        let fragments: Fragments = fragments.iter().cloned().collect();
        let tasks = plan(fragments.summaries(), covered, settings);
        tasks.iter().map(|task| task.iter().map(|id| id.0).collect()).collect()
    }

    /// What the reference plans (table format 9.2).
    #[test]
    fn the_plans_of_the_reference() {
        let found = |fragments: &[Arc<Fragment>], target| tasks(fragments, &[], &settings(target));
        let none: Vec<Vec<u32>> = Vec::new();
        assert_eq!(found(&tens(5), 20), [vec![0, 1], vec![2, 3, 4]]);
        assert_eq!(found(&tens(6), 20), [vec![0, 1], vec![2, 3], vec![4, 5]]);
        assert_eq!(found(&tens(5), 25), [vec![0, 1, 2, 3, 4]]);
        assert_eq!(found(&tens(4), 10), none);
        let two = RoaringBitmap::from_iter([0, 1]);
        assert_eq!(tasks(&tens(4), &[two], &settings(1000)), [vec![0, 1], vec![2, 3]]);
        let deleted = |count| [fragment(0, 10, 0), fragment(1, 10, count), fragment(2, 10, 0)];
        assert_eq!(found(&deleted(1), 5), none);
        assert_eq!(found(&deleted(2), 5), [vec![1]]);
    }

    #[test]
    fn neighbours_only() {
        let fragments = [fragment(0, 5, 0), fragment(1, 50, 0), fragment(2, 5, 0), fragment(7, 5, 0)];
        assert_eq!(tasks(&fragments, &[], &settings(20)), [[2, 7]]);
        let excluded = Settings { excluded: [FragmentId(2)].into(), ..settings(100) };
        assert_eq!(tasks(&fragments, &[], &excluded), [[0, 1]]);
    }

    #[test]
    fn files_of_version_0_1_are_rewritten_for_another_version() {
        let file = DataFile {
            path: "a.lance".into(),
            fields: [FieldId(0)].into(),
            column_indices: [].into(),
            version: FileVersion::Legacy,
            size: None,
            base_id: None,
        };
        let old = |id| {
            let files = vec![file.clone()];
            Arc::new(Fragment { id: FragmentId(id), ..Fragment::new(files, 10) })
        };
        let fragments = [old(0), old(1), old(2)];
        let none: Vec<Vec<u32>> = Vec::new();
        assert_eq!(tasks(&fragments, &[], &settings(5)), none);
        for (version, expected) in
            [(FileVersion::V2_1, vec![vec![0], vec![1], vec![2]]), (FileVersion::Legacy, none)]
        {
            let settings = Settings { file_version: Some(version), ..settings(5) };
            assert_eq!(tasks(&fragments, &[], &settings), expected);
        }
    }

    #[test]
    fn deletions_that_stay() {
        let fragments = [fragment(0, 10, 9), fragment(1, 10, 0)];
        let off = Settings { threshold: None, ..settings(5) };
        assert!(tasks(&fragments, &[], &off).is_empty());
        let never = Settings { threshold: Some(1.0), ..settings(5) };
        assert!(tasks(&fragments, &[], &never).is_empty());
    }

    #[test]
    fn a_budget_ends_the_plan() {
        let found = |change: &dyn Fn(&mut Settings)| {
            let mut settings = settings(20);
            change(&mut settings);
            tasks(&tens(6), &[], &settings).len()
        };
        assert_eq!(found(&|s| s.max_rows = 40), 2);
        assert_eq!(found(&|s| s.max_rows = 39), 1);
        assert_eq!(found(&|s| s.max_fragments = 1), 0);
        assert_eq!(found(&|s| s.max_bytes = 0), 3);
    }

    /// What the reference made of tasks of so many rows.
    #[test]
    fn new_fragments_are_about_equal() {
        let cases =
            [(40, 25, 40), (30_000, 15_000, 15_000), (3, 2, 3), (18, 10, 18), (27, 10, 14), (0, 10, 1)];
        for (live, target, rows) in cases {
            assert_eq!(rows_per_file(live, target), rows, "{live} rows, target {target}");
        }
    }

    proptest! {
        /// Every fragment is in one task at most; tasks are runs of neighbours that all indices treat alike.
        #[test]
        fn tasks_are_neighbours(
            rows in proptest::collection::vec((1u64..40, 0u64..40), 0..30),
            covered in proptest::collection::btree_set(0u32..30, 0..30),
            target in 1u64..50,
        ) {
            let fragments: Vec<_> =
                (0..).zip(&rows).map(|(id, (rows, deleted))| fragment(id, *rows, *deleted.min(rows))).collect();
            let covered = RoaringBitmap::from_iter(covered);
            let tasks = tasks(&fragments, std::slice::from_ref(&covered), &settings(target));
            let mut next = 0;
            for task in &tasks {
                prop_assert!(task[0] >= next);
                prop_assert!(task.windows(2).all(|pair| pair[1] == pair[0] + 1));
                prop_assert!(task.iter().all(|id| covered.contains(*id) == covered.contains(task[0])));
                next = task[task.len() - 1] + 1;
            }
        }
    }
}
