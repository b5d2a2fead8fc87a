//! A filter made ready for all fragments of a version: parsed once, its columns looked up once.

use pennon_core::Result;
use pennon_core::manifest::Manifest;
use pennon_core::rows::RowRanges;

use super::fragment::FragmentReader;
use super::projection::Input;
use super::prune::Pruner;
use crate::expr::Expression;

/// A filter over the columns of an [`Input`].
#[derive(Debug)]
pub(super) struct PlannedFilter {
    pub(super) predicate: Expression,
    /// The columns of the input that it needs.
    pub(super) needed: Vec<bool>,
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
        Self { needed: input.filter_columns(&predicate), predicate, pruner }
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
