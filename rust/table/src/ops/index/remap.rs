//! Segments whose rows a compaction moves: the same values in the same order, with the new addresses.

use std::sync::mpsc::sync_channel;
use std::sync::{Arc, Mutex, PoisonError};

use arrow_array::{ArrayRef, BooleanArray, UInt64Array};
use arrow_select::filter::filter;
use futures::StreamExt;
use pennon_core::manifest::{AddressMoves, IndexMetadata, ReuseGroup};
use pennon_core::transaction::{RewriteGroup, RewrittenIndex};
use pennon_core::wire::index_parts::{IndexParts, RewrittenParts};
use pennon_core::{Error, FragmentId, Result, RowAddress};
use pennon_index::{
    BTreeWriter, BitmapWriter, IndexKind, LabelListWriter, NGramWriter, RowSet, ScalarIndex, SortedRun,
    WrittenFile,
};
use roaring::RoaringBitmap;
use tracing::warn;
use uuid::Uuid;

use super::build::{Build, Built, IndexParameters, complete, sink};
use super::vectors;
use super::zones::{self, ZoneSource};
use crate::indices::{Segment, is_about_the_index, key_of, kind_of, segments};
use crate::runtime::{self, blocking, concurrently, processors};
use crate::scan::ids_of_live_rows;
use crate::store::{Durability, Sink};
use crate::versions::snapshot::Snapshot;
use crate::write::staged::{self, StagedFile};

/// Parts of an index that were read and wait to be written.
const PARTS_WAITING: usize = 2;
/// Fragments whose rows are found by position, without a search.
const FRAGMENTS_IN_A_TABLE: u32 = 1 << 20;

/// Segments that were rewritten for a compaction.
#[derive(Debug, Default)]
pub(crate) struct RemappedIndices {
    pub(crate) entries: Vec<RewrittenIndex>,
    pub(crate) files: Vec<StagedFile>,
}

/// Whether an index goes along when the rows move that it names by their addresses: it is rewritten, or stays as it is
/// and does not cover them any more, as in the reference.
pub(crate) fn follows_moves(entry: &IndexMetadata) -> Result<bool> {
    let parts = IndexParts::of(entry)?;
    let (kind, version) = kind_of(&parts);
    let kind = key_of(kind, &parts)?.map_or(kind, |(_, of_files)| of_files);
    Ok(match kind {
        IndexKind::Vector => true,
        kind if kind.has_zones() => true,
        kind => is_rewritten(kind) && kind.reads(version),
    })
}

/// Rewrites the segments of a version that name moved rows by their addresses. The groups have the ids of their new
/// fragments.
///
/// A segment that covers a part of a group only, or that cannot be read, is left as it is: it does not cover the moved rows
/// any more. Errors: those of writing; nothing is left of the files then.
pub(crate) async fn remap(
    snapshot: &Arc<Snapshot>,
    entries: &Arc<Vec<IndexMetadata>>,
    groups: &[RewriteGroup],
    durability: Durability,
) -> Result<RemappedIndices> {
    let old: RoaringBitmap = groups.iter().flat_map(|group| &group.old_fragments).map(|f| f.id.0).collect();
    let (read, known) = (Arc::clone(snapshot), Arc::clone(entries));
    let found = blocking(move || match segments(&read, &known) {
        Ok(found) => Ok(found.into_iter().filter(|s| s.has_addresses(&read)).collect::<Vec<_>>()),
        Err(error) => {
            warn!(table = read.store.root(), %error, "indices cannot be read: they are not rewritten");
            Ok(Vec::new())
        }
    });
    let mut affected: Vec<Segment> = found.await?;
    affected.retain(|segment| !segment.covered.is_disjoint(&old) && is_rewritten(segment.files_kind));
    if affected.is_empty() {
        return Ok(RemappedIndices::default());
    }
    let mut moves = AddressMoves::new();
    for group in groups {
        let reuse = moves_of(snapshot, group).await?;
        let order = if snapshot.manifest.has_stable_row_ids() {
            let (read, old) = (Arc::clone(snapshot), group.old_fragments.clone());
            blocking(move || {
                let mut ids = Vec::new();
                for fragment in old {
                    ids_of_live_rows(&read, Arc::new(fragment), &mut ids)?;
                }
                Ok(ranks(&ids))
            })
            .await?
        } else {
            None
        };
        let new = reuse.new_fragments.iter().map(|new| (new.id, new.physical_rows));
        moves.add(&reuse.moved, reuse.old_fragments.iter().map(|old| old.id), new, order)?;
    }
    let moves = Arc::new(moves);
    affected.retain(|segment| moves.are_whole_in(&segment.covered));
    let mut remapped = RemappedIndices::default();
    let rewriting = futures::stream::iter(affected).map(|segment| {
        let (read, moves, name) = (Arc::clone(snapshot), Arc::clone(&moves), segment.name.clone());
        async move {
            let rewritten = match segment.kind.has_zones() {
                true => rewrite_zones(snapshot, segment, groups, moves, durability).await,
                false => blocking(move || rewrite(&read, &segment, &moves, durability)).await,
            };
            (name, rewritten)
        }
    });
    // All to their ends: files of some are removed if another one fails.
    let rewritten: Vec<_> = rewriting.buffered(processors()).collect().await;
    let mut failed = None;
    for (name, result) in rewritten {
        match result {
            Ok((entry, files)) => {
                remapped.entries.push(entry);
                remapped.files.extend(files);
            }
            Err(error) if is_about_the_index(&error) => {
                warn!(table = snapshot.store.root(), index = name, %error, "an index cannot be read: it is not rewritten");
            }
            Err(error) => failed = Some(error),
        }
    }
    let Some(error) = failed else { return Ok(remapped) };
    staged::remove(&remapped.files).await;
    Err(error)
}

