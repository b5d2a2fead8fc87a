//! Product quantization: a vector is cut into sub-vectors, and a code names the nearest of a few for each.
//!
//! | what | order in memory |
//! |---|---|
//! | the codebook in files | sub-vector, code, element |
//! | the codebook here | sub-vector, element, code: distances of all codes are computed at once |
//! | codes | byte, row: in files too, unless they say otherwise |
//!
//! Codes of 4 bits are two to a byte, the even sub-vector in the lower half. With the metrics l2 and cosine what is encoded
//! is the difference from the centroid of the partition.

use std::ops::Range;

use arrow_buffer::ScalarBuffer;
use arrow_schema::DataType;
use bytes::Bytes;
use pennon_core::wire::vector_index::Tensor;
use pennon_core::{Error, Result};

use crate::vector::Metric;
use crate::vector::matrix::{Matrix, Values, narrowed};
use crate::vector::simd::{self, Kernel};

/// The sub-vectors that codes stand for.
#[derive(Debug, Clone)]
pub(in crate::vector) struct ProductQuantizer {
    /// 8 or 4.
    bits: usize,
    sub_vectors: usize,
    /// Elements of a sub-vector.
    width: usize,
    /// As in files.
    codebook: Matrix,
    /// By sub-vector, element and code.
    by_element: Vec<f32>,
    /// Whether rows of files are bytes of many vectors.
    transposed: bool,
}

/// Whether codes mean the same, however rows of files are cut.
impl PartialEq for ProductQuantizer {
    fn eq(&self, other: &Self) -> bool {
        (self.bits, self.sub_vectors, &self.codebook) == (other.bits, other.sub_vectors, &other.codebook)
    }
}

/// The codes of the vectors of a partition, byte by byte.
#[derive(Debug, Clone)]
pub(in crate::vector) struct ProductCodes {
    bytes: ScalarBuffer<u8>,
    rows: usize,
}

impl ProductCodes {
    /// The codes of so many rows, byte by byte.
    pub(super) fn new(bytes: ScalarBuffer<u8>, rows: usize) -> Self {
        Self { bytes, rows }
    }

    /// Row by row.
    pub(in crate::vector) fn row_bytes(&self) -> Vec<u8> {
        transposed(&self.bytes, self.rows)
    }

    /// The code of a sub-vector of a row.
    fn code(&self, row: usize, sub_vector: usize, bits: usize) -> usize {
        let byte = |at: usize| usize::from(self.bytes.get(at * self.rows + row).copied().unwrap_or(0));
        if bits == 8 { byte(sub_vector) } else { byte(sub_vector / 2) >> (sub_vector % 2 * 4) & 15 }
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.bytes.len()
    }
}

impl ProductQuantizer {
    /// A quantizer with the codebook of a file. Errors: `Corrupt`, `Unsupported`.
    pub(super) fn of_file(
        codebook: Bytes,
        bits: u64,
        sub_vectors: u64,
        element: &DataType,
        transposed: bool,
    ) -> Result<Self> {
        let codebook = Matrix::of_tensor(&Tensor::decode(codebook)?).map_err(|e| e.at("codebook"))?;
        if codebook.element() != element {
            let found = codebook.element();
            return Err(Error::corrupt(format!(
                "a codebook of {found}, expected the type of centroids, {element}"
            )));
        }
        Self::try_new(codebook, bits, sub_vectors, transposed)
    }

    /// A quantizer with a codebook in the order of files. Errors: `Unsupported` for other numbers of bits, `Corrupt`
    /// for sizes that do not fit.
    pub(in crate::vector) fn try_new(
        codebook: Matrix,
        bits: u64,
        sub_vectors: u64,
        transposed: bool,
    ) -> Result<Self> {
        let codes = match bits {
            8 => 256,
            4 => 16,
            _ => return Err(Error::unsupported(format!("codes of {bits} bits, expected 4 or 8"))),
        };
        let dimension = codebook.dimension();
        let count = usize::try_from(sub_vectors).ok().filter(|count| {
            *count > 0 && dimension.is_multiple_of(*count) && (bits == 8 || count.is_multiple_of(2))
        });
        let count = count.ok_or_else(|| {
            Error::corrupt(format!("vectors of {dimension} in {sub_vectors} parts with codes of {bits} bits"))
        })?;
        if codebook.rows() != codes || codebook.element() == &DataType::UInt8 {
            return Err(Error::corrupt(format!(
                "a codebook of {} vectors of {}, expected {codes} of floats",
                codebook.rows(),
                codebook.element()
            )));
        }
        let width = dimension / count;
        let floats = codebook.values().to_f32();
        let mut by_element = vec![0.0; floats.len()];
        let size = codes * width;
        for (of_file, to) in floats.chunks_exact(size).zip(by_element.chunks_exact_mut(size)) {
            for (code, sub_vector) in of_file.chunks_exact(width).enumerate() {
                for (value, to) in sub_vector.iter().zip(to.iter_mut().skip(code).step_by(codes)) {
                    *to = *value;
                }
            }
        }
        let bits = if codes == 256 { 8 } else { 4 };
        Ok(Self { bits, sub_vectors: count, width, codebook, by_element, transposed })
    }

