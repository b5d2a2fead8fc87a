//! The columns of a result, and what has to be read to make them.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{ArrayRef, RecordBatch};
use arrow_schema::{DataType, Field as ArrowField, Schema as ArrowSchema, SchemaRef};
use pennon_core::schema::{Field, Schema};
use pennon_core::{Error, Result};

use super::check_unique;
use super::system_columns::System;
use super::{Members, Projection};
use crate::batches::batch_with_rows;
use crate::blobs::BlobHandling;
use crate::expr::{Expression, visible};
use crate::json::{self, JsonHandling};
use crate::versions::snapshot::Snapshot;

/// How values are given that have several forms.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ValueForm {
    pub(super) blobs: BlobHandling,
    pub(super) json: JsonHandling,
    pub(super) members: Members,
}

impl ValueForm {
    /// Of rows whose selection is kept with the snapshot.
    pub(super) const PLAIN: Self =
        Self { blobs: BlobHandling::Descriptions, json: JsonHandling::Text, members: Members::Apart };
}

/// What has to be read: parts of top-level fields, and system columns.
#[derive(Debug)]
pub(crate) struct Input {
    pub(crate) fields: Vec<Field>,
    pub(super) system: Vec<System>,
    /// `fields`, then `system`.
    pub(crate) schema: SchemaRef,
}

/// What the result consists of.
#[derive(Debug)]
pub(super) struct Output {
    columns: Vec<OutputColumn>,
    /// The columns as they are made of the input.
    made: Vec<ArrowField>,
    /// The columns as they are given.
    pub(super) schema: SchemaRef,
}

/// What is read, and the result that is made of it.
#[derive(Debug)]
pub(crate) struct Selection {
    pub(super) input: Input,
    pub(super) output: Output,
    /// The columns of the input that the result needs.
    pub(super) needed: Vec<bool>,
}

/// Where a column of the result comes from.
#[derive(Debug)]
enum OutputColumn {
    /// A column of the input.
    Column(usize),
    /// A nested field: input column, then child names.
    Nested(usize, Vec<String>),
    Expression(Expression),
}

impl OutputColumn {
    fn nested(at: usize, rest: &[String]) -> Self {
        if rest.is_empty() { Self::Column(at) } else { Self::Nested(at, rest.to_vec()) }
    }
}

/// A column that was asked for.
enum Asked {
    Path {
        name: String,
        path: Vec<String>,
    },
    /// A top-level field with some of its members.
    Members {
        name: String,
        paths: Vec<Vec<String>>,
    },
    System(System),
    Expression(String, Expression),
}

impl Asked {
    fn name(&self) -> &str {
        match self {
            Self::Path { name, .. } | Self::Members { name, .. } | Self::Expression(name, _) => name,
            Self::System(system) => system.name(),
        }
    }
}

/// A filter over the columns of a table, blobs as descriptions, and its system columns.
///
/// Errors: see [`Expression::predicate`].
pub fn table_predicate(snapshot: &Snapshot, sql: &str) -> Result<Expression> {
    predicate(snapshot, sql, BlobHandling::Descriptions)
}

/// The same for columns whose blobs are in this form.
pub(crate) fn predicate(snapshot: &Snapshot, sql: &str, blobs: BlobHandling) -> Result<Expression> {
    Expression::predicate(sql, &visible_schema(&blobs.apply(&snapshot.manifest)))
}

/// The table's columns and the system columns: what filters and expressions may name.
pub(crate) fn visible_schema(table: &Schema) -> ArrowSchema {
    let table = table.to_arrow();
    let mut fields: Vec<_> = table.fields().iter().map(Arc::clone).collect();
    let system = System::ALL.into_iter().filter(|s| table.column_with_name(s.name()).is_none());
    fields.extend(system.map(|s| Arc::new(s.field())));
    ArrowSchema::new(fields)
}

