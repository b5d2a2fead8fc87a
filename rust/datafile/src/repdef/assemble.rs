//! Levels back to validity bits and list offsets.
//!
//! A read appends page after page, since pages of one column may have different layers. The layers of a page must
//! be those of the column's path: a list where the type has a list, an item layer for each struct and for the leaf.

use arrow_buffer::NullBuffer;
use pennon_core::file::Layer;
use pennon_core::{Error, Result};

use super::{Bounds, bounds, max_definition, max_repetition};
use crate::simd::simd;
use crate::values::Validity;

/// A layer of a column's path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PathLayer {
    /// A struct, a fixed-size list or the leaf.
    Item,
    /// A list or map.
    List,
    /// A list or map that is not null itself: where something around it is null, it is empty. A page may yet have a
    /// level for its nulls, since the writer adds one for readers that count wrongly without.
    RequiredList,
}

impl PathLayer {
    /// Whether it is a list.
    pub(crate) fn is_list(self) -> bool {
        self != Self::Item
    }
}

/// What a layer became.
#[derive(Debug)]
pub(crate) struct LayerOutput {
    /// What it is.
    layer: PathLayer,
    /// Which positions are valid; one per position.
    pub validity: Validity,
    /// For a list: where each list starts among the items.
    pub starts: Option<Vec<i64>>,
    /// For a list: items so far.
    pub items: i64,
}

impl LayerOutput {
    /// Positions of the layer.
    pub(crate) fn len(&self) -> usize {
        self.validity.len()
    }

    /// Null buffer and, for a list, the offsets.
    pub(crate) fn finish(self) -> (Option<NullBuffer>, Option<Vec<i64>>) {
        let offsets = self.starts.map(|mut starts| {
            starts.push(self.items);
            starts
        });
        (self.validity.finish(), offsets)
    }
}

/// Levels of some rows of a page, one after another.
#[derive(Debug, Default)]
pub(crate) struct Levels {
    /// Repetition levels; empty if the page has none.
    pub rep: Vec<u16>,
    /// Definition levels; empty if the page has none.
    pub def: Vec<u16>,
    /// Positions.
    pub len: usize,
}

/// Builds the layers of one column.
#[derive(Debug)]
pub(crate) struct Assembler {
    layers: Vec<LayerOutput>,
}

impl Assembler {
    /// For a path of layers, innermost first.
    pub(crate) fn new(path: &[PathLayer]) -> Self {
        let output = |&layer: &PathLayer| LayerOutput {
            layer,
            validity: Validity::default(),
            starts: layer.is_list().then(Vec::new),
            items: 0,
        };
        Self { layers: path.iter().map(output).collect() }
    }

    /// Appends the levels of one page. Errors: `Corrupt` when they contradict the layers.
    pub(crate) fn append(&mut self, layers: &[Layer], levels: &mut Levels) -> Result<()> {
        let expected = self.layers.iter().map(|l| l.starts.is_some());
        if !layers.iter().map(|l| l.is_list()).eq(expected) {
            return Err(Error::corrupt(format!("layers {layers:?} do not fit the nesting of the field")));
        }
        let Levels { rep, def, len } = levels;
        if rep.len().max(def.len()) > *len || (!def.is_empty() && def.len() != *len) {
            return Err(Error::corrupt(format!(
                "{} repetition and {} definition levels",
                rep.len(),
                def.len()
            )));
        }
        let deepest = max_definition(layers);
        if largest(def) > deepest {
            return Err(Error::corrupt(format!("definition level above {deepest}")));
        }
        let repetition = max_repetition(layers);
        if repetition == 0 {
            return self.append_flat(layers, def, *len);
        }
        if rep.len() != *len || rep.first().is_some_and(|&r| r != repetition) {
            return Err(Error::corrupt(format!(
                "{} repetition levels, {len} expected from a row's start on",
                rep.len()
            )));
        }
        if largest(rep) > repetition {
            return Err(Error::corrupt(format!("repetition level above {repetition}")));
        }
        self.append_nested(layers, rep, def)
    }

