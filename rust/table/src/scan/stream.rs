//! Units -> stream of batches: ordered or not, with bounded read-ahead, cut to a window, stopped when dropped.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use arrow_select::concat::concat_batches;
use futures::stream::{self, BoxStream};
use futures::{StreamExt, TryStreamExt};
use pennon_core::{Error, Result};

use super::execute::Job;
use super::plan::{Unit, Window, to_u64};
use super::{BatchStream, Scan};

/// Fragments looked at by one task where lineage alone decides.
const WITHOUT_FILES: usize = 64;

/// Tells units that wait for a thread that nobody wants them any more.
#[derive(Debug)]
struct StopOnDrop(Arc<AtomicBool>);

impl Drop for StopOnDrop {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

pub(super) fn batches(scan: Scan) -> BatchStream {
    let Scan { job, units, window, concurrency, unordered, strict, .. } = scan;
    let (schema, batch_size) = (Arc::clone(job.schema()), job.batch_size);
    let job = Arc::new(job);
    let stopped = Arc::new(AtomicBool::new(false));
    let stop = StopOnDrop(Arc::clone(&stopped));
    let units = units_of(&job, &stopped, units, concurrency);
    let work = units.map_ok(move |unit| {
        // The closure lives in the stream, and the guard in the closure.
        let _guard = &stop;
        let (job, stopped) = (Arc::clone(&job), Arc::clone(&stopped));
        crate::blocking(move || if stopped.load(Ordering::Relaxed) { Ok(Vec::new()) } else { job.run(&unit) })
    });
    let done: BoxStream<'static, Result<Vec<RecordBatch>>> = if unordered {
        work.try_buffer_unordered(concurrency).boxed()
    } else {
        work.try_buffered(concurrency).boxed()
    };
    let batches = done.map_ok(|batches| stream::iter(batches.into_iter().map(Ok))).try_flatten().boxed();
    let batches = match window {
        Some(window) => within(batches, window),
        None => batches,
    };
    if strict { exact(batches, schema, batch_size) } else { batches }
}

/// The units as planned, or what is left of them where the filter leaves rows out.
fn units_of(
    job: &Arc<Job>,
    stopped: &Arc<AtomicBool>,
    units: Vec<Unit>,
    concurrency: usize,
) -> BoxStream<'static, Result<Unit>> {
    if !job.prunes() {
        return stream::iter(units.into_iter().map(Ok)).boxed();
    }
    let (job, stopped) = (Arc::clone(job), Arc::clone(stopped));
    let together = if job.opens_files() { 1 } else { WITHOUT_FILES };
    let groups: Vec<Vec<Unit>> = units.chunks(together).map(<[Unit]>::to_vec).collect();
    let divide = move |group: Vec<Unit>| {
        let (job, stopped) = (Arc::clone(&job), Arc::clone(&stopped));
        crate::blocking(move || {
            let mut divided = Vec::new();
            for unit in group {
                if !stopped.load(Ordering::Relaxed) {
                    divided.extend(job.divide(unit)?);
                }
            }
            Ok(divided)
        })
    };
    let divided = stream::iter(groups).map(divide).buffered(concurrency);
    divided.map_ok(|units| stream::iter(units.into_iter().map(Ok))).try_flatten().boxed()
}

/// The part of the rows that lies in the window; ends as soon as it is full.
fn within(batches: BatchStream, window: Window) -> BatchStream {
    let step = |(mut batches, mut window): (BatchStream, Window)| async move {
        while window.rows > 0 {
            let Some(batch) = batches.try_next().await? else { break };
            let part = window.advance(to_u64(batch.num_rows()));
            if part.start < part.end {
                let (start, end) = (usize::try_from(part.start), usize::try_from(part.end));
                let (Ok(start), Ok(end)) = (start, end) else {
                    return Err(Error::internal("a window beyond its batch"));
                };
                return Ok(Some((batch.slice(start, end - start), (batches, window))));
            }
        }
        Ok(None)
    };
    stream::try_unfold((batches, window), step).boxed()
}

/// The same rows in batches of exactly one size, but for the last.
fn exact(batches: BatchStream, schema: SchemaRef, size: usize) -> BatchStream {
    let step = move |(mut batches, mut held, schema): (BatchStream, Vec<RecordBatch>, SchemaRef)| async move {
        let mut rows: usize = held.iter().map(RecordBatch::num_rows).sum();
        while rows < size {
            let Some(batch) = batches.try_next().await? else { break };
            rows += batch.num_rows();
            held.push(batch);
        }
        if rows == 0 {
            return Ok(None);
        }
        let all =
            concat_batches(&schema, &held).map_err(|e| Error::internal(format!("joining batches: {e}")))?;
        let first = all.slice(0, size.min(rows));
        let rest = if rows > size { vec![all.slice(size, rows - size)] } else { Vec::new() };
        Ok(Some((first, (batches, rest, schema))))
    };
    stream::try_unfold((batches, Vec::new(), schema), step).boxed()
}
