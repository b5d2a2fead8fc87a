//! Graphs as rows of a file: the nodes of each partition, level by level.

use std::sync::Arc;

use arrow_array::{Array, ArrayRef, Float32Array, ListArray, RecordBatch, UInt32Array};
use arrow_buffer::{OffsetBuffer, ScalarBuffer};
use arrow_schema::{DataType, Field, Schema as ArrowSchema, SchemaRef};
use pennon_core::{Error, Result};
use serde_json::json;

use super::{Graph, GraphOptions};

pub(super) const NODE: &str = "__vector_id";
pub(super) const NEIGHBORS: &str = "__neighbors";
const DISTANCES: &str = "_distance";
/// What searches of the reference request ahead.
const PREFETCH: u32 = 2;
/// The ends of at most so many levels without nodes are written.
const MOST_LEVELS: u32 = 64;

/// The rows of a graph, and what the metadata says of it.
#[derive(Debug)]
pub(in crate::vector) struct GraphRows {
    pub(in crate::vector) batch: RecordBatch,
    pub(in crate::vector) text: String,
}

impl GraphRows {
    /// The columns of the file.
    pub(in crate::vector) fn schema() -> SchemaRef {
        let list = |item| DataType::List(Arc::new(Field::new("item", item, true)));
        Arc::new(ArrowSchema::new(vec![
            Field::new(NODE, DataType::UInt32, true),
            Field::new(NEIGHBORS, list(DataType::UInt32), true),
            Field::new(DISTANCES, list(DataType::Float32), true),
        ]))
    }

    /// The rows of a graph; `distance` is that of two nodes. Errors: `Unsupported` for more neighbors than a list can have.
    pub(in crate::vector) fn of(
        graph: &Graph,
        options: GraphOptions,
        distance: impl Fn(u32, u32) -> f32,
    ) -> Result<Self> {
        let (mut nodes, mut neighbors, mut distances) = (Vec::new(), Vec::new(), Vec::new());
        let (mut lengths, mut offsets) = (Vec::new(), vec![0]);
        for level in &graph.levels {
            let all = 0..u32::try_from(level.len()).unwrap_or(u32::MAX);
            let of_level: Vec<u32> = level.nodes.clone().unwrap_or_else(|| all.collect());
            for node in of_level {
                let of_node = level.neighbors(node);
                distances.extend(of_node.iter().map(|neighbor| distance(node, *neighbor)));
                neighbors.extend_from_slice(of_node);
                lengths.push(of_node.len());
                nodes.push(node);
            }
            offsets.push(nodes.len());
        }
        let too_many = || Error::unsupported(format!("{} neighbors in a graph", neighbors.len()));
        i32::try_from(neighbors.len()).map_err(|_| too_many())?;
        let ends = OffsetBuffer::<i32>::from_lengths(lengths);
        let list = |name: &str, items: ArrayRef| {
            let field = Arc::new(Field::new("item", items.data_type().clone(), true));
            let list = ListArray::try_new(field, ends.clone(), items, None);
            list.map_err(|e| Error::internal(format!("column `{name}`: {e}")))
        };
        let neighbors: ArrayRef = Arc::new(UInt32Array::from(neighbors));
        let distances: ArrayRef = Arc::new(Float32Array::from(distances));
        let columns: Vec<ArrayRef> = vec![
            Arc::new(UInt32Array::new(ScalarBuffer::from(nodes), None)),
            Arc::new(list(NEIGHBORS, neighbors)?),
            Arc::new(list(DISTANCES, distances)?),
        ];
        let batch = RecordBatch::try_new(Self::schema(), columns);
        let batch = batch.map_err(|e| Error::internal(format!("rows of a graph: {e}")))?;
        Ok(Self { batch, text: text(graph.entry, options, &offsets) })
    }
}

/// What the metadata says of the graph of a partition without rows.
pub(in crate::vector) fn empty_text(options: GraphOptions) -> String {
    text(0, options, &[0])
}

/// With the keys in the order of the reference, and an end for each level that there may be: when it writes a graph again it
/// compares its own text with this one, and up to 10.0 it searches as many levels as there may be.
fn text(entry: u32, options: GraphOptions, offsets: &[usize]) -> String {
    let GraphOptions { m, ef_construction, max_level } = options;
    let mut offsets = offsets.to_vec();
    if let Some(last) = offsets.last().copied().filter(|last| *last > 0) {
        let ends = usize::try_from(max_level.min(MOST_LEVELS)).unwrap_or(0) + 1;
        offsets.resize(offsets.len().max(ends), last);
    }
    format!(
        r#"{{"entry_point":{entry},"params":{{"max_level":{max_level},"m":{m},"ef_construction":{ef_construction},"#
    ) + &format!(r#""prefetch_distance":{PREFETCH}}},"level_offsets":{}}}"#, json!(offsets))
}
