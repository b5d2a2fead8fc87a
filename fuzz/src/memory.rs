//! The allocator of the fuzz targets: what takes more than [`LIMIT`] gets nothing, which stops the run.

use std::alloc::{GlobalAlloc, Layout, System};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Bytes that an input of at most 64 KiB may take, with what libFuzzer does not allocate through Rust.
const LIMIT: usize = 1 << 30;

static TAKEN: AtomicUsize = AtomicUsize::new(0);

struct Limited;

#[global_allocator]
static LIMITED: Limited = Limited;

fn take(bytes: usize) -> bool {
    let before = TAKEN.fetch_add(bytes, Ordering::Relaxed);
    let fits = before.saturating_add(bytes) <= LIMIT;
    if !fits {
        TAKEN.fetch_sub(bytes, Ordering::Relaxed);
    }
    fits
}

// SAFETY: everything is passed on to the allocator of the system; counting takes no memory.
unsafe impl GlobalAlloc for Limited {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller keeps the rules.
        if take(layout.size()) { unsafe { System.alloc(layout) } } else { null_mut() }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as above.
        if take(layout.size()) { unsafe { System.alloc_zeroed(layout) } } else { null_mut() }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        TAKEN.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: as above.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        if !take(size) {
            return null_mut();
        }
        TAKEN.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: as above.
        unsafe { System.realloc(pointer, layout, size) }
    }
}
