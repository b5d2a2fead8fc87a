//! Decoders of files.
#![no_main]

use libfuzzer_sys::{fuzz_mutator, fuzz_target};
use pennon_fuzz::chosen;
use pennon_fuzz::mutate::mutate;
use pennon_fuzz::targets::DECODERS;

fuzz_target!(|data: &[u8]| (chosen(DECODERS).run)(data));

fuzz_mutator!(|data: &mut [u8], size: usize, max_size: usize, seed: u32| {
    mutate(chosen(DECODERS), data, size, max_size, seed)
});
