//! Carrying deletions and moved rows over to a newer version (table format 8.3).
//!
//! Affected rows are offsets at the version that was read. They do not move as long as the fragment lives, so the new
//! vector of a fragment is the current one and the affected rows, provided they are disjoint.
//!
//! A rewrite moves rows to other fragments. The row ids of its old and new fragments show where each row went; in a
//! table without row ids the order does, which live rows keep. So the rows of a delete are found where a rewrite has
//! put them ([`carry`]), and a rewrite can apply deletions that were committed meanwhile ([`rebase_rewrite`]).

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use crate::deletion::DeletionVector;
use crate::manifest::{Fragment, LineageSource, Manifest, fragment_ids_used_up};
use crate::rows::{Intervals, RowIdSequence};
use crate::transaction::{Rewrite, RewriteGroup};
use crate::{Error, FragmentId, Result, Version};

/// Rows by fragment.
pub type RowsByFragment = BTreeMap<FragmentId, DeletionVector>;

/// The deletions of a delete or update on top of a newer version.
#[derive(Debug, Clone, PartialEq)]
pub struct RebasedRows {
    /// The full new vector of each fragment that keeps rows.
    pub vectors: RowsByFragment,
    /// Fragments without a row left, ascending.
    pub removed_fragments: Vec<FragmentId>,
}

/// Puts the deletions of a delete or update on top of `current`.
///
/// `removed`: fragments that are removed as a whole. `affected`: the rows to delete, by fragment; also those of removed
/// fragments, if known. `current_vectors`: the vectors of those fragments in `current`, for all that have a deletion
/// file. Errors: retryable `Conflict` if a fragment was removed or a row was deleted meanwhile; `Internal` if a vector
/// is missing.
pub fn rebase_rows(
    updated: &BTreeSet<FragmentId>,
    removed: &BTreeSet<FragmentId>,
    current: &Manifest,
    affected: &RowsByFragment,
    current_vectors: &RowsByFragment,
) -> Result<RebasedRows> {
    let none = DeletionVector::empty();
    let retryable = |why: String| Err(conflict(current.version, &why));
    let mut vectors = BTreeMap::new();
    let mut gone = BTreeSet::new();
    for &id in updated.union(removed) {
        let Some(fragment) = current.fragment(id) else {
            return retryable(format!("fragment {id}, with rows to delete, is gone"));
        };
        let Some(rows) = affected.get(&id) else {
            if removed.contains(&id) && !updated.contains(&id) {
                gone.insert(id);
                continue;
            }
            return retryable(format!("the rows to delete in fragment {id} are not known"));
        };
        let now = vector_of(fragment, current_vectors, &none)?;
        if now.intersects(rows) {
            return retryable(format!("rows to delete in fragment {id} were deleted or changed meanwhile"));
        }
        let all = now.union(rows);
        if all.len() >= fragment.physical_rows {
            gone.insert(id);
        } else {
            vectors.insert(id, all);
        }
    }
    Ok(RebasedRows { vectors, removed_fragments: gone.into_iter().collect() })
}

/// Replaces rows of fragments that a rewrite removed by the same rows in its new fragments.
///
/// `committed` is the version that the rewrite made, `read` has the vectors of its old fragments, for all that had a
/// deletion file. Errors: retryable `Conflict` if a row was deleted or cannot be found.
pub fn carry(
    affected: &mut RowsByFragment,
    rewrite: &Rewrite,
    committed: &Manifest,
    read: &RowsByFragment,
) -> Result<()> {
    let none = DeletionVector::empty();
    let mut ids: Option<CommittedIds<'_>> = None;
    for group in &rewrite.groups {
        let mut moving = RowsByFragment::new();
        for old in &group.old_fragments {
            let Some(rows) = affected.remove(&old.id) else { continue };
            // The id of such a row may be in the group all the same: that of the row as somebody else has updated it.
            if vector_of(old, read, &none)?.intersects(&rows) {
                return Err(conflict(
                    committed.version,
                    "rows to delete were deleted or changed before they were moved",
                ));
            }
            moving.insert(old.id, rows);
        }
        if moving.is_empty() {
            continue;
        }
        let moves = Moves::new(group, read).map_err(|why| conflict(committed.version, &why))?;
        let count: u64 = moving.values().map(DeletionVector::len).sum();
        let moved = moves.follow(&moving).map_err(|why| conflict(committed.version, &why))?;
        if moved.values().map(DeletionVector::len).sum::<u64>() != count {
            return Err(conflict(committed.version, "rows to delete were deleted before they were moved"));
        }
        let ids = ids.get_or_insert_with(|| CommittedIds::find(committed, rewrite));
        for (at, rows) in moved {
            let new = group.new_fragments.get(at).and_then(|new| ids.get(new));
            let new = new.ok_or_else(|| conflict(committed.version, "a rewritten fragment is not there"))?;
            affected.insert(new, rows);
        }
    }
    Ok(())
}

