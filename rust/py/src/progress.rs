//! Steps that tell a Python function how far they are.

use std::future::Future;

use futures::FutureExt;
use pennon_core::Result;
use pennon_table::{Observer, StepCounts, observed};
use pyo3::prelude::*;

use crate::caller::Caller;
use crate::runtime;

/// Tasks, fragments and rows, each with all of them if that is known, and bytes.
type Counts = ((u64, Option<u64>), (u64, Option<u64>), (u64, Option<u64>), u64);

/// Runs a step. The function is called with its counts each time they change; what it raises ends the step.
pub(crate) fn run_observed<T: Send>(
    py: Python<'_>,
    step: impl Future<Output = Result<T>> + Send,
    tell: Option<&Bound<'_, PyAny>>,
) -> PyResult<T> {
    let Some(tell) = tell else { return runtime::run(py, step) };
    observe(py, step, |at| {
        let counts: Counts =
            ((at.tasks, at.of_tasks), (at.fragments, at.of_fragments), (at.rows, at.of_rows), at.bytes);
        tell.call1(counts).map(drop)
    })
}

/// As [`run_observed`], of a step with stages: the function is called with the name of the stage, its tasks and its rows.
pub(crate) fn run_staged<T: Send>(
    py: Python<'_>,
    step: impl Future<Output = Result<T>> + Send,
    tell: Option<&Bound<'_, PyAny>>,
) -> PyResult<T> {
    let Some(tell) = tell else { return runtime::run(py, step) };
    observe(py, step, |at| tell.call1((at.stage, (at.tasks, at.of_tasks), (at.rows, at.of_rows))).map(drop))
}

fn observe<T: Send>(
    py: Python<'_>,
    step: impl Future<Output = Result<T>> + Send,
    tell: impl Fn(StepCounts) -> PyResult<()>,
) -> PyResult<T> {
    let start = |caller: Caller<StepCounts, ()>| {
        let observer: Box<Observer> = Box::new(move |counts| caller.clone().ask(counts).boxed());
        observed(observer, step)
    };
    runtime::run_answering(py, start, |_, at: StepCounts| tell(at))
}
