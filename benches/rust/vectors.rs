//! Distances of vectors, each compared with a sum of as many floats, which is what memory allows: all vectors of a
//! column, and partitions of indices in memory. One thread.
//!
//! `cargo bench --profile dist -p pennon-index`, or with a part of a claim to measure only those. The sides take turns,
//! times are medians.

mod measure;
mod memory_files;

use std::error::Error;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::Float32Type;
use arrow_array::{ArrayRef, FixedSizeListArray, Float32Array};
use arrow_cast::cast;
use arrow_schema::{DataType, Field};
use measure::compare;
use memory_files::MemoryFiles;
use pennon_core::file::FileVersion;
use pennon_index::{
    BuildOptions, ClusterOptions, DistanceRange, Metric, Neighbors, RowMask, VectorIndex, VectorIndexBuilder,
    VectorIndexKind, VectorModel, VectorQuery, VectorStorage, train_bounds, train_centroids, train_codebook,
};

/// Elements of a vector.
const DIMENSION: usize = 128;
/// Vectors: more bytes than caches have.
const ROWS: usize = 200_000;

type Done = Result<(), Box<dyn Error>>;

fn main() -> Done {
    println!("{:<44}{:>12}{:>12}{:>8}  rate", "claim", "pennon", "sum", "ratio");
    let vectors = vectors(DataType::Float32, ROWS)?;
    let query = vectors.value(ROWS / 2);
    columns(&vectors, &query)?;
    indices(&vectors, &query)
}

/// Numbers without order, from 0 to 1.
fn floats(count: usize) -> Vec<f32> {
    let mut state = 1_u32;
    let mut next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        f32::from(u16::try_from(state >> 16).unwrap_or(0)) / 65_536.0
    };
    (0..count).map(|_| next()).collect()
}

fn vectors(element: DataType, rows: usize) -> Result<FixedSizeListArray, Box<dyn Error>> {
    let values = cast(&Float32Array::from(floats(rows * DIMENSION)), &element)?;
    let field = Arc::new(Field::new("item", element, true));
    Ok(FixedSizeListArray::try_new(field, i32::try_from(DIMENSION)?, values, None)?)
}

/// The sum of floats, with sums enough for all registers.
fn sum(values: &[f32]) -> f32 {
    let (chunks, _) = values.as_chunks::<64>();
    let mut sums = [0.0_f32; 64];
    for chunk in chunks {
        sums.iter_mut().zip(chunk).for_each(|(sum, value)| *sum += value);
    }
    sums.into_iter().sum()
}

fn columns(vectors: &FixedSizeListArray, query: &ArrayRef) -> Done {
    let values = vectors.values().as_primitive::<Float32Type>().values();
    for metric in [Metric::L2, Metric::Cosine, Metric::Dot] {
        let query = VectorQuery::new(metric, &DataType::Float32, DIMENSION, query)?;
        let claim = format!("all of float32 x {DIMENSION} by {metric}");
        compare(&claim, values.len() * 4, "GB/s", || query.distances(vectors), || sum(values));
    }
    for element in [DataType::Float16, DataType::Float64] {
        let vectors = self::vectors(element.clone(), ROWS / 4)?;
        let query = VectorQuery::new(Metric::L2, &element, DIMENSION, query)?;
        let size = ROWS / 4 * DIMENSION * element.primitive_width().unwrap_or(1);
        let floats = values.get(..size / 4).unwrap_or_default();
        let claim = format!("all of {element} x {DIMENSION} by l2");
        compare(&claim, size, "GB/s", || query.distances(&vectors), || sum(floats));
    }
    Ok(())
}

fn indices(vectors: &FixedSizeListArray, query: &ArrayRef) -> Done {
    let (metric, options) = (Metric::L2, ClusterOptions { max_iterations: 5, ..ClusterOptions::default() });
    let sample = vectors.slice(0, 4096);
    let nothing = || "too few vectors";
    let (centroids, _) =
        train_centroids(&sample, metric, 8, options, &mut |_, _| Ok(()))?.ok_or_else(nothing)?;
    let codebook = |codes| train_codebook(&sample, metric, &centroids, codes, options, &mut |_, _| Ok(()));
    let [bytes, halves] = [(8, 16), (4, 32)].map(codebook);
    let (bytes, halves) = (bytes?.ok_or_else(nothing)?, halves?.ok_or_else(nothing)?);
    let (low, high) = train_bounds(&sample, metric)?.ok_or_else(nothing)?;
    let product =
        |codebook, num_bits, num_sub_vectors| VectorStorage::Product { codebook, num_bits, num_sub_vectors };
    let cases = [
        ("as they are", VectorIndexKind::IvfFlat, VectorStorage::Flat),
        ("in 16 bytes by product quantization", VectorIndexKind::IvfPq, product(&bytes, 8, 16)),
        ("in 32 half bytes by product quantization", VectorIndexKind::IvfPq, product(&halves, 4, 32)),
        ("by scalar quantization", VectorIndexKind::IvfSq, VectorStorage::Scalar { low, high }),
    ];
    for (claim, kind, storage) in cases {
        let model = VectorModel::try_new(kind, metric, &centroids, storage)?;
        let mut builder = VectorIndexBuilder::new(Arc::new(model), BuildOptions::default());
        let rows: Vec<u64> = (0..ROWS as u64).collect();
        builder.add(vectors, &rows)?;
        let (files, _) =
            builder.finish(Vec::new(), Vec::new(), FileVersion::STABLE, &[], &mut |_, _| Ok(()))?;
        let size = files.iter().map(|file| file.sink.len()).max().unwrap_or(0);
        let index = VectorIndex::open(MemoryFiles::of(files))?;
        let partitions = index.read(&(0..8).collect::<Vec<_>>())?;
        let query = index.prepare(query)?;
        let search = || -> pennon_core::Result<Neighbors> {
            let mut nearest = Neighbors::new(10, DistanceRange::default());
            for partition in &partitions {
                index.search(&query, partition, RowMask::All, &mut nearest)?;
            }
            Ok(nearest)
        };
        let values = vectors.values().as_primitive::<Float32Type>().values();
        let floats = values.get(..size.min(values.len() * 4) / 4).unwrap_or_default();
        compare(&format!("index {claim}"), ROWS, "G rows/s", search, || sum(floats));
    }
    Ok(())
}