    /// Bytes of the codes of a vector.
    pub(in crate::vector) fn code_bytes(&self) -> usize {
        self.sub_vectors * self.bits / 8
    }

    pub(in crate::vector) fn bits(&self) -> usize {
        self.bits
    }

    pub(in crate::vector) fn sub_vectors(&self) -> usize {
        self.sub_vectors
    }

    pub(in crate::vector) fn codebook(&self) -> &Matrix {
        &self.codebook
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.codebook.memory_bytes() + self.by_element.len() * 4
    }

    fn num_codes(&self) -> usize {
        1 << self.bits
    }

    /// The codes of a partition with so many rows, from the bytes of its rows in the file.
    pub(super) fn codes(&self, bytes: ScalarBuffer<u8>, rows: usize) -> ProductCodes {
        let bytes = if self.transposed { bytes } else { transposed(&bytes, self.code_bytes()).into() };
        ProductCodes { bytes, rows }
    }

    /// What codes of a partition stand for, row by row.
    pub(in crate::vector) fn decode(
        &self,
        codes: &ProductCodes,
        metric: Metric,
        centroids: &Matrix,
        partition: usize,
    ) -> Vec<f64> {
        let dimension = centroids.dimension();
        let centroid = centroids.values().slice(partition * dimension..(partition + 1) * dimension).to_f64();
        let mut decoded = Vec::with_capacity(codes.rows * dimension);
        for row in 0..codes.rows {
            for (element, from) in centroid.iter().enumerate() {
                let sub_vector = element / self.width;
                let code = codes.code(row, sub_vector, self.bits);
                let at = element * self.num_codes() + code;
                let value = f64::from(self.by_element.get(at).copied().unwrap_or(0.0));
                decoded.push(if metric == Metric::Dot { value } else { from + value });
            }
        }
        decoded
    }

    /// What each code of each sub-vector gives with a query: the sum over the elements.
    fn fill(&self, query: &[f32], to: &mut [f32], of: impl Fn(f32, f32) -> f32) {
        let (codebook, codes) = (self.by_element.as_slice(), self.num_codes());
        simd::run(Entries { codebook, query, width: self.width, codes, to, of });
    }

    /// The distance of each sub-vector from each code, for the codes of a partition.
    pub(super) fn table<'a>(
        &self,
        codes: &'a ProductCodes,
        metric: Metric,
        query: &Values,
        centroids: &Matrix,
        partition: usize,
    ) -> Result<Table<'a>> {
        let query =
            if metric == Metric::Dot { query.to_f32() } else { difference(query, centroids, partition)? };
        let mut values = vec![0.0_f32; self.sub_vectors * self.num_codes()];
        match metric {
            Metric::Dot => self.fill(&query, &mut values, product),
            _ => self.fill(&query, &mut values, squared_difference),
        }
        let (start, scale) = match metric {
            Metric::Dot => (1.0, -1.0),
            Metric::Cosine => (0.0, 0.5),
            _ => (0.0, 1.0),
        };
        Ok(Table { values, bits: self.bits, codes: &codes.bytes, rows: codes.rows, start, scale })
    }
}

/// What the sub-vectors of each code contribute to a distance.
pub(in crate::vector) struct Table<'a> {
    values: Vec<f32>,
    bits: usize,
    codes: &'a [u8],
    rows: usize,
    /// A distance is this and the sum of contributions, scaled.
    start: f32,
    scale: f32,
}

impl Table<'_> {
    pub(super) fn fill(&self, rows: Range<usize>, to: &mut [f32]) {
        to.fill(0.0);
        let columns = self.codes.chunks_exact(self.rows.max(1));
        let columns = columns.map(|column| column.get(rows.clone()).unwrap_or_default());
        if self.bits == 8 {
            simd::run(Contributions {
                tables: self.values.as_chunks::<256>().0,
                columns,
                entry,
                to: &mut *to,
            });
        } else {
            simd::run(Contributions {
                tables: self.values.as_chunks::<32>().0,
                columns,
                entry: pair,
                to: &mut *to,
            });
        }
        to.iter_mut().for_each(|to| *to = self.start + self.scale * *to);
    }

    /// The distance of a row.
    pub(super) fn distance(&self, row: usize) -> f32 {
        let codes = self.codes.iter().skip(row).step_by(self.rows.max(1));
        let sum: f32 = if self.bits == 8 {
            self.values.as_chunks().0.iter().zip(codes).map(|(table, code)| entry(table, *code)).sum()
        } else {
            self.values.as_chunks().0.iter().zip(codes).map(|(table, code)| pair(table, *code)).sum()
        };
        self.start + self.scale * sum
    }
}

