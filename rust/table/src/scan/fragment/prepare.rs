//! What fragments need is loaded at once on a store where each request takes its time: deletion vectors and the ends of
//! data files, of all fragments of a call together.

use std::collections::BTreeSet;

use pennon_core::manifest::DataFile;
use pennon_core::schema::Field;
use pennon_core::{FieldId, Result};

use super::{FieldLocation, FragmentReader};
use crate::runtime::each_concurrently;

/// A file of so many bytes is read whole where most of it is needed: less than what comes while a request waits.
const SMALL_FILE: u64 = 1 << 20;

/// What is loaded.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Needs<'a> {
    /// The files that have these fields are opened.
    pub(crate) fields: &'a [Field],
    /// Whether values of these fields are read next.
    pub(crate) values: bool,
    pub(crate) deletions: NeedsDeletions,
}

/// Whether the deletion vector is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NeedsDeletions {
    No,
    /// If a file has to be opened: it takes no longer then, and is not needed if no row of the file is.
    WithFiles,
    Yes,
}

#[derive(Debug, Clone, Copy)]
enum FragmentPart {
    Deletions,
    /// A file, and how much of its end is read.
    File(usize, u64),
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
        let mut files = BTreeSet::new();
        needs.fields.iter().for_each(|field| reader.files_of(field, &mut files));
        let mut opens = false;
        for at in files {
            let (Some(file), Some(cell)) = (reader.fragment.files.get(at), reader.files.get(at)) else {
                continue;
            };
            if cell.is_loaded() {
                continue;
            }
            opens |= needs.deletions == NeedsDeletions::WithFiles && !reader.snapshot.has_file_reader(file);
            let ahead = if needs.values { worth_whole(file, needs.fields) } else { 0 };
            parts.push((reader, FragmentPart::File(at, ahead)));
        }
        let reads_deletions = match needs.deletions {
            NeedsDeletions::No => false,
            NeedsDeletions::WithFiles => opens,
            NeedsDeletions::Yes => true,
        };
        if reads_deletions && reader.fragment.deletion.is_some() && !reader.deletions.is_loaded() {
            parts.push((reader, FragmentPart::Deletions));
        }
    }
    let load = |(reader, part): &(&FragmentReader, FragmentPart)| match part {
        FragmentPart::Deletions => reader.deletions().map(drop),
        FragmentPart::File(at, ahead) => reader.open_file(*at, *ahead).map(drop),
    };
    each_concurrently(threads, &parts, load).map(drop)
}

/// The bytes of a small file at least half of whose columns are needed; otherwise 0.
fn worth_whole(file: &DataFile, fields: &[Field]) -> u64 {
    let is_needed = |id: &&FieldId| fields.iter().any(|field| has_field(field, **id));
    let needed = file.fields.iter().filter(is_needed).count();
    file.size.filter(|size| *size <= SMALL_FILE && needed * 2 >= file.fields.len()).unwrap_or(0)
}

fn has_field(field: &Field, id: FieldId) -> bool {
    field.id == id || field.children.iter().any(|child| has_field(child, id))
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
