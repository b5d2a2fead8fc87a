//! The feature flags of a new version, from its content (table format, section 6).

use crate::manifest::{Flags, Manifest};
use crate::{Error, Result};

/// Sets both words. Flags that cannot be seen in the content are carried over.
///
/// Errors: `Corrupt` if the table has stable row ids and a fragment has none.
pub(super) fn recompute(manifest: &mut Manifest) -> Result<()> {
    let stable = manifest.has_stable_row_ids();
    let (mut deletions, mut lineage_columns, mut overlays, mut mixed) = (false, false, false, false);
    for fragment in manifest.fragments.summaries() {
        if stable && !fragment.has_row_ids {
            return Err(Error::corrupt(format!(
                "fragment {} has no row ids, but the table has stable row ids (feature flag 2)",
                fragment.id
            )));
        }
        deletions |= fragment.has_deletions;
        lineage_columns |= fragment.has_lineage_columns;
        overlays |= fragment.has_overlays;
        mixed |= fragment.versions.differ_from(manifest.file_version);
    }
    let carried = |word: Flags| Flags(word.0 & Flags::STICKY.0);
    let both = Flags::default()
        .set(Flags::DELETION_FILES, deletions)
        .set(Flags::STABLE_ROW_IDS, stable)
        .set(Flags::BASE_PATHS, !manifest.base_paths.is_empty())
        .set(Flags::DATA_OVERLAYS, overlays)
        .set(Flags::MIXED_FILE_VERSIONS, mixed)
        .set(Flags::LINEAGE_COLUMNS, lineage_columns);
    let field_ids = Flags(manifest.writer_flags.0 & Flags::NON_REUSABLE_FIELD_IDS.0);
    manifest.reader_flags = both.with(carried(manifest.reader_flags));
    manifest.writer_flags = both
        .with(carried(manifest.writer_flags))
        .with(field_ids)
        .set(Flags::CONFIG, !manifest.config.is_empty())
        .set(Flags::TRANSACTION_FILE_DISABLED, manifest.transaction_file.is_empty());
    Ok(())
}
