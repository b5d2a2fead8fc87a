//! Messages of indices over vectors: the details of an index entry, and what the files say of partitions.
//!
//! | message | in |
//! |---|---|
//! | `lance.index.pb.VectorIndexDetails` | index entries |
//! | `lance.index.pb.IVF` with a `Tensor` | a global buffer of `index.idx`, and without centroids one of `auxiliary.idx` |
//! | `lance.index.pb.Tensor` | a global buffer of `auxiliary.idx`: the codebook of product quantization |
//!
//! A tensor has exactly the bytes of its shape.

use std::collections::BTreeMap;

use bytes::Bytes;
use prost::Message;

use super::decode_message;
use crate::{Error, Result};

/// The type of the details of an index over vectors.
pub const DETAILS_TYPE: &str = "/lance.index.pb.VectorIndexDetails";

/// What an index entry says of an index over vectors.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct VectorIndexDetails {
    /// 0 for l2, 1 for cosine, 2 for dot, 3 for hamming.
    pub metric: u32,
    /// Rows of a partition that were aimed at, if given; 0 if not.
    pub target_partition_size: u64,
    /// The graph of each partition, if there are graphs.
    pub hnsw: Option<HnswDetails>,
    /// How vectors are stored; `None` if not recorded.
    pub storage: Option<StorageDetails>,
    /// How the index was built.
    pub runtime_hints: BTreeMap<String, String>,
}

/// How a graph was built.
#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub struct HnswDetails {
    /// Neighbours of a node on upper levels.
    #[prost(uint32, tag = "1")]
    pub m: u32,
    /// Candidates during construction.
    #[prost(uint32, tag = "2")]
    pub ef_construction: u32,
    /// Levels at most.
    #[prost(uint32, tag = "3")]
    pub max_level: u32,
}

/// How vectors are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StorageDetails {
    /// As they are.
    Flat,
    /// Product quantization.
    Product {
        /// Bits of a code.
        num_bits: u32,
        /// Codes of a vector.
        num_sub_vectors: u32,
    },
    /// Scalar quantization.
    Scalar {
        /// Bits of a code.
        num_bits: u32,
    },
    /// RaBitQ.
    Rabit {
        /// Bits of a dimension.
        num_bits: u32,
    },
}

impl VectorIndexDetails {
    /// Decodes details. Errors: `Corrupt` for bytes that are no such message.
    pub fn decode(bytes: &Bytes) -> Result<Self> {
        let wire: WireDetails = decode_message("details of a vector index", bytes.clone())?;
        let product = wire
            .pq
            .map(|pq| StorageDetails::Product { num_bits: pq.num_bits, num_sub_vectors: pq.num_sub_vectors });
        let scalar = wire.sq.map(|bits| StorageDetails::Scalar { num_bits: bits.num_bits });
        let rabit = wire.rq.map(|bits| StorageDetails::Rabit { num_bits: bits.num_bits });
        let flat = wire.flat.map(|_| StorageDetails::Flat);
        Ok(Self {
            metric: wire.metric,
            target_partition_size: wire.target_partition_size,
            hnsw: wire.hnsw,
            storage: product.or(scalar).or(rabit).or(flat),
            runtime_hints: wire.runtime_hints,
        })
    }

    /// Encodes them.
    pub fn encode(&self) -> Bytes {
        let mut wire = WireDetails {
            metric: self.metric,
            target_partition_size: self.target_partition_size,
            hnsw: self.hnsw,
            runtime_hints: self.runtime_hints.clone(),
            ..WireDetails::default()
        };
        match self.storage {
            Some(StorageDetails::Flat) => wire.flat = Some(WireFlat {}),
            Some(StorageDetails::Product { num_bits, num_sub_vectors }) => {
                wire.pq = Some(WireProduct { num_bits, num_sub_vectors });
            }
            Some(StorageDetails::Scalar { num_bits }) => wire.sq = Some(WireBits { num_bits }),
            Some(StorageDetails::Rabit { num_bits }) => wire.rq = Some(WireBits { num_bits }),
            None => {}
        }
        wire.encode_to_vec().into()
    }
}

/// The number of the metric that an index over vectors was built with; `None` if its details say nothing. Errors: `Corrupt`
/// for bytes that are no such message.
pub fn metric_number(details: &Bytes) -> Result<Option<u32>> {
    if details.is_empty() {
        return Ok(None);
    }
    Ok(Some(VectorIndexDetails::decode(details)?.metric))
}

