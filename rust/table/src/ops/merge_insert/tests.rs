//! A join compared with one by nested loops, with room for everything and with hardly any; kept sources and their
//! order.

use std::collections::BTreeSet;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{ArrayRef, Int64Array, RecordBatch, RecordBatchIterator, StringArray, UInt64Array};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use pennon_core::{ErrorKind, Result};
use proptest::prelude::*;

use super::found::MatchedRows;
use super::join::{Join, part_of};
use super::keys::{Encoder, Keys};
use super::plan::{WhenMatched, WhenUnmatchedTarget};
use super::rows::{Ordered, pick, unmatched};
use super::sides::Side;
use super::source::MergeSource;
use super::table::Table;
use crate::batches::row_bytes;
use crate::expr::Expression;
use crate::runtime::CancellationToken;

#[test]
fn clauses_have_the_conditions_they_can_have() {
    let condition = || Some("source.v > 0".to_owned());
    assert_eq!(
        WhenMatched::parse("update", condition()).unwrap().parts(),
        ("update", condition().as_deref())
    );
    for name in ["nothing", "delete", "fail"] {
        assert_eq!(WhenMatched::parse(name, None).unwrap().parts(), (name, None));
        let error = WhenMatched::parse(name, condition()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput);
        assert!(error.to_string().contains("\"source.v > 0\""), "{error}");
    }
    assert_eq!(WhenUnmatchedTarget::new(true, condition()).unwrap().parts(), (true, condition().as_deref()));
    assert_eq!(WhenUnmatchedTarget::new(false, condition()).unwrap_err().kind(), ErrorKind::InvalidInput);
}

/// A key of two columns, and a value.
type Row = (Option<i64>, Option<String>, i64);

fn schema(side: &str) -> SchemaRef {
    let fields = [
        ("key0", DataType::Int64),
        ("key1", DataType::Utf8),
        ("v", DataType::Int64),
        ("row", DataType::UInt64),
    ];
    let name = |name: &str| if name == "v" { format!("{side}.v") } else { name.to_owned() };
    Arc::new(Schema::new(fields.map(|(n, t)| Field::new(name(n), t, true)).to_vec()))
}

/// Rows in batches of a few, numbered from 0; with both key columns or the first one alone.
fn side(rows: &[Row], name: &str, keys: usize) -> Side<'static> {
    let batches: Vec<Result<RecordBatch>> = (0..)
        .step_by(3)
        .zip(rows.chunks(3))
        .map(|(first, rows)| {
            let columns: Vec<ArrayRef> = vec![
                Arc::new(Int64Array::from_iter(rows.iter().map(|row| row.0))),
                Arc::new(StringArray::from_iter(rows.iter().map(|row| row.1.clone()))),
                Arc::new(Int64Array::from_iter_values(rows.iter().map(|row| row.2))),
                Arc::new(UInt64Array::from_iter_values((first..).take(rows.len()))),
            ];
            let wanted: Vec<usize> = if keys == 1 { vec![0, 2, 3] } else { vec![0, 1, 2, 3] };
            Ok(RecordBatch::try_new(schema(name), columns).unwrap().project(&wanted).unwrap())
        })
        .collect();
    Side { batches: Box::new(batches.into_iter()), rows: rows.len() as u64, bytes: rows.len() as u64 * 16 }
}

fn row() -> impl Strategy<Value = Row> {
    let text = prop::option::weighted(0.9, prop::sample::select(vec!["", "a", "ab"]));
    (prop::option::weighted(0.9, 0_i64..6), text.prop_map(|t| t.map(str::to_owned)), 0_i64..4)
}

