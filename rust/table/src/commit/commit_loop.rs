//! The loop, and the one exit.

use std::sync::Arc;

use pennon_core::transaction::Operation;
use pennon_core::{Error, ErrorKind, Result};
use tracing::{Instrument, info_span, warn};

use super::attempt::{self, Basis, Published};
use super::conclude::Look;
use super::gap::LastLook;
use super::outcome::CommitOutcome;
use super::progress::Commit;
use super::{planted, probe, rebase, reconcile};
use crate::runtime::{self, Backoff, Counter, Fault, Stopwatch, env, is_planted};
use crate::session::{CommitOptions, CreateOptions};
use crate::versions::snapshot::Snapshot;
use crate::versions::{Located, locate, resolve};
use crate::versions::{TRANSACTIONS, VERSIONS, load};
use crate::write::staged::{self, StagedChange};

/// Versions that may have come since a change was checked, when it is published. Catching up with more takes so long
/// that the next ones have come meanwhile, so that it looks again before it tries in vain.
const FEW_VERSIONS: u64 = 1;
/// How often one attempt looks for the newest version, at most.
const MAX_LOOKS: usize = 8;

/// Commits to an existing table. `base` is any version of it that was the newest not long ago.
///
/// Errors, in the outcome: `Conflict`, retryable or not as the rules say (table format 8.2), and retryable when every
/// attempt lost its race; whatever reading and writing raise; `CommitUnknown`. A future that is dropped leaves at most
/// files that nothing refers to: the put of the manifest is atomic.
pub(crate) async fn commit(
    base: Arc<Snapshot>,
    mut change: StagedChange,
    options: &CommitOptions,
) -> CommitOutcome {
    planted::corrupt_operation(&mut change.transaction.operation);
    let span = info_span!(
        "commit",
        table = base.store.root(),
        operation = change.transaction.operation.name(),
        uuid = change.transaction.uuid
    );
    async {
        let mut commit = Commit::new(base, change, options);
        let outcome = match commit.attempts().await {
            Ok((snapshot, release)) => CommitOutcome::Committed(snapshot, release),
            Err(error) => commit.conclude(error).await,
        };
        commit.clean_up(&outcome).await;
        outcome
    }
    .instrument(span)
    .await
}

