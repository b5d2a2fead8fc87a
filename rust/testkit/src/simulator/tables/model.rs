//! A table as plain maps: what each version has, and what each verb makes of it.

use std::collections::{BTreeMap, BTreeSet};

/// A cell. All columns are of int64.
pub(super) type Value = Option<i64>;

/// The field id of the key column.
pub(super) const KEY: i32 = 0;
/// The field id of the column of values.
pub(super) const VALUE: i32 = 1;

/// A row: its cells by field id, and the versions that made it and last changed it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Row {
    pub(super) values: BTreeMap<i32, Value>,
    pub(super) created: u64,
    pub(super) updated: u64,
}

impl Row {
    pub(super) fn key(&self) -> Value {
        self.get(KEY)
    }

    pub(super) fn get(&self, field: i32) -> Value {
        self.values.get(&field).copied().flatten()
    }
}

/// What one version has: rows by stable id, names of columns by field id.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct State {
    pub(super) rows: BTreeMap<u64, Row>,
    pub(super) fields: BTreeMap<i32, String>,
}

/// A condition, as SQL and as a function of a row.
#[derive(Debug, Clone)]
pub(super) enum Predicate {
    /// The key modulo a number.
    Remainder(i64, i64),
    /// Keys from, and to before.
    Keys(i64, i64),
    /// The value is null.
    IsNull,
    /// The value equals.
    Is(i64),
    /// The value is above, or the key is.
    Above(i64, i64),
    /// The key is one of these.
    In(Vec<i64>),
    /// Two at once.
    And(Box<Predicate>, Box<Predicate>),
    /// Everything that is not so; null stays null.
    Not(Box<Predicate>),
}

impl Predicate {
    /// One of them, from two numbers.
    pub(super) fn draw(kind: u32, number: u32, keys: i64) -> Self {
        let number = i64::from(number);
        let key = |n: i64| n % keys.max(1);
        match kind % 9 {
            0 => Self::Remainder(2 + number % 5, number / 5 % 3),
            1 | 2 => Self::Keys(key(number), key(number) + 1 + number / 7 % 9),
            3 => Self::IsNull,
            4 => Self::Is(number % 7),
            5 => Self::Above(number % 9, key(number / 9)),
            6 => Self::In((0..1 + number % 4).map(|n| key(number + n * 5)).collect()),
            7 => {
                let (left, right) =
                    (Self::draw(1, u32::try_from(number).unwrap_or(0), keys), Self::Is(number % 5));
                Self::And(Box::new(left), Box::new(Self::Not(Box::new(right))))
            }
            _ => Self::Not(Box::new(Self::Above(number % 9, key(number / 9)))),
        }
    }

    pub(super) fn sql(&self) -> String {
        match self {
            Self::Remainder(every, rest) => format!("k % {every} = {rest}"),
            Self::Keys(from, to) => format!("k >= {from} AND k < {to}"),
            Self::IsNull => "v IS NULL".to_owned(),
            Self::Is(value) => format!("v = {value}"),
            Self::Above(value, key) => format!("v > {value} OR k > {key}"),
            Self::In(keys) => {
                format!("k IN ({})", keys.iter().map(i64::to_string).collect::<Vec<_>>().join(", "))
            }
            Self::And(left, right) => format!("({}) AND ({})", left.sql(), right.sql()),
            Self::Not(inner) => format!("NOT ({})", inner.sql()),
        }
    }

    /// True, false, or null.
    fn truth(&self, key: Value, value: Value) -> Option<bool> {
        match self {
            Self::Remainder(every, rest) => key.map(|k| k % every == *rest),
            Self::Keys(from, to) => key.map(|k| (*from..*to).contains(&k)),
            Self::IsNull => Some(value.is_none()),
            Self::Is(wanted) => value.map(|v| v == *wanted),
            Self::Above(least, past) => match (value.map(|v| v > *least), key.map(|k| k > *past)) {
                (Some(true), _) | (_, Some(true)) => Some(true),
                (Some(false), Some(false)) => Some(false),
                _ => None,
            },
            Self::In(keys) => key.map(|k| keys.contains(&k)),
            Self::And(left, right) => match (left.truth(key, value), right.truth(key, value)) {
                (Some(false), _) | (_, Some(false)) => Some(false),
                (Some(true), Some(true)) => Some(true),
                _ => None,
            },
            Self::Not(inner) => inner.truth(key, value).map(|truth| !truth),
        }
    }

