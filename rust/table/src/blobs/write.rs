//! Bytes to descriptors: small blobs go between the pages of the data file, larger ones share files next to it,
//! large ones each into a file of its own.
//!
//! Invariant: dropped before [`BlobWriter::keep`], no file next to the data file is left.

use std::io::Write;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::UInt64Type;
use arrow_array::{Array, ArrayRef, LargeBinaryArray, RecordBatch, StringArray, UInt64Array};
use arrow_buffer::NullBuffer;
use arrow_schema::Schema as ArrowSchema;
use pennon_core::file::FileVersion;
use pennon_core::manifest::naming;
use pennon_core::schema::{BlobKind, BlobThresholds, Field, LogicalType, Schema};
use pennon_core::{Error, Result};
use pennon_datafile::{FileWriter, Sealer};

use super::descriptor::{self, Descriptor};
use super::{nowhere, read, replace};
use crate::store::{Durability, Sink, Store};

/// A file of several blobs is not continued beyond this.
const PACK_BYTES: u64 = 1 << 30;

/// What becomes of blobs that are given as addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ExternalBlobs {
    /// They are an error.
    #[default]
    Refuse,
    /// The table keeps the addresses.
    Reference,
    /// The table keeps copies.
    Ingest,
}

impl ExternalBlobs {
    /// The mode that an application gives: `reference`, which has to be allowed, or `ingest`. Errors: `InvalidInput`.
    pub fn of(mode: &str, allowed: bool) -> Result<Self> {
        match (mode, allowed) {
            ("reference", false) => Ok(Self::Refuse),
            ("reference", true) => Ok(Self::Reference),
            ("ingest", false) => Ok(Self::Ingest),
            ("ingest", true) => Err(Error::invalid_input(
                "allow_external_blob_outside_bases only applies when external_blob_mode=\"reference\"",
            )),
            _ => Err(Error::invalid_input(format!(
                "Invalid external_blob_mode {mode:?}. Valid values are: reference, ingest"
            ))),
        }
    }
}

/// How blob v2 is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct BlobParams {
    /// Bytes beyond which a file of several blobs is not continued, where the field says nothing; 1 GiB if not given.
    pub pack_file_bytes: Option<u64>,
    /// What becomes of addresses.
    pub external: ExternalBlobs,
}

/// The fields with descriptors instead of blobs: the schema of the data files.
///
/// Errors: `Unsupported` for a file version without such blobs, and for blobs where there cannot be any;
/// `SchemaMismatch` for blobs of another form.
pub(crate) fn stored_schema(schema: &Schema, version: FileVersion) -> Result<Schema> {
    schema.fields.iter().try_for_each(|field| check(field, &field.name, version))?;
    let fields = schema.fields.iter().map(Field::with_blob_descriptors).collect();
    Ok(Schema { fields, metadata: schema.metadata.clone() })
}

fn check(field: &Field, path: &str, version: FileVersion) -> Result<()> {
    // The reference treats every blob as a blob v2 there.
    if field.is_legacy_blob() && version >= FileVersion::V2_2 {
        return Err(Error::unsupported(format!(
            "field `{path}`: a legacy blob in file version {version}, which has blob v2 (lance.blob.v2) only"
        )));
    }
    if !field.has_blob_v2() {
        let below = |child: &Field| check(child, &format!("{path}.{}", child.name), version);
        return field.children.iter().try_for_each(below);
    }
    if field.is_blob_v2() {
        if version < FileVersion::V2_2 {
            return Err(Error::unsupported(format!(
                "field `{path}`: Blob v2 requires file version >= 2.2 (got {version})"
            )));
        }
        let members: Vec<(&str, &LogicalType)> =
            field.children.iter().map(|m| (m.name.as_str(), &m.logical_type)).collect();
        let known = [
            ("data", &LogicalType::LargeBinary),
            ("uri", &LogicalType::Utf8),
            ("position", &LogicalType::UInt64),
            ("size", &LogicalType::UInt64),
        ];
        if field.logical_type != LogicalType::Struct || (members != known && members != known[..2]) {
            return Err(Error::schema_mismatch(format!(
                "field `{path}`: blobs (lance.blob.v2) are structs of data: large_binary, uri: string and maybe \
                 position: uint64, size: uint64; found {}",
                field.data_type()
            )));
        }
        return Ok(());
    }
    match &field.logical_type {
        LogicalType::Struct
        | LogicalType::List
        | LogicalType::ListStruct
        | LogicalType::LargeList
        | LogicalType::LargeListStruct => {}
        other => return Err(nowhere(path, other)),
    }
    field.children.iter().try_for_each(|child| check(child, &format!("{path}.{}", child.name), version))
}

/// A file of blobs that is being written.
struct Pack {
    id: u32,
    sink: Box<dyn Sink>,
    size: u64,
    sealer: Sealer,
}

/// Writes the blobs of one data file.
pub(crate) struct BlobWriter {
    store: Arc<Store>,
    data_file: String,
    params: BlobParams,
    durability: Durability,
    next_id: u32,
    pack: Option<Pack>,
    /// Paths of complete files.
    files: Vec<String>,
}

