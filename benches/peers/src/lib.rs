//! What the benchmarks of row identity have in common: shapes of id lists and of tables.

use std::sync::Arc;
use std::time::Duration;

use criterion::Criterion;
use fastrand::Rng;
use lance_core::utils::deletion::DeletionVector as ReferenceDeletions;
use lance_table::rowids::{FragmentRowIdIndex, RowIdIndex as ReferenceIndex, read_row_ids};
use pennon_core::deletion::DeletionVector;
use pennon_core::manifest::{DeletionFile, DeletionFileType, Fragment, LineageSource};
use pennon_core::rows::{RowIdIndex, RowIdSequence};
use pennon_core::{FragmentId, RowId, Version};

/// One million.
pub const MILLION: u64 = 1_000_000;

/// Short measurements: the claims are factors, and there are many.
pub fn criterion() -> Criterion {
    Criterion::default()
        .sample_size(10)
        .warm_up_time(Duration::from_millis(300))
        .measurement_time(Duration::from_secs(1))
        .configure_from_args()
}

/// Lists of a million ids, by name.
pub fn shapes() -> Vec<(&'static str, Vec<u64>)> {
    let mut random = Rng::with_seed(7);
    let mut with_holes =
        |share: f64| (0..).filter(|_| random.f64() >= share).take(1_000_000).collect::<Vec<u64>>();
    let (one, twenty) = (with_holes(0.01), with_holes(0.2));
    let sparse = (0..MILLION).map(|i| i * 1000 + random.u64(0..1000)).collect();
    let mut shuffled: Vec<u64> = (0..MILLION).collect();
    random.shuffle(&mut shuffled);
    vec![
        ("contiguous", (0..MILLION).collect()),
        ("1 % holes", one),
        ("20 % holes", twenty),
        ("sorted sparse", sparse),
        ("shuffled", shuffled),
    ]
}

/// A table as its manifest has it: fragments with their encoded ids.
pub struct Table {
    pub fragments: Vec<Arc<Fragment>>,
}

impl Table {
    /// Fragments with these sequences.
    pub fn of(sequences: impl IntoIterator<Item = RowIdSequence>) -> Self {
        let fragments = (0..).zip(sequences).map(|(id, ids)| Arc::new(fragment(id, &ids))).collect();
        Self { fragments }
    }

    /// 10^9 rows as they were appended: 20,000 fragments of 50,000.
    pub fn pristine() -> Self {
        Self::of((0..20_000).map(|i| RowIdSequence::from_range(i * 50_000..(i + 1) * 50_000)))
    }

    /// The same after 30 % of the rows were deleted and all fragments compacted: bitmaps.
    pub fn compacted() -> Self {
        let mut random = Rng::with_seed(11);
        Self::of((0..20_000).map(|i| {
            let live: Vec<u64> = (i * 50_000..(i + 1) * 50_000).filter(|_| random.f32() >= 0.3).collect();
            RowIdSequence::from_slice(&live)
        }))
    }

    /// 10^8 rows in 1,000 fragments, of which a million moved in 10,000 commits of 100 scattered rows.
    pub fn moved() -> Self {
        let pristine = (0..1000).map(|i| RowIdSequence::from_range(i * 100_000..(i + 1) * 100_000));
        let mut table =
            Self::of(pristine.chain((0..MOVES).map(|at| RowIdSequence::from_slice(&moved_by(at)))));
        for fragment in &mut table.fragments[..1000] {
            *fragment = Arc::new(with_deletions(fragment, 1));
        }
        table
    }

    /// The version after `moved`: one more commit of the same kind.
    pub fn moved_once_more(&self) -> Self {
        let mut fragments = self.fragments.clone();
        let ids = moved_by(MOVES);
        for id in &ids {
            let fragment = &mut fragments[(id / 100_000) as usize];
            *fragment = Arc::new(with_deletions(fragment, 2));
        }
        fragments.push(Arc::new(fragment(fragments.len() as u32, &RowIdSequence::from_slice(&ids))));
        Self { fragments }
    }

    /// Pennon's index.
    pub fn index(&self) -> RowIdIndex {
        RowIdIndex::new(&self.fragments, &|fragment| panic!("column-backed ids in {}", fragment.id)).unwrap()
    }

    /// The reference's index of the same bytes. `stale` deletes copies of rows that have moved.
    pub fn reference_index(&self, stale: &dyn Fn(u32) -> ReferenceDeletions) -> ReferenceIndex {
        let entries: Vec<_> = self
            .fragments
            .iter()
            .map(|fragment| FragmentRowIdIndex {
                fragment_id: fragment.id.0,
                row_id_sequence: Arc::new(read_row_ids(inline(fragment)).unwrap()),
                deletion_vector: Arc::new(stale(fragment.id.0)),
            })
            .collect();
        ReferenceIndex::new(&entries).unwrap()
    }

    /// Random ids of the table.
    pub fn some_ids(&self, count: usize) -> Vec<RowId> {
        let mut random = Rng::with_seed(13);
        let one = |_| {
            let fragment = &self.fragments[random.usize(0..self.fragments.len())];
            let ids = fragment.row_id_sequence().unwrap().unwrap();
            ids.get(random.u64(0..ids.len())).unwrap()
        };
        (0..count).map(one).collect()
    }
}

/// Commits that made the table of moved rows.
const MOVES: u64 = 10_000;

/// The ids that a commit moved, ascending; no two commits move the same row.
fn moved_by(commit: u64) -> Vec<u64> {
    (0..100)
        .map(|row| row * MILLION + commit % MOVES * 100 + (row * 37 + commit + commit / MOVES) % 100)
        .collect()
}

/// The offsets whose rows moved out of each of the 1,000 fragments of `Table::moved`, and in so many more commits.
pub fn moved_out(more: u64) -> Vec<Vec<u32>> {
    let mut offsets = vec![Vec::new(); 1000];
    for id in (0..MOVES + more).flat_map(moved_by) {
        offsets[(id / 100_000) as usize].push((id % 100_000) as u32);
    }
    offsets
}

/// The same vectors for both sides.
pub fn both_deletions(offsets: &[u32]) -> (Arc<DeletionVector>, ReferenceDeletions) {
    (
        Arc::new(offsets.iter().copied().collect()),
        ReferenceDeletions::Bitmap(offsets.iter().copied().collect()),
    )
}

fn with_deletions(fragment: &Fragment, id: u64) -> Fragment {
    let file = DeletionFile {
        file_type: DeletionFileType::Bitmap,
        read_version: Version(1),
        id,
        num_deleted_rows: 1000,
        base_id: None,
    };
    Fragment { deletion: Some(file), ..fragment.clone() }
}

/// A fragment with inline ids.
pub fn fragment(id: u32, ids: &RowIdSequence) -> Fragment {
    let mut fragment = Fragment::new(Vec::new(), ids.len());
    fragment.id = FragmentId(id);
    fragment.row_ids = Some(LineageSource::Inline(ids.encode()));
    fragment
}

fn inline(fragment: &Fragment) -> &[u8] {
    match &fragment.row_ids {
        Some(LineageSource::Inline(bytes)) => bytes,
        other => panic!("fragment {} has {other:?}", fragment.id),
    }
}
