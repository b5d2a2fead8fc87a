//! Centroids of clusters, by the method of Lloyd: assign each vector to the nearest centroid, move each centroid to the mean
//! of its vectors, and again.
//!
//! It starts with vectors chosen at random. A cluster without vectors takes one of the largest cluster. Most passes are over
//! a part of the vectors only: they bring centroids as near to where they belong as that part can tell.

use std::thread;

use pennon_core::Result;

use super::super::matrix::Values;
use super::super::random::Random;
use super::super::rows::VectorsView;
use super::assign::{Assignment, Centroids};
use crate::vector::Metric;

/// How clusters are found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClusterOptions {
    /// Passes over the vectors at most; 1 or more.
    pub max_iterations: u32,
    /// Vectors for each code of a codebook that are looked at, at most; 1 or more.
    pub sample_rate: u32,
    /// The same seed gives the same clusters.
    pub seed: u64,
    /// Threads that compute.
    pub threads: usize,
}

impl Default for ClusterOptions {
    /// 50 passes, 256 vectors for each code, one thread.
    fn default() -> Self {
        Self { max_iterations: 50, sample_rate: 256, seed: 42, threads: 1 }
    }
}

/// The passes end when they reduce the loss by a smaller share.
const ENOUGH: f64 = 1e-4;
/// Vectors for each cluster in the passes over a part.
const PART: usize = 32;

/// Clusters of vectors.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Clusters {
    /// The centroids, element by element; of bytes whole numbers.
    pub(super) centroids: Vec<f64>,
    /// The sum of distances.
    pub(super) loss: f64,
}

/// Finds so many clusters, at most as many as there are vectors. `progress` gets the pass, from 1; what it fails with ends
/// them. Errors: those of `progress`.
pub(super) fn clusters(
    vectors: VectorsView<'_>,
    count: usize,
    metric: Metric,
    options: ClusterOptions,
    progress: &mut dyn FnMut(u32) -> Result<()>,
) -> Result<Clusters> {
    let mut random = Random::new(options.seed);
    let order = random.choose(vectors.len(), vectors.len());
    let count = count.min(order.len());
    let mut centroids = Vec::with_capacity(count * vectors.width);
    for row in order.iter().take(count) {
        vectors.for_each(*row, |_, value| centroids.push(value));
    }
    if metric == Metric::Dot {
        centroids.chunks_exact_mut(vectors.width.max(1)).for_each(to_unit);
    }
    let mut found = Clusters { centroids, loss: 0.0 };
    let part = PART * count;
    let mut passes = 0..options.max_iterations.max(1);
    let mut step = |pass: u32| progress(pass + 1);
    if part > 0 && part * 4 <= order.len() {
        let of_part = gathered(vectors, order.into_iter().take(part));
        // The last passes are over all vectors.
        let mut first = 0..passes.end - passes.end.div_ceil(4).min(passes.end);
        let view = VectorsView::all(&of_part, vectors.width);
        refine(view, &mut found, metric, options.threads, &mut random, &mut first, &mut step)?;
        passes.start = first.start;
    }
    refine(vectors, &mut found, metric, options.threads, &mut random, &mut passes, &mut step)?;
    Ok(found)
}

/// Passes over vectors until they gain little.
fn refine(
    vectors: VectorsView<'_>,
    found: &mut Clusters,
    metric: Metric,
    threads: usize,
    random: &mut Random,
    passes: &mut std::ops::Range<u32>,
    step: &mut dyn FnMut(u32) -> Result<()>,
) -> Result<()> {
    let count = found.centroids.len() / vectors.width.max(1);
    let mut previous = f64::INFINITY;
    for pass in passes {
        let assigned = prepared(&found.centroids, vectors.width, metric).assign(vectors, threads);
        found.loss = assigned.iter().map(|assigned| f64::from(assigned.distance)).sum();
        let mut of_cluster = members(&assigned, count);
        fill_empty(&mut of_cluster, random);
        found.centroids = means(vectors, &of_cluster, metric, threads);
        step(pass)?;
        if previous - found.loss <= ENOUGH * previous && previous.is_finite() {
            break;
        }
        previous = found.loss;
    }
    Ok(())
}

/// Centroids that vectors are compared with.
pub(in crate::vector) fn prepared(centroids: &[f64], width: usize, metric: Metric) -> Centroids {
    if metric == Metric::Hamming {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "they are bytes")]
        let bytes = centroids.iter().map(|value| *value as u8).collect();
        return Centroids::Bytes { dimension: width.max(1), bytes };
    }
    Centroids::of_floats(centroids, width, metric == Metric::Dot)
}