/// One blob as it was given.
enum Given<'a> {
    Bytes(&'a [u8]),
    Address(&'a str, Option<(u64, u64)>),
}

impl BlobWriter {
    /// For a data file with that path in the store. Does nothing yet.
    pub(crate) fn new(
        store: Arc<Store>,
        data_file: &str,
        params: BlobParams,
        durability: Durability,
    ) -> Self {
        Self {
            store,
            data_file: data_file.to_owned(),
            params,
            durability,
            next_id: 1,
            pack: None,
            files: Vec::new(),
        }
    }

    /// Writes the blobs of a batch and puts their descriptors in their place.
    ///
    /// Errors: `InvalidInput` for a blob that is neither bytes nor an address, or an address that is not allowed;
    /// `SchemaMismatch`; `Store`.
    pub(crate) fn store<W: Write>(
        &mut self,
        fields: &[Field],
        batch: &RecordBatch,
        out: &mut FileWriter<W>,
    ) -> Result<RecordBatch> {
        let mut columns = batch.columns().to_vec();
        let schema = batch.schema();
        let mut arrow: Vec<_> = schema.fields().iter().map(Arc::clone).collect();
        for field in fields.iter().filter(|field| field.has_blob_v2()) {
            let Some((at, _)) = schema.column_with_name(&field.name) else { continue };
            let (Some(column), Some(slot)) = (columns.get_mut(at), arrow.get_mut(at)) else { continue };
            let stored = field.with_blob_descriptors();
            let mut convert = |blob: &Field, array: &ArrayRef, hidden: Option<&NullBuffer>| {
                self.descriptors(blob, array, hidden, out)
            };
            *column = replace(field, &stored, column, None, &Field::is_blob_v2, &mut convert)?;
            *slot = Arc::new(stored.to_arrow().with_nullable(true));
        }
        let schema = ArrowSchema::new_with_metadata(arrow, schema.metadata().clone());
        RecordBatch::try_new(Arc::new(schema), columns)
            .map_err(|e| Error::internal(format!("descriptors of blobs: {e}")))
    }

    fn descriptors<W: Write>(
        &mut self,
        field: &Field,
        array: &ArrayRef,
        hidden: Option<&NullBuffer>,
        out: &mut FileWriter<W>,
    ) -> Result<ArrayRef> {
        let blobs = Column::of(field, array)?;
        let thresholds = field.blob_thresholds();
        let mut rows = Vec::with_capacity(array.len());
        for row in 0..array.len() {
            if array.is_null(row) || hidden.is_some_and(|nulls| nulls.is_null(row)) {
                rows.push(None);
                continue;
            }
            rows.push(Some(match blobs.get(row)? {
                Given::Bytes(bytes) => self.put(bytes, thresholds, out)?,
                Given::Address(uri, range) => self.put_external(uri, range, thresholds, out)?,
            }));
        }
        descriptor::array(&field.with_blob_descriptors(), &rows)
    }

    /// Stores one blob. The order of the rules is that of the reference.
    fn put<W: Write>(
        &mut self,
        bytes: &[u8],
        thresholds: BlobThresholds,
        out: &mut FileWriter<W>,
    ) -> Result<Descriptor> {
        let size = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
        if size > thresholds.dedicated {
            let id = self.take_id()?;
            let mut file = self.begin(id)?;
            self.write(&mut file, bytes)?;
            self.complete(file)?;
            return Ok(Descriptor::managed(BlobKind::Dedicated, 0, size, id));
        }
        if size <= thresholds.inline {
            return Ok(Descriptor::managed(BlobKind::Inline, out.write_blob(bytes)?, size, 0));
        }
        let limit = thresholds.pack_file.or(self.params.pack_file_bytes).unwrap_or(PACK_BYTES);
        if self.pack.as_ref().is_some_and(|pack| pack.size.saturating_add(size) > limit) {
            self.end_pack()?;
        }
        let mut pack = match self.pack.take() {
            Some(pack) => pack,
            None => {
                let id = self.take_id()?;
                self.begin(id)?
            }
        };
        let (position, id) = (pack.size, pack.id);
        self.write(&mut pack, bytes)?;
        self.pack = Some(pack);
        Ok(Descriptor::managed(BlobKind::Packed, position, size, id))
    }

    fn put_external<W: Write>(
        &mut self,
        uri: &str,
        range: Option<(u64, u64)>,
        thresholds: BlobThresholds,
        out: &mut FileWriter<W>,
    ) -> Result<Descriptor> {
        match self.params.external {
            ExternalBlobs::Refuse => Err(Error::invalid_input(format!(
                "External blob URI '{uri}' is outside registered external bases. Set \
                 allow_external_blob_outside_bases=true to store it as absolute external URI."
            ))),
            ExternalBlobs::Reference => {
                let (position, size) = range.unwrap_or_default();
                let uri = uri.to_owned();
                Ok(Descriptor { kind: BlobKind::External, position, size, blob_id: 0, uri })
            }
            ExternalBlobs::Ingest => {
                let source = read::source_at(uri, self.store.options())?;
                let range = match range {
                    Some((position, size)) => position..position.saturating_add(size),
                    None => 0..source.size()?,
                };
                let bytes = source.read(std::slice::from_ref(&range))?.pop().unwrap_or_default();
                self.put(&bytes, thresholds, out)
            }
        }
    }

    /// Completes the files. The data file must not be complete before.
    pub(crate) fn finish(&mut self) -> Result<()> {
        self.end_pack()
    }

    /// The files stay.
    pub(crate) fn keep(mut self) {
        self.files.clear();
    }

    fn take_id(&mut self) -> Result<u32> {
        let id = self.next_id;
        self.next_id =
            id.checked_add(1).ok_or_else(|| Error::unsupported("more blobs than a data file can have"))?;
        Ok(id)
    }

    fn path(&self, id: u32) -> String {
        naming::blob_file_path(&self.data_file, id)
    }

    fn begin(&self, id: u32) -> Result<Pack> {
        let sink = self.store.sink(&self.path(id), self.durability)?;
        Ok(Pack { id, sink, size: 0, sealer: Sealer::default() })
    }

    fn write(&self, pack: &mut Pack, bytes: &[u8]) -> Result<()> {
        pack.sealer.update(bytes);
        pack.size += u64::try_from(bytes.len()).unwrap_or(u64::MAX);
        self.append(pack.id, &mut pack.sink, bytes)
    }

    fn append(&self, id: u32, sink: &mut Box<dyn Sink>, bytes: &[u8]) -> Result<()> {
        sink.write_all(bytes).map_err(|e| {
            Error::store(format!("{}: {e}", self.store.full_path(&self.path(id)))).with_source(e)
        })
    }

    /// Completes a file, with the seal of its blobs behind them.
    fn complete(&mut self, pack: Pack) -> Result<()> {
        let Pack { id, mut sink, sealer, .. } = pack;
        self.append(id, &mut sink, &sealer.finish().encode_at_end())?;
        sink.finish(self.durability)?;
        self.files.push(self.path(id));
        Ok(())
    }

    fn end_pack(&mut self) -> Result<()> {
        match self.pack.take() {
            Some(pack) => self.complete(pack),
            None => Ok(()),
        }
    }
}

impl Drop for BlobWriter {
    fn drop(&mut self) {
        // A file in progress goes with its sink.
        self.pack = None;
        self.store.discard(std::mem::take(&mut self.files));
    }
}

/// A column of blobs as they are given: structs, or just bytes.
struct Column<'a> {
    name: &'a str,
    data: &'a LargeBinaryArray,
    uri: Option<&'a StringArray>,
    range: Option<(&'a UInt64Array, &'a UInt64Array)>,
}

