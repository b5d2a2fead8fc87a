//! Options of the encoding in the metadata of a field.
//!
//! | key | values |
//! |---|---|
//! | `lance-encoding:compression` | `zstd`, `lz4`, `fsst` (strings), `none` |
//! | `lance-encoding:compression-level` | a level of zstd |
//! | `lance-encoding:rle-threshold` | 0 to 1: runs are for pages with fewer runs than this share of the values |
//! | `lance-encoding:bss` | `on`, `off`, `auto`: byte planes before a compressor |
//! | `lance-encoding:dict-divisor` | at least 1: dictionaries have at most the number of values divided by this |
//! | `lance-encoding:dict-size-ratio` | above 0, at most 1: how large a dictionary page may be, compared with plain values |
//! | `lance-encoding:dict-values-compression` | `zstd`, `lz4`, `none`; file version 2.2 |
//! | `lance-encoding:dict-values-compression-level` | a level of zstd |
//! | `lance-encoding:structural-encoding` | `miniblock`, `fullzip` |

use std::fmt::Display;
use std::str::FromStr;

use pennon_core::file::CompressionScheme;
use pennon_core::schema::{Field, Metadata};
use pennon_core::{Error, Result};

use crate::encodings::general::encode::Compressor;

/// The prefix of every key.
const PREFIX: &str = "lance-encoding:";

/// How a field is to be stored.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct FieldOptions {
    /// What to compress with; `None` leaves the choice.
    pub compression: Option<Compression>,
    /// Share of runs among the values from which on there are no runs.
    pub runs_threshold: f64,
    /// Byte planes before a compressor; `None` leaves the choice.
    pub planes: Option<bool>,
    /// Values of a dictionary page per item at least.
    pub dictionary_divisor: usize,
    /// Size of a dictionary page at most, compared with plain values.
    pub dictionary_ratio: f64,
    /// What compresses dictionary items, where the file version allows it.
    pub items: Option<Compressor>,
    /// The requested layout.
    pub structure: Option<Structure>,
}

/// A requested compression.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Compression {
    /// Values as they are.
    None,
    /// Symbols, for strings.
    Fsst,
    /// A general compressor.
    General(Compressor),
}

/// A requested layout.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Structure {
    /// Chunks.
    MiniBlock,
    /// One value after another.
    FullZip,
}

impl Default for FieldOptions {
    fn default() -> Self {
        Self {
            compression: None,
            runs_threshold: 0.5,
            planes: None,
            dictionary_divisor: 2,
            dictionary_ratio: 0.8,
            items: Some(Compressor { scheme: CompressionScheme::Lz4, level: None }),
            structure: None,
        }
    }
}

impl FieldOptions {
    /// The options of a field. Errors: `InvalidInput` with the field's path and the key.
    pub(crate) fn of(field: &Field, path: &str) -> Result<Self> {
        let keys = Keys { metadata: &field.metadata, path };
        let defaults = Self::default();
        let level = keys.level("compression-level")?;
        let compression =
            keys.one_of("compression", &["zstd", "lz4", "fsst", "none"])?.map(|name| match name {
                "fsst" => Compression::Fsst,
                name => general(name, level).map_or(Compression::None, Compression::General),
            });
        let level = keys.level("dict-values-compression-level")?;
        let items = keys.one_of("dict-values-compression", &["zstd", "lz4", "none"])?;
        let planes = keys.one_of("bss", &["on", "off", "auto"])?;
        let structure = keys.one_of("structural-encoding", &["miniblock", "fullzip"])?;
        let share = |least: f64| move |v: &f64| (least..=1.0).contains(v);
        Ok(Self {
            compression,
            runs_threshold: keys
                .number("rle-threshold", "a number from 0 to 1", share(0.0))?
                .unwrap_or(defaults.runs_threshold),
            planes: planes.filter(|&p| p != "auto").map(|p| p == "on"),
            dictionary_divisor: keys
                .number("dict-divisor", "a whole number from 1 on", |v| *v >= 1)?
                .unwrap_or(defaults.dictionary_divisor),
            dictionary_ratio: keys
                .number("dict-size-ratio", "a number above 0 and at most 1", share(f64::MIN_POSITIVE))?
                .unwrap_or(defaults.dictionary_ratio),
            items: items.map_or(defaults.items, |name| general(name, level)),
            structure: structure.map(|s| match s {
                "miniblock" => Structure::MiniBlock,
                _ => Structure::FullZip,
            }),
        })
    }
}

