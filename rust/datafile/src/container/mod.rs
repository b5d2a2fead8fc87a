//! The envelope of a data file: footer, tables, schema and column metadata (file format 1).
//!
//! | region | content |
//! |---|---|
//! | data buffers | pages, each buffer at a multiple of 64 |
//! | global buffer 0 | the file descriptor: schema and number of rows |
//! | column metadata | one block per column |
//! | column table, global buffer table | position and size of each |
//! | footer | 40 bytes |

mod column_map;
mod metadata;
mod page_rows;
pub(crate) mod writer;

pub(crate) use column_map::is_blob;
pub use column_map::{ColumnMap, fields_with_column, is_packed};
pub(crate) use metadata::End;
pub use metadata::{FileMetadata, TAIL};
pub(crate) use page_rows::{PageRows, rows_by_page};
