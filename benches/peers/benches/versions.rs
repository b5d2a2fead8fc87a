//! Version sequences: a fragment whose rows were created in a thousand commits.

use criterion::{Criterion, criterion_group, criterion_main};
use lance_table::rowids::segment::U64Segment;
use lance_table::rowids::version::{
    RowDatasetVersionRun, RowDatasetVersionSequence as Reference, rechunk_version_sequences,
};
use pennon_core::Version;
use pennon_core::deletion::DeletionVector;
use pennon_core::rows::VersionSequence;
use pennon_peers::{MILLION, criterion};

const RUNS: u64 = 1000;

fn mask_and_concatenate(c: &mut Criterion) {
    let length = MILLION / RUNS;
    let mut ours = VersionSequence::default();
    let mut runs = Vec::new();
    for run in 0..RUNS {
        ours.push(length, Version(run + 1));
        runs.push(RowDatasetVersionRun {
            span: U64Segment::Range(run * length..(run + 1) * length),
            version: run + 1,
        });
    }
    let theirs = Reference { runs };
    let mut random = fastrand::Rng::with_seed(5);
    let deleted: Vec<u32> = (0..MILLION as u32).filter(|_| random.f32() < 0.1).collect();
    let vector: DeletionVector = deleted.iter().copied().collect();
    let live = 2 * (MILLION - deleted.len() as u64);

    let ours_masked = || {
        let mut whole = ours.mask(&vector);
        let again = ours.mask(&vector);
        whole.append(&again);
        whole
    };
    let theirs_masked = || {
        let parts = [0, 1].map(|_| {
            let mut part = theirs.clone();
            part.mask(deleted.iter().copied()).unwrap();
            part
        });
        rechunk_version_sequences(parts, [live], false).unwrap()
    };
    assert_eq!(ours_masked().len(), live);
    assert_eq!(ours_masked().runs().count() as u64, 2 * RUNS);
    let mut group = c.benchmark_group("mask 1 M rows in 1,000 version runs by 10 %, twice, and concatenate");
    group.bench_function("pennon", |b| b.iter(ours_masked));
    group.bench_function("reference", |b| b.iter(theirs_masked));
    group.finish();
}

criterion_group!(name = benches; config = criterion(); targets = mask_and_concatenate);
criterion_main!(benches);
