//! Deletion vectors: a rebase or a commit of many workers merges thousands.

use criterion::{Criterion, criterion_group, criterion_main};
use pennon_core::deletion::DeletionVector;
use pennon_peers::criterion;
use roaring::{MultiOps, RoaringBitmap};

fn union(c: &mut Criterion) {
    let mut random = fastrand::Rng::with_seed(9);
    let lists: Vec<Vec<u32>> = (0..1000)
        .map(|_| {
            let mut list: Vec<u32> = (0..10_000).map(|_| random.u32(0..50_000_000)).collect();
            list.sort_unstable();
            list.dedup();
            list
        })
        .collect();
    let ours: Vec<DeletionVector> = lists.iter().map(|list| list.iter().copied().collect()).collect();
    let roaring: Vec<RoaringBitmap> =
        lists.iter().map(|list| RoaringBitmap::from_sorted_iter(list.iter().copied()).unwrap()).collect();
    assert_eq!(DeletionVector::union_all(&ours).to_roaring(), roaring.iter().union());

    let mut group = c.benchmark_group("union of 1,000 deletion vectors of 10,000 rows");
    group.bench_function("pennon", |b| b.iter(|| DeletionVector::union_all(&ours)));
    group.bench_function("roaring", |b| b.iter(|| roaring.iter().union()));
    group.bench_function("sorted vectors", |b| {
        b.iter(|| {
            let mut all = lists.concat();
            all.sort_unstable();
            all.dedup();
            all
        });
    });
    group.finish();
}

fn small_unions(c: &mut Criterion) {
    let ours: Vec<DeletionVector> = (0..10_000_u32).map(|row| [row * 17].into_iter().collect()).collect();
    let roaring: Vec<RoaringBitmap> = (0..10_000_u32).map(|row| [row * 17].into_iter().collect()).collect();
    let mut group = c.benchmark_group("union of 10,000 deletion vectors of one row");
    group.bench_function("pennon", |b| b.iter(|| DeletionVector::union_all(&ours)));
    group.bench_function("roaring", |b| b.iter(|| roaring.iter().union()));
    group.finish();
}

criterion_group!(name = benches; config = criterion(); targets = union, small_unions);
criterion_main!(benches);
