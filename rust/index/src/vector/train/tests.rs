use arrow_array::cast::AsArray;
use arrow_array::types::{Float32Type, UInt8Type};
use arrow_array::{Array, FixedSizeListArray};
use arrow_schema::DataType;
use pennon_core::{Error, ErrorKind};
use proptest::prelude::*;

use super::assign::Centroids;
use super::*;
use crate::vector::Metric;
use crate::vector::matrix::{Values, narrowed};
use crate::vector::random::Random;
use crate::vector::rows::VectorsView;
use crate::vector::testing::{lists, random_vectors};

fn floats(vectors: &FixedSizeListArray) -> Vec<f32> {
    vectors.values().as_primitive::<Float32Type>().values().to_vec()
}

proptest! {
    #[test]
    fn the_nearest_centroid_is_that_of_a_plain_loop(
        dimension in 1_usize..50,
        count in 1_usize..100,
        rows in 1_usize..60,
        far in prop::sample::select(vec![0.0, 1000.0]),
        is_dot in any::<bool>(),
        double in any::<bool>(),
        threads in 1_usize..4,
        seed in any::<u64>(),
    ) {
        let mut random = Random::new(seed);
        let mut random_floats = |len: usize| -> Vec<f64> {
            (0..len).map(|_| f64::from(narrowed(random.unit() + far))).collect()
        };
        let (centroids, vectors) = (random_floats(count * dimension), random_floats(rows * dimension));
        let values = if double {
            Values::F64(vectors.clone().into())
        } else {
            Values::F32(vectors.iter().map(|v| narrowed(*v)).collect::<Vec<f32>>().into())
        };
        let prepared = Centroids::of_floats(&centroids, dimension, is_dot);
        let found = prepared.assign(VectorsView::all(&values, dimension), threads);
        prop_assert_eq!(found.len(), rows);
        for (vector, found) in vectors.chunks_exact(dimension).zip(found) {
            let distance = |centroid: &[f64]| centroid.iter().zip(vector).map(|(a, b)| (a - b) * (a - b)).sum::<f64>();
            let product = |centroid: &[f64]| -centroid.iter().zip(vector).map(|(a, b)| a * b).sum::<f64>();
            let of = |centroid: &[f64]| if is_dot { product(centroid) } else { distance(centroid) };
            let best = centroids.chunks_exact(dimension).map(of).fold(f64::INFINITY, f64::min);
            let chosen = centroids.chunks_exact(dimension).nth(found.centroid as usize).unwrap();
            let scale = vector.iter().map(|v| v * v).sum::<f64>();
            let tolerance = if is_dot { 1e-5 * scale } else { 1e-5 * dimension as f64 };
            prop_assert!(of(chosen) <= best + tolerance, "{} instead of {}", of(chosen), best);
            let tolerance = if is_dot { 1e-5 * scale.max(1.0) } else { tolerance };
            prop_assert!((f64::from(found.distance) - distance(chosen)).abs() <= tolerance);
        }
    }

    #[test]
    fn clusters_are_those_of_the_seed_for_any_threads(seed in any::<u64>(), threads in 2_usize..5) {
        let vectors = random_vectors(&DataType::Float32, 6, 900, seed);
        let train = |threads| {
            let options = ClusterOptions { max_iterations: 5, seed, threads, ..ClusterOptions::default() };
            train_centroids(&vectors, Metric::L2, 5, options, &mut |_, _| Ok(())).unwrap().unwrap()
        };
        prop_assert_eq!(train(1), train(threads));
    }
}

#[test]
fn clusters_that_are_apart_are_found() {
    // Eight points, each 200 times with a little noise.
    let mut random = Random::new(3);
    let values = (0..1600_usize).flat_map(|row| {
        let corner = row % 8;
        [0, 1, 2].map(|bit| (corner >> bit & 1) as f64 * 100.0 + random.unit())
    });
    let vectors = lists(&DataType::Float32, 3, values.map(Some).collect(), None);
    let mut passes = Vec::new();
    let mut progress = |pass, most| {
        passes.push((pass, most));
        Ok(())
    };
    let options = ClusterOptions { max_iterations: 40, seed: 1, threads: 2, ..ClusterOptions::default() };
    let mut best = f64::INFINITY;
    for seed in 0..4 {
        let options = ClusterOptions { seed, ..options };
        let (centroids, loss) =
            train_centroids(&vectors, Metric::L2, 12, options, &mut progress).unwrap().unwrap();
        assert_eq!(centroids.len(), 12);
        best = best.min(loss);
    }
    // The noise alone is 0.25 a vector.
    assert!(best < 1600.0, "{best}");
    assert!(passes.iter().all(|(pass, most)| (1..=40).contains(pass) && *most == 40));
    assert_eq!(passes.first(), Some(&(1, 40)));
}

