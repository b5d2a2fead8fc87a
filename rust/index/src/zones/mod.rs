//! Zones: runs of rows of a fragment, and what is known of the values of each. Two kinds of index consist of them.
//!
//! | kind | file | columns of a zone |
//! |---|---|---|
//! | zone map | `zonemap.lance` | `min`, `max`: bounds; `null_count` u32, `nan_count` u32; those of both |
//! | Bloom filter | `bloomfilter.lance` | those of both; `has_null`; `bloom_filter_data`: a filter of split blocks |
//! | both | | `fragment_id`, `zone_start`, `zone_length` u64: consecutive physical rows of a fragment |
//!
//! The addresses of rows with null are a [`RowSet`](crate::RowSet) in a global buffer, whose number is in the metadata of
//! the schema as `null_bitmap`; so nulls are answered exactly, and everything else with all rows of the zones that may
//! have some. A zone lies in one fragment, and every row that was live when the index was made is in a zone.
//!
//! | part | file |
//! |---|---|
//! | zones that were opened, whatever is known of them | `stored.rs` |
//! | bounds | `map.rs` |
//! | filters, and the bytes of values that they hash | `bloom.rs`, `hashed.rs` |
//! | what some rows say of their zones | `gather.rs` |
//! | files | `write.rs` |

mod bloom;
mod gather;
mod hashed;
mod map;
mod stored;
#[cfg(test)]
mod tests;
mod write;

pub use bloom::BloomFilterIndex;
pub use gather::{ZoneForm, ZonePart};
pub use hashed::is_hashed;
pub use map::{ZoneMapIndex, zone_map_details};
pub use write::ZoneWriter;

/// Rows of a zone, if nothing else is asked for.
pub const DEFAULT_ZONE_ROWS: u32 = 8192;
/// The share of other values that a Bloom filter takes for its own, if nothing else is asked for.
pub const DEFAULT_PROBABILITY: f64 = 0.00057;

const MAP_FILE: &str = "zonemap.lance";
const BLOOM_FILE: &str = "bloomfilter.lance";
/// Keys of the metadata of the schema.
const NULLS: &str = "null_bitmap";
const MAP_ROWS: &str = "rows_per_zone";
const BLOOM_ROWS: &str = "bloomfilter_item";
const BLOOM_PROBABILITY: &str = "bloomfilter_probability";
