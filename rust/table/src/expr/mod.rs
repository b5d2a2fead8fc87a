//! SQL text -> DataFusion expression -> values over record batches.
//!
//! Only DataFusion's expression crates take part: its parser and planner for single expressions, type
//! coercion, simplification and function library, never the query engine. The dialect is that of the
//! reference: back ticks quote names, single and double quotes quote text, a name is looked up exactly and, if
//! that fails, without regard to case.
//!
//! | step | file |
//! |---|---|
//! | text -> syntax tree, names resolved | `parse.rs` |
//! | functions and planner hooks | `functions.rs` |
//! | room for long texts | `depth.rs` |
//! | JSON columns as text | `json_text.rs` |
//! | members of null structs are null | `nulls.rs` |
//! | simplification that keeps the nulls of lists | `lists.rs` |
//! | thousands of values in a list | `long_lists.rs` |
//! | zero and minus zero compare equal | `zero.rs` |
//! | numbers of different types are compared as they are | `literals/` |
//! | times of different units are compared as they are | `times.rs` |
//! | an integer that does not fit its type is an error | `overflow.rs` |
//! | what a filter requires of single columns | `condition.rs` |
//!
//! Invariant: an [`Expression`] that exists can be evaluated on every batch with its [`columns`](Expression::columns);
//! what can still fail are values (an overflow, a division by zero, a text that is not a number).

mod condition;
mod depth;
mod functions;
mod json_text;
mod lists;
mod literals;
mod long_lists;
mod nulls;
mod overflow;
mod parse;
mod repeats;
#[cfg(test)]
mod tests;
mod times;
mod zero;

use std::sync::{Arc, OnceLock};

use arrow_array::{Array, ArrayRef, BooleanArray, RecordBatch, cast::AsArray};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use arrow_select::filter::prep_null_mask_filter;
pub(crate) use condition::{Condition, ValueTest};
use datafusion_common::{Column, DFSchema, DataFusionError, ScalarValue, SchemaError};
use datafusion_expr::execution_props::ExecutionProps;
use datafusion_expr::physical_planning_context::PhysicalPlanningContext;
use datafusion_expr::simplify::SimplifyContext;
use datafusion_expr::{BinaryExpr, Expr, ExprSchemable, Operator, binary_expr, lit};
use datafusion_optimizer::simplify_expressions::ExprSimplifier;
use datafusion_physical_expr::{PhysicalExpr, create_physical_expr};
use long_lists::LongList;
pub(crate) use nulls::{hand_down, visible};
use pennon_core::schema::{is_blob, unknown_field};
use pennon_core::{Error, ErrorKind, Result};

use crate::batches::batch_with_rows;
use crate::runtime::guarded;

/// An SQL expression over the columns of a table, ready to be evaluated.
///
/// ```
/// use std::sync::Arc;
/// use arrow_array::{Int64Array, RecordBatch, cast::AsArray, types::Int64Type};
/// use arrow_schema::{DataType, Field, Schema};
/// use pennon_table::expr::Expression;
///
/// let schema = Arc::new(Schema::new(vec![Field::new("a", DataType::Int64, true)]));
/// let batch = RecordBatch::try_new(schema.clone(), vec![Arc::new(Int64Array::from(vec![1, 2, 3]))])?;
/// let sum = Expression::parse("a * 10 + 1", &schema)?;
/// assert_eq!(sum.evaluate(&batch)?.as_primitive::<Int64Type>().values(), &[11, 21, 31]);
/// let filter = Expression::predicate("a BETWEEN 2 AND 5", &schema)?;
/// assert_eq!(filter.evaluate_mask(&batch)?.true_count(), 2);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone)]
pub struct Expression {
    inner: Arc<Inner>,
}

/// An expression over record batches.
#[derive(Debug)]
enum Physical {
    Made(Arc<dyn PhysicalExpr>),
    /// With all values of a long list: made when the first batch comes, which an index may make needless.
    Later {
        expr: Expr,
        made: OnceLock<Arc<dyn PhysicalExpr>>,
    },
}

/// What an expression is for.
#[derive(Clone, Copy)]
enum Wanted<'a> {
    Any,
    Predicate,
    /// Values of a type.
    Type(&'a DataType),
}

