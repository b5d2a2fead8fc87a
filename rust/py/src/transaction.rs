//! Transactions as dictionaries; the Python side makes `pennon.Transaction` of them.

use std::collections::BTreeMap;
use std::sync::Arc;

use pennon_core::manifest;
use pennon_core::transaction::{self, Operation};
use pyo3::prelude::*;

use crate::dataset::{SchemaField, schema_fields};
use crate::fragment::Fragment;

/// A transaction; what its operation has not is `None`.
#[derive(IntoPyObject)]
pub(crate) struct Transaction {
    read_version: u64,
    uuid: String,
    properties: BTreeMap<String, String>,
    operation: &'static str,
    fragments: Option<Vec<Fragment>>,
    schema: Option<Vec<SchemaField>>,
    deleted_fragment_ids: Option<Vec<u32>>,
    predicate: Option<String>,
    version: Option<u64>,
}

impl From<transaction::Transaction> for Transaction {
    fn from(transaction: transaction::Transaction) -> Self {
        let mut found = Self {
            read_version: transaction.read_version.0,
            uuid: transaction.uuid,
            properties: transaction.properties,
            operation: transaction.operation.name(),
            fragments: None,
            schema: None,
            deleted_fragment_ids: None,
            predicate: None,
            version: None,
        };
        match transaction.operation {
            Operation::Append(append) => found.fragments = Some(wrap(append.fragments)),
            Operation::Overwrite(overwrite) => {
                found.schema = Some(schema_fields(&overwrite.schema.fields));
                found.fragments = Some(wrap(overwrite.fragments));
            }
            Operation::Delete(delete) => {
                found.fragments = Some(wrap(delete.updated_fragments));
                found.deleted_fragment_ids =
                    Some(delete.deleted_fragment_ids.iter().map(|id| id.0).collect());
                found.predicate = Some(delete.predicate);
            }
            Operation::Restore(restore) => found.version = Some(restore.version.0),
            _ => {}
        }
        found
    }
}

fn wrap(fragments: Vec<manifest::Fragment>) -> Vec<Fragment> {
    fragments.into_iter().map(|fragment| Fragment(Arc::new(fragment))).collect()
}
