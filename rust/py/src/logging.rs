//! Events of the core as records of Python's `logging`, below the logger `pennon`.
//!
//! No thread but the caller's runs Python code, so events are queued where they happen and delivered by the call that
//! waits for the work: when it ends, and each time it looks for signals. What happens between two calls, such as the
//! end of a dropped scan, is delivered by the next one.
//!
//! | event of | logger |
//! |---|---|
//! | `pennon_table::commit::...` | `pennon.commit` |
//! | `pennon_table::store::...` | `pennon.store` |
//!
//! A span becomes one record when it ends, on the level of the span, with the time it took.
//!
//! Invariant: the level is that of the Python logger when a call begins; an event below it costs one comparison.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, OnceLock};
use std::time::Instant;

use pyo3::intern;
use pyo3::prelude::*;
use tracing::field::{Field, Visit};
use tracing::level_filters::LevelFilter;
use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::Interest;
use tracing::{Event, Level, Metadata, Subscriber};

/// Records that wait for a caller; more are dropped.
const MOST: usize = 10_000;

/// What Python's `logging` calls the levels.
const LEVELS: [(Level, usize); 5] =
    [(Level::ERROR, 40), (Level::WARN, 30), (Level::INFO, 20), (Level::DEBUG, 10), (Level::TRACE, 5)];

struct Entry {
    logger: String,
    level: usize,
    message: String,
}

/// A span that has not ended.
struct OpenSpan {
    logger: String,
    level: usize,
    text: String,
    started: Instant,
    references: usize,
}

/// The lowest Python level that is wanted.
static THRESHOLD: AtomicUsize = AtomicUsize::new(usize::MAX);
static IS_WAITING: AtomicBool = AtomicBool::new(false);
static WAITING: Mutex<VecDeque<Entry>> = Mutex::new(VecDeque::new());

/// Sends the events of the process here. Once.
pub(crate) fn set_up() {
    static DONE: OnceLock<()> = OnceLock::new();
    // Somebody else's subscriber in the same process keeps what it has.
    DONE.get_or_init(|| drop(tracing::subscriber::set_global_default(Recorder::default())));
}

/// Takes over the level of the logger `pennon`. Errors: none but those of a broken `logging`.
pub(crate) fn take_level(py: Python<'_>) -> PyResult<()> {
    static LOGGER: OnceLock<Py<PyAny>> = OnceLock::new();
    let logger = match LOGGER.get() {
        Some(logger) => logger,
        None => {
            let logger = logger(py, "pennon")?.unbind();
            LOGGER.get_or_init(|| logger)
        }
    };
    let threshold = logger.bind(py).call_method0(intern!(py, "getEffectiveLevel"))?.extract()?;
    if THRESHOLD.swap(threshold, Ordering::Relaxed) != threshold {
        tracing::callsite::rebuild_interest_cache();
    }
    Ok(())
}

/// Hands what waits to Python's `logging`.
pub(crate) fn deliver(py: Python<'_>) {
    if !IS_WAITING.swap(false, Ordering::Relaxed) {
        return;
    }
    // In a forked child nobody may ever give the lock back.
    let Ok(mut waiting) = WAITING.try_lock() else { return };
    let entries = std::mem::take(&mut *waiting);
    drop(waiting);
    for Entry { logger: name, level, message } in entries {
        let logged = logger(py, &name)
            .and_then(|logger| logger.call_method1(intern!(py, "log"), (level, "%s", message)));
        if let Err(error) = logged {
            error.write_unraisable(py, None);
        }
    }
}

fn logger<'py>(py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyAny>> {
    py.import("logging")?.call_method1(intern!(py, "getLogger"), (name,))
}

fn push(entry: Entry) {
    let Ok(mut waiting) = WAITING.lock() else { return };
    if waiting.len() < MOST {
        waiting.push_back(entry);
    }
    IS_WAITING.store(true, Ordering::Relaxed);
}

