//! `FileReader` and `FileWriter`: one data file, without a table.

use std::collections::HashMap;
use std::ops::Range;
use std::process;

use arrow_pyarrow::FromPyArrow;
use arrow_schema::Schema;
use bytes::Bytes;
use pennon_core::Error;
use pennon_core::file::FileVersion;
use pennon_table::file::{DataFileReader, DataFileWriter, FileRows, FileWriteParams};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::arrow::schema_to_py;
use crate::error::to_py;
use crate::forked::Forked;
use crate::given::Given;
use crate::runtime::run;
use crate::scan::Batches;
use crate::sliced::batch_from_py;

/// Position and size.
type Buffer = (u64, u64);

/// An open data file, opened again after a fork.
#[pyclass(frozen, module = "pennon._native")]
pub(crate) struct FileReader {
    uri: String,
    columns: Option<Vec<String>>,
    storage_options: HashMap<String, String>,
    reader: Forked<DataFileReader>,
}

/// What a file says about itself.
#[derive(IntoPyObject)]
pub(crate) struct FileParts<'py> {
    schema: Bound<'py, PyAny>,
    num_rows: u64,
    size: u64,
    num_data_bytes: u64,
    num_column_metadata_bytes: u64,
    num_global_buffer_bytes: u64,
    global_buffers: Vec<Buffer>,
    columns: Vec<ColumnParts>,
    version: String,
    footer_version: (u16, u16),
}

#[derive(IntoPyObject)]
pub(crate) struct ColumnParts {
    name: Option<String>,
    pages: Vec<PageParts>,
}

#[derive(IntoPyObject)]
pub(crate) struct PageParts {
    num_rows: u64,
    encoding: String,
    buffers: Vec<Buffer>,
}

fn buffer(range: &Range<u64>) -> Buffer {
    (range.start, range.end.saturating_sub(range.start))
}

impl FileReader {
    fn get(&self, py: Python<'_>) -> PyResult<DataFileReader> {
        if let Some(reader) = self.reader.get() {
            return Ok(reader);
        }
        let fresh = run(py, DataFileReader::open(&self.uri, self.columns.as_deref(), &self.storage_options))?;
        self.reader.set(fresh.clone());
        Ok(fresh)
    }
}

#[pymethods]
impl FileReader {
    #[new]
    fn open(
        py: Python<'_>,
        uri: String,
        columns: Option<Vec<String>>,
        storage_options: HashMap<String, String>,
    ) -> PyResult<Self> {
        let reader = run(py, DataFileReader::open(&uri, columns.as_deref(), &storage_options))?;
        Ok(Self { uri, columns, storage_options, reader: Forked::new(reader) })
    }

    #[getter]
    fn num_rows(&self) -> u64 {
        self.reader.look(|reader| reader.metadata().num_rows)
    }

