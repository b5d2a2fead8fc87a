//! Sequences of row ids: encoding, decoding, finding.

use bytes::Bytes;
use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use lance_table::rowids::{RowIdSequence as Reference, read_row_ids, write_row_ids};
use pennon_core::RowId;
use pennon_core::rows::RowIdSequence;
use pennon_peers::{MILLION, criterion, shapes};

fn encode(c: &mut Criterion) {
    for (shape, ids) in shapes() {
        let ours = RowIdSequence::from_slice(&ids).encode();
        let theirs = write_row_ids(&Reference::from(ids.as_slice()));
        assert!(
            ours.len() <= theirs.len(),
            "{shape}: {} bytes, the reference takes {}",
            ours.len(),
            theirs.len()
        );
        let mut group = c.benchmark_group(format!("encode 1 M ids, {shape}"));
        group.throughput(Throughput::Bytes(8 * MILLION));
        group.bench_function("pennon", |b| b.iter(|| RowIdSequence::from_slice(&ids).encode()));
        group.bench_function("reference", |b| b.iter(|| write_row_ids(&Reference::from(ids.as_slice()))));
    }
}

fn decode(c: &mut Criterion) {
    for (shape, ids) in shapes() {
        let ours = RowIdSequence::from_slice(&ids).encode();
        let theirs = write_row_ids(&Reference::from(ids.as_slice()));
        let mut group = c.benchmark_group(format!("decode and iterate 1 M ids, {shape}"));
        group.throughput(Throughput::Bytes(8 * MILLION));
        group.bench_function("pennon", |b| {
            b.iter(|| {
                let sequence = RowIdSequence::decode(&ours).unwrap();
                sequence.iter().fold(0_u64, |sum, id| sum.wrapping_add(id))
            });
        });
        group.bench_function("reference", |b| {
            b.iter(|| read_row_ids(&theirs).unwrap().iter().fold(0_u64, |sum, id| sum.wrapping_add(id)));
        });
        group.bench_function("memcpy", |b| b.iter(|| ids.clone()));
    }
}

fn find(c: &mut Criterion) {
    let (_, ids) = shapes().swap_remove(2);
    let ours = RowIdSequence::decode(&RowIdSequence::from_slice(&ids).encode()).unwrap();
    let theirs = Reference::from(ids.as_slice());
    let mut random = fastrand::Rng::with_seed(3);
    let places: Vec<usize> = (0..1000).map(|_| random.usize(0..ids.len())).collect();
    let wanted: Vec<u64> = places.iter().map(|&place| ids[place]).collect();

    let mut group = c.benchmark_group("position of 1,000 ids in a bitmap of 1 M");
    group.throughput(Throughput::Elements(1000));
    group.bench_function("pennon", |b| {
        b.iter(|| wanted.iter().filter_map(|&id| ours.position(RowId(id))).sum::<u64>());
    });
    group.bench_function("reference", |b| {
        b.iter(|| wanted.iter().filter_map(|&id| theirs.segments()[0].position(id)).sum::<usize>());
    });
    group.finish();

    let mut group = c.benchmark_group("get of 1,000 positions in a bitmap of 1 M");
    group.throughput(Throughput::Elements(1000));
    group.bench_function("pennon", |b| {
        b.iter(|| places.iter().filter_map(|&place| ours.get(place as u64)).map(|id| id.0).sum::<u64>());
    });
    group.bench_function("reference", |b| {
        b.iter(|| places.iter().filter_map(|&place| theirs.get(place)).sum::<u64>());
    });
    group.bench_function("array", |b| b.iter(|| places.iter().map(|&place| ids[place]).sum::<u64>()));
    group.finish();
}

/// A sequence may have many pieces: what an update of shuffled rows made in the reference.
fn many_segments(c: &mut Criterion) {
    let mut sequence = RowIdSequence::empty();
    for i in 0..100_000 {
        let start = (i * 7919 % 100_000) * 10;
        sequence.append(RowIdSequence::from_range(start..start + 1));
    }
    let bytes: Bytes = sequence.encode();
    let mut group = c.benchmark_group("decode and iterate 100,000 ids in any order");
    group.throughput(Throughput::Bytes(800_000));
    group.bench_function("pennon", |b| b.iter(|| RowIdSequence::decode(&bytes).unwrap().iter().max()));
    group.bench_function("reference", |b| b.iter(|| read_row_ids(&bytes).unwrap().iter().max()));
}

criterion_group!(name = benches; config = criterion(); targets = encode, decode, find, many_segments);
criterion_main!(benches);
