//! JSON of plans, tasks and results. Bytes are base64; the format has a number, and another one is refused.
//!
//! Storage options are not in it: they hold secrets, and workers may reach a table in another way.

mod changes;
mod columns;
mod compact;
mod merge;
mod verify;

use std::sync::Arc;

use arrow_ipc::convert::try_schema_from_ipc_buffer;
use arrow_ipc::writer::StreamWriter;
use arrow_schema::{ArrowError, Schema, SchemaRef};
use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use bytes::Bytes;
use pennon_core::bitmaps::{decode_bitmap, encode_bitmap};
use pennon_core::conflict::rebase::RowsByFragment;
use pennon_core::deletion::DeletionVector;
use pennon_core::file::FileVersion;
use pennon_core::manifest::Timestamp;
use pennon_core::schema::Metadata;
use pennon_core::{Error, FragmentId, Result, Version};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use self::changes::ChangesJson;
use self::columns::{ColumnsWorkJson, JoinJson};
use self::compact::CompactJson;
use self::merge::{MergeJson, MergedJson};
use self::verify::FindingJson;
use super::{FragmentSlice, JobPlan, NewTable, Pin, ScanWork, Task, TaskResult, Work, WrittenFile};
use crate::runtime::guarded;
use crate::scan::{BlobHandling, Projection};
use crate::session::CreateOptions;
use crate::write::WrittenFragments;

