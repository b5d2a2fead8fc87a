//! Logical types and their wire text (table format 3.3).
//!
//! | text | type |
//! |---|---|
//! | `int64`, `halffloat`, `date32:day`, `duration:us` ... | the whole text names the type, see [`NAMED`] |
//! | `fixed_size_binary:<n>` | bytes of one width |
//! | `timestamp:<unit>:<zone>` | `-` for no zone; the zone may contain colons |
//! | `decimal:<128 or 256>:<precision>:<scale>` | the scale may be negative |
//! | `fixed_size_list:<item>:<n>` | the item's text may contain colons |
//! | `dict:<value>:<index>:<ordered>` | the value's text may contain colons |
//!
//! Text and value correspond one to one for every type this release writes: parsing what [`Display`](fmt::Display)
//! gives yields the same type.

use std::fmt;
use std::str::FromStr;

use arrow_schema::DataType;
/// Unit of times, timestamps and durations.
pub use arrow_schema::TimeUnit;

use crate::{Error, Result};

/// Fixed-size lists nested deeper than this are refused.
const MAX_LIST_DEPTH: u32 = 8;

/// Type of a field, without the children that lists, structs and maps have as fields of their own.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum LogicalType {
    /// No values, only nulls.
    Null,
    /// True or false.
    Bool,
    /// Signed 8 bits.
    Int8,
    /// Signed 16 bits.
    Int16,
    /// Signed 32 bits.
    Int32,
    /// Signed 64 bits.
    Int64,
    /// Unsigned 8 bits.
    UInt8,
    /// Unsigned 16 bits.
    UInt16,
    /// Unsigned 32 bits.
    UInt32,
    /// Unsigned 64 bits.
    UInt64,
    /// Half precision, `halffloat`.
    Float16,
    /// Single precision, `float`.
    Float32,
    /// Double precision, `double`.
    Float64,
    /// Text with 32-bit offsets, `string`.
    Utf8,
    /// Text with 64-bit offsets, `large_string`.
    LargeUtf8,
    /// Bytes with 32-bit offsets.
    Binary,
    /// Bytes with 64-bit offsets.
    LargeBinary,
    /// Bytes of one width, not negative.
    FixedSizeBinary(i32),
    /// Days since 1970-01-01.
    Date32,
    /// Milliseconds since 1970-01-01.
    Date64,
    /// Time of day in seconds or milliseconds.
    Time32(TimeUnit),
    /// Time of day in microseconds or nanoseconds.
    Time64(TimeUnit),
    /// Point in time, with the name of a zone or without.
    Timestamp(TimeUnit, Option<String>),
    /// Span of time.
    Duration(TimeUnit),
    /// Decimal of 128 bits: precision (1 to 38) and scale.
    Decimal128(u8, i8),
    /// Decimal of 256 bits: precision (1 to 76) and scale.
    Decimal256(u8, i8),
    /// List with 32-bit offsets of anything but structs.
    List,
    /// List with 32-bit offsets of structs.
    ListStruct,
    /// List with 64-bit offsets of anything but structs.
    LargeList,
    /// List with 64-bit offsets of structs.
    LargeListStruct,
    /// Lists of one length, at least 1. The item is a type without children, another fixed-size list of such, or
    /// a struct; only with a struct the field has a child.
    FixedSizeList(Box<LogicalType>, i32),
    /// Struct.
    Struct,
    /// Map: one child, a struct that is not null, with a key that is not null and a value.
    Map,
    /// Dictionary-encoded values; the ordered flag is not kept.
    Dictionary {
        /// Type of the values, one without children.
        value: Box<LogicalType>,
        /// Type of the indices, an integer.
        index: Box<LogicalType>,
    },
    /// JSON in its binary form (JSONB), bytes with 64-bit offsets.
    Json,
}

/// The types whose wire text is one word.
const NAMED: [(&str, LogicalType); 34] = [
    ("null", LogicalType::Null),
    ("bool", LogicalType::Bool),
    ("int8", LogicalType::Int8),
    ("int16", LogicalType::Int16),
    ("int32", LogicalType::Int32),
    ("int64", LogicalType::Int64),
    ("uint8", LogicalType::UInt8),
    ("uint16", LogicalType::UInt16),
    ("uint32", LogicalType::UInt32),
    ("uint64", LogicalType::UInt64),
    ("halffloat", LogicalType::Float16),
    ("float", LogicalType::Float32),
    ("double", LogicalType::Float64),
    ("string", LogicalType::Utf8),
    ("large_string", LogicalType::LargeUtf8),
    ("binary", LogicalType::Binary),
    ("large_binary", LogicalType::LargeBinary),
    ("date32:day", LogicalType::Date32),
    ("date64:ms", LogicalType::Date64),
    ("time32:s", LogicalType::Time32(TimeUnit::Second)),
    ("time32:ms", LogicalType::Time32(TimeUnit::Millisecond)),
    ("time64:us", LogicalType::Time64(TimeUnit::Microsecond)),
    ("time64:ns", LogicalType::Time64(TimeUnit::Nanosecond)),
    ("duration:s", LogicalType::Duration(TimeUnit::Second)),
    ("duration:ms", LogicalType::Duration(TimeUnit::Millisecond)),
    ("duration:us", LogicalType::Duration(TimeUnit::Microsecond)),
    ("duration:ns", LogicalType::Duration(TimeUnit::Nanosecond)),
    ("list", LogicalType::List),
    ("list.struct", LogicalType::ListStruct),
    ("large_list", LogicalType::LargeList),
    ("large_list.struct", LogicalType::LargeListStruct),
    ("struct", LogicalType::Struct),
    ("map", LogicalType::Map),
    ("json", LogicalType::Json),
];

