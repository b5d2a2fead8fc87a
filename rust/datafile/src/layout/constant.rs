//! Constant pages: one value for all rows, or only nulls and empty lists (file format 4.7).
//!
//! | page buffers | content |
//! |---|---|
//! | 0 | all null, or the value is in the layout |
//! | 1 | the value: u32 number of Arrow buffers, their u32 lengths, the buffers |
//! | 2 | repetition and definition levels |
//! | 3 | the value, then the levels |
//!
//! Levels are plain u16 unless the layout names a codec.

use bytes::Bytes;
use pennon_core::error::ResultExt;
use pennon_core::file::{CompressiveEncoding, ConstantLayout, PageMetadata};
use pennon_core::rows::RowRanges;
use pennon_core::{Error, Result};

use super::{Output, VisibleCounter, decode_levels, level_buffer, level_codec};
use crate::encodings::le::{Number, bytes_at, check_allocation, number_at, to_usize, too_large};
use crate::repdef;
use crate::values::{Data, Leaf, Physical};

/// A page whose value is known.
#[derive(Debug)]
pub(super) struct Page {
    /// The bytes of the value; `None` if there are only nulls.
    value: Option<Vec<u8>>,
    repetition: u16,
    max_visible: u16,
}

/// The levels of the whole page; empty where there are none.
#[derive(Debug)]
pub(super) struct ConstantPlan {
    rep: Vec<u16>,
    def: Vec<u16>,
    num_rows: u64,
}

impl Page {
    /// Checks the layout; `got` are the buffers of the page.
    pub(super) fn new(
        page: &PageMetadata,
        layout: &ConstantLayout,
        leaf: &Leaf,
        got: &[Bytes],
    ) -> Result<Self> {
        let value = match (&layout.inline_value, page.buffers.len()) {
            (Some(value), _) => Some(check_value(leaf, value.to_vec())?),
            (None, 1 | 3) => Some(scalar(leaf, got.first().map_or(&[], |b| b.as_ref()))?),
            _ => None,
        };
        Ok(Self {
            value,
            repetition: repdef::max_repetition(&layout.layers),
            max_visible: repdef::max_visible(&repdef::bounds(&layout.layers)?),
        })
    }

    /// Appends the rows.
    pub(super) fn decode(&self, plan: ConstantPlan, rows: &RowRanges, out: Output<'_>) -> Result<()> {
        let mut slots = 0usize;
        if self.repetition == 0 {
            let mut visible = VisibleCounter::new(&plan.def, self.max_visible);
            for range in rows {
                let slice = to_usize(range.start)?..to_usize(range.end)?;
                if !plan.def.is_empty() {
                    let def = plan.def.get(slice.clone()).ok_or_else(|| {
                        Error::corrupt(format!(
                            "{} levels, the page has {} rows",
                            plan.def.len(),
                            plan.num_rows
                        ))
                    })?;
                    out.levels.def.extend_from_slice(def);
                } else if self.value.is_none() {
                    // Nulls without levels: the only layer that can be null is null.
                    check_allocation(slice.len().saturating_mul(2))?;
                    out.levels.def.resize(out.levels.def.len() + slice.len(), 1);
                }
                out.levels.len += slice.len();
                slots += match plan.def.is_empty() {
                    true => slice.len(),
                    false => {
                        let start = visible.before(slice.start);
                        visible.before(slice.end) - start
                    }
                };
            }
        } else {
            let starts: Vec<usize> =
                (0..).zip(&plan.rep).filter(|(_, r)| **r == self.repetition).map(|(at, _)| at).collect();
            if starts.len() as u64 != plan.num_rows
                || (!plan.def.is_empty() && plan.def.len() != plan.rep.len())
            {
                return Err(Error::corrupt(format!(
                    "{} repetition and {} definition levels of {} rows, the page has {}",
                    plan.rep.len(),
                    plan.def.len(),
                    starts.len(),
                    plan.num_rows
                )));
            }
            let mut visible = VisibleCounter::new(&plan.def, self.max_visible);
            for range in rows {
                let level = |row: u64| -> Result<usize> {
                    Ok(starts.get(to_usize(row)?).copied().unwrap_or(plan.rep.len()))
                };
                let slice = level(range.start)?..level(range.end)?;
                out.levels.rep.extend_from_slice(plan.rep.get(slice.clone()).unwrap_or_default());
                if !plan.def.is_empty() {
                    out.levels.def.extend_from_slice(plan.def.get(slice.clone()).unwrap_or_default());
                }
                out.levels.len += slice.len();
                let start = visible.before(slice.start);
                slots += visible.before(slice.end) - start;
            }
        }
        match &self.value {
            None => out.values.append_filler(out.leaf, slots),
            Some(value) => {
                append_value(out.leaf, value, slots, &mut out.values.data)?;
                out.values.append_valid_items(out.leaf, slots);
                Ok(())
            }
        }
    }
}

