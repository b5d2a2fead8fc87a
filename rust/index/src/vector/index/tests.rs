use std::fs;
use std::path::Path;
use std::sync::Arc;

use arrow_array::{Array, ArrayRef, FixedSizeListArray, cast::AsArray, types::Float64Type};
use arrow_cast::cast;
use arrow_schema::DataType;
use pennon_core::ErrorKind;
use proptest::prelude::*;

use super::*;
use crate::vector::testing::{Files, built, lists, model, random_vectors, search_all};
use crate::vector::{DistanceRange, Metric, Neighbor, Neighbors, VectorIndexKind, VectorQuery};

const REALS: [DataType; 3] = [DataType::Float16, DataType::Float32, DataType::Float64];
const METRICS: [Metric; 3] = [Metric::L2, Metric::Cosine, Metric::Dot];

/// The nearest rows of a column whose rows are numbered by threes.
fn brute_force(
    metric: Metric,
    vectors: &FixedSizeListArray,
    query: &ArrayRef,
    limit: usize,
) -> Vec<Neighbor> {
    let dimension = usize::try_from(vectors.value_length()).unwrap();
    let query = VectorQuery::new(metric, &vectors.value_type(), dimension, query).unwrap();
    let mut nearest = Neighbors::new(limit, DistanceRange::default());
    for (row, distance) in query.distances(vectors).unwrap().into_iter().enumerate() {
        nearest.offer(Neighbor { distance, id: row as u64 * 3, address: row as u64 * 3 });
    }
    nearest.into_sorted()
}

/// The floats of vectors.
fn floats(vectors: &FixedSizeListArray) -> Vec<Vec<f64>> {
    let dimension = usize::try_from(vectors.value_length()).unwrap();
    let values = cast(vectors.values(), &DataType::Float64).unwrap();
    let values = values.as_primitive::<Float64Type>().values().to_vec();
    values.chunks_exact(dimension).map(<[f64]>::to_vec).collect()
}

fn defined(metric: Metric, a: &[f64], b: &[f64]) -> f64 {
    let product: f64 = a.iter().zip(b).map(|(a, b)| a * b).sum();
    let length = |v: &[f64]| v.iter().map(|x| x * x).sum::<f64>().sqrt();
    match metric {
        Metric::L2 => a.iter().zip(b).map(|(a, b)| (a - b) * (a - b)).sum(),
        Metric::Dot => 1.0 - product,
        Metric::Cosine => 1.0 - product / (length(a) * length(b)),
        Metric::Hamming => unreachable!(),
    }
}

#[test]
fn all_partitions_of_vectors_as_they_are_give_what_looking_at_all_gives() {
    let cases = REALS.into_iter().flat_map(|element| METRICS.map(|metric| (element.clone(), metric)));
    for (element, metric) in cases.chain([(DataType::UInt8, Metric::Hamming)]) {
        let vectors = random_vectors(&element, 19, 500, 1);
        let queries = random_vectors(&element, 19, 5, 2);
        let model = model(VectorIndexKind::IvfFlat, metric, &vectors, 7, (8, 1));
        let index = built(model, &vectors).open().unwrap();
        assert_eq!(
            (index.kind(), index.metric(), index.element()),
            (VectorIndexKind::IvfFlat, metric, &element)
        );
        assert_eq!((index.dimension(), index.num_partitions(), index.num_rows()), (19, 7, 500));
        for query in 0..queries.len() {
            let query = queries.value(query);
            let found = search_all(&index, &query, 20, DistanceRange::default());
            let expected = brute_force(metric, &vectors, &query, 20);
            assert_eq!(found.len(), 20);
            for (found, expected) in found.iter().zip(&expected) {
                // Vectors of length 1 are rounded once more.
                let tolerance = if element == DataType::Float16 { 1e-3 } else { 1e-5 };
                assert!(
                    (found.distance - expected.distance).abs()
                        <= tolerance * expected.distance.abs().max(1.0)
                );
                assert!(found.id == expected.id || metric == Metric::Cosine && element == DataType::Float16);
            }
        }
    }
}

