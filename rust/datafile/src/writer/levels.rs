//! Levels of one page: the layers it needs and levels numbered for exactly those (file format 4.1).

use pennon_core::file::Layer;

use crate::repdef::shred::{CanonicalLayer, LeafPath};

/// Levels of a page as they are stored.
#[derive(Debug, Default)]
pub(crate) struct PageLevels {
    /// Rows of the page.
    pub rows: usize,
    /// Positions.
    pub len: usize,
    /// Repetition levels; `None` without lists.
    pub rep: Option<Vec<u16>>,
    /// Definition levels; `None` when all are 0.
    pub def: Option<Vec<u16>>,
    /// What the page contains, innermost first.
    pub layers: Vec<Layer>,
    /// Highest definition level of a position with a slot.
    pub visible: u16,
    /// Repetition level of a new row.
    pub max_rep: u16,
    /// Highest definition level.
    pub max_def: u16,
    /// Value slots.
    pub slots: usize,
    /// Slots whose value is null.
    pub null_slots: usize,
}

impl PageLevels {
    /// Renumbers canonical levels.
    pub(crate) fn new(
        path: &LeafPath,
        rows: usize,
        len: usize,
        rep: Option<Vec<u16>>,
        canonical: Option<Vec<u16>>,
    ) -> Self {
        let highest = path.layers().map(|l| l.empty).max().unwrap_or_default();
        let mut counts = vec![0usize; usize::from(highest) + 1];
        for &d in canonical.iter().flatten() {
            if let Some(count) = counts.get_mut(usize::from(d)) {
                *count += 1;
            }
        }
        let count = |level: u16| counts.get(usize::from(level)).copied().unwrap_or_default();
        let mut renumbered = vec![0u16; counts.len()];
        let mut used = 0u16;
        let mut take = |level: u16| {
            used += 1;
            if let Some(slot) = renumbered.get_mut(usize::from(level)) {
                *slot = used;
            }
        };
        let has_nulls = |layer: &CanonicalLayer| count(layer.null) > 0;
        let mut layers = Vec::new();
        for (at, layer) in path.layers().enumerate() {
            // Below a struct that is null the reference counts null items in a list that cannot be null too often.
            let is_below_null = || {
                layer.is_list
                    && path.layers().take(at).any(|inner| has_nulls(&inner))
                    && path.layers().skip(at + 1).any(|outer| !outer.is_list && has_nulls(&outer))
            };
            // Where a struct around it is null the reference takes it for a value if the layer cannot be null.
            let is_in_null_struct = || {
                let structs = path.layers().skip(at + 1).take_while(|outer| !outer.is_list);
                structs.into_iter().any(|outer| has_nulls(&outer))
            };
            let empties = layer.is_list && count(layer.empty) > 0;
            let nulls = has_nulls(&layer) || is_in_null_struct() || (!empties && is_below_null());
            if nulls {
                take(layer.null);
            }
            if empties {
                take(layer.empty);
            }
            layers.push(match (layer.is_list, nulls, empties) {
                (false, false, _) => Layer::AllValidItem,
                (false, true, _) => Layer::NullableItem,
                (true, false, false) => Layer::AllValidList,
                (true, true, false) => Layer::NullableList,
                (true, false, true) => Layer::EmptyableList,
                (true, true, true) => Layer::NullAndEmptyList,
            });
        }
        let max_def = used;
        let below_lists = layers.iter().take_while(|l| !l.is_list());
        let visible = below_lists.fold(0, |n, l| n + l.num_def_levels());
        let def = canonical.filter(|_| max_def > 0).map(|mut def| {
            for d in &mut def {
                *d = renumbered.get(usize::from(*d)).copied().unwrap_or_default();
            }
            def
        });
        let is_slot = |&level: &usize| level <= usize::from(path.visible());
        let (mut slots, mut null_slots) = (len, 0);
        if canonical_has(&counts) {
            slots =
                (0..counts.len()).filter(is_slot).map(|l| counts.get(l).copied().unwrap_or_default()).sum();
            null_slots = slots - count(0);
        }
        Self { rows, len, rep, def, layers, visible, max_rep: path.max_rep(), max_def, slots, null_slots }
    }

    /// Whether each position has a slot.
    pub(crate) fn is_dense(&self) -> bool {
        self.slots == self.len
    }

