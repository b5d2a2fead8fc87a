//! Checksums of messages: the last field of a message that this library writes. Other readers skip a field that they do
//! not know, and leave it out when they write the message again.
//!
//! | bytes | content |
//! |---|---|
//! | 4 | key of field 5263440, fixed64 |
//! | 8 | XXH3 (64 bits) of all bytes before the key, little endian |
//!
//! The number of the field is chosen such that a damaged key is no key of a known field. A key with one wrong bit is
//! damage, too: otherwise the message would pass for one without a checksum.
//!
//! JSON files have it as their last member, `"pennonChecksum"`: the XXH3 in hexadecimal digits of all bytes before that
//! member and the comma.

use twox_hash::XxHash3_64;

use crate::{Error, Result};

const KEY: [u8; 4] = [0x81, 0x85, 0x8a, 0x14];
/// Bytes of the field.
pub(crate) const LENGTH: usize = KEY.len() + 8;

/// Appends the checksum of a message to it.
///
/// ```
/// let mut message = b"\x08\x01".to_vec();
/// pennon_core::checksum::append(&mut message);
/// assert!(pennon_core::checksum::check("message", &message).unwrap());
/// message[1] = 2;
/// assert!(pennon_core::checksum::check("message", &message).is_err());
/// ```
pub fn append(message: &mut Vec<u8>) {
    append_from(message, 0);
}

/// [`append`], where the message begins at an offset.
pub(crate) fn append_from(bytes: &mut Vec<u8>, start: usize) {
    let checksum = XxHash3_64::oneshot(bytes.get(start..).unwrap_or_default());
    bytes.extend_from_slice(&KEY);
    bytes.extend_from_slice(&checksum.to_le_bytes());
}

/// Whether a message has a checksum, which is right. Errors: `Corrupt` for a wrong one; `what` says what the message is.
pub fn check(what: &str, message: &[u8]) -> Result<bool> {
    let Some((rest, expected)) = message.split_last_chunk::<8>() else { return Ok(false) };
    let Some((content, key)) = rest.split_last_chunk::<4>() else { return Ok(false) };
    let (expected, found) = (u64::from_le_bytes(*expected), XxHash3_64::oneshot(content));
    match (u32::from_le_bytes(*key) ^ u32::from_le_bytes(KEY)).count_ones() {
        0 if expected == found => Ok(true),
        0 => Err(Error::corrupt(format!(
            "{what} ({} bytes) was changed after it was written: its checksum is {found:016x}, expected {expected:016x}",
            message.len()
        ))),
        1 => Err(Error::corrupt(format!(
            "{what} ({} bytes) was changed after it was written: the key of its checksum is {key:02x?}",
            message.len()
        ))),
        _ => Ok(false),
    }
}

/// Whether bytes end with a checksum, right or not.
pub fn is_at_end(bytes: &[u8]) -> bool {
    let key = bytes.len().checked_sub(LENGTH).and_then(|at| bytes.get(at..at + KEY.len()));
    key == Some(KEY.as_slice())
}

const MEMBER: &str = ",\n  \"pennonChecksum\": \"";
const END: &str = "\"\n}";

/// The text of a JSON object that is not empty and ends with a line break and a brace, with a checksum.
///
/// ```
/// use pennon_core::checksum::{check_json, with_checksum};
///
/// let text = with_checksum("{\n  \"version\": 3\n}");
/// assert!(check_json(text.as_bytes()).unwrap());
/// assert!(check_json(text.replace('3', "7").as_bytes()).is_err());
/// ```
pub fn with_checksum(text: &str) -> String {
    let Some(content) = text.strip_suffix("\n}") else { return text.to_owned() };
    format!("{content}{MEMBER}{:016x}{END}", XxHash3_64::oneshot(content.as_bytes()))
}

/// Whether a JSON object has a checksum, which is right. Errors: `Corrupt` for a wrong one.
pub fn check_json(bytes: &[u8]) -> Result<bool> {
    let Some(at) = bytes.windows(MEMBER.len()).rposition(|window| window == MEMBER.as_bytes()) else {
        return Ok(false);
    };
    let (content, member) = bytes.split_at(at);
    let found = format!("{MEMBER}{:016x}{END}", XxHash3_64::oneshot(content));
    if member == found.as_bytes() {
        return Ok(true);
    }
    Err(Error::corrupt(format!(
        "{} bytes of JSON were changed after they were written: they end with {:?}, expected {found:?}",
        bytes.len(),
        String::from_utf8_lossy(member)
    )))
}

#[cfg(test)]
mod tests {
    use prost::Message;

    use super::*;
    use crate::wire::table;

    #[test]
    fn the_key_is_that_of_the_field() {
        let mut key = Vec::new();
        prost::encoding::encode_key(5_263_440, prost::encoding::WireType::SixtyFourBit, &mut key);
        assert_eq!(key, KEY);
    }

    #[test]
    fn a_flipped_bit_of_json_is_found_or_without_effect() {
        let plain = "{\n  \"branch\": \"dev\",\n  \"version\": 12\n}";
        let text = with_checksum(plain);
        let content = plain.len() - 2;
        assert!(check_json(text.as_bytes()).unwrap());
        assert!(!check_json(plain.as_bytes()).unwrap());
        for bit in 0..text.len() * 8 {
            let mut damaged = text.clone().into_bytes();
            damaged[bit / 8] ^= 1 << (bit % 8);
            // In the name of the member it leaves a text without a checksum, whose content is as it was.
            let is_found = check_json(&damaged).is_err();
            assert!(is_found || bit / 8 >= content, "bit {bit}");
        }
    }

    #[test]
    fn every_flipped_bit_is_found() {
        let message = table::Transaction { read_version: 7, uuid: "u".repeat(36), ..Default::default() };
        let plain = message.encode_to_vec();
        assert!(!check("transaction", &plain).unwrap());
        let mut sealed = plain;
        append(&mut sealed);
        assert!(check("transaction", &sealed).unwrap());
        assert_eq!(table::Transaction::decode(sealed.as_slice()).unwrap(), message);
        for bit in 0..sealed.len() * 8 {
            let mut damaged = sealed.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            let error = check("transaction", &damaged).expect_err("a damaged message");
            assert!(error.to_string().contains("changed after it was written"), "bit {bit}: {error}");
        }
    }
}