#[test]
fn distances_of_codes_are_those_of_what_they_stand_for() {
    for element in REALS {
        for metric in METRICS {
            let vectors = random_vectors(&element, 24, 600, 3);
            let queries = random_vectors(&element, 24, 3, 4);
            for (kind, codes) in [
                (VectorIndexKind::IvfPq, (8, 4)),
                (VectorIndexKind::IvfPq, (8, 6)),
                (VectorIndexKind::IvfPq, (8, 3)),
                (VectorIndexKind::IvfPq, (4, 8)),
                (VectorIndexKind::IvfPq, (4, 12)),
                (VectorIndexKind::IvfSq, (8, 1)),
            ] {
                let index = built(model(kind, metric, &vectors, 3, codes), &vectors).open().unwrap();
                for query in 0..queries.len() {
                    distances_are_right(&index, &queries.value(query));
                }
            }
        }
    }
}

/// Compares with vectors that are decoded one by one.
fn distances_are_right(index: &VectorIndex, query: &ArrayRef) {
    let metric = index.metric();
    let of_query = cast(query, &DataType::Float64).unwrap().as_primitive::<Float64Type>().values().to_vec();
    let length = of_query.iter().map(|x| x * x).sum::<f64>().sqrt();
    let unit = if metric == Metric::Cosine { length } else { 1.0 };
    let of_query: Vec<f64> = of_query.into_iter().map(|x| x / unit).collect();
    let prepared = index.prepare(query).unwrap();
    let all: Vec<u32> = (0..u32::try_from(index.num_partitions()).unwrap()).collect();
    for partition in index.read(&all).unwrap() {
        let decoded = floats(&index.vectors(&partition).unwrap());
        let mut nearest = Neighbors::new(1000, DistanceRange::default());
        index.search(&prepared, &partition, RowMask::All, &mut nearest).unwrap();
        let found = nearest.into_sorted();
        assert_eq!(found.len(), decoded.len());
        for found in found {
            let row = partition.row_ids().iter().position(|id| *id == found.id).unwrap();
            let of_row = &decoded[row];
            let expected = match (index.kind(), metric) {
                // The query is quantized too, which moves each element by a step at most.
                (VectorIndexKind::IvfSq, Metric::L2 | Metric::Cosine) => {
                    let (low, high) = index.model().bounds().unwrap();
                    let step = (high - low) / 255.0;
                    let of_query: Vec<f64> = of_query
                        .iter()
                        .map(|x| low + ((x - low) / step).clamp(0.0, 255.0).trunc() * step)
                        .collect();
                    defined(Metric::L2, of_row, &of_query) * if metric == Metric::Cosine { 0.5 } else { 1.0 }
                }
                (_, Metric::Cosine) => defined(Metric::L2, of_row, &of_query) / 2.0,
                _ => defined(metric, of_row, &of_query),
            };
            // What codes stand for is rounded to the type of the elements.
            let tolerance = if *index.element() == DataType::Float16 { 1e-2 } else { 1e-4 };
            let is_close =
                (f64::from(found.distance) - expected).abs() <= tolerance * expected.abs().max(1.0);
            assert!(is_close, "{} by {metric}: {} instead of {expected}", index.kind(), found.distance);
        }
    }
}

#[test]
fn distances_of_codes_are_true_ones_about() {
    let vectors = random_vectors(&DataType::Float32, 16, 2000, 5);
    let query = random_vectors(&DataType::Float32, 16, 1, 6).value(0);
    for metric in METRICS {
        let exact = brute_force(metric, &vectors, &query, 1);
        for (kind, codes) in [(VectorIndexKind::IvfPq, (8, 16)), (VectorIndexKind::IvfSq, (8, 1))] {
            let index = built(model(kind, metric, &vectors, 4, codes), &vectors).open().unwrap();
            let found = search_all(&index, &query, 1, DistanceRange::default());
            let difference = (found[0].distance - exact[0].distance).abs();
            assert!(
                difference <= 0.05 * exact[0].distance.abs().max(0.2),
                "{kind} {metric}: {found:?} {exact:?}"
            );
        }
    }
}

