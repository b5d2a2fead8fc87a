"""What `rust/py/src/field_sizes.rs` exposes."""

from pennon._native._dataset import Dataset

def field_sizes(dataset: Dataset) -> dict[int, int]: ...
