//! The rows whose vectors are nearest to a query.
//!
//! | step | file |
//! |---|---|
//! | what is asked, checked against the column | `search.rs` |
//! | what an index over the column finds, partition by partition | `by_index.rs`, `probes.rs` |
//! | a scan of the other vectors that leaves the nearest of each unit; the nearest of all | `search.rs` |
//! | their columns by row address, `_distance`, and a filter that comes afterwards | `output.rs` |

mod by_index;
mod output;
mod probes;
mod search;

use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch};
use arrow_schema::SchemaRef;
use futures::future::join;
use futures::stream::{self, StreamExt, TryStreamExt};
use pennon_core::lengths::to_u64;
use pennon_core::wire::index_parts::{Details, IndexParts};
use pennon_core::wire::vector_index::metric_number;
use pennon_core::{Error, FragmentId, Result, RowAddress};
use pennon_index::{DistanceRange, IndexKind, Metric};
use roaring::RoaringBitmap;

use self::by_index::{AllowedRows, IndexRequest, VectorSearch};
use self::output::{FoundRow, NearestOutput, TakenRows};
pub use self::probes::Probes;
use self::search::NearestSearch;
use super::brief::is_brief_search;
use super::fragment::{open_ahead, opens_ahead};
use super::matches::matches;
use super::metrics::ScanMetrics;
use super::plan::ScanPlan;
use super::units::Window;
use super::{BatchStream, DEFAULT_BATCH_SIZE, Projection, ScanOptions, TakeOptions, TakeRows, take};
use crate::indices::{
    is_about_the_index, kind_of, known_segments, metric_in_files, pass_over, pass_over_all,
};
use crate::runtime::{blocking, blocking_unless};
use crate::versions::snapshot::Snapshot;

/// The name of the column with distances.
pub(crate) const DISTANCE: &str = "_distance";
/// The name of the column with the numbers of queries.
pub(crate) const QUERY_INDEX: &str = "query_index";
/// Rows that are found if neither `k` nor a limit says how many.
const DEFAULT_K: u64 = 10;
/// A filter that leaves so few rows has all of them compared, and no index searched.
const FEW_ROWS: u64 = 1024;
/// Times as many rows as are wanted that are taken from an index for each vector of a query with several.
const REFINED_LISTS: usize = 10;

/// The rows whose vectors are nearest to one or several queries.
#[derive(Debug, Clone)]
pub struct Nearest {
    /// A column of vectors, or of lists of vectors; by name or path.
    pub column: String,
    /// The elements of all query vectors.
    pub query: ArrayRef,
    /// How many vectors that is, if the query is a list of vectors. For a column of vectors each of them is a query, and
    /// the result has their numbers; for a column of lists they are one query.
    pub vectors: Option<usize>,
    /// Rows of each query at most; limit and offset together, or 10, if not given.
    pub k: Option<u64>,
    /// How distance is measured. If not given, as in the index over the column, or without one by l2, and for bytes by
    /// hamming.
    pub metric: Option<Metric>,
    /// Whether an index over the column is searched, and says how distance is measured.
    pub use_index: bool,
    /// How many partitions of an index are searched.
    pub probes: Probes,
    /// So many times as many rows as are wanted are taken from an index; the nearest of them by their vectors are kept.
    pub refine_factor: Option<u32>,
    /// Rows that a search of a graph keeps in mind.
    pub ef: Option<usize>,
    /// The distances that count.
    pub range: DistanceRange,
    /// Whether the filter says which rows are searched, rather than which of those that were found are kept.
    pub prefilter: bool,
    /// Leaves `_distance` out unless it is among the columns.
    pub without_distance: bool,
}

/// A search decided without reading.
#[derive(Debug)]
pub(super) struct NearestPlan {
    snapshot: Arc<Snapshot>,
    /// The vectors, row ids and row addresses that are looked at.
    pub(super) candidates: Arc<ScanPlan>,
    nearest: Nearest,
    k: u64,
    search: Arc<NearestSearch>,
    output: NearestOutput,
    window: Window,
    batch_size: usize,
    /// Whether only what an index covers is searched.
    only_indexed: bool,
}

/// What was found in the fragments that an index covers.
struct Indexed {
    rows: RecordBatch,
    covered: RoaringBitmap,
    /// Whether other fragments are searched.
    has_others: bool,
    /// What is taken of the table for them, if it came with their vectors.
    ahead: Option<TakenRows>,
}

