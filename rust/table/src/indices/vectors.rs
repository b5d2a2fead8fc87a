//! Segments of indices over vectors: what of them the session keeps.

use std::sync::Arc;

use pennon_core::wire::index_parts::IndexParts;
use pennon_core::{Error, Result, RowAddress};
use pennon_index::{IndexKind, Metric, VectorIndex, VectorPartition, metric_of_files};

use super::Segment;
use super::files::SegmentFiles;
use crate::session::EntryKind;
use crate::versions::snapshot::Snapshot;

/// The rows of a partition that count in a version: live ones in fragments that the segment covers.
#[derive(Debug)]
pub(crate) struct CountedRows {
    /// A bit for each row; `None` if all count.
    bits: Option<Vec<u64>>,
    /// Where the rows are; `None` if what the partition has for them are their addresses. Of rows that do not count
    /// it is any value.
    addresses: Option<Vec<u64>>,
}

impl CountedRows {
    /// Of the rows that a partition has those with an address.
    pub(crate) fn new(stored: &[u64], addresses: &[Option<RowAddress>]) -> Self {
        let all_count = addresses.iter().all(Option::is_some);
        let bits = (!all_count).then(|| bits_of(addresses.iter().map(Option::is_some)));
        let is_address =
            |(number, address): (&u64, &Option<RowAddress>)| address.is_none_or(|a| a.0 == *number);
        let addresses = match stored.iter().zip(addresses).all(is_address) {
            true => None,
            false => Some(addresses.iter().map(|address| address.map_or(u64::MAX, |a| a.0)).collect()),
        };
        Self { bits, addresses }
    }

    /// A bit for each row, the lowest of a word first; `None` if all count.
    pub(crate) fn bits(&self) -> Option<&[u64]> {
        self.bits.as_deref()
    }

    /// A bit for each of the rows that a partition has that counts and whose address passes a test.
    pub(crate) fn bits_where(&self, stored: &[u64], passes: impl Fn(RowAddress) -> bool) -> Vec<u64> {
        let addresses = self.addresses.as_deref().unwrap_or(stored);
        let mut bits = bits_of(addresses.iter().map(|address| passes(RowAddress(*address))));
        for (word, counted) in bits.iter_mut().zip(self.bits.iter().flatten()) {
            *word &= counted;
        }
        bits
    }

    fn memory_bytes(&self) -> usize {
        let words = self.bits.as_ref().map_or(0, Vec::len) + self.addresses.as_ref().map_or(0, Vec::len);
        8 * words + size_of::<Self>()
    }
}

/// The index of an entry over vectors that does not say its kind and metric: those of the reference before release 7 do not.
/// Blocks on the store.
pub(crate) fn open_undescribed(snapshot: &Snapshot, parts: &IndexParts) -> Result<Arc<VectorIndex>> {
    opened(snapshot, &SegmentFiles::new(snapshot, parts)?)
}

/// The metric of an entry that does not say it. No more than that is read: it is known of files that are not searched, too,
/// such as those of the old form. Blocks on the store.
pub(crate) fn metric_in_files(snapshot: &Snapshot, parts: &IndexParts) -> Result<Metric> {
    let files = SegmentFiles::new(snapshot, parts)?;
    let (session, name) = (snapshot.session(), files.name());
    let known: Option<Arc<Metric>> = session.get(EntryKind::IndexMetric, name);
    if let Some(metric) = known {
        return Ok(*metric);
    }
    let metric = metric_of_files(&files)?;
    session.put(EntryKind::IndexMetric, name, &Arc::new(metric), size_of::<Metric>() + name.len() + 64);
    Ok(metric)
}

/// The index of these files, opened now or before. Blocks on the store.
fn opened(snapshot: &Snapshot, files: &SegmentFiles) -> Result<Arc<VectorIndex>> {
    let name = files.name();
    if let Some(index) = snapshot.session().get(EntryKind::Index, name) {
        return Ok(index);
    }
    let index = Arc::new(VectorIndex::open(Arc::new(files.clone()))?);
    snapshot.session().put(EntryKind::Index, name, &index, index.memory_bytes() + name.len());
    Ok(index)
}

fn bits_of(rows: impl ExactSizeIterator<Item = bool>) -> Vec<u64> {
    let mut bits = vec![0_u64; rows.len().div_ceil(64)];
    for (at, _) in rows.enumerate().filter(|(_, is_set)| *is_set) {
        if let Some(word) = bits.get_mut(at / 64) {
            *word |= 1 << (at % 64);
        }
    }
    bits
}

