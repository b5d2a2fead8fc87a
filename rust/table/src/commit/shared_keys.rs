//! Whether another writer wrote a row with a key that a change inserts: nobody names the keys of an append.
//!
//! | rows of | read | looked for |
//! |---|---|---|
//! | the other writer | key columns | the keys that the change names, or those that its filter may take for them |
//! | the change, if it names a filter | key columns | what was found |

use std::collections::HashSet;
use std::sync::Arc;

use pennon_core::manifest::Fragment;
use pennon_core::rows::RowRanges;
use pennon_core::schema::Field;
use pennon_core::transaction::{KeyFilter, KeySet, Update};
use pennon_core::{Error, FieldId, Result};

use crate::runtime::{blocking, each_concurrently};
use crate::scan::FragmentReader;
use crate::store::Uploads;
use crate::versions::snapshot::Snapshot;
use crate::write::inserted_keys;

/// Rows that are read at a time.
const BATCH_ROWS: u64 = 256 << 10;
/// Keys of the other writer that are looked for in the rows of the change, at most; more are taken for shared ones.
const MAX_CANDIDATES: usize = 1 << 20;

/// Whether one of the rows that another writer wrote has a key that `mine` inserts, or may have: keys that are not columns
/// of the table any more cannot be compared.
///
/// `theirs`: the fragments of those rows. `uploads`: the files of mine that are on their way. Errors: retryable `Conflict` if
/// rows cannot be read.
pub(super) async fn is_any(
    newest: &Arc<Snapshot>,
    mine: &Update,
    theirs: &[Fragment],
    uploads: &Uploads,
) -> Result<bool> {
    let Some(keys) = &mine.inserted_rows else { return Ok(false) };
    let Some(fields) = fields(newest, &keys.fields) else { return Ok(true) };
    let is_exact = matches!(keys.keys, Some(KeySet::Exact(_)));
    let most = if is_exact { 1 } else { MAX_CANDIDATES };
    let candidates = find(newest, &fields, theirs, Wanted::Named(keys.clone()), most).await?;
    if candidates.is_empty() || candidates.len() >= most {
        return Ok(!candidates.is_empty());
    }
    uploads.arrive().await?;
    let own = find(newest, &fields, &mine.new_fragments, Wanted::These(candidates), 1).await?;
    Ok(!own.is_empty())
}

/// Top-level fields by id; `None` if one is not there.
fn fields(newest: &Snapshot, ids: &[FieldId]) -> Option<Vec<Field>> {
    let field = |id: &FieldId| newest.manifest.schema.fields.iter().find(|field| field.id == *id).cloned();
    ids.iter().map(field).collect()
}

/// Hashes of keys.
enum Wanted {
    Named(KeyFilter),
    These(HashSet<u64>),
}

impl Wanted {
    fn contains(&self, hash: u64) -> bool {
        match self {
            Self::Named(keys) => keys.may_contain(hash),
            Self::These(hashes) => hashes.contains(&hash),
        }
    }
}

/// Which of these keys rows of fragments have; not all of them if they are `most` or more.
async fn find(
    newest: &Arc<Snapshot>,
    fields: &[Field],
    fragments: &[Fragment],
    wanted: Wanted,
    most: usize,
) -> Result<HashSet<u64>> {
    let (snapshot, fields) = (Arc::clone(newest), fields.to_vec());
    let fragments: Vec<Arc<Fragment>> = fragments.iter().cloned().map(Arc::new).collect();
    let found = blocking(move || {
        let find = |fragment: &Arc<Fragment>| find_in(&snapshot, &fields, fragment, &wanted, most);
        let found = each_concurrently(snapshot.store.readers(), &fragments, find)?;
        Ok(found.into_iter().flatten().collect())
    });
    // Files that are gone, for instance, and then also the version.
    let version = newest.version();
    found.await.map_err(|error| {
        Error::retryable_conflict(format!(
            "Retryable commit conflict for version {version}: which keys another writer inserted is not known: {error}"
        ))
    })
}

fn find_in(
    snapshot: &Arc<Snapshot>,
    fields: &[Field],
    fragment: &Arc<Fragment>,
    wanted: &Wanted,
    most: usize,
) -> Result<HashSet<u64>> {
    let reader = FragmentReader::new(Arc::clone(snapshot), Arc::clone(fragment), 0);
    let fields: Vec<&Field> = fields.iter().collect();
    let mut found = HashSet::new();
    let mut start = 0;
    while start < fragment.physical_rows && found.len() < most {
        let end = fragment.physical_rows.min(start + BATCH_ROWS);
        let columns = reader.read(&fields, &RowRanges::from(start..end))?;
        let hashes = inserted_keys::hashes_without_null(&columns)?;
        found.extend(hashes.into_iter().filter(|hash| wanted.contains(*hash)));
        start = end;
    }
    Ok(found)
}