#[derive(Debug)]
struct Inner {
    sql: String,
    columns: Vec<String>,
    /// The columns the physical expression is bound to, in the order of `columns`.
    input: SchemaRef,
    data_type: DataType,
    nullable: bool,
    constant: Option<bool>,
    condition: Condition,
    /// Whether the condition holds exactly where the filter is true.
    condition_is_exact: bool,
    /// Of `columns` those of which nothing but nulls is asked.
    null_tests: Vec<String>,
    /// Whether the text has another meaning later.
    depends_on_time: bool,
    physical: Physical,
    /// The column, or the member of structs from the column down, if it is nothing else.
    path: Option<Vec<String>>,
}

impl Expression {
    /// The expression of an SQL text over the columns of `schema`.
    ///
    /// Errors: `InvalidInput` for a syntax error ("Error parsing statement ..."), an unknown column ("No field
    /// named ..."), an unknown function or types that do not fit together.
    pub fn parse(sql: &str, schema: &Schema) -> Result<Self> {
        Self::build(sql, schema, Wanted::Any)
    }

    /// Like [`Self::parse`] for values that are stored as a type: they are cast to it. Members of structs may be null
    /// in the result, whatever the type says.
    ///
    /// Errors: in addition `InvalidInput` for a constant that cannot be cast, and for types without a cast.
    pub fn parse_as(sql: &str, schema: &Schema, data_type: &DataType) -> Result<Self> {
        Self::build(sql, schema, Wanted::Type(&nulls::allowed(data_type)))
    }

    /// Like [`Self::parse`] for a filter: the expression must be boolean.
    ///
    /// Errors: in addition `InvalidInput` "The filter ... does not return a boolean".
    pub fn predicate(sql: &str, schema: &Schema) -> Result<Self> {
        Self::build(sql, schema, Wanted::Predicate)
    }

    /// Like [`Self::predicate`] over pairs of rows of two schemas: columns are named `source.x` and `target.x`, also
    /// by [`Self::columns`]. The name of the side may be left out where only one has such a column.
    pub fn pair_predicate(sql: &str, source: &Schema, target: &Schema) -> Result<Self> {
        let mut fields = Vec::with_capacity(source.fields().len() + target.fields().len());
        for (side, schema) in [("source", source), ("target", target)] {
            let named =
                |field: &Arc<Field>| field.as_ref().clone().with_name(format!("{side}.{}", field.name()));
            fields.extend(schema.fields().iter().map(named));
        }
        Self::build(sql, &Schema::new(fields), Wanted::Predicate)
    }

    /// Whether integers of a column lie between two, both included; an end that the column's type does not have counts
    /// for nothing. Built without the parser and the library of functions, whose code takes megabytes when a process
    /// first uses it.
    pub(crate) fn between(column: &Field, low: i128, high: i128) -> Result<Self> {
        let values = Expr::Column(Column::new_unqualified(column.name()));
        let end = |(op, end): (Operator, i128)| {
            let end = ScalarValue::try_from_string(end.to_string(), column.data_type()).ok()?;
            Some(binary_expr(values.clone(), op, lit(end)))
        };
        let ends = [(Operator::GtEq, low), (Operator::LtEq, high)].into_iter().filter_map(end);
        let expr = ends.reduce(Expr::and).unwrap_or_else(|| lit(true));
        let schema = Schema::new(vec![column.clone()]);
        let sql = expr.to_string();
        Self::bind(&sql, &schema, &expr, None, false).map_err(|e| planning_error(&sql, &schema, &e))
    }

    fn build(sql: &str, schema: &Schema, wanted: Wanted<'_>) -> Result<Self> {
        // Functions of constants are computed then.
        guarded(|| Self::build_all(sql, schema, wanted))
            .unwrap_or_else(|panic| Err(Error::unsupported(format!("the expression {sql}: {panic}"))))
    }

    fn build_all(sql: &str, schema: &Schema, wanted: Wanted<'_>) -> Result<Self> {
        if let Some(list) = LongList::find(sql) {
            // Errors are those of the whole text.
            let text = parse::Text::new(&list.short);
            if let Ok(Some(built)) =
                text.and_then(|text| Self::with_list(sql, text, schema, wanted, Some(&list)))
            {
                return Ok(built);
            }
        }
        let built = Self::with_list(sql, parse::Text::new(sql)?, schema, wanted, None)?;
        built.ok_or_else(|| Error::internal(format!("the expression {sql} has no list")))
    }

