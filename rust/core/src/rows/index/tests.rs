use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;
use crate::manifest::{DeletionFile, DeletionFileType, LineageSource};
use crate::rows::{RowIdSequence, to_index, to_u64};
use crate::{ErrorKind, Version};

fn fragment(id: u32, ids: &RowIdSequence, deleted: u64) -> Arc<Fragment> {
    let file_type = DeletionFileType::Arrow;
    let deletion =
        DeletionFile { file_type, read_version: Version(1), id: 1, num_deleted_rows: deleted, base_id: None };
    Arc::new(Fragment {
        id: FragmentId(id),
        row_ids: Some(LineageSource::Inline(ids.encode())),
        deletion: (deleted > 0).then_some(deletion),
        ..Fragment::new(Vec::new(), ids.len())
    })
}

fn never_read(_: &Fragment) -> Result<RowIdSequence> {
    panic!("no ids in a column")
}

fn none_deleted(_: FragmentId) -> Result<Arc<DeletionVector>> {
    Ok(Arc::new(DeletionVector::empty()))
}

fn list(fragments: impl IntoIterator<Item = Arc<Fragment>>) -> Fragments {
    fragments.into_iter().collect()
}

fn at(fragment: u32, offset: u32) -> Option<RowAddress> {
    Some(RowAddress::new(FragmentId(fragment), offset))
}

#[test]
fn finds_live_rows() {
    let mut interleaved = RowIdSequence::from_slice(&[40, 2, 44]);
    interleaved.append(RowIdSequence::from_range(41..43));
    let fragments = [
        fragment(0, &RowIdSequence::from_range(0..10), 2),
        fragment(1, &RowIdSequence::from_range(10..20), 0),
        fragment(3, &interleaved, 0),
        fragment(4, &RowIdSequence::from_slice(&[5, 100, 102]), 0),
    ];
    let index = RowIdIndex::new(&list(fragments), &never_read).unwrap();
    let mut asked = Vec::new();
    let mut deletions = |id: FragmentId| {
        asked.push(id.0);
        Ok(Arc::new((id.0 == 0).then_some([2, 5]).into_iter().flatten().collect::<DeletionVector>()))
    };
    let ids = [0, 2, 5, 15, 42, 44, 101, 102, 7, 20, u64::MAX, 0].map(RowId);
    let found = index.lookup(&ids, &mut deletions).unwrap();
    let (first, last) = (at(0, 0), at(4, 2));
    let expected =
        [first, at(3, 1), at(4, 0), at(1, 5), at(3, 4), at(3, 2), None, last, at(0, 7), None, None, first];
    assert_eq!(found, expected);
    asked.sort_unstable();
    assert_eq!(asked, [0, 1, 3, 4], "once each");
    let ids = index.row_ids(&[at(3, 2), at(3, 4), at(3, 5), at(2, 0), at(0, 2)].map(Option::unwrap)).unwrap();
    assert_eq!(ids.map_ids(), [Some(44), Some(42), None, None, Some(2)]);
}

trait MapIds {
    fn map_ids(self) -> Vec<Option<u64>>;
}

impl MapIds for Vec<Option<RowId>> {
    fn map_ids(self) -> Vec<Option<u64>> {
        self.into_iter().map(|id| id.map(|id| id.0)).collect()
    }
}

#[test]
fn bad_sequences_are_corrupt() {
    let kind = |fragment: Arc<Fragment>, id| {
        let index = RowIdIndex::new(&list([fragment]), &never_read);
        let error = index.and_then(|i| i.lookup(&[RowId(id)], &mut none_deleted)).unwrap_err();
        assert!(error.to_string().contains("fragment 7"), "{error}");
        error.kind()
    };
    let longer = |ids: &RowIdSequence| {
        let mut longer = fragment(7, ids, 0).as_ref().clone();
        longer.physical_rows += 1;
        Arc::new(longer)
    };
    let dense: Vec<u64> = (0..100).filter(|id| id % 3 > 0).collect();
    let scattered: Vec<u64> = (0..100).map(|id| id * 1000).collect();
    for ids in [vec![1, 2, 3], dense, scattered] {
        assert_eq!(kind(longer(&RowIdSequence::from_slice(&ids)), 1), ErrorKind::Corrupt);
    }
    let mut garbled = fragment(7, &RowIdSequence::empty(), 0).as_ref().clone();
    garbled.row_ids = Some(LineageSource::Inline(vec![0x0a, 0].into()));
    assert_eq!(kind(Arc::new(garbled), 1), ErrorKind::Corrupt);
}

