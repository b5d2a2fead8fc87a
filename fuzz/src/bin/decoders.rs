//! Decoders of files.
#![no_main]

use std::panic::{PanicHookInfo, set_hook, take_hook};
use std::sync::Once;

use libfuzzer_sys::{fuzz_mutator, fuzz_target};
use pennon_fuzz::chosen;
use pennon_fuzz::mutate::mutate;
use pennon_fuzz::targets::DECODERS;

/// Panics of other crates are errors where Pennon guards against them; elsewhere they end the run, as its own do at once.
fn allow_guarded_panics() {
    let abort = take_hook();
    set_hook(Box::new(move |panic: &PanicHookInfo<'_>| {
        let file = panic.location().map_or("", |at| at.file());
        if file.contains("registry") { eprintln!("{panic}") } else { abort(panic) }
    }));
}

fuzz_target!(|data: &[u8]| {
    static ONCE: Once = Once::new();
    ONCE.call_once(allow_guarded_panics);
    (chosen(DECODERS).run)(data);
});

fuzz_mutator!(|data: &mut [u8], size: usize, max_size: usize, seed: u32| {
    mutate(chosen(DECODERS), data, size, max_size, seed)
});
