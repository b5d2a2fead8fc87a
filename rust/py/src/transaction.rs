//! Transactions, both ways.

use std::collections::BTreeMap;

use pennon_core::transaction::{self, Operation};
use pennon_core::{Error, Result, Version};
use pennon_table::ops::commit::merge_appends;
use pyo3::prelude::*;

use crate::error::to_py;
use crate::operation::OperationParts;

/// A transaction, as the Python side makes `pennon.Transaction` of it.
#[derive(IntoPyObject)]
pub(crate) struct Transaction {
    read_version: u64,
    uuid: String,
    properties: BTreeMap<String, String>,
    operation: &'static str,
    parts: OperationParts,
}

impl TryFrom<transaction::Transaction> for Transaction {
    type Error = Error;

    fn try_from(transaction: transaction::Transaction) -> Result<Self> {
        Ok(Self {
            read_version: transaction.read_version.0,
            uuid: transaction.uuid,
            properties: transaction.properties,
            operation: transaction.operation.name(),
            parts: transaction.operation.try_into()?,
        })
    }
}

impl Transaction {
    /// As the `TryFrom`, with the error of the binding.
    pub(crate) fn wrap(py: Python<'_>, transaction: transaction::Transaction) -> PyResult<Self> {
        transaction.try_into().map_err(|error| to_py(py, &error))
    }
}

/// A `pennon.Transaction`. Without a read version it goes on top of the newest version.
#[derive(FromPyObject)]
pub(crate) struct TransactionObject {
    pub(crate) read_version: Option<u64>,
    operation: OperationParts,
    uuid: String,
    transaction_properties: Option<BTreeMap<String, String>>,
}

impl TryFrom<TransactionObject> for transaction::Transaction {
    type Error = Error;

    fn try_from(object: TransactionObject) -> Result<Self> {
        Ok(Self {
            read_version: Version(object.read_version.unwrap_or(0)),
            uuid: object.uuid,
            tag: String::new(),
            properties: object.transaction_properties.unwrap_or_default(),
            operation: Operation::try_from(object.operation)?,
        })
    }
}

/// One append that does what several do.
#[pyfunction]
#[pyo3(name = "merge_appends")]
pub(crate) fn merge(py: Python<'_>, transactions: Vec<TransactionObject>) -> PyResult<Transaction> {
    let parts = transactions.into_iter().map(TryInto::try_into).collect::<Result<_>>();
    let merged = parts.and_then(merge_appends).and_then(TryInto::try_into);
    merged.map_err(|error| to_py(py, &error))
}