#[test]
fn a_codebook_of_no_more_vectors_than_asked_for() {
    let vectors = random_vectors(&DataType::Float32, 4, 3000, 6);
    let zero = lists(&DataType::Float32, 4, vec![Some(0.0); 4], None);
    let options = ClusterOptions { sample_rate: 1, ..ClusterOptions::default() };
    let found = train_codebook(&vectors, Metric::L2, &zero, (4, 2), options, &mut |_, _| Ok(())).unwrap();
    // 16 vectors for as many codes, so each code is a part of one of them.
    let parts: Vec<[f32; 2]> = floats(&vectors).as_chunks::<2>().0.to_vec();
    assert!(floats(&found.unwrap()).as_chunks::<2>().0.iter().all(|code| parts.contains(code)));
}

#[test]
fn who_hears_of_the_training_can_end_it() {
    let vectors = random_vectors(&DataType::Float32, 8, 2000, 9);
    let options = ClusterOptions { max_iterations: 40, ..ClusterOptions::default() };
    let mut heard = 0;
    let mut ended = |done, _| {
        heard += 1;
        if done < 2 { Ok(()) } else { Err(Error::invalid_input("enough")) }
    };
    let error = train_centroids(&vectors, Metric::L2, 12, options, &mut ended).unwrap_err();
    assert_eq!((error.to_string().contains("enough"), heard), (true, 2));
    let mut never = |_, _| Ok(());
    let (centroids, _) = train_centroids(&vectors, Metric::L2, 2, options, &mut never).unwrap().unwrap();
    let mut heard = 0;
    let mut ended = |done, _| {
        heard += 1;
        if done < 2 { Ok(()) } else { Err(Error::invalid_input("enough")) }
    };
    let error = train_codebook(&vectors, Metric::L2, &centroids, (8, 4), options, &mut ended).unwrap_err();
    assert_eq!((error.to_string().contains("enough"), heard), (true, 3));
}

#[test]
fn the_loss_is_less_with_more_clusters_and_no_cluster_is_empty() {
    for element in [DataType::Float16, DataType::Float32, DataType::Float64] {
        for metric in [Metric::L2, Metric::Cosine] {
            let vectors = random_vectors(&element, 12, 3000, 5);
            let mut previous = f64::INFINITY;
            for partitions in [1, 4, 16, 64] {
                let options = ClusterOptions { max_iterations: 20, ..ClusterOptions::default() };
                let trained =
                    train_centroids(&vectors, metric, partitions, options, &mut |_, _| Ok(())).unwrap();
                let (centroids, loss) = trained.unwrap();
                assert_eq!((centroids.len(), centroids.value_type()), (partitions, element.clone()));
                assert!(loss < previous, "{loss} with {partitions}, before {previous}");
                previous = loss;
            }
        }
    }
}

#[test]
fn centroids_of_the_inner_product_have_length_1() {
    let vectors = random_vectors(&DataType::Float32, 5, 500, 8);
    let trained = train_centroids(&vectors, Metric::Dot, 6, ClusterOptions::default(), &mut |_, _| Ok(()));
    let (centroids, _) = trained.unwrap().unwrap();
    for centroid in floats(&centroids).chunks_exact(5) {
        let length = centroid.iter().map(|v| v * v).sum::<f32>().sqrt();
        assert!((length - 1.0).abs() < 1e-5, "{length}");
    }
}

