//! Deletions that follow rows through rewrites, against a model: a table is a list of fragments of named rows.

use proptest::prelude::*;

use super::*;
use crate::conflict::rebase::{RowsByFragment, carry, rebase_rewrite};
use crate::manifest::LineageSource;
use crate::rows::RowIdSequence;

/// Rows by fragment, each a name and whether it is deleted when the rewrite reads.
type Model = Vec<Vec<(u64, bool)>>;

fn row_ids(rows: &[u64]) -> Option<LineageSource> {
    Some(LineageSource::Inline(RowIdSequence::from_slice(rows).encode()))
}

/// Fragment `at` with these rows, of which some are deleted.
fn fragment_of(at: usize, rows: &[(u64, bool)], stable: bool) -> Fragment {
    let id = u32::try_from(at).unwrap();
    let names: Vec<u64> = rows.iter().map(|row| row.0).collect();
    let deleted = rows.iter().filter(|row| row.1).count();
    let plain = Fragment {
        id: FragmentId(id),
        row_ids: row_ids(&names).filter(|_| stable),
        ..Fragment::new(vec![file(&format!("file {id}"))], rows.len() as u64)
    };
    if deleted == 0 { plain } else { with_deletion(plain, deleted as u64) }
}

fn vector(rows: &[(u64, bool)], deleted: impl Fn(&(u64, bool)) -> bool) -> DeletionVector {
    (0_u32..).zip(rows).filter(|(_, row)| deleted(row)).map(|(offset, _)| offset).collect()
}

/// A rewrite of all fragments: by name, as Pennon writes rows with ids, or in order; cut into pieces.
fn rewritten(model: &Model, cut: usize, stable: bool) -> (RewriteGroup, Vec<Vec<u64>>) {
    let mut names: Vec<u64> = model.iter().flatten().filter(|row| !row.1).map(|row| row.0).collect();
    if stable {
        names.sort_unstable();
    }
    let pieces: Vec<Vec<u64>> = names.chunks(cut).map(<[u64]>::to_vec).collect();
    let new = pieces.iter().enumerate().map(|(at, piece)| {
        let rows: Vec<(u64, bool)> = piece.iter().map(|name| (*name, false)).collect();
        fragment_of(100 + at, &rows, stable)
    });
    let old_fragments = model.iter().enumerate().map(|(at, rows)| fragment_of(at, rows, stable)).collect();
    (RewriteGroup { old_fragments, new_fragments: new.collect() }, pieces)
}

fn models() -> impl Strategy<Value = Model> {
    let sizes = prop::collection::vec(prop::collection::vec(any::<bool>(), 1..12), 1..5);
    (sizes, any::<u64>()).prop_map(|(sizes, seed)| {
        // Every name once, in no order.
        let count = sizes.iter().map(Vec::len).sum::<usize>() as u64;
        let step = [1, 7, 11, 13].into_iter().cycle().skip(usize::try_from(seed % 4).unwrap());
        let step = step.take(4).find(|step| !count.is_multiple_of(*step)).unwrap_or(1);
        let mut names = (0..count).map(|n| n * step % count);
        sizes
            .into_iter()
            .map(|rows| rows.into_iter().map(|gone| (names.next().unwrap(), gone)).collect())
            .collect()
    })
}

/// Names of the rows that vectors delete in fragments with these rows.
fn names(rows: &RowsByFragment, fragments: &[(FragmentId, Vec<u64>)]) -> BTreeSet<u64> {
    let name = |id: &FragmentId, offset: u32| {
        fragments.iter().find(|(at, _)| at == id).unwrap().1[usize::try_from(offset).unwrap()]
    };
    rows.iter()
        .flat_map(|(id, rows)| rows.iter().map(|offset| name(id, offset)).collect::<Vec<_>>())
        .collect()
}

fn read_vectors(model: &Model) -> RowsByFragment {
    let vectors = model
        .iter()
        .enumerate()
        .map(|(at, rows)| (FragmentId(u32::try_from(at).unwrap()), vector(rows, |row| row.1)));
    vectors.collect()
}