#[test]
fn two_live_rows_with_one_id_are_corrupt() {
    let many: Vec<u64> = (0..50).map(|n| n * 1000).collect();
    for (first, second) in [
        (RowIdSequence::from_range(0..10), RowIdSequence::from_range(9..20)),
        (RowIdSequence::from_range(0..10), RowIdSequence::from_slice(&[70, 9, 50_000])),
        (RowIdSequence::from_slice(&[9, 9]), RowIdSequence::empty()),
        (RowIdSequence::from_slice(&many), RowIdSequence::from_slice(&[9, 7000, 100_000])),
    ] {
        let fragments = list([fragment(0, &first, 0), fragment(1, &second, 0)]);
        let index = RowIdIndex::new(&fragments, &never_read).unwrap();
        let error = index.lookup(&[RowId(1), RowId(9), RowId(7000)], &mut none_deleted).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corrupt);
        assert!(error.to_string().contains("both live"), "{error}");
        assert!(index.lookup(&[RowId(70_000)], &mut none_deleted).is_ok());
    }
}

#[test]
fn ids_in_a_column_are_read() {
    let mut read_ids = fragment(7, &RowIdSequence::from_range(0..3), 0).as_ref().clone();
    read_ids.row_ids = Some(LineageSource::Column);
    let fragments = list([Arc::new(read_ids)]);
    let index = RowIdIndex::new(&fragments, &|_| Ok(RowIdSequence::from_slice(&[9, 8, 5]))).unwrap();
    let index = index.advance(&fragments, &fragments.clone(), &never_read).unwrap();
    assert_eq!(index.lookup(&[RowId(8)], &mut none_deleted).unwrap(), [at(7, 1)]);
    let error = RowIdIndex::new(&fragments, &|_| Err(Error::store("away"))).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Store);
}

/// A table as lists.
#[derive(Clone, Default)]
struct Model {
    next_id: u64,
    next_fragment: u32,
    fragments: BTreeMap<u32, (RowIdSequence, Vec<u32>)>,
    /// Where the live rows are.
    live: BTreeMap<u64, RowAddress>,
}

impl Model {
    fn add(&mut self, ids: RowIdSequence) {
        let fragment = self.next_fragment;
        self.next_fragment += 1;
        for (offset, id) in (0..).zip(ids.iter()) {
            if let Some(old) = self.live.insert(id, RowAddress::new(FragmentId(fragment), offset)) {
                let (_, deleted) = self.fragments.get_mut(&old.fragment().0).unwrap();
                deleted.push(old.offset());
            }
        }
        self.fragments.insert(fragment, (ids, Vec::new()));
    }

    fn append(&mut self, rows: u64) {
        let start = self.next_id;
        self.next_id += rows;
        self.add(RowIdSequence::from_range(start..self.next_id));
    }

    fn compact(&mut self, from: usize, count: usize, sort: bool) {
        let chosen: Vec<u32> = self.fragments.keys().copied().skip(from).take(count).collect();
        let mut joined = RowIdSequence::empty();
        for id in chosen {
            let (ids, deleted) = self.fragments.remove(&id).unwrap();
            joined.append(ids.mask(&deleted.into_iter().collect()));
        }
        joined.iter().for_each(|id| {
            self.live.remove(&id);
        });
        if sort {
            let mut ids: Vec<u64> = joined.iter().collect();
            ids.sort_unstable();
            joined = RowIdSequence::from_slice(&ids);
        }
        self.add(joined);
    }

    /// Fragments of the version. As if the manifest was read again, or as if it was made from the one before.
    fn version(&self, before: &Fragments, read_again: bool) -> Fragments {
        let made = self.fragments.iter().map(|(&id, (ids, deleted))| {
            let old = before.by_id(FragmentId(id)).filter(|f| f.deleted_rows() == to_u64(deleted.len()));
            old.filter(|_| !read_again).cloned().unwrap_or_else(|| fragment(id, ids, to_u64(deleted.len())))
        });
        let mut made: Fragments = made.collect();
        made.seal();
        made
    }

    /// A range of ids leads to every fragment that has one of them, and to none whose ids all lie outside.
    fn check_ranges(&self, index: &RowIdIndex, low: u64, width: u64) {
        let range = low..=low + width;
        let found: Vec<u32> = index.fragments_with(range.clone()).into_iter().map(|id| id.0).collect();
        for (id, (ids, _)) in &self.fragments {
            let inside = ids.iter().any(|id| range.contains(&id));
            let outside = ids.iter().all(|id| id < low) || ids.iter().all(|id| id > low + width);
            let is_found = found.contains(id);
            assert!(is_found || !inside, "fragment {id} has ids of {range:?}");
            assert!(!is_found || !outside, "no id of fragment {id} is near {range:?}");
        }
    }