    /// Without lists every layer has every position.
    fn append_flat(&mut self, layers: &[Layer], def: &[u16], len: usize) -> Result<()> {
        for (output, bounds) in self.layers.iter_mut().zip(bounds(layers)?) {
            if bounds.layer == Layer::NullableItem && !def.is_empty() {
                output.validity.append_levels(def, bounds.valid);
            } else {
                output.validity.append_valid(len);
            }
        }
        Ok(())
    }

    /// From the inside out. Each list layer leaves one position per list for the layers further out. Definition levels
    /// that are not there are all 0.
    fn append_nested(&mut self, layers: &[Layer], rep: &mut Vec<u16>, def: &mut Vec<u16>) -> Result<()> {
        for (output, bounds) in self.layers.iter_mut().zip(bounds(layers)?) {
            let Some(starts) = &mut output.starts else {
                append_items(&mut output.validity, rep.len(), def, bounds);
                continue;
            };
            let null = match bounds.layer {
                Layer::NullableList | Layer::NullAndEmptyList => Some(bounds.valid + 1),
                _ => None,
            };
            // Where something further out is null, a list that cannot be null is empty.
            let only_own_nulls = null.is_none() || output.layer == PathLayer::RequiredList;
            let mut open = false;
            let (mut at, mut kept) = (0, 0);
            while at < rep.len() {
                if open {
                    let items = continued(rep, def, at, bounds.valid);
                    output.items += i64::try_from(items).unwrap_or(i64::MAX);
                    at += items;
                }
                let Some(&r) = rep.get(at) else { break };
                let d = def.get(at).copied().unwrap_or_default();
                at += 1;
                if r == 0 {
                    return Err(Error::corrupt("an item continues a list that is null, empty or not there"));
                }
                open = d <= bounds.valid;
                if d <= bounds.present {
                    starts.push(output.items);
                    output.items += i64::from(open);
                    output
                        .validity
                        .append(open || bounds.empty == Some(d) || (only_own_nulls && null != Some(d)));
                }
                if let Some(out) = rep.get_mut(kept) {
                    *out = r - 1;
                }
                if let Some(out) = def.get_mut(kept) {
                    *out = d;
                }
                kept += 1;
            }
            rep.truncate(kept);
            def.truncate(kept);
        }
        Ok(())
    }

    /// The layers, innermost first.
    pub(crate) fn finish(self) -> Vec<LayerOutput> {
        self.layers
    }
}

/// Looked at one by one before looking at blocks, so that short lists do not pay for long ones.
const FIRST: usize = 8;
const BLOCK: usize = 64;

/// Positions from `start` on that continue a list: items with a definition level of at most `valid`.
fn continued(rep: &[u16], def: &[u16], start: usize, valid: u16) -> usize {
    let rep = rep.get(start..).unwrap_or_default();
    let def = def.get(start..).unwrap_or_default();
    let item = |at: usize| rep.get(at) == Some(&0) && def.get(at).is_none_or(|&d| d <= valid);
    if let Some(end) = (0..FIRST).find(|&at| !item(at)) {
        return end;
    }
    let mut at = FIRST;
    while let Some(block) = rep.get(at..at + BLOCK) {
        let levels = def.get(at..at + BLOCK).unwrap_or_default();
        if largest(block) > 0 || largest(levels) > valid {
            break;
        }
        at += BLOCK;
    }
    (at..).find(|&at| !item(at)).unwrap_or(at)
}

/// The largest level, 0 of none.
fn largest(levels: &[u16]) -> u16 {
    simd(|| levels.iter().fold(0, |largest, &level| largest.max(level)))
}

/// Appends the positions of an item layer, of so many.
fn append_items(validity: &mut Validity, len: usize, def: &[u16], bounds: Bounds) {
    if def.is_empty() {
        validity.append_valid(len);
        return;
    }
    let positions = def.iter().filter(|&&d| d <= bounds.present).count();
    if bounds.layer != Layer::NullableItem {
        validity.append_valid(positions);
    } else if positions == def.len() {
        validity.append_levels(def, bounds.valid);
    } else {
        let kept: Vec<u16> = def.iter().copied().filter(|&d| d <= bounds.present).collect();
        validity.append_levels(&kept, bounds.valid);
    }
}

#[cfg(test)]
mod tests;
