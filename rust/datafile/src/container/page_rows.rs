//! Rows of a column by page.

use pennon_core::rows::RowRanges;
use pennon_core::{Error, Result};

/// Rows of one page, relative to it.
#[derive(Debug)]
pub(crate) struct PageRows {
    /// Index of the page.
    pub page: usize,
    /// The rows.
    pub rows: RowRanges,
}

/// What is before each page, and in all of them. Errors: `Corrupt` for more than can be counted.
pub(crate) fn starts(counts: impl Iterator<Item = u64>) -> Result<Vec<u64>> {
    let mut starts = vec![0_u64];
    let mut total = 0_u64;
    for count in counts {
        let more = || Error::corrupt("pages have more rows than can be counted");
        total = total.checked_add(count).ok_or_else(more)?;
        starts.push(total);
    }
    Ok(starts)
}

/// The rows by page. `starts` are the first row of each page and the number of rows.
pub(crate) fn rows_by_page(starts: &[u64], rows: &RowRanges) -> Vec<PageRows> {
    let mut pages: Vec<PageRows> = Vec::new();
    for range in rows {
        let mut start = range.start;
        let mut page = starts.partition_point(|&s| s <= start).saturating_sub(1);
        while start < range.end {
            let (Some(&first), Some(&next)) = (starts.get(page), starts.get(page + 1)) else {
                break;
            };
            let end = range.end.min(next);
            if start < end {
                let part = start - first..end - first;
                match pages.last_mut() {
                    Some(last) if last.page == page => last.rows.insert(part),
                    _ => pages.push(PageRows { page, rows: RowRanges::from(part) }),
                }
                start = end;
            }
            page += 1;
        }
    }
    pages
}
