//! Roaring bitmaps as files and messages have them.

use std::io;

use roaring::{RoaringBitmap, RoaringTreemap};

use crate::{Error, Result};

/// The bitmap that bytes are, all of them.
///
/// ```
/// use pennon_core::bitmaps::{decode_bitmap, encode_bitmap};
///
/// let mut bytes = encode_bitmap(&[3, 9].into());
/// assert_eq!(decode_bitmap(&bytes)?, [3, 9].into());
/// bytes.push(0);
/// assert!(decode_bitmap(&bytes).is_err());
/// # Ok::<(), pennon_core::Error>(())
/// ```
///
/// Errors: `Corrupt`, also for bytes after the bitmap.
pub fn decode_bitmap(bytes: &[u8]) -> Result<RoaringBitmap> {
    decode_all(bytes, |rest| RoaringBitmap::deserialize_from(rest))
}

/// The bytes of a bitmap, as [`decode_bitmap`] reads them.
pub fn encode_bitmap(bitmap: &RoaringBitmap) -> Vec<u8> {
    encode(bitmap.serialized_size(), |bytes| bitmap.serialize_into(bytes))
}

/// The bytes of a bitmap of 64-bit numbers, as [`decode_treemap`] reads them.
pub fn encode_treemap(bitmap: &RoaringTreemap) -> Vec<u8> {
    encode(bitmap.serialized_size(), |bytes| bitmap.serialize_into(bytes))
}

fn encode(size: usize, write: impl FnOnce(&mut Vec<u8>) -> io::Result<()>) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(size);
    #[expect(clippy::expect_used, reason = "a vector takes all bytes")]
    write(&mut bytes).expect("a vector takes all bytes");
    bytes
}

/// As [`decode_bitmap`], of 64-bit numbers.
pub fn decode_treemap(bytes: &[u8]) -> Result<RoaringTreemap> {
    decode_all(bytes, |rest| RoaringTreemap::deserialize_from(rest))
}

fn decode_all<T>(bytes: &[u8], decode: impl FnOnce(&mut &[u8]) -> io::Result<T>) -> Result<T> {
    let mut rest = bytes;
    let decoded = decode(&mut rest);
    let (at, all) = (bytes.len() - rest.len(), bytes.len());
    match decoded {
        Err(e) => {
            Err(Error::corrupt(format!("roaring bitmap of {all} bytes, near byte {at}: {e}")).with_source(e))
        }
        Ok(_) if at < all => Err(Error::corrupt(format!("roaring bitmap ends at byte {at} of {all}"))),
        Ok(found) => Ok(found),
    }
}
