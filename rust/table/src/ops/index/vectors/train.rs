//! What an index is built with, from a sample of the vectors.
//!
//! The sample is spread evenly over the rows. It is held in memory, and so at most [`SAMPLE_BYTES`].

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, FixedSizeListArray};
use arrow_schema::DataType;
use pennon_core::{Error, FragmentId, Result};
use pennon_index::{
    ClusterOptions, Metric, VectorIndexKind, VectorModel, VectorStorage, train_bounds, train_centroids,
    train_codebook,
};

use super::request::VectorParameters;
use crate::runtime::{self, StepCounter, blocking_counted, processors};
use crate::scan::{Projection, TakeOptions, TakeRows, take};
use crate::versions::snapshot::Snapshot;

/// Bytes of vectors of a sample.
const SAMPLE_BYTES: u64 = 1 << 30;

/// Vectors that an index is made of.
#[derive(Debug, Clone)]
pub(super) struct VectorSource {
    pub(super) snapshot: Arc<Snapshot>,
    /// The path of their column.
    pub(super) column: String,
    pub(super) element: DataType,
    pub(super) dimension: usize,
    pub(super) fragments: Vec<FragmentId>,
}

impl VectorSource {
    pub(super) fn live_rows(&self) -> u64 {
        let fragments = &self.snapshot.manifest.fragments;
        let live = self.fragments.iter().filter_map(|id| Some(fragments.summary(*id)?.live_rows()));
        live.fold(0, u64::saturating_add)
    }

    /// About so many vectors, spread evenly over the rows.
    async fn sample(&self, rows: u64, seed: u64) -> Result<FixedSizeListArray> {
        let bytes =
            u64::try_from(self.dimension * self.element.primitive_width().unwrap_or(8)).unwrap_or(u64::MAX);
        let rows = rows.min(SAMPLE_BYTES / bytes.max(1)).max(1);
        let positions = spread(&self.ranges(), rows, seed);
        let options = TakeOptions {
            columns: Some(Projection::Names(vec![self.column.clone()])),
            ..TakeOptions::default()
        };
        let taken = take(Arc::clone(&self.snapshot), TakeRows::Positions(positions), &options).await?;
        vectors_in(taken.columns().first().ok_or_else(|| Error::internal("vectors were not taken"))?)
    }

    /// The positions of the rows of each fragment among the live rows of the table.
    fn ranges(&self) -> Vec<std::ops::Range<u64>> {
        let fragments = &self.snapshot.manifest.fragments;
        let range = |id: &FragmentId| {
            let start = fragments.rows_before(*id);
            Some(start..start + fragments.summary(*id)?.live_rows())
        };
        self.fragments.iter().filter_map(range).collect()
    }
}

/// What an index is built with; `None` for too few vectors to find it. Errors: `InvalidInput` for parts that do not fit
/// together; those of reading.
pub(super) async fn train(
    source: &VectorSource,
    kind: VectorIndexKind,
    metric: Metric,
    parameters: &VectorParameters,
) -> Result<Option<VectorModel>> {
    let rows = source.live_rows();
    if rows == 0 {
        return Ok(None);
    }
    let seed = runtime::uuid().as_u64_pair().0;
    let partitions = parameters.partitions(kind, rows);
    let rate = u64::from(parameters.sample_rate);
    // Bounds of few vectors would cut off what lies outside: as many as for the codes of a byte.
    let codes = match kind {
        kind if is_product(kind) => 1 << parameters.num_bits,
        kind if is_scalar(kind) => 1 << u8::BITS,
        _ => 0,
    };
    let wanted = rate.saturating_mul(u64::from(partitions).max(codes));
    let is_given = parameters.centroids.is_some() && (!is_product(kind) || parameters.codebook.is_some());
    let sample = match is_given && !is_scalar(kind) {
        true => None,
        false => Some(source.sample(wanted.min(rows), seed).await?),
    };
    let (element, parameters) = (source.element.clone(), parameters.clone());
    let (model, heard) = blocking_counted(move |counter| {
        let threads = processors();
        let (max_iterations, sample_rate) = (parameters.max_iterations, parameters.sample_rate);
        let options = ClusterOptions { max_iterations, sample_rate, seed, threads };
        let train = Training { sample, metric, options, counter };
        train.model(kind, &element, partitions, &parameters)
    })
    .await;
    heard?;
    model
}

struct Training<'a> {
    /// Nothing if all is given.
    sample: Option<FixedSizeListArray>,
    metric: Metric,
    options: ClusterOptions,
    counter: &'a StepCounter,
}