fn general(name: &str, level: Option<i32>) -> Option<Compressor> {
    match name {
        "zstd" => Some(Compressor { scheme: CompressionScheme::Zstd, level }),
        "lz4" => Some(Compressor { scheme: CompressionScheme::Lz4, level: None }),
        _ => None,
    }
}

struct Keys<'a> {
    metadata: &'a Metadata,
    path: &'a str,
}

impl<'a> Keys<'a> {
    fn get(&self, key: &str) -> Option<&'a str> {
        self.metadata.get(&format!("{PREFIX}{key}")).map(String::as_str)
    }

    fn one_of(&self, key: &str, known: &[&'static str]) -> Result<Option<&'static str>> {
        let Some(found) = self.get(key) else { return Ok(None) };
        match known.iter().find(|&&name| name == found) {
            Some(name) => Ok(Some(name)),
            None => Err(self.error(key, found, known.join(", "))),
        }
    }

    fn number<T: FromStr>(
        &self,
        key: &str,
        expected: &str,
        is_valid: impl Fn(&T) -> bool,
    ) -> Result<Option<T>> {
        let Some(found) = self.get(key) else { return Ok(None) };
        match found.parse().ok().filter(is_valid) {
            Some(number) => Ok(Some(number)),
            None => Err(self.error(key, found, expected)),
        }
    }

    fn level(&self, key: &str) -> Result<Option<i32>> {
        let range = zstd::compression_level_range();
        let expected = format!("a level from {} to {}", range.start(), range.end());
        self.number(key, &expected, |level| range.contains(level))
    }

    fn error(&self, key: &str, found: &str, expected: impl Display) -> Error {
        let path = self.path;
        Error::invalid_input(format!(
            "field `{path}`: metadata `{PREFIX}{key}` is `{found}`, expected {expected}"
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow_schema::{DataType, Field as ArrowField, Schema as ArrowSchema};
    use pennon_core::ErrorKind;
    use pennon_core::schema::Schema;

    fn options(pairs: &[(&str, &str)]) -> Result<FieldOptions> {
        let metadata = pairs.iter().map(|(k, v)| (format!("{PREFIX}{k}"), (*v).to_owned())).collect();
        let field = ArrowField::new("a", DataType::Int32, true).with_metadata(metadata);
        let schema = Schema::from_arrow(&ArrowSchema::new(vec![field])).unwrap();
        FieldOptions::of(&schema.fields[0], "t.a")
    }

    #[test]
    fn every_key_is_understood() {
        assert_eq!(options(&[]).unwrap(), FieldOptions::default());
        let zstd = |level| Compressor { scheme: CompressionScheme::Zstd, level };
        let found = options(&[
            ("compression", "zstd"),
            ("compression-level", "7"),
            ("rle-threshold", "0.25"),
            ("bss", "off"),
            ("dict-divisor", "10"),
            ("dict-size-ratio", "0.5"),
            ("dict-values-compression", "zstd"),
            ("dict-values-compression-level", "-3"),
            ("structural-encoding", "fullzip"),
            ("something-else", "x"),
        ]);
        let expected = FieldOptions {
            compression: Some(Compression::General(zstd(Some(7)))),
            runs_threshold: 0.25,
            planes: Some(false),
            dictionary_divisor: 10,
            dictionary_ratio: 0.5,
            items: Some(zstd(Some(-3))),
            structure: Some(Structure::FullZip),
        };
        assert_eq!(found.unwrap(), expected);
        assert_eq!(options(&[("compression", "none")]).unwrap().compression, Some(Compression::None));
        assert_eq!(options(&[("compression", "fsst")]).unwrap().compression, Some(Compression::Fsst));
        assert_eq!(options(&[("dict-values-compression", "none")]).unwrap().items, None);
        assert_eq!(options(&[("bss", "auto")]).unwrap().planes, None);
    }

    #[test]
    fn wrong_values_name_field_and_key() {
        for (key, value) in [
            ("compression", "snappy"),
            ("compression", "ZSTD"),
            ("compression-level", "high"),
            ("compression-level", "99"),
            ("rle-threshold", "2"),
            ("rle-threshold", "NaN"),
            ("bss", "maybe"),
            ("dict-divisor", "0"),
            ("dict-divisor", "2.5"),
            ("dict-size-ratio", "0"),
            ("dict-size-ratio", "1.1"),
            ("dict-values-compression", "fsst"),
            ("dict-values-compression-level", ""),
            ("structural-encoding", "packed"),
        ] {
            let error = options(&[(key, value)]).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidInput, "{key}");
            let start = format!("field `t.a`: metadata `lance-encoding:{key}` is `{value}`, expected ");
            assert!(error.to_string().starts_with(&start), "{error}");
        }
    }
}
