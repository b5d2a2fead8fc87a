//! Columns of JSON, alone or in structs, lists and maps, as text and in their binary form.
//!
//! Values that nobody sees are not converted: those outside of a slice and beneath null structs.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{
    Array, ArrayRef, BooleanArray, FixedSizeListArray, GenericListArray, LargeBinaryArray, MapArray,
    OffsetSizeTrait, StringArray, StructArray, new_null_array,
};
use arrow_buffer::{NullBuffer, OffsetBuffer, ScalarBuffer};
use arrow_schema::extension::{EXTENSION_TYPE_METADATA_KEY, EXTENSION_TYPE_NAME_KEY};
use arrow_schema::{ArrowError, DataType, Field, FieldRef, Fields};
use arrow_select::nullif::nullif;
use pennon_core::{Error, ErrorKind};

use super::binary::Item;
use super::text;

/// A form of JSON columns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    Text,
    Stored,
}

impl Form {
    fn extension(self) -> &'static str {
        match self {
            Self::Text => "arrow.json",
            Self::Stored => "lance.json",
        }
    }

    fn data_type(self) -> DataType {
        match self {
            Self::Text => DataType::Utf8,
            Self::Stored => DataType::LargeBinary,
        }
    }
}

/// An error of a value, with its position among those of its array.
#[derive(Debug)]
pub(super) struct ValueError {
    at: usize,
    error: Error,
}

impl ValueError {
    /// The error of a column that has so many rows before.
    pub(super) fn named(self, column: &str, before: usize) -> Error {
        let row = before.saturating_add(self.at);
        Error::new(self.error.kind(), format!("column `{column}`, row {row}: {}", self.error))
    }

    fn of(at: usize) -> impl Fn(Error) -> Self {
        move |error| Self { at, error }
    }
}

impl From<ArrowError> for ValueError {
    fn from(error: ArrowError) -> Self {
        Self { at: 0, error: Error::internal(format!("a JSON column: {error}")) }
    }
}

type Result<T, E = ValueError> = std::result::Result<T, E>;

/// The form of a field that is JSON.
fn form_of(field: &Field) -> Option<Form> {
    match (field.extension_type_name()?, field.data_type()) {
        ("arrow.json", DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View) => Some(Form::Text),
        ("lance.json", DataType::LargeBinary) => Some(Form::Stored),
        _ => None,
    }
}

/// Whether a field or one below it is JSON, in either form.
pub(crate) fn has_json(field: &Field) -> bool {
    form_of(field).is_some()
        || match field.data_type() {
            DataType::Struct(members) => members.iter().any(|member| has_json(member)),
            DataType::List(item)
            | DataType::LargeList(item)
            | DataType::FixedSizeList(item, _)
            | DataType::Map(item, _) => has_json(item),
            _ => false,
        }
}

/// Whether a field is JSON in its binary form.
pub(crate) fn is_stored(field: &Field) -> bool {
    form_of(field) == Some(Form::Stored)
}

/// The field with text as plain text where the table's is no JSON.
pub(super) fn marked_as(field: &FieldRef, table: &Field) -> FieldRef {
    if !has_json(field) {
        return Arc::clone(field);
    }
    let by_name = |members: &Fields, wanted: &Fields| -> Fields {
        let marked = |member: &FieldRef| match wanted.find(member.name()) {
            Some((_, wanted)) => marked_as(member, wanted),
            None => Arc::clone(member),
        };
        members.iter().map(marked).collect()
    };
    let data_type = match (field.data_type(), table.data_type()) {
        (DataType::Struct(members), DataType::Struct(wanted)) => DataType::Struct(by_name(members, wanted)),
        (DataType::List(item), _) => DataType::List(marked_item(item, table)),
        (DataType::LargeList(item), _) => DataType::LargeList(marked_item(item, table)),
        (DataType::FixedSizeList(item, size), _) => DataType::FixedSizeList(marked_item(item, table), *size),
        (DataType::Map(entries, sorted), DataType::Map(wanted, _)) => {
            let (DataType::Struct(pair), DataType::Struct(of_table)) =
                (entries.data_type(), wanted.data_type())
            else {
                return Arc::clone(field);
            };
            let pair = pair.iter().zip(of_table).map(|(member, wanted)| marked_as(member, wanted));
            let pair = DataType::Struct(pair.collect());
            DataType::Map(Arc::new(entries.as_ref().clone().with_data_type(pair)), *sorted)
        }
        _ if form_of(field) == Some(Form::Text) && form_of(table).is_none() => {
            let mut metadata = field.metadata().clone();
            metadata.remove(EXTENSION_TYPE_NAME_KEY);
            metadata.remove(EXTENSION_TYPE_METADATA_KEY);
            return Arc::new(field.as_ref().clone().with_metadata(metadata));
        }
        _ => return Arc::clone(field),
    };
    Arc::new(field.as_ref().clone().with_data_type(data_type))
}

