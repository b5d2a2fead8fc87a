//! Rows of all partitions while an index is built: in memory up to a limit, beyond it in a file of the caller.
//!
//! When the limit is reached, the rows of all partitions are appended to the file, partition by partition, and the memory is
//! free again: of each partition first the ids, then the codes. In the end the rows of a partition are read with a read for
//! each time.

use std::fmt::Debug;

use pennon_core::{Error, Result};

use super::PartitionRows;

/// A file for rows that do not fit into memory. It is not needed any longer when the index is written.
pub trait SpillFile: Send + Debug {
    /// Appends bytes.
    fn append(&mut self, bytes: &[u8]) -> Result<()>;

    /// Bytes that were appended before.
    fn read(&self, offset: u64, length: usize) -> Result<Vec<u8>>;
}

/// Rows of all partitions.
#[derive(Debug)]
pub(super) struct Gathered {
    partitions: Vec<PartitionRows>,
    /// Bytes of a code.
    width: usize,
    bytes: usize,
    limit: usize,
    spill: Option<Box<dyn SpillFile>>,
    /// Bytes of the file.
    spilled: u64,
    /// For each time the limit was reached where the rows of each partition are, and how many.
    runs: Vec<Vec<(u64, usize)>>,
}

impl Gathered {
    /// None yet; without a file the limit does not count.
    pub(super) fn new(
        partitions: usize,
        width: usize,
        limit: usize,
        spill: Option<Box<dyn SpillFile>>,
    ) -> Self {
        let partitions = vec![PartitionRows::default(); partitions];
        Self { partitions, width, bytes: 0, limit, spill, spilled: 0, runs: Vec::new() }
    }

    /// Adds a row. Errors: `Internal` for a partition that is not there.
    pub(super) fn push(&mut self, partition: u32, id: u64, code: &[u8]) -> Result<()> {
        let rows = self.partitions.get_mut(partition as usize);
        let rows = rows.ok_or_else(|| Error::internal(format!("a row of partition {partition}")))?;
        rows.ids.push(id);
        rows.codes.extend_from_slice(code);
        self.bytes += 8 + code.len();
        Ok(())
    }

    /// Moves all rows to the file if they are more than the limit. Errors: those of the file.
    pub(super) fn keep_limit(&mut self) -> Result<()> {
        let Some(spill) = self.spill.as_mut().filter(|_| self.bytes > self.limit) else { return Ok(()) };
        let mut run = Vec::with_capacity(self.partitions.len());
        let mut buffer = Vec::new();
        for rows in &mut self.partitions {
            let PartitionRows { ids, codes } = std::mem::take(rows);
            run.push((self.spilled + buffer.len() as u64, ids.len()));
            buffer.extend(ids.iter().flat_map(|id| id.to_le_bytes()));
            buffer.extend(codes);
            if buffer.len() >= 1 << 20 {
                spill.append(&buffer)?;
                self.spilled += buffer.len() as u64;
                buffer.clear();
            }
        }
        spill.append(&buffer)?;
        self.spilled += buffer.len() as u64;
        self.runs.push(run);
        self.bytes = 0;
        Ok(())
    }

    /// The rows of a partition, which are not kept. Errors: those of the file.
    pub(super) fn take(&mut self, partition: usize) -> Result<PartitionRows> {
        let rows = self.partitions.get_mut(partition).map(std::mem::take).unwrap_or_default();
        let Some(spill) = self.spill.as_ref().filter(|_| !self.runs.is_empty()) else { return Ok(rows) };
        let mut all = PartitionRows::default();
        for run in &self.runs {
            let Some((offset, count)) = run.get(partition).filter(|(_, count)| *count > 0) else { continue };
            let bytes = spill.read(*offset, count * (8 + self.width))?;
            let Some((ids, codes)) =
                bytes.split_at_checked(count * 8).filter(|_| bytes.len() == count * (8 + self.width))
            else {
                return Err(Error::store(format!("{} bytes of {count} rows were read again", bytes.len())));
            };
            let (ids, _) = ids.as_chunks();
            all.ids.extend(ids.iter().map(|id| u64::from_le_bytes(*id)));
            all.codes.extend_from_slice(codes);
        }
        all.append(rows);
        Ok(all)
    }
}
