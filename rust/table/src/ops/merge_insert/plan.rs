//! What a merge will do, decided from its clauses and the two schemas; and the same as a text.
//!
//! | a row is | and | becomes |
//! |---|---|---|
//! | in both | `when_matched` | itself, the source's values, an error, or nothing |
//! | in the source only | `insert` | a new row or nothing |
//! | in the table only | `delete_unmatched` | itself or nothing |

use std::fmt;

use arrow_schema::{DataType, Schema as ArrowSchema};
use pennon_core::schema::{Field, Schema, unknown_field};
use pennon_core::{Error, FieldId, Result};

use crate::expr::Expression;
use crate::json;
use crate::scan;
pub(super) use crate::scan::ROW_ID;
use crate::versions::snapshot::Snapshot;
use crate::write::members;

/// What happens to rows that are in the table and in the source.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum WhenMatched {
    /// They stay as they are.
    #[default]
    DoNothing,
    /// They get the values of the source.
    UpdateAll,
    /// They get the values of the source if an SQL condition on `source.x` and `target.x` is true.
    UpdateIf(String),
    /// They are deleted.
    Delete,
    /// They are an error.
    Fail,
}

impl WhenMatched {
    /// From its name and a condition. Errors: `InvalidInput` for another name, and for a condition of anything but an
    /// update.
    pub fn parse(name: &str, condition: Option<String>) -> Result<Self> {
        Ok(match (name, condition) {
            ("nothing", None) => Self::DoNothing,
            ("update", None) => Self::UpdateAll,
            ("update", Some(condition)) => Self::UpdateIf(condition),
            ("delete", None) => Self::Delete,
            ("fail", None) => Self::Fail,
            ("nothing" | "delete" | "fail", Some(condition)) => {
                return Err(Error::invalid_input(format!(
                    "when_matched is {name:?} with the condition {condition:?}; expected one with \"update\" only"
                )));
            }
            (other, _) => {
                return Err(Error::invalid_input(format!(
                    "when_matched is {other:?}; expected \"nothing\", \"update\", \"delete\" or \"fail\""
                )));
            }
        })
    }

    /// The inverse of [`Self::parse`].
    pub fn parts(&self) -> (&'static str, Option<&str>) {
        match self {
            Self::DoNothing => ("nothing", None),
            Self::UpdateAll => ("update", None),
            Self::UpdateIf(condition) => ("update", Some(condition)),
            Self::Delete => ("delete", None),
            Self::Fail => ("fail", None),
        }
    }
}

/// What happens to rows that are in the table only.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum WhenUnmatchedTarget {
    /// They stay as they are.
    #[default]
    Keep,
    /// They are deleted.
    Delete,
    /// They are deleted if an SQL predicate on the columns of the table is true.
    DeleteIf(String),
}

impl WhenUnmatchedTarget {
    /// From whether they are deleted, and the predicate for which alone they are. Errors: `InvalidInput` for a predicate of
    /// rows that stay.
    pub fn new(delete: bool, condition: Option<String>) -> Result<Self> {
        match (delete, condition) {
            (false, None) => Ok(Self::Keep),
            (true, None) => Ok(Self::Delete),
            (true, Some(condition)) => Ok(Self::DeleteIf(condition)),
            (false, Some(condition)) => Err(Error::invalid_input(format!(
                "Rows without a match in the source stay, with the condition {condition:?}; expected one only if they are \
                 deleted"
            ))),
        }
    }

    /// The inverse of [`Self::new`].
    pub fn parts(&self) -> (bool, Option<&str>) {
        match self {
            Self::Keep => (false, None),
            Self::Delete => (true, None),
            Self::DeleteIf(condition) => (true, Some(condition)),
        }
    }
}

/// How changed rows are stored.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum MergeWriteMode {
    /// Whatever is cheaper.
    #[default]
    Auto,
    /// Whole rows in new fragments.
    RewriteRows,
    /// New files with the columns of the source for the fragments that have the rows.
    RewriteColumns,
}

impl std::str::FromStr for MergeWriteMode {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        match text {
            "auto" => Ok(Self::Auto),
            "rewrite_rows" => Ok(Self::RewriteRows),
            "rewrite_columns" => Ok(Self::RewriteColumns),
            _ => Err(Error::invalid_input(format!(
                "Invalid write_mode: {text}. Expected one of 'auto', 'rewrite_rows', 'rewrite_columns'"
            ))),
        }
    }
}