impl LogicalType {
    /// The Arrow type, `None` if it depends on child fields (lists, structs, maps).
    pub fn leaf_data_type(&self) -> Option<DataType> {
        Some(match self {
            Self::Null => DataType::Null,
            Self::Bool => DataType::Boolean,
            Self::Int8 => DataType::Int8,
            Self::Int16 => DataType::Int16,
            Self::Int32 => DataType::Int32,
            Self::Int64 => DataType::Int64,
            Self::UInt8 => DataType::UInt8,
            Self::UInt16 => DataType::UInt16,
            Self::UInt32 => DataType::UInt32,
            Self::UInt64 => DataType::UInt64,
            Self::Float16 => DataType::Float16,
            Self::Float32 => DataType::Float32,
            Self::Float64 => DataType::Float64,
            Self::Utf8 => DataType::Utf8,
            Self::LargeUtf8 => DataType::LargeUtf8,
            Self::Binary => DataType::Binary,
            Self::LargeBinary | Self::Json => DataType::LargeBinary,
            Self::FixedSizeBinary(width) => DataType::FixedSizeBinary(*width),
            Self::Date32 => DataType::Date32,
            Self::Date64 => DataType::Date64,
            Self::Time32(unit) => DataType::Time32(*unit),
            Self::Time64(unit) => DataType::Time64(*unit),
            Self::Timestamp(unit, zone) => DataType::Timestamp(*unit, zone.as_deref().map(Into::into)),
            Self::Duration(unit) => DataType::Duration(*unit),
            Self::Decimal128(precision, scale) => DataType::Decimal128(*precision, *scale),
            Self::Decimal256(precision, scale) => DataType::Decimal256(*precision, *scale),
            Self::FixedSizeList(item, size) => {
                DataType::new_fixed_size_list(item.leaf_data_type()?, *size, true)
            }
            Self::Dictionary { value, index } => {
                DataType::Dictionary(Box::new(index.leaf_data_type()?), Box::new(value.leaf_data_type()?))
            }
            Self::List
            | Self::ListStruct
            | Self::LargeList
            | Self::LargeListStruct
            | Self::Struct
            | Self::Map => return None,
        })
    }

    /// Whether the type is one of the integers, which dictionary indices must be.
    pub fn is_integer(&self) -> bool {
        matches!(
            self,
            Self::Int8
                | Self::Int16
                | Self::Int32
                | Self::Int64
                | Self::UInt8
                | Self::UInt16
                | Self::UInt32
                | Self::UInt64
        )
    }

    /// Checks the rules that hold inside one type, without its children; the error says what is wrong.
    pub(super) fn check(&self) -> Result<(), String> {
        let decimal = |precision: u8, scale: i8, most: u8| {
            let scale_fits = u8::try_from(scale).is_ok_and(|s| s <= precision) || scale < 0;
            if (1..=most).contains(&precision) && scale_fits {
                return Ok(());
            }
            Err(format!("precision {precision} with scale {scale}; at most {most} digits are possible"))
        };
        match self {
            Self::Decimal128(precision, scale) => decimal(*precision, *scale, 38),
            Self::Decimal256(precision, scale) => decimal(*precision, *scale, 76),
            Self::FixedSizeBinary(width) if *width < 0 => Err(format!("width {width} is negative")),
            Self::FixedSizeList(item, size) => {
                if *size < 1 {
                    return Err(format!("list size {size}; it must be at least 1"));
                }
                if item.leaf_data_type().is_none() && **item != Self::Struct {
                    return Err(format!("items of type {item} are not possible in a fixed-size list"));
                }
                item.check()
            }
            Self::Dictionary { value, index } => {
                if !index.is_integer() {
                    return Err(format!("dictionary indices of type {index}; they must be integers"));
                }
                if value.leaf_data_type().is_none()
                    || matches!(**value, Self::FixedSizeList(..) | Self::Dictionary { .. })
                {
                    return Err(format!("dictionary values of type {value} are not possible"));
                }
                value.check()
            }
            _ => Ok(()),
        }
    }
}

