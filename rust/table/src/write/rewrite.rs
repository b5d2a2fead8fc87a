//! Live rows of some fragments, all or some, in a new order: by row id, or as they are in a table without stable ids.
//!
//! What is held: the decoded lineage of these fragments, where to take the rows of one new file (24 bytes for each run
//! of rows), and about [`BATCH_BYTES`] of rows twice, as read and in order. Rows of one fragment whose ids do not
//! ascend lie anywhere in it, so a chunk of its file may be decoded for several batches.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_schema::ArrowError;
use pennon_core::deletion::DeletionVector;
use pennon_core::rows::{
    MergeInput, MergedRows, RankedRows, RowIdSequence, RowRanges, Selection, SortedMerge, Take,
    VersionSequence,
};
use pennon_core::{Error, ErrorKind, FragmentId, Result};

use super::fragments::Limits;
use super::identified::{self, IdentifiedRows};
use super::lineage::{InlineLimit, Lineage};
use super::placement::Placement;
use super::{WriteOptions, WrittenFragments};
use crate::batches::{concat_batches, interleave_batches};
use crate::runtime::{CancellationToken, cancellation, check, each_concurrently};
use crate::scan::{FragmentReader, Input, Needs, NeedsDeletions, prepare};
use crate::versions::snapshot::Snapshot;

/// Bytes of a batch, about, as wide as the rows of the batch before were.
const BATCH_BYTES: u64 = 16 << 20;
/// Bytes of a blob that does not share a file, at least.
const BLOB_BYTES: u64 = 4 << 20;
/// Rows of the first batch, and of the largest.
const BATCH_ROWS: Range<u64> = 64..128 << 10;
/// A batch may have so many times the rows of the one before.
const GROWTH: u64 = 4;
/// The same where requests take long, so that the second batch is as large as its bytes allow.
const REMOTE_GROWTH: u64 = 1 << 10;

/// A fragment of which rows are rewritten.
#[derive(Debug)]
pub(crate) struct RewriteSource {
    reader: FragmentReader,
    /// Those rows, live ones; `None`: all live ones.
    only: Option<DeletionVector>,
    /// Ids, created-at and last-updated-at versions of all physical rows.
    lineage: Option<(RowIdSequence, VersionSequence, VersionSequence)>,
    /// Physical rows.
    rows: u64,
    /// Bytes of its files per row.
    width: u64,
}

impl RewriteSource {
    /// Reads the lineage of a fragment. Of its live rows all are rewritten or only some.
    ///
    /// Errors: `InvalidInput` if the version does not have the fragment; those of the files.
    pub(crate) fn open(
        snapshot: &Arc<Snapshot>,
        id: FragmentId,
        only: Option<DeletionVector>,
    ) -> Result<Self> {
        let fragment = snapshot.manifest.require_fragment(id)?;
        let before = snapshot.manifest.fragments.rows_before(id);
        let reader = FragmentReader::new(Arc::clone(snapshot), Arc::clone(fragment), before);
        let lineage = if snapshot.manifest.has_stable_row_ids() {
            let (created, updated) = reader.all_versions()?;
            Some((reader.all_row_ids()?, created, updated))
        } else {
            None
        };
        let bytes: u64 = fragment.files.iter().filter_map(|file| file.size).sum();
        let rows = fragment.physical_rows;
        Ok(Self { reader, only, lineage, rows, width: bytes / rows.max(1) })
    }

    /// Opens some of the rows of several fragments, at once where requests take their time.
    pub(crate) fn open_all(
        snapshot: &Arc<Snapshot>,
        fragments: Vec<(FragmentId, Option<DeletionVector>)>,
        columns: &Input,
        token: &CancellationToken,
    ) -> Result<Vec<Self>> {
        let open = |(id, only): &(FragmentId, Option<DeletionVector>)| {
            check(token)?;
            Self::open(snapshot, *id, only.clone())
        };
        let sources = each_concurrently(snapshot.store.readers(), &fragments, open)?;
        let all_rows = sources.iter().any(|source| source.only.is_none());
        let deletions = if all_rows { NeedsDeletions::Yes } else { NeedsDeletions::No };
        let needs = Needs { fields: &columns.fields, values: true, deletions };
        prepare(sources.iter().map(|source| (&source.reader, needs)))?;
        Ok(sources)
    }

    fn selection(&self) -> Result<Selection<'_>> {
        Ok(match &self.only {
            Some(rows) => Selection::Only(rows),
            None => Selection::Without(self.reader.deletions()?),
        })
    }
}

/// Rows of several fragments, in order.
pub(crate) struct Rewriter<'a> {
    sources: &'a [RewriteSource],
    columns: &'a Input,
    order: Order<'a>,
    /// The rows to read next.
    takes: VecDeque<Take>,
    /// How many those are.
    planned: u64,
    /// Rows and bytes of the next batch.
    batch_rows: u64,
    batch_bytes: u64,
    /// How many times the rows of the batch before the next one may have.
    growth: u64,
}

