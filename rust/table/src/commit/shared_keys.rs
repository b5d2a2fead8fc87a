//! Whether other writers wrote a row with a key that a change inserts: nobody names the keys of an append.
//!
//! | rows of | read | looked for |
//! |---|---|---|
//! | the other writers | key columns | the keys that the change names, or those that its filter may take for them |
//! | the change, if it names a filter | key columns | what was found |

use std::collections::HashMap;
use std::sync::Arc;

use pennon_core::manifest::Fragment;
use pennon_core::rows::RowRanges;
use pennon_core::schema::Field;
use pennon_core::transaction::{KeySet, Update};
use pennon_core::{Error, FieldId, Result};

use crate::runtime::{blocking, each_concurrently};
use crate::scan::FragmentReader;
use crate::store::Uploads;
use crate::versions::snapshot::Snapshot;
use crate::write::inserted_keys;

/// Rows that are read at a time.
const BATCH_ROWS: u64 = 256 << 10;
/// Keys of other writers that are looked for in the rows of the change, at most; more are taken for shared ones.
const MAX_CANDIDATES: usize = 1 << 20;

/// Which of `others` wrote a row with a key that `mine` inserts, or may have done so: keys that are not columns of the table any
/// more cannot be compared.
///
/// `others`: the fragments of those rows, by writer. `uploads`: the files of mine that are on their way. Errors: retryable
/// `Conflict` if rows cannot be read.
pub(super) async fn find(
    newest: &Arc<Snapshot>,
    mine: &Update,
    others: &[&[Fragment]],
    uploads: &Uploads,
) -> Result<Option<usize>> {
    let Some(keys) = mine.inserted_rows.clone().filter(|_| !others.is_empty()) else { return Ok(None) };
    let Some(fields) = fields(newest, &keys.fields) else { return Ok(Some(0)) };
    let is_exact = matches!(keys.keys, Some(KeySet::Exact(_)));
    let most = if is_exact { 1 } else { MAX_CANDIDATES };
    let candidates = keys_of(newest, &fields, others, move |hash| keys.may_contain(hash), most).await?;
    if is_exact || candidates.is_empty() || candidates.len() >= most {
        return Ok(candidates.into_values().min());
    }
    uploads.arrive().await?;
    let candidates = Arc::new(candidates);
    let wanted = Arc::clone(&candidates);
    let own = [mine.new_fragments.as_slice()];
    let shared = keys_of(newest, &fields, &own, move |hash| wanted.contains_key(&hash), 1).await?;
    Ok(shared.keys().filter_map(|hash| candidates.get(hash)).min().copied())
}

/// Top-level fields by id; `None` if one is not there.
fn fields(newest: &Snapshot, ids: &[FieldId]) -> Option<Vec<Field>> {
    let field = |id: &FieldId| newest.manifest.schema.fields.iter().find(|field| field.id == *id).cloned();
    ids.iter().map(field).collect()
}

/// Hashes of those keys of rows that are wanted, with the number of the first writer that wrote them; of a fragment with `most`
/// of them not all.
async fn keys_of(
    newest: &Arc<Snapshot>,
    fields: &[Field],
    writers: &[&[Fragment]],
    is_wanted: impl Fn(u64) -> bool + Send + Sync + 'static,
    most: usize,
) -> Result<HashMap<u64, usize>> {
    let (snapshot, fields) = (Arc::clone(newest), fields.to_vec());
    let numbered = |(writer, fragments): (usize, &&[Fragment])| {
        fragments.iter().map(|fragment| (writer, Arc::new(fragment.clone()))).collect::<Vec<_>>()
    };
    let fragments: Vec<(usize, Arc<Fragment>)> = writers.iter().enumerate().flat_map(numbered).collect();
    let found = blocking(move || {
        let find = |(writer, fragment): &(usize, Arc<Fragment>)| {
            Ok((*writer, keys_of_fragment(&snapshot, &fields, fragment, &is_wanted, most)?))
        };
        let mut found = HashMap::new();
        for (writer, hashes) in each_concurrently(snapshot.store.readers(), &fragments, find)? {
            for hash in hashes {
                found.entry(hash).or_insert(writer);
            }
        }
        Ok(found)
    });
    // Files that are gone, for instance, and then also the version.
    let version = newest.version();
    found.await.map_err(|error| {
        Error::retryable_conflict(format!(
            "Retryable commit conflict for version {version}: which keys other writers inserted is not known: {error}"
        ))
    })
}

fn keys_of_fragment(
    snapshot: &Arc<Snapshot>,
    fields: &[Field],
    fragment: &Arc<Fragment>,
    is_wanted: &impl Fn(u64) -> bool,
    most: usize,
) -> Result<Vec<u64>> {
    let reader = FragmentReader::new(Arc::clone(snapshot), Arc::clone(fragment), 0);
    let fields: Vec<&Field> = fields.iter().collect();
    let mut found = Vec::new();
    let mut start = 0;
    while start < fragment.physical_rows && found.len() < most {
        let end = fragment.physical_rows.min(start + BATCH_ROWS);
        let columns = reader.read(&fields, &RowRanges::from(start..end))?;
        let hashes = inserted_keys::hashes_without_null(&columns)?;
        found.extend(hashes.into_iter().filter(|hash| is_wanted(*hash)));
        start = end;
    }
    Ok(found)
}
