//! What a data file says about itself: footer, columns, pages and their encodings (file format, sections 1 to 4).

mod array_encoding;
mod compression;
mod display;
pub mod encoding;
mod footer;
mod legacy;
mod version;

pub use array_encoding::{ArrayEncoding, BinaryArray, FlatArray};
pub use compression::CompressionScheme;
pub use encoding::{
    ColumnMetadata, CompressiveEncoding, ConstantLayout, FullZipLayout, FullZipWidth, General, Layer,
    MiniBlockLayout, PackedMember, PageLayout, PageMetadata,
};
pub use footer::Footer;
pub use legacy::{LegacyFooter, LegacyMetadata, LegacySchema};
pub use version::FileVersion;

use crate::schema::Schema;

/// Global buffer 0 of a data file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileDescriptor {
    /// Schema of the file; inside a table the field ids are the table's.
    pub schema: Schema,
    /// Rows in the file.
    pub num_rows: u64,
}
