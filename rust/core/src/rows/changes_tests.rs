//! Changes between versions, compared with a plain map.

use std::collections::BTreeMap;
use std::sync::Arc;

use proptest::prelude::*;

use super::*;
use crate::deletion::DeletionVector;
use crate::manifest::{Difference, Fragment, Fragments, LineageSource};
use crate::{ErrorKind, FragmentId, RowAddress, RowId, Version};

/// Id and last-updated version of each physical row, and whether it is deleted.
type PhysicalRows = Vec<(u64, u64, bool)>;
/// Fragments by id.
type Table = BTreeMap<u32, PhysicalRows>;

/// One step of a history.
#[derive(Debug, Clone)]
enum Step {
    Append(u8),
    Delete(u8),
    /// Rows move to a new fragment.
    Update(u8),
    /// Rows change where they are.
    InPlace(u8),
    Compact {
        from: u8,
        shuffled: bool,
    },
    Restore(u8),
    Overwrite(u8),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        (1..40_u8).prop_map(Step::Append),
        any::<u8>().prop_map(Step::Delete),
        any::<u8>().prop_map(Step::Update),
        any::<u8>().prop_map(Step::InPlace),
        (any::<u8>(), any::<bool>()).prop_map(|(from, shuffled)| Step::Compact { from, shuffled }),
        any::<u8>().prop_map(Step::Restore),
        (1..40_u8).prop_map(Step::Overwrite),
    ]
}

#[derive(Default)]
struct History {
    versions: Vec<Table>,
    next_id: u64,
    next_fragment: u32,
}

impl History {
    fn add(&mut self, table: &mut Table, rows: PhysicalRows) {
        if !rows.is_empty() {
            table.insert(self.next_fragment, rows);
            self.next_fragment += 1;
        }
    }

    fn made(&mut self, count: u8, version: u64) -> PhysicalRows {
        let first = self.next_id;
        self.next_id += u64::from(count);
        (first..self.next_id).map(|id| (id, version, false)).collect()
    }

    fn run(&mut self, step: &Step) {
        let version = u64::try_from(self.versions.len()).unwrap();
        let mut table = self.versions.last().cloned().unwrap_or_default();
        // Which rows a change is about; whole runs of ids and single ones.
        let chosen = |id: u64, dice: u8| match dice % 4 {
            0 => id % 7 == u64::from(dice) % 7,
            1 => (id / 16).is_multiple_of(3),
            2 => id.wrapping_mul(0x9e37_79b9) >> 7 & 3 == 0,
            _ => false,
        };
        match *step {
            Step::Append(count) => {
                let rows = self.made(count, version);
                self.add(&mut table, rows);
            }
            Step::Overwrite(count) => {
                table.clear();
                let rows = self.made(count, version);
                self.add(&mut table, rows);
            }
            Step::Delete(dice) => {
                table.values_mut().flatten().for_each(|row| row.2 |= chosen(row.0, dice));
            }
            Step::Update(dice) => {
                let mut moved = Vec::new();
                for row in table.values_mut().flatten().filter(|row| !row.2 && chosen(row.0, dice)) {
                    row.2 = true;
                    moved.push((row.0, version, false));
                }
                if dice % 5 != 0 {
                    moved.sort_unstable();
                }
                self.add(&mut table, moved);
            }
            Step::InPlace(dice) => {
                for row in table.values_mut().flatten().filter(|row| chosen(row.0, dice)) {
                    row.1 = version;
                }
            }
            Step::Compact { from, shuffled } => {
                let old: Vec<u32> = table.keys().copied().skip(usize::from(from % 3)).collect();
                let mut rows: PhysicalRows =
                    old.iter().flat_map(|id| table.remove(id).unwrap()).filter(|row| !row.2).collect();
                if shuffled {
                    rows.sort_by_key(|row| row.0.wrapping_mul(0x9e37_79b9_7f4a_7c15));
                }
                self.add(&mut table, rows);
            }
            Step::Restore(back) if !self.versions.is_empty() => {
                let at = self.versions.len().saturating_sub(1 + usize::from(back) % 4);
                table = self.versions[at].clone();
            }
            Step::Restore(_) => {}
        }
        // A fragment without live rows is removed.
        table.retain(|_, rows| rows.iter().any(|row| !row.2));
        self.versions.push(table);
    }
}

struct Parts {
    ids: RowIdSequence,
    updated: VersionSequence,
    deleted: DeletionVector,
}

