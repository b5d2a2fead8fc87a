//! Overwrite: other rows and another schema, in a table that may have to be created.
//!
//! Fragment ids and row ids continue, config is kept, indices are removed.

use super::{ApplyContext, fragments};
use crate::file::FileVersion;
use crate::manifest::{CarriedFields, Flags, Fragment, Fragments, Manifest, Timestamp};
use crate::schema::Metadata;
use crate::transaction::Overwrite;
use crate::{Error, FragmentId, Result, Version};

pub(super) fn create(overwrite: &Overwrite, context: &ApplyContext<'_>) -> Result<Manifest> {
    fragments::check_newly_written(&overwrite.fragments)?;
    let stable = context.enable_stable_row_ids;
    let flags = if stable { Flags::STABLE_ROW_IDS } else { Flags::default() };
    let mut next = Manifest {
        version: Version(1),
        schema: fragments::checked(&overwrite.schema)?,
        fragments: Fragments::default(),
        timestamp: Timestamp::default(),
        reader_flags: flags,
        writer_flags: flags,
        max_fragment_id: None,
        transaction_file: String::new(),
        writer: None,
        next_row_id: 0,
        file_version: stated_version(overwrite, context).unwrap_or(FileVersion::STABLE),
        config: overwrite.config_upserts.clone().unwrap_or_default(),
        table_metadata: Metadata::new(),
        base_paths: Vec::new(),
        branch: None,
        index_section: None,
        transaction_section: None,
        carried: CarriedFields::default(),
    };
    super::update_bases::add(&overwrite.initial_bases, &mut next.base_paths)?;
    fragments::add(&mut next, &overwrite.fragments)?;
    Ok(next)
}

pub(super) fn apply(overwrite: &Overwrite, next: &mut Manifest, context: &ApplyContext<'_>) -> Result<()> {
    if !overwrite.initial_bases.is_empty() {
        return Err(Error::invalid_input("base paths can only be given when the table is created"));
    }
    fragments::check_newly_written(&overwrite.fragments)?;
    next.schema = fragments::checked(&overwrite.schema)?;
    next.fragments.clear();
    next.file_version = stated_version(overwrite, context).unwrap_or(next.file_version);
    next.config.extend(overwrite.config_upserts.clone().unwrap_or_default());
    // In the order in which they are given, whichever ids they had before.
    let unnumbered = |fragment: &Fragment| Fragment { id: FragmentId(0), ..fragment.edit() };
    fragments::add(next, &overwrite.fragments.iter().map(unnumbered).collect::<Vec<_>>())
}

/// What the writer says, else what it wrote.
fn stated_version(overwrite: &Overwrite, context: &ApplyContext<'_>) -> Option<FileVersion> {
    let mut files = overwrite.fragments.iter().flat_map(|f| &f.files);
    context.file_version.or_else(|| files.next().map(|f| f.version))
}