/// The number of the metric in the message at the end of a file of the old form, one file for a whole index; `None` if the
/// message is not of an index over vectors. Errors: `Corrupt`.
pub fn old_form_metric(message: Bytes) -> Result<Option<u32>> {
    let found: WireOldForm = decode_message("index of the old form", message)?;
    Ok(found.vectors.map(|vectors| vectors.metric))
}

/// The partitions of a file, and what they are around.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct IvfMessage {
    /// The first row of each partition.
    pub offsets: Vec<u64>,
    /// The rows of each partition.
    pub lengths: Vec<u32>,
    /// The centroid of each partition.
    pub centroids: Option<Tensor>,
    /// The sum of distances to centroids in the training data.
    pub loss: Option<f64>,
}

impl IvfMessage {
    /// Decodes the message. Errors: `Corrupt` for bytes that are no such message, and for centroids without the bytes
    /// of their shape.
    pub fn decode(bytes: Bytes) -> Result<Self> {
        let wire: WireIvf = decode_message("IVF message", bytes)?;
        let centroids = wire.centroids_tensor.map(Tensor::try_from).transpose();
        Ok(Self {
            offsets: wire.offsets,
            lengths: wire.lengths,
            centroids: centroids.map_err(|e| e.at("centroids"))?,
            loss: wire.loss,
        })
    }

    /// Encodes the message.
    pub fn encode(&self) -> Vec<u8> {
        let wire = WireIvf {
            offsets: self.offsets.clone(),
            lengths: self.lengths.clone(),
            centroids_tensor: self.centroids.as_ref().map(Tensor::to_wire),
            loss: self.loss,
        };
        wire.encode_to_vec()
    }
}

/// The type of the elements of a tensor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TensorType {
    /// The upper half of a 32-bit float.
    BFloat16,
    /// Float of 16 bits.
    Float16,
    /// Float of 32 bits.
    Float32,
    /// Float of 64 bits.
    Float64,
    /// Unsigned integer of 8 bits.
    UInt8,
    /// Unsigned integer of 16 bits.
    UInt16,
    /// Unsigned integer of 32 bits.
    UInt32,
    /// Unsigned integer of 64 bits.
    UInt64,
}

/// By their numbers in messages, with their bytes.
const TENSOR_TYPES: [(TensorType, usize); 8] = [
    (TensorType::BFloat16, 2),
    (TensorType::Float16, 2),
    (TensorType::Float32, 4),
    (TensorType::Float64, 8),
    (TensorType::UInt8, 1),
    (TensorType::UInt16, 2),
    (TensorType::UInt32, 4),
    (TensorType::UInt64, 8),
];

impl TensorType {
    /// Bytes of an element.
    pub fn width(self) -> usize {
        TENSOR_TYPES.iter().find(|(kind, _)| *kind == self).map_or(1, |(_, width)| *width)
    }
}

/// Numbers in rows and columns, or more dimensions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tensor {
    element: TensorType,
    shape: Vec<u32>,
    data: Bytes,
}

impl Tensor {
    /// A tensor of little-endian elements, the last dimension first. Errors: `Corrupt` unless the data has the bytes of the
    /// shape.
    pub fn try_new(element: TensorType, shape: Vec<u32>, data: Bytes) -> Result<Self> {
        let size =
            shape.iter().try_fold(element.width() as u64, |size, len| size.checked_mul(u64::from(*len)));
        if size != Some(data.len() as u64) {
            return Err(Error::corrupt(format!(
                "a tensor of the shape {shape:?} has {} bytes of {element:?}",
                data.len()
            )));
        }
        Ok(Self { element, shape, data })
    }

    /// Decodes a message. Errors: `Corrupt` for bytes that are no such message, and for data without the bytes of the shape.
    pub fn decode(bytes: Bytes) -> Result<Self> {
        decode_message::<WireTensor>("tensor", bytes)?.try_into()
    }

    /// Encodes the message.
    pub fn encode(&self) -> Vec<u8> {
        self.to_wire().encode_to_vec()
    }

    /// Type of the elements.
    pub fn element(&self) -> TensorType {
        self.element
    }

    /// Elements of each dimension.
    pub fn shape(&self) -> &[u32] {
        &self.shape
    }

