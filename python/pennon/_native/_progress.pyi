"""What `rust/py/src/progress.rs` calls."""

from collections.abc import Callable
from typing import TypeAlias

Counted: TypeAlias = tuple[int, int | None]

StepCounts: TypeAlias = Callable[[Counted, Counted, Counted, int], object]

StageCounts: TypeAlias = Callable[[str, Counted, Counted], object]
