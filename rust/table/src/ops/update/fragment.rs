//! New values for columns of some fragments, from other data by a key, without committing them.

use std::sync::Arc;

use arrow_array::UInt64Array;
use arrow_array::cast::AsArray;
use arrow_array::types::UInt64Type;
use pennon_core::conflict::rebase::RowsByFragment;
use pennon_core::manifest::Fragment;
use pennon_core::transaction::Update;
use pennon_core::{Error, FieldId, FragmentId, Result, RowAddress};
use tracing::instrument;

use super::assign::Assignments;
use super::given::{Given, ROW_ADDRESS, ROW_ID};
use super::{choose, in_place};
use crate::batches::concat_batches;
use crate::blobs;
use crate::dataset::Dataset;
use crate::json;
use crate::write::lookup::{KeyedData, Lookup, scan_keys};
use crate::write::{BatchReader, columns, deletions};

/// A fragment with new columns, not committed.
#[derive(Debug, Clone, PartialEq)]
pub struct UpdatedFragment {
    /// The fragment with its new file.
    pub fragment: Fragment,
    /// The fields that it replaces.
    pub fields_modified: Vec<FieldId>,
    /// Physical offsets of the rows that have a match: a roaring bitmap in its portable form.
    pub offsets: Vec<u8>,
}

impl Dataset {
    /// Rewrites columns of a fragment, with the values of other data in rows that have the same key.
    ///
    /// `left_on` is a column of the table, `_rowid` and `_rowaddr` included, `right_on` one of the data, whose other
    /// columns are updated. Null is equal to null; of several rows with one key the last counts. Errors: `InvalidInput`
    /// for keys and columns that are not there, keys of different types, values that cannot be cast or stored;
    /// `Unsupported` for keys that are lists, structs or maps, and columns that cannot be rewritten.
    #[instrument(level = "debug", skip_all, fields(table = self.uri(), version = %self.version()))]
    pub async fn update_columns_in_fragment(
        &self,
        id: FragmentId,
        data: BatchReader,
        left_on: &str,
        right_on: &str,
    ) -> Result<UpdatedFragment> {
        let (update, _) = self.write_columns_by_key(&[id], data, left_on, right_on, true).await?;
        let missing = || Error::internal("no fragment was written");
        let mut update = update.ok_or_else(missing)?;
        let fragment = update.updated_fragments.pop().ok_or_else(missing)?;
        let offsets = update.updated_offset_bitmaps.into_values().next().unwrap_or_default().to_vec();
        Ok(UpdatedFragment { fragment, fields_modified: update.fields_modified, offsets })
    }

    /// As [`Self::update_columns_in_fragment`], of some fragments, those without a match too or not; with the rows that
    /// have a match, and `None` if no fragment has.
    pub(crate) async fn write_columns_by_key(
        &self,
        ids: &[FragmentId],
        data: BatchReader,
        left_on: &str,
        right_on: &str,
        without_match: bool,
    ) -> Result<(Option<Update>, RowsByFragment)> {
        let fragments =
            ids.iter().map(|id| self.manifest().require_fragment(*id)).collect::<Result<Vec<_>>>()?;
        let missing = |side: &str, name: &str| {
            Error::invalid_input(format!("Column {name} does not exist in the {side} side fragment"))
        };
        let all = ids.iter().copied();
        let scan = scan_keys(self.snapshot(), all, left_on, true, || missing("left", left_on))?;
        let left = scan.schema().field(0).data_type();
        let data = blobs::without_addresses(data, self.schema());
        let data = json::stored_in(data, self.snapshot().arrow_schema());
        let right = KeyedData::new(data, right_on, left, || missing("right", right_on))?;
        if right.schema.fields().is_empty() {
            return Err(Error::invalid_input(format!("The data has no column besides the key {right_on}")));
        }
        let keys = columns::values(scan.stream());
        let (given, mut rows) = crate::runtime::blocking(move || matches(&right.read()?, keys)).await?;
        if without_match {
            for id in ids {
                rows.entry(*id).or_default();
            }
        }
        if rows.is_empty() {
            return Ok((None, rows));
        }
        let assignments = Assignments::of_rows(self.snapshot(), Arc::new(given))?;
        let mut changed = fragments.iter().filter(|fragment| rows.contains_key(&fragment.id));
        changed.try_for_each(|fragment| choose::check_columns(fragment))?;
        // Who commits it, and as which version, is not known.
        let written =
            in_place::write(self.snapshot(), rows.clone(), assignments, None, None, self.durability());
        Ok((Some(written.await?.update), rows))
    }
}

/// The rows of a table that have a match, and what is given for them. Keys come with row ids and addresses.
fn matches(lookup: &Lookup, keys: columns::Values) -> Result<(Given, RowsByFragment)> {
    let (mut ids, mut addresses, mut parts) = (Vec::new(), Vec::new(), Vec::new());
    for batch in keys {
        let batch = batch?;
        let unsigned = |name: &str| -> Result<UInt64Array> {
            let column = batch.column_by_name(name).and_then(|c| c.as_primitive_opt::<UInt64Type>());
            column.cloned().ok_or_else(|| Error::internal(format!("column {name} was not read")))
        };
        let (row_ids, row_addresses) = (unsigned(ROW_ID)?, unsigned(ROW_ADDRESS)?);
        let mut matched = Vec::new();
        let rows = row_ids.values().iter().zip(row_addresses.values());
        for (position, (id, address)) in lookup.find(batch.column(0))?.into_iter().zip(rows) {
            let Some(position) = position else { continue };
            matched.push(position);
            ids.push(*id);
            addresses.push(RowAddress(*address));
        }
        parts.push(lookup.take(&matched)?);
    }
    let failed = |e| Error::invalid_input(format!("Taking {} rows: {e}", ids.len()));
    let rows = concat_batches(lookup.schema(), &parts, failed)?;
    Ok((Given::new(ROW_ID, ids, rows)?, deletions::by_fragment(addresses)))
}