    /// The elements, little-endian, the last dimension first.
    pub fn data(&self) -> &Bytes {
        &self.data
    }

    fn to_wire(&self) -> WireTensor {
        let number = (0..).zip(TENSOR_TYPES).find(|(_, (kind, _))| *kind == self.element);
        WireTensor {
            data_type: number.map_or(0, |(number, _)| number),
            shape: self.shape.clone(),
            data: self.data.clone(),
        }
    }
}

impl TryFrom<WireTensor> for Tensor {
    type Error = Error;

    fn try_from(wire: WireTensor) -> Result<Self> {
        let found = usize::try_from(wire.data_type).ok().and_then(|number| TENSOR_TYPES.get(number));
        let (element, _) = found
            .ok_or_else(|| Error::corrupt(format!("a tensor has elements of type {}", wire.data_type)))?;
        Self::try_new(*element, wire.shape, wire.data)
    }
}

#[derive(Clone, PartialEq, Message)]
struct WireDetails {
    #[prost(uint32, tag = "1")]
    metric: u32,
    #[prost(uint64, tag = "2")]
    target_partition_size: u64,
    #[prost(message, optional, tag = "3")]
    hnsw: Option<HnswDetails>,
    #[prost(message, optional, tag = "4")]
    pq: Option<WireProduct>,
    #[prost(message, optional, tag = "5")]
    sq: Option<WireBits>,
    #[prost(message, optional, tag = "6")]
    rq: Option<WireBits>,
    #[prost(message, optional, tag = "8")]
    flat: Option<WireFlat>,
    #[prost(btree_map = "string, string", tag = "9")]
    runtime_hints: BTreeMap<String, String>,
}

#[derive(Clone, Copy, PartialEq, Message)]
struct WireProduct {
    #[prost(uint32, tag = "1")]
    num_bits: u32,
    #[prost(uint32, tag = "2")]
    num_sub_vectors: u32,
}

#[derive(Clone, Copy, PartialEq, Message)]
struct WireBits {
    #[prost(uint32, tag = "1")]
    num_bits: u32,
}

#[derive(Clone, Copy, PartialEq, Message)]
struct WireFlat {}

/// `lance.index.pb.Index`, of which the metric is wanted.
#[derive(Clone, Copy, PartialEq, Message)]
struct WireOldForm {
    #[prost(message, optional, tag = "5")]
    vectors: Option<WireOldVectors>,
}

#[derive(Clone, Copy, PartialEq, Message)]
struct WireOldVectors {
    #[prost(uint32, tag = "4")]
    metric: u32,
}

#[derive(Clone, PartialEq, Message)]
struct WireIvf {
    #[prost(uint64, repeated, tag = "2")]
    offsets: Vec<u64>,
    #[prost(uint32, repeated, tag = "3")]
    lengths: Vec<u32>,
    #[prost(message, optional, tag = "4")]
    centroids_tensor: Option<WireTensor>,
    #[prost(double, optional, tag = "5")]
    loss: Option<f64>,
}

#[derive(Clone, PartialEq, Message)]
struct WireTensor {
    #[prost(int32, tag = "1")]
    data_type: i32,
    #[prost(uint32, repeated, tag = "2")]
    shape: Vec<u32>,
    #[prost(bytes = "bytes", tag = "3")]
    data: Bytes,
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn details_without_a_metric() {
        assert_eq!(metric_number(&Bytes::new()).unwrap(), None);
        assert_eq!(metric_number(&Bytes::from_static(&[0x42, 0])).unwrap(), Some(0));
        assert_eq!(metric_number(&Bytes::from_static(&[8, 1, 0x42, 0])).unwrap(), Some(1));
        assert!(metric_number(&Bytes::from_static(&[8])).is_err());
    }

    #[test]
    fn the_metric_of_the_old_form() {
        let message = |bytes: &'static [u8]| old_form_metric(Bytes::from_static(bytes));
        assert_eq!(message(&[10, 1, b'v', 0x2a, 4, 8, 1, 32, 1]).unwrap(), Some(1));
        assert_eq!(message(&[10, 1, b'v', 0x2a, 2, 8, 1]).unwrap(), Some(0), "l2 is the default");
        assert_eq!(message(&[10, 1, b'v']).unwrap(), None);
        assert!(message(&[10, 5, b'v']).is_err());
    }

