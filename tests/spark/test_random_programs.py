"""Random programs on one table, in which Spark, the wheel and the reference take turns, against a dictionary.

Rows have a number, a text and nested columns, with nulls in all positions.

After each step both implementations must read the rows of the dictionary, rows must have kept their ids, and at the
end the change feed must lead from any version to any later one.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import lance
import pennon
import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as fn
from pyspark.sql.types import BooleanType
from pyspark_pennon import LanceTable, write
from support import nested
from support.long import LONG
from support.seeds import SEED, seeds

COLUMNS = ("n", "text", "p", "v", "m")
SCHEMA = pa.schema([("id", pa.int64()), ("n", pa.int64()), ("text", pa.string()), *nested.FIELDS])

Rows = dict[int, tuple[Any, ...]]
"""The other columns by id."""


STEPS = {
    "append": 3,
    "delete": 3,
    "update": 4,
    "merge": 5,
    "compact": 2,
    "restore": 1,
    "by_id": 2,
    "replace": 1,
    "columns": 2,
    "overwrite": 1,
    "new_column": 2,
    "branch": 1,
}
"""How often a step is done, next to the others."""


@fn.udf(returnType=BooleanType())
def has_rest(value: int, divisor: int, rest: int) -> bool:
    return value % divisor == rest


class Program:
    """A table, and a dictionary of its rows at each version."""

    def __init__(self, spark: SparkSession, uri: str, seed: int) -> None:
        self.spark, self.uri, self.rng = spark, uri, random.Random(seed)
        self.rows: Rows = {at: (at % 5, f"row {at}", *nested.values(self.rng)) for at in range(30)}
        self.next = 30
        # The reference has maps from this version of files on.
        pennon.write_dataset(self.table(self.rows), uri, max_rows_per_file=8, data_storage_version="2.2")
        self.states: dict[int, Rows] = {1: dict(self.rows)}
        self.wider: set[int] = set()
        """Versions with a column more."""
        self.ids = self.row_ids()
        self.steps: list[str] = []

    @staticmethod
    def table(rows: Rows) -> pa.Table:
        named = [{"id": at, **dict(zip(COLUMNS, row, strict=True))} for at, row in rows.items()]
        return pa.Table.from_pylist(named, SCHEMA)

    def frame(self, rows: Rows) -> DataFrame:
        return self.spark.createDataFrame(self.table(rows))

    @property
    def handle(self) -> LanceTable:
        return LanceTable.forPath(self.spark, self.uri)

    def row_ids(self) -> dict[int, int]:
        found = pennon.dataset(self.uri).to_table(columns=["id"], with_row_id=True)
        return dict(zip(found["id"].to_pylist(), found["_rowid"].to_pylist(), strict=True))

    def fresh(self, count: int) -> Rows:
        added = range(self.next, self.next + count)
        found = {at: (self.rng.randrange(5), f"new {at}", *nested.values(self.rng)) for at in added}
        self.next += count
        return found

    def some(self) -> tuple[int, int]:
        divisor = self.rng.randint(3, 9)
        return divisor, self.rng.randrange(divisor)

    def step(self) -> None:
        name = self.rng.choices(list(STEPS), list(STEPS.values()))[0]
        writer = self.rng.choice(["spark", "spark", "wheel", "reference"])
        before = pennon.dataset(self.uri).version
        self.steps.append(f"{name} by {writer}")
        getattr(self, name)(writer)
        self.check(keeps_ids=writer != "reference")
        newest = pennon.dataset(self.uri).version
        for version in range(before + 1, newest + 1):
            self.states[version] = dict(self.rows)

    def dataset(self, writer: str) -> Any:
        return (lance if writer == "reference" else pennon).dataset(self.uri)

    def append(self, writer: str) -> None:
        rows = self.fresh(self.rng.randint(1, 12))
        if writer == "spark":
            write(self.frame(rows), self.uri, mode="append")
        else:
            (lance if writer == "reference" else pennon).write_dataset(self.table(rows), self.uri, mode="append")
        self.rows.update(rows)

    def delete(self, writer: str) -> None:
        divisor, rest = self.some()
        if writer == "spark":
            by_function = self.rng.random() < 0.3
            function = has_rest("id", fn.lit(divisor), fn.lit(rest))
            self.handle.delete(function if by_function else f"id % {divisor} = {rest}")
        else:
            self.dataset(writer).delete(f"id % {divisor} = {rest}")
        self.rows = {at: row for at, row in self.rows.items() if at % divisor != rest}

    def update(self, writer: str) -> None:
        divisor, rest = self.some()
        is_nested = writer == "spark" and self.rng.random() < 0.5
        if is_nested:
            changes = {
                "p": "if(t.p.q IS NULL, t.p, named_struct('a', t.n, 'q', t.p.q))",
                "v": "transform(t.v, x -> x + 1)",
                "m": "map_filter(t.m, (k, x) -> x IS NULL OR x > 0)",
            }
            self.handle.alias("t").update(fn.col("t.id") % divisor == rest, changes)
        elif writer == "spark":
            self.handle.alias("t").update(fn.col("t.id") % divisor == rest, {"n": "t.n + 10"})
        else:
            self.dataset(writer).update({"n": "n + 10"}, where=f"id % {divisor} = {rest}")
        for at, (n, text, p, v, m) in self.rows.items():
            if at % divisor != rest:
                continue
            if not is_nested:
                self.rows[at] = (n + 10, text, p, v, m)
                continue
            changed = p if p is None or p["q"] is None else {"a": n, "q": p["q"]}
            longer = None if v is None else [None if x is None else x + 1 for x in v]
            fewer = None if m is None else {k: x for k, x in m.items() if x is None or x > 0}
            self.rows[at] = (n, text, changed, longer, fewer)

    def merge(self, writer: str) -> None:
        known = self.rng.sample(sorted(self.rows), min(len(self.rows), self.rng.randint(0, 8)))
        rows: Rows = {at: (self.rng.randrange(100), f"merged {at}", *nested.values(self.rng)) for at in known}
        rows |= self.fresh(self.rng.randint(0, 4))
        if not rows:
            return
        if writer != "spark":
            merge = self.dataset(writer).merge_insert("id").when_matched_update_all()
            merge.when_not_matched_insert_all().execute(self.table(rows))
            self.rows.update(rows)
            return
        gone, limit = self.rng.randint(2, 5), self.rng.randrange(100)
        merge = self.handle.alias("t").merge(self.frame(rows).alias("s"), "t.id = s.id")
        merge = merge.whenMatchedDelete(f"s.id % {gone} = 0").whenMatchedUpdate(
            fn.col("s.n") > fn.col("t.n"),
            {"n": "s.n", "text": "concat(t.text, '/', s.text)", "p": "s.p", "m": "coalesce(s.m, t.m)"},
        )
        merge = merge.whenNotMatchedInsertAll(f"s.n < {limit}")
        by_source = self.rng.random() < 0.3
        if by_source:
            merge = merge.whenNotMatchedBySourceUpdate("t.id % 6 = 1", {"text": "'left'"})
            merge = merge.whenNotMatchedBySourceDelete("t.id % 6 = 2")
        merge.execute()
        found: Rows = {}
        for at, (n, text, p, v, m) in self.rows.items():
            if at not in rows:
                if by_source and at % 6 == 2:
                    continue
                found[at] = (n, "left" if by_source and at % 6 == 1 else text, p, v, m)
            elif at % gone:
                number, added, other, _, names = rows[at]
                changed = (number, f"{text}/{added}", other, v, m if names is None else names)
                found[at] = changed if number > n else (n, text, p, v, m)
        found.update({at: row for at, row in rows.items() if at not in self.rows and row[0] < limit})
        self.rows = found

    def compact(self, writer: str) -> None:
        if writer == "spark":
            self.handle.optimize().executeCompaction()
        else:
            self.dataset(writer).optimize.compact_files()

    def restore(self, writer: str) -> None:
        version = self.rng.choice(sorted(self.states.keys() - self.wider))
        if writer == "spark":
            self.handle.restoreToVersion(version)
        else:
            module = lance if writer == "reference" else pennon
            module.dataset(self.uri, version=version).restore()
        self.rows = dict(self.states[version])
        self.ids = {}

    def by_id(self, _writer: str) -> None:
        ids = self.row_ids()
        chosen = self.rng.sample(sorted(ids), min(len(ids), 5))
        if not chosen:
            return
        for at in chosen:
            _, text, _, v, _ = self.rows[at]
            p, _, m = nested.values(self.rng)
            self.rows[at] = (1000 + at, text, p, v, m)
        changed = self.table({at: self.rows[at] for at in chosen}).select(["n", "p", "m"])
        row_ids = pa.array([ids[at] for at in chosen], pa.int64())
        frame = self.spark.createDataFrame(changed.append_column("_rowid", row_ids))
        self.handle.updateRows(frame)
        taken = [row.asDict(recursive=True) for row in self.handle.takeRows(frame.select("_rowid")).collect()]
        assert {row["id"]: self.values(row) for row in taken} == {at: self.rows[at] for at in chosen}

    def replace(self, _writer: str) -> None:
        divisor, rest = self.some()
        first = rest + 1000 * self.next * divisor
        rows = {first + at * divisor: (7, "replaced", *nested.values(self.rng)) for at in range(3)}
        self.next += 1
        condition = f"id % {divisor} = {rest}"
        write(self.frame(rows), self.uri, mode="overwrite", replace_where=condition)
        self.rows = {at: row for at, row in self.rows.items() if at % divisor != rest} | rows

    def columns(self, _writer: str) -> None:
        chosen = self.rng.sample(sorted(self.rows), min(len(self.rows), 6))
        rows: Rows = {at: (0, f"column {at}", *nested.values(self.rng)) for at in [*chosen, -1]}
        self.handle.updateColumnsFrom(self.frame(rows).select("id", "text", "v"), on="id")
        for at in chosen:
            n, _, p, _, m = self.rows[at]
            self.rows[at] = (n, rows[at][1], p, rows[at][3], m)

    def overwrite(self, writer: str) -> None:
        self.rows = self.fresh(self.rng.randint(1, 12))
        if writer == "spark":
            write(self.frame(self.rows), self.uri, mode="overwrite", schema=SCHEMA, data_storage_version="2.2")
        else:
            (lance if writer == "reference" else pennon).write_dataset(
                self.table(self.rows),
                self.uri,
                mode="overwrite",
                data_storage_version="2.2",
                enable_stable_row_ids=True,
            )

    def new_column(self, writer: str) -> None:
        """One that is dropped again: the dictionary has no other columns."""
        before = pennon.dataset(self.uri).version

        def doubled(batch: pa.RecordBatch) -> dict[str, list[int]]:
            return {"more": [2 * at for at in batch["id"].to_pylist()]}

        if writer != "spark":
            self.dataset(writer).add_columns({"more": "id * 2"})
        elif self.rng.random() < 0.5:
            self.handle.addColumns({"more": "id * 2"})
        else:
            self.handle.addColumns(doubled, "more long", readColumns=["id"])
        now = pennon.dataset(self.uri).version
        self.wider.update(range(before + 1, now + 1))
        for module in (lance, pennon):
            found = module.dataset(self.uri).to_table(columns=["id", "more"]).to_pylist()
            assert sorted((row["id"], row["more"]) for row in found) == [(at, 2 * at) for at in sorted(self.rows)]
        self.dataset(self.rng.choice(["wheel", "reference"])).drop_columns(["more"])

    def branch(self, writer: str) -> None:
        """What happens on a branch of a version leaves the table alone."""
        version = self.rng.choice(sorted(self.states.keys() - self.wider))
        branch = self.handle.createBranch(f"from-{version}-{self.next}", version)
        rows, new, (divisor, rest) = self.states[version], self.fresh(3), self.some()
        if writer == "spark":
            branch.delete(f"id % {divisor} = {rest}")
            write(self.frame(new), branch.uri, mode="append")
        else:
            module = lance if writer == "reference" else pennon
            module.dataset(branch.uri).delete(f"id % {divisor} = {rest}")
            module.write_dataset(self.table(new), branch.uri, mode="append")
        expected = {at: row for at, row in rows.items() if at % divisor != rest} | new
        for module in (lance, pennon):
            found = module.dataset(branch.uri).to_table().to_pylist()
            assert {row["id"]: self.values(row) for row in found} == expected, module.__name__
            assert len(found) == len(expected)
        assert branch.toDF().count() == len(expected)

    @staticmethod
    def values(row: dict[str, Any]) -> tuple[Any, ...]:
        """The columns of a row but its id, as the dictionary has them."""
        return row["n"], row["text"], *nested.values_of(row)

    def check(self, *, keeps_ids: bool) -> None:
        """Both read the rows of the dictionary; those that were there have their ids."""
        for module in (lance, pennon):
            found = module.dataset(self.uri).to_table().to_pylist()
            assert len(found) == len(self.rows), module.__name__
            assert {row["id"]: self.values(row) for row in found} == self.rows, module.__name__
        lance.dataset(self.uri).validate()
        ids = self.row_ids()
        if keeps_ids:
            assert {at: ids[at] for at in ids.keys() & self.ids.keys()} == {
                at: self.ids[at] for at in ids.keys() & self.ids.keys()
            }
        self.ids = ids

    def check_feed(self) -> None:
        """The changes between two versions lead from one to the other."""
        start, end = sorted(self.rng.sample(sorted(self.states), 2))

        def values(row: dict[str, Any]) -> tuple[Any, ...]:
            return (row["id"], row["n"], row["text"], *nested.values_of(row))

        found_changes = self.handle.changes(start + 1, end, columns=["id", *COLUMNS])
        changes = [row.asDict(recursive=True) for row in found_changes.collect()]
        rows = pennon.dataset(self.uri, start).to_table(with_row_id=True).to_pylist()
        found = {row["_rowid"]: values(row) for row in rows}
        order: dict[str, Callable[[Any], bool]] = {
            "leave": lambda row: row["_change_type"] in ("delete", "update_preimage"),
            "come": lambda row: row["_change_type"] in ("insert", "update_postimage"),
        }
        for version in range(start + 1, end + 1):
            now = [row for row in changes if row["_commit_version"] == version]
            for row in filter(order["leave"], now):
                assert found.pop(row["_rowid"]) == values(row)
            for row in filter(order["come"], now):
                assert row["_rowid"] not in found
                found[row["_rowid"]] = values(row)
        assert len(found) == len(self.states[end])
        assert {id: tuple(row) for id, *row in found.values()} == self.states[end]


@pytest.mark.parametrize("seed", seeds(40 if LONG else 2))
def test_turns(spark: SparkSession, uri: str, seed: int) -> None:
    program = Program(spark, uri, seed)
    try:
        for _ in range(14 if LONG else 8):
            program.step()
        program.check_feed()
        program.check_feed()
    except BaseException as error:
        error.add_note(f"seed {seed} (from {SEED}): {'; '.join(program.steps)}")
        raise