#[test]
fn centroids_of_bytes_have_the_more_frequent_bits() {
    let values = [0b1100, 0b1101, 0b0100, 0xf0, 0xf0, 0xf1].map(|v| Some(f64::from(v)));
    let vectors = lists(&DataType::UInt8, 1, values.to_vec(), None);
    let of = |seed| {
        let options = ClusterOptions { seed, ..ClusterOptions::default() };
        let (centroids, loss) =
            train_centroids(&vectors, Metric::Hamming, 2, options, &mut |_, _| Ok(())).unwrap().unwrap();
        let mut bytes = centroids.values().as_primitive::<UInt8Type>().values().to_vec();
        bytes.sort_unstable();
        (bytes, loss)
    };
    assert!((0..8).map(of).any(|found| found == (vec![0b1100, 0xf0], 3.0)));
}

#[test]
fn fewer_vectors_than_wanted() {
    let none =
        lists(&DataType::Float32, 2, vec![None, None, Some(f64::NAN), Some(1.0)], Some(vec![false, true]));
    let options = ClusterOptions::default();
    let centroids = |vectors: &FixedSizeListArray, metric| {
        let trained = train_centroids(vectors, metric, 5, options, &mut |_, _| Ok(())).unwrap();
        trained.map(|(centroids, _)| centroids)
    };
    assert_eq!(centroids(&none, Metric::L2), None);
    assert_eq!(train_bounds(&none, Metric::L2).unwrap(), None);
    let zeros = lists(&DataType::Float32, 2, vec![Some(0.0); 6], None);
    assert_eq!(centroids(&zeros, Metric::Cosine), None);
    assert_eq!(centroids(&zeros, Metric::L2).unwrap().len(), 3);
    let few = random_vectors(&DataType::Float32, 4, 20, 1);
    let of_some = centroids(&few, Metric::L2).unwrap();
    let book =
        |bits, parts| train_codebook(&few, Metric::L2, &of_some, (bits, parts), options, &mut |_, _| Ok(()));
    assert_eq!(book(8, 2).unwrap(), None);
    assert_eq!(book(4, 2).unwrap().unwrap().len(), 16);
}

#[test]
fn what_cannot_be_trained() {
    let vectors = random_vectors(&DataType::Float32, 4, 300, 1);
    let options = ClusterOptions::default();
    let (centroids, _) =
        train_centroids(&vectors, Metric::L2, 2, options, &mut |_, _| Ok(())).unwrap().unwrap();
    let error = |metric, codes| {
        let error =
            train_codebook(&vectors, metric, &centroids, codes, options, &mut |_, _| Ok(())).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput);
        error.to_string()
    };
    assert!(error(Metric::L2, (8, 3)).contains("dimension (4) must be divisible by num_sub_vectors (3)"));
    assert!(error(Metric::L2, (5, 2)).contains("num_bits is 5"));
    assert!(error(Metric::L2, (4, 1)).contains("even number"));
    assert!(error(Metric::Hamming, (8, 2)).contains("hamming"));
    let none = train_centroids(&vectors, Metric::L2, 0, options, &mut |_, _| Ok(())).unwrap_err();
    assert!(none.to_string().contains("0 partitions"));
    let bits = train_centroids(&vectors, Metric::Hamming, 2, options, &mut |_, _| Ok(())).unwrap_err();
    assert!(bits.to_string().contains("does not support Float32"));
}

#[test]
fn codebooks_reduce_what_is_left() {
    let vectors = random_vectors(&DataType::Float32, 8, 2000, 9);
    let options = ClusterOptions { max_iterations: 15, ..ClusterOptions::default() };
    let (centroids, _) =
        train_centroids(&vectors, Metric::L2, 2, options, &mut |_, _| Ok(())).unwrap().unwrap();
    let mut calls = Vec::new();
    let mut progress = |done, of| {
        calls.push((done, of));
        Ok(())
    };
    let book =
        train_codebook(&vectors, Metric::L2, &centroids, (8, 4), options, &mut progress).unwrap().unwrap();
    assert_eq!((book.len(), book.value_length()), (256, 8));
    assert_eq!(calls, [(0, 4), (1, 4), (2, 4), (3, 4), (4, 4)]);
    // Sub-vectors of a sub-vector are all different: none was left without vectors.
    let values = floats(&book);
    for part in values.chunks_exact(256 * 2) {
        let mut pairs: Vec<[u32; 2]> =
            part.chunks_exact(2).map(|p| [p[0].to_bits(), p[1].to_bits()]).collect();
        pairs.sort_unstable();
        pairs.dedup();
        assert_eq!(pairs.len(), 256);
    }
}
