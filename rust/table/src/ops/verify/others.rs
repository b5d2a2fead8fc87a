//! The versions besides the one that is verified: whether their fragments fit their files.
//!
//! From version to version only fragments are looked at that are not the same in the one looked at before, so that a
//! fragment costs what it costs once, however many versions have it.

use std::collections::HashSet;
use std::sync::Arc;

use pennon_core::manifest::{Difference, Fragment};
use pennon_core::{ErrorKind, FragmentId, Result};

use super::report::Finding;
use super::{data, gather, judge, was_removed};
use crate::runtime;
use crate::versions::snapshot::Snapshot;
use crate::versions::{Located, load};

/// What is wrong in fragments of the other versions that `verified` does not have in the same way, and in the data files
/// that it does not have. `broken` are files that are known to be wrong.
///
/// Manifests that cannot be read have a finding already; versions that are removed meanwhile are left out.
pub(super) async fn content(
    verified: &Arc<Snapshot>,
    versions: &[Located],
    broken: &HashSet<String>,
) -> Result<Vec<Finding>> {
    let mut checked = Checked {
        broken: broken.clone(),
        decoded: data_files(verified.manifest.fragments.decode_all()).collect(),
    };
    let (newer, older): (Vec<&Located>, Vec<&Located>) = versions
        .iter()
        .filter(|at| at.version != verified.version())
        .partition(|at| at.version > verified.version());
    let mut findings = Vec::new();
    // Away from the verified version in both directions.
    for versions in [newer, older.into_iter().rev().collect()] {
        let mut looked_at = Arc::clone(verified);
        for at in versions {
            let snapshot = match load::load(&verified.store, verified.session(), *at).await {
                Ok(snapshot) => snapshot,
                Err(error) if error.is_not_found() || error.kind() == ErrorKind::Corrupt => continue,
                Err(error) => return Err(error),
            };
            match differences(&snapshot, &looked_at, &mut checked).await {
                Ok(found) => findings.extend(found.into_iter().map(|finding| finding.within(at.version))),
                Err(error) if was_removed(&snapshot, &error).await? => {}
                Err(error) => return Err(error),
            }
            looked_at = snapshot;
        }
    }
    Ok(findings)
}

/// Files that are not looked at again.
struct Checked {
    /// Full paths of files with a finding.
    broken: HashSet<String>,
    /// Names of data files that were decoded.
    decoded: HashSet<String>,
}

/// What is wrong in the transaction of a version, in its fragments that another one does not have in the same way, and
/// in data files that were not decoded yet.
async fn differences(
    snapshot: &Arc<Snapshot>,
    other: &Snapshot,
    checked: &mut Checked,
) -> Result<Vec<Finding>> {
    let mut findings: Vec<Finding> = gather::transaction(snapshot).await?.into_iter().collect();
    let differences: Vec<Difference> = snapshot.manifest.fragments.diff(&other.manifest.fragments).collect();
    let fragments: Vec<Arc<Fragment>> =
        differences.iter().filter_map(Difference::after).map(Arc::clone).collect();
    let mut ids = judge::Ids::default();
    for chunk in fragments.chunks(runtime::IN_FLIGHT) {
        for (fragment, facts) in chunk.iter().zip(gather::fragments(snapshot, chunk, &checked.broken).await?)
        {
            findings.extend(judge::fragment(&snapshot.manifest, fragment, &facts, &mut ids));
        }
    }
    checked.broken.extend(findings.iter().filter_map(|finding| finding.path.clone()));
    let is_new = |fragment: &&Arc<Fragment>| {
        fragment.files.iter().any(|file| !checked.decoded.contains(file.path.as_str()))
    };
    let unread: Vec<FragmentId> = fragments.iter().filter(is_new).map(|fragment| fragment.id).collect();
    if !unread.is_empty() {
        let damaged = data::damage(snapshot, Some(&unread), &checked.broken).await?;
        checked.broken.extend(damaged.iter().filter_map(|finding| finding.path.clone()));
        checked.decoded.extend(data_files(fragments.into_iter()));
        findings.extend(damaged);
    }
    Ok(findings)
}

/// Names of the data files of fragments.
fn data_files(fragments: impl Iterator<Item = Arc<Fragment>>) -> impl Iterator<Item = String> {
    fragments.flat_map(|fragment| fragment.files.iter().map(|file| file.path.clone()).collect::<Vec<_>>())
}
