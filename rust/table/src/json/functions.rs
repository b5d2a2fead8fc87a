//! SQL functions over JSON columns.
//!
//! | function | gives |
//! |---|---|
//! | `json_extract(doc, path)` | the selected value as JSON text, an array of them if there are several |
//! | `json_exists(doc, path)` | whether the path selects something |
//! | `json_get(doc, key)` | the member or item (`'0'` is the first) in its binary form |
//! | `json_get_string`, `_int`, `_float`, `_bool` (doc, key) | the same as a value of that type |
//! | `json_array_contains(doc, path, value)` | whether a selected array has that string or JSON text |
//! | `json_array_length(doc, path)` | the items of the selected array, 0 for what is not an array |
//!
//! A document is one in its binary form, as columns have it, or its text. Null comes of null arguments and of what is
//! not there; of JSON's null too where a value of a type is asked for. A value that cannot be converted is an error.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, BooleanArray, Float64Array, Int64Array, LargeBinaryArray, StringArray};
use arrow_buffer::{NullBuffer, OffsetBuffer};
use arrow_schema::DataType;
use datafusion_common::{DataFusionError, ScalarValue, exec_datafusion_err};
use datafusion_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, TypeSignature, Volatility,
};
use pennon_core::{Error, Result};

use super::binary::{self, Item, Number, Value};
use super::path::Selector;
use super::text;

