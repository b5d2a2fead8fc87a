//! Roaring bitmaps as files and messages have them.

use std::io;

use roaring::{RoaringBitmap, RoaringTreemap};

use crate::{Error, Result};

/// The bitmap that bytes are, all of them.
///
/// ```
/// use pennon_core::bitmaps::decode_bitmap;
/// use roaring::RoaringBitmap;
///
/// let mut bytes = Vec::new();
/// RoaringBitmap::from([3, 9]).serialize_into(&mut bytes)?;
/// assert_eq!(decode_bitmap(&bytes)?, [3, 9].into());
/// bytes.push(0);
/// assert!(decode_bitmap(&bytes).is_err());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// Errors: `Corrupt`, also for bytes after the bitmap.
pub fn decode_bitmap(bytes: &[u8]) -> Result<RoaringBitmap> {
    decode_all(bytes, |rest| RoaringBitmap::deserialize_from(rest))
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
