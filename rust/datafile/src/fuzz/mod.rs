//! Damaged input, made from good input by a repeatable source of randomness: no panic, no hang, no memory beyond what
//! the input's size explains.
//!
//! The ordinary tests run a few rounds. `FUZZ_SECONDS=1200 cargo test --release -p pennon-datafile fuzz -- --ignored`
//! runs for that long, from another seed each time; a failure names the seed of the input, and `FUZZ_SEED` with
//! that number repeats it.

mod codecs;
mod deletions;
mod files;
mod memory;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Memory that any input may take.
const FREE_MEMORY: usize = 64 << 20;
/// Memory for each byte of the input.
const PER_BYTE: usize = 64;
/// The most time of one input, even on a slow machine.
const LONGEST: Duration = Duration::from_secs(20);

/// xorshift: small, and the same everywhere.
struct Random(u64);

impl Random {
    fn new(seed: u64) -> Self {
        let mut random = Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
        random.next();
        random
    }

    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 11
    }

    fn below(&mut self, end: usize) -> usize {
        usize::try_from(self.next()).unwrap() % end.max(1)
    }

    fn pick<'a, T>(&mut self, all: &'a [T]) -> &'a T {
        &all[self.below(all.len())]
    }

    /// Numbers at which counts and offsets fail.
    fn extreme(&mut self) -> u64 {
        let bits = self.below(65);
        let power = if bits == 64 { 0 } else { 1u64 << bits };
        match self.below(4) {
            0 => power,
            1 => power.wrapping_sub(1),
            2 => power.wrapping_add(1),
            _ => self.next() & power.wrapping_sub(1),
        }
    }

    /// Damages bytes at one to four positions from `start` on.
    fn damage(&mut self, bytes: &mut Vec<u8>, start: usize) {
        for _ in 0..1 + self.below(4) {
            let len = bytes.len();
            if len <= start {
                return;
            }
            let at = start + self.below(len - start);
            match self.below(8) {
                0 => bytes.truncate(at),
                1 | 2 => bytes[at] ^= 1 << self.below(8),
                3 => bytes[at] = u8::try_from(self.below(256)).unwrap(),
                4 => {
                    let end = (at + 1 + self.below(16)).min(len);
                    bytes[at..end].fill(if self.below(2) == 0 { 0 } else { 0xff });
                }
                5 => {
                    let from = start + self.below(len - start);
                    let count = self.below(16).min(len - at).min(len - from);
                    bytes.copy_within(from..from + count, at);
                }
                _ => {
                    let width = *self.pick(&[1, 2, 4, 8]).min(&(len - at));
                    let value = self.extreme().to_le_bytes();
                    bytes[at..at + width].copy_from_slice(&value[..width]);
                }
            }
        }
    }
}

/// Runs inputs one after another: `rounds` of them, or as many as the time of `FUZZ_SECONDS` allows.
#[expect(clippy::disallowed_methods, reason = "fuzzing is bounded by time")]
fn run(rounds: Option<u64>, input: impl Fn(&mut Random) -> usize) {
    let number = |name: &str| std::env::var(name).ok().and_then(|v| v.parse::<u64>().ok());
    let since_epoch = || SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs() << 24;
    let (first, rounds) = match (number("FUZZ_SEED"), rounds) {
        (Some(seed), _) => (seed, 1),
        (None, Some(rounds)) => (1, rounds),
        (None, None) => (since_epoch(), u64::MAX),
    };
    let seconds = Duration::from_secs(number("FUZZ_SECONDS").unwrap_or(60));
    let begin = Instant::now();
    for seed in (first..).take(usize::try_from(rounds).unwrap_or(usize::MAX)) {
        let start = Instant::now();
        memory::start();
        let size = catch_unwind(AssertUnwindSafe(|| input(&mut Random::new(seed))));
        let peak = memory::peak();
        let Ok(size) = size else { panic!("FUZZ_SEED={seed} panics") };
        let limit = FREE_MEMORY + PER_BYTE * size;
        assert!(
            peak <= limit,
            "FUZZ_SEED={seed} takes {peak} bytes for an input of {size}, allowed are {limit}"
        );
        assert!(start.elapsed() < LONGEST, "FUZZ_SEED={seed} takes {:?}", start.elapsed());
        if rounds == u64::MAX && begin.elapsed() > seconds {
            println!("{} inputs", seed - first + 1);
            break;
        }
    }
}
