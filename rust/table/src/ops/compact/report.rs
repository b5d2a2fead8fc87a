//! What a compaction did, and what a table is like before and after.

use std::iter::Sum;
use std::ops::AddAssign;

use pennon_core::lengths::to_u64;
use pennon_core::manifest::{Fragment, FragmentSummary, Manifest};

/// What was replaced by what. Files are data files and deletion files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CompactionMetrics {
    /// Fragments that went.
    pub fragments_removed: u64,
    /// Fragments that came.
    pub fragments_added: u64,
    /// Their files that went.
    pub files_removed: u64,
    /// Their files that came.
    pub files_added: u64,
}

impl CompactionMetrics {
    pub(super) fn of(old: &[Fragment], new: &[Fragment]) -> Self {
        let files = |fragments: &[Fragment]| fragments.iter().map(files_of).sum();
        Self {
            fragments_removed: to_u64(old.len()),
            fragments_added: to_u64(new.len()),
            files_removed: files(old),
            files_added: files(new),
        }
    }
}

impl Sum for CompactionMetrics {
    fn sum<I: Iterator<Item = Self>>(all: I) -> Self {
        all.fold(Self::default(), |mut total, more| {
            total += more;
            total
        })
    }
}

impl AddAssign for CompactionMetrics {
    fn add_assign(&mut self, more: Self) {
        self.fragments_removed += more.fragments_removed;
        self.fragments_added += more.fragments_added;
        self.files_removed += more.files_removed;
        self.files_added += more.files_added;
    }
}

/// What a version of a table consists of.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct TableState {
    /// Live rows.
    pub rows: u64,
    /// Fragments.
    pub fragments: u64,
    /// Data files and deletion files.
    pub files: u64,
    /// Deleted rows among all that are in the files, 0 to 1.
    pub deleted_share: f64,
    /// Bits that the manifest has for the ids of a row in the files, on average.
    pub id_bits_per_row: f64,
    /// Bits that the manifest has for the two versions of a row in the files, on average.
    pub version_bits_per_row: f64,
}

impl TableState {
    /// The state of a version; lineage that is in data files does not count.
    pub fn of(manifest: &Manifest) -> Self {
        let total = |amount: &dyn Fn(&FragmentSummary) -> u64| -> u64 {
            manifest.fragments.summaries().map(amount).sum()
        };
        let rows = manifest.physical_rows();
        let per_row = |amount: u64| share(amount) / share(rows.max(1));
        Self {
            rows: manifest.live_rows(),
            fragments: to_u64(manifest.fragments.len()),
            files: total(&|f| u64::from(f.data_files) + u64::from(f.has_deletions)),
            deleted_share: per_row(total(&|f| f.deleted_rows)),
            id_bits_per_row: 8.0 * per_row(total(&|f| f.row_id_bytes.into())),
            version_bits_per_row: 8.0 * per_row(total(&|f| f.version_bytes.into())),
        }
    }
}

fn files_of(fragment: &Fragment) -> u64 {
    to_u64(fragment.files.len()) + u64::from(fragment.deletion.is_some())
}

/// As a number to divide; beyond 2^53 it is not exact, which a report of bytes per second does not need.
fn share(number: u64) -> f64 {
    number as f64
}