#[test]
fn masks_and_ranges_count_before_the_nearest_are_chosen() {
    let vectors = random_vectors(&DataType::Float32, 8, 700, 7);
    let query = random_vectors(&DataType::Float32, 8, 1, 8).value(0);
    for kind in [VectorIndexKind::IvfFlat, VectorIndexKind::IvfPq, VectorIndexKind::IvfSq] {
        let index = built(model(kind, Metric::L2, &vectors, 3, (8, 4)), &vectors).open().unwrap();
        let prepared = index.prepare(&query).unwrap();
        let all = search_all(&index, &query, 1000, DistanceRange::default());
        let is_wanted = |id: u64| (id / 3).is_multiple_of(7);
        let range = DistanceRange { lower: Some(all[30].distance), upper: Some(all[600].distance) };
        let expected: Vec<Neighbor> = all
            .iter()
            .filter(|row| is_wanted(row.id) && range.contains(row.distance))
            .take(11)
            .copied()
            .collect();
        assert_eq!(expected.len(), 11);
        let (mut by_test, mut by_bits) = (Neighbors::new(11, range), Neighbors::new(11, range));
        for partition in index.read(&[2, 0, 1]).unwrap() {
            let test = |position: usize, id: u64| {
                assert_eq!(partition.row_ids()[position], id);
                is_wanted(id)
            };
            index.search(&prepared, &partition, RowMask::Test(&test), &mut by_test).unwrap();
            let mut bits = vec![0_u64; partition.row_ids().len().div_ceil(64)];
            for (at, _) in partition.row_ids().iter().enumerate().filter(|(_, id)| is_wanted(**id)) {
                bits[at / 64] |= 1 << (at % 64);
            }
            index.search(&prepared, &partition, RowMask::Bits(&bits), &mut by_bits).unwrap();
            let mut none = Neighbors::new(11, range);
            index.search(&prepared, &partition, RowMask::Bits(&[]), &mut none).unwrap();
            assert!(none.is_empty());
        }
        assert_eq!(by_test.into_sorted(), expected, "{kind}");
        assert_eq!(by_bits.into_sorted(), expected, "{kind}");
    }
}

#[test]
fn words_of_a_mask_without_rows_are_left_out() {
    let vectors = random_vectors(&DataType::Float32, 8, 1500, 9);
    let query = random_vectors(&DataType::Float32, 8, 1, 10).value(0);
    for kind in [VectorIndexKind::IvfFlat, VectorIndexKind::IvfPq, VectorIndexKind::IvfSq] {
        let index = built(model(kind, Metric::L2, &vectors, 1, (8, 4)), &vectors).open().unwrap();
        let prepared = index.prepare(&query).unwrap();
        let partition = index.read(&[0]).unwrap().remove(0);
        let found = |mask: RowMask<'_>| {
            let mut nearest = Neighbors::new(1500, DistanceRange::default());
            index.search(&prepared, &partition, mask, &mut nearest).unwrap();
            nearest.into_sorted()
        };
        // Of the 24 words those that have rows: runs of any length, from anywhere, up to the last word, which is a
        // short one.
        for present in [0xff_ffff_u32, 0, 1, 0x80_0000, 0xff, 0x1ff, 0x00ff_7f00, 0x55_5555, 0xe0_ffe1] {
            let word =
                |at: u32| if present >> at & 1 == 1 { 0xf0f0_f0f0_0000_ffff_u64.rotate_left(at) } else { 0 };
            let words: Vec<u64> = (0..24).map(word).collect();
            let passes = |position: usize| words[position / 64] >> (position % 64) & 1 == 1;
            let expected = found(RowMask::Test(&|position, _| passes(position)));
            assert_eq!(expected.len(), (0..1500).filter(|position| passes(*position)).count());
            assert_eq!(found(RowMask::Bits(&words)), expected, "{kind} {present:x}");
        }
    }
}

