//! Graphs of an index, from its file.
//!
//! The metadata has a text for each partition: `{"entry_point":44,"params":{..},"level_offsets":[0,299,312]}`. Level 0
//! is the rows 0 to 299 of the partition, level 1 the rows up to 312. The reference up to release 7 does
//! not count the entry point in the levels above 0, where it is the first row of each. A graph that has other nodes
//! than the partition has rows is not used: compactions of the reference can leave such ones.

use std::ops::Range;

use arrow_array::cast::AsArray;
use arrow_array::types::UInt32Type;
use arrow_array::{Array, ArrayRef};
use pennon_core::lengths::to_u64;
use pennon_core::rows::RowRanges;
use pennon_core::schema::{Field, Metadata};
use pennon_core::wire::vector_index::IvfMessage;
use pennon_core::{Error, Result};
use pennon_datafile::{ColumnMap, FileReader};
use serde_json::Value;

use super::write::{NEIGHBORS, NODE};
use super::{Graph, GraphOptions, Level};
use crate::files::column;
use crate::vector::metadata;

/// The file with the graphs of an index.
#[derive(Debug)]
pub(in crate::vector) struct GraphFile {
    reader: FileReader,
    name: String,
    fields: Vec<Field>,
    columns: ColumnMap,
    partitions: Vec<Option<GraphLayout>>,
    options: GraphOptions,
}

/// Where a graph is.
#[derive(Debug, Clone)]
struct GraphLayout {
    rows: Range<u64>,
    entry: u32,
    /// The first row of each level, and the end.
    offsets: Vec<u64>,
}

impl GraphFile {
    /// The graphs of a file that was opened. Errors: `Corrupt` with the name of the file.
    pub(in crate::vector) fn new(reader: FileReader, name: String, ivf: &IvfMessage) -> Result<Self> {
        let schema = &reader.metadata().schema;
        let found =
            [NODE, NEIGHBORS].map(|name| column(&reader, name)).into_iter().collect::<Result<Vec<_>>>();
        let layouts = layouts(&schema.metadata, ivf, reader.metadata().num_rows);
        let read = found.and_then(|fields| Ok((fields, layouts?)));
        let (fields, (partitions, options)) = read.map_err(|e| e.in_file(&name))?;
        let columns = reader.column_map();
        Ok(Self { reader, name, fields, columns, partitions, options })
    }

    /// How the graphs were built.
    pub(in crate::vector) fn options(&self) -> GraphOptions {
        self.options
    }

    pub(in crate::vector) fn memory_bytes(&self) -> usize {
        self.reader.memory_size()
            + self.partitions.iter().flatten().map(|p| 48 + p.offsets.len() * 8).sum::<usize>()
    }

    /// The graphs of partitions with so many rows each; `None` where there is no graph for them. Read with one read.
    pub(in crate::vector) fn read(&self, partitions: &[(u32, usize)]) -> Result<Vec<Option<Graph>>> {
        let layouts: Vec<Option<&GraphLayout>> = partitions
            .iter()
            .map(|(number, rows)| {
                let layout = self.partitions.get(*number as usize).and_then(Option::as_ref);
                layout.filter(|layout| *rows > 0 && layout.offsets.get(1) == Some(&(*rows as u64)))
            })
            .collect();
        let ranges: RowRanges = layouts.iter().flatten().map(|layout| layout.rows.clone()).collect();
        if ranges.is_empty() {
            return Ok(vec![None; partitions.len()]);
        }
        let arrays = self.reader.read(&self.fields, &self.columns, &ranges)?;
        let ranked = ranges.ranked();
        let graph = |layout: &GraphLayout| {
            let start = ranked.position(layout.rows.start).and_then(|start| usize::try_from(start).ok());
            let start = start.ok_or_else(|| Error::internal("rows of a graph were not read"))?;
            decode(&arrays, start, layout)
        };
        let graphs = layouts.into_iter().map(|layout| layout.map(graph).transpose());
        graphs.collect::<Result<_>>().map_err(|e| e.in_file(&self.name))
    }
}

type Layouts = (Vec<Option<GraphLayout>>, GraphOptions);