    pub(super) fn is_true_for(&self, row: &Row) -> bool {
        self.truth(row.get(KEY), row.get(VALUE)) == Some(true)
    }
}

/// New values for the column of values.
#[derive(Debug, Clone)]
pub(super) enum Assignment {
    Increment,
    OfKey,
    Constant(Value),
}

impl Assignment {
    pub(super) fn draw(number: u32) -> Self {
        match number % 4 {
            0 => Self::Increment,
            1 => Self::OfKey,
            2 => Self::Constant(None),
            _ => Self::Constant(Some(i64::from(number % 11))),
        }
    }

    pub(super) fn sql(&self) -> String {
        match self {
            Self::Increment => "coalesce(v, 0) + 1".to_owned(),
            Self::OfKey => "k * 3".to_owned(),
            Self::Constant(None) => "NULL".to_owned(),
            Self::Constant(Some(value)) => value.to_string(),
        }
    }

    fn of(&self, row: &Row) -> Value {
        match self {
            Self::Increment => Some(row.get(VALUE).unwrap_or(0) + 1),
            Self::OfKey => row.get(KEY).map(|key| key * 3),
            Self::Constant(value) => *value,
        }
    }
}

/// What a merge does with rows that are in both.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Matched {
    Keep,
    Update,
    /// If the source's value is above the table's.
    UpdateIfAbove,
    Delete,
}

/// What a verb does to the rows, by its own intent.
#[derive(Debug, Clone)]
pub(super) enum Effect {
    /// New rows, in this order.
    Append(Vec<(i64, Value)>),
    /// The table is these rows, in a schema of two columns.
    Overwrite(Vec<(i64, Value)>),
    Delete(Predicate),
    Update(Predicate, Assignment),
    /// Rows by id.
    UpdateRows(BTreeSet<u64>, Value),
    /// The source by key.
    Merge {
        source: BTreeMap<i64, Value>,
        matched: Matched,
        insert: bool,
        unmatched: Option<Predicate>,
    },
    /// All is as in this version.
    Restore(Box<State>),
    /// These rows are as in this version.
    RestoreRows(BTreeSet<u64>, Box<State>),
    /// A column, its values the key plus a number, or null.
    AddColumn(String, Option<i64>),
    /// A column, null in all rows, and a change of rows.
    WithColumn(String, Box<Self>),
    DropColumn(i32),
    RenameColumn(i32, String),
    /// Rows and columns are kept.
    Keep,
}

/// What a verb read, found in its way, and made.
pub(super) struct Commit<'a> {
    /// The version that the verb read, at its last try.
    pub(super) read: &'a State,
    /// The version before the one it made.
    pub(super) base: &'a State,
    /// What the version that it made has: for the names of new things only.
    pub(super) found: &'a State,
    pub(super) version: u64,
    /// The first row id that was not given out before.
    pub(super) next_row: u64,
}

impl Effect {
    /// What it does besides a column that it adds.
    pub(super) fn of_rows(&self) -> &Self {
        if let Self::WithColumn(_, change) = self { change } else { self }
    }

