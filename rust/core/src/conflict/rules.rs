//! What a transaction that got in first means for mine: the table of table format 8.2.
//!
//! Rows are mine, columns are theirs. The notes are the functions below the table.
//!
//! Where it is more than what the reference does:
//!
//! | mine | theirs | the reference | here |
//! |---|---|---|---|
//! | Rewrite | Delete or Update of rows in its fragments | must be retried | their deletions are carried over (`MV`) |
//! | Delete or Update | Rewrite of their fragments | must be retried | its rows are found where they are now (`MV`) |
//! | Append of a column | Merge that gives it another type | its values are lost | must be retried (`TYPE`) |
//! | Merge without a column | CreateIndex of that column | the index is dropped | must be retried (`LOST`) |
//! | CreateIndex of a column | Merge or Project without it | the index is of no column | must be retried (`LOST`) |
//! | Project | UpdateConfig of a field's metadata | the old metadata is back | must be retried (`META`) |
//! | CreateIndex that removes an index | Rewrite that writes it again under another uuid | the index stays | must be retried (`COV`) |
//! | Update that names the keys it inserts | Append, or Update that names none | must be retried | only if one of the keys is in the rows they wrote (`KEY`, `DV`) |
//! | the same | DataReplacement of a key column | both are kept | must be retried (`FK`) |
//!
//! The first two need what says where the rows went, and are retryable without it, see [`rebase`](super::rebase).

use std::collections::{BTreeMap, BTreeSet};

use super::Outcome;
use crate::manifest::{DataFile, Fragment, IndexMetadata};
use crate::rows::{Intervals, RowIdSequence};
use crate::schema::Schema;
use crate::transaction::{
    KeyFilter, Merge, Operation, Project, Transaction, Update, UpdateConfig, UpdateMode,
};
use crate::{FragmentId, Version};

/// How a cell of the table decides.
#[derive(Debug, Clone, Copy)]
enum Rule {
    /// Both may be committed.
    Compatible,
    /// Mine must be done again.
    Retryable,
    /// Incompatible: mine cannot be retried.
    Incompatible,
    /// A note: what both say decides.
    Note(Note),
}

const SAME_KEYS: &str = "it may have inserted the same keys";

type Note = fn(&Operation, &Operation) -> Verdict;

