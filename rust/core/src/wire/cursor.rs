//! A walk over the fields of a message, for messages of which there are thousands.
//!
//! It knows varints and length-delimited fields, each field once unless it is repeated. At anything else it gives up:
//! then the general decoder reads the message, and makes the error if there is one.

/// The value of a field.
pub(super) enum Value<'a> {
    Number(u64),
    Bytes(&'a [u8]),
}

/// What is left of a message.
pub(super) struct Cursor<'a>(pub(super) &'a [u8]);

impl<'a> Cursor<'a> {
    /// The next field; `Some(None)` at the end. Gives up at a repeated field unless it is `repeated`, and at values
    /// that are neither varints nor bytes.
    pub(super) fn next(&mut self, seen: &mut u16, repeated: u64) -> Option<Option<(u64, Value<'a>)>> {
        if self.0.is_empty() {
            return Some(None);
        }
        let key = self.varint()?;
        let (tag, kind) = (key >> 3, key & 7);
        let bit = 1_u16.checked_shl(u32::try_from(tag).ok()?)?;
        if *seen & bit != 0 && tag != repeated {
            return None;
        }
        *seen |= bit;
        let value = match kind {
            0 => Value::Number(self.varint()?),
            2 => {
                let length = usize::try_from(self.varint()?).ok()?;
                let (bytes, rest) = self.0.split_at_checked(length)?;
                self.0 = rest;
                Value::Bytes(bytes)
            }
            _ => return None,
        };
        Some(Some((tag, value)))
    }

    fn varint(&mut self) -> Option<u64> {
        let (mut value, mut shift) = (0, 0);
        loop {
            let (&byte, rest) = self.0.split_first()?;
            self.0 = rest;
            let part = u64::from(byte & 0x7f);
            if shift == 63 && byte > 1 {
                return None;
            }
            value |= part << shift;
            if byte & 0x80 == 0 {
                return Some(value);
            }
            shift += 7;
        }
    }

    /// All of it as packed int32.
    pub(super) fn packed(mut self) -> Option<Vec<i32>> {
        let mut values = Vec::with_capacity(self.0.len());
        while !self.0.is_empty() {
            values.push(i32::try_from(self.varint()?.cast_signed()).ok()?);
        }
        Some(values)
    }
}
