//! One writer: draws an operation, stages it on the version it knows, commits it, and notes what it was told.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use pennon_core::conflict::rebase::RowsByFragment;
use pennon_core::deletion::DeletionVector;
use pennon_core::manifest::{DeletionFile, Flags, Fragment, LineageSource, Manifest};
use pennon_core::manifest::{Tail, write_manifest_file};
use pennon_core::rows::RowIdSequence;
use pennon_core::schema::{Field, Metadata, Schema};
use pennon_core::transaction::{
    Append, MapUpdate, Merge, Operation, Overwrite, Project, ReserveFragments, Restore, Transaction, Update,
    UpdateConfig, UpdateMode,
};
use pennon_core::{Error, ErrorKind, FieldId, FragmentId, Result, Version};
use pennon_datafile::deletion_file;
use pennon_table::compact::{CompactionOptions, RewriteResult};
use pennon_table::{
    CommitOptions, CommitOutcome, Dataset, Durability, OpenOptions, StagedChange, TransactionOptions,
    VersionRef,
};
use uuid::Uuid;

use super::env::{World, pause};
use super::files::{DATA, data_file, deletion_path, fields, live_rows};
use super::store::SimStore;

/// What a change does to the rows of a table, by its own intent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Effect {
    /// So many rows with new ids.
    Insert(u64),
    /// Rows with these ids are deleted.
    Delete(BTreeSet<u64>),
    /// The table consists of so many rows with new ids.
    Replace(u64),
    /// The rows are those of a version.
    Restore(u64),
    /// The rows are kept.
    Keep,
}

/// What a writer got as the outcome of its change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Answer {
    /// Nothing: it crashed before.
    Nothing,
    /// The change is committed.
    Committed,
    /// The change is not committed.
    NotCommitted,
    /// The outcome is unknown.
    Unknown,
}

/// What a history led to, in numbers.
#[derive(Debug, Clone, Default)]
pub struct Outcomes {
    /// Changes that were acknowledged.
    pub committed: u64,
    /// Changes that were reported as not committed.
    pub not_committed: u64,
    /// Changes whose outcome is unknown.
    pub unknown: u64,
    /// Changes of processes that crashed.
    pub crashed: u64,
    /// The transaction of the first version.
    pub(super) first: String,
    /// Effect and answer of each change, by uuid.
    pub(super) changes: BTreeMap<String, (Effect, Answer)>,
}

impl Outcomes {
    pub(super) fn add(&mut self, writer: &Writer) {
        for (uuid, change) in writer.changes.borrow().iter() {
            match change.1 {
                Answer::Committed => self.committed += 1,
                Answer::NotCommitted => self.not_committed += 1,
                Answer::Unknown => self.unknown += 1,
                Answer::Nothing => self.crashed += 1,
            }
            self.changes.insert(uuid.clone(), change.clone());
        }
    }
}

/// One writer.
pub(super) struct Writer {
    world: Arc<World>,
    store: Arc<SimStore>,
    uri: String,
    changes: RefCell<BTreeMap<String, (Effect, Answer)>>,
}

/// Creates the table and gives the uuid of its first transaction.
pub(super) async fn create(uri: &str) -> std::result::Result<String, String> {
    let uuid = Uuid::from_u128(1);
    let schema = Schema::from_arrow(&arrow_schema::Schema::new(vec![
        arrow_schema::Field::new("a", arrow_schema::DataType::Int64, true),
        arrow_schema::Field::new("b", arrow_schema::DataType::Int64, true),
    ]));
    let created = async {
        let schema = schema?;
        let fragments = vec![
            Fragment::new(vec![data_file(Uuid::from_u128(2), &fields(&schema))], 4),
            Fragment::new(vec![data_file(Uuid::from_u128(3), &fields(&schema))], 3),
        ];
        let store = pennon_table::Store::open(uri, &Default::default())?;
        for file in fragments.iter().flat_map(|fragment| &fragment.files) {
            store.put(&format!("data/{}", file.path), DATA, Durability::Os).await?;
        }
        let overwrite = Overwrite { fragments, schema, config_upserts: None, initial_bases: Vec::new() };
        let transaction = transaction(Version(0), uuid, Operation::Overwrite(overwrite));
        Dataset::commit(uri, transaction, TransactionOptions::default()).await
    };
    created
        .await
        .map(|_| uuid.to_string())
        .map_err(|error: Error| format!("the table was not created: {error}"))
}