/// Input and output for some columns, the appended system columns and a filter.
pub(super) fn resolve(
    snapshot: &Snapshot,
    columns: Option<&Projection>,
    appended: &[System],
    filter: Option<&Expression>,
    form: ValueForm,
) -> Result<(Input, Output)> {
    let ValueForm { blobs, json, members } = form;
    let schema = &*blobs.apply(&snapshot.manifest);
    let mut asked = match columns {
        None => schema.fields.iter().map(|f| top_level(&f.name)).collect(),
        Some(Projection::Names(names)) => match members {
            Members::Apart => all_named(names, schema)?,
            Members::InStructs => by_top_level(all_named(names, schema)?, schema),
        },
        Some(Projection::Expressions(list)) if list.is_empty() => Vec::new(),
        Some(Projection::Expressions(list)) => {
            let visible = visible_schema(schema);
            let parse = |(name, sql): &(String, String)| {
                Ok(Asked::Expression(name.clone(), Expression::parse(sql, &visible)?))
            };
            list.iter().map(parse).collect::<Result<_>>()?
        }
    };
    check_unique(asked.iter().map(Asked::name))?;
    for &system in appended {
        // The reference has it last, wherever else it was asked for.
        let column = match asked.iter().position(|c| c.name() == system.name()) {
            Some(at) => asked.remove(at),
            None => Asked::System(system),
        };
        asked.push(column);
    }
    let input = input_of(schema, &asked, filter)?;
    let output = output_of(asked, &input, snapshot, json)?;
    Ok((input, output))
}

fn top_level(name: &str) -> Asked {
    Asked::Path { name: name.to_owned(), path: vec![name.to_owned()] }
}

/// Columns by name; a star is all of the table.
fn all_named(names: &[String], schema: &Schema) -> Result<Vec<Asked>> {
    let mut asked = Vec::with_capacity(names.len());
    for name in names {
        if name == "*" && schema.field(name).is_none() {
            asked.extend(schema.fields.iter().map(|field| top_level(&field.name)));
        } else {
            asked.push(named(name, schema)?);
        }
    }
    Ok(asked)
}

/// The same with parts of a struct in one column, where the first of them was, in the order of the table.
fn by_top_level(asked: Vec<Asked>, schema: &Schema) -> Vec<Asked> {
    let mut grouped: Vec<Asked> = Vec::with_capacity(asked.len());
    for column in asked {
        let Asked::Path { path, .. } = column else {
            grouped.push(column);
            continue;
        };
        let Some(top) = path.first().cloned() else { continue };
        let known = grouped.iter_mut().find_map(|other| match other {
            Asked::Members { name, paths } if *name == top => Some(paths),
            _ => None,
        });
        match known {
            Some(paths) => paths.push(path),
            None => grouped.push(Asked::Members { name: top, paths: vec![path] }),
        }
    }
    for column in &mut grouped {
        if let Asked::Members { paths, .. } = column {
            paths.sort_by_cached_key(|path| positions(&schema.fields, path));
        }
    }
    grouped
}

/// Where the fields on a path are among their siblings.
fn positions(fields: &[Field], path: &[String]) -> Vec<usize> {
    let (mut fields, mut found) = (fields, Vec::with_capacity(path.len()));
    for name in path {
        let Some((at, field)) = fields.iter().enumerate().find(|(_, field)| field.name == *name) else {
            break;
        };
        found.push(at);
        fields = &field.children;
    }
    found
}

fn named(name: &str, schema: &Schema) -> Result<Asked> {
    if schema.field(name).is_some() {
        return Ok(top_level(name));
    }
    if let Some(system) = System::named(name) {
        return Ok(Asked::System(system));
    }
    let Some(found) = schema.field_by_path(name) else {
        return Err(schema.unknown_column(name));
    };
    let path = names_to(&schema.fields, found)
        .ok_or_else(|| Error::internal(format!("field {} is not in its own schema", found.id)))?;
    Ok(Asked::Path { name: name.to_owned(), path })
}

/// Names from the top down to a field.
fn names_to(fields: &[Field], wanted: &Field) -> Option<Vec<String>> {
    fields.iter().find_map(|field| {
        // The members of descriptors have no ids.
        if std::ptr::eq(field, wanted) {
            return Some(vec![field.name.clone()]);
        }
        let mut below = names_to(&field.children, wanted)?;
        below.insert(0, field.name.clone());
        Some(below)
    })
}

