//! From version to version, backwards.

use std::sync::Arc;

use futures::SinkExt;
use futures::channel::mpsc::Sender;
use pennon_core::{Error, Result, RowId, Version};

use super::states::{State, States};
use super::{Change, Kind};
use crate::versions::snapshot::Snapshot;

/// Finds the changes of a row up to a version, newest first.
pub(super) async fn changes(newest: &Arc<Snapshot>, row: RowId, found: Sender<Change>) -> Result<()> {
    let mut states = States::new(newest, row).await?;
    let mut found = Found(found);
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

/// Where the changes go.
struct Found(Sender<Change>);

impl Found {
    /// Waits until there is room. That nobody listens any more is an error, which stops the walk.
    async fn push(&mut self, change: Change) -> Result<()> {
        self.0.send(change).await.map_err(|_| Error::internal("nobody reads the history any more"))
    }
}

/// Where the row lives: when it got to be as it is. Gives the version to go on with.
async fn before_life(states: &mut States, at: usize, found: &mut Found) -> Result<Option<usize>> {
    let (_, State::Live { place, created, updated }) = states.state(at).await? else { return Ok(None) };
    let first = states.segment(at);
    if updated >= states.version(first)
        && let Some(made) = states.find(updated)
    {
        let before = made.checked_sub(1);
        let kind = match before {
            Some(before) => after(&states.state(before).await?.1),
            None => by_version(created, updated),
        };
        // Where the row was put then, not where it was moved since.
        let (commit, state) = states.state(made).await?;
        let place = if let State::Live { place, .. } = state { place } else { place };
        found.push(Change { kind, version: updated, commit: Some(commit), place: Some(place) }).await?;
        return Ok(before);
    }
    let Some(before) = first.checked_sub(1) else {
        // Versions since are gone.
        let kind = by_version(created, updated);
        found.push(Change { kind, version: updated, commit: None, place: Some(place) }).await?;
        return Ok(None);
    };
    let (_, older) = states.state(before).await?;
    if let State::Live { updated: other, .. } = &older
        && *other == updated
    {
        return Ok(Some(before));
    }
    let (commit, state) = states.state(first).await?;
    let place = if let State::Live { place, .. } = state { place } else { place };
    let kind = after(&older);
    let in_gap = states.is_after_gap(first) && updated > states.version(before);
    let (version, commit) = if in_gap { (updated, None) } else { (states.version(first), Some(commit)) };
    found.push(Change { kind, version, commit, place: Some(place) }).await?;
    Ok(Some(before))
}

/// Where the row is dead: when it died. Gives the version to go on with.
async fn before_death(states: &mut States, at: usize, found: &mut Found) -> Result<Option<usize>> {
    let first = states.segment(at);
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

async fn died(states: &mut States, at: usize) -> Result<Change> {
    let (commit, _) = states.state(at).await?;
    Ok(Change { kind: Kind::Delete, version: states.version(at), commit: Some(commit), place: None })
}

/// What made a row live after a version with it in this state.
fn after(before: &State) -> Kind {
    if matches!(before, State::Live { .. }) { Kind::Update } else { Kind::Insert }
}

fn by_version(created: Version, updated: Version) -> Kind {
    if created == updated { Kind::Insert } else { Kind::Update }
}
