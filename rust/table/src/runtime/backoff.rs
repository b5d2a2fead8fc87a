//! How long to wait after losing a race (table format 8.1): that of a commit, or of a verb that is done again.
//!
//! Waiting times are random multiples of what the last attempt took, so that the writers of a fast store wait milliseconds
//! and those of a slow one seconds. Catching up with many versions does not count: who waits longer for that finds more of
//! them.
//!
//! Few multiples come first. Each lost race is a version that somebody else published, so that contending writers make
//! progress however briefly they wait; but a commit that takes longer than its rivals', such as a compaction, has to try
//! often, and with long waits it would find a hundred more of their versions after each. The last ones of the twenty
//! attempts that a commit has by default wait longer: who lost so many races is one of a crowd, and has to wait until
//! it disperses.

use std::time::Duration;

use super::random_below;

/// A crowd that takes milliseconds has dispersed after this: whoever is left does not wait for nobody.
const LONG_ENOUGH: Duration = Duration::from_secs(5);

/// Waiting times of one commit or verb.
#[derive(Debug, Default)]
pub(crate) struct Backoff {
    lost: u32,
}

impl Backoff {
    /// The wait after an attempt that took that long since it looked for the newest version. The busier the machine or the
    /// store, the longer both are.
    pub(crate) fn next(&mut self, took: Duration) -> Duration {
        let multiples = match self.lost {
            0 => 4,
            1 => 8,
            2..14 => 16,
            _ => 128,
        };
        self.lost = self.lost.saturating_add(1);
        (took.mul_f64(1.1) * random_below(multiples)).min(LONG_ENOUGH.max(took * 16))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::Backoff;

    /// The longest of many waits after so many lost races, the last of which took so many milliseconds.
    fn longest(lost: u32, took: u64) -> Duration {
        let wait = || {
            let mut backoff = Backoff::default();
            for _ in 0..lost {
                backoff.next(Duration::from_secs(10));
            }
            backoff.next(Duration::from_millis(took))
        };
        std::iter::repeat_with(wait).take(5_000).max().unwrap_or_default()
    }

    #[test]
    fn waits_are_short_until_many_races_are_lost() {
        let milliseconds = [0, 1, 2, 13, 14, 40].map(|lost| longest(lost, 10).as_millis());
        assert_eq!(milliseconds, [33, 77, 165, 165, 1_397, 1_397]);
    }

    #[test]
    fn waits_of_many_lost_races_end() {
        assert_eq!([100, 200, 1_000].map(|took| longest(14, took).as_millis()), [5_000, 5_000, 16_000]);
    }
}
