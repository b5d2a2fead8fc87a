//! Pages of a column as they are stored.

use bytes::Bytes;
use pennon_core::Result;
use pennon_core::file::PageMetadata;

use super::FileReader;

impl FileReader {
    /// The pages of a column, whose buffers [`Self::stored_page`] reads.
    pub(crate) fn pages_of(&self, column: u32) -> &[PageMetadata] {
        let column = usize::try_from(column).ok().and_then(|column| self.metadata.columns.get(column));
        column.map_or(&[], |column| &column.pages)
    }

    /// The buffers of a page as they are stored. Errors: those of the source.
    pub(crate) fn stored_page(&self, page: &PageMetadata) -> Result<Vec<Bytes>> {
        self.source.read(&page.buffers)
    }
}