impl NearestPlan {
    /// Errors: those of [`ScanPlan::new`]; `InvalidInput` for a column that has no vectors and a query that does not fit.
    pub(super) fn new(snapshot: Arc<Snapshot>, nearest: &Nearest, options: &ScanOptions) -> Result<Self> {
        if options.include_deleted_rows {
            return Err(Error::invalid_input("Cannot include deleted rows in a nearest neighbor search"));
        }
        let wanted = options.limit.map(|limit| limit.saturating_add(options.offset.unwrap_or(0)));
        let k = nearest.k.or(wanted).unwrap_or(DEFAULT_K);
        let search = NearestSearch::new(&snapshot, nearest, k, nearest.metric)?;
        let (before, after) = match nearest.prefilter {
            true => (options.filter.clone(), None),
            false => (None, options.filter.as_ref()),
        };
        let output = NearestOutput::new(&snapshot, nearest, after, options, search.is_batch())?;
        let columns = [nearest.column.as_str(), "_rowid", "_rowaddr"].map(str::to_owned).to_vec();
        let candidates = ScanOptions {
            columns: Some(Projection::Names(columns)),
            filter: before,
            limit: None,
            offset: None,
            batch_size: None,
            batch_bytes: None,
            strict_batch_size: false,
            with_row_id: false,
            with_row_address: false,
            unordered: true,
            // What was left out would not be among the nearest.
            only_indexed: false,
            nearest: None,
            ..options.clone()
        };
        Ok(Self {
            candidates: Arc::new(ScanPlan::new(Arc::clone(&snapshot), &candidates)?),
            snapshot,
            nearest: nearest.clone(),
            k,
            search: Arc::new(search),
            output,
            window: Window::new(options.offset, options.limit),
            batch_size: options.batch_size.unwrap_or(DEFAULT_BATCH_SIZE).max(1),
            only_indexed: options.only_indexed,
        })
    }

    /// The columns of the result.
    pub(super) fn schema(&self) -> &SchemaRef {
        &self.output.schema
    }

    /// The rows, those of the first query first, and of one query the nearest first.
    pub(super) fn stream(self: Arc<Self>, metrics: Arc<ScanMetrics>) -> BatchStream {
        let found = async move {
            let (rows, ahead) = self.rows(metrics, true).await?;
            let ahead = ahead.map(Arc::new);
            let parts: Vec<Vec<FoundRow>> = rows.chunks(self.batch_size).map(<[FoundRow]>::to_vec).collect();
            let batch = move |rows: Vec<FoundRow>| {
                let (this, ahead) = (Arc::clone(&self), ahead.clone());
                async move { this.output.batch(&this.snapshot, &rows, ahead.as_deref()).await }
            };
            Ok::<_, Error>(stream::iter(parts).then(batch))
        };
        stream::once(found).try_flatten().boxed()
    }

    /// How many rows the result has.
    pub(super) async fn count(&self) -> Result<u64> {
        Ok(to_u64(self.rows(Arc::default(), false).await?.0.len()))
    }

    /// The search, by the metric of the index if none was given.
    async fn search(&self) -> Result<Arc<NearestSearch>> {
        if self.nearest.metric.is_some() || !self.nearest.use_index {
            return Ok(Arc::clone(&self.search));
        }
        match metric_of_index(&self.snapshot, &self.nearest.column).await? {
            Some(metric) if metric != self.search.metric => {
                let search = NearestSearch::new(&self.snapshot, &self.nearest, self.k, Some(metric))?;
                Ok(Arc::new(search))
            }
            _ => Ok(Arc::clone(&self.search)),
        }
    }

    /// What is done, without the scan of what is looked at.
    pub(super) async fn explain(&self) -> Result<String> {
        let search = self.search().await?;
        let by = match self.index_of(&search).await? {
            None if self.is_without_index(search.metric).await? => {
                format!("no rows: no index by {}", search.metric)
            }
            None => "by the distance of every vector".to_owned(),
            Some((index, covered)) => {
                let request = self.request(&search, AllowedRows::default(), false);
                let VectorSearch { name, kind, .. } = &*index;
                let (probes, all) = (index.first_probes(&request), self.candidates.fragments.len());
                let then = match self.only_indexed || !self.has_others(&covered) {
                    true => "",
                    false => ", elsewhere by the distance of every vector",
                };
                let covered = covered.len();
                format!("by {name} ({kind}), {probes} partitions, for {covered} of {all} fragments{then}")
            }
        };
        Ok(format!("nearest rows: {search}\n  {by}, then taken by address: {}\n", self.output))
    }