/// [`Outcome`] with the reason only.
#[derive(Debug, PartialEq, Eq)]
enum Verdict {
    Compatible,
    Rebase,
    UnlessSharedKey { needs_rebase: bool },
    Retryable(&'static str),
    Incompatible(&'static str),
}
use Verdict::{Compatible, Incompatible, Rebase, Retryable, UnlessSharedKey};

const OK: Rule = Rule::Compatible;
const RY: Rule = Rule::Retryable;
const X: Rule = Rule::Incompatible;
/// Rows that are deleted or moved: deletion vectors decide.
const DV: Rule = Rule::Note(rows);
/// Rows that are deleted or moved, and rows whose fragments are replaced.
const MV: Rule = Rule::Note(moved_rows);
/// A fragment that both change.
const F: Rule = Rule::Note(fragments);
/// A fragment whose columns are replaced, and keys that were inserted.
const FK: Rule = Rule::Note(replaced);
/// Keys that were inserted meanwhile.
const KEY: Rule = Rule::Note(appended_keys);
/// A schema that may forbid nulls, and values that were not checked for them.
const NUL: Rule = Rule::Note(nullability);
/// The same, and columns of which the rows have another type.
const TYPE: Rule = Rule::Note(appended_columns);
/// An index of columns that are not kept.
const LOST: Rule = Rule::Note(lost_columns);
/// Indices of one name.
const NAME: Rule = Rule::Note(index_names);
/// An index of fragments that are replaced.
const COV: Rule = Rule::Note(covered);
/// An index of columns that are replaced.
const COL: Rule = Rule::Note(indexed_columns);
/// Metadata of the schema or its fields: mine must be done again.
const MRY: Rule = Rule::Note(schema_metadata_retryable);
/// Metadata of fields, which a schema without it would take back.
const META: Rule = Rule::Note(field_metadata);
/// Metadata of the schema or its fields, and mine is incompatible: it cannot be retried.
const MX: Rule = Rule::Note(schema_metadata);
/// The same key of the table config.
const CFG: Rule = Rule::Note(config_keys);
/// The same key or the same metadata.
const UPD: Rule = Rule::Note(same_metadata);
/// A fragment with new columns that went away.
const GONE: Rule = Rule::Note(fragment_gone);
/// The same columns of the same fragment.
const CELL: Rule = Rule::Note(same_columns);
/// The same root.
const ROOT: Rule = Rule::Note(same_base);
/// State of an in-memory log in both.
const LOG: Rule = Rule::Note(in_memory_logs);

#[rustfmt::skip]
const TABLE: [[Rule; 15]; 15] = [
//   Append Delete Update Index Rewrite Merge Project Overwr Restore Config Replace Reserve MemWal Clone Bases
    [OK,    OK,    OK,    OK,   OK,     TYPE, NUL,    X,     X,      OK,    OK,     OK,     X,     OK,   OK  ], // Append
    [OK,    DV,    DV,    OK,   MV,     RY,   OK,     X,     X,      OK,    F,      OK,     X,     OK,   OK  ], // Delete
    [KEY,   DV,    DV,    OK,   MV,     RY,   NUL,    X,     X,      OK,    FK,     OK,     LOG,   OK,   OK  ], // Update
    [OK,    OK,    OK,    NAME, COV,    LOST, LOST,   X,     X,      OK,    COL,    OK,     X,     OK,   OK  ], // CreateIndex
    [OK,    MV,    MV,    COV,  F,      RY,   OK,     X,     X,      OK,    F,      OK,     OK,    OK,   OK  ], // Rewrite
    [RY,    RY,    RY,    LOST, RY,     RY,   X,      X,     X,      MRY,   RY,     OK,     X,     OK,   OK  ], // Merge
    [NUL,   OK,    NUL,   OK,   OK,     RY,   RY,     X,     X,      META,  NUL,    OK,     X,     OK,   OK  ], // Project
    [OK,    OK,    OK,    OK,   OK,     OK,   OK,     RY,    OK,     CFG,   OK,     OK,     X,     OK,   OK  ], // Overwrite
    [OK,    OK,    OK,    OK,   OK,     OK,   OK,     OK,    OK,     MX,    OK,     OK,     X,     OK,   OK  ], // Restore
    [OK,    OK,    OK,    OK,   OK,     MRY,  OK,     MX,    MX,     UPD,   OK,     OK,     OK,    OK,   OK  ], // UpdateConfig
    [OK,    GONE,  F,     COL,  F,      RY,   NUL,    X,     X,      OK,    CELL,   OK,     X,     OK,   OK  ], // DataReplacement
    [OK,    OK,    OK,    OK,   OK,     OK,   OK,     X,     X,      OK,    OK,     OK,     OK,    OK,   OK  ], // ReserveFragments
    [X,     X,     LOG,   OK,   OK,     X,    X,      X,     X,      OK,    X,      OK,     LOG,   X,    OK  ], // UpdateMemWalState
    [OK,    OK,    OK,    OK,   OK,     OK,   OK,     OK,    OK,     OK,    OK,     OK,     OK,    OK,   OK  ], // Clone
    [OK,    OK,    OK,    OK,   OK,     OK,   OK,     OK,    OK,     OK,    OK,     OK,     OK,    OK,   ROOT], // UpdateBases
];

/// What `theirs`, committed as `theirs_version`, means for `mine`, which is not committed yet.
pub fn check(mine: &Transaction, theirs: &Transaction, theirs_version: Version) -> Outcome {
    let reason = reason(&theirs.operation);
    let cell = matrix_index(&mine.operation).zip(matrix_index(&theirs.operation));
    let cell = cell.and_then(|(mine, theirs)| TABLE.get(mine)?.get(theirs));
    let verdict = match cell {
        // Without knowing what changed there, committing would not be safe.
        None => Incompatible("this release does not commit it"),
        Some(Rule::Compatible) => Compatible,
        Some(Rule::Retryable) => Retryable(reason),
        Some(Rule::Incompatible) => Incompatible(reason),
        Some(Rule::Note(note)) => note(&mine.operation, &theirs.operation),
    };
    outcome(verdict, mine, theirs, theirs_version)
}

/// As [`check`], for a change of rows that is committed together with columns: `schema` has them, and all else of the
/// version that it was made for.
pub fn check_with_columns(
    mine: &Transaction,
    schema: &Schema,
    theirs: &Transaction,
    theirs_version: Version,
) -> Outcome {
    match &theirs.operation {
        Operation::Merge(_) | Operation::Project(_) => {
            outcome(Retryable("it changed the columns, and so does this"), mine, theirs, theirs_version)
        }
        Operation::UpdateConfig(_) => {
            let merge = Merge { fragments: Vec::new(), schema: schema.clone(), preserves_nullability: true };
            let mine = Transaction { operation: Operation::Merge(merge), ..mine.clone() };
            check(&mine, theirs, theirs_version)
        }
        _ => check(mine, theirs, theirs_version),
    }
}

fn outcome(verdict: Verdict, mine: &Transaction, theirs: &Transaction, theirs_version: Version) -> Outcome {
    let preempted = || {
        format!(
            "this {} was preempted by concurrent transaction {} ({}) at version {theirs_version}",
            mine.operation.name(),
            theirs.uuid,
            theirs.operation.name()
        )
    };
    let retryable =
        |why: &str| format!("Retryable commit conflict for version {theirs_version}: {}: {why}", preempted());
    match verdict {
        Compatible => Outcome::Compatible,
        Rebase => Outcome::Rebase,
        UnlessSharedKey { needs_rebase } => {
            Outcome::UnlessSharedKey { message: retryable(SAME_KEYS), needs_rebase }
        }
        Retryable(why) => Outcome::Retryable(retryable(why)),
        Incompatible(why) => Outcome::Incompatible(format!(
            "Commit conflict for version {theirs_version}: {}: {why}",
            preempted()
        )),
    }
}

/// Row and column of an operation; none for those that are not committed here.
pub(super) fn matrix_index(operation: &Operation) -> Option<usize> {
    use Operation as Op;
    Some(match operation {
        Op::Append(_) => 0,
        Op::Delete(_) => 1,
        Op::Update(_) => 2,
        Op::CreateIndex(_) => 3,
        Op::Rewrite(_) => 4,
        Op::Merge(_) => 5,
        Op::Project(_) => 6,
        Op::Overwrite(_) => 7,
        Op::Restore(_) => 8,
        Op::UpdateConfig(_) => 9,
        Op::DataReplacement(_) => 10,
        Op::ReserveFragments(_) => 11,
        Op::UpdateMemWalState(_) => 12,
        Op::Clone(_) => 13,
        Op::UpdateBases(_) => 14,
        Op::DataOverlay(_) | Op::Unknown(_) => return None,
    })
}

fn reason(theirs: &Operation) -> &'static str {
    match theirs {
        Operation::Overwrite(_) | Operation::Restore(_) => "the table this was made for was replaced",
        Operation::UpdateMemWalState(_) => "it changed the state of an in-memory log",
        Operation::Merge(_) => "it changed the columns of all fragments",
        Operation::Project(_) => "it changed the schema",
        Operation::Append(_) => "it added fragments, and this replaces all",
        _ => "it changed fragments that are replaced",
    }
}

/// A change of the schema does not say that every field which took nulls still does.
fn nullability(mine: &Operation, theirs: &Operation) -> Verdict {
    let keeps = |operation: &Operation| match operation {
        Operation::Merge(merge) => merge.preserves_nullability,
        Operation::Project(project) => project.preserves_nullability,
        _ => true,
    };
    if keeps(mine) && keeps(theirs) { Compatible } else { Retryable("a field may not take nulls any more") }
}

/// A column that gets another type gets another field id with it: values of the old one would be lost.
fn appended_columns(mine: &Operation, theirs: &Operation) -> Verdict {
    if let (Operation::Append(append), Operation::Merge(merge)) = (mine, theirs) {
        let mut fields = append.fragments.iter().flat_map(|f| &f.files).flat_map(|file| file.fields.iter());
        if fields.any(|id| !id.is_lineage() && id.0 >= 0 && merge.schema.field_by_id(*id).is_none()) {
            return Retryable("it changed the type of a column of the new rows, or dropped it");
        }
    }
    nullability(mine, theirs)
}

/// Both changed rows of a fragment, which is fine as long as they are different rows, and inserted different keys.
fn rows(mine: &Operation, theirs: &Operation) -> Verdict {
    let verdict = changed_rows(mine, theirs);
    let (Operation::Update(update), Operation::Update(other)) = (mine, theirs) else { return verdict };
    let Some(keys) = &update.inserted_rows else { return verdict };
    if other.inserted_rows.as_ref().is_some_and(|others: &KeyFilter| !keys.may_intersect(others)) {
        return verdict;
    }
    // New values in place are not in new fragments.
    let modified = &other.fields_modified;
    if in_place(theirs) && (modified.is_empty() || keys.fields.iter().any(|key| modified.contains(key))) {
        return Retryable(SAME_KEYS);
    }
    unless_shared_key(keys, verdict)
}

/// The same without the keys.
fn changed_rows(mine: &Operation, theirs: &Operation) -> Verdict {
    if let (Operation::Update(mine), Operation::Update(theirs)) = (mine, theirs)
        && share_rows(&mine.new_fragments, &theirs.new_fragments)
    {
        return Retryable("it wrote the same rows");
    }
    let touched = touched(mine);
    if removed(theirs).iter().any(|id| touched.contains(id)) {
        return Retryable("it removed a fragment with rows to delete");
    }
    if in_place(mine) {
        return fragments(mine, theirs);
    }
    let mut verdict = Compatible;
    let mine: BTreeMap<FragmentId, &Fragment> = changed(mine).iter().map(|f| (f.id, f)).collect();
    for theirs in changed(theirs).iter().filter(|f| touched.contains(&f.id)) {
        match mine.get(&theirs.id) {
            // A fragment I delete whole has no row left that they did not touch.
            None => return Retryable("it changed rows of a fragment that is deleted whole"),
            Some(mine) if mine.files != theirs.files => {
                return Retryable("it changed the data files of a fragment with rows to delete");
            }
            Some(_) => verdict = Rebase,
        }
    }
    verdict
}

/// Whether some row is in new fragments of both. Deleted rows that both restore show nowhere else. Ids in
/// columns of data files are not compared: the ids of restored rows are always inline.
fn share_rows(mine: &[Fragment], theirs: &[Fragment]) -> bool {
    let ids = |fragment: &Fragment| {
        let ids = fragment.inline_row_ids().ok().flatten()?;
        Some((ids.min_max()?, ids))
    };
    let theirs: Intervals<RowIdSequence> = theirs.iter().filter_map(ids).collect();
    mine.iter()
        .filter_map(ids)
        .any(|(interval, mine)| theirs.overlapping(interval).any(|theirs| !mine.intersect(theirs).is_empty()))
}

/// One of us moved whole fragments, the other one deleted or moved single rows of them.
fn moved_rows(mine: &Operation, theirs: &Operation) -> Verdict {
    if fragments(mine, theirs) == Compatible {
        return Compatible;
    }
    if in_place(mine) || in_place(theirs) {
        return Retryable("columns of a fragment were changed in place");
    }
    // Columns that were rewritten would be lost.
    let differ = |old: &[&Fragment], rows: &[Fragment]| {
        let old: BTreeMap<FragmentId, &Fragment> = old.iter().map(|f| (f.id, *f)).collect();
        rows.iter().any(|row| old.get(&row.id).is_some_and(|old| old.files != row.files))
    };
    if differ(&old_fragments(mine), changed(theirs)) || differ(&old_fragments(theirs), changed(mine)) {
        return Retryable("the data files of a fragment were changed");
    }
    Rebase
}

fn fragments(mine: &Operation, theirs: &Operation) -> Verdict {
    if touched(mine).is_disjoint(&touched(theirs)) {
        Compatible
    } else {
        Retryable("it changed a fragment of this transaction")
    }
}

fn appended_keys(mine: &Operation, _: &Operation) -> Verdict {
    match mine {
        Operation::Update(Update { inserted_rows: Some(keys), .. }) => unless_shared_key(keys, Compatible),
        _ => Compatible,
    }
}

/// A verdict about all but the keys that were inserted meanwhile, whichever these are.
fn unless_shared_key(mine: &KeyFilter, others: Verdict) -> Verdict {
    match others {
        Compatible | Rebase if !mine.says_which() => Retryable(SAME_KEYS),
        Compatible => UnlessSharedKey { needs_rebase: false },
        Rebase => UnlessSharedKey { needs_rebase: true },
        others => others,
    }
}

/// Columns of fragments that are replaced, and keys among them.
fn replaced(mine: &Operation, theirs: &Operation) -> Verdict {
    if let (Operation::Update(update), Operation::DataReplacement(replace)) = (mine, theirs)
        && let Some(keys) = &update.inserted_rows
        && replace.replacements.iter().any(|r| keys.fields.iter().any(|key| r.file.fields.contains(key)))
    {
        return Retryable(SAME_KEYS);
    }
    fragments(mine, theirs)
}

/// Fragments of an append or of an update with the rows that it wrote, inserted ones among them.
pub fn written_fragments(operation: &Operation) -> &[Fragment] {
    match operation {
        Operation::Append(append) => &append.fragments,
        Operation::Update(update) => &update.new_fragments,
        _ => &[],
    }
}

/// Both make an index of a name, or one makes or extends what the other one drops. An index that both drop is dropped.
fn index_names(mine: &Operation, theirs: &Operation) -> Verdict {
    let (Operation::CreateIndex(mine), Operation::CreateIndex(theirs)) = (mine, theirs) else {
        return Compatible;
    };
    let share = |mine: &[IndexMetadata], theirs: &[IndexMetadata]| {
        mine.iter().any(|index| theirs.iter().any(|other| other.name == index.name))
    };
    if share(&mine.new_indices, &theirs.new_indices) {
        Retryable("both create an index of the same name")
    } else if share(&mine.new_indices, &theirs.removed_indices) {
        Retryable("it removed segments of an index of the same name")
    } else if share(&mine.removed_indices, &theirs.new_indices) {
        Retryable("it made segments of an index that is removed")
    } else {
        Compatible
    }
}

fn covered(mine: &Operation, theirs: &Operation) -> Verdict {
    let ((Operation::CreateIndex(create), rewrite) | (rewrite, Operation::CreateIndex(create))) =
        (mine, theirs)
    else {
        return Compatible;
    };
    let old = touched(rewrite);
    let covers = |id: &FragmentId, covered: &roaring::RoaringBitmap| covered.contains(id.0);
    let mut indices = create.new_indices.iter();
    if indices.any(|i| i.fragments.as_ref().is_none_or(|covered| old.iter().any(|id| covers(id, covered)))) {
        return Retryable("a new index covers fragments that are replaced");
    }
    let Operation::Rewrite(rewrite) = rewrite else { return Compatible };
    let is_rewritten = |uuid| rewrite.rewritten_indices.iter().any(|index| index.old_id == uuid);
    if create.removed_indices.iter().any(|index| is_rewritten(index.uuid)) {
        Retryable("an index is removed that is written again for moved rows")
    } else {
        Compatible
    }
}

/// An index of a column that gets another type, and with it another field id, would go without a word.
fn lost_columns(mine: &Operation, theirs: &Operation) -> Verdict {
    let ((Operation::CreateIndex(create), changed) | (changed, Operation::CreateIndex(create))) =
        (mine, theirs)
    else {
        return Compatible;
    };
    let (Operation::Merge(Merge { schema, .. }) | Operation::Project(Project { schema, .. })) = changed
    else {
        return Compatible;
    };
    let mut fields = create.new_indices.iter().flat_map(|index| &index.fields);
    if fields.any(|id| schema.field_by_id(*id).is_none()) {
        Retryable("a new index is of a column that gets another type or is dropped")
    } else {
        Compatible
    }
}

fn indexed_columns(mine: &Operation, theirs: &Operation) -> Verdict {
    let ((Operation::CreateIndex(create), Operation::DataReplacement(replace))
    | (Operation::DataReplacement(replace), Operation::CreateIndex(create))) = (mine, theirs)
    else {
        return Compatible;
    };
    let indexed =
        |file: &DataFile| create.new_indices.iter().any(|i| i.fields.iter().any(|f| file.fields.contains(f)));
    if replace.replacements.iter().any(|r| indexed(&r.file)) {
        Retryable("a new index is of columns that are replaced")
    } else {
        Compatible
    }
}

/// The one of both that changes config.
fn config<'a>(mine: &'a Operation, theirs: &'a Operation) -> Option<&'a UpdateConfig> {
    match (mine, theirs) {
        (Operation::UpdateConfig(config), _) | (_, Operation::UpdateConfig(config)) => Some(config),
        _ => None,
    }
}

fn schema_metadata_retryable(mine: &Operation, theirs: &Operation) -> Verdict {
    match config(mine, theirs) {
        Some(config) if config.touches_schema() => {
            Retryable("one changes columns, the other one their metadata")
        }
        _ => Compatible,
    }
}

fn field_metadata(mine: &Operation, theirs: &Operation) -> Verdict {
    match config(mine, theirs) {
        Some(config) if config.metadata_fields().next().is_some() => {
            Retryable("it changed the metadata of a field")
        }
        _ => Compatible,
    }
}

fn schema_metadata(mine: &Operation, theirs: &Operation) -> Verdict {
    match config(mine, theirs) {
        Some(config) if config.touches_schema() => {
            Incompatible("one replaces the schema, the other one changes metadata of the schema or of fields")
        }
        _ => Compatible,
    }
}

fn config_keys(mine: &Operation, theirs: &Operation) -> Verdict {
    let (Operation::Overwrite(mine), Operation::UpdateConfig(theirs)) = (mine, theirs) else {
        return Compatible;
    };
    let mut keys = mine.config_upserts.iter().flat_map(|c| c.keys());
    if keys.any(|key| theirs.touches_config_key(key)) {
        Incompatible("both set the same config key")
    } else {
        Compatible
    }
}

fn same_metadata(mine: &Operation, theirs: &Operation) -> Verdict {
    let (Operation::UpdateConfig(mine), Operation::UpdateConfig(theirs)) = (mine, theirs) else {
        return Compatible;
    };
    let cleared = |cleared: &UpdateConfig, other: &UpdateConfig| {
        cleared.config.as_ref().is_some_and(|c| c.replace) && other.touches_config()
    };
    let common = mine.config_keys().any(|key| theirs.touches_config_key(key));
    if common || cleared(mine, theirs) || cleared(theirs, mine) {
        Incompatible("both change the same config key")
    } else if mine.touches_schema_metadata() && theirs.touches_schema_metadata() {
        Incompatible("both change the metadata of the schema")
    } else if mine.metadata_fields().any(|id| theirs.metadata_fields().any(|other| other == id)) {
        Incompatible("both change the metadata of the same field")
    } else {
        Compatible
    }
}

fn fragment_gone(mine: &Operation, theirs: &Operation) -> Verdict {
    let touched = touched(mine);
    if removed(theirs).iter().any(|id| touched.contains(id)) {
        Incompatible("it removed a fragment whose columns are replaced")
    } else {
        Compatible
    }
}

fn same_columns(mine: &Operation, theirs: &Operation) -> Verdict {
    let (Operation::DataReplacement(mine), Operation::DataReplacement(theirs)) = (mine, theirs) else {
        return Compatible;
    };
    let common = mine.replacements.iter().any(|mine| {
        let fields = &mine.file.fields;
        let same = |file: &DataFile| file.fields.iter().any(|id| fields.contains(id));
        theirs.replacements.iter().any(|theirs| theirs.fragment == mine.fragment && same(&theirs.file))
    });
    if common { Retryable("both replace the same columns of a fragment") } else { Compatible }
}

fn same_base(mine: &Operation, theirs: &Operation) -> Verdict {
    let (Operation::UpdateBases(mine), Operation::UpdateBases(theirs)) = (mine, theirs) else {
        return Compatible;
    };
    let same = mine.new_bases.iter().any(|mine| {
        theirs.new_bases.iter().any(|theirs| {
            (mine.id != 0 && mine.id == theirs.id)
                || mine.path == theirs.path
                || (mine.name.is_some() && mine.name == theirs.name)
        })
    });
    if same { Incompatible("both add a base path of the same id, name or path") } else { Compatible }
}

/// The logs themselves are not read.
fn in_memory_logs(mine: &Operation, theirs: &Operation) -> Verdict {
    let changes = |operation: &Operation| match operation {
        Operation::Update(update) => !update.compacted_sstables.is_empty(),
        Operation::UpdateMemWalState(update) => !update.compacted_sstables.is_empty(),
        _ => false,
    };
    if changes(mine) && changes(theirs) {
        Incompatible("both change the state of an in-memory log")
    } else {
        Compatible
    }
}

/// Fragments that are kept, changed.
fn changed(operation: &Operation) -> &[Fragment] {
    match operation {
        Operation::Delete(delete) => &delete.updated_fragments,
        Operation::Update(update) => &update.updated_fragments,
        _ => &[],
    }
}

/// Whether values change where they are: that is more than deletion vectors say.
fn in_place(operation: &Operation) -> bool {
    match operation {
        Operation::Update(update) => {
            update.mode == UpdateMode::RewriteColumns || !update.fields_modified.is_empty()
        }
        _ => false,
    }
}

/// Fragments that are removed because no row is left.
fn removed(operation: &Operation) -> &[FragmentId] {
    match operation {
        Operation::Delete(delete) => &delete.deleted_fragment_ids,
        Operation::Update(update) => &update.removed_fragment_ids,
        _ => &[],
    }
}

/// Fragments that others replace.
fn old_fragments(operation: &Operation) -> Vec<&Fragment> {
    match operation {
        Operation::Rewrite(rewrite) => rewrite.groups.iter().flat_map(|g| &g.old_fragments).collect(),
        _ => Vec::new(),
    }
}

/// Fragments of the version that was read which are changed or removed.
fn touched(operation: &Operation) -> BTreeSet<FragmentId> {
    let mut touched: BTreeSet<FragmentId> = changed(operation).iter().map(|f| f.id).collect();
    touched.extend(removed(operation));
    touched.extend(old_fragments(operation).iter().map(|f| f.id));
    if let Operation::DataReplacement(replace) = operation {
        touched.extend(replace.replacements.iter().map(|r| r.fragment));
    }
    touched
}