fn is_rewritten(kind: IndexKind) -> bool {
    matches!(
        kind,
        IndexKind::BTree | IndexKind::Bitmap | IndexKind::LabelList | IndexKind::NGram | IndexKind::Vector
    ) || kind.has_zones()
}

/// The rank of each of these ids among them; `None` if they ascend.
fn ranks(ids: &[u64]) -> Option<Vec<u32>> {
    if ids.is_sorted() {
        return None;
    }
    let mut order: Vec<u32> = (0..).take(ids.len()).collect();
    let id = |at: u32| usize::try_from(at).ok().and_then(|at| ids.get(at));
    order.sort_unstable_by_key(|at| id(*at));
    let mut ranks = vec![0; ids.len()];
    for (rank, at) in (0_u32..).zip(order) {
        if let Some(slot) = usize::try_from(at).ok().and_then(|at| ranks.get_mut(at)) {
            *slot = rank;
        }
    }
    Some(ranks)
}

/// Writes a segment again. Blocks on the store.
fn rewrite(
    snapshot: &Arc<Snapshot>,
    segment: &Segment,
    moves: &AddressMoves,
    durability: Durability,
) -> Result<(RewrittenIndex, Vec<StagedFile>)> {
    let (uuid, moved) = (runtime::uuid(), Moved::new(segment, moves));
    if segment.kind == IndexKind::Vector {
        let now = |row| moved.now(row);
        return rewritten(segment, uuid, vectors::rewrite(snapshot, segment, &now, uuid, durability)?);
    }
    let written = write(snapshot, &moved, uuid, durability)?;
    rewritten(segment, uuid, complete(snapshot, uuid, written, durability)?)
}

/// The entry of a segment that was written again.
fn rewritten(segment: &Segment, uuid: Uuid, built: Built) -> Result<(RewrittenIndex, Vec<StagedFile>)> {
    let entry = RewrittenParts {
        old_id: segment.uuid,
        new_id: uuid,
        details: segment.details.clone(),
        index_version: u32::try_from(segment.version)
            .map_err(|_| Error::corrupt(format!("index version {}", segment.version)))?,
        files: built.sizes,
    };
    Ok((entry.index(), built.files))
}

