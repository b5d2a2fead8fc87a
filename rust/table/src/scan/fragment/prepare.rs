//! What fragments need is loaded at once on a store where each request takes its time: deletion vectors and the ends of
//! data files, of all fragments of a call together.

use std::collections::BTreeSet;
use std::sync::Arc;

use pennon_core::manifest::DataFile;
use pennon_core::schema::Field;
use pennon_core::{FieldId, FragmentId, Result};
use pennon_datafile::Ahead;
use roaring::RoaringBitmap;

use super::{FieldLocation, FragmentReader};
use crate::runtime::each_concurrently;
use crate::versions::snapshot::Snapshot;

/// A file of so many bytes is read whole where most of it is needed: less than what comes while a request waits.
const SMALL_FILE: u64 = 1 << 20;
/// In a table of so many bytes small files are read whole whatever is needed, and kept: that takes less than to wait for
/// another request.
const SMALL_TABLE: u64 = 8 << 20;

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

/// The files of so many fragments are opened before it is known which of them are needed: to wait takes longer.
const FRAGMENTS_AHEAD: usize = 16;

/// Whether files of so many fragments are opened while it is found out which of them are needed: not on a local disk, nor
/// where the session keeps none.
pub(crate) fn opens_ahead(snapshot: &Snapshot, fragments: usize) -> bool {
    fragments <= FRAGMENTS_AHEAD && !snapshot.store.is_local() && !snapshot.session().is_off()
}

/// Opens the files of some fragments that have these fields; where no file is needed, for want of fields or
/// in fragments `without_files`, reads the deletion vectors. What cannot be read is an error when it is needed. Blocks
/// on the store.
pub(crate) fn open_ahead(
    snapshot: &Arc<Snapshot>,
    fields: &[Field],
    fragments: &[FragmentId],
    without_files: &RoaringBitmap,
) {
    let fragments = fragments.iter().filter_map(|id| snapshot.manifest.fragment(*id).cloned());
    let readers = fragments.map(|fragment| FragmentReader::new(Arc::clone(snapshot), fragment, 0));
    let readers: Vec<FragmentReader> = readers.collect();
    let needs = |reader: &FragmentReader| {
        let is_without = fields.is_empty() || without_files.contains(reader.fragment.id.0);
        match is_without {
            true => Needs { fields: &[], values: false, deletions: NeedsDeletions::Yes },
            false => Needs { fields, values: false, deletions: NeedsDeletions::WithFiles },
        }
    };
    drop(prepare(readers.iter().map(|reader| (reader, needs(reader)))));
}

#[derive(Debug, Clone, Copy)]
enum FragmentPart {
    Deletions,
    /// A file, and what is read with its metadata.
    File(usize, Ahead),
}

/// Loads what fragments need and do not have yet; nothing on a local disk, where it is loaded when it is used. Blocks on
/// the store. Errors: those of reading.
pub(crate) fn prepare<'a>(needed: impl IntoIterator<Item = (&'a FragmentReader, Needs<'a>)>) -> Result<()> {
    let mut parts = Vec::new();
    let mut threads = 1;
    for (reader, needs) in needed.into_iter().filter(|(reader, _)| !reader.snapshot.store.is_local()) {
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
            parts.push((reader, FragmentPart::File(at, ahead(reader, file, needs))));
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

/// What is read with the metadata of a file: a small file whole, where that is worth it.
fn ahead(reader: &FragmentReader, file: &DataFile, needs: Needs<'_>) -> Ahead {
    let is_needed = |id: &&FieldId| needs.fields.iter().any(|field| has_field(field, **id));
    let are_most = || file.fields.iter().filter(is_needed).count() * 2 >= file.fields.len();
    match file.known_size() {
        Some(size) if size > SMALL_FILE => Ahead::Metadata,
        Some(_) if reader.snapshot.data_bytes() <= SMALL_TABLE => Ahead::Kept,
        Some(size) if needs.values && are_most() => Ahead::Held(size),
        _ => Ahead::Metadata,
    }
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
