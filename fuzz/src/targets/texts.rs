//! Texts from outside: SQL, jobs as JSON, addresses and storage options.

use std::sync::{Arc, OnceLock};

use arrow_array::types::Int64Type;
use arrow_array::{
    ArrayRef, BooleanArray, Date32Array, Decimal128Array, Float64Array, Int64Array, ListArray, RecordBatch,
    StringArray, StructArray, TimestampMicrosecondArray, TimestampNanosecondArray,
};
use arrow_schema::{DataType, Field};
use pennon_table::expr::Expression;
use pennon_table::jobs::{JobPlan, Task, TaskResult, Work};
use pennon_table::{StorageOptions, Store};

use crate::checked;

/// Longer expressions take time rather than other branches.
const MOST_SQL: usize = 2048;

/// Columns that expressions name.
fn rows() -> &'static RecordBatch {
    static ROWS: OnceLock<RecordBatch> = OnceLock::new();
    ROWS.get_or_init(|| {
        let member: ArrayRef = Arc::new(Int64Array::from(vec![1, 2, 3, 4]));
        let fields = vec![Field::new("c", DataType::Int64, true)].into();
        let members = StructArray::new(fields, vec![member], Some(vec![true, false, true, true].into()));
        let lists = [Some(vec![Some(1), None]), None, Some(vec![]), Some(vec![Some(i64::MAX)])];
        let columns: [(&str, ArrayRef); 10] = [
            ("a", Arc::new(Int64Array::from(vec![Some(0), None, Some(i64::MIN), Some(i64::MAX)]))),
            ("b", Arc::new(Float64Array::from(vec![Some(0.5), Some(f64::NAN), None, Some(-0.0)]))),
            ("s", Arc::new(StringArray::from(vec![Some(""), Some("ab%_"), None, Some("\u{1f600}")]))),
            ("f", Arc::new(BooleanArray::from(vec![Some(true), Some(false), None, None]))),
            ("d", Arc::new(Date32Array::from(vec![Some(0), Some(i32::MIN), None, Some(i32::MAX)]))),
            (
                "t",
                Arc::new(TimestampMicrosecondArray::from(vec![
                    Some(0),
                    Some(i64::MIN),
                    None,
                    Some(i64::MAX),
                ])),
            ),
            (
                "u",
                Arc::new(TimestampNanosecondArray::from(vec![Some(1), Some(i64::MIN), None, Some(i64::MAX)])),
            ),
            ("n", Arc::new(Decimal128Array::from(vec![Some(0), Some(-1), None, Some(10_i128.pow(38) - 1)]))),
            ("l", Arc::new(ListArray::from_iter_primitive::<Int64Type, _, _>(lists))),
            ("m", Arc::new(members)),
        ];
        RecordBatch::try_from_iter(columns).expect("columns of four rows")
    })
}

/// SQL as an expression and as a filter, evaluated.
pub fn sql(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    if text.len() > MOST_SQL || may_abort(text) {
        return;
    }
    let schema = rows().schema();
    if let Some(expression) = checked(Expression::parse(text, &schema)) {
        let _ = (expression.columns(), expression.nullable(), expression.constant());
        if let Some(values) = checked(expression.evaluate(rows())) {
            assert_eq!(values.len(), rows().num_rows());
        }
    }
    if let Some(filter) = checked(Expression::predicate(text, &schema))
        && let Some(mask) = checked(filter.evaluate_mask(rows()))
    {
        assert_eq!(mask.len(), rows().num_rows());
    }
}

/// Functions of which the documents say that they may take all memory.
fn may_abort(text: &str) -> bool {
    let text = text.to_ascii_lowercase();
    ["pad", "repeat", "regex", "range", "generate_series", "array_resize"]
        .iter()
        .any(|name| text.contains(name))
}

/// Jobs as JSON, written again.
pub fn jobs(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let _ = checked(Work::from_json(text));
    if let Some(plan) = checked(JobPlan::from_json(text)) {
        for number in 0..plan.num_tasks().unwrap_or(0).min(4) {
            let _ = checked(plan.task(number)).map(|task| checked(task.to_json()));
        }
        let _ =
            checked(JobPlan::from_json(&checked(plan.to_json()).expect("what was read"))).expect("as before");
    }
    if let Some(task) = checked(Task::from_json(text)) {
        let _ =
            checked(Task::from_json(&checked(task.to_json()).expect("what was read"))).expect("as before");
    }
    if let Some(result) = checked(TaskResult::from_json(text)) {
        let _ = (result.num_rows(), result.bytes(), result.files().len());
        let again = checked(result.to_json()).expect("what was read");
        let _ = checked(TaskResult::from_json(&again)).expect("as before");
    }
}

/// An address in the first line, options as `key=value` in the others. Opening a store does not read anything.
pub fn options(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let mut lines = text.lines();
    let address = lines.next().unwrap_or_default();
    let options: StorageOptions = lines
        .filter_map(|line| line.split_once('='))
        .map(|(key, value)| (key.into(), value.into()))
        .collect();
    if let Some(store) = checked(Store::open(address, &options)) {
        let _ = (store.root().len(), format!("{store:?}"));
    }
}
