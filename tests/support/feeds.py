"""Feeds applied to states: what every test of the change feed comes down to."""

from __future__ import annotations

from typing import Any

import lance
import pennon

from support.origins import is_overwritten

Row = dict[str, Any]


def feed(dataset: pennon.LanceDataset, begin: Any, end: Any = None, **options: Any) -> list[Row]:
    return dataset.changes(begin, end, **options).read_all().to_pylist()


def fields(table: Any) -> dict[int, str]:
    """The names of the columns by field id, in either implementation."""
    parts = ([field.id, field.name] for field in table.lance_schema.fields())
    return dict([part() if callable(part) else part for part in both] for both in parts)


def state(dataset: pennon.LanceDataset, version: int, shown: int | None = None) -> dict[int, Row]:
    """Rows by id, as the reference reads them.

    Under the names that the columns have in another version, null if not there: the columns with the same field
    ids, or after an overwrite with the same names.
    """
    if version == 0:
        return {}
    table = lance.dataset(dataset.uri, version=version)
    names = fields(table)
    rows = table.to_table(with_row_id=True).to_pylist()
    columns = names if shown is None else fields(dataset.checkout_version(shown))
    by_name = shown is not None and is_overwritten(dataset, version, shown)
    sources = {name: name if by_name else names.get(id) for id, name in columns.items()}
    return {row["_rowid"]: {name: row.get(source) for name, source in sources.items()} for row in rows}


def apply(dataset: pennon.LanceDataset, begin: int, end: int, mode: str = "net") -> dict[int, Row]:
    """The state at the begin after all changes up to the end; checks each against the state it meets."""
    if begin == end:
        return state(dataset, end)
    table = dataset.checkout_version(end)
    columns = fields(table)
    rows = state(dataset, begin, end)
    versions, pre = [begin], None
    for change in feed(dataset, begin, end, images="both", mode=mode):
        kind, row, version = (change.pop(f"_{name}") for name in ("change_type", "rowid", "commit_version"))
        change.pop("_commit_timestamp")
        assert versions[-1] <= version <= end
        versions.append(version)
        if kind == "insert":
            assert row not in rows
            rows[row] = change
        elif kind == "delete":
            assert rows.pop(row) == change
        elif kind == "update_preimage":
            assert rows[row] == change
            pre = row
        else:
            assert kind == "update_postimage"
            assert row == pre
            rows[row], pre = change, None
    assert pre is None
    assert mode == "each" or set(versions[1:]) <= {end}
    posts = [c for c in feed(dataset, begin, end, mode=mode) if c["_change_type"] != "delete"]
    if mode == "net":
        for change in posts:
            assert {name: change[name] for name in columns.values()} == rows[change["_rowid"]]
    return rows


def composed(dataset: pennon.LanceDataset, a: int, b: int, c: int) -> dict[int, str]:
    """Changes by row id of two windows together. A row that is updated twice may be back at what it was."""
    first = {change["_rowid"]: change["_change_type"] for change in feed(dataset, a, b, columns=[])}
    second = {change["_rowid"]: change["_change_type"] for change in feed(dataset, b, c, columns=[])}
    begin, end = state_versions(dataset, a), state_versions(dataset, c)
    found: dict[int, str] = {}
    for row in first.keys() | second.keys():
        one, two = first.get(row), second.get(row)
        if one is None or two is None:
            found[row] = one or two or ""
        elif (one, two) == ("insert", "update_postimage"):
            found[row] = "insert"
        elif (one, two) == ("update_postimage", "delete"):
            found[row] = "delete"
        elif (one, two) == ("insert", "delete"):
            continue
        elif (one, two) in [("delete", "insert"), ("update_postimage", "update_postimage")]:
            # Only restores bring back what was there.
            if begin[row] != end[row]:
                found[row] = "update_postimage"
        else:
            raise AssertionError(f"row {row}: {one}, then {two}")
    return found


def state_versions(dataset: pennon.LanceDataset, version: int) -> dict[int, int]:
    """The last-updated version of each row."""
    if version == 0:
        return {}
    table = lance.dataset(dataset.uri, version=version)
    table = table.to_table(columns=["_rowid", "_row_last_updated_at_version"])
    columns = [table[name].to_pylist() for name in table.schema.names]
    return dict(zip(*columns, strict=True))
