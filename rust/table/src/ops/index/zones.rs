//! The files of segments that consist of zones: zones of other segments are taken over, others are made of the values of
//! fragments.
//!
//! A compaction moves rows and leaves their values: zones of the new fragments are made of the values of the old ones,
//! which the version has, by the addresses that the rows get.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::UInt64Type;
use arrow_array::{ArrayRef, BooleanArray, RecordBatch, UInt64Array};
use arrow_select::filter::filter;
use futures::TryStreamExt;
use pennon_core::manifest::AddressMoves;
use pennon_core::{Error, FragmentId, Result, RowAddress};
use pennon_index::{ScalarIndex, ZoneForm, ZonePart, ZoneWriter};
use roaring::RoaringBitmap;

use super::build::{Build, Built, READ_ROWS, complete, sink};
use crate::runtime::{advance, blocking, processors};
use crate::scan::{Projection, Scan, ScanOptions};

/// What zones are made of.
#[derive(Debug, Default)]
pub(super) struct ZoneSource {
    /// Segments whose zones of some fragments are taken over.
    pub(super) kept: Vec<(Arc<ScalarIndex>, RoaringBitmap)>,
    /// Fragments that are read. No zone has rows of two of these groups.
    pub(super) groups: Vec<Vec<FragmentId>>,
    /// Where their rows go.
    pub(super) moves: Option<Arc<AddressMoves>>,
}

impl ZoneSource {
    /// The values of fragments.
    pub(super) fn of_fragments(fragments: Vec<FragmentId>) -> Self {
        Self { groups: vec![fragments], ..Self::default() }
    }
}

/// Makes the file. Errors: those of reading and writing; nothing is left of the file then.
pub(super) async fn run(build: Build, source: ZoneSource) -> Result<Built> {
    let Build { snapshot, field, kind, uuid, parameters, durability, .. } = build;
    let form = ZoneForm::try_new(kind, field.data_type(), parameters.zone_rows, parameters.probability)?;
    let path = snapshot.manifest.schema.path_of(field.id);
    let path = path.ok_or_else(|| Error::internal("an indexed field without a path"))?;
    let ZoneSource { kept, groups, moves } = source;
    let (into, of_file) = (Arc::clone(&snapshot), form.clone());
    let mut writer = blocking(move || {
        let name =
            if kind == pennon_index::IndexKind::ZoneMap { "zonemap.lance" } else { "bloomfilter.lance" };
        let sink = sink(&into, uuid, name, durability)?;
        let mut writer = ZoneWriter::try_new(sink, of_file, into.manifest.version_of_index_files())?;
        kept.iter().try_for_each(|(index, fragments)| writer.copy(index, |id| fragments.contains(id)))?;
        Ok(writer)
    })
    .await?;
    for mut fragments in groups {
        fragments.sort_unstable();
        fragments.dedup();
        if fragments.is_empty() {
            continue;
        }
        let options = ScanOptions {
            columns: Some(Projection::Names(vec![path.clone()])),
            fragments: Some(fragments.into_iter().map(Into::into).collect()),
            with_row_address: true,
            batch_size: Some(READ_ROWS),
            ..ScanOptions::default()
        };
        let batches = Scan::new(Arc::clone(&snapshot), &options)?.stream();
        let gathered = batches.map_ok(|batch| {
            let (form, moves) = (form.clone(), moves.clone());
            blocking(move || gather(&form, &batch, moves.as_deref()))
        });
        let mut gathered = std::pin::pin!(gathered.try_buffered(processors()));
        let in_order = moves.is_none();
        while let Some(Gathered { first, parts, rows }) = gathered.try_next().await? {
            writer = blocking(move || {
                if in_order {
                    writer.close_before(first)?;
                }
                writer.add(parts);
                Ok(writer)
            })
            .await?;
            advance(|counts| {
                counts.stage = super::READ_STAGE;
                counts.rows += rows;
            })
            .await?;
        }
        writer = blocking(move || writer.close_before(u64::MAX).map(|()| writer)).await?;
    }
    blocking(move || complete(&snapshot, uuid, vec![writer.finish()?], durability)).await
}

/// What the rows of a batch say of their zones.
struct Gathered {
    /// The address of the first of them.
    first: u64,
    parts: Vec<ZonePart>,
    rows: u64,
}

fn gather(form: &ZoneForm, batch: &RecordBatch, moves: Option<&AddressMoves>) -> Result<Gathered> {
    let [values, addresses] = batch.columns() else {
        return Err(Error::internal(format!("{} columns of an index", batch.num_columns())));
    };
    let addresses = addresses.as_primitive_opt::<UInt64Type>();
    let addresses = addresses.ok_or_else(|| Error::internal("addresses are not uint64"))?;
    let first = addresses.values().first().copied().unwrap_or_default();
    let parts = match moves {
        None => form.gather(values, addresses)?,
        Some(moves) => {
            let (values, addresses) = moved(values, addresses, moves)?;
            form.gather(&values, &addresses)?
        }
    };
    Ok(Gathered { first, parts, rows: batch.num_rows() as u64 })
}

/// Values of rows that are left, by the addresses that these get.
fn moved(
    values: &ArrayRef,
    addresses: &UInt64Array,
    moves: &AddressMoves,
) -> Result<(ArrayRef, UInt64Array)> {
    let new: UInt64Array =
        addresses.values().iter().map(|row| moves.current(RowAddress(*row)).map(|new| new.0)).collect();
    if arrow_array::Array::null_count(&new) == 0 {
        return Ok((Arc::clone(values), new));
    }
    let mask: BooleanArray = new.iter().map(|row| Some(row.is_some())).collect();
    let values =
        filter(values.as_ref(), &mask).map_err(|e| Error::internal(format!("values of an index: {e}")))?;
    Ok((values, new.iter().flatten().collect::<Vec<u64>>().into()))
}
