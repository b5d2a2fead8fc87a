//! JSON in its binary form (JSONB), read without a copy.
//!
//! | part | bytes |
//! |---|---|
//! | header | 3 bits kind: 1 scalar, 2 object, 4 array; 29 bits number of items (0 for a scalar); big-endian |
//! | entries | 4 bytes each: 1 bit always 0, 3 bits kind, 28 bits length; an object: all keys, all values |
//! | payloads | in the order of the entries: text, a number, or a container with a header of its own |
//!
//! Null, false and true are in the entry. A number is a tag and up to 8 big-endian bytes. Keys ascend, by bytes.
//!
//! Invariant: reading is total. Every length is checked against the bytes there are, and what cannot be is
//! `Corrupt`.

use pennon_core::{Error, Result};

const SCALAR: u32 = 1;
const OBJECT: u32 = 2;
const ARRAY: u32 = 4;
/// Bits of the number of items.
const ITEMS: u32 = 29;
/// Bits of the length of a payload.
const LENGTH: u32 = 28;
/// Bytes of a document, at most: more do not fit the length of an entry.
pub(super) const MAX_BYTES: usize = (1 << LENGTH) - 1;

/// A value whose payload was not looked at.
#[derive(Debug, Clone, Copy)]
pub(super) struct Item<'a> {
    kind: u32,
    payload: &'a [u8],
}

/// A value. Strings are text, numbers are what they are; containers were not looked into.
#[derive(Debug, Clone)]
pub(super) enum Value<'a> {
    Null,
    Bool(bool),
    Number(Number),
    String(&'a str),
    Array(Items<'a>),
    Object(Members<'a>),
}

/// A number. Decimals, which the reference does not write, are read as doubles.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Number {
    Int(i64),
    Uint(u64),
    Float(f64),
}

/// The items of an array, or the keys or values of an object.
#[derive(Debug, Clone)]
pub(super) struct Items<'a> {
    entries: &'a [u8],
    payload: &'a [u8],
}

/// The members of an object in the order of their keys.
#[derive(Debug, Clone)]
pub(super) struct Members<'a> {
    keys: Items<'a>,
    values: Items<'a>,
}

impl<'a> Item<'a> {
    /// The value of a document; of no bytes it is null, as the reference has it.
    pub(super) fn of(document: &'a [u8]) -> Result<Self> {
        if document.is_empty() {
            return Ok(Self { kind: entry::NULL, payload: document });
        }
        let (header, rest) = word(document).ok_or_else(|| damaged("it ends within its header"))?;
        match header >> ITEMS {
            OBJECT | ARRAY => Ok(Self { kind: entry::CONTAINER, payload: document }),
            SCALAR => {
                let mut scalar = Items {
                    entries: rest.get(..4).unwrap_or_default(),
                    payload: rest.get(4..).unwrap_or_default(),
                };
                let item = scalar.next().unwrap_or_else(|| Err(damaged("it ends within its header")))?;
                match item.kind {
                    entry::CONTAINER => Err(damaged("a container is marked as a scalar")),
                    _ => Ok(item),
                }
            }
            other => Err(damaged(&format!("its header is of kind {other}"))),
        }
    }

    /// Errors: `Corrupt`.
    pub(super) fn value(self) -> Result<Value<'a>> {
        Ok(match self.kind {
            entry::NULL => Value::Null,
            entry::FALSE => Value::Bool(false),
            entry::TRUE => Value::Bool(true),
            entry::STRING => Value::String(self.text()?),
            entry::NUMBER => Value::Number(number(self.payload)?),
            entry::CONTAINER => container(self.payload)?,
            other => return Err(damaged(&format!("a value is of kind {other}"))),
        })
    }

    /// Errors: `Corrupt` for bytes of a value that has none.
    pub(super) fn check_empty(self) -> Result<()> {
        if self.payload.is_empty() { Ok(()) } else { Err(damaged("null, false or true has bytes")) }
    }

    /// Appends the document with this value alone.
    pub(super) fn put(self, out: &mut Vec<u8>) -> Result<()> {
        if self.kind != entry::CONTAINER {
            let length = u32::try_from(self.payload.len()).map_err(|_| damaged("a value is too long"))?;
            out.extend((SCALAR << ITEMS).to_be_bytes());
            out.extend((self.kind << LENGTH | length).to_be_bytes());
        }
        out.extend_from_slice(self.payload);
        Ok(())
    }

    fn text(self) -> Result<&'a str> {
        std::str::from_utf8(self.payload).map_err(|e| damaged(&format!("a string is not UTF-8: {e}")))
    }
}

