//! Arrays to levels: what nesting and nulls become when only a leaf is stored (file format 4.1).
//!
//! Levels here are *canonical*: numbered as if every layer could be null and every list empty, so that pieces of
//! one column can be joined before it is known which layers a page needs. `PageLevels` renumbers them.
//!
//! The layers are visited from the outside in, with one invariant: a position has a slot in the current array
//! exactly if its level is at most `visible`, and the slots, in order, are the elements of `ranges`. Garbage
//! beneath null lists and gaps between offsets are thereby skipped; garbage beneath null structs keeps its slot, as
//! the format requires.

use std::ops::Range;

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, OffsetSizeTrait};
use arrow_buffer::{NullBuffer, OffsetBuffer};
use arrow_schema::DataType;
use pennon_core::schema::{Field, LogicalType};
use pennon_core::{Error, Result};

/// One layer on the path to a leaf.
#[derive(Debug, Clone)]
struct Step {
    kind: StepKind,
    /// Path of the field, for errors.
    path: String,
    nullable: bool,
    null: u16,
    empty: u16,
    /// Repetition level of the second and later items of a list.
    later: u16,
    /// Highest level of a position with a slot after this step.
    visible: u16,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum StepKind {
    Leaf,
    /// The member that leads to the leaf.
    Struct(String),
    /// The key or the value of a map's entries, whose names differ between writers.
    Entry(usize),
    List,
    /// A list of so many structs, which are positions of their own from there on.
    FixedList(usize),
}

/// The path from a top-level field to one of its leaves.
#[derive(Debug, Clone)]
pub(crate) struct LeafPath {
    steps: Vec<Step>,
    max_rep: u16,
}

/// A layer as the page builder needs it, innermost first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct CanonicalLayer {
    /// Whether it is a list.
    pub is_list: bool,
    /// Level of a null.
    pub null: u16,
    /// Level of an empty list; for items the same as `null`.
    pub empty: u16,
}

/// A piece of a column: levels of some rows, and the arrays whose elements are the slots, in order.
#[derive(Debug, Default)]
pub(crate) struct Shredded {
    /// Top-level rows; below fixed-size lists, their structs.
    pub rows: usize,
    /// Positions.
    pub levels: usize,
    /// Repetition levels; `None` without lists.
    pub rep: Option<Vec<u16>>,
    /// Canonical definition levels; `None` when all are 0.
    pub def: Option<Vec<u16>>,
    /// The slots.
    pub values: Vec<ArrayRef>,
}

impl LeafPath {
    /// The path along these fields, the leaf last.
    pub(crate) fn new(fields: &[&Field]) -> Result<Self> {
        let mut steps: Vec<Step> = Vec::with_capacity(fields.len());
        let mut path = String::new();
        for (at, field) in fields.iter().enumerate() {
            if at > 0 {
                path.push('.');
            }
            path.push_str(&field.name);
            let kind = match (fields.get(at + 1), &field.logical_type) {
                (None, _) => StepKind::Leaf,
                (Some(child), LogicalType::Struct) => {
                    let of_map = at.checked_sub(1).and_then(|above| fields.get(above));
                    let of_map = of_map.is_some_and(|above| above.logical_type == LogicalType::Map);
                    let at = field.children.iter().position(|member| member.id == child.id);
                    match at.filter(|_| of_map) {
                        Some(at) => StepKind::Entry(at),
                        None => StepKind::Struct(child.name.clone()),
                    }
                }
                (
                    Some(_),
                    LogicalType::List
                    | LogicalType::ListStruct
                    | LogicalType::LargeList
                    | LogicalType::LargeListStruct
                    | LogicalType::Map,
                ) => StepKind::List,
                (Some(_), LogicalType::FixedSizeList(_, dimension)) => {
                    if steps.iter().any(|step| step.kind == StepKind::List) {
                        return Err(Error::unsupported(format!(
                            "field `{path}`: fixed-size lists of structs inside of lists cannot be written"
                        )));
                    }
                    StepKind::FixedList(usize::try_from(*dimension).unwrap_or_default())
                }
                (Some(_), other) => {
                    return Err(Error::unsupported(format!(
                        "field `{path}`: writing type {other} is not supported"
                    )));
                }
            };
            let nullable = field.nullable;
            steps.push(Step { kind, path: path.clone(), nullable, null: 0, empty: 0, later: 0, visible: 0 });
        }
        let (mut used, mut max_rep) = (0u16, 0u16);
        for step in steps.iter_mut().rev() {
            if step.kind == StepKind::List {
                step.visible = used;
                step.later = max_rep;
                max_rep += 1;
                used += 1;
            }
            step.null = used + u16::from(step.kind != StepKind::List);
            step.empty = used + 1;
            used = step.empty;
        }
        let mut visible = u16::MAX;
        for step in &mut steps {
            if step.kind == StepKind::List {
                visible = step.visible;
            }
            step.visible = visible;
        }
        Ok(Self { steps, max_rep })
    }

