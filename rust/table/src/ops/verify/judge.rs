//! What is wrong, from values alone: facts in, findings out.
//!
//! A fact that could not be established because of another finding (a file that is missing cannot be opened) is given
//! as absent, so that one damage gives one finding.

use std::collections::{BTreeMap, BTreeSet};

use pennon_core::deletion::DeletionVector;
use pennon_core::file::FileVersion;
use pennon_core::manifest::naming::{self, NamingScheme};
use pennon_core::manifest::{
    DataFile, Flags, Fragment, FragmentSummary, IndexMetadata, LineageSource, Manifest,
};
use pennon_core::rows::RowIdSequence;
use pennon_core::schema::LogicalType;
use pennon_core::{Error, FieldId, Version};
use roaring::RoaringTreemap;

use super::report::{Finding, FindingKind};
use crate::inventory::Damaged;
use crate::versions::Located;

/// A file that versions refer to.
#[derive(Debug, Clone)]
pub(super) struct FileFact {
    /// Its full path.
    pub(super) path: String,
    /// The newest version that refers to it, or that states this size.
    pub(super) version: Version,
    /// The size that version states, if it does.
    pub(super) stated: Option<u64>,
    /// Its size; `None` if it is not there.
    pub(super) found: Option<u64>,
}

/// What a data file turned out to be.
#[derive(Debug)]
pub(super) enum DataFileFact {
    /// It was not opened, because something else is wrong with it.
    Absent,
    /// It does not open.
    Broken(Error),
    /// It opens.
    Open {
        /// Rows in it.
        rows: u64,
        /// Columns in it.
        columns: u64,
        /// Its file version.
        version: FileVersion,
    },
}

/// What the files of a fragment turned out to be.
#[derive(Debug)]
pub(super) struct FragmentFacts {
    /// Full path and content of each data file, in order.
    pub(super) files: Vec<(String, DataFileFact)>,
    /// Full path of the deletion file, if there is one.
    pub(super) deletion_file: Option<String>,
    /// The deletions; `None` if their file was not opened.
    pub(super) deletions: Option<Result<DeletionVector, Error>>,
    /// The row ids, if there are any; `None` if the file they are in was not opened.
    pub(super) lineage: Option<Result<Option<RowIdSequence>, Error>>,
}

/// Ids of the rows of the fragments looked at so far.
#[derive(Debug, Default)]
pub(super) struct Ids(RoaringTreemap);

/// Manifests that do not decode, and how all are named.
pub(super) fn manifests(folder: &str, versions: &[Located], damaged: &[Damaged]) -> Vec<Finding> {
    let mut findings = Vec::new();
    let newest = |scheme| versions.iter().rev().find(|at| at.scheme == scheme);
    if let (Some(old), Some(new)) = (newest(NamingScheme::V1), newest(NamingScheme::V2)) {
        let name = |at: &Located| naming::manifest_name(at.version, at.scheme);
        let message = format!(
            "manifests are named in two ways, such as {} and {}: migrate_manifest_paths_v2 renames the older ones",
            name(old),
            name(new)
        );
        findings.push(Finding::new(FindingKind::MixedNaming, message).at(folder));
    }
    for manifest in damaged {
        let kind = if manifest.torn { FindingKind::TornManifest } else { FindingKind::DamagedManifest };
        let message = manifest.error.to_string();
        let message = message.strip_prefix(&format!("{}: ", manifest.path)).unwrap_or(&message);
        findings.push(Finding::new(kind, message).at(&manifest.path).within(manifest.version));
    }
    findings
}

/// Files that are missing or of another size.
pub(super) fn files<'a>(facts: impl IntoIterator<Item = &'a FileFact>) -> Vec<Finding> {
    let judge = |fact: &FileFact| {
        let finding = match (fact.found, fact.stated) {
            (None, _) => Finding::new(FindingKind::MissingFile, "the file is not there"),
            (Some(found), Some(stated)) if found != stated => {
                let message = format!("{found} bytes, the manifest says {stated}");
                Finding::new(FindingKind::WrongSize, message)
            }
            _ => return None,
        };
        Some(finding.at(&fact.path).within(fact.version))
    };
    facts.into_iter().filter_map(judge).collect()
}

/// Tags of versions that are not there. A version whose manifest is damaged is there.
pub(super) fn tags(tags: &[(String, Version)], versions: &BTreeSet<Version>) -> Vec<Finding> {
    let dangling = tags.iter().filter(|(_, version)| !versions.contains(version));
    let finding = |(name, version): &(String, Version)| {
        Finding::new(
            FindingKind::DanglingTag,
            format!("tag {name:?} names version {version}, which is not there"),
        )
    };
    dangling.map(finding).collect()
}

