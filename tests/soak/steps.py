"""The verbs of the soak of whole tables, by Pennon and by the reference: how an intent is carried out.

Each takes the library, the table and the intent, and gives the handle that moved to the version it committed.
"""

from __future__ import annotations

from typing import Any

import pennon
import pyarrow as pa
from soak.effects import BASE, CHANGES, SHARED, Intent, keys_of, merged_keys, table_of, where


def extra_of(table: Any) -> list[str]:
    return [name for name in table.schema.names if name not in BASE]


def carry_out(library: Any, table: Any, intent: Intent, options: dict[str, Any]) -> Any:
    return globals()[f"do_{intent['kind']}"](library, table, intent, options)


def do_append(library: Any, table: Any, intent: Intent, options: dict[str, Any]) -> Any:
    rows = table_of(keys_of(intent), intent["salt"], extra_of(table))
    return library.write_dataset(rows, table.uri, mode="append", **options)


def do_overwrite(library: Any, table: Any, intent: Intent, options: dict[str, Any]) -> Any:
    rows = table_of([*range(SHARED), *keys_of(intent)], intent["salt"])
    return library.write_dataset(rows, table.uri, mode="overwrite", **options)


def do_delete(_library: Any, table: Any, intent: Intent, _options: object) -> Any:
    table.delete(where(intent))
    return table


def do_update(library: Any, table: Any, intent: Intent, _options: object) -> Any:
    mode = {"mode": intent["mode"]} if library is pennon else {}
    table.update(CHANGES[intent["change"]][0], where=where(intent), **mode)
    return table


def do_merge(_library: Any, table: Any, intent: Intent, _options: object) -> Any:
    merge = table.merge_insert("id")
    if intent["matched"] == "delete":
        merge.when_matched_delete()
    elif intent["matched"] != "nothing":
        merge.when_matched_update_all("target.n > 500" if intent["matched"] == "larger" else None)
    if intent["insert"]:
        merge.when_not_matched_insert_all()
    rows = table_of(merged_keys(intent), intent["salt"], extra_of(table))
    # Made again with the same rows, it would keep the values of a column that was added meanwhile.
    merge.conflict_retries(0).execute(rows)
    return table


def do_partial(library: Any, table: Any, intent: Intent, _options: object) -> Any:
    merge = table.merge_insert("id").when_matched_update_all()
    if library is pennon:
        merge.write_mode(intent["mode"])
    keys = range(intent["low"], intent["high"])
    columns = [pa.array(keys, pa.int64()), pa.array([intent["salt"]] * len(keys), pa.int64())]
    merge.execute(pa.table(columns, ["id", "n"]))
    return table


def ids_of(table: Any, keys: list[int]) -> list[int]:
    found = table.to_table(columns=["id", "_rowid"], filter=f"id >= {min(keys)} and id <= {max(keys)}").to_pylist()
    ids = {row["id"]: row["_rowid"] for row in found}
    return [ids[key] for key in keys]


def do_by_id(_library: Any, table: Any, intent: Intent, _options: object) -> Any:
    ids = ids_of(table, intent["keys"])
    table.update_rows(ids, {"n": [intent["salt"]] * len(ids)}, mode=intent["mode"])
    return table


def do_add_column(_library: Any, table: Any, intent: Intent, _options: object) -> Any:
    name = intent["name"]
    values = {name: f"id + {intent['salt']}"} if intent["computed"] else [pa.field(name, pa.int64())]
    table.add_columns(values)
    return table


def do_drop_column(_library: Any, table: Any, intent: Intent, _options: object) -> Any:
    table.drop_columns([intent["name"]])
    return table


def do_rename_column(_library: Any, table: Any, intent: Intent, _options: object) -> Any:
    table.alter_columns({"path": intent["name"], "name": intent["to"]})
    return table


def do_restore(_library: Any, table: Any, intent: Intent, _options: object) -> Any:
    older = table.checkout_version(intent["version"])
    older.restore()
    return older


# What changes no row, so that the model need not know of it.


def keep_compact(library: Any, table: Any, dice: Any) -> None:
    target = dice.choice([200, 500, 5_000])
    table.optimize.compact_files(target_rows_per_fragment=target)


def keep_index(library: Any, table: Any, dice: Any) -> None:
    column, kind = dice.choice([("id", "BTREE"), ("n", "BTREE"), ("text", "BITMAP")])
    table.create_scalar_index(column, kind, replace=True)


def keep_optimize(library: Any, table: Any, dice: Any) -> None:
    table.optimize.optimize_indices()


def keep_config(library: Any, table: Any, dice: Any) -> None:
    table.update_config({f"soak.{dice.randrange(5)}": str(dice.randrange(1_000))})


# The same as intents: `None` is returned if there was nothing to do, so that nothing was committed.


def do_compact(_library: Any, table: Any, intent: Intent, _options: object) -> Any:
    done = table.optimize.compact_files(target_rows_per_fragment=intent["target"])
    return table if done.fragments_removed else None


def do_index(_library: Any, table: Any, intent: Intent, _options: object) -> Any:
    table.create_scalar_index(intent["column"], intent["type"], name=intent["name"], replace=True)
    return table


def do_optimize(_library: Any, table: Any, _intent: Intent, _options: object) -> Any:
    before = table.version
    table.optimize.optimize_indices()
    return table if table.version != before else None


def do_config(_library: Any, table: Any, intent: Intent, _options: object) -> Any:
    table.update_config({intent["key"]: intent["value"]})
    return table