    /// The index that is searched, and the fragments of the search that it covers.
    async fn index_of(&self, search: &NearestSearch) -> Result<Option<(Arc<VectorSearch>, RoaringBitmap)>> {
        // The distance of a list is none of its vectors': which are too near, only all of them tell.
        let is_bounded_list = search.is_list && search.range.lower.is_some();
        if !self.nearest.use_index || is_bounded_list || self.snapshot.manifest.index_section.is_none() {
            return Ok(None);
        }
        let entries = self.snapshot.indices().await?;
        let (snapshot, field, metric) = (Arc::clone(&self.snapshot), search.field, search.metric);
        let strict = self.candidates.strict_indices;
        let is_brief = by_index::are_open(&snapshot, &entries, field);
        let choose = move || by_index::choose(&snapshot, &entries, field, metric, strict);
        let index = blocking_unless(is_brief, choose).await?;
        let Some(index) = index else { return Ok(None) };
        let searched = self.candidates.fragments.iter().filter(|rows| !rows.is_part);
        let covered = &index.covered & searched.map(|rows| rows.id.0).collect::<RoaringBitmap>();
        Ok((self.only_indexed || !covered.is_empty()).then(|| (Arc::new(index), covered)))
    }

    /// Whether fragments are searched that an index does not cover; one may be given twice.
    fn has_others(&self, covered: &RoaringBitmap) -> bool {
        self.candidates.fragments.iter().any(|rows| !covered.contains(rows.id.0))
    }

    /// Whether only what an index covers is searched, and there is none of this metric. One that cannot be read is one:
    /// its rows are compared.
    async fn is_without_index(&self, metric: Metric) -> Result<bool> {
        if !self.only_indexed || !self.nearest.use_index {
            return Ok(self.only_indexed);
        }
        let entries = vector_entries(&self.snapshot, &self.nearest.column).await?;
        Ok(!entries.iter().any(|entry| {
            metric_of(entry.details.as_ref()).ok().flatten().is_none_or(|of_index| of_index == metric)
        }))
    }

    /// What an index is asked; `is_refined` if the distances of what it finds are computed again.
    fn request(&self, search: &NearestSearch, allowed: AllowedRows, is_refined: bool) -> IndexRequest {
        let factor =
            self.nearest.refine_factor.map_or(1, |times| usize::try_from(times).unwrap_or(usize::MAX));
        // An index finds vectors, of which a list has several.
        let times = factor.saturating_mul(if search.is_list { REFINED_LISTS } else { 1 });
        IndexRequest {
            rows: search.k.saturating_mul(times),
            probes: self.nearest.probes,
            ef: self.nearest.ef,
            // Distances that are computed again decide then; nearer ones than are wanted are counted apart.
            range: match is_refined {
                true if search.is_list => DistanceRange::default(),
                true => DistanceRange { upper: None, ..search.range },
                false => search.range,
            },
            is_refined,
            allowed,
        }
    }

    /// What an index finds of the rows that it covers; `None` if there is none, or it cannot be read.
    async fn by_index(&self, search: &Arc<NearestSearch>, with_columns: bool) -> Result<Option<Indexed>> {
        let strict = self.candidates.strict_indices;
        let (index, covered) = match self.index_of(search).await {
            Ok(Some(found)) => found,
            Ok(None) => return Ok(None),
            Err(error) if !strict && is_about_the_index(&error) => {
                pass_over_all(&self.snapshot, &error);
                return Ok(None);
            }
            Err(error) => return Err(error),
        };
        let (name, uuid) = (index.name.clone(), index.uuid());
        match self.search_index(search, index, covered, with_columns).await {
            Err(error) if !strict && is_about_the_index(&error) => {
                pass_over(&self.snapshot, &name, uuid, &error);
                Ok(None)
            }
            found => found.map(Some),
        }
    }

