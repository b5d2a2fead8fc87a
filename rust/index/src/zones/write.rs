//! The file of an index that consists of zones.

use std::collections::BTreeMap;
use std::io::Write;
use std::sync::Arc;

use arrow_array::{
    ArrayRef, BinaryArray, BooleanArray, Float32Array, Float64Array, PrimitiveArray, RecordBatch,
    UInt32Array, UInt64Array, new_null_array,
};
use arrow_schema::{DataType, Field as ArrowField, Schema as ArrowSchema, SchemaRef};
use arrow_select::concat::concat;
use pennon_core::file::FileVersion;
use pennon_core::schema::Schema;
use pennon_core::transaction::BloomFilter;
use pennon_core::{Error, Result};
use pennon_datafile::{FileWriter, WriteOptions};

use super::gather::{ContentForm, PartContent, ValueBounds, ZoneForm, ZoneKey, ZonePart};
use super::{BLOOM_FILE, BLOOM_PROBABILITY, BLOOM_ROWS, MAP_FILE, MAP_ROWS, NULLS};
use crate::files::{GATHERED, WrittenFile};
use crate::row_set::RowSet;
use crate::scalar::ScalarIndex;

/// Bytes of a zone without its filter, about.
const ZONE_BYTES: usize = 1024;

/// Writes the file of a zone map or of a Bloom filter index.
pub struct ZoneWriter<W> {
    form: ZoneForm,
    file: FileWriter<W>,
    schema: SchemaRef,
    /// Zones that may get more rows.
    open: BTreeMap<ZoneKey, OpenZone>,
    /// Zones that are complete.
    closed: Vec<(ZoneKey, OpenZone)>,
    nulls: RowSet,
}

struct OpenZone {
    /// First and last offset.
    rows: (u32, u32),
    nulls: u32,
    content: Content,
}

enum Content {
    Bounds(ValueBounds),
    Filter(BloomFilter),
}

impl<W: Write> ZoneWriter<W> {
    /// A writer of zones of a form. Errors: those of [`FileWriter::try_new`].
    pub fn try_new(sink: W, form: ZoneForm, version: FileVersion) -> Result<Self> {
        let number = |name: &str, data_type: DataType| ArrowField::new(name, data_type, false);
        let value = |name: &str| ArrowField::new(name, form.data_type.clone(), true);
        let of_rows = ["fragment_id", "zone_start", "zone_length"].map(|name| number(name, DataType::UInt64));
        let mut fields = Vec::with_capacity(7);
        if let ContentForm::Bounds = form.content {
            fields.extend([value("min"), value("max")]);
            fields.extend(["null_count", "nan_count"].map(|name| number(name, DataType::UInt32)));
        }
        fields.extend(of_rows);
        if let ContentForm::Filter(_) = form.content {
            fields.push(number("has_null", DataType::Boolean));
            fields.push(number("bloom_filter_data", DataType::Binary));
        }
        let schema = Arc::new(ArrowSchema::new(fields));
        let options = WriteOptions { version, ..WriteOptions::default() };
        let file = FileWriter::try_new(sink, Schema::from_arrow(&schema)?, options)?;
        Ok(Self { form, file, schema, open: BTreeMap::new(), closed: Vec::new(), nulls: RowSet::new() })
    }

    /// Takes up what rows say of their zones.
    pub fn add(&mut self, parts: Vec<ZonePart>) {
        for part in parts {
            let zone = self.open.entry(part.zone).or_insert_with(|| OpenZone {
                rows: part.rows,
                nulls: 0,
                content: match &self.form.content {
                    ContentForm::Bounds => Content::Bounds(ValueBounds::default()),
                    ContentForm::Filter(empty) => Content::Filter(empty.clone()),
                },
            });
            zone.rows = (zone.rows.0.min(part.rows.0), zone.rows.1.max(part.rows.1));
            zone.nulls = zone.nulls.saturating_add(u32::try_from(part.nulls.len()).unwrap_or(u32::MAX));
            match (&mut zone.content, part.content) {
                (Content::Bounds(bounds), PartContent::Bounds(more)) => bounds.merge(more),
                (Content::Filter(filter), PartContent::Hashes(hashes)) => {
                    hashes.into_iter().for_each(|hash| filter.insert(hash));
                }
                // Parts are gathered by the form of the writer.
                (Content::Bounds(_), PartContent::Hashes(_))
                | (Content::Filter(_), PartContent::Bounds(_)) => {}
            }
            self.nulls = std::mem::take(&mut self.nulls).union(RowSet::of(part.nulls));
        }
    }

    /// Completes the zones before that of an address: no rows of them follow. Errors: `Store` when the sink fails.
    pub fn close_before(&mut self, address: u64) -> Result<()> {
        let rest = self.open.split_off(&self.form.zone_of(address));
        self.close(rest)
    }

    fn close(&mut self, still_open: BTreeMap<ZoneKey, OpenZone>) -> Result<()> {
        let complete = std::mem::replace(&mut self.open, still_open);
        self.closed.extend(complete);
        let filter = match &self.form.content {
            ContentForm::Bounds => 0,
            ContentForm::Filter(empty) => empty.bitmap.len(),
        };
        if self.closed.len().saturating_mul(ZONE_BYTES + filter) < GATHERED { Ok(()) } else { self.flush() }
    }

