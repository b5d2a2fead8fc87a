//! How many partitions of an index a query looks into.

/// Partitions that a query looks into; those whose centroids are nearest to it, the nearest first.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Probes {
    /// At least so many.
    pub minimum: Option<usize>,
    /// At most so many, however few rows they have.
    pub maximum: Option<usize>,
    /// Instead of both: 0 is one partition, 0.5 what is searched without any of these, 1 all partitions.
    pub effort: Option<f64>,
}

/// What [`Probes`] mean for an index.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ProbeRange {
    /// Partitions that are searched at first.
    pub(super) first: usize,
    /// Partitions that are searched until enough rows are found.
    pub(super) most: usize,
}

impl Probes {
    /// What is searched of an index with so many partitions for so many rows.
    pub(super) fn range(&self, k: usize, partitions: usize) -> ProbeRange {
        let usual = usual(k, partitions);
        if let Some(effort) = self.effort {
            let probes = rounded(between(usual, partitions, effort)).clamp(1, partitions.max(1));
            return ProbeRange { first: probes, most: probes };
        }
        let most = self.maximum.map_or(partitions, |most| most.clamp(1, partitions.max(1)));
        let first = self.minimum.unwrap_or(usual).clamp(1, most.max(1));
        ProbeRange { first, most }
    }
}

/// Partitions that are searched if nothing is said: more where there are more, and for more rows.
#[expect(clippy::cast_precision_loss, reason = "numbers of partitions are small")]
fn usual(k: usize, partitions: usize) -> usize {
    let probes = 1.0 + (k as f64).sqrt() + (partitions as f64).sqrt() / 2.0;
    rounded(probes).clamp(1, partitions.max(1))
}

/// The number of partitions for an effort: equal steps of it multiply the number by the same factor.
#[expect(clippy::cast_precision_loss, reason = "numbers of partitions are small")]
fn between(usual: usize, partitions: usize, effort: f64) -> f64 {
    let (usual, all) = (usual as f64, partitions.max(1) as f64);
    match effort.clamp(0.0, 1.0) * 2.0 {
        half if half <= 1.0 => usual.powf(half),
        half => usual * (all / usual).powf(half - 1.0),
    }
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a cast of a float saturates")]
fn rounded(probes: f64) -> usize {
    probes.ceil() as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(minimum: Option<usize>, maximum: Option<usize>, effort: Option<f64>) -> (usize, usize) {
        let found = Probes { minimum, maximum, effort }.range(10, 256);
        (found.first, found.most)
    }

    #[test]
    fn what_is_said_counts() {
        assert_eq!(range(Some(20), Some(20), None), (20, 20));
        assert_eq!(range(Some(20), None, None), (20, 256));
        assert_eq!(range(None, Some(3), None), (3, 3));
        assert_eq!(range(Some(0), Some(0), None), (1, 1));
        assert_eq!(range(Some(1000), Some(1000), None), (256, 256));
    }

    #[test]
    fn more_for_more_partitions_and_more_rows() {
        assert_eq!(range(None, None, None), (13, 256));
        assert!(usual(10, 4096) > usual(10, 256));
        assert!(usual(1000, 256) > usual(10, 256));
        assert_eq!(usual(1000, 4), 4);
        assert_eq!(usual(1, 0), 1);
    }

    #[test]
    fn effort_lies_between_one_partition_and_all() {
        assert_eq!(range(None, None, Some(0.0)), (1, 1));
        assert_eq!(range(None, None, Some(0.5)), (13, 13));
        assert_eq!(range(None, None, Some(1.0)), (256, 256));
        let growing: Vec<usize> =
            (0_u8..=20).map(|step| range(None, None, Some(f64::from(step) / 20.0)).0).collect();
        assert!(growing.is_sorted());
    }
}
