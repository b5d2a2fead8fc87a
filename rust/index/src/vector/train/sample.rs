//! What an index is built with, from a sample of its vectors.
//!
//! Vectors that an index cannot hold are left out, so a sample may have too few that are left: then there is nothing to
//! build.

use arrow_array::FixedSizeListArray;
use pennon_core::{Error, Result};

use super::super::matrix::{Matrix, Values, narrowed};
use super::super::model::matrix;
use super::super::random::Random;
use super::super::rows::{UsableVectors, VectorsView};
use super::kmeans::{self, ClusterOptions, clusters, gathered};
use crate::vector::Metric;

/// The centroids of so many partitions and the sum of distances to them; of fewer vectors fewer, of none `None`.
///
/// 256 vectors for each partition are a good sample. `progress` gets the pass over the sample, from 1, and how many
/// there are at most; what it fails with ends the training.
///
/// Errors: `InvalidInput` for no partitions, and for vectors without the metric; those of `progress`.
pub fn train_centroids(
    sample: &FixedSizeListArray,
    metric: Metric,
    partitions: usize,
    options: ClusterOptions,
    progress: &mut dyn FnMut(u32, u32) -> Result<()>,
) -> Result<Option<(FixedSizeListArray, f64)>> {
    let element = sample.value_type();
    if !metric.supports(&element) {
        return Err(Error::invalid_input(format!(
            "Distance type {metric} does not support {element} vectors"
        )));
    }
    if partitions == 0 {
        return Err(Error::invalid_input("0 partitions, expected at least 1"));
    }
    let dimension = dimension(sample)?;
    let usable = UsableVectors::of(sample, metric)?;
    if usable.rows.is_empty() {
        return Ok(None);
    }
    let view = VectorsView::all(&usable.values, dimension);
    let most = options.max_iterations.max(1);
    let found = clusters(view, partitions, metric, options, &mut |pass| progress(pass, most))?;
    let values = Values::like(&usable.values, found.centroids);
    Ok(Some((Matrix::try_new(&element, dimension, values)?.to_lists()?, found.loss)))
}

/// The codebook of product quantization, in the order of files; `None` for fewer vectors than a sub-vector has codes.
///
/// No more vectors are looked at than the options say, chosen at random. `progress` gets the number of sub-vectors that are
/// done, and of all; what it fails with ends the training.
///
/// Errors: `InvalidInput` for other numbers of bits than 4 and 8, and for sizes that do not fit; those of `progress`.
pub fn train_codebook(
    sample: &FixedSizeListArray,
    metric: Metric,
    centroids: &FixedSizeListArray,
    (num_bits, num_sub_vectors): (u32, u32),
    options: ClusterOptions,
    progress: &mut dyn FnMut(u32, u32) -> Result<()>,
) -> Result<Option<FixedSizeListArray>> {
    let dimension = dimension(sample)?;
    let count = usize::try_from(num_sub_vectors).unwrap_or(0);
    let codes = match num_bits {
        8 => 256,
        4 => 16,
        _ => return Err(Error::invalid_input(format!("num_bits is {num_bits}, expected 4 or 8"))),
    };
    if count == 0 || !dimension.is_multiple_of(count) {
        return Err(Error::invalid_input(format!(
            "dimension ({dimension}) must be divisible by num_sub_vectors ({num_sub_vectors})"
        )));
    }
    if num_bits == 4 && !count.is_multiple_of(2) {
        return Err(Error::invalid_input(format!(
            "num_sub_vectors is {count}, expected an even number for 4 bits"
        )));
    }
    let centroids = matrix(centroids, "centroids")?;
    if centroids.dimension() != dimension || *centroids.element() != sample.value_type() {
        return Err(Error::invalid_input(format!(
            "vectors of {dimension} times {}, the centroids are of {} times {}",
            sample.value_type(),
            centroids.dimension(),
            centroids.element()
        )));
    }
    if !matches!(metric, Metric::L2 | Metric::Cosine | Metric::Dot) {
        return Err(Error::invalid_input(format!(
            "product quantization does not support the metric {metric}"
        )));
    }
    let usable = UsableVectors::of(sample, metric)?;
    if usable.rows.len() < codes {
        return Ok(None);
    }
    let most = usize::try_from(options.sample_rate.max(1)).unwrap_or(usize::MAX).saturating_mul(codes);
    let vectors = VectorsView::all(&usable.values, dimension);
    let chosen = (most < vectors.len())
        .then(|| gathered(vectors, Random::new(options.seed).choose(most, vectors.len())));
    let residuals = residuals(chosen.as_ref().unwrap_or(&usable.values), &centroids, metric, options.threads);
    let width = dimension / count;
    let mut codebook: Vec<f64> = Vec::with_capacity(codes * dimension);
    for (number, start) in (0_u32..).zip((0..dimension).step_by(width)) {
        progress(number, num_sub_vectors)?;
        // They are read in many passes, so they shall lie next to each other.
        let view = VectorsView { values: &residuals, dimension, start, width };
        let part = gathered(view, 0..view.len());
        let view = VectorsView::all(&part, width);
        let options = ClusterOptions { seed: options.seed.wrapping_add(start as u64), ..options };
        codebook.extend(clusters(view, codes, Metric::L2, options, &mut |_| Ok(()))?.centroids);
    }
    progress(num_sub_vectors, num_sub_vectors)?;
    let values = Values::like(&usable.values, codebook);
    Ok(Some(Matrix::try_new(centroids.element(), dimension, values)?.to_lists()?))
}

/// The least and the greatest element of vectors; `None` if there are no vectors that an index can hold.
pub fn train_bounds(sample: &FixedSizeListArray, metric: Metric) -> Result<Option<(f64, f64)>> {
    let usable = UsableVectors::of(sample, metric)?;
    let bounds = |bounds: Option<(f64, f64)>, value: f64| {
        let (low, high) = bounds.unwrap_or((value, value));
        Some((low.min(value), high.max(value)))
    };
    Ok(match &usable.values {
        Values::F32(values) => values.iter().map(|value| f64::from(*value)).fold(None, bounds),
        Values::F64(values) => values.iter().copied().fold(None, bounds),
        Values::U8(_) => return Err(Error::invalid_input("scalar quantization of uint8 vectors")),
    })
}

/// What product quantization encodes: the vectors, or their differences from the nearest centroid.
fn residuals(vectors: &Values, centroids: &Matrix, metric: Metric, threads: usize) -> Values {
    if metric == Metric::Dot {
        return vectors.clone();
    }
    let dimension = centroids.dimension();
    let view = VectorsView::all(vectors, dimension);
    let of_partitions = centroids.values().to_f64();
    let assigned = kmeans::prepared(&of_partitions, dimension, metric).assign(view, threads);
    let mut residuals = Vec::with_capacity(vectors.len());
    for (row, assigned) in assigned.iter().enumerate() {
        let start = assigned.centroid as usize * dimension;
        let centroid = of_partitions.get(start..start + dimension).unwrap_or_default();
        view.for_each(row, |at, value| {
            residuals.push(narrowed(value - centroid.get(at).copied().unwrap_or(0.0)));
        });
    }
    Values::F32(residuals.into())
}

fn dimension(vectors: &FixedSizeListArray) -> Result<usize> {
    let dimension = usize::try_from(vectors.value_length()).ok().filter(|dimension| *dimension > 0);
    dimension.ok_or_else(|| Error::invalid_input("vectors without elements"))
}
