//! The envelope of a data file: footer, tables, schema and column metadata (file format 1).
//!
//! | region | content |
//! |---|---|
//! | data buffers | pages, each buffer at a multiple of 64 |
//! | global buffer 0 | the file descriptor: schema and number of rows |
//! | column metadata | one block per column |
//! | column table, global buffer table | position and size of each |
//! | record of checksums | of files of this library: 48 bytes (`checksums.rs`) |
//! | footer | 40 bytes |

pub(crate) mod checksums;
mod column_map;
mod end;
mod metadata;
mod open;
mod page_rows;
pub(crate) mod writer;

pub use checksums::DamagedBlock;
pub(crate) use column_map::is_blob;
pub use column_map::{ColumnMap, fields_with_column, has_one_column, is_packed};
pub(crate) use end::End;
pub use end::TAIL;
pub use metadata::FileMetadata;
pub(crate) use page_rows::{PageRows, rows_by_page, starts};