fn parts(rows: &PhysicalRows) -> Parts {
    let mut updated = VersionSequence::default();
    rows.iter().for_each(|row| updated.push(1, Version(row.1)));
    Parts {
        ids: rows.iter().map(|row| row.0).collect(),
        updated,
        deleted: (0..).zip(rows).filter(|(_, row)| row.2).map(|(at, _)| at).collect(),
    }
}

fn compare(old: &Table, new: &Table, candidate: impl Fn(u32) -> bool) -> RowChanges {
    let fragments: Vec<u32> = old.keys().chain(new.keys()).copied().collect();
    let mut built: BTreeMap<u32, (Option<Parts>, Option<Parts>)> = BTreeMap::new();
    for id in fragments {
        if old.get(&id) != new.get(&id) {
            built.insert(id, (old.get(&id).map(parts), new.get(&id).map(parts)));
        }
    }
    fn side(id: u32, parts: &Parts, candidate: bool) -> RowSide<'_> {
        RowSide {
            fragment: FragmentId(id),
            ids: &parts.ids,
            updated: &parts.updated,
            deleted: &parts.deleted,
            candidate,
        }
    }
    let sides: Vec<RowSides<'_>> = built
        .iter()
        .map(|(&id, pair)| match pair {
            (Some(old), Some(new)) => {
                RowSides::Both { old: side(id, old, candidate(id)), new: side(id, new, candidate(id)) }
            }
            (Some(old), None) => RowSides::Old(side(id, old, candidate(id))),
            (None, Some(new)) => RowSides::New(side(id, new, candidate(id))),
            (None, None) => unreachable!(),
        })
        .collect();
    row_changes(&sides).unwrap()
}

/// Id to last-updated version and address of every live row.
fn live(table: &Table) -> BTreeMap<u64, (u64, RowAddress)> {
    let mut found = BTreeMap::new();
    for (&fragment, rows) in table {
        for (offset, row) in (0..).zip(rows).filter(|(_, row)| !row.2) {
            let address = RowAddress::new(FragmentId(fragment), offset);
            assert!(found.insert(row.0, (row.1, address)).is_none());
        }
    }
    found
}

fn flat(runs: &[RowRun]) -> Vec<(u64, Option<u64>, Option<u64>)> {
    let mut rows: Vec<_> = runs
        .iter()
        .flat_map(|run| {
            (0..run.rows).map(move |at| (run.id.0 + at, run.old.map(|a| a.0 + at), run.new.map(|a| a.0 + at)))
        })
        .collect();
    rows.sort_unstable();
    rows
}

proptest! {
    #[test]
    fn agree_with_a_map(steps in proptest::collection::vec(step(), 1..12), pick in any::<(u8, u8)>()) {
        let mut history = History::default();
        history.run(&Step::Append(60));
        steps.iter().for_each(|step| history.run(step));
        let at = |dice: u8| usize::from(dice) % history.versions.len();
        let (first, second) = (at(pick.0), at(pick.1));
        // Both ways: nothing depends on which is the newer one.
        for (old, new) in [(first, second), (second, first), (0, history.versions.len() - 1)] {
            let (old, new) = (&history.versions[old], &history.versions[new]);
            let (before, after) = (live(old), live(new));
            let odd = |fragment: u32| fragment % 2 == 1;
            let found = compare(old, new, odd);
            let address = |map: &BTreeMap<u64, (u64, RowAddress)>, id: u64| map.get(&id).map(|row| row.1.0);
            let expected = |wanted: &dyn Fn(Option<u64>, Option<u64>) -> bool| -> Vec<_> {
                let ids: std::collections::BTreeSet<u64> = before.keys().chain(after.keys()).copied().collect();
                let version = |map: &BTreeMap<u64, (u64, RowAddress)>, id| map.get(&id).map(|row: &(u64, RowAddress)| row.0);
                ids.into_iter()
                    .filter(|&id| wanted(version(&before, id), version(&after, id)))
                    .map(|id| (id, address(&before, id), address(&after, id)))
                    .collect()
            };
            prop_assert_eq!(flat(&found.inserted), expected(&|old, new| old.is_none() && new.is_some()));
            prop_assert_eq!(flat(&found.deleted), expected(&|old, new| old.is_some() && new.is_none()));
            prop_assert_eq!(flat(&found.updated), expected(&|old, new| old.is_some() && new.is_some() && old != new));
            // Candidates are the unchanged rows that are or were in a candidate fragment, of those that differ.
            let mut candidate = expected(&|old, new| old.is_some() && old == new);
            candidate.retain(|(_, from, into)| {
                let (from, into) = ((from.unwrap() >> 32) as u32, (into.unwrap() >> 32) as u32);
                (odd(from) || odd(into)) && (from != into || old[&from] != new[&from])
            });
            prop_assert_eq!(flat(&found.candidates), candidate);
            prop_assert!(compare(old, new, |_| false).candidates.is_empty());
        }
    }
}