proptest! {
    /// Every pair of equal keys is found once, whichever side is hashed, however often both are divided, by one thread
    /// or several.
    #[test]
    fn joins_find_all_pairs(
        source in prop::collection::vec(row(), 0..30),
        target in prop::collection::vec(row(), 0..30),
        keys in 1_usize..3,
        limit in prop::sample::select(vec![0_u64, 300, 1 << 20]),
        // Close together and far apart, on both sides of zero.
        step in prop::sample::select(vec![1_i64, -1, 1 << 40, -1 << 40]),
        conditional: bool,
        shared: bool,
    ) {
        let apart = |rows: Vec<Row>| -> Vec<Row> {
            rows.into_iter().map(|(key, text, v)| (key.map(|key| (key - 2) * step), text, v)).collect()
        };
        let (source, target) = (apart(source), apart(target));
        let v = |side: &str| Field::new(format!("{side}.v"), DataType::Int64, true);
        let both = Schema::new(vec![v("source"), v("target")]);
        let condition = conditional.then(|| Expression::predicate("`source.v` > `target.v`", &both).unwrap());
        let types = [DataType::Int64, DataType::Utf8];
        let encoder = Encoder::new(&types[..keys]).unwrap();
        let join = Join { encoder: &encoder, keys, condition: condition.as_ref(), limit, token: &CancellationToken::new() };
        let mut found = Vec::new();
        let mut sink = |s, t, passes| { found.push((s, t, passes)); true };
        let mut streamed = side(&target, "target", keys);
        streamed.rows = if shared { 1 << 20 } else { streamed.rows };
        join.run(side(&source, "source", keys), streamed, &mut sink).unwrap();
        found.sort_unstable();
        let mut expected = Vec::new();
        for (s, left) in (0_u64..).zip(&source) {
            for (t, right) in (0_u64..).zip(&target) {
                let first = left.0.is_some() && left.0 == right.0;
                let second = keys == 1 || (left.1.is_some() && left.1 == right.1);
                if first && second {
                    expected.push((s, t, !conditional || left.2 > right.2));
                }
            }
        }
        prop_assert_eq!(found, expected);
    }

    /// Full tables, with rows of one key and keys for one slot; of words that lie close together and far apart.
    #[test]
    fn tables_know_all_rows(
        words in prop::collection::vec(0_u64..400, 0..300),
        first in prop::sample::select(vec![0_u64, 7, u64::MAX - 40_000]),
        step in prop::sample::select(vec![1_u64, 3, 100]),
        without in 2_usize..9,
    ) {
        let word = |number: u64| first.wrapping_add(number * step);
        let keys = Keys::Words(words.iter().copied().map(word).collect());
        let table = Table::new(keys, words.len(), |row| row % without != 0).unwrap();
        let asked: Vec<u64> = (0..500).collect();
        let keys = Keys::Words(asked.iter().copied().map(word).collect());
        let mut candidates = Vec::new();
        table.candidates(&keys, asked.len(), |row| row % 11 != 0, &mut candidates);
        let found = candidates.into_iter().filter_map(|(row, code)| Some((row, table.last(code)?)));
        let rows = |(row, last)| table.rows(last, &keys, row).map(move |at| (row, at));
        let found: Vec<_> = found.flat_map(rows).collect();
        let known = (0..asked.len()).filter(|row| row % 11 != 0);
        let inside = || (0..words.len()).rev().filter(|at| at % without != 0);
        let known = known.flat_map(|row| inside().map(move |at| (row, at)));
        let known: Vec<_> = known.filter(|(row, at)| words[*at] == asked[*row]).collect();
        prop_assert_eq!(found, known);
    }

    /// Rows are given in the requested order, some of them many times, from memory and from a file, in pieces of a few
    /// bytes.
    #[test]
    fn sources_are_read_in_any_order(
        values in prop::collection::vec(prop::option::of("[a-z]{0,9}"), 1..60),
        picks in prop::collection::vec(any::<prop::sample::Index>(), 0..40),
        kept in prop::sample::select(vec![0_u64, 1 << 20]),
        held in prop::sample::select(vec![0_u64, 100, 1 << 20]),
        piece in prop::sample::select(vec![0_u64, 12, 1 << 20]),
        size in 1_usize..9,
    ) {
        let order: Vec<u64> = picks.iter().map(|at| at.index(values.len()) as u64).collect();
        let source = Arc::new(texts(&values, kept));
        prop_assert_eq!(source.is_spilled(), kept == 0);
        let mut ordered = Ordered::new(&source, order.clone(), held).unwrap();
        ordered.piece_bytes = piece;
        let mut found: Vec<Option<String>> = Vec::new();
        while found.len() < order.len() {
            let most = size.min(order.len() - found.len());
            let batch = ordered.next_rows(most).unwrap();
            let rows = batch.num_rows();
            prop_assert!((1..=most).contains(&rows));
            let bytes: u64 = (0..rows).map(|row| row_bytes(&batch, row)).sum();
            prop_assert!(rows == 1 || bytes <= piece, "{} rows of {} bytes", rows, bytes);
            found.extend(batch.column(0).as_string::<i32>().iter().map(|v| v.map(str::to_owned)));
        }
        prop_assert_eq!(ordered.next_rows(0).unwrap().num_rows(), 0);
        let expected: Vec<_> = order.iter().map(|row| values[usize::try_from(*row).unwrap()].clone()).collect();
        prop_assert_eq!(found, expected);
        prop_assert!(ordered.next_rows(1).is_err());
    }

    /// Rows are left out by their numbers.
    #[test]
    fn unmatched_rows(matched in prop::collection::btree_set(0_u64..200, 0..200), first in 0_u64..190) {
        let values: ArrayRef = Arc::new(Int64Array::from_iter_values(0..10));
        let batch = RecordBatch::try_from_iter([("v", values)]).unwrap();
        let mut rows = MatchedRows::new(200);
        matched.iter().for_each(|row| rows.insert(*row));
        rows.insert(256);
        prop_assert_eq!(rows.len(), matched.len() as u64);
        let left = unmatched(&rows, first, &batch).unwrap();
        let is_left = |v: &i64| !matched.contains(&(first + u64::try_from(*v).unwrap()));
        let expected: Vec<i64> = (0..10).filter(is_left).collect();
        prop_assert_eq!(left.column(0).as_primitive::<Int64Type>().values().to_vec(), expected);
    }
}