fn transaction(read_version: Version, uuid: Uuid, operation: Operation) -> Transaction {
    let uuid = uuid.to_string();
    Transaction { read_version, uuid, tag: String::new(), properties: Metadata::new(), operation }
}

impl Writer {
    pub(super) fn new(world: &Arc<World>, store: &Arc<SimStore>, uri: &str) -> Self {
        let (world, store) = (Arc::clone(world), Arc::clone(store));
        Self { world, store, uri: uri.to_owned(), changes: RefCell::default() }
    }

    /// A few operations, one after the other.
    pub(super) async fn work(&self) {
        let mut dataset = None;
        for _ in 0..=self.world.below(3) {
            // An error says that nothing was begun: a get that failed, a version that is gone.
            if dataset.is_none() || self.world.one_in(2) {
                dataset = self.open().await.ok();
            }
            let Some(open) = &mut dataset else { continue };
            if self.step(open).await.is_err() {
                dataset = None;
            }
        }
    }

    async fn open(&self) -> Result<Dataset> {
        let timeout = match self.world.below(3) {
            0 => Duration::ZERO,
            1 => Duration::from_millis(200),
            _ => Duration::from_secs(1800),
        };
        let max_retries = u32::try_from(1 + self.world.below(8)).unwrap_or(1);
        let commit = CommitOptions { max_retries, timeout, ..CommitOptions::default() };
        Dataset::open(&self.uri, OpenOptions { commit, ..OpenOptions::default() }).await
    }

    fn uuid(&self) -> Uuid {
        Uuid::from_u64_pair(self.world.random(), self.world.random())
    }

    /// Notes a change before it is committed, and gives its transaction.
    fn begin(&self, read: Version, operation: Operation, effect: Effect) -> Transaction {
        let mut transaction = transaction(read, self.uuid(), operation);
        if self.world.one_in(5) {
            // Too large to be kept in the manifest.
            transaction.properties.insert("large".to_owned(), "x".repeat(70_000));
        }
        self.changes.borrow_mut().insert(transaction.uuid.clone(), (effect, Answer::Nothing));
        transaction
    }

    fn note(&self, uuid: &str, answer: Answer) {
        if let Some(change) = self.changes.borrow_mut().get_mut(uuid) {
            change.1 = answer;
        }
    }

    async fn commit(&self, dataset: &mut Dataset, change: StagedChange, uuid: &str) {
        let _busy = self.world.busy();
        let answer = match dataset.commit_staged(change).await {
            CommitOutcome::Committed(..) => Answer::Committed,
            CommitOutcome::NotCommitted(_) => Answer::NotCommitted,
            CommitOutcome::Unknown(_) => Answer::Unknown,
        };
        self.note(uuid, answer);
    }

    async fn step(&self, dataset: &mut Dataset) -> Result<()> {
        match self.world.below(22) {
            0..=3 => self.append(dataset).await,
            4..=8 => self.delete(dataset).await,
            9..=11 => self.update(dataset).await,
            12 | 13 => self.compact(dataset).await,
            14 => self.overwrite(dataset).await,
            15 => self.restore(dataset).await,
            16 => self.change_columns(dataset).await,
            17 => self.configure(dataset).await,
            18..=20 => self.clean_up(dataset).await,
            _ => self.newer_program(dataset).await,
        }
    }

    /// A new fragment, with its data file put.
    async fn fragment(&self, dataset: &Dataset, rows: u64) -> Result<Fragment> {
        let file = data_file(self.uuid(), &fields(dataset.schema()));
        let store = &dataset.snapshot().store;
        store.put(&format!("data/{}", file.path), DATA, Durability::Os).await?;
        Ok(Fragment::new(vec![file], rows))
    }

