//! Rows that know who they are, into new fragments: what compaction and updates write.

use arrow_array::RecordBatch;
use pennon_core::schema::Schema;
use pennon_core::{Error, Result};

use super::WrittenFragments;
use super::fragments::{FragmentWriter, Limits};
use super::lineage::{InlineLimit, Lineage};
use super::placement::Placement;
use crate::blobs::write::ExternalBlobs;
use crate::runtime::{CancellationToken, check};

/// Rows and their identity, in the order they are to be stored.
///
/// Who they are is asked for before they are read, because it decides which columns the file has.
pub(crate) trait IdentifiedRows {
    /// The next rows: how many of `rows` there may be, none only at the end, and who they are: all, or the first of
    /// them if the others get their ids at the commit. They stay the next ones until they are read; `known` is what an
    /// earlier call said of rows that were not.
    fn ahead(&mut self, known: Lineage, rows: u64) -> Result<(u64, Lineage)>;

    /// Reads the next rows, at least one and at most so many, no more than were asked for with [`Self::ahead`]; `None`
    /// at the end.
    fn read(&mut self, rows: u64) -> Result<Option<RecordBatch>>;
}

/// Writes all rows, one file per fragment; the last files may be on their way still. `table` are the fields that the
/// batches have.
///
/// A file is planned with as many rows as it may have, and cut short when it has as many bytes as it may have. Which
/// sequences are columns follows from the plan. Blocks; `token` is checked between batches.
pub(crate) fn write(
    rows: &mut impl IdentifiedRows,
    placement: Placement,
    table: &Schema,
    mut limits: Limits,
    inline: InlineLimit,
    token: &CancellationToken,
) -> Result<WrittenFragments> {
    // Rows that refer to something elsewhere go on doing so.
    limits.blobs.external = ExternalBlobs::Reference;
    let mut writer = FragmentWriter::new(placement, table.clone(), limits)?;
    let mut rest = Lineage::default();
    loop {
        let (mut planned, mut lineage) = rows.ahead(std::mem::take(&mut rest), limits.rows)?;
        if planned == 0 {
            return writer.finish_later(table.clone(), token);
        }
        let lineage_columns = inline.lineage_columns(&lineage, table);
        // A column has a value for each row (table format 4.7).
        if let Some(ids) = lineage.ids.as_ref().filter(|_| !lineage_columns.is_empty()) {
            planned = planned.min(ids.len());
        }
        writer.begin(&lineage_columns.fields())?;
        let (mut written, mut full) = (0, false);
        while written < planned && !full {
            check(token)?;
            let Some(batch) = rows.read(planned - written)? else { break };
            let read = u64::try_from(batch.num_rows()).unwrap_or(u64::MAX);
            if read == 0 || read > planned - written {
                return Err(Error::internal(format!(
                    "{read} rows were read, {} are left",
                    planned - written
                )));
            }
            full = writer.append(&lineage_columns.add(batch, &lineage, written)?)?;
            written += read;
        }
        if written == 0 {
            return Err(Error::internal(format!("no row was read, {planned} are left")));
        }
        if lineage.ids.as_ref().is_some_and(|ids| ids.len() > written) {
            rest = lineage.slice(written..u64::MAX);
            lineage = lineage.slice(0..written);
        }
        writer.end(|fragment| lineage_columns.assign(fragment, &lineage))?;
    }
}
