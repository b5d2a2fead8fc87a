//! What the schemas of the files of an index say, as JSON in their metadata.
//!
//! | file | key | value |
//! |---|---|---|
//! | `index.idx` | `lance:index` | `{"type":"IVF_PQ","distance_type":"l2"}` |
//! | both | `lance:ivf` | the number of the global buffer with the partitions |
//! | `index.idx` | `lance:flat` or `lance:hnsw` | a list with a text for each partition |
//! | `auxiliary.idx` | `distance_type` | the metric |
//! | `auxiliary.idx` | `storage_metadata` | a list with a text, which is JSON: how vectors are stored |

use pennon_core::schema::Metadata;
use pennon_core::{Error, Result};
use serde_json::{Value, json};

use super::{Metric, VectorIndexKind};

pub(super) const INDEX: &str = "lance:index";
pub(super) const IVF: &str = "lance:ivf";
pub(super) const FLAT: &str = "lance:flat";
pub(super) const HNSW: &str = "lance:hnsw";
pub(super) const DISTANCE_TYPE: &str = "distance_type";
pub(super) const STORAGE: &str = "storage_metadata";

/// How vectors are stored.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum StorageMetadata {
    Flat { dimension: u64 },
    Product { codebook: u32, bits: u64, sub_vectors: u64, dimension: u64, transposed: bool },
    Scalar { dimension: u64, low: f64, high: f64 },
    Rabit(RabitMetadata),
}

/// How RaBitQ stores vectors.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct RabitMetadata {
    pub dimension: u64,
    pub bits: u64,
    pub packed: bool,
    /// Bits of the rotation by signs; `None` if a matrix rotates.
    pub signs: Option<Vec<u8>>,
}

/// The text of a key. Errors: `Corrupt`.
pub(super) fn text<'a>(metadata: &'a Metadata, key: &str) -> Result<&'a str> {
    let text = metadata.get(key).ok_or_else(|| Error::corrupt(format!("the schema has no `{key}`")))?;
    Ok(text.as_str())
}

/// The global buffer with the partitions.
pub(super) fn ivf_buffer(metadata: &Metadata) -> Result<u32> {
    let found = text(metadata, IVF)?;
    found
        .parse()
        .map_err(|_| Error::corrupt(format!("`{IVF}` is {found:?}, expected the number of a buffer")))
}

/// What kind of index it is, and of which metric.
pub(super) fn kind(metadata: &Metadata) -> Result<(VectorIndexKind, Metric)> {
    let value = parse(INDEX, text(metadata, INDEX)?)?;
    let member = |key: &str| {
        let found = value.get(key).and_then(Value::as_str);
        found.ok_or_else(|| Error::corrupt(format!("`{INDEX}` has no text `{key}`")))
    };
    let name = member("type")?;
    let kind = name.parse().map_err(|_| Error::unsupported(format!("a vector index of type {name:?}")))?;
    let metric = member("distance_type")?;
    let metric = metric.parse().map_err(|_| Error::unsupported(format!("a vector index by {metric:?}")))?;
    Ok((kind, metric))
}

/// The value of [`INDEX`].
pub(super) fn kind_text(kind: VectorIndexKind, metric: Metric) -> String {
    json!({"type": kind.name(), "distance_type": metric.name()}).to_string()
}

/// The texts of a list. Errors: `Corrupt`.
pub(super) fn texts(metadata: &Metadata, key: &str) -> Result<Vec<String>> {
    let value = parse(key, text(metadata, key)?)?;
    let items = value.as_array().into_iter().flatten();
    let texts: Option<Vec<String>> = items.map(|item| item.as_str().map(str::to_owned)).collect();
    texts
        .filter(|_| value.is_array())
        .ok_or_else(|| Error::corrupt(format!("`{key}` is not a list of texts")))
}

/// How vectors of a kind of index are stored. Errors: `Corrupt`; `Unsupported` for what older releases wrote.
pub(super) fn storage(metadata: &Metadata, kind: VectorIndexKind) -> Result<StorageMetadata> {
    let texts = texts(metadata, STORAGE)?;
    let [text] = texts.as_slice() else {
        return Err(Error::corrupt(format!("`{STORAGE}` has {} texts, expected 1", texts.len())));
    };
    let value = parse(STORAGE, text)?;
    let missing =
        |key: &str, what: &str| Error::corrupt(format!("`{STORAGE}` has no {what} `{key}`: {value}"));
    let count = |key: &str| value.get(key).and_then(Value::as_u64).ok_or_else(|| missing(key, "number"));
    match kind {
        VectorIndexKind::IvfFlat | VectorIndexKind::IvfHnswFlat => {
            Ok(StorageMetadata::Flat { dimension: count("dim")? })
        }
        VectorIndexKind::IvfPq | VectorIndexKind::IvfHnswPq => {
            let codebook = value.get("codebook_position").and_then(Value::as_u64);
            let codebook = codebook.and_then(|buffer| u32::try_from(buffer).ok());
            let inline = || Error::unsupported("a codebook that is not in a global buffer");
            Ok(StorageMetadata::Product {
                codebook: codebook.filter(|buffer| *buffer > 0).ok_or_else(inline)?,
                bits: count("nbits")?,
                sub_vectors: count("num_sub_vectors")?,
                dimension: count("dimension")?,
                transposed: value.get("transposed").and_then(Value::as_bool).unwrap_or(false),
            })
        }
        VectorIndexKind::IvfSq | VectorIndexKind::IvfHnswSq => {
            let bounds = value.get("bounds").ok_or_else(|| missing("bounds", "object"))?;
            let bound =
                |key: &str| bounds.get(key).and_then(Value::as_f64).ok_or_else(|| missing(key, "bound"));
            let (low, high) = (bound("start")?, bound("end")?);
            if !(low.is_finite() && high.is_finite() && low <= high) {
                return Err(Error::corrupt(format!("`{STORAGE}` has the bounds {low} and {high}")));
            }
            Ok(StorageMetadata::Scalar { dimension: count("dim")?, low, high })
        }
        VectorIndexKind::IvfRq => {
            let signs = value.get("fast_rotation_signs").and_then(Value::as_array);
            let byte = |value: &Value| value.as_u64().and_then(|byte| u8::try_from(byte).ok());
            let signs: Option<Vec<u8>> = signs.and_then(|signs| signs.iter().map(byte).collect());
            Ok(StorageMetadata::Rabit(RabitMetadata {
                dimension: count("code_dim")?,
                bits: count("num_bits")?,
                packed: value.get("packed").and_then(Value::as_bool).unwrap_or(false),
                signs,
            }))
        }
    }
}