/// A table of the rows of one part would fill up in parts if the bits that name its slots were all the same.
#[test]
fn hashes_of_a_part_are_spread() {
    let keys = Keys::Words((0..1 << 17).collect());
    for depth in 0..4 {
        let mut found = BTreeSet::new();
        keys.for_each_hash(1 << 17, |_, hash| {
            if part_of(hash, 32, depth) == 7 {
                found.extend((0..32).step_by(4).map(|shift| (shift, hash >> shift & 15)));
            }
        });
        assert_eq!(found.len(), 8 * 16, "depth {depth}");
    }
}

fn texts(values: &[Option<String>], limit: u64) -> MergeSource {
    let schema = Arc::new(Schema::new(vec![Field::new("t", DataType::Utf8, true)]));
    let batches: Vec<_> = values
        .chunks(7)
        .map(|part| {
            let column: ArrayRef = Arc::new(StringArray::from_iter(part.iter().cloned()));
            Ok(RecordBatch::try_new(Arc::clone(&schema), vec![column]).unwrap())
        })
        .collect();
    let reader = RecordBatchIterator::new(batches, schema);
    MergeSource::collect(Box::new(reader), limit, &CancellationToken::new()).unwrap()
}

#[test]
fn missing_rows_are_an_error() {
    let source = texts(&[Some("a".to_owned())], 100);
    assert_eq!(pick(&source, &[0], 8, 0).unwrap().num_rows(), 1);
    assert_eq!(pick(&source, &[1], 8, 0).unwrap_err().kind(), ErrorKind::Internal);
    assert_eq!(texts(&[], 0).rows, 0);
}

#[test]
fn a_source_that_fails_fails() {
    let schema = Arc::new(Schema::new(vec![Field::new("t", DataType::Utf8, true)]));
    let failing = [Err(arrow_schema::ArrowError::ComputeError("no more".to_owned()))];
    let reader = Box::new(RecordBatchIterator::new(failing, schema));
    let error = MergeSource::collect(reader, 100, &CancellationToken::new()).err().unwrap();
    assert!(error.kind() == ErrorKind::InvalidInput && error.to_string().contains("no more"), "{error}");
}
