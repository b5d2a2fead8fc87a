//! Validate: does everything a version promises hold?

use std::collections::BTreeSet;
use std::sync::Arc;

use pennon_core::manifest::{Flags, Fragment, Manifest};
use pennon_core::{Error, FieldId, Result};
use roaring::RoaringTreemap;

use crate::dataset::Dataset;
use crate::scan;
use crate::snapshot::Snapshot;

impl Dataset {
    /// Checks ids, counters, flags, row lineage, deletion files and the data files' row counts of this version.
    ///
    /// Opens every data and deletion file. Errors: `Corrupt` naming the first thing that is wrong.
    pub async fn validate(&self) -> Result<()> {
        let snapshot = Arc::clone(self.snapshot());
        self.indices().await?;
        crate::blocking(move || validate(&snapshot)).await
    }
}

fn validate(snapshot: &Arc<Snapshot>) -> Result<()> {
    let manifest = snapshot.manifest.as_ref();
    let place = snapshot.store.full_path(&snapshot.source().path);
    let wrong = |what: String| Error::corrupt(format!("{place}: {what}"));
    manifest.schema.validate().map_err(|e| e.at(&place))?;
    counters(manifest).map_err(&wrong)?;
    let fields: BTreeSet<FieldId> = manifest.schema.depth_first().map(|f| f.id).collect();
    let mut ids = RoaringTreemap::new();
    for fragment in &manifest.fragments {
        let within = |what: String| wrong(format!("fragment {}: {what}", fragment.id));
        files(fragment, &fields).map_err(within)?;
        for file in &fragment.files {
            let rows = snapshot.file_reader_blocking(file)?.metadata().num_rows;
            if rows != fragment.physical_rows {
                let expected = fragment.physical_rows;
                return Err(within(format!("{} has {rows} rows, the manifest says {expected}", file.path)));
            }
        }
        let deleted = snapshot.deletion_vector_blocking(fragment)?;
        let Some(sequence) = scan::lineage(snapshot, fragment).map_err(|e| e.at(&place))? else {
            if manifest.has_stable_row_ids() {
                return Err(within("no row ids in a table with stable row ids".to_owned()));
            }
            continue;
        };
        for id in sequence.mask(&deleted).iter() {
            if id >= manifest.next_row_id {
                return Err(within(format!(
                    "row id {id}, the next new one would be {}",
                    manifest.next_row_id
                )));
            }
            if !ids.insert(id) {
                return Err(within(format!("row id {id} belongs to two rows")));
            }
        }
    }
    Ok(())
}

fn counters(manifest: &Manifest) -> Result<(), String> {
    for pair in manifest.fragments.windows(2) {
        if let [first, second] = pair
            && first.id >= second.id
        {
            return Err(format!("fragment {} stands before fragment {}", first.id, second.id));
        }
    }
    if let Some(last) = manifest.fragments.last()
        && manifest.max_fragment_id.is_none_or(|max| max < last.id.0)
    {
        return Err(format!("fragment {} is above the largest id {:?}", last.id, manifest.max_fragment_id));
    }
    let deletions = manifest.fragments.iter().any(|f| f.deletion.is_some());
    if deletions && !manifest.reader_flags.contains(Flags::DELETION_FILES) {
        return Err("there are deletion files, the feature flag says there are none".to_owned());
    }
    Ok(())
}

fn files(fragment: &Fragment, fields: &BTreeSet<FieldId>) -> Result<(), String> {
    let mut seen = BTreeSet::new();
    for file in &fragment.files {
        if file.fields.len() != file.column_indices.len() {
            let (fields, columns) = (file.fields.len(), file.column_indices.len());
            return Err(format!("{} lists {fields} fields and {columns} columns", file.path));
        }
        for &field in file.fields.iter().filter(|id| id.0 >= 0) {
            if !seen.insert(field) {
                return Err(format!("field {field} is in two data files"));
            }
        }
    }
    if !fields.is_empty() && seen.is_disjoint(fields) {
        return Err("none of its columns belongs to the schema".to_owned());
    }
    if fragment.deleted_rows() >= fragment.physical_rows && fragment.physical_rows > 0 {
        return Err(format!("all {} rows are deleted", fragment.physical_rows));
    }
    Ok(())
}