    /// Layers, innermost first.
    pub(crate) fn layers(&self) -> impl Iterator<Item = CanonicalLayer> + '_ {
        self.steps.iter().rev().map(|step| CanonicalLayer {
            is_list: step.kind == StepKind::List,
            null: step.null,
            empty: step.empty,
        })
    }

    /// Repetition level of a new row, 0 without lists.
    pub(crate) fn max_rep(&self) -> u16 {
        self.max_rep
    }

    /// Positions of a row without lists: more than 1 below fixed-size lists of structs, which each of their structs has
    /// the level of when they are null.
    pub(crate) fn repeated(&self) -> usize {
        self.steps.iter().fold(1, |n, step| if let StepKind::FixedList(d) = step.kind { n * d } else { n })
    }

    /// Highest canonical level of a position with a value slot.
    pub(crate) fn visible(&self) -> u16 {
        self.steps.last().map_or(u16::MAX, |step| step.visible)
    }

    /// The dotted path of the leaf.
    pub(crate) fn name(&self) -> &str {
        self.steps.last().map_or("", |step| &step.path)
    }
}

/// Splits an array of the path's first field into levels and leaf values.
///
/// Errors: `SchemaMismatch` for nulls in a field that must not have any, and for another nesting.
pub(crate) fn shred(path: &LeafPath, array: &ArrayRef) -> Result<Shredded> {
    let rows = array.len();
    let mut state = State { levels: rows, rep: None, def: None, visible: u16::MAX, ranges: vec![0..rows] };
    let mut array = array.clone();
    for step in &path.steps {
        match &step.kind {
            StepKind::Leaf => state.mark_nulls(array.logical_nulls().as_ref(), step)?,
            StepKind::Struct(member) => {
                state.mark_nulls(array.nulls(), step)?;
                let child = array.as_struct_opt().and_then(|s| s.column_by_name(member)).cloned();
                array = child.ok_or_else(|| mismatch(step, array.data_type()))?;
            }
            StepKind::Entry(member) => {
                state.mark_nulls(array.nulls(), step)?;
                let child = array.as_struct_opt().and_then(|s| s.columns().get(*member)).cloned();
                array = child.ok_or_else(|| mismatch(step, array.data_type()))?;
            }
            StepKind::FixedList(dimension) => {
                state.mark_nulls(array.nulls(), step)?;
                state.repeat(*dimension);
                let list = array.as_fixed_size_list_opt().ok_or_else(|| mismatch(step, array.data_type()))?;
                array = list.values().clone();
            }
            StepKind::List => {
                let nulls = array.nulls();
                array = match array.data_type() {
                    DataType::List(_) => {
                        let list = array.as_list::<i32>();
                        state.expand(list.offsets(), nulls, step, path.max_rep)?;
                        list.values().clone()
                    }
                    DataType::LargeList(_) => {
                        let list = array.as_list::<i64>();
                        state.expand(list.offsets(), nulls, step, path.max_rep)?;
                        list.values().clone()
                    }
                    DataType::Map(_, _) => {
                        let map = array.as_map();
                        state.expand(map.offsets(), nulls, step, path.max_rep)?;
                        std::sync::Arc::new(map.entries().clone())
                    }
                    other => return Err(mismatch(step, other)),
                };
            }
        }
    }
    let is_everything = |r: &Range<usize>| *r == (0..array.len());
    let values = match state.ranges.as_slice() {
        [range] if is_everything(range) => vec![array],
        ranges => ranges.iter().filter(|r| !r.is_empty()).map(|r| array.slice(r.start, r.len())).collect(),
    };
    let rows = rows * path.repeated();
    Ok(Shredded { rows, levels: state.levels, rep: state.rep, def: state.def, values })
}