fn marked_item(item: &FieldRef, table: &Field) -> FieldRef {
    match table.data_type() {
        DataType::List(wanted) | DataType::LargeList(wanted) | DataType::FixedSizeList(wanted, _) => {
            marked_as(item, wanted)
        }
        _ => Arc::clone(item),
    }
}

/// The field with JSON in this form.
pub(super) fn field_in(field: &FieldRef, form: Form) -> FieldRef {
    if !has_json(field) {
        return Arc::clone(field);
    }
    let below = |item: &FieldRef| field_in(item, form);
    let data_type = match field.data_type() {
        DataType::Struct(members) => DataType::Struct(members.iter().map(below).collect()),
        DataType::List(item) => DataType::List(below(item)),
        DataType::LargeList(item) => DataType::LargeList(below(item)),
        DataType::FixedSizeList(item, size) => DataType::FixedSizeList(below(item), *size),
        DataType::Map(entries, sorted) => DataType::Map(below(entries), *sorted),
        _ => {
            let mut metadata = field.metadata().clone();
            metadata.insert(EXTENSION_TYPE_NAME_KEY.to_owned(), form.extension().to_owned());
            metadata.entry(EXTENSION_TYPE_METADATA_KEY.to_owned()).or_default();
            let field = field.as_ref().clone().with_data_type(form.data_type());
            return Arc::new(field.with_metadata(metadata));
        }
    };
    Arc::new(field.as_ref().clone().with_data_type(data_type))
}

/// The field with JSON as text where a type has text, and in its binary form elsewhere: what values of that type are cast
/// to before they are stored. None if it has something else for JSON.
pub(super) fn field_like(field: &FieldRef, given: &DataType) -> Option<FieldRef> {
    use DataType::{
        FixedSizeList, LargeBinary, LargeList, LargeUtf8, List, Map, Null, Struct, Utf8, Utf8View,
    };
    if !has_json(field) {
        return Some(Arc::clone(field));
    }
    let data_type = match (field.data_type(), given) {
        (_, Null) | (LargeBinary, LargeBinary) => return Some(Arc::clone(field)),
        (LargeBinary, Utf8 | LargeUtf8 | Utf8View) => return Some(field_in(field, Form::Text)),
        (Struct(members), Struct(found)) => {
            let like = |member: &FieldRef| match found.find(member.name()) {
                Some((_, found)) => field_like(member, found.data_type()),
                None => Some(Arc::clone(member)),
            };
            Struct(members.iter().map(like).collect::<Option<_>>()?)
        }
        (List(item), List(found) | LargeList(found) | FixedSizeList(found, _)) => {
            List(field_like(item, found.data_type())?)
        }
        (LargeList(item), List(found) | LargeList(found) | FixedSizeList(found, _)) => {
            LargeList(field_like(item, found.data_type())?)
        }
        (FixedSizeList(item, size), List(found) | LargeList(found) | FixedSizeList(found, _)) => {
            FixedSizeList(field_like(item, found.data_type())?, *size)
        }
        (Map(entries, sorted), Map(found, _)) => Map(field_like(entries, found.data_type())?, *sorted),
        _ => return None,
    };
    Some(Arc::new(field.as_ref().clone().with_data_type(data_type)))
}

/// The values of a field with JSON in this form. Errors: `InvalidInput` for text that is not JSON and for what is to be
/// stored and is damaged, `Corrupt` for what is stored and is damaged.
pub(super) fn converted(field: &Field, array: &ArrayRef, form: Form) -> Result<ArrayRef> {
    if !has_json(field) {
        return Ok(Arc::clone(array));
    }
    match (field.data_type(), form) {
        (DataType::Struct(members), _) => structs(members, array.as_struct(), form),
        (DataType::List(item), _) => lists::<i32>(item, array.as_list(), form),
        (DataType::LargeList(item), _) => lists::<i64>(item, array.as_list(), form),
        (DataType::FixedSizeList(item, size), _) => {
            let length = usize::try_from(*size).unwrap_or_default().max(1);
            let (_, _, values, nulls) = array.as_fixed_size_list().clone().into_parts();
            let values = converted(item, &values, form).map_err(|e| ValueError { at: e.at / length, ..e })?;
            Ok(Arc::new(FixedSizeListArray::try_new(field_in(item, form), *size, values, nulls)?))
        }
        (DataType::Map(entries, sorted), _) => {
            let (_, offsets, pairs, nulls, _) = array.as_map().clone().into_parts();
            let pairs: ArrayRef = Arc::new(pairs);
            let (offsets, pairs) = visible(entries, &offsets, &pairs, form)?;
            let pairs = pairs.as_struct().clone();
            Ok(Arc::new(MapArray::try_new(field_in(entries, form), offsets, pairs, nulls, *sorted)?))
        }
        (_, Form::Stored) => documents(array),
        (DataType::LargeBinary, Form::Text) => texts(array.as_binary()),
        (_, Form::Text) => Ok(Arc::clone(array)),
    }
}

