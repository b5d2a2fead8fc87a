//! Distances of the vectors of a scan, and the nearest rows of all.

use std::fmt;
use std::sync::{Arc, LazyLock};

use arrow_array::types::{Float32Type, UInt32Type, UInt64Type};
use arrow_array::{
    Array, ArrayRef, FixedSizeListArray, Float32Array, RecordBatch, UInt32Array, UInt64Array, cast::AsArray,
};
use arrow_schema::{DataType, Field as ArrowField, Schema as ArrowSchema, SchemaRef};
use arrow_select::take::take_record_batch;
use futures::TryStreamExt;
use pennon_core::lengths::to_u64;
use pennon_core::{Error, FieldId, Result};
use pennon_index::{DistanceRange, Metric, Neighbor, Neighbors, VectorQuery};

use super::Nearest;
use super::output::FoundRow;
use crate::runtime::{each_concurrently, processors};
use crate::scan::BatchStream;
use crate::versions::snapshot::Snapshot;

/// The queries of a search, and what they ask for.
#[derive(Debug)]
pub(super) struct NearestSearch {
    column: String,
    pub(super) field: FieldId,
    pub(super) metric: Metric,
    pub(super) k: usize,
    pub(super) range: DistanceRange,
    /// The vectors of each query: one, or several for a column of lists.
    queries: Vec<Vec<VectorQuery>>,
    /// Their values.
    pub(super) values: Vec<Vec<ArrayRef>>,
    /// Whether rows have lists of vectors.
    pub(super) is_list: bool,
    /// Whether the rows of several queries are told apart.
    is_batch: bool,
}

/// The columns of rows that were found.
static FOUND: LazyLock<SchemaRef> = LazyLock::new(|| {
    Arc::new(ArrowSchema::new(vec![
        ArrowField::new("query", DataType::UInt32, false),
        ArrowField::new("distance", DataType::Float32, false),
        ArrowField::new("id", DataType::UInt64, false),
        ArrowField::new("address", DataType::UInt64, false),
    ]))
});

impl NearestSearch {
    /// Errors: `InvalidInput` for a column that is not there or has no vectors, `k` of 0, and a query that does not fit.
    pub(super) fn new(
        snapshot: &Snapshot,
        nearest: &Nearest,
        k: u64,
        metric: Option<Metric>,
    ) -> Result<Self> {
        let Nearest { column, query, .. } = nearest;
        let schema = &snapshot.manifest.schema;
        let field = schema.field_by_path(column).ok_or_else(|| schema.unknown_column(column))?;
        let data_type = field.data_type();
        let no_vectors =
            || Error::invalid_input(format!("Query column {column} must be a vector. Got {data_type}."));
        let (vector, is_list) = match &data_type {
            DataType::FixedSizeList(..) => (&data_type, false),
            DataType::List(item) | DataType::LargeList(item) => (item.data_type(), true),
            _ => return Err(no_vectors()),
        };
        let DataType::FixedSizeList(element, dimension) = vector else { return Err(no_vectors()) };
        let dimension = usize::try_from(*dimension).unwrap_or(0);
        if dimension == 0 {
            return Err(no_vectors());
        }
        if k == 0 {
            return Err(Error::invalid_input("Nearest-K must be > 0 but got 0"));
        }
        let metric = metric.unwrap_or_else(|| Metric::natural(element.data_type()));
        let count = nearest.vectors.unwrap_or(1);
        let size = query.len().checked_div(count).filter(|size| size * count == query.len());
        let size = size.ok_or_else(|| {
            Error::invalid_input(format!("{} numbers are not {count} query vectors", query.len()))
        })?;
        let values: Vec<ArrayRef> = (0..count).map(|at| query.slice(at * size, size)).collect();
        let values = if is_list { vec![values] } else { values.into_iter().map(|v| vec![v]).collect() };
        let of_query = |values: &Vec<ArrayRef>| {
            let vector = |values| VectorQuery::new(metric, element.data_type(), dimension, values);
            values.iter().map(vector).collect::<Result<Vec<_>>>()
        };
        let queries = values.iter().map(of_query).collect::<Result<Vec<_>>>()?;
        Ok(Self {
            column: column.clone(),
            field: field.id,
            metric,
            k: usize::try_from(k).unwrap_or(usize::MAX),
            range: nearest.range,
            queries,
            values,
            is_list,
            is_batch: nearest.vectors.is_some() && !is_list,
        })
    }

    pub(super) fn is_batch(&self) -> bool {
        self.is_batch
    }

    /// Of a batch of vectors, row ids and row addresses the nearest rows of each query.
    pub(super) fn nearest_of(&self, batch: &RecordBatch) -> Result<RecordBatch> {
        let of_query = |query: &Vec<VectorQuery>| self.nearest_in(query, batch);
        Self::batch_of(self.queries.iter().map(of_query).collect::<Result<Vec<_>>>()?)
    }

    /// Of a batch as for [`Self::nearest_of`], whose addresses ascend, the nearest rows of each query among those that were
    /// found for it.
    pub(super) fn nearest_among(&self, batch: &RecordBatch, found: &[Vec<Neighbor>]) -> Result<RecordBatch> {
        let [_, _, addresses] = batch.columns() else {
            return Err(Error::internal("vectors without their rows"));
        };
        let addresses = addresses.as_primitive::<UInt64Type>().values();
        let queries: Vec<_> = self.queries.iter().zip(found).collect();
        let of_query = |(query, found): &(&Vec<VectorQuery>, &Vec<Neighbor>)| {
            let at = found.iter().filter_map(|row| addresses.binary_search(&row.address).ok());
            let at = UInt64Array::from_iter_values(at.map(to_u64));
            let own = take_record_batch(batch, &at);
            self.nearest_in(query, &own.map_err(|e| Error::internal(format!("rows of a query: {e}")))?)
        };
        Self::batch_of(each_concurrently(processors(), &queries, of_query)?)
    }

