"""Where random tests begin: at 0, or at `PENNON_SEED` (`make nightly` draws one and prints it)."""

from __future__ import annotations

import os

SEED = int(os.environ.get("PENNON_SEED", "0"))


def seeds(count: int) -> range:
    """As many seeds."""
    return range(SEED, SEED + count)