/// What becomes of which rows.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MergeClauses {
    /// Key columns; none: those of the declared primary key. `_rowid` alone finds rows by their ids.
    pub on: Vec<String>,
    /// Rows that are in both.
    pub when_matched: WhenMatched,
    /// Whether rows that are in the source only are inserted.
    pub insert: bool,
    /// Rows that are in the table only.
    pub when_unmatched_target: WhenUnmatchedTarget,
    /// How changed rows are stored.
    pub write_mode: MergeWriteMode,
}

/// What is done with matched rows.
#[derive(Debug, Clone)]
pub(super) enum Matched {
    Nothing,
    Update(Option<Expression>),
    Delete,
    Fail,
}

/// A merge into one version.
#[derive(Debug)]
pub(super) struct MergePlan {
    /// The key columns.
    pub(super) on: Vec<Field>,
    /// Whether the key is the row id; `on` is empty then.
    pub(super) by_row_id: bool,
    /// Columns of the table that the source has.
    pub(super) given: Vec<Field>,
    /// Columns of the table that it does not have.
    pub(super) missing: Vec<Field>,
    /// Columns that it has, but not all members of: the others stay in rows that match.
    pub(super) partial: Vec<Field>,
    pub(super) matched: Matched,
    pub(super) insert: bool,
    /// Which rows that only the table has are deleted.
    pub(super) delete_unmatched: Option<Expression>,
    text: String,
}

impl MergePlan {
    /// Errors: `InvalidInput` for clauses that do nothing, unknown keys, conditions that do not parse and columns that
    /// rows cannot be inserted without; `SchemaMismatch` for a source whose columns do not fit the table.
    pub(super) fn new(snapshot: &Snapshot, clauses: &MergeClauses, source: &ArrowSchema) -> Result<Self> {
        clauses.check()?;
        let source = &*json::stored_schema(source);
        let table = &*snapshot.manifest.schema;
        let names = key_columns(table, &clauses.on)?;
        let by_row_id = names == [ROW_ID];
        check_keys(table, &names, source)?;
        let updates = matches!(clauses.when_matched, WhenMatched::UpdateAll | WhenMatched::UpdateIf(_));
        let data = if updates || clauses.insert {
            let written = source.fields().iter().filter(|field| !(by_row_id && field.name() == ROW_ID));
            Schema::from_arrow(&ArrowSchema::new(written.cloned().collect::<Vec<_>>()))?
        } else {
            // Other columns are not looked at.
            Schema::default()
        };
        let has = |field: &&Field| data.field(&field.name).is_some();
        let (given, missing): (Vec<_>, Vec<_>) = table.fields.iter().partition(has);
        Schema { fields: given.iter().map(|f| (*f).clone()).collect(), metadata: Default::default() }
            .check_append(&data)?;
        let required: Vec<&str> = missing.iter().filter(|f| !f.nullable).map(|f| f.name.as_str()).collect();
        if clauses.insert && !required.is_empty() {
            return Err(Error::invalid_input(format!(
                "Cannot insert rows with a partial-schema source: target column(s) {required:?} are non-nullable and \
                 not provided by the source. Either add them to the source or set when_not_matched to DoNothing."
            )));
        }
        let is_partial = |field: &Field| {
            let given = source.column_with_name(&field.name);
            given.is_some_and(|(_, given)| members::keeps_members(field, given.data_type()))
        };
        let matched = match &clauses.when_matched {
            WhenMatched::DoNothing => Matched::Nothing,
            WhenMatched::UpdateAll => Matched::Update(None),
            WhenMatched::UpdateIf(sql) => {
                let target = scan::visible_schema(&snapshot.manifest.schema);
                let condition = Expression::pair_predicate(sql, source, &target)?;
                // Null for all is a constant too.
                match condition.constant() {
                    Some(true) => Matched::Update(None),
                    Some(false) => Matched::Nothing,
                    None => Matched::Update(Some(condition)),
                }
            }
            WhenMatched::Delete => Matched::Delete,
            WhenMatched::Fail => Matched::Fail,
        };
        let delete_unmatched = match &clauses.when_unmatched_target {
            WhenUnmatchedTarget::Keep => None,
            WhenUnmatchedTarget::Delete => Some(scan::table_predicate(snapshot, "true")?),
            WhenUnmatchedTarget::DeleteIf(sql) => Some(scan::table_predicate(snapshot, sql)?),
        };
        let on = if by_row_id {
            Vec::new()
        } else {
            names.iter().filter_map(|n| table.field(n).cloned()).collect()
        };
        let plan = Self {
            on,
            by_row_id,
            partial: given.iter().filter(|field| is_partial(field)).map(|field| (*field).clone()).collect(),
            given: given.into_iter().cloned().collect(),
            missing: missing.into_iter().cloned().collect(),
            matched,
            insert: clauses.insert,
            delete_unmatched,
            text: clauses.describe(&names),
        };
        if clauses.write_mode == MergeWriteMode::RewriteColumns {
            plan.check_columns_mode()?;
        }
        Ok(plan)
    }

