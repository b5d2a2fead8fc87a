//! The vectors of a partition as its graph is built of them.

use arrow_buffer::ScalarBuffer;
use pennon_core::Result;

use crate::vector::graph::NodeDistances;
use crate::vector::matrix::Values;
use crate::vector::query::{Bits, Product, Squares, fill_distances};
use crate::vector::storage::{CodeSquares, Codes, Quantizer};
use crate::vector::{Metric, VectorModel};

/// The vectors that codes stand for, or the codes where they are as good.
pub(super) struct GraphVectors {
    vectors: Vectors,
    dimension: usize,
    metric: Metric,
}

enum Vectors {
    Bits(ScalarBuffer<u8>),
    Floats(ScalarBuffer<f32>),
    /// The distance is the sum of squared differences of codes, times this.
    Codes(ScalarBuffer<u8>, f64),
}

impl GraphVectors {
    /// Those of a partition. Errors: `Unsupported` for RaBitQ.
    pub(super) fn of(model: &VectorModel, codes: &Codes, partition: usize) -> Result<Self> {
        let metric = model.metric();
        let vectors = match (&model.quantizer, codes) {
            (Quantizer::Scalar(scalar), Codes::Scalar(codes)) if metric != Metric::Dot => {
                Vectors::Codes(codes.bytes().clone(), scalar.step() * scalar.step())
            }
            _ => match model.decode(codes, partition)? {
                Values::U8(bytes) => Vectors::Bits(bytes),
                Values::F32(floats) => Vectors::Floats(floats),
                doubles @ Values::F64(_) => Vectors::Floats(doubles.to_f32().into()),
            },
        };
        Ok(Self { vectors, dimension: model.dimension(), metric })
    }

    fn vector<'a, T>(&self, elements: &'a [T], node: u32) -> &'a [T] {
        let start = node as usize * self.dimension;
        elements.get(start..start + self.dimension).unwrap_or_default()
    }
}

impl NodeDistances for &GraphVectors {
    fn fill(&self, from: u32, nodes: &[u32], to: &mut [f32]) {
        match &self.vectors {
            Vectors::Bits(bytes) => fill_distances(bytes, nodes, self.vector(bytes, from), to, Bits),
            Vectors::Floats(floats) if self.metric == Metric::Dot => {
                fill_distances(floats, nodes, self.vector(floats, from), to, Product);
            }
            Vectors::Floats(floats) => fill_distances(floats, nodes, self.vector(floats, from), to, Squares),
            Vectors::Codes(codes, scale) => {
                fill_distances(codes, nodes, self.vector(codes, from), to, CodeSquares(*scale));
            }
        }
    }

    fn are_those_of_searches(&self) -> bool {
        self.metric != Metric::Cosine
    }
}
