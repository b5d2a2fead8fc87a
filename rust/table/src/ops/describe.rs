//! Data files that were written elsewhere, described as a fragment refers to them.

use std::collections::BTreeMap;
use std::sync::Arc;

use pennon_core::error::ResultExt;
use pennon_core::file::FileVersion;
use pennon_core::manifest::DataFile;
use pennon_core::schema::Field;
use pennon_core::{Error, FieldId, Result};
use pennon_datafile::{FileReader, fields_with_column};

use crate::dataset::Dataset;

impl Dataset {
    /// A data file that lies in the table's data directory, or below a base path, and the number of its rows. Its
    /// columns belong to the fields of this version that have their names.
    ///
    /// Errors: `NotFound`; `InvalidInput` for a path with directories, a base path that is not registered and a column
    /// that the table does not have; `Corrupt` for what is not a data file.
    pub async fn describe_file(&self, path: &str, base_id: Option<u32>) -> Result<(DataFile, u64)> {
        if path.is_empty() || path.contains(['/', '\\', '\0']) || path == ".." {
            return Err(Error::invalid_input(format!(
                "{path:?}: expected the name of a file in the data directory"
            )));
        }
        if let Some(id) = base_id.filter(|id| self.manifest().base_paths.iter().all(|base| base.id != *id)) {
            return Err(Error::invalid_input(format!("base path {id} is not registered")));
        }
        let (store, path_in_store) = self.snapshot().locate("data", path, base_id)?;
        let (schema, path) = (Arc::clone(self.schema()), path.to_owned());
        let name = store.full_path(&path_in_store);
        let read = move || {
            let reader = FileReader::open(store.source(&path_in_store, None))?;
            let metadata = reader.metadata();
            let mut ids = BTreeMap::new();
            same_names(&metadata.schema.fields, &schema.fields, "", &mut ids)?;
            let columns = fields_with_column(&metadata.schema, metadata.version);
            let fields: Vec<FieldId> = columns.filter_map(|field| ids.get(&field.id).copied()).collect();
            let file = DataFile {
                path,
                column_indices: match metadata.version {
                    // Their pages are found by field id.
                    FileVersion::Legacy => Arc::default(),
                    _ => (0_i32..).take(fields.len()).collect(),
                },
                fields: fields.into(),
                version: metadata.version,
                size: Some(metadata.size),
                base_id,
            };
            Ok((file, metadata.num_rows))
        };
        crate::runtime::blocking(read).await.at(|| format!("data file {name}"))
    }
}

/// For each field of a file the one of the table that has its name.
fn same_names(
    file: &[Field],
    table: &[Field],
    parent: &str,
    ids: &mut BTreeMap<FieldId, FieldId>,
) -> Result<()> {
    for field in file {
        // Row ids and versions have the same ids everywhere.
        if field.id.is_lineage() {
            ids.insert(field.id, field.id);
            continue;
        }
        let path = format!("{parent}{}", field.name);
        let found = table.iter().find(|other| other.name == field.name);
        let found = found.ok_or_else(|| Error::invalid_input(format!("the table has no field `{path}`")))?;
        ids.insert(field.id, found.id);
        same_names(&field.children, &found.children, &format!("{path}."), ids)?;
    }
    Ok(())
}
