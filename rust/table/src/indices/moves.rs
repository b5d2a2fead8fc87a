//! Where rows went in compactions that left their indices as they were (table format 9.5).

use std::sync::Arc;

use pennon_core::manifest::{AddressMoves, FragmentReuse, IndexMetadata};
use pennon_core::wire::fragment_reuse::StoredMoves;
use pennon_core::wire::index_parts::IndexParts;
use pennon_core::{Error, Result};
use roaring::RoaringBitmap;

use super::is_about_the_index;
use crate::runtime::blocking;
use crate::session::EntryKind;
use crate::versions::snapshot::Snapshot;

/// Which fragments of a version index entries cover.
#[derive(Debug, Clone)]
pub(crate) struct Coverage {
    live: RoaringBitmap,
    moves: Option<Arc<AddressMoves>>,
}

impl Coverage {
    /// That of the entries of a version, deferred moves followed. May block on the store. If these cannot be read, entries
    /// do not cover what moved.
    pub(crate) fn of(snapshot: &Snapshot, entries: &[IndexMetadata]) -> Result<Self> {
        let moves = readable_moves(snapshot, entries)?;
        Ok(Self { live: snapshot.manifest.fragments.ids().map(|id| id.0).collect(), moves })
    }

    /// Whether rows moved that indices name by their old addresses.
    pub(crate) fn has_moves(&self) -> bool {
        self.moves.is_some()
    }

    /// The live fragments that an entry covers.
    pub(crate) fn fragments(&self, entry: &IndexMetadata) -> RoaringBitmap {
        let Some(fragments) = &entry.fragments else { return RoaringBitmap::new() };
        match self.moves.as_ref().filter(|_| !entry.is_system()) {
            Some(moves) => moves.covered(fragments) & &self.live,
            None => fragments & &self.live,
        }
    }
}

/// The moves that the entries of a version note; `None` if there are none, or they cannot be read.
fn readable_moves(snapshot: &Snapshot, entries: &[IndexMetadata]) -> Result<Option<Arc<AddressMoves>>> {
    match moves(snapshot, entries) {
        Err(error) if is_about_the_index(&error) => Ok(None),
        found => found,
    }
}

/// The entries of a version as the next one gets them: they cover the fragments that have the rows now, as the reference
/// writes it, so that a change of these takes them out. As they are if the moves cannot be read.
pub(crate) async fn followed(snapshot: &Arc<Snapshot>) -> Result<Arc<Vec<IndexMetadata>>> {
    let entries = snapshot.indices().await?;
    if !entries.iter().any(|entry| entry.name == FragmentReuse::NAME) {
        return Ok(entries);
    }
    let snapshot = Arc::clone(snapshot);
    blocking(move || {
        let Some(moves) = readable_moves(&snapshot, &entries)? else { return Ok(entries) };
        let follow = |entry: &IndexMetadata| match &entry.fragments {
            Some(fragments) if !entry.is_system() && moves.touch(fragments) => {
                entry.with_fragments(moves.covered(fragments))
            }
            _ => Ok(entry.clone()),
        };
        entries.iter().map(follow).collect::<Result<Vec<_>>>().map(Arc::new)
    })
    .await
}

/// The moves that the entries of a version note; `None` if there are none. May block on the store.
///
/// Errors: `Unsupported` for a newer form; `NotFound`, `Store`, and `Corrupt` with the name of the file.
pub(super) fn moves(snapshot: &Snapshot, entries: &[IndexMetadata]) -> Result<Option<Arc<AddressMoves>>> {
    let Some(entry) = entries.iter().find(|entry| entry.name == FragmentReuse::NAME) else { return Ok(None) };
    let parts = IndexParts::of(entry)?;
    if parts.index_version.is_some_and(|version| version > 0) {
        return Err(Error::unsupported(format!(
            "the index `{}` has the version {:?}, expected 0",
            entry.name, parts.index_version
        )));
    }
    let (store, directory) = snapshot.locate("_indices", &parts.uuid.to_string(), parts.base_id)?;
    let name = store.reader_name(&directory);
    if let Some(moves) = snapshot.session().get(EntryKind::AddressMoves, &name) {
        return Ok(Some(moves));
    }
    let Some((_, details)) = &parts.details else { return Ok(None) };
    let moves = match StoredMoves::of_details(details)? {
        StoredMoves::Inline(moves) => moves,
        StoredMoves::File { name, offset, size } => {
            let path = format!("{directory}/{name}");
            let read = store.source(&path, None).read(&[offset..offset.saturating_add(size)])?;
            AddressMoves::decode(read.into_iter().next().unwrap_or_default()).map_err(|e| e.in_file(path))?
        }
    };
    let moves = Arc::new(moves);
    snapshot.session().put(EntryKind::AddressMoves, &name, &moves, moves.memory_bytes() + name.len() + 64);
    Ok(Some(moves))
}
