//! A query of an index, and the partitions nearest to it.

use arrow_array::ArrayRef;
use pennon_core::Result;

use super::VectorIndex;
use crate::vector::matrix::Values;
use crate::vector::storage::QueryCodes;
use crate::vector::{Metric, VectorQuery};

/// A vector that those of an index are compared with.
#[derive(Debug, Clone)]
pub struct IndexQuery {
    /// As it was given.
    pub(super) exact: VectorQuery,
    /// As centroids and codes are compared with it.
    pub(super) compared: VectorQuery,
    pub(super) codes: QueryCodes,
    /// Whether it has a distance from anything.
    pub(super) is_defined: bool,
    /// Candidates of a search in a graph.
    pub(super) ef: Option<usize>,
}

impl IndexQuery {
    /// The same query with so many candidates of a search in a graph; by default half as many more as rows are wanted.
    #[must_use]
    pub fn with_ef(self, ef: Option<usize>) -> Self {
        Self { ef, ..self }
    }
}

impl VectorIndex {
    /// A query of as many values as vectors have elements, which are cast to their type.
    ///
    /// Errors: as [`VectorQuery::new`].
    pub fn prepare(&self, values: &ArrayRef) -> Result<IndexQuery> {
        let exact = VectorQuery::new(self.metric(), self.element(), self.dimension(), values)?;
        let compared = if self.metric() == Metric::Cosine { exact.normalised() } else { exact.clone() };
        let is_defined = match compared.values() {
            Values::F32(values) => !values.iter().any(|value| value.is_nan()),
            Values::F64(values) => !values.iter().any(|value| value.is_nan()),
            Values::U8(_) => true,
        };
        let codes = self.model.quantizer.prepare(&compared);
        Ok(IndexQuery { exact, compared, codes, is_defined, ef: None })
    }

    /// All partitions with the distance of their centroid, the nearest first; none for a query without distances. With
    /// the metric cosine the distance is that of vectors of length 1, squared.
    pub fn ranked(&self, query: &IndexQuery) -> Result<Vec<(u32, f32)>> {
        let mut distances = vec![f32::NAN; self.model.centroids.rows()];
        if query.is_defined {
            query.compared.fill(self.model.centroids.values(), 0..distances.len(), &mut distances)?;
        }
        let mut ranked: Vec<(u32, f32)> =
            (0..).zip(distances).filter(|(_, distance)| !distance.is_nan()).collect();
        ranked.sort_unstable_by(|a, b| a.1.total_cmp(&b.1).then(a.0.cmp(&b.0)));
        Ok(ranked)
    }
}
