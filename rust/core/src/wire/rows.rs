//! Row id and version sequences, `U64Segment` and `EncodedU64Array` (table format 4.1).
//!
//! Byte fields stay slices of the input: decoding checks them and copies none.

use std::sync::Arc;

use bytes::Bytes;
use prost::Message;
use prost::encoding::{encode_varint, encoded_len_varint};

use super::cursor::{Cursor, Value};
use super::table::encoded_u64_array::{Array, U16Array, U32Array, U64Array};
use super::table::u64_segment::{self, Segment as Wire};
use super::{decode_message, table};
use crate::rows::segment::Segment;
use crate::rows::segment::array::UnsortedArray;
use crate::rows::segment::range::Consecutive;
use crate::rows::segment::range_with_bitmap::{WithBitmap, check_length};
use crate::rows::segment::range_with_holes::WithHoles;
use crate::rows::segment::sorted_array::SortedArray;
use crate::rows::segment::values::{Values, Width};
use crate::{Error, Result, Version};

/// The segments of a row id sequence. Errors: `Corrupt`, with the number of the segment.
pub(crate) fn decode_row_ids(bytes: &Bytes) -> Result<Vec<Segment>> {
    let mut segments = Vec::new();
    each_segment(bytes, |_, part| {
        segments.push(match part {
            RawSegment::Range(range) => Segment::Range(Consecutive::new(range.start, range.end)?),
            other => segment(other.decode()?)?,
        });
        Ok(())
    })?;
    segments.shrink_to_fit();
    Ok(segments)
}

/// A row id sequence: the bytes it was decoded from if nothing was changed.
pub(crate) fn encode_row_ids(segments: &[Segment]) -> Bytes {
    table::RowIdSequence { segments: segments.iter().map(encode_segment).collect() }.encode_to_vec().into()
}

/// Number of rows and version of each run. Errors: `Corrupt`, with the number of the run.
pub(crate) fn decode_versions(bytes: &Bytes, mut run: impl FnMut(u64, Version) -> Result<()>) -> Result<()> {
    let mut general = |at: usize, wire: table::RowDatasetVersionRun| {
        let span = wire.span.ok_or_else(|| Error::corrupt("a run without a span"));
        // Of the span only the length means anything (trap 3).
        let rows = span.and_then(segment).map(|span| span.len());
        rows.and_then(|rows| run(rows, Version(wire.version))).map_err(|e| e.at(format!("run {at}")))
    };
    let Some(parts) = parts(bytes) else {
        let wire: table::RowDatasetVersionSequence = decode_message("version sequence", bytes.clone())?;
        return wire.runs.into_iter().enumerate().try_for_each(|(at, wire)| general(at, wire));
    };
    for (at, part) in parts.into_iter().enumerate() {
        let wire = match plain_run(part) {
            Some(wire) => Ok(wire),
            None => decode_message("run", bytes.slice_ref(part)).map_err(|e| e.at(format!("run {at}"))),
        };
        general(at, wire?)?;
    }
    Ok(())
}

/// Runs of rows from `start` to `end`. `expected`: about how many there are.
pub(crate) fn encode_versions(expected: usize, runs: impl Iterator<Item = (u64, u64, Version)>) -> Bytes {
    let mut bytes = Vec::with_capacity(expected.saturating_mul(RUN_BYTES));
    // Without the messages: there may be as many as rows. A run takes less than 40 bytes, so lengths take one.
    for (start, end, version) in runs {
        let range = number_bytes(start) + number_bytes(end);
        let run = range + 4 + number_bytes(version.0);
        for byte in [RUN, run, SPAN, range + 2, RANGE, range] {
            bytes.push(byte);
        }
        put_number(&mut bytes, START, start);
        put_number(&mut bytes, END, end);
        put_number(&mut bytes, VERSION, version.0);
    }
    bytes.into()
}

/// Bytes of a run whose positions have three and whose version has one.
const RUN_BYTES: usize = 16;
/// Keys of fields: number and kind, 2 with a length, 0 a varint.
const RUN: u8 = 1 << 3 | 2;
const SPAN: u8 = 1 << 3 | 2;
const RANGE: u8 = 1 << 3 | 2;
const START: u8 = 1 << 3;
const END: u8 = 2 << 3;
const VERSION: u8 = 2 << 3;

/// Bytes that [`put_number`] puts.
fn number_bytes(number: u64) -> u8 {
    let [varint, ..] = encoded_len_varint(number).to_le_bytes();
    if number == 0 { 0 } else { varint + 1 }
}

/// A field that is left out if it is 0.
fn put_number(bytes: &mut Vec<u8>, key: u8, number: u64) {
    if number != 0 {
        bytes.push(key);
        encode_varint(number, bytes);
    }
}