/// Errors: `Corrupt` for a document of a scalar that has a number of items.
pub(super) fn check_header(document: &[u8]) -> Result<()> {
    match word(document) {
        Some((header, _)) if header >> ITEMS == SCALAR && header != SCALAR << ITEMS => {
            Err(damaged("the header of a scalar has a number of items"))
        }
        _ => Ok(()),
    }
}

/// The document of an array of these.
pub(super) fn array_of(items: &[Item<'_>]) -> Result<Vec<u8>> {
    let too_long = || Error::unsupported("the selected values are too long for one JSON array");
    let count = u32::try_from(items.len()).ok().filter(|count| count >> ITEMS == 0).ok_or_else(too_long)?;
    let mut document = (ARRAY << ITEMS | count).to_be_bytes().to_vec();
    for item in items {
        let length = u32::try_from(item.payload.len()).map_err(|_| too_long())?;
        document.extend((item.kind << LENGTH | length).to_be_bytes());
    }
    items.iter().for_each(|item| document.extend_from_slice(item.payload));
    if document.len() > MAX_BYTES { Err(too_long()) } else { Ok(document) }
}

impl<'a> Iterator for Items<'a> {
    type Item = Result<Item<'a>>;

    fn next(&mut self) -> Option<Self::Item> {
        let (entry, rest) = word(self.entries)?;
        self.entries = rest;
        let (kind, length) = (entry >> LENGTH, entry & ((1 << LENGTH) - 1));
        let split = usize::try_from(length).ok().and_then(|length| self.payload.split_at_checked(length));
        let Some((payload, rest)) = split else {
            self.entries = &[];
            let left = self.payload.len();
            return Some(Err(damaged(&format!("a value of {length} bytes, of which {left} are there"))));
        };
        self.payload = rest;
        Some(Ok(Item { kind, payload }))
    }
}

impl Items<'_> {
    /// How many are left.
    pub(super) fn len(&self) -> usize {
        self.entries.len() / 4
    }
}

impl<'a> Iterator for Members<'a> {
    type Item = Result<(&'a str, Item<'a>)>;

    fn next(&mut self) -> Option<Self::Item> {
        let (key, value) = (self.keys.next()?, self.values.next()?);
        let text = |key: Item<'a>| match key.kind {
            entry::STRING => key.text(),
            other => Err(damaged(&format!("a key is of kind {other}"))),
        };
        Some(key.and_then(text).and_then(|key| Ok((key, value?))))
    }
}

impl<'a> Members<'a> {
    /// The value of a key.
    pub(super) fn find(self, wanted: &str) -> Result<Option<Item<'a>>> {
        for (key, value) in self.keys.zip(self.values) {
            let (key, value) = (key?, value?);
            if key.payload == wanted.as_bytes() && key.kind == entry::STRING {
                return Ok(Some(value));
            }
        }
        Ok(None)
    }
}

fn container(bytes: &[u8]) -> Result<Value<'_>> {
    let (header, rest) = word(bytes).ok_or_else(|| damaged("a container ends within its header"))?;
    let count = usize::try_from(header & ((1 << ITEMS) - 1)).unwrap_or(usize::MAX);
    let split = |entries: usize| {
        let length = count.checked_mul(4).and_then(|bytes| bytes.checked_mul(entries));
        let found = length.and_then(|length| rest.split_at_checked(length));
        found.ok_or_else(|| damaged(&format!("a container of {count} items has {} bytes", rest.len())))
    };
    match header >> ITEMS {
        ARRAY => {
            let (entries, payload) = split(1)?;
            Ok(Value::Array(Items { entries, payload }))
        }
        OBJECT => {
            let (entries, payload) = split(2)?;
            let (keys, values) = entries.split_at(entries.len() / 2);
            let mut all = Items { entries: keys, payload };
            // The values begin behind the last key.
            all.by_ref().try_for_each(|key| key.map(drop))?;
            let values = Items { entries: values, payload: all.payload };
            Ok(Value::Object(Members { keys: Items { entries: keys, payload }, values }))
        }
        other => Err(damaged(&format!("a container is of kind {other}"))),
    }
}