impl Training<'_> {
    /// Tells how much of a stage is done, and of how much.
    fn tell(&self, stage: &'static str, done: u32, all: u32) -> Result<()> {
        self.counter.count(move |counts| {
            (counts.stage, counts.tasks, counts.of_tasks) = (stage, done.into(), Some(all.into()));
        })
    }

    fn sample(&self) -> Result<&FixedSizeListArray> {
        self.sample.as_ref().ok_or_else(|| Error::internal("no vectors were sampled"))
    }

    fn model(
        &self,
        kind: VectorIndexKind,
        element: &DataType,
        partitions: u32,
        parameters: &VectorParameters,
    ) -> Result<Option<VectorModel>> {
        let mut loss = None;
        let centroids = match &parameters.centroids {
            Some(centroids) => cast_to(centroids, element, "ivf_centroids")?,
            None => {
                let count = usize::try_from(partitions).unwrap_or(usize::MAX);
                let mut tell = |pass, most| self.tell("train_ivf", pass, most);
                tell(0, self.options.max_iterations.max(1))?;
                let found = train_centroids(self.sample()?, self.metric, count, self.options, &mut tell)?;
                let Some((centroids, found)) = found else { return Ok(None) };
                loss = Some(found);
                centroids
            }
        };
        let codebook = match (&parameters.codebook, is_product(kind)) {
            (_, false) => None,
            (Some(codebook), true) => Some(cast_to(codebook, element, "pq_codebook")?),
            (None, true) => {
                let (sample, sizes) = (self.sample()?, (parameters.num_bits, sub_vectors(parameters)));
                let mut tell = |done, all| self.tell("train_quantizer", done, all);
                let found = train_codebook(sample, self.metric, &centroids, sizes, self.options, &mut tell)?;
                let Some(codebook) = found else { return Ok(None) };
                Some(codebook)
            }
        };
        let storage = match &codebook {
            Some(codebook) => VectorStorage::Product {
                codebook,
                num_bits: parameters.num_bits,
                num_sub_vectors: sub_vectors(parameters),
            },
            None if is_scalar(kind) => {
                let Some((low, high)) = train_bounds(self.sample()?, self.metric)? else { return Ok(None) };
                VectorStorage::Scalar { low, high }
            }
            None => VectorStorage::Flat,
        };
        let model = VectorModel::try_new(kind, self.metric, &centroids, storage)?;
        Ok(Some(match loss {
            Some(loss) => model.with_loss(loss),
            None => model,
        }))
    }
}

fn sub_vectors(parameters: &VectorParameters) -> u32 {
    parameters.num_sub_vectors.unwrap_or(0)
}

fn is_product(kind: VectorIndexKind) -> bool {
    matches!(kind, VectorIndexKind::IvfPq | VectorIndexKind::IvfHnswPq)
}

fn is_scalar(kind: VectorIndexKind) -> bool {
    matches!(kind, VectorIndexKind::IvfSq | VectorIndexKind::IvfHnswSq)
}

fn cast_to(vectors: &FixedSizeListArray, element: &DataType, what: &str) -> Result<FixedSizeListArray> {
    let field = Arc::new(arrow_schema::Field::new("item", element.clone(), true));
    let of = DataType::FixedSizeList(field, vectors.value_length());
    let cast = arrow_cast::cast(vectors, &of)
        .map_err(|e| Error::invalid_input(format!("{what} cannot become vectors of {element}: {e}")))?;
    vectors_in(&cast)
}

/// The vectors of a column, those of all rows if they have lists.
pub(super) fn vectors_in(column: &ArrayRef) -> Result<FixedSizeListArray> {
    let array: &dyn Array = column.as_ref();
    let vectors = match array.data_type() {
        DataType::List(_) => {
            let list = array.as_list::<i32>();
            let (first, last) = (list.value_offsets().first(), list.value_offsets().last());
            slice(list.values(), first.copied().map(i64::from), last.copied().map(i64::from))?
        }
        DataType::LargeList(_) => {
            let list = array.as_list::<i64>();
            let (first, last) = (list.value_offsets().first(), list.value_offsets().last());
            slice(list.values(), first.copied(), last.copied())?
        }
        _ => Arc::clone(column),
    };
    vectors.as_fixed_size_list_opt().cloned().ok_or_else(|| Error::internal("a column without vectors"))
}

fn slice(values: &ArrayRef, first: Option<i64>, last: Option<i64>) -> Result<ArrayRef> {
    let at = |offset: Option<i64>| usize::try_from(offset.unwrap_or(0)).ok().filter(|at| *at <= values.len());
    match (at(first), at(last)) {
        (Some(first), Some(last)) if first <= last => Ok(values.slice(first, last - first)),
        _ => Err(Error::internal("lists without their values")),
    }
}

/// So many of the numbers in ranges, one from each of equal stretches; all if there are no more.
fn spread(ranges: &[std::ops::Range<u64>], wanted: u64, seed: u64) -> Vec<u64> {
    let all: u64 = ranges.iter().map(|range| range.end - range.start).sum();
    let wanted = wanted.min(all);
    let mut state = seed;
    let mut ranks = (0..wanted).map(|at| {
        // Splitmix64: the position within the stretch.
        state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^= mixed >> 31;
        let [start, end] = [at, at + 1].map(|at| scaled(at, all, wanted));
        start + mixed % (end - start).max(1)
    });
    let mut found = Vec::new();
    let mut before = 0;
    let mut next = ranks.next();
    for range in ranges {
        let end = before + (range.end - range.start);
        while let Some(rank) = next.filter(|rank| *rank < end) {
            found.push(range.start + (rank - before));
            next = ranks.next();
        }
        before = end;
    }
    found
}

/// `at * all / parts`, without overflow.
fn scaled(at: u64, all: u64, parts: u64) -> u64 {
    let exact = u128::from(at) * u128::from(all) / u128::from(parts.max(1));
    u64::try_from(exact).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sample_is_spread_over_all_rows() {
        let ranges = [10..15, 100..100, 200..295];
        assert_eq!(spread(&ranges, 1000, 7), (10..15).chain(200..295).collect::<Vec<_>>());
        let sample = spread(&ranges, 10, 7);
        assert_eq!(sample.len(), 10);
        assert!(sample.is_sorted_by(|a, b| a < b));
        assert!(sample.iter().all(|row| ranges.iter().any(|range| range.contains(row))));
        // Each tenth of the rows has one of them.
        assert!(sample[0] < 205 && sample[9] >= 285);
        assert_ne!(sample, spread(&ranges, 10, 8));
        assert!(spread(&[], 10, 7).is_empty());
    }
}