#[test]
fn partitions_are_ranked_by_their_centroids() {
    let vectors = random_vectors(&DataType::Float32, 8, 300, 9);
    let query = random_vectors(&DataType::Float32, 8, 1, 10).value(0);
    for metric in METRICS {
        let index =
            built(model(VectorIndexKind::IvfFlat, metric, &vectors, 6, (8, 1)), &vectors).open().unwrap();
        let ranked = index.ranked(&index.prepare(&query).unwrap()).unwrap();
        assert_eq!(ranked.len(), 6);
        assert!(ranked.is_sorted_by(|a, b| a.1 <= b.1));
        let centroids = floats(&index.model().centroids().unwrap());
        let mut of_query = floats(&random_vectors(&DataType::Float32, 8, 1, 10)).remove(0);
        if metric == Metric::Cosine {
            let length = of_query.iter().map(|x| x * x).sum::<f64>().sqrt();
            of_query.iter_mut().for_each(|x| *x /= length);
        }
        let compared = if metric == Metric::Dot { Metric::Dot } else { Metric::L2 };
        for (partition, distance) in ranked {
            let expected = defined(compared, &centroids[partition as usize], &of_query);
            assert!((f64::from(distance) - expected).abs() < 1e-4);
        }
    }
}

#[test]
fn queries_without_distances_find_nothing() {
    let vectors = random_vectors(&DataType::Float32, 4, 300, 11);
    let query = |value: f64| lists(&DataType::Float32, 4, vec![Some(value); 4], None).value(0);
    for kind in [VectorIndexKind::IvfFlat, VectorIndexKind::IvfPq, VectorIndexKind::IvfSq] {
        let index = built(model(kind, Metric::Cosine, &vectors, 2, (8, 2)), &vectors).open().unwrap();
        for value in [0.0, f64::NAN] {
            let prepared = index.prepare(&query(value)).unwrap();
            assert!(index.ranked(&prepared).unwrap().is_empty());
            let mut nearest = Neighbors::new(10, DistanceRange::default());
            for partition in index.read(&[0, 1]).unwrap() {
                index.search(&prepared, &partition, RowMask::All, &mut nearest).unwrap();
            }
            assert!(nearest.is_empty());
        }
        assert_eq!(search_all(&index, &query(1.0), 5, DistanceRange::default()).len(), 5);
    }
}

#[test]
fn partitions_that_are_not_there() {
    let vectors = random_vectors(&DataType::Float32, 4, 30, 11);
    let index =
        built(model(VectorIndexKind::IvfFlat, Metric::L2, &vectors, 2, (8, 2)), &vectors).open().unwrap();
    assert_eq!(index.read(&[2]).unwrap_err().kind(), ErrorKind::InvalidInput);
    assert_eq!(index.partition_rows(2), 0);
    assert_eq!(index.partition_rows(0) + index.partition_rows(1), 30);
    assert!(index.read(&[]).unwrap().is_empty());
    let repeated = index.read(&[1, 1]).unwrap();
    assert_eq!(repeated[0].row_ids(), repeated[1].row_ids());
    assert!(repeated[0].memory_bytes() > 24 * repeated[0].row_ids().len());
}

/// Searches damaged files: whatever comes out is right-shaped.
fn try_search(files: Files, query: &ArrayRef) {
    let Ok(index) = files.open() else { return };
    let Ok(prepared) = index.prepare(query) else { return };
    let Ok(ranked) = index.ranked(&prepared) else { return };
    let mut nearest = Neighbors::new(10, DistanceRange::default());
    for (partition, _) in ranked {
        let Ok(read) = index.read(&[partition]) else { continue };
        for partition in read {
            drop(index.search(&prepared, &partition, RowMask::All, &mut nearest));
            if let Ok(vectors) = index.vectors(&partition) {
                assert_eq!(vectors.len(), partition.row_ids().len());
            }
        }
    }
    assert!(nearest.into_sorted().len() <= 10);
}