/// The entries of a table: for each code of each sub-vector the sum, over its elements, of what they give with the query.
struct Entries<'a, F> {
    /// By sub-vector, element and code.
    codebook: &'a [f32],
    query: &'a [f32],
    /// Elements of a sub-vector.
    width: usize,
    /// Codes of a sub-vector, a multiple of 16.
    codes: usize,
    /// By sub-vector and code.
    to: &'a mut [f32],
    of: F,
}

impl<F: Fn(f32, f32) -> f32> Kernel for Entries<'_, F> {
    type Output = ();

    #[inline(always)]
    fn run<const LANES: usize, const FUSED: bool>(self) {
        let Self { codebook, query, width, codes, to, of } = self;
        let of_each = codebook.chunks_exact(width * codes).zip(query.chunks_exact(width));
        for ((columns, query), to) in of_each.zip(to.chunks_exact_mut(codes)) {
            // Sums of so many codes stay in registers while the elements go by.
            for (at, to) in to.as_chunks_mut::<16>().0.iter_mut().enumerate() {
                let mut sums = [0.0; 16];
                for (column, value) in columns.chunks_exact(codes).zip(query) {
                    let Some(column) = column.as_chunks::<16>().0.get(at) else { break };
                    sums.iter_mut().zip(column).for_each(|(sum, element)| *sum += of(*element, *value));
                }
                *to = sums;
            }
        }
    }
}

#[inline(always)]
fn product(element: f32, value: f32) -> f32 {
    element * value
}

#[inline(always)]
fn squared_difference(element: f32, value: f32) -> f32 {
    (element - value) * (element - value)
}

/// Adds what each byte of a code contributes, of four bytes of all rows at a time.
struct Contributions<'a, const N: usize, I, F> {
    /// Of each byte.
    tables: &'a [[f32; N]],
    /// Of each byte those of all rows.
    columns: I,
    entry: F,
    to: &'a mut [f32],
}

impl<'a, const N: usize, I, F> Kernel for Contributions<'a, N, I, F>
where
    I: Iterator<Item = &'a [u8]>,
    F: Fn(&[f32; N], u8) -> f32,
{
    type Output = ();

    #[inline(always)]
    fn run<const LANES: usize, const FUSED: bool>(mut self) {
        let entry = self.entry;
        let (tables, rest) = self.tables.as_chunks::<4>();
        for [a, b, c, d] in tables {
            let mut next = || self.columns.next().unwrap_or_default();
            let codes = next().iter().zip(next()).zip(next()).zip(next());
            for (to, (((of_a, of_b), of_c), of_d)) in self.to.iter_mut().zip(codes) {
                *to = *to + entry(a, *of_a) + entry(b, *of_b) + entry(c, *of_c) + entry(d, *of_d);
            }
        }
        for (table, column) in rest.iter().zip(self.columns) {
            for (to, code) in self.to.iter_mut().zip(column) {
                *to += entry(table, *code);
            }
        }
    }
}

#[expect(clippy::indexing_slicing, reason = "a byte is less than the length")]
#[inline(always)]
fn entry(table: &[f32; 256], code: u8) -> f32 {
    table[usize::from(code)]
}

#[expect(clippy::indexing_slicing, reason = "half a byte is less than half the length")]
#[inline(always)]
fn pair(table: &[f32; 32], codes: u8) -> f32 {
    table[usize::from(codes & 15)] + table[16 + usize::from(codes >> 4)]
}

/// A query less a centroid.
fn difference(query: &Values, centroids: &Matrix, partition: usize) -> Result<Vec<f32>> {
    let range = partition * centroids.dimension()..(partition + 1) * centroids.dimension();
    match (query, centroids.values().slice(range)) {
        (Values::F32(query), Values::F32(centroid)) => {
            Ok(query.iter().zip(&centroid).map(|(a, b)| a - b).collect())
        }
        (Values::F64(query), Values::F64(centroid)) => {
            Ok(query.iter().zip(&centroid).map(|(a, b)| narrowed(a - b)).collect())
        }
        _ => Err(Error::internal("a query of another type than the centroids")),
    }
}

/// Rows of so many bytes, byte by byte.
pub(in crate::vector) fn transposed(rows: &[u8], width: usize) -> Vec<u8> {
    let count = rows.len() / width.max(1);
    let mut bytes = vec![0; rows.len()];
    for (row, codes) in rows.chunks_exact(width.max(1)).enumerate() {
        for (to, code) in bytes.iter_mut().skip(row).step_by(count.max(1)).zip(codes) {
            *to = *code;
        }
    }
    bytes
}