/// What a manifest says, without a look at any other file.
pub(super) fn version(manifest: &Manifest, indices: &[IndexMetadata]) -> Vec<Finding> {
    let mut findings = Vec::new();
    if let Err(error) = manifest.schema.validate() {
        findings.push(Finding::new(FindingKind::Schema, error.to_string()));
    }
    let ids = manifest.fragments.ids();
    for (first, second) in ids.zip(manifest.fragments.ids().skip(1)) {
        if first >= second {
            let message = format!("fragment {first} stands before fragment {second}");
            findings.push(Finding::new(FindingKind::FragmentIds, message));
        }
    }
    if let Some(last) = manifest.fragments.ids().next_back()
        && manifest.max_fragment_id.is_none_or(|max| max < last.0)
    {
        let message = format!("fragment {last} is above the largest id {:?}", manifest.max_fragment_id);
        findings.push(Finding::new(FindingKind::FragmentIds, message));
    }
    flags(manifest, &mut findings);
    index_entries(manifest, indices, &mut findings);
    findings
}

/// Flags that the content needs and that are not set, and flags without such content.
fn flags(manifest: &Manifest, findings: &mut Vec<Finding>) {
    let any = |has: &dyn Fn(&FragmentSummary) -> bool| manifest.fragments.summaries().any(has);
    let lineage_columns = any(&|fragment| fragment.has_lineage_columns);
    let deletions = any(&|fragment| fragment.has_deletions);
    let row_ids = any(&|fragment| fragment.has_row_ids);
    let overlays = any(&|fragment| fragment.has_overlays);
    let mut versions = BTreeSet::new();
    for fragment in manifest.fragments.decode_all() {
        versions.extend(fragment.files.iter().map(|file| file.version));
    }
    let (reader, writer) = (manifest.reader_flags, manifest.writer_flags);
    let both = reader.0 & writer.0;
    let either = Flags(reader.0 | writer.0);
    let mut check = |flag: Flags, is_needed: bool, what: &str| {
        if is_needed && !Flags(both).contains(flag) {
            let message = format!("there are {what}, the feature flag {flag} is not set in both words");
            findings.push(Finding::new(FindingKind::Flags, message));
        }
    };
    check(Flags::DELETION_FILES, deletions, "deletion files");
    check(Flags::STABLE_ROW_IDS, row_ids, "row ids");
    check(Flags::BASE_PATHS, !manifest.base_paths.is_empty(), "base paths");
    check(Flags::DATA_OVERLAYS, overlays, "overlay files");
    check(Flags::MIXED_FILE_VERSIONS, versions.len() > 1, "data files of several versions");
    check(Flags::LINEAGE_COLUMNS, lineage_columns, "row lineage columns");
    if !manifest.config.is_empty() && !writer.contains(Flags::CONFIG) {
        let message = format!("there is config, the writer's feature flag {} is not set", Flags::CONFIG);
        findings.push(Finding::new(FindingKind::Flags, message));
    }
    for (flag, is_needed) in [(Flags::DELETION_FILES, deletions), (Flags::LINEAGE_COLUMNS, lineage_columns)] {
        if !is_needed && either.contains(flag) {
            let message = format!("the feature flag {flag} is set, and nothing in the manifest needs it");
            findings.push(Finding::new(FindingKind::Flags, message));
        }
    }
}

/// Whether some of its lineage is in data columns.
pub(super) fn has_lineage_columns(fragment: &Fragment) -> bool {
    let sources = [&fragment.row_ids, &fragment.created_at, &fragment.last_updated_at];
    sources.into_iter().any(|source| *source == Some(LineageSource::Column))
}

fn index_entries(manifest: &Manifest, indices: &[IndexMetadata], findings: &mut Vec<Finding>) {
    let fields: BTreeSet<FieldId> = manifest.schema.depth_first().map(|f| f.id).collect();
    let mut seen = BTreeSet::new();
    for index in indices {
        if !seen.insert(index.uuid) {
            let message = format!("two index entries have the uuid {}", index.uuid);
            findings.push(Finding::new(FindingKind::Index, message));
        }
        if let Some(field) = index.fields.iter().find(|id| !fields.contains(id)) {
            let message =
                format!("index {:?} is on field {field}, which the schema does not have", index.name);
            findings.push(Finding::new(FindingKind::Index, message));
        }
    }
}

/// A fragment and its files. Fragments are looked at one after the other: ids are unique in all of them together.
pub(super) fn fragment(
    manifest: &Manifest,
    fragment: &Fragment,
    facts: &FragmentFacts,
    ids: &mut Ids,
) -> Vec<Finding> {
    let mut findings = columns(manifest, fragment);
    let mut all_open = true;
    for (file, (path, fact)) in fragment.files.iter().zip(&facts.files) {
        match fact {
            DataFileFact::Absent => {}
            DataFileFact::Broken(error) => {
                all_open = false;
                findings.push(Finding::new(FindingKind::DamagedFile, stripped(error, path)).at(path));
            }
            DataFileFact::Open { rows, columns, version } => {
                findings.extend(data_file(fragment, file, *rows, *columns, *version).map(|f| f.at(path)));
            }
        }
    }
    let physical = fragment.physical_rows;
    let deleted = match &facts.deletions {
        None => None,
        Some(Err(error)) => {
            let finding = Finding::new(FindingKind::WrongDeletions, error.to_string());
            findings.push(Finding { path: facts.deletion_file.clone(), ..finding });
            None
        }
        Some(Ok(deleted)) => {
            if deleted.len() == physical && physical > 0 {
                let message = format!("all {physical} rows are deleted, such a fragment is left out");
                findings.push(Finding::new(FindingKind::WrongDeletions, message));
            }
            Some(deleted)
        }
    };
    match &facts.lineage {
        // Its columns are in a file that has a finding already.
        Some(Err(_)) if !all_open => {}
        None => {}
        Some(Err(error)) => findings.push(Finding::new(FindingKind::Lineage, error.to_string())),
        Some(Ok(None)) if manifest.has_stable_row_ids() => {
            let message = "no row ids in a table with stable row ids";
            findings.push(Finding::new(FindingKind::Lineage, message));
        }
        Some(Ok(None)) => {}
        Some(Ok(Some(sequence))) => {
            // Which ids are taken is not known without knowing which rows are deleted.
            if let Some(deleted) = deleted {
                findings.extend(row_ids(manifest, &sequence.mask(deleted), ids));
            }
        }
    }
    findings.into_iter().map(|finding| finding.of(fragment.id)).collect()
}

