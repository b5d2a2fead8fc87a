//! Reads of all kinds, compared with the model.

use std::collections::{BTreeMap, BTreeSet};

use arrow_array::cast::AsArray;
use arrow_array::types::{Int64Type, UInt64Type};
use arrow_array::{Array, RecordBatch};
use futures::TryStreamExt;
use pennon_core::RowId;
use pennon_table::scan::{Projection, ScanOptions, TakeOptions, TakeRows};
use pennon_table::{Dataset, FeedOptions, FeedPart, FeedPoint, Images, VersionRef};

use super::Step;
use super::line::{Line, text};
use super::model::{Predicate, Row, State, Value, first_name, is_equal};

const LINEAGE: [&str; 3] = ["_rowid", "_row_created_at_version", "_row_last_updated_at_version"];

/// Everything that a version has.
pub(super) async fn state(dataset: &Dataset) -> Result<State, String> {
    let fields: BTreeMap<i32, String> =
        dataset.schema().fields.iter().map(|field| (field.id.0, field.name.clone())).collect();
    let names = fields.values().map(String::as_str).chain(LINEAGE).map(str::to_owned).collect();
    let options = ScanOptions { columns: Some(Projection::Names(names)), ..ScanOptions::default() };
    let batches = scan(dataset, &options).await?;
    let mut rows = BTreeMap::new();
    for batch in &batches {
        let [ids, created, updated] = LINEAGE.map(|name| numbers_of(batch, name));
        let (ids, created, updated) = (ids?, created?, updated?);
        for (at, id) in ids.iter().enumerate() {
            let values = fields
                .iter()
                .map(|(field, name)| Ok((*field, cell(batch, name, at)?)))
                .collect::<Result<_, String>>()?;
            let version = |versions: &[u64]| versions.get(at).copied().unwrap_or(0);
            let row = Row { values, created: version(&created), updated: version(&updated) };
            if rows.insert(*id, row).is_some() {
                return Err(format!("row id {id} is in two rows"));
            }
        }
    }
    Ok(State { rows, fields })
}

async fn scan(dataset: &Dataset, options: &ScanOptions) -> Result<Vec<RecordBatch>, String> {
    dataset.scan(options).map_err(text)?.stream().try_collect().await.map_err(text)
}

fn numbers_of(batch: &RecordBatch, name: &str) -> Result<Vec<u64>, String> {
    let column = batch.column_by_name(name).and_then(|column| column.as_primitive_opt::<UInt64Type>());
    let column = column.ok_or_else(|| format!("there is no column {name} of uint64"))?;
    if column.null_count() > 0 {
        return Err(format!("column {name} has nulls"));
    }
    Ok(column.values().to_vec())
}

fn cell(batch: &RecordBatch, name: &str, at: usize) -> Result<Value, String> {
    let column = batch.column_by_name(name).and_then(|column| column.as_primitive_opt::<Int64Type>());
    let column = column.ok_or_else(|| format!("there is no column {name} of int64"))?;
    Ok(column.is_valid(at).then(|| column.value(at)))
}

/// The newest version is what it was.
pub(super) async fn is_unchanged(line: &Line) -> Result<(), String> {
    is_equal(&state(&line.newest).await?, line.newest_state()?)
}

/// What is read after a step, by its manner.
pub(super) async fn line(line: &Line, step: &Step) -> Result<(), String> {
    let draw = |n: u32| step.manner / n;
    if draw(11).is_multiple_of(2) {
        filters(line, step).await.map_err(|what| format!("a filter: {what}"))?;
    }
    if draw(13).is_multiple_of(4) {
        take(line, step).await.map_err(|what| format!("a take: {what}"))?;
    }
    if draw(17).is_multiple_of(3) {
        let number = line.any_version(draw(19));
        let older = line.newest.checkout(VersionRef::Number(number)).await.map_err(text)?;
        let found = state(&older).await?;
        is_equal(&found, line.state(number)?).map_err(|what| format!("version {number}: {what}"))?;
    }
    if draw(23).is_multiple_of(2) {
        let mut ends = [line.any_version(draw(29)), line.any_version(draw(31))];
        ends.sort_unstable();
        feed(line, ends).await.map_err(|what| format!("the feed of {ends:?}: {what}"))?;
    }
    Ok(())
}

/// A filter, by indices and without.
async fn filters(line: &Line, step: &Step) -> Result<(), String> {
    let predicate = Predicate::draw(step.manner / 37, step.manner / 41, line.next_key);
    let rows = line.newest_state()?.rows.iter();
    let expected: BTreeSet<u64> =
        rows.filter(|(_, row)| predicate.is_true_for(row)).map(|(id, _)| *id).collect();
    for ignore_indices in [false, true] {
        let options = ScanOptions {
            columns: Some(Projection::Names(vec!["_rowid".to_owned()])),
            filter: Some(predicate.sql().as_str().into()),
            ignore_indices,
            strict_indices: true,
            ..ScanOptions::default()
        };
        let mut found = BTreeSet::new();
        for batch in scan(&line.newest, &options).await? {
            found.extend(numbers_of(&batch, "_rowid")?);
        }
        if found != expected {
            let how = if ignore_indices { "without indices" } else { "with indices" };
            return Err(format!("{} {how} gives rows {found:?}, not {expected:?}", predicate.sql()));
        }
    }
    Ok(())
}

