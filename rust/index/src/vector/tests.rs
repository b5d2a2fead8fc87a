use std::sync::Arc;

use arrow_array::{ArrayRef, FixedSizeListArray, Float32Array, UInt8Array};
use arrow_cast::cast;
use arrow_schema::{DataType, Field};
use pennon_core::ErrorKind;
use proptest::prelude::*;

use super::*;

const REALS: [DataType; 3] = [DataType::Float16, DataType::Float32, DataType::Float64];

/// Vectors of so many elements, with nulls where a row is `None`.
fn vectors(elements: ArrayRef, dimension: usize, valid: Option<Vec<bool>>) -> FixedSizeListArray {
    let field = Arc::new(Field::new("item", elements.data_type().clone(), true));
    let nulls = valid.map(Into::into);
    FixedSizeListArray::new(field, i32::try_from(dimension).unwrap(), elements, nulls)
}

fn expected(metric: Metric, vector: &[f32], query: &[f32]) -> f64 {
    let pairs = || vector.iter().zip(query).map(|(a, b)| (f64::from(*a), f64::from(*b)));
    let product: f64 = pairs().map(|(a, b)| a * b).sum();
    let [a, b] = [vector, query].map(|v| v.iter().map(|x| f64::from(*x).powi(2)).sum::<f64>().sqrt());
    match metric {
        Metric::L2 => pairs().map(|(a, b)| (a - b).powi(2)).sum(),
        Metric::Dot => 1.0 - product,
        _ => 1.0 - product / (a * b),
    }
}

proptest! {
    #[test]
    fn distances_are_those_of_their_definition(
        dimension in 1_usize..150,
        seed in prop::collection::vec(-64_i16..64, 150 * 4),
        metric in prop::sample::select(vec![Metric::L2, Metric::Cosine, Metric::Dot]),
        offset in 0_usize..2,
    ) {
        // Quarters of small whole numbers are exact in all three types.
        let values: Vec<f32> = seed.iter().map(|v| f32::from(*v) / 4.0).collect();
        let (query, rows) = values.split_at(dimension);
        let rows = &rows[..rows.len() / dimension * dimension];
        for element in REALS {
            let query_values: ArrayRef = Arc::new(Float32Array::from(query.to_vec()));
            let elements = cast(&Float32Array::from(rows.to_vec()), &element).unwrap();
            let all = vectors(elements, dimension, None);
            let start = offset.min(rows.len() / dimension);
            let all = all.slice(start, all_rows(rows, dimension) - start);
            let found = VectorQuery::new(metric, &element, dimension, &query_values).unwrap().distances(&all).unwrap();
            prop_assert_eq!(found.len(), all_rows(rows, dimension) - start);
            for (found, vector) in found.iter().zip(rows.chunks_exact(dimension).skip(start)) {
                let expected = expected(metric, vector, query);
                let close = (f64::from(*found) - expected).abs() <= 1e-5 * expected.abs().max(1.0);
                prop_assert!(close || (found.is_nan() && expected.is_nan()), "{} {}", found, expected);
            }
        }
    }

    #[test]
    fn bits_that_differ_are_counted(pairs in prop::collection::vec(any::<(u8, u8)>(), 1..100)) {
        let (vector, query): (Vec<u8>, Vec<u8>) = pairs.iter().copied().unzip();
        let expected: u32 = pairs.iter().map(|(a, b)| (a ^ b).count_ones()).sum();
        let query: ArrayRef = Arc::new(UInt8Array::from(query));
        let query = VectorQuery::new(Metric::Hamming, &DataType::UInt8, pairs.len(), &query).unwrap();
        let found = query.distances(&vectors(Arc::new(UInt8Array::from(vector)), pairs.len(), None)).unwrap();
        prop_assert_eq!(found, vec![f32::from(u16::try_from(expected).unwrap())]);
    }

    #[test]
    fn the_nearest_are_those_of_a_sort(
        rows in prop::collection::vec((prop::sample::select(vec![0.0_f32, 1.0, 2.5, f32::NAN, f32::INFINITY]), 0_u64..50), 0..60),
        limit in 0_usize..20,
        lower in prop::option::of(0.0_f32..2.0),
        upper in prop::option::of(1.0_f32..4.0),
    ) {
        let range = DistanceRange { lower, upper };
        let mut nearest = Neighbors::new(limit, range);
        let rows: Vec<Neighbor> =
            rows.into_iter().map(|(distance, id)| Neighbor { distance, id, address: id }).collect();
        rows.iter().for_each(|row| nearest.offer(*row));
        let mut expected: Vec<Neighbor> = rows.into_iter().filter(|row| range.contains(row.distance)).collect();
        expected.sort_unstable();
        expected.truncate(limit);
        prop_assert_eq!(nearest.into_sorted(), expected);
    }
}

fn all_rows(rows: &[f32], dimension: usize) -> usize {
    rows.len() / dimension
}

#[test]
fn rows_without_a_distance() {
    let elements = Float32Array::from(vec![
        Some(1.0),
        Some(0.0),
        None,
        Some(1.0),
        Some(0.0),
        Some(0.0),
        Some(f32::NAN),
        Some(1.0),
        Some(2.0),
        Some(0.0),
    ]);
    let rows = vectors(Arc::new(elements), 2, Some(vec![false, true, true, true, true]));
    let query: ArrayRef = Arc::new(Float32Array::from(vec![1.0, 0.0]));
    let of = |metric| {
        let query = VectorQuery::new(metric, &DataType::Float32, 2, &query).unwrap();
        query.distances(&rows).unwrap().into_iter().map(|d| (!d.is_nan()).then_some(d)).collect::<Vec<_>>()
    };
    assert_eq!(of(Metric::L2), [None, None, Some(1.0), None, Some(1.0)]);
    assert_eq!(of(Metric::Cosine), [None, None, None, None, Some(0.0)]);
    assert_eq!(of(Metric::Dot), [None, None, Some(1.0), None, Some(-1.0)]);
}

#[test]
fn queries_that_do_not_fit() {
    let error = |metric: Metric, element, values: Vec<Option<f32>>| {
        let values: ArrayRef = Arc::new(Float32Array::from(values));
        let error = VectorQuery::new(metric, &element, 2, &values).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput);
        error.to_string()
    };
    let unit = Some(1.0);
    assert!(error(Metric::L2, DataType::Float32, vec![unit]).contains("Query vector size 1 does not match"));
    assert!(
        error(Metric::Hamming, DataType::Float32, vec![unit, unit])
            .contains("hamming does not support Float32")
    );
    assert!(error(Metric::L2, DataType::UInt8, vec![unit, unit]).contains("l2 does not support UInt8"));
    assert!(error(Metric::L2, DataType::Float32, vec![unit, None]).contains("has nulls"));
    assert!(error(Metric::Hamming, DataType::UInt8, vec![unit, Some(-1.0)]).contains("values that UInt8"));
}

#[test]
fn names_of_metrics() {
    for metric in [Metric::L2, Metric::Cosine, Metric::Dot, Metric::Hamming] {
        assert_eq!(metric.name().to_uppercase().parse::<Metric>().unwrap(), metric);
    }
    assert_eq!("Euclidean".parse::<Metric>().unwrap(), Metric::L2);
    assert!("foo".parse::<Metric>().unwrap_err().to_string().contains("Metric type 'foo' is not supported"));
}