/// All of them.
pub(crate) fn functions() -> impl Iterator<Item = ScalarUDF> {
    let all = [
        Function::Extract,
        Function::Exists,
        Function::Get,
        Function::GetString,
        Function::GetInt,
        Function::GetFloat,
        Function::GetBool,
        Function::ArrayContains,
        Function::ArrayLength,
    ];
    all.into_iter().map(|function| ScalarUDF::from(JsonFunction::new(function)))
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Function {
    Extract,
    Exists,
    Get,
    GetString,
    GetInt,
    GetFloat,
    GetBool,
    ArrayContains,
    ArrayLength,
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct JsonFunction {
    function: Function,
    signature: Signature,
}

impl JsonFunction {
    fn new(function: Function) -> Self {
        let texts = if function == Function::ArrayContains { 2 } else { 1 };
        let over = |document| {
            let types = std::iter::once(document).chain(std::iter::repeat_n(DataType::Utf8, texts));
            TypeSignature::Exact(types.collect())
        };
        let forms = [DataType::LargeBinary, DataType::Utf8, DataType::LargeUtf8];
        let signature = Signature::one_of(forms.into_iter().map(over).collect(), Volatility::Immutable);
        Self { function, signature }
    }
}

impl ScalarUDFImpl for JsonFunction {
    fn name(&self) -> &str {
        match self.function {
            Function::Extract => "json_extract",
            Function::Exists => "json_exists",
            Function::Get => "json_get",
            Function::GetString => "json_get_string",
            Function::GetInt => "json_get_int",
            Function::GetFloat => "json_get_float",
            Function::GetBool => "json_get_bool",
            Function::ArrayContains => "json_array_contains",
            Function::ArrayLength => "json_array_length",
        }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> datafusion_common::Result<DataType> {
        Ok(match self.function {
            Function::Extract | Function::GetString => DataType::Utf8,
            Function::Exists | Function::GetBool | Function::ArrayContains => DataType::Boolean,
            Function::Get => DataType::LargeBinary,
            Function::GetInt | Function::ArrayLength => DataType::Int64,
            Function::GetFloat => DataType::Float64,
        })
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> datafusion_common::Result<ColumnarValue> {
        let constant = args.args.iter().all(|arg| matches!(arg, ColumnarValue::Scalar(_)));
        let rows = if constant { 1 } else { args.number_rows };
        let arrays = args.args.iter().map(|arg| arg.to_array(rows)).collect::<Result<Vec<_>, _>>()?;
        let types = || exec_datafusion_err!("{}: the arguments are of other types", self.name());
        let [documents, texts, rest @ ..] = arrays.as_slice() else { return Err(types()) };
        let documents = match documents.data_type() {
            DataType::LargeBinary => Arc::clone(documents),
            _ => super::columns::documents(documents)
                .map_err(|e| DataFusionError::External(Box::new(e.named(self.name(), 0))))?,
        };
        let rows = DocumentRows {
            documents: documents.as_binary_opt::<i64>().ok_or_else(types)?,
            texts: texts.as_string_opt::<i32>().ok_or_else(types)?,
        };
        let values = rest.first().and_then(|array| array.as_string_opt::<i32>());
        let made = self.make(&rows, values).map_err(|e| {
            DataFusionError::External(Box::new(Error::new(e.kind(), format!("{}: {e}", self.name()))))
        })?;
        if constant {
            ScalarValue::try_from_array(&made, 0).map(ColumnarValue::Scalar)
        } else {
            Ok(made.into())
        }
    }
}

impl JsonFunction {
    fn make(&self, rows: &DocumentRows<'_>, values: Option<&StringArray>) -> Result<ArrayRef> {
        Ok(match self.function {
            Function::Extract => {
                let texts = rows.by_path(extracted)?.into_iter().map(Option::flatten);
                Arc::new(texts.collect::<StringArray>())
            }
            Function::Exists => Arc::new(BooleanArray::from(rows.by_path(|items, _| Ok(!items.is_empty()))?)),
            Function::ArrayLength => {
                let lengths = rows.by_path(length)?.into_iter().map(Option::flatten);
                Arc::new(lengths.collect::<Int64Array>())
            }
            Function::ArrayContains => {
                let wanted =
                    |row| values.filter(|values| values.is_valid(row)).map(|values| values.value(row));
                let found =
                    rows.by_path(|items, row| wanted(row).map(|value| contains(items, value)).transpose())?;
                Arc::new(found.into_iter().map(Option::flatten).collect::<BooleanArray>())
            }
            Function::Get => rows.members()?,
            Function::GetString => Arc::new(rows.by_key(string)?.into_iter().collect::<StringArray>()),
            Function::GetInt => Arc::new(rows.by_key(int)?.into_iter().collect::<Int64Array>()),
            Function::GetFloat => Arc::new(rows.by_key(float)?.into_iter().collect::<Float64Array>()),
            Function::GetBool => Arc::new(rows.by_key(boolean)?.into_iter().collect::<BooleanArray>()),
        })
    }
}

/// The first two arguments.
struct DocumentRows<'a> {
    documents: &'a LargeBinaryArray,
    /// Paths or keys.
    texts: &'a StringArray,
}

impl<'a> DocumentRows<'a> {
    fn row(&self, row: usize) -> Option<(&'a [u8], &'a str)> {
        let given = self.documents.is_valid(row) && self.texts.is_valid(row);
        given.then(|| (self.documents.value(row), self.texts.value(row)))
    }

    /// What is made of the values that the path selects, and the row; `None` for null.
    fn by_path<T>(&self, make: impl Fn(&[Item<'_>], usize) -> Result<T>) -> Result<Vec<Option<T>>> {
        let mut parsed: Option<(&str, Selector<'a>)> = None;
        let mut made = Vec::with_capacity(self.documents.len());
        for row in 0..self.documents.len() {
            let Some((document, path)) = self.row(row) else {
                made.push(None);
                continue;
            };
            let selector = match parsed.take() {
                Some((last, selector)) if last == path => selector,
                _ => Selector::parse(path)?,
            };
            made.push(Some(selector.select(document, |items| make(items, row))?));
            parsed = Some((path, selector));
        }
        Ok(made)
    }

    /// The members or items in their binary form.
    fn members(&self) -> Result<ArrayRef> {
        let mut values = Vec::new();
        let ends = self.by_key(|item| {
            item.put(&mut values)?;
            Ok(Some(values.len()))
        })?;
        let nulls: NullBuffer = ends.iter().map(Option::is_some).collect();
        let mut end = 0;
        let ends = ends.into_iter().map(|next| {
            end = next.unwrap_or(end);
            i64::try_from(end).unwrap_or(i64::MAX)
        });
        let offsets = OffsetBuffer::new(std::iter::once(0).chain(ends).collect());
        LargeBinaryArray::try_new(offsets, values.into(), Some(nulls))
            .map(|array| Arc::new(array) as ArrayRef)
            .map_err(|e| Error::internal(format!("JSON values: {e}")))
    }

    /// What is made of the member or item; `None` for null and where there is none.
    fn by_key<T>(&self, mut make: impl FnMut(Item<'_>) -> Result<Option<T>>) -> Result<Vec<Option<T>>> {
        let mut value = |row| -> Result<Option<T>> {
            let Some((document, key)) = self.row(row) else { return Ok(None) };
            let item = match Item::of(document)?.value()? {
                Value::Object(members) => members.find(key)?,
                Value::Array(mut items) => match key.parse() {
                    Ok(at) => items.nth(at).transpose()?,
                    Err(_) => None,
                },
                _ => None,
            };
            item.map_or(Ok(None), &mut make)
        };
        (0..self.documents.len()).map(&mut value).collect()
    }
}

fn extracted(items: &[Item<'_>], _: usize) -> Result<Option<String>> {
    match items {
        [] => Ok(None),
        [only] => text::to_text(*only).map(Some),
        several => {
            let array = binary::array_of(several)?;
            text::to_text(Item::of(&array)?).map(Some)
        }
    }
}

fn length(items: &[Item<'_>], _: usize) -> Result<Option<i64>> {
    let Some(first) = items.first() else { return Ok(None) };
    match first.value()? {
        Value::Array(items) => {
            i64::try_from(items.len()).map(Some).map_err(|e| Error::corrupt(e.to_string()))
        }
        _ => Ok(Some(0)),
    }
}

fn contains(items: &[Item<'_>], wanted: &str) -> Result<bool> {
    for item in items {
        let Value::Array(items) = item.value()? else { continue };
        for item in items {
            let item = item?;
            if matches!(item.value()?, Value::String(text) if text == wanted)
                || text::to_text(item)? == wanted
            {
                return Ok(true);
            }
        }
    }
    Ok(false)
}

fn string(item: Item<'_>) -> Result<Option<String>> {
    match item.value()? {
        Value::Null => Ok(None),
        Value::String(text) => Ok(Some(text.to_owned())),
        // These have other names in JSON, where they are null.
        Value::Number(Number::Float(value)) if value.is_nan() => Ok(Some("NaN".to_owned())),
        Value::Number(Number::Float(value)) if value.is_infinite() => Ok(Some(value.to_string())),
        Value::Bool(_) | Value::Number(_) => text::to_text(item).map(Some),
        other => Err(not_converted(&other, "a string")),
    }
}

/// Rounded, away from zero where two are as near.
fn int(item: Item<'_>) -> Result<Option<i64>> {
    let rounded = |value: f64| jsonb::Number::Float64(value).to_i64();
    let value = item.value()?;
    let converted = match &value {
        Value::Null => return Ok(None),
        Value::Bool(value) => Some(i64::from(*value)),
        Value::Number(Number::Int(value)) => Some(*value),
        Value::Number(Number::Uint(value)) => i64::try_from(*value).ok(),
        Value::Number(Number::Float(value)) => rounded(*value),
        Value::String(text) => text.parse().ok().or_else(|| text.parse().ok().and_then(rounded)),
        Value::Array(_) | Value::Object(_) => None,
    };
    converted.map(Some).ok_or_else(|| not_converted(&value, "an integer"))
}

#[expect(clippy::cast_precision_loss, reason = "an integer becomes the double next to it")]
fn float(item: Item<'_>) -> Result<Option<f64>> {
    let value = item.value()?;
    let converted = match &value {
        Value::Null => return Ok(None),
        Value::Bool(value) => Some(f64::from(u8::from(*value))),
        Value::Number(Number::Int(value)) => Some(*value as f64),
        Value::Number(Number::Uint(value)) => Some(*value as f64),
        Value::Number(Number::Float(value)) => Some(*value),
        Value::String(text) => text.parse().ok(),
        Value::Array(_) | Value::Object(_) => None,
    };
    converted.map(Some).ok_or_else(|| not_converted(&value, "a float"))
}

fn boolean(item: Item<'_>) -> Result<Option<bool>> {
    let value = item.value()?;
    let is = |text: &str, words: [&str; 2]| words.into_iter().any(|word| text.eq_ignore_ascii_case(word));
    match &value {
        Value::Null => Ok(None),
        Value::Bool(value) => Ok(Some(*value)),
        Value::String(text) if is(text, ["true", "yes"]) => Ok(Some(true)),
        Value::String(text) if is(text, ["false", "no"]) => Ok(Some(false)),
        _ => Err(not_converted(&value, "a boolean")),
    }
}

fn not_converted(value: &Value<'_>, wanted: &str) -> Error {
    let found = match value {
        Value::Null => "null".to_owned(),
        Value::Bool(value) => format!("the boolean {value}"),
        Value::Number(number) => format!("the number {number:?}"),
        Value::String(text) => format!("the string {:?}", text.chars().take(40).collect::<String>()),
        Value::Array(_) => "an array".to_owned(),
        Value::Object(_) => "an object".to_owned(),
    };
    Error::invalid_input(format!("found {found}, which cannot be converted to {wanted}"))
}
