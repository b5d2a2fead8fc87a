//! New columns from other data that has a key in common with the table: a left join.
//!
//! The keys of the table are streamed past the rows of the other data, see [`Lookup`](crate::write::lookup::Lookup).

use std::sync::Arc;

use pennon_core::manifest::Fragment;
use pennon_core::schema::{Evolved, Schema};
use pennon_core::{Error, FragmentId, Result};
use tracing::instrument;

use crate::dataset::Dataset;
use crate::json;
use crate::write::BatchReader;
use crate::write::columns::{self, ColumnFiles};
use crate::write::lookup::{KeyedData, scan_keys};

impl Dataset {
    /// Adds the columns of other data to the rows that have the same key, null to the others, and moves to the new
    /// version.
    ///
    /// `left_on` is a column of the table, `_rowid` and `_rowaddr` included, `right_on` one of the data. Errors:
    /// `InvalidInput` for keys that are not there or of different types, for columns that are on both sides, and for
    /// rows without a match where a new column may not be null; `Unsupported` for keys that are lists, structs or maps;
    /// `Conflict` if others changed rows or columns meanwhile. The table is as before then.
    #[instrument(level = "debug", skip_all, fields(table = self.uri(), version = %self.version()))]
    pub async fn merge_columns(&mut self, data: BatchReader, left_on: &str, right_on: &str) -> Result<()> {
        let fragments = self.manifest().fragments.decode_all().collect();
        let (written, schema) = self.join_columns(fragments, data, left_on, right_on).await?;
        let preserves = super::evolve::preserves_nullability(self.schema(), &schema);
        self.commit_columns(schema, written, preserves).await
    }

    /// [`Self::merge_columns`] for one fragment without committing it: the fragment with its new file, and the schema
    /// to commit it with.
    #[instrument(level = "debug", skip_all, fields(table = self.uri(), version = %self.version()))]
    pub async fn merge_columns_in_fragment(
        &self,
        id: FragmentId,
        data: BatchReader,
        left_on: &str,
        right_on: &str,
    ) -> Result<(Fragment, Schema)> {
        let fragments = vec![Arc::clone(self.manifest().require_fragment(id)?)];
        let (written, schema) = self.join_columns(fragments, data, left_on, right_on).await?;
        let written = written.into_iter().next().ok_or_else(|| Error::internal("no fragment was written"))?;
        Ok((written, schema))
    }

    /// The fragments with a file of the joined columns, and the new schema.
    pub(crate) async fn join_columns(
        &self,
        fragments: Vec<Arc<Fragment>>,
        data: BatchReader,
        left_on: &str,
        right_on: &str,
    ) -> Result<(Vec<Fragment>, Schema)> {
        let missing = |side: &str, name: &str| {
            Error::invalid_input(format!("Column {name} does not exist in the {side} side dataset"))
        };
        let ids = fragments.iter().map(|fragment| fragment.id);
        let scan = scan_keys(self.snapshot(), ids, left_on, false, || missing("left", left_on))?;
        let left = scan.schema().field(0).data_type();
        let right = KeyedData::new(json::stored(data), right_on, left, || missing("right", right_on))?;
        let new = &right.schema;
        if new.fields().is_empty() {
            return Err(Error::invalid_input(format!("The data has no column besides the key {right_on}")));
        }
        if let Some(both) = new.fields().iter().find(|f| self.schema().field(f.name()).is_some()) {
            return Err(Error::invalid_input(format!(
                "Column {} exists in both sides of the dataset",
                both.name()
            )));
        }
        let Evolved { schema, added } = self.with_new_columns(new)?;
        let lookup = crate::runtime::blocking(move || right.read()).await?;
        let values = columns::values(scan.stream());
        let values = Box::new(values.map(move |batch| lookup.rows_for(batch?.column(0))));
        let columns = ColumnFiles { schema: added, ..ColumnFiles::default() };
        let snapshot = Arc::clone(self.snapshot());
        Ok((columns::write(snapshot, fragments, columns, values, self.durability()).await?, schema))
    }
}
