//! `Transaction` <-> [`Transaction`] (table format 2.8).

use bytes::{Buf, Bytes};
use prost::Message;
use prost::encoding::{DecodeContext, decode_key, skip_field};

use super::{decode_message, operations, table};
use crate::transaction::{Operation, Transaction};
use crate::{Error, Result, Version, checksum};

/// Operations have field numbers from here on.
const FIRST_OPERATION: u32 = 100;

impl Transaction {
    /// Decodes a transaction, from its file or from a manifest file (table format 2.8).
    ///
    /// An operation that is not known becomes [`Operation::Unknown`]. Errors: `Corrupt` if the bytes are no
    /// transaction or break a rule.
    pub fn decode(bytes: Bytes) -> Result<Self> {
        checksum::check("transaction", &bytes)?;
        let wire: table::Transaction = decode_message("transaction", bytes.clone())?;
        if wire.uuid.is_empty() {
            return Err(Error::corrupt(format!("transaction ({} bytes): it has no uuid", bytes.len())));
        }
        let operation = match wire.operation {
            Some(operation) => {
                operations::decode(operation).map_err(|e| e.at(format!("transaction {}", wire.uuid)))?
            }
            None => Operation::Unknown(unknown_operation(bytes)),
        };
        Ok(Self {
            read_version: Version(wire.read_version),
            uuid: wire.uuid,
            tag: wire.tag,
            properties: wire.transaction_properties,
            operation,
        })
    }

    /// Field number of the operation (table format 7.1), from the first bytes of an encoded transaction. `None` if they
    /// do not reach that far or are no transaction.
    pub fn operation_number(head: Bytes) -> Option<u32> {
        Some(unknown_operation(head)).filter(|number| *number > 0)
    }

    /// Encodes the transaction; the inverse of [`Self::decode`]. What is stored gets a checksum
    /// ([`checksum::append`]).
    ///
    /// An unknown operation is left out: such a transaction is read from others, never committed.
    pub fn encode(&self) -> Vec<u8> {
        let wire = table::Transaction {
            read_version: self.read_version.0,
            uuid: self.uuid.clone(),
            tag: self.tag.clone(),
            transaction_properties: self.properties.clone(),
            operation: operations::encode(&self.operation),
        };
        wire.encode_to_vec()
    }
}

/// Number of the operation that the message's code does not know, 0 if there is none.
fn unknown_operation(mut bytes: Bytes) -> u32 {
    while bytes.has_remaining() {
        let Ok((number, wire_type)) = decode_key(&mut bytes) else { break };
        if number >= FIRST_OPERATION {
            return number;
        }
        if skip_field(wire_type, number, &mut bytes, DecodeContext::default()).is_err() {
            break;
        }
    }
    0
}