fn input_of(schema: &Schema, asked: &[Asked], filter: Option<&Expression>) -> Result<Input> {
    let mut paths: Vec<String> = Vec::new();
    let mut system: Vec<System> = Vec::new();
    let mut add_system = |s: System| {
        if !system.contains(&s) {
            system.push(s);
        }
    };
    let expressions =
        asked.iter().filter_map(|a| if let Asked::Expression(_, e) = a { Some(e) } else { None });
    for column in filter.into_iter().chain(expressions).flat_map(|e| e.columns()) {
        match (schema.field(column), System::named(column)) {
            (None, Some(s)) => add_system(s),
            _ => paths.push(quoted(std::slice::from_ref(column))),
        }
    }
    for column in asked {
        match column {
            Asked::Path { path, .. } => paths.push(quoted(path)),
            Asked::Members { paths: members, .. } => paths.extend(members.iter().map(|path| quoted(path))),
            Asked::System(s) => add_system(*s),
            Asked::Expression(..) => {}
        }
    }
    let fields = schema.project(&paths)?.fields;
    let arrow = fields.iter().map(Field::to_arrow).chain(system.iter().map(|s| s.field()));
    let arrow = Arc::new(ArrowSchema::new(arrow.collect::<Vec<_>>()));
    Ok(Input { fields, system, schema: arrow })
}

/// A path of [`Schema::project`]. The name of a column is one: in back ticks it might be that of another column.
fn quoted(path: &[String]) -> String {
    if let [name] = path {
        return name.clone();
    }
    let names: Vec<String> = path.iter().map(|n| format!("`{}`", n.replace('`', "``"))).collect();
    names.join(".")
}

fn output_of(asked: Vec<Asked>, input: &Input, snapshot: &Snapshot, json: JsonHandling) -> Result<Output> {
    let mut columns = Vec::with_capacity(asked.len());
    let mut fields = Vec::with_capacity(asked.len());
    for column in asked {
        match column {
            Asked::Path { name, path } => {
                let (first, rest) = path.split_first().ok_or_else(|| Error::internal("an empty path"))?;
                let (at, field) = input.column(first)?;
                fields.push(nested_field(field, rest, &name)?);
                columns.push(OutputColumn::nested(at, rest));
            }
            Asked::Members { name, .. } => {
                let (at, field) = input.column(&name)?;
                fields.push(field.clone());
                columns.push(OutputColumn::Column(at));
            }
            Asked::System(system) => {
                fields.push(system.field());
                columns.push(OutputColumn::Column(input.column(system.name())?.0));
            }
            Asked::Expression(name, expression) => {
                // A field by another name is what it was, with its metadata: JSON, an extension type, a blob.
                if let Some((first, rest)) = expression.path().and_then(<[String]>::split_first) {
                    let (at, field) = input.column(first)?;
                    fields.push(nested_field(field, rest, &name)?);
                    columns.push(OutputColumn::nested(at, rest));
                    continue;
                }
                fields.push(ArrowField::new(name, expression.data_type().clone(), expression.nullable()));
                columns.push(OutputColumn::Expression(expression));
            }
        }
    }
    let metadata = snapshot.arrow_schema().metadata().clone();
    let made = fields.clone();
    let mut schema = Arc::new(ArrowSchema::new_with_metadata(fields, metadata));
    if json == JsonHandling::Text {
        schema = json::shown_schema(&schema);
    }
    Ok(Output { columns, made, schema })
}

fn nested_field(field: &ArrowField, path: &[String], name: &str) -> Result<ArrowField> {
    let Some((first, rest)) = path.split_first() else { return Ok(field.clone().with_name(name)) };
    let DataType::Struct(children) = field.data_type() else {
        return Err(Error::invalid_input(format!(
            "No field named {name}: {} is a {}, only parts of structs can be read alone",
            field.name(),
            field.data_type()
        )));
    };
    let (_, child) =
        children.find(first).ok_or_else(|| Error::internal(format!("{name} was not projected")))?;
    let nested = nested_field(child, rest, name)?;
    let nullable = nested.is_nullable() || field.is_nullable();
    Ok(nested.with_nullable(nullable))
}

impl Selection {
    /// Some columns and the appended system columns; see [`resolve`].
    pub(super) fn of(
        snapshot: &Snapshot,
        columns: Option<&Projection>,
        appended: &[System],
        form: ValueForm,
    ) -> Result<Self> {
        let (input, output) = resolve(snapshot, columns, appended, None, form)?;
        let needed = output.needs(&input);
        Ok(Self { input, output, needed })
    }
}

impl Input {
    /// Columns of the table and system columns by name. Errors: `InvalidInput` for a name that is neither.
    pub(crate) fn of(snapshot: &Snapshot, names: &[String]) -> Result<Self> {
        let columns = Projection::Names(names.to_vec());
        let (blobs, json) = (BlobHandling::Written, JsonHandling::Stored);
        let form = ValueForm { blobs, json, members: Members::Apart };
        Ok(resolve(snapshot, Some(&columns), &[], None, form)?.0)
    }