    /// The state that must be there now. Errors: what no order of the commits explains.
    pub(super) fn applied(&self, commit: &Commit<'_>) -> Result<State, String> {
        let mut state = commit.base.clone();
        let version = commit.version;
        match self {
            Self::Keep => {}
            Self::Append(rows) => {
                for (id, (key, value)) in (commit.next_row..).zip(rows) {
                    state.rows.insert(id, new_row(&state.fields, *key, *value, version));
                }
            }
            Self::Overwrite(rows) => {
                state.fields = two_columns();
                state.rows.clear();
                for (id, (key, value)) in (commit.next_row..).zip(rows) {
                    state.rows.insert(id, new_row(&state.fields, *key, *value, version));
                }
            }
            Self::Delete(predicate) => {
                for (id, row) in commit.read.rows.iter().filter(|(_, row)| predicate.is_true_for(row)) {
                    commit.is_unchanged(*id, row, true)?;
                    state.rows.remove(id);
                }
            }
            Self::Update(predicate, assignment) => {
                for (id, row) in commit.read.rows.iter().filter(|(_, row)| predicate.is_true_for(row)) {
                    commit.is_unchanged(*id, row, false)?;
                    set(&mut state, *id, assignment.of(row), version);
                }
            }
            Self::UpdateRows(ids, value) => {
                for id in ids {
                    if let Some(row) = commit.read.rows.get(id) {
                        commit.is_unchanged(*id, row, false)?;
                        set(&mut state, *id, *value, version);
                    }
                }
            }
            Self::Merge { source, matched, insert, unmatched } => {
                merge(&mut state, commit, source, *matched, *insert, unmatched.as_ref())?;
            }
            Self::Restore(then) => state = (**then).clone(),
            Self::RestoreRows(ids, then) => {
                for id in ids {
                    let Some(old) = then.rows.get(id) else { continue };
                    match (commit.read.rows.get(id), commit.base.rows.get(id)) {
                        (Some(row), _) => commit.is_unchanged(*id, row, false)?,
                        (None, None) => {}
                        (None, Some(_)) => {
                            return Err(format!("row {id} was restored over another restoration"));
                        }
                    }
                    state.rows.insert(*id, Row { updated: version, ..old.clone() });
                }
            }
            Self::AddColumn(name, addend) => {
                let field = commit.add_column(&mut state, name)?;
                for (id, row) in &mut state.rows {
                    match (addend, commit.read.rows.get(id)) {
                        (None, _) => drop(row.values.insert(field, None)),
                        (Some(addend), Some(old)) if old.updated == row.updated => {
                            row.values.insert(field, old.get(KEY).map(|key| key + addend));
                            row.updated = version;
                        }
                        _ => {
                            return Err(format!(
                                "column {name} was added though row {id} was changed meanwhile"
                            ));
                        }
                    }
                }
            }
            Self::WithColumn(name, change) => {
                let field = commit.add_column(&mut state, name)?;
                for row in state.rows.values_mut() {
                    row.values.insert(field, None);
                }
                state = change.applied(&Commit { base: &state, ..*commit })?;
            }
            Self::DropColumn(field) => {
                state.fields.remove(field);
                state.rows.values_mut().for_each(|row| row.values.retain(|other, _| other != field));
            }
            Self::RenameColumn(field, name) => drop(state.fields.insert(*field, name.clone())),
        }
        Ok(state)
    }
}

impl Commit<'_> {
    /// A column of a name in the version that was made: its field.
    fn add_column(&self, state: &mut State, name: &str) -> Result<i32, String> {
        let field = self.found.fields.iter().find(|(_, found)| *found == name);
        let field = *field.ok_or_else(|| format!("there is no column {name}"))?.0;
        match state.fields.insert(field, name.to_owned()) {
            None => Ok(field),
            Some(_) => Err(format!("column {name} has the field id {field} of another one")),
        }
    }

    /// A row that a verb decided about may not have been changed by others meanwhile; a deletion may have come first if
    /// that is what this one does too.
    fn is_unchanged(&self, id: u64, read: &Row, may_be_gone: bool) -> Result<(), String> {
        match self.base.rows.get(&id) {
            Some(row) if row.updated == read.updated => Ok(()),
            None if may_be_gone => Ok(()),
            Some(row) => Err(format!(
                "row {id} was read as of version {} and changed though version {} has changed it meanwhile",
                read.updated, row.updated
            )),
            None => Err(format!("row {id} was changed though somebody else has deleted it meanwhile")),
        }
    }
}

