//! How long to wait after losing a race: see [`crate::runtime::Backoff`].

pub(super) use crate::runtime::Backoff;