    fn rows(&self, dataset: &Dataset) -> Result<Vec<(FragmentId, u32, u64)>> {
        live_rows(dataset.manifest(), |path| self.store.archived(path))
    }

    /// Some of the live rows.
    fn some_rows(&self, dataset: &Dataset) -> Result<Vec<(FragmentId, u32, u64)>> {
        let mut rows = self.rows(dataset)?;
        let keep = 1 + self.world.below(3);
        while rows.len() > keep {
            rows.swap_remove(self.world.below(rows.len()));
        }
        Ok(rows)
    }

    async fn append(&self, dataset: &mut Dataset) -> Result<()> {
        let rows = 1 + u64::try_from(self.world.below(4)).unwrap_or(0);
        let fragments = vec![self.fragment(dataset, rows).await?];
        let operation = Operation::Append(Append { fragments });
        let transaction = self.begin(dataset.version(), operation, Effect::Insert(rows));
        let uuid = transaction.uuid.clone();
        let change = StagedChange::staged(dataset.snapshot(), transaction)?;
        self.commit(dataset, change, &uuid).await;
        Ok(())
    }

    async fn overwrite(&self, dataset: &mut Dataset) -> Result<()> {
        let fragments = vec![self.fragment(dataset, 2).await?];
        let schema = dataset.schema().as_ref().clone();
        let overwrite = Overwrite { fragments, schema, config_upserts: None, initial_bases: Vec::new() };
        let transaction = self.begin(dataset.version(), Operation::Overwrite(overwrite), Effect::Replace(2));
        let uuid = transaction.uuid.clone();
        let change = StagedChange::staged(dataset.snapshot(), transaction)?;
        self.commit(dataset, change, &uuid).await;
        Ok(())
    }

    /// Through the public verb, which writes the deletion files.
    async fn delete(&self, dataset: &mut Dataset) -> Result<()> {
        let rows = self.some_rows(dataset)?;
        let mut offsets = BTreeMap::<FragmentId, DeletionVector>::new();
        for (fragment, offset, _) in &rows {
            let deleted = DeletionVector::from_iter([*offset]);
            let known = offsets.entry(*fragment).or_insert_with(DeletionVector::empty);
            *known = known.union(&deleted);
        }
        let uuid = self.uuid().to_string();
        let ids = rows.into_iter().map(|(_, _, id)| id).collect();
        self.changes.borrow_mut().insert(uuid.clone(), (Effect::Delete(ids), Answer::Nothing));
        let _busy = self.world.busy();
        let result = dataset.commit_delete(offsets, "simulated", Some(uuid.clone()), Metadata::new()).await;
        self.note(&uuid, Self::answer(&result));
        result.map(drop)
    }

    /// What the error of a verb says.
    fn answer<T>(result: &Result<T>) -> Answer {
        match result {
            Ok(_) => Answer::Committed,
            Err(error) if error.kind() == ErrorKind::CommitUnknown => Answer::Unknown,
            Err(_) => Answer::NotCommitted,
        }
    }