/// In which order the rows come.
enum Order<'a> {
    Ids(SortedMerge<'a>),
    AsTheyAre(Box<dyn Iterator<Item = Take> + 'a>, Option<Take>),
}

impl<'a> Rewriter<'a> {
    /// The rows of these fragments, by row id if all have stable ids. A file may have so many bytes.
    pub(crate) fn new(sources: &'a [RewriteSource], columns: &'a Input, file_bytes: u64) -> Result<Self> {
        let mut inputs = Vec::with_capacity(sources.len());
        for source in sources {
            let Some((ids, created, updated)) = &source.lineage else { continue };
            inputs.push(MergeInput { ids, rows: source.selection()?, created, updated });
        }
        let order = if inputs.len() == sources.len() && !sources.is_empty() {
            Order::Ids(SortedMerge::new(&inputs))
        } else {
            let mut live = Vec::with_capacity(sources.len());
            for (input, source) in sources.iter().enumerate() {
                live.push(
                    source.selection()?.ranges(source.rows).map(move |offsets| Take { input, offsets }),
                );
            }
            Order::AsTheyAre(Box::new(live.into_iter().flatten()), None)
        };
        let mut widest = sources.iter().map(|source| source.width).max().unwrap_or_default();
        if columns.has_blobs() {
            // The size of blobs is not known before they are read.
            widest = widest.max(BLOB_BYTES);
        }
        // The file is closed by the batch that fills it.
        let batch_bytes = BATCH_BYTES.min(file_bytes / 4).max(1);
        let is_remote = sources.first().is_some_and(|source| !source.reader.store().is_local());
        Ok(Self {
            sources,
            columns,
            order,
            takes: VecDeque::new(),
            planned: 0,
            // Rows may be much wider than their files let expect.
            batch_rows: (batch_bytes / widest.max(1)).clamp(1, BATCH_ROWS.start),
            batch_bytes,
            growth: if is_remote { REMOTE_GROWTH } else { GROWTH },
        })
    }

    /// More rows behind those that are planned; their lineage goes to `known`.
    fn plan(&mut self, rows: u64, known: &mut Lineage) -> Result<()> {
        match &mut self.order {
            Order::Ids(merge) => {
                let Some(MergedRows { takes, ids, created, updated }) = merge.next_rows(rows)? else {
                    return Ok(());
                };
                self.planned = self.planned.saturating_add(ids.len());
                if self.takes.is_empty() {
                    self.takes = takes.into();
                } else {
                    self.takes.extend(takes);
                }
                known.append(Lineage { ids: Some(ids), created: Some(created), updated: Some(updated) });
            }
            Order::AsTheyAre(live, rest) => {
                let mut left = rows;
                while left > 0 {
                    let Some(mut take) = rest.take().or_else(|| live.next()) else { break };
                    let length = take.offsets.end - take.offsets.start;
                    if length > left {
                        let cut = take.offsets.start + left;
                        *rest = Some(Take { input: take.input, offsets: cut..take.offsets.end });
                        take.offsets.end = cut;
                    }
                    let taken = length.min(left);
                    left -= taken;
                    self.planned = self.planned.saturating_add(taken);
                    self.takes.push_back(take);
                }
            }
        }
        Ok(())
    }

    /// The first of the planned rows, by input; they stay planned.
    fn first(&self, rows: u64) -> impl Iterator<Item = (usize, Range<u64>)> + '_ {
        self.takes.iter().scan(rows, |left, Take { input, offsets }| {
            let end = offsets.end.min(offsets.start.saturating_add(*left));
            *left -= end - offsets.start;
            (end > offsets.start).then_some((*input, offsets.start..end))
        })
    }

    /// Makes the next batch as large as rows like these allow.
    pub(super) fn fit(&mut self, batch: &RecordBatch) {
        let rows = u64::try_from(batch.num_rows()).unwrap_or(u64::MAX).max(1);
        let width = u64::try_from(batch.get_array_memory_size()).unwrap_or(u64::MAX) / rows;
        let fitting = self.batch_bytes / width.max(1);
        self.batch_rows = fitting.min(rows.saturating_mul(self.growth)).clamp(1, BATCH_ROWS.end);
    }

    /// Forgets the first of the planned rows.
    fn done(&mut self, rows: u64) {
        self.planned = self.planned.saturating_sub(rows);
        let mut left = rows;
        while let Some(take) = self.takes.front_mut() {
            let length = take.offsets.end - take.offsets.start;
            if left < length {
                take.offsets.start += left;
                return;
            }
            left -= length;
            self.takes.pop_front();
        }
    }

    /// Reads the first of the planned rows: once per fragment, in the order of the file, and puts them in theirs.
    fn gather(&self, rows: u64) -> Result<RecordBatch> {
        let mut parts: BTreeMap<usize, Vec<Range<u64>>> = BTreeMap::new();
        // As long as each fragment is done with before the next: the fragments.
        let (mut in_order, mut one_by_one) = (true, Vec::new());
        for (input, offsets) in self.first(rows) {
            if one_by_one.last() != Some(&input) && in_order {
                in_order = !parts.contains_key(&input);
                one_by_one.push(input);
            }
            parts.entry(input).or_default().push(offsets);
        }
        let mut reads = Vec::with_capacity(parts.len());
        for (input, ranges) in parts {
            in_order &= ranges.is_sorted_by_key(|range| range.start);
            let source = self.sources.get(input);
            let source =
                source.ok_or_else(|| Error::internal(format!("a row of fragment number {input}")))?;
            reads.push((input, source, ranges.into_iter().collect::<RowRanges>().ranked()));
        }
        let read = |(_, source, rows): &(usize, &RewriteSource, RankedRows)| {
            self.columns.read_concurrently(&source.reader, rows.rows())
        };
        let threads = reads.first().map_or(1, |(_, source, _)| source.reader.store().readers());
        let mut batches = each_concurrently(threads, &reads, read)?;
        let parts_read: BTreeMap<usize, RowsRead> = reads
            .into_iter()
            .enumerate()
            .map(|(batch, (input, _, rows))| (input, RowsRead { batch, rows }))
            .collect();
        let failed = |rows: usize| {
            move |e: ArrowError| Error::invalid_input(format!("Putting {rows} rows in order: {e}"))
        };
        if in_order {
            if batches.len() == 1
                && let Some(batch) = batches.pop()
            {
                return Ok(batch);
            }
            let read = |input| parts_read.get(input).and_then(|part| batches.get(part.batch));
            let pieces: Vec<&RecordBatch> = one_by_one.iter().filter_map(read).collect();
            let schema = pieces.first().map(|batch| batch.schema());
            let schema = schema.ok_or_else(|| Error::internal("no rows were requested"))?;
            let rows = pieces.iter().map(|batch| batch.num_rows()).sum();
            return concat_batches(&schema, pieces, failed(rows));
        }
        let mut order = Vec::new();
        for (input, offsets) in self.first(rows) {
            let found = parts_read.get(&input).and_then(|part| part.find(offsets.start));
            let (batch, start) = found.ok_or_else(|| Error::internal("a row was not read"))?;
            order.extend((start..start + length(&offsets)?).map(|row| (batch, row)));
        }
        interleave_batches(&batches.iter().collect::<Vec<_>>(), &order, failed(order.len()))
    }
}