    fn with_list(
        sql: &str,
        text: parse::Text<'_>,
        schema: &Schema,
        wanted: Wanted<'_>,
        list: Option<&LongList>,
    ) -> Result<Option<Self>> {
        let operators = text.operators;
        depth::with_room(operators, || Self::build_from(sql, text, schema, wanted, list))
    }

    /// None where the values of a list that was cut out cannot come back.
    fn build_from(
        sql: &str,
        text: parse::Text<'_>,
        schema: &Schema,
        wanted: Wanted<'_>,
        list: Option<&LongList>,
    ) -> Result<Option<Self>> {
        let predicate = matches!(wanted, Wanted::Predicate);
        let fail = |e: DataFusionError| planning_error(sql, schema, &e);
        let ast = text.parse(schema)?;
        let df_schema = Arc::new(DFSchema::try_from(schema.clone()).map_err(fail)?);
        let is_decimal = matches!(wanted, Wanted::Type(data_type) if data_type.is_decimal());
        let planned = functions::plan(ast, &df_schema).map_err(fail)?;
        let depends_on_time = functions::depends_on_time(&planned).map_err(fail)?;
        let keeps_documents = matches!(wanted, Wanted::Any);
        let planned = json_text::over_texts(planned, &df_schema, keeps_documents).map_err(fail)?;
        let mut expr = literals::rewrite(planned, &df_schema, is_decimal).map_err(fail)?;
        depth::check_copies(&expr).map_err(fail)?;
        if predicate {
            expr = match_is_boolean(expr).map_err(fail)?;
        }
        let context = SimplifyContext::builder()
            .with_schema(Arc::clone(&df_schema))
            .with_query_execution_start_time(Some(crate::runtime::utc_now()))
            .build();
        let simplifier = ExprSimplifier::new(context.clone());
        expr = nulls::in_members(expr, &df_schema).map_err(fail)?;
        expr = times::choices(expr, &df_schema, &simplifier).map_err(fail)?;
        expr = times::in_one_unit(expr, &df_schema).map_err(fail)?;
        expr = depth::flatten(overflow::unsigned(expr, &df_schema).map_err(fail)?)?;
        expr = simplifier.coerce(expr, &df_schema).map_err(fail)?;
        let list = match list {
            Some(list) => match list.column(&expr).map_err(fail)? {
                Some(column) => Some((list, column)),
                None => return Ok(None),
            },
            None => None,
        };
        expr = times::rewrite(expr, &df_schema, &simplifier).map_err(fail)?;
        let data_type = expr.get_type(df_schema.as_ref()).map_err(fail)?;
        if predicate && !matches!(data_type, DataType::Boolean | DataType::Null) {
            return Err(Error::invalid_input(format!("The filter {sql} does not return a boolean")));
        }
        if let Wanted::Type(data_type) = wanted {
            expr = expr.cast_to(data_type, df_schema.as_ref()).map_err(fail)?;
        }
        expr = zero::without_sign(overflow::fold(expr).map_err(fail)?, &simplifier).map_err(fail)?;
        expr = lists::simplify(expr, &simplifier, &context).map_err(fail)?;
        expr = depth::flatten(zero::rewrite(expr, &df_schema).map_err(fail)?)?;
        let with_list = match list {
            Some((list, column)) => match list.put_back(expr.clone(), &column).map_err(fail)? {
                Some(with_list) => Some(with_list),
                None => return Ok(None),
            },
            None => None,
        };
        Self::bind(sql, schema, &expr, with_list, depends_on_time).map(Some).map_err(fail)
    }

    /// What is wrong with the types shows in an expression, also where it lacks the values of a list that another one has.
    fn bind(
        sql: &str,
        schema: &Schema,
        expr: &Expr,
        with_list: Option<Expr>,
        depends_on_time: bool,
    ) -> Result<Self, DataFusionError> {
        let referenced = expr.column_refs();
        let used: Vec<_> = schema
            .fields()
            .iter()
            .filter(|f| referenced.iter().any(|c| c.name() == f.name()))
            .map(Arc::clone)
            .collect();
        let columns = used.iter().map(|f| f.name().clone()).collect();
        let input = Arc::new(Schema::new(used));
        let physical = physical_of(expr, &input)?;
        let constant = match expr {
            Expr::Literal(ScalarValue::Boolean(value), _) => Some(value.unwrap_or(false)),
            Expr::Literal(ScalarValue::Null, _) => Some(false),
            _ => None,
        };
        let (data_type, nullable) = (physical.data_type(&input)?, physical.nullable(&input)?);
        let sql = sql.to_owned();
        let (condition, condition_is_exact) = Condition::of(with_list.as_ref().unwrap_or(expr), schema);
        let null_tests = condition::null_tests(expr)?;
        let physical = match with_list {
            Some(expr) => Physical::Later { expr, made: OnceLock::new() },
            None => Physical::Made(physical),
        };
        let path = path_of(expr);
        let inner = Inner {
            sql,
            columns,
            input,
            data_type,
            nullable,
            constant,
            condition,
            condition_is_exact,
            null_tests,
            depends_on_time,
            physical,
            path,
        };
        Ok(Self { inner: Arc::new(inner) })
    }

