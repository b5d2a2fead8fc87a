//! What fragments need is loaded at once on a store where each request takes its time: deletion vectors and the ends of
//! data files, of all fragments of a call together.

use std::collections::BTreeSet;

use pennon_core::Result;
use pennon_core::schema::Field;

use super::{FieldLocation, FragmentReader};
use crate::runtime::each_concurrently;

/// What is loaded.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Needs<'a> {
    /// The files that have these fields are opened.
    pub(crate) fields: &'a [Field],
    /// The deletion vector is read.
    pub(crate) deletions: bool,
}

#[derive(Debug, Clone, Copy)]
enum FragmentPart {
    Deletions,
    File(usize),
}

/// Loads what fragments need and do not have yet; nothing on a local disk, where it is loaded when it is used. Blocks on
/// the store. Errors: those of reading.
pub(crate) fn prepare<'a>(
    readers: impl IntoIterator<Item = &'a FragmentReader>,
    needs: Needs<'_>,
) -> Result<()> {
    let mut parts = Vec::new();
    let mut threads = 1;
    for reader in readers.into_iter().filter(|reader| !reader.snapshot.store.is_local()) {
        threads = reader.snapshot.store.readers();
        if needs.deletions && reader.fragment.deletion.is_some() && !reader.deletions.is_loaded() {
            parts.push((reader, FragmentPart::Deletions));
        }
        let mut files = BTreeSet::new();
        needs.fields.iter().for_each(|field| reader.files_of(field, &mut files));
        let is_open = |at: &usize| reader.files.get(*at).is_none_or(|file| file.is_loaded());
        parts.extend(files.into_iter().filter(|at| !is_open(at)).map(|at| (reader, FragmentPart::File(at))));
    }
    if parts.len() < 2 {
        return Ok(());
    }
    let load = |(reader, part): &(&FragmentReader, FragmentPart)| match part {
        FragmentPart::Deletions => reader.deletions().map(drop),
        FragmentPart::File(at) => reader.file(*at).map(drop),
    };
    each_concurrently(threads, &parts, load).map(drop)
}

impl FragmentReader {
    /// The numbers of the files that have a field or parts of it.
    fn files_of(&self, field: &Field, files: &mut BTreeSet<usize>) {
        match self.location(field) {
            FieldLocation::File(at) => {
                files.insert(at);
            }
            FieldLocation::Nowhere => {}
            FieldLocation::Several => field.children.iter().for_each(|child| self.files_of(child, files)),
        }
    }
}
