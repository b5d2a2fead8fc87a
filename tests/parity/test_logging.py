"""A commit that loses seven races against pylance: each retry is in Python's `logging`."""

from __future__ import annotations

import logging
from pathlib import Path

import lance
import pennon
import pyarrow as pa
import pytest


def test_a_commit_that_is_retried(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    uri = str(tmp_path / "t")
    table = pennon.write_dataset(pa.table({"id": [1]}), uri)
    lost: list[int] = []

    class Lock:
        """Somebody else is quicker, seven times."""

        def __init__(self, version: int) -> None:
            if len(lost) < 7:
                lost.append(version)
                lance.write_dataset(pa.table({"id": [version]}), uri, mode="append")

        def __enter__(self) -> None: ...

        def __exit__(self, *_: object) -> None: ...

    with caplog.at_level(logging.WARNING, "pennon"):
        table.insert(pa.table({"id": [100]}), commit_lock=Lock)
    logged = [record.getMessage() for record in caplog.records if record.name == "pennon.commit"]
    logged = [text for text in logged if text.startswith("the commit is retried")]
    assert len(logged) == 7
    for attempt, (version, text) in enumerate(zip(lost, logged, strict=True), 1):
        assert f"path={uri} version={version} attempt={attempt} " in text
        assert "reason=another writer published the version" in text
    assert (table.version, lance.dataset(uri).count_rows()) == (9, 9)
