//! A filter made ready for all fragments of a version: parsed once, its columns looked up once.

use arrow_array::ArrayRef;
use pennon_core::Result;
use pennon_core::manifest::Manifest;
use pennon_core::rows::RowRanges;
use pennon_core::schema::Field;

use super::fragment::FragmentReader;
use super::projection::Input;
use super::prune::Pruner;
use super::read::read_columns;
use crate::expr::Expression;

/// A filter over the columns of an [`Input`].
#[derive(Debug)]
pub(super) struct PlannedFilter {
    pub(super) predicate: Expression,
    /// The columns of the input that it needs.
    pub(super) needed: Vec<bool>,
    /// Of those, the ones of which it asks only whether they are null.
    only_nulls: Vec<bool>,
    /// What leaves rows out before they are read.
    pruner: Option<Pruner>,
}

impl PlannedFilter {
    /// Looks the columns up; without statistics every row is a candidate.
    pub(super) fn new(
        predicate: Expression,
        input: &Input,
        manifest: &Manifest,
        with_statistics: bool,
    ) -> Self {
        let pruner = if with_statistics { Pruner::new(&predicate, manifest) } else { None };
        let needed = input.filter_columns(&predicate);
        let mut only_nulls: Vec<bool> = input
            .fields
            .iter()
            .map(|field| field.is_leaf() && predicate.asks_only_for_null(&field.name))
            .collect();
        only_nulls.resize(needed.len(), false);
        Self { predicate, needed, only_nulls, pruner }
    }

    /// The columns it needs of some rows, for [`Self::predicate`] alone: see [`Self::forget_nulls`]. Blocks on the store.
    pub(super) fn read(
        &self,
        fragment: &FragmentReader,
        input: &Input,
        ranges: &RowRanges,
        deleted: bool,
    ) -> Result<Vec<Option<ArrayRef>>> {
        let mut arrays = vec![None; self.needed.len()];
        read_columns(fragment, input, ranges, &self.values(), deleted, &mut arrays)?;
        let fields = arrays.iter_mut().zip(&self.only_nulls).zip(&input.fields);
        for ((array, _), field) in fields.filter(|((_, only_nulls), _)| **only_nulls) {
            *array = Some(fragment.read_nulls(field, ranges)?);
        }
        Ok(arrays)
    }

    /// Drops the columns whose values were not read.
    pub(super) fn forget_nulls(&self, arrays: &mut [Option<ArrayRef>]) {
        arrays
            .iter_mut()
            .zip(&self.only_nulls)
            .filter(|(_, only)| **only)
            .for_each(|(array, _)| *array = None);
    }

    /// The columns whose values it needs.
    fn values(&self) -> Vec<bool> {
        self.needed.iter().zip(&self.only_nulls).map(|(needed, only_nulls)| *needed && !only_nulls).collect()
    }

    /// The stored columns whose values it needs.
    pub(super) fn value_fields<'a>(&self, input: &'a Input) -> Vec<&'a Field> {
        input.fields.iter().zip(self.values()).filter(|(_, needed)| *needed).map(|(field, _)| field).collect()
    }

    /// Whether it leaves rows out before they are read.
    pub(super) fn prunes(&self) -> bool {
        self.pruner.is_some()
    }

    /// Whether [`Self::candidates`] may read from files.
    pub(super) fn opens_files(&self) -> bool {
        self.pruner.as_ref().is_some_and(Pruner::opens_files)
    }

    /// The physical rows of a fragment that may match; `None` if that is all of them. Blocks on the store.
    pub(super) fn candidates(&self, fragment: &FragmentReader) -> Result<Option<RowRanges>> {
        match &self.pruner {
            Some(pruner) => pruner.kept(fragment),
            None => Ok(None),
        }
    }
}
