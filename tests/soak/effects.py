"""What each verb of the soak of whole tables does to a table, as functions of plain values.

An *intent* is a JSON object that a writer logs before it commits: the verb and its arguments. `applied` makes the
next state of the last one and an intent, so the content of a version is that of all intents that were committed, in
the order of versions. It does not matter which version a writer read: a writer inserts and deletes keys of its own
range alone, and changes of `SHARED` keys must find each other's values, or an update was lost.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import pyarrow as pa

Intent = dict[str, Any]

TYPES = {"id": pa.int64(), "n": pa.int64(), "text": pa.string(), "f": pa.float64()}
BASE = tuple(TYPES)
LINEAGE = ("_rowid", "_row_created_at_version", "_row_last_updated_at_version")
# Keys whose values every writer changes; they are inserted with the table.
SHARED = 60
# The keys of a writer begin at its number times this.
RANGE = 1_000_000
NEW = -1


class Row(NamedTuple):
    """A row: its id, the versions that made and last changed it, and the values after the key."""

    id: int
    created: int
    updated: int
    values: tuple[Any, ...]


@dataclass(frozen=True)
class State:
    """One version: rows by key, the columns in their order, and the id of the next new row."""

    rows: dict[int, Row] = field(default_factory=dict)
    columns: tuple[str, ...] = BASE
    next_row: int = 0


class CannotApplyError(Exception):
    """An intent that this state does not allow, so that it was not committed here."""


def values_of(key: int, salt: int) -> tuple[Any, ...]:
    """The values of a row: n, text and f, with nulls among them."""
    mixed = (key * 2_654_435_761 + salt * 40_503) % 1_000_003
    n = None if mixed % 11 == 0 else mixed % 1_000
    text = None if mixed % 7 == 0 else f"row {key} {salt}"
    return n, text, None if mixed % 13 == 0 else (mixed % 4_001 - 2_000) / 8


def table_of(keys: Iterable[int], salt: int, extra: Iterable[str] = ()) -> pa.Table:
    """Rows for the table; columns that were added are null."""
    keys = list(keys)
    columns = list(zip(*(values_of(key, salt) for key in keys), strict=True)) or [(), (), ()]
    arrays = [pa.array(keys, pa.int64()), *map(pa.array, columns, list(TYPES.values())[1:])]
    return pa.table([*arrays, *(pa.nulls(len(keys), pa.int64()) for _ in extra)], [*BASE, *extra])


def keys_of(intent: Intent) -> range:
    """The keys of new rows of an append or an overwrite."""
    return range(intent["start"], intent["start"] + intent["count"])


def merged_keys(intent: Intent) -> list[int]:
    return [*range(intent["low"], intent["high"]), *range(intent["start"], intent["start"] + intent["count"])]


def where(intent: Intent) -> str:
    """The predicate of a delete or an update."""
    rest = f" AND id % {intent['every']} = {intent['rest']}" if intent["every"] > 1 else ""
    return f"id >= {intent['low']} AND id < {intent['high']}{rest}"


def selected(state: State, intent: Intent) -> list[int]:
    low, high, every, rest = (intent[name] for name in ("low", "high", "every", "rest"))
    if high - low < len(state.rows):
        return [key for key in range(low, high) if key % every == rest % every and key in state.rows]
    return [key for key in state.rows if low <= key < high and key % every == rest % every]


# SQL and the same in Python, over (n, text, f).
CHANGES: dict[str, tuple[dict[str, str], Callable[[Any, Any, Any], tuple[Any, ...]]]] = {
    "count": ({"n": "coalesce(n, 0) + 1"}, lambda n, text, f: ((n or 0) + 1, text, f)),
    "halve": ({"f": "f / 2"}, lambda n, text, f: (n, text, None if f is None else f / 2)),
    "clear": ({"text": "NULL", "n": "id % 997"}, None),  # type: ignore[dict-item]
    "join": (
        {"text": "text || '+'", "n": "n + 3"},
        lambda n, text, f: (None if n is None else n + 3, None if text is None else text + "+", f),
    ),
}


def changed(intent: Intent, key: int, values: tuple[Any, ...]) -> tuple[Any, ...]:
    if intent["change"] == "clear":
        return key % 997, None, *values[2:]
    return *CHANGES[intent["change"]][1](*values[:3]), *values[3:]


def inserted(state: State, keys: Iterable[int], salt: int, version: int) -> dict[int, Row]:
    nulls = (None,) * (len(state.columns) - len(BASE))
    return {key: Row(NEW, version, version, values_of(key, salt) + nulls) for key in keys}


def applied(state: State, intent: Intent, version: int, kept: dict[int, State]) -> State:
    """The state after an intent was committed as this version; `kept` has those to restore."""
    return globals()[f"apply_{intent['kind']}"](state, intent, version, kept)


def apply_append(state: State, intent: Intent, version: int, _kept: object) -> State:
    keys = keys_of(intent)
    if any(key in state.rows for key in keys):
        raise CannotApplyError
    return replace(state, rows=state.rows | inserted(state, keys, intent["salt"], version))


def apply_overwrite(state: State, intent: Intent, version: int, _kept: object) -> State:
    empty = State(next_row=state.next_row)
    shared = inserted(empty, range(SHARED), intent["salt"], version)
    return replace(empty, rows=shared | inserted(empty, keys_of(intent), intent["salt"], version))


def apply_delete(state: State, intent: Intent, _version: int, _kept: object) -> State:
    rows = dict(state.rows)
    for key in selected(state, intent):
        del rows[key]
    return replace(state, rows=rows)


def apply_update(state: State, intent: Intent, version: int, _kept: object) -> State:
    rows = dict(state.rows)
    for key in selected(state, intent):
        row = rows[key]
        rows[key] = row._replace(updated=version, values=changed(intent, key, row.values))
    return replace(state, rows=rows)


def apply_merge(state: State, intent: Intent, version: int, _kept: object) -> State:
    """`matched` is what happens to rows that are there: update, nothing, larger or delete."""
    rows = dict(state.rows)
    for key, new in inserted(state, merged_keys(intent), intent["salt"], version).items():
        old = rows.get(key)
        if old is None:
            if intent["insert"]:
                rows[key] = new
        elif intent["matched"] == "delete":
            del rows[key]
        elif intent["matched"] == "update" or (intent["matched"] == "larger" and (old.values[0] or 0) > 500):
            rows[key] = new._replace(id=old.id, created=old.created)
    return replace(state, rows=rows)


def apply_partial(state: State, intent: Intent, version: int, _kept: object) -> State:
    """A merge of `n` alone into rows that are there."""
    rows = dict(state.rows)
    for key in range(intent["low"], intent["high"]):
        if key in rows:
            row = rows[key]
            rows[key] = row._replace(updated=version, values=(intent["salt"], *row.values[1:]))
    return replace(state, rows=rows)


def apply_by_id(state: State, intent: Intent, version: int, _kept: object) -> State:
    """New values of `n` for rows that were chosen by their ids."""
    rows = dict(state.rows)
    for key in intent["keys"]:
        if key not in rows:
            raise CannotApplyError
        rows[key] = rows[key]._replace(updated=version, values=(intent["salt"], *rows[key].values[1:]))
    return replace(state, rows=rows)


def apply_add_column(state: State, intent: Intent, version: int, _kept: object) -> State:
    """A column of values counts as a change of all rows, a column of nulls does not."""
    if intent["name"] in state.columns:
        raise CannotApplyError
    rows = {}
    for key, row in state.rows.items():
        if intent["computed"]:
            rows[key] = row._replace(updated=version, values=(*row.values, key + intent["salt"]))
        else:
            rows[key] = row._replace(values=(*row.values, None))
    return replace(state, rows=rows, columns=(*state.columns, intent["name"]))


def apply_drop_column(state: State, intent: Intent, _version: int, _kept: object) -> State:
    if intent["name"] not in state.columns:
        raise CannotApplyError
    at = state.columns.index(intent["name"])
    rows = {key: row._replace(values=row.values[: at - 1] + row.values[at:]) for key, row in state.rows.items()}
    return replace(state, rows=rows, columns=state.columns[:at] + state.columns[at + 1 :])


def apply_rename_column(state: State, intent: Intent, _version: int, _kept: object) -> State:
    if intent["name"] not in state.columns or intent["to"] in state.columns:
        raise CannotApplyError
    names = (intent["to"] if name == intent["name"] else name for name in state.columns)
    return replace(state, columns=tuple(names))


def apply_restore(state: State, intent: Intent, _version: int, kept: dict[int, State]) -> State:
    if intent["version"] not in kept:
        raise CannotApplyError
    return replace(kept[intent["version"]], next_row=state.next_row)


def apply_kept(state: State, _intent: Intent, _version: int, _kept: object) -> State:
    """What changes no row."""
    return state


apply_compact = apply_index = apply_optimize = apply_config = apply_kept


def selection(dice: random.Random, low: int, high: int, most: int) -> Intent:
    """Some keys of a range."""
    first = dice.randrange(low, max(low + 1, high))
    every = dice.choice([1, 1, 2, 3, 5])
    return {"low": first, "high": min(high, first + dice.randrange(1, most)), "every": every} | {
        "rest": dice.randrange(every)
    }
