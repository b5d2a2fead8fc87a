//! How the vectors of a partition are stored, and their distances from a query.
//!
//! | form | file | bytes of a vector |
//! |---|---|---|
//! | as they are | here | those of its elements |
//! | product quantization | `product.rs` | one for each sub-vector, or half of one |
//! | scalar quantization | `scalar.rs` | one for each element |
//!
//! With the metric cosine vectors and queries have length 1, and half the sum of squared differences is the distance.

mod product;
mod scalar;

use std::ops::Range;

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef};
use arrow_schema::DataType;
use pennon_core::{Error, Result};
use pennon_datafile::FileReader;

pub(super) use product::{ProductCodes, ProductQuantizer, transposed};
pub(super) use scalar::{ScalarCodes, ScalarQuantizer};

use super::matrix::{Matrix, Values, elements_of};
use super::metadata::{self, StorageMetadata};
use super::query::VectorQuery;
use super::{Metric, VectorIndexKind};

/// How vectors become codes.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Quantizer {
    Flat,
    Product(ProductQuantizer),
    Scalar(ScalarQuantizer),
}

/// The vectors of a partition.
#[derive(Debug, Clone)]
pub(super) enum Codes {
    Flat(Values),
    Product(ProductCodes),
    Scalar(ScalarCodes),
}

/// A query as codes are compared with it.
#[derive(Debug, Clone)]
pub(super) enum QueryCodes {
    /// It is all that is needed.
    None,
    Scalar(Vec<u8>),
}

impl Quantizer {
    /// The one of a file with vectors of a type and a dimension. Errors: `Corrupt`, `Unsupported`.
    pub(super) fn of_file(
        reader: &FileReader,
        kind: VectorIndexKind,
        element: &DataType,
        dimension: usize,
    ) -> Result<Self> {
        let found = metadata::storage(&reader.metadata().schema.metadata, kind)?;
        let expect = |found: u64| {
            if found == dimension as u64 {
                return Ok(());
            }
            Err(Error::corrupt(format!("vectors of {found}, expected those of centroids, {dimension}")))
        };
        let quantizer = match found {
            StorageMetadata::Flat { dimension } => {
                expect(dimension)?;
                Self::Flat
            }
            StorageMetadata::Product { codebook, bits, sub_vectors, dimension, transposed } => {
                expect(dimension)?;
                let tensor = reader.global_buffer(codebook)?;
                Self::Product(ProductQuantizer::of_file(tensor, bits, sub_vectors, element, transposed)?)
            }
            StorageMetadata::Scalar { dimension, low, high } => {
                expect(dimension)?;
                Self::Scalar(ScalarQuantizer::new(low, high))
            }
            StorageMetadata::Rabit(_) => return Err(Error::unsupported("vectors that are stored by RaBitQ")),
        };
        Ok(quantizer)
    }

    /// The columns with the vectors, and how many items of which type each has in a row.
    pub(super) fn columns(
        &self,
        element: &DataType,
        dimension: usize,
    ) -> Vec<(&'static str, DataType, usize)> {
        vec![match self {
            Self::Flat => ("flat", element.clone(), dimension),
            Self::Product(product) => ("__pq_code", DataType::UInt8, product.code_bytes()),
            Self::Scalar(_) => ("__sq_code", DataType::UInt8, dimension),
        }]
    }

    /// Vectors of a partition from the rows of their columns, in memory of their own if that is wanted. Errors: `Corrupt`
    /// for nulls.
    pub(super) fn codes(&self, columns: &[ArrayRef], own: bool) -> Result<Codes> {
        let lists = columns.first().and_then(|column| column.as_fixed_size_list_opt());
        let lists = lists.filter(|lists| lists.null_count() == 0);
        let lists = lists.ok_or_else(|| Error::corrupt("a row without vector"))?;
        let (values, is_complete) = elements_of(lists)?;
        if is_complete.is_some() {
            return Err(Error::corrupt("a vector without one of its elements"));
        }
        let values = if own { values.to_owned() } else { values };
        match (self, values) {
            (Self::Flat, values) => Ok(Codes::Flat(values)),
            (Self::Product(product), Values::U8(bytes)) => {
                Ok(Codes::Product(product.codes(bytes, lists.len())))
            }
            (Self::Scalar(_), Values::U8(bytes)) => Ok(Codes::Scalar(ScalarCodes::new(bytes))),
            _ => Err(Error::corrupt("codes are not bytes")),
        }
    }

    /// A query as codes are compared with it.
    pub(super) fn prepare(&self, query: &VectorQuery) -> QueryCodes {
        match self {
            Self::Scalar(scalar) => QueryCodes::Scalar(scalar.encode_query(query.values())),
            _ => QueryCodes::None,
        }
    }

    pub(super) fn memory_bytes(&self) -> usize {
        match self {
            Self::Product(product) => product.memory_bytes(),
            _ => 0,
        }
    }
}

/// What distances of a partition are computed with.
pub(super) enum Distances<'a> {
    Flat { query: &'a VectorQuery, vectors: &'a Values },
    Product { table: product::Table<'a> },
    Scalar { distances: scalar::Distances<'a> },
}

impl<'a> Distances<'a> {
    /// Prepares distances from a query, as it was given and as codes are compared with it, of codes around a centroid.
    pub(super) fn new(
        quantizer: &'a Quantizer,
        codes: &'a Codes,
        metric: Metric,
        (exact, compared, query_codes): (&'a VectorQuery, &'a VectorQuery, &'a QueryCodes),
        (centroids, partition): (&Matrix, usize),
    ) -> Result<Self> {
        match (quantizer, codes, query_codes) {
            (Quantizer::Flat, Codes::Flat(vectors), _) => Ok(Self::Flat { query: exact, vectors }),
            (Quantizer::Product(product), Codes::Product(codes), _) => Ok(Self::Product {
                table: product.table(codes, metric, compared.values(), centroids, partition)?,
            }),
            (Quantizer::Scalar(scalar), Codes::Scalar(codes), QueryCodes::Scalar(of_query)) => {
                Ok(Self::Scalar { distances: scalar.distances(codes, metric, compared.values(), of_query) })
            }
            _ => Err(Error::internal("a partition of another index")),
        }
    }

    /// The distances of some rows.
    pub(super) fn fill(&self, rows: Range<usize>, to: &mut [f32]) -> Result<()> {
        match self {
            Self::Flat { query, vectors } => return query.fill(vectors, rows, to),
            Self::Product { table } => table.fill(rows, to),
            Self::Scalar { distances } => distances.fill(rows, to),
        }
        Ok(())
    }
}

impl Codes {
    pub(super) fn memory_bytes(&self) -> usize {
        match self {
            Self::Flat(values) => values.memory_bytes(),
            Self::Product(codes) => codes.memory_bytes(),
            Self::Scalar(codes) => codes.memory_bytes(),
        }
    }
}