    /// Definition levels of some positions; empty when there are none.
    pub(crate) fn def_of(&self, at: usize, len: usize) -> &[u16] {
        self.def.as_deref().and_then(|def| def.get(at..at + len)).unwrap_or_default()
    }

    /// Repetition levels of some positions; empty when there are none.
    pub(crate) fn rep_of(&self, at: usize, len: usize) -> &[u16] {
        self.rep.as_deref().and_then(|rep| rep.get(at..at + len)).unwrap_or_default()
    }

    /// Positions from `at` up to and including the `slots`-th slot, unless that is more than `limit`.
    pub(crate) fn positions_of(&self, at: usize, slots: usize, limit: usize) -> Option<usize> {
        if self.is_dense() {
            return Some(slots).filter(|&n| n <= limit);
        }
        let def = self.def.as_deref()?.get(at..)?;
        let mut left = slots;
        for (seen, &d) in def.iter().take(limit).enumerate() {
            left -= usize::from(d <= self.visible);
            if left == 0 {
                return Some(seen + 1);
            }
        }
        None
    }
}

fn canonical_has(counts: &[usize]) -> bool {
    counts.iter().any(|&c| c > 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::writer::tests::leaf_paths;
    use arrow_schema::{DataType, Field};

    #[test]
    fn layers_are_those_the_page_needs() {
        let list = DataType::List(Field::new("item", DataType::Int32, true).into());
        let path = leaf_paths(&Field::new("a", list, true)).remove(0);
        // Canonical: 1 null item, 2 null list, 3 empty list.
        let levels =
            |def: Vec<u16>| PageLevels::new(&path, 3, def.len(), Some(vec![1; def.len()]), Some(def));
        let page = levels(vec![0, 0, 3]);
        assert_eq!(page.layers, [Layer::AllValidItem, Layer::EmptyableList]);
        assert_eq!((page.def.as_deref(), page.visible, page.slots), (Some(&[0, 0, 1][..]), 0, 2));
        let page = levels(vec![1, 2, 3]);
        assert_eq!(page.layers, [Layer::NullableItem, Layer::NullAndEmptyList]);
        assert_eq!((page.visible, page.slots, page.null_slots, page.max_def), (1, 1, 1, 3));
    }

    #[test]
    fn what_is_in_a_null_struct_may_be_null() {
        let member = Field::new("m", DataType::Int32, true);
        let inner = Field::new("inner", DataType::Struct(vec![member].into()), true);
        let list = Field::new("l", DataType::List(Field::new("item", DataType::Int32, true).into()), true);
        let paths = leaf_paths(&Field::new("s", DataType::Struct(vec![inner, list].into()), true));
        // Canonical: 1 null member, 2 null inner struct, 3 null outer struct.
        let levels = |def: Vec<u16>| PageLevels::new(&paths[0], 3, def.len(), None, Some(def));
        let page = levels(vec![0, 3, 0]);
        assert_eq!(page.layers, [Layer::NullableItem; 3]);
        assert_eq!((page.slots, page.null_slots, page.def), (3, 1, Some(vec![0, 3, 0])));
        let page = levels(vec![0, 2, 0]);
        assert_eq!(page.layers, [Layer::NullableItem, Layer::NullableItem, Layer::AllValidItem]);
        // Of a list in a null struct the items are not there: 1 null item, 2 null list, 3 empty list, 4 null struct.
        let page = PageLevels::new(&paths[1], 2, 2, Some(vec![1, 1]), Some(vec![0, 4]));
        assert_eq!(page.layers, [Layer::AllValidItem, Layer::NullableList, Layer::NullableItem]);
    }

    #[test]
    fn positions_end_with_the_wanted_slot() {
        let list = DataType::List(Field::new("item", DataType::Int32, true).into());
        let path = leaf_paths(&Field::new("a", list, true)).remove(0);
        let def = vec![0, 2, 2, 1, 0, 2];
        let page = PageLevels::new(&path, 6, 6, Some(vec![1; 6]), Some(def));
        assert_eq!(page.positions_of(0, 2, 100), Some(4));
        assert_eq!(page.positions_of(1, 1, 100), Some(3));
        assert_eq!(page.positions_of(1, 1, 2), None);
    }
}
