//! The same values with other rows: those of an index after a compaction.

use std::io::Write;
use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch, UInt64Array};
use pennon_core::file::FileVersion;
use pennon_core::{Error, Result};
use pennon_datafile::FileWriter;

use super::search::BTreeIndex;
use super::{DATA_FILE, LOOKUP_FILE, options};
use crate::files::WrittenFile;

impl BTreeIndex {
    /// Writes the index with its rows where they are now. The values keep their order, so that their pages are copied as
    /// they are stored. `None` if a row is gone, or for files of another version: such an index is written from
    /// [`Self::scan`].
    ///
    /// Errors: those of [`Self::search`] and of writing.
    pub fn write_moved<W: Write>(
        &self,
        version: FileVersion,
        now: impl Fn(u64) -> Option<u64>,
        sink: impl Fn(&'static str) -> Result<W>,
    ) -> Result<Option<[WrittenFile<W>; 2]>> {
        let reader = &self.data()?.reader;
        let metadata = reader.metadata();
        let mut are_there = |rows: UInt64Array| Ok(rows.values().iter().all(|row| now(*row).is_some()));
        if metadata.version != version || !version.is_structural() || !self.scan_rows(&mut are_there)? {
            return Ok(None);
        }
        let mut data = FileWriter::try_new(sink(DATA_FILE)?, metadata.schema.clone(), options(version))?;
        data.copy_column("values", reader)?;
        self.scan_rows(&mut |rows| {
            let moved: Option<Vec<u64>> = rows.values().iter().map(|row| now(*row)).collect();
            let moved = moved.ok_or_else(|| Error::internal("a row is gone that was there"))?;
            let rows: ArrayRef = Arc::new(UInt64Array::from(moved));
            let batch = RecordBatch::try_from_iter([("ids", rows)]);
            data.write(&batch.map_err(|e| Error::internal(format!("rows of an index: {e}")))?)?;
            Ok(true)
        })?;
        let (written, data_sink) = data.finish()?;
        Ok(Some([
            WrittenFile { name: DATA_FILE, size: written.size, sink: data_sink },
            self.lookup.write(sink(LOOKUP_FILE)?, version)?,
        ]))
    }
}