pub(super) fn two_columns() -> BTreeMap<i32, String> {
    BTreeMap::from([(KEY, "k".to_owned()), (VALUE, "v".to_owned())])
}

/// The name that a column was added under: it is kept at the beginning of others.
pub(super) fn first_name(name: &str) -> &str {
    name.split('r').next().unwrap_or(name)
}

fn new_row(fields: &BTreeMap<i32, String>, key: i64, value: Value, version: u64) -> Row {
    let mut values: BTreeMap<i32, Value> = fields.keys().map(|field| (*field, None)).collect();
    values.insert(KEY, Some(key));
    values.insert(VALUE, value);
    Row { values, created: version, updated: version }
}

fn set(state: &mut State, id: u64, value: Value, version: u64) {
    if let Some(row) = state.rows.get_mut(&id) {
        row.values.insert(VALUE, value);
        row.updated = version;
    }
}

fn merge(
    state: &mut State,
    commit: &Commit<'_>,
    source: &BTreeMap<i64, Value>,
    matched: Matched,
    insert: bool,
    unmatched: Option<&Predicate>,
) -> Result<(), String> {
    let mut known = BTreeSet::new();
    for (id, row) in &commit.read.rows {
        let Some((key, new)) = row.get(KEY).and_then(|key| source.get_key_value(&key)) else {
            if unmatched.is_some_and(|predicate| predicate.is_true_for(row)) {
                commit.is_unchanged(*id, row, true)?;
                state.rows.remove(id);
            }
            continue;
        };
        known.insert(*key);
        match matched {
            Matched::Delete => {
                commit.is_unchanged(*id, row, true)?;
                state.rows.remove(id);
            }
            Matched::Update => {
                commit.is_unchanged(*id, row, false)?;
                set(state, *id, *new, commit.version);
            }
            Matched::UpdateIfAbove if matches!((new, row.get(VALUE)), (Some(new), Some(old)) if *new > old) =>
            {
                commit.is_unchanged(*id, row, false)?;
                set(state, *id, *new, commit.version);
            }
            Matched::UpdateIfAbove | Matched::Keep => {}
        }
    }
    if !insert {
        return Ok(());
    }
    // Which of the new rows gets which of the new ids is the table's business.
    let mut inserted: BTreeMap<i64, Value> =
        source.iter().filter(|(key, _)| !known.contains(key)).map(|(key, value)| (*key, *value)).collect();
    let first = commit.next_row;
    let end = first + u64::try_from(inserted.len()).unwrap_or(0);
    for (id, row) in commit.found.rows.range(first..) {
        let key = row.get(KEY).unwrap_or(-1);
        let value =
            inserted.remove(&key).ok_or_else(|| format!("a merge inserted the key {key} for no reason"))?;
        if *id >= end {
            return Err(format!("a merge gave out row id {id}, the last one had to be {}", end - 1));
        }
        state.rows.insert(*id, new_row(&state.fields, key, value, commit.version));
    }
    match inserted.keys().next() {
        None => Ok(()),
        Some(key) => Err(format!("a merge did not insert the key {key}")),
    }
}

/// Compares a version with what it must have.
pub(super) fn is_equal(found: &State, expected: &State) -> Result<(), String> {
    if found.fields != expected.fields {
        return Err(format!("the columns are {:?}, not {:?}", found.fields, expected.fields));
    }
    for (id, row) in &expected.rows {
        match found.rows.get(id) {
            Some(other) if other == row => {}
            Some(other) => return Err(format!("row {id} is {other:?}, not {row:?}")),
            None => return Err(format!("row {id} is missing: {row:?}")),
        }
    }
    match found.rows.iter().find(|(id, _)| !expected.rows.contains_key(id)) {
        None => Ok(()),
        Some((id, row)) => Err(format!("row {id} must not be there: {row:?}")),
    }
}