fn columns(manifest: &Manifest, fragment: &Fragment) -> Vec<Finding> {
    let mut findings = Vec::new();
    let fields: BTreeSet<FieldId> = manifest.schema.depth_first().map(|f| f.id).collect();
    let mut seen: BTreeMap<FieldId, &str> = BTreeMap::new();
    let mut lists_all = false;
    for file in &fragment.files {
        // A file of version 0.1 may list nothing and hold everything.
        lists_all |= file.fields.is_empty();
        let tabled = file.version != FileVersion::Legacy;
        if tabled && file.fields.len() != file.column_indices.len() {
            let (fields, columns) = (file.fields.len(), file.column_indices.len());
            let message = format!("{} lists {fields} fields and {columns} columns", file.path);
            findings.push(Finding::new(FindingKind::WrongColumns, message));
        }
        // In files of version 2.0 a struct is a column of its own, in each file that has some of its members.
        let may_repeat = |id| {
            let field = manifest.schema.field_by_id(id);
            file.version == FileVersion::V2_0
                && field.is_none_or(|field| field.logical_type == LogicalType::Struct)
        };
        for &field in file.fields.iter().filter(|id| id.0 >= 0) {
            if let Some(other) = seen.insert(field, &file.path)
                && !may_repeat(field)
            {
                let message = format!("field {field} is in two data files, {other} and {}", file.path);
                findings.push(Finding::new(FindingKind::WrongColumns, message));
            }
        }
    }
    if !lists_all && !fields.is_empty() && seen.keys().all(|id| !fields.contains(id)) {
        let message = "none of its columns belongs to the schema";
        findings.push(Finding::new(FindingKind::WrongColumns, message));
    } else if let Some(field) = fragment.missing_field(&manifest.schema) {
        let message =
            format!("field {} (id {}) may not be null, and no data file has it", field.name, field.id);
        findings.push(Finding::new(FindingKind::WrongColumns, message));
    }
    findings
}

fn data_file(
    fragment: &Fragment,
    file: &DataFile,
    rows: u64,
    columns: u64,
    version: FileVersion,
) -> impl Iterator<Item = Finding> {
    let expected = fragment.physical_rows;
    let wrong_rows = (rows != expected).then(|| {
        Finding::new(FindingKind::WrongDataFile, format!("{rows} rows, the manifest says {expected}"))
    });
    let wrong_version = (version != file.version).then(|| {
        let message = format!("file version {version}, the manifest says {}", file.version);
        Finding::new(FindingKind::WrongDataFile, message)
    });
    let outside = |&&column: &&i32| u64::try_from(column).is_ok_and(|column| column >= columns);
    let wrong_column = file.column_indices.iter().find(outside).map(|column| {
        let message = format!("the manifest refers to column {column}, the file has {columns}");
        Finding::new(FindingKind::WrongColumns, message)
    });
    [wrong_rows, wrong_version, wrong_column].into_iter().flatten()
}

/// Ids that were not given out, or are those of other rows: the first of each.
fn row_ids(manifest: &Manifest, live: &RowIdSequence, ids: &mut Ids) -> Vec<Finding> {
    let (mut counter, mut duplicate) = (None, None);
    for id in live.iter() {
        if id >= manifest.next_row_id {
            counter.get_or_insert(id);
        }
        if !ids.0.insert(id) {
            duplicate.get_or_insert(id);
        }
    }
    let counter = counter.map(|id| {
        let message = format!("row id {id}, the next new one would be {}", manifest.next_row_id);
        Finding::new(FindingKind::RowIdCounter, message)
    });
    let duplicate = duplicate
        .map(|id| Finding::new(FindingKind::DuplicateRowId, format!("row id {id} belongs to two rows")));
    counter.into_iter().chain(duplicate).collect()
}

/// The message of an error without the path it begins with.
fn stripped(error: &Error, path: &str) -> String {
    let message = error.to_string();
    for prefix in [format!("data file {path}: "), format!("{path}: ")] {
        if let Some(rest) = message.strip_prefix(&prefix) {
            return rest.to_owned();
        }
    }
    message
}