    /// Columns whose values may change in rows that match: those of the source without the keys.
    pub(super) fn changed(&self) -> impl Iterator<Item = &Field> {
        self.given.iter().filter(|field| !self.on.iter().any(|key| key.id == field.id))
    }

    /// Errors: `InvalidInput` if new columns for old fragments cannot be what the merge does.
    pub(super) fn check_columns_mode(&self) -> Result<()> {
        let why = if self.insert {
            "inserting unmatched source rows adds rows, which patching cannot do"
        } else if self.delete_unmatched.is_some() {
            "deleting target rows unmatched by the source removes rows"
        } else if !matches!(self.matched, Matched::Update(_)) {
            "no matched row is updated"
        } else if self.missing.is_empty() && self.partial.is_empty() {
            "the source covers every dataset column, so there is nothing to skip"
        } else if self.changed().next().is_none() {
            "the source carries no column besides the join key"
        } else {
            return Ok(());
        };
        Err(Error::invalid_input(format!(
            "MergeInsertWriteMode::RewriteColumns cannot express this merge insert: {why}. Use \
             MergeInsertWriteMode::Auto or RewriteRows instead."
        )))
    }

    /// The condition on pairs of rows.
    pub(super) fn condition(&self) -> Option<&Expression> {
        match &self.matched {
            Matched::Update(condition) => condition.as_ref(),
            _ => None,
        }
    }

    /// Columns of one side that the condition reads, without the name of the side.
    pub(super) fn condition_columns(&self, side: &str) -> Vec<String> {
        let columns = self.condition().map(Expression::columns).unwrap_or_default();
        let of_side = columns.iter().filter_map(|name| name.strip_prefix(side)?.strip_prefix('.'));
        of_side.map(str::to_owned).collect()
    }

    /// Ids of the key columns.
    pub(super) fn key_ids(&self) -> Vec<FieldId> {
        self.on.iter().map(|field| field.id).collect()
    }

    /// What is done, as indented lines, with the indices that find keys and with `note` behind each step.
    pub(super) fn explain(
        &self,
        snapshot: &Snapshot,
        indices: Option<&str>,
        note: impl Fn(Step) -> String,
    ) -> String {
        let names = |fields: &[String]| format!("[{}]", fields.join(", "));
        let on: Vec<String> = self.on.iter().map(|f| f.name.clone()).collect();
        let mut read = on.clone();
        read.extend(self.condition_columns("target").into_iter().filter(|c| !on.contains(c)));
        let mut given = if self.by_row_id { vec![ROW_ID.to_owned()] } else { on.clone() };
        given.extend(self.changed().map(|f| f.name.clone()));
        let missing: Vec<String> = self.missing.iter().map(|f| f.name.clone()).collect();
        let mut lines = vec![format!("MergeInsert: {}{}", self.text, note(Step::Merge))];
        if matches!(self.matched, Matched::Update(_)) && !missing.is_empty() {
            lines.push(format!("  Take: projection={}, rows=matched{}", names(&missing), note(Step::Take)));
        }
        let condition = self.condition().map(|c| format!(", filter={}", c.sql())).unwrap_or_default();
        if self.by_row_id {
            lines.push(format!("  RowIdLookup: on=[_rowid]{condition}{}", note(Step::Join)));
        } else {
            let keys: Vec<String> = on.iter().map(|name| format!("({name}, {name})")).collect();
            let fragments = snapshot.manifest.fragments.len();
            lines.push(format!(
                "  HashJoinExec: join_type=Inner, on={}{condition}{}",
                names(&keys),
                note(Step::Join)
            ));
            lines.push(format!(
                "    LanceRead: uri={}, projection={}, num_fragments={fragments}, row_addr=true{}",
                snapshot.store.uri(),
                names(&read),
                note(Step::Target)
            ));
            if let Some(indices) = indices {
                lines.push(format!("      rows found by indices: {indices}"));
            }
        }
        lines.push(format!("    Source: projection={}{}", names(&given), note(Step::Source)));
        if let Some(predicate) = &self.delete_unmatched {
            lines.push(format!(
                "  LanceRead: row_addr=true, filter={}{}",
                predicate.sql(),
                note(Step::Unmatched)
            ));
        }
        lines.push(String::new());
        lines.join("\n")
    }
}