fn python_level(level: &Level) -> usize {
    LEVELS.iter().find(|(known, _)| known == level).map_or(0, |(_, number)| *number)
}

/// `pennon` and the part of the core, such as `pennon.commit`.
fn logger_name(target: &str) -> String {
    match target.split("::").nth(1) {
        Some(part) => format!("pennon.{part}"),
        None => "pennon".to_owned(),
    }
}

/// The subscriber of the process.
#[derive(Default)]
struct Recorder {
    next: AtomicU64,
    spans: Mutex<HashMap<u64, OpenSpan>>,
}

impl Recorder {
    fn with_spans<T>(&self, work: impl FnOnce(&mut HashMap<u64, OpenSpan>) -> T) -> Option<T> {
        self.spans.lock().ok().map(|mut spans| work(&mut spans))
    }
}

impl Subscriber for Recorder {
    fn register_callsite(&self, metadata: &'static Metadata<'static>) -> Interest {
        if metadata.target().starts_with("pennon") { Interest::sometimes() } else { Interest::never() }
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        let threshold = THRESHOLD.load(Ordering::Relaxed);
        let lowest = LEVELS.iter().rev().find(|(_, number)| *number >= threshold);
        Some(lowest.map_or(LevelFilter::OFF, |(level, _)| LevelFilter::from_level(*level)))
    }

    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        python_level(metadata.level()) >= THRESHOLD.load(Ordering::Relaxed)
    }

    fn new_span(&self, span: &Attributes<'_>) -> Id {
        let number = self.next.fetch_add(1, Ordering::Relaxed).saturating_add(1);
        let mut text = Text::default();
        span.record(&mut text);
        let metadata = span.metadata();
        let open = OpenSpan {
            logger: logger_name(metadata.target()),
            level: python_level(metadata.level()),
            text: format!("{}{}", metadata.name(), text.fields),
            started: Instant::now(),
            references: 1,
        };
        self.with_spans(|spans| spans.insert(number, open));
        Id::from_u64(number)
    }

    fn record(&self, span: &Id, values: &Record<'_>) {
        let mut text = Text::default();
        values.record(&mut text);
        self.with_spans(|spans| {
            if let Some(open) = spans.get_mut(&span.into_u64()) {
                open.text.push_str(&text.fields);
            }
        });
    }

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut text = Text::default();
        event.record(&mut text);
        let metadata = event.metadata();
        push(Entry {
            logger: logger_name(metadata.target()),
            level: python_level(metadata.level()),
            message: format!("{}{}", text.message, text.fields),
        });
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}

    fn clone_span(&self, id: &Id) -> Id {
        self.with_spans(|spans| {
            if let Some(open) = spans.get_mut(&id.into_u64()) {
                open.references += 1;
            }
        });
        id.clone()
    }

    fn try_close(&self, id: Id) -> bool {
        let number = id.into_u64();
        let closed = self.with_spans(|spans| {
            let open = spans.get_mut(&number)?;
            open.references -= 1;
            if open.references == 0 { spans.remove(&number) } else { None }
        });
        let Some(OpenSpan { logger, level, text, started, .. }) = closed.flatten() else { return false };
        let milliseconds = started.elapsed().as_secs_f64() * 1000.0;
        push(Entry { logger, level, message: format!("{text} took {milliseconds:.1} ms") });
        true
    }
}

/// The message of an event, and its other fields as ` name=value`.
#[derive(Default)]
struct Text {
    message: String,
    fields: String,
}

impl Text {
    fn add(&mut self, field: &Field, value: fmt::Arguments<'_>) {
        match field.name() {
            "message" => self.message.push_str(&value.to_string()),
            name => self.fields.push_str(&format!(" {name}={value}")),
        }
    }
}

impl Visit for Text {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.add(field, format_args!("{value:?}"));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.add(field, format_args!("{value}"));
    }
}
