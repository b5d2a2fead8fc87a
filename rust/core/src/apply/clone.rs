//! Clone: a table or branch that starts as a version of another one (table format 11.4).
//!
//! A shallow clone refers to the files where they are: the other table is a root of its own, named after the branch
//! that was copied. A deep clone has copies of them in its own folders.

use super::ApplyContext;
use crate::manifest::{BasePath, IndexMetadata, Manifest};
use crate::transaction::Clone as CloneTable;
use crate::{Error, Result};

pub(super) fn create(
    clone: &CloneTable,
    context: &ApplyContext<'_>,
) -> Result<(Manifest, Vec<IndexMetadata>)> {
    let Some((source, indices)) = context.restored else {
        return Err(Error::internal("Clone without the version to copy"));
    };
    if source.version != clone.ref_version {
        return Err(Error::internal(format!(
            "Clone of version {} was given version {}",
            clone.ref_version, source.version
        )));
    }
    let mut next = Manifest { branch: clone.branch_name.clone(), ..source.clone() };
    if !clone.is_shallow {
        next.base_paths.clear();
        relocate(&mut next, |base| *base = None);
        let indices = indices.iter().map(IndexMetadata::without_base).collect::<Result<_>>()?;
        return Ok((next, indices));
    }
    let max = next.base_paths.iter().map(|base| base.id).max();
    let id = max.map_or(Some(0), |max| max.checked_add(1));
    let id = id.ok_or_else(|| Error::unsupported("all base ids are used up"))?;
    let path = clone.ref_path.clone();
    next.base_paths.push(BasePath { id, name: source.branch.clone(), is_dataset_root: true, path });
    relocate(&mut next, |base| {
        base.get_or_insert(id);
    });
    let indices = indices.iter().map(|index| index.with_base(id)).collect::<Result<_>>()?;
    Ok((next, indices))
}

fn relocate(next: &mut Manifest, change: impl Fn(&mut Option<u32>)) {
    next.fragments.change_all(|fragment| {
        let mut edited = fragment.edit();
        edited.files.iter_mut().for_each(|file| change(&mut file.base_id));
        if let Some(deletion) = &mut edited.deletion {
            change(&mut deletion.base_id);
        }
        Some(edited)
    });
}