/// The ids that a transaction's new fragments got in the version it made, by the path of their first file. They are
/// looked for from the end of the list, where new fragments are.
struct CommittedIds<'a> {
    wanted: BTreeMap<&'a str, Option<FragmentId>>,
}

impl<'a> CommittedIds<'a> {
    fn find(committed: &Manifest, rewrite: &'a Rewrite) -> Self {
        let new = rewrite.groups.iter().flat_map(|group| &group.new_fragments);
        let paths = new.filter_map(|fragment| Some(fragment.files.first()?.path.as_str()));
        let mut wanted: BTreeMap<&str, Option<FragmentId>> = paths.map(|path| (path, None)).collect();
        let mut missing = wanted.len();
        for fragment in committed.fragments.decode_all().rev() {
            if missing == 0 {
                break;
            }
            let path = fragment.files.first().map(|file| file.path.as_str());
            if let Some(id) = path.and_then(|path| wanted.get_mut(path)).filter(|id| id.is_none()) {
                *id = Some(fragment.id);
                missing -= 1;
            }
        }
        Self { wanted }
    }

    fn get(&self, new: &Fragment) -> Option<FragmentId> {
        *self.wanted.get(new.files.first()?.path.as_str())?
    }
}

/// A rewrite on top of a newer version.
#[derive(Debug, Clone, PartialEq)]
pub struct RebasedRewrite {
    /// The same rewrite without old fragments that were removed and new ones without a live row. New fragments with
    /// deleted rows have an id.
    pub rewrite: Rewrite,
    /// The vectors of new fragments with deleted rows.
    pub vectors: RowsByFragment,
}

/// Puts a rewrite on top of `current`: what was deleted meanwhile is deleted in the new fragments.
///
/// `read` and `now` have the vectors of its old fragments at the version that was read and in `current`, for all that
/// have a deletion file. Errors: retryable `Conflict` if the files of an old fragment were changed or its rows
/// cannot be followed; `Internal` if a vector is missing.
pub fn rebase_rewrite(
    rewrite: &Rewrite,
    current: &Manifest,
    read: &RowsByFragment,
    now: &RowsByFragment,
) -> Result<RebasedRewrite> {
    let none = DeletionVector::empty();
    let mut rebased = RebasedRewrite { rewrite: rewrite.clone(), vectors: RowsByFragment::new() };
    let retryable = |why: &str| conflict(current.version, why);
    let mut next_id = current.max_fragment_id;
    for (group, rebased_group) in rewrite.groups.iter().zip(&mut rebased.rewrite.groups) {
        let mut deleted = RowsByFragment::new();
        for old in &group.old_fragments {
            let before = vector_of(old, read, &none)?;
            let after = match current.fragment(old.id) {
                None => &DeletionVector::from_iter(0..rows_of(old)?),
                Some(fragment) if fragment.files.iter().any(|file| !old.files.contains(file)) => {
                    return Err(retryable(&format!("the data files of fragment {} were changed", old.id)));
                }
                Some(fragment) => vector_of(fragment, now, &none)?,
            };
            let rows = after.difference(before);
            if !rows.is_empty() {
                deleted.insert(old.id, rows);
            }
        }
        rebased_group.old_fragments.retain(|old| current.fragment(old.id).is_some());
        // As applying the transaction will give them.
        for new in rebased_group.new_fragments.iter_mut().filter(|new| new.id == FragmentId(0)) {
            let id = next_id.map_or(Some(0), |max| max.checked_add(1));
            new.id = FragmentId(id.ok_or_else(fragment_ids_used_up)?);
            next_id = Some(new.id.0);
        }
        next_id = next_id.max(rebased_group.new_fragments.iter().map(|f| f.id.0).max());
        if deleted.is_empty() {
            continue;
        }
        let moves = Moves::new(group, read).map_err(|why| retryable(&why))?;
        let count: u64 = deleted.values().map(DeletionVector::len).sum();
        let moved = moves.follow(&deleted).map_err(|why| retryable(&why))?;
        if moved.values().map(DeletionVector::len).sum::<u64>() != count {
            return Err(retryable("rows that were deleted meanwhile are not in the new fragments"));
        }
        let numbered = std::mem::take(&mut rebased_group.new_fragments).into_iter().enumerate();
        for (at, new) in numbered {
            match moved.get(&at) {
                Some(rows) if rows.len() >= new.physical_rows => continue,
                Some(rows) => {
                    rebased.vectors.insert(new.id, rows.clone());
                }
                None => {}
            }
            rebased_group.new_fragments.push(new);
        }
    }
    rebased.rewrite.groups.retain(|group| !group.old_fragments.is_empty() || !group.new_fragments.is_empty());
    Ok(rebased)
}