/// An index that the reference made, with so many bits of an element; see `tests/golden/CATALOGUE.md`.
fn rabit(bits: u8) -> Files {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../../tests/golden/index/rabit-{bits}"));
    Files([INDEX_FILE, AUXILIARY_FILE].map(|name| (name, fs::read(folder.join(name)).unwrap())).into())
}

#[test]
fn distances_of_the_codes_of_the_reference() {
    let element = |row: u16, at: u16| f64::from((37 * row + 11 * at + row * at) % 101) / 8.0;
    let vector = |row: u16| (0..16).map(|at| element(row, at)).collect::<Vec<f64>>();
    let rows: Vec<Vec<f64>> = (0..150).map(vector).collect();
    for (bits, tolerance) in [(1, 0.25), (4, 0.035), (9, 0.001)] {
        let index = rabit(bits).open().unwrap();
        assert_eq!((index.kind(), index.num_rows(), index.dimension()), (VectorIndexKind::IvfRq, 150, 16));
        let query: Vec<f64> = (0..16).map(|at| f64::from(at) * 0.7).collect();
        let values = lists(&DataType::Float32, 16, query.iter().copied().map(Some).collect(), None);
        let found = search_all(&index, &values.value(0), 150, DistanceRange::default());
        assert_eq!(found.len(), 150);
        let error = |row: &Neighbor| {
            let expected = defined(Metric::L2, &rows[usize::try_from(row.id).unwrap()], &query);
            (f64::from(row.distance) - expected).abs() / expected
        };
        let mean = found.iter().map(error).sum::<f64>() / 150.0;
        assert!(mean <= tolerance, "{bits} bits: {mean}");
    }
}

#[test]
fn damaged_codes_of_the_reference_are_an_error_or_give_rows() {
    let query = random_vectors(&DataType::Float32, 16, 1, 14).value(0);
    for bits in [1, 4, 9] {
        damage(&rabit(bits), &query, 31);
    }
}

#[test]
fn damaged_files_are_an_error_or_give_rows() {
    let vectors = random_vectors(&DataType::Float32, 4, 300, 13);
    let query = random_vectors(&DataType::Float32, 4, 1, 14).value(0);
    for (kind, codes) in [
        (VectorIndexKind::IvfFlat, (8, 1)),
        (VectorIndexKind::IvfPq, (4, 2)),
        (VectorIndexKind::IvfSq, (8, 1)),
    ] {
        damage(&built(model(kind, Metric::L2, &vectors, 3, codes), &vectors), &query, 17);
    }
}

/// Searches an index with one byte changed, in large files every so many, and with files cut off or missing.
fn damage(good: &Files, query: &ArrayRef, step: usize) {
    for name in [INDEX_FILE, AUXILIARY_FILE] {
        let len = good.0[name].len();
        let step = if len > 4000 { step } else { 5 };
        for at in (0..len).step_by(step) {
            for change in [1_u8, 0x80, 0x3f] {
                let mut files = good.clone();
                files.0.get_mut(name).unwrap()[at] ^= change;
                try_search(files, query);
            }
        }
        for end in (0..len).step_by(23) {
            let mut files = good.clone();
            files.0.get_mut(name).unwrap().truncate(end);
            let all = |index: VectorIndex| (0..2).try_for_each(|number| index.read(&[number]).map(drop));
            assert!(files.open().and_then(all).is_err(), "{name} cut at {end} of {len}");
        }
    }
    let mut files = good.clone();
    files.0.remove(AUXILIARY_FILE);
    assert!(files.open().unwrap_err().is_not_found());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn any_vectors_are_found(
        dimension in 1_usize..40,
        rows in 1_usize..300,
        partitions in 1_usize..9,
        seed in any::<u64>(),
        metric in prop::sample::select(METRICS.to_vec()),
    ) {
        let vectors = random_vectors(&DataType::Float32, dimension, rows, seed);
        let index = built(model(VectorIndexKind::IvfFlat, metric, &vectors, partitions, (8, 1)), &vectors);
        let index = index.open().unwrap();
        prop_assert_eq!(index.num_partitions(), partitions.min(rows));
        let query = random_vectors(&DataType::Float32, dimension, 1, seed ^ 1).value(0);
        let found = search_all(&index, &query, rows, DistanceRange::default());
        let expected = brute_force(metric, &vectors, &query, rows);
        let ids = |rows: &[Neighbor]| {
            let mut ids: Vec<u64> = rows.iter().map(|row| row.id).collect();
            ids.sort_unstable();
            ids
        };
        prop_assert_eq!(ids(&found), ids(&expected));
        for (found, expected) in found.iter().zip(&expected) {
            let tolerance = 1e-5 * expected.distance.abs().max(1.0);
            prop_assert!((found.distance - expected.distance).abs() <= tolerance);
        }
    }
}