#[test]
fn runs_stay_runs() {
    let old: Table = [(0, (0..1000).map(|id| (id, 1, false)).collect())].into();
    let new: Table =
        [(1, (0..1000).map(|id| (id, 1 + u64::from((300..700).contains(&id)), false)).collect())].into();
    let found = compare(&old, &new, |_| false);
    let run = RowRun {
        id: RowId(300),
        rows: 400,
        old: Some(RowAddress::new(FragmentId(0), 300)),
        new: Some(RowAddress::new(FragmentId(1), 300)),
    };
    assert_eq!(found, RowChanges { updated: vec![run], ..RowChanges::default() });
}

#[test]
fn ids_up_to_the_largest() {
    let ids = RowIdSequence::from_slice(&[u64::MAX - 1, u64::MAX]);
    let (updated, none) = (VersionSequence::constant(2, Version(1)), DeletionVector::empty());
    let side =
        RowSide { fragment: FragmentId(0), ids: &ids, updated: &updated, deleted: &none, candidate: false };
    assert_eq!(
        row_changes(&[RowSides::Old(side)]).unwrap().deleted.iter().map(|run| run.rows).sum::<u64>(),
        2
    );
    let other = RowSide { fragment: FragmentId(1), ..side };
    assert_eq!(row_changes(&[RowSides::Old(side), RowSides::New(other)]).unwrap(), RowChanges::default());
}

#[test]
fn damage_is_an_error() {
    let (ids, none) = (RowIdSequence::from_range(0..4), DeletionVector::empty());
    let (versions, short) =
        (VersionSequence::constant(4, Version(1)), VersionSequence::constant(3, Version(1)));
    let side = |fragment, updated| RowSide {
        fragment: FragmentId(fragment),
        ids: &ids,
        updated,
        deleted: &none,
        candidate: false,
    };
    let duplicate = row_changes(&[RowSides::New(side(0, &versions)), RowSides::New(side(1, &versions))]);
    assert_eq!(duplicate.unwrap_err().kind(), ErrorKind::Corrupt);
    let short = row_changes(&[RowSides::Old(side(0, &versions)), RowSides::New(side(1, &short))]);
    assert_eq!(short.unwrap_err().kind(), ErrorKind::Corrupt);
}

#[test]
fn fragments_that_differ() {
    let fragment = |id: u32, rows: u64, ids: u64| {
        let mut made = Fragment::new(Vec::new(), rows);
        made.id = FragmentId(id);
        made.row_ids = Some(LineageSource::Inline(RowIdSequence::from_range(ids..ids + rows).encode()));
        made
    };
    let updated = |mut made: Fragment, version| {
        made.last_updated_at =
            Some(LineageSource::Inline(VersionSequence::constant(5, Version(version)).encode()));
        made
    };
    let all = |fragments: Vec<Fragment>| fragments.into_iter().map(Arc::new).collect::<Fragments>();
    let old = all(vec![fragment(0, 5, 0), fragment(1, 5, 5), fragment(2, 5, 10), fragment(4, 5, 20)]);
    let new =
        all(vec![fragment(0, 5, 0), updated(fragment(1, 5, 5), 3), fragment(2, 6, 30), fragment(3, 5, 40)]);
    let show = |difference: &Difference| match difference {
        Difference::Removed(fragment) => format!("-{}", fragment.id),
        Difference::Added(fragment) => format!("+{}", fragment.id),
        Difference::Changed(old, new) => format!("{}={}", old.id, new.id),
    };
    let found: Vec<String> = differing(&old, &new, None).iter().map(show).collect();
    assert_eq!(found, ["1=1", "-2", "+2", "+3", "-4"]);
    let first = |fragment: &Fragment| fragment.id.0 == 0;
    let found: Vec<String> = differing(&old, &new, Some(&first)).iter().map(show).collect();
    assert_eq!(found, ["0=0", "1=1", "-2", "+2", "+3", "-4"]);
    assert!(differing(&old, &old.clone(), None).is_empty());
    assert!(differing(&Fragments::default(), &Fragments::default(), None).is_empty());
}
