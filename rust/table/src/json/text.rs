//! JSON text <-> its binary form.
//!
//! Text is parsed by the library that defines the binary form, in its lenient mode, as the reference does: single
//! quotes, `NaN`, leading plus signs and a missing document (null) are taken; a repeated key is an error. Whole numbers
//! of up to 64 bits are kept, others become doubles. Text comes out compact, with the keys of objects in order; what
//! JSON has no number for is null.

use pennon_core::{Error, Result};

use super::binary::{self, Item, Items, MAX_BYTES, Members, Number, Value};

/// Documents nested deeper are refused.
const LEVELS: usize = 1000;
/// Levels that can be parsed on any stack.
const SHALLOW: usize = 100;
/// Bytes of the stack on which others are parsed.
const STACK: usize = 64 << 20;

/// Appends the binary form of a text. Errors: `InvalidInput`.
pub(super) fn parse(text: &str, out: &mut Vec<u8>) -> Result<()> {
    let start = out.len();
    let levels = levels_at_most(text);
    if levels > LEVELS {
        return Err(Error::invalid_input(format!("nested deeper than {LEVELS} levels")));
    }
    let parsed = match levels > SHALLOW {
        false => jsonb::parse_owned_jsonb(text.as_bytes()),
        true => on_a_large_stack(text)?,
    };
    let document = parsed.map_err(Error::invalid_input)?;
    out.extend_from_slice(document.as_ref());
    if out.len() - start > MAX_BYTES {
        out.truncate(start);
        return Err(Error::invalid_input(format!("more than {MAX_BYTES} bytes in its binary form")));
    }
    Ok(())
}

fn on_a_large_stack(text: &str) -> Result<std::result::Result<jsonb::OwnedJsonb, jsonb::Error>> {
    std::thread::scope(|scope| {
        let parse = || jsonb::parse_owned_jsonb(text.as_bytes());
        let thread = std::thread::Builder::new().stack_size(STACK).spawn_scoped(scope, parse);
        let thread = thread.map_err(|e| Error::internal(format!("no thread to parse JSON: {e}")))?;
        Ok(thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
    })
}

/// Not fewer levels than the text is nested.
fn levels_at_most(text: &str) -> usize {
    let opening = text.bytes().filter(|byte| matches!(byte, b'[' | b'{')).count();
    if opening <= SHALLOW {
        return opening;
    }
    let (mut open, mut most, mut quote, mut bytes) = (0_usize, 0, None, text.bytes());
    while let Some(byte) = bytes.next() {
        match (quote, byte) {
            (Some(_), b'\\') => drop(bytes.next()),
            (Some(end), byte) if end == byte => quote = None,
            (Some(_), _) => {}
            (None, b'"' | b'\'') => quote = Some(byte),
            (None, b'[' | b'{') => {
                open += 1;
                most = most.max(open);
            }
            (None, b']' | b'}') => open = open.saturating_sub(1),
            (None, _) => {}
        }
    }
    most
}

/// A container that is being written.
enum Open<'a> {
    Array(Items<'a>),
    Object(Members<'a>),
}

/// Appends the text of a value. Errors: `Corrupt`, after which less of it may have been appended.
pub(super) fn write(item: Item<'_>, out: &mut Vec<u8>) -> Result<()> {
    // Containers that are open, and whether something was written in them: documents may be nested at any depth.
    let mut open: Vec<(Open<'_>, bool)> = Vec::new();
    let mut next = Some(item);
    loop {
        if let Some(item) = next.take() {
            match item.value()? {
                Value::Null => out.extend_from_slice(b"null"),
                Value::Bool(value) => out.extend_from_slice(if value { b"true" } else { b"false" }),
                Value::Number(number) => write_number(number, out)?,
                Value::String(text) => write_string(text, out)?,
                Value::Array(items) => {
                    out.push(b'[');
                    open.push((Open::Array(items), false));
                }
                Value::Object(members) => {
                    out.push(b'{');
                    open.push((Open::Object(members), false));
                }
            }
        }
        let Some((container, begun)) = open.last_mut() else { return Ok(()) };
        let separator: &[u8] = if std::mem::replace(begun, true) { b"," } else { b"" };
        match container {
            Open::Array(items) => match items.next() {
                Some(item) => {
                    out.extend_from_slice(separator);
                    next = Some(item?);
                    continue;
                }
                None => out.push(b']'),
            },
            Open::Object(members) => match members.next() {
                Some(member) => {
                    let (key, item) = member?;
                    out.extend_from_slice(separator);
                    write_string(key, out)?;
                    out.push(b':');
                    next = Some(item);
                    continue;
                }
                None => out.push(b'}'),
            },
        }
        open.pop();
    }
}

fn write_string(text: &str, out: &mut Vec<u8>) -> Result<()> {
    serde_json::to_writer(out, text).map_err(|e| Error::internal(format!("a JSON string: {e}")))
}

fn write_number(number: Number, out: &mut Vec<u8>) -> Result<()> {
    let written = match number {
        Number::Int(value) => serde_json::to_writer(out, &value),
        Number::Uint(value) => serde_json::to_writer(out, &value),
        // Null for what is not a number.
        Number::Float(value) => serde_json::to_writer(out, &value),
    };
    written.map_err(|e| Error::internal(format!("a JSON number: {e}")))
}

/// The text of a value.
pub(super) fn to_text(item: Item<'_>) -> Result<String> {
    let mut out = Vec::new();
    write(item, &mut out)?;
    String::from_utf8(out).map_err(|e| Error::internal(format!("JSON text: {e}")))
}

/// Walks through a document and gives its levels, 0 for a scalar. Errors: `Corrupt`.
pub(super) fn check(document: &[u8]) -> Result<usize> {
    binary::check_header(document)?;
    let mut levels = 0;
    let mut left = vec![(Item::of(document)?, 0)];
    while let Some((item, level)) = left.pop() {
        levels = levels.max(level);
        match item.value()? {
            Value::Array(items) => {
                for item in items {
                    left.push((item?, level + 1));
                }
            }
            Value::Object(members) => {
                for member in members {
                    left.push((member?.1, level + 1));
                }
            }
            Value::Null | Value::Bool(_) => item.check_empty()?,
            Value::Number(_) | Value::String(_) => {}
        }
    }
    Ok(levels)
}
