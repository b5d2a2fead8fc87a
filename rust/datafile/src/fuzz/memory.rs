//! Memory that a thread has allocated, counted by the allocator of the test program.
#![expect(unsafe_code, reason = "an allocator is an unsafe trait")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

thread_local! {
    /// Bytes now, and at most since the start.
    static TAKEN: Cell<(usize, usize)> = const { Cell::new((0, 0)) };
}

struct Counting;

#[global_allocator]
static COUNTING: Counting = Counting;

// SAFETY: everything is passed on to the allocator of the system; counting takes no memory.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size(), 0);
        // SAFETY: the caller keeps the rules.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        count(0, layout.size());
        // SAFETY: as above.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count(size, layout.size());
        // SAFETY: as above.
        unsafe { System.realloc(pointer, layout, size) }
    }
}

fn count(allocated: usize, freed: usize) {
    let _ = TAKEN.try_with(|taken| {
        let (now, peak) = taken.get();
        let now = now.saturating_add(allocated).saturating_sub(freed);
        taken.set((now, peak.max(now)));
    });
}

/// Counts from here on.
pub(super) fn start() {
    TAKEN.set((0, 0));
}

/// Most bytes at a time since the start.
pub(super) fn peak() -> usize {
    TAKEN.get().1
}

#[test]
fn what_is_taken_is_counted() {
    start();
    drop(vec![0u8; 100_000]);
    let kept = vec![0u8; 30_000];
    assert!((100_000..110_000).contains(&peak()), "{}", peak());
    drop(kept);
}