    /// Rows move to a new fragment under the ids they have.
    async fn update(&self, dataset: &mut Dataset) -> Result<()> {
        let rows = self.some_rows(dataset)?;
        let Some(moved) = u64::try_from(rows.len()).ok().filter(|&rows| rows > 0) else { return Ok(()) };
        let mut affected = RowsByFragment::new();
        for (fragment, offset, _) in &rows {
            let known = affected.entry(*fragment).or_insert_with(DeletionVector::empty);
            *known = known.union(&DeletionVector::from_iter([*offset]));
        }
        let (mut updated, mut removed) = (Vec::new(), Vec::new());
        let mut files = Vec::new();
        for (id, deleted) in &affected {
            let Some(fragment) = dataset.manifest().fragment(*id) else { continue };
            let before = super::files::deleted(fragment, |path| self.store.archived(path))?;
            let all = before.union(deleted);
            if all.len() == fragment.physical_rows {
                removed.push(*id);
                continue;
            }
            let (file_type, bytes) = deletion_file::encode(&all)?;
            let deletion = DeletionFile {
                file_type,
                read_version: dataset.version(),
                id: self.world.random(),
                num_deleted_rows: all.len(),
                base_id: None,
            };
            files.push((deletion_path(*id, &deletion), Bytes::from(bytes)));
            updated.push(Fragment { deletion: Some(deletion), ..fragment.edit() });
        }
        let store = Arc::clone(&dataset.snapshot().store);
        store.put_new(files, Durability::Os).await?;
        let mut new = self.fragment(dataset, moved).await?;
        let mut ids: Vec<u64> = rows.iter().map(|(_, _, id)| *id).collect();
        ids.sort_unstable();
        new.row_ids = Some(LineageSource::Inline(RowIdSequence::from_slice(&ids).encode()));
        let update = Update {
            removed_fragment_ids: removed,
            updated_fragments: updated,
            new_fragments: vec![new],
            fields_modified: Vec::new(),
            compacted_sstables: Vec::new(),
            fields_for_preserving_fragment_bitmap: fields(dataset.schema()),
            mode: UpdateMode::RewriteRows,
            inserted_rows: None,
            updated_offset_bitmaps: BTreeMap::new(),
        };
        let transaction = self.begin(dataset.version(), Operation::Update(update), Effect::Keep);
        let uuid = transaction.uuid.clone();
        let change = StagedChange::staged(dataset.snapshot(), transaction)?.affecting(Some(affected));
        self.commit(dataset, change, &uuid).await;
        Ok(())
    }

    /// Two fragments become one, through the public verb, in two commits.
    async fn compact(&self, dataset: &mut Dataset) -> Result<()> {
        let old: Vec<Fragment> =
            dataset.manifest().fragments.decode_all().take(2).map(|f| f.edit()).collect();
        let chosen: BTreeSet<FragmentId> = old.iter().map(|fragment| fragment.id).collect();
        let rows = self.rows(dataset)?.into_iter().filter(|(id, _, _)| chosen.contains(id));
        let mut ids: Vec<u64> = rows.map(|(_, _, id)| id).collect();
        if old.len() < 2 || ids.is_empty() {
            return Ok(());
        }
        ids.sort_unstable();
        let mut new = self.fragment(dataset, u64::try_from(ids.len()).unwrap_or(0)).await?;
        new.row_ids = Some(LineageSource::Inline(RowIdSequence::from_slice(&ids).encode()));
        let result = RewriteResult {
            read_version: dataset.version(),
            original_fragments: old,
            new_fragments: vec![new],
        };
        let _busy = self.world.busy();
        dataset.commit_compaction(vec![result], &CompactionOptions::default()).await.map(drop)
    }

    async fn restore(&self, dataset: &mut Dataset) -> Result<()> {
        let version = Version(1 + u64::try_from(self.world.below(4)).unwrap_or(0));
        if version >= dataset.version() {
            return Ok(());
        }
        dataset.checkout(VersionRef::Number(version.0)).await?;
        let operation = Operation::Restore(Restore { version });
        let transaction = self.begin(dataset.version(), operation, Effect::Restore(version.0));
        let uuid = transaction.uuid.clone();
        self.commit(dataset, StagedChange::from(transaction), &uuid).await;
        Ok(())
    }

    /// A column is added to all fragments, or one is dropped.
    async fn change_columns(&self, dataset: &mut Dataset) -> Result<()> {
        let mut schema = dataset.schema().as_ref().clone();
        let operation = if schema.fields.len() > 2 {
            schema.fields.pop();
            Operation::Project(Project { schema, preserves_nullability: true })
        } else {
            let id = FieldId(schema.max_field_id().0 + 1);
            let name = format!("c{}", self.world.random());
            let arrow = arrow_schema::Field::new(name, arrow_schema::DataType::Int64, true);
            let arrow = arrow_schema::Schema::new(vec![arrow]);
            let field = Schema::from_arrow(&arrow)?.fields.pop();
            let field = field.ok_or_else(|| Error::internal("a schema without fields"))?;
            schema.fields.push(Field { id, ..field });
            let mut fragments = Vec::new();
            for fragment in dataset.manifest().fragments.decode_all() {
                let file = data_file(self.uuid(), &[id]);
                let store = &dataset.snapshot().store;
                store.put(&format!("data/{}", file.path), DATA, Durability::Os).await?;
                let mut fragment = fragment.edit();
                fragment.files.push(file);
                fragments.push(fragment);
            }
            Operation::Merge(Merge { fragments, schema, preserves_nullability: true })
        };
        let transaction = self.begin(dataset.version(), operation, Effect::Keep);
        let uuid = transaction.uuid.clone();
        let change = StagedChange::staged(dataset.snapshot(), transaction)?;
        self.commit(dataset, change, &uuid).await;
        Ok(())
    }

