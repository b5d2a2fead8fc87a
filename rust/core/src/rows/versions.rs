//! In which version each physical row of a fragment was made or changed (table format 4.5).
//!
//! Runs of rows with one version. On the wire each run has a span of which only the length means anything: starts may
//! repeat or be stale after a compaction. Written are plain ranges over the positions, neighbours of one version merged.

use std::ops::Range;

use bytes::Bytes;

use super::to_index;
use crate::deletion::DeletionVector;
use crate::wire::rows::{decode_versions, encode_versions};
use crate::{Error, Result, Version};

/// Runs that memory is taken for before they are there, at most: a bitmap of few bytes may be of many rows.
const MOST_AHEAD: usize = 1 << 20;

/// Versions by position.
///
/// ```
/// use pennon_core::Version;
/// use pennon_core::rows::VersionSequence;
/// let mut versions = VersionSequence::constant(3, Version(1));
/// versions.append(&VersionSequence::constant(2, Version(5)));
/// assert_eq!((versions.len(), versions.get(2), versions.get(3)), (5, Some(Version(1)), Some(Version(5))));
/// assert_eq!(versions.runs().collect::<Vec<_>>(), [(0..3, Version(1)), (3..5, Version(5))]);
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct VersionSequence {
    /// End and version of each run; no run is empty, neighbours differ in version.
    runs: Vec<(u64, Version)>,
}

impl VersionSequence {
    /// The version of rows whose versions were not recorded (table format 4.5).
    pub const UNRECORDED: Version = Version(1);

    /// So many rows whose versions were not recorded.
    pub fn unrecorded(rows: u64) -> Self {
        Self::constant(rows, Self::UNRECORDED)
    }

    /// Decodes the message. Errors: `Corrupt`.
    pub fn decode(bytes: &Bytes) -> Result<Self> {
        let mut sequence = Self::default();
        decode_versions(bytes, |rows, version| {
            if sequence.len().checked_add(rows).is_none() {
                return Err(Error::corrupt("more than 2^64 rows"));
            }
            sequence.push(rows, version);
            Ok(())
        })?;
        Ok(sequence)
    }

    /// Encodes the message.
    pub fn encode(&self) -> Bytes {
        encode_versions(self.runs.len(), self.runs().map(|(span, version)| (span.start, span.end, version)))
    }

    /// So many rows of one version.
    pub fn constant(len: u64, version: Version) -> Self {
        let mut sequence = Self::default();
        sequence.push(len, version);
        sequence
    }

    /// Adds rows of one version.
    pub fn push(&mut self, rows: u64, version: Version) {
        let end = self.len().saturating_add(rows);
        match self.runs.last_mut() {
            _ if rows == 0 => {}
            Some((last, same)) if *same == version => *last = end,
            _ => self.runs.push((end, version)),
        }
    }

    /// Number of rows.
    pub fn len(&self) -> u64 {
        self.runs.last().map_or(0, |(end, _)| *end)
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }

    /// Positions and version of each run; neighbours differ in version.
    pub fn runs(&self) -> impl Iterator<Item = (Range<u64>, Version)> + '_ {
        self.runs_in(0..u64::MAX)
    }

    /// The runs that lie in these positions, cut to them.
    pub fn runs_in(&self, positions: Range<u64>) -> impl Iterator<Item = (Range<u64>, Version)> + '_ {
        let first = self.runs.partition_point(|(end, _)| *end <= positions.start);
        let mut start = positions.start;
        let runs = self.runs.get(first..).unwrap_or_default().iter();
        runs.map_while(move |&(end, version)| {
            let span = start..end.min(positions.end);
            start = end;
            (!span.is_empty()).then_some((span, version))
        })
    }

    /// The version at a position.
    pub fn get(&self, position: u64) -> Option<Version> {
        let at = self.runs.partition_point(|(end, _)| *end <= position);
        self.runs.get(at).map(|(_, version)| *version)
    }

    /// Appends the versions at the positions, clipped to what there is, to `out`.
    pub fn extend_into(&self, positions: Range<u64>, out: &mut Vec<u64>) {
        for (span, version) in self.runs_in(positions) {
            out.extend(std::iter::repeat_n(version.0, to_index(span.end - span.start)));
        }
    }

    /// The versions at these positions, clipped to what there is.
    #[must_use]
    pub fn slice(&self, positions: Range<u64>) -> Self {
        let mut sliced = Self::default();
        self.runs_in(positions).for_each(|(span, version)| sliced.push(span.end - span.start, version));
        sliced
    }

    /// Adds the versions of another sequence.
    pub fn append(&mut self, other: &Self) {
        other.runs().for_each(|(span, version)| self.push(span.end - span.start, version));
    }

    /// With another version at some positions; those behind the end are left out.
    ///
    /// ```
    /// use pennon_core::Version;
    /// use pennon_core::rows::VersionSequence;
    /// let versions = VersionSequence::constant(4, Version(1)).with(&[1, 2, 9].into_iter().collect(), Version(3));
    /// assert_eq!(versions.runs().collect::<Vec<_>>(), [(0..1, Version(1)), (1..3, Version(3)), (3..4, Version(1))]);
    /// ```
    #[must_use]
    pub fn with(&self, positions: &DeletionVector, version: Version) -> Self {
        let len = self.len();
        let new = to_index(positions.len().saturating_mul(2).min(len)).min(MOST_AHEAD);
        let mut with = Self { runs: Vec::with_capacity(self.runs.len().saturating_add(new)) };
        let mut runs = self.runs.as_slice();
        let mut at = 0;
        let changed = positions.ranges().take_while(|range| range.start < len);
        for Range { start, end } in changed.chain([len..len]) {
            while let Some((&(last, before), rest)) = runs.split_first() {
                let stop = last.min(start);
                with.push(stop.saturating_sub(at), before);
                at = at.max(stop);
                if last > start {
                    break;
                }
                runs = rest;
            }
            let end = end.min(len);
            with.push(end.saturating_sub(at), version);
            at = at.max(end);
        }
        with
    }

    /// Without the versions at deleted positions.
    #[must_use]
    pub fn mask(&self, deleted: &DeletionVector) -> Self {
        let mut masked = Self::default();
        let gone = deleted.counts_up_to(self.runs.iter().map(|(end, _)| *end));
        for ((span, version), gone) in self.runs().zip(gone) {
            masked.push((span.end - span.start).saturating_sub(gone), version);
        }
        masked
    }
}