/// Some vectors in memory of their own, in the order in which they were.
pub(super) fn gathered(vectors: VectorsView<'_>, rows: impl IntoIterator<Item = usize>) -> Values {
    let mut rows: Vec<usize> = rows.into_iter().collect();
    rows.sort_unstable();
    let mut values = Vec::with_capacity(rows.len() * vectors.width);
    match vectors.values {
        Values::F32(_) => {
            let floats = rows.iter().filter_map(|row| vectors.floats(*row));
            return Values::F32(floats.flatten().copied().collect::<Vec<f32>>().into());
        }
        Values::U8(_) => {
            let bytes: Vec<u8> = rows.iter().flat_map(|row| vectors.bytes(*row)).copied().collect();
            return Values::U8(bytes.into());
        }
        Values::F64(_) => {
            for row in rows {
                vectors.for_each(row, |_, value| values.push(value));
            }
        }
    }
    Values::F64(values.into())
}

/// The vectors of each cluster.
fn members(assigned: &[Assignment], count: usize) -> Vec<Vec<u32>> {
    let mut members: Vec<Vec<u32>> = vec![Vec::new(); count];
    for (row, assigned) in (0_u32..).zip(assigned) {
        if let Some(members) = members.get_mut(assigned.centroid as usize) {
            members.push(row);
        }
    }
    members
}

/// Gives each cluster without vectors a part of the largest one.
fn fill_empty(members: &mut [Vec<u32>], random: &mut Random) {
    for empty in 0..members.len() {
        if members.get(empty).is_none_or(|rows| !rows.is_empty()) {
            continue;
        }
        let largest = members.iter_mut().max_by_key(|rows| rows.len()).filter(|rows| rows.len() > 1);
        let Some(largest) = largest else { return };
        let taken = random.below(largest.len());
        let row = largest.swap_remove(taken);
        if let Some(empty) = members.get_mut(empty) {
            empty.push(row);
        }
    }
}

/// The mean of each cluster, or what takes its role: of bytes the more frequent value of each bit.
fn means(vectors: VectorsView<'_>, members: &[Vec<u32>], metric: Metric, threads: usize) -> Vec<f64> {
    let width = vectors.width.max(1);
    let mut centroids = vec![0.0; members.len() * width];
    let share = members.len().div_ceil(threads.max(1)).max(1);
    let mean = |(members, centroid): (&Vec<u32>, &mut [f64])| match metric {
        Metric::Hamming => majority(vectors, members, centroid),
        _ => {
            for row in members {
                vectors.for_each(*row as usize, |at, value| {
                    if let Some(sum) = centroid.get_mut(at) {
                        *sum += value;
                    }
                });
            }
            #[expect(clippy::cast_precision_loss, reason = "rows have 32-bit numbers")]
            let rows = members.len().max(1) as f64;
            centroid.iter_mut().for_each(|sum| *sum /= rows);
            if metric == Metric::Dot {
                to_unit(centroid);
            }
        }
    };
    let mean = &mean;
    thread::scope(|scope| {
        for (members, centroids) in members.chunks(share).zip(centroids.chunks_mut(share * width)) {
            let mut work = move || members.iter().zip(centroids.chunks_exact_mut(width)).for_each(mean);
            if share >= members.len() && threads <= 1 { work() } else { drop(scope.spawn(work)) }
        }
    });
    centroids
}

fn majority(vectors: VectorsView<'_>, members: &[u32], centroid: &mut [f64]) {
    let mut counts = vec![[0_u32; 8]; centroid.len()];
    for row in members {
        for (counts, byte) in counts.iter_mut().zip(vectors.bytes(*row as usize)) {
            for (bit, count) in counts.iter_mut().enumerate() {
                *count += u32::from(byte >> bit & 1);
            }
        }
    }
    for (to, counts) in centroid.iter_mut().zip(counts) {
        let bits = counts.into_iter().enumerate().filter(|(_, count)| *count as usize * 2 > members.len());
        *to = f64::from(bits.fold(0_u8, |byte, (bit, _)| byte | 1 << bit));
    }
}

/// Makes a vector one of length 1, unless it has no direction.
fn to_unit(vector: &mut [f64]) {
    let length = vector.iter().map(|value| value * value).sum::<f64>().sqrt();
    if length > 0.0 {
        vector.iter_mut().for_each(|value| *value /= length);
    }
}
