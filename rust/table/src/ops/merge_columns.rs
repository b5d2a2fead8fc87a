//! New columns from other data that has a key in common with the table: a left join.
//!
//! The other data is held in memory, its keys in a map; the keys of the table are streamed past it. Keys are equal if
//! their bytes are: null is equal to null, and zero to minus zero. Of several rows with one key the last counts.

use std::collections::HashMap;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Float16Type, Float32Type, Float64Type};
use arrow_array::{Array, ArrayRef, ArrowPrimitiveType, PrimitiveArray, RecordBatch, new_null_array};
use arrow_cast::cast;
use arrow_schema::{DataType, SchemaRef};
use arrow_select::interleave::interleave;
use pennon_core::manifest::Fragment;
use pennon_core::schema::{Evolved, Schema};
use pennon_core::{Error, FragmentId, Result};

use crate::dataset::Dataset;
use crate::scan::{Projection, Scan, ScanOptions};
use crate::write::BatchReader;
use crate::write::columns::{self, Columns};

impl Dataset {
    /// Adds the columns of other data to the rows that have the same key, null to the others, and moves to the new
    /// version.
    ///
    /// `left_on` is a column of the table, `_rowid` and `_rowaddr` included, `right_on` one of the data. Errors:
    /// `InvalidInput` for keys that are not there or of different types, for columns that are on both sides, and for
    /// rows without a match where a new column may not be null; `Unsupported` for keys that are lists, structs or maps;
    /// `Conflict` if others changed rows or columns meanwhile. The table is as before then.
    pub async fn merge_columns(&mut self, data: BatchReader, left_on: &str, right_on: &str) -> Result<()> {
        let fragments = self.manifest().fragments.to_vec();
        let (written, schema) = self.join(fragments, data, left_on, right_on).await?;
        let preserves = super::evolve::preserves_nullability(self.schema(), &schema);
        self.commit_columns(schema, written, preserves).await
    }

    /// [`Self::merge_columns`] for one fragment without committing it: the fragment with its new file, and the schema
    /// to commit it with.
    pub async fn merge_columns_in_fragment(
        &self,
        id: FragmentId,
        data: BatchReader,
        left_on: &str,
        right_on: &str,
    ) -> Result<(Fragment, Schema)> {
        let fragment = self.manifest().fragment(id).cloned().ok_or_else(|| {
            Error::invalid_input(format!("Fragment {id} is not in version {}", self.version()))
        })?;
        let (written, schema) = self.join(vec![fragment], data, left_on, right_on).await?;
        let written = written.into_iter().next().ok_or_else(|| Error::internal("no fragment was written"))?;
        Ok((written, schema))
    }

    async fn join(
        &self,
        fragments: Vec<Arc<Fragment>>,
        data: BatchReader,
        left_on: &str,
        right_on: &str,
    ) -> Result<(Vec<Fragment>, Schema)> {
        let options = ScanOptions {
            columns: Some(Projection::Names(vec![left_on.to_owned()])),
            fragments: Some(fragments.iter().map(|f| f.id).collect()),
            ..ScanOptions::default()
        };
        let missing = |side: &str, name: &str| {
            Error::invalid_input(format!("Column {name} does not exist in the {side} side dataset"))
        };
        let scan = Scan::plan(Arc::clone(self.snapshot()), &options).map_err(|_| missing("left", left_on))?;
        let right = data.schema();
        let (at, key) = right.column_with_name(right_on).ok_or_else(|| missing("right", right_on))?;
        let left = scan.schema().field(0).data_type();
        if key.data_type() != left {
            return Err(Error::invalid_input(format!(
                "Index column type mismatch: expected {}, got {left}",
                key.data_type()
            )));
        }
        check_key(left)?;
        let others: Vec<usize> = (0..right.fields().len()).filter(|other| *other != at).collect();
        let new = right.project(&others).map_err(|e| Error::internal(format!("leaving out the key: {e}")))?;
        if new.fields().is_empty() {
            return Err(Error::invalid_input(format!("The data has no column besides the key {right_on}")));
        }
        if let Some(both) = new.fields().iter().find(|f| self.schema().field(f.name()).is_some()) {
            return Err(Error::invalid_input(format!(
                "Column {} exists in both sides of the dataset",
                both.name()
            )));
        }
        let evolved =
            self.schema().with_columns(&Schema::from_arrow(&new)?, self.manifest().next_field_id())?;
        let Evolved { schema, added } = evolved;
        let lookup = crate::blocking(move || Lookup::new(data, at, &others, Arc::new(new))).await?;
        let values = columns::values(scan.stream());
        let values = Box::new(values.map(move |batch| lookup.rows_for(batch?.column(0))));
        let columns = Columns { schema: added, replaced: Vec::new() };
        let snapshot = Arc::clone(self.snapshot());
        Ok((columns::write(snapshot, fragments, columns, values, self.durability()).await?, schema))
    }
}

/// The other data by key.
struct Lookup {
    schema: SchemaRef,
    /// For each column, one null, then the batches.
    columns: Vec<Vec<ArrayRef>>,
    /// Batch and row by key; batches count from 1.
    rows: HashMap<Box<[u8]>, (usize, usize)>,
}

