//! What the row id index of each table of the benchmarks takes, counted by the allocator.
//!
//! Prints a line per table: bytes held by the index beyond the manifest's own, and the peak while preparing it.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use lance_core::utils::deletion::DeletionVector;
use pennon_peers::{Table, both_deletions, moved_out};

struct Counting;

static HELD: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);

// SAFETY: every call is passed to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let held = HELD.fetch_add(layout.size(), Relaxed) + layout.size();
        PEAK.fetch_max(held, Relaxed);
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        HELD.fetch_sub(layout.size(), Relaxed);
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Bytes held by the value, and the peak while it is made.
fn measure<T>(make: impl FnOnce() -> T) -> (usize, usize) {
    let before = HELD.load(Relaxed);
    PEAK.store(before, Relaxed);
    let value = make();
    let result = (HELD.load(Relaxed) - before, PEAK.load(Relaxed) - before);
    drop(value);
    result
}

fn main() {
    println!("{:<30}{:>16}{:>14}{:>16}{:>14}", "index of", "pennon", "peak", "reference", "peak");
    let tables: [(&str, fn() -> Table); 3] = [
        ("20,000 pristine fragments", Table::pristine),
        ("20,000 compacted fragments", Table::compacted),
        ("1 M moved rows", Table::moved),
    ];
    for (name, table) in tables {
        let table = table();
        let (ours, our_peak) = measure(|| table.index());
        // The reference is given the deletions when it prepares, for rows that have moved.
        let stale: Vec<_> = moved_out(0).iter().map(|offsets| both_deletions(offsets).1).collect();
        let stale = |id: u32| match stale.get(id as usize) {
            Some(vector) if name.contains("moved") => vector.clone(),
            _ => DeletionVector::NoDeletions,
        };
        let (theirs, their_peak) = measure(|| table.reference_index(&stale));
        println!("{name:<30}{ours:>14} B{our_peak:>12} B{theirs:>14} B{their_peak:>12} B");
    }
}