/// What is known of a segment from its first bytes.
#[derive(Debug, Clone)]
pub(crate) enum Outline {
    /// All ids from the first to the last.
    Consecutive { first: u64, last: u64 },
    /// Most ids of a range; how many takes counting.
    Dense { first: u64, last: u64 },
    /// A list.
    List(Values),
}

/// The outlines of the segments of a sequence that have ids, with their numbers. A bitmap is not read. Errors: `Corrupt`.
pub(crate) fn outline_row_ids(bytes: &Bytes, mut each: impl FnMut(u32, Outline) -> Result<()>) -> Result<()> {
    each_segment(bytes, |at, part| {
        let outline = match part {
            RawSegment::Range(range) => consecutive(&range)?,
            other => outline(other.decode()?)?,
        };
        outline.map_or(Ok(()), |outline| each(at, outline))
    })
}

/// A segment, decoded no further than it must be.
enum RawSegment {
    Range(u64_segment::Range),
    Encoded(Bytes),
    Other(Box<table::U64Segment>),
}

impl RawSegment {
    fn of(bytes: &Bytes, part: &[u8]) -> Self {
        range(part).map_or_else(|| Self::Encoded(bytes.slice_ref(part)), Self::Range)
    }

    fn decode(self) -> Result<table::U64Segment> {
        match self {
            Self::Range(range) => Ok(table::U64Segment { segment: Some(Wire::Range(range)) }),
            Self::Encoded(bytes) => decode_message("segment", bytes),
            Self::Other(segment) => Ok(*segment),
        }
    }
}

/// Walks over the segments; there may be 200,000, most of them ranges. Errors are placed at the segment.
fn each_segment(bytes: &Bytes, mut each: impl FnMut(u32, RawSegment) -> Result<()>) -> Result<()> {
    let mut each = |at: usize, part: RawSegment| {
        let number = u32::try_from(at).map_err(|_| Error::corrupt("more than 2^32 segments"))?;
        each(number, part).map_err(|e| e.at(format!("segment {at}")))
    };
    // Nearly every fragment has just this.
    if let Some(part) = only_segment(bytes) {
        return each(0, RawSegment::of(bytes, part));
    }
    match parts(bytes) {
        Some(parts) => {
            parts.into_iter().enumerate().try_for_each(|(at, part)| each(at, RawSegment::of(bytes, part)))
        }
        None => {
            let wire: table::RowIdSequence = decode_message("row id sequence", bytes.clone())?;
            let parts = wire.segments.into_iter().map(|segment| RawSegment::Other(Box::new(segment)));
            parts.enumerate().try_for_each(|(at, part)| each(at, part))
        }
    }
}

/// The segment, still encoded, if there is one and nothing else.
fn only_segment(bytes: &[u8]) -> Option<&[u8]> {
    let (mut seen, mut cursor) = (0, Cursor(bytes));
    let Some((1, Value::Bytes(part))) = cursor.next(&mut seen, 1)? else { return None };
    cursor.next(&mut seen, 1)?.is_none().then_some(part)
}

/// The segments, each still encoded, if there is nothing else.
fn parts(bytes: &[u8]) -> Option<Vec<&[u8]>> {
    let (mut parts, mut seen, mut cursor) = (Vec::new(), 0, Cursor(bytes));
    while let Some(field) = cursor.next(&mut seen, 1)? {
        let (1, Value::Bytes(part)) = field else { return None };
        parts.push(part);
    }
    Some(parts)
}

/// A run over a plain range.
fn plain_run(run: &[u8]) -> Option<table::RowDatasetVersionRun> {
    let (mut seen, mut cursor, mut found) = (0, Cursor(run), table::RowDatasetVersionRun::default());
    while let Some(field) = cursor.next(&mut seen, 0)? {
        match field {
            (1, Value::Bytes(span)) => {
                found.span = Some(table::U64Segment { segment: Some(Wire::Range(range(span)?)) });
            }
            (2, Value::Number(version)) => found.version = version,
            _ => return None,
        }
    }
    Some(found)
}

/// A segment that is a plain range.
fn range(segment: &[u8]) -> Option<u64_segment::Range> {
    let (mut seen, mut cursor) = (0, Cursor(segment));
    let Some((1, Value::Bytes(range))) = cursor.next(&mut seen, 0)? else { return None };
    if cursor.next(&mut seen, 0)?.is_some() {
        return None;
    }
    let (mut seen, mut cursor, mut found) = (0, Cursor(range), u64_segment::Range::default());
    while let Some(field) = cursor.next(&mut seen, 0)? {
        match field {
            (1, Value::Number(start)) => found.start = start,
            (2, Value::Number(end)) => found.end = end,
            _ => return None,
        }
    }
    Some(found)
}

fn consecutive(range: &u64_segment::Range) -> Result<Option<Outline>> {
    let bounds = Consecutive::new(range.start, range.end)?.bounds();
    Ok(bounds.map(|(first, last)| Outline::Consecutive { first, last }))
}