    #[test]
    fn details_are_what_the_reference_writes() {
        let flat = VectorIndexDetails { storage: Some(StorageDetails::Flat), ..Default::default() };
        assert_eq!(flat.encode(), Bytes::from_static(&[0x42, 0]));
        let product = VectorIndexDetails {
            metric: 1,
            storage: Some(StorageDetails::Product { num_bits: 8, num_sub_vectors: 16 }),
            runtime_hints: BTreeMap::from([("a".to_owned(), "b".to_owned())]),
            ..Default::default()
        };
        let bytes = [8, 1, 0x22, 4, 8, 8, 16, 16, 0x4a, 6, 10, 1, b'a', 18, 1, b'b'];
        assert_eq!(product.encode(), Bytes::copy_from_slice(&bytes));
        for details in [flat, product] {
            assert_eq!(VectorIndexDetails::decode(&details.encode()).unwrap(), details);
        }
    }

    #[test]
    fn tensors_of_other_sizes_are_corrupt() {
        let tensor = |shape: &[u32], bytes: usize| {
            Tensor::try_new(TensorType::Float32, shape.to_vec(), vec![0; bytes].into())
        };
        assert!(tensor(&[2, 3], 24).is_ok());
        assert!(tensor(&[2, 3], 23).unwrap_err().to_string().contains("[2, 3] has 23 bytes of Float32"));
        assert!(tensor(&[u32::MAX, u32::MAX, u32::MAX], 24).is_err());
        let unknown = Tensor::decode(Bytes::from_static(&[8, 9])).unwrap_err();
        assert!(unknown.to_string().contains("elements of type 9"), "{unknown}");
    }

    fn any_details() -> impl Strategy<Value = VectorIndexDetails> {
        let storage = prop_oneof![
            Just(StorageDetails::Flat),
            (any::<u32>(), any::<u32>()).prop_map(|(num_bits, num_sub_vectors)| StorageDetails::Product {
                num_bits,
                num_sub_vectors
            }),
            any::<u32>().prop_map(|num_bits| StorageDetails::Scalar { num_bits }),
            any::<u32>().prop_map(|num_bits| StorageDetails::Rabit { num_bits }),
        ];
        let hnsw = any::<[u32; 3]>().prop_map(|[m, ef_construction, max_level]| HnswDetails {
            m,
            ef_construction,
            max_level,
        });
        let hints = prop::collection::btree_map("[a-z.]{0,9}", "[a-z0-9]{0,5}", 0..4);
        (any::<u32>(), any::<u64>(), prop::option::of(hnsw), prop::option::of(storage), hints).prop_map(
            |(metric, target_partition_size, hnsw, storage, runtime_hints)| VectorIndexDetails {
                metric,
                target_partition_size,
                hnsw,
                storage,
                runtime_hints,
            },
        )
    }

    proptest! {
        #[test]
        fn details_round_trip(details in any_details()) {
            prop_assert_eq!(VectorIndexDetails::decode(&details.encode()).unwrap(), details);
        }

        #[test]
        fn partitions_round_trip(
            rows in prop::collection::vec((any::<u64>(), any::<u32>()), 0..9),
            kind in prop::sample::select(TENSOR_TYPES.to_vec()),
            shape in prop::collection::vec(0_u32..5, 1..3),
            loss in prop::option::of(any::<f64>().prop_filter("is equal to itself", |v| !v.is_nan())),
        ) {
            let (offsets, lengths) = rows.into_iter().unzip();
            let size = shape.iter().product::<u32>() as usize * kind.1;
            let centroids = Tensor::try_new(kind.0, shape, vec![7; size].into()).unwrap();
            prop_assert_eq!(&Tensor::decode(centroids.encode().into()).unwrap(), &centroids);
            let message = IvfMessage { offsets, lengths, centroids: Some(centroids), loss };
            prop_assert_eq!(IvfMessage::decode(message.encode().into()).unwrap(), message);
        }

        #[test]
        fn any_bytes_are_a_message_or_corrupt(bytes in prop::collection::vec(any::<u8>(), 0..60)) {
            let bytes = Bytes::from(bytes);
            drop((VectorIndexDetails::decode(&bytes), IvfMessage::decode(bytes.clone()), Tensor::decode(bytes)));
        }
    }
}