impl ConstantPlan {
    /// Decodes the levels; `got` are the buffers of the page.
    pub(super) fn new(page: &PageMetadata, layout: &ConstantLayout, got: &[Bytes]) -> Result<Self> {
        let mut plan = Self { rep: Vec::new(), def: Vec::new(), num_rows: page.num_rows };
        let levels = match got {
            [] | [_] => return Ok(plan),
            [rep, def] | [_, rep, def] => [rep, def],
            _ => return Err(Error::corrupt(format!("{} buffers of a constant page", got.len()))),
        };
        let [rep, def] = levels;
        plan.rep = levels_of(rep, layout.rep.as_ref()).at(|| "repetition levels")?;
        plan.def = levels_of(def, layout.def.as_ref()).at(|| "definition levels")?;
        Ok(plan)
    }
}

fn levels_of(bytes: &[u8], codec: Option<&(CompressiveEncoding, u64)>) -> Result<Vec<u16>> {
    let Some((encoding, count)) = codec else {
        if !bytes.len().is_multiple_of(2) {
            return Err(Error::corrupt(format!("levels of {} bytes", bytes.len())));
        }
        return Ok(u16::iter(bytes).collect());
    };
    let count = to_usize(*count)?;
    // A byte of a run length means at most 255 levels, a packed group of width 0 means 1024.
    if count > bytes.len().saturating_mul(1024) {
        return Err(Error::corrupt(format!("{count} levels in {} bytes", bytes.len())));
    }
    Ok(decode_levels(&level_codec(encoding)?, bytes, count, &mut level_buffer()?)?.to_vec())
}

/// The value bytes in the scalar form.
fn scalar(leaf: &Leaf, bytes: &[u8]) -> Result<Vec<u8>> {
    let count = number_at::<u32>(bytes, 0)?.size();
    let mut at = bytes_at(bytes, 4, count.saturating_mul(4))?.len() + 4;
    let mut buffers = Vec::new();
    for length in u32::iter(bytes.get(4..at).unwrap_or_default()) {
        buffers.push(bytes_at(bytes, at, length.size())?);
        at += length.size();
    }
    match (leaf.physical, buffers.as_slice()) {
        (Physical::Variable32 | Physical::Variable64, [offsets, value]) => {
            let (start, end) = match offsets.len() {
                8 => (number_at::<u32>(offsets, 0)?.size(), number_at::<u32>(offsets, 4)?.size()),
                16 => (number_at::<u64>(offsets, 0)?.size(), number_at::<u64>(offsets, 8)?.size()),
                n => return Err(Error::corrupt(format!("offsets of {n} bytes of a single value"))),
            };
            bytes_at(value, start, end.saturating_sub(start)).map(<[u8]>::to_vec)
        }
        (Physical::Bits | Physical::Fixed(_), [value]) => check_value(leaf, value.to_vec()),
        _ => Err(Error::corrupt(format!("a value in {} buffers of type {}", buffers.len(), leaf.data_type))),
    }
}

fn check_value(leaf: &Leaf, value: Vec<u8>) -> Result<Vec<u8>> {
    let expected = match leaf.physical {
        Physical::None => 0,
        Physical::Bits => leaf.items().div_ceil(8),
        Physical::Fixed(width) => leaf.items().saturating_mul(width),
        Physical::Variable32 | Physical::Variable64 => return Ok(value),
        Physical::Packed => return Err(Error::unsupported("a constant packed struct cannot be read")),
    };
    if value.len() != expected {
        return Err(Error::corrupt(format!("a constant of {} bytes, the type has {expected}", value.len())));
    }
    Ok(value)
}

/// Values of more bytes are refused unless they leave [`SPARE`] bytes of memory.
const LARGE: usize = 1 << 20;
/// What decoding and its callers allocate meanwhile, without looking whether there is memory.
const SPARE: usize = 128 << 20;

fn append_value(leaf: &Leaf, value: &[u8], n: usize, out: &mut Data) -> Result<()> {
    let bytes = n.saturating_mul(value.len());
    if bytes > LARGE {
        // The size of the file does not bound this: memory ends here, with an error, not at what is allocated next.
        check_allocation(bytes.saturating_add(SPARE)).map_err(|_| too_large(bytes))?;
    }
    match out {
        Data::None => {}
        Data::Bits(bits) if leaf.dimensions.is_empty() => {
            bits.append_n(n, value.first().is_some_and(|&b| b != 0))
        }
        Data::Bits(bits) => {
            for _ in 0..n {
                bits.append_packed_range(0..leaf.items(), value);
            }
        }
        Data::Fixed { bytes, .. } => {
            for _ in 0..n {
                bytes.extend_from_slice(value);
            }
        }
        Data::Variable32(strings) => strings.append_n(value, n)?,
        Data::Variable64(strings) => strings.append_n(value, n)?,
        Data::Packed(_) => return Err(Error::internal("a constant packed struct")),
    }
    Ok(())
}
