//! What an index entry says of an index over vectors: `lance.index.pb.VectorIndexDetails`.

use bytes::Bytes;
use prost::Message;

use super::decode_message;
use crate::Result;

/// The part of the message that queries need.
#[derive(Clone, PartialEq, Message)]
struct VectorIndexDetails {
    /// 0 for l2, 1 for cosine, 2 for dot, 3 for hamming.
    #[prost(uint32, tag = "1")]
    metric: u32,
}

/// The number of the metric that an index over vectors was built with; `None` if its details say nothing. Errors: `Corrupt`
/// for bytes that are no such message.
pub fn metric_number(details: &Bytes) -> Result<Option<u32>> {
    if details.is_empty() {
        return Ok(None);
    }
    let details: VectorIndexDetails = decode_message("details of a vector index", details.clone())?;
    Ok(Some(details.metric))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn details_without_a_metric() {
        assert_eq!(metric_number(&Bytes::new()).unwrap(), None);
        assert_eq!(metric_number(&Bytes::from_static(&[0x42, 0])).unwrap(), Some(0));
        assert_eq!(metric_number(&Bytes::from_static(&[8, 1, 0x42, 0])).unwrap(), Some(1));
        assert!(metric_number(&Bytes::from_static(&[8])).is_err());
    }
}