    /// Whether there is blob v2 among the columns.
    pub(crate) fn has_blobs(&self) -> bool {
        self.fields.iter().any(Field::has_blob_v2)
    }

    fn column(&self, name: &str) -> Result<(usize, &ArrowField)> {
        let missing = || Error::internal(format!("column {name} was not planned to be read"));
        self.schema.column_with_name(name).ok_or_else(missing)
    }

    /// Positions in `schema` of the columns a filter needs.
    pub(super) fn filter_columns(&self, filter: &Expression) -> Vec<bool> {
        self.schema.fields().iter().map(|f| filter.columns().contains(f.name())).collect()
    }
}

impl Output {
    /// A result without columns, for counting.
    pub(super) fn nothing() -> Self {
        Self { columns: Vec::new(), made: Vec::new(), schema: Arc::new(ArrowSchema::empty()) }
    }

    /// Whether the result has no columns.
    pub(super) fn is_nothing(&self) -> bool {
        self.schema.fields().is_empty()
    }

    /// The input columns the result needs.
    pub(super) fn needs(&self, input: &Input) -> Vec<bool> {
        let mut needed = vec![false; input.schema.fields().len()];
        let mut mark = |at: usize| {
            if let Some(flag) = needed.get_mut(at) {
                *flag = true;
            }
        };
        for column in &self.columns {
            match column {
                OutputColumn::Column(at) | OutputColumn::Nested(at, _) => mark(*at),
                OutputColumn::Expression(e) => {
                    e.columns().iter().filter_map(|n| input.schema.index_of(n).ok()).for_each(&mut mark);
                }
            }
        }
        needed
    }

    /// The result for input columns, which are present where [`Self::needs`] says so.
    pub(super) fn make(
        &self,
        input: &Input,
        arrays: &[Option<ArrayRef>],
        rows: usize,
    ) -> Result<RecordBatch> {
        let at = |i: usize| {
            let found = arrays.get(i).and_then(Option::as_ref);
            found.cloned().ok_or_else(|| Error::internal(format!("input column {i} was not read")))
        };
        let mut all_input = None;
        let mut columns = Vec::with_capacity(self.columns.len());
        let fields = self.made.iter().zip(self.schema.fields());
        for (column, (made, given)) in self.columns.iter().zip(fields) {
            let array = match column {
                OutputColumn::Column(i) => at(*i)?,
                OutputColumn::Nested(i, path) => {
                    path.iter().try_fold(at(*i)?, |array, name| child(&array, name))?
                }
                OutputColumn::Expression(expression) => {
                    let batch = match all_input.take() {
                        Some(batch) => batch,
                        None => input_batch(input, arrays, rows)?,
                    };
                    expression.evaluate(all_input.insert(batch))?
                }
            };
            let is_shown = made.data_type() == given.data_type();
            columns.push(if is_shown { array } else { json::shown(made, &array)? });
        }
        batch_of(&self.schema, columns, rows)
    }
}

/// The arrays that are there as a batch, to evaluate expressions on.
pub(super) fn input_batch(input: &Input, arrays: &[Option<ArrayRef>], rows: usize) -> Result<RecordBatch> {
    let present = input.schema.fields().iter().zip(arrays);
    let (fields, columns): (Vec<_>, Vec<_>) =
        present.filter_map(|(f, a)| a.as_ref().map(|a| (Arc::clone(f), Arc::clone(a)))).unzip();
    batch_of(&Arc::new(ArrowSchema::new(fields)), columns, rows)
}

fn batch_of(schema: &SchemaRef, columns: Vec<ArrayRef>, rows: usize) -> Result<RecordBatch> {
    batch_with_rows(Arc::clone(schema), columns, rows)
        .map_err(|e| Error::corrupt(format!("the columns read do not fit the schema: {e}")))
}

/// A child of a struct array, null where the struct is.
fn child(array: &ArrayRef, name: &str) -> Result<ArrayRef> {
    let missing = || Error::internal(format!("no nested field {name} was read"));
    let parent = array.as_struct_opt().ok_or_else(missing)?;
    let child = parent.column_by_name(name).ok_or_else(missing)?;
    visible(parent, child).map_err(|e| Error::internal(format!("nested field {name}: {e}")))
}
