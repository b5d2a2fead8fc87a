"""Small tables of random programs, for `soak.flips`: what makes them, and what is read of them.

A program is a list of verbs over a few random columns. Both libraries have the verbs by the same names, so one
program makes tables of either. What is read of a version is all that a flipped bit may change: its rows with their
ids and lineage, filters that indices and statistics answer, nearest vectors, single rows, blobs, the configuration
and the transaction.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import lance
import numpy as np
import pennon
import pyarrow as pa
from support.refusals import works
from support.shapes import SHAPES

FILE_VERSIONS = ("2.0", "2.1", "2.2")
WIDTH = 8
FEWEST = 5
"""Rows that every shape can be made of."""
BLOB_SIZES = (None, 0, 3, 900, 20_000, 70_000)
LINEAGE = ("_row_created_at_version", "_row_last_updated_at_version")
# Wide ones take most of the time and have no layout that others do not have.
LEFT_OUT = {"struct-of-500", "list-of-long-texts", "large-binary-big-values"}


class Made:
    """A table that is made of random steps by one library."""

    def __init__(self, library: Any, uri: str, seed: str) -> None:
        self.library, self.uri = library, uri
        self.dice = dice = random.Random(seed)
        self.file_version = dice.choice(FILE_VERSIONS)
        self.stable = dice.random() < 0.6
        names = sorted(set(works(self.file_version, "reads" if library is lance else "writes")) - LEFT_OUT)
        self.shapes = dice.sample(names, dice.randint(0, 3))
        self.has_vectors, self.has_blobs = dice.random() < 0.4, dice.random() < 0.25
        self.next, self.tags, self.added = 0, 0, 0
        self.done: list[str] = []
        rows = self.rows(int(2 ** dice.uniform(0, 11)))
        library.write_dataset(
            rows,
            uri,
            max_rows_per_file=dice.choice([100, 700, 1 << 20]),
            data_storage_version=self.file_version,
            enable_stable_row_ids=self.stable,
            **self.options(),
        )
        for verb in dice.choices(list(VERBS), list(VERBS.values()), k=dice.randint(1, 6)):
            self.step(verb)

    def options(self) -> dict[str, Any]:
        """Nothing here outlives a loss of power."""
        return {"durability": "os"} if self.library is pennon else {}

    def step(self, verb: str) -> None:
        act: Callable[[Any], None] = getattr(self, verb)
        table = self.library.dataset(self.uri, **self.options())
        # The reference does not do every verb with every type.
        with suppress(*([] if self.library is pennon else [Exception])):
            act(table)
            self.done.append(verb)

    def rows(self, count: int) -> pa.Table:
        keys = list(range(self.next, self.next + count))
        self.next += count
        self.dice.shuffle(keys)
        words = [f"word {key % 9}" if key % 11 else None for key in keys]
        columns = {"key": pa.array(keys, pa.int64()), "word": pa.array(words, pa.utf8())}
        columns["n"] = pa.array([key / 7 for key in keys], pa.float64())
        if self.has_vectors:
            values = np.random.default_rng(self.dice.getrandbits(32)).random(count * WIDTH, np.float32)
            columns["vector"] = pa.FixedSizeListArray.from_arrays(pa.array(values), WIDTH)
        for name in self.shapes:
            shaped = SHAPES[name](self.dice, max(count, FEWEST))
            columns[name] = shaped if len(shaped) == count else shaped.take(pa.array(range(count)))
        if not self.has_blobs:
            return pa.table(columns)
        # Few have many bytes, so that tables stay small.
        sizes = [self.dice.choice(BLOB_SIZES if row < 4 else BLOB_SIZES[:3]) for row in range(count)]
        blobs = [None if size is None else self.dice.randbytes(size) for size in sizes]
        fields = [pa.field(name, column.type) for name, column in columns.items()]
        if self.file_version == "2.2":
            module = lance.blob if self.library is lance else pennon.blob
            schema, array = pa.schema([*fields, module.blob_field("blob")]), module.blob_array(blobs)
        else:
            field = pa.field("blob", pa.large_binary(), metadata={"lance-encoding:blob": "true"})
            schema, array = pa.schema([*fields, field]), pa.array(blobs, pa.large_binary())
        return pa.table([*columns.values(), array], schema=schema)

    def some_keys(self) -> str:
        low = self.dice.randrange(self.next)
        return self.dice.choice([f"key >= {low} AND key < {low + 40}", f"key % 5 = {low % 5}", f"key = {low}"])

    def append(self, table: Any) -> None:
        rows = self.rows(self.dice.randint(1, 300))
        if self.added:
            rows = rows.append_column("more", pa.array([1] * rows.num_rows, pa.int64()))
        self.library.write_dataset(rows, self.uri, mode="append", **self.options())

    def delete(self, table: Any) -> None:
        table.delete(self.some_keys())

    def update(self, table: Any) -> None:
        table.update({"n": "n + 1", "word": "'updated'"}, where=self.some_keys())

    def merge(self, table: Any) -> None:
        keys = sorted({self.dice.randrange(self.next) for _ in range(20)})
        source = table.to_table(columns=[name for name in table.schema.names if name != "blob"])
        if self.has_blobs:
            self.update(table)
            return
        source = source.filter(pa.compute.is_in(source["key"], pa.array(keys, pa.int64())))
        if source.num_rows:
            table.merge_insert("key").when_matched_update_all().execute(source)

    def index(self, table: Any) -> None:
        column, kind = self.dice.choice([("key", "BTREE"), ("word", "BITMAP")])
        table.create_scalar_index(column, kind, replace=True)

    def index_vectors(self, table: Any) -> None:
        if self.has_vectors and table.count_rows() > 20:
            table.create_index("vector", "IVF_FLAT", num_partitions=2, replace=True)

    def compact(self, table: Any) -> None:
        table.optimize.compact_files(target_rows_per_fragment=self.dice.choice([500, 5_000]))

    def optimize(self, table: Any) -> None:
        table.optimize.optimize_indices()

    def add_column(self, table: Any) -> None:
        if not self.added:
            table.add_columns({"more": "key % 100"})
            self.added = 1

    def config(self, table: Any) -> None:
        table.update_config({f"flips.{self.dice.randrange(3)}": str(self.dice.randrange(10**6))})

    def tag(self, table: Any) -> None:
        table.tags.create(f"tag{self.tags}", table.version)
        self.tags += 1

    def branch(self, table: Any) -> None:
        name = f"branch{self.tags}"
        self.tags += 1
        table.create_branch(name, table.version)
        if self.dice.random() < 0.7:
            branch = self.library.dataset(self.uri, **self.options()).checkout_version((name, None))
            branch.delete(self.some_keys())

    def references(self) -> list[Any]:
        """All versions, tags and branches, as `pennon.dataset` takes them; None for the newest version."""
        table = pennon.dataset(self.uri)
        found: list[Any] = [None, *(version["version"] for version in table.versions()), *table.tags.list()]
        return found + [(branch, None) for branch in table.branches.list()]

    def roots(self) -> list[str]:
        """The table, and its branches, which are verified by addresses of their own."""
        branches = sorted(pennon.dataset(self.uri).branches.list())
        return [self.uri, *(f"{self.uri}/tree/{branch}" for branch in branches)]


VERBS = {
    "append": 4,
    "delete": 5,
    "update": 4,
    "merge": 2,
    "index": 4,
    "index_vectors": 2,
    "compact": 2,
    "optimize": 1,
    "add_column": 2,
    "config": 1,
    "tag": 2,
    "branch": 1,
}


def read(made: Made, at: Any, options: dict[str, str]) -> list[Any]:
    """What a version has, in a session that remembers nothing; of older ones not by all ways."""
    return list(_parts(made, at, options))


def _parts(made: Made, at: Any, options: dict[str, str]) -> Iterator[Any]:
    table = pennon.dataset(made.uri, at, storage_options=options, session=pennon.Session())
    names = table.schema.names
    yield table.version
    yield names
    lineage = LINEAGE if made.stable else ()
    blobs = {"blob_handling": "all_binary"} if "blob" in names else {}
    yield table.to_table([*names, *lineage], with_row_id=True, **blobs)
    plain = [name for name in names if name != "blob"]
    middle = made.next // 2
    filters = [f"key > {middle} AND key < {middle + 30} OR word = 'word 3'", f"key = {middle}", "word = 'word 4'"]
    for filter in filters[: 1 if isinstance(at, int) else None]:
        yield table.to_table(plain, filter=filter, with_row_id=True, order_by=["key"])
    yield repr(table.config())
    yield repr(table.read_transaction(table.version))
    if isinstance(at, int):
        return
    yield table.count_rows("n >= 10")
    count = table.count_rows()
    yield count
    if count:
        yield table.take([0, count // 2, count - 1], columns=plain)
        if "blob" in names and table.data_storage_version != "2.0":
            yield [blob and blob.read() for blob in table.take_blobs("blob", indices=[0, count - 1])]
        if made.has_vectors:
            query = {"column": "vector", "q": [0.5] * WIDTH, "k": 3, "nprobes": 2}
            yield table.to_table(columns=["key"], nearest=query)["key"].to_pylist()


def files_of(uri: str) -> list[Path]:
    """All files of a table that have bytes."""
    return sorted(path for path in Path(uri).rglob("*") if path.is_file() and path.stat().st_size)
