//! The allocator of the module.
//!
//! Many threads make and drop buffers of all sizes. In a loop of 200 commits and takes on one handle the C library's
//! arenas grew by 68 MB, these by 12 MB. What it costs scans in a process that has done much before is in
//! `benches/README.md`.

use std::sync::Once;

use libmimalloc_sys::{mi_option_set, mi_option_t};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// `mi_option_purge_delay` of `mimalloc.h`, versions 2 and 3.
const PURGE_DELAY: mi_option_t = 15;
/// `mi_option_allow_thp` of `mimalloc.h`, version 3.
const HUGE_PAGES: mi_option_t = 43;
/// Milliseconds for which freed memory is kept. The default of 10 gives back the buffers of a scan between two batches
/// and has them zeroed again: a scan of 5 M rows took up to half as long again. With 1,000 a merge of 1 M rows that takes
/// 750 keeps all it ever had: its peak was 231 to 249 MB instead of 210 to 229.
const KEEP: i64 = 300;

/// Sets the allocator up, once. Memory that was allocated before stays valid.
pub(crate) fn set_up() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // SAFETY: the options exist and take any number; they may be set at any time.
        #[expect(unsafe_code, reason = "the crate offers no other way")]
        unsafe {
            mi_option_set(PURGE_DELAY, KEEP);
            // Set at start of the process it would hold for all of it; now it holds for what is reserved from here on.
            mi_option_set(HUGE_PAGES, 0);
        }
    });
}
