//! The steps of a program: the verbs, and what they are about.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use arrow_array::{Int64Array, UInt64Array};
use arrow_schema::{DataType, Field, Schema};
use pennon_core::RowId;
use pennon_core::schema::Alteration;
use pennon_core::transaction::{MapUpdate, UpdateMode};
use pennon_table::compact::CompactionOptions;
use pennon_table::ops::cleanup::CleanupOptions;
use pennon_table::ops::index::{IndexCare, IndexKind, IndexParameters, NewIndex};
use pennon_table::{
    CommitOptions, ConflictRetries, Dataset, MergeClauses, MergeOptions, MergeWriteMode, NewColumns,
    StorageOptions, Target, UpdateOptions, VersionRef, WhenMatched, WhenUnmatchedTarget, WriteMode,
    WriteOptions,
};

use super::Step;
use super::check;
use super::line::{Line, text};
use super::model::{Assignment, Effect, Matched, Predicate, Value, first_name, is_equal, two_columns};
use super::rows::{batches, reader};
use super::world::{Versions, World};

/// What a step does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "each is the verb of its name")]
pub enum StepKind {
    Append,
    Overwrite,
    Delete,
    Update,
    UpdateRows,
    Merge,
    AddColumn,
    ChangeWithColumn,
    DropColumn,
    RenameColumn,
    Compact,
    Restore,
    RestoreRows,
    CreateIndex,
    OptimizeIndices,
    DropIndex,
    Configure,
    Tag,
    Untag,
    CleanUp,
    Branch,
    Clone,
}

impl StepKind {
    /// Each kind, and how often of 54 times it is drawn.
    pub const ALL: [(Self, u32); 22] = {
        use StepKind::*;
        [
            (Append, 6),
            (Delete, 7),
            (Update, 7),
            (UpdateRows, 3),
            (Merge, 7),
            (AddColumn, 2),
            (ChangeWithColumn, 2),
            (DropColumn, 1),
            (RenameColumn, 1),
            (Compact, 5),
            (Overwrite, 1),
            (Restore, 1),
            (RestoreRows, 1),
            (CreateIndex, 2),
            (OptimizeIndices, 1),
            (DropIndex, 1),
            (Configure, 1),
            (Tag, 1),
            (Untag, 1),
            (CleanUp, 1),
            (Branch, 1),
            (Clone, 1),
        ]
    };
    const DRAWS: u32 = 54;

    /// A kind, the frequent ones more often.
    pub(super) fn draw(number: u32) -> Self {
        let mut left = number % Self::DRAWS;
        for (kind, often) in Self::ALL {
            match left.checked_sub(often) {
                None => return kind,
                Some(rest) => left = rest,
            }
        }
        Self::Clone
    }
}

/// Tables and branches at most: the others are dropped from the program, not from the store.
const MOST_LINES: usize = 3;
/// Columns beyond the first two, at most.
const MOST_COLUMNS: usize = 3;

