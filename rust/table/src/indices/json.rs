//! Indices over a key of JSON documents: an index over the values that the key has, of one type.
//!
//! The type follows from the values: whole numbers, floats or texts, and a document whose key has something else could
//! not be indexed. So `json_get_int`, `json_get_float` and `json_get_string` give these values, and their tests find
//! candidates; a function of another type than the index converts the values, and any row may pass.

use arrow_schema::DataType;
use pennon_core::Result;
use pennon_core::wire::index_parts::IndexParts;
use pennon_core::wire::json_index::JsonIndexParts;
use pennon_datafile::statistics::Bound;
use pennon_index::{IndexKind, ScalarIndex, ValueTest};

/// The key of an entry over JSON, and the kind of its files; `None` if it is of another kind, or cannot be searched. A path
/// that is more than a key means to the reference's index another value than to its functions.
pub(crate) fn key_of(kind: IndexKind, parts: &IndexParts) -> Result<Option<(String, IndexKind)>> {
    let (IndexKind::Json, Some((_, details))) = (kind, &parts.details) else { return Ok(None) };
    let JsonIndexParts { path, target } = JsonIndexParts::of_details(details.clone())?;
    let target = IndexKind::of_details(target.as_deref(), &[]);
    let is_searched = matches!(target, IndexKind::BTree | IndexKind::Bitmap) && is_plain(&path);
    Ok(is_searched.then_some((path, target)))
}

/// Whether a path is a name and nothing else.
fn is_plain(path: &str) -> bool {
    let mut characters = path.chars();
    characters.next().is_some_and(|first| first.is_ascii_alphabetic() || first == '_')
        && characters.all(|character| character.is_ascii_alphanumeric() || character == '_')
}

/// Whether an index has the values that tests are made of.
pub(super) fn has_values_of(index: &ScalarIndex, tests: &[&ValueTest]) -> bool {
    let is_of = |bound: &Bound| match bound {
        Bound::Int(_) => index.value_type() == Some(&DataType::Int64),
        Bound::Float(_) => index.value_type() == Some(&DataType::Float64),
        Bound::Bytes(_) => index.value_type() == Some(&DataType::Utf8),
    };
    tests.iter().all(|test| match test {
        ValueTest::Eq(value)
        | ValueTest::Less(value)
        | ValueTest::LessEq(value)
        | ValueTest::Greater(value)
        | ValueTest::GreaterEq(value) => is_of(value),
        ValueTest::OneOf(values) => values.iter().all(is_of),
        ValueTest::Prefix(prefix) => is_of(&Bound::Bytes(prefix.clone())),
        _ => false,
    })
}