impl StorageMetadata {
    /// The value of [`STORAGE`]; what is read and never written gives an empty list.
    pub(super) fn to_text(&self) -> String {
        let value = match self {
            Self::Flat { dimension } => json!({"dim": dimension}),
            Self::Product { codebook, bits, sub_vectors, dimension, transposed } => json!({
                "codebook_position": codebook,
                "nbits": bits,
                "num_sub_vectors": sub_vectors,
                "dimension": dimension,
                "codebook_tensor": [],
                "transposed": transposed,
            }),
            Self::Scalar { dimension, low, high } => {
                json!({"dim": dimension, "num_bits": 8, "bounds": {"start": low, "end": high}})
            }
            Self::Rabit(_) => return "[]".to_owned(),
        };
        json!([value.to_string()]).to_string()
    }
}

fn parse(key: &str, text: &str) -> Result<Value> {
    serde_json::from_str(text).map_err(|e| Error::corrupt(format!("`{key}` is not JSON: {e}")).with_source(e))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn metadata(key: &str, value: &str) -> Metadata {
        Metadata::from([(key.to_owned(), value.to_owned())])
    }

    #[test]
    fn storage_round_trip() {
        let product = StorageMetadata::Product {
            codebook: 2,
            bits: 4,
            sub_vectors: 8,
            dimension: 16,
            transposed: true,
        };
        let cases = [
            (VectorIndexKind::IvfFlat, StorageMetadata::Flat { dimension: 3 }),
            (VectorIndexKind::IvfHnswPq, product),
            (VectorIndexKind::IvfSq, StorageMetadata::Scalar { dimension: 5, low: -0.25, high: 1e-9 }),
        ];
        for (kind, written) in cases {
            assert_eq!(storage(&metadata(STORAGE, &written.to_text()), kind).unwrap(), written);
        }
    }

    #[test]
    fn what_the_reference_writes() {
        let found = kind(&metadata(INDEX, r#"{"type":"IVF_HNSW_SQ","distance_type":"Cosine"}"#)).unwrap();
        assert_eq!(found, (VectorIndexKind::IvfHnswSq, Metric::Cosine));
        let rabit = r#"["{\"rotate_mat_position\":null,\"fast_rotation_signs\":[1,255],\"rotation_type\":\"fast\",\"code_dim\":16,\"num_bits\":5,\"packed\":true}"]"#;
        let expected = RabitMetadata { dimension: 16, bits: 5, packed: true, signs: Some(vec![1, 255]) };
        let found = storage(&metadata(STORAGE, rabit), VectorIndexKind::IvfRq).unwrap();
        assert_eq!(found, StorageMetadata::Rabit(expected));
    }

    #[test]
    fn damaged_metadata_says_which() {
        let error = |result: Result<StorageMetadata>| result.unwrap_err().to_string();
        let of = |text: &str, kind| error(storage(&metadata(STORAGE, text), kind));
        let (flat, scalar) = (VectorIndexKind::IvfFlat, VectorIndexKind::IvfSq);
        assert!(error(storage(&Metadata::new(), flat)).contains("has no `storage_metadata`"));
        assert!(of("[", flat).contains("not JSON"));
        assert!(of("{}", flat).contains("not a list of texts"));
        assert!(of("[]", flat).contains("0 texts, expected 1"));
        assert!(of(r#"["{}"]"#, flat).contains("no number `dim`"));
        assert!(of(r#"["{\"bounds\":{\"start\":1,\"end\":0}}"]"#, scalar).contains("the bounds 1 and 0"));
        let unknown = kind(&metadata(INDEX, r#"{"type":"IVF_X","distance_type":"l2"}"#)).unwrap_err();
        assert_eq!(unknown.kind(), pennon_core::ErrorKind::Unsupported);
        assert!(ivf_buffer(&metadata(IVF, "x")).unwrap_err().to_string().contains("number of a buffer"));
    }
}