pub(super) async fn run(world: &mut World, at: usize, step: &Step) -> Result<(), String> {
    match step.kind {
        StepKind::Append => append(world, at, step).await,
        StepKind::Overwrite => overwrite(world, at, step).await,
        StepKind::Delete => delete(world, at, step).await,
        StepKind::Update => update(world, at, step).await,
        StepKind::UpdateRows => update_rows(world, at, step).await,
        StepKind::Merge => merge(world, at, step).await,
        StepKind::AddColumn => add_column(world, at, step).await,
        StepKind::ChangeWithColumn => change_with_column(world, at, step).await,
        StepKind::DropColumn => drop_column(world, at, step).await,
        StepKind::RenameColumn => rename_column(world, at, step).await,
        StepKind::Compact => compact(world, at, step).await,
        StepKind::Restore => restore(world, at, step).await,
        StepKind::RestoreRows => restore_rows(world, at, step).await,
        StepKind::CreateIndex => create_index(world, at, step).await,
        StepKind::OptimizeIndices => {
            let care = IndexCare {
                merged_segments: Some(usize::try_from(step.subject % 3).unwrap_or(0)),
                rebuild: step.subject.is_multiple_of(5),
                ..IndexCare::default()
            };
            world
                .call(at, step, &Effect::Keep, Versions::Any, async |table: &mut Dataset| {
                    table.optimize_indices(&care).await
                })
                .await
        }
        StepKind::DropIndex => drop_index(world, at, step).await,
        StepKind::Configure => {
            let entries = BTreeMap::from([("a.b".to_owned(), Some(step.subject.to_string()))]);
            let update = MapUpdate { entries, replace: false };
            world
                .call(at, step, &Effect::Keep, Versions::One, async |table: &mut Dataset| {
                    table.update_config(update).await
                })
                .await
        }
        StepKind::Tag | StepKind::Untag => tag(world, at, step).await,
        StepKind::CleanUp => clean_up(world, at, step).await,
        StepKind::Branch | StepKind::Clone => begin_line(world, at, step).await,
    }
}

fn values(keys: &[i64], number: u32) -> Vec<(i64, Value)> {
    let value = |key: i64| (key + i64::from(number % 8)) % 6;
    keys.iter().map(|key| (*key, (key % 5 != 0).then_some(value(*key)))).collect()
}

fn options(mode: WriteMode, line: &Line, step: &Step) -> WriteOptions {
    let target = match step.subject % 3 {
        0 => Target::All { with_own: true },
        _ => Target::Own,
    };
    // An overwrite forgets the base paths of what it replaces.
    let target = if mode == WriteMode::Overwrite { Target::Own } else { target };
    let max_rows_per_file = if step.subject.is_multiple_of(2) { 2 } else { 1 << 20 };
    let commit = CommitOptions { durability: line.durability, ..CommitOptions::default() };
    WriteOptions { mode, max_rows_per_file, target, commit, ..WriteOptions::default() }
}

async fn append(world: &mut World, at: usize, step: &Step) -> Result<(), String> {
    let line = world.line(at)?;
    let rows = values(&line.new_keys(1 + step.subject % 6), step.subject / 6);
    let data = batches(&line.state(line.handle(step).version().0)?.fields, &rows)?;
    let options = options(WriteMode::Append, line, step);
    world
        .call(at, step, &Effect::Append(rows), Versions::One, async |table: &mut Dataset| {
            table.insert(data, options).await
        })
        .await
}

async fn overwrite(world: &mut World, at: usize, step: &Step) -> Result<(), String> {
    let line = world.line(at)?;
    let rows = values(&line.new_keys(1 + step.subject % 9), step.subject / 9);
    let data = batches(&two_columns(), &rows)?;
    let options = options(WriteMode::Overwrite, line, step);
    world
        .call(at, step, &Effect::Overwrite(rows), Versions::One, async |table: &mut Dataset| {
            table.insert(data, options).await
        })
        .await
}

async fn delete(world: &mut World, at: usize, step: &Step) -> Result<(), String> {
    let predicate = Predicate::draw(step.subject, step.subject / 9, world.line(at)?.next_key);
    let sql = predicate.sql();
    world
        .call(at, step, &Effect::Delete(predicate), Versions::One, async |table: &mut Dataset| {
            table.delete(&sql, ConflictRetries::default()).await.map(drop)
        })
        .await
}

/// Rows or columns are written, or what Pennon chooses; columns cannot be together with a new one.
fn update_options(world: &World, number: u32) -> UpdateOptions {
    let mode = match number % 3 {
        _ if world.new_column.is_some() => None,
        0 => None,
        1 => Some(UpdateMode::RewriteRows),
        _ => Some(UpdateMode::RewriteColumns),
    };
    UpdateOptions { mode, ..UpdateOptions::default() }
}