/// Where the rows of a group's old fragments went.
enum Moves<'a> {
    /// The ids of old fragments; those of each new one with its number.
    Ids(BTreeMap<FragmentId, RowIdSequence>, Intervals<(usize, RowIdSequence)>),
    /// Where the live rows of each old fragment start among all, and its vector; then the rows of each new one.
    Order(BTreeMap<FragmentId, (u64, &'a DeletionVector)>, Vec<Range<u64>>),
}

impl<'a> Moves<'a> {
    /// Errors: why the rows cannot be followed.
    fn new(group: &RewriteGroup, read: &'a RowsByFragment) -> Result<Self, String> {
        if group.new_fragments.iter().any(|f| f.row_ids.is_some()) {
            let ids = |fragment: &Fragment| match &fragment.row_ids {
                Some(LineageSource::Inline(bytes)) => RowIdSequence::decode(bytes).map_err(|e| e.to_string()),
                _ => Err("the row ids of a fragment are not in its description".to_owned()),
            };
            let old = group.old_fragments.iter().map(|f| Ok((f.id, ids(f)?)));
            let mut new = Vec::with_capacity(group.new_fragments.len());
            for (at, fragment) in group.new_fragments.iter().enumerate() {
                let ids = ids(fragment)?;
                new.extend(ids.min_max().map(|interval| (interval, (at, ids))));
            }
            return Ok(Self::Ids(old.collect::<Result<_, String>>()?, new.into_iter().collect()));
        }
        static NONE: std::sync::LazyLock<DeletionVector> = std::sync::LazyLock::new(DeletionVector::empty);
        let (mut start, mut old) = (0, BTreeMap::new());
        for fragment in &group.old_fragments {
            if fragment.row_ids.is_some() {
                return Err("the new fragments have no row ids".to_owned());
            }
            let deleted = vector_of(fragment, read, &NONE).map_err(|e| e.to_string())?;
            old.insert(fragment.id, (start, deleted));
            start += fragment.physical_rows.saturating_sub(deleted.len());
        }
        let (mut end, mut new) = (0, Vec::new());
        for fragment in &group.new_fragments {
            new.push(end..end + fragment.physical_rows);
            end += fragment.physical_rows;
        }
        // Rows in another order may still be as many, but no writer of such a table changes it.
        if start != end || group.new_fragments.iter().any(|f| f.clustering_id != 0) {
            return Err(format!("{end} rows were written for {start} live ones"));
        }
        Ok(Self::Order(old, new))
    }

    /// The new positions of these rows, by number of the new fragment; rows that did not move are left out.
    fn follow(&self, rows: &RowsByFragment) -> Result<BTreeMap<usize, DeletionVector>, String> {
        let mut moved: BTreeMap<usize, Vec<u32>> = BTreeMap::new();
        let mut put = |at: usize, position: u64| match u32::try_from(position) {
            Ok(position) => {
                moved.entry(at).or_default().push(position);
                Ok(())
            }
            Err(_) => Err(format!("row {position} of a fragment has no address")),
        };
        for (id, rows) in rows {
            match self {
                Self::Ids(old, new) => {
                    let ids = old.get(id).ok_or_else(|| format!("fragment {id} was not rewritten"))?;
                    for offset in rows.iter() {
                        let Some(row) = ids.get(offset.into()) else {
                            return Err(format!("row {offset} of fragment {id} has no id"));
                        };
                        let mut found = new.containing(row.0);
                        if let Some((at, position)) =
                            found.find_map(|(at, ids)| Some((*at, ids.position(row)?)))
                        {
                            put(at, position)?;
                        }
                    }
                }
                Self::Order(old, new) => {
                    let (start, deleted) =
                        old.get(id).ok_or_else(|| format!("fragment {id} was not rewritten"))?;
                    for offset in rows.iter().filter(|offset| !deleted.contains(*offset)) {
                        let row = start + u64::from(offset) - deleted.rank(offset);
                        let at = new.partition_point(|rows| rows.end <= row);
                        let first = new
                            .get(at)
                            .ok_or_else(|| format!("row {offset} of fragment {id} is in no new fragment"))?;
                        put(at, row - first.start)?;
                    }
                }
            }
        }
        Ok(moved.into_iter().map(|(at, offsets)| (at, offsets.into_iter().collect())).collect())
    }
}

fn rows_of(fragment: &Fragment) -> Result<u32> {
    u32::try_from(fragment.physical_rows)
        .map_err(|_| Error::unsupported(format!("fragment {} has 2^32 rows", fragment.id)))
}

fn conflict(version: Version, why: &str) -> Error {
    Error::retryable_conflict(format!("Retryable commit conflict for version {version}: {why}"))
}

/// A promised vector that was not loaded must never count as "no deletions".
fn vector_of<'a>(
    fragment: &Fragment,
    vectors: &'a RowsByFragment,
    none: &'a DeletionVector,
) -> Result<&'a DeletionVector> {
    match (vectors.get(&fragment.id), &fragment.deletion) {
        (Some(vector), Some(_)) => Ok(vector),
        (_, None) => Ok(none),
        (None, Some(_)) => {
            Err(Error::internal(format!("the deletion vector of fragment {} was not loaded", fragment.id)))
        }
    }
}
