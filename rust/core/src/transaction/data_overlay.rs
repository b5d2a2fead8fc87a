//! DataOverlay (115).

use bytes::Bytes;

use crate::FragmentId;

/// Replaces cells by overlay files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DataOverlay {
    /// Fragment by fragment.
    pub groups: Vec<OverlayGroup>,
}

/// Overlays of a fragment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OverlayGroup {
    /// The fragment.
    pub fragment: FragmentId,
    /// Encoded overlay files.
    pub overlays: Vec<Bytes>,
}
