//! Nesting as levels: one pair of repetition and definition level for each leaf position (file format 4.1).
//!
//! Layers are ordered innermost first. Definition level 0 is a valid value; each layer from the inside out then
//! takes the next one or two levels, and a position has the level of its outermost layer that is not valid. So each
//! layer is decided by comparing numbers, and needs only the bounds in [`Bounds`].

pub(crate) mod assemble;
pub(crate) mod shred;

use pennon_core::file::Layer;
use pennon_core::{Error, Result};

use crate::simd::simd;

/// Which definition levels mean what at one layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Bounds {
    /// The layer.
    pub layer: Layer,
    /// Up to here the layer is valid: the null is further in.
    pub valid: u16,
    /// Up to here the layer has a position; above, a list further out is null or empty and there is none.
    pub present: u16,
    /// The level of an empty list, if the layer has one.
    pub empty: Option<u16>,
}

/// The bounds of each layer, innermost first. Errors: `Corrupt` for more layers than levels can count.
pub(crate) fn bounds(layers: &[Layer]) -> Result<Vec<Bounds>> {
    let mut used = 0u16;
    let mut all = Vec::with_capacity(layers.len());
    for &layer in layers {
        let empty = match layer {
            Layer::EmptyableList => Some(used + 1),
            Layer::NullAndEmptyList => Some(used + 2),
            _ => None,
        };
        all.push(Bounds { layer, valid: used, present: u16::MAX, empty });
        used = used
            .checked_add(layer.num_def_levels())
            .filter(|&u| u < u16::MAX - 2)
            .ok_or_else(|| Error::corrupt(format!("{} layers of nesting", layers.len())))?;
    }
    let mut present = used;
    for bounds in all.iter_mut().rev() {
        bounds.present = present;
        if bounds.layer.is_list() {
            present = bounds.valid;
        }
    }
    Ok(all)
}

/// The highest definition level of a position that has a value.
pub(crate) fn max_visible(bounds: &[Bounds]) -> u16 {
    bounds.first().map_or(0, |b| if b.layer.is_list() { b.valid } else { b.present })
}

/// The highest definition level of the layers.
pub(crate) fn max_definition(layers: &[Layer]) -> u16 {
    layers.iter().fold(0, |n, l| n.saturating_add(l.num_def_levels()))
}

/// The repetition level at which a row starts, 0 without lists.
pub(crate) fn max_repetition(layers: &[Layer]) -> u16 {
    u16::try_from(layers.iter().filter(|l| l.is_list()).count()).unwrap_or(u16::MAX)
}

/// Appends the positions of a level. Most blocks of long lists do not have it.
pub(crate) fn positions(levels: &[u16], wanted: u16, out: &mut Vec<usize>) {
    const BLOCK: usize = 64;
    for (number, block) in levels.chunks(BLOCK).enumerate() {
        if simd(|| block.iter().fold(false, |found, &level| found | (level == wanted))) {
            let found = block.iter().enumerate().filter(|(_, level)| **level == wanted);
            out.extend(found.map(|(at, _)| number * BLOCK + at));
        }
    }
}
