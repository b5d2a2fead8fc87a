use std::sync::{Arc, Mutex};

use arrow_array::FixedSizeListArray;
use arrow_schema::DataType;
use pennon_core::ErrorKind;
use pennon_core::file::FileVersion;
use pennon_core::{Error, Result};

use super::*;
use crate::vector::testing::{Files, built, lists, model, random_vectors, search_all};
use crate::vector::{DistanceRange, Metric, VectorIndex, VectorIndexKind, VectorModel};

/// Every kind of codes.
const CODES: [(VectorIndexKind, (u32, u32)); 7] = [
    (VectorIndexKind::IvfFlat, (8, 1)),
    (VectorIndexKind::IvfPq, (8, 2)),
    (VectorIndexKind::IvfPq, (4, 4)),
    (VectorIndexKind::IvfSq, (8, 1)),
    (VectorIndexKind::IvfHnswFlat, (8, 1)),
    (VectorIndexKind::IvfHnswPq, (4, 2)),
    (VectorIndexKind::IvfHnswSq, (8, 1)),
];

#[derive(Debug, Clone, Default)]
struct Spill(Arc<Mutex<Vec<u8>>>);

impl SpillFile for Spill {
    fn append(&mut self, bytes: &[u8]) -> Result<()> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(())
    }

    fn read(&self, offset: u64, length: usize) -> Result<Vec<u8>> {
        let start = usize::try_from(offset).unwrap();
        let bytes = self.0.lock().unwrap();
        bytes.get(start..start + length).map(<[u8]>::to_vec).ok_or_else(|| Error::store("not there"))
    }
}

fn rows_by_three(range: std::ops::Range<u64>) -> Vec<u64> {
    range.map(|row| row * 3).collect()
}

/// All rows of all partitions with what their codes stand for.
fn contents(index: &VectorIndex) -> Vec<(u32, Vec<u64>, FixedSizeListArray)> {
    let all: Vec<u32> = (0..u32::try_from(index.num_partitions()).unwrap()).collect();
    let partitions = index.read(&all).unwrap();
    partitions.iter().map(|p| (p.number(), p.row_ids().to_vec(), index.vectors(p).unwrap())).collect()
}