    /// The SQL text.
    pub fn sql(&self) -> &str {
        &self.inner.sql
    }

    /// Names of the top-level columns the expression reads, in schema order.
    pub fn columns(&self) -> &[String] {
        &self.inner.columns
    }

    /// The names from a column down to a member of its structs, if the expression is nothing but that.
    pub(crate) fn path(&self) -> Option<&[String]> {
        self.inner.path.as_deref()
    }

    /// Type of the values.
    pub fn data_type(&self) -> &DataType {
        &self.inner.data_type
    }

    /// Whether values may be null.
    pub fn nullable(&self) -> bool {
        self.inner.nullable
    }

    /// The value of a filter that is the same for all rows; null counts as `false`.
    pub fn constant(&self) -> Option<bool> {
        self.inner.constant
    }

    /// What a filter requires of single columns: true wherever the filter is true.
    pub(crate) fn condition(&self) -> &Condition {
        &self.inner.condition
    }

    /// Whether [`Self::condition`] holds exactly where the filter is true.
    pub(crate) fn condition_is_exact(&self) -> bool {
        self.inner.condition_is_exact
    }

    /// Whether nothing is asked of a column but whether it is null.
    pub(crate) fn asks_only_for_null(&self, column: &str) -> bool {
        self.inner.null_tests.iter().any(|name| name == column)
    }

    /// Whether its text may have another meaning later, as `now()` has.
    pub(crate) fn depends_on_time(&self) -> bool {
        self.inner.depends_on_time
    }

    /// One value per row. The batch must hold [`Self::columns`], found by name.
    ///
    /// Errors: `InvalidInput` when a value cannot be computed (overflow, division by zero, failed cast), `Internal` when
    /// a column is missing.
    pub fn evaluate(&self, batch: &RecordBatch) -> Result<ArrayRef> {
        let inner = &*self.inner;
        let arrays = inner
            .columns
            .iter()
            .map(|name| {
                let missing =
                    || Error::internal(format!("expression {}: the batch has no column {name}", inner.sql));
                let array = batch.column_by_name(name).cloned().ok_or_else(missing)?;
                hand_down(array).map_err(|e| Error::internal(format!("expression {}: {e}", inner.sql)))
            })
            .collect::<Result<Vec<_>>>()?;
        let input = batch_with_rows(self.input_for(&arrays), arrays, batch.num_rows())
            .map_err(|e| Error::internal(format!("expression {}: {e}", inner.sql)))?;
        let value = guarded(|| {
            let physical = inner.physical.get(&inner.input)?;
            physical.evaluate(&input).and_then(|v| v.into_array(batch.num_rows()))
        });
        let value = value.map_err(|panic| {
            // As where the texts of a batch take more than 2 GiB.
            Error::unsupported(format!("Error applying the expression {}: {panic}", inner.sql))
        })?;
        value.map_err(|e| {
            // Functions of ours say what is wrong, and what kind of error it is.
            let ours = match e.find_root() {
                DataFusionError::External(error) => error.downcast_ref::<Error>(),
                _ => None,
            };
            let (kind, what) = match ours {
                Some(error) => (error.kind(), error.to_string()),
                None => (ErrorKind::InvalidInput, plain(&e)),
            };
            Error::new(kind, format!("Error applying the expression {}: {what}", inner.sql))
        })
    }

    /// The columns as they are: a `_rowid` that is never null elsewhere is null for a deleted row.
    fn input_for(&self, arrays: &[ArrayRef]) -> SchemaRef {
        let fields = self.inner.input.fields().iter().zip(arrays);
        let field = |(field, array): (&Arc<Field>, &ArrayRef)| {
            field.as_ref().clone().with_data_type(array.data_type().clone()).with_nullable(true)
        };
        Arc::new(Schema::new(fields.map(field).collect::<Vec<_>>()))
    }

