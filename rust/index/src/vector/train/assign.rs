//! The nearest centroid of each of many vectors.
//!
//! Floats: the square of a distance is `|x|^2 - 2 (x.c - |c|^2 / 2)`, so the nearest centroid has the greatest
//! `x.c - |c|^2 / 2`, or for the inner product the greatest `x.c`. Eight vectors are multiplied with as many centroids
//! as two registers hold, element by element, as in a product of matrices. Before, the mean of all centroids is taken
//! off both sides, lest the difference of two large numbers is what is left.

use std::ops::Range;
use std::thread;

use super::super::kernels;
use super::super::matrix::narrowed;
use super::super::rows::VectorsView;
use super::super::simd::{self, Kernel};
use super::products::{PANEL, ROWS, products};

/// Centroids of a panel.
const PANEL_LANES: u32 = 32;
/// Vectors a thread takes at least.
const SHARE: usize = 256;

/// The nearest centroid, and the squared distance from it.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(in crate::vector) struct Assignment {
    pub(in crate::vector) centroid: u32,
    /// The number of bits that differ, for bytes.
    pub(in crate::vector) distance: f32,
}

/// Centroids in the order in which vectors are compared with them.
#[derive(Debug, Clone)]
pub(in crate::vector) enum Centroids {
    Floats(FloatCentroids),
    /// Bytes, compared by the bits that differ.
    Bytes {
        dimension: usize,
        bytes: Vec<u8>,
    },
}

#[derive(Debug, Clone)]
pub(in crate::vector) struct FloatCentroids {
    /// What is taken off every vector, a 32-bit float.
    shift: Vec<f64>,
    shift_f32: Vec<f32>,
    /// By panel, element and centroid of the panel.
    panels: Vec<[f32; PANEL]>,
    /// What is added to a product, by panel; of centroids that are not there minus infinity.
    bias: Vec<[f32; PANEL]>,
    /// The squared length of each less its shift: what a distance has and a comparison by products has not.
    squares: Option<Vec<f32>>,
}

impl Centroids {
    /// Centroids of so many elements, to be compared by distance or by the inner product.
    pub(in crate::vector) fn of_floats(centroids: &[f64], dimension: usize, is_dot: bool) -> Self {
        let count = centroids.len() / dimension.max(1);
        let mut shift = vec![0.0; dimension];
        if !is_dot && count > 0 {
            for centroid in centroids.chunks_exact(dimension) {
                shift.iter_mut().zip(centroid).for_each(|(sum, value)| *sum += value);
            }
            #[expect(clippy::cast_precision_loss, reason = "centroids are fewer than 2^53")]
            shift.iter_mut().for_each(|sum| *sum = f64::from(narrowed(*sum / count as f64)));
        }
        let num_panels = count.div_ceil(PANEL);
        let mut panels = vec![[0.0; PANEL]; num_panels * dimension];
        let mut bias = vec![[f32::NEG_INFINITY; PANEL]; num_panels];
        let mut squares = is_dot.then(Vec::new);
        for (at, centroid) in centroids.chunks_exact(dimension.max(1)).enumerate() {
            let mut square = 0.0;
            let panel = panels.get_mut(at / PANEL * dimension..).unwrap_or_default();
            for ((to, value), shift) in panel.iter_mut().zip(centroid).zip(&shift) {
                let value = narrowed(value - shift);
                square += f64::from(value) * f64::from(value);
                if let Some(to) = to.get_mut(at % PANEL) {
                    *to = value;
                }
            }
            if let Some(to) = bias.get_mut(at / PANEL).and_then(|bias| bias.get_mut(at % PANEL)) {
                *to = if is_dot { 0.0 } else { narrowed(-square / 2.0) };
            }
            if let Some(squares) = &mut squares {
                squares.push(narrowed(square));
            }
        }
        let shift_f32 = shift.iter().map(|value| narrowed(*value)).collect();
        Self::Floats(FloatCentroids { shift, shift_f32, panels, bias, squares })
    }

    /// The nearest centroid of each vector: of two at the same distance the first. Computed by as many threads.
    pub(in crate::vector) fn assign(&self, vectors: VectorsView<'_>, threads: usize) -> Vec<Assignment> {
        let mut assigned = vec![Assignment::default(); vectors.len()];
        let share = vectors.len().div_ceil(threads.max(1)).max(SHARE).next_multiple_of(ROWS);
        if share >= vectors.len() {
            self.assign_rows(vectors, 0, &mut assigned);
            return assigned;
        }
        thread::scope(|scope| {
            for (at, assigned) in assigned.chunks_mut(share).enumerate() {
                scope.spawn(move || self.assign_rows(vectors, at * share, assigned));
            }
        });
        assigned
    }