    #[getter]
    fn schema<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let schema = self.reader.look(|reader| reader.schema().clone());
        schema_to_py(py, &schema)
    }

    fn metadata<'py>(&self, py: Python<'py>) -> PyResult<FileParts<'py>> {
        let reader = self.get(py)?;
        let sizes = run(py, reader.sizes())?;
        let metadata = reader.metadata();
        let columns = metadata.columns.iter().zip(reader.column_names()).map(|(column, name)| ColumnParts {
            name,
            pages: column
                .pages
                .iter()
                .map(|page| PageParts {
                    num_rows: page.num_rows,
                    encoding: page.layout.to_string(),
                    buffers: page.buffers.iter().map(buffer).collect(),
                })
                .collect(),
        });
        Ok(FileParts {
            schema: schema_to_py(py, &metadata.schema.to_arrow())?,
            num_rows: metadata.num_rows,
            size: metadata.size,
            num_data_bytes: sizes.data,
            num_column_metadata_bytes: sizes.column_metadata,
            num_global_buffer_bytes: sizes.global_buffers,
            global_buffers: metadata.global_buffers.iter().map(buffer).collect(),
            columns: columns.collect(),
            version: metadata.version.to_string(),
            footer_version: metadata.version.footer_numbers(),
        })
    }

    /// Without indices a range, without both all.
    fn batches(
        &self,
        py: Python<'_>,
        range: Option<(u64, u64)>,
        indices: Option<Vec<u64>>,
        batch_size: usize,
        batch_readahead: usize,
    ) -> PyResult<Batches> {
        let rows = match (indices, range) {
            (Some(indices), _) => FileRows::Indices(indices),
            (None, Some((start, count))) => FileRows::Range { start, count },
            (None, None) => FileRows::All,
        };
        let reader = self.get(py)?;
        let batches = reader.batches(rows, batch_size, batch_readahead);
        let schema = schema_to_py(py, reader.schema())?.unbind();
        Ok(Batches::new(schema, batches.map_err(|error| to_py(py, &error))?))
    }

    fn read_global_buffer<'py>(&self, py: Python<'py>, index: u32) -> PyResult<Bound<'py, PyBytes>> {
        let reader = self.get(py)?;
        Ok(PyBytes::new(py, &run(py, reader.global_buffer(index))?))
    }
}

/// A data file that is being written.
#[pyclass(frozen, module = "pennon._native")]
pub(crate) struct FileWriter {
    pid: u32,
    writer: DataFileWriter,
}

/// Options of a writer: a dictionary with all of these keys.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct FileWriteOptions {
    version: Option<String>,
    max_page_bytes: Option<usize>,
    storage_options: HashMap<String, String>,
    durability: String,
}

impl FileWriteOptions {
    fn params(self) -> pennon_core::Result<FileWriteParams> {
        Ok(FileWriteParams {
            version: self.version.map(|version| version.parse()).transpose()?,
            max_page_bytes: self.max_page_bytes,
            storage_options: self.storage_options,
            durability: self.durability.parse()?,
        })
    }
}

impl FileWriter {
    fn writer(&self, py: Python<'_>) -> PyResult<&DataFileWriter> {
        if self.pid == process::id() {
            return Ok(&self.writer);
        }
        let error =
            Error::unsupported("A data file cannot be written on in a forked process: begin it there");
        Err(to_py(py, &error))
    }
}

#[pymethods]
impl FileWriter {
    #[new]
    fn create(
        py: Python<'_>,
        uri: &str,
        schema: Option<&Bound<'_, PyAny>>,
        options: Given<FileWriteOptions>,
    ) -> PyResult<Self> {
        let schema = schema.map(Schema::from_pyarrow_bound).transpose()?;
        let params = options.0.params().map_err(|error| to_py(py, &error))?;
        let writer = run(py, DataFileWriter::create(uri, schema, params))?;
        Ok(Self { pid: process::id(), writer })
    }

    fn write_batch(&self, py: Python<'_>, batch: &Bound<'_, PyAny>) -> PyResult<()> {
        run(py, self.writer(py)?.write(batch_from_py(batch, None)?))
    }

    /// Rows and bytes.
    fn finish(&self, py: Python<'_>) -> PyResult<(u64, u64)> {
        let summary = run(py, self.writer(py)?.finish())?;
        Ok((summary.rows, summary.size))
    }

    fn abandon(&self, py: Python<'_>) -> PyResult<()> {
        run(py, self.writer(py)?.abandon())
    }

    fn add_schema_metadata(&self, py: Python<'_>, key: String, value: String) -> PyResult<()> {
        self.writer(py)?.add_schema_metadata(key, value).map_err(|error| to_py(py, &error))
    }

    fn add_global_buffer(&self, py: Python<'_>, data: Vec<u8>) -> PyResult<u32> {
        run(py, self.writer(py)?.add_global_buffer(Bytes::from(data)))
    }
}

/// The file version that "stable" stands for.
#[pyfunction]
pub(crate) fn stable_version() -> String {
    FileVersion::STABLE.to_string()
}