/// What was read of one fragment: the number of the batch, and its rows.
struct RowsRead {
    batch: usize,
    rows: RankedRows,
}

impl RowsRead {
    /// Batch and row in the batch of a row of the fragment.
    fn find(&self, offset: u64) -> Option<(usize, usize)> {
        Some((self.batch, usize::try_from(self.rows.position(offset)?).ok()?))
    }
}

fn length(range: &Range<u64>) -> Result<usize> {
    let rows = range.end.saturating_sub(range.start);
    usize::try_from(rows).map_err(|_| Error::invalid_input(format!("{rows} rows at once")))
}

impl IdentifiedRows for Rewriter<'_> {
    fn ahead(&mut self, mut known: Lineage, rows: u64) -> Result<(u64, Lineage)> {
        if self.planned < rows {
            self.plan(rows - self.planned, &mut known)?;
        }
        Ok((self.planned, known))
    }

    fn read(&mut self, rows: u64) -> Result<Option<RecordBatch>> {
        let most = rows.min(self.planned);
        if most == 0 {
            return Ok(None);
        }
        let mut count = most.min(self.batch_rows).max(1);
        let batch = loop {
            match self.gather(count) {
                // More than fits an array: these rows are much wider than those before.
                Err(error) if error.kind() == ErrorKind::InvalidInput && count > 1 => count /= 2,
                result => break result?,
            }
        };
        self.done(count);
        self.fit(&batch);
        Ok(Some(batch))
    }
}

/// Writes the live rows of these fragments into new ones.
pub(crate) async fn live_rows(
    snapshot: Arc<Snapshot>,
    fragments: Vec<FragmentId>,
    params: &WriteOptions,
) -> Result<WrittenFragments> {
    let limits = Limits::new(
        params,
        params.create.file_version.map_or_else(|| snapshot.manifest.version_of_new_files(), Ok)?,
    )?;
    let inline = InlineLimit::of(&snapshot.manifest.config)?;
    let (token, _guard) = cancellation();
    let placement = Placement::own(Arc::clone(&snapshot.store));
    let own = placement.clone();
    let written = crate::runtime::blocking(move || {
        let table = &snapshot.manifest.schema;
        let columns = Input::of(&snapshot, &table.fields.iter().map(|f| f.name.clone()).collect::<Vec<_>>())?;
        let fragments: Vec<_> = fragments.into_iter().map(|id| (id, None)).collect();
        let sources = RewriteSource::open_all(&snapshot, fragments, &columns, &token)?;
        let mut rows = Rewriter::new(&sources, &columns, limits.bytes)?;
        identified::write(&mut rows, own, table, limits, inline, &token)
    })
    .await?;
    written.arrived(&placement).await
}