    fn assign_rows(&self, vectors: VectorsView<'_>, first: usize, to: &mut [Assignment]) {
        match self {
            Self::Floats(centroids) => simd::run(Blocks { centroids, vectors, first, to }),
            Self::Bytes { dimension, bytes } => {
                for (at, to) in to.iter_mut().enumerate() {
                    let vector = vectors.bytes(first + at);
                    let bits =
                        bytes.chunks_exact(*dimension).map(|centroid| kernels::hamming(vector, centroid));
                    let nearest = (0..).zip(bits).min_by_key(|(_, bits)| *bits);
                    let (centroid, bits) = nearest.unwrap_or_default();
                    *to = Assignment { centroid, distance: narrowed(f64::from(bits)) };
                }
            }
        }
    }
}

/// Vectors, eight at a time, against all centroids.
struct Blocks<'a> {
    centroids: &'a FloatCentroids,
    vectors: VectorsView<'a>,
    first: usize,
    to: &'a mut [Assignment],
}

impl Kernel for Blocks<'_> {
    type Output = ();

    #[inline(always)]
    fn run<const LANES: usize, const FUSED: bool>(self) {
        let Self { centroids, vectors, first, to } = self;
        let mut packed = vec![[0.0_f32; ROWS]; vectors.width];
        for (block, to) in to.chunks_mut(ROWS).enumerate() {
            let rows = first + block * ROWS..first + block * ROWS + to.len();
            let squares = pack(vectors, rows, centroids, &mut packed);
            let mut best = [[f32::NEG_INFINITY; PANEL]; ROWS];
            let mut panel_of = [[0_u32; PANEL]; ROWS];
            let panels = centroids.panels.chunks_exact(vectors.width.max(1)).zip(&centroids.bias);
            for (number, (panel, bias)) in (0_u32..).zip(panels) {
                let products = products(&packed, panel);
                for ((best, panel_of), products) in best.iter_mut().zip(&mut panel_of).zip(&products) {
                    for (((best, panel_of), product), bias) in
                        best.iter_mut().zip(panel_of).zip(products).zip(bias)
                    {
                        let score = product + bias;
                        *panel_of = if score > *best { number } else { *panel_of };
                        *best = if score > *best { score } else { *best };
                    }
                }
            }
            for (((to, best), panel_of), square) in to.iter_mut().zip(&best).zip(&panel_of).zip(squares) {
                let (score, centroid) = greatest(best, panel_of);
                let own = centroids.squares.as_ref().and_then(|squares| squares.get(centroid as usize));
                let distance = square - 2.0 * score + own.copied().unwrap_or(0.0);
                *to = Assignment { centroid, distance: distance.max(0.0) };
            }
        }
    }
}

/// The greatest score of all lanes and its centroid, of equal ones the first.
#[inline(always)]
fn greatest(scores: &[f32; PANEL], panel_of: &[u32; PANEL]) -> (f32, u32) {
    let mut lanes = [f32::NEG_INFINITY; 8];
    for scores in scores.as_chunks::<8>().0 {
        for (greatest, score) in lanes.iter_mut().zip(scores) {
            *greatest = if score > greatest { *score } else { *greatest };
        }
    }
    let score = lanes.into_iter().fold(f32::NEG_INFINITY, f32::max);
    let mut centroid = u32::MAX;
    for (lane, (of_lane, panel)) in (0_u32..).zip(scores.iter().zip(panel_of)) {
        centroid = centroid.min(if *of_lane == score { panel * PANEL_LANES + lane } else { u32::MAX });
    }
    (score, centroid)
}

/// Eight vectors element by element, less the shift; gives their squared lengths.
#[inline(always)]
fn pack(
    vectors: VectorsView<'_>,
    rows: Range<usize>,
    centroids: &FloatCentroids,
    packed: &mut [[f32; ROWS]],
) -> [f32; ROWS] {
    let mut squares = [0.0_f32; ROWS];
    for ((at, row), square) in rows.enumerate().zip(&mut squares) {
        let mut put = |element: usize, value: f32| {
            if let Some(to) = packed.get_mut(element).and_then(|of_element| of_element.get_mut(at)) {
                *to = value;
            }
            *square += value * value;
        };
        if let Some(vector) = vectors.floats(row) {
            for (element, (value, shift)) in vector.iter().zip(&centroids.shift_f32).enumerate() {
                put(element, value - shift);
            }
        } else {
            vectors.for_each(row, |element, value| {
                put(element, narrowed(value - centroids.shift.get(element).copied().unwrap_or(0.0)));
            });
        }
    }
    squares
}