fn layouts(metadata: &Metadata, ivf: &IvfMessage, all: u64) -> Result<Layouts> {
    let texts = metadata::texts(metadata, metadata::HNSW)?;
    if texts.len() != ivf.lengths.len() || ivf.offsets.len() != ivf.lengths.len() {
        return Err(Error::corrupt(format!("{} graphs of {} partitions", texts.len(), ivf.lengths.len())));
    }
    let mut options = None;
    let mut found = Vec::with_capacity(texts.len());
    for ((text, start), len) in texts.iter().zip(&ivf.offsets).zip(&ivf.lengths) {
        let end = start.checked_add(u64::from(*len)).filter(|end| *len == 0 || *end <= all);
        let end = end.ok_or_else(|| {
            Error::corrupt(format!("a graph has {len} rows from row {start}, the file {all}"))
        })?;
        if *len == 0 {
            found.push(None);
            continue;
        }
        let not_a_graph = || Error::corrupt(format!("`{}` has {text:?} for a partition", metadata::HNSW));
        let value: Value = serde_json::from_str(text).map_err(|e| not_a_graph().with_source(e))?;
        let entry =
            value.get("entry_point").and_then(Value::as_u64).and_then(|entry| u32::try_from(entry).ok());
        let offsets = value.get("level_offsets").and_then(Value::as_array).ok_or_else(not_a_graph)?;
        let offsets: Option<Vec<u64>> = offsets.iter().map(Value::as_u64).collect();
        let offsets = offsets
            .and_then(|offsets| complete(offsets, u64::from(*len)))
            .filter(|offsets| offsets.len() >= 2 && offsets.first() == Some(&0) && offsets.is_sorted());
        let (Some(entry), Some(offsets)) = (entry, offsets) else { return Err(not_a_graph()) };
        let param = |key: &str| {
            let found = value.get("params").and_then(|params| params.get(key)).and_then(Value::as_u64);
            found.and_then(|found| u32::try_from(found).ok())
        };
        if let (Some(m), Some(ef_construction), Some(max_level)) =
            (param("m"), param("ef_construction"), param("max_level"))
        {
            options.get_or_insert(GraphOptions { m, ef_construction, max_level });
        }
        found.push(Some(GraphLayout { rows: *start..end, entry, offsets }));
    }
    Ok((found, options.unwrap_or_default()))
}

/// Offsets of levels, with the entry points that they do not count; `None` if they do not end with the rows either way.
fn complete(offsets: Vec<u64>, rows: u64) -> Option<Vec<u64>> {
    let last = *offsets.last()?;
    if last == rows {
        return Some(offsets);
    }
    let not_counted = to_u64(offsets.len()).checked_sub(2)?;
    if last.checked_add(not_counted) != Some(rows) {
        return None;
    }
    Some(
        (0..)
            .zip(offsets)
            .map(|(level, offset): (u64, u64)| offset.saturating_add(level.saturating_sub(1)))
            .collect(),
    )
}

/// The graph in rows that were read, from one on.
fn decode(arrays: &[ArrayRef], start: usize, layout: &GraphLayout) -> Result<Graph> {
    let [nodes, lists] = arrays else { return Err(Error::internal("columns of a graph were not read")) };
    let damaged = || Error::corrupt("a node without number or neighbors, or a neighbor that is not there");
    let nodes = nodes.as_primitive_opt::<UInt32Type>().filter(|nodes| nodes.null_count() == 0);
    let lists = lists.as_list_opt::<i32>().filter(|lists| lists.null_count() == 0);
    let (Some(nodes), Some(lists)) = (nodes, lists) else { return Err(damaged()) };
    let items = lists.values().as_primitive_opt::<UInt32Type>().filter(|items| items.null_count() == 0);
    let items = items.ok_or_else(damaged)?.values();
    let count = layout.offsets.get(1).copied().unwrap_or(0);
    let is_node = |node: &u32| u64::from(*node) < count;
    let mut levels = Vec::with_capacity(layout.offsets.len() - 1);
    for (number, ends) in layout.offsets.windows(2).enumerate() {
        let (&[first, end], offset) = (ends, start as u64) else { continue };
        let position = |row: u64| usize::try_from(offset.saturating_add(row)).unwrap_or(usize::MAX);
        let rows = position(first)..position(end);
        let of_level = nodes.values().get(rows.clone()).ok_or_else(damaged)?;
        let ends = lists.value_offsets().get(rows.start..=rows.end).ok_or_else(damaged)?;
        let ends: Option<Vec<usize>> = ends.iter().map(|end| usize::try_from(*end).ok()).collect();
        let ends = ends.ok_or_else(damaged)?;
        let Some((first, ends)) = ends.split_first() else { return Err(damaged()) };
        let neighbors = items.get(*first..ends.last().copied().unwrap_or(*first)).ok_or_else(damaged)?;
        let is_ascending = of_level.is_sorted_by(|a, b| a < b);
        if !is_ascending || !of_level.iter().all(is_node) || !neighbors.iter().all(is_node) {
            return Err(damaged());
        }
        let neighbors = neighbors.to_vec();
        let ends = ends.iter().map(|end| end - first).collect();
        let nodes = (number > 0).then(|| of_level.to_vec());
        levels.push(Level { nodes, ends, neighbors });
    }
    while levels.len() > 1 && levels.last().is_some_and(|level| level.len() == 0) {
        levels.pop();
    }
    if !is_node(&layout.entry) {
        return Err(damaged());
    }
    Ok(Graph { entry: layout.entry, levels })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offsets_with_and_without_entry_points() {
        assert_eq!(complete(vec![0, 299, 312], 312), Some(vec![0, 299, 312]));
        assert_eq!(complete(vec![0, 208, 221, 223, 223], 226), Some(vec![0, 208, 222, 225, 226]));
        for (offsets, rows) in
            [(vec![0, 208, 221], 223), (vec![0, 9], 10), (vec![0, 9], 8), (vec![0], 1), (vec![], 0)]
        {
            assert_eq!(complete(offsets, rows), None);
        }
    }
}
