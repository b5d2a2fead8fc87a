//! The details of an index over a path of JSON documents (table format 2.7).

use bytes::Bytes;
use prost::Message;

use super::{decode_message, well_known};
use crate::Result;

/// What the details of an index over JSON documents say.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JsonIndexParts {
    /// What is indexed of each document.
    pub path: String,
    /// Type of the details of the index that its files are.
    pub target: Option<String>,
}

#[derive(Clone, PartialEq, Message)]
struct Details {
    #[prost(string, tag = "1")]
    path: String,
    #[prost(message, optional, tag = "2")]
    target: Option<well_known::Any>,
}

impl JsonIndexParts {
    /// Decodes details. Errors: `Corrupt` if the bytes are none.
    pub fn of_details(bytes: Bytes) -> Result<Self> {
        let details: Details = decode_message("details of an index over JSON", bytes)?;
        Ok(Self { path: details.path, target: details.target.map(|target| target.type_url) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn details_of_the_reference() {
        let url = b"/lance.table.BTreeIndexDetails";
        let mut bytes = b"\x0a\x01a\x12\x20\x0a\x1e".to_vec();
        bytes.extend_from_slice(url);
        let parts = JsonIndexParts::of_details(bytes.clone().into()).unwrap();
        assert_eq!((parts.path.as_str(), parts.target.as_deref()), ("a", std::str::from_utf8(url).ok()));
        bytes.pop();
        assert!(JsonIndexParts::of_details(bytes.into()).is_err());
    }
}