#[test]
fn a_shared_index_is_searched_by_several_threads() {
    let vectors = random_vectors(&DataType::Float32, 4, 300, 15);
    let index =
        built(model(VectorIndexKind::IvfPq, Metric::L2, &vectors, 3, (8, 2)), &vectors).open().unwrap();
    let index = Arc::new(index);
    let query = random_vectors(&DataType::Float32, 4, 1, 16).value(0);
    let expected = search_all(&index, &query, 10, DistanceRange::default());
    std::thread::scope(|scope| {
        let search = || search_all(&index, &query, 10, DistanceRange::default());
        let threads = [scope.spawn(search), scope.spawn(search)];
        for thread in threads {
            assert_eq!(thread.join().unwrap(), expected);
        }
    });
}

/// Kinds with graphs, with bits and sub-vectors.
const WITH_GRAPHS: [(VectorIndexKind, (u32, u32)); 3] = [
    (VectorIndexKind::IvfHnswFlat, (8, 1)),
    (VectorIndexKind::IvfHnswSq, (8, 1)),
    (VectorIndexKind::IvfHnswPq, (8, 8)),
];

#[test]
fn graphs_lead_to_what_a_scan_finds() {
    let metrics = METRICS.map(|metric| (DataType::Float32, metric));
    for (element, metric) in metrics.into_iter().chain([(DataType::UInt8, Metric::Hamming)]) {
        let vectors = random_vectors(&element, 16, 2500, 21);
        let queries = random_vectors(&element, 16, 20, 22);
        for (kind, codes) in WITH_GRAPHS {
            if metric == Metric::Hamming && kind != VectorIndexKind::IvfHnswFlat {
                continue;
            }
            let index = built(model(kind, metric, &vectors, 1, codes), &vectors).open().unwrap();
            assert_eq!(index.graph_options().unwrap().m, 8);
            let partition = index.read(&[0]).unwrap().remove(0);
            assert_eq!(partition.graph.as_ref().unwrap().len(), 2500);
            let without = VectorPartition {
                number: 0,
                row_ids: partition.row_ids.clone(),
                codes: partition.codes.clone(),
                graph: None,
            };
            assert!(partition.memory_bytes() > without.memory_bytes());
            let (mut hits, mut all) = (0, 0);
            for query in 0..queries.len() {
                let query = index.prepare(&queries.value(query)).unwrap().with_ef(Some(100));
                let search = |partition: &VectorPartition, mask: RowMask<'_>| {
                    let mut nearest = Neighbors::new(10, DistanceRange::default());
                    index.search(&query, partition, mask, &mut nearest).unwrap();
                    nearest.into_sorted()
                };
                let half = |_: usize, id: u64| id.is_multiple_of(2);
                for mask in [RowMask::All, RowMask::Test(&half)] {
                    let (found, expected) = (search(&partition, mask), search(&without, mask));
                    assert_eq!(found.len(), 10);
                    assert!(matches!(mask, RowMask::All) || found.iter().all(|row| row.id.is_multiple_of(2)));
                    // Rows at the same distance are as good.
                    hits += found.iter().filter(|row| row.distance <= expected[9].distance).count();
                    all += 10;
                }
                let follow = |partition: &VectorPartition| {
                    let mut nearest = Neighbors::new(10, DistanceRange::default());
                    index.follow(&query, partition, &mut nearest).unwrap().then(|| nearest.into_sorted())
                };
                assert_eq!(follow(&partition), Some(search(&partition, RowMask::All)));
                assert_eq!(follow(&without), None);
                // Few rows pass: all of them are looked at.
                let few = |_: usize, id: u64| id.is_multiple_of(100);
                assert_eq!(search(&partition, RowMask::Test(&few)), search(&without, RowMask::Test(&few)));
            }
            // Where vectors are in clusters the largest products with one are in others: so it is for the reference, too.
            let least = if metric == Metric::Dot { 80 } else { 90 };
            assert!(hits * 100 >= all * least, "{kind} by {metric}: {hits} of {all}");
        }
    }
}