    async fn search_index(
        &self,
        search: &Arc<NearestSearch>,
        index: Arc<VectorSearch>,
        covered: RoaringBitmap,
        with_columns: bool,
    ) -> Result<Indexed> {
        // Those that cannot be read have not been left to the scan by whoever took rows in.
        let has_others = self.has_others(&covered) && (!self.only_indexed || index.is_incomplete);
        let mut allowed = AllowedRows { fragments: covered.clone(), offsets: None };
        if let Some(filter) = &self.candidates.filter {
            let slices = covered.iter().map(|id| FragmentId(id).into()).collect();
            let (snapshot, predicate) = (Arc::clone(&self.snapshot), filter.predicate.clone());
            let strict = self.candidates.strict_indices;
            allowed.offsets = Some(matches(snapshot, Some(slices), predicate, strict).await?);
        }
        if let Some(few) = allowed.addresses_of_few(FEW_ROWS) {
            let rows = self.compared(search, few).await?;
            return Ok(Indexed { rows, covered, has_others, ahead: None });
        }
        let is_refined = self.nearest.refine_factor.is_some()
            || search.is_list
            // Distances of one result are of one kind.
            || (has_others && !index.is_exact());
        let request = self.request(search, allowed, is_refined);
        let (snapshot, asked) = (Arc::clone(&self.snapshot), Arc::clone(search));
        let found = match index.followed(&snapshot, &asked.values, &request)? {
            Some(found) => found,
            None => {
                let is_brief = is_brief_search(&snapshot, index.expected_bytes(&asked.values, &request));
                blocking_unless(is_brief, move || index.nearest(&snapshot, &asked.values, &request)).await?
            }
        };
        let mut ahead = None;
        let rows = match is_refined {
            false => NearestSearch::batch_of(found)?,
            true => {
                let mut rows: Vec<_> = found.iter().flatten().map(|row| RowAddress(row.address)).collect();
                rows.sort_unstable();
                rows.dedup();
                let wanted = if with_columns { rows.clone() } else { Vec::new() };
                let (vectors, columns) =
                    join(self.vectors_of(rows), self.output.ahead(&self.snapshot, wanted)).await;
                ahead = columns;
                let vectors = vectors?;
                let asked = Arc::clone(search);
                // A query is compared with what was found for it, not with what was found for others.
                blocking(move || match found.as_slice() {
                    [_] => asked.nearest_of(&vectors),
                    found => asked.nearest_among(&vectors, found),
                })
                .await?
            }
        };
        Ok(Indexed { rows, covered, has_others, ahead })
    }

    /// Opens the files that the rows are read from, while an index finds them.
    async fn open_ahead(&self) {
        let fragments: Vec<FragmentId> = self.candidates.fragments.iter().map(|rows| rows.id).collect();
        let searches = self.nearest.use_index && self.snapshot.manifest.index_section.is_some();
        if !searches || !opens_ahead(&self.snapshot, fragments.len()) {
            return;
        }
        let mut fields = self.output.fields.clone();
        if self.nearest.refine_factor.is_some() {
            fields.extend(self.candidates.input.fields.iter().cloned());
        }
        let snapshot = Arc::clone(&self.snapshot);
        let opened = blocking(move || {
            open_ahead(&snapshot, &fields, &fragments, &RoaringBitmap::new());
            Ok(())
        });
        drop(opened.await);
    }

    /// The nearest among some rows, by their vectors.
    async fn compared(&self, search: &NearestSearch, mut rows: Vec<RowAddress>) -> Result<RecordBatch> {
        rows.sort_unstable();
        rows.dedup();
        search.nearest_of(&self.vectors_of(rows).await?)
    }

    /// The vectors of some rows, their ids and their addresses, which ascend.
    async fn vectors_of(&self, rows: Vec<RowAddress>) -> Result<RecordBatch> {
        let options = TakeOptions {
            columns: Some(Projection::Names(vec![self.nearest.column.clone()])),
            with_row_id: true,
            with_row_address: true,
            ..TakeOptions::default()
        };
        take(Arc::clone(&self.snapshot), TakeRows::Addresses(rows), &options).await
    }