async fn update(world: &mut World, at: usize, step: &Step) -> Result<(), String> {
    let predicate = Predicate::draw(step.subject, step.subject / 9, world.line(at)?.next_key);
    let assignment = Assignment::draw(step.subject / 27);
    let (sql, assignments) = (predicate.sql(), [("v".to_owned(), assignment.sql())]);
    let options = update_options(world, step.subject / 81);
    world
        .call(at, step, &Effect::Update(predicate, assignment), Versions::One, async |table: &mut Dataset| {
            table.update(&assignments, Some(&sql), options).await.map(drop)
        })
        .await
}

async fn update_rows(world: &mut World, at: usize, step: &Step) -> Result<(), String> {
    let line = world.line(at)?;
    let rows = &line.state(line.handle(step).version().0)?.rows;
    let skipped = usize::try_from(step.subject).unwrap_or(0) % rows.len().max(1);
    let ids: BTreeSet<u64> = rows.keys().skip(skipped).step_by(2).take(3).copied().collect();
    if ids.is_empty() {
        return Ok(());
    }
    let value = (!step.subject.is_multiple_of(5)).then_some(i64::from(step.subject % 13));
    let data = reader(vec![
        (
            Field::new("_rowid", DataType::UInt64, false),
            Arc::new(UInt64Array::from_iter_values(ids.iter().copied())),
        ),
        (Field::new("v", DataType::Int64, true), Arc::new(ids.iter().map(|_| value).collect::<Int64Array>())),
    ])?;
    let options = update_options(world, step.subject / 13);
    world
        .call(at, step, &Effect::UpdateRows(ids, value), Versions::One, async |table: &mut Dataset| {
            table.update_rows(data, options).await.map(drop)
        })
        .await
}

async fn merge(world: &mut World, at: usize, step: &Step) -> Result<(), String> {
    let has_new_column = world.new_column.is_some();
    let line = world.line(at)?;
    let draw = |n: u32| step.subject / n;
    let first = i64::from(draw(1)) % line.next_key.max(1);
    let keys: Vec<i64> =
        (0..1 + i64::from(draw(7) % 6)).map(|n| first + n * (1 + i64::from(draw(42) % 2))).collect();
    line.next_key = line.next_key.max(keys.last().map_or(0, |last| last + 1));
    let rows = values(&keys, draw(84));
    let matched = match draw(101) % 4 {
        0 => Matched::Keep,
        1 => Matched::UpdateIfAbove,
        2 => Matched::Delete,
        _ => Matched::Update,
    };
    let unmatched = (draw(404) % 5 == 0).then(|| Predicate::draw(draw(2020), draw(2021), line.next_key));
    let insert = draw(409) % 3 != 0 || (matched == Matched::Keep && unmatched.is_none());
    let updates = matches!(matched, Matched::Update | Matched::UpdateIfAbove);
    let has_others = line.state(line.handle(step).version().0)?.fields.len() > 2;
    let in_place = updates && !insert && unmatched.is_none() && has_others;
    let clauses = MergeClauses {
        on: vec!["k".to_owned()],
        when_matched: match matched {
            Matched::Keep => WhenMatched::DoNothing,
            Matched::Update => WhenMatched::UpdateAll,
            Matched::UpdateIfAbove => WhenMatched::UpdateIf("source.v > target.v".to_owned()),
            Matched::Delete => WhenMatched::Delete,
        },
        insert,
        when_unmatched_target: match &unmatched {
            None => WhenUnmatchedTarget::Keep,
            Some(predicate) => WhenUnmatchedTarget::DeleteIf(predicate.sql()),
        },
        write_mode: match draw(419) % 3 {
            0 => MergeWriteMode::RewriteRows,
            1 if in_place && !has_new_column => MergeWriteMode::RewriteColumns,
            _ => MergeWriteMode::default(),
        },
    };
    let data = batches(&two_columns(), &rows)?;
    let effect = Effect::Merge { source: rows.into_iter().collect(), matched, insert, unmatched };
    world
        .call(at, step, &effect, Versions::One, async |table: &mut Dataset| {
            table.merge_insert(data, &clauses, &MergeOptions::default()).await.map(drop)
        })
        .await
}