impl fmt::Display for LogicalType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::FixedSizeBinary(width) => write!(f, "fixed_size_binary:{width}"),
            Self::Timestamp(unit, zone) => {
                write!(f, "timestamp:{}:{}", unit_text(*unit), zone.as_deref().unwrap_or("-"))
            }
            Self::Decimal128(precision, scale) => write!(f, "decimal:128:{precision}:{scale}"),
            Self::Decimal256(precision, scale) => write!(f, "decimal:256:{precision}:{scale}"),
            Self::FixedSizeList(item, size) => write!(f, "fixed_size_list:{item}:{size}"),
            Self::Dictionary { value, index } => write!(f, "dict:{value}:{index}:false"),
            Self::Time32(unit) => write!(f, "time32:{}", unit_text(*unit)),
            Self::Time64(unit) => write!(f, "time64:{}", unit_text(*unit)),
            Self::Duration(unit) => write!(f, "duration:{}", unit_text(*unit)),
            named => match NAMED.iter().find(|(_, t)| t == named) {
                Some((text, _)) => f.write_str(text),
                None => write!(f, "{named:?}"),
            },
        }
    }
}

impl FromStr for LogicalType {
    type Err = Error;

    /// Parses the wire text. `Unsupported` for a type this release does not know, `Corrupt` for a known type
    /// whose parameters are impossible.
    fn from_str(text: &str) -> Result<Self> {
        let parsed = parse(text, 0)?;
        parsed
            .check()
            .map_err(|problem| Error::corrupt(format!("logical type `{}`: {problem}", shortened(text))))?;
        Ok(parsed)
    }
}

fn parse(text: &str, depth: u32) -> Result<LogicalType> {
    if let Some((_, named)) = NAMED.iter().find(|(name, _)| *name == text) {
        return Ok(named.clone());
    }
    let unknown = || Error::unsupported(format!("logical type `{}` is not known", shortened(text)));
    let malformed = || Error::corrupt(format!("logical type `{}` is malformed", shortened(text)));
    let (head, rest) = text.split_once(':').ok_or_else(unknown)?;
    match head {
        "fixed_size_binary" => Ok(LogicalType::FixedSizeBinary(number(rest).ok_or_else(malformed)?)),
        "timestamp" => {
            let (unit, zone) = rest.split_once(':').unwrap_or((rest, "-"));
            let zone = (zone != "-").then(|| zone.to_owned());
            Ok(LogicalType::Timestamp(parse_unit(unit).ok_or_else(malformed)?, zone))
        }
        "decimal" => {
            let mut parts = rest.split(':');
            let bits = parts.next().ok_or_else(malformed)?;
            let precision = parts.next().and_then(number).ok_or_else(malformed)?;
            let scale = parts.next().and_then(number).ok_or_else(malformed)?;
            match (bits, parts.next()) {
                ("128", None) => Ok(LogicalType::Decimal128(precision, scale)),
                ("256", None) => Ok(LogicalType::Decimal256(precision, scale)),
                (_, None) => Err(unknown()),
                _ => Err(malformed()),
            }
        }
        "fixed_size_list" if depth < MAX_LIST_DEPTH => {
            let (item, size) = rest.rsplit_once(':').ok_or_else(malformed)?;
            let item = Box::new(parse(item, depth + 1)?);
            Ok(LogicalType::FixedSizeList(item, number(size).ok_or_else(malformed)?))
        }
        "dict" if depth < MAX_LIST_DEPTH => {
            let (rest, ordered) = rest.rsplit_once(':').ok_or_else(malformed)?;
            let (value, index) = rest.rsplit_once(':').ok_or_else(malformed)?;
            if !matches!(ordered, "true" | "false") {
                return Err(malformed());
            }
            let (value, index) = (Box::new(parse(value, depth + 1)?), Box::new(parse(index, depth + 1)?));
            Ok(LogicalType::Dictionary { value, index })
        }
        _ => Err(unknown()),
    }
}

/// A decimal number without anything [`str::parse`] allows beyond digits and a minus.
fn number<N: FromStr>(text: &str) -> Option<N> {
    if text.starts_with('+') { None } else { text.parse().ok() }
}

fn unit_text(unit: TimeUnit) -> &'static str {
    match unit {
        TimeUnit::Second => "s",
        TimeUnit::Millisecond => "ms",
        TimeUnit::Microsecond => "us",
        TimeUnit::Nanosecond => "ns",
    }
}

fn parse_unit(text: &str) -> Option<TimeUnit> {
    Some(match text {
        "s" => TimeUnit::Second,
        "ms" => TimeUnit::Millisecond,
        "us" => TimeUnit::Microsecond,
        "ns" => TimeUnit::Nanosecond,
        _ => return None,
    })
}

/// The first characters of a text for an error message.
fn shortened(text: &str) -> String {
    text.chars().take(80).collect()
}