fn mismatch(step: &Step, found: &DataType) -> Error {
    Error::schema_mismatch(format!("field `{}`: data of type {found} does not fit", step.path))
}

fn null_in_required(step: &Step) -> Error {
    let path = &step.path;
    Error::schema_mismatch(format!(
        "The field `{path}` contained null values even though the field is marked non-null"
    ))
}

struct State {
    levels: usize,
    rep: Option<Vec<u16>>,
    def: Option<Vec<u16>>,
    visible: u16,
    ranges: Vec<Range<usize>>,
}

impl State {
    /// Sets null elements without a null further out to the step's level.
    fn mark_nulls(&mut self, nulls: Option<&NullBuffer>, step: &Step) -> Result<()> {
        let Some(nulls) = nulls.filter(|n| n.null_count() > 0) else { return Ok(()) };
        let level = step.null;
        let mut marked = false;
        let Some(def) = &mut self.def else {
            // Nothing is null yet, so positions and slots are the same.
            let mut def = Vec::with_capacity(self.levels);
            for range in &self.ranges {
                let nulls = nulls.slice(range.start, range.len());
                marked |= nulls.null_count() > 0;
                def.extend(nulls.iter().map(|valid| if valid { 0 } else { level }));
            }
            if marked {
                if !step.nullable {
                    return Err(null_in_required(step));
                }
                self.def = Some(def);
            }
            return Ok(());
        };
        let mut slots = self.ranges.iter().cloned().flatten();
        for level_here in def.iter_mut().filter(|d| **d <= self.visible) {
            let Some(slot) = slots.next() else { break };
            if *level_here == 0 && nulls.is_null(slot) {
                *level_here = level;
                marked = true;
            }
        }
        if marked && !step.nullable { Err(null_in_required(step)) } else { Ok(()) }
    }

    /// Replaces each position by so many. There are no lists around.
    fn repeat(&mut self, dimension: usize) {
        self.levels *= dimension;
        if let Some(def) = &mut self.def {
            *def = def.iter().flat_map(|&level| std::iter::repeat_n(level, dimension)).collect();
        }
        for range in &mut self.ranges {
            *range = range.start * dimension..range.end * dimension;
        }
    }

    /// Replaces each list by its items.
    fn expand<O: OffsetSizeTrait>(
        &mut self,
        offsets: &OffsetBuffer<O>,
        nulls: Option<&NullBuffer>,
        step: &Step,
        max_rep: u16,
    ) -> Result<()> {
        let nulls = nulls.filter(|n| n.null_count() > 0);
        let mut rep = Vec::with_capacity(self.levels);
        let mut def: Vec<u16> = Vec::with_capacity(self.levels);
        let mut children: Vec<Range<usize>> = Vec::new();
        let mut slots = self.ranges.iter().cloned().flatten();
        let (old_rep, old_def) = (self.rep.take(), self.def.take());
        let mut broken = false;
        for at in 0..self.levels {
            let r = old_rep.as_ref().and_then(|rep| rep.get(at).copied()).unwrap_or(max_rep);
            let d = old_def.as_ref().and_then(|def| def.get(at).copied()).unwrap_or(0);
            let slot = if d <= self.visible { slots.next() } else { None };
            rep.push(r);
            let Some(slot) = slot.filter(|_| d == 0) else {
                broken = true;
                def.push(d);
                continue;
            };
            if nulls.is_some_and(|n| n.is_null(slot)) {
                if !step.nullable {
                    return Err(null_in_required(step));
                }
                broken = true;
                def.push(step.null);
                continue;
            }
            let (start, end) = match (offsets.get(slot), offsets.get(slot + 1)) {
                (Some(start), Some(end)) => (start.as_usize(), end.as_usize()),
                _ => return Err(Error::internal("a list without offsets")),
            };
            if start == end {
                broken = true;
                def.push(step.empty);
                continue;
            }
            rep.resize(rep.len() + (end - start) - 1, step.later);
            def.resize(rep.len(), 0);
            match children.last_mut() {
                Some(last) if last.end == start => last.end = end,
                _ => children.push(start..end),
            }
        }
        self.levels = rep.len();
        self.rep = Some(rep);
        self.def = broken.then_some(def);
        self.ranges = children;
        self.visible = step.visible;
        Ok(())
    }
}

#[cfg(test)]
mod tests;
