//! Schemas with field ids, both ways: dictionaries out, `pennon.LanceSchema` or `pyarrow.Schema` in.

use std::collections::BTreeMap;

use arrow_pyarrow::FromPyArrow;
use pennon_core::schema::{self, CarriedKeys, Field, Schema};
use pennon_core::{Error, FieldId, Result};
use pyo3::intern;
use pyo3::prelude::*;

use crate::arrow::schema_to_py;
use crate::error::to_py;

/// A field of the schema with its id.
#[derive(FromPyObject, IntoPyObject)]
pub(crate) struct SchemaField {
    name: String,
    id: i32,
    logical_type: String,
    nullable: bool,
    metadata: BTreeMap<String, String>,
    #[pyo3(attribute("_children"))]
    children: Vec<SchemaField>,
    /// Whether it is part of the primary key, its place there, and the same of the clustering key.
    #[pyo3(attribute("_keys"))]
    keys: (bool, u32, bool, u32),
}

/// The fields of a schema and its metadata.
#[derive(IntoPyObject)]
pub(crate) struct SchemaParts {
    fields: Vec<SchemaField>,
    metadata: BTreeMap<String, String>,
}

impl<'py> FromPyObject<'_, 'py> for SchemaParts {
    type Error = PyErr;

    fn extract(value: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        let py = value.py();
        if let Some(fields) = value.getattr_opt(intern!(py, "_fields"))? {
            return Ok(Self {
                fields: fields.extract()?,
                metadata: value.getattr(intern!(py, "metadata"))?.extract()?,
            });
        }
        let arrow = arrow_schema::Schema::from_pyarrow_bound(&value)?;
        Schema::from_arrow(&arrow).map(Into::into).map_err(|error| to_py(py, &error))
    }
}

impl From<Schema> for SchemaParts {
    fn from(schema: Schema) -> Self {
        Self { fields: schema.fields.into_iter().map(Into::into).collect(), metadata: schema.metadata }
    }
}

impl TryFrom<SchemaParts> for Schema {
    type Error = Error;

    fn try_from(parts: SchemaParts) -> Result<Self> {
        let fields = parts.fields.into_iter().map(Field::try_from).collect::<Result<_>>()?;
        let schema = Self { fields, metadata: parts.metadata };
        schema
            .validate()
            .map_err(|error| Error::invalid_input(format!("The schema is not valid: {error}")))?;
        Ok(schema)
    }
}

impl From<Field> for SchemaField {
    fn from(field: Field) -> Self {
        let keys = field.carried;
        Self {
            name: field.name,
            id: field.id.0,
            logical_type: field.logical_type.to_string(),
            nullable: field.nullable,
            metadata: field.metadata,
            children: field.children.into_iter().map(Into::into).collect(),
            keys: (
                field.unenforced_primary_key,
                keys.primary_key_position,
                keys.clustering_key,
                keys.clustering_key_position,
            ),
        }
    }
}

impl TryFrom<SchemaField> for Field {
    type Error = Error;

    fn try_from(parts: SchemaField) -> Result<Self> {
        let (unenforced_primary_key, primary_key_position, clustering_key, clustering_key_position) =
            parts.keys;
        Ok(Self {
            id: FieldId(parts.id),
            nullable: parts.nullable,
            logical_type: parts.logical_type.parse()?,
            children: parts.children.into_iter().map(Self::try_from).collect::<Result<_>>()?,
            metadata: parts.metadata,
            unenforced_primary_key,
            carried: CarriedKeys { primary_key_position, clustering_key, clustering_key_position },
            name: parts.name,
        })
    }
}

/// The names of a path; `None` if its backticks do not pair up or text touches them.
#[pyfunction]
pub(crate) fn path_names(path: &str) -> Option<Vec<String>> {
    schema::path_names(path)
}

/// A schema with ids for its fields, handed out depth first; of a `pyarrow.Schema`.
#[pyfunction]
pub(crate) fn schema_from_arrow(schema: SchemaParts) -> SchemaParts {
    schema
}

/// The `pyarrow.Schema` of a schema.
#[pyfunction]
pub(crate) fn schema_to_arrow<'py>(py: Python<'py>, schema: SchemaParts) -> PyResult<Bound<'py, PyAny>> {
    let schema = Schema::try_from(schema).map_err(|error| to_py(py, &error))?;
    schema_to_py(py, &schema.to_arrow())
}