/// A line of an explanation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    Merge,
    Take,
    Join,
    Target,
    Source,
    Unmatched,
}

impl MergeClauses {
    /// Errors: `InvalidInput` if nothing can change.
    fn check(&self) -> Result<()> {
        let nothing = self.when_matched == WhenMatched::DoNothing
            && !self.insert
            && self.when_unmatched_target == WhenUnmatchedTarget::Keep;
        if nothing {
            return Err(Error::invalid_input(
                "The merge insert job is not configured to change the data in any way",
            ));
        }
        Ok(())
    }

    fn describe(&self, on: &[String]) -> String {
        let insert = if self.insert { "InsertAll" } else { "DoNothing" };
        format!(
            "on=[{}], when_matched={}, when_not_matched={insert}, when_not_matched_by_source={}",
            on.join(", "),
            self.when_matched,
            self.when_unmatched_target
        )
    }
}

impl fmt::Display for WhenMatched {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UpdateIf(condition) => write!(f, "UpdateIf({condition})"),
            other => write!(f, "{other:?}"),
        }
    }
}

impl fmt::Display for WhenUnmatchedTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::DeleteIf(predicate) => write!(f, "DeleteIf({predicate})"),
            other => write!(f, "{other:?}"),
        }
    }
}

/// Errors: `InvalidInput` for keys that the source does not have, `SchemaMismatch` for those of other types; integers
/// of another width can be compared.
fn check_keys(table: &Schema, names: &[String], source: &ArrowSchema) -> Result<()> {
    for name in names {
        let Some((_, found)) = source.column_with_name(name) else {
            let valid = source.fields().iter().map(|field| field.name().as_str());
            return Err(unknown_field(name, valid).at("The source has no such key column"));
        };
        if name == ROW_ID && found.data_type() != &DataType::UInt64 {
            return Err(Error::schema_mismatch("The key column _rowid of the source must be uint64"));
        }
        let Some(expected) = table.field(name) else { continue };
        if !(found.data_type().is_integer() && expected.data_type().is_integer()) {
            let key = Schema { fields: vec![expected.clone()], metadata: Default::default() };
            key.check_append(&Schema::from_arrow(&ArrowSchema::new(vec![found.clone()]))?)?;
        }
    }
    Ok(())
}

/// The names of the key columns as the table has them, each once; of the declared primary key if none are given.
///
/// Errors: `InvalidInput` for unknown columns and members of structs, for a row id with other columns, and if there is no
/// key.
pub(super) fn key_columns(table: &Schema, on: &[String]) -> Result<Vec<String>> {
    let mut names: Vec<String> = Vec::new();
    let mut keys: Vec<&Field> = table.depth_first().filter(|f| f.unenforced_primary_key).collect();
    keys.sort_by_key(|f| f.carried.primary_key_position);
    let declared: Vec<String> = keys.into_iter().map(|f| f.name.clone()).collect();
    for name in if on.is_empty() { &declared } else { on } {
        let found = match table.column_by_path(name) {
            Some(column) => column.name.clone(),
            None if table.field_by_path(name).is_some() => {
                return Err(Error::invalid_input(format!(
                    "Merge insert key column '{name}' is a member of a struct: keys are columns of the table"
                )));
            }
            None if name == ROW_ID => name.clone(),
            None => {
                let same = |f: &&Field| f.name.to_lowercase() == name.to_lowercase();
                let mut same = table.fields.iter().filter(same);
                let (Some(field), None) = (same.next(), same.next()) else {
                    return Err(Error::invalid_input(format!(
                        "Merge insert key column '{name}' does not exist in schema"
                    )));
                };
                field.name.clone()
            }
        };
        if !names.contains(&found) {
            names.push(found);
        }
    }
    if names.is_empty() {
        return Err(Error::invalid_input(
            "A merge insert operation requires join keys: specify `on` columns explicitly or configure a primary key \
             in the dataset schema",
        ));
    }
    if names.len() > 1 && names.iter().any(|name| name == ROW_ID) {
        return Err(Error::invalid_input(
            "_rowid is a key of its own: it cannot be combined with other columns",
        ));
    }
    Ok(names)
}