/// Tags of numbers.
mod number_tag {
    pub(super) const ZERO: u8 = 0x00;
    pub(super) const NAN: u8 = 0x10;
    pub(super) const INFINITY: u8 = 0x20;
    pub(super) const NEGATIVE_INFINITY: u8 = 0x30;
    pub(super) const INT: u8 = 0x40;
    pub(super) const UINT: u8 = 0x50;
    pub(super) const FLOAT: u8 = 0x60;
    pub(super) const DECIMAL: u8 = 0x70;
}

/// Kinds of entries; what has bit 3 set is none.
mod entry {
    pub(super) const NULL: u32 = 0;
    pub(super) const STRING: u32 = 1;
    pub(super) const NUMBER: u32 = 2;
    pub(super) const FALSE: u32 = 3;
    pub(super) const TRUE: u32 = 4;
    pub(super) const CONTAINER: u32 = 5;
}

fn number(bytes: &[u8]) -> Result<Number> {
    let wrong = || damaged(&format!("a number has the bytes {bytes:02x?}"));
    let (&tag, digits) = bytes.split_first().ok_or_else(wrong)?;
    Ok(match tag {
        number_tag::ZERO => Number::Uint(0),
        number_tag::NAN => Number::Float(f64::NAN),
        number_tag::INFINITY => Number::Float(f64::INFINITY),
        number_tag::NEGATIVE_INFINITY => Number::Float(f64::NEG_INFINITY),
        number_tag::INT => Number::Int(match *digits {
            [a] => i8::from_be_bytes([a]).into(),
            [a, b] => i16::from_be_bytes([a, b]).into(),
            [a, b, c, d] => i32::from_be_bytes([a, b, c, d]).into(),
            _ => i64::from_be_bytes(digits.try_into().map_err(|_| wrong())?),
        }),
        number_tag::UINT => Number::Uint(match *digits {
            [a] => a.into(),
            [a, b] => u16::from_be_bytes([a, b]).into(),
            [a, b, c, d] => u32::from_be_bytes([a, b, c, d]).into(),
            _ => u64::from_be_bytes(digits.try_into().map_err(|_| wrong())?),
        }),
        number_tag::FLOAT => Number::Float(f64::from_be_bytes(digits.try_into().map_err(|_| wrong())?)),
        number_tag::DECIMAL => Number::Float(decimal(digits).ok_or_else(wrong)?),
        _ => return Err(wrong()),
    })
}

/// The digits of a decimal, a byte for its precision in an older form, and its scale.
#[expect(clippy::cast_precision_loss, reason = "a decimal becomes the double next to it")]
fn decimal(bytes: &[u8]) -> Option<f64> {
    let (&scale, digits) = bytes.split_last()?;
    let digits = match digits.len() {
        17 | 33 => digits.split_last()?.1,
        _ => digits,
    };
    let value = match digits.len() {
        8 => i64::from_be_bytes(digits.try_into().ok()?) as f64,
        16 => i128::from_be_bytes(digits.try_into().ok()?) as f64,
        32 => {
            let (high, low) = digits.split_at(16);
            let high = i128::from_be_bytes(high.try_into().ok()?) as f64;
            high * 2f64.powi(128) + u128::from_be_bytes(low.try_into().ok()?) as f64
        }
        _ => return None,
    };
    Some(value / 10f64.powi(scale.into()))
}

/// The first 4 bytes as a number, and the others.
fn word(bytes: &[u8]) -> Option<(u32, &[u8])> {
    let (first, rest) = bytes.split_first_chunk()?;
    Some((u32::from_be_bytes(*first), rest))
}

fn damaged(what: &str) -> Error {
    Error::corrupt(format!("damaged JSON: {what}"))
}