    /// Takes over the zones of some fragments from another index of the same form, except for the rows of its zones and its
    /// probability.
    ///
    /// Errors: `Unsupported` if that one does not say which rows are null or is of another form; those of reading.
    pub fn copy(&mut self, index: &ScalarIndex, is_kept: impl Fn(u32) -> bool) -> Result<()> {
        let stored = match (index, &self.form.content) {
            (ScalarIndex::ZoneMap(index), ContentForm::Bounds) => &index.stored,
            (ScalarIndex::BloomFilter(index), ContentForm::Filter(_)) => &index.stored,
            _ => return Err(Error::unsupported("zones of an index of another kind")),
        };
        let nulls = stored.copy(&self.schema, is_kept, &mut |zones| self.file.write(zones))?;
        self.nulls = std::mem::take(&mut self.nulls).union(nulls);
        Ok(())
    }

    fn flush(&mut self) -> Result<()> {
        if self.closed.is_empty() {
            return Ok(());
        }
        let zones = std::mem::take(&mut self.closed);
        let of_each = |of: &dyn Fn(&(ZoneKey, OpenZone)) -> u64| -> ArrayRef {
            Arc::new(zones.iter().map(of).map(Some).collect::<UInt64Array>())
        };
        let length = |(_, zone): &(ZoneKey, OpenZone)| u64::from(zone.rows.1) + 1 - u64::from(zone.rows.0);
        let of_rows = [
            of_each(&|((fragment, _), _)| u64::from(*fragment)),
            of_each(&|(_, zone)| u64::from(zone.rows.0)),
            of_each(&length),
        ];
        let mut columns: Vec<ArrayRef> = Vec::with_capacity(7);
        if let ContentForm::Bounds = self.form.content {
            let (mut min, mut max, mut nans) = (Vec::new(), Vec::new(), Vec::new());
            let null = new_null_array(&self.form.data_type, 1);
            for (_, zone) in &zones {
                let Content::Bounds(bounds) = &zone.content else { continue };
                min.push(bounds.min.as_ref().unwrap_or(&null));
                let nan = if bounds.nans > 0 { nan(&self.form.data_type) } else { None };
                max.push(nan.or_else(|| bounds.max.clone()).unwrap_or_else(|| Arc::clone(&null)));
                nans.push(bounds.nans);
            }
            let failed = |e| Error::internal(format!("bounds of zones: {e}"));
            let together = |arrays: Vec<&ArrayRef>| {
                concat(&arrays.into_iter().map(AsRef::as_ref).collect::<Vec<_>>()).map_err(failed)
            };
            columns.extend([together(min)?, together(max.iter().collect())?]);
            columns.push(Arc::new(zones.iter().map(|(_, zone)| Some(zone.nulls)).collect::<UInt32Array>()));
            columns.push(Arc::new(UInt32Array::from(nans)));
        }
        columns.extend(of_rows);
        if let ContentForm::Filter(_) = self.form.content {
            columns
                .push(Arc::new(zones.iter().map(|(_, zone)| Some(zone.nulls > 0)).collect::<BooleanArray>()));
            let filters = zones.iter().filter_map(|(_, zone)| match &zone.content {
                Content::Filter(filter) => Some(filter.bitmap.as_slice()),
                Content::Bounds(_) => None,
            });
            columns.push(Arc::new(BinaryArray::from_iter_values(filters)));
        }
        let batch = RecordBatch::try_new(Arc::clone(&self.schema), columns)
            .map_err(|e| Error::internal(format!("zones of an index: {e}")))?;
        self.file.write(&batch)
    }

    /// Writes what is left, and which rows are null. The sink is flushed, not synced.
    pub fn finish(mut self) -> Result<WrittenFile<W>> {
        self.close(BTreeMap::new())?;
        self.flush()?;
        let buffer = self.file.add_global_buffer(&self.nulls.encode()?)?;
        let rows = self.form.zone_rows.to_string();
        let mut metadata = vec![(NULLS, buffer.to_string())];
        let name = match &self.form.content {
            ContentForm::Bounds => {
                metadata.push((MAP_ROWS, rows));
                MAP_FILE
            }
            ContentForm::Filter(empty) => {
                metadata.extend([(BLOOM_ROWS, rows), (BLOOM_PROBABILITY, empty.probability.to_string())]);
                BLOOM_FILE
            }
        };
        for (key, value) in metadata {
            self.file.add_schema_metadata(key.to_owned(), value);
        }
        let (finished, sink) = self.file.finish()?;
        Ok(WrittenFile { name, size: finished.size, sink })
    }
}

/// Not a number, of a type of floats.
fn nan(data_type: &DataType) -> Option<ArrayRef> {
    Some(match data_type {
        DataType::Float16 => {
            Arc::new(PrimitiveArray::<arrow_array::types::Float16Type>::from(vec![half::f16::NAN]))
        }
        DataType::Float32 => Arc::new(Float32Array::from(vec![f32::NAN])),
        DataType::Float64 => Arc::new(Float64Array::from(vec![f64::NAN])),
        _ => return None,
    })
}