fn structs(members: &Fields, array: &StructArray, form: Form) -> Result<ArrayRef> {
    let nulls = array.nulls().filter(|nulls| nulls.null_count() > 0);
    let is_null = nulls.map(|nulls| BooleanArray::new(!nulls.inner(), None));
    let column = |(member, values): (&FieldRef, &ArrayRef)| match &is_null {
        Some(is_null) if has_json(member) => converted(member, &nullif(values, is_null)?, form),
        _ => converted(member, values, form),
    };
    let columns = members.iter().zip(array.columns()).map(column).collect::<Result<Vec<_>>>()?;
    let members = members.iter().map(|member| field_in(member, form)).collect();
    Ok(Arc::new(StructArray::try_new_with_length(members, columns, array.nulls().cloned(), array.len())?))
}

fn lists<O: OffsetSizeTrait>(item: &FieldRef, array: &GenericListArray<O>, form: Form) -> Result<ArrayRef> {
    let (_, offsets, values, nulls) = array.clone().into_parts();
    let (offsets, values) = visible(item, &offsets, &values, form)?;
    Ok(Arc::new(GenericListArray::try_new(field_in(item, form), offsets, values, nulls)?))
}

/// The values that lists show, converted, and where each list has its own.
fn visible<O: OffsetSizeTrait>(
    item: &FieldRef,
    offsets: &OffsetBuffer<O>,
    values: &ArrayRef,
    form: Form,
) -> Result<(OffsetBuffer<O>, ArrayRef)> {
    let (first, last) = match (offsets.first(), offsets.last()) {
        (Some(first), Some(last)) => (*first, *last),
        _ => (O::zero(), O::zero()),
    };
    let (start, end) = (first.as_usize(), last.as_usize());
    let row_of = |e: ValueError| {
        let at = start.saturating_add(e.at);
        let row = offsets.partition_point(|offset| offset.as_usize() <= at).saturating_sub(1);
        ValueError { at: row, ..e }
    };
    let values = converted(item, &values.slice(start, end.saturating_sub(start)), form).map_err(row_of)?;
    let offsets = OffsetBuffer::new(offsets.iter().map(|offset| *offset - first).collect());
    Ok((offsets, values))
}

/// The binary form of texts; documents that are in it already are checked.
pub(super) fn documents(array: &ArrayRef) -> Result<ArrayRef> {
    match array.data_type() {
        DataType::Utf8 => parsed(array.as_string::<i32>().iter(), array.nulls()),
        DataType::LargeUtf8 => parsed(array.as_string::<i64>().iter(), array.nulls()),
        DataType::Utf8View => parsed(array.as_string_view().iter(), array.nulls()),
        DataType::Null => Ok(new_null_array(&DataType::LargeBinary, array.len())),
        DataType::LargeBinary => {
            for (at, document) in array.as_binary::<i64>().iter().enumerate() {
                let checked = document.map_or(Ok(0), text::check);
                checked.map_err(|e| ValueError { at, error: Error::invalid_input(e) })?;
            }
            Ok(Arc::clone(array))
        }
        other => Err(ValueError::of(0)(Error::invalid_input(format!(
            "values of type {other} are no JSON; expected text, or the binary form as large_binary"
        )))),
    }
}

fn parsed<'a>(texts: impl Iterator<Item = Option<&'a str>>, nulls: Option<&NullBuffer>) -> Result<ArrayRef> {
    let (mut offsets, mut values) = (vec![0_i64], Vec::new());
    for (at, document) in texts.enumerate() {
        if let Some(document) = document {
            let invalid = |e: Error| match e.kind() {
                ErrorKind::InvalidInput => Error::invalid_input(format!("invalid JSON: {e}")),
                _ => e,
            };
            text::parse(document, &mut values).map_err(invalid).map_err(ValueError::of(at))?;
        }
        offsets.push(i64::try_from(values.len()).unwrap_or(i64::MAX));
    }
    let offsets = OffsetBuffer::new(ScalarBuffer::from(offsets));
    Ok(Arc::new(LargeBinaryArray::try_new(offsets, values.into(), nulls.cloned())?))
}

fn texts(documents: &LargeBinaryArray) -> Result<ArrayRef> {
    let mut offsets = Vec::with_capacity(documents.len() + 1);
    offsets.push(0_i32);
    let mut values = Vec::with_capacity(documents.value_data().len());
    for (at, document) in documents.iter().enumerate() {
        if let Some(document) = document {
            let written = Item::of(document).and_then(|item| text::write(item, &mut values));
            written.map_err(ValueError::of(at))?;
        }
        let too_long = |_| {
            Error::unsupported("the JSON texts of a batch have more than 2 GiB: read fewer rows at a time")
        };
        offsets.push(i32::try_from(values.len()).map_err(too_long).map_err(ValueError::of(at))?);
    }
    let offsets = OffsetBuffer::new(ScalarBuffer::from(offsets));
    Ok(Arc::new(StringArray::try_new(offsets, values.into(), documents.nulls().cloned())?))
}
