//! Pages encoded on all cores, returned in the order they were submitted.
//!
//! Whatever the timing, results are taken only when there are [`IN_FLIGHT`] of them or [`BYTES`], or at the end, where
//! nothing is written between them, so the same input makes the same file. Memory is bounded by as many bytes and
//! one page, each before and after encoding.

use std::collections::VecDeque;
use std::fmt;
#[cfg(not(feature = "shuttle"))]
use std::{sync, thread};

use self::sync::mpsc::{Receiver, SendError, Sender, SyncSender, channel, sync_channel};
use self::sync::{Arc, Mutex};
#[cfg(feature = "shuttle")]
use shuttle::{sync, thread};

use pennon_core::{Error, Result};

use crate::container::writer::Page;
use crate::processors;

/// The most pages in flight: submitted and not taken.
pub(crate) const IN_FLIGHT: usize = 8;
/// The most bytes of values in flight, except for one page.
const BYTES: usize = 24 << 20;
/// Values of fewer bytes are encoded at once: a thread would cost more.
const SMALL: usize = 256 << 10;

/// A page to encode.
pub(crate) struct Job {
    /// The file's column.
    pub column: usize,
    /// Number of the page's first row.
    pub first_row: u64,
    /// Bytes of its values, about.
    pub bytes: usize,
    /// Makes the page.
    pub encode: Box<dyn FnOnce() -> Result<Page> + Send>,
}

/// A page with its column and first row.
#[derive(Debug)]
pub(crate) struct Done {
    /// The file's column.
    pub column: usize,
    /// Number of the page's first row.
    pub first_row: u64,
    /// The page.
    pub page: Page,
}

type Task = (Box<dyn FnOnce() -> Result<Page> + Send>, SyncSender<Result<Page>>);

enum Waiting {
    Inline(Box<Result<Page>>),
    Pooled(Receiver<Result<Page>>),
}

/// Encodes pages.
#[derive(Default)]
pub(crate) struct Pool {
    tasks: Option<Sender<Task>>,
    threads: usize,
    /// With column, first row and bytes.
    waiting: VecDeque<(usize, u64, usize, Waiting)>,
}

impl fmt::Debug for Pool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pool").field("waiting", &self.waiting.len()).finish_non_exhaustive()
    }
}

impl Pool {
    /// Whether a page must be taken before another page is submitted.
    pub(crate) fn is_full(&self) -> bool {
        self.waiting.len() >= IN_FLIGHT || self.bytes() > BYTES
    }

    /// As [`Self::is_full`] while the last pages are submitted: all threads have a page, and another page waits.
    pub(crate) fn is_full_at_end(&self) -> bool {
        let with_threads =
            self.waiting.iter().filter(|(_, _, _, waiting)| matches!(waiting, Waiting::Pooled(_)));
        self.is_full() || with_threads.count() > self.threads
    }

    /// Submits a page. The caller takes a page while [`Self::is_full`].
    pub(crate) fn submit(&mut self, job: Job) {
        let Job { column, first_row, bytes, encode } = job;
        let tasks = if bytes < SMALL { None } else { self.tasks() };
        let waiting = match tasks {
            None => Waiting::Inline(Box::new(encode())),
            Some(tasks) => {
                let (sender, receiver) = sync_channel(1);
                match tasks.send((encode, sender)) {
                    Ok(()) => Waiting::Pooled(receiver),
                    Err(SendError((encode, _))) => Waiting::Inline(Box::new(encode())),
                }
            }
        };
        self.waiting.push_back((column, first_row, bytes, waiting));
    }

    /// The oldest page; `None` if no page is in flight.
    pub(crate) fn take(&mut self) -> Result<Option<Done>> {
        let Some((column, first_row, _, waiting)) = self.waiting.pop_front() else { return Ok(None) };
        let page = match waiting {
            Waiting::Inline(page) => *page,
            Waiting::Pooled(page) => {
                page.recv().unwrap_or_else(|_| Err(Error::internal("encoding a page ended in a panic")))
            }
        };
        Ok(Some(Done { column, first_row, page: page? }))
    }

    /// Bytes in flight, about.
    pub(crate) fn bytes(&self) -> usize {
        self.waiting.iter().map(|(_, _, bytes, _)| bytes).sum()
    }

    /// The channel to the threads, which are started when first needed; `None` if no thread can be started.
    #[expect(clippy::disallowed_methods, reason = "the one place that starts threads")]
    fn tasks(&mut self) -> Option<&Sender<Task>> {
        if self.tasks.is_none() {
            let threads = processors().min(IN_FLIGHT);
            let (sender, receiver) = channel::<Task>();
            let receiver = Arc::new(Mutex::new(receiver));
            let start = |_| {
                let receiver = Arc::clone(&receiver);
                thread::Builder::new().name("pennon-encode".into()).spawn(move || work(&receiver)).is_ok()
            };
            self.threads = (0..threads).filter(|n| start(*n)).count();
            if self.threads > 0 {
                self.tasks = Some(sender);
            }
        }
        self.tasks.as_ref()
    }
}

