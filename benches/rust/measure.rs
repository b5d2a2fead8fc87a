//! Two actions that take turns, and the medians of their times.

use std::hint::black_box;
use std::time::{Duration, Instant};

/// Times of each side.
const SAMPLES: usize = 15;
/// The least time of a measurement.
const SAMPLE: Duration = Duration::from_millis(2);

/// Measures an action, and a copy of as many bytes as its output; `count` is the number of values or bytes.
#[allow(dead_code, reason = "not every benchmark has an output to copy")]
pub fn compare_with_copy<R>(claim: &str, count: usize, unit: &str, size: usize, action: impl FnMut() -> R) {
    let (from, mut to) = (vec![1u8; size], vec![0u8; size]);
    compare(claim, count, unit, action, || black_box(&mut to).copy_from_slice(black_box(&from)));
}

/// Measures an action and another one; `count` is the number of values or bytes of a run of the first one.
pub fn compare<R, S>(
    claim: &str,
    count: usize,
    unit: &str,
    mut action: impl FnMut() -> R,
    mut other: impl FnMut() -> S,
) {
    if std::env::args().skip(1).any(|wanted| !wanted.starts_with('-') && !claim.contains(&wanted)) {
        return;
    }
    let mut ours = || {
        black_box(action());
    };
    let mut other = || {
        black_box(other());
    };
    let (repeat_ours, repeat_other) = (repeats(&mut ours), repeats(&mut other));
    let (mut times, mut others): (Vec<f64>, Vec<f64>) = (0..SAMPLES)
        .map(|_| (nanoseconds(&mut ours, repeat_ours), nanoseconds(&mut other, repeat_other)))
        .unzip();
    let (time, other) = (median(&mut times), median(&mut others));
    let rate = count as f64 / time;
    println!("{claim:<44}{:>12}{:>12}{:>8.2}  {rate:.2} {unit}", shown(time), shown(other), time / other);
}

/// How often an action must be repeated to fill a sample.
fn repeats(action: &mut impl FnMut()) -> u32 {
    let mut repeats = 1;
    while nanoseconds(action, repeats) * f64::from(repeats) < SAMPLE.as_secs_f64() * 1e9 {
        repeats *= 2;
    }
    repeats
}

#[expect(clippy::disallowed_methods, reason = "a benchmark takes times")]
fn nanoseconds(action: &mut impl FnMut(), repeats: u32) -> f64 {
    let start = Instant::now();
    (0..repeats).for_each(|_| action());
    start.elapsed().as_secs_f64() * 1e9 / f64::from(repeats)
}

fn median(times: &mut [f64]) -> f64 {
    times.sort_by(f64::total_cmp);
    times.get(times.len() / 2).copied().unwrap_or_default()
}

fn shown(nanoseconds: f64) -> String {
    if nanoseconds < 1e3 {
        return format!("{nanoseconds:.0} ns");
    }
    if nanoseconds < 1e6 {
        format!("{:.1} µs", nanoseconds / 1e3)
    } else {
        format!("{:.2} ms", nanoseconds / 1e6)
    }
}
