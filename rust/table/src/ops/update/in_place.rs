//! Columns rewritten: a file of the assigned columns for each fragment with a match, the old ones tombstoned.
//!
//! Rows stay where they are. Of those that do not match the old values are copied; expressions are evaluated for those
//! that match and no others.

use std::collections::VecDeque;
use std::sync::Arc;

use arrow_array::{Array, ArrayRef, RecordBatch};
use arrow_schema::Field as ArrowField;
use pennon_core::conflict::rebase::RowsByFragment;
use pennon_core::file::FileVersion;
use pennon_core::rows::RowRanges;
use pennon_core::schema::{Field, Schema};
use pennon_core::{Error, FragmentId, Result};

use super::assign::{self, Assignments};
use crate::batches::interleave_arrays;
use crate::expr;
use crate::scan::{FragmentReader, Input};
use crate::store::Durability;
use crate::versions::snapshot::Snapshot;
use crate::write::columns::{self, ColumnFiles};
use crate::write::in_place::RowsInPlace;
use crate::write::moved::Staged;

/// Rows of a batch.
const BATCH_ROWS: u64 = 64 << 10;
/// Rows of a batch with blobs, whose size is not known before they are read.
const BLOB_ROWS: u64 = 64;

/// Writes the files; `in_place` and `file_version`: see [`ColumnFiles`].
///
/// Errors: those of reading and of the assignments; files that were written are removed then.
pub(super) async fn write(
    snapshot: &Arc<Snapshot>,
    rows: RowsByFragment,
    assignments: Assignments,
    in_place: Option<RowsInPlace>,
    file_version: Option<FileVersion>,
    durability: Durability,
) -> Result<Staged> {
    let fields: Vec<_> = assignments.fields().cloned().collect();
    let names: Vec<String> = fields.iter().map(|field| field.name.clone()).collect();
    let batch_rows = if fields.iter().any(Field::has_blobs) { BLOB_ROWS } else { BATCH_ROWS };
    let values = NewColumns {
        snapshot: Arc::clone(snapshot),
        old: Input::of(snapshot, &names)?,
        needed: Input::of(snapshot, &assignments.needed())?,
        assignments,
        fragments: rows.iter().map(|(id, rows)| (*id, rows.ranges().collect())).collect(),
        current: None,
        batch_rows,
    };
    let schema = Schema { fields, metadata: snapshot.manifest.schema.metadata.clone() };
    let columns = ColumnFiles { schema, file_version, in_place, ..ColumnFiles::default() };
    columns::stage(snapshot, &rows, columns, Box::new(values), durability).await
}

/// The assigned columns of all live rows of some fragments.
struct NewColumns {
    snapshot: Arc<Snapshot>,
    /// The assigned columns.
    old: Input,
    /// What new values are made of.
    needed: Input,
    assignments: Assignments,
    /// Fragments to come, each with the rows that match.
    fragments: VecDeque<(FragmentId, RowRanges)>,
    current: Option<Current>,
    batch_rows: u64,
}

struct Current {
    reader: FragmentReader,
    matched: RowRanges,
    /// Live rows to come, a batch each.
    pieces: Box<dyn Iterator<Item = RowRanges> + Send>,
}

impl Iterator for NewColumns {
    type Item = Result<RecordBatch>;

    fn next(&mut self) -> Option<Self::Item> {
        self.next_batch().transpose()
    }
}

impl NewColumns {
    fn next_batch(&mut self) -> Result<Option<RecordBatch>> {
        loop {
            if let Some(current) = &mut self.current
                && let Some(piece) = current.pieces.next()
            {
                let hits = piece.intersect(&current.matched);
                let Some(current) = &self.current else { continue };
                return self.batch(&current.reader, &piece, &hits).map(Some);
            }
            let Some((id, matched)) = self.fragments.pop_front() else { return Ok(None) };
            let fragment = self.snapshot.manifest.fragment(id);
            let fragment = fragment.ok_or_else(|| Error::internal(format!("fragment {id} is gone")))?;
            let before = self.snapshot.manifest.fragments.rows_before(id);
            let reader = FragmentReader::new(Arc::clone(&self.snapshot), Arc::clone(fragment), before);
            let live = reader.live_ranges(&(0..fragment.live_rows()))?;
            let pieces = Box::new(live.split_by(self.batch_rows));
            self.current = Some(Current { reader, matched, pieces });
        }
    }

    /// The columns of live rows, of which some match.
    fn batch(&self, reader: &FragmentReader, rows: &RowRanges, hits: &RowRanges) -> Result<RecordBatch> {
        let picks = picks(rows, hits);
        let fields = self.old.schema.fields();
        if hits.is_empty() {
            return self.old.read(reader, rows);
        }
        let new = self.assignments.values(&self.needed.read(reader, hits)?)?;
        let all_new = picks.iter().all(|(source, _)| *source == 1);
        let columns: Vec<ArrayRef> = if all_new {
            new
        } else {
            let old = self.old.read(reader, rows)?;
            let pairs = old.columns().iter().zip(&new);
            pairs.map(|(old, new)| combine(old, new, &picks)).collect::<Result<_>>()?
        };
        let field = |(field, array): (&Arc<ArrowField>, &ArrayRef)| {
            ArrowField::new(field.name(), array.data_type().clone(), field.is_nullable())
        };
        let fields = fields.iter().zip(&columns).map(field).collect();
        assign::batch(fields, columns, picks.len())
    }
}

/// For each of the rows, whether it is taken from the old (0) or the new values (1), and which of them it is.
fn picks(rows: &RowRanges, hits: &RowRanges) -> Vec<(usize, usize)> {
    let mut picks = Vec::new();
    let (mut old, mut new) = (0, 0);
    let mut hits = hits.iter().peekable();
    for row in rows.rows() {
        while hits.next_if(|hit| hit.end <= row).is_some() {}
        if hits.peek().is_some_and(|hit| hit.start <= row) {
            picks.push((1, new));
            new += 1;
        } else {
            picks.push((0, old));
        }
        old += 1;
    }
    picks
}

fn combine(old: &ArrayRef, new: &ArrayRef, picks: &[(usize, usize)]) -> Result<ArrayRef> {
    let mut old = Arc::clone(old);
    if old.data_type() != new.data_type() {
        old = expr::hand_down(old).map_err(|e| Error::internal(format!("old values: {e}")))?;
    }
    let failed = |e| Error::invalid_input(format!("Putting old and new values together: {e}"));
    interleave_arrays(&[old, Arc::clone(new)], picks, failed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_that_match_among_live_ones() {
        let found = picks(&RowRanges::from([2..5, 7..9]), &RowRanges::from([3..4, 8..9]));
        assert_eq!(found, [(0, 0), (1, 0), (0, 2), (0, 3), (1, 1)]);
        assert_eq!(picks(&RowRanges::from(0..2), &RowRanges::new()), [(0, 0), (0, 1)]);
    }
}
