//! Indices of Lance tables: their files, and how they answer.
//!
//! Synchronous and without I/O of its own, as `pennon_datafile`, whose files indices consist of. It knows values and sets
//! of rows, no tables: which rows are live, which fragments an index covers and whether its numbers are stable row ids or
//! row addresses is up to the caller.
//!
//! | part | module |
//! |---|---|
//! | what is asked of a value, and what bounds say of it | `value_test`, `may_hold` |
//! | what an index answers | `answer` |
//! | sets of row ids or row addresses | `row_set` |
//! | kinds of index, and which versions of them are understood | `kind` |
//! | values of arrays in the order of the format | `values` |
//! | tests as intervals of values | `intervals` |
//! | values sorted and merged, by numbers in their order | `sort`, `sort_keys` |
//! | sorted pages of values with their rows | `btree` |
//! | a set of rows for each value | `bitmap` |
//! | a set of rows for each item of lists | `label_list` |
//! | bounds and Bloom filters of runs of rows | `zones` |
//! | a set of rows for each three letters | `ngram` |
//! | all kinds in one place | `scalar` |
//! | distances of vectors, the nearest of them, and indices over vectors | `vector` |

mod answer;
mod bitmap;
mod btree;
mod files;
mod intervals;
mod kind;
mod label_list;
mod may_hold;
mod ngram;
mod row_set;
mod scalar;
mod sort;
mod sort_keys;
mod value_test;
mod values;
mod vector;
mod zones;

pub use answer::{Answer, Precision};
pub use bitmap::{BitmapIndex, BitmapWriter};
pub use btree::{BTreeIndex, BTreePage, BTreeWriter, DEFAULT_PAGE_ROWS, PageRun, RowSink};
pub use files::{IndexFiles, NoPageCache, PageCache, WrittenFile};
pub use kind::IndexKind;
pub use label_list::{LabelListIndex, LabelListWriter, items_of};
pub use ngram::{NGramIndex, NGramWriter};
pub use row_set::RowSet;
pub use scalar::ScalarIndex;
pub use sort::{SortedPieces, SortedRun, merge_pieces, merge_runs};
pub use value_test::ValueTest;
pub use values::{distinct_values, is_ordered};
pub use vector::{
    BuildOptions, ClusterOptions, DistanceRange, GraphOptions, IndexQuery, Inherited, Metric, Neighbor,
    Neighbors, RowMask, SpillFile, VectorIndex, VectorIndexBuilder, VectorIndexKind, VectorModel,
    VectorPartition, VectorQuery, VectorStorage, metric_of_files, train_bounds, train_centroids,
    train_codebook,
};
pub use zones::{
    BloomFilterIndex, DEFAULT_PROBABILITY, DEFAULT_ZONE_ROWS, ZoneForm, ZoneMapIndex, ZonePart, ZoneWriter,
    is_hashed, zone_map_details,
};