    /// A key of the config, or ids of fragments that nobody else gets.
    async fn configure(&self, dataset: &mut Dataset) -> Result<()> {
        let operation = if self.world.one_in(2) {
            let entries = [(format!("k{}", self.world.random()), Some("v".to_owned()))].into();
            let config = Some(MapUpdate { entries, replace: false });
            Operation::UpdateConfig(UpdateConfig { config, ..UpdateConfig::default() })
        } else {
            Operation::ReserveFragments(ReserveFragments { num_fragments: 2 })
        };
        let transaction = self.begin(dataset.version(), operation, Effect::Keep);
        let uuid = transaction.uuid.clone();
        self.commit(dataset, StagedChange::from(transaction), &uuid).await;
        Ok(())
    }

    /// Another program removes versions, and transaction files of those that are left.
    async fn clean_up(&self, dataset: &mut Dataset) -> Result<()> {
        let newest = dataset.latest_version().await?;
        // Versions are kept for days: no attempt is older than the version it builds on. Nobody has a turn between this
        // check and the last removal.
        for _ in 0..40 {
            if !self.world.is_busy() {
                break;
            }
            pause(1).await;
        }
        if self.world.is_busy() {
            return Ok(());
        }
        self.store.let_arrive();
        let kept = newest.0.saturating_sub(u64::try_from(self.world.below(2)).unwrap_or(0));
        for path in self.store.paths() {
            let Some(name) = path.strip_prefix("_versions/") else { continue };
            let parsed = pennon_core::manifest::naming::parse(name);
            if parsed.is_some_and(|(version, _)| version.0 < kept) {
                self.store.remove_now(&path);
            }
        }
        if !self.world.one_in(3) {
            let files = self.store.paths();
            for path in files.iter().filter(|path| path.starts_with("_transactions/")) {
                self.store.remove_now(path);
            }
        }
        Ok(())
    }

    /// A newer program commits a version that this release cannot read.
    async fn newer_program(&self, dataset: &mut Dataset) -> Result<()> {
        if !self.world.one_in(4) {
            return self.append(dataset).await;
        }
        let newest = dataset.latest_version().await?;
        let name = |version| {
            let scheme = pennon_core::manifest::naming::NamingScheme::V2;
            format!("_versions/{}", pennon_core::manifest::naming::manifest_name(version, scheme))
        };
        let Some(file) = self.store.archived(&name(newest)) else { return Ok(()) };
        let size = u64::try_from(file.len()).unwrap_or(0);
        let range = Tail::locate(&file, size)?;
        let at = |position: u64| usize::try_from(position).unwrap_or(usize::MAX).min(file.len());
        let mut manifest = Manifest::decode(file.slice(at(range.start)..at(range.end)))?;
        manifest.version = newest.next();
        manifest.reader_flags = manifest.reader_flags.with(Flags(1 << 40));
        manifest.writer_flags = manifest.writer_flags.with(Flags(1 << 40));
        let operation = Operation::UpdateConfig(UpdateConfig::default());
        let transaction = self.begin(newest, operation, Effect::Keep);
        manifest.transaction_file.clear();
        let file = write_manifest_file(&mut manifest, None, Some(&transaction.encode()))?;
        let answer = match self.store.put_now(&name(newest.next()), file.into()) {
            true => Answer::Committed,
            false => Answer::NotCommitted,
        };
        self.note(&transaction.uuid, answer);
        Ok(())
    }
}
