//! Versions that were published under a name which was free only because a cleanup had removed another writer's version.
//! Newer versions know nothing of them, so they are not part of the history.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use pennon_core::Result;
use pennon_core::manifest::{Fragment, Fragments, Manifest, naming, paths};

use crate::runtime::Stopwatch;
use crate::versions::snapshot::Snapshot;
use crate::versions::{Located, VERSIONS, load, locate, manifest_path};

/// Rounds from the last look to the put in which others cannot commit two versions and clean up.
const BRIEF_ATTEMPT: u32 = 8;

/// When the newest version was looked for, and how long that took.
#[derive(Debug, Clone, Copy)]
pub(super) struct LastLook {
    pub(super) since: Stopwatch,
    pub(super) took: Duration,
}

/// Whether a version is one of these. It was published on top of `current` a moment ago, by a put that took so long, and
/// nothing else of it is written yet.
///
/// It is one if the next newer version was there before the file of this one was written, and refers to none of the files
/// that this one added. A look that failed says nothing. With an external manifest store nothing is known of times.
pub(super) async fn is_in_a_gap(
    current: &Snapshot,
    made: &Manifest,
    at: Located,
    look: LastLook,
    put_took: Duration,
) -> bool {
    let store = &current.store;
    let is_possible = match store.is_local() {
        _ if store.external().is_some() => false,
        true => has_newer(current, at).await,
        // A look takes a round, and others need many.
        false => look.since.elapsed() > put_took.min(look.took) * BRIEF_ATTEMPT,
    };
    is_possible && came_later(current, made, at).await.unwrap_or(false)
}

/// Whether something says that there is a newer version: the hint, which all leave who commit or clean up (the reference
/// only if it commits), or the absence of the version before.
async fn has_newer(current: &Snapshot, at: Located) -> bool {
    let store = &current.store;
    let hint = locate::read_hint(store).await;
    hint.is_some_and(|newest| newest > at.version)
        || store.exists(&current.source().path).await.is_ok_and(|is_there| !is_there)
}

/// Whether the next newer version was there before the file of this one was written, and is not one on top of it.
async fn came_later(current: &Snapshot, made: &Manifest, at: Located) -> Result<bool> {
    let store = &current.store;
    let (mut newer, mut written): (Option<Located>, _) = (None, None);
    for file in store.list_below(VERSIONS).await? {
        let name = file.path.rsplit_once('/').map_or("", |(_, name)| name);
        let Some((version, scheme)) = naming::parse(name) else { continue };
        if version == at.version {
            written = Some(file.modified);
        } else if version > at.version && newer.is_none_or(|newer| version < newer.version) {
            newer = Some(Located { version, scheme });
        }
    }
    let (Some(newer), Some(written)) = (newer, written) else { return Ok(false) };
    let info = store.info(&manifest_path(newer.version, newer.scheme)).await?;
    if info.is_none_or(|info| info.changed >= written) {
        return Ok(false);
    }
    let newer = load::load(store, current.session(), newer).await?;
    let before = &current.manifest.fragments;
    let added: HashSet<String> = added_files(made, before).collect();
    Ok(!added_files(&newer.manifest, before).any(|file| added.contains(&file)))
}

/// The files of fragments of a version that are not there before.
fn added_files<'a>(version: &'a Manifest, before: &'a Fragments) -> impl Iterator<Item = String> + 'a {
    let files =
        |fragment: &Arc<Fragment>| paths::of_fragment(fragment).map(|file| file.path()).collect::<Vec<_>>();
    version.fragments.diff(before).flat_map(move |difference| {
        let known = difference.before().map(files).unwrap_or_default();
        let mut added = difference.after().map(files).unwrap_or_default();
        added.retain(|file| !known.contains(file));
        added
    })
}