/// Writes a segment of zones again: those of moved rows are made of their values.
async fn rewrite_zones(
    snapshot: &Arc<Snapshot>,
    segment: Segment,
    groups: &[RewriteGroup],
    moves: Arc<AddressMoves>,
    durability: Durability,
) -> Result<(RewrittenIndex, Vec<StagedFile>)> {
    let (read, opened) = (Arc::clone(snapshot), segment.clone());
    let index = blocking(move || opened.open(&read)).await?;
    let field = snapshot.manifest.schema.field_by_id(segment.field);
    let field = field.ok_or_else(|| Error::internal("an index of a field that is not there"))?.clone();
    let mut rest = segment.covered.clone();
    let mut read = Vec::with_capacity(groups.len() + 1);
    for group in groups {
        let old: Vec<FragmentId> =
            group.old_fragments.iter().map(|old| old.id).filter(|id| rest.remove(id.0)).collect();
        read.push(old);
    }
    let kept = match segment.has_moves() || !index.has_whole_zones() {
        true => {
            read.push(rest.into_iter().map(FragmentId).collect());
            Vec::new()
        }
        false => vec![(Arc::clone(&index), rest)],
    };
    let uuid = runtime::uuid();
    let build = Build {
        snapshot: Arc::clone(snapshot),
        field,
        kind: segment.kind,
        uuid,
        fragments: Vec::new(),
        parameters: IndexParameters::of(&index),
        durability,
    };
    let built = zones::run(build, ZoneSource { kept, groups: read, moves: Some(moves) }).await?;
    rewritten(&segment, uuid, built)
}

/// Where the rows of a segment are after a compaction.
struct Moved<'a> {
    segment: &'a Segment,
    moves: &'a AddressMoves,
    /// By fragment, of those whose rows are in one run: how many, and the address of the first.
    runs: Vec<Option<(u32, u64)>>,
}

impl<'a> Moved<'a> {
    fn new(segment: &'a Segment, moves: &'a AddressMoves) -> Self {
        let mut runs = Vec::new();
        if !segment.has_moves() {
            for id in segment.covered.iter().take_while(|id| *id < FRAGMENTS_IN_A_TABLE) {
                runs.resize(usize::try_from(id).unwrap_or_default(), None);
                runs.push(moves.run_of(FragmentId(id)).map(|(rows, first)| (rows, first.0)));
            }
        }
        Self { segment, moves, runs }
    }

    /// Where a row is; `None` if it is gone, or in a fragment that the segment does not cover.
    fn now(&self, row: u64) -> Option<u64> {
        let address = RowAddress(row);
        let (fragment, offset) = (usize::try_from(address.fragment().0), address.offset());
        let run = fragment.ok().and_then(|fragment| *self.runs.get(fragment)?);
        if let Some((_, first)) = run.filter(|(rows, _)| offset < *rows) {
            return Some(first + u64::from(offset));
        }
        let address = self.segment.current(address)?;
        let is_covered = self.segment.covered.contains(address.fragment().0);
        if is_covered { self.moves.current(address).map(|address| address.0) } else { None }
    }

    /// Hands on the keys of which rows are left, each with these.
    fn each(
        &self,
        keys: &ArrayRef,
        sets: Vec<RowSet>,
        mut write: impl FnMut(ArrayRef, &RowSet) -> Result<()>,
    ) -> Result<()> {
        for (at, set) in sets.into_iter().enumerate() {
            let rows = self.set(&set)?;
            if !rows.is_empty() {
                write(keys.slice(at, 1), &rows)?;
            }
        }
        Ok(())
    }

    /// The rows of a set that are left, where they are.
    fn set(&self, set: &RowSet) -> Result<RowSet> {
        let every = || Error::unsupported("an index that has all rows of a fragment");
        let mut moved = RowSet::new();
        for (fragment, offsets) in set.bitmaps().ok_or_else(every)? {
            let known = self.segment.current_of(FragmentId(fragment), offsets);
            for (fragment, offsets) in known.iter().filter(|(id, _)| self.segment.covered.contains(id.0)) {
                for (fragment, offsets) in self.moves.current_of(*fragment, offsets) {
                    moved.insert_part(fragment.0, offsets);
                }
            }
        }
        Ok(moved)
    }
}