#[test]
fn ranges_of_distances_in_graphs() {
    let vectors = random_vectors(&DataType::Float32, 8, 3000, 23);
    let query = random_vectors(&DataType::Float32, 8, 1, 24).value(0);
    let index = built(model(VectorIndexKind::IvfHnswFlat, Metric::L2, &vectors, 1, (8, 1)), &vectors);
    let index = index.open().unwrap();
    let all = brute_force(Metric::L2, &vectors, &query, 3000);
    let range = DistanceRange { lower: Some(all[5].distance), upper: Some(all[12].distance) };
    let found = search_all(&index, &query, 20, range);
    assert_eq!(
        found.iter().map(|row| row.id).collect::<Vec<_>>(),
        all[5..12].iter().map(|row| row.id).collect::<Vec<_>>()
    );
}

#[test]
fn graphs_that_are_not_of_the_rows_are_not_used() {
    let vectors = random_vectors(&DataType::Float32, 8, 900, 25);
    let good = built(model(VectorIndexKind::IvfHnswSq, Metric::L2, &vectors, 1, (8, 1)), &vectors);
    let fewer = built(good.open().unwrap().model().as_ref().clone(), &vectors.slice(0, 700));
    let mut mixed = fewer.clone();
    mixed.0.insert(INDEX_FILE, good.0[INDEX_FILE].clone());
    let query = random_vectors(&DataType::Float32, 8, 1, 26).value(0);
    let index = mixed.open().unwrap();
    assert!(index.read(&[0]).unwrap()[0].graph.is_none());
    let expected = search_all(&fewer.open().unwrap(), &query, 700, DistanceRange::default());
    assert_eq!(search_all(&index, &query, 700, DistanceRange::default()), expected);
}

#[test]
fn damaged_graphs_are_an_error_or_give_rows() {
    let vectors = random_vectors(&DataType::Float32, 4, 400, 27);
    let query = random_vectors(&DataType::Float32, 4, 1, 28).value(0);
    let good = built(model(VectorIndexKind::IvfHnswFlat, Metric::L2, &vectors, 2, (8, 1)), &vectors);
    let len = good.0[INDEX_FILE].len();
    for at in (0..len).step_by(13) {
        for change in [1_u8, 0x80, 0x3f] {
            let mut files = good.clone();
            files.0.get_mut(INDEX_FILE).unwrap()[at] ^= change;
            let Ok(index) = files.open() else { continue };
            let Ok(prepared) = index.prepare(&query) else { continue };
            let Ok(partitions) = index.read(&[0, 1]) else { continue };
            let mut nearest = Neighbors::new(3, DistanceRange::default());
            for partition in partitions {
                drop(index.search(&prepared, &partition, RowMask::All, &mut nearest));
            }
            let found = nearest.into_sorted();
            assert!(found.windows(2).all(|pair| pair[0].id != pair[1].id), "{found:?}");
        }
    }
}