/// Encodes until the pool is dropped.
fn work(tasks: &Mutex<Receiver<Task>>) {
    loop {
        let task = match tasks.lock() {
            Ok(tasks) => tasks.recv(),
            Err(_) => return,
        };
        let Ok((encode, result)) = task else { return };
        // Sending only fails if the pool was dropped.
        let _ = result.send(encode());
    }
}

#[cfg(test)]
fn job(number: u64, bytes: usize, result: impl FnOnce() -> Result<()> + Send + 'static) -> Job {
    use pennon_core::file::{ConstantLayout, PageLayout};

    let encode = move || {
        result()?;
        let layout = ConstantLayout { layers: Vec::new(), inline_value: None, rep: None, def: None };
        Ok(Page { num_rows: number, layout: PageLayout::Constant(layout), buffers: Vec::new() })
    };
    Job { column: 1, first_row: number, bytes, encode: Box::new(encode) }
}

/// Under schedules that shuttle draws: `make schedules`.
#[cfg(all(test, feature = "shuttle"))]
mod schedules {
    use super::*;

    /// A seeded choice of sizes, so that some pages are encoded at once and some by threads.
    fn bytes(number: u64, seed: u64) -> usize {
        if (number * 7 + seed).is_multiple_of(3) { 10 } else { SMALL }
    }

    #[test]
    fn pages_come_back_in_order_under_any_schedule() {
        let program = || {
            let seed = shuttle::rand::Rng::r#gen::<u64>(&mut shuttle::rand::thread_rng()) % 3;
            let mut pool = Pool::default();
            let mut next = 0;
            for number in 0..12 {
                let yields = move || {
                    thread::yield_now();
                    if number == 5 { Err(Error::unsupported("no")) } else { Ok(()) }
                };
                pool.submit(job(number, bytes(number, seed), yields));
                while pool.is_full() || (number == 11 && next < 9) {
                    match pool.take() {
                        Ok(done) => assert_eq!(done.unwrap().first_row, next),
                        Err(error) => assert_eq!((error.to_string().as_str(), next), ("no", 5)),
                    }
                    next += 1;
                }
            }
            // Three pages are in flight: their threads end without anybody who takes them.
        };
        shuttle::check_random(program, 3_000);
        shuttle::check_pct(program, 3_000, 3);
    }
}

#[cfg(all(test, not(feature = "shuttle")))]
mod tests {
    use super::*;

    #[test]
    fn pages_come_back_in_order() {
        let mut pool = Pool::default();
        for number in 0..20 {
            let slow = move || {
                thread::sleep(std::time::Duration::from_millis((number * 7) % 5));
                Ok(())
            };
            pool.submit(job(number, if number % 3 == 0 { 10 } else { SMALL }, slow));
        }
        assert!(pool.is_full());
        for number in 0..20 {
            let done = pool.take().unwrap().unwrap();
            assert_eq!((done.column, done.first_row, done.page.num_rows), (1, number, number));
        }
        assert_eq!((pool.bytes(), pool.is_full()), (0, false));
        // Pages that are encoded already occupy no thread.
        let threads = pool.threads;
        (0..threads.min(3)).for_each(|number| pool.submit(job(number as u64, SMALL, || Ok(()))));
        (0..4).for_each(|number| pool.submit(job(number, 10, || Ok(()))));
        assert!(!pool.is_full_at_end());
        (0..threads.max(1)).for_each(|number| pool.submit(job(number as u64, SMALL, || Ok(()))));
        assert!(pool.is_full_at_end());
        while pool.take().unwrap().is_some() {}
        (0..2).for_each(|number| pool.submit(job(number, 13 << 20, || Ok(()))));
        assert!(pool.is_full());
        assert!((0..2).all(|_| pool.take().unwrap().is_some()));
        assert!(pool.take().unwrap().is_none());
    }

    #[test]
    fn errors_and_panics_come_back_as_errors() {
        let mut pool = Pool::default();
        pool.submit(job(0, SMALL, || Err(Error::unsupported("no"))));
        pool.submit(job(1, SMALL, || panic!("not caught")));
        pool.submit(job(2, SMALL, || Ok(())));
        assert_eq!(pool.take().unwrap_err().to_string(), "no");
        assert!(pool.take().is_err());
        assert!(pool.take().unwrap().is_some());
    }
}
