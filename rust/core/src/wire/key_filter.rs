//! `KeyExistenceFilter` <-> [`KeyFilter`] (table format 8.4).

use bytes::Bytes;
use prost::Message;

use super::table::key_existence_filter::Data as Keys;
use super::{decode_message, table};
use crate::transaction::{BloomFilter, KeyFilter, KeySet};
use crate::{FieldId, Result};

impl KeyFilter {
    /// Decodes a filter that stands alone. Errors: `Corrupt` if the bytes are none.
    pub fn decode(bytes: Bytes) -> Result<Self> {
        decode_message("key filter", bytes).map(decode)
    }

    /// Encodes the filter; the inverse of [`Self::decode`].
    pub fn encode(&self) -> Vec<u8> {
        encode(self).encode_to_vec()
    }
}

pub(super) fn decode(filter: table::KeyExistenceFilter) -> KeyFilter {
    let keys = filter.data.map(|keys| match keys {
        Keys::Exact(keys) => KeySet::Exact(keys.key_hashes.into_iter().collect()),
        Keys::Bloom(bloom) => KeySet::Bloom(BloomFilter {
            bitmap: bloom.bitmap.into(),
            items: bloom.number_of_items,
            probability: bloom.probability,
        }),
    });
    KeyFilter { fields: filter.field_ids.into_iter().map(FieldId).collect(), keys }
}

pub(super) fn encode(filter: &KeyFilter) -> table::KeyExistenceFilter {
    let data = filter.keys.as_ref().map(|keys| match keys {
        KeySet::Exact(keys) => {
            Keys::Exact(table::ExactKeySetFilter { key_hashes: keys.iter().copied().collect() })
        }
        KeySet::Bloom(bloom) => Keys::Bloom(table::BloomFilter {
            bitmap: bloom.bitmap.clone().into(),
            num_bits: u32::try_from(bloom.bitmap.len().saturating_mul(8)).unwrap_or(u32::MAX),
            number_of_items: bloom.items,
            probability: bloom.probability,
        }),
    });
    table::KeyExistenceFilter { field_ids: filter.fields.iter().map(|id| id.0).collect(), data }
}