    /// The rows for which a filter holds: never null, null values count as `false`.
    ///
    /// Errors: as [`Self::evaluate`].
    pub fn evaluate_mask(&self, batch: &RecordBatch) -> Result<BooleanArray> {
        let values = self.evaluate(batch)?;
        let Some(mask) = values.as_boolean_opt() else {
            let sql = self.sql();
            return Err(Error::invalid_input(format!("The filter {sql} does not return a boolean")));
        };
        Ok(if mask.null_count() == 0 { mask.clone() } else { prep_null_mask_filter(mask) })
    }
}

impl Physical {
    fn get(&self, input: &SchemaRef) -> Result<&Arc<dyn PhysicalExpr>, DataFusionError> {
        match self {
            Self::Made(physical) => Ok(physical),
            Self::Later { expr, made } => match made.get() {
                Some(physical) => Ok(physical),
                None => {
                    let physical = physical_of(expr, input)?;
                    Ok(made.get_or_init(|| physical))
                }
            },
        }
    }
}

fn physical_of(expr: &Expr, input: &SchemaRef) -> Result<Arc<dyn PhysicalExpr>, DataFusionError> {
    let schema = DFSchema::try_from(Arc::clone(input))?;
    let context = PhysicalPlanningContext::default();
    let physical = create_physical_expr(expr, &schema, &ExecutionProps::new(), &context)?;
    overflow::checked(physical, input)
}

/// Names from a column down, of an expression that is one field.
fn path_of(expr: &Expr) -> Option<Vec<String>> {
    match expr {
        Expr::Column(column) => Some(vec![column.name.clone()]),
        Expr::ScalarFunction(call) if call.func.name() == nulls::MEMBER => {
            let (parent, members) = call.args.split_first()?;
            let mut path = path_of(parent)?;
            for member in members {
                let Expr::Literal(member, _) = member else { return None };
                path.push(member.try_as_str()??.to_owned());
            }
            Some(path)
        }
        _ => None,
    }
}

/// `regexp_match` gives the list of matches; where a filter wants a truth value it means "there is one", as
/// the reference reads it.
fn match_is_boolean(expr: Expr) -> Result<Expr, DataFusionError> {
    Ok(match expr {
        Expr::ScalarFunction(ref call) if call.func.name() == "regexp_match" => {
            Expr::IsNotNull(Box::new(expr))
        }
        Expr::Not(inner) => Expr::Not(Box::new(match_is_boolean(*inner)?)),
        Expr::BinaryExpr(BinaryExpr { left, op: op @ (Operator::And | Operator::Or), right }) => {
            let (left, right) = (match_is_boolean(*left)?, match_is_boolean(*right)?);
            Expr::BinaryExpr(BinaryExpr::new(Box::new(left), op, Box::new(right)))
        }
        other => other,
    })
}

fn planning_error(sql: &str, schema: &Schema, error: &DataFusionError) -> Error {
    if let DataFusionError::SchemaError(inner, _) = error.find_root()
        && let SchemaError::FieldNotFound { field, .. } = inner.as_ref()
    {
        return unknown_field(&field.flat_name(), schema.fields().iter().map(|f| f.name().as_str()));
    }
    let message = plain(error);
    let is_named =
        |field: &&Arc<Field>| sql.contains(field.name()) && message.contains(&field.data_type().to_string());
    let blob = schema.fields().iter().find(|field| is_blob(field) && is_named(field));
    let message = match blob.map(|field| (field.name(), field.data_type())) {
        Some((name, DataType::Struct(members))) => {
            let members: Vec<&str> = members.iter().map(|member| member.name().as_str()).collect();
            format!("{name} is a blob column, here a struct with the members {}", members.join(", "))
        }
        _ => message,
    };
    Error::invalid_input(format!("Error resolving the expression {sql}: {message}"))
}

/// The message without DataFusion's backtrace, and without its address for reports of bugs.
fn plain(error: &DataFusionError) -> String {
    let text = error.strip_backtrace();
    let (message, _) = text.split_once(".\nThis issue was likely caused by a bug in").unwrap_or((&text, ""));
    message.to_owned()
}