fn write(
    snapshot: &Arc<Snapshot>,
    moved: &Moved<'_>,
    uuid: Uuid,
    durability: Durability,
) -> Result<Vec<WrittenFile<Box<dyn Sink>>>> {
    let version = snapshot.manifest.version_of_index_files();
    let now = |row: u64| moved.now(row);
    match moved.segment.open(snapshot)?.as_ref() {
        ScalarIndex::BTree(index) => {
            let page_rows = u32::try_from(index.page_rows())
                .map_err(|_| Error::corrupt(format!("pages of {} rows", index.page_rows())))?;
            let sink = |name| sink(snapshot, uuid, name, durability);
            if let Some(files) = index.write_moved(version, now, sink)? {
                return Ok(files.into());
            }
            in_parts(
                |give| index.scan(&mut |values, rows| give(moved_run(&values, &rows, now)?)),
                |next| {
                    let data = sink("page_data.lance")?;
                    let mut writer = BTreeWriter::try_new(data, index.data_type(), version, page_rows)?;
                    while let Some(run) = next() {
                        writer.write(&run)?;
                    }
                    Ok(writer.finish(sink("page_lookup.lance")?)?.into())
                },
            )
        }
        ScalarIndex::Bitmap(index) => {
            let sink = sink(snapshot, uuid, "bitmap_page_lookup.lance", durability)?;
            let mut writer = BitmapWriter::try_new(sink, index.data_type(), version)?;
            index.scan(&mut |keys, sets| moved.each(keys, sets, |key, rows| writer.write_key(key, rows)))?;
            Ok(vec![writer.finish()?])
        }
        ScalarIndex::LabelList(index) => {
            let sink = sink(snapshot, uuid, "bitmap_page_lookup.lance", durability)?;
            let mut writer = LabelListWriter::try_new(sink, index.item_type(), version)?;
            index.scan(&mut |items, sets| {
                moved.each(items, sets, |item, rows| writer.write_item(item, rows))
            })?;
            Ok(vec![writer.finish(&moved.set(index.nulls())?)?])
        }
        ScalarIndex::NGram(index) => {
            let sink = sink(snapshot, uuid, "ngram_postings.lance", durability)?;
            let mut writer = NGramWriter::try_new(sink, version)?;
            index.scan(&mut |token, set| {
                let rows = moved.set(&set)?;
                if rows.is_empty() { Ok(()) } else { writer.write(token, &rows) }
            })?;
            Ok(vec![writer.finish()?])
        }
        ScalarIndex::ZoneMap(_) | ScalarIndex::BloomFilter(_) => {
            Err(Error::internal("zones are made of values"))
        }
    }
}

/// Parts that one thread gives and another one takes.
fn in_parts<P: Send, T: Send>(
    make: impl Fn(&mut dyn FnMut(P) -> Result<()>) -> Result<()> + Sync,
    take: impl Fn(&mut dyn FnMut() -> Option<P>) -> Result<T> + Sync,
) -> Result<T> {
    let (send, receive) = sync_channel(PARTS_WAITING);
    let (send, receive) = (Mutex::new(Some(send)), Mutex::new(Some(receive)));
    let results = concurrently(2, |thread| {
        if thread == 0 {
            // Dropped at the end, so that whoever gives stops.
            let receive = receive.lock().unwrap_or_else(PoisonError::into_inner).take();
            return take(&mut || receive.as_ref()?.recv().ok()).map(Some);
        }
        let send = send.lock().unwrap_or_else(PoisonError::into_inner).take();
        let stopped = || Error::internal("nobody takes what is given");
        let mut give = |part| send.as_ref().and_then(|send| send.send(part).ok()).ok_or_else(stopped);
        make(&mut give).map(|()| None)
    })?;
    results.into_iter().flatten().next().ok_or_else(|| Error::internal("nothing was written"))
}

/// The values whose rows are left, with these where they are now.
fn moved_run(values: &ArrayRef, rows: &UInt64Array, now: impl Fn(u64) -> Option<u64>) -> Result<SortedRun> {
    let moved: Vec<u64> = rows.values().iter().filter_map(|row| now(*row)).collect();
    if moved.len() == rows.len() {
        return SortedRun::of_sorted(Arc::clone(values), UInt64Array::from(moved));
    }
    let kept: BooleanArray = rows.values().iter().map(|row| Some(now(*row).is_some())).collect();
    let values =
        filter(values.as_ref(), &kept).map_err(|e| Error::internal(format!("values of an index: {e}")))?;
    SortedRun::of_sorted(values, UInt64Array::from(moved))
}

/// Which rows of a group moved, and where to.
pub(crate) async fn moves_of(snapshot: &Arc<Snapshot>, group: &RewriteGroup) -> Result<ReuseGroup> {
    let mut vectors = Vec::with_capacity(group.old_fragments.len());
    for fragment in &group.old_fragments {
        vectors.push(snapshot.deletion_vector(fragment).await?);
    }
    let old = group.old_fragments.iter().cloned().zip(vectors.iter().map(AsRef::as_ref)).collect();
    Ok(ReuseGroup::new(old, group.new_fragments.clone()))
}
