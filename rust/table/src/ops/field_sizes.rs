//! How many bytes the fields of a version take.

use std::collections::BTreeMap;

use futures::FutureExt;
use pennon_core::{FieldId, Result};
use pennon_datafile::FileReader;

use crate::dataset::Dataset;
use crate::runtime;

/// Files of which one thread reads the ends, one after the other.
const FILES_OF_TASK: usize = 16;

impl Dataset {
    /// Bytes of the values of each field, members too, in the data files of this version, deleted rows included. Reads the
    /// end of every data file. Errors: `NotFound` for one that is missing, `Corrupt`.
    pub async fn field_sizes(&self) -> Result<BTreeMap<FieldId, u64>> {
        let mut sizes: BTreeMap<FieldId, u64> =
            self.schema().depth_first().map(|field| (field.id, 0)).collect();
        let mut files = Vec::new();
        for fragment in self.manifest().fragments.decode_all() {
            for file in &fragment.files {
                let (store, path) = self.snapshot().locate("data", &file.path, file.base_id)?;
                files.push((store, path, file.clone()));
            }
        }
        let reads = files.chunks(FILES_OF_TASK).map(|files| {
            let files = files.to_vec();
            let read = move || {
                let mut found = Vec::new();
                for (store, path, file) in files {
                    let reader = FileReader::open(store.source(&path, file.known_size()))?;
                    let columns = &reader.metadata().columns;
                    for (field, column) in file.fields.iter().zip(file.column_indices.iter()) {
                        let column = usize::try_from(*column).ok().and_then(|column| columns.get(column));
                        let buffers = column.iter().flat_map(|c| &c.pages).flat_map(|page| &page.buffers);
                        let bytes = buffers.map(|range| range.end.saturating_sub(range.start));
                        found.push((*field, bytes.fold(0, u64::saturating_add)));
                    }
                }
                Ok(found)
            };
            runtime::blocking(read).boxed()
        });
        for (field, bytes) in runtime::gather(reads.collect()).await?.into_iter().flatten() {
            if let Some(size) = sizes.get_mut(&field) {
                *size = size.saturating_add(bytes);
            }
        }
        Ok(sizes)
    }
}
