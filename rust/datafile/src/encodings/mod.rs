//! How values become bytes: one folder per encoding (file format 2 and 4.3), `decode` and `encode` next to each other.

pub(crate) mod bitpack;
pub(crate) mod byte_stream_split;
pub(crate) mod codec;
pub(crate) mod dictionary;
pub(crate) mod fixed_size_list;
pub(crate) mod flat;
pub(crate) mod fsst;
pub(crate) mod general;
pub(crate) mod le;
pub(crate) mod packed_struct;
pub(crate) mod rle;
pub(crate) mod variable;
