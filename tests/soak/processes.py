"""What both soaks have in common: processes that are watched, and what a report of a failure says."""

from __future__ import annotations

import subprocess
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

LINES_OF_LOG = 40
# Seconds for the last step of a writer.
PATIENCE = 120
HISTORY = 12
LOST = ("onflict", "oncurrent", "retryable")


class WriterError(Exception):
    """A writer ended before it was asked to."""


def is_conflict(error: Exception) -> bool:
    """Whether a change lost to another writer, so that it is to be made again."""
    return any(word in str(error) for word in LOST)


def ended(process: subprocess.Popen[str]) -> str:
    """What a process prints after its last step."""
    try:
        return process.communicate(timeout=PATIENCE)[0]
    except subprocess.TimeoutExpired:
        process.kill()
        return process.communicate()[0]


def history(table: Any) -> Iterator[str]:
    """The indices, fragments and last transactions of a table, as lines."""
    yield "indices:"
    for entry in table.list_indices():
        yield f"  {entry['name']} {entry['type']} {entry['uuid']} of {sorted(entry['fragment_ids'])}"
    yield f"fragments: {[fragment.fragment_id for fragment in table.get_fragments()]}"
    yield "transactions, the newest first:"
    for back, transaction in enumerate(table.get_transactions(HISTORY)):
        operation = None if transaction is None else type(transaction.operation).__name__
        yield f"  version {table.version - back}: {operation}"


def ends_of(logs: Iterable[Path]) -> Iterator[str]:
    """The last lines of logs."""
    for log in logs:
        yield f"{log}:"
        yield from (f"  {line}" for line in log.read_text().splitlines()[-LINES_OF_LOG:])


def memory(pid: int) -> tuple[float, int]:
    """The resident MiB of a process, and how many descriptors it has open."""
    status = Path(f"/proc/{pid}/status").read_text()
    (line,) = [line for line in status.splitlines() if line.startswith("VmRSS:")]
    return int(line.split()[1]) / 1024, len(list(Path(f"/proc/{pid}/fd").iterdir()))