    fn check(&self, index: &RowIdIndex) {
        let ids: Vec<RowId> = (0..self.next_id + 3).rev().map(RowId).collect();
        let mut deletions = |id: FragmentId| Ok(Arc::new(self.fragments[&id.0].1.iter().copied().collect()));
        let found = index.lookup(&ids, &mut deletions).unwrap();
        for (id, found) in ids.iter().zip(&found) {
            assert_eq!(*found, self.live.get(&id.0).copied());
        }
        let addresses: Vec<RowAddress> = found.into_iter().flatten().collect();
        let ascending = index.lookup_ascending(ids.iter().rev().copied(), &mut deletions).unwrap();
        assert_eq!(ascending, self.live.values().copied().collect::<Vec<_>>());
        for step in 2..5 {
            let ids = (0..self.next_id + 3).step_by(step).map(RowId);
            let live = ids.clone().filter_map(|id| self.live.get(&id.0).copied());
            assert_eq!(index.lookup_ascending(ids, &mut deletions).unwrap(), live.collect::<Vec<_>>());
        }
        let back = index.row_ids(&addresses).unwrap().map_ids();
        assert_eq!(back, self.live.keys().rev().map(|id| Some(*id)).collect::<Vec<_>>());
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn versions_agree_with_a_map(steps in proptest::collection::vec((0..7_u8, any::<u64>()), 1..25)) {
        let mut model = Model::default();
        let mut fragments = Fragments::default();
        let mut index = RowIdIndex::new(&fragments, &never_read).unwrap();
        for (step, seed) in steps {
            let mut random = std::iter::successors(Some(seed | 1), |n| Some(n.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(n >> 31)));
            let mut below = move |n: u64| (random.next().unwrap() >> 20) % n.max(1);
            match step {
                0 => model.append(below(500)),
                1 => model.append(below(4)),
                2 | 3 => {
                    // An update of some rows, in any order or by id.
                    let ids: Vec<u64> = model.live.keys().copied().collect();
                    let one_of = 1 + below(20);
                    let mut moved: Vec<u64> = ids.iter().copied().filter(|_| below(one_of) == 0).collect();
                    if step == 2 {
                        moved.sort_by_key(|id| id.wrapping_mul(0x9e37_79b9_7f4a_7c15));
                    }
                    model.add(RowIdSequence::from_slice(&moved));
                }
                4 => {
                    let ids: Vec<u64> = model.live.keys().copied().filter(|_| below(5) == 0).collect();
                    for id in ids {
                        let address = model.live.remove(&id).unwrap();
                        model.fragments.get_mut(&address.fragment().0).unwrap().1.push(address.offset());
                    }
                }
                5 | 6 => {
                    let count = to_u64(model.fragments.len());
                    let (from, count) = (to_index(below(count)), to_index(1 + below(4)));
                    if count <= model.fragments.len() {
                        model.compact(from, count, step == 5);
                    }
                }
                _ => unreachable!(),
            }
            let before = fragments;
            fragments = model.version(&before, below(3) == 0);
            let next = index.advance(&before, &fragments, &never_read).unwrap();
            model.check(&next);
            let fresh = RowIdIndex::new(&fragments, &never_read).unwrap();
            model.check(&fresh);
            prop_assert!(fresh.source_bytes <= next.source_bytes);
            model.check_ranges(&next, below(600), below(100));
            prop_assert_eq!(fresh.moved.chunks().iter().map(chunks::Chunk::len).sum::<usize>(),
                next.moved.chunks().iter().map(chunks::Chunk::len).sum::<usize>());
            index = next;
        }
    }
}

/// Pieces are split, shared and packed again.
#[test]
fn many_moved_rows() {
    let mut model = Model::default();
    model.append(20_000);
    let mut fragments = model.version(&Fragments::default(), false);
    let mut index = RowIdIndex::new(&fragments, &never_read).unwrap();
    for commit in 0..150_u64 {
        let moved: Vec<u64> = (0..60).map(|n| (n * 331 + commit * 7919) % 20_000).collect();
        model.add(RowIdSequence::from_slice(&moved));
        if commit % 50 == 49 {
            model.compact(40, 30, true);
        }
        let before = fragments;
        fragments = model.version(&before, false);
        index = index.advance(&before, &fragments, &never_read).unwrap();
    }
    model.check(&index);
    let fresh = RowIdIndex::new(&fragments, &never_read).unwrap();
    assert!(index.memory_bytes() < 2 * fresh.memory_bytes());
}
