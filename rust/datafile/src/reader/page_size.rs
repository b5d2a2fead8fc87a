//! How large pages are, in the file and in memory.

use std::ops::Range;

use arrow_schema::DataType;
use pennon_core::file::{CompressiveEncoding, FullZipLayout, PageLayout, PageMetadata};

/// Where the bytes of a page are; empty for blobs, whose values are elsewhere.
pub(super) fn buffers(page: &PageMetadata) -> &[Range<u64>] {
    match page.layout {
        PageLayout::Blob { .. } => &[],
        _ => &page.buffers,
    }
}

/// Bytes of a page; the maximum for blobs, so that no row of them is decoded and dropped.
pub(super) fn page_bytes(page: &PageMetadata) -> u64 {
    match page.layout {
        PageLayout::Blob { .. } => u64::MAX,
        _ => page.buffers.iter().map(|b| b.end.saturating_sub(b.start)).fold(0, u64::saturating_add),
    }
}

/// Bytes of values after which writers, this one and the reference, complete a page.
const FULL_PAGE: u64 = 8 << 20;

/// Bytes of a byte of chunks that are compressed, about.
const COMPRESSED: u64 = 4;

/// Bytes of some rows of a page in memory, about.
pub(super) fn estimate(page: &PageMetadata, data_type: &DataType, rows: u64) -> u64 {
    let general = |values: &CompressiveEncoding| matches!(values, CompressiveEncoding::General(_));
    let len = |buffer: &Range<u64>| buffer.end.saturating_sub(buffer.start);
    let in_file = page.buffers.iter().map(len).fold(0, u64::saturating_add);
    let all = match &page.layout {
        // How much it is was not recorded.
        PageLayout::FullZip(FullZipLayout { values, .. }) if general(values) => in_file.max(FULL_PAGE),
        PageLayout::MiniBlock(layout) => match &layout.dictionary {
            Some((_, items)) if !matches!(data_type, DataType::Dictionary(..)) => {
                let item = page.buffers.get(2).map_or(0, len) / (*items).max(1);
                in_file.saturating_add(item.saturating_mul(page.num_rows))
            }
            None if general(&layout.values) => in_file.saturating_mul(COMPRESSED),
            _ => in_file,
        },
        PageLayout::Constant(layout) => {
            let (value, rep_bytes) = match (&layout.inline_value, page.buffers.as_slice()) {
                (Some(value), [rep, _]) => (value.len() as u64, len(rep)),
                (Some(value), _) => (value.len() as u64, 0),
                (None, [value]) => (len(value), 0),
                (None, [value, rep, _]) => (len(value), len(rep)),
                (None, _) => (0, 0),
            };
            let items = layout.rep.as_ref().map_or(rep_bytes / 2, |(_, items)| *items);
            value.saturating_mul(items.max(page.num_rows)).saturating_add(in_file)
        }
        _ => in_file,
    };
    let share = u128::from(all) * u128::from(rows) / u128::from(page.num_rows.max(1));
    u64::try_from(share).unwrap_or(u64::MAX)
}
