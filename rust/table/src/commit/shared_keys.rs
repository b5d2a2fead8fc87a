//! Whether other writers wrote a row with a key that a change inserts: nobody names the keys of an append.
//!
//! | rows of | read | looked for |
//! |---|---|---|
//! | the other writers | key columns | the keys that the change names, or those that its filter may take for them |
//! | the change, if it names a filter | key columns, once for a commit | what was found |

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use pennon_core::manifest::Fragment;
use pennon_core::rows::RowRanges;
use pennon_core::schema::Field;
use pennon_core::transaction::{KeyFilter, KeySet, Operation, Transaction};
use pennon_core::{Error, ErrorKind, FieldId, Result};

use crate::runtime::{blocking, each_concurrently, processors};
use crate::scan::FragmentReader;
use crate::store::Uploads;
use crate::versions::snapshot::Snapshot;
use crate::write::inserted_keys;

/// Rows that a thread reads at a time.
const BATCH_ROWS: u64 = 64 << 10;
/// Rows of a fragment that one thread reads.
const PART_ROWS: u64 = 1 << 20;
/// Rows of other writers with keys that a filter takes for its own, and rows of the change, at most: where there are
/// more, one key may be shared.
const MAX_KEYS: usize = 1 << 23;

/// The keys that a change inserts.
#[derive(Debug, Default)]
pub(super) struct InsertedKeys {
    /// Hashes of the keys in all rows of the change, ascending, once they were read.
    hashes: Option<Arc<Vec<u64>>>,
}

impl InsertedKeys {
    /// Which of `others` wrote a row with a key that `mine` inserts, or may have done so: keys that are not columns of the
    /// table any more cannot be compared.
    ///
    /// `others`: the fragments of those rows, by writer. `uploads`: the files of mine that are on their way. Errors:
    /// retryable `Conflict` if rows of others are gone.
    pub(super) async fn shared(
        &mut self,
        newest: &Arc<Snapshot>,
        mine: &Transaction,
        others: &[&[Fragment]],
        uploads: &Uploads,
    ) -> Result<Option<usize>> {
        let Operation::Update(mine) = &mine.operation else { return Ok(None) };
        let Some(keys) = &mine.inserted_rows else { return Ok(None) };
        let Some(fields) = fields(newest, &keys.fields) else { return Ok(Some(0)) };
        let is_counted = |fragment: &Fragment| fragment.physical_rows > 0 || fragment.files.is_empty();
        if let Some(at) = others.iter().position(|fragments| !fragments.iter().all(is_counted)) {
            return Ok(Some(at));
        }
        let is_certain = matches!(keys.keys, Some(KeySet::Exact(_))) || self.hashes.is_some();
        let limit = if is_certain { 1 } else { MAX_KEYS };
        let wanted = Wanted { named: Some(keys.clone()), hashes: self.hashes.clone() };
        let found = keys_of(newest, &fields, others, wanted, limit).await.map_err(|e| gone(newest, e))?;
        if is_certain || found.is_empty() || found.len() >= limit {
            return Ok(first(&found));
        }
        uploads.arrive().await?;
        let (own, all) = ([mine.new_fragments.as_slice()], Wanted { named: None, hashes: None });
        let own = keys_of(newest, &fields, &own, all, MAX_KEYS).await?;
        if own.len() >= MAX_KEYS {
            return Ok(first(&found));
        }
        let mut hashes: Vec<u64> = own.into_iter().map(|(hash, _)| hash).collect();
        hashes.sort_unstable();
        let is_shared = |(hash, _): &(u64, usize)| hashes.binary_search(hash).is_ok();
        let shared: Vec<_> = found.into_iter().filter(is_shared).collect();
        self.hashes = Some(Arc::new(hashes));
        Ok(first(&shared))
    }
}

fn first(found: &[(u64, usize)]) -> Option<usize> {
    found.iter().map(|(_, writer)| *writer).min()
}

/// Top-level fields without members by id; `None` if one is not there.
fn fields(newest: &Snapshot, ids: &[FieldId]) -> Option<Vec<Field>> {
    let fields = &newest.manifest.schema.fields;
    let field = |id: &FieldId| fields.iter().find(|f| f.id == *id && f.children.is_empty()).cloned();
    ids.iter().map(field).collect()
}

/// Rows of others that cannot be read any more: who decides again does not need them.
fn gone(newest: &Snapshot, error: Error) -> Error {
    if !matches!(error.kind(), ErrorKind::NotFound | ErrorKind::Corrupt) {
        return error;
    }
    let version = newest.version();
    Error::retryable_conflict(format!(
        "Retryable commit conflict for version {version}: which keys other writers inserted is not known: {error}"
    ))
    .with_source(error)
}

/// Keys that are looked for: those that a change names, as far as they are among these hashes.
struct Wanted {
    named: Option<KeyFilter>,
    /// Ascending.
    hashes: Option<Arc<Vec<u64>>>,
}

impl Wanted {
    fn contains(&self, hash: u64) -> bool {
        self.named.as_ref().is_none_or(|keys| keys.may_contain(hash))
            && self.hashes.as_ref().is_none_or(|hashes| hashes.binary_search(&hash).is_ok())
    }
}

/// Hashes of the wanted keys of rows, with the number of the writer of each. Once there are `limit`, the rest is not read.
async fn keys_of(
    newest: &Arc<Snapshot>,
    fields: &[Field],
    writers: &[&[Fragment]],
    wanted: Wanted,
    limit: usize,
) -> Result<Vec<(u64, usize)>> {
    let (snapshot, fields) = (Arc::clone(newest), fields.to_vec());
    let numbered = |(writer, fragments): (usize, &&[Fragment])| {
        fragments.iter().map(|fragment| (writer, Arc::new(fragment.clone()))).collect::<Vec<_>>()
    };
    let fragments: Vec<(usize, Arc<Fragment>)> = writers.iter().enumerate().flat_map(numbered).collect();
    blocking(move || {
        let fields: Vec<&Field> = fields.iter().collect();
        let mut parts = Vec::new();
        for (writer, fragment) in fragments {
            let reader = Arc::new(FragmentReader::new(Arc::clone(&snapshot), Arc::clone(&fragment), 0));
            let mut start = 0;
            while start < fragment.physical_rows {
                parts.push((writer, Arc::clone(&reader), start));
                start += PART_ROWS;
            }
        }
        let count = AtomicUsize::new(0);
        let read = |(writer, reader, start): &(usize, Arc<FragmentReader>, u64)| {
            let mut found = Vec::new();
            let end = reader.fragment().physical_rows.min(start + PART_ROWS);
            let mut at = *start;
            while at < end && count.load(Ordering::Relaxed) < limit {
                let next = end.min(at + BATCH_ROWS);
                let columns = reader.read(&fields, &RowRanges::from(at..next))?;
                let before = found.len();
                let hashes = inserted_keys::hashes_without_null(&columns)?.into_iter();
                found.extend(hashes.filter(|hash| wanted.contains(*hash)).map(|hash| (hash, *writer)));
                count.fetch_add(found.len() - before, Ordering::Relaxed);
                at = next;
            }
            Ok(found)
        };
        let threads = processors().max(snapshot.store.readers());
        Ok(each_concurrently(threads, &parts, read)?.concat())
    })
    .await
}