impl Segment {
    /// The index over vectors, opened now or before. Blocks on the store. Errors: those of [`VectorIndex::open`].
    pub(crate) fn open_vectors(&self, snapshot: &Snapshot) -> Result<Arc<VectorIndex>> {
        if self.kind != IndexKind::Vector {
            return Err(Error::internal(format!("the index {} has no vectors", self.name)));
        }
        opened(snapshot, &self.files)
    }

    /// Partitions of the index, those that the session does not have with one read. Blocks on the store.
    pub(crate) fn partitions(
        &self,
        snapshot: &Snapshot,
        index: &VectorIndex,
        partitions: &[u32],
    ) -> Result<Vec<Arc<VectorPartition>>> {
        let session = snapshot.session();
        let name = self.files.name();
        let mut known: Vec<Option<Arc<VectorPartition>>> =
            partitions.iter().map(|number| session.get(EntryKind::VectorPartition(*number), name)).collect();
        let missing: Vec<u32> = partitions
            .iter()
            .zip(&known)
            .filter(|(_, known)| known.is_none())
            .map(|(number, _)| *number)
            .collect();
        let mut read = if missing.is_empty() { Vec::new() } else { index.read(&missing)? }.into_iter();
        for slot in known.iter_mut().filter(|slot| slot.is_none()) {
            let Some(partition) = read.next() else { break };
            let bytes = partition.memory_bytes() + name.len() + 64;
            session.put(EntryKind::VectorPartition(partition.number()), name, &partition, bytes);
            *slot = Some(partition);
        }
        let all: Option<Vec<_>> = known.into_iter().collect();
        all.ok_or_else(|| Error::internal("a partition was not read"))
    }

    /// The rows of a partition that count in a version, found now or before.
    pub(crate) fn counted_rows(
        &self,
        snapshot: &Snapshot,
        partition: u32,
        find: impl FnOnce() -> Result<CountedRows>,
    ) -> Result<Arc<CountedRows>> {
        let session = snapshot.session();
        let (kind, name) = (EntryKind::CountedRows(partition), self.counted_name(snapshot));
        if let Some(known) = session.get(kind, &name) {
            return Ok(known);
        }
        let found = Arc::new(find()?);
        session.put(kind, &name, &found, found.memory_bytes() + name.len() + 64);
        Ok(found)
    }

    /// A partition that the session has, if it is recorded there that all its rows count in a version.
    pub(crate) fn fully_counted_partition(
        &self,
        snapshot: &Snapshot,
        partition: u32,
    ) -> Option<Arc<VectorPartition>> {
        let session = snapshot.session();
        let (kind, name) = (EntryKind::VectorPartition(partition), self.files.name());
        let (counted_kind, counted_name) = (EntryKind::CountedRows(partition), self.counted_name(snapshot));
        // What is looked for in vain counts as a miss.
        if !session.has(kind, name) || !session.has(counted_kind, &counted_name) {
            return None;
        }
        let counted: Arc<CountedRows> = session.get(counted_kind, &counted_name)?;
        match counted.bits() {
            None => session.get(kind, name),
            Some(_) => None,
        }
    }

    fn counted_name(&self, snapshot: &Snapshot) -> String {
        format!("{}@{}@{}", self.files.name(), snapshot.store.root(), snapshot.version())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_without_an_address_do_not_count() {
        let stored: Vec<u64> = (0..100).collect();
        let addresses: Vec<Option<RowAddress>> =
            stored.iter().map(|number| (number % 3 != 0).then_some(RowAddress(number + 1000))).collect();
        let counted = CountedRows::new(&stored, &addresses);
        let is_set = |bits: &[u64], at: usize| bits[at / 64] >> (at % 64) & 1 == 1;
        let bits = counted.bits().unwrap();
        let even = counted.bits_where(&stored, |address| address.0 % 2 == 0);
        for at in 0..100 {
            assert_eq!(is_set(bits, at), at % 3 != 0);
            assert_eq!(is_set(&even, at), at % 3 != 0 && at % 2 == 0);
        }
    }

    #[test]
    fn nothing_is_kept_where_all_count() {
        let stored = [5, 6, 7];
        let counted = CountedRows::new(&stored, &stored.map(|number| Some(RowAddress(number))));
        assert!(counted.bits().is_none() && counted.addresses.is_none());
        assert_eq!(counted.bits_where(&stored, |address| address.0 == 6), [0b10]);
    }
}