/// Number of the format that this release writes and reads.
const FORMAT: u32 = 1;

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct PinJson {
    uri: String,
    version: u64,
    made_at: (i64, u32),
    uuid: String,
    /// See [`columns_json`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    columns: Option<String>,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
enum WorkJson {
    Scan(ScanJson),
    Append {},
    Overwrite(TableJson),
    Delete { predicate: String },
    Update { assignments: Vec<(String, String)>, predicate: Option<String> },
    Merge(MergeJson),
    ChangeRows(ChangesJson),
    AddColumns(ColumnsWorkJson),
    UpdateColumns(JoinJson),
    Verify {},
    Compact(CompactJson),
}

#[derive(Serialize, Deserialize, Default)]
#[serde(default, deny_unknown_fields)]
struct ScanJson {
    columns: Option<ColumnsJson>,
    filter: Option<String>,
    batch_size: Option<usize>,
    batch_size_bytes: Option<usize>,
    with_row_id: bool,
    with_row_address: bool,
    blob_handling: Option<String>,
}

#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum ColumnsJson {
    Names(Vec<String>),
    Expressions(Vec<(String, String)>),
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct TableJson {
    /// The empty table, as [`WrittenFragments::encode`] has it.
    schema: String,
    enable_stable_row_ids: bool,
    enable_v2_manifest_paths: bool,
    data_storage_version: Option<String>,
    must_create: bool,
    #[serde(default, skip_serializing_if = "Metadata::is_empty")]
    config: Metadata,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct SliceJson {
    fragment: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    rows: Option<(u64, u64)>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct RowsJson {
    fragment: u32,
    /// A roaring bitmap in its portable form.
    offsets: String,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct PlanJson {
    pennon_job: u32,
    job: PinJson,
    work: WorkJson,
    /// Null for as many as there will be.
    #[serde(deserialize_with = "Option::deserialize")]
    tasks: Option<Vec<Vec<SliceJson>>>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    done: Vec<ResultJson>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct TaskJson {
    pennon_job: u32,
    job: PinJson,
    work: WorkJson,
    task: usize,
    of: Option<usize>,
    slices: Vec<SliceJson>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct ResultJson {
    pennon_job: u32,
    uuid: String,
    version: u64,
    task: usize,
    slices: Vec<SliceJson>,
    rows: Vec<RowsJson>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    written: Option<String>,
    /// Path and bytes of each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    files: Vec<(String, u64)>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    merged: Option<MergedJson>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    findings: Vec<FindingJson>,
}

impl Work {
    /// From JSON: `{"delete": {"predicate": "id > 5"}}`, with the names of the parameters of the Python package. Errors:
    /// `InvalidInput`.
    pub fn from_json(text: &str) -> Result<Self> {
        read::<WorkJson>(text, "work of a job")?.try_into()
    }
}

impl JobPlan {
    /// As JSON.
    pub fn to_json(&self) -> Result<String> {
        let slices = |task: &Vec<FragmentSlice>| task.iter().map(Into::into).collect();
        write(&PlanJson {
            pennon_job: FORMAT,
            job: (&self.pin).try_into()?,
            work: (&self.work).try_into()?,
            tasks: self.tasks.as_ref().map(|tasks| tasks.iter().map(slices).collect()),
            done: self.done.iter().map(TryInto::try_into).collect::<Result<_>>()?,
        })
    }

    /// The inverse of [`Self::to_json`]. Errors: `InvalidInput` for other text and for another format.
    pub fn from_json(text: &str) -> Result<Self> {
        let json: PlanJson = read_job(text, "plan")?;
        let slices = |task: Vec<SliceJson>| task.into_iter().map(Into::into).collect();
        Ok(Self {
            pin: json.job.try_into()?,
            work: json.work.try_into()?,
            tasks: json.tasks.map(|tasks| tasks.into_iter().map(slices).collect()),
            done: json.done.into_iter().map(TryInto::try_into).collect::<Result<_>>()?,
        })
    }
}

impl Task {
    /// As JSON.
    pub fn to_json(&self) -> Result<String> {
        write(&TaskJson {
            pennon_job: FORMAT,
            job: (&self.pin).try_into()?,
            work: (&self.work).try_into()?,
            task: self.number,
            of: self.of,
            slices: self.slices.iter().map(Into::into).collect(),
        })
    }

    /// The inverse of [`Self::to_json`]. Errors: `InvalidInput` for other text and for another format.
    pub fn from_json(text: &str) -> Result<Self> {
        let json: TaskJson = read_job(text, "task")?;
        Ok(Self {
            pin: json.job.try_into()?,
            work: json.work.try_into()?,
            number: json.task,
            of: json.of,
            slices: json.slices.into_iter().map(Into::into).collect(),
        })
    }
}

impl TaskResult {
    /// As JSON.
    pub fn to_json(&self) -> Result<String> {
        write(&ResultJson::try_from(self)?)
    }

    /// The inverse of [`Self::to_json`]. Errors: `InvalidInput` for other text and for another format.
    pub fn from_json(text: &str) -> Result<Self> {
        read_job::<ResultJson>(text, "result")?.try_into()
    }
}

fn write(json: &impl Serialize) -> Result<String> {
    serde_json::to_string(json).map_err(|e| Error::internal(format!("JSON of a job: {e}")))
}

fn read<T: DeserializeOwned>(text: &str, what: &str) -> Result<T> {
    serde_json::from_str(text).map_err(|e| Error::invalid_input(format!("This is no {what}: {e}")))
}

/// Reads the number of the format first: what another release wrote may look different.
fn read_job<T: DeserializeOwned>(text: &str, what: &str) -> Result<T> {
    #[derive(Deserialize)]
    struct Format {
        pennon_job: u32,
    }
    let what = format!("{what} of a job");
    match read::<Format>(text, &what)?.pennon_job {
        FORMAT => read(text, &what),
        other => Err(Error::invalid_input(format!(
            "The {what} has format {other}, from another release of Pennon; this one reads format {FORMAT}"
        ))),
    }
}

fn bytes(text: &str, what: &str) -> Result<Vec<u8>> {
    BASE64.decode(text).map_err(|e| Error::invalid_input(format!("{what} of a job: {e}")))
}

fn written(text: &str, what: &str) -> Result<WrittenFragments> {
    let decoded = WrittenFragments::decode(Bytes::from(bytes(text, what)?));
    decoded.map_err(|e| Error::invalid_input(format!("{what} of a job: {e}")))
}

impl TryFrom<&Pin> for PinJson {
    type Error = Error;

    fn try_from(pin: &Pin) -> Result<Self> {
        let Pin { uri, version, made_at, uuid, columns } = pin.clone();
        let columns = columns.as_deref().map(columns_json).transpose()?;
        Ok(Self { uri, version: version.0, made_at: (made_at.seconds, made_at.nanos), uuid, columns })
    }
}

impl TryFrom<PinJson> for Pin {
    type Error = Error;

    fn try_from(json: PinJson) -> Result<Self> {
        let (seconds, nanos) = json.made_at;
        let made_at = Timestamp { seconds, nanos };
        let columns = json.columns.as_deref().map(columns_of).transpose()?;
        if Uuid::parse_str(&json.uuid).is_err() {
            return Err(Error::invalid_input(format!("The uuid of a job is {:?}, which is none", json.uuid)));
        }
        Ok(Self { uri: json.uri, version: Version(json.version), made_at, uuid: json.uuid, columns })
    }
}

impl From<&FragmentSlice> for SliceJson {
    fn from(slice: &FragmentSlice) -> Self {
        let rows = slice.rows.as_ref().map(|rows| (rows.start, rows.end));
        Self { fragment: slice.fragment.0, rows }
    }
}

impl From<SliceJson> for FragmentSlice {
    fn from(json: SliceJson) -> Self {
        Self { fragment: FragmentId(json.fragment), rows: json.rows.map(|(start, end)| start..end) }
    }
}

impl TryFrom<&ScanWork> for ScanJson {
    type Error = Error;

    fn try_from(scan: &ScanWork) -> Result<Self> {
        let name = |blobs: BlobHandling| {
            let unnamed = || Error::unsupported(format!("Tasks cannot read blobs as {blobs:?}"));
            blobs.name().map(str::to_owned).ok_or_else(unnamed)
        };
        Ok(Self {
            columns: scan.columns.as_ref().map(|columns| match columns {
                Projection::Names(names) => ColumnsJson::Names(names.clone()),
                Projection::Expressions(pairs) => ColumnsJson::Expressions(pairs.clone()),
            }),
            filter: scan.filter.clone(),
            batch_size: scan.batch_size,
            batch_size_bytes: scan.batch_bytes,
            with_row_id: scan.with_row_id,
            with_row_address: scan.with_row_address,
            blob_handling: scan.blob_handling.map(name).transpose()?,
        })
    }
}

impl TryFrom<ScanJson> for ScanWork {
    type Error = Error;

    fn try_from(json: ScanJson) -> Result<Self> {
        Ok(Self {
            columns: json.columns.map(|columns| match columns {
                ColumnsJson::Names(names) => Projection::Names(names),
                ColumnsJson::Expressions(pairs) => Projection::Expressions(pairs),
            }),
            filter: json.filter,
            batch_size: json.batch_size,
            batch_bytes: json.batch_size_bytes,
            with_row_id: json.with_row_id,
            with_row_address: json.with_row_address,
            blob_handling: json.blob_handling.map(|text| text.parse()).transpose()?,
        })
    }
}

impl TryFrom<&Work> for WorkJson {
    type Error = Error;

    fn try_from(work: &Work) -> Result<Self> {
        Ok(match work {
            Work::Scan(scan) => Self::Scan(scan.as_ref().try_into()?),
            Work::Append => Self::Append {},
            Work::Overwrite(table) => Self::Overwrite(TableJson {
                schema: BASE64.encode(table.empty.encode()),
                enable_stable_row_ids: table.create.enable_stable_row_ids,
                enable_v2_manifest_paths: table.create.enable_v2_manifest_paths,
                data_storage_version: table.create.file_version.map(|version| version.to_string()),
                must_create: table.must_create,
                config: table.config.clone(),
            }),
            Work::Delete { predicate } => Self::Delete { predicate: predicate.to_string() },
            Work::Update { assignments, predicate } => Self::Update {
                assignments: assignments.to_vec(),
                predicate: predicate.as_deref().map(str::to_owned),
            },
            Work::Merge(merge) => Self::Merge(merge.as_ref().try_into()?),
            Work::ChangeRows(work) => Self::ChangeRows(work.as_ref().try_into()?),
            Work::AddColumns(columns) => Self::AddColumns(columns.as_ref().try_into()?),
            Work::UpdateColumns(join) => Self::UpdateColumns(join.as_ref().try_into()?),
            Work::Verify => Self::Verify {},
            Work::Compact(options) => Self::Compact(options.as_ref().into()),
        })
    }
}

impl TryFrom<WorkJson> for Work {
    type Error = Error;

    fn try_from(json: WorkJson) -> Result<Self> {
        Ok(match json {
            WorkJson::Scan(scan) => Self::Scan(Arc::new(scan.try_into()?)),
            WorkJson::Append {} => Self::Append,
            WorkJson::Overwrite(table) => Self::Overwrite(Arc::new(NewTable {
                empty: written(&table.schema, "schema")?,
                create: CreateOptions {
                    enable_stable_row_ids: table.enable_stable_row_ids,
                    enable_v2_manifest_paths: table.enable_v2_manifest_paths,
                    file_version: table
                        .data_storage_version
                        .map(|version| version.parse::<FileVersion>())
                        .transpose()?,
                },
                must_create: table.must_create,
                config: table.config,
            })),
            WorkJson::Delete { predicate } => Self::Delete { predicate: predicate.into() },
            WorkJson::Update { assignments, predicate } => {
                Self::Update { assignments: assignments.into(), predicate: predicate.map(Into::into) }
            }
            WorkJson::Merge(merge) => Self::Merge(Arc::new(merge.try_into()?)),
            WorkJson::ChangeRows(work) => Self::ChangeRows(Arc::new(work.try_into()?)),
            WorkJson::AddColumns(columns) => Self::AddColumns(Arc::new(columns.try_into()?)),
            WorkJson::UpdateColumns(join) => Self::UpdateColumns(Arc::new(join.try_into()?)),
            WorkJson::Verify {} => Self::Verify,
            WorkJson::Compact(options) => Self::Compact(Arc::new(options.try_into()?)),
        })
    }
}

impl TryFrom<&TaskResult> for ResultJson {
    type Error = Error;

    fn try_from(result: &TaskResult) -> Result<Self> {
        Ok(Self {
            pennon_job: FORMAT,
            uuid: result.uuid.clone(),
            version: result.version.0,
            task: result.number,
            slices: result.slices.iter().map(Into::into).collect(),
            rows: rows_json(&result.rows),
            written: result.written.as_ref().map(|written| BASE64.encode(written.encode())),
            files: result.files.iter().map(|file| (file.path.clone(), file.bytes)).collect(),
            merged: result.merged.as_ref().map(TryInto::try_into).transpose()?,
            findings: result.findings.iter().map(Into::into).collect(),
        })
    }
}

impl TryFrom<ResultJson> for TaskResult {
    type Error = Error;

    fn try_from(json: ResultJson) -> Result<Self> {
        Ok(Self {
            uuid: json.uuid,
            version: Version(json.version),
            number: json.task,
            slices: json.slices.into_iter().map(Into::into).collect(),
            rows: rows_of(json.rows)?,
            written: json.written.map(|text| written(&text, "written fragments")).transpose()?,
            files: json.files.into_iter().map(|(path, bytes)| WrittenFile { path, bytes }).collect(),
            merged: json.merged.map(TryInto::try_into).transpose()?,
            findings: json.findings.into_iter().map(Into::into).collect(),
        })
    }
}

/// Rows by fragment as bitmaps.
fn rows_json(rows: &RowsByFragment) -> Vec<RowsJson> {
    let json = |(id, rows): (&FragmentId, &DeletionVector)| RowsJson {
        fragment: id.0,
        offsets: BASE64.encode(encode_bitmap(&rows.to_roaring())),
    };
    rows.iter().map(json).collect()
}

/// The inverse of [`rows_json`]. Errors: `InvalidInput`.
fn rows_of(json: Vec<RowsJson>) -> Result<RowsByFragment> {
    let rows = |rows: RowsJson| {
        let what = format!("rows of fragment {}", rows.fragment);
        let bitmap = decode_bitmap(&bytes(&rows.offsets, &what)?);
        let bitmap = bitmap.map_err(|e| Error::invalid_input(format!("{what} of a job: {e}")))?;
        Ok((FragmentId(rows.fragment), DeletionVector::from_roaring(bitmap)))
    };
    json.into_iter().map(rows).collect()
}

/// The columns of a source: a stream of Arrow's IPC format without batches, as base64.
fn columns_json(schema: &Schema) -> Result<String> {
    let failed = |e: ArrowError| Error::internal(format!("columns of a source: {e}"));
    let mut stream = StreamWriter::try_new(Vec::new(), schema).map_err(failed)?;
    stream.finish().map_err(failed)?;
    Ok(BASE64.encode(stream.into_inner().map_err(failed)?))
}

/// The inverse of [`columns_json`]. Errors: `InvalidInput`.
fn columns_of(text: &str) -> Result<SchemaRef> {
    let bytes = bytes(text, "columns of the source")?;
    let failed = |why: String| Error::invalid_input(format!("columns of the source of a job: {why}"));
    // Arrow takes the types of fields for valid ones.
    let schema = guarded(|| try_schema_from_ipc_buffer(&bytes)).map_err(failed)?;
    schema.map(Arc::new).map_err(|error| failed(error.to_string()))
}