proptest! {
    /// A delete whose fragments were rewritten deletes the same rows where they are now.
    #[test]
    fn a_delete_follows_a_rewrite(model in models(), cut in 1_usize..9, chosen: u64, stable: bool) {
        let (group, pieces) = rewritten(&model, cut, stable);
        let chosen = |row: &(u64, bool)| !row.1 && chosen >> (row.0 % 64) & 1 == 1;
        let mut affected: RowsByFragment = (0..).map(FragmentId).zip(&model).map(|(id, rows)| (id, vector(rows, chosen))).collect();
        affected.retain(|_, rows| !rows.is_empty());
        let expected: BTreeSet<u64> = model.iter().flatten().filter(|row| chosen(row)).map(|row| row.0).collect();
        let committed = current(group.new_fragments.clone());
        let moved: Vec<_> = committed.fragments.decode_all().map(|f| f.id).zip(pieces).collect();
        let rewrite = Rewrite { groups: vec![group], rewritten_indices: Vec::new() };
        carry(&mut affected, &rewrite, &committed, &read_vectors(&model)).unwrap();
        prop_assert_eq!(names(&affected, &moved), expected);
    }

    /// A rewrite on top of deletes keeps the rows that are left, and only these.
    #[test]
    fn a_rewrite_takes_deletions_along(model in models(), cut in 1_usize..9, chosen: u64, stable: bool) {
        let (group, pieces) = rewritten(&model, cut, stable);
        let gone = |row: &(u64, bool)| row.1 || chosen >> (row.0 % 64) & 1 == 1;
        let now: RowsByFragment = (0..).map(FragmentId).zip(&model).map(|(id, rows)| (id, vector(rows, gone))).collect();
        let fragments = (0..).zip(&model).filter(|(_, rows)| !rows.iter().all(gone)).map(|(at, rows)| {
            let rows: Vec<_> = rows.iter().map(|row| (row.0, gone(row))).collect();
            fragment_of(at, &rows, stable)
        });
        let current = current(fragments.collect());
        let moved: Vec<_> = group.new_fragments.iter().map(|f| f.id).zip(pieces.clone()).collect();
        let rewrite = Rewrite { groups: vec![group], rewritten_indices: Vec::new() };
        let rebased = rebase_rewrite(&rewrite, &current, &read_vectors(&model), &now).unwrap();
        let left: BTreeSet<u64> = rebased.rewrite.groups.iter().flat_map(|g| &g.new_fragments).flat_map(|new| {
            let rows = &moved.iter().find(|(id, _)| *id == new.id).unwrap().1;
            let deleted = rebased.vectors.get(&new.id).cloned().unwrap_or_default();
            (0_u32..).zip(rows).filter(move |(at, _)| !deleted.contains(*at)).map(|(_, name)| *name).collect::<Vec<_>>()
        }).collect();
        let expected: BTreeSet<u64> = model.iter().flatten().filter(|row| !gone(row)).map(|row| row.0).collect();
        prop_assert_eq!(left, expected);
        for old in rebased.rewrite.groups.iter().flat_map(|g| &g.old_fragments) {
            prop_assert!(current.fragment(old.id).is_some());
        }
    }
}

fn model() -> Model {
    vec![vec![(0, false), (1, true), (2, false)], vec![(3, false), (4, false)]]
}

#[test]
fn rewrites_that_cannot_be_followed() {
    let retryable = ErrorKind::Conflict { retryable: true };
    for stable in [true, false] {
        let (group, _) = rewritten(&model(), 10, stable);
        let committed = current(group.new_fragments.clone());
        let carried = |group: RewriteGroup, affected: &[(u32, &[u32])]| {
            let rewrite = Rewrite { groups: vec![group], rewritten_indices: Vec::new() };
            let mut affected = vectors(affected);
            carry(&mut affected, &rewrite, &committed, &read_vectors(&model())).map(|()| affected)
        };
        assert!(carried(group.clone(), &[(0, &[2])]).is_ok());
        // A row that was deleted before it could move.
        assert_eq!(carried(group.clone(), &[(0, &[1])]).unwrap_err().kind(), retryable);
        // Rows that the new fragments do not account for.
        let mut other = group.clone();
        other.new_fragments[0].row_ids = if stable { Some(LineageSource::Column) } else { None };
        other.new_fragments[0].physical_rows = 7;
        assert_eq!(carried(other, &[(0, &[2])]).unwrap_err().kind(), retryable);
        // A fragment that is not in the version.
        let mut other = group;
        other.new_fragments[0].files = vec![file("elsewhere")];
        assert_eq!(carried(other, &[(0, &[2])]).unwrap_err().kind(), retryable);
    }
}

/// A row that was updated before the rewrite is in the group twice: deleted where it was, and alive under its id.
#[test]
fn a_row_that_was_updated_before_it_moved_is_not_the_one_that_was_read() {
    let model: Model = vec![vec![(0, false), (1, true), (2, false)], vec![(1, false), (4, false)]];
    let (group, _) = rewritten(&model, 10, true);
    let committed = current(group.new_fragments.clone());
    let rewrite = Rewrite { groups: vec![group], rewritten_indices: Vec::new() };
    let carried = |affected: &[(u32, &[u32])]| {
        carry(&mut vectors(affected), &rewrite, &committed, &read_vectors(&model))
    };
    let retryable = ErrorKind::Conflict { retryable: true };
    assert_eq!(carried(&[(0, &[0, 1])]).unwrap_err().kind(), retryable);
    carried(&[(0, &[0]), (1, &[0])]).unwrap();
}

#[test]
fn rewrites_that_are_not_carried_over() {
    let (mut group, _) = rewritten(&model(), 2, true);
    group.new_fragments.iter_mut().for_each(|new| new.id = FragmentId(0));
    let rewrite = Rewrite { groups: vec![group], rewritten_indices: Vec::new() };
    let fragments = |path: &str| {
        let mut fragments: Vec<_> =
            (0..).zip(&model()).map(|(at, rows)| fragment_of(at, rows, true)).collect();
        fragments[1].files[0].path = path.to_owned();
        fragments
    };
    let changed = current(fragments("other file"));
    let error = rebase_rewrite(&rewrite, &changed, &read_vectors(&model()), &read_vectors(&model()));
    assert_eq!(error.unwrap_err().kind(), ErrorKind::Conflict { retryable: true });
    let same = current(fragments("file 1"));
    let missing = rebase_rewrite(&rewrite, &same, &RowsByFragment::new(), &read_vectors(&model()));
    assert_eq!(missing.unwrap_err().kind(), ErrorKind::Internal);
    // New fragments get the ids they will have: vectors are named after them.
    let rebased = rebase_rewrite(&rewrite, &same, &read_vectors(&model()), &read_vectors(&model())).unwrap();
    let first = same.max_fragment_id.unwrap() + 1;
    let ids: Vec<u32> = rebased.rewrite.groups[0].new_fragments.iter().map(|f| f.id.0).collect();
    assert_eq!(ids, [first, first + 1]);
    assert_eq!(rebased.vectors, RowsByFragment::new());
}