    /// The rows of the result; `with_columns` what is taken of the table for them, if that took no longer.
    async fn rows(
        &self,
        metrics: Arc<ScanMetrics>,
        with_columns: bool,
    ) -> Result<(Vec<FoundRow>, Option<TakenRows>)> {
        let search = self.search().await?;
        let (found, ()) = join(self.by_index(&search, with_columns), self.open_ahead()).await;
        let (of_index, others, ahead) = match found? {
            None if self.is_without_index(search.metric).await? => (None, None, None),
            None => (None, Some(Arc::clone(&self.candidates)), None),
            Some(Indexed { rows, covered, has_others, ahead }) => {
                (Some(rows), has_others.then(|| Arc::new(self.candidates.without(&covered))), ahead)
            }
        };
        let reduce = {
            let search = Arc::clone(&search);
            Arc::new(move |batch: RecordBatch| search.nearest_of(&batch))
        };
        let scanned = others.map(|plan| super::stream::reduced(plan, metrics, reduce));
        let scanned = scanned.unwrap_or_else(|| stream::empty().boxed());
        let found = search.merged(stream::iter(of_index.map(Ok)).chain(scanned).boxed()).await?;
        let mut rows = self.output.kept(&self.snapshot, found).await?;
        let mut window = self.window;
        let part = window.advance(to_u64(rows.len()));
        let end = usize::try_from(part.end).unwrap_or(usize::MAX);
        rows.truncate(end);
        rows.drain(..usize::try_from(part.start).unwrap_or(end).min(rows.len()));
        Ok((rows, ahead))
    }
}

/// The entries of indices over a column of vectors.
async fn vector_entries(snapshot: &Snapshot, column: &str) -> Result<Vec<IndexParts>> {
    let field = snapshot.manifest.schema.field_by_path(column).map(|field| field.id);
    let mut found = Vec::new();
    for entry in snapshot.indices().await?.iter() {
        if entry.fields.len() != 1 || entry.fields.first().copied() != field {
            continue;
        }
        let parts = IndexParts::of(entry)?;
        if kind_of(&parts).0 == IndexKind::Vector {
            found.push(parts);
        }
    }
    Ok(found)
}

/// The metric of the first index over a column of vectors whose entry or files say it; `None` if there is no index.
///
/// Errors: `Unsupported` if there are indices, and none says it.
async fn metric_of_index(snapshot: &Arc<Snapshot>, column: &str) -> Result<Option<Metric>> {
    let field = snapshot.manifest.schema.field_by_path(column).map(|field| field.id);
    let known = known_segments(snapshot);
    let mut unreadable = None;
    for entry in snapshot.indices().await?.iter() {
        if entry.fields.len() != 1 || entry.fields.first().copied() != field {
            continue;
        }
        // What an entry says in full takes as long as it covers fragments.
        let segment = known.iter().flat_map(|segments| segments.iter()).find(|s| s.uuid == entry.uuid);
        if let Some(segment) = segment {
            if segment.kind != IndexKind::Vector {
                continue;
            }
            if let Some(metric) = metric_of(segment.details.as_ref())? {
                return Ok(Some(metric));
            }
        }
        let parts = IndexParts::of(entry)?;
        let kind = kind_of(&parts).0;
        // Entries of the oldest releases have no details at all, and only indices over vectors have such a field.
        if kind != IndexKind::Vector && (kind != IndexKind::Unknown || parts.details.is_some()) {
            continue;
        }
        if let Some(metric) = metric_of(parts.details.as_ref())? {
            return Ok(Some(metric));
        }
        let (read, name) = (Arc::clone(snapshot), parts.name.clone());
        match blocking(move || metric_in_files(&read, &parts)).await {
            Ok(metric) => return Ok(Some(metric)),
            // It may be no index over vectors at all.
            Err(error) if is_about_the_index(&error) && kind == IndexKind::Unknown => {
                pass_over(snapshot, &name, entry.uuid, &error);
            }
            Err(error) if is_about_the_index(&error) => {
                unreadable.get_or_insert((name, error));
            }
            Err(error) => return Err(error),
        }
    }
    unreadable.map_or(Ok(None), |(name, error)| {
        Err(Error::unsupported(format!(
            "the index {name} does not say by which metric it was built, and its files cannot be read: give one ({error})"
        )))
    })
}

/// The metric that the details of an index name.
fn metric_of(details: Option<&Details>) -> Result<Option<Metric>> {
    let Some((_, details)) = details else { return Ok(None) };
    Ok(metric_number(details)?.and_then(Metric::numbered))
}
