//! Writes one more data file for each of some fragments, row by row next to the others.
//!
//! Invariant: a file has exactly the physical rows of its fragment. Those that are deleted hold the values of the live
//! row after them, or of the last one; nobody reads them. Fields that the file replaces are tombstoned (-2) in the
//! other files, and a file that has no other field left does not belong to the fragment any more.

use std::collections::BTreeSet;
use std::sync::Arc;

use arrow_array::{Array, ArrayRef, RecordBatch, UInt64Array, make_array, new_null_array};
use arrow_select::take::take_record_batch;
use pennon_core::deletion::DeletionVector;
use pennon_core::file::FileVersion;
use pennon_core::lengths::to_u64;
use pennon_core::manifest::Fragment;
use pennon_core::schema::Schema;
use pennon_core::{Error, FieldId, Result};
use pennon_datafile::check_writable;

use super::ExternalBlobs;
use super::WriteOptions;
use super::fragments::{FragmentWriter, Limits};
use super::placement::Placement;
use crate::session::CommitOptions;
use crate::store::{Durability, Store};

/// Rows in the positions of deleted ones that are made at once.
const FILL: u64 = 64 << 10;

/// Writes the files of one fragment after the other. Blocks on the store. Dropped before [`Self::finish`], it removes
/// them.
pub(crate) struct ColumnWriter {
    files: FragmentWriter,
    replaced: BTreeSet<FieldId>,
    /// Those that were begun.
    fragments: Vec<Fragment>,
    /// Rows of the current one that were written.
    rows: u64,
    /// Live rows among them.
    live: u64,
    /// The last live row.
    last: Option<RecordBatch>,
    schema: Schema,
}

impl ColumnWriter {
    /// A writer of files of this version, whose fields take the place of some of other files. Errors: those of writing a
    /// field of the schema.
    pub(crate) fn new(
        store: &Arc<Store>,
        schema: Schema,
        replaced: Vec<FieldId>,
        version: FileVersion,
        durability: Durability,
    ) -> Result<Self> {
        check_writable(version)?;
        let commit = CommitOptions { durability, ..CommitOptions::default() };
        let params = WriteOptions { commit, ..WriteOptions::default() };
        let mut limits = Limits::new(&params, version)?;
        if !replaced.is_empty() {
            // Rows that refer to something elsewhere go on doing so.
            limits.blobs.external = ExternalBlobs::Reference;
        }
        let files = FragmentWriter::new(Placement::own(Arc::clone(store)), schema.clone(), limits)?;
        let replaced = replaced.into_iter().collect();
        Ok(Self { files, replaced, fragments: Vec::new(), rows: 0, live: 0, last: None, schema })
    }

    /// Begins the file of a fragment.
    pub(crate) fn begin(&mut self, fragment: &Fragment) -> Result<()> {
        self.files.begin(&[])?;
        self.fragments.push(fragment.edit());
        (self.rows, self.live, self.last) = (0, 0, None);
        Ok(())
    }

    /// The next physical rows of the fragment. Columns are found by name.
    pub(crate) fn append(&mut self, batch: &RecordBatch) -> Result<()> {
        self.rows = self.rows.saturating_add(to_u64(batch.num_rows()));
        let physical = self.fragments.last().map_or(0, |f| f.physical_rows);
        if self.rows > physical {
            return Err(Error::internal(format!("{} rows for {physical} physical ones", self.rows)));
        }
        self.files.append(batch).map(|_| ())
    }

    /// The next live rows of the fragment, from which `deletions` are deleted, and the deleted ones before each.
    pub(crate) fn append_live(&mut self, batch: &RecordBatch, deletions: &DeletionVector) -> Result<()> {
        let Some(last) = batch.num_rows().checked_sub(1) else { return Ok(()) };
        let rows = to_u64(batch.num_rows());
        self.last = Some(batch.slice(last, 1));
        let end = if deletions.is_empty() {
            self.rows.saturating_add(rows)
        } else {
            deletions.live_offset(self.live.saturating_add(rows - 1)).saturating_add(1)
        };
        self.live = self.live.saturating_add(rows);
        if end - self.rows == rows {
            return self.append(batch);
        }
        let mut next = 0;
        let mut sources = Vec::new();
        for live in deletions.live_ranges(self.rows..end) {
            let mut gap = live.start - self.rows - to_u64(sources.len());
            while gap > 0 {
                let filled = gap.min(FILL);
                sources.extend((0..filled).map(|_| next));
                gap -= filled;
                self.take(batch, &mut sources, FILL)?;
            }
            for _ in live {
                sources.push(next);
                next += 1;
                self.take(batch, &mut sources, FILL)?;
            }
        }
        self.take(batch, &mut sources, 0)
    }

    /// Appends these rows of a batch if they are more than so many.
    fn take(&mut self, batch: &RecordBatch, sources: &mut Vec<u64>, most: u64) -> Result<()> {
        if to_u64(sources.len()) <= most {
            return Ok(());
        }
        let rows = UInt64Array::from(std::mem::take(sources));
        let taken = take_record_batch(batch, &rows)
            .map_err(|e| Error::invalid_input(format!("Taking {} rows: {e}", rows.len())))?;
        self.append(&taken)
    }

    /// Completes the file. The rows behind the last live one are deleted.
    pub(crate) fn end(&mut self) -> Result<()> {
        let physical = self.fragments.last().map_or(0, |f| f.physical_rows);
        while self.rows < physical {
            let rows = (physical - self.rows).min(FILL);
            let filling = match self.last.clone() {
                Some(last) => {
                    let first = UInt64Array::from_iter_values((0..rows).map(|_| 0));
                    take_record_batch(&last, &first)
                        .map_err(|e| Error::invalid_input(format!("Taking {rows} rows: {e}")))?
                }
                None => self.nothing(rows)?,
            };
            self.append(&filling)?;
        }
        self.files.end(|_| ())
    }

    /// Rows of a fragment without a live one.
    fn nothing(&self, rows: u64) -> Result<RecordBatch> {
        let rows = usize::try_from(rows).unwrap_or(usize::MAX);
        let fields = self.schema.fields.iter().map(pennon_core::schema::Field::to_arrow);
        let arrow = Arc::new(arrow_schema::Schema::new(fields.collect::<Vec<_>>()));
        let column = |field: &Arc<arrow_schema::Field>| -> Result<ArrayRef> {
            let nulls = new_null_array(field.data_type(), rows);
            if field.is_nullable() {
                return Ok(nulls);
            }
            let data = nulls.to_data().into_builder().nulls(None).build();
            data.map(make_array).map_err(|e| Error::internal(format!("rows that are all deleted: {e}")))
        };
        let columns = arrow.fields().iter().map(column).collect::<Result<_>>()?;
        RecordBatch::try_new(arrow, columns)
            .map_err(|e| Error::internal(format!("rows that are all deleted: {e}")))
    }

    /// The fragments that were begun, with their new files.
    pub(crate) fn finish(self) -> Result<Vec<Fragment>> {
        let Self { files, fragments, replaced, schema, .. } = self;
        let written = files.finish(schema)?;
        let with_file = |(mut fragment, new): (Fragment, Fragment)| {
            fragment.files =
                fragment.files.iter().filter_map(|file| file.without(|id| replaced.contains(id))).collect();
            fragment.files.extend(new.files);
            fragment
        };
        Ok(fragments.into_iter().zip(written.fragments).map(with_file).collect())
    }
}