impl<'a> Column<'a> {
    fn of(field: &'a Field, array: &'a ArrayRef) -> Result<Self> {
        let name = field.name.as_str();
        let mismatch =
            || Error::schema_mismatch(format!("field {name}: blobs of type {}", array.data_type()));
        if let Some(data) = array.as_binary_opt::<i64>() {
            return Ok(Self { name, data, uri: None, range: None });
        }
        let structs = array.as_struct_opt().ok_or_else(mismatch)?;
        let data = structs.column_by_name("data").and_then(|a| a.as_binary_opt::<i64>());
        let uri = structs.column_by_name("uri").and_then(|a| a.as_string_opt::<i32>());
        let number =
            |name: &str| structs.column_by_name(name).and_then(|a| a.as_primitive_opt::<UInt64Type>());
        let range = number("position").zip(number("size"));
        Ok(Self { name, data: data.ok_or_else(mismatch)?, uri: Some(uri.ok_or_else(mismatch)?), range })
    }

    fn get(&self, row: usize) -> Result<Given<'a>> {
        let wrong =
            |what: &str| Err(Error::invalid_input(format!("field {}: a blob with {what}", self.name)));
        let data = self.data.is_valid(row).then(|| self.data.value(row));
        let uri = self.uri.filter(|uri| uri.is_valid(row)).map(|uri| uri.value(row));
        let number = |array: &UInt64Array| array.is_valid(row).then(|| array.value(row));
        let range = self.range.map_or((None, None), |(p, s)| (number(p), number(s)));
        match (data, uri, range) {
            (Some(bytes), None, (None, None)) => Ok(Given::Bytes(bytes)),
            (None, Some(""), _) => wrong("an empty uri"),
            (None, Some(uri), (None, None)) => Ok(Given::Address(uri, None)),
            (None, Some(_), (Some(_), Some(0))) => wrong("an external range of 0 bytes"),
            (None, Some(uri), (Some(position), Some(size))) => {
                Ok(Given::Address(uri, Some((position, size))))
            }
            (None, None, _) => wrong("neither data nor uri"),
            (Some(_), Some(_), _) => wrong("both data and uri"),
            (Some(_), None, _) => wrong("data and a range"),
            (None, Some(_), _) => wrong("only one of position and size"),
        }
    }
}
