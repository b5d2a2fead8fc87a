"""Writes, deletes and reads whose work is done elsewhere."""

from __future__ import annotations

import pickle

import pennon
import pytest
from pennon import distributed

from .conftest import numbers

SCHEMA = numbers(0).schema


def written(uri: str, *starts: int, version: int | None = None) -> list[bytes]:
    return [distributed.write_fragments(numbers(5, start), uri, version=version)[0] for start in starts]


def test_write(uri: str) -> None:
    parts = written(uri, 0, 5)
    table = distributed.commit_overwrite(uri, parts, SCHEMA, uuid="one")
    assert (table.version, table.to_table()["id"].to_pylist()) == (1, list(range(10)))
    assert table.has_stable_row_ids
    more = written(uri, 10, version=1)
    assert distributed.commit_append(uri, 1, more, uuid="two").version == 2
    assert distributed.commit_append(uri, 1, more, uuid="two").version == 2
    assert pennon.dataset(uri).to_table(with_row_id=True)["_rowid"].to_pylist() == list(range(15))
    replaced = written(uri, 90)
    assert distributed.commit_overwrite(uri, replaced, SCHEMA, uuid="three").version == 3
    assert distributed.commit_overwrite(uri, replaced, SCHEMA, uuid="three").version == 3
    assert pennon.dataset(uri).count_rows() == 5


def test_an_overwrite_repeated_much_later(uri: str) -> None:
    parts = written(uri, 0)
    assert distributed.commit_overwrite(uri, parts, SCHEMA, uuid="one").version == 1
    table = pennon.dataset(uri)
    for start in range(40):
        table.insert(numbers(1, 100 + start))
    assert distributed.commit_overwrite(uri, parts, SCHEMA, uuid="one").version == 1
    assert pennon.dataset(uri).count_rows() == 45


def test_create(uri: str) -> None:
    parts = written(uri, 0)
    first = distributed.commit_overwrite(uri, parts, SCHEMA, uuid="one", must_create=True)
    again = distributed.commit_overwrite(uri, parts, SCHEMA, uuid="one", must_create=True)
    assert first.version == again.version == 1
    with pytest.raises(pennon.AlreadyExistsError):
        distributed.commit_overwrite(uri, parts, SCHEMA, uuid="two", must_create=True)


def test_empty(uri: str) -> None:
    table = distributed.commit_overwrite(uri, [], SCHEMA, uuid="one", enable_stable_row_ids=False)
    assert (table.count_rows(), table.schema, table.has_stable_row_ids) == (0, SCHEMA, False)


def test_append_checks_the_schema(table: pennon.LanceDataset, uri: str) -> None:
    with pytest.raises(pennon.SchemaMismatchError, match="text"):
        distributed.write_fragments({"id": [1], "text": [2]}, uri, version=1)


def test_other_schemas_do_not_mix(uri: str) -> None:
    part, _ = distributed.write_fragments({"id": [1]}, uri)
    with pytest.raises(pennon.SchemaMismatchError):
        distributed.commit_overwrite(uri, [part], SCHEMA, uuid="one")


def test_delete(table: pennon.LanceDataset, uri: str) -> None:
    matches = distributed.matching_rows(uri, 1, "id > 2 AND id < 6", [0, 1, 2])
    assert [(fragment, rows) for fragment, rows, _ in matches] == [(0, 1), (1, 2)]
    deleted, found = distributed.commit_delete(uri, 1, matches, "id > 2", uuid="one")
    assert (deleted, found.version, found.count_rows()) == (3, 2, 7)
    _, again = distributed.commit_delete(uri, 1, matches, "id > 2", uuid="one")
    assert again.version == 2
    with pytest.raises(pennon.CommitConflictError) as caught:
        distributed.commit_delete(uri, 1, matches, "id > 2", uuid="two")
    assert caught.value.retryable
    with pytest.raises(ValueError, match="No field named idd"):
        distributed.matching_rows(uri, 1, "idd = 1", [0])


def test_scan(table: pennon.LanceDataset, uri: str) -> None:
    tasks = distributed.plan_scan(uri, columns=["id"], filter="id != 4", fragments_per_task=2)
    table.delete("id = 0")
    assert [(task.version, task.fragments) for task in tasks] == [(1, (0, 1)), (1, (2,))]
    found = [
        row
        for task in pickle.loads(pickle.dumps(tasks))
        for batch in task.to_batches()
        for row in batch["id"].to_pylist()
    ]
    assert found == [0, 1, 2, 3, 5, 6, 7, 8, 9]
    with pytest.raises(ValueError, match="No field named idd"):
        distributed.plan_scan(uri, columns=["idd"])
