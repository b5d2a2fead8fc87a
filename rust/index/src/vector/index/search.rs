//! The nearest rows of a partition.

use std::fmt;

use pennon_core::Result;

use super::{IndexQuery, VectorIndex, VectorPartition};
use crate::vector::graph::{self, FoundNode, Graph, candidates};
use crate::vector::storage::Distances;
use crate::vector::{Neighbor, Neighbors};

/// Rows for which a mask of bits has one word.
const WORD: usize = 64;
/// Words of rows whose distances are computed at once: of fewer rows the runs of bytes are too short for the processor to
/// read ahead.
const WORDS: usize = 8;

/// Which rows of a partition count.
#[derive(Clone, Copy)]
pub enum RowMask<'a> {
    /// All.
    All,
    /// Those with a bit, the lowest of the first word for the first row; beyond the last word none.
    Bits(&'a [u64]),
    /// Those for which a test of their position and their id holds. It is made of rows that are near enough only.
    Test(&'a dyn Fn(usize, u64) -> bool),
}

impl fmt::Debug for RowMask<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::All => f.write_str("All"),
            Self::Bits(words) => f.debug_tuple("Bits").field(&words.len()).finish(),
            Self::Test(_) => f.write_str("Test"),
        }
    }
}

impl RowMask<'_> {
    /// A bit for each of the rows of a word, if bits say; else all.
    fn word(&self, number: usize) -> u64 {
        match self {
            Self::Bits(words) => words.get(number).copied().unwrap_or(0),
            _ => u64::MAX,
        }
    }

    fn passes(&self, word: u64, position: usize, id: u64) -> bool {
        match self {
            Self::All => true,
            Self::Bits(_) => word >> (position % WORD) & 1 == 1,
            Self::Test(test) => test(position, id),
        }
    }
}

impl VectorIndex {
    /// Offers the rows of a partition that the mask lets pass. Distances are true ones, also of codes with the metric
    /// cosine; the address of each neighbor is its id. Rows are ranged and counted by `nearest`.
    ///
    /// Errors: `Internal` for a partition or a query of another index.
    pub fn search(
        &self,
        query: &IndexQuery,
        partition: &VectorPartition,
        mask: RowMask<'_>,
        nearest: &mut Neighbors,
    ) -> Result<()> {
        if !query.is_defined {
            return Ok(());
        }
        let distances = self.distances(query, partition)?;
        if let Some(graph) = &partition.graph
            && search_graph(graph, &distances, partition, mask, query.ef, nearest)?
        {
            return Ok(());
        }
        scan(&distances, &partition.row_ids, mask, nearest)
    }

    /// As [`Self::search`] of all rows, but only if the graph of the partition leads to as many as are wanted; whether it
    /// does. Few rows are looked at.
    ///
    /// Errors: those of [`Self::search`].
    pub fn follow(
        &self,
        query: &IndexQuery,
        partition: &VectorPartition,
        nearest: &mut Neighbors,
    ) -> Result<bool> {
        if !query.is_defined {
            return Ok(true);
        }
        let Some(graph) = &partition.graph else { return Ok(false) };
        let distances = self.distances(query, partition)?;
        search_graph(graph, &distances, partition, RowMask::All, query.ef, nearest)
    }

    fn distances<'a>(
        &'a self,
        query: &'a IndexQuery,
        partition: &'a VectorPartition,
    ) -> Result<Distances<'a>> {
        let number = usize::try_from(partition.number).unwrap_or(usize::MAX);
        Distances::new(
            &self.model.quantizer,
            &partition.codes,
            self.metric(),
            (&query.exact, &query.compared, &query.codes),
            (&self.model.centroids, number),
        )
    }
}

/// Partitions of so many times the candidates are looked at as a whole: that takes no longer.
const FEW: usize = 8;
/// Rows that are tested to learn how many pass.
const SAMPLE: usize = 256;

/// Looks for rows by a graph; whether that was worth it: not of few rows, nor if less than a tenth of them pass, nor if
/// it leads to less rows than are wanted.
fn search_graph(
    graph: &Graph,
    distances: &Distances<'_>,
    partition: &VectorPartition,
    mask: RowMask<'_>,
    ef: Option<usize>,
    nearest: &mut Neighbors,
) -> Result<bool> {
    let ids = &partition.row_ids;
    let limit = nearest.limit();
    let ef = candidates(limit, ef);
    // It leads to the nearest, however many of them are too near.
    if limit == 0 || nearest.has_nearer() || graph.len() != ids.len() || ids.len() <= ef.saturating_mul(FEW) {
        return Ok(false);
    }
    let passes = |row: usize| ids.get(row).is_some_and(|id| mask.passes(mask.word(row / WORD), row, *id));
    let step = ids.len().div_ceil(SAMPLE);
    let tested = (0..ids.len()).step_by(step);
    if tested.clone().filter(|row| passes(*row)).count() * 10 < tested.count() {
        return Ok(false);
    }
    let fill = |nodes: &[u32], to: &mut [f32]| distances.fill_rows(nodes, to);
    let counts = |found: FoundNode| nearest.accepts(found.distance) && passes(found.node as usize);
    let found = graph::search(graph, ef, &fill, &counts)?;
    if found.len() < limit {
        return Ok(false);
    }
    for FoundNode { distance, node } in found {
        if let Some(id) = ids.get(node as usize) {
            nearest.offer(Neighbor { distance, id: *id, address: *id });
        }
    }
    Ok(true)
}

/// Looks at all rows, leaving out words of rows of which none counts.
fn scan(distances: &Distances<'_>, ids: &[u64], mask: RowMask<'_>, nearest: &mut Neighbors) -> Result<()> {
    let mut buffer = [f32::NAN; WORDS * WORD];
    let words = ids.len().div_ceil(WORD);
    let mut start = 0;
    while start < words {
        let counts = |word: &usize| mask.word(*word) != 0;
        let end = start + (start..words).take(WORDS).take_while(counts).count();
        if end == start {
            start += 1;
            continue;
        }
        let rows = start * WORD..(end * WORD).min(ids.len());
        let (found, _) = buffer.split_at_mut(rows.len());
        distances.fill(rows.clone(), found)?;
        let ids = ids.get(rows).unwrap_or_default();
        for ((number, found), ids) in (start..).zip(found.chunks(WORD)).zip(ids.chunks(WORD)) {
            offer(found, ids, number, mask, nearest);
        }
        start = end;
    }
    Ok(())
}

/// Offers the rows of a word that are near enough and that the mask lets pass.
fn offer(distances: &[f32], ids: &[u64], number: usize, mask: RowMask<'_>, nearest: &mut Neighbors) {
    let mut threshold = nearest.threshold();
    // Most words have none, which is seen of several distances at a time.
    if !distances.iter().fold(false, |any, distance| any | (*distance <= threshold)) {
        return;
    }
    let word = mask.word(number);
    for ((row, distance), id) in (number * WORD..).zip(distances).zip(ids) {
        if *distance <= threshold && mask.passes(word, row, *id) {
            nearest.offer(Neighbor { distance: *distance, id: *id, address: *id });
            threshold = nearest.threshold();
        }
    }
}
