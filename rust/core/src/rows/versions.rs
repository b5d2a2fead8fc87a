//! In which version each physical row of a fragment was made or changed (table format 4.5).
//!
//! Runs of rows with one version. On the wire each run has a span of which only the length means anything: starts may
//! repeat or be stale after a compaction. Written are plain ranges over the positions, neighbours of one version merged.

use std::ops::Range;

use bytes::Bytes;
use prost::Message;

use super::segment::Segment;
use crate::deletion::DeletionVector;
use crate::wire::{decode_message, table};
use crate::{Error, Result, Version};

/// Versions by position.
///
/// ```
/// use pennon_core::Version;
/// use pennon_core::rows::VersionSequence;
/// let mut versions = VersionSequence::constant(3, Version(1));
/// versions.append(VersionSequence::constant(2, Version(5)));
/// assert_eq!((versions.len(), versions.get(2), versions.get(3)), (5, Some(Version(1)), Some(Version(5))));
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct VersionSequence {
    runs: Vec<(u64, Version)>,
}

impl VersionSequence {
    /// Decodes the message. Errors: `Corrupt`.
    pub fn decode(bytes: &Bytes) -> Result<Self> {
        let wire: table::RowDatasetVersionSequence = decode_message("version sequence", bytes.clone())?;
        let mut sequence = Self::default();
        let mut len = 0_u64;
        for (at, run) in wire.runs.into_iter().enumerate() {
            let place = |e: Error| e.at(format!("run {at}"));
            let span = run.span.ok_or_else(|| place(Error::corrupt("a run without a span")))?;
            let rows = Segment::try_from(span).map_err(place)?.len();
            len = len.checked_add(rows).ok_or_else(|| place(Error::corrupt("more than 2^64 rows")))?;
            sequence.push(rows, Version(run.version));
        }
        Ok(sequence)
    }

    /// Encodes the message.
    pub fn encode(&self) -> Bytes {
        let mut start = 0_u64;
        let runs = self.runs.iter().map(|&(rows, version)| {
            let span = Segment::Range(start..start.saturating_add(rows));
            start = start.saturating_add(rows);
            table::RowDatasetVersionRun { span: Some((&span).into()), version: version.0 }
        });
        table::RowDatasetVersionSequence { runs: runs.collect() }.encode_to_vec().into()
    }

    /// So many rows of one version.
    pub fn constant(len: u64, version: Version) -> Self {
        let mut sequence = Self::default();
        sequence.push(len, version);
        sequence
    }

    fn push(&mut self, rows: u64, version: Version) {
        match self.runs.last_mut() {
            _ if rows == 0 => {}
            Some((last, same)) if *same == version => *last = last.saturating_add(rows),
            _ => self.runs.push((rows, version)),
        }
    }

    /// Number of rows.
    pub fn len(&self) -> u64 {
        self.runs.iter().map(|(rows, _)| rows).sum()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }

    /// Number of rows and version of each run; neighbours differ in version.
    pub fn runs(&self) -> &[(u64, Version)] {
        &self.runs
    }

    /// Each run with its positions.
    fn spans(&self) -> impl Iterator<Item = (Range<u64>, Version)> + '_ {
        let mut start = 0_u64;
        self.runs.iter().map(move |&(rows, version)| {
            let span = start..start.saturating_add(rows);
            start = span.end;
            (span, version)
        })
    }

    /// The version at a position.
    pub fn get(&self, position: u64) -> Option<Version> {
        self.spans().find_map(|(span, version)| span.contains(&position).then_some(version))
    }

    /// Appends the versions at the positions, clipped to what there is, to `out`.
    pub fn extend_into(&self, positions: Range<u64>, out: &mut Vec<u64>) {
        for (span, version) in self.spans().skip_while(|(span, _)| span.end <= positions.start) {
            let (from, to) = (span.start.max(positions.start), span.end.min(positions.end));
            if from >= to {
                return;
            }
            out.extend(std::iter::repeat_n(version.0, super::to_index(to - from)));
        }
    }

    /// The versions at these positions, clipped to what there is.
    #[must_use]
    pub fn slice(&self, positions: Range<u64>) -> Self {
        let mut sliced = Self::default();
        for (span, version) in self.spans() {
            let (from, to) = (span.start.max(positions.start), span.end.min(positions.end));
            sliced.push(to.saturating_sub(from), version);
        }
        sliced
    }

    /// Adds the versions of another sequence.
    pub fn append(&mut self, other: Self) {
        other.runs.into_iter().for_each(|(rows, version)| self.push(rows, version));
    }

    /// Without the versions at deleted positions.
    #[must_use]
    pub fn mask(&self, deleted: &DeletionVector) -> Self {
        let mut masked = Self::default();
        for (span, version) in self.spans() {
            let gone = deleted.deleted_before(span.end) - deleted.deleted_before(span.start);
            masked.push((span.end - span.start).saturating_sub(gone), version);
        }
        masked
    }
}