async fn add_column(world: &mut World, at: usize, step: &Step) -> Result<(), String> {
    let line = world.line(at)?;
    if line.newest_state()?.fields.len() >= 2 + MOST_COLUMNS {
        return Ok(());
    }
    let name = format!("c{}", line.next_column);
    line.next_column += 1;
    let addend = (!step.subject.is_multiple_of(3)).then_some(i64::from(step.subject % 10));
    let new = match addend {
        Some(addend) => NewColumns::Expressions(vec![(name.clone(), format!("k + {addend}"))]),
        None => NewColumns::Null(Arc::new(Schema::new(vec![Field::new(&name, DataType::Int64, true)]))),
    };
    world
        .call(at, step, &Effect::AddColumn(name, addend), Versions::One, async |table: &mut Dataset| {
            table.add_columns(new, None).await
        })
        .await
}

/// A change of rows and a column that is null, in one version.
async fn change_with_column(world: &mut World, at: usize, step: &Step) -> Result<(), String> {
    let line = world.line(at)?;
    if line.newest_state()?.fields.len() >= 2 + MOST_COLUMNS {
        return Ok(());
    }
    let name = format!("c{}", line.next_column);
    line.next_column += 1;
    world.new_column = Some(name);
    let change = Step { subject: step.subject / 4, ..*step };
    let done = match step.subject % 4 {
        0 => append(world, at, &change).await,
        1 => delete(world, at, &change).await,
        2 => update(world, at, &change).await,
        _ => merge(world, at, &change).await,
    };
    world.new_column = None;
    done
}

/// A column that was added, of the version that the step's handle has.
fn any_column(line: &Line, step: &Step) -> Result<Option<(i32, String)>, String> {
    let fields = &line.state(line.handle(step).version().0)?.fields;
    let added: Vec<_> = fields.iter().filter(|(_, name)| name.starts_with('c')).collect();
    let chosen = added.get(usize::try_from(step.subject).unwrap_or(0) % added.len().max(1));
    Ok(chosen.map(|(field, name)| (**field, (*name).clone())))
}

async fn drop_column(world: &mut World, at: usize, step: &Step) -> Result<(), String> {
    let Some((field, name)) = any_column(world.line(at)?, step)? else { return Ok(()) };
    world
        .call(at, step, &Effect::DropColumn(field), Versions::One, async |table: &mut Dataset| {
            table.drop_columns(&[name]).await
        })
        .await
}

async fn rename_column(world: &mut World, at: usize, step: &Step) -> Result<(), String> {
    let line = world.line(at)?;
    let Some((field, path)) = any_column(line, step)? else { return Ok(()) };
    let name = format!("{}r{}", first_name(&path), line.next_column);
    line.next_column += 1;
    let alteration = Alteration { path, name: Some(name.clone()), ..Alteration::default() };
    world
        .call(at, step, &Effect::RenameColumn(field, name), Versions::One, async |table: &mut Dataset| {
            table.alter_columns(&[alteration]).await
        })
        .await
}

async fn compact(world: &mut World, at: usize, step: &Step) -> Result<(), String> {
    let rows = [3, 10, 1000].get(usize::try_from(step.subject % 3).unwrap_or(0)).copied();
    let options = CompactionOptions {
        target_rows_per_fragment: rows,
        partial_progress: step.subject.is_multiple_of(5),
        num_threads: Some(1),
        ..CompactionOptions::default()
    };
    world
        .call(at, step, &Effect::Keep, Versions::Any, async |table: &mut Dataset| {
            table.compact(&options).await.map(drop)
        })
        .await
}