fn finished(builder: VectorIndexBuilder, inherited: &[Inherited<'_>]) -> (VectorIndex, u64) {
    let (files, rows) =
        builder.finish(Vec::new(), Vec::new(), FileVersion::V2_2, inherited, &mut |_, _| Ok(())).unwrap();
    (Files::of(files).open().unwrap(), rows)
}

#[test]
fn parts_and_spills_and_threads_make_no_difference() {
    let vectors = random_vectors(&DataType::Float32, 8, 900, 1);
    for (kind, codes) in CODES {
        let model = Arc::new(model(kind, Metric::Cosine, &vectors, 5, codes));
        let expected = built(model.as_ref().clone(), &vectors);
        let expected = contents(&expected.open().unwrap());
        let spill = Spill::default();
        let file: Box<dyn SpillFile> = Box::new(spill.clone());
        let options = BuildOptions { threads: 2, memory_limit: 2000, spill: Some(file) };
        let mut builder = VectorIndexBuilder::new(model, options);
        // The last first: rows of a partition are sorted.
        for start in [600, 300, 0] {
            let rows = rows_by_three(start..start + 300);
            builder.add(&vectors.slice(usize::try_from(start).unwrap(), 300), &rows).unwrap();
        }
        let (index, rows) = finished(builder, &[]);
        assert_eq!((rows, index.num_rows()), (900, 900));
        assert!(!spill.0.lock().unwrap().is_empty());
        assert_eq!(contents(&index), expected, "{kind}");
        for (_, ids, _) in contents(&index) {
            assert!(ids.is_sorted());
        }
    }
}

#[test]
fn versions_of_files_make_no_difference() {
    let vectors = random_vectors(&DataType::Float32, 8, 300, 1);
    for (kind, codes) in CODES {
        let model = Arc::new(model(kind, Metric::L2, &vectors, 3, codes));
        let expected = contents(&built(model.as_ref().clone(), &vectors).open().unwrap());
        for version in [FileVersion::V2_0, FileVersion::V2_1] {
            let mut builder = VectorIndexBuilder::new(Arc::clone(&model), BuildOptions::default());
            builder.add(&vectors, &rows_by_three(0..300)).unwrap();
            let (files, _) =
                builder.finish(Vec::new(), Vec::new(), version, &[], &mut |_, _| Ok(())).unwrap();
            let index = Files::of(files).open().unwrap();
            assert_eq!(contents(&index), expected, "{kind} {version}");
            assert!(index.model().is_mergeable_with(&model));
            assert_eq!(index.model().loss(), model.loss());
            assert!(index.memory_bytes() > 0);
        }
    }
}

#[test]
fn merged_indices_are_as_if_built_at_once() {
    let vectors = random_vectors(&DataType::Float16, 8, 900, 2);
    for (kind, codes) in CODES {
        for metric in [Metric::L2, Metric::Dot] {
            let model = Arc::new(model(kind, metric, &vectors, 4, codes));
            let part = |start: u64, len: u64| {
                let mut builder = VectorIndexBuilder::new(Arc::clone(&model), BuildOptions::default());
                let of_part = vectors.slice(usize::try_from(start).unwrap(), usize::try_from(len).unwrap());
                builder.add(&of_part, &rows_by_three(start..start + len)).unwrap();
                builder
            };
            let (first, _) = finished(part(0, 400), &[]);
            let (second, _) = finished(part(400, 300), &[]);
            let same = |id: u64| Some(id);
            let others = [&second, &first].map(|index| Inherited { index, remap: &same });
            let (merged, rows) = finished(part(700, 200), &others);
            let (expected, _) = finished(part(0, 900), &[]);
            assert_eq!(rows, 900);
            assert_eq!(contents(&merged), contents(&expected), "{kind} {metric}");

            // Some rows are left out, and the others get other rows_by_three, in another order.
            let remap = |id: u64| (id.is_multiple_of(2)).then_some(10_000 - id);
            let empty = VectorIndexBuilder::new(Arc::clone(&model), BuildOptions::default());
            let (changed, rows) = finished(empty, &[Inherited { index: &merged, remap: &remap }]);
            assert_eq!(rows, 450);
            let query = random_vectors(&DataType::Float16, 8, 1, 3).value(0);
            let all = search_all(&merged, &query, 1000, DistanceRange::default());
            let mut expected: Vec<_> = all.into_iter().filter(|row| row.id.is_multiple_of(2)).collect();
            expected.iter_mut().for_each(|row| (row.id, row.address) = (10_000 - row.id, 10_000 - row.id));
            expected.sort_unstable();
            assert_eq!(search_all(&changed, &query, 1000, DistanceRange::default()), expected);
        }
    }
}

#[test]
fn indices_of_other_models_are_not_merged() {
    let vectors = random_vectors(&DataType::Float32, 4, 300, 2);
    let index =
        built(model(VectorIndexKind::IvfFlat, Metric::L2, &vectors, 2, (8, 1)), &vectors).open().unwrap();
    let other = model(VectorIndexKind::IvfFlat, Metric::L2, &vectors, 3, (8, 1));
    let builder = VectorIndexBuilder::new(Arc::new(other), BuildOptions::default());
    let same = |id: u64| Some(id);
    let inherited = [Inherited { index: &index, remap: &same }];
    let error = builder
        .finish(Vec::new(), Vec::new(), FileVersion::V2_2, &inherited, &mut |_, _| Ok(()))
        .unwrap_err();
    assert!(error.to_string().contains("IVF centroids mismatch"), "{error}");
}

#[test]
fn vectors_that_no_index_has_are_left_out() {
    let values = vec![
        Some(1.0),
        Some(2.0), // row 0
        None,
        None, // 1, null
        Some(1.0),
        None, // 2, a null element
        Some(f64::NAN),
        Some(1.0), // 3
        Some(0.0),
        Some(0.0), // 4, without length
        Some(f64::INFINITY),
        Some(1.0), // 5
        Some(3.0),
        Some(1.0), // 6
    ];
    let valid = vec![true, false, true, true, true, true, true];
    for element in [DataType::Float16, DataType::Float32, DataType::Float64] {
        let vectors = lists(&element, 2, values.clone(), Some(valid.clone())).slice(0, 7);
        for (metric, expected) in
            [(Metric::L2, vec![0, 12, 18]), (Metric::Cosine, vec![0, 18]), (Metric::Dot, vec![0, 12, 18])]
        {
            let sample = random_vectors(&element, 2, 300, 4);
            let model = Arc::new(model(VectorIndexKind::IvfFlat, metric, &sample, 2, (8, 1)));
            let mut builder = VectorIndexBuilder::new(model, BuildOptions::default());
            assert_eq!(builder.add(&vectors, &rows_by_three(0..7)).unwrap(), expected.len());
            let (index, _) = finished(builder, &[]);
            let mut ids: Vec<u64> = contents(&index).into_iter().flat_map(|(_, ids, _)| ids).collect();
            ids.sort_unstable();
            assert_eq!(ids, expected, "{element} {metric}");
        }
    }
}

#[test]
fn an_index_without_rows() {
    let sample = random_vectors(&DataType::Float32, 4, 300, 4);
    for (kind, codes) in CODES {
        let model = Arc::new(model(kind, Metric::L2, &sample, 3, codes));
        let (index, rows) = finished(VectorIndexBuilder::new(model, BuildOptions::default()), &[]);
        assert_eq!((rows, index.num_rows(), index.num_partitions()), (0, 0, 3));
        let query = sample.value(0);
        assert!(search_all(&index, &query, 5, DistanceRange::default()).is_empty());
    }
}

#[test]
fn vectors_that_do_not_fit() {
    let vectors = random_vectors(&DataType::Float32, 4, 300, 2);
    let model = Arc::new(model(VectorIndexKind::IvfSq, Metric::L2, &vectors, 2, (8, 1)));
    let mut builder = VectorIndexBuilder::new(model, BuildOptions::default());
    let mut error = |vectors: &FixedSizeListArray, rows: &[u64]| {
        let error = builder.add(vectors, rows).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput);
        error.to_string()
    };
    assert!(error(&random_vectors(&DataType::Float64, 4, 1, 1), &[0]).contains("4 times Float64"));
    assert!(error(&random_vectors(&DataType::Float32, 5, 1, 1), &[0]).contains("5 times Float32"));
    assert!(error(&vectors.slice(0, 2), &[0]).contains("2 vectors of 1 rows"));
}

