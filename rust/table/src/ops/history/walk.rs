//! From version to version, backwards.

use std::sync::Arc;

use futures::SinkExt;
use futures::channel::mpsc::Sender;
use pennon_core::{Error, Result, RowId, Version};

use super::states::{State, States};
use super::{ChangeKind, RowChange};
use crate::versions::snapshot::Snapshot;

/// Finds the changes of a row up to a version, newest first.
pub(super) async fn changes(newest: &Arc<Snapshot>, row: RowId, found: Sender<RowChange>) -> Result<()> {
    let mut states = States::new(newest, row).await?;
    let mut found = ChangeSink(found);
    let mut next = Some(states.last());
    while let Some(at) = next {
        let (_, state) = states.state(at).await?;
        next = match state {
            State::Unborn => None,
            State::Dead => before_death(&mut states, at, &mut found).await?,
            State::Live { .. } => before_life(&mut states, at, &mut found).await?,
        };
    }
    Ok(())
}

/// Takes the changes that are found.
struct ChangeSink(Sender<RowChange>);

impl ChangeSink {
    /// Waits until there is room. Errors: `Internal` if the receiver is closed, which stops the walk.
    async fn push(&mut self, change: RowChange) -> Result<()> {
        self.0.send(change).await.map_err(|_| Error::internal("the reader of the history is closed"))
    }

    /// The insert of a row of which an update is the first trace: only the number of its version is known.
    async fn push_insert(&mut self, version: Version, was_inserted: bool) -> Result<()> {
        if !was_inserted {
            return Ok(());
        }
        self.push(RowChange { kind: ChangeKind::Insert, version, commit: None, location: None }).await
    }
}

/// At a version where the row lives: when it became what it is. Gives the version to continue with.
async fn before_life(states: &mut States, at: usize, found: &mut ChangeSink) -> Result<Option<usize>> {
    let (_, State::Live { location, created, updated }) = states.state(at).await? else { return Ok(None) };
    let made = states.find(updated);
    let first = states.segment(at, made.unwrap_or(0)).await?;
    if updated >= states.version(first)
        && let Some(made) = made
    {
        let before = made.checked_sub(1);
        let was_inserted = is_inserted_before(states, before, created, updated).await?;
        let kind = match before {
            _ if was_inserted => ChangeKind::Update,
            Some(before) => after(&states.state(before).await?.1),
            None => by_version(created, updated),
        };
        // The location of that time, not the one it was moved to since.
        let (commit, state) = states.state(made).await?;
        let location = if let State::Live { location, .. } = state { location } else { location };
        found
            .push(RowChange { kind, version: updated, commit: Some(commit), location: Some(location) })
            .await?;
        found.push_insert(created, was_inserted).await?;
        return Ok(before);
    }
    let Some(before) = first.checked_sub(1) else {
        // The versions since were cleaned up.
        let was_inserted = is_inserted_before(states, None, created, updated).await?;
        let kind = by_version(created, updated);
        found.push(RowChange { kind, version: updated, commit: None, location: Some(location) }).await?;
        found.push_insert(created, was_inserted).await?;
        return Ok(None);
    };
    let (_, older) = states.state(before).await?;
    if let State::Live { updated: other, .. } = &older
        && *other == updated
    {
        return Ok(Some(before));
    }
    let (commit, state) = states.state(first).await?;
    let location = if let State::Live { location, .. } = state { location } else { location };
    let in_gap = states.is_after_gap(first) && updated > states.version(before);
    let (version, commit) = if in_gap { (updated, None) } else { (states.version(first), Some(commit)) };
    let was_inserted = is_inserted_before(states, Some(before), created, updated).await?;
    let kind = if was_inserted { ChangeKind::Update } else { after(&older) };
    found.push(RowChange { kind, version, commit, location: Some(location) }).await?;
    found.push_insert(created, was_inserted).await?;
    Ok(Some(before))
}

/// At a version where the row is dead: when it died. Gives the version to continue with.
async fn before_death(states: &mut States, at: usize, found: &mut ChangeSink) -> Result<Option<usize>> {
    let first = states.segment(at, 0).await?;
    let mut alive = first;
    if let (_, State::Unborn) = states.state(first).await? {
        // Born somewhere behind.
        let (mut unborn, mut born) = (first, at);
        while unborn + 1 < born {
            let middle = unborn + (born - unborn) / 2;
            match states.state(middle).await?.1 {
                State::Unborn => unborn = middle,
                _ => born = middle,
            }
        }
        alive = born;
    }
    if let (_, State::Live { .. }) = states.state(alive).await? {
        let mut dead = at;
        while alive + 1 < dead {
            let middle = alive + (dead - alive) / 2;
            match states.state(middle).await?.1 {
                State::Live { .. } => alive = middle,
                _ => dead = middle,
            }
        }
        found.push(died(states, dead).await?).await?;
        return Ok(Some(alive));
    }
    let Some(before) = first.checked_sub(1) else { return Ok(None) };
    if let (_, State::Live { .. }) = states.state(before).await? {
        found.push(died(states, first).await?).await?;
    }
    Ok(Some(before))
}

async fn died(states: &mut States, at: usize) -> Result<RowChange> {
    let (commit, _) = states.state(at).await?;
    Ok(RowChange {
        kind: ChangeKind::Delete,
        version: states.version(at),
        commit: Some(commit),
        location: None,
    })
}

/// What made a row live after a version with it in this state.
fn after(before: &State) -> ChangeKind {
    if matches!(before, State::Live { .. }) { ChangeKind::Update } else { ChangeKind::Insert }
}

fn by_version(created: Version, updated: Version) -> ChangeKind {
    if created == updated { ChangeKind::Insert } else { ChangeKind::Update }
}

/// Whether the row was inserted in a version that is not there: before the one of its update, and after `before`, the last
/// one that is there before that.
async fn is_inserted_before(
    states: &mut States,
    before: Option<usize>,
    created: Version,
    updated: Version,
) -> Result<bool> {
    let Some(before) = before else { return Ok(created < updated) };
    if created >= updated || created <= states.version(before) {
        return Ok(false);
    }
    Ok(!matches!(states.state(before).await?.1, State::Live { .. }))
}