impl Commit<'_> {
    /// Tries until the change is committed, cannot be, or the retries or the time are used up.
    async fn attempts(&mut self) -> Result<(Arc<Snapshot>, Result<()>)> {
        if self.change.transaction.read_version.is_detached() {
            return Err(Error::invalid_input(format!(
                "Version {} is detached: only another detached commit can follow it",
                self.change.transaction.read_version
            )));
        }
        let (started, mut backoff) = (Stopwatch::start(), Backoff::default());
        let attempts = self.options.max_retries.max(1);
        let environment = env::current();
        for number in 1..=attempts {
            let turn =
                environment.turns().take(self.store.root(), runtime::sleep(runtime::TURN_PATIENCE)).await;
            let span = info_span!("commit.attempt", number);
            if let Some(done) = self.attempt().instrument(span).await? {
                return Ok(done);
            }
            drop(turn);
            if number == attempts {
                break;
            }
            let elapsed = started.elapsed();
            if elapsed > self.options.timeout {
                if is_planted(Fault::TimeoutForgetsPut) {
                    self.unanswered = None;
                }
                return Err(Error::retryable_conflict(format!(
                    "Too many concurrent writers. Gave up after {number} attempts in {} s.",
                    elapsed.as_secs()
                )));
            }
            let wait =
                backoff.next(self.since_look.elapsed()).min(self.options.timeout.saturating_sub(elapsed));
            warn!(
                path = self.store.root(),
                version = self.newest.version().next().0,
                attempt = number,
                wait_ms = u64::try_from(wait.as_millis()).unwrap_or(u64::MAX),
                reason = "another writer published the version",
                "the commit is retried"
            );
            self.store.metrics().add(Counter::CommitRetries, 1);
            runtime::sleep(wait).await;
        }
        Err(Error::retryable_conflict(format!("Too many concurrent writers. Attempted {attempts} retries.")))
    }

    /// One attempt on the newest version; `None` if somebody published the next one.
    async fn attempt(&mut self) -> Result<Option<(Arc<Snapshot>, Result<()>)>> {
        // On a remote store another look costs as much as what it may spare: not before a race was lost.
        let looks_again = self.store.is_local() || self.has_attempted;
        let mut found = self.find_newest_and_write_ahead().await?;
        for look in 1..=MAX_LOOKS {
            let behind = self.newest.version().0.saturating_sub(self.checked.0);
            let is_last = behind <= FEW_VERSIONS || look == MAX_LOOKS || !looks_again;
            if let Some(done) = self.catch_up(is_last).await? {
                return Ok(Some((done, Ok(()))));
            }
            if is_last {
                break;
            }
            found = self.look_again(found).await?;
        }
        let restored = match &self.change.transaction.operation {
            Operation::Restore(restore) => Some(load::restored(&self.newest, restore).await?),
            _ => None,
        };
        let at = Located { version: found.version.next(), ..found };
        let files =
            rebase::versions(&self.newest, &mut self.change, at.version, self.options.durability).await?;
        self.change.files.extend(files);
        let current = if is_planted(Fault::StaleBase) { &self.base } else { &self.newest };
        let current = Arc::clone(current);
        let basis = Basis {
            store: &self.store,
            session: &Arc::clone(self.newest.session()),
            current: Some(&current),
            restored: restored.as_deref(),
            create: CreateOptions::default(),
            last_look: self.last_look,
        };
        let prepare = attempt::prepare(
            &basis,
            at,
            &self.change,
            self.written_transaction.as_ref(),
            self.options.durability,
        );
        // The files of a change that was carried over may arrive after the transaction file, which names them: nobody looks
        // for them until the manifest is there, and that waits for both.
        let (prepared, arrived) = futures::join!(prepare, self.change.uploads.arrive());
        let prepared = prepared?;
        let own = prepared.transaction_file.as_ref().filter(|own| !self.transaction_files.contains(own));
        self.transaction_files.extend(own.cloned());
        arrived?;
        self.unanswered = Some(at);
        match attempt::publish(&basis, prepared, self.options).await {
            Published::Done(snapshot, release) => Ok(Some((snapshot, release))),
            Published::InAGap => {
                self.unanswered = None;
                Err(reconcile::cleaned_up(at.version.0))
            }
            // Later this version may have been cleaned up, so that nobody could say whose it was.
            Published::Taken if self.store.is_local() => match self.put_of(at).look().await {
                Look::Ours(snapshot) => Ok(Some((snapshot, Ok(())))),
                Look::Others => {
                    self.unanswered = None;
                    Ok(None)
                }
                Look::Nothing | Look::Failed(_) => Ok(None),
            },
            Published::Taken => Ok(None),
            // With a lock that is held nothing more can be tried.
            Published::NotReleased(error) => Err(error),
            Published::Refused(error) => {
                self.unanswered = None;
                Err(error)
            }
            // A put that failed may have succeeded all the same: look whose manifest is there.
            Published::Failed(error) if is_planted(Fault::FailedPutIsForgotten) => {
                self.unanswered = None;
                Err(error)
            }
            Published::Failed(error) => match self.put_of(at).look().await {
                Look::Ours(snapshot) => Ok(Some((snapshot, Ok(())))),
                Look::Others => Ok(None),
                Look::Nothing | Look::Failed(_) => Err(error),
            },
        }
    }

    /// Checks the change against the versions since the one it was checked against, and carries it over to the newest. Gives
    /// the version that the same transaction made before, if there is one. `is_last`: whether it is published next.
    async fn catch_up(&mut self, is_last: bool) -> Result<Option<Arc<Snapshot>>> {
        if self.newest.version() <= self.checked {
            return Ok(None);
        }
        if self.options.max_retries == 0
            && matches!(self.change.transaction.operation, Operation::Overwrite(_))
        {
            return match reconcile::find_own(&self.newest, self.checked, &self.change.transaction).await? {
                Some(done) => Ok(Some(done)),
                None => Err(Error::retryable_conflict(format!(
                    "Commit conflict for version {}: Failed to commit the transaction after 0 retries.",
                    self.checked.next()
                ))),
            };
        }
        let done = reconcile::reconcile(self, is_last).await?;
        self.checked = self.newest.version();
        Ok(done)
    }

    /// [`Self::find_newest`]. Before the first attempt the files of the change arrive meanwhile, and the transaction file
    /// is written, unless there is one: an earlier call of the same transaction may have committed it.
    async fn find_newest_and_write_ahead(&mut self) -> Result<Located> {
        if std::mem::replace(&mut self.has_attempted, true) {
            return self.find_newest().await;
        }
        // With columns the transaction has the fragments of the version that it is committed on.
        let is_known = self.change.columns.is_none();
        let file = is_known.then(|| attempt::file_ahead(&self.newest, &self.change.transaction)).flatten();
        let (store, newest) = (Arc::clone(&self.store), Arc::clone(&self.newest));
        let (durability, uploads) = (self.options.durability, self.change.uploads.clone());
        let write = async {
            match &file {
                Some(file) => {
                    probe::create(&store, newest.session(), &file.path, &file.bytes, durability).await
                }
                None => Ok(false),
            }
        };
        let (found, created, arrived) = futures::join!(self.find_newest(), write, uploads.arrive());
        match (created, file) {
            (Ok(true), Some(file)) => {
                self.note_written_ahead(file);
            }
            (Err(error), _) if error.kind() == ErrorKind::Unsupported => return Err(error),
            // Perhaps it is there, perhaps an earlier call wrote it: the attempt writes it again if it has to.
            (Err(error), Some(file)) => {
                warn!(path = file.path, %error, "a transaction file was not written ahead")
            }
            _ => {}
        }
        let found = found?;
        arrived?;
        self.since_look = Stopwatch::start();
        Ok(found)
    }

    /// Makes the newest version that can be found `self.newest`, and gives the newest name there is.
    async fn find_newest(&mut self) -> Result<Located> {
        self.since_look = Stopwatch::start();
        // Somebody published the version of the last put; most of the time nobody has published another one since.
        let (found, expected) = self.find(self.newest.located(), self.unanswered).await?;
        let mut found = found.ok_or_else(|| load::not_found(&self.store, VERSIONS))?;
        // Whatever the listing says.
        if let Some(taken) = self.unanswered.filter(|taken| taken.version > found.version) {
            found = locate::probe(&self.store, taken).await?;
        }
        self.load_newest(found, expected).await
    }

    /// The newest name there is, after the one that was found a moment ago. A listing that lags behind takes no version
    /// back.
    async fn look_again(&mut self, found: Located) -> Result<Located> {
        self.since_look = Stopwatch::start();
        let next = Located { version: found.version.next(), ..found };
        let (newer, expected) = self.find(found, Some(next)).await?;
        let mut found = newer.filter(|newer| newer.version > found.version).unwrap_or(found);
        if let Some(read) = expected.as_ref().filter(|read| read.version() > found.version) {
            found = locate::probe(&self.store, read.located()).await?;
        }
        self.load_newest(found, expected).await
    }

    /// The newest name there is. From a remote store the version that is expected is read meanwhile.
    ///
    /// Errors: `Conflict` if the version that was read is not the table's any more.
    async fn find(
        &mut self,
        known: Located,
        expected: Option<Located>,
    ) -> Result<(Option<Located>, Option<Arc<Snapshot>>)> {
        let read = async {
            let expected = expected.filter(|_| !self.store.is_local())?;
            load::load(&self.store, self.newest.session(), expected).await.ok()
        };
        let look = Stopwatch::start();
        let (found, expected) = futures::join!(resolve::find_from(&self.base, Some(known)), read);
        self.last_look = Some(LastLook { since: look, took: look.elapsed() });
        match found? {
            (_, true) => Err(self.base.replaced()),
            (found, false) => Ok((found, expected)),
        }
    }

    /// Makes the version with the newest name `self.newest`, or the one before it that was written to its end, and gives
    /// the newest name. `expected` may be that version.
    ///
    /// Errors: `NotFound` if that is older than the version that was read.
    async fn load_newest(&mut self, found: Located, expected: Option<Arc<Snapshot>>) -> Result<Located> {
        self.expected = expected;
        if let Some(expected) = self.expected.take_if(|expected| expected.located() == found) {
            self.newest = expected;
        } else if found != self.newest.located() {
            let loaded = load::newest(&self.store, self.newest.session(), found).await;
            if loaded.is_err() && is_planted(Fault::FeaturesForgetPut) {
                self.unanswered = None;
            }
            self.newest = loaded?.snapshot;
        }
        if self.newest.version() < self.checked {
            return Err(Error::not_found(format!(
                "Dataset at path {} was not found: version {} was read, the newest one is {}",
                self.store.full_path(VERSIONS),
                self.checked,
                self.newest.version()
            )));
        }
        // The version that was found may have been cleaned up before it was read.
        let newest = self.newest.located();
        Ok(if newest.version > found.version { newest } else { found })
    }

    /// How the commit ended, if the loop ended in an error.
    async fn conclude(&self, error: Error) -> CommitOutcome {
        match self.unanswered {
            Some(at) => self.put_of(at).conclude(error).await,
            None => CommitOutcome::NotCommitted(error),
        }
    }

    /// Removes the files that no version refers to, as far as the outcome says.
    async fn clean_up(&self, outcome: &CommitOutcome) {
        let committed = match outcome {
            CommitOutcome::Unknown(_) if !is_planted(Fault::UnknownRemovesFiles) => return,
            CommitOutcome::Unknown(_) => None,
            CommitOutcome::NotCommitted(_) => None,
            CommitOutcome::Committed(snapshot, _) => Some(snapshot),
        };
        match committed {
            None => {
                // What arrives after it was removed would stay; whether it arrives does not matter any more.
                let _ = self.change.uploads.arrive().await;
                staged::remove(&self.change.files).await;
            }
            Some(snapshot) => {
                // A version that an earlier call made of the same transaction may refer to other files.
                if self.unanswered.is_some_and(|at| at.version == snapshot.version()) {
                    let operation = &self.change.transaction.operation;
                    staged::remove(staged::unreferenced(&self.change.files, operation)).await;
                } else {
                    attempt::remove_repeated(&self.change.files, snapshot).await;
                }
                if is_planted(Fault::CommitRemovesFiles) {
                    staged::remove(&self.change.files).await;
                }
            }
        }
        let committed = committed.filter(|_| !is_planted(Fault::CommitRemovesTransaction));
        let needed = committed.map(|done| format!("{TRANSACTIONS}/{}", done.manifest.transaction_file));
        for path in self.transaction_files.iter().filter(|path| needed.as_ref() != Some(path)) {
            attempt::remove_transaction_file(&self.store, path).await;
        }
    }
}