fn outline(wire: table::U64Segment) -> Result<Option<Outline>> {
    let range = |start, end| Ok::<_, Error>(Consecutive::new(start, end)?.bounds());
    let dense = |(first, last)| Outline::Dense { first, last };
    let list = |values: Values| (values.len() > 0).then_some(Outline::List(values));
    Ok(match form(wire)? {
        Wire::Range(wire) => consecutive(&wire)?,
        Wire::RangeWithHoles(wire) => range(wire.start, wire.end)?.map(dense),
        Wire::RangeWithBitmap(wire) => {
            check_length(Consecutive::new(wire.start, wire.end)?, wire.bitmap.len())?;
            range(wire.start, wire.end)?.map(dense)
        }
        Wire::SortedArray(wire) => list(SortedArray::new(values(wire)?)?.values().clone()),
        Wire::Array(wire) => list(values(wire)?),
    })
}

fn form(wire: table::U64Segment) -> Result<Wire> {
    wire.segment.ok_or_else(|| Error::corrupt("a segment without a form"))
}

fn segment(wire: table::U64Segment) -> Result<Segment> {
    Ok(match form(wire)? {
        Wire::Range(wire) => Segment::Range(Consecutive::new(wire.start, wire.end)?),
        Wire::RangeWithHoles(wire) => {
            let holes = wire.holes.ok_or_else(|| Error::corrupt("a segment with holes that lists none"))?;
            let range = Consecutive::new(wire.start, wire.end)?;
            Segment::Holes(Arc::new(WithHoles::new(range, values(holes)?)?))
        }
        Wire::RangeWithBitmap(wire) => {
            let range = Consecutive::new(wire.start, wire.end)?;
            Segment::Bitmap(Arc::new(WithBitmap::new(range, wire.bitmap)?))
        }
        Wire::SortedArray(wire) => Segment::Sorted(Arc::new(SortedArray::new(values(wire)?)?)),
        Wire::Array(wire) => Segment::Array(Arc::new(UnsortedArray::new(values(wire)?))),
    })
}

fn encode_segment(segment: &Segment) -> table::U64Segment {
    let wire = match segment {
        Segment::Range(form) => {
            let range = form.range();
            Wire::Range(u64_segment::Range { start: range.start, end: range.end })
        }
        Segment::Holes(form) => {
            let (range, holes) = (form.range(), Some(encode_values(form.holes())));
            Wire::RangeWithHoles(u64_segment::RangeWithHoles { start: range.start, end: range.end, holes })
        }
        Segment::Bitmap(form) => {
            let (range, bitmap) = (form.range(), form.bits().clone());
            Wire::RangeWithBitmap(u64_segment::RangeWithBitmap { start: range.start, end: range.end, bitmap })
        }
        Segment::Sorted(form) => Wire::SortedArray(encode_values(form.values())),
        Segment::Array(form) => Wire::Array(encode_values(form.values())),
    };
    table::U64Segment { segment: Some(wire) }
}

fn values(wire: table::EncodedU64Array) -> Result<Values> {
    match wire.array {
        None => Err(Error::corrupt("an array without a form")),
        Some(Array::U16Array(wire)) => Values::new(wire.base, Width::Two, wire.offsets),
        Some(Array::U32Array(wire)) => Values::new(wire.base, Width::Four, wire.offsets),
        Some(Array::U64Array(wire)) => Values::new(0, Width::Eight, wire.values),
    }
}

fn encode_values(values: &Values) -> table::EncodedU64Array {
    let (base, bytes) = (values.base(), values.bytes().clone());
    let array = match values.width() {
        Width::Two => Array::U16Array(U16Array { base, offsets: bytes }),
        Width::Four => Array::U32Array(U32Array { base, offsets: bytes }),
        Width::Eight => Array::U64Array(U64Array { values: bytes }),
    };
    table::EncodedU64Array { array: Some(array) }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn runs_by_hand_are_those_of_the_general_encoder(
            runs in proptest::collection::vec((0..70_u32, any::<u64>(), any::<u64>(), 0..70_u32), 0..20),
        ) {
            let shift = |by: u32, number: u64| number.checked_shr(by).unwrap_or(0);
            let runs: Vec<_> = runs
                .into_iter()
                .map(|(by, start, end, by_too)| (shift(by, start), shift(by_too, end), Version(shift(by, end))))
                .collect();
            let wire = runs.iter().map(|&(start, end, version)| table::RowDatasetVersionRun {
                span: Some(table::U64Segment { segment: Some(Wire::Range(u64_segment::Range { start, end })) }),
                version: version.0,
            });
            let wire = table::RowDatasetVersionSequence { runs: wire.collect() };
            prop_assert_eq!(encode_versions(3, runs.into_iter()), wire.encode_to_vec());
        }
    }
}