impl Lookup {
    fn new(data: BatchReader, key: usize, others: &[usize], schema: SchemaRef) -> Result<Self> {
        let mut columns: Vec<Vec<ArrayRef>> =
            schema.fields().iter().map(|f| vec![new_null_array(f.data_type(), 1)]).collect();
        let mut rows = HashMap::new();
        for (number, batch) in (1..).zip(data) {
            let batch = batch.map_err(|e| Error::invalid_input(format!("Reading the data failed: {e}")))?;
            each_key(batch.column(key), |row, bytes| {
                rows.insert(bytes.into(), (number, row));
            })?;
            for (column, at) in columns.iter_mut().zip(others) {
                column.push(Arc::clone(batch.column(*at)));
            }
        }
        Ok(Self { schema, columns, rows })
    }

    /// The rows for keys, null where there is none.
    fn rows_for(&self, keys: &ArrayRef) -> Result<RecordBatch> {
        let mut places = Vec::with_capacity(keys.len());
        each_key(keys, |_, key| places.push(self.rows.get(key).copied().unwrap_or((0, 0))))?;
        let unmatched = places.iter().any(|(batch, _)| *batch == 0);
        let mut columns = Vec::with_capacity(self.columns.len());
        for (field, arrays) in self.schema.fields().iter().zip(&self.columns) {
            if unmatched && !field.is_nullable() {
                return Err(Error::invalid_input(format!(
                    "Column '{}' is declared as non-nullable but contains null values: some rows have no match",
                    field.name()
                )));
            }
            let arrays: Vec<&dyn Array> = arrays.iter().map(AsRef::as_ref).collect();
            columns.push(interleave(&arrays, &places).map_err(|e| {
                Error::invalid_input(format!(
                    "Taking {} values of column {}: {e}",
                    places.len(),
                    field.name()
                ))
            })?);
        }
        RecordBatch::try_new(Arc::clone(&self.schema), columns)
            .map_err(|e| Error::invalid_input(format!("The joined columns do not fit their schema: {e}")))
    }
}

fn check_key(data_type: &DataType) -> Result<()> {
    match data_type {
        DataType::Null | DataType::Boolean | DataType::FixedSizeBinary(_) => Ok(()),
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => Ok(()),
        DataType::Binary | DataType::LargeBinary | DataType::BinaryView => Ok(()),
        DataType::Dictionary(_, value) => check_key(value),
        other if other.is_primitive() => Ok(()),
        other => Err(Error::unsupported(format!("Keys of type {other} cannot be looked up"))),
    }
}

/// Calls for each row with bytes that are equal where the keys are.
fn each_key(keys: &ArrayRef, mut each: impl FnMut(usize, &[u8])) -> Result<()> {
    let keys = plain(keys)?;
    let data = keys.to_data();
    let width = match keys.data_type() {
        DataType::FixedSizeBinary(width) => usize::try_from(*width).unwrap_or_default(),
        other => other.primitive_width().unwrap_or_default(),
    };
    let fixed = data.buffers().first().map(|buffer| buffer.as_slice()).unwrap_or_default();
    let mut bytes = Vec::new();
    for row in 0..keys.len() {
        bytes.clear();
        if keys.is_valid(row) && keys.data_type() != &DataType::Null {
            bytes.push(1);
            if let Some(keys) = keys.as_binary_opt::<i64>() {
                bytes.extend_from_slice(keys.value(row));
            } else if let Some(keys) = keys.as_boolean_opt() {
                bytes.push(u8::from(keys.value(row)));
            } else {
                let start = (data.offset() + row).saturating_mul(width);
                bytes.extend_from_slice(fixed.get(start..start.saturating_add(width)).unwrap_or_default());
            }
        }
        each(row, &bytes);
    }
    Ok(())
}

/// The same keys in one of few forms.
fn plain(keys: &ArrayRef) -> Result<ArrayRef> {
    let to = |data_type: &DataType| {
        cast(keys, data_type)
            .map_err(|e| Error::invalid_input(format!("Keys of type {}: {e}", keys.data_type())))
    };
    match keys.data_type() {
        DataType::Dictionary(_, value) => plain(&to(value)?),
        DataType::Utf8 | DataType::Utf8View => plain(&to(&DataType::LargeUtf8)?),
        DataType::LargeUtf8 | DataType::Binary | DataType::BinaryView => to(&DataType::LargeBinary),
        DataType::Float16 => Ok(unsigned_zero::<Float16Type>(keys)),
        DataType::Float32 => Ok(unsigned_zero::<Float32Type>(keys)),
        DataType::Float64 => Ok(unsigned_zero::<Float64Type>(keys)),
        _ => Ok(Arc::clone(keys)),
    }
}

/// Zero where there is minus zero.
fn unsigned_zero<T: ArrowPrimitiveType>(keys: &ArrayRef) -> ArrayRef
where
    T::Native: PartialEq + Default,
{
    let keys = keys.as_primitive::<T>();
    let zero = T::Native::default();
    let fixed: PrimitiveArray<T> = keys.unary(|key| if key == zero { zero } else { key });
    Arc::new(fixed)
}