#[test]
fn new_vectors_beyond_the_bounds_saturate() {
    let sample = lists(&DataType::Float32, 1, vec![Some(0.0), Some(255.0)], None);
    let model = model(VectorIndexKind::IvfSq, Metric::L2, &sample, 1, (8, 1));
    assert_eq!(model.bounds(), Some((0.0, 255.0)));
    let vectors = lists(&DataType::Float32, 1, [-5.0, 0.0, 3.7, 254.9, 300.0].map(Some).to_vec(), None);
    let index = built(model, &vectors).open().unwrap();
    let expected = lists(&DataType::Float32, 1, [0.0, 0.0, 3.0, 254.0, 255.0].map(Some).to_vec(), None);
    assert_eq!(contents(&index)[0].2.values(), expected.values());
}

#[test]
fn partitions_are_written_once_and_all() {
    let sample = random_vectors(&DataType::Float32, 4, 300, 2);
    let model = Arc::new(model(VectorIndexKind::IvfFlat, Metric::L2, &sample, 2, (8, 1)));
    let writer =
        || VectorIndexWriter::try_new(Arc::clone(&model), Vec::new(), Vec::new(), FileVersion::V2_2).unwrap();
    let mut early = writer();
    early.write(PartitionRows::default()).unwrap();
    assert_eq!(early.finish().unwrap_err().kind(), ErrorKind::Internal);
    let mut late = writer();
    (0..2).for_each(|_| late.write(PartitionRows::default()).unwrap());
    assert!(late.write(PartitionRows::default()).is_err());
    assert!(late.finish().is_ok());
}

#[test]
fn models_from_what_the_caller_has() {
    let sample = random_vectors(&DataType::Float32, 4, 300, 2);
    let trained = model(VectorIndexKind::IvfPq, Metric::L2, &sample, 2, (8, 2));
    let (codebook, num_bits, num_sub_vectors) = trained.codebook().unwrap().unwrap();
    let centroids = trained.centroids().unwrap();
    let of = |kind, metric, storage| VectorModel::try_new(kind, metric, &centroids, storage);
    let product = crate::vector::VectorStorage::Product { codebook: &codebook, num_bits, num_sub_vectors };
    let same = of(VectorIndexKind::IvfPq, Metric::L2, product).unwrap();
    assert!(same.is_mergeable_with(&trained));
    let flat = crate::vector::VectorStorage::Flat;
    assert!(of(VectorIndexKind::IvfFlat, Metric::L2, flat).is_ok());
    for (kind, metric, storage) in [
        (VectorIndexKind::IvfFlat, Metric::L2, product),
        (VectorIndexKind::IvfPq, Metric::L2, flat),
        (VectorIndexKind::IvfFlat, Metric::Hamming, flat),
        (VectorIndexKind::IvfSq, Metric::L2, crate::vector::VectorStorage::Scalar { low: 1.0, high: 0.0 }),
    ] {
        assert_eq!(of(kind, metric, storage).unwrap_err().kind(), ErrorKind::InvalidInput, "{kind} {metric}");
    }
}