    /// The nearest of the rows of a batch to one query.
    fn nearest_in(&self, query: &[VectorQuery], batch: &RecordBatch) -> Result<Vec<Neighbor>> {
        let [vectors, ids, addresses] = batch.columns() else {
            return Err(Error::internal("vectors without their rows"));
        };
        let (ids, addresses) = (ids.as_primitive::<UInt64Type>(), addresses.as_primitive::<UInt64Type>());
        let mut nearest = Neighbors::new(self.k, self.range);
        let distances = distances(query, vectors)?;
        for ((distance, id), address) in distances.into_iter().zip(ids.values()).zip(addresses.values()) {
            nearest.offer(Neighbor { distance, id: *id, address: *address });
        }
        Ok(nearest.into_sorted())
    }

    /// The rows of each query as a batch.
    pub(super) fn batch_of(of_queries: Vec<Vec<Neighbor>>) -> Result<RecordBatch> {
        let (mut queries, mut rows) = (Vec::new(), Vec::new());
        for (number, of_query) in (0_u32..).zip(of_queries) {
            rows.extend(of_query);
            queries.resize(rows.len(), number);
        }
        let columns: Vec<ArrayRef> = vec![
            Arc::new(UInt32Array::from(queries)),
            Arc::new(Float32Array::from_iter_values(rows.iter().map(|row| row.distance))),
            Arc::new(UInt64Array::from_iter_values(rows.iter().map(|row| row.id))),
            Arc::new(UInt64Array::from_iter_values(rows.iter().map(|row| row.address))),
        ];
        RecordBatch::try_new(Arc::clone(&FOUND), columns)
            .map_err(|e| Error::internal(format!("the nearest rows of a unit: {e}")))
    }

    /// The nearest rows of what [`Self::nearest_of`] gave for parts of the table, query by query.
    pub(super) async fn merged(&self, mut parts: BatchStream) -> Result<Vec<FoundRow>> {
        let mut nearest: Vec<Neighbors> =
            self.queries.iter().map(|_| Neighbors::new(self.k, self.range)).collect();
        while let Some(part) = parts.try_next().await? {
            let [queries, distances, ids, addresses] = part.columns() else {
                return Err(Error::internal("nearest rows without distances"));
            };
            let rows = queries.as_primitive::<UInt32Type>().values().iter();
            let rows = rows.zip(distances.as_primitive::<Float32Type>().values());
            let rows = rows.zip(ids.as_primitive::<UInt64Type>().values());
            for (((query, distance), id), address) in
                rows.zip(addresses.as_primitive::<UInt64Type>().values())
            {
                let of_query = usize::try_from(*query).ok().and_then(|at| nearest.get_mut(at));
                if let Some(of_query) = of_query {
                    of_query.offer(Neighbor { distance: *distance, id: *id, address: *address });
                }
            }
        }
        let of_query = |(query, nearest): (i32, Neighbors)| {
            nearest.into_sorted().into_iter().map(move |neighbor| FoundRow { query, neighbor })
        };
        Ok((0..).zip(nearest).flat_map(of_query).collect())
    }
}

impl fmt::Display for NearestSearch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} by {} of {}", self.k, self.metric, self.column)?;
        if self.is_batch {
            write!(f, ", for each of {} queries", self.queries.len())?;
        }
        Ok(())
    }
}

/// The distance of each row, NaN where there is none. Of a row with several vectors it is the sum, over the vectors of
/// the query, of the least distance.
fn distances(query: &[VectorQuery], column: &ArrayRef) -> Result<Vec<f32>> {
    let vectors_of = |array: &ArrayRef| -> Result<FixedSizeListArray> {
        array.as_fixed_size_list_opt().cloned().ok_or_else(|| Error::internal("a column without vectors"))
    };
    let (offsets, vectors) = match column.data_type() {
        DataType::List(_) => {
            let list = column.as_list::<i32>();
            (list.value_offsets().iter().map(|at| i64::from(*at)).collect(), vectors_of(list.values())?)
        }
        DataType::LargeList(_) => {
            let list = column.as_list::<i64>();
            (list.value_offsets().to_vec(), vectors_of(list.values())?)
        }
        _ => {
            let [query] = query else { return Err(Error::internal("several vectors for one")) };
            return query.distances(&vectors_of(column)?);
        }
    };
    // Of a slice the list has all values; those of its rows are looked at.
    let end = |at: Option<&i64>| at.and_then(|at| usize::try_from(*at).ok()).unwrap_or(0);
    let (first, last) = (end(offsets.first()), end(offsets.last()));
    let vectors = vectors.slice(first, last - first);
    let mut sums = vec![0.0_f32; column.len()];
    for query in query {
        let of_vectors = query.distances(&vectors)?;
        for ((row, sum), ends) in sums.iter_mut().enumerate().zip(offsets.windows(2)) {
            let of_row = of_vectors.get(end(ends.first()) - first..end(ends.last()) - first);
            let least = of_row.unwrap_or_default().iter().copied().fold(f32::NAN, f32::min);
            // The least of none is NaN, and so is the sum then.
            *sum += if column.is_null(row) { f32::NAN } else { least };
        }
    }
    Ok(sums)
}