async fn restore(world: &mut World, at: usize, step: &Step) -> Result<(), String> {
    let line = world.line(at)?;
    let version = line.any_version(step.subject);
    let effect = Effect::Restore(Box::new(line.state(version)?.clone()));
    world
        .call(at, step, &effect, Versions::One, async |table: &mut Dataset| {
            *table = table.checkout(VersionRef::Number(version)).await?;
            table.restore().await
        })
        .await
}

async fn restore_rows(world: &mut World, at: usize, step: &Step) -> Result<(), String> {
    let line = world.line(at)?;
    let version = line.any_version(step.subject);
    let then = line.state(version)?;
    // What becomes of values whose column is another one now is for tests of its own.
    if then.fields != line.newest_state()?.fields {
        return Ok(());
    }
    let every = 2 + usize::try_from(step.subject / 50 % 3).unwrap_or(0);
    let ids: BTreeSet<u64> = then.rows.keys().step_by(every).copied().collect();
    if ids.is_empty() {
        return Ok(());
    }
    let wanted: Vec<RowId> = ids.iter().copied().map(RowId).collect();
    let effect = Effect::RestoreRows(ids, Box::new(then.clone()));
    world
        .call(at, step, &effect, Versions::One, async |table: &mut Dataset| {
            let retries = ConflictRetries::default();
            table.restore_rows(&wanted, VersionRef::Number(version), retries).await.map(drop)
        })
        .await
}

/// The indices of a program: column and kind by name.
const INDICES: [(&str, &str, IndexKind); 5] = [
    ("k_btree", "k", IndexKind::BTree),
    ("v_btree", "v", IndexKind::BTree),
    ("v_bitmap", "v", IndexKind::Bitmap),
    ("k_zones", "k", IndexKind::ZoneMap),
    ("v_bloom", "v", IndexKind::BloomFilter),
];

async fn create_index(world: &mut World, at: usize, step: &Step) -> Result<(), String> {
    let chosen = INDICES.get(usize::try_from(step.subject).unwrap_or(0) % INDICES.len());
    let Some((name, column, kind)) = chosen else { return Ok(()) };
    let new = NewIndex {
        column: (*column).to_owned(),
        kind: *kind,
        name: Some((*name).to_owned()),
        replace: true,
        train: !step.subject.is_multiple_of(7),
        uuid: None,
        parameters: IndexParameters { page_rows: 4, zone_rows: 4, ..IndexParameters::default() },
    };
    world
        .call(at, step, &Effect::Keep, Versions::One, async |table: &mut Dataset| {
            table.create_index(new).await
        })
        .await
}

async fn drop_index(world: &mut World, at: usize, step: &Step) -> Result<(), String> {
    let line = world.line(at)?;
    let indices = line.handle(step).indices().await.map_err(text)?;
    let Some(index) = indices.get(usize::try_from(step.subject).unwrap_or(0) % indices.len().max(1)) else {
        return Ok(());
    };
    let name = index.name.clone();
    world
        .call(at, step, &Effect::Keep, Versions::One, async |table: &mut Dataset| {
            table.drop_index(&name).await
        })
        .await
}

/// A tag of a version, made or removed.
async fn tag(world: &mut World, at: usize, step: &Step) -> Result<(), String> {
    let line = world.line(at)?;
    let makes = step.kind == StepKind::Tag;
    let version = match makes {
        true => line.any_version(step.subject),
        false => match line.tags.iter().nth(usize::try_from(step.subject % 3).unwrap_or(0)) {
            Some(version) => *version,
            None => return Ok(()),
        },
    };
    if makes && line.tags.contains(&version) {
        return Ok(());
    }
    let name = format!("{}-{version}", line.branch.as_deref().unwrap_or("main"));
    let tags = line.newest.tags();
    let work = async {
        match makes {
            true => tags.create(&name, Some(VersionRef::Number(version))).await,
            false => tags.delete(&name).await,
        }
    };
    let (result, is_cut) = world.cut(step, work).await;
    let line = world.line(at)?;
    let exists = tags.list().await.map_err(text)?.contains_key(&name);
    match result {
        Err(error) if !is_cut => return Err(text(error)),
        Ok(()) if exists != makes => return Err(format!("the tag {name} is there: {exists}")),
        _ => {}
    }
    if exists {
        line.tags.insert(version);
    } else {
        line.tags.remove(&version);
    }
    Ok(())
}

