//! The index from row ids to row addresses: preparation, look-ups, advance to the next version.

use std::collections::HashMap;
use std::sync::Arc;

use criterion::{BatchSize, BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use lance_core::utils::deletion::DeletionVector as ReferenceDeletions;
use lance_table::rowids::RowIdIndex as ReferenceIndex;
use pennon_core::deletion::DeletionVector;
use pennon_core::rows::RowIdIndex;
use pennon_core::{FragmentId, Result, RowId};
use pennon_peers::{Table, both_deletions, criterion, moved_out};

const LOOKUPS: usize = 10_000;

fn nothing_deleted(_: FragmentId) -> Result<Arc<DeletionVector>> {
    Ok(Arc::new(DeletionVector::empty()))
}

fn none_stale(_: u32) -> ReferenceDeletions {
    ReferenceDeletions::NoDeletions
}

/// Prepare and look up on both sides.
fn both(
    c: &mut Criterion,
    name: &str,
    table: &Table,
    mut deletions: impl FnMut(FragmentId) -> Result<Arc<DeletionVector>>,
    stale: &dyn Fn(u32) -> ReferenceDeletions,
) {
    let ids = table.some_ids(LOOKUPS);
    let plain: Vec<u64> = ids.iter().map(|id| id.0).collect();
    let (ours, theirs) = (table.index(), table.reference_index(stale));
    let found = ours.lookup(&ids, &mut deletions).unwrap();
    let expected = theirs.get_many(&plain).unwrap();
    for ((id, found), expected) in ids.iter().zip(&found).zip(&expected) {
        assert_eq!(found.map(|address| address.0), expected.map(u64::from), "{id}");
    }

    let mut group = c.benchmark_group(format!("prepare the index, {name}"));
    group.bench_function("pennon", |b| b.iter(|| table.index()));
    group.bench_function("reference", |b| b.iter(|| table.reference_index(stale)));
    group.finish();

    let mut group = c.benchmark_group(format!("look up 10,000 random ids, {name}"));
    group.throughput(Throughput::Elements(LOOKUPS as u64));
    group.bench_function("pennon", |b| b.iter(|| ours.lookup(&ids, &mut deletions).unwrap()));
    group.bench_function("reference", |b| b.iter(|| theirs.get_many(&plain).unwrap()));
    group.finish();
}

fn pristine(c: &mut Criterion) {
    both(c, "20,000 pristine fragments", &Table::pristine(), nothing_deleted, &none_stale);
}

fn compacted(c: &mut Criterion) {
    let table = Table::compacted();
    both(c, "20,000 compacted fragments", &table, nothing_deleted, &none_stale);

    // Bitmaps are decoded when they are hit.
    let ids = table.some_ids(10);
    let plain: Vec<u64> = ids.iter().map(|id| id.0).collect();
    let mut group = c.benchmark_group("first look-up of 10 ids, 20,000 compacted fragments");
    group.bench_function("pennon", |b| {
        let look = |index: RowIdIndex| index.lookup(&ids, &mut nothing_deleted).unwrap();
        b.iter_batched(|| table.index(), look, BatchSize::PerIteration);
    });
    group.bench_function("reference", |b| {
        let look = |index: ReferenceIndex| index.get_many(&plain).unwrap();
        b.iter_batched(|| table.reference_index(&none_stale), look, BatchSize::PerIteration);
    });
    group.finish();
}

fn moved(c: &mut Criterion) {
    let table = Table::moved();
    let (ours, theirs): (Vec<_>, Vec<_>) = moved_out(0).iter().map(|offsets| both_deletions(offsets)).unzip();
    let none = Arc::new(DeletionVector::empty());
    let deletions = |id: FragmentId| Ok(Arc::clone(ours.get(id.0 as usize).unwrap_or(&none)));
    let stale = |id: u32| theirs.get(id as usize).cloned().unwrap_or(ReferenceDeletions::NoDeletions);
    both(c, "1 M moved rows", &table, deletions, &stale);

    let (index, next) = (table.index(), table.moved_once_more());
    let theirs: Vec<_> = moved_out(1).iter().map(|offsets| both_deletions(offsets).1).collect();
    let stale = |id: u32| theirs.get(id as usize).cloned().unwrap_or(ReferenceDeletions::NoDeletions);
    let column_backed = &|_: &pennon_core::manifest::Fragment| panic!("no lineage is column-backed");
    let mut group = c.benchmark_group("go to the next version, 1 M moved rows");
    group.bench_function("pennon", |b| b.iter(|| index.advance(&next.fragments, column_backed).unwrap()));
    group.bench_function("reference", |b| b.iter(|| next.reference_index(&stale)));
    group.finish();

    hash_map(c, &table, &index);
}

/// What a plain map of the moved rows would take.
fn hash_map(c: &mut Criterion, table: &Table, index: &RowIdIndex) {
    let moved: HashMap<u64, u64> = table.fragments[1000..]
        .iter()
        .flat_map(|fragment| {
            let ids: Vec<u64> = fragment.row_id_sequence().unwrap().unwrap().iter().collect();
            let address = u64::from(fragment.id.0) << 32;
            ids.into_iter().zip(address..)
        })
        .collect();
    let mut random = fastrand::Rng::with_seed(17);
    let keys: Vec<u64> = moved.keys().copied().collect();
    let ids: Vec<RowId> = (0..LOOKUPS).map(|_| RowId(keys[random.usize(0..keys.len())])).collect();
    let none = Arc::new(DeletionVector::empty());
    let offsets = moved_out(0);
    let vectors: Vec<Arc<DeletionVector>> = offsets.iter().map(|offsets| both_deletions(offsets).0).collect();
    let mut deletions = |id: FragmentId| Ok(Arc::clone(vectors.get(id.0 as usize).unwrap_or(&none)));
    let mut group = c.benchmark_group("look up 10,000 moved rows of 1 M");
    group.throughput(Throughput::Elements(LOOKUPS as u64));
    group.bench_function("pennon", |b| b.iter(|| index.lookup(&ids, &mut deletions).unwrap()));
    group.bench_with_input(BenchmarkId::from_parameter("HashMap"), &ids, |b, ids| {
        b.iter(|| ids.iter().filter_map(|id| moved.get(&id.0)).copied().fold(0, u64::wrapping_add));
    });
    group.finish();
}

criterion_group!(name = benches; config = criterion(); targets = pristine, compacted, moved);
criterion_main!(benches);
