//! How the vectors of a partition are stored, and their distances from a query.
//!
//! | form | file | bytes of a vector |
//! |---|---|---|
//! | as they are | here | those of its elements |
//! | product quantization | `product.rs` | one for each sub-vector, or half of one |
//! | scalar quantization | `scalar.rs` | one for each element |
//! | RaBitQ | `rabit.rs`, with its rotation in `rotation.rs` | a sign and a few bits for each element, and factors |
//!
//! With the metric cosine vectors and queries have length 1, and half the sum of squared differences is the distance.

mod product;
mod rabit;
mod rotation;
mod scalar;

use std::ops::Range;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef};
use arrow_schema::{DataType, Field};
use pennon_core::{Error, Result};
use pennon_datafile::FileReader;

pub(super) use product::{ProductCodes, ProductQuantizer, transposed};
pub(super) use rabit::{RabitCodes, RabitQuantizer};
pub(super) use scalar::{CodeSquares, ScalarCodes, ScalarQuantizer};

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
    Rabit(RabitQuantizer),
}

/// The vectors of a partition.
#[derive(Debug, Clone)]
pub(super) enum Codes {
    Flat(Values),
    Product(ProductCodes),
    Scalar(ScalarCodes),
    Rabit(RabitCodes),
}

/// A query as codes are compared with it.
#[derive(Debug, Clone)]
pub(super) enum QueryCodes {
    /// It is all that is needed.
    None,
    Scalar(Vec<u8>),
    /// Rotated.
    Rabit(Vec<f32>),
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
            StorageMetadata::Rabit(metadata) => Self::Rabit(RabitQuantizer::of_file(metadata, dimension)?),
        };
        Ok(quantizer)
    }

    /// The columns with the vectors, and their types.
    pub(super) fn columns(
        &self,
        element: &DataType,
        dimension: usize,
    ) -> Result<Vec<(&'static str, DataType)>> {
        let lists = |name, item: DataType, len: usize| {
            let len =
                i32::try_from(len).map_err(|_| Error::unsupported(format!("vectors of {len} items")))?;
            Ok((name, DataType::FixedSizeList(Arc::new(Field::new("item", item, true)), len)))
        };
        Ok(match self {
            Self::Flat => vec![lists("flat", element.clone(), dimension)?],
            Self::Product(product) => vec![lists("__pq_code", DataType::UInt8, product.code_bytes())?],
            Self::Scalar(_) => vec![lists("__sq_code", DataType::UInt8, dimension)?],
            Self::Rabit(rabit) => {
                let (bytes, factors) = rabit.columns();
                let bytes = bytes.into_iter().map(|(name, len)| lists(name, DataType::UInt8, len));
                let mut columns = bytes.collect::<Result<Vec<_>>>()?;
                columns.extend(factors.map(|name| (name, DataType::Float32)));
                columns
            }
        })
    }

    /// Vectors of a partition from the rows of their columns, in memory of their own if that is wanted. Errors: `Corrupt`
    /// for nulls.
    pub(super) fn codes(&self, columns: &[ArrayRef], own: bool) -> Result<Codes> {
        let mut values = Vec::with_capacity(columns.len());
        for column in columns {
            let elements = match column.as_fixed_size_list_opt() {
                Some(lists) => elements_of(lists)?,
                None => (Values::of_array(column.as_ref()).ok_or_else(not_there)?, None),
            };
            if column.null_count() > 0 || elements.1.is_some() {
                return Err(not_there());
            }
            values.push(elements.0);
        }
        let rows = columns.first().map_or(0, |column| column.len());
        let values = match (self, <[Values; 1]>::try_from(values)) {
            (Self::Rabit(rabit), Err(values)) => return rabit_codes(rabit, &values),
            (_, Ok([values])) => {
                if own {
                    values.to_owned()
                } else {
                    values
                }
            }
            _ => return Err(not_there()),
        };
        match (self, values) {
            (Self::Flat, values) => Ok(Codes::Flat(values)),
            (Self::Product(product), Values::U8(bytes)) => Ok(Codes::Product(product.codes(bytes, rows))),
            (Self::Scalar(_), Values::U8(bytes)) => Ok(Codes::Scalar(ScalarCodes::new(bytes))),
            _ => Err(not_there()),
        }
    }

    /// Vectors of a partition from the column that is written.
    pub(super) fn written_codes(&self, lists: &ArrayRef) -> Result<Codes> {
        match (self, lists.as_fixed_size_list_opt().map(elements_of).transpose()?) {
            (Self::Product(_), Some((Values::U8(bytes), _))) => {
                Ok(Codes::Product(ProductCodes::new(bytes, lists.len())))
            }
            _ => self.codes(std::slice::from_ref(lists), false),
        }
    }

    /// A query as codes are compared with it.
    pub(super) fn prepare(&self, query: &VectorQuery) -> QueryCodes {
        match self {
            Self::Scalar(scalar) => QueryCodes::Scalar(scalar.encode_query(query.values())),
            Self::Rabit(rabit) => QueryCodes::Rabit(rabit.rotated(query.values())),
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
    Rabit { distances: rabit::Distances<'a> },
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
            (Quantizer::Rabit(rabit), Codes::Rabit(codes), QueryCodes::Rabit(rotated)) => {
                let query = (compared.values(), rotated.as_slice());
                Ok(Self::Rabit { distances: rabit.distances(codes, metric, query, centroids, partition)? })
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
            Self::Rabit { distances } => distances.fill(rows, to),
        }
        Ok(())
    }

    /// The distances of rows that are anywhere.
    pub(super) fn fill_rows(&self, rows: &[u32], to: &mut [f32]) -> Result<()> {
        match self {
            Self::Flat { query, vectors } => return query.fill(vectors, rows, to),
            Self::Scalar { distances } => distances.fill(rows, to),
            Self::Product { table } => {
                to.iter_mut().zip(rows).for_each(|(to, row)| *to = table.distance(*row as usize));
            }
            Self::Rabit { distances } => {
                for (to, row) in to.iter_mut().zip(rows) {
                    distances.fill(*row as usize..*row as usize + 1, std::slice::from_mut(to));
                }
            }
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
            Self::Rabit(codes) => codes.memory_bytes(),
        }
    }
}

fn rabit_codes(rabit: &RabitQuantizer, values: &[Values]) -> Result<Codes> {
    let (mut bytes, mut factors) = (Vec::new(), Vec::new());
    for values in values {
        match values {
            Values::U8(values) => bytes.push(values.as_ref()),
            Values::F32(values) => factors.push(values.to_vec()),
            Values::F64(_) => return Err(not_there()),
        }
    }
    let [add, scale] = <[Vec<f32>; 2]>::try_from(factors).map_err(|_| not_there())?;
    Ok(Codes::Rabit(rabit.codes(&bytes, add, scale)))
}

fn not_there() -> Error {
    Error::corrupt("a row without its vector, or a vector without one of its elements")
}