async fn clean_up(world: &mut World, at: usize, step: &Step) -> Result<(), String> {
    let options = CleanupOptions {
        older_than: Some(Duration::ZERO),
        retain_versions: step.subject.is_multiple_of(2).then_some(u64::from(1 + step.subject / 2 % 4)),
        delete_unverified: step.subject.is_multiple_of(3),
        error_if_tagged_old_versions: false,
        ..CleanupOptions::default()
    };
    let newest = world.line(at)?.newest.clone();
    let (result, is_cut) = world.cut(step, newest.cleanup_old_versions(&options)).await;
    let line = world.line(at)?;
    if let (Err(error), false) = (&result, is_cut) {
        return Err(text(error.clone()));
    }
    line.newest = line.reopened(true).await.map_err(text)?;
    let versions = line.newest.versions().await.map_err(text)?;
    let kept: BTreeSet<u64> = versions.iter().map(|info| info.version.0).collect();
    let mut required = &line.tags | &line.referenced;
    let last = usize::try_from(options.retain_versions.unwrap_or(1)).unwrap_or(1);
    required.extend(line.kept.iter().rev().take(last));
    if let Some(version) = required.iter().find(|version| !kept.contains(version)) {
        return Err(format!("a cleanup has removed version {version}, which something refers to"));
    }
    if let (Some(version), false) =
        (kept.iter().find(|version| !required.contains(version) && !line.uncertain.contains(version)), is_cut)
    {
        return Err(format!("a cleanup has kept version {version}, to which nothing refers"));
    }
    line.kept = kept;
    check::is_unchanged(line).await
}

/// A branch or a clone of one of the versions.
async fn begin_line(world: &mut World, at: usize, step: &Step) -> Result<(), String> {
    if world.lines.len() >= MOST_LINES {
        return Ok(());
    }
    let number = world.lines.len();
    let root = world.root.clone();
    let unique = world.counts.steps;
    let line = world.line(at)?;
    let version = line.any_version(step.subject);
    let source = line.newest.clone();
    let (uri, branch) = match step.kind {
        StepKind::Branch => (line.uri.clone(), Some(format!("b{unique}"))),
        _ => (format!("{root}/clone-{unique}-{number}"), None),
    };
    let work = async {
        let reference = VersionRef::Number(version);
        match &branch {
            Some(name) => source.create_branch(name, Some(reference)).await,
            None => source.shallow_clone(&uri, reference, &StorageOptions::default()).await,
        }
    };
    let (result, is_cut) = world.cut(step, work).await;
    let line = world.line(at)?;
    let first = match result {
        Ok(first) => first,
        Err(_) if is_cut => {
            line.uncertain.insert(version);
            return Ok(());
        }
        Err(error) => return Err(text(error)),
    };
    let state = line.state(version)?.clone();
    let (next_row, next_key, next_column) = (line.next_row, line.next_key, line.next_column);
    // Of a version that was cloned only the files are kept.
    if branch.is_some() {
        line.referenced.insert(version);
    }
    is_equal(&check::state(&first).await?, &state)?;
    let mut new = Line::new(uri, branch, first.clone(), line.durability);
    new.next_row = first.manifest().next_row_id.max(state.rows.keys().next_back().map_or(0, |last| last + 1));
    (new.next_key, new.next_column) = (next_key, next_column);
    if new.next_row > next_row {
        return Err(format!("a new line begins at row id {}, its source is at {next_row}", new.next_row));
    }
    new.kept.insert(first.version().0);
    new.states.insert(first.version().0, state);
    world.lines.push(new);
    Ok(())
}