/// Rows by id, some of which are not there.
async fn take(line: &Line, step: &Step) -> Result<(), String> {
    let ids: Vec<u64> = (0..4).map(|n| u64::from(step.manner / 43 + n * 7) % (line.next_row + 2)).collect();
    let rows = &line.newest_state()?.rows;
    let expected: Vec<Value> = ids.iter().filter_map(|id| rows.get(id)).map(Row::key).collect();
    let columns = Some(Projection::Names(vec!["k".to_owned()]));
    let options = TakeOptions { columns, ..TakeOptions::default() };
    let wanted = TakeRows::Ids(ids.iter().copied().map(RowId).collect());
    let batch = line.newest.take(wanted, &options).await.map_err(text)?;
    let found: Vec<Value> =
        (0..batch.num_rows()).map(|at| cell(&batch, "k", at)).collect::<Result<_, _>>()?;
    if found == expected {
        Ok(())
    } else {
        Err(format!("rows {ids:?} have keys {found:?}, not {expected:?}"))
    }
}

/// A change: its kind and the values.
type RowImage = (String, BTreeMap<i32, Value>);

/// The net changes between two versions, read as a whole or in parts, are those between their models.
async fn feed(line: &Line, [begin, end]: [u64; 2]) -> Result<(), String> {
    let (old, new) = (line.state(begin)?, line.state(end)?);
    let point = |version| FeedPoint::Version(VersionRef::Number(version));
    let parts = 1 + u32::try_from(end % 3).unwrap_or(0);
    let mut batches: Vec<RecordBatch> = Vec::new();
    for part in 0..parts {
        let part = if parts == 1 { None } else { Some(FeedPart::new(part, parts).map_err(text)?) };
        let options = FeedOptions { images: Images::Both, part, ..FeedOptions::default() };
        let feed = line.newest.changes(point(begin), Some(point(end)), &options).await.map_err(text)?;
        batches.extend(feed.stream().try_collect::<Vec<_>>().await.map_err(text)?);
    }
    let mut found: BTreeMap<u64, Vec<RowImage>> = BTreeMap::new();
    for batch in &batches {
        let kinds = batch.column_by_name("_change_type").and_then(|column| column.as_string_opt::<i32>());
        let kinds = kinds.ok_or("there is no _change_type of utf8")?;
        for (at, id) in numbers_of(batch, "_rowid")?.into_iter().enumerate() {
            let values = new
                .fields
                .iter()
                .map(|(field, name)| Ok((*field, cell(batch, name, at)?)))
                .collect::<Result<_, String>>()?;
            found.entry(id).or_default().push((kinds.value(at).to_owned(), values));
        }
    }
    let (mut others, renamed) = other_columns(old, new);
    let expected = changes(old, new, &others);
    if found == expected {
        return Ok(());
    }
    // Where versions are missing a renamed column may be another one.
    if !line.kept.iter().copied().eq(1..=line.newest.version().0) {
        let known = others.len();
        for chosen in 1..1_u32 << renamed.len().min(10) {
            others.truncate(known);
            let is_chosen = |at: &usize| chosen >> at & 1 == 1;
            others.extend((0..).zip(&renamed).filter(|(at, _)| is_chosen(at)).map(|(_, field)| *field));
            if found == changes(old, new, &others) {
                return Ok(());
            }
        }
    }
    let ids: BTreeSet<&u64> = found.keys().chain(expected.keys()).collect();
    let differs = ids.into_iter().find(|id| found.get(id) != expected.get(id));
    let differs = differs.copied().unwrap_or(0);
    Err(format!("row {differs} has {:?}, not {:?}", found.get(&differs), expected.get(&differs)))
}

/// The fields of the newer of two states that are other columns in the older one, and those that have another name there.
fn other_columns(old: &State, new: &State) -> (Vec<i32>, Vec<i32>) {
    let names = new.fields.iter().filter_map(|(field, name)| Some((*field, name, old.fields.get(field)?)));
    let (renamed, others): (Vec<_>, Vec<_>) = names
        .filter(|(_, name, older)| name != older)
        .partition(|(_, name, older)| first_name(name) == first_name(older));
    let field = |(field, ..): (i32, &String, &String)| field;
    (others.into_iter().map(field).collect(), renamed.into_iter().map(field).collect())
}

/// The net changes between two states, values by the fields of the newer one, null of `others`.
fn changes(old: &State, new: &State, others: &[i32]) -> BTreeMap<u64, Vec<RowImage>> {
    let value = |row: &Row, field: i32| if others.contains(&field) { None } else { row.get(field) };
    let before = |row: &Row| -> BTreeMap<i32, Value> {
        new.fields.keys().map(|field| (*field, value(row, *field))).collect()
    };
    let mut changes = BTreeMap::new();
    for (id, row) in &old.rows {
        let was = before(row);
        match new.rows.get(id) {
            None => drop(changes.insert(*id, vec![("delete".to_owned(), was)])),
            // The same version and other values: a restore has brought a column back.
            Some(now) if now.updated != row.updated || now.values != was => {
                let post = ("update_postimage".to_owned(), now.values.clone());
                changes.insert(*id, vec![("update_preimage".to_owned(), was), post]);
            }
            Some(_) => {}
        }
    }
    for (id, row) in new.rows.iter().filter(|(id, _)| !old.rows.contains_key(id)) {
        changes.insert(*id, vec![("insert".to_owned(), row.values.clone())]);
    }
    changes
}

/// Every version that is kept is what it was, and nothing is wrong with any file.
pub(super) async fn end(line: &Line) -> Result<(), String> {
    for number in &line.kept {
        let version = VersionRef::Number(*number);
        let dataset = line.newest.checkout(version).await.map_err(text)?;
        let found = state(&dataset).await?;
        is_equal(&found, line.state(*number)?).map_err(|what| format!("version {number}: {what}"))?;
    }
    let report = line.newest.verify(pennon_table::ops::verify::Depth::Data).await.map_err(text)?;
    match report.findings.first() {
        None => Ok(()),
        Some(finding) => Err(format!("{finding:?}")),
    }
}
